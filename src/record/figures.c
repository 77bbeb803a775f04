// SPDX-License-Identifier: BSD-3-Clause
#include "record/figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The end in this role, whether or not it measured anything. The role is our own option's: what the
 * peer says of itself does not count. */
static const struct end_result *end_of(const struct record *rec, bool client)
{
	return rec->options->client == client ? rec->local : rec->remote;
}

static const struct end_result *known_end(const struct record *rec, bool client)
{
	const struct end_result *end = end_of(rec, client);

	return end && end->valid ? end : NULL;
}

static bool goes(const struct record *rec, bool to_server)
{
	const struct flow_options *o = rec->options;

	return o->client == to_server ? flow_options_writes(o, rec->workload)
				      : flow_options_reads(o, rec->workload);
}

const struct end_result *record_receiver(const struct record *rec, bool to_server)
{
	return goes(rec, to_server) ? known_end(rec, !to_server) : NULL;
}

const struct end_result *record_sender(const struct record *rec, bool to_server)
{
	return goes(rec, to_server) ? known_end(rec, to_server) : NULL;
}

bool figures_has_flow(
	const struct record *rec, const struct figures_part *part, const struct flow_result *flow)
{
	if (rec->workload != WORKLOAD_STREAM || !rec->options->split_bidir)
		return true;
	return (flow->id % 2 == 1) == part->to_server;
}

static double per_second(double amount, uint64_t ns)
{
	return ns ? amount * 1e9 / (double)ns : 0;
}

double figures_flow_rate(const struct figures_part *part, const struct flow_result *flow)
{
	const struct flow_counts *c = &flow->counts;
	double amount = part->metric == METRIC_TRANSACTIONS ? (double)c->transactions
			: part->metric == METRIC_RECEIVED   ? (double)c->rx_bytes * 8
							    : (double)c->tx_bytes * 8;

	return per_second(amount, part->end->window_ns);
}

double figures_interval_rate(enum metric metric, const struct interval_result *iv)
{
	double amount = metric == METRIC_TRANSACTIONS ? (double)iv->transactions
			: metric == METRIC_RECEIVED   ? (double)iv->rx_bytes * 8
						      : (double)iv->tx_bytes * 8;

	return per_second(amount, iv->end_ns > iv->begin_ns ? iv->end_ns - iv->begin_ns : 0);
}

char *figures_rate_text(char buf[UNITS_TEXT], enum metric metric, double per_s)
{
	char number[UNITS_TEXT];

	if (metric != METRIC_TRANSACTIONS)
		return units_format_bits(buf, per_s);
	units_format_count(number, per_s);
	/* "87 /s" but "1.2 k/s": the unit of the count stands right before the slash. */
	snprintf(buf, UNITS_TEXT, strchr(number, ' ') ? "%.20s/s" : "%.20s /s", number);
	return buf;
}

const double *figures_percentiles(const struct flow_options *o, int *count)
{
	static const double usual[] = { 50, 90, 99, 99.9, 99.99 };

	*count = o->percentile_count ? o->percentile_count : 5;
	return o->percentile_count ? o->percentile : usual;
}

const char *figures_role(const struct figures *f, const struct end_result *end)
{
	return end == f->client ? "client" : "server";
}

void figures_device(const struct end_result *end, struct figures_device *d)
{
	*d = (struct figures_device){ 0 };
	for (uint32_t i = 0; i < end->flow_count; i++) {
		const struct flow_result *flow = &end->flows[i];

		d->dmabuf_bytes += flow->dmabuf_bytes;
		d->host_bytes += flow->linear_bytes + flow->plain_bytes;
		d->fragments += flow->fragments;
		d->calls += flow->counts.rx_calls;
		d->zerocopy_sent += flow->zerocopy_sent;
		d->zerocopy_copied += flow->zerocopy_copied;
	}
}

const char *figures_rx_path(const struct end_result *end, const struct flow_result *flow)
{
	uint64_t host = flow->linear_bytes + flow->plain_bytes;

	if (!flow->counts.rx_bytes)
		return NULL;
	if (end->rx_path == DEVICE_DEVMEM && host)
		return flow->dmabuf_bytes ? "mixed" : device_path_name[DEVICE_NONE];
	return device_path_name[end->rx_path];
}

const char *figures_missed(const struct flow_result *flow)
{
	if (!flow->plain_bytes && !flow->linear_bytes)
		return NULL;
	if (flow->linear_bytes > flow->plain_bytes)
		return "header split left it with the headers";
	if (flow->unsplit)
		return "its queue is the right one, but header split missed it";
	return "it came through an ordinary queue, so steering missed it";
}

const char *figures_tx_path(const struct end_result *end, const struct flow_result *flow)
{
	return flow->counts.tx_bytes ? device_path_name[end->tx_path] : NULL;
}

static void part_fairness(const struct record *rec, struct figures_part *p)
{
	double *rates = calloc(p->end->flow_count ? p->end->flow_count : 1, sizeof(*rates));

	for (uint32_t i = 0; rates && i < p->end->flow_count; i++) {
		double rate = figures_flow_rate(p, &p->end->flows[i]);

		if (!figures_has_flow(rec, p, &p->end->flows[i]))
			continue;
		if (!p->flows || rate < p->slowest)
			p->slowest = rate;
		if (!p->flows || rate > p->fastest)
			p->fastest = rate;
		rates[p->flows++] = rate;
	}
	if (p->flows >= 2)
		p->fairness = stats_fairness(rates, p->flows);
	free(rates);
}

