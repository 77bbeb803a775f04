// SPDX-License-Identifier: BSD-3-Clause
/* The rows of the table: intervals and flows, as many as a person reads. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "counters/result.h"
#include "record/render.h"

#define INTERVALS_SHOWN 10
#define FLOWS_SHOWN	16
#define SLOWEST_SHOWN	4

static const char *const metric_name[] = {
	[METRIC_RECEIVED] = "received",
	[METRIC_SENT] = "sent",
	[METRIC_TRANSACTIONS] = "transactions",
};

/* Retransmits happen at the sender, whose intervals have the same numbers. */
static void interval_retransmits(const struct figures_part *p, uint32_t i, struct out *o)
{
	const struct end_result *end = p->metric == METRIC_TRANSACTIONS ? p->end : p->sender;

	if (!p->tcp.known)
		out_text(o, "\n");
	else if (end && i < end->interval_count)
		out_text(o, "  %8" PRIu64 "\n", end->intervals[i].retransmits);
	else
		out_text(o, "  %8s\n", "-");
}

static void emit_intervals(const struct figures *f, const struct figures_part *p, struct out *o)
{
	bool latency = f->latency == p->end && p->metric == METRIC_TRANSACTIONS;
	char rate[UNITS_TEXT], p50[UNITS_TEXT], p99[UNITS_TEXT];

	out_style(o, OUT_DIM);
	out_text(o, "\n  %-16s  %14s", "interval", metric_name[p->metric]);
	if (latency)
		out_text(o, "  %10s  %10s", "p50", "p99");
	out_text(o, p->tcp.known ? "  %8s\n" : "\n", "retrans");
	out_style(o, OUT_PLAIN);
	for (uint32_t i = 0; i < p->end->interval_count; i++) {
		const struct interval_result *iv = &p->end->intervals[i];

		out_text(o, "  %6.2f - %5.2f s  %14s", (double)iv->begin_ns / 1e9,
			(double)iv->end_ns / 1e9,
			figures_rate_text(rate, p->metric, figures_interval_rate(p->metric, iv)));
		if (latency)
			out_text(o, "  %10s  %10s",
				units_format_duration(p50, (double)iv->latency_p50_ns),
				units_format_duration(p99, (double)iv->latency_p99_ns));
		interval_retransmits(p, i, o);
	}
}

static void emit_interval_summary(const struct figures_part *p, struct out *o)
{
	uint32_t n = p->end->interval_count;
	double *rates = calloc(n, sizeof(*rates)), median;
	char text[3][UNITS_TEXT];

	if (!rates)
		return;
	for (uint32_t i = 0; i < n; i++)
		rates[i] = figures_interval_rate(p->metric, &p->end->intervals[i]);
	median = stats_median(rates, n);
	out_text(o, "  %-12s  %u: slowest %s, median %s, fastest %s\n", "intervals", n,
		figures_rate_text(text[0], p->metric, rates[0]),
		figures_rate_text(text[1], p->metric, median),
		figures_rate_text(text[2], p->metric, rates[n - 1]));
	free(rates);
}

/* The same flow at the sending end. neper tells nobody which flow is which. */
static const struct flow_result *sending_flow(
	const struct record *rec, const struct figures_part *p, const struct flow_result *flow)
{
	const struct end_result *end = p->metric == METRIC_TRANSACTIONS ? p->end : p->sender;

	if (!end || end == p->end)
		return end ? flow : NULL;
	for (uint32_t i = 0; i < end->flow_count && !rec->neper; i++)
		if (end->flows[i].id == flow->id) // NOLINT(clang-analyzer-core.NullDereference)
			return &end->flows[i];
	return NULL;
}

static void emit_flow(const struct record *rec, const struct figures_part *p,
	const struct flow_result *flow, double total, struct out *o)
{
	const struct flow_result *sender = sending_flow(rec, p, flow);
	double rate = figures_flow_rate(p, flow);
	char text[UNITS_TEXT], rtt[UNITS_TEXT];

	// NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
	out_text(o, "  %5u  %6u  %14s  %5.1f %%", flow->id, flow->thread,
		figures_rate_text(text, p->metric, rate), total > 0 ? rate / total * 100 : 0);
	if (sender && sender->tcp.mss_bytes) {
		enum tcp_limit most = tcp_limits_main(&sender->limits);

		out_text(o, "  %10s  %8u  %6u", table_rtt(rtt, sender->tcp.rtt_us),
			sender->tcp.retransmits, sender->tcp.cwnd_segments);
		if (rec->workload == WORKLOAD_STREAM)
			out_text(o, "  %s %.0f %%", tcp_limit_name(most),
				sender->limits.share[most] * 100);
	}
	if (flow->error) {
		out_style(o, OUT_BAD);
		out_text(o, "  failed");
		out_style(o, OUT_PLAIN);
	}
	out_text(o, "\n");
}

