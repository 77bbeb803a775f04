// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "probe/results.h"

static char dir[64];
static struct results r;

static int set_up(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/weir-results-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	results_close(&r);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command);
}

static size_t files(void)
{
	char pattern[128];
	glob_t found;
	size_t count;

	snprintf(pattern, sizeof(pattern), "%s/p_*_*.csv", dir);
	count = glob(pattern, 0, NULL, &found) ? 0 : found.gl_pathc;
	globfree(&found);
	return count;
}

static char *content(void)
{
	static char text[4096];
	FILE *f = fopen(r.path, "r");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	text[n] = '\0';
	if (f)
		fclose(f);
	return text;
}

static void test_a_row_is_start_addresses_and_round_trip(void **state)
{
	(void)state;
	assert_int_equal(results_open(&r, dir, "p", 0, NULL), 0);
	results_row(&r, 1700000000 * NS_PER_S + 5, "10.0.0.1", "10.0.0.2", 81234, NULL);
	assert_string_equal(content(), "");
	assert_int_equal(results_flush(&r, NULL), 0);
	assert_string_equal(
		content(), "2023-11-14T22:13:20.000000005+00:00,10.0.0.1,10.0.0.2,81234\n");
}

static void test_words_lose_their_commas_and_quotes(void **state)
{
	(void)state;
	assert_int_equal(results_open(&r, dir, "p", 0, NULL), 0);
	results_row(&r, 0, "a", "b", 0, "not connected, \"why\"\n");
	results_flush(&r, NULL);
	assert_string_equal(
		content(), "1970-01-01T00:00:00.000000000+00:00,a,b,not connected  why  \n");
}

static void test_a_file_that_was_removed_is_made_anew_under_its_name(void **state)
{
	(void)state;
	assert_int_equal(results_open(&r, dir, "p", 0, NULL), 0);
	results_row(&r, 0, "a", "b", 1, NULL);
	results_flush(&r, NULL);
	unlink(r.path);
	assert_int_equal(files(), 0);
	results_row(&r, 0, "a", "b", 2, NULL);
	assert_int_equal(results_flush(&r, NULL), 0);
	assert_int_equal(files(), 1);
	assert_non_null(strstr(content(), ",2\n"));
	assert_null(strstr(content(), ",1\n"));
}

static void test_a_new_file_begins_after_the_rotation_interval(void **state)
{
	(void)state;
	assert_int_equal(results_open(&r, dir, "p", 1, NULL), 0);
	results_row(&r, 0, "a", "b", 1, NULL);
	results_flush(&r, NULL);
	assert_int_equal(r.counter, 1);
	assert_int_equal(files(), 2);
}

static void test_a_folder_without_a_name_is_refused_as_such(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(results_open(&r, "", "p", 0, &e), -EINVAL);
	assert_non_null(strstr(e.what, "no name"));
}

static void test_rows_that_cannot_be_written_wait_and_then_are_dropped_whole(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(results_open(&r, dir, "p", 0, NULL), 0);
	close(r.fd);
	unlink(r.path);
	r.fd = -1;
	strcpy(r.path, "/dev/full");
	for (int i = 0; i < 400000; i++)
		results_row(&r, 0, "10.0.0.1", "10.0.0.2", 1, NULL);
	assert_true(r.dropped > 0);
	assert_int_equal(results_flush(&r, &e), -ENOSPC);
	assert_true(r.used > 0 && r.used <= RESULTS_HELD_MAX);
	assert_int_equal(r.held[r.used - 1], '\n');
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_a_row_is_start_addresses_and_round_trip),
		TEST(test_words_lose_their_commas_and_quotes),
		TEST(test_a_file_that_was_removed_is_made_anew_under_its_name),
		TEST(test_a_new_file_begins_after_the_rotation_interval),
		TEST(test_a_folder_without_a_name_is_refused_as_such),
		TEST(test_rows_that_cannot_be_written_wait_and_then_are_dropped_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
