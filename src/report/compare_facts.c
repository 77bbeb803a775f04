// SPDX-License-Identifier: BSD-3-Clause
/* What was set and what was found, in one run and not in the other. */
#include <stdlib.h>
#include <string.h>

#include "report/compare.h"
#include "report/html.h"

static int out_of_memory(struct err *e)
{
	return err_set(e, ENOMEM, "cannot compare: out of memory");
}

/* Settings that are known to change how fast a network is; the rest is listed after them. */
static bool is_telling_setting(const char *name)
{
	static const char *const telling[] = { "kernel_release", "nic_mtu_bytes", "nic_speed_bps",
		"nic_pcie_link_now", "nic_rx_queues", "nic_driver", "nic_firmware", "nic_offload_",
		"net_", "cpu_governor", "cpus_allowed", "cgroup_", "iommu", "irqbalance", "smt",
		"nic_numa_node", "nvidia_driver_version" };

	for (size_t i = 0; i < sizeof(telling) / sizeof(telling[0]); i++)
		if (!strncmp(name, telling[i], strlen(telling[i])))
			return true;
	return false;
}

int compare_add_setting(struct compare *c, const char *whose, const char *name, const char *before,
	const char *after, bool telling, struct err *e)
{
	struct setting *more;

	if (c->setting_count == c->setting_room) {
		more = realloc(c->setting, (c->setting_room * 2 + 16) * sizeof(*more));
		if (!more)
			return out_of_memory(e);
		c->setting = more;
		c->setting_room = c->setting_room * 2 + 16;
	}
	more = &c->setting[c->setting_count++];
	memset(more, 0, sizeof(*more));
	snprintf(more->whose, sizeof(more->whose), "%s", whose);
	snprintf(more->name, sizeof(more->name), "%s", name);
	snprintf(more->before, sizeof(more->before), "%s", before ? before : "-");
	snprintf(more->after, sizeof(more->after), "%s", after ? after : "-");
	more->telling = telling;
	return 0;
}

static const struct host_facts *facts_of(const struct report *r, bool client)
{
	const struct end_result *end =
		r->run.rec.options->client == client ? r->run.rec.local : r->run.rec.remote;

	return end->facts;
}

static int add_facts(struct compare *c, bool client, struct err *e)
{
	const struct host_facts *a = facts_of(c->before, client), *b = facts_of(c->after, client);
	const char *whose = client ? "client" : "server";
	int ret = 0;

	if (!a || !b)
		return 0;
	for (size_t i = 0; i < a->count && !ret; i++) {
		const char *other = host_facts_get(b, a->fact[i].name);

		if (!other || strcmp(other, a->fact[i].value))
			ret = compare_add_setting(c, whose, a->fact[i].name, a->fact[i].value,
				other, is_telling_setting(a->fact[i].name), e);
	}
	for (size_t i = 0; i < b->count && !ret; i++)
		if (!host_facts_get(a, b->fact[i].name))
			ret = compare_add_setting(c, whose, b->fact[i].name, NULL, b->fact[i].value,
				is_telling_setting(b->fact[i].name), e);
	return ret;
}

/* Where output goes and which ports are used changes nothing that is measured. */
static bool is_idle_option(const char *name)
{
	static const char *const idle[] = { "out", "control-port", "port", "source-port", "json",
		"format", "quiet", "verbose", "help", "version", "dry-run", "all-samples",
		"log-rtt", "host", "client", "once", "counters", "logtostderr", "nolog" };

	for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++)
		if (!strcmp(name, idle[i]))
			return true;
	return false;
}

static int add_options(struct compare *c, struct err *e)
{
	const struct opt_table *t = &flow_option_table[c->before->run.rec.workload];
	char before[OPT_TEXT], after[OPT_TEXT], name[64];
	int ret = 0;

	for (const struct opt *opt = t->opts; opt->name && !ret; opt++) {
		if (opt_find(t, opt->name) != opt || is_idle_option(opt->name))
			continue;
		opt_value(opt, c->before->run.rec.options, before);
		opt_value(opt, c->after->run.rec.options, after);
		if (!strcmp(before, after))
			continue;
		snprintf(name, sizeof(name), "--%s", opt->name);
		ret = compare_add_setting(c, "option", name, before[0] ? before : NULL,
			after[0] ? after : NULL, true, e);
	}
	return ret;
}

