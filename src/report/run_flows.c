// SPDX-License-Identifier: BSD-3-Clause
/* Every flow, both ends in one row. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/chart.h"
#include "report/run_html.h"

static int by_id(const void *a, const void *b)
{
	const struct flow_result *x = *(const struct flow_result *const *)a;
	const struct flow_result *y = *(const struct flow_result *const *)b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* The flows of an end by their numbers, so that thousands are matched quickly; the caller frees it. */
static const struct flow_result **index_flows(const struct end_result *end)
{
	const struct flow_result **index =
		calloc(end->flow_count ? end->flow_count : 1, sizeof(*index));

	for (uint32_t i = 0; index && i < end->flow_count; i++)
		index[i] = &end->flows[i];
	if (index)
		qsort(index, end->flow_count, sizeof(*index), by_id);
	return index;
}

static const struct flow_result *find_flow(
	const struct flow_result **index, uint32_t count, const struct flow_result *flow)
{
	const struct flow_result **found = bsearch(&flow, index, count, sizeof(*index), by_id);

	return found ? *found : NULL;
}

static void put_spark(struct html *h, const struct figures_part *p, const struct flow_result *flow)
{
	uint32_t count = flow->samples ? flow->sample_count : 0;
	double *y = count > 1 ? calloc(count, sizeof(*y)) : NULL;

	for (uint32_t i = 1; y && i < count; i++) {
		const struct flow_sample *a = &flow->samples[i - 1], *b = &flow->samples[i];
		double ns = (double)b->time_ns - (double)a->time_ns;
		double amount =
			p->metric == METRIC_TRANSACTIONS
				? (double)b->counts.transactions - (double)a->counts.transactions
			: p->metric == METRIC_RECEIVED
				? (double)b->counts.rx_bytes - (double)a->counts.rx_bytes
				: (double)b->counts.tx_bytes - (double)a->counts.tx_bytes;

		y[i - 1] = ns > 0 ? amount / ns : 0;
	}
	if (y)
		chart_spark(h, y, count - 1);
	free(y);
}

static void put_tcp(struct html *h, const struct record *rec, const struct flow_result *sender)
{
	const struct tcp_state *t = &sender->tcp;
	enum tcp_limit most = tcp_limits_main(&sender->limits);
	char text[UNITS_TEXT];

	html_put(h, "<td class=\"n\" data-v=\"%u\">%s</td>", t->rtt_us,
		units_format_duration(text, t->rtt_us * 1e3));
	html_put(h, "<td class=\"n\" data-v=\"%u\">%s</td>",
		t->min_rtt_us == UINT32_MAX ? 0 : t->min_rtt_us,
		t->min_rtt_us == UINT32_MAX ? "-"
					    : units_format_duration(text, t->min_rtt_us * 1e3));
	html_put(h, "<td class=\"n\" data-v=\"%u\">%u</td>", t->retransmits, t->retransmits);
	html_put(h, "<td class=\"n\" data-v=\"%" PRIu64 "\">%" PRIu64 "</td>",
		t->received_out_of_order, t->received_out_of_order);
	html_put(h, "<td class=\"n\" data-v=\"%" PRIu64 "\">%" PRIu64 "</td>", t->delivered_ce,
		t->delivered_ce);
	html_put(h, "<td class=\"n\" data-v=\"%u\">%u</td><td class=\"n\" data-v=\"%u\">%u</td>",
		t->cwnd_segments, t->cwnd_segments, t->mss_bytes, t->mss_bytes);
	if (rec->workload == WORKLOAD_STREAM)
		html_put(h, "<td class=\"keep\">%s %.0f %%</td>", tcp_limit_name(most),
			fmin(sender->limits.share[most], 1) * 100);
}

