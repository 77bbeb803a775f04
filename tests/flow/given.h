/* SPDX-License-Identifier: BSD-3-Clause */
/* Options as a user would give them, for tests.
 *
 *	struct end server = given(WORKLOAD_STREAM, "-T 2"), client = given(WORKLOAD_STREAM, "-c -F 8");
 */
#ifndef WEIR_TESTS_FLOW_GIVEN_H
#define WEIR_TESTS_FLOW_GIVEN_H

#include "flow/options.h"

struct end {
	struct flow_options o;
	struct opt_given given;
};

/* Parse and judge a line of words. Strings of the options live until a few calls later. */
int given_parse(struct end *end, enum workload w, const char *line, struct err *e);
/* The same; what is refused fails the test. */
struct end given(enum workload w, const char *line);

#endif
