/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/nic.h"
#include "sys/nic_bind.h"
#include "sys/nic_devmem.h"
#include "sys/nic_driver.h"
#include "sys/nic_link.h"
#include "sys/nic_queue.h"
#include "sys/nic_rss.h"
#include "sys/nic_rule.h"
#include "sys/uapi.h"

#define NTUPLE "rx-ntuple-filter"
#define MERGE  "rx-gro-hw"

/* Queues that are not there yet: ask for more channels, where the NIC has them. */
static int plan_channels(struct nic_plan *p, const struct cpus *queues, struct err *e)
{
	uint32_t need = (uint32_t)cpus_nth(queues, queues->count - 1) + 1, have;
	enum nic_channel which = NIC_CHANNEL_COMBINED;
	struct nic_channels c;
	char count[16];

	if (nic_rss_queues(p->nic, &have, NULL) || need <= have)
		return 0;
	if (!nic_channels_read(&c, p->nic, NULL) && c.max[which] < need)
		which = NIC_CHANNEL_RX;
	if (c.max[which] < need) {
		err_set(e, EINVAL, "%s has receive queues 0 to %u, not %u", p->nic, have - 1,
			need - 1);
		return err_hint(e, "name queues below %u", have);
	}
	snprintf(count, sizeof(count), "%u", need);
	return nic_plan_add(p, NIC_KIND_CHANNELS, nic_channel_name[which], count, e);
}

/* The driver's own flags for a purpose, those that this version of it has. */
static int plan_flags(struct nic_plan *p, enum nic_purpose purpose, size_t *found, struct err *e)
{
	struct nic_ethtool driver;
	struct nic_bit bit;
	int ret = 0;

	*found = 0;
	if (nic_ethtool_read(&driver, p->nic, NULL))
		return 0;
	for (const struct nic_driver_flag *f = nic_driver_flags(); !ret && f->driver; f++) {
		if (strcmp(f->driver, driver.driver) || f->purpose != purpose ||
			nic_bit_find(&bit, p->nic, NIC_PRIVATE_FLAGS, f->flag, NULL))
			continue;
		++*found;
		ret = nic_plan_add(p, NIC_KIND_PRIV_FLAG, f->flag, f->on ? "on" : "off", e);
	}
	return ret;
}

/* A NIC that puts the payload of many packets into one buffer gives the kernel fewer fragments to hand out and
 * to take back. Before the split: mlx5_core splits only while it merges. */
static int plan_merge(struct nic_plan *p, struct err *e)
{
	struct nic_bit bit;

	if (nic_bit_find(&bit, p->nic, NIC_FEATURES, MERGE, NULL) || bit.fixed)
		return 0;
	return nic_plan_wish(p, NIC_KIND_FEATURE, MERGE, "on", e);
}

static int plan_split(struct nic_plan *p, struct err *e)
{
	struct nic_rings rings;
	size_t flags;
	int ret;

	ret = plan_flags(p, NIC_PURPOSE_LARGE_BUFFERS, &flags, e);
	if (ret)
		return ret;
	ret = nic_rings_read(&rings, p->nic, e);
	if (ret && (ret != -EOPNOTSUPP || !netlink_is_built()))
		return ret;
	/* A driver that shows the general setting follows it. */
	if (ret || rings.split == NIC_SPLIT_UNKNOWN) {
		int flagged = plan_flags(p, NIC_PURPOSE_SPLIT, &flags, e);

		if (flagged || flags)
			return flagged;
	}
	if (ret) {
		err_set(e, EOPNOTSUPP, "the driver of %s has no header split", p->nic);
		return err_hint(e,
			"use a NIC whose driver has: gve, mlx5_core, bnxt_en, fbnic; weir nic show %s says more",
			p->nic);
	}
	ret = nic_plan_add(p, NIC_KIND_SPLIT, "", "on", e);
	if (!ret && rings.has_hds_thresh)
		ret = nic_plan_add(p, NIC_KIND_HDS_THRESH, "", "0", e);
	return ret;
}

static int plan_table(
	struct nic_plan *p, const struct cpus *queues, uint32_t *entries, struct err *e)
{
	struct nic_rss now, then;
	struct cpus others;
	uint32_t have;
	char *text;
	int ret;

	ret = nic_rss_queues(p->nic, &have, e);
	if (!ret)
		ret = nic_rss_read(&now, p->nic, 0, e);
	if (ret)
		return ret;
	*entries = now.size;
	cpus_clear(&others);
	for (uint32_t i = 0; i < have; i++)
		if (!cpus_has(queues, (int)i))
			cpus_add(&others, (int)i);
	if (nic_rss_uses(&now, queues) || have <= (uint32_t)cpus_nth(queues, queues->count - 1)) {
		ret = nic_rss_spread(&then, now.size, &others, e);
		text = ret ? NULL : nic_rss_text(&then);
		if (!ret && !text)
			ret = err_set(e, ENOMEM, "no memory for an RSS table");
		if (!ret)
			ret = nic_plan_add(p, NIC_KIND_RSS_TABLE, "", text, e);
		free(text);
		nic_rss_free(&then);
	}
	nic_rss_free(&now);
	return ret;
}

