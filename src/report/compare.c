// SPDX-License-Identifier: BSD-3-Clause
/* The figures, findings and settings of two runs side by side. */
#include "report/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "record/stats.h"

#define MAD_TO_SIGMA 1.4826
/* What a CPU that wakes later adds. */
#define RTT_NOISE_NS  100e3
#define CROWDED	      "waited for a CPU"
#define MOSTLY_SLEEPS 0.3 /* of a CPU, by the busiest thread */
#define ALIKE	      2.0 /* neighbours in time are: fewer intervals tell anything than there are */

const char *const compare_verdict_name[] = { "same", "better", "worse", "different" };

static int out_of_memory(struct err *e)
{
	return err_set(e, ENOMEM, "cannot compare: out of memory");
}

int compare_add(struct compare *c, const struct change *change, struct err *e)
{
	struct change *more;

	c->compared++;
	if (!(change->score >= COMPARE_NOISE))
		return 0;
	if (c->change_count == c->change_room) {
		more = realloc(c->change, (c->change_room * 2 + 32) * sizeof(*more));
		if (!more)
			return out_of_memory(e);
		c->change = more;
		c->change_room = c->change_room * 2 + 32;
	}
	c->change[c->change_count++] = *change;
	return 0;
}

/* The spread of a series around its median, as the error of its mean. 0 for none. */
static double series_noise(double *y, size_t n)
{
	double median, mad;

	if (n < 2)
		return 0;
	median = stats_median(y, n);
	for (size_t i = 0; i < n; i++)
		y[i] = fabs(y[i] - median);
	mad = stats_median(y, n);
	return ALIKE * MAD_TO_SIGMA * mad / sqrt((double)n);
}

typedef double interval_figure(const struct interval_result *iv);

static double interval_received(const struct interval_result *iv)
{
	return figures_interval_rate(METRIC_RECEIVED, iv);
}

static double interval_sent(const struct interval_result *iv)
{
	return figures_interval_rate(METRIC_SENT, iv);
}

static double interval_transactions(const struct interval_result *iv)
{
	return figures_interval_rate(METRIC_TRANSACTIONS, iv);
}

static double interval_rtt(const struct interval_result *iv)
{
	return iv->rtt_us * 1e3;
}

static double interval_p50(const struct interval_result *iv)
{
	return (double)iv->latency_p50_ns;
}

static double interval_p99(const struct interval_result *iv)
{
	return (double)iv->latency_p99_ns;
}

/* A figure of every interval; the caller frees it. NULL for none. */
static double *series_of(const struct end_result *end, interval_figure *figure)
{
	double *y;

	if (!end || !end->interval_count)
		return NULL;
	y = calloc(end->interval_count, sizeof(*y));
	for (uint32_t i = 0; y && i < end->interval_count; i++)
		y[i] = figure(&end->intervals[i]);
	return y;
}

static double noise_of(const struct end_result *end, interval_figure *figure)
{
	double *y = series_of(end, figure), noise;

	noise = y && end ? series_noise(y, end->interval_count) : 0;
	free(y);
	return noise;
}

/* Round-trip time hangs on who happens to have the CPU: the median of the intervals, and as noise their
 * whole spread. NAN where there is none. */
static double rtt_of(const struct end_result *end, double *noise)
{
	double *y = series_of(end, interval_rtt), median;

	*noise = 0;
	if (!y)
		return NAN;
	median = stats_median(y, end->interval_count);
	*noise = series_noise(y, end->interval_count) * sqrt((double)end->interval_count) / ALIKE;
	free(y);
	return median;
}

struct figure {
	const char *name, *whose;
	enum compare_unit unit;
	enum compare_sense sense;
	double floor;	       /* of the noise: a share of the larger value */
	double floor_absolute; /* or in the unit itself */
};

static struct change change_of(const struct figure *f, double before, double after, double noise)
{
	struct change change = { .unit = (uint8_t)f->unit,
		.sense = (uint8_t)f->sense,
		.before = before,
		.after = after };

