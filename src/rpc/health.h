/* SPDX-License-Identifier: BSD-3-Clause */
/* grpc.health.v1: whether the server, and each of its services, can be asked now.
 *
 *	rpc_health_new(&health, server, e);
 *	rpc_health_set(health, "", true);
 *	rpc_health_set(health, "weir.v1.Agent", true);
 *
 * "" is set to serving from the start. Every Watch hears of a change. Free it after its server was
 * shut down, before it is freed. */
#ifndef WEIR_RPC_HEALTH_H
#define WEIR_RPC_HEALTH_H

#include <stdbool.h>

#include "rpc/server.h"

struct rpc_health;

int rpc_health_new(struct rpc_health **out, struct rpc_server *server, struct err *e);
/* service: its full name, "" for the whole server. One never set is unknown. */
int rpc_health_set(struct rpc_health *health, const char *service, bool serving);
void rpc_health_free(struct rpc_health *health);

#endif
