// SPDX-License-Identifier: BSD-3-Clause
#include "report/document.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "report/document_parts.h"
#include "report/run_html.h"

#define SMALL 8 /* members of an object that becomes columns */
/* ns: what lies between is a date, not a duration. */
#define WALL_CLOCK     1e18
#define WALL_CLOCK_END 1.8e19

static const struct document_kind kinds[] = {
	{ "weir/rails/1", "weir rails", "received over all rails", "total", "throughput_bps" },
	{ "weir/p2p/1", "weir p2p", "from memory to memory, as the receiver counts", NULL,
		"bytes_per_s" },
	{ "weir/p2p-mesh/1", "weir p2p mesh", "all GPUs together", NULL, "bytes_per_s" },
	{ "weir/p2p-sweep/1", "weir p2p sweep", "of the best of each size, by the setting to use",
		"recommended", "share_of_best" },
	{ "weir/probe/1", "weir probe", "probes lost", NULL, "lost" },
	{ "weir/probe-load/1", "weir probe load-test", "probes failed", NULL, "failed" },
	{ "weir/probe-pairs/1", "weir probe pairs", "pairs of NICs stand out", NULL, "bad" },
};

static const struct document_kind *kind_of(const char *schema)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i].schema, schema))
			return &kinds[i];
	return NULL;
}

bool document_is(const char *schema)
{
	return kind_of(schema) != NULL;
}

int document_load(struct document **document, const char *path, struct err *e)
{
	struct document *d = calloc(1, sizeof(*d));
	const char *schema;
	void *top;
	int ret;

	if (!d)
		return err_set(e, ENOMEM, "%s: no memory to read it", path);
	ret = record_document(path, &top, e);
	if (ret) {
		free(d);
		return ret;
	}
	d->top = top;
	schema = json_string_value(json_object_get(d->top, "schema"));
	d->kind = kind_of(schema ? schema : "");
	if (!d->kind) {
		document_free(d);
		return err_set(e, EINVAL, "%s: not a record that can be shown", path);
	}
	*document = d;
	return 0;
}

void document_free(struct document *d)
{
	if (!d)
		return;
	json_decref(d->top);
	free(d);
}

static bool ends_in(const char *key, const char *ending)
{
	size_t a = strlen(key), b = strlen(ending);

	return a >= b && !strcmp(key + a - b, ending);
}

static void number_text(char buf[DOCUMENT_TEXT], const char *key, double value)
{
	char text[UNITS_TEXT], date[32];

	if (ends_in(key, "_bps"))
		snprintf(buf, DOCUMENT_TEXT, "%s", units_format_bits(text, value));
	else if (ends_in(key, "bytes_per_s"))
		snprintf(buf, DOCUMENT_TEXT, "%.3f GB/s", value / 1e9);
	else if (ends_in(key, "_ns") && value > WALL_CLOCK && value < WALL_CLOCK_END)
		snprintf(buf, DOCUMENT_TEXT, "%s", run_time_text(date, (uint64_t)value));
	else if (ends_in(key, "_ns"))
		snprintf(buf, DOCUMENT_TEXT, "%s", units_format_duration(text, value));
	else if (ends_in(key, "_us"))
		snprintf(buf, DOCUMENT_TEXT, "%s", units_format_duration(text, value * 1e3));
	else if (ends_in(key, "bytes"))
		snprintf(buf, DOCUMENT_TEXT, "%s", units_format_bytes(text, value));
	else if (strstr(key, "share") || !strcmp(key, "spread"))
		snprintf(buf, DOCUMENT_TEXT, "%.3g %%", value * 100);
	else if (value == floor(value) && fabs(value) < 1e15)
		snprintf(buf, DOCUMENT_TEXT, "%.0f", value);
	else
		snprintf(buf, DOCUMENT_TEXT, "%.4g", value);
}

