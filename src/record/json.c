// SPDX-License-Identifier: BSD-3-Clause
/* The record as JSON: schema/run-1.json. Whoever adds a name here adds it there. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "counters/result.h"
#include "record/render.h"

void json_time(const char *key, uint64_t wall_ns, struct out *o)
{
	time_t seconds = (time_t)(wall_ns / NS_PER_S);
	char text[48] = "";
	struct tm tm;
	size_t n = 0;

	if (gmtime_r(&seconds, &tm))
		n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, sizeof(text) - n, ".%03dZ", (int)(wall_ns % NS_PER_S / NS_PER_MS));
	out_str(o, key, NULL, text);
}

/* By the names of the command line, with '_' for '-' as all other names here. */
static void emit_options(const struct record *rec, struct out *o)
{
	const struct opt_table *t = &flow_option_table[rec->workload];
	char key[64];

	out_object(o, "options");
	for (const struct opt *opt = t->opts; opt->name; opt++) {
		if (opt_find(t, opt->name) != opt)
			continue;
		/* These end before a run begins. */
		if (!strcmp(opt->name, "help") || !strcmp(opt->name, "version") ||
			!strcmp(opt->name, "dry-run"))
			continue;
		snprintf(key, sizeof(key), "%s", opt->name);
		for (char *c = key; *c; c++)
			if (*c == '-')
				*c = '_';
		opt_emit(opt, rec->options, key, o);
	}
	out_end(o);
}

static void emit_counts(const struct flow_counts *c, struct out *o)
{
	out_object(o, "counts");
	out_u64(o, "rx_bytes", NULL, c->rx_bytes);
	out_u64(o, "tx_bytes", NULL, c->tx_bytes);
	out_u64(o, "rx_calls", NULL, c->rx_calls);
	out_u64(o, "tx_calls", NULL, c->tx_calls);
	out_u64(o, "transactions", NULL, c->transactions);
	out_end(o);
}

static void emit_rates(const struct end_result *end, struct out *o)
{
	out_object(o, "rates");
	out_f64(o, "rx_bps", NULL, result_rx_bps(end));
	out_f64(o, "tx_bps", NULL, result_tx_bps(end));
	out_f64(o, "transactions_per_s", NULL, result_transactions_per_s(end));
	out_end(o);
}

static void emit_cpu(const struct end_result *end, struct out *o)
{
	double user = (double)end->user_ns, system = (double)end->system_ns;
	double bytes = (double)end->counts.rx_bytes + (double)end->counts.tx_bytes;
	double transactions = (double)end->counts.transactions;

	out_object(o, "cpu");
	out_u64(o, "user_ns", NULL, end->user_ns);
	out_u64(o, "system_ns", NULL, end->system_ns);
	/* Of nothing there is no cost: not finite, so null. */
	out_f64(o, "user_ns_per_byte", NULL, bytes > 0 ? user / bytes : NAN);
	out_f64(o, "system_ns_per_byte", NULL, bytes > 0 ? system / bytes : NAN);
	out_f64(o, "user_ns_per_transaction", NULL, transactions > 0 ? user / transactions : NAN);
	out_f64(o, "system_ns_per_transaction", NULL,
		transactions > 0 ? system / transactions : NAN);
	out_f64(o, "busiest_thread_share", NULL, end->busiest_thread);
	out_u64(o, "stopped_ns", NULL, end->stopped_ns);
	out_u64(o, "starved_ns", NULL, end->starved_ns);
	out_end(o);
}

static void emit_intervals(const struct end_result *end, struct out *o)
{
	out_array(o, "intervals");
	for (uint32_t i = 0; i < end->interval_count; i++) {
		const struct interval_result *iv = &end->intervals[i];

		out_object(o, NULL);
		out_u64(o, "begin_ns", NULL, iv->begin_ns);
		out_u64(o, "end_ns", NULL, iv->end_ns);
		out_u64(o, "rx_bytes", NULL, iv->rx_bytes);
		out_u64(o, "tx_bytes", NULL, iv->tx_bytes);
		out_u64(o, "transactions", NULL, iv->transactions);
		out_u64(o, "retransmits", NULL, iv->retransmits);
		out_u64(o, "rtt_us", NULL, iv->rtt_us);
		out_u64(o, "latency_p50_ns", NULL, iv->latency_p50_ns);
		out_u64(o, "latency_p99_ns", NULL, iv->latency_p99_ns);
		out_u64(o, "latency_max_ns", NULL, iv->latency_max_ns);
		out_end(o);
	}
	out_end(o);
}

