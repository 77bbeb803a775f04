// SPDX-License-Identifier: BSD-3-Clause
#include "report/report.h"

#include <string.h>

#include "counters/result.h"
#include "report/counters_html.h"
#include "report/csv.h"
#include "report/document.h"
#include "report/run_html.h"

static void use_own_counters(struct report *r)
{
	r->counters[0] = (struct report_counters){ &r->difference, &r->findings };
}

static int load_pair(
	struct report *r, const char *before, const char *after, const char *names, struct err *e)
{
	struct rules *rules = NULL;
	int ret;

	ret = snapshot_load(&r->before, before, names, e);
	if (!ret)
		ret = snapshot_load(&r->after, after, names, e);
	if (!ret)
		ret = difference_make(&r->difference, &r->before, &r->after, e);
	if (!ret)
		ret = rules_load(&rules, NULL, e);
	if (!ret)
		ret = findings_make(&r->findings, &r->difference, rules, e);
	rules_free(rules);
	use_own_counters(r);
	return ret;
}

static int load_run(struct report *r, const char *path, struct err *e)
{
	const struct end_result *const ends[] = { &r->run.local, &r->run.remote };
	int ret;

	ret = record_read(&r->run, path, e);
	if (ret)
		return ret;
	r->has_run = true;
	for (int i = 0; i < 2; i++)
		if (ends[i]->counters)
			r->counters[i] = (struct report_counters){ &ends[i]->counters->difference,
				&ends[i]->counters->findings };
	return 0;
}

static int load_one(struct report *r, const char *path, struct err *e)
{
	char schema[RECORD_SCHEMA_TEXT];
	int ret;

	if (!strcmp(path, "-"))
		return load_run(r, path, e);
	ret = record_schema(path, schema, e);
	if (ret)
		return ret;
	if (!strcmp(schema, DIFFERENCE_SCHEMA) || !strcmp(schema, COMMAND_SCHEMA)) {
		use_own_counters(r);
		ret = difference_load(&r->difference, &r->findings, path, NULL, e);
		if (!ret && !strcmp(schema, COMMAND_SCHEMA))
			ret = record_command(path, r->command, sizeof(r->command), r->ended,
				sizeof(r->ended), e);
		return ret;
	}
	if (!strcmp(schema, SNAPSHOT_SCHEMA)) {
		err_set(e, EINVAL, "%s is one snapshot: what moved takes two", path);
		return err_hint(e, "weir report BEFORE AFTER");
	}
	return document_is(schema) ? document_load(&r->document, path, e) : load_run(r, path, e);
}

int report_load(
	struct report *r, const char *first, const char *second, const char *names, struct err *e)
{
	int ret;

	*r = (struct report){ 0 };
	ret = second ? load_pair(r, first, second, names, e) : load_one(r, first, e);
	if (ret)
		report_free(r);
	return ret;
}

void report_free(struct report *r)
{
	difference_free(&r->difference);
	findings_free(&r->findings);
	snapshot_free(&r->before);
	snapshot_free(&r->after);
	record_stored_free(&r->run);
	document_free(r->document);
	*r = (struct report){ 0 };
}

char *report_whose(const struct report *r, int end, char buf[REPORT_WHOSE])
{
	bool client = r->has_run && r->run.rec.options->client == !end;

	if (r->has_run)
		snprintf(buf, REPORT_WHOSE, "%s, %s", client ? "client" : "server",
			run_end_name(&r->run.rec, client));
	else
		snprintf(buf, REPORT_WHOSE, "%s",
			r->counters[end].difference->host[0] ? r->counters[end].difference->host
							     : "a host");
	return buf;
}

enum report_form report_form_of(const char *path)
{
	static const char *const endings[] = { ".txt", ".json", ".csv", ".html" };
	const char *dot = strrchr(path, '.');

	for (int i = REPORT_TEXT; dot && i <= REPORT_HTML; i++)
		if (!strcmp(dot, endings[i]))
			return (enum report_form)i;
	return REPORT_TEXT;
}

static void put_findings(struct html *h, const struct report *r)
{
	uint32_t count = r->has_run ? (uint32_t)r->run.rec.finding_count : 0, skipped = 0,
		 rules = 0;
	const struct findings *said = NULL;
	char whose[REPORT_WHOSE];

	html_section(h, "findings", "Findings");
	html_put(h, "<ul class=\"findings\">\n");
	if (r->has_run)
		run_html_findings(h, &r->run.rec);
	for (int end = 0; end < 2; end++) {
		if (!r->counters[end].difference)
			continue;
		report_whose(r, end, whose);
		strncat(whose, ": ", sizeof(whose) - strlen(whose) - 1);
		counters_html_findings(h, r->counters[end].findings, said, r->has_run ? whose : "");
		if (r->has_run && figures_is_loopback(&r->run.rec))
			said = r->counters[end].findings;
		count += r->counters[end].findings->count;
		rules += r->counters[end].findings->rules;
		skipped += r->counters[end].findings->skipped;
	}
	if (!count) {
		html_put(h, "<li class=\"good\">");
		html_mark(h, MARK_GOOD, "Nothing stands out");
		html_put(h, "</li>\n");
	}
	html_put(h, "</ul>\n");
	if (rules)
		html_put(h,
			"<p class=\"aside\">%u rules were asked of the counters; %u of them lacked counters that this host does not have, and were passed over.</p>\n",
			rules, skipped);
	html_section_end(h);
}

