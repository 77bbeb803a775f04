// SPDX-License-Identifier: BSD-3-Clause
#include "report/counters_html.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define TOP_SHOWN     20
#define OBJECTS_SHOWN 64    /* each with all of its counters */
#define ROWS_SHOWN    40000 /* in all: a page of more is none */

static const enum html_mark marks[SEVERITIES] = { MARK_NOTE, MARK_WARNING, MARK_BAD };
static const char *const classes[SEVERITIES] = { "note", "warning", "bad" };
static const char *const words[SEVERITIES] = { "Note", "Warning", "Problem" };

uint32_t counters_moved(const struct difference *d)
{
	uint32_t moved = 0;

	for (int state = ROW_SAME + 1; state < ROW_STATES; state++)
		moved += d->states[state];
	return moved;
}

char *counter_digits(char buf[COUNTER_DIGITS], const struct row *r, const struct reading *reading)
{
	if (!reading->time_ns)
		snprintf(buf, COUNTER_DIGITS, "-");
	else if (r->counter->kind == COUNTER_SIGNED)
		snprintf(buf, COUNTER_DIGITS, "%" PRId64, (int64_t)reading->value);
	else
		snprintf(buf, COUNTER_DIGITS, "%" PRIu64, reading->value);
	return buf;
}

char *counter_change(char buf[CHANGE_TEXT], const struct row *r)
{
	char before[COUNTER_DIGITS], after[COUNTER_DIGITS];

	counter_digits(before, r, &r->before);
	counter_digits(after, r, &r->after);
	switch (r->state) {
	case ROW_MOVED:
	case ROW_WRAPPED:
		snprintf(buf, CHANGE_TEXT, "+%" PRIu64, r->change);
		break;
	case ROW_RESET:
		snprintf(buf, CHANGE_TEXT, "set back, +%" PRIu64 " since", r->change);
		break;
	case ROW_CHANGED:
		snprintf(buf, CHANGE_TEXT, "%s -> %s", before, after);
		break;
	case ROW_APPEARED:
		snprintf(buf, CHANGE_TEXT, "appeared with %s", after);
		break;
	case ROW_VANISHED:
		snprintf(buf, CHANGE_TEXT, "vanished");
		break;
	default:
		snprintf(buf, CHANGE_TEXT, "0");
	}
	return buf;
}

static void put_evidence(struct html *h, const struct finding *f)
{
	html_fold(h, "Evidence", false);
	html_put(h,
		"<div class=\"scroll\"><table><thead><tr><th>Of</th><th>Counter</th><th class=\"n\">Before</th><th class=\"n\">After</th><th class=\"n\">Change</th><th class=\"n\">Per second</th></tr></thead><tbody>\n");
	for (int i = 0; i < f->evidence_count; i++) {
		const struct evidence *e = &f->evidence[i];

		html_put(h, "<tr><td class=\"name\">%s</td><td class=\"name\">%s</td>", e->object,
			e->name);
		if (e->kind == COUNTER_SIGNED)
			html_put(h,
				"<td class=\"n\">%" PRId64 "</td><td class=\"n\">%" PRId64 "</td>",
				(int64_t)e->before, (int64_t)e->after);
		else
			html_put(h,
				"<td class=\"n\">%" PRIu64 "</td><td class=\"n\">%" PRIu64 "</td>",
				e->before, e->after);
		html_put(h, "<td class=\"n\">%" PRIu64 " %s</td><td class=\"n\">%.4g</td></tr>\n",
			e->change, e->unit, e->per_s);
	}
	html_put(h, "</tbody></table></div>\n");
	html_fold_end(h);
}

/* "-" where there is none. */
static const char *rate_text(char buf[UNITS_TEXT], double per_s)
{
	return isfinite(per_s) ? units_format_count(buf, per_s) : "-";
}

/* The same rule on other objects: one line each, folded. */
static void put_others(struct html *h, const struct findings *f, uint32_t first, const char *whose)
{
	uint32_t others = 0;
	char text[64];

	for (uint32_t i = first + 1; i < f->count; i++)
		others += !strcmp(f->finding[i].rule, f->finding[first].rule);
	if (!others)
		return;
	snprintf(text, sizeof(text), "The same on %u other%s", others, others == 1 ? "" : "s");
	html_fold(h, text, false);
	html_put(h, "<ul>\n");
	for (uint32_t i = first + 1; i < f->count && others; i++)
		if (!strcmp(f->finding[i].rule, f->finding[first].rule))
			html_put(h, "<li><span class=\"mono\">%s%s</span>: %s</li>\n", whose,
				f->finding[i].object, f->finding[i].text);
	html_put(h, "</ul>\n");
	html_fold_end(h);
}