static int plan_context(struct nic_plan *p, const struct cpus *queues, uint32_t entries,
	char **target, struct err *e)
{
	struct nic_rss r;
	char *table;
	int ret;

	ret = nic_rss_spread(&r, entries, queues, e);
	if (ret)
		return ret;
	table = nic_rss_text(&r);
	nic_rss_free(&r);
	if (!table || asprintf(target, "context %s", table) < 0) {
		free(table);
		*target = NULL;
		return err_set(e, ENOMEM, "no memory for an RSS table");
	}
	ret = nic_plan_add(p, NIC_KIND_RSS_CONTEXT, table, "present", e);
	free(table);
	return ret;
}

static int plan_rule(struct nic_plan *p, const char *flow, const char *target, struct err *e)
{
	char text[NIC_RULE_TEXT];
	struct nic_rule r;
	int ret;

	ret = nic_rule_parse(&r, flow, e);
	return ret ? ret : nic_plan_add(p, NIC_KIND_RULE, nic_rule_text(&r, text), target, e);
}

static int plan_flows(
	struct nic_plan *p, const struct nic_devmem_want *want, uint32_t entries, struct err *e)
{
	char queue[32], *context = NULL;
	struct nic_bit bit;
	int ret = 0;

	/* One that cannot be switched is left to the driver's word about the rule. */
	if (!nic_bit_find(&bit, p->nic, NIC_FEATURES, NTUPLE, NULL) && !bit.fixed)
		ret = nic_plan_add(p, NIC_KIND_FEATURE, NTUPLE, "on", e);
	if (!ret && want->spread)
		ret = plan_context(p, &want->queues, entries, &context, e);
	for (size_t i = 0; !ret && i < want->flow_count; i++) {
		snprintf(queue, sizeof(queue), "queue %d",
			cpus_nth(&want->queues, (int)(i % (size_t)want->queues.count)));
		ret = plan_rule(p, want->flow[i], context ? context : queue, e);
	}
	free(context);
	return ret;
}

int nic_devmem_plan(struct nic_plan *p, const struct nic_devmem_want *want, struct err *e)
{
	uint32_t entries = 0;
	int ret = 0;

	if (!want->queues.count && (want->flow_count || want->spread)) {
		err_set(e, EINVAL, "flows need queues to go to");
		return err_hint(e, "name them, for example: --queues 8-11");
	}
	if (want->queues.count)
		ret = plan_channels(p, &want->queues, e);
	if (!ret)
		ret = plan_merge(p, e);
	if (!ret)
		ret = plan_split(p, e);
	if (!ret && want->queues.count)
		ret = plan_table(p, &want->queues, &entries, e);
	if (!ret && want->flow_count)
		ret = plan_flows(p, want, entries, e);
	return ret;
}

static struct nic_check *say(
	struct nic_check *c, enum nic_check_state state, const char *format, ...)
{
	va_list args;

	c->state = state;
	va_start(args, format);
	vsnprintf(c->found, sizeof(c->found), format, args);
	va_end(args);
	return c;
}

static void mend(struct nic_check *c, const char *format, const char *nic)
{
	snprintf(c->mend, sizeof(c->mend), format, nic);
}

static void check_kernel(struct nic_check *rx, struct nic_check *tx)
{
	struct netlink n;
	struct err e;
	int ret;

	rx->name = "kernel-receive";
	tx->name = "kernel-send";
	ret = netlink_open(&n, UAPI_NETDEV_FAMILY, &e);
	if (!netlink_is_built()) {
		mend(say(rx, NIC_CHECK_UNKNOWN, "weir was built without libmnl"), "%s", e.hint);
		mend(say(tx, NIC_CHECK_UNKNOWN, "weir was built without libmnl"), "%s", e.hint);
		return;
	}
	if (!ret && netlink_has(&n, UAPI_NETDEV_BIND_RX))
		say(rx, NIC_CHECK_HOLDS, "can bind device memory to receive queues");
	else
		mend(say(rx, NIC_CHECK_FAILS, "cannot receive into device memory"), "%s",
			"boot Linux 6.12 or later, built with CONFIG_NET_DEVMEM");
	if (!ret && netlink_has(&n, UAPI_NETDEV_BIND_TX))
		say(tx, NIC_CHECK_HOLDS, "can send from device memory");
	else
		mend(say(tx, NIC_CHECK_FAILS, "cannot send from device memory"), "%s",
			"boot Linux 6.16 or later, built with CONFIG_NET_DEVMEM; receiving works without");
	netlink_close(&n);
}

static void check_rights(const char *nic, struct nic_check *c)
{
	struct err e;

	c->name = "rights";
	if (!nic_plan_may(nic, &e))
		say(c, NIC_CHECK_HOLDS, "CAP_NET_ADMIN");
	else
		mend(say(c, NIC_CHECK_FAILS, "no CAP_NET_ADMIN"), "%s", e.hint);
}

