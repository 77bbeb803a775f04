// SPDX-License-Identifier: BSD-3-Clause
#include "rpc/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "rpc/conn.h"
#include "rpc/header.h"

#define WORDS_BYTES 1024

struct rpc_client {
	struct loop *loop;
	struct sock_addr to, local;
	bool has_local;
	char *device, *server_name;
	struct rpc_tls *tls;
	struct rpc_budget budget;
	size_t message_bytes;
	uint64_t connect_ns, keepalive_ns;
	struct rpc_conn *conns;	  /* the one in use, and those that still end their calls */
	struct rpc_conn *current; /* NULL: the next call makes one */
	struct rpc_pending *pendings;
	char authority[SOCK_ADDR_TEXT];
};

/* A call that waits for its answer. */
struct rpc_pending {
	struct rpc_stream stream;
	struct rpc_client *client;
	struct rpc_pending *next, **link; /* of the client's */
	struct rpc_request request;	  /* message is not kept */
	const ProtobufCMethodDescriptor *types;
	struct loop_timer deadline;
	/* What the headers said. */
	int http_status;
	bool is_grpc, has_code;
	enum rpc_code code;
	char words[WORDS_BYTES];
	uint8_t *details;
	size_t details_bytes;
	bool received; /* unary: the message is there, in stream.in */
};

int rpc_client_new(struct rpc_client **out, struct loop *loop, const struct sock_addr *to,
	const struct rpc_client_options *options, struct err *e)
{
	static const struct rpc_client_options plain;
	const struct rpc_client_options *o = options ? options : &plain;
	struct rpc_client *client = calloc(1, sizeof(*client));

	*out = NULL;
	if (!client)
		return err_set(e, ENOMEM, "cannot make a client: %m");
	client->loop = loop;
	client->to = *to;
	client->tls = o->tls;
	client->message_bytes = o->message_bytes ? o->message_bytes : 4 << 20;
	client->connect_ns = o->connect_ns ? o->connect_ns : 5 * NS_PER_S;
	client->keepalive_ns = o->keepalive_ns ? o->keepalive_ns : 20 * NS_PER_S;
	client->budget.limit = SIZE_MAX;
	sock_addr_text(to, true, client->authority);
	if (o->local) {
		client->local = *o->local;
		client->has_local = true;
	}
	if (o->device)
		client->device = strdup(o->device);
	if (o->server_name)
		client->server_name = strdup(o->server_name);
	if ((o->device && !client->device) || (o->server_name && !client->server_name)) {
		rpc_client_free(client);
		return err_set(e, ENOMEM, "cannot make a client: out of memory");
	}
	*out = client;
	return 0;
}

static void pending_free(struct rpc_pending *pending)
{
	*pending->link = pending->next;
	if (pending->next)
		pending->next->link = pending->link;
	loop_timer_cancel(pending->client->loop, &pending->deadline);
	rpc_stream_unbind(&pending->stream);
	free(pending->details);
	free(pending);
}

static Google__Rpc__Status *pending_status(const struct rpc_pending *pending)
{
	return pending->details
		       ? google__rpc__status__unpack(NULL, pending->details_bytes, pending->details)
		       : NULL;
}

/* The end of a call: done, once, and nothing more. */
static void pending_end(
	struct rpc_pending *pending, enum rpc_code code, const char *words, bool on_the_wire)
{
	struct rpc_frame_reader *in = &pending->stream.in;
	struct rpc_reply reply = { .code = code, .words = words };
	Google__Rpc__Status *status = pending_status(pending);
	struct rpc_request request = pending->request;
	struct rpc_arena arena = { 0 };
	ProtobufCMessage *message = NULL;

	reply.status = status;
	if (code == RPC_OK && !request.received) {
		if (pending->received)
			message = rpc_unpack(
				&arena, in->limit, pending->types->output, in->body, in->length);
		if (!message) {
			reply.code = RPC_INTERNAL;
			reply.words = pending->received ? "the reply cannot be read"
							: "the reply has no message";
		}
	}
	reply.message = message;
	if (!on_the_wire && pending->stream.conn)
		rpc_stream_reset(&pending->stream, NGHTTP2_CANCEL);
	loop_timer_cancel(pending->client->loop, &pending->deadline);
	rpc_stream_unbind(&pending->stream);
	request.done(request.context, &reply);
	rpc_arena_free(&arena);
	if (status)
		google__rpc__status__free_unpacked(status, NULL);
	pending_free(pending);
}

