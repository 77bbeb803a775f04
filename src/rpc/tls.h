/* SPDX-License-Identifier: BSD-3-Clause */
/* Who may speak: certificates of this end and the authority that signs the other's.
 *
 *	struct rpc_tls_files files = { .cert = "agent.pem", .key = "agent.key", .ca = "cluster.pem" };
 *	struct rpc_tls *tls;
 *
 *	ret = rpc_tls_new(&tls, &files, e);
 *	...
 *	rpc_tls_free(tls);
 *
 * Both ends show a certificate, and each checks the other's against ca: its chain, its dates and,
 * at the client, that it was made for the address or name that was dialled. TLS 1.2 or later, ALPN
 * h2, no renegotiation, no compression. One rpc_tls serves any number of servers and clients of one
 * thread and must outlive them. Files that were replaced are read again when a connection is made,
 * a second after the last look at the earliest; connections that exist keep what they have. Where the
 * new ones cannot be used the old ones stay, and a warning says why, once for each change. Without
 * OpenSSL rpc_tls_new() fails with -ENOTSUP and says so.
 */
#ifndef WEIR_RPC_TLS_H
#define WEIR_RPC_TLS_H

#include "base/err.h"

struct rpc_tls;

struct rpc_tls_files {
	const char
		*cert; /* this end's certificate, the authorities between it and ca after it; PEM */
	const char *key; /* its private key; PEM */
	const char *ca;	 /* the certificates that the other end's must lead to; PEM */
};

/* The strings are copied. */
int rpc_tls_new(struct rpc_tls **out, const struct rpc_tls_files *files, struct err *e);
void rpc_tls_free(struct rpc_tls *tls);

#endif
