// SPDX-License-Identifier: BSD-3-Clause
/* What an engine moves, and how it shares its channels. */
#include "ends.h"

static void test_messages_of_every_length_arrive(void **state)
{
	static const uint64_t sizes[] = { 0, 1, 4096, XFER_INLINE_MAX, XFER_INLINE_MAX + 1, 65536,
		65537, 1 << 20, 3 << 20 };
	struct ends t = { 0 };

	(void)state;
	ends_open(&t);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		exchange(&t, 13 * i, sizes[i], 5 * i, sizes[i]);
		memset(t.b.memory, 0, MEMORY);
		exchange(&t, 13 * i, sizes[i], 5 * i, sizes[i] + 1000);
	}
	ends_close(&t);
}

static void test_messages_that_come_first_wait_in_order(void **state)
{
	struct weir_p2p_transfer *s[100], *r[100];
	struct ends t = { 0 };
	struct weir_error error;

	(void)state;
	ends_open(&t);
	for (int i = 0; i < 100; i++)
		assert_int_equal(weir_p2p_send(t.a.conn, t.a.region, (uint64_t)i * 3000,
					 i % 3 ? 100 : 40000, &s[i], NULL),
			0);
	for (int i = 0; i < 1000; i++)
		turn(&t);
	/* So far only what there is credit for. */
	assert_int_equal(t.b.conn->unexpected_count, XFER_CREDIT);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(weir_p2p_recv(t.b.conn, t.b.region, 0, 40000, &r[i], &error), 0);
		assert_int_equal(finish(&t, r[i], NULL, &error), 1);
		assert_memory_equal(t.b.memory, t.a.memory + i * 3000, i % 3 ? 100 : 40000);
		assert_int_equal(finish(&t, s[i], NULL, &error), 1);
	}
	ends_close(&t);
}

static void test_a_message_that_is_too_long_fails_alone(void **state)
{
	static const uint64_t sizes[] = { 1000, 100000 };
	struct weir_p2p_transfer *s, *r;
	struct ends t = { 0 };
	struct weir_error error;

	(void)state;
	ends_open(&t);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(weir_p2p_recv(t.b.conn, t.b.region, 0, sizes[i] - 1, &r, NULL), 0);
		assert_int_equal(weir_p2p_send(t.a.conn, t.a.region, 0, sizes[i], &s, NULL), 0);
		assert_int_equal(finish(&t, r, NULL, &error), -EMSGSIZE);
		assert_string_equal(error.what, "the message is longer than the receive");
		/* A short one was gone when that was seen. */
		assert_int_equal(finish(&t, s, NULL, &error), i ? -EMSGSIZE : 1);
	}
	exchange(&t, 0, 200000, 0, 200000);
	ends_close(&t);
}

