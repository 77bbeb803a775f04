/* SPDX-License-Identifier: BSD-3-Clause */
/* Time in nanoseconds. Monotonic for every duration, wall clock for labels only. */
#ifndef WEIR_BASE_CLOCK_H
#define WEIR_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull
#define NS_PER_S  1000000000ull

static inline uint64_t clock_timespec_ns(struct timespec t)
{
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* CLOCK_MONOTONIC: what everything is measured with. Served by the vDSO, no system call. */
static inline uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return clock_timespec_ns(t);
}

/* Nanoseconds since 1970, for labels. Never subtract two of them. */
static inline uint64_t clock_wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return clock_timespec_ns(t);
}

#endif
