/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

static void test_err_set_returns_the_negative_code_and_keeps_the_words(void **state)
{
	struct err e;

	(void)state;
	assert_int_equal(err_set(&e, ENOENT, "cannot open %s", "eth0"), -ENOENT);
	assert_int_equal(e.code, ENOENT);
	assert_string_equal(e.what, "cannot open eth0");
	assert_string_equal(e.hint, "");
}

static void test_err_set_drops_an_older_hint(void **state)
{
	struct err e;

	(void)state;
	err_set(&e, EIO, "first");
	err_hint(&e, "do this");
	err_set(&e, EPERM, "second");
	assert_string_equal(e.hint, "");
}

static void test_err_percent_m_names_the_code_given(void **state)
{
	struct err e;

	(void)state;
	errno = ENOMEM;
	err_set(&e, ENOENT, "cannot open x: %m");
	assert_string_equal(e.what, "cannot open x: No such file or directory");
	assert_int_equal(errno, ENOMEM);
}

static void test_err_hint_and_prefix_return_the_code_that_was_set(void **state)
{
	struct err e;

	(void)state;
	err_set(&e, EBUSY, "queue 8 is taken");
	assert_int_equal(err_hint(&e, "free it with: %s", "weir nic restore"), -EBUSY);
	assert_int_equal(err_prefix(&e, "cannot bind %s", "eth1"), -EBUSY);
	assert_string_equal(e.what, "cannot bind eth1: queue 8 is taken");
	assert_string_equal(e.hint, "free it with: weir nic restore");
}

static void test_err_null_is_allowed(void **state)
{
	(void)state;
	assert_int_equal(err_set(NULL, EIO, "lost"), -EIO);
	assert_int_equal(err_hint(NULL, "lost"), -EINVAL);
	assert_int_equal(err_prefix(NULL, "lost"), -EINVAL);
}

static void test_err_arguments_may_be_the_words_that_are_replaced(void **state)
{
	struct err e;

	(void)state;
	err_set(&e, EIO, "inner");
	err_set(&e, e.code, "outer (%s)", e.what);
	assert_string_equal(e.what, "outer (inner)");
	err_prefix(&e, "%s", e.what);
	assert_string_equal(e.what, "outer (inner): outer (inner)");
	err_hint(&e, "see %s", e.what);
	err_hint(&e, "%s twice", e.hint);
	assert_string_equal(e.hint, "see outer (inner): outer (inner) twice");
}

static void test_err_words_too_long_are_cut_and_say_so(void **state)
{
	char text[2 * sizeof(((struct err *)NULL)->what)];
	struct err e;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	err_set(&e, EIO, "%s", text);
	assert_int_equal(strlen(e.what), sizeof(e.what) - 1);
	assert_string_equal(e.what + sizeof(e.what) - 5, "x...");
	err_hint(&e, "%s", text);
	assert_string_equal(e.hint + sizeof(e.hint) - 5, "x...");

	text[sizeof(e.what) - 3] = '\0';
	err_set(&e, EIO, "%s", text);
	assert_string_equal(e.what, text);
	err_prefix(&e, "cannot");
	assert_memory_equal(e.what, "cannot: xxx", 11);
	assert_string_equal(e.what + sizeof(e.what) - 5, "x...");
}

static void test_err_words_are_one_line(void **state)
{
	struct err e;

	(void)state;
	err_set(&e, EINVAL, "no interface \"%s\"", "eth\n0\033[2J\x7f");
	assert_string_equal(e.what, "no interface \"eth?0?[2J?\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_err_set_returns_the_negative_code_and_keeps_the_words),
		cmocka_unit_test(test_err_set_drops_an_older_hint),
		cmocka_unit_test(test_err_percent_m_names_the_code_given),
		cmocka_unit_test(test_err_hint_and_prefix_return_the_code_that_was_set),
		cmocka_unit_test(test_err_null_is_allowed),
		cmocka_unit_test(test_err_arguments_may_be_the_words_that_are_replaced),
		cmocka_unit_test(test_err_words_too_long_are_cut_and_say_so),
		cmocka_unit_test(test_err_words_are_one_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
