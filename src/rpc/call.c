// SPDX-License-Identifier: BSD-3-Clause
#include "rpc/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rpc/header.h"

#define TYPE_PREFIX  "type.googleapis.com/"
#define DETAIL_EXTRA (sizeof(TYPE_PREFIX) + 18) /* three tags and lengths of six bytes */

static void call_arm(struct rpc_call *call);

static void call_free(struct rpc_call *call)
{
	struct rpc_server *server = call->server;

	if (call->link) {
		*call->link = call->next;
		if (call->next)
			call->next->link = call->link;
	}
	if (server) {
		loop_timer_cancel(server->loop, &call->limit);
		server->stats.calls--;
	}
	for (size_t i = 0; i < call->details; i++)
		google__protobuf__any__free_unpacked(call->detail[i], NULL);
	free(call->detail);
	free(call->words);
	free(call->details_bin);
	free(call);
}

/* Nobody waits for the answer any more. Tells the handler, which may end the call: it may be gone
 * afterwards. */
static void call_cancel(struct rpc_call *call)
{
	if (call->cancelled)
		return;
	call->cancelled = true;
	if (call->handed && !call->finished && call->on_cancel)
		call->on_cancel(call, call->cancel_context);
}

/* The answer on the wire. */

static size_t call_status_headers(const struct rpc_call *call, char code[4], nghttp2_nv *nv)
{
	size_t n = 0;

	snprintf(code, 4, "%d", (int)call->code);
	nv[n++] = rpc_nv("grpc-status", code);
	if (call->words && call->words[0])
		nv[n++] = rpc_nv("grpc-message", call->words);
	if (call->details_bin)
		nv[n++] = rpc_nv("grpc-status-details-bin", call->details_bin);
	return n;
}

static void call_trailers(struct rpc_stream *stream)
{
	struct rpc_call *call = container_of(stream, struct rpc_call, stream);
	nghttp2_nv nv[3];
	char code[4];
	size_t n = call_status_headers(call, code, nv);

	if (nghttp2_submit_trailer(stream->conn->session, stream->id, nv, n))
		rpc_stream_reset(stream, NGHTTP2_INTERNAL_ERROR);
}

/* The first headers; with the status as well where there is no message. */
static void call_headers(struct rpc_call *call, int http_status, bool status_only)
{
	nghttp2_data_provider source = rpc_stream_source(&call->stream);
	char status[8], code[4];
	nghttp2_nv nv[6];
	size_t n = 0;

	snprintf(status, sizeof(status), "%d", http_status);
	nv[n++] = rpc_nv(":status", status);
	nv[n++] = rpc_nv("content-type", "application/grpc");
	nv[n++] = rpc_nv("grpc-accept-encoding", "identity");
	if (status_only)
		n += call_status_headers(call, code, nv + n);
	if (nghttp2_submit_response(call->stream.conn->session, call->stream.id, nv, n,
		    status_only ? NULL : &source))
		rpc_stream_reset(&call->stream, NGHTTP2_INTERNAL_ERROR);
	call->headers_sent = true;
	rpc_conn_kick(call->stream.conn);
}

static void call_pack_details(struct rpc_call *call, const char *words)
{
	Google__Rpc__Status status = GOOGLE__RPC__STATUS__INIT;
	uint8_t *packed;
	size_t bytes;

	if (!call->details)
		return;
	status.code = (int32_t)call->code;
	status.message = (char *)words;
	status.details = call->detail;
	status.n_details = call->details;
	packed = malloc(google__rpc__status__get_packed_size(&status));
	if (!packed)
		return;
	bytes = google__rpc__status__pack(&status, packed);
	call->details_bin = rpc_base64_encode(packed, bytes);
	free(packed);
}

/* Everything that is queued, then the status: the end of the call for the client. */
static void call_answer(
	struct rpc_call *call, int http_status, enum rpc_code code, const char *words)
{
	call->answered = call->complete = call->stream.deaf = true;
	rpc_frame_reset(&call->stream.in);
	call->code = code;
	call->words = rpc_percent_encode(words);
	call_pack_details(call, words);
	call->stream.out_ended = true;
	call->stream.moved_ns = clock_ns();
	if (!call->headers_sent)
		call_headers(call, http_status, !call->stream.out.bytes);
	else
		rpc_stream_resume(&call->stream);
	call_arm(call);
}

void rpc_call_refuse(
	struct rpc_call *call, int http_status, enum rpc_code code, const char *format, ...)
{
	char words[RPC_WORDS_BYTES];
	va_list args;

