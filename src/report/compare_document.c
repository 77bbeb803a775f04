// SPDX-License-Identifier: BSD-3-Clause
/* Two records of rails, GPUs or probes side by side, by the shape of their JSON: members of the same name are
 * compared, objects of a list by what they are called. How a member's name ends says whether it is a figure
 * and which way is better; what is no figure was asked for, and is a setting. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "record/stats.h"
#include "report/compare.h"
#include "report/document_parts.h"

#define DEPTH	      6	   /* of objects in objects; a record has fewer */
#define FLOOR	      0.05 /* of the noise: such a record has no series */
#define FLOOR_SERIES  0.02 /* or it has one */
#define FLOOR_LATENCY 2e3  /* ns */
#define BURSTS	      3.0  /* losses do not come alone: so much more noise than that of counting */
#define SERIES_MOST   4096

static const struct measure {
	const char *ending;
	enum compare_unit unit;
	enum compare_sense sense;
	double scale;
	bool rare; /* a count of events: its noise is that of counting */
} measures[] = {
	{ "_bps", COMPARE_BPS, SENSE_MORE_IS_BETTER, 1, false },
	{ "bytes_per_s", COMPARE_BYTES_PER_S, SENSE_MORE_IS_BETTER, 1, false },
	{ "rtt_us", COMPARE_NS, SENSE_LESS_IS_BETTER, 1e3, false },
	{ "median_ns", COMPARE_NS, SENSE_LESS_IS_BETTER, 1, false },
	{ "p50_ns", COMPARE_NS, SENSE_LESS_IS_BETTER, 1, false },
	{ "p99_ns", COMPARE_NS, SENSE_LESS_IS_BETTER, 1, false },
	{ "mean_ns", COMPARE_NS, SENSE_LESS_IS_BETTER, 1, false },
	{ "retransmits", COMPARE_PLAIN, SENSE_LESS_IS_BETTER, 1, true },
	{ "lost", COMPARE_PLAIN, SENSE_LESS_IS_BETTER, 1, true },
	{ "corrupt", COMPARE_PLAIN, SENSE_LESS_IS_BETTER, 1, true },
	{ "wrong", COMPARE_PLAIN, SENSE_LESS_IS_BETTER, 1, true },
};

/* Neither a figure nor asked for: when it ran, how much there was of it, what others sum up. */
static const char *const passed_over[] = { "schema", "weir", "started", "elapsed_ns", "messages",
	"bytes", "checked", "cpu_ns", "max_ns", "min_ns", "times_ns", "windows", "sent", "count",
	"port", "run", "run_record", "limited_by", "verdict", "error", "findings", "verdicts",
	"active_ns", "in_flight_mean", "in_flight_max", "measured", "facts", "spread", "steady",
	"batches", "recommended", "iterations" };

struct side {
	struct compare *c;
	struct err *e;
	char whose[COMPARE_WHOSE];
};

static const struct measure *measure_of(const char *key)
{
	size_t length = strlen(key);

	for (size_t i = 0; i < sizeof(measures) / sizeof(measures[0]); i++) {
		size_t ending = strlen(measures[i].ending);

		if (length >= ending && !strcmp(key + length - ending, measures[i].ending))
			return &measures[i];
	}
	return NULL;
}

static bool is_passed_over(const char *key)
{
	for (size_t i = 0; i < sizeof(passed_over) / sizeof(passed_over[0]); i++)
		if (!strcmp(key, passed_over[i]))
			return true;
	return false;
}

/* How far the times of an object's messages lie from their median, as a share of it; 0 where it has none. */
static double spread_of(const json_t *object)
{
	const json_t *times = json_object_get(object, "times_ns");
	size_t n = json_array_size(times) < SERIES_MOST ? json_array_size(times) : SERIES_MOST;
	double y[SERIES_MOST], median;

	if (n < 8)
		return 0;
	for (size_t i = 0; i < n; i++)
		y[i] = json_number_value(json_array_get(times, i));
	median = stats_median(y, n);
	for (size_t i = 0; i < n; i++)
		y[i] = fabs(y[i] - median);
	return median > 0 ? 1.4826 * stats_median(y, n) / median : 0;
}

