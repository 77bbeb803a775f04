/* SPDX-License-Identifier: BSD-3-Clause */
/* nghttp2's side of a connection: its callbacks, and what they mean to streams. For conn.c. */
#ifndef WEIR_RPC_SESSION_H
#define WEIR_RPC_SESSION_H

#include "rpc/conn.h"

/* Make conn->session and queue its first SETTINGS. -ENOMEM. */
int rpc_session_new(struct rpc_conn *conn, uint32_t streams);

#endif