	snprintf(change.name, sizeof(change.name), "%s", f->name);
	snprintf(change.whose, sizeof(change.whose), "%s", f->whose);
	change.noise =
		fmax(fmax(noise, f->floor_absolute), f->floor * fmax(fabs(before), fabs(after)));
	change.score = change.noise > 0 ? fabs(after - before) / change.noise : 0;
	return change;
}

/* A figure that both have. */
static int add_figure(struct compare *c, const struct figure *f, double before, double after,
	double noise_before, double noise_after, struct err *e)
{
	struct change change;

	if (!isfinite(before) || !isfinite(after))
		return 0;
	change = change_of(f, before, after, hypot(noise_before, noise_after));
	return compare_add(c, &change, e);
}

static double share_of(uint64_t ns, const struct end_result *end)
{
	return end->window_ns ? fmin((double)ns / (double)end->window_ns, 1) : NAN;
}

/* A thread that waited for a CPU did less for no fault of the network: a change that is no larger than the share
 * of time that it waited is not told. */
static double crowded(const struct end_result *a, const struct end_result *b, double value)
{
	double before = a ? share_of(a->starved_ns, a) : 0,
	       after = b ? share_of(b->starved_ns, b) : 0;

	return fmax(before, after) * fabs(value) / COMPARE_NOISE;
}

static double ns_per_unit(const struct end_result *end, bool stream)
{
	double amount = stream ? (double)end->counts.rx_bytes + (double)end->counts.tx_bytes
			       : (double)end->counts.transactions;

	return amount > 0 ? (double)(end->user_ns + end->system_ns) / amount : NAN;
}

static int add_ends(struct compare *c, const struct figures *a, const struct figures *b,
	bool stream, struct err *e)
{
	const struct end_result *const before[] = { a->client, a->server };
	const struct end_result *const after[] = { b->client, b->server };
	int ret = 0;

	for (int i = 0; i < 2 && !ret; i++) {
		const char *whose = i ? "server" : "client";

		if (!before[i] || !after[i])
			continue;
		/* An end that mostly sleeps pays for waking up, and that hangs on who else runs. */
		bool sleeps =
			fmin(before[i]->busiest_thread, after[i]->busiest_thread) < MOSTLY_SLEEPS;

		ret = add_figure(c,
			&(struct figure){ stream ? "cpu per byte" : "cpu per transaction", whose,
				COMPARE_NS, SENSE_LESS_IS_BETTER, sleeps ? 0.15 : 0.05, 0 },
			ns_per_unit(before[i], stream), ns_per_unit(after[i], stream),
			crowded(before[i], after[i], ns_per_unit(before[i], stream)), 0, e);
		if (!ret)
			ret = add_figure(c,
				&(struct figure){ "busiest thread", whose, COMPARE_SHARE,
					SENSE_NONE, 0, 0.05 },
				before[i]->busiest_thread, after[i]->busiest_thread, 0, 0, e);
		if (!ret)
			ret = add_figure(c,
				&(struct figure){ "stopped", whose, COMPARE_SHARE,
					SENSE_LESS_IS_BETTER, 0, 0.02 },
				share_of(before[i]->stopped_ns, before[i]),
				share_of(after[i]->stopped_ns, after[i]), 0, 0, e);
		if (!ret)
			ret = add_figure(c,
				&(struct figure){
					CROWDED, whose, COMPARE_SHARE, SENSE_NONE, 0, 0.07 },
				share_of(before[i]->starved_ns, before[i]),
				share_of(after[i]->starved_ns, after[i]), 0, 0, e);
	}
	return ret;
}

