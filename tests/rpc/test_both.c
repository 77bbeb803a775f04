// SPDX-License-Identifier: BSD-3-Clause
/* Server and client on one loop: what a program that has both sees. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "rpc/client.h"
#include "rpc/proto/prober.pb-c.h"
#include "rpc/server.h"

static struct fixture {
	struct loop loop;
	struct loop_timer guard;
	struct rpc_server *server;
	struct rpc_client *client;
	struct sock_addr addr;
	struct rpc_call *held;
	unsigned int handled, cancelled, done, again;
	enum rpc_code code;
	int32_t port;
} f;

static void set_up_pong(struct rpc_call *call, const ProtobufCMessage *message, void *context)
{
	const Dxs__Prober__SetUpRequest *request = (const void *)message;
	Dxs__Prober__SetUpReply reply = DXS__PROBER__SET_UP_REPLY__INIT;

	assert_ptr_equal(context, &f);
	f.handled++;
	reply.dxs_port = request->client_dxs_port + 1;
	rpc_call_reply(call, &reply.base);
}

static void hold_cancelled(struct rpc_call *call, void *context)
{
	(void)context;
	assert_ptr_equal(call, f.held);
	f.cancelled++;
}

static void tear_down(struct rpc_call *call, const ProtobufCMessage *message, void *context)
{
	(void)message;
	(void)context;
	f.held = call;
	rpc_call_on_cancel(call, hold_cancelled, NULL);
	if (f.again == 99)
		loop_stop(&f.loop);
}

static const struct rpc_method methods[] = {
	{ "SetUpPongConnection", RPC_UNARY, set_up_pong },
	{ "TearDownConnection", RPC_UNARY, tear_down },
};
static const struct rpc_service service = { &dxs__prober__connection_manager__descriptor, methods,
	2, &f };

static void too_late(struct loop *l, struct loop_timer *timer)
{
	(void)timer;
	f.code = (enum rpc_code)1000;
	loop_stop(l);
}

static int set_up(void **state)
{
	size_t count;
	struct sock_addr addr[SOCK_ADDRS];

	(void)state;
	memset(&f, 0, sizeof(f));
	if (loop_init(&f.loop, NULL, NULL) || rpc_server_new(&f.server, &f.loop, NULL, NULL) ||
		rpc_server_add(f.server, &service, NULL) ||
		sock_resolve("127.0.0.1", "0", AF_UNSPEC, true, addr, &count, NULL))
		return -1;
	f.addr = addr[0];
	sock_addr_set_port(&f.addr, (uint16_t)rpc_server_listen(f.server, &f.addr, NULL));
	loop_timer_set(&f.loop, &f.guard, clock_ns() + 20 * NS_PER_S, too_late);
	return rpc_client_new(&f.client, &f.loop, &f.addr, NULL, NULL);
}

static int clean_up(void **state)
{
	(void)state;
	rpc_client_free(f.client);
	rpc_server_free(f.server);
	loop_close(&f.loop);
	return 0;
}

static void answered(void *context, const struct rpc_reply *reply)
{
	const Dxs__Prober__SetUpReply *set_up_reply = (const void *)reply->message;
	Dxs__Prober__SetUpRequest message = DXS__PROBER__SET_UP_REQUEST__INIT;
	struct rpc_request request = { .service = service.descriptor,
		.method = "SetUpPongConnection",
		.message = &message.base,
		.deadline_ns = clock_ns() + 5 * NS_PER_S,
		.done = answered,
		.context = context };

	f.done++;
	f.code = reply->code;
	if (set_up_reply && set_up_reply->base.descriptor == &dxs__prober__set_up_reply__descriptor)
		f.port = set_up_reply->dxs_port;
	if (!f.again || f.again == 99) {
		loop_stop(&f.loop);
		return;
	}
	f.again--;
	message.client_dxs_port = f.port;
	assert_int_equal(rpc_client_call(f.client, &request, NULL), 0);
}

static void call(const char *method, const ProtobufCMessage *message, uint64_t limit_ns)
{
	struct rpc_request request = { .service = service.descriptor,
		.method = method,
		.message = message,
		.deadline_ns = clock_ns() + limit_ns,
		.done = answered };

	assert_int_equal(rpc_client_call(f.client, &request, NULL), 0);
	assert_int_equal(f.done, 0);
}

static void call_set_up(int32_t port)
{
	Dxs__Prober__SetUpRequest message = DXS__PROBER__SET_UP_REQUEST__INIT;

	message.client_dxs_port = port;
	call("SetUpPongConnection", &message.base, 10 * NS_PER_S);
}

static void call_tear_down(uint64_t limit_ns)
{
	Dxs__Prober__TearDownRequest message = DXS__PROBER__TEAR_DOWN_REQUEST__INIT;

	call("TearDownConnection", &message.base, limit_ns);
}

static void test_a_callback_may_make_the_next_call(void **state)
{
	struct rpc_server_stats stats;

	(void)state;
	f.again = 50;
	call_set_up(1);
	assert_int_equal(loop_run(&f.loop, NULL), 0);
	assert_int_equal(f.code, RPC_OK);
	assert_int_equal(f.handled, 51);
	assert_int_equal(f.port, 52);
	rpc_server_stats(f.server, &stats);
	assert_int_equal(stats.accepted, 1);
}

static void test_a_held_call_outlives_its_client_and_its_server(void **state)
{
	Dxs__Prober__TearDownReply reply = DXS__PROBER__TEAR_DOWN_REPLY__INIT;

	(void)state;
	f.again = 99;
	call_tear_down(10 * NS_PER_S);
	assert_int_equal(loop_run(&f.loop, NULL), 0);
	assert_non_null(f.held);
	rpc_server_free(f.server);
	f.server = NULL;
	assert_int_equal(f.cancelled, 1);
	assert_int_equal(rpc_call_send(f.held, &reply.base), -ECANCELED);
	rpc_call_reply(f.held, &reply.base);
}

static void test_a_deadline_is_told_to_both_ends(void **state)
{
	(void)state;
	call_tear_down(50 * NS_PER_MS);
	assert_int_equal(loop_run(&f.loop, NULL), 0);
	assert_int_equal(f.code, RPC_DEADLINE_EXCEEDED);
	while (!f.cancelled) { /* the server's own timer, or the client's reset, whichever is first */
		f.again = 0;
		f.done = 0;
		call_set_up(1);
		assert_int_equal(loop_run(&f.loop, NULL), 0);
	}
	assert_true(rpc_call_deadline_ns(f.held) < clock_ns());
	rpc_call_finish(f.held, RPC_OK, NULL);
}

