// SPDX-License-Identifier: BSD-3-Clause
/* A difference as JSON (schema/difference-1.json) and for a person. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "counters/emit.h"

static void emit_side(
	const char *key, const struct row *r, const struct reading *side, struct out *o)
{
	if (side->time_ns)
		emit_value(key, r->counter->kind, side->value, o);
	else
		out_null(o, key);
}

static bool has_change(const struct row *r)
{
	return counter_grows(r->counter->kind) && r->before.time_ns && r->after.time_ns;
}

static void emit_row(const struct row *r, struct out *o)
{
	const struct counter *c = r->counter;

	out_object(o, NULL);
	out_str(o, "name", NULL, c->name);
	out_str(o, "kind", NULL, counter_kind_name[c->kind]);
	out_u64(o, "bits", NULL, c->bits);
	out_str(o, "unit", NULL, c->unit);
	out_str(o, "state", NULL, row_state_name[r->state]);
	emit_side("before", r, &r->before, o);
	emit_side("after", r, &r->after, o);
	out_u64(o, "before_ns", NULL, r->before.time_ns);
	out_u64(o, "after_ns", NULL, r->after.time_ns);
	if (has_change(r))
		emit_value("change", COUNTER_COUNT, r->change, o);
	else
		out_null(o, "change");
	out_f64(o, "per_s", NULL, difference_rate(r));
	out_end(o);
}

static void emit_objects(const struct difference *d, bool all, struct out *o)
{
	out_array(o, "objects");
	for (uint32_t i = 0; i < d->object_count; i++) {
		const struct difference_object *object = &d->object[i];

		out_object(o, NULL);
		out_str(o, "source", NULL, object->source);
		out_str(o, "object", NULL, object->object);
		out_u64(o, "counters", NULL, object->count);
		out_array(o, "rows");
		for (uint32_t k = 0; k < object->count; k++)
			if (all || difference_is_telling(&d->row[object->first + k]))
				emit_row(&d->row[object->first + k], o);
		out_end(o);
		out_end(o);
	}
	out_end(o);
}

void difference_emit(const struct difference *d, const struct findings *findings, const char *key,
	bool all, struct out *o)
{
	out_object(o, key);
	out_str(o, "schema", NULL, DIFFERENCE_SCHEMA);
	out_str(o, "weir", NULL, WEIR_VERSION);
	out_str(o, "host", NULL, d->host[0] ? d->host : NULL);
	emit_time("before", d->before_ns, o);
	emit_time("after", d->after_ns, o);
	out_u64(o, "before_ns", NULL, d->before_ns);
	out_u64(o, "after_ns", NULL, d->after_ns);
	out_f64(o, "seconds", NULL, d->seconds);
	out_object(o, "totals");
	for (int i = 0; i < ROW_STATES; i++)
		out_u64(o, row_state_name[i], NULL, d->states[i]);
	out_end(o);
	out_u64(o, "rules", NULL, findings ? findings->rules : 0);
	out_u64(o, "rules_skipped", NULL, findings ? findings->skipped : 0);
	findings_emit_array(findings, "findings", o);
	emit_objects(d, all, o);
	out_end(o);
}

/* For a person. */

static void print_value(char text[32], uint8_t kind, const struct reading *side)
{
	if (!side->time_ns)
		snprintf(text, 32, "absent");
	else if (kind == COUNTER_SIGNED)
		snprintf(text, 32, "%" PRId64, (int64_t)side->value);
	else
		snprintf(text, 32, "%" PRIu64, side->value);
}

static void print_row(const struct row *r, struct out *o)
{
	char before[32], after[32], rate[UNITS_TEXT], what[96];
	double per_s = difference_rate(r);

	print_value(before, r->counter->kind, &r->before);
	print_value(after, r->counter->kind, &r->after);
	if (r->state == ROW_MOVED || r->state == ROW_WRAPPED)
		snprintf(what, sizeof(what), "+%" PRIu64, r->change);
	else
		snprintf(what, sizeof(what), "%s -> %s", before, after);
	out_text(o, "  %-36s %20s", r->counter->name, what);
	if (isfinite(per_s) && per_s > 0)
		out_text(o, "  %10s/s", units_format_count(rate, per_s));
	else
		out_text(o, "  %12s", "");
	out_text(o, " %s%s\n", r->counter->unit,
		r->state == ROW_WRAPPED	   ? " (wrapped)"
		: r->state == ROW_RESET	   ? " (set back)"
		: r->state == ROW_APPEARED ? " (appeared)"
		: r->state == ROW_VANISHED ? " (vanished)"
					   : "");
}

static int by_size(const void *left, const void *right)
{
	double a = fabs(difference_size(*(const struct row *const *)left));
	double b = fabs(difference_size(*(const struct row *const *)right));

	return a > b ? -1 : a < b;
}

/* The rows of an object that say something, the largest first. */
static void print_object(const struct difference *d, const struct difference_object *object,
	uint32_t most, bool all, struct out *o)
{
	const struct row **row = calloc(object->count, sizeof(const struct row *));
	uint32_t count = 0, shown;

	for (uint32_t i = 0; row && i < object->count; i++)
		if (all || difference_is_telling(&d->row[object->first + i]))
			row[count++] = &d->row[object->first + i];
	if (!count) {
		free(row);
		return;
	}
	qsort(row, count, sizeof(*row), by_size);
	shown = most && count > most ? most : count;
	out_style(o, OUT_BOLD);
	out_text(o, "%s %s", object->source, object->object);
	out_style(o, OUT_PLAIN);
	out_text(o, "  (%u of %u moved)\n", object->telling, object->count);
	for (uint32_t i = 0; i < shown; i++)
		print_row(row[i], o);
	if (shown < count)
		out_text(o, "  ... and %u more\n", count - shown);
	free(row);
}

void difference_print(const struct difference *d, const struct findings *findings, uint32_t most,
	bool all, struct out *o)
{
	uint32_t moved = d->count - d->states[ROW_SAME];

	if (findings)
		findings_print(findings, NULL, o);
	for (uint32_t i = 0; i < d->object_count; i++)
		print_object(d, &d->object[i], most, all, o);
	out_text(o, "%u of %u counters moved in %.3g s", moved, d->count, d->seconds);
	if (d->states[ROW_RESET] || d->states[ROW_WRAPPED])
		out_text(o, "; %u were set back, %u wrapped", d->states[ROW_RESET],
			d->states[ROW_WRAPPED]);
	if (d->states[ROW_APPEARED] || d->states[ROW_VANISHED])
		out_text(o, "; %u appeared, %u vanished", d->states[ROW_APPEARED],
			d->states[ROW_VANISHED]);
	out_text(o, "\n");
}
