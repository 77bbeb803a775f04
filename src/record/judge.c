// SPDX-License-Identifier: BSD-3-Clause
/* What the figures mean: one small rule each, then the verdict. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/text.h"
#include "base/units.h"
#include "record/figures.h"

#define DIFFERENCE_SAID	   0.01
#define DIFFERENCE_INVALID 0.05
#define BUFFERED_BYTES	   (4u << 20) /* in a socket when a window ends, where its host is not known */
#define CPU_BOUND	   0.95
#define UNFAIR		   0.8
#define COPIED_SAID	   0.01
#define MAPPED_EXPECTED	   0.5 /* of the bytes, with --rx-zerocopy */
#define RETRANSMITS_SAID   0.001
#define RATE_REACHED	   0.99
#define STOPPED_SAID	   0.1
#define STARVED_SAID	   0.2

__attribute__((format(printf, 4, 5))) static void finding(struct record *rec, const char *name,
	enum record_severity severity, const char *format, ...)
{
	struct record_finding *f = &rec->findings[rec->finding_count];
	va_list args;

	if (rec->finding_count == RECORD_FINDINGS)
		return;
	f->name = name;
	f->severity = severity;
	va_start(args, format);
	vsnprintf(f->text, sizeof(f->text), format, args);
	va_end(args);
	text_one_line(f->text); /* it may hold the peer's words */
	rec->finding_count++;
}

static uint32_t failed_flows(const struct end_result *end, int *first)
{
	uint32_t failed = 0;

	for (uint32_t i = 0; i < end->flow_count; i++) {
		if (!end->flows[i].error)
			continue;
		if (!failed++)
			*first = end->flows[i].error;
	}
	return failed;
}

/* Both ends see the same connection break: the flows are counted at one of them. */
static void judge_flows(struct record *rec, const struct end_result *end)
{
	int first = 0;
	uint32_t failed = failed_flows(end, &first);

	if (failed)
		finding(rec, "incomplete", FINDING_FAILED, "%u of %u flows failed: %s", failed,
			end->flow_count, strerror(first));
}

static void judge_complete(struct record *rec, const struct figures *f)
{
	const struct end_result *local = rec->local, *remote = rec->remote;
	const char *peer = rec->options->client ? "server" : "client";
	int before = rec->finding_count;

	(void)f;
	if (local->error[0])
		finding(rec, "incomplete", FINDING_FAILED, "%s", local->error);
	if (remote && remote->error[0] && strcmp(remote->error, local->error))
		finding(rec, "incomplete", FINDING_FAILED, "the %s says: %s", peer, remote->error);
	judge_flows(rec, local);
	if (remote && rec->finding_count == before)
		judge_flows(rec, remote);
	if (rec->finding_count == before && !local->valid)
		finding(rec, "incomplete", FINDING_FAILED, "nothing was measured");
	else if (rec->finding_count == before && !local->complete)
		finding(rec, "incomplete", FINDING_FAILED,
			"the run ended before its time, after %.3g s",
			(double)local->window_ns / 1e9);
	if (rec->finding_count == before && !rec->neper && (!remote || !remote->valid))
		finding(rec, "one_sided", FINDING_WARNING, "the %s's figures are not known", peer);
}

static double difference(double a, double b)
{
	double most = fmax(a, b);

	return most > 0 ? fabs(a - b) / most : 0;
}

/* What a socket of this end may hold: the last of the three numbers of tcp_rmem or tcp_wmem. They may
 * be the peer's words. */
static double buffer_of(const struct end_result *end, const char *fact)
{
	const char *text = end->facts ? host_facts_get(end->facts, fact) : NULL;
	double most;

	if (text && sscanf(text, "%*s %*s %lf", &most) == 1 && most > 0 && most <= INT32_MAX)
		return most;
	return BUFFERED_BYTES;
}

