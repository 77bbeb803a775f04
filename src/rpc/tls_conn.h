/* SPDX-License-Identifier: BSD-3-Clause */
/* One TLS connection over a non-blocking socket, for conn.c. */
#ifndef WEIR_RPC_TLS_CONN_H
#define WEIR_RPC_TLS_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "net/sock.h"
#include "rpc/tls.h"

struct rpc_tls_conn;

/* The descriptor stays the caller's. A client names what it dialled: a name, or an address where that
 * is NULL. A server passes NULL for both. */
int rpc_tls_conn_new(struct rpc_tls_conn **out, struct rpc_tls *tls, int fd, const char *name,
	const struct sock_addr *addr, struct err *e);
void rpc_tls_conn_free(struct rpc_tls_conn *conn);

/* 0: done; -EAGAIN: again when rpc_tls_conn_wants() is there; else -errno with words. */
int rpc_tls_conn_handshake(struct rpc_tls_conn *conn, struct err *e);
/* Bytes, 0 at the end, -EAGAIN, or -errno with words. */
ssize_t rpc_tls_conn_read(struct rpc_tls_conn *conn, void *data, size_t room, struct err *e);
ssize_t rpc_tls_conn_write(
	struct rpc_tls_conn *conn, const void *data, size_t length, struct err *e);
/* Tell the other end that no more will come; best effort. */
void rpc_tls_conn_bye(struct rpc_tls_conn *conn);
/* What the last -EAGAIN waits for: EPOLLIN or EPOLLOUT. */
uint32_t rpc_tls_conn_wants(const struct rpc_tls_conn *conn);

#endif
