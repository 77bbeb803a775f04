// SPDX-License-Identifier: BSD-3-Clause
/* What was measured and what it means: the head of the page, its findings and the figures. */
#include "report/run_html.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "report/chart.h"

static const struct end_result *end_of(const struct record *rec, bool client)
{
	return rec->options->client == client ? rec->local : rec->remote;
}

const char *run_end_name(const struct record *rec, bool client)
{
	const struct end_result *end = end_of(rec, client);
	const char *name = end && end->facts ? host_facts_get(end->facts, "hostname") : NULL;
	const char *address =
		rec->options->client == client ? rec->local_address : rec->peer_address;

	return name ? name : address[0] ? address : client ? "client" : "server";
}

char *run_time_text(char buf[32], uint64_t wall_ns)
{
	time_t seconds = (time_t)(wall_ns / NS_PER_S);
	struct tm tm;

	buf[0] = '\0';
	if (gmtime_r(&seconds, &tm))
		strftime(buf, 32, "%Y-%m-%d %H:%M:%S UTC", &tm);
	return buf;
}

static void put_verdict(struct html *h, const struct record *rec)
{
	html_put(h, "<p>");
	if (rec->verdict == VERDICT_GOOD)
		html_mark(h, MARK_GOOD, "The run is complete, its figures are sound");
	else if (rec->verdict == VERDICT_DOUBTFUL)
		html_mark(h, MARK_WARNING, "Measured, but the figures are not to be trusted");
	else
		html_mark(h, MARK_BAD, "The run failed");
	html_put(h, "</p>\n");
}

static void put_nav(struct html *h, const struct figures *f, bool counters)
{
	html_put(h,
		"<nav aria-label=\"Sections\"><a href=\"#findings\">Findings</a><a href=\"#figures\">Figures</a>");
	if (f->client || f->server)
		html_put(h, "<a href=\"#time\">Over time</a>");
	if (f->latency)
		html_put(h, "<a href=\"#latency\">Latency</a>");
	if (f->client || f->server)
		html_put(h, "<a href=\"#flows\">Flows</a>");
	html_put(h, "<a href=\"#hosts\">Hosts</a><a href=\"#options\">Options</a>");
	if (counters)
		html_put(h, "<a href=\"#counters\">Counters</a>");
	html_put(h, "</nav>\n");
}

void run_html_head(struct html *h, const struct record *rec, const struct figures *f, bool counters)
{
	const char *client = run_end_name(rec, true), *server = run_end_name(rec, false);
	bool stream = rec->workload == WORKLOAD_STREAM;
	double rate = stream ? f->throughput_bps : f->transactions_per_s;
	char text[UNITS_TEXT] = "nothing measured", started[32];
	const struct end_result *end = f->part[0].end;

	if (stream && isnan(rate) && f->part_count)
		rate = f->part[0].sent_bps;
	if (isfinite(rate))
		figures_rate_text(text, stream ? METRIC_RECEIVED : METRIC_TRANSACTIONS, rate);
	html_put(h, "<header class=\"top\"><p class=\"kind\">weir %s</p>\n",
		workload_name[rec->workload]);
	html_put(h, "<h1>%s <small>", text);
	if (!stream)
		html_put(h, "transactions per second, %s asks %s", client, server);
	else if (f->part_count == 2)
		html_put(h, "both ways between %s and %s", client, server);
	else if (f->part[0].to_server)
		html_put(h, "from %s to %s", client, server);
	else
		html_put(h, "from %s to %s", server, client);
	html_put(h, "</small></h1>\n");
	put_verdict(h, rec);
	html_put(h, "<p class=\"meta\">%s", run_time_text(started, rec->started_wall_ns));
	if (end && end->warmup_ns)
		html_put(h, " &middot; warm-up of %.3g s left out", (double)end->warmup_ns / 1e9);
	if (end)
		html_put(h, " &middot; %.3g s measured", (double)end->window_ns / 1e9);
	html_put(h, " &middot; %s and %s",
		rec->options->client ? rec->local_address : rec->peer_address,
		rec->options->client ? rec->peer_address : rec->local_address);
	html_put(h, "%s</p></header>\n", rec->neper ? ", neper's protocol" : "");
	put_nav(h, f, counters);
}

void run_html_findings(struct html *h, const struct record *rec)
{
	static const enum html_mark marks[] = { MARK_NOTE, MARK_WARNING, MARK_BAD, MARK_BAD };
	static const char *const classes[] = { "note", "warning", "bad", "bad" };
	static const char *const words[] = { "Note", "Warning", "Not valid", "Failed" };

	for (int severity = FINDING_FAILED; severity >= FINDING_NOTE; severity--) {
		for (int i = 0; i < rec->finding_count; i++) {
			const struct record_finding *f = &rec->findings[i];

			if ((int)f->severity != severity)
				continue;
			html_put(h, "<li class=\"%s\">", classes[severity]);
			html_mark(h, marks[severity], words[severity]);
			html_what(h, f->text);
			html_put(h, "</li>\n");
		}
	}
}

static void tile(struct html *h, const char *name, const char *value)
{
	html_put(h, "<div><dt>%s</dt><dd>%s<small>", name, value);
}

static void tile_end(struct html *h)
{
	html_put(h, "</small></dd></div>\n");
}