void counters_html_findings(
	struct html *h, const struct findings *f, const struct findings *said, const char *whose)
{
	for (uint32_t i = 0; i < f->count; i++) {
		const struct finding *one = &f->finding[i];

		if (findings_repeat(f, i, said))
			continue;
		html_put(h, "<li class=\"%s\">", classes[one->severity]);
		html_mark(h, marks[one->severity], words[one->severity]);
		html_put(h, "<span class=\"where mono\">%s%s</span>", whose, one->object);
		html_what(h, one->text);
		html_put(h, "<p>%s</p>\n", one->means);
		if (one->advice[0])
			html_put(h, "<p class=\"todo\">%s</p>\n", one->advice);
		if (one->evidence_count)
			put_evidence(h, one);
		put_others(h, f, i, whose);
		html_put(h, "</li>\n");
	}
}

static int by_size(const void *a, const void *b)
{
	double x = fabs(difference_size(*(const struct row *const *)a));
	double y = fabs(difference_size(*(const struct row *const *)b));

	return x > y ? -1 : x < y;
}

/* Counters that moved, the largest first; the caller frees them. Gauges have no size to compare by. */
static const struct row **largest(
	const struct difference *d, uint32_t first, uint32_t count, uint32_t *found)
{
	const struct row **rows = calloc(count ? count : 1, sizeof(*rows));

	*found = 0;
	for (uint32_t i = first; rows && i < first + count; i++)
		if (counter_grows(d->row[i].counter->kind) && d->row[i].change)
			rows[(*found)++] = &d->row[i];
	if (rows)
		qsort(rows, *found, sizeof(*rows), by_size);
	return rows;
}

static void put_bars(struct html *h, const struct row **rows, uint32_t count)
{
	double most = count ? log10(1 + fabs(difference_size(rows[0]))) : 1;

	html_put(h, "<div class=\"scroll\"><table class=\"wide\"><tbody>\n");
	for (uint32_t i = 0; i < count; i++) {
		const struct counter *c = rows[i]->counter;
		char rate[UNITS_TEXT];

		html_put(h,
			"<tr><td class=\"name keep\">%s</td><td class=\"name\" title=\"%s\">%s</td><td class=\"grow\">",
			c->object, counter_about(c).description, c->name);
		html_bar(h, log10(1 + fabs(difference_size(rows[i]))) / most);
		html_put(h,
			"</td><td class=\"n\">%" PRIu64 " %s</td><td class=\"n\">%s/s</td></tr>\n",
			rows[i]->change, c->unit, rate_text(rate, difference_rate(rows[i])));
	}
	html_put(h, "</tbody></table></div>\n");
}

static void put_top(struct html *h, const struct difference *d)
{
	uint32_t found;
	const struct row **rows = largest(d, 0, d->count, &found);
	char text[128];

	html_put(h,
		"<h3>The largest differences</h3>\n<p class=\"aside\">Bars on a logarithmic scale; each step of a digit is as long as the next. Large is not important: the findings say what is.</p>\n");
	if (rows)
		put_bars(h, rows, found < TOP_SHOWN ? found : TOP_SHOWN);
	free(rows);
	for (uint32_t i = 0; i < d->object_count && i < OBJECTS_SHOWN && d->object_count > 1; i++) {
		const struct difference_object *o = &d->object[i];

		rows = largest(d, o->first, o->count, &found);
		if (rows && found) {
			snprintf(text, sizeof(text), "%s %s: the largest %u of %u", o->source,
				o->object, found < TOP_SHOWN ? found : TOP_SHOWN, found);
			html_fold(h, text, false);
			put_bars(h, rows, found < TOP_SHOWN ? found : TOP_SHOWN);
			html_fold_end(h);
		}
		free(rows);
	}
}

