/* SPDX-License-Identifier: BSD-3-Clause */
/* Two engines in this process, over loopback: one asks, one answers. The control plane between them is a
 * real server that knows one method. The wall clock is this file's, and can be stepped.
 *
 *	TEST(test_...)				runs it between set_up() and tear_down()
 *	add(2, 10 * NS_PER_MS, 0);
 *	r = next_of(PROBE_ANSWERED);
 */
#ifndef WEIR_TESTS_PROBE_ENGINES_H
#define WEIR_TESTS_PROBE_ENGINES_H

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "probe/worker.h"
#include "rpc/proto/agent.pb-c.h"
#include "rpc/server.h"

#define PATIENCE_NS (60 * NS_PER_S)

static _Atomic int64_t step_s; /* of the wall clock */

/* Instead of the C library's: all of weir reads the clock through it. */
int clock_gettime(clockid_t id, struct timespec *tp)
{
	int ret = (int)syscall(SYS_clock_gettime, id, tp);

	if (!ret && id == CLOCK_REALTIME)
		tp->tv_sec += step_s;
	return ret;
}

static struct fixture {
	struct loop loop;
	pthread_t thread;
	struct rpc_server *server;
	struct probe_engine *prober, *responder;
	uint16_t port;
} f;

static struct sock_addr address(int agent)
{
	struct sock_addr addr[SOCK_ADDRS];
	char text[32];
	size_t count;

	snprintf(text, sizeof(text), "127.%d.%d.1", 20 + getpid() % 200, agent);
	assert_int_equal(sock_resolve(text, "0", AF_INET, true, addr, &count, NULL), 0);
	return addr[0];
}

static void set_up_probe(struct rpc_call *call, const ProtobufCMessage *message, void *context)
{
	const Weir__V1__SetUpProbeRequest *request = (const void *)message;
	Weir__V1__SetUpProbeReply reply = WEIR__V1__SET_UP_PROBE_REPLY__INIT;
	struct sock_addr from = address(1), to = address(2);
	unsigned char token[PROBE_TOKEN_BYTES];
	uint16_t port;

	(void)context;
	if (probe_engine_expect(
		    f.responder, &from, &to, request->payload_bytes, token, &port, NULL)) {
		rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "no");
		return;
	}
	reply.port = port;
	reply.token.data = token;
	reply.token.len = sizeof(token);
	rpc_call_reply(call, &reply.base);
}

static const struct rpc_method methods[] = { { "SetUpProbe", RPC_UNARY, set_up_probe } };
static const struct rpc_service service = { &weir__v1__agent__descriptor, methods, 1, NULL };

static void *serve(void *context)
{
	(void)context;
	loop_run(&f.loop, NULL);
	return NULL;
}

static void woken(struct loop *l)
{
	loop_stop(l);
}

static struct probe_engine *engine_at(int agent)
{
	struct probe_nic nic = { .addr = address(agent) };
	struct probe_config config = { .nic = &nic, .nics = 1, .control_port = f.port };
	struct probe_engine *engine;

	assert_int_equal(probe_engine_new(&engine, &config, NULL), 0);
	return engine;
}

static int set_up(void **state)
{
	struct sock_addr at = address(2);
	int port;

	(void)state;
	step_s = 0;
	assert_int_equal(loop_init(&f.loop, woken, NULL), 0);
	assert_int_equal(rpc_server_new(&f.server, &f.loop, NULL, NULL), 0);
	assert_int_equal(rpc_server_add(f.server, &service, NULL), 0);
	port = rpc_server_listen(f.server, &at, NULL);
	assert_true(port > 0);
	f.port = (uint16_t)port;
	f.prober = engine_at(1);
	f.responder = engine_at(2);
	return pthread_create(&f.thread, NULL, serve, NULL);
}

static int tear_down(void **state)
{
	(void)state;
	probe_engine_free(f.prober);
	loop_wake(&f.loop);
	pthread_join(f.thread, NULL);
	rpc_server_free(f.server);
	loop_close(&f.loop);
	probe_engine_free(f.responder);
	return 0;
}

static struct probe_target *add(int peer, uint64_t period_ns, uint32_t copy)
{
	struct probe_want want = { .local = address(1),
		.peer = address(peer),
		.period_ns = period_ns,
		.payload_bytes = 100,
		.copy = copy,
		.verify = true };
	struct probe_target *target;

	assert_int_equal(probe_engine_add(f.prober, &target, &want, NULL), 0);
	return target;
}

static struct probe_result next(void)
{
	uint64_t end_ns = clock_ns() + PATIENCE_NS;
	struct probe_result r;

	while (!probe_engine_next(f.prober, &r)) {
		assert_true(clock_ns() < end_ns);
		usleep(1000);
	}
	return r;
}

static struct probe_result next_of(enum probe_kind kind)
{
	struct probe_result r;

	do
		r = next();
	while (r.kind != kind);
	return r;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
