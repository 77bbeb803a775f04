/* SPDX-License-Identifier: BSD-3-Clause */
/* A test program whose machine lacks what it needs says so and is not counted as passed. */
#ifndef WEIR_TESTS_MEM_SKIP_H
#define WEIR_TESTS_MEM_SKIP_H

#include <stdio.h>

#include "base/err.h"

/* Returns what main() returns. */
static inline int skip_all(const char *name, const struct err *e)
{
	printf("1..0 # SKIP %s\n# SKIPPED [1] %s %s\n", e->what, name, e->what);
	return 0;
}

#endif