static void check_driver(const char *nic, struct nic_check *c)
{
	struct nic_ethtool t = { 0 };
	struct err e = { 0 };
	int ret;

	c->name = "driver";
	nic_ethtool_read(&t, nic, NULL);
	ret = nic_bind_probe(nic, &e);
	if (ret == -EOPNOTSUPP && netlink_is_built())
		mend(say(c, NIC_CHECK_FAILS, "%s cannot give single queues other memory",
			     t.driver[0] ? t.driver : "it"),
			"%s", "use a NIC whose driver can: gve, mlx5_core, bnxt_en, fbnic");
	else if (!ret || nic_driver_is_known(t.driver))
		say(c, NIC_CHECK_HOLDS, "%s has queue management", t.driver[0] ? t.driver : "it");
	else
		mend(say(c, NIC_CHECK_UNKNOWN, "not known whether %s can",
			     t.driver[0] ? t.driver : "it"),
			"%s", ret == -EPERM ? "ask again as root" : "only an attempt will tell");
}

static void check_split(const char *nic, struct nic_check *split, struct nic_check *thresh)
{
	struct nic_rings r;
	struct err e;
	int ret;

	split->name = "header-split";
	thresh->name = "hds-thresh";
	ret = nic_rings_read(&r, nic, &e);
	if (ret && (ret != -EOPNOTSUPP || !netlink_is_built())) {
		mend(say(split, NIC_CHECK_UNKNOWN, "%s", e.what), "%s", e.hint);
		mend(say(thresh, NIC_CHECK_UNKNOWN, "%s", e.what), "%s", e.hint);
		return;
	}
	if (ret)
		mend(say(split, NIC_CHECK_FAILS, "the driver has no ring settings"),
			"if it has private flags for it: weir nic prepare %s", nic);
	else if (r.split == NIC_SPLIT_ON)
		say(split, NIC_CHECK_HOLDS, "on");
	else
		mend(say(split, NIC_CHECK_FAILS, r.split == NIC_SPLIT_OFF ? "off" : "not known"),
			"weir nic prepare %s", nic);
	if (ret)
		say(thresh, NIC_CHECK_UNKNOWN, "no such setting");
	else if (!r.has_hds_thresh)
		say(thresh, NIC_CHECK_HOLDS, "none: every packet is split");
	else if (!r.hds_thresh)
		say(thresh, NIC_CHECK_HOLDS, "0");
	else
		mend(say(thresh, NIC_CHECK_FAILS, "%u", r.hds_thresh), "weir nic prepare %s", nic);
}

static void check_steering(const char *nic, struct nic_check *c)
{
	struct nic_rule *rules = NULL;
	struct nic_bit bit;
	size_t count;
	struct err e;
	int ret;

	c->name = "steering";
	ret = nic_rules_read(&rules, &count, nic, &e);
	free(rules);
	if (ret)
		mend(say(c, NIC_CHECK_FAILS, "%s", e.what), "%s",
			"use a NIC that can steer a flow to a queue");
	else if (!nic_bit_find(&bit, nic, NIC_FEATURES, NTUPLE, NULL) && !bit.on)
		mend(say(c, NIC_CHECK_FAILS, NTUPLE " is off"),
			"weir nic prepare %s --queues N --flow dst-port=PORT", nic);
	else
		say(c, NIC_CHECK_HOLDS, "steering rules: %zu", count);
}

static void check_queues(const char *nic, struct nic_check *c)
{
	struct nic_queue *queues = NULL;
	struct nic_channels channels;
	size_t count = 0, bound = 0;
	uint32_t have = 0;

	c->name = "queues";
	if (nic_rss_queues(nic, &have, NULL) && !nic_channels_read(&channels, nic, NULL))
		have = channels.count[NIC_CHANNEL_RX] + channels.count[NIC_CHANNEL_COMBINED];
	if (!nic_queues_read(&queues, &count, nic, NULL))
		for (size_t i = 0; i < count; i++)
			bound += queues[i].dmabuf || queues[i].io_uring || queues[i].xsk;
	free(queues);
	if (have > 1)
		say(c, NIC_CHECK_HOLDS, "%u receive queues, %zu of them taken", have, bound);
	else
		mend(say(c, NIC_CHECK_FAILS,
			     "one receive queue: none can be kept for device memory"),
			"ethtool -L %s combined N", nic);
}

size_t nic_devmem_check(const char *nic, struct nic_check check[NIC_CHECKS])
{
	memset(check, 0, NIC_CHECKS * sizeof(*check));
	check_kernel(&check[0], &check[1]);
	check_rights(nic, &check[2]);
	check_driver(nic, &check[3]);
	check_split(nic, &check[4], &check[5]);
	check_steering(nic, &check[6]);
	check_queues(nic, &check[7]);
	return NIC_CHECKS;
}
