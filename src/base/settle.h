/* SPDX-License-Identifier: BSD-3-Clause */
/* How long before a moment to wake up, so as to be there when it comes.
 *
 *	settle_init(&s, 100 * NS_PER_US);
 *	...
 *	wake_ns = due_ns - s.ns;		and look at the clock until due_ns
 *	settle_learn(&s, clock_ns() - wake_ns);	each time that a sleep has ended
 *
 * To wake a sleeping CPU takes from a few microseconds to a hundred, and no setting says how many. The time is
 * learned: half of the sleeps end within it, so a host that wakes up fast pays next to nothing for looking.
 */
#ifndef WEIR_BASE_SETTLE_H
#define WEIR_BASE_SETTLE_H

#include <stdint.h>

#define SETTLE_STEP_NS 1000ull

struct settle {
	uint64_t max_ns; /* 0: never early */
	uint64_t ns;
};

static inline void settle_init(struct settle *s, uint64_t max_ns)
{
	s->max_ns = max_ns;
	s->ns = 0;
}

/* A sleep ended so late. */
static inline void settle_learn(struct settle *s, uint64_t late_ns)
{
	if (late_ns > s->ns)
		s->ns += SETTLE_STEP_NS;
	else
		s->ns -= s->ns < SETTLE_STEP_NS ? s->ns : SETTLE_STEP_NS;
	if (s->ns > s->max_ns)
		s->ns = s->max_ns;
}

#endif