char *document_value(char buf[DOCUMENT_TEXT], const char *key, const json_t *value)
{
	if (json_is_string(value))
		snprintf(buf, DOCUMENT_TEXT, "%s", json_string_value(value));
	else if (json_is_boolean(value))
		snprintf(buf, DOCUMENT_TEXT, "%s", json_is_true(value) ? "yes" : "no");
	else if (json_is_number(value) && isfinite(json_number_value(value)))
		number_text(buf, key, json_number_value(value));
	else if (json_is_array(value))
		snprintf(buf, DOCUMENT_TEXT, "%zu", json_array_size(value));
	else
		snprintf(buf, DOCUMENT_TEXT, "-");
	text_one_line(buf);
	return buf;
}

char *document_label(char buf[DOCUMENT_TEXT], const char *key)
{
	static const char *const units[] = { "_bps", "_ns", "_us" };

	snprintf(buf, DOCUMENT_TEXT, "%s", strcmp(key, "bytes_per_s") ? key : "rate");
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (ends_in(buf, units[i]))
			buf[strlen(buf) - strlen(units[i])] = '\0';
	for (char *c = buf; *c; c++)
		if (*c == '_')
			*c = ' ';
	text_one_line(buf);
	return buf;
}

/* Of a pair of NICs: many have the same address at one end. */
static bool pair_name(char buf[DOCUMENT_TEXT], const json_t *object)
{
	const char *from = json_string_value(json_object_get(object, "from_host"));
	const char *to = json_string_value(json_object_get(object, "to_host"));

	if (!from || !to)
		return false;
	snprintf(buf, DOCUMENT_TEXT,
		"%.80s rail %" JSON_INTEGER_FORMAT " to %.80s rail %" JSON_INTEGER_FORMAT, from,
		json_integer_value(json_object_get(object, "from_rail")), to,
		json_integer_value(json_object_get(object, "to_rail")));
	return true;
}

char *document_name(char buf[DOCUMENT_TEXT], const json_t *object)
{
	static const char *const names[] = { "device", "host", "name", "peer" };
	const json_t *gpu = json_object_get(object, "gpu");
	const char *text = NULL;

	buf[0] = '\0';
	if (!pair_name(buf, object) && json_is_integer(gpu))
		snprintf(buf, DOCUMENT_TEXT, "GPU %" JSON_INTEGER_FORMAT, json_integer_value(gpu));
	for (size_t i = 0; !buf[0] && !text && i < sizeof(names) / sizeof(names[0]); i++)
		text = json_string_value(json_object_get(object, names[i]));
	if (text)
		snprintf(buf, DOCUMENT_TEXT, "%s", text);
	text_one_line(buf);
	return buf;
}

char *document_figure(char buf[DOCUMENT_TEXT], const struct document *d)
{
	const json_t *of = d->kind->of ? json_object_get(d->top, d->kind->of) : d->top;
	const json_t *value = json_object_get(of, d->kind->figure);

	buf[0] = '\0';
	/* A rate of nothing was not measured; no probe that was lost is a figure. */
	if (json_number_value(value) > 0 || (value && !strcmp(d->kind->figure, "lost")))
		document_value(buf, d->kind->figure, value);
	return buf;
}

/* Trouble */

struct walk {
	document_trouble_fn *tell;
	void *argument;
	enum html_mark only;
};

__attribute__((format(printf, 4, 5))) static void tell(
	const struct walk *w, enum html_mark mark, const char *where, const char *format, ...)
{
	struct document_trouble t = { .mark = mark };
	va_list args;

	if (mark != w->only)
		return;
	snprintf(t.where, sizeof(t.where), "%s", where);
	va_start(args, format);
	vsnprintf(t.text, sizeof(t.text), format, args);
	va_end(args);
	text_one_line(t.text);
	w->tell(&t, w->argument);
}

static const char *string_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static void tell_finding(const struct walk *w, const json_t *f, const char *where)
{
	const char *severity = string_of(f, "severity");

	if (string_of(f, "text")[0])
		tell(w,
			!strcmp(severity, "note")      ? MARK_NOTE
			: !strcmp(severity, "warning") ? MARK_WARNING
						       : MARK_BAD,
			where, "%s", string_of(f, "text"));
}

