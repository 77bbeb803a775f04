/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hist.h"
#include "prng.h"

#define ROUNDS 200
#define VALUES 2000

/* Every magnitude alike, those beyond the histogram's range included. */
static uint64_t random_ns(uint64_t *seed)
{
	return prng_next(seed) >> (16 + prng_below(seed, 48));
}

static void assert_close(double a, double b)
{
	assert_true(fabs(a - b) <= 1e-12 * fabs(b));
}

static void assert_same(const struct hist *a, const struct hist *b)
{
	assert_int_equal(a->count, b->count);
	assert_int_equal(a->min_ns, b->min_ns);
	assert_int_equal(a->max_ns, b->max_ns);
	assert_close(a->sum_ns, b->sum_ns);
	assert_close(a->sum_squares, b->sum_squares);
	assert_memory_equal(a->bucket, b->bucket, sizeof(a->bucket));
}

static void test_hist_buckets_tile_the_range(void **state)
{
	unsigned int b;

	(void)state;
	assert_int_equal(hist_bucket_low_ns(0), 0);
	for (b = 0; b < HIST_BUCKETS; b++) {
		assert_int_equal(hist_bucket(hist_bucket_low_ns(b)), b);
		assert_int_equal(hist_bucket(hist_bucket_high_ns(b)), b);
		if (b + 1 < HIST_BUCKETS)
			assert_int_equal(hist_bucket_high_ns(b) + 1, hist_bucket_low_ns(b + 1));
	}
	assert_int_equal(hist_bucket(HIST_MAX_NS), HIST_BUCKETS - 1);
	assert_int_equal(hist_bucket(UINT64_MAX), HIST_BUCKETS - 1);
	assert_int_equal(hist_bucket_high_ns(HIST_BUCKETS - 1), UINT64_MAX);
}

static void test_hist_buckets_are_narrow(void **state)
{
	unsigned int b;

	(void)state;
	for (b = 0; b < HIST_BUCKETS - 1; b++) {
		uint64_t low = hist_bucket_low_ns(b), width = hist_bucket_high_ns(b) - low + 1;

		if (low < 2 * HIST_SUB)
			assert_int_equal(width, 1);
		else
			assert_true((double)width <= 0.008 * (double)low);
	}
}