/* Segments sent again, marked or out of order are rare events: their noise is that of counting. */
static int add_rare(struct compare *c, const char *name, const char *whose, double before,
	double after, double segments_before, double segments_after, struct err *e)
{
	if (!(segments_before > 0) || !(segments_after > 0))
		return 0;
	/* Losses come in bursts: ten times what counting alone would give. */
	return add_figure(c,
		&(struct figure){ name, whose, COMPARE_SHARE, SENSE_LESS_IS_BETTER, 0.1, 0.0002 },
		before / segments_before, after / segments_after,
		3 * sqrt(before) / segments_before, 3 * sqrt(after) / segments_after, e);
}

struct rare {
	double segments, retransmits, marked, out_of_order;
};

static struct rare rare_of(const struct end_result *sender, const struct end_result *receiver)
{
	struct rare r = { 0 };

	for (uint32_t i = 0; sender && i < sender->flow_count; i++) {
		const struct flow_result *flow = &sender->flows[i];

		if (!flow->tcp.mss_bytes)
			continue;
		r.segments += fmax((double)flow->counts.tx_bytes / flow->tcp.mss_bytes,
			(double)flow->counts.transactions);
		r.retransmits += flow->tcp.retransmits;
		r.marked += (double)flow->tcp.delivered_ce;
	}
	for (uint32_t i = 0; receiver && i < receiver->flow_count; i++)
		r.out_of_order += (double)receiver->flows[i].tcp.received_out_of_order;
	return r;
}

static int add_tcp(struct compare *c, const struct figures_part *a, const struct figures_part *b,
	const char *whose, struct err *e)
{
	struct rare x = rare_of(a->sender, a->receiver), y = rare_of(b->sender, b->receiver);
	int ret;

	ret = add_rare(
		c, "retransmitted", whose, x.retransmits, y.retransmits, x.segments, y.segments, e);
	if (!ret)
		ret = add_rare(c, "out of order", whose, x.out_of_order, y.out_of_order, x.segments,
			y.segments, e);
	if (!ret)
		ret = add_rare(
			c, "ECN marked", whose, x.marked, y.marked, x.segments, y.segments, e);
	if (!ret && a->tcp.known && b->tcp.known) {
		double noise[2],
			rtt[2] = { rtt_of(a->sender, &noise[0]), rtt_of(b->sender, &noise[1]) };

		ret = add_figure(c,
			&(struct figure){ "round-trip time", whose, COMPARE_NS,
				SENSE_LESS_IS_BETTER, 0.15, RTT_NOISE_NS },
			rtt[0], rtt[1], noise[0], noise[1], e);
		if (!ret)
			ret = add_figure(c,
				&(struct figure){ "least round-trip time", whose, COMPARE_NS,
					SENSE_LESS_IS_BETTER, 0.15, RTT_NOISE_NS / 2 },
				a->tcp.min_rtt_us * 1e3, b->tcp.min_rtt_us * 1e3, 0, 0, e);
	}
	for (int i = 0; i < TCP_LIMITS && !ret && a->tcp.limits_known && b->tcp.limits_known; i++) {
		char name[64];

		snprintf(name, sizeof(name), "waited for: %s", tcp_limit_name((enum tcp_limit)i));
		ret = add_figure(c,
			&(struct figure){ name, whose, COMPARE_SHARE, SENSE_NONE, 0, 0.07 },
			a->tcp.limits.share[i], b->tcp.limits.share[i],
			crowded(a->sender, b->sender, 1), crowded(a->receiver, b->receiver, 1), e);
	}
	return ret;
}

static void keep_headline(struct compare *c, const struct change *change)
{
	/* Of two directions the one that changed more. */
	if (c->headline && c->headline_change.score >= change->score)
		return;
	c->headline_change = *change;
	c->headline = &c->headline_change;
}