	if (call->answered || !call->stream.conn)
		return;
	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	call->server->stats.refused++;
	rpc_frame_drop(&call->stream.out);
	call_answer(call, http_status, code, words);
	call_cancel(call);
}

/* Time. */

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

#define NOTHING_OWED UINT64_MAX

/* Since when the client owes us the rest of a request. One that streams owes the rest of a message that
 * it has begun, but no further message. */
static uint64_t call_owed_since_ns(const struct rpc_call *call)
{
	if (call->complete)
		return NOTHING_OWED;
	if (!call->handed)
		return call->opened_ns;
	return rpc_frame_at_boundary(&call->stream.in) ? NOTHING_OWED : call->stream.begun_ns;
}

static void call_limit(struct loop *l, struct loop_timer *timer)
{
	struct rpc_call *call = container_of(timer, struct rpc_call, limit);
	uint64_t now_ns = clock_ns(), patience_ns = call->server->limits.patience_ns;
	uint64_t owed_ns = call_owed_since_ns(call);

	(void)l;
	if (!call->answered && now_ns >= call->deadline_ns)
		rpc_call_refuse(call, 200, RPC_DEADLINE_EXCEEDED, "the deadline has passed");
	else if (owed_ns != NOTHING_OWED && now_ns >= owed_ns + patience_ns)
		rpc_call_refuse(call, 200, RPC_DEADLINE_EXCEEDED,
			"the request was not complete after %.1f s",
			(double)patience_ns / (double)NS_PER_S);
	else if ((call->answered || call->stream.out.bytes) &&
		 now_ns >= call->stream.moved_ns + patience_ns)
		rpc_stream_reset(&call->stream, NGHTTP2_CANCEL);
	else
		call_arm(call);
}

static void call_arm(struct rpc_call *call)
{
	uint64_t patience_ns = call->server->limits.patience_ns, due_ns = UINT64_MAX;

	if (!call->answered)
		due_ns = call->deadline_ns;
	if (!call->complete) {
		uint64_t owed_ns = call_owed_since_ns(call);

		/* A message that is not begun yet: look again. */
		if (owed_ns == NOTHING_OWED)
			owed_ns = clock_ns();
		due_ns = earlier(due_ns, owed_ns + patience_ns);
	}
	if (call->answered || call->stream.out.bytes)
		due_ns = earlier(due_ns, call->stream.moved_ns + patience_ns);
	if (due_ns == UINT64_MAX)
		loop_timer_cancel(call->server->loop, &call->limit);
	else
		loop_timer_set(call->server->loop, &call->limit, due_ns, call_limit);
}

/* The request. */

static struct rpc_stream *call_open(struct rpc_conn *conn, int32_t id)
{
	struct rpc_server *server = conn->owner;
	struct rpc_call *call;

	if (server->shutting_down && server->out_of_time)
		return NULL;
	call = calloc(1, sizeof(*call));
	if (!call)
		return NULL;
	call->server = server;
	call->opened_ns = clock_ns();
	call->deadline_ns = UINT64_MAX;
	server->stats.calls++;
	rpc_stream_bind(&call->stream, conn, id, &server->budget, server->limits.message_bytes);
	call_arm(call);
	return &call->stream;
}

static bool value_is(const struct rpc_header *h, const char *value)
{
	return strlen(value) == h->value_length && !memcmp(h->value, value, h->value_length);
}

static void call_take_timeout(struct rpc_call *call, const struct rpc_header *h)
{
	uint64_t ns;

	if (rpc_timeout_parse(h->value, h->value_length, &ns))
		call->bad_timeout = true;
	else if (__builtin_add_overflow(call->opened_ns, ns, &call->deadline_ns))
		call->deadline_ns = UINT64_MAX;
}

static void call_header(struct rpc_stream *stream, const struct rpc_header *h)
{
	struct rpc_call *call = container_of(stream, struct rpc_call, stream);

	if (call->headers_done)
		return;
	if (rpc_header_is(h, ":path")) {
		if (h->value_length < RPC_PATH_BYTES)
			memcpy(call->path, h->value, h->value_length);
		else
			call->path_too_long = true;
	} else if (rpc_header_is(h, ":method")) {
		call->is_post = value_is(h, "POST");
	} else if (rpc_header_is(h, "content-type")) {
		call->is_grpc = rpc_content_type_is_grpc(h->value, h->value_length);
	} else if (rpc_header_is(h, "te")) {
		call->has_te = value_is(h, "trailers");
	} else if (rpc_header_is(h, "grpc-encoding")) {
		call->compressed = !value_is(h, "identity");
	} else if (rpc_header_is(h, "grpc-timeout")) {
		call_take_timeout(call, h);
	}
}