static void test_hist_bucket_beyond_the_last_is_the_last(void **state)
{
	(void)state;
	assert_int_equal(hist_bucket_low_ns(UINT32_MAX), hist_bucket_low_ns(HIST_BUCKETS - 1));
	assert_int_equal(hist_bucket_high_ns(UINT32_MAX), UINT64_MAX);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* In thousandths of a percent, so that the rank is a whole number's business. */
static uint64_t expected_percentile(const uint64_t *sorted, uint64_t count, uint64_t thousandths)
{
	uint64_t rank = (thousandths * count + 99999) / 100000;
	uint64_t high = hist_bucket_high_ns(hist_bucket(sorted[rank ? rank - 1 : 0]));

	return high < sorted[count - 1] ? high : sorted[count - 1];
}

static void test_hist_percentile_is_the_nearest_rank_of_the_sorted_values(void **state)
{
	static const uint64_t usual[] = { 0, 1, 50000, 90000, 99000, 99900, 99990, 99999, 100000 };
	uint64_t seed = 1, value[VALUES], count, i;
	struct hist h;
	int round;

	(void)state;
	for (round = 0; round < ROUNDS; round++) {
		hist_init(&h);
		count = round % 4 ? 1 + prng_below(&seed, VALUES) : 1000;
		for (i = 0; i < count; i++) {
			value[i] = random_ns(&seed);
			hist_record(&h, value[i]);
		}
		qsort(value, count, sizeof(value[0]), compare);
		for (i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
			assert_int_equal(hist_percentile(&h, (double)usual[i] / 1000),
				expected_percentile(value, count, usual[i]));
		for (i = 0; i < 50; i++) {
			uint64_t t = prng_below(&seed, 100001);

			assert_int_equal(hist_percentile(&h, (double)t / 1000),
				expected_percentile(value, count, t));
		}
	}
}

/* 99.9 * 41000 / 100 is a little more than 40959 in doubles. */
static void test_hist_percentile_is_not_a_rank_too_high_by_rounding(void **state)
{
	struct hist h;

	(void)state;
	hist_init(&h);
	while (h.count < 40959)
		hist_record(&h, 100);
	while (h.count < 41000)
		hist_record(&h, 200);
	assert_int_equal(hist_percentile(&h, 99.9), 100);
}

static void test_hist_percentile_of_one_value_is_that_value(void **state)
{
	uint64_t seed = 2;
	struct hist h;
	int i;

	(void)state;
	for (i = 0; i < ROUNDS; i++) {
		uint64_t ns = random_ns(&seed);

		hist_init(&h);
		hist_record(&h, ns);
		assert_int_equal(hist_percentile(&h, 0), ns);
		assert_int_equal(hist_percentile(&h, 50), ns);
		assert_int_equal(hist_percentile(&h, 100), ns);
	}
}

static void test_hist_percentile_outside_0_to_100_is_the_nearest_end(void **state)
{
	struct hist h;

	(void)state;
	hist_init(&h);
	hist_record(&h, 3);
	hist_record(&h, 7);
	assert_int_equal(hist_percentile(&h, -1), 3);
	assert_int_equal(hist_percentile(&h, 101), 7);
	assert_int_equal(hist_percentile(&h, INFINITY), 7);
	assert_int_equal(hist_percentile(&h, NAN), 3);
}

static void test_hist_empty_is_all_zero(void **state)
{
	struct hist h;

	(void)state;
	hist_init(&h);
	assert_int_equal(h.min_ns, UINT64_MAX);
	assert_int_equal(hist_percentile(&h, 50), 0);
	assert_true(hist_mean_ns(&h) == 0);
	assert_true(hist_stddev_ns(&h) == 0);
	assert_false(hist_percentile_is_sound(&h, 50));
	assert_false(hist_percentile_is_sound(&h, 99));
}

static void test_hist_mean_and_stddev_are_of_the_population(void **state)
{
	static const uint64_t ns[] = { 2, 4, 4, 4, 5, 5, 7, 9 };
	struct hist h;
	size_t i;

	(void)state;
	hist_init(&h);
	for (i = 0; i < sizeof(ns) / sizeof(ns[0]); i++)
		hist_record(&h, ns[i]);
	assert_true(hist_mean_ns(&h) == 5);
	assert_true(hist_stddev_ns(&h) == 2);
}

static void test_hist_stddev_of_equal_values_is_zero_not_nan(void **state)
{
	struct hist h;
	int i;

	(void)state;
	hist_init(&h);
	for (i = 0; i < 7; i++)
		hist_record(&h, 100000002); /* whose variance comes out negative */
	assert_true(hist_stddev_ns(&h) == 0);
}

static bool sound_with(uint64_t count, double percent)
{
	struct hist h;

	hist_init(&h);
	while (h.count < count)
		hist_record(&h, 1000);
	return hist_percentile_is_sound(&h, percent);
}

static void test_hist_percentile_is_sound_with_ten_values_beyond(void **state)
{
	(void)state;
	assert_false(sound_with(9, 50));
	assert_true(sound_with(10, 50));
	assert_true(sound_with(10, 1));
	assert_false(sound_with(99, 90));
	assert_true(sound_with(100, 90));
	assert_false(sound_with(999, 99));
	assert_true(sound_with(1000, 99));
	assert_false(sound_with(9999, 99.9));
	assert_true(sound_with(10000, 99.9));
	assert_false(sound_with(99999, 99.99));
	assert_true(sound_with(100000, 99.99));
	assert_false(sound_with(1000, 100));
}

static void test_hist_merge_equals_recording_into_one(void **state)
{
	struct hist one, part[2];
	uint64_t seed = 3;
	int round, i;

	(void)state;
	for (round = 0; round < ROUNDS; round++) {
		int values = (int)prng_below(&seed, 200);

		hist_init(&one);
		hist_init(&part[0]);
		hist_init(&part[1]);
		for (i = 0; i < values; i++) {
			uint64_t ns = random_ns(&seed);

			hist_record(&one, ns);
			hist_record(&part[prng_below(&seed, 2)], ns);
		}
		hist_merge(&part[0], &part[1]);
		assert_same(&part[0], &one);
	}
}

static void test_hist_compact_and_merge_sparse_give_the_same_back(void **state)
{
	struct hist_sparse *s;
	struct hist h, back;
	uint64_t seed = 4;
	int round, i;
	uint32_t c;

	(void)state;
	for (round = 0; round < ROUNDS; round++) {
		int values = (int)prng_below(&seed, 200);

		hist_init(&h);
		hist_init(&back);
		for (i = 0; i < values; i++)
			hist_record(&h, random_ns(&seed));
		s = hist_compact(&h);
		assert_non_null(s);
		assert_true(s->filled <= h.count);
		for (c = 1; c < s->filled; c++)
			assert_true(s->cell[c - 1].bucket < s->cell[c].bucket);
		hist_merge_sparse(&back, s);
		assert_same(&back, &h);
		free(s);
	}
}

static struct hist_sparse *sparse_of(const struct hist_cell *cell, uint32_t filled)
{
	struct hist_sparse *s = calloc(1, sizeof(*s) + filled * sizeof(*cell));

	assert_non_null(s);
	s->filled = filled;
	memcpy(s->cell, cell, filled * sizeof(*cell));
	return s;
}

static void test_hist_merge_sparse_ignores_cells_beyond_the_buckets(void **state)
{
	static const struct hist_cell cell[] = {
		{ HIST_BUCKETS, 5 },
		{ 10, 3 },
		{ UINT32_MAX, 7 },
	};
	struct hist_sparse *s = sparse_of(cell, 3);
	struct hist h;

	(void)state;
	s->count = 15;
	s->min_ns = 10;
	s->max_ns = UINT64_MAX;
	hist_init(&h);
	hist_merge_sparse(&h, s);
	assert_int_equal(h.count, 3);
	assert_int_equal(h.bucket[10], 3);
	assert_int_equal(h.min_ns, 10);
	assert_int_equal(h.max_ns, 10);
	free(s);
}

static void test_hist_merge_sparse_of_nothing_valid_changes_nothing(void **state)
{
	static const struct hist_cell cell[] = { { HIST_BUCKETS, 5 }, { 3, 0 } };
	struct hist_sparse *s = sparse_of(cell, 2);
	struct hist h, before;

	(void)state;
	s->count = 5;
	s->sum_ns = 1e9;
	hist_init(&h);
	before = h;
	hist_merge_sparse(&h, s);
	assert_memory_equal(&h, &before, sizeof(h));
	free(s);
}

static void test_hist_merge_sparse_does_not_overflow_the_count(void **state)
{
	static const struct hist_cell cell[] = { { 1, UINT64_MAX - 1 }, { 1, 5 }, { 2, 1 } };
	struct hist_sparse *s = sparse_of(cell, 3);
	struct hist h;

	(void)state;
	hist_init(&h);
	hist_merge_sparse(&h, s);
	assert_int_equal(h.count, UINT64_MAX);
	assert_int_equal(h.bucket[1], UINT64_MAX - 1);
	assert_int_equal(hist_percentile(&h, 100), 2);
	free(s);
}

static void test_hist_merge_sparse_survives_random_cells(void **state)
{
	uint64_t seed = 5, sum;
	struct hist_sparse *s;
	struct hist_cell cell[20];
	struct hist h;
	int round, i;

	(void)state;
	for (round = 0; round < ROUNDS; round++) {
		for (i = 0; i < 20; i++)
			cell[i] = (struct hist_cell){
				(uint32_t)prng_below(&seed, 2 * HIST_BUCKETS),
				prng_next(&seed) >> prng_below(&seed, 64),
			};
		s = sparse_of(cell, (uint32_t)prng_below(&seed, 21));
		s->min_ns = prng_next(&seed);
		s->max_ns = prng_next(&seed);
		s->sum_ns = round % 2 ? NAN : INFINITY;
		hist_init(&h);
		hist_merge_sparse(&h, s);
		for (sum = 0, i = 0; i < (int)HIST_BUCKETS; i++)
			sum += h.bucket[i];
		assert_int_equal(h.count, sum);
		assert_true(!h.count || h.min_ns <= h.max_ns);
		assert_int_equal(hist_percentile(&h, 100), h.max_ns);
		assert_true(isfinite(hist_mean_ns(&h)));
		free(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hist_buckets_tile_the_range),
		cmocka_unit_test(test_hist_buckets_are_narrow),
		cmocka_unit_test(test_hist_bucket_beyond_the_last_is_the_last),
		cmocka_unit_test(test_hist_percentile_is_the_nearest_rank_of_the_sorted_values),
		cmocka_unit_test(test_hist_percentile_is_not_a_rank_too_high_by_rounding),
		cmocka_unit_test(test_hist_percentile_of_one_value_is_that_value),
		cmocka_unit_test(test_hist_percentile_outside_0_to_100_is_the_nearest_end),
		cmocka_unit_test(test_hist_empty_is_all_zero),
		cmocka_unit_test(test_hist_mean_and_stddev_are_of_the_population),
		cmocka_unit_test(test_hist_stddev_of_equal_values_is_zero_not_nan),
		cmocka_unit_test(test_hist_percentile_is_sound_with_ten_values_beyond),
		cmocka_unit_test(test_hist_merge_equals_recording_into_one),
		cmocka_unit_test(test_hist_compact_and_merge_sparse_give_the_same_back),
		cmocka_unit_test(test_hist_merge_sparse_ignores_cells_beyond_the_buckets),
		cmocka_unit_test(test_hist_merge_sparse_of_nothing_valid_changes_nothing),
		cmocka_unit_test(test_hist_merge_sparse_does_not_overflow_the_count),
		cmocka_unit_test(test_hist_merge_sparse_survives_random_cells),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