static void test_a_call_that_waits_may_be_dropped_with_its_client(void **state)
{
	(void)state;
	call_set_up(1); /* not even connected */
	rpc_client_free(f.client);
	f.client = NULL;
	assert_int_equal(f.done, 0);
}

static void test_an_unknown_method_is_refused_at_once(void **state)
{
	Dxs__Prober__SetUpRequest message = DXS__PROBER__SET_UP_REQUEST__INIT;
	struct rpc_request request = { .service = service.descriptor,
		.method = "NoSuch",
		.message = &message.base,
		.done = answered };
	struct err e = { 0 };

	(void)state;
	assert_int_equal(rpc_client_call(f.client, &request, &e), -EINVAL);
	assert_string_equal(e.what, "dxs.prober.ConnectionManager has no method NoSuch");
}

static void test_a_lost_connection_is_made_again_by_the_next_call(void **state)
{
	struct sock_addr addr = f.addr;

	(void)state;
	call_set_up(1);
	assert_int_equal(loop_run(&f.loop, NULL), 0);
	rpc_server_free(f.server);
	f.done = 0;
	call_set_up(1);
	assert_int_equal(loop_run(&f.loop, NULL), 0);
	assert_int_equal(f.code, RPC_UNAVAILABLE);
	assert_int_equal(rpc_server_new(&f.server, &f.loop, NULL, NULL), 0);
	assert_int_equal(rpc_server_add(f.server, &service, NULL), 0);
	assert_true(rpc_server_listen(f.server, &addr, NULL) > 0);
	f.done = 0;
	call_set_up(5);
	assert_int_equal(loop_run(&f.loop, NULL), 0);
	assert_int_equal(f.code, RPC_OK);
	assert_int_equal(f.port, 6);
}

static void one_answered(void *context, const struct rpc_reply *reply)
{
	(void)context;
	if (reply->code)
		f.code = reply->code;
	if (++f.done == 2)
		loop_stop(&f.loop);
}