static void part_steady(struct figures_part *p)
{
	const struct interval_result *iv = p->end->intervals;
	uint32_t n = p->end->interval_count;
	double *rates;

	/* A run that was cut short ends with a short interval: its rate is mostly chance. */
	if (n >= 2 && iv[n - 1].end_ns - iv[n - 1].begin_ns < (iv[0].end_ns - iv[0].begin_ns) / 2)
		n--;
	rates = calloc(n ? n : 1, sizeof(*rates));
	for (uint32_t i = 0; rates && i < n; i++)
		rates[i] = figures_interval_rate(p->metric, &iv[i]);
	if (rates)
		stats_steady(rates, n, &p->steady);
	free(rates);
}

/* Data segments that a flow must have sent: full ones, and at least one for each message. */
static double segments_of(const struct flow_result *flow)
{
	double full = (double)flow->counts.tx_bytes / flow->tcp.mss_bytes;

	return fmax(full, (double)flow->counts.transactions);
}

static void part_tcp(const struct record *rec, struct figures_part *p, const struct end_result *end)
{
	struct figures_tcp *t = &p->tcp;
	double flows = 0, segments = 0, limits = 0;

	for (uint32_t i = 0; i < end->flow_count; i++) {
		const struct flow_result *flow = &end->flows[i];

		/* A flow that was never asked has no segment size: crr's last only for moments. */
		if (!figures_has_flow(rec, p, flow) || !flow->tcp.mss_bytes)
			continue;
		flows++;
		t->rtt_us += flow->tcp.rtt_us;
		t->cwnd_segments += flow->tcp.cwnd_segments;
		t->retransmits += flow->tcp.retransmits;
		segments += segments_of(flow);
		/* All ones is the kernel's word for not measured yet. */
		if (flow->tcp.min_rtt_us != UINT32_MAX && flow->tcp.min_rtt_us &&
			(!t->min_rtt_us || flow->tcp.min_rtt_us < t->min_rtt_us))
			t->min_rtt_us = flow->tcp.min_rtt_us;
		for (int k = 0; k < TCP_LIMITS; k++) {
			t->limits.share[k] += flow->limits.share[k];
			limits += flow->limits.share[k];
		}
	}
	t->known = flows > 0;
	if (!t->known)
		return;
	t->rtt_us /= flows;
	t->cwnd_segments /= flows;
	t->retransmitted = segments > 0 ? (double)t->retransmits / segments : 0;
	t->limits_known = limits > 0;
	for (int k = 0; k < TCP_LIMITS; k++)
		t->limits.share[k] /= flows;
}

static void part_finish(const struct record *rec, struct figures_part *p)
{
	const struct end_result *tcp = p->metric == METRIC_TRANSACTIONS ? p->end : p->sender;

	p->fairness = NAN;
	if (p->end) {
		part_fairness(rec, p);
		part_steady(p);
	}
	if (tcp)
		part_tcp(rec, p, tcp);
}

static void part_stream(const struct record *rec, struct figures_part *p, bool to_server)
{
	const struct end_result *receiver = end_of(rec, !to_server);

	p->to_server = to_server;
	p->receiver = record_receiver(rec, to_server);
	p->sender = record_sender(rec, to_server);
	p->sent_bps = p->sender ? result_tx_bps(p->sender) : NAN;
	p->received_bps = NAN;
	if (p->receiver)
		p->received_bps = result_rx_bps(p->receiver);
	else if (receiver && receiver == rec->remote && receiver->rate)
		p->received_bps = (double)receiver->rate;
	p->end = p->receiver ? p->receiver : p->sender;
	p->metric = p->receiver ? METRIC_RECEIVED : METRIC_SENT;
	part_finish(rec, p);
}

static void make_stream(const struct record *rec, struct figures *f)
{
	f->throughput_bps = 0;
	for (int i = 0; i < 2; i++)
		if (goes(rec, !i))
			part_stream(rec, &f->part[f->part_count++], !i);
	for (int i = 0; i < f->part_count; i++)
		f->throughput_bps += f->part[i].received_bps;
}

static void make_transactions(const struct record *rec, struct figures *f)
{
	struct figures_part *p = &f->part[f->part_count++];

	p->to_server = true;
	p->sender = f->client;
	p->receiver = f->server;
	p->sent_bps = p->received_bps = NAN;
	p->end = f->client ? f->client : f->server;
	p->metric = METRIC_TRANSACTIONS;
	part_finish(rec, p);
	if (p->end)
		f->transactions_per_s = result_transactions_per_s(p->end);
}

static void make_overall(struct figures *f)
{
	for (int i = 0; i < f->part_count; i++) {
		struct figures_part *p = &f->part[i];

		f->fairness = fmin(f->fairness, p->fairness); /* of a number and NAN, the number */
		if (!f->steady || p->steady.state > f->steady->state)
			f->steady = &p->steady;
	}
}

void figures_make(const struct record *rec, struct figures *f)
{
	memset(f, 0, sizeof(*f));
	f->client = known_end(rec, true);
	f->server = known_end(rec, false);
	f->throughput_bps = f->transactions_per_s = f->fairness = NAN;
	if (rec->workload == WORKLOAD_STREAM)
		make_stream(rec, f);
	else
		make_transactions(rec, f);
	make_overall(f);
	if (f->client && f->client->has_latency && f->client->latency)
		f->latency = f->client;
}

/* "192.0.2.1:43210", "[::1]:43210": the address without its port. */
static size_t host_length(const char *address)
{
	const char *colon = strrchr(address, ':');

	return colon ? (size_t)(colon - address) : strlen(address);
}

bool figures_is_loopback(const struct record *rec)
{
	const char *a = rec->local_address, *b = rec->peer_address;
	size_t length = host_length(a);

	return length && length == host_length(b) && !strncmp(a, b, length);
}