static void call_judge(struct rpc_call *call)
{
	if (call->stream.header_bytes > RPC_HEADER_BYTES)
		rpc_call_refuse(call, 200, RPC_RESOURCE_EXHAUSTED, "headers of more than %d bytes",
			RPC_HEADER_BYTES);
	else if (!call->is_post)
		rpc_call_refuse(call, 405, RPC_INTERNAL, "gRPC calls are made by POST");
	else if (!call->is_grpc)
		rpc_call_refuse(
			call, 415, RPC_INTERNAL, "the content type is not application/grpc");
	else if (!call->has_te)
		rpc_call_refuse(call, 200, RPC_INTERNAL,
			"te: trailers is missing: something between us does not pass trailers on");
	else if (call->bad_timeout)
		rpc_call_refuse(call, 200, RPC_INTERNAL, "grpc-timeout cannot be read");
	else if (call->path_too_long || !rpc_server_find(call->server, call))
		rpc_call_refuse(call, 200, RPC_UNIMPLEMENTED, "%s %s",
			call->service ? "no such method:" : "no such service:", call->path);
	else if (call->compressed)
		rpc_call_refuse(call, 200, RPC_UNIMPLEMENTED,
			"compressed messages are not taken: only identity");
	else if (call->server->stats.calls > call->server->limits.calls)
		rpc_call_refuse(call, 200, RPC_RESOURCE_EXHAUSTED,
			"%u calls are served at once, and so many are under way",
			call->server->limits.calls);
	else
		call_arm(call);
}

static void call_headers_whole(struct rpc_stream *stream)
{
	struct rpc_call *call = container_of(stream, struct rpc_call, stream);

	if (call->headers_done)
		return;
	call->headers_done = true;
	call_judge(call);
}

/* The message in stream.in, or NULL at the end of a client's stream, to the handler. */
static void call_hand_over(struct rpc_call *call, bool end)
{
	struct rpc_frame_reader *in = &call->stream.in;
	ProtobufCMessage *message = NULL;
	struct rpc_arena arena = { 0 };

	if (clock_ns() >= call->deadline_ns) {
		rpc_call_refuse(call, 200, RPC_DEADLINE_EXCEEDED, "the deadline has passed");
		return;
	}
	if (!end) {
		message = rpc_unpack(&arena, in->limit, call->types->input, in->body, in->length);
		rpc_frame_reset(in);
		if (!message) {
			rpc_arena_free(&arena);
			rpc_call_refuse(call, 200, RPC_INTERNAL, "the message is no %s",
				call->types->input->name);
			return;
		}
	}
	call->handed = true;
	if (call->method->kind != RPC_BIDI || end)
		call->complete = true;
	call_arm(call);
	call->method->handle(call, message, call->service->context);
	rpc_arena_free(&arena);
}

static void call_message(struct rpc_stream *stream)
{
	struct rpc_call *call = container_of(stream, struct rpc_call, stream);

	if (call->method->kind == RPC_BIDI) {
		if (!call->finished)
			call_hand_over(call, false);
		else
			rpc_frame_reset(&stream->in);
	} else if (call->received) {
		rpc_call_refuse(call, 200, RPC_INTERNAL,
			"more than one message for a method that takes one");
	} else {
		call->received = true;
	}
}

static void call_garbled(struct rpc_stream *stream, int why)
{
	struct rpc_call *call = container_of(stream, struct rpc_call, stream);

	if (why == -EMSGSIZE)
		rpc_call_refuse(call, 200, RPC_RESOURCE_EXHAUSTED,
			"a message of more than %zu bytes", stream->in.limit);
	else if (why == -EOPNOTSUPP)
		rpc_call_refuse(call, 200, RPC_INTERNAL,
			"a message is marked as compressed, but no grpc-encoding was named");
	else if (why == -EPROTO)
		rpc_call_refuse(call, 200, RPC_INTERNAL, "the prefix of a message is wrong");
	else
		rpc_call_refuse(call, 200, RPC_RESOURCE_EXHAUSTED, "no memory for the message");
}

static void call_end(struct rpc_stream *stream)
{
	struct rpc_call *call = container_of(stream, struct rpc_call, stream);

	if (call->answered)
		return;
	if (call->received)
		call_hand_over(call, false);
	else if (!rpc_frame_at_boundary(&stream->in))
		rpc_call_refuse(call, 200, RPC_INTERNAL, "the request ends within a message");
	else if (call->method->kind == RPC_BIDI && !call->finished)
		call_hand_over(call, true);
	else
		rpc_call_refuse(call, 200, RPC_INTERNAL, "a request without a message");
}

