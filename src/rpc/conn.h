/* SPDX-License-Identifier: BSD-3-Clause */
/* One HTTP/2 connection on an event loop, server's or client's, with or without TLS: what server.c and
 * client.c share. nghttp2 does the framing; here are the socket, the time limits, the streams' messages
 * in both directions, and what is done about a peer that misbehaves.
 *
 * Nothing is written and nothing is freed inside a callback: both wait for the connection's work timer,
 * which is due at once. It fires in the same turn of the loop where a source set it, unless timers that
 * were due before it fill the turn (fire_max), and in the next turn where another timer did.
 */
#ifndef WEIR_RPC_CONN_H
#define WEIR_RPC_CONN_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "net/sock.h"
#include "rpc/frame.h"
#include "rpc/tls_conn.h"

struct rpc_conn;

/* One call on the wire. Lives inside its owner; conn is NULL once the stream is closed. */
struct rpc_stream {
	struct rpc_conn *conn;
	int32_t id;
	struct rpc_stream *next, **link; /* of conn->streams */
	struct rpc_frame_reader in;
	struct rpc_frame_queue out;
	size_t header_bytes;
	uint64_t begun_ns; /* when the message in came to have a first byte */
	uint64_t moved_ns; /* when bytes of it last went out */
	bool deaf;	   /* what still comes is thrown away */
	bool out_ended;	   /* nothing more will be queued */
	bool out_paused;   /* nghttp2 waits to be told that there is more */
};

/* Headers beyond this many bytes are counted, not looked at. */
#define RPC_HEADER_BYTES 32768

/* Name and value of a header, as nghttp2 hands them: not terminated. */
struct rpc_header {
	const char *name, *value;
	size_t name_length, value_length;
};
bool rpc_header_is(const struct rpc_header *h, const char *name);

/* A header as it is sent; the strings are copied by nghttp2. */
nghttp2_nv rpc_nv(const char *name, const char *value);

struct rpc_conn_ops {
	/* A peer opens a stream (server). NULL: refused. */
	struct rpc_stream *(*open)(struct rpc_conn *conn, int32_t id);
	void (*header)(struct rpc_stream *stream, const struct rpc_header *header);
	/* A block of headers is whole. */
	void (*headers)(struct rpc_stream *stream);
	/* One whole message is in stream->in: take it and rpc_frame_reset(). */
	void (*message)(struct rpc_stream *stream);
	/* The messages cannot be read, as rpc_frame_feed() says. What follows is thrown away. */
	void (*garbled)(struct rpc_stream *stream, int why);
	/* The peer has sent its last byte. */
	void (*end)(struct rpc_stream *stream);
	/* All that was queued is with nghttp2; send trailers now (server). */
	void (*trailers)(struct rpc_stream *stream);
	/* The stream is gone; stream->conn is NULL. May free the stream. */
	void (*closed)(struct rpc_stream *stream, uint32_t h2_error);
	void (*goaway)(struct rpc_conn *conn, uint32_t h2_error);
	/* The connection is gone, conn->why says why. What it still has of streams is closed after this,
	 * and the conn freed. */
	void (*gone)(struct rpc_conn *conn);
};

enum rpc_conn_state {
	RPC_CONN_CONNECTING,
	RPC_CONN_HANDSHAKE, /* TLS, and the peer's first SETTINGS */
	RPC_CONN_OPEN,
	RPC_CONN_LINGERING, /* all is said; the peer closes, so that no reset overtakes the last bytes */
	RPC_CONN_DEAD,
};

struct rpc_conn_setup {
	struct loop *loop;
	const struct rpc_conn_ops *ops;
	void *owner;
	int fd; /* owned by the conn from now on, on failure as well */
	struct rpc_tls *tls;
	const char *name;	    /* client: see rpc_tls_conn_new() */
	const struct sock_addr *to; /* client: what is connected to */
	uint32_t streams;	    /* server: calls at once */
	struct rpc_budget in;	    /* of all messages on their way in; copied. All 0: no limit */
	uint64_t patience_ns, keepalive_ns;
	uint64_t open_deadline_ns; /* connected and shaken hands by then */
};

struct rpc_conn {
	struct loop *loop;
	const struct rpc_conn_ops *ops;
	void *owner;
	struct rpc_conn *next, **link; /* of the owner's list */
	bool is_server;
	enum rpc_conn_state state;
	struct loop_fd io;
	struct loop_timer work;	 /* write, go on reading, or be freed: as soon as may be */
	struct loop_timer watch; /* the next time limit to look at */
	nghttp2_session *session;
	struct rpc_tls_conn *tls;
	bool secured; /* TLS is through, or not wanted */
	struct rpc_stream *streams;
	struct rpc_budget in;
	uint8_t *left; /* bytes that the socket did not take */
	size_t left_at, left_bytes;
	uint64_t patience_ns, keepalive_ns, open_deadline_ns;
	bool heard;	     /* the peer has sent something */
	uint64_t heard_ns;   /* when it last did */
	uint64_t ping_ns;    /* when a ping went out that waits for its answer; 0: none */
	uint64_t stalled_ns; /* since when the socket takes nothing; 0: it does */
	uint64_t idle_ns;    /* since when there is no stream */
	double nuisance;     /* frames that cost us and serve nobody; see conn_nuisance() */
	uint64_t nuisance_ns;
	bool more_input; /* the turn's share was read, and there may be more */
	bool leaving;	 /* GOAWAY was sent: close when the last stream has ended */
	bool misbehaved;
	bool was_open;
	struct err why; /* why it is gone */
};

int rpc_conn_new(struct rpc_conn **out, const struct rpc_conn_setup *setup, struct err *e);

/* Something was submitted to the session: write it as soon as the work timer fires. */
void rpc_conn_kick(struct rpc_conn *conn);
/* End it, with words for why; streams are closed and gone() called from the loop. */
void rpc_conn_kill(struct rpc_conn *conn, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* End it and free it at once: streams are closed, gone() is not called. Not from its callbacks. */
void rpc_conn_free(struct rpc_conn *conn);
/* No new streams; close after the last. */
void rpc_conn_leave(struct rpc_conn *conn);

/* Bind a stream to its id and connection, and back. What it sends is drawn from out. */
void rpc_stream_bind(struct rpc_stream *stream, struct rpc_conn *conn, int32_t id,
	struct rpc_budget *out, size_t message_limit);
/* Forget it: nothing about it is called any more; memory of its messages is given back. */
void rpc_stream_unbind(struct rpc_stream *stream);
/* Reset it on the wire, and drop what it holds; closed() follows from the loop. */
void rpc_stream_reset(struct rpc_stream *stream, uint32_t h2_error);
/* There is more to send, or the end. */
void rpc_stream_resume(struct rpc_stream *stream);
/* Where nghttp2 takes a stream's bytes from. */
nghttp2_data_provider rpc_stream_source(struct rpc_stream *stream);

#endif