static void put_totals(struct html *h, const struct difference *d)
{
	uint32_t shown = 0;

	html_put(h,
		"<h3>What moved where</h3>\n<div class=\"scroll\"><table class=\"wide sort\"><thead><tr><th>Source</th><th>NIC or device</th><th class=\"n\">Counters</th><th class=\"n\">Differ</th><th></th></tr></thead><tbody>\n");
	for (uint32_t i = 0; i < d->object_count; i++) {
		const struct difference_object *o = &d->object[i];

		/* Thousands of quiet objects say nothing. */
		if (!o->telling && d->object_count > OBJECTS_SHOWN)
			continue;
		if (shown++ == 10 * OBJECTS_SHOWN)
			break;
		html_put(h,
			"<tr><td>%s</td><td class=\"name\">%s</td><td class=\"n\" data-v=\"%u\">%u</td><td class=\"n\" data-v=\"%u\">%u</td><td class=\"grow\">",
			o->source, o->object, o->count, o->count, o->telling, o->telling);
		html_bar(h, o->count ? (double)o->telling / o->count : 0);
		html_put(h, "</td></tr>\n");
	}
	html_put(h, "</tbody></table></div>\n");
	if (shown < d->object_count)
		html_put(h,
			"<p class=\"aside\">%u of %u are shown; the JSON and CSV forms have all.</p>\n",
			shown, d->object_count);
}

static void put_row(struct html *h, const struct row *r, bool object)
{
	const struct counter *c = r->counter;
	char before[COUNTER_DIGITS], after[COUNTER_DIGITS], change[CHANGE_TEXT];

	html_put(h, "<tr data-s=\"%s %s\" data-k=\"%s\">", c->source, c->object, c->name);
	if (object)
		html_put(h, "<td class=\"name keep\">%s</td>", c->object);
	html_put(h, "<td class=\"name\">%s</td><td class=\"n\">%s</td>", c->name,
		counter_digits(before, r, &r->before));
	html_put(h, "<td class=\"n\">%s</td><td class=\"n\" data-v=\"%.17g\">%s</td>",
		counter_digits(after, r, &r->after), difference_size(r), counter_change(change, r));
	html_put(h,
		"<td class=\"n\" data-v=\"%.9g\">%.4g</td><td>%s</td><td class=\"about\">%s</td></tr>\n",
		isfinite(difference_rate(r)) ? difference_rate(r) : -1, difference_rate(r), c->unit,
		counter_about(c).description);
}

static void put_row_heads(struct html *h, bool object)
{
	html_put(h, "<div class=\"scroll\"><table class=\"wide sort counters\"><thead><tr>");
	if (object)
		html_put(h, "<th>Of</th>");
	html_put(h,
		"<th>Counter</th><th class=\"n\">Before</th><th class=\"n\">After</th><th class=\"n\">Change</th><th class=\"n\">Per second</th><th>Unit</th><th>What it is</th></tr></thead><tbody>\n");
}

/* The names of all groups that counters which moved are in, each once. */
struct names {
	const char **name;
	size_t count, room;
};

static void names_add(struct names *n, const char *name)
{
	const char **more;

	for (size_t i = 0; i < n->count; i++)
		if (!strcmp(n->name[i], name))
			return;
	if (n->count == n->room) {
		more = realloc(n->name, (n->room * 2 + 16) * sizeof(*more));
		if (!more)
			return;
		n->name = more;
		n->room = n->room * 2 + 16;
	}
	n->name[n->count++] = name;
}

static bool is_in(const struct counter *c, const char *group)
{
	struct counter_about about = counter_about(c);

	for (int g = 0; g < COUNTER_GROUPS && about.group[g]; g++)
		if (!strcmp(about.group[g], group))
			return true;
	return false;
}

static void put_group(struct html *h, const struct difference *d, const char *group, uint32_t *left)
{
	uint32_t moved = 0;

	for (uint32_t i = 0; i < d->count; i++)
		moved += difference_is_telling(&d->row[i]) && is_in(d->row[i].counter, group);
	html_put(h, "<details class=\"group\"><summary>%s <small>%u differ</small></summary>\n",
		group, moved);
	put_row_heads(h, true);
	for (uint32_t i = 0; i < d->count && *left; i++) {
		if (!difference_is_telling(&d->row[i]) || !is_in(d->row[i].counter, group))
			continue;
		put_row(h, &d->row[i], true);
		(*left)--;
	}
	html_put(h, "</tbody></table></div></details>\n");
}

