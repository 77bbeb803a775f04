/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../base/prng.h"
#include "mem/pattern.h"

static const size_t cycles[] = { 1, 2, 7, 110, 111, 112, 4095, 4096, 65535, 65536, 65537, 491520 };
#define CYCLES (sizeof(cycles) / sizeof(cycles[0]))

static struct pattern make(enum pattern_kind kind, uint64_t seed, size_t cycle_bytes)
{
	struct pattern p;
	struct err e;

	assert_int_equal(pattern_init(&p, kind, seed, cycle_bytes, &e), 0);
	return p;
}

static void test_pattern_published_counts_to_111_and_restarts_each_cycle(void **state)
{
	(void)state;
	for (size_t c = 0; c < CYCLES; c++) {
		struct pattern p = make(PATTERN_PUBLISHED, 99, cycles[c]);
		size_t bytes = 2 * cycles[c] + 300;
		unsigned char *data = malloc(bytes);

		assert_non_null(data);
		pattern_fill(&p, data, bytes, 0);
		for (size_t i = 0; i < bytes; i++)
			assert_int_equal(data[i], i % cycles[c] % 111 + 1);
		assert_false(pattern_check(&p, data, bytes, 0, NULL));
		free(data);
		pattern_free(&p);
	}
}

static void test_pattern_is_a_function_of_the_position_wherever_it_is_cut(void **state)
{
	uint64_t random = 1;

	(void)state;
	for (size_t c = 0; c < CYCLES; c++) {
		for (int kind = PATTERN_PUBLISHED; kind <= PATTERN_SEEDED; kind++) {
			struct pattern p = make((enum pattern_kind)kind, 42, cycles[c]);
			unsigned char data[5000];

			for (int round = 0; round < 50; round++) {
				uint64_t position = prng_next(&random) >> prng_below(&random, 64);
				size_t bytes = prng_below(&random, sizeof(data));

				if (position > UINT64_MAX - bytes)
					position -= bytes;
				pattern_fill(&p, data, bytes, position);
				for (size_t i = 0; i < bytes; i++)
					assert_int_equal(data[i], pattern_byte(&p, position + i));
				assert_false(pattern_check(&p, data, bytes, position, NULL));
			}
			pattern_free(&p);
		}
	}
}

static void test_pattern_seeds_make_different_streams_and_equal_ones_the_same(void **state)
{
	struct pattern a = make(PATTERN_SEEDED, 1, 4096), b = make(PATTERN_SEEDED, 2, 4096);
	struct pattern again = make(PATTERN_SEEDED, 1, 4096);
	size_t equal = 0;

	(void)state;
	for (size_t i = 0; i < 4096; i++)
		equal += pattern_byte(&a, i) == pattern_byte(&b, i);
	assert_true(equal < 64);
	assert_memory_equal(a.reference, again.reference, 4096);
	/* Both ends must agree, today's and tomorrow's. */
	assert_int_equal(pattern_byte(&a, 0), 0xc1);
	assert_int_equal(pattern_byte(&a, 1), 0x5c);
	pattern_free(&a);
	pattern_free(&b);
	pattern_free(&again);
}

static void finds_every_wrong_byte(const struct pattern *p, size_t bytes, uint64_t position)
{
	unsigned char data[4096];

	pattern_fill(p, data, bytes, position);
	assert_false(pattern_check(p, data, bytes, position, NULL));
	for (size_t i = 0; i < bytes; i++) {
		unsigned char right = data[i], wrong = right ^ (unsigned char)(1 << i % 8);
		struct pattern_mismatch m;

		data[i] = wrong;
		assert_true(pattern_check(p, data, bytes, position, &m));
		assert_int_equal(m.index, i);
		assert_int_equal(m.expected, right);
		assert_int_equal(m.found, wrong);
		data[i] = right;
	}
}

static void test_pattern_finds_every_single_wrong_byte(void **state)
{
	uint64_t random = 7;

	(void)state;
	for (size_t c = 0; c < CYCLES; c++) {
		struct pattern p = make(PATTERN_SEEDED, 5, cycles[c]);
		uint64_t position = prng_below(&random, 1 << 20);

		finds_every_wrong_byte(&p, 2023, position); /* blocks of every size, and a rest */
		finds_every_wrong_byte(&p, 4096, position); /* a page */
		pattern_free(&p);
	}
}

/* Around the end of the prepared copy, and beyond what is prepared at all. */
static void test_pattern_finds_a_wrong_byte_in_what_is_longer_than_the_cycle(void **state)
{
	static unsigned char data[300000];
	static const size_t lengths[] = { 20, 31, 32, 5000, 70000, 131073, sizeof(data) };
	uint64_t random = 9;

	(void)state;
	for (size_t c = 0; c < CYCLES; c++) {
		struct pattern p = make(PATTERN_SEEDED, 5, cycles[c]);

		for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
			size_t bytes = lengths[l], at = prng_below(&random, bytes);
			uint64_t position = 7 * p.reference_bytes - prng_below(&random, 5000);
			struct pattern_mismatch m;

			pattern_fill(&p, data, bytes, position);
			assert_false(pattern_check(&p, data, bytes, position, NULL));
			data[at] ^= 1;
			assert_true(pattern_check(&p, data, bytes, position, &m));
			assert_int_equal(m.index, at);
		}
		pattern_free(&p);
	}
}

