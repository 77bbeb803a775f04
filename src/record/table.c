// SPDX-License-Identifier: BSD-3-Clause
/* The record for a person: what ran, the figures that count, then the series and the flows. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "record/render.h"

#define LIMIT_SAID 0.05

static void label(struct out *o, const char *name)
{
	out_text(o, "  %-12s  ", name);
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

char *table_rtt(char buf[UNITS_TEXT], double rtt_us)
{
	/* The kernel measures in microseconds: digits behind them would be made up. */
	if (!(rtt_us < 1e4))
		return units_format_duration(buf, rtt_us * 1e3);
	snprintf(buf, UNITS_TEXT, "%.0f us", rtt_us);
	return buf;
}

/* "host memory", or what each end has and how its bytes get there. */
static void emit_memory(const struct record *rec, struct out *o)
{
	const struct end_result *const ends[] = { rec->local, rec->remote };

	if (!rec->local->memory && !rec->remote->memory) {
		out_text(o, ", host memory\n");
		return;
	}
	for (int i = 0; i < 2; i++) {
		const struct end_result *end = ends[i];
		uint32_t path = end->rx_path ? end->rx_path : end->tx_path;

		if (!end->valid)
			continue;
		out_text(o, ", %s %s", end->client ? "client" : "server",
			device_memory_name[end->memory]);
		if (path)
			out_text(o, " (%s)", device_path_name[path]);
	}
	out_text(o, " memory\n");
}

static void emit_sizes(const struct record *rec, struct out *o)
{
	const struct flow_options *opt = rec->options;
	char a[UNITS_TEXT], b[UNITS_TEXT];

	if (rec->workload == WORKLOAD_STREAM)
		out_text(o, ", %s calls", units_format_bytes(a, (double)opt->buffer_size));
	else
		out_text(o, ", request %s, response %s",
			units_format_bytes(a, (double)opt->request_size),
			units_format_bytes(b, (double)opt->response_size));
	if (opt->outstanding > 1)
		out_text(o, ", %" PRId64 " under way per flow", opt->outstanding);
	emit_memory(rec, o);
}

static void emit_threads(const struct figures *f, struct out *o)
{
	uint32_t client = f->client ? f->client->threads : 0;
	uint32_t server = f->server ? f->server->threads : 0;

	if (client && server && client != server)
		out_text(o, ", %u and %u threads", client, server);
	else if (client || server)
		out_text(o, ", %u thread%s", client ? client : server,
			(client ? client : server) == 1 ? "" : "s");
}

/* Always the client first, so that both ends print the same line. */
static void emit_heading(const struct record *rec, const struct figures *f, struct out *o)
{
	const char *ours = rec->local_address, *theirs = rec->peer_address;
	bool client = rec->options->client;
	uint32_t flows = f->part_count == 2 && rec->options->split_bidir
				 ? f->part[0].flows + f->part[1].flows
				 : f->part[0].flows;
	const char *arrow = f->part_count == 2 || rec->workload != WORKLOAD_STREAM ? "<->"
			    : f->part[0].to_server				   ? "->"
										   : "<-";

	out_style(o, OUT_BOLD);
	out_text(o, "weir %-9s ", workload_name[rec->workload]);
	out_style(o, OUT_PLAIN);
	out_text(o, "%s %s %s   ", client ? ours : theirs, arrow, client ? theirs : ours);
	/* crr's server knows no flows, only connections that come and go. */
	if (!flows)
		flows = (uint32_t)rec->options->num_flows;
	out_text(o, "%u flow%s", flows, flows == 1 ? "" : "s");
	emit_threads(f, o);
	emit_sizes(rec, o);
}

static void emit_times(const struct record *rec, const struct figures *f, struct out *o)
{
	const struct end_result *end = f->part[0].end;
	double asked = rec->options->test_length;

	if (!end)
		return;
	out_text(o, "%15s", "");
	if (end->warmup_ns)
		out_text(o, "warm-up %.3g s excluded, ", seconds(end->warmup_ns));
	out_text(o, "%.3g s measured", seconds(end->window_ns));
	if (!rec->local->complete && seconds(end->window_ns) < 0.99 * asked)
		out_text(o, " of %.3g s asked for", asked);
	out_text(o, rec->neper ? ", neper's protocol\n" : "\n");
}

