/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "given.h"

#define ARGS_MAX   64
#define LINE_BYTES 1024
#define LINES_KEPT 8

int given_parse(struct end *end, enum workload w, const char *line, struct err *e)
{
	static __thread char lines[LINES_KEPT][LINE_BYTES];
	static __thread unsigned int turn;
	char *argv[ARGS_MAX] = { (char *)"weir" }, *next = lines[turn++ % LINES_KEPT], *word;
	int argc = 1, ret;

	snprintf(next, LINE_BYTES, "%s", line);
	while ((word = strsep(&next, " ")))
		if (*word)
			argv[argc++] = word;
	memset(end, 0, sizeof(*end));
	memset(e, 0, sizeof(*e));
	ret = opt_parse(&flow_option_table[w], argc, argv, &end->o, &end->given, e);
	if (!ret)
		ret = flow_options_check(&end->o, w, &end->given, e);
	return ret;
}

struct end given(enum workload w, const char *line)
{
	struct end end;
	struct err e;

	if (given_parse(&end, w, line, &e))
		fail_msg("%s: %s", line, e.what);
	return end;
}