int compare_add_finding(struct compare *c, const struct compare_finding *f, struct err *e)
{
	struct compare_finding *more;

	if (c->finding_count == c->finding_room) {
		more = realloc(c->finding, (c->finding_room * 2 + 16) * sizeof(*more));
		if (!more)
			return out_of_memory(e);
		c->finding = more;
		c->finding_room = c->finding_room * 2 + 16;
	}
	c->finding[c->finding_count++] = *f;
	return 0;
}

static bool run_has(const struct record *rec, const char *name)
{
	for (int i = 0; i < rec->finding_count; i++)
		if (!strcmp(rec->findings[i].name, name))
			return true;
	return false;
}

/* Of a run: notes say how, not that something is wrong. */
static int add_run_findings(struct compare *c, const struct record *a, const struct record *b,
	bool appeared, struct err *e)
{
	int ret = 0;

	for (int i = 0; i < b->finding_count && !ret; i++) {
		const struct record_finding *f = &b->findings[i];
		struct compare_finding one = { .appeared = appeared,
			.severity = f->severity > FINDING_WARNING ? MARK_BAD : MARK_WARNING };

		if (f->severity == FINDING_NOTE || run_has(a, f->name))
			continue;
		snprintf(one.name, sizeof(one.name), "%s", f->name);
		snprintf(one.text, sizeof(one.text), "%s", f->text);
		ret = compare_add_finding(c, &one, e);
	}
	return ret;
}

static bool counters_have(const struct findings *f, const struct finding *like)
{
	for (uint32_t i = 0; i < f->count; i++)
		if (!strcmp(f->finding[i].rule, like->rule) &&
			!strcmp(f->finding[i].object, like->object))
			return true;
	return false;
}

static int add_counter_findings(struct compare *c, int end, const struct findings *a,
	const struct findings *b, bool appeared, struct err *e)
{
	const struct report *r = c->after;
	int ret = 0;

	for (uint32_t i = 0; i < b->count && !ret; i++) {
		const struct finding *f = &b->finding[i];
		struct compare_finding one = { .appeared = appeared,
			.severity = f->severity == SEVERITY_PROBLEM ? MARK_BAD : MARK_WARNING };

		if (f->severity == SEVERITY_NOTE || counters_have(a, f))
			continue;
		snprintf(one.name, sizeof(one.name), "%s", f->rule);
		snprintf(one.whose, sizeof(one.whose), "%s",
			!r->has_run			     ? ""
			: r->run.rec.options->client == !end ? "client"
							     : "server");
		snprintf(one.text, sizeof(one.text), "%s: %s", f->text, f->means);
		snprintf(one.advice, sizeof(one.advice), "%s", f->advice);
		ret = compare_add_finding(c, &one, e);
	}
	return ret;
}

int compare_findings(struct compare *c, struct err *e)
{
	const struct report *a = c->before, *b = c->after;
	int ret = 0;

	for (int end = 0; end < 2 && !ret; end++) {
		if (!a->counters[end].findings || !b->counters[end].findings)
			continue;
		ret = add_counter_findings(
			c, end, a->counters[end].findings, b->counters[end].findings, true, e);
		if (!ret)
			ret = add_counter_findings(c, end, b->counters[end].findings,
				a->counters[end].findings, false, e);
	}
	if (!ret && a->has_run)
		ret = add_run_findings(c, &a->run.rec, &b->run.rec, true, e);
	if (!ret && a->has_run)
		ret = add_run_findings(c, &b->run.rec, &a->run.rec, false, e);
	return ret;
}

int compare_settings(struct compare *c, struct err *e)
{
	int ret;

	ret = add_options(c, e);
	for (int client = 1; client >= 0 && !ret; client--)
		ret = add_facts(c, client, e);
	return ret;
}
