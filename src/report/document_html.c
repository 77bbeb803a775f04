// SPDX-License-Identifier: BSD-3-Clause
/* A document as a page: findings first, then what it holds by its shape. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/chart.h"
#include "report/document_parts.h"
#include "report/run_html.h"

#define DEPTH 6 /* objects inside objects that are shown */

static void put_object(struct html *h, const json_t *object, int depth);

static void put_trouble(const struct document_trouble *t, void *argument)
{
	static const char *const classes[] = { "good", "note", "warning", "bad" };
	static const char *const words[] = { "Good", "Note", "Warning", "Problem" };
	struct html *h = argument;

	html_put(h, "<li class=\"%s\">", classes[t->mark]);
	html_mark(h, t->mark, words[t->mark]);
	if (t->where[0])
		html_put(h, "<span class=\"where mono\">%s</span>", t->where);
	html_what(h, t->text);
	html_put(h, "</li>\n");
}

static void count_trouble(const struct document_trouble *t, void *argument)
{
	uint32_t *count = argument;

	count[t->mark]++;
}

static void put_findings(struct html *h, const struct document *d)
{
	uint32_t count[MARK_BAD + 1] = { 0 };

	document_troubles(d, count_trouble, count);
	html_section(h, "findings", "Findings");
	html_put(h, "<ul class=\"findings\">\n");
	document_troubles(d, put_trouble, h);
	if (!count[MARK_NOTE] && !count[MARK_WARNING] && !count[MARK_BAD]) {
		html_put(h, "<li class=\"good\">");
		html_mark(h, MARK_GOOD, "Nothing stands out");
		html_put(h, "</li>\n");
	}
	html_put(h, "</ul>\n");
	html_section_end(h);
}

/* A column of rates is drawn as bars beside its figures. */
static bool is_rate(const char *key)
{
	return !strcmp(key, "throughput_bps") || !strcmp(key, "bytes_per_s");
}

static double most_of(const struct document_table *t, int column)
{
	double most = 0;

	for (size_t i = 0; i < t->count; i++)
		most = fmax(most, json_number_value(document_cell(t, &t->row[i], column)));
	return most;
}

static void put_numbers(struct html *h, const json_t *list)
{
	size_t count = json_array_size(list), i;
	double *y = calloc(count ? count : 1, sizeof(*y));
	json_t *one;

	if (!y)
		return;
	json_array_foreach(list, i, one)
		y[i] = json_number_value(one);
	chart_spark(h, y, count);
	free(y);
}

/* The same unit and side for a heading as for its cells. */
static bool is_number_column(const struct document_table *t, int column)
{
	for (size_t i = 0; i < t->count; i++)
		if (json_is_number(document_cell(t, &t->row[i], column)))
			return true;
	return false;
}

static void put_cell(struct html *h, const char *key, const json_t *value, double most, bool number)
{
	char text[DOCUMENT_TEXT];

	if (json_is_number(value)) {
		html_put(h, "<td class=\"n\" data-v=\"%.15g\">%s</td>", json_number_value(value),
			document_value(text, key, value));
	} else if (json_is_array(value) && json_is_number(json_array_get(value, 0))) {
		html_put(h, "<td>");
		put_numbers(h, value);
		html_put(h, "</td>");
	} else {
		document_value(text, key, value);
		html_put(h, "<td class=\"%s\">%s</td>",
			number		    ? "n"
			: strchr(text, ' ') ? "text"
					    : "name",
			text);
	}
	if (!is_rate(key))
		return;
	html_put(h, "<td class=\"grow\">");
	html_bar(h, most > 0 ? json_number_value(value) / most : 0);
	html_put(h, "</td>");
}

static void put_heads(struct html *h, const struct document_table *t)
{
	char text[DOCUMENT_TEXT];

	html_put(h, "<div class=\"scroll\"><table class=\"wide sort\"><thead><tr>");
	if (t->named)
		html_put(h, "<th></th>");
	for (int i = 0; i < t->columns; i++) {
		document_heading(text, &t->column[i]);
		if (is_number_column(t, i))
			html_put(h, "<th class=\"n\">%s</th>", text);
		else
			html_put(h, "<th>%s</th>", text);
		if (is_rate(t->column[i].key))
			html_put(h, "<th></th>");
	}
	html_put(h, "</tr></thead><tbody>\n");
}