static void emit_unless(const char *key, uint64_t value, uint64_t none, struct out *o)
{
	if (value == none)
		out_null(o, key);
	else
		out_u64(o, key, NULL, value);
}

static void emit_tcp(const struct tcp_state *t, struct out *o)
{
	out_object(o, "tcp");
	out_u64(o, "rtt_us", NULL, t->rtt_us);
	out_u64(o, "rttvar_us", NULL, t->rttvar_us);
	emit_unless("min_rtt_us", t->min_rtt_us, UINT32_MAX, o);
	out_u64(o, "cwnd_segments", NULL, t->cwnd_segments);
	out_u64(o, "mss_bytes", NULL, t->mss_bytes);
	out_u64(o, "reordering_segments", NULL, t->reordering);
	out_u64(o, "retransmits", NULL, t->retransmits);
	out_u64(o, "retransmitted_bytes", NULL, t->retransmitted_bytes);
	out_u64(o, "delivered_segments", NULL, t->delivered);
	out_u64(o, "delivered_ce_segments", NULL, t->delivered_ce);
	out_u64(o, "received_out_of_order_segments", NULL, t->received_out_of_order);
	out_u64(o, "delivery_bytes_per_s", NULL, t->delivery_bytes_per_s);
	emit_unless("pacing_bytes_per_s", t->pacing_bytes_per_s, UINT64_MAX, o);
	emit_unless("max_pacing_bytes_per_s", t->max_pacing_bytes_per_s, UINT64_MAX, o);
	out_u64(o, "busy_us", NULL, t->busy_us);
	out_u64(o, "receive_window_limited_us", NULL, t->receive_window_limited_us);
	out_u64(o, "send_buffer_limited_us", NULL, t->send_buffer_limited_us);
	out_end(o);
}

static void emit_limits(const struct tcp_limits *limits, struct out *o)
{
	out_object(o, "limits");
	for (int i = 0; i < TCP_LIMITS; i++)
		out_f64(o, tcp_limit_key((enum tcp_limit)i), NULL, limits->share[i]);
	out_end(o);
}

static void emit_samples(const struct flow_result *flow, struct out *o)
{
	out_array(o, "samples");
	for (uint32_t i = 0; i < flow->sample_count; i++) {
		const struct flow_sample *s = &flow->samples[i];

		out_object(o, NULL);
		out_u64(o, "time_ns", NULL, s->time_ns);
		out_u64(o, "rx_bytes", NULL, s->counts.rx_bytes);
		out_u64(o, "tx_bytes", NULL, s->counts.tx_bytes);
		out_u64(o, "transactions", NULL, s->counts.transactions);
		out_u64(o, "delivery_bytes_per_s", NULL, s->delivery_bytes_per_s);
		out_u64(o, "retransmits", NULL, s->retransmits);
		out_u64(o, "rtt_us", NULL, s->rtt_us);
		out_u64(o, "cwnd_segments", NULL, s->cwnd_segments);
		out_end(o);
	}
	out_end(o);
}

static void emit_device(const struct end_result *end, struct out *o)
{
	const struct device_result *d = &end->device;
	struct figures_device sums;

	if (!end->memory) {
		out_null(o, "device");
		return;
	}
	figures_device(end, &sums);
	out_object(o, "device");
	out_str(o, "nic", NULL, d->nic);
	out_str(o, "queues", NULL, d->queues[0] ? d->queues : NULL);
	out_str(o, "rx_reason", NULL, d->rx_reason[0] ? d->rx_reason : NULL);
	out_str(o, "tx_reason", NULL, d->tx_reason[0] ? d->tx_reason : NULL);
	out_f64(o, "fragments_per_call", NULL,
		sums.calls && end->rx_path == DEVICE_DEVMEM
			? (double)sums.fragments / (double)sums.calls
			: NAN);
	out_u64(o, "tokens_peak", NULL, d->tokens_peak);
	out_u64(o, "tokens_left", NULL, d->tokens_left);
	emit_unless("pool_stalls", d->pool_stalls, POOL_STALLS_UNKNOWN, o);
	out_u64(o, "zerocopy_sent", NULL, sums.zerocopy_sent);
	out_u64(o, "zerocopy_copied", NULL, sums.zerocopy_copied);
	out_end(o);
}