static double noise_of(
	const struct measure *m, double before, double after, const json_t *a, const json_t *b)
{
	double most = fmax(fabs(before), fabs(after)), share = hypot(spread_of(a), spread_of(b));

	if (m->rare)
		return fmax(BURSTS * sqrt(before + after), 1);
	return fmax(most * (share > 0 ? fmax(share, FLOOR_SERIES) : FLOOR),
		m->unit == COMPARE_NS ? FLOOR_LATENCY : 0);
}

static bool is_headline(const struct side *s, const char *key, const json_t *of)
{
	const struct document *d = s->c->before->document;
	const json_t *holder = d->kind->of ? json_object_get(d->top, d->kind->of) : d->top;

	return of == holder && !strcmp(key, d->kind->figure);
}

static int add_measure(
	struct side *s, const struct measure *m, const char *key, const json_t *a, const json_t *b)
{
	struct change change = { .unit = (uint8_t)m->unit, .sense = (uint8_t)m->sense };
	char label[DOCUMENT_TEXT];

	change.before = json_number_value(json_object_get(a, key)) * m->scale;
	change.after = json_number_value(json_object_get(b, key)) * m->scale;
	if (!isfinite(change.before) || !isfinite(change.after) || change.before < 0 ||
		change.after < 0)
		return 0;
	snprintf(change.name, sizeof(change.name), "%.*s", (int)sizeof(change.name) - 1,
		document_label(label, key));
	snprintf(change.whose, sizeof(change.whose), "%s", s->whose);
	change.noise = noise_of(m, change.before, change.after, a, b);
	change.score = change.noise > 0 ? fabs(change.after - change.before) / change.noise : 0;
	if (is_headline(s, key, a)) {
		s->c->headline_change = change;
		s->c->headline = &s->c->headline_change;
	}
	return compare_add(s->c, &change, s->e);
}

/* What a sender waited for, as a share of the time. */
static int add_stalls(struct side *s, const json_t *a, const json_t *b)
{
	const json_t *x = json_object_get(a, "stalled"), *y = json_object_get(b, "stalled");
	double over[2] = { json_number_value(json_object_get(a, "elapsed_ns")),
		json_number_value(json_object_get(b, "elapsed_ns")) };
	const char *key;
	json_t *value;
	int ret = 0;

	if (!(over[0] > 0) || !(over[1] > 0))
		return 0;
	json_object_foreach((json_t *)x, key, value) {
		struct change change = {
			.unit = COMPARE_SHARE, .sense = SENSE_NONE, .noise = FLOOR
		};
		char label[DOCUMENT_TEXT];

		if (!json_is_number(value) || !json_is_number(json_object_get(y, key)))
			continue;
		change.before = fmin(json_number_value(value) / over[0], 1);
		change.after = fmin(json_number_value(json_object_get(y, key)) / over[1], 1);
		change.score = fabs(change.after - change.before) / change.noise;
		snprintf(change.name, sizeof(change.name), "stalled: %.100s",
			document_label(label, key));
		snprintf(change.whose, sizeof(change.whose), "%s", s->whose);
		ret = compare_add(s->c, &change, s->e);
		if (ret)
			break;
	}
	return ret;
}

static int add_setting(struct side *s, const char *key, const json_t *a, const json_t *b)
{
	char before[DOCUMENT_TEXT], after[DOCUMENT_TEXT], label[DOCUMENT_TEXT];

	document_value(before, key, a);
	document_value(after, key, b);
	if (!strcmp(before, after))
		return 0;
	return compare_add_setting(s->c, s->whose[0] ? s->whose : "option",
		document_label(label, key), before, after, true, s->e);
}

static int walk(struct side *s, const json_t *a, const json_t *b, int depth);

static int walk_named(struct side *s, const char *name, const json_t *a, const json_t *b, int depth)
{
	struct side inner = *s;

	snprintf(inner.whose, sizeof(inner.whose), "%.*s", COMPARE_WHOSE - 1, name);
	return walk(&inner, a, b, depth);
}

/* The object of a list that is called so. */
static const json_t *find_named(const json_t *list, const char *name)
{
	char other[DOCUMENT_TEXT];
	json_t *one;
	size_t i;

	json_array_foreach((json_t *)list, i, one) {
		if (!strcmp(document_name(other, one), name))
			return one;
	}
	return NULL;
}