static void emit_throughput(const struct figures_part *p, const char *name, struct out *o)
{
	const char *to = p->to_server ? "server" : "client",
		   *from = p->to_server ? "client" : "server";
	char rate[UNITS_TEXT], sent[UNITS_TEXT];

	units_format_bits(rate, p->received_bps);
	units_format_bits(sent, p->sent_bps);
	label(o, name);
	out_style(o, OUT_BOLD);
	out_text(o, "%-14s", isnan(p->received_bps) ? sent : rate);
	out_style(o, OUT_PLAIN);
	if (isnan(p->received_bps) && isnan(p->sent_bps))
		out_text(o, "  neither end's figures are known\n");
	else if (isnan(p->received_bps))
		out_text(o, "  sent by the %s; what the %s received is not known\n", from, to);
	else if (isnan(p->sent_bps))
		out_text(o, "  received by the %s\n", to);
	else
		out_text(o, "  received by the %s; the %s sent %s\n", to, from, sent);
}

static void emit_transactions(const struct record *rec, const struct figures *f, struct out *o)
{
	const struct end_result *end = f->part[0].end;
	char rate[UNITS_TEXT];

	label(o, "transactions");
	out_style(o, OUT_BOLD);
	out_text(o, "%-14s", figures_rate_text(rate, METRIC_TRANSACTIONS, f->transactions_per_s));
	out_style(o, OUT_PLAIN);
	out_text(o, "  %" PRIu64 " counted by the %s in %.3g s, ", end->counts.transactions,
		figures_role(f, end), seconds(end->window_ns));
	if (rec->options->rate > 0)
		out_text(o, "open loop, %.15g/s asked for\n", rec->options->rate);
	else if (rec->options->delay || rec->options->noburst)
		out_text(o, "paced\n");
	else
		out_text(o, "closed loop\n");
	if (rec->neper && rec->remote && rec->remote->rate) {
		label(o, "");
		out_text(o, "%-14s  counted by the %s\n",
			figures_rate_text(rate, METRIC_TRANSACTIONS, (double)rec->remote->rate),
			rec->options->client ? "server" : "client");
	}
}

#define LATENCY_COLUMNS 8

/* One value of a latency row: minimum, mean, the percentiles, maximum, number of samples. */
static void latency_cell(const struct hist *h, const double *percent, int count, int column,
	char head[16], char value[UNITS_TEXT])
{
	int p = column - 2;

	if (column == 0) {
		snprintf(head, 16, "min");
		units_format_duration(value, (double)h->min_ns);
	} else if (column == 1) {
		snprintf(head, 16, "mean");
		units_format_duration(value, hist_mean_ns(h));
	} else if (p < count) {
		snprintf(head, 16, "p%g", percent[p]);
		if (hist_percentile_is_sound(h, percent[p]))
			units_format_duration(value, (double)hist_percentile(h, percent[p]));
		else
			snprintf(value, UNITS_TEXT, "-");
	} else if (p == count) {
		snprintf(head, 16, "max");
		units_format_duration(value, (double)h->max_ns);
	} else {
		snprintf(head, 16, "samples");
		snprintf(value, UNITS_TEXT, "%" PRIu64, h->count);
	}
}

static void latency_row(const char *name, const struct hist *h, const double *percent, int count,
	int from, int to, bool heads, struct out *o)
{
	char head[16], value[UNITS_TEXT];

	label(o, name);
	for (int i = from; i < to; i++) {
		latency_cell(h, percent, count, i, head, value);
		out_text(o, "%11s", heads ? head : value);
	}
	out_text(o, "\n");
}

static void emit_latency(const struct record *rec, const struct figures *f, struct out *o)
{
	const struct hist *h = f->latency->latency, *service = f->latency->service;
	int count, columns;
	const double *percent = figures_percentiles(rec->options, &count);

	columns = count + 4;
	for (int from = 0; from < columns; from += LATENCY_COLUMNS) {
		int to = from + LATENCY_COLUMNS < columns ? from + LATENCY_COLUMNS : columns;

		/* The number of samples does not deserve a row of its own. */
		if (to == columns - 1)
			to = columns;
		latency_row("", h, percent, count, from, to, true, o);
		latency_row(
			service ? "response" : "latency", h, percent, count, from, to, false, o);
		if (service)
			latency_row("service", service, percent, count, from, to, false, o);
		if (to == columns)
			break;
	}
	if (service)
		out_text(o,
			"%16sresponse: from the intended start; service: from the actual send\n",
			"");
}

