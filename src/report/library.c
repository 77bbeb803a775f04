// SPDX-License-Identifier: BSD-3-Clause
/* include/weir/counters.h: the public face of counters and reports. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "counters/collector.h"
#include "counters/known.h"
#include "report/report.h"
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

static int by_size(const void *a, const void *b)
{
	double x = difference_size(*(const struct row *const *)a),
	       y = difference_size(*(const struct row *const *)b);

	x = x < 0 ? -x : x;
	y = y < 0 ? -y : y;
	return x > y ? -1 : x < y;
}

static void emit_metric(const struct row *r, uint32_t interface, struct out *o)
{
	out_object(o, NULL);
	out_u64(o, "iface", NULL, interface);
	out_u64(o, "metric_id", NULL, known_cxi_number(r->counter->name));
	out_str(o, "metric_name", NULL, r->counter->name);
	out_f64(o, "diff", NULL, difference_size(r));
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
			out_f64(o, key, NULL, difference_size(&d->row[obj->first + k]));
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

static int emit_summary(const struct report *r, struct out *o, struct err *e)
{
	const struct difference *d = r->counters[0].difference;
	int ret;

	out_object(o, NULL);
	emit_counts(d, o);
	ret = emit_top(d, o, e);
	if (!ret)
		emit_important(d, o);
	findings_emit_array(r->counters[0].findings, "findings", o);
	out_end(o);
	return ret;
}

int weir_counters_summarize(const char *before, const char *after, char **json, char *error)
{
	struct err e = { 0 };
	struct report r;
	size_t length;
	struct out o;
	FILE *file;
	int ret;

	*json = NULL;
	ret = report_load(&r, before, after, NULL, &e);
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

int weir_counters_report(const char *before, const char *after, const char *path, char *error)
{
	struct to_write w = { .form = report_form_of(path) };
	struct err e = { 0 };
	struct report r;
	int ret;

	ret = report_load(&r, before, after, NULL, &e);
	if (ret)
		return say(error, &e, ret);
	w.report = &r;
	ret = file_replace(path, write_report, &w, &e);
	report_free(&r);
	return say(error, &e, ret);
}