static void put_run(struct html *h, const json_t *run)
{
	char *text = json_dumps(run, JSON_COMPACT);
	struct record_stored s;
	struct figures f;
	struct err e = { 0 };

	if (!text || record_parse(&s, "the run", text, strlen(text), &e)) {
		html_put(h, "<p>%s</p>\n", text ? e.what : "There was no memory to show it.");
		free(text);
		return;
	}
	figures_make(&s.rec, &f);
	run_html_figures(h, &s.rec, &f);
	run_html_series(h, &s.rec, &f);
	run_html_latency(h, &s.rec, &f);
	run_html_flows(h, &s.rec, &f);
	run_html_hosts(h, &s.rec, &f);
	record_stored_free(&s);
	free(text);
}

static bool has_more(const json_t *object)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value) {
		if (strcmp(key, "findings") && json_is_object(value) && !document_is_small(value))
			return true;
		if (strcmp(key, "findings") && json_is_array(value) && !document_is_cell(value))
			return true;
	}
	return false;
}

/* What a row holds beside its cells: the objects and tables inside it, folded. */
static void put_rest(struct html *h, const struct document_row *row, size_t number, int depth)
{
	char name[DOCUMENT_TEXT], prefix[32];
	const char *before = h->prefix, *key;
	json_t *value;

	if (!has_more(row->object))
		return;
	snprintf(name, sizeof(name), "%s", row->name);
	if (!name[0] && !document_name(name, row->object)[0])
		snprintf(name, sizeof(name), "%zu", number + 1);
	snprintf(prefix, sizeof(prefix), "part%zu-%d-", number, depth);
	h->prefix = prefix;
	html_fold(h, name, false);
	json_object_foreach((json_t *)row->object, key, value) {
		if (!strcmp(key, "run") && json_is_object(value))
			put_run(h, value);
		else if (strcmp(key, "findings") && json_is_object(value) &&
			 !document_is_small(value))
			put_object(h, value, depth + 1);
	}
	html_fold_end(h);
	h->prefix = before;
}

static void put_table(struct html *h, const json_t *from, int depth)
{
	struct document_table t;

	if (!document_table_of(&t, from))
		return;
	put_heads(h, &t);
	for (size_t i = 0; i < t.count; i++) {
		html_put(h, "<tr>");
		if (t.named)
			html_put(h, "<td class=\"keep\">%s</td>", t.row[i].name);
		for (int k = 0; k < t.columns; k++)
			put_cell(h, t.column[k].key, document_cell(&t, &t.row[i], k),
				is_rate(t.column[k].key) ? most_of(&t, k) : 0,
				is_number_column(&t, k));
		html_put(h, "</tr>\n");
	}
	html_put(h, "</tbody></table></div>\n");
	if (t.left)
		html_put(h, "<p class=\"aside\">%zu more are in the record.</p>\n", t.left);
	for (size_t i = 0; i < t.count && depth < DEPTH; i++)
		put_rest(h, &t.row[i], i, depth);
	document_table_free(&t);
}

/* Values that stand alone. */
static void put_values(struct html *h, const json_t *object, const char *outer, bool *open)
{
	char label[DOCUMENT_TEXT], before[DOCUMENT_TEXT], text[DOCUMENT_TEXT];
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value) {
		if (document_is_small(value) && !outer)
			put_values(h, value, key, open);
		if (!document_is_cell(value) || json_is_array(value) || json_is_null(value) ||
			!strcmp(key, "schema"))
			continue;
		if (!*open)
			html_put(h, "<dl class=\"facts\">\n");
		*open = true;
		html_put(h, "<div><dt>%s%s%s</dt><dd>%s</dd></div>\n",
			outer ? document_label(before, outer) : "", outer ? " " : "",
			document_label(label, key), document_value(text, key, value));
	}
}

/* Rates over time: how long each message took tells when it was there. */
static char *rate_text(char buf[UNITS_TEXT], double y)
{
	snprintf(buf, UNITS_TEXT, "%.3f GB/s", y / 1e9);
	return buf;
}

