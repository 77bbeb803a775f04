/* SPDX-License-Identifier: BSD-3-Clause */
/* How long before a moment to wake up, so as to be there when it comes.
 *
 *	settle_init(&s, 300 * NS_PER_US);
 *	...
 *	wake_ns = due_ns - settle_early_ns(&s, due_ns - now_ns);	and look at the clock until due_ns
 *	settle_learn(&s, clock_ns() - wake_ns);				each time that a sleep has ended
 *
 * To wake a sleeping CPU takes from a few microseconds to a hundred, and no setting says how many. The time is
 * learned: nine sleeps of ten end within it, so a host that wakes up fast pays next to nothing for looking. A 64th of a sleep at most,
 * but for short ones.
 */
#ifndef WEIR_BASE_SETTLE_H
#define WEIR_BASE_SETTLE_H

#include <stdint.h>

#define SETTLE_SHARE	64
#define SETTLE_LEAST_NS 50000ull
#define SETTLE_DOWN_NS	1000ull
#define SETTLE_UP_NS	(9 * SETTLE_DOWN_NS)

struct settle {
	uint64_t max_ns; /* 0: never early */
	uint64_t ns;
};

static inline void settle_init(struct settle *s, uint64_t max_ns)
{
	s->max_ns = max_ns;
	s->ns = 0;
}

/* Of a sleep of so long. */
static inline uint64_t settle_early_ns(const struct settle *s, uint64_t sleep_ns)
{
	uint64_t most_ns = sleep_ns / SETTLE_SHARE;

	if (most_ns < SETTLE_LEAST_NS)
		most_ns = SETTLE_LEAST_NS;
	return s->ns < most_ns ? s->ns : most_ns;
}

/* A sleep ended so late. */
static inline void settle_learn(struct settle *s, uint64_t late_ns)
{
	if (late_ns > s->ns)
		s->ns += SETTLE_UP_NS;
	else
		s->ns -= s->ns < SETTLE_DOWN_NS ? s->ns : SETTLE_DOWN_NS;
	if (s->ns > s->max_ns)
		s->ns = s->max_ns;
}

#endif