static void pending_deadline(struct loop *l, struct loop_timer *timer)
{
	(void)l;
	pending_end(container_of(timer, struct rpc_pending, deadline), RPC_DEADLINE_EXCEEDED,
		"no answer before the deadline", false);
}

/* What the server says. */

static void pending_take_words(struct rpc_pending *pending, const struct rpc_header *h)
{
	size_t n = h->value_length < WORDS_BYTES ? h->value_length : WORDS_BYTES - 1;

	memcpy(pending->words, h->value, n);
	pending->words[n] = 0;
	rpc_percent_decode(pending->words);
}

static void pending_header(struct rpc_stream *stream, const struct rpc_header *h)
{
	struct rpc_pending *pending = container_of(stream, struct rpc_pending, stream);

	if (rpc_header_is(h, ":status") && h->value_length == 3) {
		pending->http_status =
			(h->value[0] - '0') * 100 + (h->value[1] - '0') * 10 + (h->value[2] - '0');
	} else if (rpc_header_is(h, "content-type")) {
		pending->is_grpc = rpc_content_type_is_grpc(h->value, h->value_length);
	} else if (rpc_header_is(h, "grpc-status")) {
		pending->has_code = true;
		pending->code = rpc_code_parse(h->value, h->value_length);
	} else if (rpc_header_is(h, "grpc-message")) {
		pending_take_words(pending, h);
	} else if (rpc_header_is(h, "grpc-status-details-bin") && !pending->details) {
		pending->details =
			rpc_base64_decode(h->value, h->value_length, &pending->details_bytes);
	}
}

static void pending_headers(struct rpc_stream *stream)
{
	struct rpc_pending *pending = container_of(stream, struct rpc_pending, stream);
	char words[WORDS_BYTES];

	if (pending->stream.header_bytes > RPC_HEADER_BYTES) {
		pending_end(pending, RPC_RESOURCE_EXHAUSTED, "the server's headers are too large",
			false);
	} else if (pending->http_status != 200 && !pending->has_code &&
		   pending->http_status >= 200) {
		snprintf(words, sizeof(words), "the server answered HTTP status %d",
			pending->http_status);
		pending_end(pending, rpc_code_of_http(pending->http_status), words, false);
	} else if (pending->http_status == 200 && !pending->is_grpc && !pending->has_code) {
		pending_end(pending, RPC_UNKNOWN,
			"the server answered, but not with gRPC (content-type)", false);
	}
}

static void pending_message(struct rpc_stream *stream)
{
	struct rpc_pending *pending = container_of(stream, struct rpc_pending, stream);
	struct rpc_request request = pending->request;
	struct rpc_arena arena = { 0 };
	ProtobufCMessage *message;

	if (!request.received && pending->received) {
		pending_end(pending, RPC_INTERNAL, "more than one message in the reply", false);
		return;
	}
	pending->received = true;
	if (!request.received)
		return;
	message = rpc_unpack(&arena, stream->in.limit, pending->types->output, stream->in.body,
		stream->in.length);
	rpc_frame_reset(&stream->in);
	if (message) /* which may cancel the call: it is not touched afterwards */
		request.received(request.context, message);
	else
		pending_end(pending, RPC_INTERNAL, "a message of the stream cannot be read", false);
	rpc_arena_free(&arena);
}

static void pending_garbled(struct rpc_stream *stream, int why)
{
	struct rpc_pending *pending = container_of(stream, struct rpc_pending, stream);

	if (why == -EMSGSIZE)
		pending_end(pending, RPC_RESOURCE_EXHAUSTED,
			"the reply is larger than the limit of this end", false);
	else if (why == -EOPNOTSUPP)
		pending_end(pending, RPC_INTERNAL,
			"the server compressed its reply, which was not offered", false);
	else if (why == -EPROTO)
		pending_end(pending, RPC_INTERNAL, "the prefix of a message is wrong", false);
	else
		pending_end(pending, RPC_RESOURCE_EXHAUSTED, "no memory for the reply", false);
}

