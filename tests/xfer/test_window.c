// SPDX-License-Identifier: BSD-3-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "xfer/regions.h"
#include "xfer/window.h"

static void test_window_is_first_in_first_out_and_never_over_full(void **state)
{
	struct window w;
	uint32_t in = 0, out = 0;

	(void)state;
	window_init(&w, 16);
	for (int round = 0; round < 100; round++) {
		while (window_room(&w))
			window_push(&w, (struct window_slot){ .chunk = in++ });
		assert_int_equal(w.count, 16);
		for (int i = 0; i <= round % 16; i++) {
			assert_int_equal(window_head(&w)->chunk, out++);
			window_pop(&w);
		}
	}
	while (window_head(&w)) {
		assert_int_equal(window_head(&w)->chunk, out++);
		window_pop(&w);
	}
	assert_int_equal(in, out);
}

static void test_window_limits_are_kept(void **state)
{
	struct window w;

	(void)state;
	window_init(&w, 0);
	assert_int_equal(w.limit, 1);
	window_init(&w, 1000);
	assert_int_equal(w.limit, WEIR_P2P_WINDOW_MAX);
}

static void test_chunks_go_round_the_channels_with_room(void **state)
{
	struct window w[3];
	const struct window *const all[3] = { &w[0], &w[1], &w[2] };
	unsigned int turn = 0;
	int dealt[3] = { 0 }, c;

	(void)state;
	for (int i = 0; i < 3; i++)
		window_init(&w[i], 2);
	/* The first is slow: full from the beginning. */
	window_push(&w[0], (struct window_slot){ 0 });
	window_push(&w[0], (struct window_slot){ 0 });
	while ((c = window_deal(all, 3, &turn)) >= 0) {
		dealt[c]++;
		window_push(&w[c], (struct window_slot){ 0 });
	}
	assert_int_equal(dealt[0], 0);
	assert_int_equal(dealt[1], 2);
	assert_int_equal(dealt[2], 2);
	window_pop(&w[1]);
	assert_int_equal(window_deal(all, 3, &turn), 1);
}

static void test_a_range_is_within_or_refused(void **state)
{
	struct regions rs = { 0 };
	struct weir_p2p_region *r, *found;
	char memory[100];
	unsigned int both = WEIR_P2P_REMOTE_READ | WEIR_P2P_REMOTE_WRITE;

	(void)state;
	assert_int_equal(regions_add(&rs, memory, 100, WEIR_P2P_HOST, both, &r, NULL), 0);
	assert_int_equal(regions_find(&rs, r->key, 0, 100, both, &found), 0);
	assert_ptr_equal(found, r);
	assert_int_equal(regions_find(&rs, r->key, 100, 0, both, &found), 0);
	assert_int_equal(regions_find(&rs, r->key, 0, 101, both, &found), -ERANGE);
	assert_int_equal(regions_find(&rs, r->key, 100, 1, both, &found), -ERANGE);
	assert_int_equal(regions_find(&rs, r->key, 101, 0, both, &found), -ERANGE);
	assert_int_equal(regions_find(&rs, r->key, UINT64_MAX, 2, both, &found), -ERANGE);
	assert_int_equal(regions_find(&rs, r->key, 2, UINT64_MAX, both, &found), -ERANGE);
	assert_int_equal(regions_find(&rs, r->key ^ 1024, 0, 1, both, &found), -ENOENT);
	assert_int_equal(regions_find(&rs, r->key ^ 1, 0, 1, both, &found), -ENOENT);
	regions_free(&rs);
}

static void test_access_is_what_was_registered(void **state)
{
	struct regions rs = { 0 };
	struct weir_p2p_region *r, *found;
	char memory[8];

	(void)state;
	assert_int_equal(
		regions_add(&rs, memory, 8, WEIR_P2P_HOST, WEIR_P2P_REMOTE_READ, &r, NULL), 0);
	assert_int_equal(regions_find(&rs, r->key, 0, 8, WEIR_P2P_REMOTE_READ, &found), 0);
	assert_int_equal(regions_find(&rs, r->key, 0, 8, WEIR_P2P_REMOTE_WRITE, &found), -EACCES);
	regions_free(&rs);
}

static void test_a_region_in_use_stays(void **state)
{
	struct regions rs = { 0 };
	struct weir_p2p_region *r, *found;
	struct err e = { 0 };
	char memory[8];
	uint64_t key;

	(void)state;
	assert_int_equal(regions_add(&rs, memory, 8, WEIR_P2P_HOST, 3, &r, NULL), 0);
	key = r->key;
	r->users = 1;
	assert_int_equal(regions_remove(&rs, r, &e), -EBUSY);
	assert_int_equal(regions_find(&rs, key, 0, 8, 1, &found), 0);
	r->users = 0;
	assert_int_equal(regions_remove(&rs, r, &e), 0);
	assert_int_equal(regions_find(&rs, key, 0, 8, 1, &found), -ENOENT);
	/* Its place is used again, under another key. */
	assert_int_equal(regions_add(&rs, memory, 8, WEIR_P2P_HOST, 3, &r, NULL), 0);
	assert_int_equal(r->index, 0);
	assert_int_not_equal(r->key, key);
	regions_free(&rs);
}

static void test_impossible_memory_is_refused(void **state)
{
	struct regions rs = { 0 };
	struct weir_p2p_region *r;
	char memory[8];

	(void)state;
	assert_int_equal(regions_add(&rs, NULL, 8, WEIR_P2P_HOST, 0, &r, NULL), -EINVAL);
	assert_int_equal(regions_add(&rs, memory, 0, WEIR_P2P_HOST, 0, &r, NULL), -EINVAL);
	assert_int_equal(regions_add(&rs, memory, UINT64_MAX, WEIR_P2P_HOST, 0, &r, NULL), -EINVAL);
	assert_int_equal(
		regions_add(&rs, memory, 8, (enum weir_p2p_memory)9, 0, &r, NULL), -EINVAL);
	for (int i = 0; i < REGIONS_MAX; i++)
		assert_int_equal(regions_add(&rs, memory, 8, WEIR_P2P_HOST, 0, &r, NULL), 0);
	assert_int_equal(regions_add(&rs, memory, 8, WEIR_P2P_HOST, 0, &r, NULL), -ENOSPC);
	regions_free(&rs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_window_is_first_in_first_out_and_never_over_full),
		cmocka_unit_test(test_window_limits_are_kept),
		cmocka_unit_test(test_chunks_go_round_the_channels_with_room),
		cmocka_unit_test(test_a_range_is_within_or_refused),
		cmocka_unit_test(test_access_is_what_was_registered),
		cmocka_unit_test(test_a_region_in_use_stays),
		cmocka_unit_test(test_impossible_memory_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
