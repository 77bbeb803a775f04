// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rpc/frame.h"
#include "rpc/proto/prober.pb-c.h"

static struct rpc_budget budget;

static struct rpc_frame_reader reader(size_t limit, size_t held)
{
	budget = (struct rpc_budget){ .limit = held };
	return (struct rpc_frame_reader){ .budget = &budget, .limit = limit };
}

static void test_messages_are_read_however_they_are_cut(void **state)
{
	static const uint8_t bytes[] = "\0\0\0\0\3abc\0\0\0\0\0\0\0\0\0\2de";

	(void)state;
	for (size_t cut = 1; cut < sizeof(bytes); cut++) {
		struct rpc_frame_reader in = reader(10, 100);
		char read[16] = "";
		size_t at = 0, used;

		while (at < sizeof(bytes) - 1) {
			size_t n = sizeof(bytes) - 1 - at < cut ? sizeof(bytes) - 1 - at : cut;
			int ret = rpc_frame_feed(&in, bytes + at, n, &used);

			assert_true(ret == 0 || ret == 1);
			at += used;
			if (ret == 1) {
				strncat(read, (char *)in.body ? (char *)in.body : "", in.length);
				strcat(read, ".");
				rpc_frame_reset(&in);
				assert_true(rpc_frame_at_boundary(&in));
			}
		}
		assert_string_equal(read, "abc..de.");
		assert_int_equal(budget.used, 0);
	}
}

static void test_a_prefix_that_cannot_be_is_refused(void **state)
{
	struct rpc_frame_reader in = reader(10, 100);
	size_t used;

	(void)state;
	assert_int_equal(rpc_frame_feed(&in, (const uint8_t *)"\2\0\0\0\0", 5, &used), -EPROTO);
	rpc_frame_reset(&in);
	assert_int_equal(rpc_frame_feed(&in, (const uint8_t *)"\1\0\0\0\0", 5, &used), -EOPNOTSUPP);
	rpc_frame_reset(&in);
	assert_int_equal(rpc_frame_feed(&in, (const uint8_t *)"\0\0\0\0\13", 5, &used), -EMSGSIZE);
	rpc_frame_reset(&in);
	assert_int_equal(
		rpc_frame_feed(&in, (const uint8_t *)"\0\377\377\377\377", 5, &used), -EMSGSIZE);
	rpc_frame_reset(&in);
}

static void test_memory_follows_the_bytes_not_the_length(void **state)
{
	struct rpc_frame_reader in = reader(100 << 20, 1 << 20);
	uint8_t data[4096] = { 0 };
	size_t used;

	(void)state;
	assert_int_equal(rpc_frame_feed(&in, (const uint8_t *)"\0\4\0\0\0x", 6, &used), 0);
	assert_true(budget.used <= 1024);
	for (int i = 0; i < 100; i++)
		assert_int_equal(rpc_frame_feed(&in, data, sizeof(data), &used), 0);
	assert_true(budget.used < 3 * 100 * sizeof(data));
	for (int i = 0; i < 1000; i++)
		if (rpc_frame_feed(&in, data, sizeof(data), &used) == -ENOBUFS) {
			rpc_frame_reset(&in);
			assert_int_equal(budget.used, 0);
			return;
		}
	fail();
}

static void test_a_part_of_a_budget_ends_before_the_whole_and_with_it(void **state)
{
	struct rpc_budget part[2] = { { .limit = 600, .of = &budget },
		{ .limit = 600, .of = &budget } };
	struct rpc_frame_reader in[3] = { reader(500, 1000) };
	static const uint8_t begun[] = "\0\0\0\1\364x"; /* of 500 bytes */
	size_t used;

	(void)state;
	in[2] = in[1] = in[0];
	in[0].budget = in[1].budget = &part[0];
	in[2].budget = &part[1];
	assert_int_equal(rpc_frame_feed(&in[0], begun, 6, &used), 0);
	assert_int_equal(rpc_frame_feed(&in[1], begun, 6, &used), -ENOBUFS);
	assert_int_equal(rpc_frame_feed(&in[2], begun, 6, &used), 0);
	assert_int_equal(budget.used, 1000);
	rpc_frame_reset(&in[0]);
	rpc_frame_reset(&in[1]);
	budget.limit = 900;
	assert_int_equal(rpc_frame_feed(&in[0], begun, 6, &used), -ENOBUFS);
	rpc_frame_reset(&in[0]);
	rpc_frame_reset(&in[2]);
	assert_int_equal(part[0].used + part[1].used + budget.used, 0);
}

static void test_a_queue_gives_back_what_was_pushed(void **state)
{
	Dxs__Prober__SetUpReply reply = DXS__PROBER__SET_UP_REPLY__INIT;
	struct rpc_frame_queue out = { .budget = &budget };
	uint8_t bytes[64];
	size_t n = 0, taken;

	(void)state;
	budget = (struct rpc_budget){ .limit = 40 };
	for (reply.dxs_port = 1; reply.dxs_port <= 3; reply.dxs_port++)
		assert_int_equal(rpc_frame_push(&out, &reply.base), 0);
	assert_int_equal(out.bytes, 21);
	do {
		taken = rpc_frame_take(&out, bytes + n, 4);
		n += taken;
	} while (taken);
	assert_int_equal(n, 21);
	assert_memory_equal(bytes, "\0\0\0\0\2\10\1\0\0\0\0\2\10\2\0\0\0\0\2\10\3", 21);
	assert_int_equal(budget.used, 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(rpc_frame_push(&out, &reply.base), 0);
	assert_int_equal(rpc_frame_push(&out, &reply.base), -ENOBUFS);
	rpc_frame_drop(&out);
	assert_int_equal(budget.used, 0);
	assert_int_equal(rpc_frame_push(&out, &reply.base), 0);
	rpc_frame_drop(&out);
}

static void test_unpacking_is_bounded(void **state)
{
	static uint8_t targets[1 << 20];
	struct rpc_arena arena;

	(void)state;
	for (size_t i = 0; i < sizeof(targets); i += 2)
		targets[i] = 0x1a; /* an empty target: two bytes */
	assert_null(rpc_unpack(&arena, sizeof(targets),
		&dxs__prober__start_pings_request__descriptor, targets, sizeof(targets)));
	assert_true(arena.bytes <= sizeof(targets) * RPC_ARENA_RATIO);
	rpc_arena_free(&arena);
	assert_non_null(rpc_unpack(&arena, sizeof(targets),
		&dxs__prober__start_pings_request__descriptor, targets, 2000));
	rpc_arena_free(&arena);
	assert_non_null(
		rpc_unpack(&arena, 0, &dxs__prober__start_pings_request__descriptor, NULL, 0));
	rpc_arena_free(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages_are_read_however_they_are_cut),
		cmocka_unit_test(test_a_prefix_that_cannot_be_is_refused),
		cmocka_unit_test(test_memory_follows_the_bytes_not_the_length),
		cmocka_unit_test(test_a_part_of_a_budget_ends_before_the_whole_and_with_it),
		cmocka_unit_test(test_a_queue_gives_back_what_was_pushed),
		cmocka_unit_test(test_unpacking_is_bounded),
	};

	return cmocka_run_group_tests_name("rpc/frame", tests, NULL, NULL);
}
