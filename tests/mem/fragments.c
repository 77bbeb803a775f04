/* SPDX-License-Identifier: BSD-3-Clause */
#include "fragments.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../base/prng.h"

#define FRAGMENTS 40
#define SLOT	  16384 /* room for one fragment in the pool, which is out of order */

struct scene {
	struct region pool, target;
	struct pattern p;
	struct mem_fragment list[FRAGMENTS];
	uint64_t start; /* of the stream */
	size_t bytes;	/* of all fragments */
	struct err e;
};

#define OK(call)                                                                                   \
	do {                                                                                       \
		if (call)                                                                          \
			fail_msg("%s: %s", #call, s->e.what);                                      \
	} while (0)

static uint32_t some_length(uint64_t *random)
{
	switch (prng_below(random, 5)) {
	case 0:
		return (uint32_t)prng_below(random, 40);
	case 1:
		return 1448;
	case 2:
		return 4096;
	case 3:
		return (uint32_t)prng_below(random, SLOT - 4096);
	default:
		return (uint32_t)prng_below(random, 3000);
	}
}

static void scene_cut(struct scene *s, uint64_t *random)
{
	uint64_t position = s->start = prng_next(random) >> prng_below(random, 63) >> 1;
	size_t slots[FRAGMENTS];

	for (size_t i = 0; i < FRAGMENTS; i++)
		slots[i] = i;
	for (size_t i = FRAGMENTS; i > 1; i--) {
		size_t j = prng_below(random, i), swap = slots[j];

		slots[j] = slots[i - 1];
		slots[i - 1] = swap;
	}
	for (size_t i = 0; i < FRAGMENTS; i++) {
		struct mem_fragment *f = &s->list[i];

		f->bytes = some_length(random);
		f->region_offset = slots[i] * SLOT + prng_below(random, SLOT - f->bytes);
		f->stream_position = position;
		position += f->bytes;
	}
	s->bytes = position - s->start;
}

static void scene_fill(struct scene *s)
{
	for (size_t i = 0; i < FRAGMENTS; i++)
		OK(region_fill(&s->pool, &s->p, s->list[i].region_offset, s->list[i].bytes,
			s->list[i].stream_position, &s->e));
}

/* The pool holds exactly the fragments, and zeros between them. */
static void expect_pool(struct scene *s)
{
	unsigned char *found = malloc(s->pool.bytes), *expected = calloc(1, s->pool.bytes);

	assert_non_null(found);
	assert_non_null(expected);
	for (size_t i = 0; i < FRAGMENTS; i++)
		pattern_fill(&s->p, expected + s->list[i].region_offset, s->list[i].bytes,
			s->list[i].stream_position);
	OK(region_read(&s->pool, 0, found, s->pool.bytes, &s->e));
	assert_memory_equal(found, expected, s->pool.bytes);
	free(found);
	free(expected);
}

static void expect_gathered(struct scene *s, size_t offset)
{
	unsigned char *found = malloc(s->target.bytes);

	assert_non_null(found);
	memset(found, 0xee, s->target.bytes);
	OK(region_write(&s->target, 0, found, s->target.bytes, &s->e));
	OK(region_gather(&s->pool, s->list, FRAGMENTS, &s->target, s->start - offset, &s->e));
	OK(region_read(&s->target, 0, found, s->target.bytes, &s->e));
	assert_false(pattern_check(&s->p, found + offset, s->bytes, s->start, NULL));
	for (size_t i = 0; i < offset; i++)
		assert_int_equal(found[i], 0xee);
	for (size_t i = offset + s->bytes; i < s->target.bytes; i++)
		assert_int_equal(found[i], 0xee);
	free(found);
}

static void expect_corruption_found(struct scene *s, size_t fragment, uint32_t byte)
{
	struct mem_fragment *f = &s->list[fragment];
	uint64_t offset = f->region_offset + byte;
	unsigned char right, wrong;
	struct mem_mismatch m;

	OK(region_read(&s->pool, offset, &right, 1, &s->e));
	wrong = right ^ 0x10;
	OK(region_write(&s->pool, offset, &wrong, 1, &s->e));
	assert_int_equal(region_check(&s->pool, &s->p, s->list, FRAGMENTS, &m, &s->e), -EBADMSG);
	assert_int_equal(m.fragment, fragment);
	assert_int_equal(m.byte, byte);
	assert_int_equal(m.expected, right);
	assert_int_equal(m.found, wrong);
	assert_non_null(strstr(s->e.what, "wrong data: byte"));
	OK(region_write(&s->pool, offset, &right, 1, &s->e));
	OK(region_check(&s->pool, &s->p, s->list, FRAGMENTS, &m, &s->e));
}

/* All bytes of a short fragment, the ends and some of a long one. */
static void expect_corruptions_found(struct scene *s, uint64_t *random)
{
	for (size_t i = 0; i < FRAGMENTS; i += 7) {
		uint32_t bytes = s->list[i].bytes;

		for (uint32_t b = 0; b < bytes && b < 40; b++)
			expect_corruption_found(s, i, b);
		if (bytes)
			expect_corruption_found(s, i, bytes - 1);
		for (int n = 0; bytes && n < 5; n++)
			expect_corruption_found(s, i, (uint32_t)prng_below(random, bytes));
	}
}

/* Two that were mixed up: each is whole, neither is in its place. */
static void expect_swap_found(struct scene *s)
{
	struct mem_mismatch m;
	size_t a = 0, b;
	uint64_t swap;

	while (s->list[a].bytes < 16)
		a++;
	b = a + 1;
	while (s->list[b].bytes < 16)
		b++;
	swap = s->list[a].stream_position;
	if ((s->list[b].stream_position - swap) % s->p.cycle_bytes == 0)
		return; /* the same bytes belong at both places */
	s->list[a].stream_position = s->list[b].stream_position;
	s->list[b].stream_position = swap;
	assert_int_equal(region_check(&s->pool, &s->p, s->list, FRAGMENTS, &m, &s->e), -EBADMSG);
	assert_int_equal(m.fragment, a);
	s->list[b].stream_position = s->list[a].stream_position;
	s->list[a].stream_position = swap;
}

static void scene_clear(struct scene *s)
{
	void *zeros = calloc(1, s->pool.bytes);

	assert_non_null(zeros);
	OK(region_write(&s->pool, 0, zeros, s->pool.bytes, &s->e));
	free(zeros);
}

void fragments_work(const struct mem_where *where, uint64_t seed)
{
	static const size_t cycles[] = { 111, 4096, 5000, 65536, 491520, 1 << 20 };
	struct scene scene = { 0 }, *s = &scene;
	uint64_t random = seed;

	OK(region_alloc_in(&s->pool, where, (size_t)FRAGMENTS * SLOT, &s->e));
	OK(region_alloc_in(&s->target, where, (size_t)FRAGMENTS * SLOT, &s->e));
	for (size_t c = 0; c < sizeof(cycles) / sizeof(cycles[0]); c++) {
		struct mem_mismatch m;

		OK(pattern_init(&s->p, PATTERN_SEEDED, seed + c, cycles[c], &s->e));
		scene_cut(s, &random);
		scene_clear(s);
		scene_fill(s);
		expect_pool(s);
		OK(region_check(&s->pool, &s->p, s->list, FRAGMENTS, &m, &s->e));
		expect_corruptions_found(s, &random);
		expect_swap_found(s);
		expect_gathered(s, prng_below(&random, 64));
		OK(region_check(&s->pool, &s->p, s->list, 0, &m, &s->e));
		pattern_free(&s->p);
	}
	region_free(&s->pool);
	region_free(&s->target);
}

void fragments_refuse_bad_ranges(const struct mem_where *where)
{
	struct scene scene = { 0 }, *s = &scene;
	struct mem_fragment f = { 0, 4096, 1000 };
	struct mem_mismatch m;
	unsigned char byte = 0;

	OK(region_alloc_in(&s->pool, where, 2 << 20, &s->e));
	OK(region_alloc_in(&s->target, where, 2 << 20, &s->e));
	OK(pattern_init(&s->p, PATTERN_PUBLISHED, 0, 4096, &s->e));
	f.region_offset = s->pool.bytes - 4095;
	assert_int_equal(region_check(&s->pool, &s->p, &f, 1, &m, &s->e), -EFAULT);
	assert_non_null(strstr(s->e.what, "fragment 0"));
	f.region_offset = UINT64_MAX;
	assert_int_equal(region_check(&s->pool, &s->p, &f, 1, &m, &s->e), -EFAULT);
	f.region_offset = 0;
	OK(region_gather(&s->pool, &f, 1, &s->target, 1000, &s->e));
	assert_int_equal(region_gather(&s->pool, &f, 1, &s->target, 1001, &s->e), -EFAULT);
	f.stream_position = 1000 + s->target.bytes - 4095;
	assert_int_equal(region_gather(&s->pool, &f, 1, &s->target, 1000, &s->e), -EFAULT);
	assert_int_equal(region_fill(&s->pool, &s->p, 1, s->pool.bytes, 0, &s->e), -EFAULT);
	assert_int_equal(region_read(&s->pool, s->pool.bytes, &byte, 1, &s->e), -EFAULT);
	assert_int_equal(region_write(&s->pool, s->pool.bytes, &byte, 1, &s->e), -EFAULT);
	OK(region_write(&s->pool, s->pool.bytes, &byte, 0, &s->e));
	pattern_free(&s->p);
	region_free(&s->pool);
	region_free(&s->target);
}

void region_copies(const struct mem_where *where)
{
	struct scene scene = { 0 }, *s = &scene;
	unsigned char in[5000], out[5000];
	uint64_t random = 3;

	OK(region_alloc_in(&s->pool, where, 1 << 20, &s->e));
	assert_true(s->pool.bytes >= 1 << 20);
	OK(pattern_init(&s->p, PATTERN_SEEDED, 1, 1 << 16, &s->e));
	for (int round = 0; round < 50; round++) {
		size_t bytes = prng_below(&random, sizeof(in));
		size_t offset = prng_below(&random, s->pool.bytes - bytes);

		pattern_fill(&s->p, in, bytes, offset);
		memset(out, 0, sizeof(out));
		OK(region_write(&s->pool, offset, in, bytes, &s->e));
		OK(region_read(&s->pool, offset, out, bytes, &s->e));
		assert_memory_equal(in, out, bytes);
	}
	pattern_free(&s->p);
	region_free(&s->pool);
	assert_null(s->pool.data);
	region_free(&s->pool);
}
