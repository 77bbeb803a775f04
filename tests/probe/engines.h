/* SPDX-License-Identifier: BSD-3-Clause */
/* Two engines in this process, over loopback: one asks, one answers. The control plane between them is a
 * real server that knows one method. The wall clock is this file's, and can be stepped, and so is accept4,
 * which can say for one port that descriptors are out.
 *
 *	TEST(test_...)				runs it between set_up() and tear_down()
 *	add(2, 10 * NS_PER_MS, 0);
 *	r = next_of(PROBE_ANSWERED);
 *
 * Instead of the second engine a test can answer by itself:
 *
 *	static void answers_one(int fd)
 *	{
 *		if (peer_take(fd))
 *			peer_give(fd, 1, 1, 1);
 *	}
 *	peer_begin(answers_one);
 *	peer_add(25 * NS_PER_MS, 400 * NS_PER_MS);
 */
#ifndef WEIR_TESTS_PROBE_ENGINES_H
#define WEIR_TESTS_PROBE_ENGINES_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "probe/worker.h"
#include "rpc/proto/agent.pb-c.h"
#include "rpc/server.h"

#define PATIENCE_NS (60 * NS_PER_S)
#define PEER_BYTES  64 /* payloads of so many bytes are for the test's own peer */
#define PEER_FRAME  (PROBE_HEADER_BYTES + PEER_BYTES)
#define PEER_FRAMES 512

static _Atomic int64_t step_s; /* of the wall clock */

/* Instead of the C library's: all of weir reads the clock through it. */
int clock_gettime(clockid_t id, struct timespec *tp)
{
	int ret = (int)syscall(SYS_clock_gettime, id, tp);

	if (!ret && id == CLOCK_REALTIME)
		tp->tv_sec += step_s;
	return ret;
}

static _Atomic uint16_t refused_port; /* 0: none */
static _Atomic uint32_t refusals;

/* Instead of the C library's. */
int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct sock_addr at;

	if (refused_port && !sock_local(fd, &at) && sock_addr_port(&at) == refused_port) {
		refusals++;
		errno = EMFILE;
		return -1;
	}
	return (int)syscall(SYS_accept4, fd, addr, len, flags);
}

static struct fixture {
	struct loop loop;
	pthread_t thread;
	struct rpc_server *server;
	struct probe_engine *prober, *responder;
	uint16_t port;
	int peer; /* its listener; 0: there is none */
	uint16_t peer_port;
	pthread_t peer_thread;
	void (*peer_acts)(int fd);
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
	unsigned char token[PROBE_TOKEN_BYTES] = { 0 };
	uint16_t port = f.peer_port;

	(void)context;
	if (request->payload_bytes != PEER_BYTES &&
		probe_engine_expect(
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

/* A probe is read from the connection; false: it has ended. */
static bool peer_take(int fd)
{
	unsigned char bytes[PEER_FRAME];

	return recv(fd, bytes, sizeof(bytes), MSG_WAITALL) == sizeof(bytes);
}

/* As many answers at once; step 0: all of one sequence. false: the connection has ended. */
static bool peer_give(int fd, uint32_t first, uint32_t step, size_t count)
{
	static unsigned char bytes[PEER_FRAMES][PEER_FRAME];
	struct probe_header h = { .sequence = first, .payload_bytes = PEER_BYTES };

	for (size_t i = 0; i < count; i++, h.sequence += step)
		probe_header_encode(&h, bytes[i]);
	return send(fd, bytes, count * PEER_FRAME, MSG_NOSIGNAL) > 0;
}

static void *peer_main(void *context)
{
	unsigned char hello[PROBE_HELLO_BYTES], welcome[PROBE_HEADER_BYTES];
	int fd;

	(void)context;
	probe_header_encode(&(struct probe_header){ 0 }, welcome);
	while ((fd = accept(f.peer, NULL, NULL)) >= 0) {
		if (recv(fd, hello, sizeof(hello), MSG_WAITALL) == sizeof(hello) &&
			send(fd, welcome, sizeof(welcome), MSG_NOSIGNAL) > 0)
			f.peer_acts(fd);
		while (peer_take(fd)) /* what is not read would reset the connection */
			;
		close(fd);
	}
	return NULL;
}

static void peer_begin(void (*acts)(int fd))
{
	struct sock_listen how = { .backlog = 4 };
	struct sock_addr at = address(2);

	f.peer_acts = acts;
	f.peer = sock_listen(&at, &how, NULL);
	assert_true(f.peer > 0);
	assert_int_equal(fcntl(f.peer, F_SETFL, 0), 0);
	sock_local(f.peer, &at);
	f.peer_port = sock_addr_port(&at);
	assert_int_equal(pthread_create(&f.peer_thread, NULL, peer_main, NULL), 0);
}

static void peer_end(void)
{
	if (!f.peer)
		return;
	shutdown(f.peer, SHUT_RDWR);
	pthread_join(f.peer_thread, NULL);
	close(f.peer);
	f.peer = 0;
}

static int set_up(void **state)
{
	struct sock_addr at = address(2);
	int port;

	(void)state;
	step_s = 0;
	refused_port = 0;
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
	peer_end();
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

static struct probe_target *peer_add(uint64_t period_ns, uint64_t timeout_ns)
{
	struct probe_want want = { .local = address(1),
		.peer = address(2),
		.period_ns = period_ns,
		.timeout_ns = timeout_ns,
		.payload_bytes = PEER_BYTES };
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
