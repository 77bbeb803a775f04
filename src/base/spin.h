/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether to look again for a while before going to sleep.
 *
 *	found = look();
 *	if (!found && spin_worth(&s, clock_ns())) {
 *		spin_begin(&s);
 *		do
 *			found = look();
 *		while (!found && spin_again(&s));
 *		spin_end(&s, found);
 *	}
 *	if (!found)
 *		sleep_until_there_is_something();
 *
 * To wake a sleeping CPU takes microseconds, on a virtual machine tens of them: more than the
 * answer itself on a short path. But spinning is a loss when the answer takes longer, or when the
 * one who should answer wants this very CPU. So it is tried while it succeeds, and given up, but
 * for a rare trial, when it does not. What is found at the first look tells nothing, and what is
 * found after this thread was put aside was found because another had the CPU: no success.
 */
#ifndef WEIR_BASE_SPIN_H
#define WEIR_BASE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define SPIN_CREDIT_MAX 16
/* Without credit, one wait in so long is a trial; in twice as long after each that fails. */
#define SPIN_TRIAL_NS	  (10 * NS_PER_MS)
#define SPIN_TRIAL_MAX_NS (640 * NS_PER_MS)

/* Two looks of a thread that was not put aside are not so far apart. */
#define SPIN_ASIDE_NS (6 * NS_PER_US)

struct spin {
	uint64_t limit_ns; /* 0: never */
	uint64_t until_ns, looked_ns;
	uint64_t spent_ns; /* looking, so far; whoever owns it may set it back */
	bool was_aside;
	int credit; /* successes weigh one */
	int failure; /* and failures so much; 4 unless the owner, who bounds what is spent, wants less */
	uint64_t trial_ns; /* when the next trial is due */
	uint64_t trial_gap_ns;
};

static inline void spin_init(struct spin *s, uint64_t limit_ns)
{
	s->limit_ns = limit_ns;
	s->credit = SPIN_CREDIT_MAX / 2;
	s->failure = 4;
	s->trial_ns = 0;
	s->trial_gap_ns = SPIN_TRIAL_NS;
	s->spent_ns = 0;
}

static inline bool spin_worth(struct spin *s, uint64_t now_ns)
{
	if (!s->limit_ns)
		return false;
	if (s->credit > 0)
		return true;
	if (now_ns < s->trial_ns)
		return false;
	s->trial_ns = now_ns + s->trial_gap_ns;
	return true;
}

static inline void spin_begin(struct spin *s)
{
	s->looked_ns = clock_ns();
	s->until_ns = s->looked_ns + s->limit_ns;
	s->spent_ns -= s->looked_ns;
	s->was_aside = false;
}

static inline bool spin_again(struct spin *s)
{
	uint64_t now_ns = clock_ns();

	s->was_aside |= now_ns - s->looked_ns > SPIN_ASIDE_NS;
	s->looked_ns = now_ns;
	return now_ns < s->until_ns;
}

static inline void spin_end(struct spin *s, bool found)
{
	found = found && !s->was_aside;
	s->spent_ns += s->looked_ns;
	if (found)
		s->trial_gap_ns = SPIN_TRIAL_NS;
	else if (!s->credit && s->trial_gap_ns < SPIN_TRIAL_MAX_NS)
		s->trial_gap_ns *= 2;
	s->credit += found ? 1 : -s->failure;
	if (s->credit > SPIN_CREDIT_MAX)
		s->credit = SPIN_CREDIT_MAX;
	if (s->credit < 0)
		s->credit = 0;
}

#endif