static int add_part(struct compare *c, const struct figures_part *a, const struct figures_part *b,
	bool stream, struct err *e)
{
	const char *whose = !stream ? "" : a->to_server ? "client to server" : "server to client";
	struct change change;
	int ret = 0;

	if (stream) {
		bool received = isfinite(a->received_bps) && isfinite(b->received_bps);
		struct figure f = { "throughput", whose, COMPARE_BPS, SENSE_MORE_IS_BETTER, 0.01,
			0 };

		change = change_of(&f, received ? a->received_bps : a->sent_bps,
			received ? b->received_bps : b->sent_bps,
			hypot(noise_of(a->end, received ? interval_received : interval_sent),
				noise_of(b->end, received ? interval_received : interval_sent)));
	} else {
		struct figure f = { "transactions", "", COMPARE_PER_S, SENSE_MORE_IS_BETTER, 0.01,
			0 };

		change = change_of(&f, a->end ? result_transactions_per_s(a->end) : NAN,
			b->end ? result_transactions_per_s(b->end) : NAN,
			hypot(noise_of(a->end, interval_transactions),
				noise_of(b->end, interval_transactions)));
	}
	change.noise = fmax(change.noise, crowded(a->sender, b->sender, change.before));
	change.noise = fmax(change.noise, crowded(a->receiver, b->receiver, change.before));
	change.score = change.noise > 0 ? fabs(change.after - change.before) / change.noise : 0;
	if (isfinite(change.before) && isfinite(change.after)) {
		keep_headline(c, &change);
		ret = compare_add(c, &change, e);
	}
	if (!ret)
		ret = add_tcp(c, a, b, whose, e);
	if (!ret)
		ret = add_figure(c,
			&(struct figure){
				"fairness", whose, COMPARE_PLAIN, SENSE_MORE_IS_BETTER, 0, 0.04 },
			a->fairness, b->fairness, 0, 0, e);
	return ret;
}

static int add_latency(
	struct compare *c, const struct figures *a, const struct figures *b, struct err *e)
{
	static const double percents[] = { 50, 99 };
	interval_figure *const figure[] = { interval_p50, interval_p99 };
	int ret = 0;

	for (int i = 0; i < 2 && !ret && a->latency && b->latency; i++) {
		const struct hist *x = a->latency->latency, *y = b->latency->latency;
		char name[32];

		if (!hist_percentile_is_sound(x, percents[i]) ||
			!hist_percentile_is_sound(y, percents[i]))
			continue;
		snprintf(name, sizeof(name), "latency p%g", percents[i]);
		ret = add_figure(c,
			&(struct figure){ name, "", COMPARE_NS, SENSE_LESS_IS_BETTER, 0.02, 500 },
			(double)hist_percentile(x, percents[i]),
			(double)hist_percentile(y, percents[i]), noise_of(a->latency, figure[i]),
			noise_of(b->latency, figure[i]), e);
	}
	return ret;
}

static int add_figures(struct compare *c, struct err *e)
{
	const struct record *a = &c->before->run.rec, *b = &c->after->run.rec;
	bool stream = a->workload == WORKLOAD_STREAM;
	struct figures x, y;
	int ret = 0;

	figures_make(a, &x);
	figures_make(b, &y);
	for (int i = 0; i < x.part_count && !ret; i++)
		for (int k = 0; k < y.part_count && !ret; k++)
			if (x.part[i].to_server == y.part[k].to_server)
				ret = add_part(c, &x.part[i], &y.part[k], stream, e);
	if (!ret)
		ret = add_latency(c, &x, &y, e);
	return ret ? ret : add_ends(c, &x, &y, stream, e);
}

/* Figures before counters, then by how telling; a trouble counter that appeared before one that grew. */
static int by_telling(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	if (x->counter != y->counter)
		return x->counter ? 1 : -1;
	if (x->score != y->score)
		return x->score > y->score ? -1 : 1;
	return strcmp(x->name, y->name);
}

static int by_setting(const void *a, const void *b)
{
	const struct setting *x = a, *y = b;

	if (x->telling != y->telling)
		return x->telling ? -1 : 1;
	return strcmp(x->whose, y->whose) ? -strcmp(x->whose, y->whose) : strcmp(x->name, y->name);
}

