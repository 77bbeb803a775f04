// SPDX-License-Identifier: BSD-3-Clause
/* A run record as rows of figures. */
#include <inttypes.h>
#include <math.h>

#include "report/csv.h"
#include "report/report.h"

static void put(FILE *file, const char *section, const char *end, const char *object,
	const char *name, double time_s, double value, const char *unit)
{
	csv_row(file, &(struct csv_row){ section, end, object, name, time_s, value, NULL, unit });
}

static void put_text(
	FILE *file, const char *section, const char *end, const char *name, const char *text)
{
	csv_row(file, &(struct csv_row){ section, end, NULL, name, NAN, NAN, text, NULL });
}

static void put_totals(FILE *file, const struct record *rec, const struct figures *f)
{
	put_text(file, "run", NULL, "workload", workload_name[rec->workload]);
	put(file, "run", NULL, NULL, "started", NAN, (double)rec->started_wall_ns / 1e9,
		"s since 1970");
	for (int i = 0; rec->workload == WORKLOAD_STREAM && i < f->part_count; i++) {
		const char *way = f->part[i].to_server ? "client to server" : "server to client";

		put(file, "run", NULL, way, "received", NAN, f->part[i].received_bps, "bit/s");
		put(file, "run", NULL, way, "sent", NAN, f->part[i].sent_bps, "bit/s");
	}
	if (rec->workload != WORKLOAD_STREAM)
		put(file, "run", NULL, NULL, "transactions", NAN, f->transactions_per_s, "1/s");
	put(file, "run", NULL, NULL, "fairness", NAN, f->fairness, NULL);
}

static void put_latency(
	FILE *file, const char *name, const struct hist *h, const struct record *rec)
{
	const double *percent;
	char label[32];
	int count;

	if (!h)
		return;
	percent = figures_percentiles(rec->options, &count);
	put(file, name, NULL, NULL, "min", NAN, (double)h->min_ns / 1e9, "s");
	put(file, name, NULL, NULL, "mean", NAN, hist_mean_ns(h) / 1e9, "s");
	for (int i = 0; i < count; i++) {
		snprintf(label, sizeof(label), "p%g", percent[i]);
		if (hist_percentile_is_sound(h, percent[i]))
			put(file, name, NULL, NULL, label, NAN,
				(double)hist_percentile(h, percent[i]) / 1e9, "s");
	}
	put(file, name, NULL, NULL, "max", NAN, (double)h->max_ns / 1e9, "s");
	put(file, name, NULL, NULL, "samples", NAN, (double)h->count, NULL);
}

static void put_intervals(FILE *file, const char *end, const struct end_result *r, bool latency)
{
	for (uint32_t i = 0; i < r->interval_count; i++) {
		const struct interval_result *iv = &r->intervals[i];
		double t = ((double)iv->begin_ns + (double)iv->end_ns) / 2e9;

		put(file, "interval", end, NULL, "received", t,
			figures_interval_rate(METRIC_RECEIVED, iv), "bit/s");
		put(file, "interval", end, NULL, "sent", t, figures_interval_rate(METRIC_SENT, iv),
			"bit/s");
		put(file, "interval", end, NULL, "transactions", t,
			figures_interval_rate(METRIC_TRANSACTIONS, iv), "1/s");
		put(file, "interval", end, NULL, "retransmits", t, (double)iv->retransmits,
			"segments");
		put(file, "interval", end, NULL, "rtt", t, iv->rtt_us / 1e6, "s");
		if (!latency)
			continue;
		put(file, "interval", end, NULL, "latency_p50", t, (double)iv->latency_p50_ns / 1e9,
			"s");
		put(file, "interval", end, NULL, "latency_p99", t, (double)iv->latency_p99_ns / 1e9,
			"s");
		put(file, "interval", end, NULL, "latency_max", t, (double)iv->latency_max_ns / 1e9,
			"s");
	}
}

static void put_flow(FILE *file, const char *end, const struct flow_result *flow)
{
	const struct tcp_state *t = &flow->tcp;
	char id[16];

	snprintf(id, sizeof(id), "%u", flow->id);
	put(file, "flow", end, id, "received", NAN, (double)flow->counts.rx_bytes, "bytes");
	put(file, "flow", end, id, "sent", NAN, (double)flow->counts.tx_bytes, "bytes");
	put(file, "flow", end, id, "transactions", NAN, (double)flow->counts.transactions, NULL);
	if (!t->mss_bytes)
		return;
	put(file, "flow", end, id, "rtt", NAN, t->rtt_us / 1e6, "s");
	put(file, "flow", end, id, "retransmits", NAN, t->retransmits, "segments");
	put(file, "flow", end, id, "out_of_order", NAN, (double)t->received_out_of_order,
		"segments");
	put(file, "flow", end, id, "ecn_marked", NAN, (double)t->delivered_ce, "segments");
	put(file, "flow", end, id, "cwnd", NAN, t->cwnd_segments, "segments");
	put(file, "flow", end, id, "mss", NAN, t->mss_bytes, "bytes");
	for (int i = 0; i < TCP_LIMITS; i++)
		put(file, "flow", end, id, tcp_limit_key((enum tcp_limit)i), NAN,
			flow->limits.share[i], "share");
}

static void put_end(FILE *file, const char *end, const struct end_result *r, bool latency)
{
	put(file, "end", end, NULL, "cpu_user", NAN, (double)r->user_ns / 1e9, "s");
	put(file, "end", end, NULL, "cpu_system", NAN, (double)r->system_ns / 1e9, "s");
	put(file, "end", end, NULL, "busiest_thread", NAN, r->busiest_thread, "share");
	put(file, "end", end, NULL, "window", NAN, (double)r->window_ns / 1e9, "s");
	put_intervals(file, end, r, latency);
	for (uint32_t i = 0; i < r->flow_count; i++)
		put_flow(file, end, &r->flows[i]);
	for (size_t i = 0; r->facts && i < r->facts->count; i++)
		put_text(file, "fact", end, r->facts->fact[i].name, r->facts->fact[i].value);
}

void run_csv(FILE *file, const struct record *rec, const struct figures *f)
{
	put_totals(file, rec, f);
	for (int i = 0; i < rec->finding_count; i++)
		put_text(file, "finding", NULL, rec->findings[i].name, rec->findings[i].text);
	if (f->latency) {
		put_latency(file, "latency", f->latency->latency, rec);
		put_latency(file, "service", f->latency->service, rec);
	}
	if (f->client)
		put_end(file, "client", f->client, f->latency == f->client);
	if (f->server)
		put_end(file, "server", f->server, f->latency == f->server);
}
