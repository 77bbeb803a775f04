// SPDX-License-Identifier: BSD-3-Clause
/* weir nic: show, prepare and restore the settings of network interfaces. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/nic.h"
#include "sys/nic_devmem.h"
#include "sys/nic_journal.h"
#include "sys/nic_plan.h"

struct nic_options {
	const char *queues, *flow, *set;
	bool spread, hold, dry_run, stats, json, help;
};

enum { ACT_SHOW = 1, ACT_PREPARE = 2, ACT_RESTORE = 4 };

static const struct opt opts[] = {
	{ .name = "queues",
		OPT_FIELD(OPT_STRING, struct nic_options, queues),
		.arg = "LIST",
		.section = "prepare",
		.only = ACT_PREPARE,
		.help = "receive queues to keep free of other traffic, for example 8-11; more channels "
			"are asked for where the NIC has them" },
	{ .name = "flow",
		OPT_FIELD(OPT_STRING, struct nic_options, flow),
		.arg = "FLOWS",
		.only = ACT_PREPARE,
		.help = "TCP flows that go to these queues, with blanks between them; each is any of "
			"src-ip=, dst-ip=, src-port=, dst-port= with commas between them; the first goes "
			"to the first queue, and round again" },
	{ .name = "spread",
		OPT_FIELD(OPT_BOOL, struct nic_options, spread),
		.only = ACT_PREPARE,
		.help = "spread every flow over all of the queues by an RSS context" },
	{ .name = "set",
		OPT_FIELD(OPT_STRING, struct nic_options, set),
		.arg = "SETTINGS",
		.only = ACT_PREPARE,
		.help = "instead of all that device memory needs, change these, with blanks between "
			"them: feature:NAME=on|off, priv-flag:NAME=on|off, channels:combined=N, ring:rx=N, "
			"tcp-data-split=on|off, hds-thresh=N, rss-table=0-7/128" },
	{ .name = "hold",
		OPT_FIELD(OPT_BOOL, struct nic_options, hold),
		.only = ACT_PREPARE,
		.help = "stay, and put the NIC back at the end: by Ctrl-C, SIGTERM or kill -9" },
	{ .name = "dry-run",
		.letter = 'n',
		OPT_FIELD(OPT_BOOL, struct nic_options, dry_run),
		.only = ACT_PREPARE,
		.help = "show what would change, and change nothing" },
	{ .name = "stats",
		OPT_FIELD(OPT_BOOL, struct nic_options, stats),
		.section = "show",
		.only = ACT_SHOW,
		.help = "also the queues with their interrupts, CPUs, bound memory and counters, and the "
			"page pools" },
	{ .name = "json",
		OPT_FIELD(OPT_BOOL, struct nic_options, json),
		.section = "all",
		.help = "JSON instead of text" },
	{ .name = "help",
		.letter = 'h',
		OPT_FIELD(OPT_BOOL, struct nic_options, help),
		.help = "show this help" },
	{ 0 },
};

const struct opt_table nic_option_table = {
	.command = "nic",
	.usage = "show [NIC] | prepare NIC | restore [NIC]  [options]",
	.summary = "show, prepare and restore the settings of network interfaces",
	.examples = "  weir nic show eth1\n"
		    "  weir nic prepare eth1 --queues 8-11 --flow dst-port=12867 --dry-run\n"
		    "  weir nic prepare eth1 --queues 8-11 --flow dst-port=12867\n"
		    "  weir nic restore eth1\n",
	.opts = opts,
	.variant = ACT_SHOW | ACT_PREPARE | ACT_RESTORE,
};

/* The words of a list with blanks between them; the copy is the caller's to free. */
#define LIST_MAX 256
static int split_list(const char *list, char **copy, const char **word, size_t *count)
{
	char *rest, *one;

	*count = 0;
	*copy = strdup(list ? list : "");
	for (rest = *copy; rest && *count < LIST_MAX && (one = strsep(&rest, " "));)
		if (one[0])
			word[(*count)++] = one;
	return *copy ? 0 : -ENOMEM;
}

/* "feature:tx-tcp-segmentation=off" */
static int add_setting(struct nic_plan *p, char *setting, struct err *e)
{
	char *value = strchr(setting, '='), *key;
	enum nic_kind kind;
	int ret;

	if (!value) {
		err_set(e, EINVAL, "--set %s has no value", setting);
		return err_hint(e, "for example: --set feature:rx-gro=off");
	}
	*value++ = '\0';
	key = strchr(setting, ':');
	if (key)
		*key++ = '\0';
	ret = nic_kind_parse(&kind, setting, e);
	if (ret)
		return err_prefix(e, "--set");
	return nic_plan_add(p, kind, key ? key : "", value, e);
}

