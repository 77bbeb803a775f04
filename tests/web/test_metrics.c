// SPDX-License-Identifier: BSD-3-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "web/metrics.h"

static struct web_text text;
static struct metrics m = { .text = &text };

static int clear(void **state)
{
	(void)state;
	free(text.data);
	text = (struct web_text){ 0 };
	return 0;
}

static void test_samples_follow_their_family(void **state)
{
	struct metrics_label nic[] = { { "nic", "eth1" }, { "rail", "0" } };

	(void)state;
	metrics_family(&m, "weir_lost_total", METRICS_COUNTER, "Lost");
	metrics_count(&m, UINT64_MAX, nic, 2);
	metrics_count(&m, 0, NULL, 0);
	metrics_family(&m, "weir_load", METRICS_GAUGE, "Load");
	metrics_value(&m, 0.1, nic, 1);
	assert_string_equal(text.data,
		"# HELP weir_lost_total Lost\n# TYPE weir_lost_total counter\n"
		"weir_lost_total{nic=\"eth1\",rail=\"0\"} 18446744073709551615\n"
		"weir_lost_total 0\n"
		"# HELP weir_load Load\n# TYPE weir_load gauge\n"
		"weir_load{nic=\"eth1\"} 0.1\n");
}

static void test_labels_are_escaped_and_made_utf8(void **state)
{
	struct metrics_label odd = { "x",
		"a\"b\\c\nd\xc3\xa4\xff\xc0\xaf\xed\xa0\x80\xf0\x9f\x98\x80\xc3" };

	(void)state;
	metrics_family(&m, "w", METRICS_GAUGE, "h");
	metrics_value(&m, 1, &odd, 1);
	assert_non_null(strstr(text.data, "w{x=\"a\\\"b\\\\c\\nd\xc3\xa4"
					  "?"
					  "??"
					  "???"
					  "\xf0\x9f\x98\x80"
					  "?\"} 1\n"));
}

static void test_numbers_without_a_value_are_said_so(void **state)
{
	(void)state;
	metrics_family(&m, "w", METRICS_GAUGE, "h");
	metrics_value(&m, 0.0 / 0.0, NULL, 0);
	metrics_value(&m, 1.0 / 0.0, NULL, 0);
	metrics_value(&m, -1.0 / 0.0, NULL, 0);
	assert_non_null(strstr(text.data, "w NaN\nw +Inf\nw -Inf\n"));
}

/* The value of the sample that begins so. */
static uint64_t sample(const char *series)
{
	char line[256];
	const char *at;

	snprintf(line, sizeof(line), "\n%s", series);
	at = strstr(text.data, line);
	assert_non_null(at);
	return strtoull(at + strlen(line), NULL, 10);
}

static void test_histograms_are_cumulative_and_complete(void **state)
{
	static struct hist h;
	uint64_t before = 0;
	const char *at;
	int buckets = 0;

	(void)state;
	hist_init(&h);
	for (uint64_t ns = 100; ns < 20000000000ull; ns = ns * 11 / 10)
		hist_record(&h, ns);
	metrics_family(&m, "w", METRICS_HISTOGRAM, "h");
	metrics_hist(&m, &h, NULL, 0);
	for (at = text.data; (at = strstr(at, "w_bucket{")); at++) {
		uint64_t count = strtoull(strstr(at, "} ") + 2, NULL, 10);

		assert_true(count >= before);
		before = count;
		buckets++;
	}
	assert_int_equal(buckets, METRICS_BOUNDS + 1);
	assert_int_equal(sample("w_bucket{le=\"+Inf\"} "), h.count);
	assert_int_equal(sample("w_count "), h.count);
	assert_true(sample("w_bucket{le=\"10\"} ") < h.count);
	assert_true(sample("w_bucket{le=\"1e-06\"} ") > 0);
}

static void test_a_value_counts_at_its_bound_or_the_next(void **state)
{
	static struct hist h;

	(void)state;
	hist_init(&h);
	hist_record(&h, 150);
	hist_record(&h, 990000);
	hist_record(&h, 1010000);
	metrics_family(&m, "w", METRICS_HISTOGRAM, "h");
	metrics_hist(&m, &h, NULL, 0);
	assert_int_equal(sample("w_bucket{le=\"1e-06\"} "), 1);
	assert_int_equal(sample("w_bucket{le=\"0.0005\"} "), 1);
	assert_int_equal(sample("w_bucket{le=\"0.001\"} "), 2);
	assert_int_equal(sample("w_bucket{le=\"0.002\"} "), 3);
}

static void test_the_process_describes_itself(void **state)
{
	(void)state;
	metrics_process(&m);
	assert_true(sample("process_open_fds ") >= 3);
	assert_true(sample("process_resident_memory_bytes ") > 100000);
	assert_int_equal(sample("weir_build_info{version=\"" WEIR_VERSION "\"} "), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_samples_follow_their_family, clear),
		cmocka_unit_test_teardown(test_labels_are_escaped_and_made_utf8, clear),
		cmocka_unit_test_teardown(test_numbers_without_a_value_are_said_so, clear),
		cmocka_unit_test_teardown(test_histograms_are_cumulative_and_complete, clear),
		cmocka_unit_test_teardown(test_a_value_counts_at_its_bound_or_the_next, clear),
		cmocka_unit_test_teardown(test_the_process_describes_itself, clear),
	};

	return cmocka_run_group_tests_name("web/metrics", tests, NULL, NULL);
}
