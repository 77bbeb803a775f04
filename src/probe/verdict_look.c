// SPDX-License-Identifier: BSD-3-Clause
#include <stdlib.h>

#include "probe/verdict_parts.h"

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* What is usual on each rail now: a pair's siblings. */
static void find_medians(struct verdicts *v)
{
	for (uint32_t rail = 0; rail < v->rails; rail++) {
		size_t n = 0;

		for (size_t i = 0; i < v->pairs; i++)
			if (v->pair[i].m.from_rail == rail && v->pair[i].now.median_ns)
				v->scratch[n++] = v->pair[i].now.median_ns;
		qsort(v->scratch, n, sizeof(*v->scratch), by_number);
		v->rail_median[rail] = n ? v->scratch[n / 2] : 0;
	}
}

static void find_late_hosts(struct verdicts *v)
{
	for (uint32_t i = 0; i < v->hosts; i++)
		v->late_ns[i] = 0;
	for (size_t i = 0; i < v->pairs; i++) {
		const struct pair *p = &v->pair[i];

		if (p->seen && p->now.late_ns > v->late_ns[p->m.from_host])
			v->late_ns[p->m.from_host] = p->now.late_ns;
	}
}

/* A median of what can be compared with the baseline, or none. */
static void admit_latency(struct pair *p)
{
	if (p->now.samples < VERDICT_SAMPLES_MIN || (p->stamped && !p->now.stamped))
		p->now.median_ns = 0;
	if (p->now.median_ns && p->now.stamped && !p->stamped) {
		p->stamped = true;
		p->base_windows = 0;
	}
}

static bool is_lossy(struct pair *p)
{
	uint32_t sent = 0, lost = 0, at = p->at;

	p->sent[at] = p->now.sent > UINT16_MAX ? UINT16_MAX : (uint16_t)p->now.sent;
	p->lost[at] = p->now.lost > UINT16_MAX ? UINT16_MAX : (uint16_t)p->now.lost;
	p->at = (uint8_t)((at + 1) % VERDICT_HISTORY);
	if (p->now.lost >= 2 && p->now.lost * 2 >= p->now.sent)
		return true;
	for (int i = 0; i < VERDICT_HISTORY; i++) {
		sent += p->sent[i];
		lost += p->lost[i];
	}
	/* What was lost before and is not now has ended, but for a steady trickle. */
	return p->now.lost && lost >= 3 && lost * 20 >= sent;
}

static bool is_slow(const struct verdicts *v, const struct pair *p)
{
	uint64_t now = p->now.median_ns, siblings = v->rail_median[p->m.from_rail];

	if (!now || p->base_windows < VERDICT_BASE_WINDOWS)
		return false;
	/* All of a rail slow at once has no healthy siblings: the baseline alone speaks then. */
	if (siblings > 3 * p->base_ns)
		siblings = p->base_ns;
	return now > 3 * p->base_ns && now > 2 * siblings && now > p->base_ns + VERDICT_SLOW_NS &&
	       now > siblings + VERDICT_SLOW_NS && now > p->base_ns + 8 * p->deviation_ns;
}

/* Slowly: what is wrong must not become what is usual. */
static void learn(struct pair *p)
{
	int64_t off = (int64_t)p->now.median_ns - (int64_t)p->base_ns;

	if (!p->base_windows || (p->base_windows < VERDICT_BASE_WINDOWS && off < 0)) {
		p->base_ns = p->now.median_ns;
		p->deviation_ns = p->base_windows ? p->deviation_ns : 0;
	} else if (p->base_windows >= VERDICT_BASE_WINDOWS) {
		p->base_ns = (uint64_t)((int64_t)p->base_ns + off / 32);
	}
	off = off < 0 ? -off : off;
	if (p->base_windows)
		p->deviation_ns =
			(uint64_t)((int64_t)p->deviation_ns + (off - (int64_t)p->deviation_ns) / 8);
	if (p->base_windows < UINT32_MAX)
		p->base_windows++;
}

static bool blame_host(struct pair *p, uint64_t from_ns, uint64_t to_ns, uint64_t above_ns)
{
	if (from_ns < above_ns && to_ns < above_ns)
		return false;
	p->starved = true;
	p->starved_host = from_ns >= to_ns ? p->m.from_host : p->m.to_host;
	return true;
}

/* Whether what looks bad may as well be the hosts themselves, who get no CPU. */
static bool is_starved(const struct verdicts *v, struct pair *p)
{
	uint64_t from_ns = v->late_ns[p->m.from_host], to_ns = v->late_ns[p->m.to_host];

	if (p->fault == VERDICT_LOSS)
		return blame_host(p, from_ns, to_ns, VERDICT_LATE_NS);
	if (p->now.prober_ns > from_ns)
		from_ns = p->now.prober_ns;
	if (p->now.responder_ns > to_ns)
		to_ns = p->now.responder_ns;
	return blame_host(p, from_ns, to_ns, p->now.median_ns - p->base_ns);
}

static uint8_t one_more(uint8_t windows)
{
	return windows < UINT8_MAX ? windows + 1 : windows;
}

static void look(const struct verdicts *v, struct pair *p)
{
	bool lossy, suspect;

	p->bad = p->explained = p->starved = false;
	if (!p->seen || !p->now.sent)
		return;
	lossy = is_lossy(p);
	suspect = lossy || is_slow(v, p);
	p->fault = lossy ? VERDICT_LOSS : VERDICT_SLOW;
	p->starved = suspect && is_starved(v, p);
	p->starved_windows = p->starved ? one_more(p->starved_windows) : 0;
	p->suspect_windows = suspect && !p->starved ? one_more(p->suspect_windows) : 0;
	p->bad = lossy || p->starved_windows >= VERDICT_SLOW_WINDOWS ||
		 p->suspect_windows >= VERDICT_SLOW_WINDOWS;
	if (!suspect && p->now.median_ns)
		learn(p);
}

void verdict_look(struct verdicts *v)
{
	for (size_t i = 0; i < v->pairs; i++)
		admit_latency(&v->pair[i]);
	find_medians(v);
	find_late_hosts(v);
	for (size_t i = 0; i < v->pairs; i++)
		look(v, &v->pair[i]);
}
