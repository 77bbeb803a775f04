// SPDX-License-Identifier: BSD-3-Clause
#include "report/report.h"

#include "report/csv.h"
#include "report/run_html.h"

int report_load(struct report *r, const char *path, struct err *e)
{
	*r = (struct report){ 0 };
	return record_read(&r->run, path, e);
}

void report_free(struct report *r)
{
	record_stored_free(&r->run);
}

static void put_footer(struct html *h, const struct record *rec)
{
	html_put(h,
		"<footer>Measured by weir %s, written by weir " WEIR_VERSION
		". One file, nothing is loaded from anywhere; all of it can be read without JavaScript.</footer>\n",
		rec->written_by ? rec->written_by : WEIR_VERSION);
}

static void write_html(const struct report *r, FILE *file)
{
	const struct record *rec = &r->run.rec;
	struct html h = { .file = file };
	struct figures f;
	char title[256];

	figures_make(rec, &f);
	snprintf(title, sizeof(title), "weir %s %s to %s", workload_name[rec->workload],
		run_end_name(rec, true), run_end_name(rec, false));
	html_begin(&h, title);
	run_html_head(&h, rec, &f, false);
	html_put(&h, "<main>\n");
	html_section(&h, "findings", "Findings");
	html_put(&h, "<ul class=\"findings\">\n");
	run_html_findings(&h, rec);
	if (!rec->finding_count) {
		html_put(&h, "<li class=\"good\">");
		html_mark(&h, MARK_GOOD, "Nothing stands out");
		html_put(&h, "</li>\n");
	}
	html_put(&h, "</ul>\n");
	html_section_end(&h);
	run_html_figures(&h, rec, &f);
	run_html_series(&h, rec, &f);
	run_html_latency(&h, rec, &f);
	run_html_flows(&h, rec, &f);
	run_html_hosts(&h, rec, &f);
	run_html_options(&h, rec);
	html_put(&h, "</main>\n");
	put_footer(&h, rec);
	html_end(&h);
}

int report_write(const struct report *r, enum report_form form, FILE *file, struct err *e)
{
	const struct record *rec = &r->run.rec;
	struct figures f;
	struct out o;

	if (form == REPORT_TEXT || form == REPORT_JSON) {
		out_init(&o, file, form == REPORT_JSON ? OUT_JSON : OUT_TEXT);
		record_emit(rec, &o);
		return out_finish(&o, e);
	}
	if (form == REPORT_HTML) {
		write_html(r, file);
	} else {
		figures_make(rec, &f);
		csv_head(file);
		run_csv(file, rec, &f);
	}
	if (fflush(file) || ferror(file))
		return err_set(e, errno ? errno : EIO, "cannot write the report: %m");
	return 0;
}