/* Of a mesh of probes: who is at fault. */
static void tell_verdict(const struct walk *w, const json_t *v)
{
	bool slow = !strcmp(string_of(v, "fault"), "slow"),
	     unsure = json_is_true(json_object_get(v, "cannot_tell"));
	const json_t *rail = json_object_get(v, "rail");
	char which[32] = "", where[DOCUMENT_TEXT];

	if (json_is_integer(rail))
		snprintf(which, sizeof(which), " rail %" JSON_INTEGER_FORMAT,
			json_integer_value(rail));
	snprintf(where, sizeof(where), "%s %.100s%s%s%.100s", string_of(v, "subject"),
		string_of(v, "host"), which, string_of(v, "to_host")[0] ? " to " : "",
		string_of(v, "to_host"));
	tell(w, unsure ? MARK_WARNING : MARK_BAD, where,
		"%s on %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT " pairs%s",
		slow ? "slow" : "probes are lost", json_integer_value(json_object_get(v, "bad")),
		json_integer_value(json_object_get(v, "pairs")),
		unsure ? "; too little is known to say that it is this one" : "");
}

static void walk(const struct walk *w, const json_t *node, const char *where, int depth)
{
	char name[DOCUMENT_TEXT];
	const char *key;
	json_t *value;
	size_t i;

	if (depth > 6)
		return;
	if (json_is_array(node)) {
		json_array_foreach(node, i, value)
			walk(w, value, document_name(name, value)[0] ? name : where, depth + 1);
		return;
	}
	json_object_foreach((json_t *)node, key, value) {
		size_t k;
		json_t *one;

		if (!strcmp(key, "error") && json_is_string(value) && json_string_length(value))
			tell(w, MARK_BAD, where, "%s", json_string_value(value));
		else if (!strcmp(key, "wrong") && json_integer_value(value) > 0)
			tell(w, MARK_BAD, where,
				"%" JSON_INTEGER_FORMAT " messages brought wrong bytes",
				json_integer_value(value));
		else if (!strcmp(key, "findings") && json_is_array(value))
			json_array_foreach(value, k, one)
				tell_finding(w, one, where);
		else if (!strcmp(key, "verdicts") && json_is_array(value))
			json_array_foreach(value, k, one)
				tell_verdict(w, one);
		else if (json_is_object(value) || json_is_array(value))
			walk(w, value, where, depth + 1);
	}
}

void document_troubles(const struct document *d, document_trouble_fn *tell_of, void *argument)
{
	for (int mark = MARK_BAD; mark >= MARK_NOTE; mark--)
		walk(&(struct walk){ tell_of, argument, (enum html_mark)mark }, d->top, "", 0);
}

/* Tables */

bool document_is_cell(const json_t *value)
{
	return !json_is_object(value) &&
	       !(json_is_array(value) && json_is_object(json_array_get(value, 0)));
}

bool document_is_small(const json_t *value)
{
	const char *key;
	json_t *one;

	if (!json_is_object(value) || json_object_size(value) > SMALL)
		return false;
	json_object_foreach((json_t *)value, key, one)
		if (json_is_object(one) || json_is_array(one))
			return false;
	return true;
}

size_t document_objects(const json_t *object)
{
	size_t count = 0;
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value)
		count += json_is_object(value) && !document_is_small(value);
	return count;
}

static void add_column(
	struct document_table *t, const char *outer, const char *key, const json_t *value)
{
	if (json_is_null(value) || !document_is_cell(value) || t->columns == DOCUMENT_COLUMNS)
		return;
	for (int i = 0; i < t->columns; i++)
		if (!strcmp(t->column[i].key, key) && !t->column[i].outer == !outer &&
			(!outer || !strcmp(t->column[i].outer, outer)))
			return;
	t->column[t->columns++] = (struct document_column){ outer, key };
}

