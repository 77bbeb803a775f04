// SPDX-License-Identifier: BSD-3-Clause
/* The heat map: siblings side by side, so that the one that is unlike the others is seen. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "record/stats.h"
#include "report/counters_html.h"

#define HEAT_OBJECTS 24
#define HEAT_ROWS    40
#define HEAT_STEPS   9
#define ODD_MADS     5.0
#define ODD_SIBLINGS 4 /* fewer say nothing about who is odd */

struct heat {
	const struct difference *d;
	const char *source;
	const struct difference_object *column[HEAT_OBJECTS];
	uint32_t columns, all;
};

/* The row of that name in an object: siblings mostly have theirs at the same place. */
static const struct row *find(const struct difference *d, const struct difference_object *o,
	uint32_t place, const char *name)
{
	if (place < o->count && !strcmp(d->row[o->first + place].counter->name, name))
		return &d->row[o->first + place];
	for (uint32_t i = o->first; i < o->first + o->count; i++)
		if (!strcmp(d->row[i].counter->name, name))
			return &d->row[i];
	return NULL;
}

/* Gauges have no place on this scale. */
static double amount(const struct row *r)
{
	if (!r || !counter_grows(r->counter->kind))
		return NAN;
	return (double)r->change;
}

static bool is_odd(const double *value, uint32_t count, uint32_t at)
{
	double sorted[HEAT_OBJECTS], median, mad;
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++)
		if (isfinite(value[i]))
			sorted[n++] = value[i];
	if (n < ODD_SIBLINGS || !isfinite(value[at]))
		return false;
	median = stats_median(sorted, n);
	for (uint32_t i = 0; i < n; i++)
		sorted[i] = fabs(sorted[i] - median);
	mad = stats_median(sorted, n);
	/* A few packets more or less are nothing, however alike the others are. */
	return fabs(value[at] - median) > fmax(ODD_MADS * mad, fmax(0.05 * median, 10));
}

struct heat_row {
	const char *name, *about;
	double value[HEAT_OBJECTS], most;
	bool odd;
};

static int by_interest(const void *a, const void *b)
{
	const struct heat_row *x = a, *y = b;

	if (x->odd != y->odd)
		return x->odd ? -1 : 1;
	return x->most > y->most ? -1 : x->most < y->most;
}

static uint32_t fill(const struct heat *heat, struct heat_row *rows, uint32_t room)
{
	const struct difference_object *first = heat->column[0];
	uint32_t count = 0;

	for (uint32_t i = first->first; i < first->first + first->count && count < room; i++) {
		struct heat_row *row = &rows[count];

		*row = (struct heat_row){ .name = heat->d->row[i].counter->name,
			.about = counter_about(heat->d->row[i].counter).description };
		for (uint32_t k = 0; k < heat->columns; k++) {
			row->value[k] =
				amount(find(heat->d, heat->column[k], i - first->first, row->name));
			row->most = fmax(row->most, row->value[k]);
		}
		for (uint32_t k = 0; k < heat->columns; k++)
			row->odd |= is_odd(row->value, heat->columns, k);
		if (row->most > 0)
			count++;
	}
	qsort(rows, count, sizeof(*rows), by_interest);
	return count;
}

static void put_cell(struct html *h, double value, bool odd, double most)
{
	char text[UNITS_TEXT];

	if (!isfinite(value)) {
		html_put(h, "<td>-</td>");
		return;
	}
	html_put(h, odd ? "<td class=\"odd\"" : "<td");
	html_put(h, " style=\"--v:%d\" title=\"%.0f\">%s</td>",
		(int)round(log10(1 + value) / log10(1 + most) * HEAT_STEPS), value,
		units_format_count(text, value));
}

static void put_map(
	struct html *h, const struct heat *heat, const struct heat_row *rows, uint32_t count)
{
	double most = 1;

	for (uint32_t i = 0; i < count; i++)
		most = fmax(most, rows[i].most);
	html_put(h,
		"<h3>%s: siblings side by side</h3>\n<p class=\"aside\">Stronger colour is more, on a logarithmic scale. A triangle marks what is more than 5 MAD from the median of its siblings.",
		heat->source);
	if (heat->all > heat->columns)
		html_put(h, " The first %u of %u are shown.", heat->columns, heat->all);
	html_put(h, "</p>\n<div class=\"scroll\"><table class=\"heat\"><thead><tr><th></th>");
	for (uint32_t k = 0; k < heat->columns; k++)
		html_put(h, "<th class=\"n\">%s</th>", heat->column[k]->object);
	html_put(h, "</tr></thead><tbody>\n");
	for (uint32_t i = 0; i < count; i++) {
		html_put(h, "<tr><th class=\"name\" title=\"%s\">%s</th>", rows[i].about,
			rows[i].name);
		for (uint32_t k = 0; k < heat->columns; k++) {
			bool odd = rows[i].odd && is_odd(rows[i].value, heat->columns, k);

			put_cell(h, rows[i].value[k], odd, most);
		}
		html_put(h, "</tr>\n");
	}
	html_put(h, "</tbody></table></div>\n");
}

/* Queues, CPUs and buses are not siblings that a person compares by eye; NICs and ports are. */
static bool is_nic(const struct difference_object *o)
{
	return !strchr(o->object, '/') || !strcmp(o->source, "infiniband");
}

static void put_source(struct html *h, const struct difference *d, const char *source)
{
	struct heat heat = { .d = d, .source = source };
	struct heat_row *rows;
	uint32_t count;

	for (uint32_t i = 0; i < d->object_count; i++) {
		if (strcmp(d->object[i].source, source) || !is_nic(&d->object[i]))
			continue;
		heat.all++;
		if (heat.columns < HEAT_OBJECTS)
			heat.column[heat.columns++] = &d->object[i];
	}
	if (heat.columns < 2)
		return;
	rows = calloc(heat.column[0]->count, sizeof(*rows));
	if (!rows)
		return;
	count = fill(&heat, rows, heat.column[0]->count);
	if (count)
		put_map(h, &heat, rows, count < HEAT_ROWS ? count : HEAT_ROWS);
	free(rows);
}

void counters_html_heat(struct html *h, const struct difference *d)
{
	static const char *const sources[] = { "cxi", "infiniband", "ethtool", "netdev" };

	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
		put_source(h, d, sources[i]);
}
