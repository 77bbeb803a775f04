// SPDX-License-Identifier: BSD-3-Clause
/* Counters of two runs: per byte where both moved bytes, per second otherwise. */
#include <math.h>
#include <string.h>

#include "report/compare.h"

#define COUNTER_FLOOR 0.2 /* what moves with the traffic moves by so much without a reason */
#define COUNTER_FEW   20  /* fewer events than this appear and vanish by chance */

/* Names of what should stay at rest: a driver's words for trouble. */
static bool is_trouble(const char *name)
{
	static const char *const words[] = { "drop", "err", "discard", "miss", "pause", "retrans",
		"timeout", "fail", "crc", "fec", "nack", "replay", "squeez", "overflow", "out_of",
		"outof", "lost", "loss", "blocked", "stall", "ecn", "cnp", "reset", "abort",
		"evict", "ofo", "prune", "collapse", "throttle" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcasestr(name, words[i]))
			return true;
	return false;
}

/* Bytes that the end moved, 0 unknown. */
static double bytes_of(const struct report *r, int end)
{
	const struct end_result *e = end ? r->run.rec.remote : r->run.rec.local;

	return r->has_run ? (double)e->counts.rx_bytes + (double)e->counts.tx_bytes : 0;
}

static const struct row *find(const struct difference *d, const struct counter *c)
{
	const struct difference_object *o = difference_find(d, c->source, c->object);

	for (uint32_t i = o ? o->first : 0; o && i < o->first + o->count; i++)
		if (!strcmp(d->row[i].counter->name, c->name))
			return &d->row[i];
	return NULL;
}

/* A record leaves out what did not move: a counter of an object that is there counted nothing. */
static double events(const struct difference *d, const struct row *r, const struct counter *c)
{
	if (r)
		return r->before.time_ns && r->after.time_ns ? (double)r->change : NAN;
	return difference_find(d, c->source, c->object) ? 0 : NAN;
}

struct scale {
	double before, after; /* what events are divided by */
	const char *name;
};

static int add_counter(struct compare *c, const char *whose, const struct counter *counter,
	double before, double after, const struct scale *scale, struct err *e)
{
	struct change change = { .counter = true, .unit = COMPARE_PLAIN, .unit_name = scale->name };
	bool trouble = is_trouble(counter->name);

	if (!isfinite(before) || !isfinite(after) || (before < COUNTER_FEW && after < COUNTER_FEW))
		return 0;
	snprintf(change.name, sizeof(change.name), "%s", counter->name);
	snprintf(change.whose, sizeof(change.whose), "%s", whose);
	snprintf(change.object, sizeof(change.object), "%s", counter->object);
	change.appeared = before == 0;
	change.vanished = after == 0;
	change.before = before / scale->before;
	change.after = after / scale->after;
	/* Bursts: events come together, so counting alone is too sure of itself. */
	change.noise =
		hypot(3 * sqrt(before + 1) / scale->before, 3 * sqrt(after + 1) / scale->after);
	change.noise = fmax(change.noise, COUNTER_FLOOR * fmax(change.before, change.after));
	change.score = fabs(change.after - change.before) / change.noise;
	/* What differs most differs by all of itself: trouble that is new stands above traffic that shifted. */
	if (trouble)
		change.score *= 2;
	if (trouble)
		change.sense = SENSE_LESS_IS_BETTER;
	return compare_add(c, &change, e);
}

static int compare_end(struct compare *c, int end, struct err *e)
{
	const struct difference *a = c->before->counters[end].difference,
				*b = c->after->counters[end].difference;
	const char *whose = !c->after->has_run				? ""
			    : c->after->run.rec.options->client == !end ? "client"
									: "server";
	double bytes_before = bytes_of(c->before, end), bytes_after = bytes_of(c->after, end);
	struct scale scale = { bytes_before / 1e9, bytes_after / 1e9, "per GB" };
	int ret = 0;

	if (!(bytes_before > 0) || !(bytes_after > 0))
		scale = (struct scale){ a->seconds, b->seconds, "per second" };
	if (!(scale.before > 0) || !(scale.after > 0))
		return 0;
	for (uint32_t i = 0; i < a->count && !ret; i++)
		if (counter_grows(a->row[i].counter->kind))
			ret = add_counter(c, whose, a->row[i].counter,
				events(a, &a->row[i], a->row[i].counter),
				events(b, find(b, a->row[i].counter), a->row[i].counter), &scale,
				e);
	for (uint32_t i = 0; i < b->count && !ret; i++)
		if (counter_grows(b->row[i].counter->kind) && !find(a, b->row[i].counter))
			ret = add_counter(c, whose, b->row[i].counter,
				events(a, NULL, b->row[i].counter),
				events(b, &b->row[i], b->row[i].counter), &scale, e);
	return ret;
}

int compare_counters(struct compare *c, struct err *e)
{
	int ret = 0;

	for (int end = 0; end < 2 && !ret; end++)
		if (c->before->counters[end].difference && c->after->counters[end].difference)
			ret = compare_end(c, end, e);
	return ret;
}