static void add_row(struct document_table *t, const char *name, const json_t *object)
{
	const char *key, *inner;
	json_t *value, *one;

	if (t->count == DOCUMENT_ROWS) {
		t->left++;
		return;
	}
	snprintf(t->row[t->count].name, DOCUMENT_TEXT, "%s", name ? name : "");
	t->named |= name != NULL;
	t->row[t->count++].object = object;
	json_object_foreach((json_t *)object, key, value) {
		if (document_is_small(value))
			json_object_foreach(value, inner, one)
				add_column(t, key, inner, one);
		else
			add_column(t, NULL, key, value);
	}
}

int document_rank(const struct document_column *column)
{
	static const char *const telling[] = { "device", "host", "rail", "from_host", "from_rail",
		"to_host", "to_rail", "subject", "fault", "gpu", "peer", "verdict",
		"throughput_bps", "sent_bps", "bytes_per_s", "retransmits", "rtt_us", "limited_by",
		"sent", "lost", "latency_ns", "median_ns", "mean_ns", "p99_ns", "max_ns", "slow",
		"failed", "checked", "wrong", "memory", "error" };
	int count = (int)(sizeof(telling) / sizeof(telling[0]));

	for (int i = 0; i < count && !column->outer; i++)
		if (!strcmp(column->key, telling[i]))
			return i;
	return DOCUMENT_TELLING;
}

/* Those that count before the others, which stay in their order. */
static void order_columns(struct document_table *t)
{
	for (int i = 1; i < t->columns; i++) {
		struct document_column moved = t->column[i];
		int at = i;

		for (; at && document_rank(&t->column[at - 1]) > document_rank(&moved); at--)
			t->column[at] = t->column[at - 1];
		t->column[at] = moved;
	}
}

bool document_table_of(struct document_table *t, const json_t *from)
{
	char label[DOCUMENT_TEXT];
	const char *key;
	json_t *value;
	size_t i;

	*t = (struct document_table){ 0 };
	t->row = calloc(DOCUMENT_ROWS, sizeof(*t->row));
	if (!t->row)
		return false;
	if (json_is_array(from))
		json_array_foreach(from, i, value) {
			if (json_is_object(value))
				add_row(t, NULL, value);
		}
	else
		json_object_foreach((json_t *)from, key, value) {
			if (json_is_object(value) && !document_is_small(value))
				add_row(t, document_label(label, key), value);
		}
	order_columns(t);
	if (t->count)
		return true;
	document_table_free(t);
	return false;
}

void document_table_free(struct document_table *t)
{
	free(t->row);
	*t = (struct document_table){ 0 };
}

const json_t *document_cell(
	const struct document_table *t, const struct document_row *row, int column)
{
	const struct document_column *c = &t->column[column];
	const json_t *from = c->outer ? json_object_get(row->object, c->outer) : row->object;

	return json_object_get(from, c->key);
}

char *document_heading(char buf[DOCUMENT_TEXT], const struct document_column *column)
{
	char outer[DOCUMENT_TEXT], key[DOCUMENT_TEXT];

	if (!column->outer)
		return document_label(buf, column->key);
	snprintf(buf, DOCUMENT_TEXT, "%.120s %.120s", document_label(outer, column->outer),
		document_label(key, column->key));
	return buf;
}

static int write_json(const struct document *d, FILE *file)
{
	return json_dumpf(d->top, file, JSON_COMPACT | JSON_REAL_PRECISION(17)) ||
	       fputc('\n', file) == EOF;
}

int document_write(const struct document *d, enum report_form form, FILE *file, struct err *e)
{
	struct out o;

	if (form == REPORT_TEXT) {
		out_init(&o, file, OUT_TEXT);
		document_print(d, &o);
		return out_finish(&o, e);
	}
	errno = 0;
	if (form == REPORT_HTML)
		document_html(d, file);
	else if (form == REPORT_CSV)
		document_csv(d, file);
	else
		(void)write_json(d, file);
	if (fflush(file) || ferror(file))
		return err_set(e, errno ? errno : EIO, "cannot write the report: %m");
	return 0;
}
