// SPDX-License-Identifier: BSD-3-Clause
/* include/weir/counters.h: the public face of counters and reports. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "counters/collector.h"
#include "counters/known.h"
#include "report/compare.h"
#include "weir/counters.h"

#define TOP 20

static int say(char *error, const struct err *e, int ret)
{
	if (ret && error)
		snprintf(error, WEIR_COUNTERS_ERROR, "%s%s%s", e->what, e->hint[0] ? "\n" : "",
			e->hint);
	return ret;
}

const char *weir_version(void)
{
	return WEIR_VERSION;
}

void weir_free(void *memory)
{
	free(memory);
}

int weir_counters_collect(const char *path, const char *cxi, char *error)
{
	struct collector_options options = { .cxi = cxi, .sources = cxi ? "cxi" : NULL };
	struct snapshot s = { 0 };
	struct err e = { 0 };
	struct collector *c;
	int ret;

	ret = collector_open(&c, &options, &e);
	if (ret)
		return say(error, &e, ret);
	ret = collector_read(c, &s, &e);
	if (!ret)
		ret = snapshot_write(&s, path, cxi ? SNAPSHOT_NET_PROF_LIST : SNAPSHOT_WEIR, &e);
	snapshot_free(&s);
	collector_close(c);
	return say(error, &e, ret);
}

/* Counters that net_prof calls important, by its numbers. */
static const uint32_t important[] = { 17, 18, 22, 564, 565, 613, 614, 835, 839, 869, 873, 1597,
	1598, 1599, 1600, 1724 };

static uint32_t interface_of(const struct difference_object *o)
{
	return !strcmp(o->source, "cxi") && !strncmp(o->object, "cxi", 3)
		       ? (uint32_t)atoi(o->object + 3) + 1
		       : 0;
}

static uint32_t number_of(const struct row *r)
{
	return known_cxi_number(r->counter->name);
}

static int by_size(const void *a, const void *b)
{
	double x = difference_size(*(const struct row *const *)a),
	       y = difference_size(*(const struct row *const *)b);

	x = x < 0 ? -x : x;
	y = y < 0 ? -y : y;
	if (x != y)
		return x > y ? -1 : 1;
	/* As its users know it: of equals the one with the lower number. */
	return (int)number_of(*(const struct row *const *)a) -
	       (int)number_of(*(const struct row *const *)b);
}

/* Whole, also beyond what a double holds. */
static void emit_change(const char *key, const struct row *r, struct out *o)
{
	if (r->state == ROW_APPEARED || r->state == ROW_VANISHED)
		out_i64(o, key, NULL, 0);
	else if (counter_grows(r->counter->kind) && r->state != ROW_RESET)
		out_i64(o, key, NULL, (int64_t)r->change);
	else
		out_i64(o, key, NULL, (int64_t)(r->after.value - r->before.value));
}

static void emit_metric(const struct row *r, uint32_t interface, struct out *o)
{
	out_object(o, NULL);
	out_u64(o, "iface", NULL, interface);
	out_u64(o, "metric_id", NULL, number_of(r));
	out_str(o, "metric_name", NULL, r->counter->name);
	emit_change("diff", r, o);
	out_end(o);
}

static int emit_top(const struct difference *d, struct out *o, struct err *e)
{
	const struct row **rows;
	char key[16];

	out_object(o, "top20_per_iface");
	for (uint32_t i = 0; i < d->object_count; i++) {
		const struct difference_object *obj = &d->object[i];
		uint32_t interface = interface_of(obj);

		if (!interface)
			continue;
		rows = calloc(obj->count ? obj->count : 1, sizeof(*rows));
		if (!rows)
			return err_set(e, ENOMEM, "cannot sort the counters: out of memory");
		for (uint32_t k = 0; k < obj->count; k++)
			rows[k] = &d->row[obj->first + k];
		qsort(rows, obj->count, sizeof(*rows), by_size);
		snprintf(key, sizeof(key), "%u", interface);
		out_array(o, key);
		for (uint32_t k = 0; k < obj->count && k < TOP; k++)
			emit_metric(rows[k], interface, o);
		out_end(o);
		free(rows);
	}
	out_end(o);
	return 0;
}

static void emit_diffs(const struct difference *d, const char *name, struct out *o)
{
	char key[16];

	out_object(o, "diffs");
	for (uint32_t i = 0; i < d->object_count; i++) {
		const struct difference_object *obj = &d->object[i];

		for (uint32_t k = 0; interface_of(obj) && k < obj->count; k++) {
			if (strcmp(d->row[obj->first + k].counter->name, name))
				continue;
			snprintf(key, sizeof(key), "%u", interface_of(obj));
			emit_change(key, &d->row[obj->first + k], o);
		}
	}
	out_end(o);
}

