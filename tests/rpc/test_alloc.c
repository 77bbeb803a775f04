// SPDX-License-Identifier: BSD-3-Clause
/* Every allocation of weir's own code fails once while a server and a client talk in this process: calls end, nothing is left
 * behind (the sanitizer tells at the end), no descriptor stays open. The linker leads malloc and its kin here (--wrap). */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "rpc/client.h"
#include "rpc/health.h"
#include "rpc/proto/health.pb-c.h"
#include "rpc/proto/prober.pb-c.h"
#include "rpc/reflection.h"
#include "rpc/server.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
char *__wrap_strdup(const char *text);

static unsigned long allocations, fail_at;

static bool fails(void)
{
	if (++allocations != fail_at)
		return false;
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t bytes)
{
	return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	return fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
	return fails() ? NULL : __real_realloc(old, bytes);
}

char *__wrap_strdup(const char *text)
{
	return fails() ? NULL : __real_strdup(text);
}

#define PATIENCE_NS (200 * NS_PER_MS)

static struct loop loop;
static unsigned int ended, good;

static void start_pings(struct rpc_call *call, const ProtobufCMessage *message, void *context)
{
	const Dxs__Prober__StartPingsRequest *request = (const void *)message;
	Dxs__Prober__ConnectionResults results = DXS__PROBER__CONNECTION_RESULTS__INIT;
	Dxs__Prober__Result one = DXS__PROBER__RESULT__SUCCESS;

	(void)context;
	results.n_results = 1;
	results.results = &one;
	rpc_call_add_detail(call, &results.base);
	rpc_call_finish(call, request->n_targets == 1 ? RPC_INTERNAL : RPC_DATA_LOSS, "ended");
}

static void answered(void *context, const struct rpc_reply *reply)
{
	good += reply->code == *(const enum rpc_code *)context;
	if (++ended == 3)
		loop_stop(&loop);
}

static void state_received(void *context, const ProtobufCMessage *message)
{
	(void)context;
	(void)message;
}

static void out_of_time(struct loop *l, struct loop_timer *timer)
{
	(void)timer;
	loop_stop(l);
}

/* A failure with words and details, a reply, and a stream that ends at its deadline. */
static void talk(struct rpc_client *client)
{
	static const enum rpc_code expected[] = { RPC_INTERNAL, RPC_OK, RPC_DEADLINE_EXCEEDED };
	Dxs__Prober__Target target = DXS__PROBER__TARGET__INIT, *targets = &target;
	Dxs__Prober__StartPingsRequest start = DXS__PROBER__START_PINGS_REQUEST__INIT;
	Grpc__Health__V1__HealthCheckRequest check = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
	struct rpc_request request = { .done = answered, .deadline_ns = clock_ns() + PATIENCE_NS };
	struct loop_timer guard = { 0 };

	start.targets = &targets;
	start.n_targets = 1;
	for (int i = 0; i < 3; i++) {
		request.service = i ? &grpc__health__v1__health__descriptor
				    : &dxs__prober__agent_service__descriptor;
		request.method = i == 0 ? "StartPings" : i == 1 ? "Check" : "Watch";
		request.message = i ? &check.base : &start.base;
		request.received = i == 2 ? state_received : NULL;
		request.context = (void *)&expected[i];
		if (i == 2)
			request.deadline_ns = clock_ns() + 10 * NS_PER_MS;
		if (rpc_client_call(client, &request, NULL))
			ended++;
	}
	loop_timer_set(&loop, &guard, clock_ns() + 2 * PATIENCE_NS, out_of_time);
	assert_int_equal(loop_run(&loop, NULL), 0);
	loop_timer_cancel(&loop, &guard);
	assert_int_equal(ended, 3);
}

static void attempt(void)
{
	static const struct rpc_method methods[] = { { "StartPings", RPC_UNARY, start_pings } };
	static const struct rpc_service service = { &dxs__prober__agent_service__descriptor,
		methods, 1, NULL };
	struct rpc_server_options options = { .limits = { .patience_ns = PATIENCE_NS } };
	struct rpc_client_options from = { .server_name = "x" };
	struct rpc_server *server = NULL;
	struct rpc_health *health = NULL;
	struct rpc_client *client = NULL;
	struct sock_addr addr[SOCK_ADDRS];
	size_t count;
	int port;

	ended = good = 0;
	assert_int_equal(loop_init(&loop, NULL, NULL), 0);
	if (sock_resolve("127.0.0.1", "0", AF_INET, true, addr, &count, NULL) ||
		rpc_server_new(&server, &loop, &options, NULL) ||
		rpc_health_new(&health, server, NULL) || rpc_server_add(server, &service, NULL) ||
		rpc_reflection_add(server, NULL))
		goto done;
	port = rpc_server_listen(server, &addr[0], NULL);
	if (port < 0)
		goto done;
	sock_addr_set_port(&addr[0], (uint16_t)port);
	if (!rpc_client_new(&client, &loop, &addr[0], &from, NULL))
		talk(client);
done:
	rpc_client_free(client);
	rpc_health_free(health);
	rpc_server_free(server);
	loop_close(&loop);
}

static unsigned int descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned int count = 0;

	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static void test_each_allocation_may_fail_and_nothing_is_left(void **state)
{
	unsigned long all;
	unsigned int open_before;

	(void)state;
	allocations = fail_at = 0;
	attempt();
	all = allocations;
	assert_int_equal(good, 3);
	assert_true(all > 20);
	open_before = descriptors();
	for (unsigned long at = 1; at <= all; at++) {
		allocations = 0;
		fail_at = at;
		attempt();
		fail_at = 0;
		assert_int_equal(descriptors(), open_before);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_allocation_may_fail_and_nothing_is_left),
	};

	return cmocka_run_group_tests_name("rpc/alloc", tests, NULL, NULL);
}
