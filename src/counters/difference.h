/* SPDX-License-Identifier: BSD-3-Clause */
/* What moved between two snapshots.
 *
 *	struct difference d;
 *
 *	ret = difference_make(&d, &before, &after, e);
 *	for (uint32_t i = 0; i < d.count; i++)
 *		if (difference_is_telling(&d.row[i]))
 *			printf("%s %s %" PRIu64 "\n", d.row[i].counter->object,
 *				d.row[i].counter->name, d.row[i].change);
 *	ret = findings_make(&findings, &d, rules, e);		finding.h
 *	difference_free(&d);
 *
 * Counters are subtracted modulo their width; gauges never are; an absent counter is not zero. Both
 * snapshots and their catalogs must outlive the difference, unless it was read from a record: then
 * it owns its catalog. Not thread-safe.
 */
#ifndef WEIR_COUNTERS_DIFFERENCE_H
#define WEIR_COUNTERS_DIFFERENCE_H

#include "counters/snapshot.h"

#define DIFFERENCE_SCHEMA "weir/difference/1"

enum row_state {
	ROW_SAME,    /* the value is the same */
	ROW_MOVED,   /* a counter that grew by change */
	ROW_WRAPPED, /* it grew past its width: change is right all the same */
	ROW_RESET, /* it fell and cannot have wrapped: set back; change is what it counted since, at
			 least: the value after */
	ROW_CHANGED,  /* a gauge that is another now; change is 0 */
	ROW_APPEARED, /* only in the snapshot after */
	ROW_VANISHED, /* only in the one before */
};
#define ROW_STATES 7
extern const char *const row_state_name[ROW_STATES]; /* "same", "moved", ... */

struct row {
	const struct counter *counter;
	struct reading before, after; /* time_ns 0: absent */
	uint64_t change;	      /* of a counter; 0 for gauges and where one side is absent */
	double seconds;		      /* between its own two readings, 0 unknown */
	uint8_t state;		      /* enum row_state */
};

struct difference {
	char host[65];
	uint64_t before_ns, after_ns; /* wall clock of the snapshots */
	double seconds;		      /* between them */
	struct row *row;	      /* by counter_compare() */
	uint32_t count;
	uint32_t states[ROW_STATES]; /* how many rows are in each state */
	struct difference_object {   /* runs of rows with one source and object */
		const char *source, *object;
		uint32_t first, count;
		uint32_t telling; /* rows for which difference_is_telling() holds */
	} * object;
	uint32_t object_count;
	struct catalog *owned; /* NULL: borrowed of the snapshots */
};

int difference_make(struct difference *d, const struct snapshot *before,
	const struct snapshot *after, struct err *e);
void difference_free(struct difference *d); /* one of all zeros is left alone */

/* Whether a row says anything: all but ROW_SAME. */
static inline bool difference_is_telling(const struct row *r)
{
	return r->state != ROW_SAME;
}

/* Per second, by the counter's own two times; NAN where there is no rate (gauges, no time). */
double difference_rate(const struct row *r);

/* The change as a signed number for orders and bars: counters that were set back fall. A gauge's is
 * after - before, which is for ordering only. */
double difference_size(const struct row *r);

/* The first row of an object; NULL when there is none. */
const struct difference_object *difference_find(
	const struct difference *d, const char *source, const char *object);

/* As the value of a key (NULL: a value of its own), schema/difference-1.json; rows of ROW_SAME only
 * if all. findings may be NULL. Text: findings, then the rows that moved, at most `most` of each
 * object (0: all). */
struct findings;
void difference_emit(const struct difference *d, const struct findings *findings, const char *key,
	bool all, struct out *o);
void difference_print(const struct difference *d, const struct findings *findings, uint32_t most,
	bool all, struct out *o);

/* Read back what difference_emit() wrote, with its findings: of a file that is a difference, or a
 * record of weir run, stream, rr or crr, which holds one (of the end "local" or "remote", NULL:
 * local). -ENOENT when the record holds none. */
int difference_load(struct difference *d, struct findings *findings, const char *path,
	const char *end, struct err *e);

#endif
