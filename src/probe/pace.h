/* SPDX-License-Identifier: BSD-3-Clause */
/* When in a tick each of its probes is due: the first at once, the second a lead and a gap later, each other a gap after the
 * one before.
 *
 *	pace_init(&p);
 *	...
 *	pace_tick(&p, served_ns, grid_ns, sleep_ns);	before the first probe of a tick
 *	pace_probe(&p, late_ns, served_ns);		each that is sent
 *	due_ns = tick_ns + pace_after_ns(&p, place);	of the next probe of this place
 *
 * Too close, and each is late by all those before it, and a pause that the host takes in the midst of them is never made up
 * for. Too far, and the thread spends the time between two of them with looking at the clock: a sleep is not as short. The
 * first one takes longest, where the end that answers has to be woken. All of this depends on the host and
 * on who else wants its CPUs, so it is learned: what a probe takes, its answer included; how much more than that is needed for most
 * ticks to end no later than they began; what the first one takes. What comes out of it holds for the ticks that come: when a
 * probe is due is always known a period before, and does not move with small changes.
 */
#ifndef WEIR_PROBE_PACE_H
#define WEIR_PROBE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define PACE_GAP_NS	 (12 * NS_PER_US) /* until something is known */
#define PACE_GAP_MIN_NS	 (2 * NS_PER_US)
#define PACE_LEAD_MAX_NS (250 * NS_PER_US)
#define PACE_PROBES_MIN	 8 /* of a tick that tells something */

struct pace {
	uint64_t gap_ns, lead_ns;
	/* What was learned. */
	uint64_t service_ns; /* half of the ticks take less for a probe that is not the first */
	uint32_t room;	     /* for a probe, in parts of service_ns */
	uint64_t first_ns;   /* three quarters of the first ones take less than this and a gap */
	/* Of this tick. */
	uint64_t served_ns; /* when the second was due */
	uint64_t first_late_ns;
	uint32_t probes;
	bool was_behind;
};

void pace_init(struct pace *p);

/* A tick begins. served_ns: what the thread has worked so far in all; grid_ns: from tick to tick;
 * sleep_ns: no sleep is shorter. */
void pace_tick(struct pace *p, uint64_t served_ns, uint64_t grid_ns, uint64_t sleep_ns);

/* A probe is sent, late_ns after it was due. */
void pace_probe(struct pace *p, uint64_t late_ns, uint64_t served_ns);

/* How long after its tick the probe of a place (0, 1, ...) is due. */
static inline uint64_t pace_after_ns(const struct pace *p, uint32_t place)
{
	return place ? p->lead_ns + place * p->gap_ns : 0;
}

#endif
