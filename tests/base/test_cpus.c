/* SPDX-License-Identifier: BSD-3-Clause */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpus.h"
#include "prng.h"

static void test_cpus_parse_reads_what_the_kernel_writes(void **state)
{
	static const struct {
		const char *list, *same;
		int count;
	} good[] = {
		{ "", "", 0 },
		{ "\n", "", 0 },
		{ " \t", "", 0 },
		{ "0", "0", 1 },
		{ "0-3,8\n", "0-3,8", 5 },
		{ "0-14:2", "0,2,4,6,8,10,12,14", 8 },
		{ "10-14:2,0-3", "0-3,10,12,14", 7 },
		{ " 1 , 3 - 4 ", "1,3-4", 3 },
		{ "5-5", "5", 1 },
		{ "1,1,1-2", "1-2", 2 },
		{ "0,1", "0-1", 2 },
		{ "007", "7", 1 },
		{ "63-64,4095", "63-64,4095", 3 },
		{ "0-4095", "0-4095", 4096 },
	};
	struct cpus c;
	struct err e;
	char buf[64];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(cpus_parse(&c, good[i].list, &e), 0);
		assert_int_equal(c.count, good[i].count);
		assert_string_equal(cpus_format(&c, buf, sizeof(buf)), good[i].same);
	}
}

static void test_cpus_parse_refuses_and_leaves_the_set(void **state)
{
	static const struct {
		const char *list;
		int code;
	} bad[] = {
		{ "a", EINVAL },
		{ "-1", EINVAL },
		{ "1-", EINVAL },
		{ "1--2", EINVAL },
		{ "3-1", EINVAL },
		{ "0-4:", EINVAL },
		{ "0-4:0", EINVAL },
		{ "0-4:-1", EINVAL },
		{ "0:2", EINVAL },
		{ "0,", EINVAL },
		{ ",0", EINVAL },
		{ "0,,1", EINVAL },
		{ "0 1", EINVAL },
		{ "0x1", EINVAL },
		{ "1.5", EINVAL },
		{ "4096", ERANGE },
		{ "0-4096", ERANGE },
		{ "99999999999999999999", ERANGE },
	};
	struct cpus c, before;
	struct err e;
	size_t i;

	(void)state;
	cpus_clear(&c);
	cpus_add(&c, 7);
	before = c;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(cpus_parse(&c, bad[i].list, &e), -bad[i].code);
		assert_int_equal(e.code, bad[i].code);
		assert_non_null(strstr(e.what, bad[i].list));
		assert_non_null(strstr(e.hint, "0-3,8"));
		assert_memory_equal(&c, &before, sizeof(c));
	}
}

static void test_cpus_format_and_parse_give_the_same_set_back(void **state)
{
	struct cpus c, back;
	char buf[32768];
	uint64_t seed = 1;
	int round, i, n;

	(void)state;
	for (round = 0; round < 100; round++) {
		cpus_clear(&c);
		n = (int)prng_below(&seed, round % 2 ? 4096 : 20);
		for (i = 0; i < n; i++)
			cpus_add(&c, (int)prng_below(&seed, CPUS_MAX));
		assert_int_equal(cpus_parse(&back, cpus_format(&c, buf, sizeof(buf)), NULL), 0);
		assert_memory_equal(&back, &c, sizeof(c));
	}
}

static void test_cpus_format_cut_short_ends_in_dots_after_a_whole_number(void **state)
{
	static const char *const cut[] = {
		[1] = "",
		[2] = ".",
		[3] = "..",
		[4] = "...",
		[5] = "...",
		[7] = "...",
		[8] = "100,...",
		[11] = "100,...",
		[12] = "100,200,...",
		[14] = "100,200,...",
		[16] = "100,200,300-301",
	};
	struct cpus c;
	char buf[32];
	size_t size;

	(void)state;
	assert_int_equal(cpus_parse(&c, "100,200,300-301", NULL), 0);
	for (size = 0; size < sizeof(cut) / sizeof(cut[0]); size++) {
		memset(buf, '#', sizeof(buf));
		assert_ptr_equal(cpus_format(&c, buf, size), buf);
		if (cut[size])
			assert_string_equal(buf, cut[size]);
		assert_int_equal(buf[size], '#');
	}
}