static void judge_bytes(struct record *rec, const struct figures_part *p)
{
	double sent, received, share, held;
	char a[UNITS_TEXT], b[UNITS_TEXT];
	enum record_severity severity;
	bool buffers;

	if (!p->sender || !p->receiver)
		return;
	sent = (double)p->sender->counts.tx_bytes;
	received = (double)p->receiver->counts.rx_bytes;
	share = difference(sent, received);
	if (share <= DIFFERENCE_SAID)
		return;
	held = buffer_of(p->sender, "net_ipv4_tcp_wmem") +
	       buffer_of(p->receiver, "net_ipv4_tcp_rmem");
	buffers = fabs(sent - received) <= (double)p->flows * held;
	severity = buffers			? FINDING_NOTE
		   : share > DIFFERENCE_INVALID ? FINDING_INVALID
						: FINDING_WARNING;
	finding(rec, "ends_disagree", severity,
		"the %s sent %s and the %s received %s, %.1f %% apart%s",
		p->to_server ? "client" : "server", units_format_bytes(a, sent),
		p->to_server ? "server" : "client", units_format_bytes(b, received), share * 100,
		buffers ? ": socket buffers can hold that much" : "");
}

static void judge_transactions(struct record *rec, const struct figures_part *p)
{
	double client, server, share, under_way;

	/* A server that counts none says nothing about the client's count. */
	if (!p->sender || !p->receiver || !p->receiver->counts.transactions)
		return;
	client = (double)p->sender->counts.transactions;
	server = (double)p->receiver->counts.transactions;
	under_way = (double)p->flows * fmax(1, (double)rec->options->outstanding);
	share = difference(client, server);
	if (share <= DIFFERENCE_SAID || fabs(client - server) <= under_way)
		return;
	finding(rec, "ends_disagree",
		share > DIFFERENCE_INVALID ? FINDING_INVALID : FINDING_WARNING,
		"the client counted %.0f transactions and the server %.0f, %.1f %% apart", client,
		server, share * 100);
}

static void judge_ends(struct record *rec, const struct figures *f)
{
	for (int i = 0; i < f->part_count; i++) {
		if (rec->workload == WORKLOAD_STREAM)
			judge_bytes(rec, &f->part[i]);
		else
			judge_transactions(rec, &f->part[i]);
	}
}

static void judge_steady(struct record *rec, const struct figures *f)
{
	for (int i = 0; i < f->part_count; i++) {
		const struct figures_part *p = &f->part[i];
		const struct stats_steady *s = &p->steady;
		char from[64] = "at no point it became level";

		if (s->state == STEADY_NOISY)
			finding(rec, "noisy", FINDING_WARNING,
				"the rate varied by %.0f %% from interval to interval, so its mean is only "
				"known to within %.0f %%: a longer run (-l) tells more",
				s->variation * 100, s->mean_error * 100);
		if (s->state != STEADY_NO)
			continue;
		if (s->steady_from < p->end->interval_count)
			snprintf(from, sizeof(from), "it is level from %.3g s on",
				(double)p->end->intervals[s->steady_from].begin_ns / 1e9);
		finding(rec, "not_steady", FINDING_INVALID,
			"the rate %s by %.0f %% during the measured time; %s: a longer --warmup may help",
			s->drift > 0 ? "rose" : "fell", fabs(s->drift) * 100, from);
	}
}

static void judge_ceiling(struct record *rec, const struct figures *f)
{
	char rate[UNITS_TEXT], ceiling[UNITS_TEXT];

	for (int i = 0; i < f->part_count && rec->ceiling_bps; i++)
		if (f->part[i].received_bps > (double)rec->ceiling_bps)
			finding(rec, "above_ceiling", FINDING_INVALID,
				"%s is more than the link can carry (%s)",
				units_format_bits(rate, f->part[i].received_bps),
				units_format_bits(ceiling, (double)rec->ceiling_bps));
}

static void judge_cpu(struct record *rec, const struct figures *f)
{
	const struct end_result *const ends[] = { f->client, f->server };

	for (int i = 0; i < 2; i++)
		if (ends[i] && ends[i]->busiest_thread > CPU_BOUND)
			finding(rec, "cpu_bound", FINDING_NOTE,
				"the %s's busiest thread used %.0f %% of its CPU: more threads (-T) may give more",
				figures_role(f, ends[i]), fmin(ends[i]->busiest_thread, 1) * 100);
}

/* What a run inside one host tells, and what it does not. */
static void judge_loopback(struct record *rec, const struct figures *f)
{
	const char *control = rec->local->facts ? host_facts_get(rec->local->facts,
							  "net_ipv4_tcp_congestion_control")
						: NULL;
	bool bbr = control && !strcmp(control, "bbr");

	(void)f;
	if (figures_is_loopback(rec))
		finding(rec, "loopback", FINDING_NOTE,
			"both ends are on one host: no NIC and no wire was measured, the ends take CPU time "
			"from each other%s%s",
			rec->local->counters ? ", and what the host counts is counted for both"
					     : "",
			bbr ? "; bbr paces here as well, so waits for the congestion window are its own"
			    : "");
}

