// SPDX-License-Identifier: BSD-3-Clause
#include "probe/pace.h"

/* A tick is behind that is later somewhere than it began by more than this, half of what a probe may be late. */
#define BEHIND_NS (100 * NS_PER_US)

/* A tick that is behind gets the next ones an eighth more, which they give back over 512 ticks: a gap that is a little too short makes
 * all of a tick late. Three times of what a probe takes is enough even where the two ends share a CPU. */
#define ROOM	  4096u
#define ROOM_MAX  (3 * ROOM)
#define ROOM_DOWN 1u
#define ROOM_UP	  (ROOM / 8)

#define LOOK_SHARE 400

#define FIRST_DOWN_NS NS_PER_US
#define FIRST_UP_NS   (3 * FIRST_DOWN_NS)

void pace_init(struct pace *p)
{
	*p = (struct pace){ .gap_ns = PACE_GAP_NS, .service_ns = PACE_GAP_NS, .room = ROOM };
}

/* A sixteenth is worth a new schedule. */
static bool is_off(uint64_t is_ns, uint64_t wanted_ns)
{
	uint64_t by_ns = is_ns > wanted_ns ? is_ns - wanted_ns : wanted_ns - is_ns;

	return by_ns > is_ns / 16;
}

static void learn(struct pace *p, uint64_t took_ns)
{
	if (took_ns > p->service_ns * (p->probes - 1))
		p->service_ns += p->service_ns / 64;
	else
		p->service_ns -= p->service_ns / 64;
	if (p->was_behind)
		p->room += p->room + ROOM_UP > ROOM_MAX ? ROOM_MAX - p->room : ROOM_UP;
	else if (p->room > ROOM)
		p->room -= ROOM_DOWN;
}

/* Between two probes. What is shorter than a sleep is spent with looking at the clock: at most a 400th of all time. */
static uint64_t spare_ns(const struct pace *p, uint64_t grid_ns, uint64_t sleep_ns)
{
	uint64_t spare_ns = p->service_ns * (p->room - ROOM) / ROOM;
	uint64_t most_ns = grid_ns / LOOK_SHARE / p->probes;

	return spare_ns < sleep_ns && spare_ns > most_ns ? most_ns : spare_ns;
}

void pace_tick(struct pace *p, uint64_t served_ns, uint64_t grid_ns, uint64_t sleep_ns)
{
	uint64_t gap_ns;

	if (p->probes >= PACE_PROBES_MIN) {
		learn(p, served_ns - p->served_ns);
		gap_ns = p->service_ns + spare_ns(p, grid_ns, sleep_ns);
		if (gap_ns > grid_ns / p->probes)
			gap_ns = grid_ns / p->probes;
		if (gap_ns < PACE_GAP_MIN_NS)
			gap_ns = PACE_GAP_MIN_NS;
		if (is_off(p->gap_ns, gap_ns))
			p->gap_ns = gap_ns;
		if (is_off(p->lead_ns, p->first_ns))
			p->lead_ns = p->first_ns;
	}
	p->probes = 0;
	p->was_behind = false;
}

static void learn_first(struct pace *p, uint64_t late_ns)
{
	if (late_ns <= p->gap_ns)
		p->first_ns -= p->first_ns < FIRST_DOWN_NS ? p->first_ns : FIRST_DOWN_NS;
	else if (p->first_ns < PACE_LEAD_MAX_NS)
		p->first_ns += FIRST_UP_NS;
}

void pace_probe(struct pace *p, uint64_t late_ns, uint64_t served_ns)
{
	if (!p->probes)
		p->first_late_ns = late_ns;
	else if (late_ns > p->first_late_ns + BEHIND_NS)
		p->was_behind = true;
	if (p->probes == 1) {
		learn_first(p, late_ns);
		p->served_ns = served_ns;
	}
	p->probes++;
}