static void test_both_ways_at_once(void **state)
{
	struct weir_p2p_transfer *x[4];
	struct ends t = { 0 };

	(void)state;
	ends_open(&t);
	memset(t.b.memory + (2 << 20), 0x5a, 1 << 20);
	assert_int_equal(weir_p2p_recv(t.b.conn, t.b.region, 0, 1 << 20, &x[0], NULL), 0);
	assert_int_equal(weir_p2p_recv(t.a.conn, t.a.region, 2 << 20, 1 << 20, &x[1], NULL), 0);
	assert_int_equal(weir_p2p_send(t.b.conn, t.b.region, 2 << 20, 1 << 20, &x[2], NULL), 0);
	assert_int_equal(weir_p2p_send(t.a.conn, t.a.region, 0, 1 << 20, &x[3], NULL), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(finish(&t, x[i], NULL, NULL), 1);
	assert_memory_equal(t.b.memory, t.a.memory, 1 << 20);
	assert_memory_equal(t.a.memory + (2 << 20), t.b.memory + (2 << 20), 1 << 20);
	ends_close(&t);
}

static void test_write_and_read_reach_the_named_place(void **state)
{
	static const uint64_t sizes[] = { 0, 1, 1000, 100000, 1 << 20 };
	struct ends t = { 0 };
	struct weir_p2p_transfer *x;
	uint64_t key;

	(void)state;
	ends_open(&t);
	key = weir_p2p_key(t.b.region);
	for (int i = 0; i < 5; i++) {
		memset(t.b.memory, 0, MEMORY);
		assert_int_equal(
			weir_p2p_write(t.a.conn, t.a.region, 17, sizes[i], key, 4321, &x, NULL), 0);
		assert_int_equal(finish(&t, x, NULL, NULL), 1);
		assert_memory_equal(t.b.memory + 4321, t.a.memory + 17, sizes[i]);
		assert_int_equal(t.b.memory[4320] | t.b.memory[4321 + sizes[i]], 0);
		assert_int_equal(
			weir_p2p_read(t.a.conn, t.a.region, 3 << 20, sizes[i], key, 4321, &x, NULL),
			0);
		assert_int_equal(finish(&t, x, NULL, NULL), 1);
		assert_memory_equal(t.a.memory + (3 << 20), t.b.memory + 4321, sizes[i]);
	}
	ends_close(&t);
}

static void test_one_sided_requests_out_of_range_are_refused_and_the_connection_survives(
	void **state)
{
	static const struct {
		uint64_t bytes, offset;
		int key_error, expected;
	} wrong[] = {
		{ 1000, MEMORY - 999, 0, -ERANGE },
		{ 1 << 20, MEMORY - (1 << 20) + 1, 0, -ERANGE },
		{ 1000, UINT64_MAX - 10, 0, -ERANGE },
		{ 1 << 20, UINT64_MAX, 0, -ERANGE },
		{ 1000, 0, 4096, -ENOENT },
		{ 1 << 20, 0, 4096, -ENOENT },
		{ 1000, 0, 7, -ENOENT },
	};
	struct ends t = { 0 };
	struct weir_p2p_transfer *x;
	struct weir_error error;
	uint64_t key;

	(void)state;
	ends_open(&t);
	key = weir_p2p_key(t.b.region);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(
			weir_p2p_write(t.a.conn, t.a.region, 0, wrong[i].bytes,
				key ^ (uint64_t)wrong[i].key_error, wrong[i].offset, &x, NULL),
			0);
		assert_int_equal(finish(&t, x, NULL, &error), wrong[i].expected);
		assert_int_equal(
			weir_p2p_read(t.a.conn, t.a.region, 0, wrong[i].bytes,
				key ^ (uint64_t)wrong[i].key_error, wrong[i].offset, &x, NULL),
			0);
		assert_int_equal(finish(&t, x, NULL, &error), wrong[i].expected);
	}
	for (size_t i = 0; i < MEMORY; i++)
		assert_int_equal(t.b.memory[i], 0);
	assert_int_equal(t.b.conn->stats.refused, 14);
	exchange(&t, 0, 1 << 20, 0, 1 << 20);
	ends_close(&t);
}

static void test_what_a_registration_does_not_allow_is_refused(void **state)
{
	struct ends t = { 0 };
	struct weir_p2p_region *closed;
	struct weir_p2p_transfer *x;
	struct weir_error error;
	char secret[64] = "secret";

	(void)state;
	ends_open(&t);
	assert_int_equal(weir_p2p_register(t.b.p, secret, 64, WEIR_P2P_HOST, 0, &closed, NULL), 0);
	assert_int_equal(
		weir_p2p_read(t.a.conn, t.a.region, 0, 64, weir_p2p_key(closed), 0, &x, NULL), 0);
	assert_int_equal(finish(&t, x, NULL, &error), -EACCES);
	assert_string_equal(error.what, "the peer's region may not be used so");
	ends_close(&t);
}

static void test_more_one_sided_requests_than_fit_wait_their_turn(void **state)
{
	struct weir_p2p_transfer *x[200];
	struct ends t = { 0 };
	uint64_t key;

	(void)state;
	ends_open(&t);
	key = weir_p2p_key(t.b.region);
	for (uint64_t i = 0; i < 200; i++)
		assert_int_equal(
			(i % 2 ? weir_p2p_write : weir_p2p_read)(t.a.conn, t.a.region, i * 20000,
				i % 3 ? 300 : 20000, key, i * 20000, &x[i], NULL),
			0);
	for (int i = 0; i < 200; i++)
		assert_int_equal(finish(&t, x[i], NULL, NULL), 1);
	for (uint64_t i = 0; i < 200; i++)
		assert_memory_equal(
			t.a.memory + i * 20000, t.b.memory + i * 20000, i % 3 ? 300 : 20000);
	ends_close(&t);
}

