// SPDX-License-Identifier: BSD-3-Clause
#include "rpc/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "rpc/call.h"

#define BACKLOG		128
#define ACCEPTS_A_TURN	32
#define ACCEPT_PAUSE_NS (100 * NS_PER_MS)
#define LAST_WORDS_NS	NS_PER_S
#define SHARES		4 /* of the memory for messages: requests leave one to replies */

struct rpc_listener {
	struct rpc_listener *next;
	struct rpc_server *server;
	struct loop_fd io;
	struct loop_timer pause; /* no descriptors are left: look again later */
};

static void limits_complete(struct rpc_limits *limits)
{
	struct rpc_limits *l = limits;

	l->message_bytes = l->message_bytes ? l->message_bytes : 4 << 20;
	l->buffered_bytes = l->buffered_bytes ? l->buffered_bytes : 64 << 20;
	l->connections = l->connections ? l->connections : 1024;
	l->streams = l->streams ? l->streams : 100;
	l->calls = l->calls ? l->calls : 4096;
	l->patience_ns = l->patience_ns ? l->patience_ns : 20 * NS_PER_S;
	l->keepalive_ns = l->keepalive_ns ? l->keepalive_ns : 60 * NS_PER_S;
}

int rpc_server_new(struct rpc_server **out, struct loop *loop,
	const struct rpc_server_options *options, struct err *e)
{
	struct rpc_server *server = calloc(1, sizeof(*server));

	*out = server;
	if (!server)
		return err_set(e, ENOMEM, "cannot make a server: %m");
	server->loop = loop;
	if (options) {
		server->tls = options->tls;
		server->insecure = options->insecure;
		server->limits = options->limits;
	}
	limits_complete(&server->limits);
	server->budget.limit = server->limits.buffered_bytes;
	server->requests.limit = server->budget.limit - server->budget.limit / SHARES;
	server->requests.of = &server->budget;
	return 0;
}

static const char *service_name(const struct rpc_service *service)
{
	return service->descriptor->name;
}

int rpc_server_add(struct rpc_server *server, const struct rpc_service *service, struct err *e)
{
	const struct rpc_service **list;

	for (size_t i = 0; i < service->methods; i++)
		if (!protobuf_c_service_descriptor_get_method_by_name(
			    service->descriptor, service->method[i].name))
			return err_set(e, EINVAL, "%s has no method %s", service_name(service),
				service->method[i].name);
	list = realloc(server->service, (server->services + 1) * sizeof(*list));
	if (!list)
		return err_set(e, ENOMEM, "cannot add a service: %m");
	server->service = list;
	server->service[server->services++] = service;
	return 0;
}

static const struct rpc_service *find_service(
	const struct rpc_server *server, const char *name, size_t length)
{
	for (size_t i = 0; i < server->services; i++)
		if (strlen(service_name(server->service[i])) == length &&
			!memcmp(service_name(server->service[i]), name, length))
			return server->service[i];
	return NULL;
}

bool rpc_server_find(const struct rpc_server *server, struct rpc_call *call)
{
	const char *name = call->path + 1, *slash;

	slash = call->path[0] == '/' ? strchr(name, '/') : NULL;
	if (!slash)
		return false;
	call->service = find_service(server, name, (size_t)(slash - name));
	for (size_t i = 0; call->service && i < call->service->methods; i++)
		if (!strcmp(call->service->method[i].name, slash + 1)) {
			call->method = &call->service->method[i];
			call->types = protobuf_c_service_descriptor_get_method_by_name(
				call->service->descriptor, call->method->name);
		}
	return call->method;
}

/* Connections. */

static void server_link(struct rpc_server *server, struct rpc_conn *conn)
{
	conn->next = server->conns;
	conn->link = &server->conns;
	if (conn->next)
		conn->next->link = &conn->next;
	server->conns = conn;
	server->stats.connections++;
	server->stats.accepted++;
}

