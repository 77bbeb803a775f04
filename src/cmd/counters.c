// SPDX-License-Identifier: BSD-3-Clause
/* weir counters: list, snap, diff, watch. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/counters.h"
#include "counters/collector.h"
#include "counters/difference.h"
#include "counters/finding.h"

struct counters_options {
	const char *source, *object, *cxi, *tree, *names, *rules, *out;
	int form;
	int64_t most, count;
	uint64_t interval;
	bool all, check, json, help;
};

enum { ACT_LIST = 1, ACT_SNAP = 2, ACT_DIFF = 4, ACT_WATCH = 8 };
#define ACT_READS (ACT_LIST | ACT_SNAP | ACT_WATCH)

static const char *const form_names[] = { "weir", "net_prof", "net_prof_list", NULL };

static const struct opt opts[] = {
	{ .name = "source",
		OPT_FIELD(OPT_STRING, struct counters_options, source),
		.arg = "NAMES",
		.section = "list, snap, watch",
		.only = ACT_READS,
		.help = "only these sources, with commas between them; list names them" },
	{ .name = "object",
		OPT_FIELD(OPT_STRING, struct counters_options, object),
		.arg = "GLOBS",
		.only = ACT_READS,
		.help = "only NICs and devices whose name matches, with commas between them: eth*,cxi0" },
	{ .name = "cxi",
		OPT_FIELD(OPT_STRING, struct counters_options, cxi),
		.arg = "DIR",
		.only = ACT_READS,
		.help = "read cxi telemetry below DIR instead of /sys/class/cxi: a directory that holds cxi0, "
			"cxi1, ..., or one NIC's .../cxi0/device/telemetry" },
	{ .name = "tree",
		OPT_FIELD(OPT_STRING, struct counters_options, tree),
		.arg = "DIR",
		.section = "snap",
		.only = ACT_SNAP,
		.help = "copy all raw files to DIR as well: WEIR_SYSROOT=DIR weir counters snap FILE reads them "
			"again, anywhere" },
	{ .name = "form",
		OPT_FIELD(OPT_CHOICE, struct counters_options, form),
		.arg = "FORM",
		.initial = "weir",
		.choices = form_names,
		.only = ACT_SNAP,
		.help = "of FILE: weir; net_prof for that program (cxi counters only); net_prof_list for "
			"versions of it before 0.1.11" },
	{ .name = "names",
		OPT_FIELD(OPT_STRING, struct counters_options, names),
		.arg = "FILE",
		.section = "diff",
		.only = ACT_DIFF,
		.help = "names of the lines of a text dump, one a line or by ls -l; otherwise those of a "
			"Cassini-1" },
	{ .name = "rules",
		OPT_FIELD(OPT_STRING, struct counters_options, rules),
		.arg = "FILE",
		.only = ACT_DIFF,
		.help = "rules instead of the built-in ones; src/counters/rules.txt describes the form" },
	{ .name = "most",
		OPT_FIELD(OPT_INT, struct counters_options, most),
		.arg = "N",
		.initial = "20",
		.min = 0,
		.max = 1000000,
		.only = ACT_DIFF,
		.help = "rows of each object, the largest first; 0 is all" },
	{ .name = "all",
		OPT_FIELD(OPT_BOOL, struct counters_options, all),
		.only = ACT_DIFF | ACT_WATCH,
		.help = "also counters that did not move" },
	{ .name = "check",
		OPT_FIELD(OPT_BOOL, struct counters_options, check),
		.only = ACT_DIFF,
		.help = "exit with 3 when something was found that is more than a note" },
	{ .name = "interval",
		OPT_FIELD(OPT_DURATION, struct counters_options, interval),
		.arg = "TIME",
		.initial = "1s",
		.unit = "s",
		.min = 1e7,
		.max = 3.6e12,
		.section = "watch",
		.only = ACT_WATCH,
		.help = "between two readings" },
	{ .name = "count",
		OPT_FIELD(OPT_INT, struct counters_options, count),
		.arg = "N",
		.initial = "0",
		.min = 0,
		.max = 1e9,
		.only = ACT_WATCH,
		.help = "end after N readings; 0 is never" },
	{ .name = "json",
		OPT_FIELD(OPT_BOOL, struct counters_options, json),
		.section = "all",
		.help = "JSON instead of text" },
	{ .name = "help",
		.letter = 'h',
		OPT_FIELD(OPT_BOOL, struct counters_options, help),
		.help = "show this help" },
	{ 0 },
};

const struct opt_table counters_option_table = {
	.command = "counters",
	.usage = "list | snap FILE | diff BEFORE AFTER | watch  [options]",
	.summary = "what this host counts, what moved, and what it means",
	.examples = "  weir counters snap before.json; sleep 10; weir counters snap after.json\n"
		    "  weir counters diff before.json after.json\n"
		    "  weir counters watch --object eth0\n"
		    "  weir counters snap --tree /tmp/host snapshot.json\n",
	.opts = opts,
	.variant = ACT_LIST | ACT_SNAP | ACT_DIFF | ACT_WATCH,
};

static void say_problems(const char *what, const struct problems *p)
{
	uint32_t shown = p->count < 8 ? p->count : 8;

	for (uint32_t i = 0; p->problem && i < shown; i++)
		log_warn("%s: %s", p->problem[i].where, p->problem[i].what);
	if (p->count > shown)
		log_warn("%s: and %u more that could not be read", what, p->count - shown);
}

static int open_collector(struct collector **c, const struct counters_options *o, struct err *e)
{
	struct collector_options options = {
		.sources = o->source, .objects = o->object, .cxi = o->cxi
	};

	/* net_prof knows no other. */
	if (!options.sources && o->form)
		options.sources = "cxi";
	return collector_open(c, &options, e);
}