static void test_unreceived_messages_do_not_hold_up_writes(void **state)
{
	struct weir_p2p_transfer *x;
	struct ends t = { 0 };

	(void)state;
	ends_open(&t);
	for (int i = 0; i < 150; i++)
		assert_int_equal(weir_p2p_send(t.a.conn, t.a.region, 0, 100000, &x, NULL), 0);
	assert_int_equal(weir_p2p_write(t.a.conn, t.a.region, 0, 1 << 20, weir_p2p_key(t.b.region),
				 0, &x, NULL),
		0);
	assert_int_equal(finish(&t, x, NULL, NULL), 1);
	ends_close(&t);
}

static void test_notifications_of_any_length_arrive_in_order(void **state)
{
	static const size_t sizes[] = { 0, 1, 100, 40000, 9 << 20, 5 };
	char *sent = malloc(9 << 20);
	struct ends t = { 0 };
	void *data;
	size_t bytes;
	int ret;

	(void)state;
	ends_open(&t);
	for (size_t i = 0; i < 9 << 20; i++)
		sent[i] = (char)(i * 31);
	for (int i = 0; i < 6; i++)
		assert_int_equal(
			weir_p2p_notify(t.a.conn, sent + i, i == 4 ? sizes[i] - 4 : sizes[i], NULL),
			0);
	for (int i = 0; i < 6; i++) {
		while (!(ret = weir_p2p_notification(t.b.conn, &data, &bytes, NULL)))
			turn(&t);
		assert_int_equal(ret, 1);
		assert_int_equal(bytes, i == 4 ? sizes[i] - 4 : sizes[i]);
		assert_memory_equal(data, sent + i, bytes);
		assert_int_equal(((char *)data)[bytes], 0);
		free(data);
	}
	free(sent);
	ends_close(&t);
}

static void test_a_slow_channel_does_not_hold_the_others_up(void **state)
{
	struct ends t = { 0 };
	int slow, others = 0;

	(void)state;
	ends_open(&t);
	t.b.net.slow_comm = 3;
	t.b.net.slow_tests = 40;
	memset(t.b.net.received, 0, sizeof(t.b.net.received));
	for (int i = 0; i < 8; i++)
		if (t.b.conn->in[i].comm)
			others++;
	assert_int_equal(others, 8);
	others = 0;
	for (int i = 0; i < 16; i++)
		exchange(&t, 0, MEMORY, 0, MEMORY);
	slow = t.b.net.received[3];
	for (int i = 0; i < 64; i++)
		others += i == 3 ? 0 : t.b.net.received[i];
	assert_int_equal(slow + others, 16 * MEMORY / (16 << 10));
	/* An equal share would be a seventh of the rest. */
	if (slow)
		assert_true(slow < others / 7 / 2);
	ends_close(&t);
}

static void test_the_window_is_never_exceeded(void **state)
{
	struct ends t = { 0 };

	(void)state;
	weir_p2p_config_init(&t.config);
	t.config.chunk_bytes = 4096;
	t.config.window = 5;
	t.config.channels = 3;
	ends_open(&t);
	exchange(&t, 0, MEMORY, 0, MEMORY);
	assert_int_equal(t.a.net.requests, 5);
	assert_int_equal(t.b.net.requests, 5);
	ends_close(&t);
}

static void test_not_now_is_tried_again(void **state)
{
	struct ends t = { .a.net = { .not_now = 3, .connect_calls = 4 },
		.b.net = { .not_now = 2, .connect_calls = 7 } };

	(void)state;
	ends_open(&t);
	exchange(&t, 0, MEMORY, 0, MEMORY);
	exchange(&t, 0, 100, 0, 100);
	ends_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages_of_every_length_arrive),
		cmocka_unit_test(test_messages_that_come_first_wait_in_order),
		cmocka_unit_test(test_a_message_that_is_too_long_fails_alone),
		cmocka_unit_test(test_both_ways_at_once),
		cmocka_unit_test(test_write_and_read_reach_the_named_place),
		cmocka_unit_test(
			test_one_sided_requests_out_of_range_are_refused_and_the_connection_survives),
		cmocka_unit_test(test_what_a_registration_does_not_allow_is_refused),
		cmocka_unit_test(test_more_one_sided_requests_than_fit_wait_their_turn),
		cmocka_unit_test(test_unreceived_messages_do_not_hold_up_writes),
		cmocka_unit_test(test_notifications_of_any_length_arrive_in_order),
		cmocka_unit_test(test_a_slow_channel_does_not_hold_the_others_up),
		cmocka_unit_test(test_the_window_is_never_exceeded),
		cmocka_unit_test(test_not_now_is_tried_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
