// SPDX-License-Identifier: BSD-3-Clause
#include "rpc/health.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/proto/health.pb-c.h"

typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus health_state;
#define SERVING	    GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define NOT_KNOWN   GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

#define WATCHES_MOST 256
#define NAME_BYTES   256

struct health_entry {
	struct health_entry *next;
	health_state state;
	char name[];
};

struct health_watch {
	struct health_watch *next, **link;
	struct rpc_call *call;
	health_state told;
	char name[NAME_BYTES];
};

struct rpc_health {
	struct rpc_service service;
	struct health_entry *entries;
	struct health_watch *watches;
	size_t watching;
};

static struct health_entry *health_find(const struct rpc_health *health, const char *name)
{
	struct health_entry *entry = health->entries;

	while (entry && strcmp(entry->name, name) != 0)
		entry = entry->next;
	return entry;
}

static void health_check(struct rpc_call *call, const ProtobufCMessage *message, void *context)
{
	const Grpc__Health__V1__HealthCheckRequest *request = (const void *)message;
	Grpc__Health__V1__HealthCheckResponse reply = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
	const struct health_entry *entry = health_find(context, request->service);

	if (!entry) {
		rpc_call_finish(call, RPC_NOT_FOUND, "no service %s here", request->service);
		return;
	}
	reply.status = entry->state;
	rpc_call_reply(call, &reply.base);
}

static void watch_tell(const struct rpc_health *health, struct health_watch *watch)
{
	Grpc__Health__V1__HealthCheckResponse reply = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
	const struct health_entry *entry = health_find(health, watch->name);

	reply.status = entry ? entry->state : NOT_KNOWN;
	/* A client that does not keep up hears the next change: only the state now is worth telling. */
	if (reply.status != watch->told && !rpc_call_send(watch->call, &reply.base))
		watch->told = reply.status;
}

static void watch_free(struct rpc_health *health, struct health_watch *watch)
{
	*watch->link = watch->next;
	if (watch->next)
		watch->next->link = watch->link;
	health->watching--;
	free(watch);
}

static void watch_cancelled(struct rpc_call *call, void *context)
{
	struct rpc_health *health = context;
	struct health_watch *watch = health->watches;

	while (watch->call != call)
		watch = watch->next;
	watch_free(health, watch);
	rpc_call_finish(call, RPC_CANCELLED, NULL);
}

static void health_watch(struct rpc_call *call, const ProtobufCMessage *message, void *context)
{
	const Grpc__Health__V1__HealthCheckRequest *request = (const void *)message;
	struct rpc_health *health = context;
	struct health_watch *watch = NULL;

	if (strlen(request->service) < NAME_BYTES && health->watching < WATCHES_MOST)
		watch = calloc(1, sizeof(*watch));
	if (!watch) {
		rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "too many watches");
		return;
	}
	strcpy(watch->name, request->service);
	watch->call = call;
	watch->next = health->watches;
	watch->link = &health->watches;
	if (watch->next)
		watch->next->link = &watch->next;
	health->watches = watch;
	health->watching++;
	rpc_call_on_cancel(call, watch_cancelled, health);
	watch_tell(health, watch);
}

int rpc_health_new(struct rpc_health **out, struct rpc_server *server, struct err *e)
{
	static const struct rpc_method methods[] = {
		{ "Check", RPC_UNARY, health_check },
		{ "Watch", RPC_SERVER_STREAM, health_watch },
	};
	struct rpc_health *health = calloc(1, sizeof(*health));
	int ret;

	*out = NULL;
	if (!health)
		return err_set(e, ENOMEM, "cannot make the health service: %m");
	health->service =
		(struct rpc_service){ &grpc__health__v1__health__descriptor, methods, 2, health };
	ret = rpc_server_add(server, &health->service, e);
	if (!ret)
		ret = rpc_health_set(health, "", true);
	if (ret) {
		rpc_health_free(health);
		return ret;
	}
	*out = health;
	return 0;
}

int rpc_health_set(struct rpc_health *health, const char *service, bool serving)
{
	struct health_entry *entry = health_find(health, service);

	if (!entry) {
		entry = calloc(1, sizeof(*entry) + strlen(service) + 1);
		if (!entry)
			return -ENOMEM;
		strcpy(entry->name, service);
		entry->next = health->entries;
		health->entries = entry;
	}
	entry->state = serving ? SERVING : NOT_SERVING;
	for (struct health_watch *watch = health->watches; watch; watch = watch->next)
		if (!strcmp(watch->name, service))
			watch_tell(health, watch);
	return 0;
}

void rpc_health_free(struct rpc_health *health)
{
	if (!health)
		return;
	while (health->watches) {
		struct rpc_call *call = health->watches->call;

		watch_free(health, health->watches);
		rpc_call_finish(call, RPC_UNAVAILABLE, "the server shuts down");
	}
	while (health->entries) {
		struct health_entry *next = health->entries->next;

		free(health->entries);
		health->entries = next;
	}
	free(health);
}
