/* SPDX-License-Identifier: BSD-3-Clause */
/* Seeded random numbers for property tests: the same ones on every run (splitmix64). */
#ifndef WEIR_TESTS_BASE_PRNG_H
#define WEIR_TESTS_BASE_PRNG_H

#include <stdint.h>

static inline uint64_t prng_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* 0 to limit - 1 */
static inline uint64_t prng_below(uint64_t *state, uint64_t limit)
{
	return prng_next(state) % limit;
}

#endif
