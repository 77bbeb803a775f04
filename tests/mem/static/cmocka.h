/* SPDX-License-Identifier: BSD-3-Clause */
/* As much of cmocka as test_udmabuf.c and fragments.c need, for a static program in a virtual machine:
 * the distribution has no static cmocka.
 *
 *	cc -static -std=gnu17 -D_GNU_SOURCE -Itests/mem/static -Isrc -o test_udmabuf \
 *		tests/mem/test_udmabuf.c tests/mem/fragments.c tests/mem/static/cmocka.c \
 *		build/libweir.a -lm
 */
#ifndef WEIR_TESTS_MEM_STATIC_CMOCKA_H
#define WEIR_TESTS_MEM_STATIC_CMOCKA_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
	const char *name;
	void (*run)(void **state);
};

extern jmp_buf mini_end;
void mini_fail(const char *file, int line, const char *what);
int mini_run(const struct CMUnitTest *tests, size_t count);

#define MINI_ASSERT(condition)                                                                     \
	do {                                                                                       \
		if (!(condition))                                                                  \
			mini_fail(__FILE__, __LINE__, #condition);                                 \
	} while (0)

#define assert_true(a)		     MINI_ASSERT(a)
#define assert_false(a)		     MINI_ASSERT(!(a))
#define assert_null(a)		     MINI_ASSERT(!(a))
#define assert_non_null(a)	     MINI_ASSERT(a)
#define assert_int_equal(a, b)	     MINI_ASSERT((long long)(a) == (long long)(b))
#define assert_ptr_not_equal(a, b)   MINI_ASSERT((a) != (b))
#define assert_string_equal(a, b)    MINI_ASSERT(!strcmp(a, b))
#define assert_memory_equal(a, b, n) MINI_ASSERT(!memcmp(a, b, n))
#define print_message		     printf
#define cmocka_unit_test(f)                                                                        \
	{                                                                                          \
#f, f                                                                              \
	}
#define cmocka_run_group_tests(t, a, b) mini_run(t, sizeof(t) / sizeof((t)[0]))
#define fail_msg(...)                                                                              \
	do {                                                                                       \
		printf(__VA_ARGS__);                                                               \
		mini_fail(__FILE__, __LINE__, "");                                                 \
	} while (0)

#endif
