/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP connections that come and go between two snapshots: looked at from time to time, so that those
 * that are gone by the second one are not lost.
 *
 *	struct follow *f;
 *
 *	ret = follow_open(&f, e);
 *	while (the command runs)
 *		follow_look(f);				every FOLLOW_NS
 *	ret = follow_finish(f, &before, &after, e);	their last state is put into after
 *	follow_close(f);
 *
 * A connection that was not there before began with all its counters at 0: that is put into before,
 * since for a connection it is known. Not thread-safe.
 */
#ifndef WEIR_COUNTERS_FOLLOW_H
#define WEIR_COUNTERS_FOLLOW_H

#include "counters/snapshot.h"

#define FOLLOW_NS 200000000ull

struct follow;

int follow_open(struct follow **out, struct err *e);
void follow_look(struct follow *f); /* NULL is left alone */
int follow_finish(
	const struct follow *f, struct snapshot *before, struct snapshot *after, struct err *e);
void follow_close(struct follow *f); /* NULL is left alone */

#endif