static uint32_t present_of(const struct snapshot *s, const char *source, uint32_t *objects)
{
	const char *last = NULL;
	uint32_t count = 0;

	*objects = 0;
	for (uint32_t i = 0; i < s->count; i++) {
		const struct counter *c = &s->catalog->counter[i];

		if (!snapshot_has(s, i) || strcmp(c->source, source))
			continue;
		count++;
		*objects += last != c->object;
		last = c->object;
	}
	return count;
}

static int list(const struct counters_options *o, struct out *out, struct err *e)
{
	const struct collector_source *sources = collector_sources();
	struct snapshot s = { 0 };
	struct collector *c;
	uint32_t objects, count;
	int ret;

	ret = open_collector(&c, o, e);
	if (ret)
		return ret;
	ret = collector_read(c, &s, e);
	out_object(out, NULL);
	out_str(out, "schema", NULL, "weir/sources/1");
	out_array(out, "sources");
	for (; !ret && sources->name; sources++) {
		count = present_of(&s, sources->name, &objects);
		out_object(out, NULL);
		out_str(out, "name", "%-12s", sources->name);
		out_u64(out, "counters", "%6" PRIu64 " counters of ", count);
		out_u64(out, "objects", "%4" PRIu64 "  ", objects);
		out_str(out, "about", "%s\n", sources->about);
		out_end(out);
	}
	out_end(out);
	out_end(out);
	say_problems("counters", &s.problems);
	snapshot_free(&s);
	collector_close(c);
	return ret;
}

static int snap(const char *path, const struct counters_options *o, struct out *out, struct err *e)
{
	static const enum snapshot_form forms[] = { SNAPSHOT_WEIR, SNAPSHOT_NET_PROF,
		SNAPSHOT_NET_PROF_LIST };
	struct snapshot s = { 0 };
	struct collector *c;
	uint32_t count = 0;
	int ret;

	ret = open_collector(&c, o, e);
	if (ret)
		return ret;
	ret = o->tree ? collector_record(c, &s, o->tree, e) : collector_read(c, &s, e);
	for (uint32_t i = 0; i < s.count; i++)
		count += snapshot_has(&s, i);
	if (!ret && path)
		ret = snapshot_write(&s, path, forms[o->form], e);
	else if (!ret && o->json)
		snapshot_emit(&s, out);
	if (!ret && !o->json)
		out_text(out, "%u counters read in %.1f ms%s%s\n", count, (double)s.took_ns / 1e6,
			path ? ", written to " : "", path ? path : "");
	say_problems("snapshot", &s.problems);
	snapshot_free(&s);
	collector_close(c);
	return ret;
}

static bool is_grave(const struct findings *f)
{
	for (uint32_t i = 0; i < f->count; i++)
		if (f->finding[i].severity > SEVERITY_NOTE)
			return true;
	return false;
}

