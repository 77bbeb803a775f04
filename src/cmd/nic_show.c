// SPDX-License-Identifier: BSD-3-Clause
/* weir nic show: what is set on a network interface, and what device memory would still need. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cmd/nic.h"
#include "sys/nic.h"
#include "sys/nic_devmem.h"
#include "sys/nic_journal.h"
#include "sys/nic_link.h"
#include "sys/nic_queue.h"
#include "sys/nic_rss.h"
#include "sys/nic_rule.h"

#define LABEL "  %-18s "

static void show_device(const struct nic *n, struct out *o)
{
	struct nic_ethtool t = { 0 };
	char speed[UNITS_TEXT];

	nic_ethtool_read(&t, n->name, NULL);
	out_str(o, "nic", "%s", n->name);
	out_str(o, "driver", "  %s", t.driver[0] ? t.driver : n->driver);
	out_str(o, "driver_version", NULL, t.version);
	out_str(o, "firmware", NULL, t.firmware);
	out_str(o, "pci", "  %s", n->place.depth ? topo_address(&n->place) : NULL);
	out_str(o, "state", "  %s", n->state);
	out_i64(o, "mtu_bytes", "  MTU %" PRId64, n->mtu_bytes);
	out_f64_as(o, "speed_bps", (double)n->speed_bps, "  %s\n",
		n->speed_bps ? units_format_bits(speed, (double)n->speed_bps) : "-");
}

static void show_rings(const char *nic, struct out *o)
{
	static const char *const words[] = { "unknown", "off", "on" };
	struct nic_rings r;
	struct err e;

	if (nic_rings_read(&r, nic, &e)) {
		out_null(o, "rings");
		out_text(o, LABEL "-  (%s)\n", "rings", e.what);
		return;
	}
	out_object(o, "rings");
	out_text(o, LABEL, "rings");
	out_u64(o, "rx", "rx %" PRIu64, r.rx);
	out_u64(o, "rx_max", " of %" PRIu64, r.rx_max);
	out_u64(o, "tx", ", tx %" PRIu64, r.tx);
	out_u64(o, "tx_max", " of %" PRIu64 "\n", r.tx_max);
	out_text(o, LABEL, "header split");
	out_str(o, "tcp_data_split", "%s", words[r.split <= NIC_SPLIT_ON ? r.split : 0]);
	if (r.has_hds_thresh) {
		out_u64(o, "hds_thresh", ", hds-thresh %" PRIu64, r.hds_thresh);
		out_u64(o, "hds_thresh_max", " of %" PRIu64, r.hds_thresh_max);
	}
	out_text(o, "\n");
	out_end(o);
}

static void show_channels(const char *nic, struct out *o)
{
	struct nic_channels c;
	char words[64];

	if (nic_channels_read(&c, nic, NULL)) {
		out_null(o, "channels");
		return;
	}
	out_object(o, "channels");
	out_text(o, LABEL, "channels");
	for (int i = 0; i < NIC_CHANNELS; i++) {
		out_u64(o, nic_channel_name[i], NULL, c.count[i]);
		snprintf(words, sizeof(words), "%s_max", nic_channel_name[i]);
		out_u64(o, words, NULL, c.max[i]);
		if (c.max[i])
			out_text(o, "%s %u of %u  ", nic_channel_name[i], c.count[i], c.max[i]);
	}
	out_text(o, "\n");
	out_end(o);
}

static void show_table(
	const char *nic, uint32_t context, const char *key, const char *format, struct out *o)
{
	struct nic_rss r;
	char *text;

	if (nic_rss_read(&r, nic, context, NULL))
		return;
	text = nic_rss_text(&r);
	out_str(o, key, format, text);
	free(text);
	nic_rss_free(&r);
}

static void show_rss(const char *nic, struct out *o)
{
	struct nic_rss r;

	show_table(nic, 0, "rss_table", "  rss table          %s  (queues/entries)\n", o);
	out_array(o, "rss_contexts");
	for (uint32_t i = 1; i < NIC_RSS_CONTEXTS; i++) {
		if (nic_rss_read(&r, nic, i, NULL))
			continue;
		nic_rss_free(&r);
		out_object(o, NULL);
		out_u64(o, "context", "  rss context %-6" PRIu64, i);
		show_table(nic, i, "table", " %s\n", o);
		out_end(o);
	}
	out_end(o);
}

static void show_rules(const char *nic, struct out *o)
{
	char text[NIC_RULE_TEXT];
	struct nic_rule *rules;
	size_t count;

	if (nic_rules_read(&rules, &count, nic, NULL)) {
		out_null(o, "rules");
		return;
	}
	out_array(o, "rules");
	for (size_t i = 0; i < count; i++) {
		out_object(o, NULL);
		out_u64(o, "location", "  rule %-13" PRIu64, rules[i].location);
		out_str(o, "match", " %s", nic_rule_text(&rules[i], text));
		if (rules[i].to_context)
			out_u64(o, "context", " -> context %" PRIu64 "\n", rules[i].context);
		else
			out_u64(o, "queue", " -> queue %" PRIu64 "\n", rules[i].queue);
		out_end(o);
	}
	out_end(o);
	free(rules);
}

/* As text only those that matter here: there are dozens. */
static bool is_notable(const char *name)
{
	static const char *const notable[] = { "tx-tcp-segmentation", "tx-generic-segmentation",
		"rx-gro", "rx-gro-hw", "rx-lro", "rx-ntuple-filter", "rx-hashing" };

	for (size_t i = 0; i < sizeof(notable) / sizeof(notable[0]); i++)
		if (!strcmp(notable[i], name))
			return true;
	return false;
}

