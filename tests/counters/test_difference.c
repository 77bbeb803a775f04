// SPDX-License-Identifier: BSD-3-Clause
/* What a difference is, and what it never is. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "counters/difference.h"

#define S 1000000000ull

static struct snapshot before, after;
static struct difference d;

static void put(struct snapshot *s, const char *name, enum counter_kind kind, int bits,
	uint64_t value, uint64_t time_ns)
{
	struct counter c = { .source = "t",
		.object = "o",
		.name = name,
		.kind = (uint8_t)kind,
		.bits = (uint8_t)bits };

	assert_int_equal(0, snapshot_put(s, &c, value, time_ns, NULL));
}

static const struct row *only(enum counter_kind kind, int bits, uint64_t a, uint64_t b)
{
	difference_free(&d);
	snapshot_free(&before);
	snapshot_free(&after);
	assert_int_equal(0, snapshot_init(&before, NULL));
	assert_int_equal(0, snapshot_init(&after, NULL));
	put(&before, "x", kind, bits, a, 10 * S);
	put(&after, "x", kind, bits, b, 12 * S);
	assert_int_equal(0, difference_make(&d, &before, &after, NULL));
	assert_int_equal(1, d.count);
	return d.row;
}

static int clean(void **state)
{
	(void)state;
	difference_free(&d);
	snapshot_free(&before);
	snapshot_free(&after);
	return 0;
}

static void test_a_counter_that_grew_has_a_change_and_a_rate(void **state)
{
	const struct row *r = only(COUNTER_COUNT, 64, 100, 150);

	(void)state;
	assert_int_equal(ROW_MOVED, r->state);
	assert_int_equal(50, r->change);
	assert_true(difference_rate(r) == 25);
}

static void test_a_narrow_counter_wraps(void **state)
{
	const struct row *r = only(COUNTER_COUNT, 56, (1ull << 56) - 10, 5);

	(void)state;
	assert_int_equal(ROW_WRAPPED, r->state);
	assert_int_equal(15, r->change);
	r = only(COUNTER_COUNT, 32, 0xfffffff0, 0x10);
	assert_int_equal(ROW_WRAPPED, r->state);
	assert_int_equal(0x20, r->change);
}

static void test_a_counter_that_fell_without_wrapping_was_set_back(void **state)
{
	const struct row *r = only(COUNTER_COUNT, 56, 1000, 5);

	(void)state;
	assert_int_equal(ROW_RESET, r->state);
	assert_int_equal(5, r->change);
	assert_true(isnan(difference_rate(r)));
	assert_true(difference_size(r) == -995);
	r = only(COUNTER_COUNT, 64, UINT64_MAX, 0);
	assert_int_equal(ROW_RESET, r->state);
}

static void test_a_value_beyond_its_width_is_not_cut(void **state)
{
	const struct row *r = only(COUNTER_COUNT, 16, 70000, 70005);

	(void)state;
	assert_int_equal(5, r->change);
	assert_int_equal(ROW_MOVED, r->state);
}

static void test_a_gauge_is_never_subtracted(void **state)
{
	const struct row *r = only(COUNTER_GAUGE, 12, 7, 3);

	(void)state;
	assert_int_equal(ROW_CHANGED, r->state);
	assert_int_equal(0, r->change);
	assert_true(isnan(difference_rate(r)));
	r = only(COUNTER_SIGNED, 64, (uint64_t)-1, 1);
	assert_int_equal(ROW_CHANGED, r->state);
	assert_true(difference_size(r) == 2);
}

static void test_an_absent_counter_is_not_zero(void **state)
{
	(void)state;
	only(COUNTER_COUNT, 64, 1, 1);
	put(&after, "new", COUNTER_COUNT, 64, 99, 12 * S);
	put(&before, "old", COUNTER_COUNT, 64, 99, 10 * S);
	difference_free(&d);
	assert_int_equal(0, difference_make(&d, &before, &after, NULL));
	assert_int_equal(3, d.count);
	assert_string_equal("new", d.row[0].counter->name);
	assert_int_equal(ROW_APPEARED, d.row[0].state);
	assert_int_equal(0, d.row[0].change);
	assert_int_equal(ROW_VANISHED, d.row[1].state);
	assert_int_equal(1, d.states[ROW_APPEARED]);
	assert_int_equal(1, d.states[ROW_SAME]);
}

static void test_each_rate_uses_the_counters_own_times(void **state)
{
	(void)state;
	only(COUNTER_COUNT, 64, 0, 0);
	put(&before, "y", COUNTER_COUNT, 64, 0, 10 * S);
	put(&after, "y", COUNTER_COUNT, 64, 100, 20 * S);
	put(&before, "z", COUNTER_COUNT, 64, 0, 30 * S);
	put(&after, "z", COUNTER_COUNT, 64, 100, 20 * S); /* the clock was set back */
	difference_free(&d);
	assert_int_equal(0, difference_make(&d, &before, &after, NULL));
	assert_true(difference_rate(&d.row[1]) == 10);
	assert_true(isnan(difference_rate(&d.row[2])));
}

static void test_objects_are_ordered_as_people_count(void **state)
{
	struct counter a = { .source = "s", .object = "eth2", .name = "z" };
	struct counter b = { .source = "s", .object = "eth10", .name = "a" };

	(void)state;
	assert_true(counter_compare(&a, &b) < 0);
	assert_true(counter_compare(&b, &a) > 0);
	assert_int_equal(0, counter_compare(&a, &a));
}

static void test_a_catalog_keeps_each_counter_once(void **state)
{
	struct catalog c;
	char name[32];
	uint32_t index;

	(void)state;
	catalog_init(&c);
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 5000; i++) {
			struct counter one = { .source = "s", .object = "o", .name = name };

			snprintf(name, sizeof(name), "n%u", i);
			assert_int_equal(0, catalog_add(&c, &one, &index, NULL));
			assert_int_equal(i, index);
		}
	}
	assert_int_equal(5000, c.count);
	assert_int_equal(CATALOG_NONE, catalog_find(&c, "s", "o", "n5000"));
	catalog_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_a_counter_that_grew_has_a_change_and_a_rate, clean),
		cmocka_unit_test_teardown(test_a_narrow_counter_wraps, clean),
		cmocka_unit_test_teardown(
			test_a_counter_that_fell_without_wrapping_was_set_back, clean),
		cmocka_unit_test_teardown(test_a_value_beyond_its_width_is_not_cut, clean),
		cmocka_unit_test_teardown(test_a_gauge_is_never_subtracted, clean),
		cmocka_unit_test_teardown(test_an_absent_counter_is_not_zero, clean),
		cmocka_unit_test_teardown(test_each_rate_uses_the_counters_own_times, clean),
		cmocka_unit_test(test_objects_are_ordered_as_people_count),
		cmocka_unit_test(test_a_catalog_keeps_each_counter_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