/* An end that did not run explains all else that is odd about a run. */
static void judge_stalls(struct record *rec, const struct figures *f)
{
	const struct end_result *const ends[] = { f->client, f->server };

	for (int i = 0; i < 2; i++) {
		double stopped, starved;

		if (!ends[i] || !ends[i]->window_ns)
			continue;
		stopped = (double)ends[i]->stopped_ns / (double)ends[i]->window_ns;
		starved = (double)ends[i]->starved_ns / (double)ends[i]->window_ns;
		if (stopped > STOPPED_SAID)
			finding(rec, "stopped", FINDING_WARNING,
				"the %s's process was stopped for %.0f %% of the time: it neither ran nor "
				"waited for a CPU (a signal, a debugger, a frozen container)",
				figures_role(f, ends[i]), fmin(stopped, 1) * 100);
		if (starved > STARVED_SAID)
			finding(rec, "starved", FINDING_NOTE,
				"a thread of the %s waited for a CPU for %.0f %% of the time: something "
				"else runs there",
				figures_role(f, ends[i]), fmin(starved, 1) * 100);
	}
}

static void judge_limits(struct record *rec, const struct figures *f)
{
	for (int i = 0; i < f->part_count && rec->workload == WORKLOAD_STREAM; i++) {
		const struct figures_tcp *t = &f->part[i].tcp;
		enum tcp_limit most = tcp_limits_main(&t->limits);

		if (t->limits_known)
			finding(rec, "limited_by", FINDING_NOTE,
				"the %s was limited by the %s for %.0f %% of the time",
				figures_role(f, f->part[i].sender), tcp_limit_name(most),
				t->limits.share[most] * 100);
	}
}

static void judge_fairness(struct record *rec, const struct figures *f)
{
	for (int i = 0; i < f->part_count; i++) {
		const struct figures_part *p = &f->part[i];
		char slowest[UNITS_TEXT], fastest[UNITS_TEXT];

		if (p->flows >= 2 && p->fairness < UNFAIR)
			finding(rec, "unfair", FINDING_WARNING,
				"the %u flows shared unevenly: fairness %.2f (1 is even), the slowest %s, the fastest %s",
				p->flows, p->fairness,
				figures_rate_text(slowest, p->metric, p->slowest),
				figures_rate_text(fastest, p->metric, p->fastest));
	}
}

static void judge_zerocopy(struct record *rec, const struct figures *f)
{
	const struct end_result *const ends[] = { f->client, f->server };

	for (int i = 0; i < 2; i++) {
		uint64_t sent = 0, copied = 0;
		double share;

		for (uint32_t k = 0; ends[i] && k < ends[i]->flow_count; k++) {
			sent += ends[i]->flows[k].zerocopy_sent;
			copied += ends[i]->flows[k].zerocopy_copied;
		}
		share = sent ? (double)copied / (double)sent : 0;
		if (share > COPIED_SAID)
			finding(rec, "zerocopy_copied", FINDING_WARNING,
				"the %s's kernel copied %.0f %% of the zero-copy sends after all (%" PRIu64
				" of %" PRIu64 "), as it does on loopback",
				figures_role(f, ends[i]), share * 100, copied, sent);
	}
}

/* Pages can be mapped when the payload lies in whole ones: that is up to the NIC's header split, or
 * on loopback to the sender. */
static void judge_mapped(struct record *rec, const struct figures *f)
{
	const struct end_result *end = rec->local;
	uint64_t mapped = 0;
	double share;

	(void)f;
	if (!rec->options->rx_zerocopy || !end->counts.rx_bytes)
		return;
	for (uint32_t i = 0; i < end->flow_count; i++)
		mapped += end->flows[i].mapped_bytes;
	share = (double)mapped / (double)end->counts.rx_bytes;
	if (share < MAPPED_EXPECTED)
		finding(rec, "rx_zerocopy_copied", FINDING_WARNING,
			"%.0f %% of what was received was mapped, the rest copied: the payload does not "
			"lie in whole pages (a NIC needs header split, a sender on loopback -Z)",
			share * 100);
}