static void server_unlink(struct rpc_server *server, struct rpc_conn *conn)
{
	*conn->link = conn->next;
	if (conn->next)
		conn->next->link = conn->link;
	server->stats.connections--;
}

static void server_ending(struct loop *l, struct loop_timer *timer);

void rpc_server_gone(struct rpc_conn *conn)
{
	struct rpc_server *server = conn->owner;

	if (conn->misbehaved)
		server->stats.evicted++;
	server_unlink(server, conn);
	if (server->shutting_down && !server->conns)
		loop_timer_set(server->loop, &server->ending, clock_ns(), server_ending);
}

/* Make room for one more: the connection that is idle longest has to go. False: all are in use. */
static bool server_evict(struct rpc_server *server)
{
	struct rpc_conn *oldest = NULL;

	for (struct rpc_conn *conn = server->conns; conn; conn = conn->next)
		if (!conn->streams && conn->state != RPC_CONN_DEAD &&
			(!oldest || conn->idle_ns < oldest->idle_ns))
			oldest = conn;
	if (!oldest)
		return false;
	server->stats.evicted++;
	server_unlink(server, oldest);
	rpc_conn_free(oldest);
	return true;
}

/* What one connection may have sent of requests that are not whole: at least one of the largest. */
static size_t server_share_bytes(const struct rpc_server *server)
{
	size_t share = server->limits.buffered_bytes / SHARES;

	return share > server->limits.message_bytes ? share : server->limits.message_bytes;
}

static void server_take(struct rpc_server *server, int fd)
{
	struct rpc_conn_setup setup = {
		.loop = server->loop,
		.ops = &rpc_call_ops,
		.owner = server,
		.fd = fd,
		.tls = server->tls,
		.streams = server->limits.streams,
		.in = { .limit = server_share_bytes(server), .of = &server->requests },
		.patience_ns = server->limits.patience_ns,
		.keepalive_ns = server->limits.keepalive_ns,
		.open_deadline_ns = clock_ns() + server->limits.patience_ns,
	};
	struct rpc_conn *conn;

	if (server->stats.connections >= server->limits.connections && !server_evict(server)) {
		server->stats.evicted++;
		close(fd);
		return;
	}
	if (!rpc_conn_new(&conn, &setup, NULL))
		server_link(server, conn);
}

static void listener_resume(struct loop *l, struct loop_timer *timer)
{
	struct rpc_listener *listener = container_of(timer, struct rpc_listener, pause);

	loop_change(l, &listener->io, EPOLLIN);
}

static void listener_ready(struct loop *l, struct loop_fd *io, uint32_t events)
{
	struct rpc_listener *listener = container_of(io, struct rpc_listener, io);
	struct sock_addr peer;
	int fd;

	(void)events;
	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		peer.len = sizeof(peer.storage);
		fd = accept4(io->fd, (struct sockaddr *)&peer.storage, &peer.len,
			SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			server_take(listener->server, fd);
			continue;
		}
		if (errno == ECONNABORTED || errno == EINTR)
			continue;
		if (errno == EAGAIN)
			return;
		/* Out of descriptors or memory: the socket stays readable, and would keep us busy. */
		if ((errno == EMFILE || errno == ENFILE) && server_evict(listener->server))
			continue;
		loop_change(l, io, 0);
		loop_timer_set(l, &listener->pause, clock_ns() + ACCEPT_PAUSE_NS, listener_resume);
		return;
	}
}

