/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls to a gRPC server, on an event loop with a callback.
 *
 *	static void answered(void *context, const struct rpc_reply *reply)
 *	{
 *		const Dxs__Prober__SetUpReply *set_up = (const void *)reply->message;
 *
 *		if (reply->code)
 *			log_warn("%s: %s", rpc_code_name(reply->code), reply->words);
 *		...
 *	}
 *
 *	rpc_client_new(&client, &loop, &addr, &options, e);
 *	struct rpc_request request = { .service = &dxs__prober__connection_manager__descriptor,
 *		.method = "SetUpPongConnection", .message = &set_up.base,
 *		.deadline_ns = clock_ns() + 2 * NS_PER_S, .done = answered, .context = me };
 *	rpc_client_call(client, &request, e);
 *
 * A client is one connection that carries any number of calls. It is made by the first call, and
 * again by the next one after it was lost; calls that were on it end UNAVAILABLE. A call is never
 * repeated by itself. Everything happens in the loop's thread; done is called exactly once for each
 * call, from the loop, never from within rpc_client_call(). Every call has a deadline, which the
 * server is told (grpc-timeout).
 */
#ifndef WEIR_RPC_CLIENT_H
#define WEIR_RPC_CLIENT_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "net/sock.h"
#include "rpc/code.h"
#include "rpc/proto/status.pb-c.h"
#include "rpc/tls.h"

struct rpc_client;

/* All zero: plaintext, any source address. */
struct rpc_client_options {
	struct rpc_tls *tls;
	const char
		*server_name; /* the server's certificate must be for this; NULL: for the address */
	const struct sock_addr *local; /* connect from here; copied */
	const char *device;	       /* and by this interface; copied */
	size_t message_bytes;	       /* largest message taken, 0: 4 MiB */
	uint64_t
		connect_ns; /* for connection and handshake, 0: 5 s; never beyond the call's deadline */
	uint64_t keepalive_ns; /* while calls wait: a ping after so much silence, 0: 20 s */
};

int rpc_client_new(struct rpc_client **out, struct loop *loop, const struct sock_addr *to,
	const struct rpc_client_options *options, struct err *e);
/* Calls that wait end without done being called. Not from within a callback of this client. */
void rpc_client_free(struct rpc_client *client);

/* How a call ended. All of it lives until done returns. */
struct rpc_reply {
	enum rpc_code code;
	const char *words;		   /* of the server, or of this end; one line, never NULL */
	const ProtobufCMessage *message;   /* unary: set when code is RPC_OK, else NULL */
	const Google__Rpc__Status *status; /* what grpc-status-details-bin held, or NULL */
};

struct rpc_request {
	const ProtobufCServiceDescriptor *service;
	const char *method; /* as in the .proto */
	const ProtobufCMessage *message;
	uint64_t deadline_ns; /* monotonic */
	/* Of a server stream: each message, which lives until this returns. NULL for a unary call. */
	void (*received)(void *context, const ProtobufCMessage *message);
	void (*done)(void *context, const struct rpc_reply *reply);
	void *context;
};

/* Start a call; the message is packed at once. Fails with -EINVAL (no such method), -EMSGSIZE, -ENOMEM: done is not called. A
 * server that cannot be reached is no failure here: done says UNAVAILABLE. */
int rpc_client_call(struct rpc_client *client, const struct rpc_request *request, struct err *e);

#endif