static void call_with_text(size_t length)
{
	Dxs__Prober__SetUpRequest message = DXS__PROBER__SET_UP_REQUEST__INIT;
	struct rpc_request request = { .service = service.descriptor,
		.method = "SetUpPongConnection",
		.message = &message.base,
		.deadline_ns = clock_ns() + 10 * NS_PER_S,
		.done = one_answered };

	message.client_gpu_ip = calloc(1, length + 1);
	assert_non_null(message.client_gpu_ip);
	memset(message.client_gpu_ip, 'a', length);
	assert_int_equal(rpc_client_call(f.client, &request, NULL), 0);
	free(message.client_gpu_ip);
}

/* The first call's frames nearly fill a round, to each byte of it, when a whole frame of the second comes. */
static void test_calls_of_any_length_share_a_round_of_output(void **state)
{
	(void)state;
	for (size_t length = 16200; length < 16400; length++) {
		f.done = 0;
		call_with_text(length);
		call_with_text(40000);
		assert_int_equal(loop_run(&f.loop, NULL), 0);
		assert_int_equal(f.code, RPC_OK);
		assert_int_equal(f.done, 2);
	}
}

static size_t add_details(size_t bytes)
{
	Dxs__Prober__SetUpRequest detail = DXS__PROBER__SET_UP_REQUEST__INIT;
	size_t added = 0;
	int ret = 0;

	detail.client_gpu_ip = calloc(1, bytes + 1);
	assert_non_null(detail.client_gpu_ip);
	memset(detail.client_gpu_ip, 'a', bytes);
	while (!ret && added < 1000) {
		ret = rpc_call_add_detail(f.held, &detail.base);
		added += !ret;
	}
	free(detail.client_gpu_ip);
	assert_int_equal(ret, -EMSGSIZE);
	return added;
}

static void test_details_that_the_server_takes_are_taken_by_the_client(void **state)
{
	static const size_t sizes[] = { 0, 1, 1000, 19000 };
	char words[2000] = { 0 };

	(void)state;
	memset(words, 1, sizeof(words) - 1); /* three bytes each, where they are encoded */
	f.again = 99;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		f.done = 0;
		call_tear_down(10 * NS_PER_S);
		assert_int_equal(loop_run(&f.loop, NULL), 0);
		assert_true(add_details(sizes[i]) * (sizes[i] + 80) > 19000);
		add_details(0);
		rpc_call_finish(f.held, RPC_INTERNAL, "%s", words);
		assert_int_equal(loop_run(&f.loop, NULL), 0);
		assert_int_equal(f.done, 1);
		assert_int_equal(f.code, RPC_INTERNAL);
	}
}

static void test_plaintext_beyond_loopback_is_refused_unless_asked_for(void **state)
{
	struct rpc_server_options options = { .insecure = true };
	struct sock_addr addr[SOCK_ADDRS];
	struct rpc_server *open_server;
	struct err e = { 0 };
	size_t count;

	(void)state;
	assert_int_equal(sock_resolve("0.0.0.0", "0", AF_UNSPEC, true, addr, &count, NULL), 0);
	assert_int_equal(rpc_server_listen(f.server, &addr[0], &e), -EPERM);
	assert_non_null(strstr(e.what, "without TLS"));
	assert_non_null(strstr(e.hint, "--insecure"));
	assert_int_equal(rpc_server_new(&open_server, &f.loop, &options, NULL), 0);
	assert_true(rpc_server_listen(open_server, &addr[0], &e) > 0);
	rpc_server_free(open_server);
}

static void test_a_table_with_a_method_that_is_not_there_is_refused(void **state)
{
	static const struct rpc_method wrong[] = { { "NoSuch", RPC_UNARY, tear_down } };
	struct rpc_service bad = { service.descriptor, wrong, 1, NULL };

	(void)state;
	assert_int_equal(rpc_server_add(f.server, &bad, NULL), -EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, clean_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_callback_may_make_the_next_call),
		TEST(test_a_held_call_outlives_its_client_and_its_server),
		TEST(test_a_deadline_is_told_to_both_ends),
		TEST(test_a_call_that_waits_may_be_dropped_with_its_client),
		TEST(test_an_unknown_method_is_refused_at_once),
		TEST(test_a_lost_connection_is_made_again_by_the_next_call),
		TEST(test_calls_of_any_length_share_a_round_of_output),
		TEST(test_details_that_the_server_takes_are_taken_by_the_client),
		TEST(test_plaintext_beyond_loopback_is_refused_unless_asked_for),
		TEST(test_a_table_with_a_method_that_is_not_there_is_refused),
	};

	return cmocka_run_group_tests_name("rpc/both", tests, NULL, NULL);
}