static void put_times(struct html *h, const json_t *top, const char *end)
{
	const json_t *list = json_object_get(json_object_get(top, end), "times_ns");
	double bytes = json_number_value(json_object_get(top, "message_bytes")), at = 0;
	size_t count = json_array_size(list), i;
	double *y = count > 1 && bytes > 0 ? calloc(3 * count, sizeof(*y)) : NULL;
	struct chart c = { .title = !strcmp(end, "local") ? "Each message, this end"
							  : "Each message, the other end",
		.count = count,
		.lines = 1,
		.reference = NAN,
		.text = rate_text };
	json_t *one;

	if (!y)
		return;
	json_array_foreach(list, i, one) {
		double ns = json_number_value(one);

		y[i] = ns > 0 ? bytes * 1e9 / ns : NAN;
		y[count + i] = at;
		at += ns / 1e9;
		y[2 * count + i] = at;
	}
	c.line[0] = (struct chart_line){ "rate", y };
	c.begin_s = y + count;
	c.end_s = y + 2 * count;
	chart_series(h, &c);
	free(y);
}

static void put_object(struct html *h, const json_t *object, int depth)
{
	size_t objects = document_objects(object);
	char label[DOCUMENT_TEXT];
	bool open = false;
	const char *key;
	json_t *value;

	put_values(h, object, NULL, &open);
	if (open)
		html_put(h, "</dl>\n");
	if (objects > 1)
		put_table(h, object, depth);
	json_object_foreach((json_t *)object, key, value) {
		bool one = objects == 1 && json_is_object(value) && !document_is_small(value);

		if (depth >= DEPTH || document_is_cell(value) || !strcmp(key, "findings") ||
			(!one && !json_is_array(value)))
			continue;
		html_put(h, "<h3>%s</h3>\n", document_label(label, key));
		if (one)
			put_object(h, value, depth + 1);
		else
			put_table(h, value, depth + 1);
	}
}

static void put_head(struct html *h, const struct document *d)
{
	const char *verdict = json_string_value(json_object_get(d->top, "verdict"));
	const char *started = json_string_value(json_object_get(d->top, "started"));
	uint32_t count[MARK_BAD + 1] = { 0 };
	char figure[DOCUMENT_TEXT];

	document_troubles(d, count_trouble, count);
	html_put(h, "<header class=\"top\"><p class=\"kind\">%s</p>\n<h1>", d->kind->title);
	if (document_figure(figure, d)[0])
		html_put(h, "%s <small>%s</small></h1>\n<p>", figure, d->kind->about);
	else
		html_put(h, "nothing measured</h1>\n<p>");
	if (verdict ? !strcmp(verdict, "failed") : count[MARK_BAD] > 0)
		html_mark(h, MARK_BAD, verdict ? "It failed" : "Something is at fault");
	else if (verdict && !strcmp(verdict, "doubtful"))
		html_mark(h, MARK_WARNING, "Measured, but the figures are not to be trusted");
	else
		html_mark(h, MARK_GOOD, "Complete");
	html_put(h, "</p>\n<p class=\"meta\">%s</p></header>\n", started ? started : "");
	html_put(h,
		"<nav aria-label=\"Sections\"><a href=\"#findings\">Findings</a><a href=\"#figures\">Figures</a></nav>\n");
}

void document_html(const struct document *d, FILE *file)
{
	struct html h = { .file = file };

	html_begin(&h, d->kind->title);
	put_head(&h, d);
	html_put(&h, "<main>\n");
	put_findings(&h, d);
	html_section(&h, "figures", "Figures");
	document_heat(&h, json_object_get(d->top, "pair"));
	put_object(&h, d->top, 0);
	html_put(&h, "<div class=\"charts\">\n");
	put_times(&h, d->top, "local");
	put_times(&h, d->top, "remote");
	html_put(&h, "</div>\n");
	html_section_end(&h);
	html_put(&h,
		"</main>\n<footer>Written by weir " WEIR_VERSION
		". One file: nothing is loaded from anywhere, and all of it can be read without JavaScript.</footer>\n");
	html_end(&h);
}