static enum compare_verdict judge(const struct compare *c)
{
	bool better = false, worse = false, other = false;

	for (uint32_t i = 0; i < c->finding_count; i++) {
		worse |= c->finding[i].appeared;
		better |= !c->finding[i].appeared;
	}
	/* What was asked for decides, where it changed. */
	if (c->headline && c->headline->score >= COMPARE_NOISE)
		return (c->headline->after > c->headline->before) ==
				       (c->headline->sense == SENSE_MORE_IS_BETTER)
			       ? COMPARE_BETTER
			       : COMPARE_WORSE;
	for (uint32_t i = 0; i < c->change_count && !c->change[i].counter; i++) {
		double up = c->change[i].after - c->change[i].before;

		if (c->change[i].sense == SENSE_NONE)
			continue;
		if ((up > 0) == (c->change[i].sense == SENSE_MORE_IS_BETTER))
			better = true;
		else
			worse = true;
	}
	/* How crowded a host was is no property of the runs; and beside the figures of a run its counters only explain:
	 * which CPU took the packets, say, differs every time. What a counter means by itself, findings tell. */
	for (uint32_t i = 0; i < c->change_count; i++)
		other |= strcmp(c->change[i].name, CROWDED) != 0 &&
			 !(c->headline && c->change[i].counter);
	if (worse != better)
		return worse ? COMPARE_WORSE : COMPARE_BETTER;
	return worse || other ? COMPARE_DIFFERENT : COMPARE_SAME;
}

static int check(const struct report *a, const struct report *b, struct err *e)
{
	if (!a->document != !b->document)
		return err_set(e, EINVAL,
			"one is a record of rails, GPUs or probes and the other is not: there is nothing to compare");
	if (a->has_run != b->has_run)
		return err_set(e, EINVAL,
			"one is a run and the other is not: there is nothing to compare");
	if (a->has_run && a->run.rec.workload != b->run.rec.workload)
		return err_set(e, EINVAL,
			"one is a run of %s, the other of %s: their figures do not compare",
			workload_name[a->run.rec.workload], workload_name[b->run.rec.workload]);
	return 0;
}

int compare_make(struct compare *c, const struct report *before, const struct report *after,
	const char *before_label, const char *after_label, struct err *e)
{
	int ret;

	*c = (struct compare){ .before = before, .after = after };
	snprintf(c->label[0], sizeof(c->label[0]), "%s", before_label);
	snprintf(c->label[1], sizeof(c->label[1]), "%s", after_label);
	ret = check(before, after, e);
	if (!ret && before->document)
		ret = compare_document(c, e);
	if (!ret && before->has_run)
		ret = add_figures(c, e);
	if (!ret)
		ret = compare_counters(c, e);
	if (!ret && before->has_run)
		ret = compare_settings(c, e);
	if (!ret)
		ret = compare_findings(c, e);
	if (!ret && before->has_run && !c->headline && !c->finding_count)
		ret = err_set(
			e, EINVAL, "they have no figure in common: neither went the other's way");
	if (ret) {
		compare_free(c);
		return ret;
	}
	if (c->change_count)
		qsort(c->change, c->change_count, sizeof(*c->change), by_telling);
	if (c->setting_count)
		qsort(c->setting, c->setting_count, sizeof(*c->setting), by_setting);
	c->verdict = judge(c);
	compare_explain(c);
	return 0;
}

void compare_free(struct compare *c)
{
	free(c->change);
	free(c->setting);
	free(c->finding);
	*c = (struct compare){ 0 };
}

const struct change *compare_find(const struct compare *c, const char *name, const char *whose)
{
	for (uint32_t i = 0; i < c->change_count; i++)
		if (!c->change[i].counter && !strcmp(c->change[i].name, name) &&
			(!whose || !strcmp(c->change[i].whose, whose)))
			return &c->change[i];
	return NULL;
}