static void put_throughput(struct html *h, const struct figures_part *p)
{
	const char *to = p->to_server ? "server" : "client",
		   *from = p->to_server ? "client" : "server";
	char rate[UNITS_TEXT], sent[UNITS_TEXT];

	units_format_bits(sent, p->sent_bps);
	tile(h, p->to_server ? "Throughput, client to server" : "Throughput, server to client",
		isfinite(p->received_bps) ? units_format_bits(rate, p->received_bps)
		: isfinite(p->sent_bps)	  ? sent
					  : "-");
	if (isfinite(p->received_bps) && isfinite(p->sent_bps))
		html_put(h, "received by the %s; the %s sent %s", to, from, sent);
	else if (isfinite(p->received_bps))
		html_put(h, "received by the %s", to);
	else
		html_put(h, "sent by the %s; what the %s received is not known", from, to);
	tile_end(h);
}

static void put_cpu(struct html *h, const struct record *rec, const struct figures *f,
	const struct end_result *end)
{
	bool stream = rec->workload == WORKLOAD_STREAM;
	double amount = stream ? (double)end->counts.rx_bytes + (double)end->counts.tx_bytes
			       : (double)end->counts.transactions * 1e3;
	char text[64] = "-";

	if (amount > 0)
		snprintf(text, sizeof(text), "%.2f %s",
			(double)(end->user_ns + end->system_ns) / amount,
			stream ? "ns/byte" : "us/transaction");
	tile(h, end == f->client ? "CPU, client" : "CPU, server", text);
	if (amount > 0)
		html_put(h, "user %.2f, kernel %.2f; ", (double)end->user_ns / amount,
			(double)end->system_ns / amount);
	html_put(h, "busiest thread %.0f %% of a CPU", fmin(end->busiest_thread, 9.99) * 100);
	tile_end(h);
}

static const char *steady_word(enum steady state)
{
	return state == STEADY_YES ? "yes" : state == STEADY_NO ? "no" : "too noisy to tell";
}

static void put_part(struct html *h, const struct record *rec, const struct figures *f,
	const struct figures_part *p)
{
	const char *which = f->part_count < 2 ? ""
			    : p->to_server    ? ", client to server"
					      : ", server to client";
	char name[64], text[UNITS_TEXT], least[UNITS_TEXT];

	if (p->tcp.known) {
		snprintf(name, sizeof(name), "Round-trip time%s", which);
		tile(h, name, units_format_duration(text, p->tcp.rtt_us * 1e3));
		html_put(h, "the kernel's mean; least %s",
			p->tcp.min_rtt_us ? units_format_duration(least, p->tcp.min_rtt_us * 1e3)
					  : "-");
		tile_end(h);
		snprintf(name, sizeof(name), "Retransmits%s", which);
		snprintf(text, sizeof(text), "%" PRIu64, p->tcp.retransmits);
		tile(h, name, text);
		html_put(h, "%.2g %% of the segments; congestion window %.0f segments",
			p->tcp.retransmitted * 100, p->tcp.cwnd_segments);
		tile_end(h);
	}
	if (isfinite(p->fairness)) {
		snprintf(name, sizeof(name), "Fairness%s", which);
		snprintf(text, sizeof(text), "%.2f", p->fairness);
		tile(h, name, text);
		html_put(h, "over %u flows: %s", p->flows,
			figures_rate_text(text, p->metric, p->slowest));
		html_put(h, " to %s", figures_rate_text(text, p->metric, p->fastest));
		tile_end(h);
	}
	if (p->end && p->steady.state != STEADY_UNKNOWN) {
		snprintf(name, sizeof(name), "Steady%s", which);
		tile(h, name, steady_word(p->steady.state));
		html_put(h, "drift %+.1f %%, variation %.1f %%", p->steady.drift * 100,
			p->steady.variation * 100);
		tile_end(h);
	}
	(void)rec;
}

static void put_limits(struct html *h, const struct figures *f, const struct figures_part *p)
{
	const char *names[TCP_LIMITS];
	char label[128];

	if (!p->tcp.limits_known)
		return;
	for (int i = 0; i < TCP_LIMITS; i++)
		names[i] = tcp_limit_name((enum tcp_limit)i);
	snprintf(label, sizeof(label), "What the %s waited for, as a share of the time",
		figures_role(f, p->sender));
	chart_shares(h, label, names, p->tcp.limits.share, TCP_LIMITS);
}

void run_html_figures(struct html *h, const struct record *rec, const struct figures *f)
{
	char text[UNITS_TEXT];

	html_section(h, "figures", "Figures");
	html_put(h, "<dl class=\"tiles\">\n");
	for (int i = 0; rec->workload == WORKLOAD_STREAM && i < f->part_count; i++)
		put_throughput(h, &f->part[i]);
	if (rec->workload != WORKLOAD_STREAM && f->part[0].end) {
		tile(h, "Transactions",
			figures_rate_text(text, METRIC_TRANSACTIONS, f->transactions_per_s));
		html_put(h, "%" PRIu64 " counted by the %s; %s",
			f->part[0].end->counts.transactions, figures_role(f, f->part[0].end),
			rec->options->rate > 0 ? "open loop" : "closed loop");
		tile_end(h);
	}
	if (rec->ceiling_bps) {
		tile(h, "The link can carry", units_format_bits(text, (double)rec->ceiling_bps));
		if (rec->workload == WORKLOAD_STREAM && isfinite(f->throughput_bps))
			html_put(h, "%.0f %% of it were used",
				f->throughput_bps * 100 / (double)rec->ceiling_bps);
		tile_end(h);
	}
	if (f->client)
		put_cpu(h, rec, f, f->client);
	if (f->server)
		put_cpu(h, rec, f, f->server);
	for (int i = 0; i < f->part_count; i++)
		put_part(h, rec, f, &f->part[i]);
	html_put(h, "</dl>\n");
	for (int i = 0; i < f->part_count && rec->workload == WORKLOAD_STREAM; i++)
		put_limits(h, f, &f->part[i]);
	html_section_end(h);
}