static void emit_important(const struct difference *d, struct out *o)
{
	char key[16];

	out_object(o, "important_metrics");
	for (size_t i = 0; i < sizeof(important) / sizeof(important[0]); i++) {
		const char *name = known_cxi_names()[important[i] - 1];

		snprintf(key, sizeof(key), "%u", important[i]);
		out_object(o, key);
		out_str(o, "metric_name", NULL, name);
		emit_diffs(d, name, o);
		out_end(o);
	}
	out_end(o);
}

/* As its users know it: counters and gauges alike, whatever differs. */
static uint32_t count_nonzero(const struct difference *d, const struct difference_object *o)
{
	uint32_t count = 0;

	for (uint32_t i = o->first; i < o->first + o->count; i++)
		count += difference_size(&d->row[i]) != 0;
	return count;
}

static void emit_counts(const struct difference *d, struct out *o)
{
	uint32_t total = 0;
	char key[16];

	for (uint32_t i = 0; i < d->object_count; i++)
		if (interface_of(&d->object[i]))
			total += count_nonzero(d, &d->object[i]);
	out_u64(o, "total_non_zero", NULL, total);
	out_object(o, "non_zero_per_iface");
	for (uint32_t i = 0; i < d->object_count; i++) {
		uint32_t interface = interface_of(&d->object[i]);

		snprintf(key, sizeof(key), "%u", interface);
		if (interface)
			out_u64(o, key, NULL, count_nonzero(d, &d->object[i]));
	}
	out_end(o);
}

/* Every counter that has a number: interface, number, difference. */
static void emit_full(const struct difference *d, struct out *o)
{
	out_array(o, "full_diffs");
	for (uint32_t i = 0; i < d->object_count; i++) {
		const struct difference_object *obj = &d->object[i];

		for (uint32_t k = obj->first; interface_of(obj) && k < obj->first + obj->count;
			k++) {
			if (!number_of(&d->row[k]))
				continue;
			out_array(o, NULL);
			out_u64(o, NULL, NULL, interface_of(obj));
			out_u64(o, NULL, NULL, number_of(&d->row[k]));
			emit_change(NULL, &d->row[k], o);
			out_end(o);
		}
	}
	out_end(o);
}

static int emit_summary(const struct report *r, struct out *o, struct err *e)
{
	const struct difference *d = r->counters[0].difference;
	int ret;

	out_object(o, NULL);
	emit_counts(d, o);
	ret = emit_top(d, o, e);
	if (!ret)
		emit_important(d, o);
	emit_full(d, o);
	findings_emit_array(r->counters[0].findings, "findings", o);
	out_end(o);
	return ret;
}

int weir_counters_summarize(
	const char *before, const char *after, const char *names, char **json, char *error)
{
	struct err e = { 0 };
	struct report r;
	size_t length;
	struct out o;
	FILE *file;
	int ret;

	*json = NULL;
	ret = report_load(&r, before, after, names, &e);
	if (ret)
		return say(error, &e, ret);
	file = open_memstream(json, &length);
	if (file) {
		out_init(&o, file, OUT_JSON);
		ret = emit_summary(&r, &o, &e);
		if (!ret)
			ret = out_finish(&o, &e);
		fclose(file);
	} else {
		ret = err_set(&e, ENOMEM, "cannot write the summary: out of memory");
	}
	if (ret) {
		free(*json);
		*json = NULL;
	}
	report_free(&r);
	return say(error, &e, ret);
}

struct to_write {
	const struct report *report;
	enum report_form form;
};

static int write_report(FILE *file, const void *from, struct err *e)
{
	const struct to_write *w = from;

	return report_write(w->report, w->form, file, e);
}

int weir_counters_report(
	const char *before, const char *after, const char *names, const char *path, char *error)
{
	struct to_write w = { .form = report_form_of(path) };
	struct err e = { 0 };
	struct report r;
	int ret;

	ret = report_load(&r, before, after, names, &e);
	if (ret)
		return say(error, &e, ret);
	w.report = &r;
	ret = file_replace(path, write_report, &w, &e);
	report_free(&r);
	return say(error, &e, ret);
}

static int write_compare(FILE *file, const void *from, struct err *e)
{
	return compare_write(from, REPORT_HTML, file, e);
}

int weir_counters_compare(const char *const first[2], const char *const second[2],
	const char *names, const char *const labels[2], const char *path, char *error)
{
	struct report a = { 0 }, b = { 0 };
	struct compare c = { 0 };
	struct err e = { 0 };
	int ret;

	ret = report_load(&a, first[0], first[1], names, &e);
	if (!ret)
		ret = report_load(&b, second[0], second[1], names, &e);
	if (!ret)
		ret = compare_make(&c, &a, &b, labels[0], labels[1], &e);
	if (!ret)
		ret = file_replace(path, write_compare, &c, &e);
	compare_free(&c);
	report_free(&b);
	report_free(&a);
	return say(error, &e, ret);
}