/* A device-memory run whose payload went through host memory is not what was asked for. */
static void judge_devmem(struct record *rec, const struct figures *f)
{
	const struct end_result *const ends[] = { f->client, f->server };

	for (int i = 0; i < 2; i++) {
		if (!ends[i] || ends[i]->rx_path != DEVICE_DEVMEM)
			continue;
		for (uint32_t k = 0; k < ends[i]->flow_count; k++) {
			const struct flow_result *flow = &ends[i]->flows[k];
			uint64_t host = flow->plain_bytes + flow->linear_bytes;

			if (!host)
				continue;
			finding(rec, "devmem_missed", FINDING_WARNING,
				"%.3g %% of flow %u landed in the %s's host memory: %s",
				100.0 * (double)host / (double)(host + flow->dmabuf_bytes),
				flow->id, figures_role(f, ends[i]), figures_missed(flow));
		}
	}
}

static void judge_payload(struct record *rec, const struct figures *f)
{
	const struct end_result *const ends[] = { f->client, f->server };

	for (int i = 0; i < 2; i++) {
		for (uint32_t k = 0; ends[i] && k < ends[i]->flow_count; k++) {
			const struct flow_result *flow = &ends[i]->flows[k];

			if (flow->wrong_calls)
				finding(rec, "wrong_payload", FINDING_FAILED,
					"flow %u brought the %s wrong bytes, the first at position %" PRIu64
					" of its stream, in %" PRIu64 " receives",
					flow->id, figures_role(f, ends[i]), flow->wrong_bytes_at,
					flow->wrong_calls);
		}
	}
}

static void judge_retransmits(struct record *rec, const struct figures *f)
{
	for (int i = 0; i < f->part_count; i++) {
		const struct figures_tcp *t = &f->part[i].tcp;
		const struct end_result *end =
			rec->workload == WORKLOAD_STREAM ? f->part[i].sender : f->part[i].end;

		if (t->known && t->retransmitted > RETRANSMITS_SAID)
			finding(rec, "retransmits", FINDING_WARNING,
				"the %s sent %.2g %% of its segments again (%" PRIu64 ")",
				figures_role(f, end), t->retransmitted * 100, t->retransmits);
	}
}

static void judge_samples(struct record *rec, const struct figures *f)
{
	const struct flow_options *o = rec->options;

	for (int i = 0; f->latency && i < o->percentile_count; i++) {
		if (hist_percentile_is_sound(f->latency->latency, o->percentile[i]))
			continue;
		finding(rec, "few_samples", FINDING_NOTE,
			"%" PRIu64 " samples do not tell p%g%s: ten must lie beyond a percentile",
			f->latency->latency->count, o->percentile[i],
			i + 1 < o->percentile_count ? " and above" : "");
		return;
	}
}

static void judge_rate(struct record *rec, const struct figures *f)
{
	const struct end_result *end = f->client;
	double asked = rec->options->rate, missing;

	if (!(asked > 0) || !end)
		return;
	missing = asked * (double)end->window_ns / 1e9 - (double)end->counts.transactions;
	/* One may be under way when the window ends. */
	if (missing < 2 || f->transactions_per_s >= RATE_REACHED * asked)
		return;
	finding(rec, "rate_missed", FINDING_INVALID,
		"asked for %.15g transactions/s, %.0f were done", asked, f->transactions_per_s);
}

static enum record_verdict verdict_of(const struct record *rec)
{
	enum record_severity worst = FINDING_NOTE;

	for (int i = 0; i < rec->finding_count; i++)
		if (rec->findings[i].severity > worst)
			worst = rec->findings[i].severity;
	return worst == FINDING_FAILED	  ? VERDICT_FAILED
	       : worst == FINDING_INVALID ? VERDICT_DOUBTFUL
					  : VERDICT_GOOD;
}

void record_judge(struct record *rec)
{
	/* The gravest first: that is the order in which they are printed. */
	static void (*const rules[])(struct record *, const struct figures *) = {
		judge_complete,
		judge_ceiling,
		judge_rate,
		judge_steady,
		judge_ends,
		judge_fairness,
		judge_retransmits,
		judge_zerocopy,
		judge_mapped,
		judge_devmem,
		judge_payload,
		judge_stalls,
		judge_loopback,
		judge_cpu,
		judge_limits,
		judge_samples,
	};
	struct figures f;

	figures_make(rec, &f);
	rec->finding_count = 0;
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		rules[i](rec, &f);
	rec->verdict = verdict_of(rec);
}
