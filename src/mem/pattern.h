/* SPDX-License-Identifier: BSD-3-Clause */
/* What validated payload looks like: every byte is a function of its position in the stream, so
 * that a byte that is wrong, missing or in the wrong place shows wherever the stream was cut.
 *
 *	struct pattern p;
 *	struct pattern_mismatch m;
 *
 *	ret = pattern_init(&p, PATTERN_SEEDED, seed, 480 << 10, e);
 *	pattern_fill(&p, buffer, 480 << 10, 0);
 *	...
 *	if (pattern_check(&p, fragment, bytes, position, &m))
 *		printf("byte %zu is %u, not %u\n", m.index, m.found, m.expected);
 *	pattern_free(&p);
 *
 * The pattern repeats every cycle_bytes, because a sender repeats its buffer: what is misplaced by whole cycles goes unseen. Within
 * it a row of bytes repeats, so that a check is two instructions for 32 bytes: what is misplaced by a multiple of 409 bytes within the same
 * 64 KiB goes unseen too (published: by one of 111). No page, cache line, packet or frame is: 409 is prime.
 *
 * After pattern_init() nothing changes: any number of threads may share one.
 */
#ifndef WEIR_MEM_PATTERN_H
#define WEIR_MEM_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum pattern_kind {
	PATTERN_PUBLISHED, /* byte i of each cycle is i mod 111 + 1: what other tools send */
	PATTERN_SEEDED,	   /* pseudo-random rows: also tells fragments apart that 111 divides */
};

#define PATTERN_CYCLE_MAX ((size_t)1 << 30)

typedef bool (*pattern_differ)(
	const unsigned char *data, const unsigned char *expected, size_t bytes);

struct pattern {
	enum pattern_kind kind;
	uint64_t seed; /* 0 for the published one */
	size_t cycle_bytes;
	/* The cycle, repeated in whole until a short one is worth a call. */
	unsigned char *reference;
	size_t reference_bytes;
	size_t block_mask; /* blocks of block_mask + 1 bytes, each of equal rows */
	/* Whether bytes differ from those of the reference, in one block. */
	pattern_differ differ;
};

struct pattern_mismatch {
	size_t index; /* of the first wrong byte in what was checked */
	unsigned char expected, found;
};

/* Prepare a pattern; both ends need the same three values. The published pattern ignores the seed.
 * -EINVAL for a cycle of 0 or more than PATTERN_CYCLE_MAX bytes, -ENOMEM. Free it also after a
 * failure, or do not: both are fine. */
int pattern_init(struct pattern *p, enum pattern_kind kind, uint64_t seed, size_t cycle_bytes,
	struct err *e);
void pattern_free(struct pattern *p);

/* The bytes of the stream at [position, position + bytes). */
void pattern_fill(const struct pattern *p, void *to, size_t bytes, uint64_t position);

/* Whether these are not the bytes of the stream at that position; then m, unless NULL, names the
 * first wrong one. */
bool pattern_check(const struct pattern *p, const void *data, size_t bytes, uint64_t position,
	struct pattern_mismatch *m);

/* Internal: from that place of the reference on, past the end of a block or round again. */
bool pattern_differs_piecewise(
	const struct pattern *p, const unsigned char *data, size_t bytes, size_t at);

/* The same without the place: cheaper, for what is right nearly always. */
static inline bool pattern_differs(
	const struct pattern *p, const void *data, size_t bytes, uint64_t position)
{
	size_t at = position % p->reference_bytes, end = at + bytes;

	if (end > p->reference_bytes || (at ^ (end - 1)) > p->block_mask)
		return pattern_differs_piecewise(p, data, bytes, at);
	return p->differ(data, p->reference + at, bytes);
}

static inline unsigned char pattern_byte(const struct pattern *p, uint64_t position)
{
	return p->reference[position % p->cycle_bytes];
}

#endif