static int diff(const char *const path[2], const struct counters_options *o, struct out *out,
	bool *grave, struct err *e)
{
	struct snapshot before = { 0 }, after = { 0 };
	struct findings findings = { 0 };
	struct difference d = { 0 };
	struct rules *rules = NULL;
	int ret;

	ret = snapshot_load(&before, path[0], o->names, e);
	if (!ret)
		ret = snapshot_load(&after, path[1], o->names, e);
	if (!ret)
		ret = rules_load(&rules, o->rules, e);
	if (!ret)
		ret = difference_make(&d, &before, &after, e);
	if (!ret)
		ret = findings_make(&findings, &d, rules, e);
	if (!ret) {
		say_problems(path[0], &before.problems);
		say_problems(path[1], &after.problems);
		*grave = is_grave(&findings);
		if (o->json)
			difference_emit(&d, &findings, NULL, o->all, out);
		else
			difference_print(&d, &findings, (uint32_t)o->most, o->all, out);
	}
	findings_free(&findings);
	difference_free(&d);
	rules_free(rules);
	snapshot_free(&before);
	snapshot_free(&after);
	return ret;
}

static int watch(const struct counters_options *o, struct out *out, struct err *e)
{
	struct collector *c;
	int ret;

	ret = open_collector(&c, o, e);
	if (ret)
		return ret;
	ret = counters_watch(c, o->interval, (uint64_t)o->count, o->all, out, e);
	collector_close(c);
	return ret;
}

static int parse(int argc, char **argv, struct counters_options *o, unsigned int *act,
	const char *operand[4], int *count, struct err *e)
{
	static const char *const name[] = { "list", "snap", "diff", "watch" };
	struct opt_table table = counters_option_table;
	struct opt_given given;
	int ret;

	ret = opt_operands(&table, &argc, argv, operand, 3, count, e);
	if (ret)
		return ret;
	*act = 0;
	for (unsigned int i = 0; i < 4 && operand[0]; i++)
		if (!strcmp(operand[0], name[i]))
			*act = 1u << i;
	if (*act)
		table.variant = *act;
	ret = opt_parse(&table, argc, argv, o, &given, e);
	if (ret || o->help)
		return ret;
	if (!*act)
		return err_set(e, EINVAL, "say list, snap, diff or watch%s%s",
			operand[0] ? ", not " : "", operand[0] ? operand[0] : "");
	if (*act == ACT_SNAP && *count != 2 && !(o->json && *count == 1))
		return err_set(e, EINVAL, "snap into which file?");
	if (*act == ACT_DIFF && *count != 3)
		return err_set(e, EINVAL, "diff needs two snapshots: before and after");
	if ((*act & (ACT_LIST | ACT_WATCH)) && *count != 1)
		return err_set(e, EINVAL, "unexpected word \"%s\"", operand[1]);
	return 0;
}

int cmd_counters(int argc, char **argv)
{
	const char *operand[4] = { NULL };
	struct counters_options o = { 0 };
	struct err e = { 0 };
	bool grave = false;
	unsigned int act;
	struct out out;
	int ret, count;

	log_set_program("weir counters");
	ret = parse(argc, argv, &o, &act, operand, &count, &e);
	if (ret) {
		if (!e.hint[0])
			err_hint(&e, "usage: weir counters %s", counters_option_table.usage);
		log_error_err(&e);
		return STATUS_USAGE;
	}
	out_init(&out, stdout, o.json && !o.help ? OUT_JSON : OUT_TEXT);
	if (o.help) {
		opt_help(&counters_option_table, &out);
		return STATUS_GOOD;
	}
	if (act == ACT_LIST)
		ret = list(&o, &out, &e);
	else if (act == ACT_SNAP)
		ret = snap(operand[1], &o, &out, &e);
	else if (act == ACT_DIFF)
		ret = diff(operand + 1, &o, &out, &grave, &e);
	else
		ret = watch(&o, &out, &e);
	if (!ret)
		ret = out_finish(&out, &e);
	if (ret) {
		log_error_err(&e);
		return STATUS_FAILED;
	}
	return o.check && grave ? STATUS_DOUBTFUL : STATUS_GOOD;
}
