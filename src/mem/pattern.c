// SPDX-License-Identifier: BSD-3-Clause
#include "mem/pattern.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define REFERENCE_MIN	  ((size_t)64 << 10)
#define REFERENCE_OVERLAP ((size_t)64 << 10) /* most fragments and calls are no longer */

/* splitmix64 by position: any word of the cycle, without those before it. */
static uint64_t seeded_word(uint64_t seed, uint64_t index)
{
	uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static void make_cycle(struct pattern *p)
{
	if (p->kind == PATTERN_PUBLISHED) {
		for (size_t i = 0; i < p->cycle_bytes; i++)
			p->reference[i] = (unsigned char)(i % 111 + 1);
		return;
	}
	for (size_t i = 0; i < p->cycle_bytes; i += sizeof(uint64_t)) {
		/* The same bytes on both ends, whatever their byte order. */
		uint64_t word = htole64(seeded_word(p->seed, i / sizeof(word)));
		size_t left = p->cycle_bytes - i;

		memcpy(p->reference + i, &word, left < sizeof(word) ? left : sizeof(word));
	}
}

int pattern_init(
	struct pattern *p, enum pattern_kind kind, uint64_t seed, size_t cycle_bytes, struct err *e)
{
	size_t cycles = 1;

	memset(p, 0, sizeof(*p));
	if (!cycle_bytes || cycle_bytes > PATTERN_CYCLE_MAX) {
		err_set(e, EINVAL, "a pattern cannot repeat every %zu bytes", cycle_bytes);
		return err_hint(e, "choose a buffer of 1 byte to 1 GiB");
	}
	if (cycle_bytes < REFERENCE_MIN)
		cycles = (REFERENCE_MIN + cycle_bytes - 1) / cycle_bytes;
	p->kind = kind;
	p->seed = kind == PATTERN_SEEDED ? seed : 0;
	p->cycle_bytes = cycle_bytes;
	p->reference_bytes = cycles * cycle_bytes;
	p->overlap_bytes =
		p->reference_bytes < REFERENCE_OVERLAP ? p->reference_bytes : REFERENCE_OVERLAP;
	p->reference = malloc(p->reference_bytes + p->overlap_bytes);
	if (!p->reference) {
		err_set(e, ENOMEM, "no memory for a pattern of %zu bytes", p->reference_bytes);
		return err_hint(e, "choose a smaller buffer");
	}
	make_cycle(p);
	for (size_t i = 1; i < cycles; i++)
		memcpy(p->reference + i * cycle_bytes, p->reference, cycle_bytes);
	memcpy(p->reference + p->reference_bytes, p->reference, p->overlap_bytes);
	return 0;
}

void pattern_free(struct pattern *p)
{
	free(p->reference);
	p->reference = NULL;
}

void pattern_fill(const struct pattern *p, void *to, size_t bytes, uint64_t position)
{
	size_t at = position % p->reference_bytes;
	char *next = to;

	while (bytes) {
		size_t run = p->reference_bytes - at;

		if (run > bytes)
			run = bytes;
		memcpy(next, p->reference + at, run);
		next += run;
		bytes -= run;
		at = 0;
	}
}

/* Whether two stretches differ; where, is asked only then. Three instructions for each 32 bytes, and one
 * look at the end: memcmp(), which must know the first difference and its sign, takes half as many again. */
#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2"), always_inline)) static inline

AVX2 __m256i difference(const unsigned char *a, const unsigned char *b)
{
	return _mm256_xor_si256(
		_mm256_loadu_si256((const __m256i_u *)a), _mm256_loadu_si256((const __m256i_u *)b));
}

AVX2 __m256i differences(const unsigned char *a, const unsigned char *b, size_t bytes)
{
	__m256i sum = difference(a, b);

#pragma GCC unroll 64
	for (size_t i = 32; i < bytes; i += 32)
		sum = _mm256_or_si256(sum, difference(a + i, b + i));
	return sum;
}

/* At least 32 bytes. Blocks of halving size instead of loops: fragments are short. */
AVX2 bool differ_avx2(const unsigned char *a, const unsigned char *b, size_t bytes)
{
	const unsigned char *last_a = a + bytes - 32, *last_b = b + bytes - 32;
	__m256i sum = _mm256_setzero_si256();

	for (; bytes >= 1024; bytes -= 1024, a += 1024, b += 1024)
		sum = _mm256_or_si256(sum, differences(a, b, 1024));
#pragma GCC unroll 5
	for (size_t block = 512; block >= 32; block /= 2) {
		if (!(bytes & block))
			continue;
		sum = _mm256_or_si256(sum, differences(a, b, block));
		a += block;
		b += block;
	}
	/* The rest, and some of what was seen before. */
	sum = _mm256_or_si256(sum, difference(last_a, last_b));
	return !_mm256_testz_si256(sum, sum);
}

/* What is expected at one place of the cycle stays in registers, as many as there are, and is held against that place of
 * each row: two instructions for each 32 bytes. */
#define COLUMN_VECTORS 12
#define COLUMN_BYTES   ((size_t)COLUMN_VECTORS * 32)

AVX2 __m256i column_differences(
	const unsigned char *a, size_t row_bytes, size_t rows, const unsigned char *expected)
{
	__m256i sum = _mm256_setzero_si256(), vector[COLUMN_VECTORS];

#pragma GCC unroll 12
	for (size_t i = 0; i < COLUMN_VECTORS; i++)
		vector[i] = _mm256_loadu_si256((const __m256i_u *)expected + i);
	for (; rows; rows--, a += row_bytes) {
#pragma GCC unroll 12
		for (size_t i = 0; i < COLUMN_VECTORS; i++)
			sum = _mm256_or_si256(
				sum, _mm256_xor_si256(vector[i],
					     _mm256_loadu_si256((const __m256i_u *)a + i)));
	}
	return sum;
}

/* Whole rows, each as long as the reference, which is longer than a column. */
AVX2 bool rows_differ_avx2(
	const struct pattern *p, const unsigned char *data, size_t rows, size_t at)
{
	__m256i sum = _mm256_setzero_si256();
	size_t row_bytes = p->reference_bytes, begin;

	for (size_t i = 0; i < row_bytes; i += COLUMN_BYTES) {
		begin = i + COLUMN_BYTES > row_bytes ? row_bytes - COLUMN_BYTES : i;
		sum = _mm256_or_si256(sum, column_differences(data + begin, row_bytes, rows,
						   p->reference + (at + begin) % row_bytes));
	}
	return !_mm256_testz_si256(sum, sum);
}
#endif

static size_t first_difference(const unsigned char *a, const unsigned char *b)
{
	size_t i = 0;

	while (a[i] == b[i])
		i++;
	return i;
}

/* Past the end of the reference and round again, or to the wrong byte. */
__attribute__((noinline)) static bool check_by_steps(const struct pattern *p, const void *data,
	size_t bytes, uint64_t position, struct pattern_mismatch *m)
{
	size_t at = position % p->reference_bytes, done = 0;
	const unsigned char *found = data;

	while (done < bytes) {
		const unsigned char *expected = p->reference + at;
		size_t run = p->reference_bytes - at, wrong;

		if (run > bytes - done)
			run = bytes - done;
		if (memcmp(found + done, expected, run)) {
			wrong = first_difference(found + done, expected);
			if (m)
				*m = (struct pattern_mismatch){ done + wrong, expected[wrong],
					found[done + wrong] };
			return true;
		}
		done += run;
		at = 0;
	}
	return false;
}

#ifdef __x86_64__
__attribute__((target("avx2"), noinline)) static bool check_long_avx2(const struct pattern *p,
	const void *data, size_t bytes, uint64_t position, struct pattern_mismatch *m)
{
	size_t at = position % p->reference_bytes, run;
	size_t rows = bytes / p->reference_bytes;
	const unsigned char *found = data, *end = found + bytes;

	if (rows > 1) {
		if (rows_differ_avx2(p, found, rows, at))
			return check_by_steps(p, data, bytes, position, m);
		found += rows * p->reference_bytes;
	}
	for (; found < end; found += run, at = 0) {
		run = p->reference_bytes - at;
		if (run > (size_t)(end - found))
			run = (size_t)(end - found);
		if (run < 32 ? memcmp(found, p->reference + at, run) != 0
			     : differ_avx2(found, p->reference + at, run))
			return check_by_steps(p, data, bytes, position, m);
	}
	return false;
}

/* Nearly all is right and compared in one piece: no other function is called for that, nor registers saved. */
__attribute__((target("avx2"))) static bool check_avx2(const struct pattern *p, const void *data,
	size_t bytes, uint64_t position, struct pattern_mismatch *m)
{
	size_t at = position % p->reference_bytes;

	if (bytes < 32 || bytes > p->reference_bytes + p->overlap_bytes - at)
		return check_long_avx2(p, data, bytes, position, m);
	if (!differ_avx2(data, p->reference + at, bytes))
		return false;
	return check_by_steps(p, data, bytes, position, m);
}

/* Fragments are pages, most of them: nothing is left over, and no register has to be saved. */
#define BLOCK_BYTES 2048

__attribute__((target("avx2"), noinline)) static bool check_blocks_avx2(const struct pattern *p,
	const void *data, size_t bytes, uint64_t position, struct pattern_mismatch *m)
{
	size_t at = position % p->reference_bytes;
	const unsigned char *expected = p->reference + at;
	__m256i sum = _mm256_setzero_si256();

	if (bytes > p->reference_bytes + p->overlap_bytes - at)
		return check_long_avx2(p, data, bytes, position, m);
	for (size_t i = 0; i < bytes; i += BLOCK_BYTES)
		sum = _mm256_or_si256(sum,
			differences((const unsigned char *)data + i, expected + i, BLOCK_BYTES));
	if (_mm256_testz_si256(sum, sum))
		return false;
	return check_by_steps(p, data, bytes, position, m);
}
#endif

bool pattern_check(const struct pattern *p, const void *data, size_t bytes, uint64_t position,
	struct pattern_mismatch *m)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2"))
		return bytes % BLOCK_BYTES ? check_avx2(p, data, bytes, position, m)
					   : check_blocks_avx2(p, data, bytes, position, m);
#endif
	return check_by_steps(p, data, bytes, position, m);
}
