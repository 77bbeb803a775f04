/* SPDX-License-Identifier: BSD-3-Clause */
/* A gRPC server on an event loop.
 *
 *	static void start_pings(struct rpc_call *call, const ProtobufCMessage *message, void *context)
 *	{
 *		const Dxs__Prober__StartPingsRequest *request = (const void *)message;
 *		struct agent *agent = context;
 *		...
 *		rpc_call_reply(call, &reply.base);	now, or later from the loop's thread
 *	}
 *
 *	static const struct rpc_method methods[] = {
 *		{ "StartPings", RPC_UNARY, start_pings },
 *		{ "StopPings", RPC_UNARY, stop_pings },
 *	};
 *	struct rpc_service service = { &dxs__prober__agent_service__descriptor, methods, 2, agent };
 *
 *	rpc_server_new(&server, &loop, &options, e);
 *	rpc_server_add(server, &service, e);
 *	rpc_server_listen(server, &addr, e);
 *	loop_run(&loop, e);
 *	rpc_server_free(server);
 *
 * Everything happens in the loop's thread. What the gRPC specification asks of a server is done
 * here: a method that is not there, a message that cannot be read, one that is too large, a deadline
 * that passes are answered without the handler. What a peer can make the server hold is bounded by
 * struct rpc_limits, and no peer is waited for without end.
 */
#ifndef WEIR_RPC_SERVER_H
#define WEIR_RPC_SERVER_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "net/sock.h"
#include "rpc/code.h"
#include "rpc/tls.h"

struct rpc_server;
struct rpc_call;

enum rpc_kind {
	RPC_UNARY,	   /* one message in, one out */
	RPC_SERVER_STREAM, /* one message in, any number out */
	RPC_BIDI,	   /* any number both ways */
};

/* Called when a request is complete, with its message, which lives until this returns. RPC_BIDI:
 * once per message, and at the end of the client's messages with NULL.
 *
 * The call belongs to the handler until it ends it, at once or later, exactly once, by
 * rpc_call_reply() or rpc_call_finish(). It stays valid until then, whatever happens to the client; a
 * handler that waits for something else than its own work learns of that by rpc_call_on_cancel(). */
typedef void rpc_handler_fn(struct rpc_call *call, const ProtobufCMessage *message, void *context);

struct rpc_method {
	const char *name; /* as in the .proto */
	enum rpc_kind kind;
	rpc_handler_fn *handle;
};

/* Kept by the server, not copied. A method of the descriptor without a line in the table is answered
 * UNIMPLEMENTED. */
struct rpc_service {
	const ProtobufCServiceDescriptor *descriptor;
	const struct rpc_method *method;
	size_t methods;
	void *context; /* for the handlers */
};

/* What peers may make the server hold. 0: the default in brackets. */
struct rpc_limits {
	size_t message_bytes; /* one message of a client [4 MiB] */
	/* All messages under way, in and out, of all connections [64 MiB]. Requests take three quarters of
	 * it at most, those of one connection a quarter. */
	size_t buffered_bytes;
	uint32_t connections; /* [1024] beyond it the one that is idle longest makes room */
	uint32_t streams;     /* calls at once on one connection [100] */
	uint32_t calls;	      /* calls at once in all [4096] beyond it: RESOURCE_EXHAUSTED */
	uint64_t
		patience_ns; /* for a handshake, a request to be complete, an answer to be read [20 s] */
	uint64_t
		keepalive_ns; /* a ping after so much silence; no answer within patience: gone [60 s] */
};

struct rpc_server_options {
	struct rpc_tls *tls; /* NULL: plaintext */
	bool insecure;	     /* plaintext on addresses other than loopback, too */
	struct rpc_limits limits;
};

/* NULL options: plaintext on loopback, default limits. */
int rpc_server_new(struct rpc_server **out, struct loop *loop,
	const struct rpc_server_options *options, struct err *e);

int rpc_server_add(struct rpc_server *server, const struct rpc_service *service, struct err *e);

/* Listen on one more address. Plaintext on an address that is not loopback's is refused with -EPERM
 * unless the options say insecure. Returns the port, which the system chose where addr has none, or
 * -errno. */
int rpc_server_listen(struct rpc_server *server, const struct sock_addr *addr, struct err *e);

/* Stop listening, tell every client to go (GOAWAY), let calls that run come to their end until
 * deadline_ns, then cancel them. done is called once, from the loop, when the last connection is
 * closed; then free the server. */
void rpc_server_shutdown(struct rpc_server *server, uint64_t deadline_ns,
	void (*done)(struct rpc_server *server, void *context), void *context);

/* Close everything now. Calls that handlers still hold are cancelled, and stay valid until ended.
 * Not from within a handler. */
void rpc_server_free(struct rpc_server *server);

struct rpc_server_stats {
	uint32_t connections, calls; /* now */
	size_t buffered_bytes;
	uint64_t accepted, answered,
		refused;  /* connections, calls, calls answered without a handler */
	uint64_t evicted; /* connections closed to make room, or for misbehaviour */
};
void rpc_server_stats(const struct rpc_server *server, struct rpc_server_stats *stats);

/* The call: until when it is waited for, and whether there is still somebody who does. */

uint64_t rpc_call_deadline_ns(const struct rpc_call *call); /* monotonic; UINT64_MAX: none */
/* When the client last sent something, monotonic; 0: its connection is gone. */
uint64_t rpc_call_heard_ns(const struct rpc_call *call);
/* Ping the client after so much silence, for a handler that must know sooner than by the server's
 * keepalive that it lives; 0: as the server's limits say. Of the call's connection, which keeps it. */
void rpc_call_keepalive(struct rpc_call *call, uint64_t ns);
/* The client has gone, the deadline has passed, or the server shuts down: what is answered from then on
 * is thrown away. Told once, at the moment it happens, from the loop; never after the call was ended. */
void rpc_call_on_cancel(struct rpc_call *call,
	void (*cancelled)(struct rpc_call *call, void *context), void *context);

/* The answer. Messages are packed at once: they stay the caller's. */

/* One message of a stream. -EAGAIN: the client does not keep up and this one was not queued; leave it
 * out, or send it later. -ENOBUFS: all calls together hold as much as they may; leave it out, or end
 * the call. -ECANCELED: nobody listens any more, end the call. */
int rpc_call_send(struct rpc_call *call, const ProtobufCMessage *message);

/* Add a message to the google.rpc.Status that travels in grpc-status-details-bin, whatever the code.
 * -EMSGSIZE: with this one a client would refuse the headers of the reply; -ENOMEM. */
int rpc_call_add_detail(struct rpc_call *call, const ProtobufCMessage *detail);

/* End a unary call well. */
void rpc_call_reply(struct rpc_call *call, const ProtobufCMessage *reply);
/* End any call: a stream with RPC_OK, or any call with what went wrong in words for the client. */
void rpc_call_finish(struct rpc_call *call, enum rpc_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