static int by_rate(const void *a, const void *b, void *part)
{
	const struct flow_result *x = *(const struct flow_result *const *)a;
	const struct flow_result *y = *(const struct flow_result *const *)b;
	double p = figures_flow_rate(part, x), q = figures_flow_rate(part, y);

	if (p != q)
		return p < q ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static void emit_flow_rows(const struct record *rec, const struct figures_part *p,
	const struct flow_result **flows, struct out *o)
{
	double total = 0;

	for (uint32_t i = 0; i < p->flows; i++)
		total += figures_flow_rate(p, flows[i]);
	if (p->flows <= FLOWS_SHOWN) {
		for (uint32_t i = 0; i < p->flows; i++)
			emit_flow(rec, p, flows[i], total, o);
		return;
	}
	qsort_r(flows, p->flows, sizeof(void *), by_rate, (void *)p);
	for (uint32_t i = 0; i < SLOWEST_SHOWN; i++)
		emit_flow(rec, p, flows[i], total, o);
	out_text(o, "  ... the %d slowest of %u flows: --json has every one\n", SLOWEST_SHOWN,
		p->flows);
}

static void emit_flows(const struct record *rec, const struct figures_part *p, struct out *o)
{
	const struct flow_result **flows =
		p->end && p->flows ? calloc(p->flows, sizeof(*flows)) : NULL;
	uint32_t n = 0;

	if (!flows)
		return;
	for (uint32_t i = 0; i < p->end->flow_count && n < p->flows; i++)
		if (figures_has_flow(rec, p, &p->end->flows[i]))
			flows[n++] = &p->end->flows[i];
	out_style(o, OUT_DIM);
	out_text(o, "\n  %5s  %6s  %14s  %7s", "flow", "thread", metric_name[p->metric], "share");
	if (p->tcp.known)
		out_text(o, "  %10s  %8s  %6s%s", "rtt", "retrans", "cwnd",
			rec->workload == WORKLOAD_STREAM ? "  limited by" : "");
	out_text(o, "\n");
	out_style(o, OUT_PLAIN);
	emit_flow_rows(rec, p, flows, o);
	free(flows);
}

static void emit_title(const struct figures *f, const struct figures_part *p, struct out *o)
{
	if (f->part_count == 2)
		out_text(o, "\n  %s", p->to_server ? "client to server" : "server to client");
}

void table_emit_series(const struct record *rec, const struct figures *f, struct out *o)
{
	for (int i = 0; i < f->part_count; i++)
		if (f->part[i].end && f->part[i].end->interval_count > INTERVALS_SHOWN)
			emit_interval_summary(&f->part[i], o);
	for (int i = 0; i < f->part_count; i++) {
		const struct figures_part *p = &f->part[i];
		uint32_t intervals = p->end ? p->end->interval_count : 0;

		if (intervals < 2 && p->flows < 2)
			continue;
		emit_title(f, p, o);
		if (intervals >= 2 && intervals <= INTERVALS_SHOWN)
			emit_intervals(f, p, o);
		/* One flow alone is what the lines above say. */
		if (p->flows >= 2)
			emit_flows(rec, p, o);
	}
}

void table_emit_counters(const struct record *rec, struct out *o)
{
	const struct end_result *const ends[] = { rec->local, rec->remote };
	bool client = rec->options->client, one_host = figures_is_loopback(rec);
	const struct counters_result *first = NULL;

	for (int i = 0; i < 2; i++) {
		const struct counters_result *c = ends[i] ? ends[i]->counters : NULL;

		if (!c)
			continue;
		out_text(o, "\n%s's counters: %u of %u moved\n", client == !i ? "client" : "server",
			c->difference.count, c->difference.count + c->difference.states[ROW_SAME]);
		/* What a host counts for both ends is said once. */
		findings_print(&c->findings, first && one_host ? &first->findings : NULL, o);
		first = c;
	}
}