static void pending_over(struct rpc_stream *stream)
{
	struct rpc_pending *pending = container_of(stream, struct rpc_pending, stream);
	char words[WORDS_BYTES];

	if (!pending->has_code) {
		pending_end(pending, RPC_UNKNOWN, "the reply ends without a status", false);
		return;
	}
	/* The message of a unary call stays in the reader. */
	if (pending->code == RPC_OK && (!pending->received || pending->request.received) &&
		!rpc_frame_at_boundary(&stream->in)) {
		pending_end(pending, RPC_INTERNAL, "the reply ends within a message", false);
		return;
	}
	/* A copy: the words outlive the call. */
	memcpy(words, pending->words, sizeof(words));
	pending_end(pending, pending->code, words, stream->out_ended && !stream->out.bytes);
}

static void pending_closed(struct rpc_stream *stream, uint32_t h2_error)
{
	struct rpc_pending *pending = container_of(stream, struct rpc_pending, stream);
	char words[WORDS_BYTES];

	snprintf(words, sizeof(words), "the server reset the call: %s",
		nghttp2_http2_strerror(h2_error));
	pending_end(pending, rpc_code_of_reset(h2_error), words, true);
}

/* The connection. */

static void client_goaway(struct rpc_conn *conn, uint32_t h2_error)
{
	struct rpc_client *client = conn->owner;

	/* The next call makes a new connection; those under way end on this one. */
	if (client->current == conn)
		client->current = NULL;
	/* It thinks that we ask too often whether it lives. */
	if (h2_error == NGHTTP2_ENHANCE_YOUR_CALM && client->keepalive_ns < 3600 * NS_PER_S)
		client->keepalive_ns *= 2;
}

static void client_unlink(struct rpc_client *client, struct rpc_conn *conn)
{
	if (client->current == conn)
		client->current = NULL;
	*conn->link = conn->next;
	if (conn->next)
		conn->next->link = conn->link;
}

static void client_gone(struct rpc_conn *conn)
{
	struct rpc_client *client = conn->owner;
	char words[WORDS_BYTES];

	snprintf(words, sizeof(words), "%s %s: %s",
		conn->was_open ? "lost the connection to" : "cannot connect to", client->authority,
		conn->why.what);
	client_unlink(client, conn);
	while (conn->streams) {
		struct rpc_pending *pending =
			container_of(conn->streams, struct rpc_pending, stream);

		// NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before has unlinked itself
		pending_end(pending, RPC_UNAVAILABLE, words, true);
	}
}

static const struct rpc_conn_ops client_ops = {
	.header = pending_header,
	.headers = pending_headers,
	.message = pending_message,
	.garbled = pending_garbled,
	.end = pending_over,
	.closed = pending_closed,
	.goaway = client_goaway,
	.gone = client_gone,
};

static int client_connect(struct rpc_client *client, struct err *e)
{
	struct sock_options options = { .no_delay = true, .device = client->device };
	struct rpc_conn_setup setup = {
		.loop = client->loop,
		.ops = &client_ops,
		.owner = client,
		.tls = client->tls,
		.name = client->server_name,
		.to = &client->to,
		.patience_ns = client->keepalive_ns,
		.keepalive_ns = client->keepalive_ns,
		.open_deadline_ns = clock_ns() + client->connect_ns,
	};
	int ret;

	setup.fd = sock_connect_start(
		&client->to, client->has_local ? &client->local : NULL, &options, e);
	if (setup.fd < 0)
		return setup.fd;
	ret = rpc_conn_new(&client->current, &setup, e);
	if (ret)
		return ret;
	client->current->next = client->conns;
	client->current->link = &client->conns;
	if (client->conns)
		client->conns->link = &client->current->next;
	client->conns = client->current;
	return 0;
}

static bool client_is_usable(const struct rpc_client *client)
{
	return client->current && client->current->state < RPC_CONN_LINGERING &&
	       nghttp2_session_check_request_allowed(client->current->session);
}