static int walk_list(struct side *s, const json_t *a, const json_t *b, int depth)
{
	char name[DOCUMENT_TEXT];
	int ret = 0;

	for (size_t i = 0; i < json_array_size(a) && !ret; i++) {
		const json_t *one = json_array_get(a, i), *other = NULL;

		if (!json_is_object(one))
			continue;
		if (document_name(name, one)[0])
			other = find_named(b, name);
		else if (json_array_size(a) == json_array_size(b))
			other = json_array_get(b, i);
		if (!name[0])
			snprintf(name, sizeof(name), "%zu", i + 1);
		if (json_is_object(other))
			ret = walk_named(s, name, one, other, depth);
	}
	return ret;
}

static int walk_member(struct side *s, const char *key, const json_t *a, const json_t *b, int depth)
{
	const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);
	const struct measure *m = measure_of(key);

	if (is_passed_over(key) || !y)
		return 0;
	if (m && json_is_number(x) && json_is_number(y))
		return add_measure(s, m, key, a, b);
	if (json_is_array(x) && json_is_array(y))
		return walk_list(s, x, y, depth);
	if (json_is_object(x) && json_is_object(y))
		return !strcmp(key, "stalled") ? 0
		       : document_is_small(x)  ? walk(s, x, y, depth)
					       : walk_named(s, key, x, y, depth);
	/* A figure that one of them lacks was not measured; the finding says why. */
	if (m || json_is_array(x) || json_is_object(x))
		return 0;
	return add_setting(s, key, x, y);
}

static int walk(struct side *s, const json_t *a, const json_t *b, int depth)
{
	const char *key;
	json_t *value;
	int ret;

	if (depth == 0)
		return 0;
	ret = add_stalls(s, a, b);
	json_object_foreach((json_t *)a, key, value) {
		if (ret)
			break;
		ret = walk_member(s, key, a, b, depth - 1);
	}
	return ret;
}

/* The same trouble, whatever figures it names. */
static bool same_words(const char *a, const char *b)
{
	for (;; a++, b++) {
		while (isdigit((unsigned char)*a) || *a == '.')
			a++;
		while (isdigit((unsigned char)*b) || *b == '.')
			b++;
		if (*a != *b || !*a)
			return *a == *b;
	}
}

struct search {
	struct side *side;
	const struct document *other;
	const struct document_trouble *like;
	bool appeared, found;
	int ret;
};

static void look_for(const struct document_trouble *t, void *argument)
{
	struct search *s = argument;

	s->found |= !strcmp(t->where, s->like->where) && same_words(t->text, s->like->text);
}

/* As the causes know it. What a prober finds is what it is for; the others were to move bytes, and did not. */
static const char *name_of(const struct document_trouble *t, const struct document_kind *kind)
{
	if (strstr(t->text, "wrong bytes"))
		return "wrong_payload";
	return t->mark == MARK_BAD && strcmp(kind->figure, "lost") != 0 ? "incomplete" : "trouble";
}

static void add_trouble(const struct document_trouble *t, void *argument)
{
	struct search *s = argument;
	struct compare_finding one = { .appeared = s->appeared, .severity = t->mark };

	s->like = t;
	s->found = false;
	if (t->mark < MARK_WARNING || s->ret)
		return;
	document_troubles(s->other, look_for, s);
	if (s->found)
		return;
	snprintf(one.name, sizeof(one.name), "%s", name_of(t, s->other->kind));
	bool named = !strncmp(t->text, t->where, strlen(t->where));

	snprintf(one.text, sizeof(one.text), "%.100s%s%.500s", named ? "" : t->where,
		named ? "" : ": ", t->text);
	s->ret = compare_add_finding(s->side->c, &one, s->side->e);
}

int compare_document(struct compare *c, struct err *e)
{
	const struct document *a = c->before->document, *b = c->after->document;
	struct side side = { .c = c, .e = e };
	struct search appeared = { .side = &side, .other = a, .appeared = true };
	struct search vanished = { .side = &side, .other = b };
	int ret;

	if (a->kind != b->kind)
		return err_set(e, EINVAL,
			"one is a record of %s, the other of %s: their figures do not compare",
			a->kind->title, b->kind->title);
	ret = walk(&side, a->top, b->top, DEPTH);
	if (ret)
		return ret;
	document_troubles(b, add_trouble, &appeared);
	document_troubles(a, add_trouble, &vanished);
	return appeared.ret ? appeared.ret : vanished.ret;
}