static void call_closed(struct rpc_stream *stream, uint32_t h2_error)
{
	struct rpc_call *call = container_of(stream, struct rpc_call, stream);
	struct rpc_server *server = call->server;

	(void)h2_error;
	if (!call->handed || call->finished) {
		call_free(call);
		return;
	}
	loop_timer_cancel(server->loop, &call->limit);
	call->next = server->orphans;
	call->link = &server->orphans;
	if (call->next)
		call->next->link = &call->next;
	server->orphans = call;
	call_cancel(call);
}

void rpc_call_orphan(struct rpc_call *call)
{
	*call->link = call->next;
	if (call->next)
		call->next->link = call->link;
	call->link = NULL;
	call->server = NULL;
}

const struct rpc_conn_ops rpc_call_ops = {
	.open = call_open,
	.header = call_header,
	.headers = call_headers_whole,
	.message = call_message,
	.garbled = call_garbled,
	.end = call_end,
	.trailers = call_trailers,
	.closed = call_closed,
	.gone = rpc_server_gone,
};

/* What handlers call. */

uint64_t rpc_call_deadline_ns(const struct rpc_call *call)
{
	return call->deadline_ns;
}

void rpc_call_on_cancel(struct rpc_call *call,
	void (*cancelled)(struct rpc_call *call, void *context), void *context)
{
	call->on_cancel = cancelled;
	call->cancel_context = context;
}

int rpc_call_send(struct rpc_call *call, const ProtobufCMessage *message)
{
	bool was_empty = !call->stream.out.bytes;
	int ret;

	if (call->answered || !call->stream.conn)
		return -ECANCELED;
	if (call->stream.out.bytes > RPC_SEND_QUEUE_BYTES)
		return -EAGAIN;
	ret = rpc_frame_push(&call->stream.out, message);
	if (ret)
		return ret;
	if (was_empty) {
		call->stream.moved_ns = clock_ns();
		call_arm(call);
	}
	if (!call->headers_sent)
		call_headers(call, 200, false);
	else
		rpc_stream_resume(&call->stream);
	return 0;
}

int rpc_call_add_detail(struct rpc_call *call, const ProtobufCMessage *detail)
{
	size_t bytes = protobuf_c_message_get_packed_size(detail), whole;
	const char *type = detail->descriptor->name;
	Google__Protobuf__Any **list, *any;

	whole = bytes + strlen(type) + DETAIL_EXTRA;
	if (whole > RPC_DETAILS_BYTES - call->details_bytes)
		return -EMSGSIZE;
	list = realloc(call->detail, (call->details + 1) * sizeof(*list));
	if (!list)
		return -ENOMEM;
	call->detail = list;
	any = calloc(1, sizeof(*any));
	if (!any)
		return -ENOMEM;
	google__protobuf__any__init(any);
	call->detail[call->details++] = any;
	any->value.data = malloc(bytes ? bytes : 1);
	if (asprintf(&any->type_url, TYPE_PREFIX "%s", type) < 0)
		any->type_url = NULL;
	if (!any->value.data || !any->type_url) {
		call->details--;
		google__protobuf__any__free_unpacked(any, NULL);
		return -ENOMEM;
	}
	any->value.len = protobuf_c_message_pack(detail, any->value.data);
	call->details_bytes += whole;
	return 0;
}

/* The handler lets go. What the wire still needs of the call is kept until its stream is closed. */
static void call_end_by_handler(struct rpc_call *call, enum rpc_code code, const char *words)
{
	call->finished = true;
	if (!call->stream.conn) {
		call_free(call);
		return;
	}
	if (call->answered)
		return;
	call->server->stats.answered++;
	call_answer(call, 200, code, words);
}

void rpc_call_reply(struct rpc_call *call, const ProtobufCMessage *reply)
{
	int ret = 0;

	if (call->stream.conn && !call->answered)
		ret = rpc_frame_push(&call->stream.out, reply);
	call_end_by_handler(call, ret ? RPC_RESOURCE_EXHAUSTED : RPC_OK,
		ret ? "the reply is larger than the server has memory for" : "");
}

void rpc_call_finish(struct rpc_call *call, enum rpc_code code, const char *format, ...)
{
	char words[RPC_WORDS_BYTES] = "";
	va_list args;

	if (format) {
		va_start(args, format);
		vsnprintf(words, sizeof(words), format, args);
		va_end(args);
	}
	call_end_by_handler(call, code, words);
}
