// SPDX-License-Identifier: BSD-3-Clause
/* What Prometheus reads of an agent: totals per NIC, and pairs only while they fail. */
#include <stdio.h>
#include <string.h>

#include "probe/agent_parts.h"
#include "web/metrics.h"
#include "web/server.h"

static void nic_labels(
	const struct agent *a, size_t i, struct metrics_label label[2], char rail[16])
{
	snprintf(rail, 16, "%zu", i);
	label[0] = (struct metrics_label){ "nic", a->nic[i].address };
	label[1] = (struct metrics_label){ "rail", rail };
}

static void nic_counts(
	struct metrics *m, const struct agent *a, const char *name, const char *help, size_t offset)
{
	struct metrics_label label[2];
	char rail[16];

	metrics_family(m, name, METRICS_COUNTER, help);
	for (size_t i = 0; i < a->nics; i++) {
		nic_labels(a, i, label, rail);
		metrics_count(m, *(const uint64_t *)((const char *)&a->nic[i] + offset), label, 2);
	}
}

/* Copies of a pair would be the same series twice. */
static bool is_first(const struct agent *a, const struct agent_target *t)
{
	for (const struct list *l = a->targets.next; l != &t->link; l = l->next) {
		const struct agent_target *o = container_of(l, struct agent_target, link);

		if (o->state == t->state && !strcmp(o->local, t->local) &&
			!strcmp(o->peer, t->peer))
			return false;
	}
	return true;
}

static void failing_pairs(struct metrics *m, const struct agent *a)
{
	metrics_family(m, "weir_probe_pair_failing", METRICS_GAUGE,
		"1 for each pair without a connection; there is no series for one that is well");
	for (const struct list *l = a->targets.next; l != &a->targets; l = l->next) {
		const struct agent_target *t = container_of(l, struct agent_target, link);
		struct metrics_label label[2] = { { "nic", t->local }, { "peer", t->peer } };

		if (t->state == WEIR__V1__TARGET_STATE__TARGET_FAILING && is_first(a, t))
			metrics_count(m, 1, label, 2);
	}
}

static int metrics_page(struct web_text *text, void *context)
{
	struct metrics m = { .text = text };
	struct agent *a = context;
	struct metrics_label label[2];
	char rail[16];

	nic_counts(&m, a, "weir_probe_sent_total", "Probes, those that could not be sent included",
		offsetof(struct nic_totals, sent));
	nic_counts(&m, a, "weir_probe_lost_total", "Probes without an answer in time",
		offsetof(struct nic_totals, lost));
	nic_counts(&m, a, "weir_probe_corrupt_total", "Answers with other bytes than were sent",
		offsetof(struct nic_totals, corrupt));
	metrics_family(&m, "weir_probe_rtt_seconds", METRICS_HISTOGRAM, "Round trips");
	for (size_t i = 0; i < a->nics; i++) {
		nic_labels(a, i, label, rail);
		metrics_hist(&m, &a->nic[i].rtt, label, 2);
	}
	metrics_family(
		&m, "weir_probe_late_seconds", METRICS_HISTOGRAM, "How late probes were sent");
	metrics_hist(&m, &a->schedule, NULL, 0);
	metrics_family(&m, "weir_probe_targets", METRICS_GAUGE, "Connections that probe");
	metrics_count(&m, a->target_count, NULL, 0);
	failing_pairs(&m, a);
	metrics_process(&m);
	return 0;
}

static const struct web_page pages[] = { { "/metrics", METRICS_TYPE, metrics_page } };

int agent_metrics_start(struct agent *a, struct err *e)
{
	struct sock_addr addr[SOCK_ADDRS];
	char port[8];
	size_t count;
	int ret;

	if (!a->options->metrics_port)
		return 0;
	snprintf(port, sizeof(port), "%d", (int)a->options->metrics_port);
	ret = sock_resolve(a->options->metrics_listen ? a->options->metrics_listen : "127.0.0.1",
		port, AF_UNSPEC, true, addr, &count, e);
	if (!ret)
		ret = web_server_new(&a->web, &a->loop, pages, 1, a, e);
	if (!ret)
		ret = web_server_listen(a->web, &addr[0], a->options->insecure, e);
	return ret < 0 ? ret : 0;
}