static void emit_cpu_of(const struct record *rec, const struct figures *f,
	const struct end_result *end, struct out *o)
{
	bool stream = rec->workload == WORKLOAD_STREAM;
	double amount = stream ? (double)end->counts.rx_bytes + (double)end->counts.tx_bytes
			       : (double)end->counts.transactions * 1e3;
	double user = (double)end->user_ns / amount, kernel = (double)end->system_ns / amount;

	out_text(o, "%s ", figures_role(f, end));
	if (amount > 0)
		out_text(o, "%.2f %s (user %.2f, kernel %.2f)", user + kernel,
			stream ? "ns/byte" : "us/transaction", user, kernel);
	else
		out_text(o, "-");
}

static void emit_cpu(const struct record *rec, const struct figures *f, struct out *o)
{
	label(o, "cpu");
	if (f->client)
		emit_cpu_of(rec, f, f->client, o);
	if (f->client && f->server)
		out_text(o, "   ");
	if (f->server)
		emit_cpu_of(rec, f, f->server, o);
	out_text(o, "\n");
}

static void emit_tcp(const struct figures_part *p, const char *whose, struct out *o)
{
	const struct figures_tcp *t = &p->tcp;
	char mean[UNITS_TEXT], least[UNITS_TEXT];

	if (!t->known)
		return;
	label(o, "rtt");
	out_text(o, "%smean %s", whose, table_rtt(mean, t->rtt_us));
	if (t->min_rtt_us)
		out_text(o, ", min %s", table_rtt(least, t->min_rtt_us));
	out_text(o, "   retransmits %" PRIu64 "   cwnd %.0f\n", t->retransmits, t->cwnd_segments);
}

static void emit_limits(const struct figures_part *p, const char *whose, struct out *o)
{
	struct tcp_limits left = p->tcp.limits;
	enum tcp_limit most = tcp_limits_main(&left);

	if (!p->tcp.limits_known)
		return;
	label(o, "limited by");
	out_text(
		o, "%s%s %.0f %% of the time", whose, tcp_limit_name(most), left.share[most] * 100);
	for (;;) {
		left.share[most] = 0;
		most = tcp_limits_main(&left);
		if (left.share[most] < LIMIT_SAID)
			break;
		out_text(o, ", %s %.0f %%", tcp_limit_name(most), left.share[most] * 100);
	}
	out_text(o, "\n");
}

static void emit_fairness(const struct figures_part *p, const char *whose, struct out *o)
{
	char slowest[UNITS_TEXT], fastest[UNITS_TEXT];

	if (isnan(p->fairness))
		return;
	label(o, "fairness");
	out_text(o, "%s%.2f over %u flows: %s to %s\n", whose, p->fairness, p->flows,
		figures_rate_text(slowest, p->metric, p->slowest),
		figures_rate_text(fastest, p->metric, p->fastest));
}

static void emit_validated(
	const struct record *rec, const struct figures_part *p, const char *whose, struct out *o)
{
	char bytes[UNITS_TEXT];

	if (!rec->options->validate || !p->receiver)
		return;
	label(o, "validated");
	if (rec->workload != WORKLOAD_STREAM && p->sender) {
		out_text(o, "every byte, by its position: %s at the client, ",
			units_format_bytes(bytes, (double)p->sender->counts.rx_bytes));
		out_text(o, "%s at the server\n",
			units_format_bytes(bytes, (double)p->receiver->counts.rx_bytes));
		return;
	}
	out_text(o, "%severy byte of %s, by its position\n", whose,
		units_format_bytes(bytes, (double)p->receiver->counts.rx_bytes));
}

static void emit_steady(const struct figures_part *p, const char *whose, struct out *o)
{
	const struct stats_steady *s = &p->steady;

	label(o, "steady");
	out_text(o, "%s", whose);
	switch (s->state) {
	case STEADY_UNKNOWN:
		out_text(o, "not known: fewer than %d intervals\n", STEADY_POINTS);
		return;
	case STEADY_NOISY:
		out_text(o, "not known: too much noise to tell");
		break;
	case STEADY_YES:
		out_style(o, OUT_GOOD);
		out_text(o, "yes");
		break;
	case STEADY_NO:
		out_style(o, OUT_BAD);
		out_text(o, "no");
		break;
	}
	out_style(o, OUT_PLAIN);
	out_text(o, ", drift %+.1f %%, variation %.1f %%\n", s->drift * 100, s->variation * 100);
}