static void test_cpus_add_ignores_what_is_out_of_range_or_there(void **state)
{
	struct cpus c;

	(void)state;
	cpus_clear(&c);
	cpus_add(&c, -1);
	cpus_add(&c, CPUS_MAX);
	assert_int_equal(c.count, 0);
	cpus_add(&c, 5);
	cpus_add(&c, 5);
	assert_int_equal(c.count, 1);
	assert_true(cpus_has(&c, 5));
	assert_false(cpus_has(&c, 4));
	assert_false(cpus_has(&c, -1));
	assert_false(cpus_has(&c, CPUS_MAX));
}

static void test_cpus_nth_counts_members_in_ascending_order(void **state)
{
	struct cpus c;

	(void)state;
	assert_int_equal(cpus_parse(&c, "4095,0,63-64,128", NULL), 0);
	assert_int_equal(cpus_nth(&c, 0), 0);
	assert_int_equal(cpus_nth(&c, 1), 63);
	assert_int_equal(cpus_nth(&c, 2), 64);
	assert_int_equal(cpus_nth(&c, 3), 128);
	assert_int_equal(cpus_nth(&c, 4), 4095);
	assert_int_equal(cpus_nth(&c, 5), -1);
	assert_int_equal(cpus_nth(&c, -1), -1);
}

static void test_cpus_pin_binds_the_thread_and_pin_set_frees_it(void **state)
{
	struct cpus all, now;
	struct err e;
	int cpu;

	(void)state;
	assert_int_equal(cpus_allowed(&all, &e), 0);
	assert_true(all.count > 0);
	cpu = cpus_nth(&all, all.count - 1);
	assert_int_equal(cpus_pin(cpu, &e), 0);
	assert_int_equal(sched_getcpu(), cpu);
	assert_int_equal(cpus_allowed(&now, &e), 0);
	assert_int_equal(now.count, 1);
	assert_true(cpus_has(&now, cpu));
	assert_int_equal(cpus_pin_set(&all, &e), 0);
	assert_int_equal(cpus_allowed(&now, &e), 0);
	assert_memory_equal(&now, &all, sizeof(all));
}

static void test_cpus_pin_refuses_with_the_cpus_that_are_there(void **state)
{
	struct cpus all, none;
	struct err e;

	(void)state;
	cpus_clear(&none);
	assert_int_equal(cpus_pin_set(&none, &e), -EINVAL);
	assert_int_equal(cpus_pin(-1, &e), -EINVAL);
	assert_int_equal(cpus_pin(CPUS_MAX, &e), -EINVAL);
	assert_int_equal(cpus_allowed(&all, &e), 0);
	if (cpus_has(&all, CPUS_MAX - 1))
		skip();
	assert_int_equal(cpus_pin(CPUS_MAX - 1, &e), -EINVAL);
	assert_non_null(strstr(e.what, "4095"));
	assert_non_null(strstr(e.hint, "may run on CPU"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cpus_parse_reads_what_the_kernel_writes),
		cmocka_unit_test(test_cpus_parse_refuses_and_leaves_the_set),
		cmocka_unit_test(test_cpus_format_and_parse_give_the_same_set_back),
		cmocka_unit_test(test_cpus_format_cut_short_ends_in_dots_after_a_whole_number),
		cmocka_unit_test(test_cpus_add_ignores_what_is_out_of_range_or_there),
		cmocka_unit_test(test_cpus_nth_counts_members_in_ascending_order),
		cmocka_unit_test(test_cpus_pin_binds_the_thread_and_pin_set_frees_it),
		cmocka_unit_test(test_cpus_pin_refuses_with_the_cpus_that_are_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