static int plan_settings(struct nic_plan *p, const struct nic_options *o, struct err *e)
{
	const char *word[LIST_MAX];
	size_t count;
	char *copy;
	int ret;

	ret = split_list(o->set, &copy, word, &count);
	for (size_t i = 0; !ret && i < count; i++)
		ret = add_setting(p, (char *)word[i], e);
	free(copy);
	return ret;
}

static int plan_devmem(struct nic_plan *p, const struct nic_options *o, struct err *e)
{
	const char *flow[LIST_MAX];
	struct nic_devmem_want want = { .flow = flow, .spread = o->spread };
	char *copy;
	int ret;

	ret = split_list(o->flow, &copy, flow, &want.flow_count);
	if (!ret && o->queues) {
		ret = cpus_parse(&want.queues, o->queues, e);
		if (ret)
			err_prefix(e, "--queues %s", o->queues);
	}
	if (!ret)
		ret = nic_devmem_plan(p, &want, e);
	free(copy);
	return ret;
}

static void begin_report(struct out *o, const char *nic)
{
	out_object(o, NULL);
	out_str(o, "schema", NULL, "weir/nic-change/1");
	out_str(o, "nic", NULL, nic);
}

static void report_plan(struct out *o, const struct nic_plan *p, const char *state)
{
	begin_report(o, p->nic);
	if (p->recovered)
		out_u64(o, "recovered",
			"put back what a killed owner had left: %" PRIu64 " settings\n",
			p->recovered);
	if (!p->count)
		out_text(o, "%s: nothing to change\n", p->nic);
	else
		out_text(o, "%s: %zu settings %s\n", p->nic, p->count,
			p->dry_run ? "would change" : "changed");
	nic_plan_show(p, "changes", o);
	out_str(o, "state", NULL, state);
	out_end(o);
	fflush(o->file);
}

/* Signals wait while settings change, so that the end is always one that we choose. */
static void block_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGHUP);
	sigprocmask(SIG_BLOCK, set, NULL);
}

static int hold(struct nic_plan *p, const sigset_t *signals, struct out *o, struct err *e)
{
	char nic[sizeof(p->nic)];
	int number, ret;

	strcpy(nic, p->nic);
	out_text(o, "%s stays so until this program ends\n", nic);
	fflush(o->file);
	sigwait(signals, &number);
	ret = nic_plan_close(p, e);
	if (ret)
		return ret;
	begin_report(o, nic);
	out_str(o, "state", NULL, "restored");
	out_text(o, "%s is as it was\n", nic);
	out_end(o);
	return 0;
}

static int prepare(const char *nic, const struct nic_options *o, struct out *out, struct err *e)
{
	struct nic_plan p;
	sigset_t signals;
	int ret;

	block_signals(&signals);
	ret = nic_plan_open(&p, nic, o->dry_run, e);
	if (ret)
		return ret;
	ret = o->set ? plan_settings(&p, o, e) : plan_devmem(&p, o, e);
	if (!ret && !o->dry_run)
		ret = nic_plan_apply(&p, e);
	if (ret) {
		nic_plan_close(&p, NULL);
		return ret;
	}
	report_plan(out, &p, o->dry_run ? "planned" : o->hold ? "held" : "kept");
	if (o->dry_run)
		return nic_plan_close(&p, e);
	if (o->hold)
		return hold(&p, &signals, out, e);
	if (p.count)
		out_text(out, "put it back with: weir nic restore %s\n", nic);
	return nic_plan_keep(&p, e);
}

static void report_undone(void *context, const struct nic_change *c, const char *now, int ret)
{
	struct out *o = context;

	out_object(o, NULL);
	out_str(o, "kind", "  %-15s", nic_kind_name(c->kind));
	out_str(o, "key", c->key[0] ? " %s:" : "%s", c->key);
	out_str(o, "was", " %s", now);
	out_str(o, "now", " -> %s", c->before);
	out_bool(o, "restored", NULL, !ret);
	out_text(o, ret ? "  FAILED\n" : "\n");
	out_end(o);
}

