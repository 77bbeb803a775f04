// SPDX-License-Identifier: BSD-3-Clause
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "record/stats.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void assert_near(double a, double b)
{
	if (!(fabs(a - b) < 1e-9))
		fail_msg("%.12g is not %.12g", a, b);
}

static void test_fairness_is_one_when_all_are_equal_and_one_nth_when_one_has_all(void **state)
{
	const double equal[] = { 5e9, 5e9, 5e9 }, one[] = { 0, 7e11, 0, 0 }, none[] = { 0, 0 };

	(void)state;
	assert_near(stats_fairness(equal, COUNT(equal)), 1);
	assert_near(stats_fairness(one, COUNT(one)), 0.25);
	assert_near(stats_fairness(none, COUNT(none)), 1);
	assert_near(stats_fairness(NULL, 0), 1);
}

static void test_fairness_does_not_overflow(void **state)
{
	const double huge[] = { 1e300, 1e300 };

	(void)state;
	assert_near(stats_fairness(huge, COUNT(huge)), 1);
}

static void test_mean_median_and_deviation(void **state)
{
	double values[] = { 9, 2, 4, 4, 5, 5, 4, 7 }, odd[] = { 3, 1, 2 };

	(void)state;
	assert_near(stats_mean(values, COUNT(values)), 5);
	assert_near(stats_stddev(values, COUNT(values)), 2);
	assert_near(stats_median(values, COUNT(values)), 4.5);
	assert_near(stats_median(odd, COUNT(odd)), 2);
	assert_near(stats_mean(NULL, 0), 0);
	assert_near(stats_stddev(NULL, 0), 0);
	assert_near(stats_median(NULL, 0), 0);
}

static void test_steady_is_unknown_for_few_points_and_for_silence(void **state)
{
	const double few[] = { 1, 2, 3, 4 }, silent[] = { 0, 0, 0, 0, 0, 0 };
	struct stats_steady s;

	(void)state;
	stats_steady(few, COUNT(few), &s);
	assert_int_equal(s.state, STEADY_UNKNOWN);
	stats_steady(silent, COUNT(silent), &s);
	assert_int_equal(s.state, STEADY_UNKNOWN);
	stats_steady(NULL, 0, &s);
	assert_int_equal(s.state, STEADY_UNKNOWN);
}

static void test_steady_takes_a_level_series(void **state)
{
	const double level[] = { 10, 10.1, 9.9, 10, 10.2, 9.8, 10 };
	struct stats_steady s;

	(void)state;
	stats_steady(level, COUNT(level), &s);
	assert_int_equal(s.state, STEADY_YES);
	assert_int_equal(s.steady_from, 0);
	assert_true(fabs(s.drift) < 0.02);
	assert_true(s.variation > 0.01 && s.variation < 0.02);
}

static void test_steady_refuses_a_ramp_up_and_a_ramp_down(void **state)
{
	double up[] = { 10, 11, 12, 13, 14, 15 }, down[] = { 15, 14, 13, 12, 11, 10 };
	struct stats_steady s;

	(void)state;
	stats_steady(up, COUNT(up), &s);
	assert_int_equal(s.state, STEADY_NO);
	assert_near(s.drift, 5 / 12.5);
	assert_int_equal(s.steady_from, COUNT(up));
	stats_steady(down, COUNT(down), &s);
	assert_int_equal(s.state, STEADY_NO);
	assert_near(s.drift, -5 / 12.5);
}

static void test_steady_takes_a_slow_drift(void **state)
{
	const double slow[] = { 100, 101, 102, 103, 104, 105, 106, 107, 108 };
	struct stats_steady s;

	(void)state;
	stats_steady(slow, COUNT(slow), &s);
	assert_int_equal(s.state, STEADY_YES);
	assert_near(s.drift, 8 / 104.0);
}

/* A line through noise rises or falls a little; that is no drift. */
static void test_steady_takes_noise_that_seems_to_rise(void **state)
{
	const double noise[] = { 10, 11.1, 9.7, 11.1, 9.7, 11.6, 10, 12 };
	struct stats_steady s;

	(void)state;
	stats_steady(noise, COUNT(noise), &s);
	assert_true(s.drift > STEADY_DRIFT);
	assert_int_equal(s.state, STEADY_YES);
}

/* Five intervals that a drift of everything could hide in: neither level nor drifting. */
static void test_steady_does_not_take_noise_for_a_level(void **state)
{
	const double wild[] = { 4, 3, 16, 9, 17 }, flat[] = { 10, 3, 19, 2, 17, 9 };
	struct stats_steady s;

	(void)state;
	stats_steady(wild, COUNT(wild), &s);
	assert_int_equal(s.state, STEADY_NOISY);
	assert_true(s.drift > 1);
	assert_int_equal(s.steady_from, COUNT(wild));
	stats_steady(flat, COUNT(flat), &s);
	assert_int_equal(s.state, STEADY_NOISY);
	assert_true(s.mean_error > 0.5);
}

static void test_steady_says_from_where_on_it_is_level(void **state)
{
	const double late[] = { 1, 4, 7, 10, 10, 10, 10, 10, 10 };
	struct stats_steady s;

	(void)state;
	stats_steady(late, COUNT(late), &s);
	assert_int_equal(s.state, STEADY_NO);
	assert_true(s.steady_from > 0 && s.steady_from <= 4);
}

/* A verdict of drift changes the exit status: a level series gets it once in a hundred, at most. */
static void test_steady_rarely_errs_on_pure_noise(void **state)
{
	uint64_t seed = 1;
	int wrong = 0;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		double rates[STEADY_POINTS + 3];
		struct stats_steady s;

		for (size_t i = 0; i < COUNT(rates); i++) {
			rates[i] = 10;
			for (int k = 0; k < 12; k++) {
				seed = seed * 6364136223846793005ull + 1442695040888963407ull;
				rates[i] += (double)(seed >> 40) / (1 << 24) - 0.5;
			}
		}
		stats_steady(rates, COUNT(rates), &s);
		wrong += s.state == STEADY_NO;
	}
	assert_true(wrong <= 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_fairness_is_one_when_all_are_equal_and_one_nth_when_one_has_all),
		cmocka_unit_test(test_fairness_does_not_overflow),
		cmocka_unit_test(test_mean_median_and_deviation),
		cmocka_unit_test(test_steady_is_unknown_for_few_points_and_for_silence),
		cmocka_unit_test(test_steady_takes_a_level_series),
		cmocka_unit_test(test_steady_refuses_a_ramp_up_and_a_ramp_down),
		cmocka_unit_test(test_steady_takes_a_slow_drift),
		cmocka_unit_test(test_steady_takes_noise_that_seems_to_rise),
		cmocka_unit_test(test_steady_does_not_take_noise_for_a_level),
		cmocka_unit_test(test_steady_says_from_where_on_it_is_level),
		cmocka_unit_test(test_steady_rarely_errs_on_pure_noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
