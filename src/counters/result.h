/* SPDX-License-Identifier: BSD-3-Clause */
/* A difference with its findings that stands alone: what a run keeps of an end's counters, and sends to
 * the other end as lines of text.
 *
 *	struct counters_result *mine = NULL, *theirs = NULL;
 *
 *	ret = counters_result_make(&mine, &before, &after, e);		built-in rules
 *	counters_result_encode(mine, file);
 *	while (a line of the peer begins with a kind)
 *		ret = counters_result_decode(&theirs, kind, rest_of_line, e);
 *	ret = counters_result_finish(theirs, e);
 *	counters_result_free(mine);
 *
 * Only rows that say something are kept, and how many there were. Not thread-safe.
 */
#ifndef WEIR_COUNTERS_RESULT_H
#define WEIR_COUNTERS_RESULT_H

#include <stdio.h>

#include "counters/difference.h"
#include "counters/finding.h"

struct counters_result {
	struct difference difference; /* owns its catalog */
	struct findings findings;
	/* while it is being put together */
	uint32_t *index;
	uint32_t room;
};

/* *out is NULL after a failure. The snapshots are borrowed for the call alone. */
int counters_result_make(struct counters_result **out, const struct snapshot *before,
	const struct snapshot *after, struct err *e);
void counters_result_free(struct counters_result *r); /* NULL is left alone */

/* Put one together row by row, then finish it. */
int counters_result_new(struct counters_result **out, struct err *e);
int counters_result_add(struct counters_result *r, const struct counter *counter,
	const struct row *row, struct err *e);
int counters_result_finish(struct counters_result *r, struct err *e); /* NULL is left alone */

void counters_result_encode(const struct counters_result *r, FILE *f);
/* One line after its first word; *r is made by the first one. 1: it was one of ours; 0: of another
 * kind; -EPROTO for what is broken, -ENOMEM. line is cut in place. */
int counters_result_decode(struct counters_result **r, const char *kind, char *line, struct err *e);

#endif
