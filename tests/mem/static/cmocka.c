/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmocka.h"

jmp_buf mini_end;

void mini_fail(const char *file, int line, const char *what)
{
	printf("# %s:%d: %s\n", file, line, what);
	longjmp(mini_end, 1);
}

/* Apart: what lives across setjmp() must not be in registers. */
static int run_one(const struct CMUnitTest *test)
{
	void *state = NULL;
	int end = setjmp(mini_end);

	if (!end)
		test->run(&state);
	return end;
}

int mini_run(const struct CMUnitTest *tests, size_t count)
{
	int failed = 0;

	printf("1..%zu\n", count);
	for (size_t i = 0; i < count; i++) {
		int end = run_one(&tests[i]);

		failed += end;
		printf("%sok %zu - %s\n", end ? "not " : "", i + 1, tests[i].name);
	}
	return failed;
}
