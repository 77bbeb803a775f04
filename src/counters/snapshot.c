// SPDX-License-Identifier: BSD-3-Clause
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "counters/emit.h"

void problems_add(struct problems *p, const char *where, const char *format, ...)
{
	struct problem *one;
	va_list args;

	if (!p)
		return;
	if (!p->problem)
		p->problem = calloc(SNAPSHOT_PROBLEMS, sizeof(*p->problem));
	if (p->count++ >= SNAPSHOT_PROBLEMS || !p->problem)
		return;
	one = &p->problem[p->count - 1];
	snprintf(one->where, sizeof(one->where), "%s", where);
	text_one_line(one->where);
	va_start(args, format);
	vsnprintf(one->what, sizeof(one->what), format, args);
	va_end(args);
	text_one_line(one->what);
}

void problems_free(struct problems *p)
{
	free(p->problem);
	*p = (struct problems){ 0 };
}

int snapshot_init(struct snapshot *s, struct err *e)
{
	*s = (struct snapshot){ .catalog = malloc(sizeof(*s->catalog)), .owns_catalog = true };
	if (!s->catalog)
		return err_set(e, ENOMEM, "no memory for a snapshot");
	catalog_init(s->catalog);
	return 0;
}

int snapshot_reserve(struct snapshot *s, struct err *e)
{
	uint32_t room = s->catalog->room;
	struct reading *grown;

	if (s->room < room) {
		grown = reallocarray(s->reading, room, sizeof(*grown));
		if (!grown)
			return err_set(e, ENOMEM, "no memory for a snapshot");
		s->reading = grown;
		s->room = room;
	}
	if (s->count < s->catalog->count) {
		memset(s->reading + s->count, 0,
			(s->catalog->count - s->count) * sizeof(*s->reading));
		s->count = s->catalog->count;
	}
	return 0;
}

int snapshot_put(struct snapshot *s, const struct counter *counter, uint64_t value,
	uint64_t time_ns, struct err *e)
{
	uint32_t index;
	int ret;

	ret = catalog_add(s->catalog, counter, &index, e);
	if (!ret)
		ret = snapshot_reserve(s, e);
	if (!ret)
		s->reading[index] = (struct reading){ value, time_ns ? time_ns : 1 };
	return ret;
}

void snapshot_free(struct snapshot *s)
{
	if (s->owns_catalog && s->catalog) {
		catalog_free(s->catalog);
		free(s->catalog);
	}
	free(s->reading);
	problems_free(&s->problems);
	*s = (struct snapshot){ 0 };
}

void emit_value(const char *key, uint8_t kind, uint64_t value, struct out *o)
{
	char digits[24];

	if (kind == COUNTER_SIGNED) {
		out_i64(o, key, NULL, (int64_t)value);
	} else if (value <= INT64_MAX) {
		out_u64(o, key, NULL, value);
	} else {
		snprintf(digits, sizeof(digits), "%" PRIu64, value);
		out_str(o, key, NULL, digits);
	}
}

void emit_time(const char *key, uint64_t wall_ns, struct out *o)
{
	time_t seconds = (time_t)(wall_ns / NS_PER_S);
	char text[48] = "";
	struct tm tm;
	size_t n = 0;

	if (gmtime_r(&seconds, &tm))
		n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, sizeof(text) - n, ".%03dZ", (int)(wall_ns % NS_PER_S / NS_PER_MS));
	out_str(o, key, NULL, text);
}

uint32_t *snapshot_order(const struct snapshot *s, uint32_t *count)
{
	uint32_t *order = malloc(((size_t)s->count + 1) * sizeof(*order)), n = 0;

	for (uint32_t i = 0; order && i < s->count; i++)
		if (s->reading[i].time_ns)
			order[n++] = i;
	*count = n;
	if (order)
		catalog_sort(s->catalog, order, n);
	return order;
}

static void emit_problems(const struct problems *p, struct out *o)
{
	out_u64(o, "problem_count", NULL, p->count);
	out_array(o, "problems");
	for (uint32_t i = 0; p->problem && i < p->count && i < SNAPSHOT_PROBLEMS; i++) {
		out_object(o, NULL);
		out_str(o, "where", NULL, p->problem[i].where);
		out_str(o, "what", NULL, p->problem[i].what);
		out_end(o);
	}
	out_end(o);
}

static void emit_counter(const struct counter *c, const struct reading *r, struct out *o)
{
	out_array(o, NULL);
	out_str(o, NULL, NULL, c->name);
	out_str(o, NULL, NULL, counter_kind_name[c->kind]);
	out_u64(o, NULL, NULL, c->bits);
	out_str(o, NULL, NULL, c->unit);
	emit_value(NULL, c->kind, r->value, o);
	out_u64(o, NULL, NULL, r->time_ns);
	out_end(o);
}

static void emit_columns(struct out *o)
{
	static const char *const column[] = { "name", "kind", "bits", "unit", "value", "time_ns" };

	out_array(o, "columns");
	for (size_t i = 0; i < sizeof(column) / sizeof(column[0]); i++)
		out_str(o, NULL, NULL, column[i]);
	out_end(o);
}

void snapshot_emit(const struct snapshot *s, struct out *o)
{
	const struct counter *last = NULL;
	uint32_t count, *order = snapshot_order(s, &count);

	if (!order) {
		o->error = o->error ? o->error : ENOMEM;
		return;
	}
	out_object(o, NULL);
	out_str(o, "schema", NULL, SNAPSHOT_SCHEMA);
	out_str(o, "weir", NULL, WEIR_VERSION);
	out_str(o, "host", NULL, s->host[0] ? s->host : NULL);
	emit_time("taken", s->taken_ns, o);
	out_u64(o, "taken_ns", NULL, s->taken_ns);
	out_u64(o, "took_ns", NULL, s->took_ns);
	emit_problems(&s->problems, o);
	emit_columns(o);
	out_array(o, "objects");
	for (uint32_t i = 0; i < count; i++) {
		const struct counter *c = &s->catalog->counter[order[i]];

		if (!last || last->source != c->source || last->object != c->object) {
			if (last) {
				out_end(o);
				out_end(o);
			}
			out_object(o, NULL);
			out_str(o, "source", NULL, c->source);
			out_str(o, "object", NULL, c->object);
			out_array(o, "counters");
		}
		last = c;
		emit_counter(c, &s->reading[order[i]], o);
	}
	if (last) {
		out_end(o);
		out_end(o);
	}
	out_end(o);
	out_end(o);
	free(order);
}
