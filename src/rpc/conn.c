// SPDX-License-Identifier: BSD-3-Clause
#include "rpc/conn.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "rpc/session.h"

#define IO_BYTES 16384
/* What nghttp2 hands out at once at most: a header, the length of padding, 16 KiB. */
#define FRAME_BYTES  (9 + 1 + 16384)
#define READS_A_TURN 8
#define LINGER_NS    NS_PER_S

static void conn_ready(struct loop *l, struct loop_fd *io, uint32_t events);
static void conn_work(struct loop *l, struct loop_timer *timer);
static void conn_watch(struct loop *l, struct loop_timer *timer);

void rpc_conn_kick(struct rpc_conn *conn)
{
	if (!conn->work.due_ns)
		loop_timer_set(conn->loop, &conn->work, clock_ns(), conn_work);
}

void rpc_conn_kill(struct rpc_conn *conn, int code, const char *format, ...)
{
	va_list args;

	if (conn->state == RPC_CONN_DEAD)
		return;
	conn->state = RPC_CONN_DEAD;
	va_start(args, format);
	vsnprintf(conn->why.what, sizeof(conn->why.what), format, args);
	va_end(args);
	conn->why.code = code;
	rpc_conn_kick(conn);
}

/* The socket: plain or through TLS. */

static ssize_t conn_recv(struct rpc_conn *conn, uint8_t *data, size_t room, struct err *e)
{
	ssize_t n;

	if (conn->tls)
		return rpc_tls_conn_read(conn->tls, data, room, e);
	do {
		n = recv(conn->io.fd, data, room, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN)
		return err_set(e, errno, "the connection broke: %m");
	return n < 0 ? -EAGAIN : n;
}

static ssize_t conn_send(struct rpc_conn *conn, const uint8_t *data, size_t length, struct err *e)
{
	ssize_t n;

	if (conn->tls)
		return rpc_tls_conn_write(conn->tls, data, length, e);
	do {
		n = send(conn->io.fd, data, length, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN)
		return err_set(e, errno, "the connection broke: %m");
	return n < 0 ? -EAGAIN : n;
}

/* Wait for what is needed now: room to write when bytes are left, what TLS asks for. */
static void conn_want(struct rpc_conn *conn)
{
	uint32_t events = EPOLLIN;

	if (conn->state == RPC_CONN_CONNECTING)
		events = EPOLLOUT;
	else if (conn->state == RPC_CONN_LINGERING)
		events = EPOLLIN;
	else if (conn->left_bytes || (!conn->secured && rpc_tls_conn_wants(conn->tls) & EPOLLOUT))
		events |= EPOLLOUT;
	if (events != conn->io.events)
		loop_change(conn->loop, &conn->io, events);
}

/* Bytes that the socket does not take now are kept; there are never more than one round of output. */
static int conn_keep(struct rpc_conn *conn, const uint8_t *data, size_t length)
{
	uint8_t *left = malloc(length);

	if (!left)
		return -ENOMEM;
	memcpy(left, data, length);
	free(conn->left);
	conn->left = left;
	conn->left_at = 0;
	conn->left_bytes = length;
	if (!conn->stalled_ns)
		conn->stalled_ns = clock_ns();
	return 0;
}

/* 0: all of it is sent or kept; else the connection is dead. */
static int conn_write(struct rpc_conn *conn, const uint8_t *data, size_t length)
{
	struct err e = { 0 };

	while (length) {
		ssize_t n = conn_send(conn, data, length, &e);

		if (n == -EAGAIN) {
			if (!conn_keep(conn, data, length))
				return 0;
			n = err_set(&e, ENOMEM, "out of memory");
		}
		if (n < 0) {
			rpc_conn_kill(conn, e.code, "%s", e.what);
			return (int)n;
		}
		data += n;
		length -= (size_t)n;
	}
	return 0;
}

static void conn_write_left(struct rpc_conn *conn)
{
	struct err e = { 0 };

	while (conn->left_bytes) {
		ssize_t n = conn_send(conn, conn->left + conn->left_at, conn->left_bytes, &e);

		if (n == -EAGAIN)
			return;
		if (n < 0) {
			rpc_conn_kill(conn, e.code, "%s", e.what);
			return;
		}
		conn->left_at += (size_t)n;
		conn->left_bytes -= (size_t)n;
		conn->stalled_ns = clock_ns();
	}
	free(conn->left);
	conn->left = NULL;
	conn->stalled_ns = 0;
}

/* Take frames from nghttp2, as many as one write holds, and write them; again until it has no more or
 * the socket is full. */
static void conn_flush_frames(struct rpc_conn *conn)
{
	uint8_t round[IO_BYTES + FRAME_BYTES];
	const uint8_t *data;
	size_t have;
	ssize_t n = 0;

	do {
		for (have = 0; have < IO_BYTES; have += (size_t)n) {
			n = nghttp2_session_mem_send(conn->session, &data);
			if (n <= 0)
				break;
			if ((size_t)n > sizeof(round) - have) {
				/* Never: nghttp2 makes no larger ones, whatever a peer allows. */
				rpc_conn_kill(conn, EMSGSIZE, "a frame is too large");
				return;
			}
			memcpy(round + have, data, (size_t)n);
		}
		if (n < 0) {
			rpc_conn_kill(conn, EPROTO, "HTTP/2: %s", nghttp2_strerror((int)n));
			return;
		}
		if (have && conn_write(conn, round, have))
			return;
	} while (n > 0 && !conn->left_bytes);
}

/* All is said: wait a moment for the peer to close, so that our reset does not overtake our words. */
static void conn_linger(struct rpc_conn *conn)
{
	conn->state = RPC_CONN_LINGERING;
	if (conn->tls && conn->secured)
		rpc_tls_conn_bye(conn->tls);
	shutdown(conn->io.fd, SHUT_WR);
	loop_timer_set(conn->loop, &conn->watch, clock_ns() + LINGER_NS, conn_watch);
}

static void conn_flush(struct rpc_conn *conn)
{
	if (conn->state == RPC_CONN_CONNECTING || conn->state >= RPC_CONN_LINGERING ||
		!conn->secured)
		return;
	conn_write_left(conn);
	if (conn->state != RPC_CONN_DEAD && !conn->left_bytes)
		conn_flush_frames(conn);
	if (conn->state == RPC_CONN_DEAD)
		return;
	if (conn->left_bytes || nghttp2_session_want_read(conn->session) ||
		nghttp2_session_want_write(conn->session))
		return;
	if (conn->is_server)
		conn_linger(conn);
	else
		rpc_conn_kill(conn, EPIPE, "%s",
			conn->misbehaved ? "the peer breaks HTTP/2" : "the server leaves");
}

static void conn_discard(struct rpc_conn *conn)
{
	uint8_t data[IO_BYTES];
	ssize_t n = recv(conn->io.fd, data, sizeof(data), MSG_DONTWAIT);

	if (!n || (n < 0 && errno != EAGAIN && errno != EINTR))
		rpc_conn_kill(conn, EPIPE, "the connection was closed");
}

/* A server that wants TLS says nothing to one who comes without. */
static const char *conn_closed_words(const struct rpc_conn *conn)
{
	return conn->is_server || conn->tls || conn->heard
		       ? "the peer closed the connection"
		       : "the peer closed the connection at once: it may want TLS, with certificates";
}

static void conn_read(struct rpc_conn *conn)
{
	uint8_t data[IO_BYTES];
	struct err e = { 0 };

	conn->more_input = false;
	for (int i = 0; i < READS_A_TURN && conn->state != RPC_CONN_DEAD; i++) {
		ssize_t n = conn_recv(conn, data, sizeof(data), &e), taken;

		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			rpc_conn_kill(conn, n ? e.code : EPIPE, "%s",
				n ? e.what : conn_closed_words(conn));
			return;
		}
		conn->heard = true;
		conn->heard_ns = clock_ns();
		taken = nghttp2_session_mem_recv(conn->session, data, (size_t)n);
		if (taken < 0) {
			conn->misbehaved = true;
			rpc_conn_kill(conn, EPROTO, "the peer breaks HTTP/2: %s",
				nghttp2_strerror((int)taken));
			return;
		}
	}
	/* What lies in TLS's own buffer does not make the socket readable again. */
	conn->more_input = conn->tls != NULL;
}

static void conn_secure(struct rpc_conn *conn)
{
	struct err e = { 0 };
	int ret = rpc_tls_conn_handshake(conn->tls, &e);

	if (ret == -EAGAIN)
		return;
	if (ret && conn->is_server && ret != -EPIPE) {
		/* OpenSSL has told the client why; what it sent meanwhile must not make that a reset. */
		conn_linger(conn);
		return;
	}
	if (ret) {
		rpc_conn_kill(
			conn, -ret, "%s", e.what[0] ? e.what : "the peer closed the connection");
		return;
	}
	conn->secured = true;
}

static void conn_connected(struct rpc_conn *conn)
{
	socklen_t length = sizeof(int);
	int why = 0;

	if (getsockopt(conn->io.fd, SOL_SOCKET, SO_ERROR, &why, &length) < 0)
		why = errno;
	if (why) {
		rpc_conn_kill(conn, why, "%s", strerror(why));
		return;
	}
	conn->state = RPC_CONN_HANDSHAKE;
}

static void conn_ready(struct loop *l, struct loop_fd *io, uint32_t events)
{
	struct rpc_conn *conn = container_of(io, struct rpc_conn, io);

	(void)l;
	if (conn->state == RPC_CONN_DEAD)
		return;
	if (conn->state == RPC_CONN_LINGERING) {
		conn_discard(conn);
		return;
	}
	if (conn->state == RPC_CONN_CONNECTING)
		conn_connected(conn);
	if (conn->state < RPC_CONN_LINGERING && !conn->secured)
		conn_secure(conn);
	if (conn->state < RPC_CONN_LINGERING && conn->secured &&
		events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		conn_read(conn);
	rpc_conn_kick(conn);
	if (conn->state != RPC_CONN_DEAD)
		conn_want(conn);
}

static void conn_free_streams(struct rpc_conn *conn)
{
	while (conn->streams) {
		struct rpc_stream *stream = conn->streams;

		rpc_stream_unbind(stream);
		conn->ops->closed(stream, NGHTTP2_INTERNAL_ERROR);
	}
}

void rpc_conn_free(struct rpc_conn *conn)
{
	conn->state = RPC_CONN_DEAD;
	conn_free_streams(conn);
	loop_timer_cancel(conn->loop, &conn->work);
	loop_timer_cancel(conn->loop, &conn->watch);
	if (conn->io.fd >= 0) {
		loop_remove(conn->loop, &conn->io);
		close(conn->io.fd);
	}
	rpc_tls_conn_free(conn->tls);
	nghttp2_session_del(conn->session);
	free(conn->left);
	free(conn);
}

static void conn_work(struct loop *l, struct loop_timer *timer)
{
	struct rpc_conn *conn = container_of(timer, struct rpc_conn, work);

	(void)l;
	if (conn->more_input && conn->state < RPC_CONN_LINGERING)
		conn_read(conn);
	conn_flush(conn);
	if (conn->state == RPC_CONN_DEAD) {
		conn->ops->gone(conn);
		rpc_conn_free(conn);
		return;
	}
	if (conn->more_input)
		rpc_conn_kick(conn);
	conn_want(conn);
}

/* The time limits. One timer looks at all of them, and sets itself to the next: nothing is moved when
 * bytes come and go. */
static void conn_watch(struct loop *l, struct loop_timer *timer)
{
	struct rpc_conn *conn = container_of(timer, struct rpc_conn, watch);
	uint64_t now_ns = clock_ns(), next_ns;

	if (conn->state == RPC_CONN_DEAD)
		return;
	if (conn->state == RPC_CONN_LINGERING) {
		rpc_conn_kill(conn, ETIMEDOUT, "the connection was closed");
		return;
	}
	if (conn->state < RPC_CONN_OPEN && now_ns >= conn->open_deadline_ns) {
		rpc_conn_kill(conn, ETIMEDOUT, "%s",
			conn->state == RPC_CONN_CONNECTING
				? "Connection timed out"
				: "the peer did not finish the handshake in time");
		return;
	}
	if (conn->state < RPC_CONN_OPEN) {
		loop_timer_set(l, timer, conn->open_deadline_ns, conn_watch);
		return;
	}
	if ((conn->stalled_ns && now_ns >= conn->stalled_ns + conn->patience_ns) ||
		(conn->ping_ns && now_ns >= conn->ping_ns + conn->patience_ns)) {
		rpc_conn_kill(conn, ETIMEDOUT, "the peer %s",
			conn->stalled_ns ? "does not read" : "does not answer");
		return;
	}
	/* A client without calls keeps silent; the next call finds out. */
	if (!conn->ping_ns && now_ns >= conn->heard_ns + conn->keepalive_ns &&
		(conn->is_server || conn->streams)) {
		nghttp2_submit_ping(conn->session, NGHTTP2_FLAG_NONE, NULL);
		conn->ping_ns = now_ns;
		rpc_conn_kick(conn);
	}
	next_ns = now_ns + conn->keepalive_ns;
	if (!conn->ping_ns && conn->heard_ns + conn->keepalive_ns > now_ns)
		next_ns = conn->heard_ns + conn->keepalive_ns;
	if (next_ns > now_ns + conn->patience_ns)
		next_ns = now_ns + conn->patience_ns;
	loop_timer_set(l, timer, next_ns, conn_watch);
}

void rpc_conn_leave(struct rpc_conn *conn)
{
	if (conn->leaving || conn->state >= RPC_CONN_LINGERING)
		return;
	conn->leaving = true;
	if (conn->state < RPC_CONN_OPEN) {
		rpc_conn_kill(conn, ESHUTDOWN, "shutting down");
		return;
	}
	/* First a notice that refuses nothing; the last word when its echo is back, so that calls that
	 * were on their way are served. */
	if (conn->is_server) {
		nghttp2_submit_shutdown_notice(conn->session);
		nghttp2_submit_ping(conn->session, NGHTTP2_FLAG_NONE, NULL);
		if (!conn->ping_ns)
			conn->ping_ns = clock_ns();
	} else {
		nghttp2_submit_goaway(
			conn->session, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, NULL, 0);
	}
	rpc_conn_kick(conn);
}

int rpc_conn_new(struct rpc_conn **out, const struct rpc_conn_setup *setup, struct err *e)
{
	struct rpc_conn *conn = calloc(1, sizeof(*conn));
	int on = 1, ret;

	*out = NULL;
	if (!conn) {
		close(setup->fd);
		return err_set(e, ENOMEM, "cannot keep a connection: %m");
	}
	conn->loop = setup->loop;
	conn->ops = setup->ops;
	conn->owner = setup->owner;
	conn->is_server = !setup->to;
	conn->io.fd = setup->fd;
	conn->in = setup->in;
	if (!conn->in.limit)
		conn->in.limit = SIZE_MAX;
	conn->state = conn->is_server ? RPC_CONN_HANDSHAKE : RPC_CONN_CONNECTING;
	conn->patience_ns = setup->patience_ns;
	conn->keepalive_ns = setup->keepalive_ns;
	conn->open_deadline_ns = setup->open_deadline_ns;
	conn->heard_ns = conn->idle_ns = conn->nuisance_ns = clock_ns();
	conn->secured = !setup->tls;
	setsockopt(setup->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	ret = rpc_session_new(conn, setup->streams);
	if (ret) {
		err_set(e, -ret, "cannot set up HTTP/2: %s", strerror(-ret));
		goto free_conn;
	}
	if (setup->tls) {
		ret = rpc_tls_conn_new(
			&conn->tls, setup->tls, setup->fd, setup->name, setup->to, e);
		if (ret)
			goto free_conn;
	}
	ret = loop_add(conn->loop, &conn->io, setup->fd, conn->is_server ? EPOLLIN : EPOLLOUT,
		conn_ready, e);
	if (ret)
		goto free_conn;
	loop_timer_set(conn->loop, &conn->watch, conn->open_deadline_ns, conn_watch);
	rpc_conn_kick(conn);
	*out = conn;
	return 0;

free_conn:
	rpc_conn_free(conn);
	return ret;
}