static void put_landed(struct html *h, const struct flow_result *flow)
{
	uint64_t host = flow->linear_bytes + flow->plain_bytes;
	double all = (double)flow->dmabuf_bytes + (double)host;

	if (flow->error)
		html_put(h, "%s ", strerror(flow->error));
	if (flow->wrong_calls)
		html_put(h, "wrong bytes in %" PRIu64 " receives, first at %" PRIu64 " ",
			flow->wrong_calls, flow->wrong_bytes_at);
	if (flow->dmabuf_bytes)
		html_put(h, "%.3g %% landed in device memory ",
			(double)flow->dmabuf_bytes * 100 / all);
	if (flow->zerocopy_sent)
		html_put(h, "%u of %u zero-copy sends copied", flow->zerocopy_copied,
			flow->zerocopy_sent);
}

static void put_flow(struct html *h, const struct record *rec, const struct figures_part *p,
	const struct flow_result *flow, const struct flow_result *sender)
{
	double rate = figures_flow_rate(p, flow);
	char text[UNITS_TEXT];

	html_put(h, flow->error || flow->wrong_calls ? "<tr class=\"differs\">" : "<tr>");
	html_put(h, "<td class=\"n\" data-v=\"%u\">%u</td><td class=\"n\" data-v=\"%u\">%u</td>",
		flow->id, flow->id, flow->thread, flow->thread);
	html_put(h, "<td class=\"n\" data-v=\"%.6g\">%s</td><td class=\"grow\">", rate,
		figures_rate_text(text, p->metric, rate));
	html_bar(h, p->fastest > 0 ? rate / p->fastest : 0);
	html_put(h, "</td>");
	if (sender && sender->tcp.mss_bytes)
		put_tcp(h, rec, sender);
	else
		for (int i = rec->workload == WORKLOAD_STREAM ? 8 : 7; i; i--)
			html_put(h, "<td class=\"n\">-</td>");
	html_put(h, "<td>");
	put_landed(h, flow);
	put_spark(h, p, flow->samples || !sender ? flow : sender);
	html_put(h, "</td></tr>\n");
}

static void put_table(struct html *h, const struct record *rec, const struct figures *f,
	const struct figures_part *p)
{
	const struct end_result *end = p->metric == METRIC_TRANSACTIONS ? p->end : p->sender;
	const struct flow_result **index = end && !rec->neper ? index_flows(end) : NULL;

	if (f->part_count > 1)
		html_put(
			h, "<h3>%s</h3>\n", p->to_server ? "Client to server" : "Server to client");
	html_put(h,
		"<div class=\"scroll\"><table class=\"wide sort\"><thead><tr><th class=\"n\">Flow</th><th class=\"n\">Thread</th><th class=\"n\">%s</th><th></th>",
		p->metric == METRIC_RECEIVED ? "Received"
		: p->metric == METRIC_SENT   ? "Sent"
					     : "Transactions");
	html_put(h,
		"<th class=\"n\">RTT</th><th class=\"n\">Least RTT</th><th class=\"n\">Retransmits</th><th class=\"n\">Out of order</th><th class=\"n\">ECN marks</th><th class=\"n\">Window</th><th class=\"n\">MSS</th>");
	if (rec->workload == WORKLOAD_STREAM)
		html_put(h, "<th>Limited by</th>");
	html_put(h, "<th></th></tr></thead><tbody>\n");
	for (uint32_t i = 0; i < p->end->flow_count; i++) {
		const struct flow_result *flow = &p->end->flows[i], *sender = NULL;

		if (!figures_has_flow(rec, p, flow))
			continue;
		if (end == p->end)
			sender = flow;
		else if (index)
			sender = find_flow(index, end->flow_count, flow);
		put_flow(h, rec, p, flow, sender);
	}
	html_put(h, "</tbody></table></div>\n");
	free(index);
}

void run_html_flows(struct html *h, const struct record *rec, const struct figures *f)
{
	if (!f->client && !f->server)
		return;
	html_section(h, "flows", "Flows");
	for (int i = 0; i < f->part_count; i++)
		if (f->part[i].end && f->part[i].end->flow_count)
			put_table(h, rec, f, &f->part[i]);
	html_put(h,
		"<p class=\"aside\">Rates are of the end that counts, the state of TCP is of the end that sends.</p>\n");
	html_section_end(h);
}