static void put_pair_head(struct html *h, const struct report *r)
{
	const struct difference *d = r->counters[0].difference;
	char before[32], after[32], whose[REPORT_WHOSE];
	uint32_t bad = 0;

	for (uint32_t i = 0; i < r->counters[0].findings->count; i++)
		bad += r->counters[0].findings->finding[i].severity > SEVERITY_NOTE;
	html_put(h,
		"<header class=\"top\"><p class=\"kind\">%s</p>\n<h1>%u counters differ <small>on %s, within %.4g s</small></h1>\n<p>",
		r->command[0] ? "weir run" : "weir counters", counters_moved(d),
		report_whose(r, 0, whose), d->seconds);
	html_mark(h, bad ? MARK_WARNING : MARK_GOOD,
		bad ? "Something was found" : "No trouble was found");
	html_put(h, "</p>\n<p class=\"meta\">%s to %s", run_time_text(before, d->before_ns),
		run_time_text(after, d->after_ns));
	if (r->command[0])
		html_put(h, " &middot; <span class=\"mono\">%s</span> &middot; %s", r->command,
			r->ended);
	html_put(h, "</p></header>\n");
	html_put(h,
		"<nav aria-label=\"Sections\"><a href=\"#findings\">Findings</a><a href=\"#counters\">Counters</a></nav>\n");
}

static void put_counters(struct html *h, const struct report *r)
{
	char heading[REPORT_WHOSE + 32], whose[REPORT_WHOSE];
	bool first = true;

	for (int end = 0; end < 2; end++) {
		if (!r->counters[end].difference)
			continue;
		snprintf(heading, sizeof(heading),
			r->has_run ? "Counters of the %s" : "Counters of %s",
			report_whose(r, end, whose));
		counters_html(
			h, r->counters[end].difference, first ? "counters" : "counters2", heading);
		first = false;
	}
}

static void put_run(struct html *h, const struct report *r, const struct figures *f)
{
	const struct record *rec = &r->run.rec;

	run_html_figures(h, rec, f);
	run_html_series(h, rec, f);
	run_html_latency(h, rec, f);
	run_html_flows(h, rec, f);
	run_html_hosts(h, rec, f);
	put_counters(h, r);
	run_html_options(h, rec);
}

static void write_html(const struct report *r, FILE *file)
{
	const struct record *rec = &r->run.rec;
	struct html h = { .file = file };
	char title[2 * REPORT_WHOSE], whose[REPORT_WHOSE];
	struct figures f;

	if (r->has_run) {
		figures_make(rec, &f);
		snprintf(title, sizeof(title), "weir %s %.100s to %.100s",
			workload_name[rec->workload], run_end_name(rec, true),
			run_end_name(rec, false));
	} else {
		snprintf(title, sizeof(title), "weir counters %s", report_whose(r, 0, whose));
	}
	html_begin(&h, title);
	if (r->has_run)
		run_html_head(&h, rec, &f, r->counters[0].difference || r->counters[1].difference);
	else
		put_pair_head(&h, r);
	html_put(&h, "<main>\n");
	put_findings(&h, r);
	if (r->has_run)
		put_run(&h, r, &f);
	else
		put_counters(&h, r);
	html_put(&h, "</main>\n<footer>");
	if (r->has_run)
		html_put(&h, "Measured by weir %s. ",
			rec->written_by ? rec->written_by : WEIR_VERSION);
	html_put(&h,
		"Written by weir " WEIR_VERSION
		". One file: nothing is loaded from anywhere, and all of it can be read without JavaScript.</footer>\n");
	html_end(&h);
}

static void write_csv(const struct report *r, FILE *file)
{
	struct figures f;

	csv_head(file);
	if (r->has_run) {
		figures_make(&r->run.rec, &f);
		run_csv(file, &r->run.rec, &f);
	}
	for (int end = 0; end < 2; end++)
		if (r->counters[end].difference)
			counters_csv(file, &r->counters[end],
				!r->has_run			     ? NULL
				: r->run.rec.options->client == !end ? "client"
								     : "server");
}

static int write_out(const struct report *r, enum out_mode mode, FILE *file, struct err *e)
{
	const struct report_counters *c = r->counters;
	struct out o;

	out_init(&o, file, mode);
	if (r->has_run)
		record_emit(&r->run.rec, &o);
	else if (mode == OUT_JSON)
		difference_emit(c->difference, c->findings, NULL, false, &o);
	else
		difference_print(c->difference, c->findings, 20, false, &o);
	return out_finish(&o, e);
}

int report_write(const struct report *r, enum report_form form, FILE *file, struct err *e)
{
	if (r->document)
		return document_write(r->document, form, file, e);
	if (form == REPORT_TEXT || form == REPORT_JSON)
		return write_out(r, form == REPORT_JSON ? OUT_JSON : OUT_TEXT, file, e);
	if (form == REPORT_HTML)
		write_html(r, file);
	else
		write_csv(r, file);
	errno = 0;
	if (fflush(file) || ferror(file))
		return err_set(e, errno ? errno : EIO, "cannot write the report: %m");
	return 0;
}
