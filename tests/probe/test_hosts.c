// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "probe/hosts.h"

static void expect(const char *list, const char *joined)
{
	char text[512] = "";
	struct hosts h = { 0 };

	assert_int_equal(hosts_add_list(&h, list, NULL), 0);
	for (size_t i = 0; i < h.count; i++)
		strcat(strcat(text, h.name[i]), " ");
	assert_string_equal(text, joined);
	hosts_free(&h);
}

static void test_lists_as_slurm_writes_them(void **state)
{
	(void)state;
	expect("a,b c", "a b c ");
	expect("n[1-3]", "n1 n2 n3 ");
	expect("n[08-11,20]x,gw", "n08x n09x n10x n11x n20x gw ");
	expect("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2 ");
	expect("a,a,,a", "a ");
}

static void test_what_is_no_list_is_refused(void **state)
{
	static const char *const wrong[] = { "n[", "n[1-", "n[3-1]", "n[a]", "n[1-999999999]",
		"n[1]]x[" };
	struct hosts h = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(hosts_add_list(&h, wrong[i], NULL), -EINVAL);
	hosts_free(&h);
}

static void test_slurm_is_asked_when_nothing_is_given(void **state)
{
	struct hosts h;
	struct err e;

	(void)state;
	setenv("SLURM_JOB_NODELIST", "n[1-2]", 1);
	assert_int_equal(hosts_find(&h, NULL, NULL, &e), 0);
	assert_int_equal(h.count, 2);
	hosts_free(&h);
	assert_int_equal(hosts_find(&h, "other", NULL, &e), 0);
	assert_string_equal(h.name[0], "other");
	hosts_free(&h);
	unsetenv("SLURM_JOB_NODELIST");
	unsetenv("PBS_NODEFILE");
	unsetenv("WEIR_HOSTS");
	assert_int_equal(hosts_find(&h, NULL, NULL, &e), -EINVAL);
	assert_non_null(strstr(e.hint, "--hosts"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists_as_slurm_writes_them),
		cmocka_unit_test(test_what_is_no_list_is_refused),
		cmocka_unit_test(test_slurm_is_asked_when_nothing_is_given),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
