// SPDX-License-Identifier: BSD-3-Clause
#include "mem/pattern.h"

#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

/* A pattern repeats a row over and over, so that what is expected stays in the CPU's registers. The published one is three
 * times its 111 bytes. A seeded row is a prime number of bytes, so that pages, packets and frames that changed places show,
 * and each block of the cycle has its own; ten rows and six bytes are a page. */
#define PUBLISHED_ROW 333
#define SEEDED_ROW    409
#define SEEDED_BLOCK  ((size_t)64 << 10)
#define ROW_WORDS     ((SEEDED_ROW + 7) / 8)

#define REFERENCE_MIN 4096

/* splitmix64 by position: any word, without those before it. */
static uint64_t seeded_word(uint64_t seed, uint64_t index)
{
	uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Of the block at that place of the reference. */
static size_t block_end(const struct pattern *p, size_t at)
{
	return smaller((at | p->block_mask) + 1, p->reference_bytes);
}

static void make_seeded_row(unsigned char row[SEEDED_ROW], uint64_t seed, size_t block)
{
	for (size_t i = 0; i < SEEDED_ROW; i++) {
		uint64_t word = seeded_word(seed, block * ROW_WORDS + i / sizeof(word));

		/* The same bytes on both ends, whatever their byte order. */
		row[i] = (unsigned char)(word >> 8 * (i % sizeof(word)));
	}
}

static void make_cycle(struct pattern *p)
{
	unsigned char row[SEEDED_ROW];
	size_t run;

	if (p->kind == PATTERN_PUBLISHED) {
		for (size_t i = 0; i < p->cycle_bytes; i++)
			p->reference[i] = (unsigned char)(i % 111 + 1);
		return;
	}
	for (size_t at = 0; at < p->cycle_bytes; at += run) {
		if (!(at & p->block_mask))
			make_seeded_row(row, p->seed, at / SEEDED_BLOCK);
		run = smaller(smaller(SEEDED_ROW, p->cycle_bytes - at), block_end(p, at) - at);
		memcpy(p->reference + at, row, run);
	}
}

/* Whether two stretches differ; where, is asked only then. */

static bool bytes_differ(const unsigned char *data, const unsigned char *expected, size_t bytes)
{
	return memcmp(data, expected, bytes) != 0;
}

#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2"), always_inline)) static inline

AVX2 __m256i load(const unsigned char *from)
{
	return _mm256_loadu_si256((const __m256i_u *)from);
}

AVX2 __m256i differences(const unsigned char *a, const unsigned char *b, size_t bytes)
{
	__m256i sum = _mm256_xor_si256(load(a), load(b));

#pragma GCC unroll 16
	for (size_t i = 32; i < bytes; i += 32)
		sum = _mm256_or_si256(sum, _mm256_xor_si256(load(a + i), load(b + i)));
	return sum;
}

/* Blocks of halving size instead of loops: what is left of a fragment is short. */
AVX2 __m256i rest_differences(const unsigned char *a, const unsigned char *b, size_t bytes)
{
	__m256i sum = _mm256_setzero_si256();

#pragma GCC unroll 4
	for (size_t block = 256; block >= 32; block /= 2) {
		if (!(bytes & block))
			continue;
		sum = _mm256_or_si256(sum, differences(a, b, block));
		a += block;
		b += block;
	}
	return sum;
}

/* Two instructions for each 32 bytes, one sum after the other: a tree of sums would take registers from the row. */
AVX2 __m256i row_differences(
	const unsigned char *data, const __m256i *expected, size_t row_bytes, __m256i sum)
{
#pragma GCC unroll 16
	for (size_t i = 0; i < row_bytes; i += 32) {
		size_t at = i + 32 > row_bytes ? row_bytes - 32 : i;

		sum = _mm256_or_si256(sum, _mm256_xor_si256(expected[i / 32], load(data + at)));
		__asm__("" : "+x"(sum));
	}
	return sum;
}

#define ROWS_AT_ONCE 5

/* At least 32 bytes, of rows all alike. What memcmp() does in 4.5 instructions for 32 bytes takes three by differences(), for
 * the look is at the end only, and two where what is expected stays in registers. */
AVX2 bool rows_differ(
	const unsigned char *data, const unsigned char *expected, size_t bytes, size_t row_bytes)
{
	const unsigned char *last = data + bytes - 32, *last_expected = expected + bytes - 32;
	__m256i sum = _mm256_setzero_si256(), row[(SEEDED_ROW + 31) / 32];

	if (bytes >= row_bytes) {
#pragma GCC unroll 16
		for (size_t i = 0; i < row_bytes; i += 32)
			row[i / 32] = load(expected + (i + 32 > row_bytes ? row_bytes - 32 : i));
		for (; bytes >= ROWS_AT_ONCE * row_bytes; bytes -= ROWS_AT_ONCE * row_bytes) {
#pragma GCC unroll 5
			for (int i = 0; i < ROWS_AT_ONCE; i++, data += row_bytes)
				sum = row_differences(data, row, row_bytes, sum);
		}
		for (; bytes >= row_bytes; bytes -= row_bytes, data += row_bytes)
			sum = row_differences(data, row, row_bytes, sum);
	}
	if (bytes >= 32)
		sum = _mm256_or_si256(sum, rest_differences(data, expected, bytes));
	/* The rest, and some of what was seen before. */
	sum = _mm256_or_si256(sum, _mm256_xor_si256(load(last), load(last_expected)));
	return !_mm256_testz_si256(sum, sum);
}

__attribute__((target("avx2"))) static bool seeded_rows_differ(
	const unsigned char *data, const unsigned char *expected, size_t bytes)
{
	return bytes < 32 ? bytes_differ(data, expected, bytes)
			  : rows_differ(data, expected, bytes, SEEDED_ROW);
}

__attribute__((target("avx2"))) static bool published_rows_differ(
	const unsigned char *data, const unsigned char *expected, size_t bytes)
{
	return bytes < 32 ? bytes_differ(data, expected, bytes)
			  : rows_differ(data, expected, bytes, PUBLISHED_ROW);
}
#endif

static pattern_differ choose_differ(const struct pattern *p)
{
#ifdef __x86_64__
	/* The rows of a short cycle do not go on where it is repeated. */
	if (p->cycle_bytes >= REFERENCE_MIN && __builtin_cpu_supports("avx2"))
		return p->kind == PATTERN_SEEDED ? seeded_rows_differ : published_rows_differ;
#endif
	return bytes_differ;
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
	p->block_mask = kind == PATTERN_SEEDED ? SEEDED_BLOCK - 1 : PATTERN_CYCLE_MAX - 1;
	p->differ = choose_differ(p);
	p->reference_bytes = cycles * cycle_bytes;
	p->reference = malloc(p->reference_bytes);
	if (!p->reference) {
		err_set(e, ENOMEM, "no memory for a pattern of %zu bytes", p->reference_bytes);
		return err_hint(e, "choose a smaller buffer");
	}
	make_cycle(p);
	for (size_t i = 1; i < cycles; i++)
		memcpy(p->reference + i * cycle_bytes, p->reference, cycle_bytes);
	return 0;
}

void pattern_free(struct pattern *p)
{
	free(p->reference);
	p->reference = NULL;
}

void pattern_fill(const struct pattern *p, void *to, size_t bytes, uint64_t position)
{
	size_t at = position % p->reference_bytes, run;

	for (char *next = to; bytes; next += run, bytes -= run, at = 0) {
		run = smaller(p->reference_bytes - at, bytes);
		memcpy(next, p->reference + at, run);
	}
}

static size_t first_difference(const unsigned char *a, const unsigned char *b, size_t bytes)
{
	size_t i = 0;

	while (i + 1 < bytes && a[i] == b[i])
		i++;
	return i;
}

/* Round and round the reference, to the wrong byte. */
static bool find_difference(const struct pattern *p, const void *data, size_t bytes,
	uint64_t position, struct pattern_mismatch *m)
{
	size_t at = position % p->reference_bytes, done = 0;
	const unsigned char *found = data;

	while (done < bytes) {
		const unsigned char *expected = p->reference + at;
		size_t run = smaller(p->reference_bytes - at, bytes - done), wrong;

		if (memcmp(found + done, expected, run)) {
			wrong = first_difference(found + done, expected, run);
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

bool pattern_differs_piecewise(
	const struct pattern *p, const unsigned char *data, size_t bytes, size_t at)
{
	const unsigned char *last = data + bytes;
	size_t run;

	for (; data < last; data += run) {
		run = smaller(block_end(p, at) - at, (size_t)(last - data));
		if (p->differ(data, p->reference + at, run))
			return true;
		at = at + run < p->reference_bytes ? at + run : 0;
	}
	return false;
}

bool pattern_check(const struct pattern *p, const void *data, size_t bytes, uint64_t position,
	struct pattern_mismatch *m)
{
	return pattern_differs(p, data, bytes, position) &&
	       find_difference(p, data, bytes, position, m);
}