static void show_bits(
	const char *nic, enum nic_bits set, const char *key, const char *label, struct out *o)
{
	struct nic_bit *bits;
	size_t count;

	if (nic_bits_read(&bits, &count, nic, set, NULL)) {
		out_null(o, key);
		return;
	}
	out_object(o, key);
	for (size_t i = 0; i < count; i++) {
		if (!bits[i].name[0]) /* the kernel keeps places without a name */
			continue;
		out_bool(o, bits[i].name, NULL, bits[i].on);
		if (set == NIC_PRIVATE_FLAGS || is_notable(bits[i].name))
			out_text(o, LABEL "%s %s%s\n", label, bits[i].name,
				bits[i].on ? "on" : "off", bits[i].fixed ? " (fixed)" : "");
	}
	out_end(o);
	free(bits);
}

static void out_count(struct out *o, const char *key, const char *format, uint64_t count)
{
	if (count != NIC_COUNT_UNKNOWN)
		out_u64(o, key, format, count);
}

static void show_queues(const char *nic, struct out *o)
{
	struct nic_queue *queues;
	size_t count;

	if (nic_queues_read(&queues, &count, nic, NULL)) {
		out_null(o, "queues");
		return;
	}
	out_text(o, "\n");
	out_array(o, "queues");
	for (size_t i = 0; i < count; i++) {
		const struct nic_queue *q = &queues[i];

		out_object(o, NULL);
		out_str(o, "type", "  %s", q->tx ? "tx" : "rx");
		out_u64(o, "id", " %-3" PRIu64, q->id);
		out_u64(o, "napi", " napi %-6" PRIu64, q->napi);
		if (q->irq >= 0)
			out_i64(o, "irq", " irq %" PRId64, q->irq);
		if (q->cpus[0])
			out_str(o, "cpus", " cpus %s", q->cpus);
		if (q->dmabuf)
			out_u64(o, "dmabuf", " device memory %" PRIu64, q->dmabuf);
		if (q->io_uring)
			out_bool(o, "io_uring", " io_uring", true);
		if (q->xsk)
			out_bool(o, "xsk", " AF_XDP", true);
		out_count(o, "packets", "  %" PRIu64 " packets", q->packets);
		out_count(o, "bytes", " %" PRIu64 " bytes", q->bytes);
		out_count(o, "alloc_fail", " alloc-fail %" PRIu64, q->alloc_fail);
		out_count(o, "hw_drops", " drops %" PRIu64, q->hw_drops);
		out_text(o, "\n");
		out_end(o);
	}
	out_end(o);
	free(queues);
}

static void show_pools(const char *nic, struct out *o)
{
	struct nic_pool *pools;
	size_t count;

	if (nic_pools_read(&pools, &count, nic, NULL)) {
		out_null(o, "page_pools");
		return;
	}
	out_array(o, "page_pools");
	for (size_t i = 0; i < count; i++) {
		const struct nic_pool *p = &pools[i];

		out_object(o, NULL);
		out_u64(o, "id", "  page pool %-4" PRIu64, p->id);
		out_u64(o, "napi", NULL, p->napi);
		if (p->dmabuf)
			out_u64(o, "dmabuf", " device memory %" PRIu64, p->dmabuf);
		out_u64(o, "inflight", " in flight %" PRIu64, p->inflight);
		out_u64(o, "inflight_bytes", " (%" PRIu64 " bytes)", p->inflight_bytes);
		out_bool(o, "detached", p->detached ? " detached" : NULL, p->detached);
		out_count(o, "alloc_fast", " fast %" PRIu64, p->alloc_fast);
		out_count(o, "alloc_slow", " slow %" PRIu64, p->alloc_slow);
		out_count(o, "alloc_empty", " empty %" PRIu64, p->alloc_empty);
		out_count(o, "recycled", " recycled %" PRIu64, p->recycled);
		out_text(o, "\n");
		out_end(o);
	}
	out_end(o);
	free(pools);
}

