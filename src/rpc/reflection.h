/* SPDX-License-Identifier: BSD-3-Clause */
/* grpc.reflection v1 and v1alpha: what a server's services look like, for grpcurl and its like. It
 * lists the services that are registered, and knows every type of src/rpc/proto. */
#ifndef WEIR_RPC_REFLECTION_H
#define WEIR_RPC_REFLECTION_H

#include "rpc/server.h"

int rpc_reflection_add(struct rpc_server *server, struct err *e);

#endif