static void emit_flow(const struct end_result *end, const struct flow_result *flow, struct out *o)
{
	out_object(o, NULL);
	out_u64(o, "id", NULL, flow->id);
	out_u64(o, "thread", NULL, flow->thread);
	out_str(o, "rx_path", NULL, figures_rx_path(end, flow));
	out_str(o, "tx_path", NULL, figures_tx_path(end, flow));
	emit_counts(&flow->counts, o);
	if (flow->tcp.mss_bytes) {
		emit_tcp(&flow->tcp, o);
		emit_limits(&flow->limits, o);
	} else {
		out_null(o, "tcp");
		out_null(o, "limits");
	}
	out_u64(o, "zerocopy_sent", NULL, flow->zerocopy_sent);
	out_u64(o, "zerocopy_copied", NULL, flow->zerocopy_copied);
	out_u64(o, "mapped_bytes", NULL, flow->mapped_bytes);
	out_u64(o, "dmabuf_bytes", NULL, flow->dmabuf_bytes);
	out_u64(o, "linear_bytes", NULL, flow->linear_bytes);
	out_u64(o, "plain_bytes", NULL, flow->plain_bytes);
	out_u64(o, "fragments", NULL, flow->fragments);
	out_str(o, "missed", NULL, figures_missed(flow));
	out_u64(o, "wrong_calls", NULL, flow->wrong_calls);
	if (flow->wrong_calls)
		out_u64(o, "wrong_bytes_at", NULL, flow->wrong_bytes_at);
	else
		out_null(o, "wrong_bytes_at");
	out_str(o, "error", NULL, flow->error ? strerror(flow->error) : NULL);
	if (flow->samples)
		emit_samples(flow, o);
	out_end(o);
}

static void emit_facts(const struct host_facts *facts, struct out *o)
{
	out_object(o, "facts");
	for (size_t i = 0; facts && i < facts->count; i++)
		out_str(o, facts->fact[i].name, NULL, facts->fact[i].value);
	out_end(o);
}

static void emit_end(const struct record *rec, const char *key, const struct end_result *end,
	const char *address, bool client, struct out *o)
{
	bool known = end && (end->valid || end->error[0] || end == rec->local);

	if (!known) {
		out_null(o, key);
		return;
	}
	out_object(o, key);
	out_str(o, "address", NULL, address[0] ? address : NULL);
	out_str(o, "host", NULL, end->facts ? host_facts_get(end->facts, "hostname") : NULL);
	out_str(o, "role", NULL, client ? "client" : "server");
	out_bool(o, "complete", NULL, end->valid && end->complete);
	out_u64(o, "threads", NULL, end->threads);
	out_str(o, "memory", NULL, device_memory_name[end->memory]);
	out_str(o, "rx_path", NULL, device_path_name[end->rx_path]);
	out_str(o, "tx_path", NULL, device_path_name[end->tx_path]);
	emit_device(end, o);
	out_u64(o, "warmup_ns", NULL, end->warmup_ns);
	out_u64(o, "window_ns", NULL, end->window_ns);
	emit_counts(&end->counts, o);
	emit_rates(end, o);
	emit_cpu(end, o);
	emit_intervals(end, o);
	out_array(o, "flows");
	for (uint32_t i = 0; i < end->flow_count; i++)
		emit_flow(end, &end->flows[i], o);
	out_end(o);
	emit_facts(end->facts, o);
	if (end->counters)
		difference_emit(
			&end->counters->difference, &end->counters->findings, "counters", false, o);
	else
		out_null(o, "counters");
	out_str(o, "error", NULL, end->error[0] ? end->error : NULL);
	out_end(o);
}

/* All filled buckets, each by its lowest value: a reader gets every percentile of them. */
static void emit_histogram(const struct hist *h, struct out *o)
{
	out_array(o, "histogram");
	for (unsigned int i = 0; i < HIST_BUCKETS; i++) {
		if (!h->bucket[i])
			continue;
		out_array(o, NULL);
		out_u64(o, NULL, NULL, hist_bucket_low_ns(i));
		out_u64(o, NULL, NULL, h->bucket[i]);
		out_end(o);
	}
	out_end(o);
}