/* Rows are compared at once, place by place: bytes of each, around the ends of blocks and of cycles. */
static void finds_a_wrong_byte_in_any_row(enum pattern_kind kind, size_t cycle_bytes)
{
	static unsigned char data[140000];
	struct pattern p = make(kind, 5, cycle_bytes);
	uint64_t position = 12345;

	pattern_fill(&p, data, sizeof(data), position);
	assert_false(pattern_check(&p, data, sizeof(data), position, NULL));
	for (size_t i = 0; i < sizeof(data); i++) {
		size_t place = (position + i) % cycle_bytes;
		struct pattern_mismatch m;

		if (place % 251 && place > 40 && place < cycle_bytes - 400 &&
			(place < 65536 - 40 || place > 65536 + 40))
			continue;
		data[i] ^= 0x80;
		assert_true(pattern_check(&p, data, sizeof(data), position, &m));
		assert_int_equal(m.index, i);
		data[i] ^= 0x80;
	}
	pattern_free(&p);
}

static void test_pattern_finds_a_wrong_byte_in_any_row(void **state)
{
	(void)state;
	finds_a_wrong_byte_in_any_row(PATTERN_SEEDED, 66000);
	finds_a_wrong_byte_in_any_row(PATTERN_SEEDED, 4097);
	finds_a_wrong_byte_in_any_row(PATTERN_SEEDED, 1 << 20);
	finds_a_wrong_byte_in_any_row(PATTERN_PUBLISHED, 66000);
	finds_a_wrong_byte_in_any_row(PATTERN_PUBLISHED, 1 << 20);
}

/* Pieces swapped, shifted or sent twice: what the published pattern cannot tell when the distance is a multiple
 * of 111. The seeded one tells all apart whose distance is one of pages, cache lines, packets or frames. */
static void test_pattern_seeded_finds_misplaced_pieces(void **state)
{
	static const size_t units[] = { 16, 64, 111, 512, 1428, 1448, 1460, 4096, 8948, 65160 };
	struct pattern seeded = make(PATTERN_SEEDED, 3, 1 << 20);
	struct pattern published = make(PATTERN_PUBLISHED, 0, 1 << 20);
	uint64_t random = 11;
	unsigned char data[1448];

	(void)state;
	for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++) {
		for (uint64_t k = 1; k < 409 && k * units[u] < 1 << 20; k++) {
			uint64_t a = prng_below(&random, (1 << 20) - k * units[u]);
			size_t bytes = 16 + prng_below(&random, sizeof(data) - 15);

			pattern_fill(&seeded, data, bytes, a);
			assert_true(pattern_check(&seeded, data, bytes, a + k * units[u], NULL));
		}
	}
	/* Blocks have rows of their own. */
	pattern_fill(&seeded, data, sizeof(data), 0);
	assert_false(pattern_check(&seeded, data, sizeof(data), 409, NULL));
	assert_true(pattern_check(&seeded, data, sizeof(data), (uint64_t)65536 / 409 * 409, NULL));
	assert_true(pattern_check(&seeded, data, sizeof(data), 65536, NULL));
	pattern_fill(&published, data, sizeof(data), 0);
	assert_false(pattern_check(&published, data, sizeof(data), (uint64_t)111 * 16, NULL));
	pattern_free(&seeded);
	pattern_free(&published);
}

static void test_pattern_refuses_cycles_that_cannot_be(void **state)
{
	struct pattern p;
	struct err e;

	(void)state;
	assert_int_equal(pattern_init(&p, PATTERN_SEEDED, 0, 0, &e), -EINVAL);
	assert_non_null(strstr(e.what, "0 bytes"));
	assert_int_equal(pattern_init(&p, PATTERN_SEEDED, 0, PATTERN_CYCLE_MAX + 1, &e), -EINVAL);
	assert_non_null(strstr(e.hint, "1 GiB"));
	pattern_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pattern_published_counts_to_111_and_restarts_each_cycle),
		cmocka_unit_test(test_pattern_is_a_function_of_the_position_wherever_it_is_cut),
		cmocka_unit_test(test_pattern_seeds_make_different_streams_and_equal_ones_the_same),
		cmocka_unit_test(test_pattern_finds_every_single_wrong_byte),
		cmocka_unit_test(test_pattern_finds_a_wrong_byte_in_what_is_longer_than_the_cycle),
		cmocka_unit_test(test_pattern_finds_a_wrong_byte_in_any_row),
		cmocka_unit_test(test_pattern_seeded_finds_misplaced_pieces),
		cmocka_unit_test(test_pattern_refuses_cycles_that_cannot_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
