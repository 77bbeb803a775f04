// SPDX-License-Identifier: BSD-3-Clause
/* weir diff: two runs compared. The exit status is diff(1)'s. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "report/compare.h"

enum { SAME = 0, DIFFER = 1, TROUBLE = 2 };

struct diff_options {
	const char *out, *names;
	bool html, json, only_worse, help;
};

static const struct opt opts[] = {
	{ .name = "html",
		OPT_FIELD(OPT_BOOL, struct diff_options, html),
		.section = "form",
		.help = "one self-contained HTML file" },
	{ .name = "json",
		OPT_FIELD(OPT_BOOL, struct diff_options, json),
		.help = "JSON (schema/comparison-1.json)" },
	{ .name = "out",
		.letter = 'o',
		OPT_FIELD(OPT_STRING, struct diff_options, out),
		.arg = "FILE",
		.section = "output",
		.help = "write to FILE instead of standard output; its ending (.html, .json, .txt) chooses the "
			"form where no option does" },
	{ .name = "only-worse",
		OPT_FIELD(OPT_BOOL, struct diff_options, only_worse),
		.help = "exit with 0 unless the second is worse, for a gate in a pipeline" },
	{ .name = "names",
		OPT_FIELD(OPT_STRING, struct diff_options, names),
		.arg = "FILE",
		.section = "input",
		.help = "names of the lines of text dumps of counters, as in weir counters diff" },
	{ .name = "help",
		.letter = 'h',
		OPT_FIELD(OPT_BOOL, struct diff_options, help),
		.help = "show this help" },
	{ 0 },
};

const struct opt_table diff_option_table = {
	.command = "diff",
	.usage = "FIRST SECOND | BEFORE1 AFTER1 BEFORE2 AFTER2  [options]",
	.summary =
		"two runs, or two pairs of counter snapshots, compared: what changed by more than the "
		"noise, and the likely cause",
	.examples = "  weir diff healthy.json faulty.json\n"
		    "  weir diff healthy.json faulty.json --out diff.html\n"
		    "  weir diff b1.json a1.json b2.json a2.json\n",
	.opts = opts,
};

struct to_write {
	const struct compare *compare;
	enum report_form form;
};

static int write_comparison(FILE *file, const void *from, struct err *e)
{
	const struct to_write *w = from;

	return compare_write(w->compare, w->form, file, e);
}

static int load(
	struct report r[2], char *const file[4], int files, const char *names, struct err *e)
{
	int ret;

	ret = report_load(&r[0], file[0], files == 4 ? file[1] : NULL, names, e);
	if (ret)
		return ret;
	ret = report_load(&r[1], file[files / 2], files == 4 ? file[3] : NULL, names, e);
	if (ret)
		report_free(&r[0]);
	return ret;
}

static int compare(char *const file[4], int files, const struct diff_options *o,
	enum report_form form, struct err *e)
{
	struct report r[2];
	struct compare c;
	int ret;

	ret = load(r, file, files, o->names, e);
	if (ret)
		return ret;
	ret = compare_make(&c, &r[0], &r[1], file[files == 4], file[files - 1], e);
	if (!ret && o->out)
		ret = file_replace(o->out, write_comparison, &(struct to_write){ &c, form }, e);
	else if (!ret)
		ret = compare_write(&c, form, stdout, e);
	if (!ret)
		ret = o->only_worse ? c.verdict == COMPARE_WORSE : c.verdict != COMPARE_SAME;
	compare_free(&c);
	report_free(&r[0]);
	report_free(&r[1]);
	return ret;
}

static int parse(int argc, char **argv, struct diff_options *o, const char *file[4], int *files,
	struct err *e)
{
	struct opt_given given;
	int ret, form;

	ret = opt_operands(&diff_option_table, &argc, argv, file, 4, files, e);
	if (!ret)
		ret = opt_parse(&diff_option_table, argc, argv, o, &given, e);
	if (ret || o->help)
		return ret;
	if (*files != 2 && *files != 4)
		return err_set(e, EINVAL, "compare which two runs, or which four snapshots?");
	form = report_form(o->html, false, o->json, o->out, e);
	if (form == REPORT_CSV)
		return err_set(e, EINVAL, "a comparison has no CSV form: --json has all of it");
	if (form == REPORT_HTML && !o->out && isatty(STDOUT_FILENO))
		return err_set(e, EINVAL, "HTML is not for a terminal: give --out diff.html");
	return form;
}

int cmd_diff(int argc, char **argv)
{
	const char *file[4] = { NULL };
	struct diff_options o = { 0 };
	struct err e = { 0 };
	struct out out;
	int files, form, ret;

	log_set_program("weir diff");
	form = parse(argc, argv, &o, file, &files, &e);
	if (form < 0) {
		if (!e.hint[0])
			err_hint(&e, "usage: weir diff %s", diff_option_table.usage);
		log_error_err(&e);
		return TROUBLE;
	}
	if (o.help) {
		out_init(&out, stdout, OUT_TEXT);
		opt_help(&diff_option_table, &out);
		return SAME;
	}
	ret = compare((char *const *)file, files, &o, (enum report_form)form, &e);
	if (ret < 0) {
		log_error_err(&e);
		return TROUBLE;
	}
	return ret ? DIFFER : SAME;
}