static int restore_one(const char *nic, struct out *out, struct err *e)
{
	struct nic_journal j;
	bool current;
	int ret;

	ret = nic_plan_may(nic, e);
	if (ret)
		return ret;
	ret = nic_journal_open(&j, nic, false, e);
	if (ret)
		return ret;
	current = nic_journal_is_current(&j);
	begin_report(out, nic);
	out_text(out,
		current ? "%s: putting %zu settings back\n"
			: "%s is gone or was started anew, and %zu settings with it\n",
		nic, j.count);
	out_array(out, "changes");
	ret = nic_journal_undo(&j, 0, report_undone, out, e);
	out_end(out);
	out_str(out, "state", NULL, ret ? "failed" : current ? "restored" : "gone");
	out_end(out);
	j.kept = 0;
	if (ret)
		nic_journal_close(&j);
	else
		nic_journal_finish(&j);
	return ret;
}

static int restore_all(struct out *o, struct err *e)
{
	size_t count, elsewhere;
	char(*nics)[IF_NAMESIZE];
	int ret, first = 0;
	struct err why;

	ret = nic_journal_list(&nics, &count, &elsewhere, e);
	if (ret)
		return ret;
	if (!count)
		out_text(o, "nothing to put back\n");
	for (size_t i = 0; i < count; i++) {
		ret = restore_one(nics[i], o, &why);
		if (ret == -ENOENT || !ret)
			continue;
		if (first)
			log_error_err(e);
		first = ret;
		*e = why;
	}
	if (elsewhere)
		log_warn(
			"%zu NICs of other network namespaces have changes too: restore them there",
			elsewhere);
	free(nics);
	return first;
}

static int restore(const char *nic, struct out *o, struct err *e)
{
	int ret;

	if (!nic)
		return restore_all(o, e);
	ret = restore_one(nic, o, e);
	if (ret != -ENOENT)
		return ret;
	begin_report(o, nic);
	out_str(o, "state", NULL, "untouched");
	out_text(o, "%s\n", e->what);
	out_end(o);
	return 0;
}

static int parse(int argc, char **argv, struct nic_options *o, unsigned int *act, const char **nic,
	struct err *e)
{
	const char *operand[2] = { NULL, NULL };
	struct opt_table table = nic_option_table;
	struct opt_given given;
	int ret, count;

	ret = opt_operands(&nic_option_table, &argc, argv, operand, 2, &count, e);
	if (ret)
		return ret;
	*act = !operand[0]			? 0
	       : !strcmp(operand[0], "show")	? ACT_SHOW
	       : !strcmp(operand[0], "prepare") ? ACT_PREPARE
	       : !strcmp(operand[0], "restore") ? ACT_RESTORE
						: 0;
	*nic = operand[1];
	if (*act)
		table.variant = *act;
	ret = opt_parse(&table, argc, argv, o, &given, e);
	if (ret || o->help)
		return ret;
	if (!*act)
		return err_set(e, EINVAL, "say show, prepare or restore%s%s",
			operand[0] ? ", not " : "", operand[0] ? operand[0] : "");
	if (*act == ACT_PREPARE && !*nic)
		return err_set(e, EINVAL, "prepare which network interface?");
	if (o->set && (o->queues || o->flow || o->spread))
		return err_set(e, EINVAL,
			"--set changes only what it says: not with --queues, --flow "
			"or --spread");
	return 0;
}

int cmd_nic(int argc, char **argv)
{
	struct nic_options o = { 0 };
	struct err e = { 0 };
	const char *nic;
	unsigned int act;
	struct out out;
	int ret;

	log_set_program("weir nic");
	ret = parse(argc, argv, &o, &act, &nic, &e);
	if (ret) {
		if (!e.hint[0])
			err_hint(&e, "usage: weir nic %s", nic_option_table.usage);
		log_error_err(&e);
		return STATUS_USAGE;
	}
	out_init(&out, stdout, o.json && !o.help ? OUT_JSON : OUT_TEXT);
	if (o.help) {
		opt_help(&nic_option_table, &out);
		return STATUS_GOOD;
	}
	if (act == ACT_SHOW)
		ret = nic ? nic_show_one(nic, o.stats, &out, &e) : nic_show_all(&out, &e);
	else if (act == ACT_PREPARE)
		ret = prepare(nic, &o, &out, &e);
	else
		ret = restore(nic, &out, &e);
	if (!ret)
		ret = out_finish(&out, &e);
	if (ret) {
		log_error_err(&e);
		return STATUS_FAILED;
	}
	return STATUS_GOOD;
}
