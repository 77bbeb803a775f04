// SPDX-License-Identifier: BSD-3-Clause
/* What opt.h makes of a table for people: help, man page, completion. */
#include <string.h>

#include "base/opt.h"

static bool opt_shown(const struct opt_table *t, const struct opt *opt)
{
	return (!opt->only || (opt->only & t->variant)) && opt->help;
}

/* "-T, --num-threads N", "--all-samples[=FILE]" */
static void opt_spelling(const struct opt *opt, char *buf, size_t size)
{
	int n = opt->letter ? snprintf(buf, size, "-%c, --%s", opt->letter, opt->name)
			    : snprintf(buf, size, "    --%s", opt->name);

	if (!opt->arg)
		return;
	snprintf(buf + n, size - (size_t)n, opt->implied ? "[=%s]" : " %s", opt->arg);
}

static void opt_choices(const struct opt *opt, char *buf, size_t size)
{
	buf[0] = 0;
	for (int i = 0; opt->type == OPT_CHOICE && opt->choices[i]; i++)
		snprintf(buf + strlen(buf), size - strlen(buf), "%s%s", i ? ", " : ": ",
			opt->choices[i]);
}

static bool opt_has_default(const struct opt *opt)
{
	return opt->initial && opt->type != OPT_BOOL && opt->initial[0] &&
	       strcmp(opt->initial, "0");
}

/* What help says in brackets: the default, and what a bare number means of a time, which differs. */
static void opt_brackets(const struct opt *opt, char *buf, size_t size)
{
	char initial[OPT_TEXT];
	const char *shown = opt_has_default(opt) ? opt_initial(opt, initial) : NULL;

	buf[0] = 0;
	if (opt->type == OPT_DURATION)
		snprintf(buf, size, " (%s%sbare number: %s)", shown ? shown : "", shown ? "; " : "",
			opt_unit(opt));
	else if (shown)
		snprintf(buf, size, " (%s)", shown);
}

/* Print words from column on, broken at blanks before column 100. */
static void opt_wrap(struct out *o, int column, const char *words)
{
	int width = 98 - column;

	while (*words) {
		int len = (int)strlen(words), cut = len;

		if (len > width) {
			cut = width;
			while (cut > 0 && words[cut] != ' ')
				cut--;
			if (!cut)
				cut = width;
		}
		out_text(o, "%.*s\n", cut, words);
		words += cut;
		while (*words == ' ')
			words++;
		if (*words)
			out_text(o, "%*s", column, "");
	}
}

void opt_help(const struct opt_table *t, struct out *o)
{
	char left[96], words[1024], choices[256], brackets[OPT_TEXT + 64];
	const char *section = "", *said = "";

	out_text(o, "weir %s: %s\n\nusage: weir %s %s\n", t->command, t->summary, t->command,
		t->usage);
	for (const struct opt *opt = t->opts; opt->name; opt++) {
		section = opt->section ? opt->section : section;
		if (!opt_shown(t, opt))
			continue;
		if (strcmp(section, said) != 0) {
			out_style(o, OUT_BOLD);
			out_text(o, "\n%s\n", section);
			out_style(o, OUT_PLAIN);
		}
		said = section;
		opt_spelling(opt, left, sizeof(left));
		opt_choices(opt, choices, sizeof(choices));
		opt_brackets(opt, brackets, sizeof(brackets));
		snprintf(words, sizeof(words), "%s%s%s", opt->help, choices, brackets);
		out_text(o,
			strlen(left) < 29 ? "  %-30s" : "  %s\n                                ",
			left);
		opt_wrap(o, 32, words);
	}
	if (t->examples)
		out_text(o, "\nexamples\n%s", t->examples);
	out_text(
		o, "\nThe whole story: man weir-%.*s\n", (int)strcspn(t->command, " "), t->command);
}

/* scdoc takes a backslash before the characters it would read as markup. */
static void opt_scdoc_text(struct out *o, const char *text)
{
	for (; *text; text++)
		out_text(o, strchr("_*\\#[]<>~", *text) ? "\\%c" : "%c", *text);
}

void opt_scdoc(const struct opt_table *t, struct out *o)
{
	char choices[256], initial[OPT_TEXT];

	for (const struct opt *opt = t->opts; opt->name; opt++) {
		if (!opt_shown(t, opt))
			continue;
		if (opt->section) {
			out_text(o, "## ");
			opt_scdoc_text(o, opt->section);
			out_text(o, "\n\n");
		}
		if (opt->letter)
			out_text(o, "*-%c*, ", opt->letter);
		out_text(o, "*--%s*", opt->name);
		if (opt->arg) {
			out_text(o, opt->implied ? "\\[=" : " ");
			out_text(o, "_");
			opt_scdoc_text(o, opt->arg);
			out_text(o, opt->implied ? "_\\]" : "_");
		}
		out_text(o, "\n\t");
		opt_scdoc_text(o, opt->help);
		opt_choices(opt, choices, sizeof(choices));
		opt_scdoc_text(o, choices);
		out_text(o, ".");
		if (opt_has_default(opt)) {
			out_text(o, " Default: ");
			opt_scdoc_text(o, opt_initial(opt, initial));
			out_text(o, ".");
		}
		if (opt->type == OPT_DURATION)
			out_text(o, " A bare number is in %s.", opt_unit(opt));
		out_text(o, "\n\n");
	}
}

void opt_completion(const struct opt_table *const *tables, size_t count,
	const char *const *commands, struct out *o)
{
	out_text(o, "# bash completion for weir, made from its option tables\n_weir()\n{\n"
		    "\tlocal cur=${COMP_WORDS[COMP_CWORD]} words\n\tcase ${COMP_WORDS[1]} in\n");
	for (size_t i = 0; i < count; i++) {
		out_text(o, "\t%s) words=\"", tables[i]->command);
		for (const struct opt *opt = tables[i]->opts; opt->name; opt++)
			if (opt_shown(tables[i], opt))
				out_text(o, "--%s%s ", opt->name, opt->implied ? "=" : "");
		out_text(o, "\" ;;\n");
	}
	out_text(o, "\t*) words=\"--help --version");
	for (; *commands; commands++)
		out_text(o, " %s", *commands);
	out_text(o, "\" ;;\n\tesac\n\tif [ \"$COMP_CWORD\" = 1 ] || [ \"${cur:0:1}\" = - ]; then\n"
		    "\t\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
		    "\telse\n\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n\tfi\n}\n"
		    "complete -F _weir weir\n");
}