static int pending_submit(struct rpc_pending *pending)
{
	const struct rpc_request *request = &pending->request;
	struct rpc_client *client = pending->client;
	nghttp2_data_provider source = rpc_stream_source(&pending->stream);
	uint64_t now_ns = clock_ns();
	char timeout[RPC_TIMEOUT_TEXT], path[512];
	nghttp2_nv nv[8];
	size_t n = 0;
	int32_t id;

	rpc_timeout_text(
		request->deadline_ns > now_ns ? request->deadline_ns - now_ns : 0, timeout);
	snprintf(path, sizeof(path), "/%s/%s", request->service->name, request->method);
	nv[n++] = rpc_nv(":method", "POST");
	nv[n++] = rpc_nv(":scheme", client->tls ? "https" : "http");
	nv[n++] = rpc_nv(":path", path);
	nv[n++] =
		rpc_nv(":authority", client->server_name ? client->server_name : client->authority);
	nv[n++] = rpc_nv("te", "trailers");
	nv[n++] = rpc_nv("content-type", "application/grpc");
	nv[n++] = rpc_nv("user-agent", "weir/" WEIR_VERSION);
	nv[n++] = rpc_nv("grpc-timeout", timeout);
	id = nghttp2_submit_request(
		client->current->session, NULL, nv, n, &source, &pending->stream);
	if (id < 0)
		return id == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EAGAIN;
	rpc_stream_bind(
		&pending->stream, client->current, id, &client->budget, client->message_bytes);
	rpc_conn_kick(client->current);
	return 0;
}

/* A call that cannot even be put on a connection ends from the loop, like any other. */
static void pending_unreachable(struct loop *l, struct loop_timer *timer)
{
	struct rpc_pending *pending = container_of(timer, struct rpc_pending, deadline);
	char words[WORDS_BYTES];

	(void)l;
	memcpy(words, pending->words, sizeof(words));
	pending_end(pending, RPC_UNAVAILABLE, words, true);
}

int rpc_client_call(struct rpc_client *client, const struct rpc_request *request, struct err *e)
{
	struct rpc_pending *pending;
	struct err why = { 0 };
	int ret = 0;

	pending = calloc(1, sizeof(*pending));
	if (!pending)
		return err_set(e, ENOMEM, "cannot make a call: %m");
	pending->client = client;
	pending->request = *request;
	pending->request.message = NULL;
	pending->stream.out.budget = &client->budget;
	pending->types =
		protobuf_c_service_descriptor_get_method_by_name(request->service, request->method);
	if (!pending->types)
		ret = err_set(
			e, EINVAL, "%s has no method %s", request->service->name, request->method);
	if (!ret)
		ret = rpc_frame_push(&pending->stream.out, request->message);
	if (ret) {
		free(pending);
		return ret == -EINVAL
			       ? ret
			       : err_set(e, -ret, "cannot pack the request: %s", strerror(-ret));
	}
	pending->stream.out_ended = true;
	pending->next = client->pendings;
	pending->link = &client->pendings;
	if (pending->next)
		pending->next->link = &pending->next;
	client->pendings = pending;
	if (!client_is_usable(client)) {
		client->current = NULL;
		ret = client_connect(client, &why);
	}
	if (!ret)
		ret = pending_submit(pending);
	if (ret) {
		rpc_frame_drop(&pending->stream.out);
		snprintf(pending->words, sizeof(pending->words), "%s",
			why.what[0] ? why.what : strerror(-ret));
	}
	loop_timer_set(client->loop, &pending->deadline, ret ? clock_ns() : request->deadline_ns,
		ret ? pending_unreachable : pending_deadline);
	return 0;
}

void rpc_client_free(struct rpc_client *client)
{
	if (!client)
		return;
	while (client->pendings)
		// NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before has unlinked itself
		pending_free(client->pendings);
	while (client->conns) {
		struct rpc_conn *conn = client->conns;

		client_unlink(client, conn);
		rpc_conn_free(conn);
	}
	free(client->device);
	free(client->server_name);
	free(client);
}
