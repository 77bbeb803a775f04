/* SPDX-License-Identifier: BSD-3-Clause */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hist.h"

#define SOUND_VALUES 10

void hist_init(struct hist *h)
{
	memset(h, 0, sizeof(*h));
	h->min_ns = UINT64_MAX;
}

uint64_t hist_bucket_low_ns(unsigned int bucket)
{
	if (bucket < HIST_SUB)
		return bucket;
	if (bucket >= HIST_BUCKETS)
		bucket = HIST_BUCKETS - 1;
	return (uint64_t)(HIST_SUB + bucket % HIST_SUB) << (bucket / HIST_SUB - 1);
}

uint64_t hist_bucket_high_ns(unsigned int bucket)
{
	if (bucket >= HIST_BUCKETS - 1)
		return UINT64_MAX;
	return hist_bucket_low_ns(bucket + 1) - 1;
}

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
	return value < low ? low : value > high ? high : value;
}

static void widen(struct hist *h, uint64_t min_ns, uint64_t max_ns)
{
	if (min_ns < h->min_ns)
		h->min_ns = min_ns;
	if (max_ns > h->max_ns)
		h->max_ns = max_ns;
}

void hist_merge(struct hist *into, const struct hist *from)
{
	unsigned int b;

	for (b = 0; b < HIST_BUCKETS; b++)
		into->bucket[b] += from->bucket[b];
	into->count += from->count;
	into->sum_ns += from->sum_ns;
	into->sum_squares += from->sum_squares;
	widen(into, from->min_ns, from->max_ns);
}

/* How many of the values a percentile covers, 1 to count. 99.9 is not a binary fraction: the
 * rounding of the product must not push a whole rank to the next one. */
static uint64_t rank_of(const struct hist *h, double percent)
{
	double rank = percent * (double)h->count / 100.0;

	if (percent >= 100)
		return h->count;
	rank = ceil(rank - rank * 2 * DBL_EPSILON);
	return rank > 1 ? (uint64_t)rank : 1;
}

uint64_t hist_percentile(const struct hist *h, double percent)
{
	uint64_t rank = rank_of(h, percent), seen = 0;
	unsigned int b;

	for (b = 0; h->count && b < HIST_BUCKETS; b++) {
		seen += h->bucket[b];
		if (seen >= rank)
			return clamp(hist_bucket_high_ns(b), 0, h->max_ns);
	}
	return h->max_ns;
}

bool hist_percentile_is_sound(const struct hist *h, double percent)
{
	if (percent <= 50)
		return h->count >= SOUND_VALUES;
	return h->count >= SOUND_VALUES && h->count - rank_of(h, percent) >= SOUND_VALUES;
}

double hist_mean_ns(const struct hist *h)
{
	return h->count ? h->sum_ns / (double)h->count : 0;
}

double hist_stddev_ns(const struct hist *h)
{
	double mean = hist_mean_ns(h), variance;

	if (!h->count)
		return 0;
	variance = h->sum_squares / (double)h->count - mean * mean;
	/* rounding makes it negative when all values are equal */
	return variance > 0 ? sqrt(variance) : 0;
}

struct hist_sparse *hist_compact(const struct hist *h)
{
	struct hist_sparse *s;
	uint32_t filled = 0;
	unsigned int b;

	for (b = 0; b < HIST_BUCKETS; b++)
		filled += h->bucket[b] != 0;
	s = malloc(sizeof(*s) + filled * sizeof(s->cell[0]));
	if (!s)
		return NULL;
	*s = (struct hist_sparse){
		.count = h->count,
		.min_ns = h->min_ns,
		.max_ns = h->max_ns,
		.sum_ns = h->sum_ns,
		.sum_squares = h->sum_squares,
	};
	for (b = 0; b < HIST_BUCKETS; b++)
		if (h->bucket[b])
			s->cell[s->filled++] = (struct hist_cell){ b, h->bucket[b] };
	return s;
}

/* The cells decide, the totals beside them are only believed as far as they agree with the cells: a
 * peer must not be able to make a percentile lie outside its own buckets. */
void hist_merge_sparse(struct hist *into, const struct hist_sparse *from)
{
	uint32_t i, lowest = HIST_BUCKETS, highest = 0;
	uint64_t count;

	for (i = 0; i < from->filled; i++) {
		const struct hist_cell *c = &from->cell[i];

		if (c->bucket >= HIST_BUCKETS || !c->count ||
			__builtin_add_overflow(into->count, c->count, &count))
			continue;
		into->count = count;
		into->bucket[c->bucket] += c->count;
		lowest = c->bucket < lowest ? c->bucket : lowest;
		highest = c->bucket > highest ? c->bucket : highest;
	}
	if (lowest == HIST_BUCKETS)
		return;
	widen(into, clamp(from->min_ns, hist_bucket_low_ns(lowest), hist_bucket_high_ns(lowest)),
		clamp(from->max_ns, hist_bucket_low_ns(highest), hist_bucket_high_ns(highest)));
	if (isfinite(from->sum_ns) && isfinite(from->sum_squares)) {
		into->sum_ns += from->sum_ns;
		into->sum_squares += from->sum_squares;
	}
}