static void emit_latency(
	const char *key, const struct hist *h, const struct flow_options *options, struct out *o)
{
	const double *percent;
	int count;

	if (!h || !h->count) {
		out_null(o, key);
		return;
	}
	percent = figures_percentiles(options, &count);
	out_object(o, key);
	out_u64(o, "count", NULL, h->count);
	out_u64(o, "min", NULL, h->min_ns);
	out_f64(o, "mean", NULL, hist_mean_ns(h));
	out_f64(o, "stddev", NULL, hist_stddev_ns(h));
	out_u64(o, "max", NULL, h->max_ns);
	out_array(o, "percentiles");
	for (int i = 0; i < count; i++) {
		out_object(o, NULL);
		out_f64(o, "percent", NULL, percent[i]);
		out_u64(o, "ns", NULL, hist_percentile(h, percent[i]));
		out_bool(o, "sound", NULL, hist_percentile_is_sound(h, percent[i]));
		out_end(o);
	}
	out_end(o);
	emit_histogram(h, o);
	out_end(o);
}

static void emit_steady(const struct figures *f, struct out *o)
{
	const struct figures_part *p = f->part;
	const struct stats_steady *s = f->steady;

	if (!s || s->state == STEADY_UNKNOWN) {
		out_null(o, "steady");
		return;
	}
	while (&p->steady != s)
		p++;
	out_object(o, "steady");
	if (s->state == STEADY_NOISY)
		out_null(o, "steady");
	else
		out_bool(o, "steady", NULL, s->state == STEADY_YES);
	out_f64(o, "drift_share", NULL, s->drift);
	out_f64(o, "variation_share", NULL, s->variation);
	out_f64(o, "mean_error_share", NULL, s->mean_error);
	if (s->steady_from < p->end->interval_count)
		out_u64(o, "from_ns", NULL, p->end->intervals[s->steady_from].begin_ns);
	else
		out_null(o, "from_ns");
	out_end(o);
}

static void emit_direction(const struct figures_part *p, struct out *o)
{
	out_object(o, NULL);
	out_str(o, "from", NULL, p->to_server ? "client" : "server");
	out_str(o, "to", NULL, p->to_server ? "server" : "client");
	out_f64(o, "received_bps", NULL, p->received_bps);
	out_f64(o, "sent_bps", NULL, p->sent_bps);
	out_f64(o, "fairness", NULL, p->fairness);
	if (p->tcp.limits_known)
		emit_limits(&p->tcp.limits, o);
	else
		out_null(o, "limits");
	out_end(o);
}

static void emit_result(const struct record *rec, const struct figures *f, struct out *o)
{
	if (rec->workload == WORKLOAD_STREAM) {
		out_f64(o, "throughput_bps", NULL, f->throughput_bps);
		out_array(o, "directions");
		for (int i = 0; i < f->part_count; i++)
			emit_direction(&f->part[i], o);
		out_end(o);
	} else {
		out_f64(o, "transactions_per_s", NULL, f->transactions_per_s);
		emit_latency(
			"latency_ns", f->latency ? f->latency->latency : NULL, rec->options, o);
		emit_latency(
			"service_ns", f->latency ? f->latency->service : NULL, rec->options, o);
	}
	out_f64(o, "fairness", NULL, f->fairness);
	emit_steady(f, o);
}

const char *record_verdict_name(enum record_verdict verdict)
{
	return verdict == VERDICT_GOOD ? "good" : verdict == VERDICT_FAILED ? "failed" : "doubtful";
}

void json_emit(const struct record *rec, const struct figures *f, struct out *o)
{
	bool client = rec->options->client;

	out_object(o, NULL);
	out_str(o, "schema", NULL, RECORD_SCHEMA);
	out_str(o, "weir", NULL, rec->written_by ? rec->written_by : WEIR_VERSION);
	out_str(o, "workload", NULL, workload_name[rec->workload]);
	json_time("started", rec->started_wall_ns, o);
	out_str(o, "protocol", NULL, rec->neper ? "neper" : "weir");
	out_str(o, "role", NULL, client ? "client" : "server");
	out_str(o, "peer_address", NULL, rec->peer_address[0] ? rec->peer_address : NULL);
	emit_options(rec, o);
	emit_end(rec, "local", rec->local, rec->local_address, client, o);
	emit_end(rec, "remote", rec->remote, rec->peer_address, !client, o);
	/* neper says no more of itself than one number. */
	if (rec->neper && rec->remote)
		out_u64(o, "peer_rate", NULL, rec->remote->rate);
	emit_unless("ceiling_bps", rec->ceiling_bps, 0, o);
	emit_result(rec, f, o);
	findings_emit(rec->findings, rec->finding_count, NULL, o);
	out_str(o, "verdict", NULL, record_verdict_name(rec->verdict));
	out_end(o);
}