static void put_groups(struct html *h, const struct difference *d, uint32_t *left)
{
	struct names groups = { 0 };

	for (uint32_t i = 0; i < d->count; i++) {
		struct counter_about about = counter_about(d->row[i].counter);

		for (int g = 0;
			g < COUNTER_GROUPS && about.group[g] && difference_is_telling(&d->row[i]);
			g++)
			names_add(&groups, about.group[g]);
	}
	if (groups.count)
		html_put(h,
			"<h3>By group</h3>\n<p class=\"aside\">A counter that is in several groups stands in each of them.</p>\n");
	for (size_t i = 0; i < groups.count; i++)
		put_group(h, d, groups.name[i], left);
	free(groups.name);
}

static int by_telling(const void *a, const void *b)
{
	const struct difference_object *x = *(const struct difference_object *const *)a;
	const struct difference_object *y = *(const struct difference_object *const *)b;

	return x->telling > y->telling ? -1 : x->telling < y->telling ? 1 : x < y ? -1 : x > y;
}

/* Every counter of an object: what moved in the open, the rest one fold deeper. */
static void put_object(struct html *h, const struct difference *d,
	const struct difference_object *o, uint32_t *left)
{
	uint32_t quiet = o->count - o->telling;
	char text[64];

	html_put(h,
		"<details class=\"group\"><summary><span class=\"mono\">%s</span> <small>%s, %u of %u differ</small></summary>\n",
		o->object, o->source, o->telling, o->count);
	if (o->telling) {
		put_row_heads(h, false);
		for (uint32_t i = o->first; i < o->first + o->count && *left; i++) {
			if (!difference_is_telling(&d->row[i]))
				continue;
			put_row(h, &d->row[i], false);
			(*left)--;
		}
		html_put(h, "</tbody></table></div>\n");
	}
	if (quiet && *left) {
		snprintf(text, sizeof(text), "%u that did not change", quiet);
		html_fold(h, text, false);
		put_row_heads(h, false);
		for (uint32_t i = o->first; i < o->first + o->count && *left; i++) {
			if (difference_is_telling(&d->row[i]))
				continue;
			put_row(h, &d->row[i], false);
			(*left)--;
		}
		html_put(h, "</tbody></table></div>\n");
		html_fold_end(h);
	}
	html_put(h, "</details>\n");
}

static void put_objects(struct html *h, const struct difference *d, uint32_t *left)
{
	const struct difference_object **order =
		calloc(d->object_count ? d->object_count : 1, sizeof(*order));
	uint32_t shown = 0;

	if (!order)
		return;
	for (uint32_t i = 0; i < d->object_count; i++)
		order[i] = &d->object[i];
	/* In their own order, unless there are more than a page holds: then those that moved most. */
	if (d->object_count > OBJECTS_SHOWN)
		qsort(order, d->object_count, sizeof(*order), by_telling);
	html_put(h, "<h3>Every counter</h3>\n");
	for (; shown < d->object_count && shown < OBJECTS_SHOWN && *left; shown++)
		put_object(h, d, order[shown], left);
	if (shown < d->object_count || !*left)
		html_put(h,
			"<p class=\"aside\">The page holds %u of %u NICs and devices; the JSON and CSV forms have all.</p>\n",
			shown, d->object_count);
	free(order);
}

void counters_html(struct html *h, const struct difference *d, const char *id, const char *heading)
{
	uint32_t left = ROWS_SHOWN, telling = counters_moved(d);

	html_section(h, id, heading);
	html_put(h, "<p>%u of %u counters differ, over %.4g s.", telling,
		telling + d->states[ROW_SAME], d->seconds);
	if (d->states[ROW_RESET] || d->states[ROW_WRAPPED])
		html_put(h, " %u were set back, %u went past their width and began again at 0.",
			d->states[ROW_RESET], d->states[ROW_WRAPPED]);
	if (d->states[ROW_APPEARED] || d->states[ROW_VANISHED])
		html_put(h, " %u are new, %u are gone.", d->states[ROW_APPEARED],
			d->states[ROW_VANISHED]);
	html_put(h,
		"</p>\n<div class=\"search\"><input type=\"search\" placeholder=\"Filter: words of a name, NIC, group or description\" aria-label=\"Filter counters\"><output></output></div>\n");
	put_totals(h, d);
	put_top(h, d);
	counters_html_heat(h, d);
	put_groups(h, d, &left);
	put_objects(h, d, &left);
	html_section_end(h);
}
