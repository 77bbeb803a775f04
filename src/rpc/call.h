/* SPDX-License-Identifier: BSD-3-Clause */
/* The server from the inside: what server.c and call.c share. */
#ifndef WEIR_RPC_CALL_H
#define WEIR_RPC_CALL_H

#include "rpc/conn.h"
#include "rpc/proto/status.pb-c.h"
#include "rpc/server.h"

#define RPC_PATH_BYTES	     256
#define RPC_SEND_QUEUE_BYTES 262144 /* a stream that holds more waits for its client */
#define RPC_WORDS_BYTES	     1024   /* of a status, and the NUL */
/* Details travel in a header, as base64, together with the words; these are in another one as well, which may
 * triple them. So much fits into RPC_HEADER_BYTES, with names and the other headers. */
#define RPC_DETAILS_BYTES                                                                          \
	((RPC_HEADER_BYTES - 3 * RPC_WORDS_BYTES - 512) / 4 * 3 - RPC_WORDS_BYTES - 16)

struct rpc_server {
	struct loop *loop;
	struct rpc_tls *tls;
	bool insecure;
	struct rpc_limits limits;
	struct rpc_budget budget;   /* of all messages */
	struct rpc_budget requests; /* of those that come in, a part of it */
	const struct rpc_service **service;
	size_t services;
	struct rpc_listener *listeners;
	struct rpc_conn *conns;
	struct rpc_call *orphans; /* calls that handlers hold and whose stream is gone */
	struct loop_timer ending;
	bool shutting_down, out_of_time;
	void (*done)(struct rpc_server *server, void *context);
	void *done_context;
	struct rpc_server_stats stats;
};

/* A call, from its first header to the last byte of its trailers, and until its handler has ended it. */
struct rpc_call {
	struct rpc_stream stream;      /* conn is NULL once the client is gone */
	struct rpc_server *server;     /* NULL once the server is freed */
	struct rpc_call *next, **link; /* of the server's orphans */
	const struct rpc_service *service;
	const struct rpc_method *method;
	const ProtobufCMethodDescriptor *types;

	/* The request. */
	char path[RPC_PATH_BYTES];
	bool path_too_long, is_post, is_grpc, has_te, compressed, bad_timeout;
	bool headers_done;
	bool received; /* not bidi: the message is there, in stream.in */
	bool complete; /* nothing more is waited for */

	/* Time: one timer for the limit that comes next. */
	struct loop_timer limit;
	uint64_t opened_ns, deadline_ns;

	/* Whose it is. */
	bool handed;   /* the handler has it */
	bool finished; /* the handler has ended it */
	bool cancelled;
	void (*on_cancel)(struct rpc_call *call, void *context);
	void *cancel_context;

	/* The answer. */
	bool headers_sent;
	bool answered; /* its end is on the way to the client: nothing can be added */
	enum rpc_code code;
	char *words; /* percent-encoded */
	char *details_bin;
	Google__Protobuf__Any **detail;
	size_t details, details_bytes;
};

extern const struct rpc_conn_ops rpc_call_ops;

/* End a call that its handler has or never got, with words for the client. */
void rpc_call_refuse(struct rpc_call *call, int http_status, enum rpc_code code, const char *format,
	...) __attribute__((format(printf, 4, 5)));
/* The server is freed: a call that its handler still holds stands alone. */
void rpc_call_orphan(struct rpc_call *call);

/* Of server.c: the method that a path names; false: there is none. */
bool rpc_server_find(const struct rpc_server *server, struct rpc_call *call);
void rpc_server_gone(struct rpc_conn *conn);

#endif