static void emit_device_rx(const struct end_result *end, struct out *o)
{
	const struct device_result *d = &end->device;
	struct figures_device sums;
	char bytes[UNITS_TEXT], size[UNITS_TEXT];
	double all;

	figures_device(end, &sums);
	all = (double)sums.dmabuf_bytes + (double)sums.host_bytes;
	out_text(o, "%.4g %% of %s came into it by %s, queues %s\n",
		all > 0 ? 100.0 * (double)sums.dmabuf_bytes / all : 0,
		units_format_bytes(bytes, all), d->nic, d->queues);
	if (!sums.fragments)
		return;
	label(o, "");
	out_text(o, "%.3g fragments of %s per call, at most %" PRIu64 " held at once, ",
		sums.calls ? (double)sums.fragments / (double)sums.calls : 0,
		units_format_bytes(size, (double)sums.dmabuf_bytes / (double)sums.fragments),
		d->tokens_peak);
	if (d->pool_stalls == POOL_STALLS_UNKNOWN)
		out_text(o, "pool stalls not counted by the driver\n");
	else
		out_text(o, "%" PRIu64 " pool stall%s\n", d->pool_stalls,
			d->pool_stalls == 1 ? "" : "s");
}

static void emit_device_tx(const struct end_result *end, struct out *o)
{
	struct figures_device sums;

	figures_device(end, &sums);
	out_text(o, "sent from it by %s: %" PRIu64 " sends completed, %" PRIu64 " of them copied\n",
		end->device.nic, sums.zerocopy_sent, sums.zerocopy_copied);
}

static void emit_staged(const char *way, const char *reason, struct out *o)
{
	out_text(o, "%s through host memory%s%s\n", way, reason[0] ? ": " : ", as asked for",
		reason);
}

/* What an end with device memory has to say of it; a line for each direction. */
static void emit_device_of(const struct end_result *end, const char *role, struct out *o)
{
	if (!end || !end->memory)
		return;
	if (end->rx_path != DEVICE_NONE) {
		label(o, device_memory_name[end->memory]);
		out_text(o, "%s: ", role);
		if (end->rx_path == DEVICE_DEVMEM)
			emit_device_rx(end, o);
		else
			emit_staged("received", end->device.rx_reason, o);
	}
	if (end->tx_path != DEVICE_NONE) {
		label(o, device_memory_name[end->memory]);
		out_text(o, "%s: ", role);
		if (end->tx_path == DEVICE_DEVMEM)
			emit_device_tx(end, o);
		else
			emit_staged("sent", end->device.tx_reason, o);
	}
}

static void emit_part(const struct record *rec, const struct figures *f,
	const struct figures_part *p, struct out *o)
{
	const char *whose = f->part_count < 2 ? ""
			    : p->to_server    ? "client to server: "
					      : "server to client: ";

	if (!p->end)
		return;
	emit_tcp(p, whose, o);
	if (rec->workload == WORKLOAD_STREAM)
		emit_limits(p, whose, o);
	emit_fairness(p, whose, o);
	emit_validated(rec, p, whose, o);
	emit_steady(p, whose, o);
}

static void emit_figures(const struct record *rec, const struct figures *f, struct out *o)
{
	out_text(o, "\n");
	for (int i = 0; rec->workload == WORKLOAD_STREAM && i < f->part_count; i++)
		emit_throughput(&f->part[i], i ? "" : "throughput", o);
	if (rec->workload != WORKLOAD_STREAM)
		emit_transactions(rec, f, o);
	if (f->latency)
		emit_latency(rec, f, o);
	emit_cpu(rec, f, o);
	for (int i = 0; i < f->part_count; i++)
		emit_part(rec, f, &f->part[i], o);
	emit_device_of(f->client, "client", o);
	emit_device_of(f->server, "server", o);
	table_emit_series(rec, f, o);
}

void table_emit(const struct record *rec, const struct figures *f, struct out *o)
{
	emit_heading(rec, f, o);
	emit_times(rec, f, o);
	if (f->client || f->server)
		emit_figures(rec, f, o);
	findings_emit(rec->findings, rec->finding_count, NULL, o);
}
