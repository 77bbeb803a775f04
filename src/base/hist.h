/* SPDX-License-Identifier: BSD-3-Clause */
/* A log-linear histogram of nanoseconds: fixed size, mergeable by addition, buckets at most 0.8 %
 * wide.
 *
 *	struct hist h;
 *	hist_init(&h);
 *	hist_record(&h, rtt_ns);
 *	p99_ns = hist_percentile(&h, 99.0);
 *
 * Values below 2 * HIST_SUB are counted exactly; above, each power of two is cut into HIST_SUB
 * equal buckets. Values above HIST_MAX_NS are counted in the last bucket (count, min, max, sum stay
 * exact), which therefore ends at UINT64_MAX. Not thread-safe: give each thread its own and
 * hist_merge() them at the end.
 */
#ifndef WEIR_BASE_HIST_H
#define WEIR_BASE_HIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HIST_SUB_BITS 7
#define HIST_SUB      (1u << HIST_SUB_BITS)
#define HIST_MAX_BITS 42 /* 2^42 ns is 73 minutes */
#define HIST_MAX_NS   ((1ull << HIST_MAX_BITS) - 1)
#define HIST_BUCKETS  ((HIST_MAX_BITS - HIST_SUB_BITS + 1) * HIST_SUB)

struct hist {
	uint64_t count;
	uint64_t min_ns, max_ns;    /* exact; min is UINT64_MAX while empty */
	double sum_ns, sum_squares; /* exact but for rounding: mean and standard deviation */
	uint64_t bucket[HIST_BUCKETS];
};

void hist_init(struct hist *h);

/* The bucket a value falls into, and the lowest and highest value of a bucket. */
static inline unsigned int hist_bucket(uint64_t ns)
{
	unsigned int shift;

	if (ns > HIST_MAX_NS)
		return HIST_BUCKETS - 1;
	if (ns < 2ull * HIST_SUB)
		return (unsigned int)ns;
	shift = 63u - (unsigned int)__builtin_clzll(ns) - HIST_SUB_BITS;
	return shift * HIST_SUB + (unsigned int)(ns >> shift);
}
uint64_t hist_bucket_low_ns(unsigned int bucket);
uint64_t hist_bucket_high_ns(unsigned int bucket);

static inline void hist_record(struct hist *h, uint64_t ns)
{
	h->bucket[hist_bucket(ns)]++;
	h->count++;
	if (ns < h->min_ns)
		h->min_ns = ns;
	if (ns > h->max_ns)
		h->max_ns = ns;
	h->sum_ns += (double)ns;
	h->sum_squares += (double)ns * (double)ns;
}

/* Add all of from to into. The result equals recording both sequences into one histogram. */
void hist_merge(struct hist *into, const struct hist *from);

/* Nearest rank: the smallest recorded value (rounded up to its bucket's end, never above the
 * largest one recorded) that at least percent of the values do not exceed. 0 for an empty
 * histogram. */
uint64_t hist_percentile(const struct hist *h, double percent);

/* Whether enough values stand behind a percentile to print it: at least ten beyond it. The median
 * and below need ten values in all. */
bool hist_percentile_is_sound(const struct hist *h, double percent);

double hist_mean_ns(const struct hist *h);   /* 0 when empty */
double hist_stddev_ns(const struct hist *h); /* of the population; 0 when empty */

/* The filled buckets alone: for keeping one per interval and for sending to the peer. */
struct hist_sparse {
	uint64_t count, min_ns, max_ns;
	double sum_ns, sum_squares;
	uint32_t filled;
	struct hist_cell {
		uint32_t bucket;
		uint64_t count;
	} cell[]; /* filled cells in bucket order */
};

/* A copy that the caller frees with free(); NULL when out of memory. */
struct hist_sparse *hist_compact(const struct hist *h);
/* Add a sparse copy to a histogram. It may come from outside: cells beyond HIST_BUCKETS are
 * ignored, and count, min and max follow from the cells where they do not agree with them. The
 * caller has checked that there is memory behind all filled cells. */
void hist_merge_sparse(struct hist *into, const struct hist_sparse *from);

#endif