int rpc_server_listen(struct rpc_server *server, const struct sock_addr *addr, struct err *e)
{
	struct sock_listen how = { .backlog = BACKLOG };
	char text[SOCK_ADDR_TEXT];
	struct rpc_listener *listener;
	struct sock_addr bound;
	int fd, ret;

	if (!server->tls && !server->insecure && !sock_addr_is_loopback(addr)) {
		err_set(e, EPERM,
			"will not listen on %s without TLS: whoever reaches it could use it",
			sock_addr_text(addr, true, text));
		return err_hint(e, "give a certificate, its key and an authority, or --insecure");
	}
	fd = sock_listen(addr, &how, e);
	if (fd < 0)
		return fd;
	listener = calloc(1, sizeof(*listener));
	if (!listener) {
		close(fd);
		return err_set(e, ENOMEM, "cannot listen: %m");
	}
	listener->server = server;
	ret = sock_local(fd, &bound);
	if (!ret)
		ret = loop_add(server->loop, &listener->io, fd, EPOLLIN, listener_ready, e);
	if (ret) {
		close(fd);
		free(listener);
		return ret;
	}
	listener->next = server->listeners;
	server->listeners = listener;
	return sock_addr_port(&bound);
}

static void server_stop_listening(struct rpc_server *server)
{
	while (server->listeners) {
		struct rpc_listener *next = server->listeners->next;

		loop_timer_cancel(server->loop, &server->listeners->pause);
		loop_remove(server->loop, &server->listeners->io);
		close(server->listeners->io.fd);
		free(server->listeners);
		server->listeners = next;
	}
}

/* A sign of life. */

uint64_t rpc_call_heard_ns(const struct rpc_call *call)
{
	return call->stream.conn ? call->stream.conn->heard_ns : 0;
}

void rpc_call_keepalive(struct rpc_call *call, uint64_t ns)
{
	struct rpc_conn *conn = call->stream.conn;

	if (!conn || conn->state != RPC_CONN_OPEN)
		return;
	conn->keepalive_ns = ns ? ns : call->server->limits.keepalive_ns;
	/* What it looks at next was far away. */
	if (conn->watch.due_ns > clock_ns() + conn->keepalive_ns)
		loop_timer_set(conn->loop, &conn->watch, clock_ns() + conn->keepalive_ns,
			conn->watch.fire);
}

/* The end. */

static void server_refuse_all(struct rpc_server *server)
{
	struct rpc_stream *stream, *next;

	for (struct rpc_conn *conn = server->conns; conn; conn = conn->next)
		for (stream = conn->streams; stream; stream = next) {
			next = stream->next;
			rpc_call_refuse(container_of(stream, struct rpc_call, stream), 200,
				RPC_UNAVAILABLE, "the server shuts down");
		}
}

static void server_ending(struct loop *l, struct loop_timer *timer)
{
	struct rpc_server *server = container_of(timer, struct rpc_server, ending);

	if (!server->conns) {
		if (server->done)
			server->done(server, server->done_context);
		return;
	}
	if (!server->out_of_time) {
		server->out_of_time = true;
		server_refuse_all(server);
		loop_timer_set(l, timer, clock_ns() + LAST_WORDS_NS, server_ending);
		return;
	}
	for (struct rpc_conn *conn = server->conns; conn; conn = conn->next)
		rpc_conn_kill(conn, ESHUTDOWN, "the server shuts down");
}

void rpc_server_shutdown(struct rpc_server *server, uint64_t deadline_ns,
	void (*done)(struct rpc_server *server, void *context), void *context)
{
	server->shutting_down = true;
	server->done = done;
	server->done_context = context;
	server_stop_listening(server);
	for (struct rpc_conn *conn = server->conns; conn; conn = conn->next)
		rpc_conn_leave(conn);
	loop_timer_set(server->loop, &server->ending, server->conns ? deadline_ns : clock_ns(),
		server_ending);
}

void rpc_server_free(struct rpc_server *server)
{
	if (!server)
		return;
	server_stop_listening(server);
	loop_timer_cancel(server->loop, &server->ending);
	while (server->conns) {
		struct rpc_conn *conn = server->conns;

		server_unlink(server, conn);
		rpc_conn_free(conn);
	}
	while (server->orphans)
		rpc_call_orphan(server->orphans);
	free(server->service);
	free(server);
}

void rpc_server_stats(const struct rpc_server *server, struct rpc_server_stats *stats)
{
	*stats = server->stats;
	stats->buffered_bytes = server->budget.used;
}