static void show_checks(const char *nic, struct out *o)
{
	static const char *const words[] = { "holds", "fails", "unknown" };
	static const char *const marks[] = { "ok", "NO", "?" };
	static const enum out_style styles[] = { OUT_GOOD, OUT_BAD, OUT_WARN };
	struct nic_check check[NIC_CHECKS];
	size_t count = nic_devmem_check(nic, check);

	out_text(o, "\nDevice memory\n");
	out_array(o, "device_memory");
	for (size_t i = 0; i < count; i++) {
		const struct nic_check *c = &check[i];

		out_object(o, NULL);
		out_style(o, styles[c->state]);
		out_text(o, "  %-3s", marks[c->state]);
		out_style(o, OUT_PLAIN);
		out_str(o, "name", "%-15s", c->name);
		out_str(o, "state", NULL, words[c->state]);
		out_str(o, "found", " %s\n", c->found);
		out_str(o, "mend", c->mend[0] ? "                     %s\n" : NULL,
			c->mend[0] ? c->mend : NULL);
		out_end(o);
	}
	out_end(o);
}

static void show_owner(const char *nic, struct out *o)
{
	struct nic_owner owner;
	bool kept;

	if (nic_journal_peek(nic, &owner, &kept, NULL)) {
		out_null(o, "changed_by");
		return;
	}
	out_object(o, "changed_by");
	out_bool(o, "kept", NULL, kept);
	if (owner.pid) {
		out_i64(o, "pid", "\nChanged by pid %" PRId64, owner.pid);
		out_str(o, "command", ": %s\n", owner.command);
	} else {
		out_text(o, "\nPrepared; put it back with: weir nic restore %s\n", nic);
	}
	out_end(o);
}

int nic_show_one(const char *nic, bool stats, struct out *o, struct err *e)
{
	struct nic n;
	int ret;

	ret = nic_for_name(&n, nic, e);
	if (ret)
		return ret;
	out_object(o, NULL);
	out_str(o, "schema", NULL, "weir/nic/1");
	show_device(&n, o);
	out_text(o, "\n");
	show_rings(nic, o);
	show_channels(nic, o);
	show_rss(nic, o);
	show_rules(nic, o);
	show_bits(nic, NIC_FEATURES, "features", "feature", o);
	show_bits(nic, NIC_PRIVATE_FLAGS, "private_flags", "private flag", o);
	if (stats) {
		show_queues(nic, o);
		show_pools(nic, o);
	}
	show_checks(nic, o);
	show_owner(nic, o);
	out_end(o);
	return 0;
}

int nic_show_all(struct out *o, struct err *e)
{
	struct nic_check check[NIC_CHECKS];
	struct nic *nics;
	size_t count;
	int ret;

	ret = nic_list(&nics, &count, e);
	if (ret)
		return ret;
	out_object(o, NULL);
	out_str(o, "schema", NULL, "weir/nics/1");
	out_text(o, "%-16s %-8s %6s %-12s %s\n", "NIC", "state", "MTU", "driver", "device memory");
	out_array(o, "nics");
	for (size_t i = 0; i < count; i++) {
		const struct nic_check *missing = NULL;
		struct nic_ethtool t = { 0 };

		nic_ethtool_read(&t, nics[i].name, NULL);
		for (size_t c = nic_devmem_check(nics[i].name, check); c--;)
			if (check[c].state != NIC_CHECK_HOLDS &&
				strcmp(check[c].name, "kernel-send"))
				missing = &check[c];
		out_object(o, NULL);
		out_str(o, "nic", "%-16s", nics[i].name);
		out_str(o, "state", " %-8s", nics[i].state);
		out_i64(o, "mtu_bytes", " %6" PRId64, nics[i].mtu_bytes);
		out_str(o, "driver", " %-12s", t.driver[0] ? t.driver : nics[i].driver);
		out_bool(o, "ready", NULL, !missing);
		out_text(o, missing ? " %s: " : " ready%s\n", missing ? missing->name : "");
		out_str(o, "missing", missing ? "%s\n" : NULL, missing ? missing->found : NULL);
		out_end(o);
	}
	out_end(o);
	out_text(o, "\nweir nic show NIC says what to do about it\n");
	free(nics);
	return 0;
}
