/* SPDX-License-Identifier: BSD-3-Clause */
/* What is known of counters by their names: known.txt and cxi.txt, compiled in.
 *
 *	struct counter c = { .source = "cxi", .object = "cxi0", .name = file_name };
 *
 *	counter_classify(&c);	fills kind, bits and unit (counter.h)
 *
 * All is static once the first caller has it. Thread-safe.
 */
#ifndef WEIR_COUNTERS_KNOWN_H
#define WEIR_COUNTERS_KNOWN_H

#include "counters/counter.h"

/* The built-in names of a Cassini-1 in the order of a text dump: a shell's, which looks at '_' last. */
#define KNOWN_CXI_NAMES 1890
const char *const *known_cxi_names(void);
/* A name's place in that list from 1 on, which net_prof calls its metric id; 0: not in it. */
uint32_t known_cxi_number(const char *name);
/* The order itself, for lists of names given by a user. As qsort's, of const char *. */
int known_dump_order(const void *left, const void *right);

/* '*' stands for anything, '#' for one or more digits. */
bool known_match(const char *pattern, const char *text);

#endif
