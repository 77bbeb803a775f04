// SPDX-License-Identifier: BSD-3-Clause
/* weir report: a record or a pair of snapshots, rendered. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "report/report.h"

#define PROBLEMS_SAID 5

struct report_options {
	const char *out, *names;
	bool html, csv, json, help;
};

static const struct opt opts[] = {
	{ .name = "html",
		OPT_FIELD(OPT_BOOL, struct report_options, html),
		.section = "form",
		.help = "one self-contained HTML file" },
	{ .name = "csv",
		OPT_FIELD(OPT_BOOL, struct report_options, csv),
		.help = "comma-separated values, one figure a line" },
	{ .name = "json",
		OPT_FIELD(OPT_BOOL, struct report_options, json),
		.help = "JSON: the record as it was written" },
	{ .name = "out",
		.letter = 'o',
		OPT_FIELD(OPT_STRING, struct report_options, out),
		.arg = "FILE",
		.section = "output",
		.help = "write to FILE instead of standard output; its ending (.html, .csv, .json, .txt) "
			"chooses the form where no option does" },
	{ .name = "names",
		OPT_FIELD(OPT_STRING, struct report_options, names),
		.arg = "FILE",
		.section = "input",
		.help = "names of the lines of a text dump of counters, one a line or by ls -l; otherwise "
			"those of a Cassini-1" },
	{ .name = "help",
		.letter = 'h',
		OPT_FIELD(OPT_BOOL, struct report_options, help),
		.help = "show this help" },
	{ 0 },
};

const struct opt_table report_option_table = {
	.command = "report",
	.usage = "RECORD | BEFORE AFTER  [options]",
	.summary = "a run record or two counter snapshots as text, CSV, JSON or one HTML file",
	.examples = "  weir stream -c -H node2 --out run.json\n"
		    "  weir report run.json\n"
		    "  weir report run.json --out run.html\n"
		    "  weir report before.json after.json --out counters.html\n",
	.opts = opts,
};

int report_form(bool html, bool csv, bool json, const char *out, struct err *e)
{
	if (html + csv + json > 1)
		return err_set(e, EINVAL, "choose one of --html, --csv and --json");
	if (html || csv || json)
		return html ? REPORT_HTML : csv ? REPORT_CSV : REPORT_JSON;
	return out ? report_form_of(out) : REPORT_TEXT;
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

static void warn_of(const struct problems *p)
{
	for (uint32_t i = 0; i < p->count && i < PROBLEMS_SAID; i++)
		log_warn("%s: %s", p->problem[i].where, p->problem[i].what);
	if (p->count > PROBLEMS_SAID)
		log_warn("and %u more that could not be read", p->count - PROBLEMS_SAID);
}

static int render(const char *const file[2], const struct report_options *o, enum report_form form,
	struct err *e)
{
	struct report r;
	int ret;

	ret = report_load(&r, file[0], file[1], o->names, e);
	if (ret)
		return ret;
	if (r.run.records > 1)
		log_warn("%s holds %u records: this is the last one", file[0], r.run.records);
	warn_of(&r.before.problems);
	warn_of(&r.after.problems);
	if (o->out)
		ret = file_replace(o->out, write_report, &(struct to_write){ &r, form }, e);
	else
		ret = report_write(&r, form, stdout, e);
	report_free(&r);
	return ret;
}

int cmd_report(int argc, char **argv)
{
	struct report_options o = { 0 };
	struct opt_given given;
	struct err e = { 0 };
	const char *file[2] = { NULL, NULL };
	struct out out;
	int ret, files, form = 0;

	log_set_program("weir report");
	ret = opt_operands(&report_option_table, &argc, argv, file, 2, &files, &e);
	if (!ret) {
		ret = opt_parse(&report_option_table, argc, argv, &o, &given, &e);
		if (!ret && !o.help && !files)
			ret = err_set(&e, EINVAL, "report on which file?");
		if (!ret && !o.help)
			ret = form = report_form(o.html, o.csv, o.json, o.out, &e);
	}
	if (ret >= 0 && form == REPORT_HTML && !o.out && isatty(STDOUT_FILENO))
		ret = err_set(&e, EINVAL, "HTML is not for a terminal: give --out report.html");
	if (ret < 0) {
		if (!e.hint[0])
			err_hint(&e, "usage: weir report %s", report_option_table.usage);
		log_error_err(&e);
		return STATUS_USAGE;
	}
	if (o.help) {
		out_init(&out, stdout, OUT_TEXT);
		opt_help(&report_option_table, &out);
		return STATUS_GOOD;
	}
	if (render(file, &o, (enum report_form)form, &e)) {
		log_error_err(&e);
		return STATUS_FAILED;
	}
	return STATUS_GOOD;
}
