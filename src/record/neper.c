// SPDX-License-Identifier: BSD-3-Clause
/* neper's key=value lines: its keys, their order and their formats, for programs that read them. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpus.h"
#include "record/render.h"

/* neper lists its options from the last registered to the first. */
static const char *const stream_head[] = { "mark", "no_cork", "async_connect", "enable_tcp_maerts",
	"split_bidir", "enable_write", "enable_read", "rx_zerocopy", "skip_rx_copy", "buffer_size",
	"delay", "throughput_opt", "zerocopy", "reuseaddr", "edge_trigger", "test_length", NULL };
static const char *const rr_head[] = { "noburst", "reuseaddr", "async_connect", "delay", "mark",
	"logrtt_entries_per_flow", "log_rtt", "buffer_size", "test_length", "percentiles",
	"response_size", "request_size", NULL };
static const char *const crr_head[] = { "async_connect", "mark", "logrtt_entries_per_flow",
	"log_rtt", "buffer_size", "test_length", "percentiles", "response_size", "request_size",
	NULL };
static const char *const tail[] = { "congestion_control", "no_delay", "tcp_tx_delay",
	"tcp_fastopen", "num_ports", "wait_start", "iostat_ms", "time_wait", "all_samples", "port",
	"control_port", "host", "local_hosts", "max_pacing_rate", "interval", "freebind",
	"nonblocking", "nolog", "logtostderr", "pin_cpu", "dry_run", "debug", "client", "ipv6",
	"ipv4", "stime_use_proc", "source_port", "suicide_length", "listen_backlog", "num_clients",
	"num_threads", "num_flows", "maxevents", "magic", NULL };

static void emit_percentiles(const struct flow_options *o, struct out *out)
{
	char text[PERCENTILES_MAX * 16] = "";
	size_t used = 0;

	for (int i = 0; i < o->percentile_count; i++)
		used += (size_t)snprintf(
			text + used, sizeof(text) - used, "%.9g,", o->percentile[i]);
	out_str(out, "percentiles", "%s", text);
}

/* Most options are printed as they are; for some neper prints what they come to. */
static void emit_option(
	const struct flow_options *o, enum workload w, const char *key, struct out *out)
{
	const struct opt *opt;
	char name[64];

	if (!strcmp(key, "percentiles")) {
		emit_percentiles(o, out);
		return;
	}
	if (!strcmp(key, "enable_read")) {
		out_bool(out, key, "%s", flow_options_reads(o, w));
		return;
	}
	if (!strcmp(key, "enable_write")) {
		out_bool(out, key, "%s", flow_options_writes(o, w));
		return;
	}
	if (!strcmp(key, "async_connect")) { /* crr cannot do otherwise */
		out_bool(out, key, "%s", o->async_connect || w == WORKLOAD_CRR);
		return;
	}
	snprintf(name, sizeof(name), "%s", key);
	for (char *c = name; *c; c++)
		if (*c == '_')
			*c = '-';
	opt = opt_find(&flow_option_table[w], name);
	if (opt)
		opt_emit(opt, o, key, out);
}

void neper_emit_before(const struct flow_options *o, enum workload w, struct out *out)
{
	static const char *const *const heads[] = {
		[WORKLOAD_STREAM] = stream_head,
		[WORKLOAD_RR] = rr_head,
		[WORKLOAD_CRR] = crr_head,
	};

	out_str(out, "VERSION", "%s", "weir-" WEIR_VERSION);
	for (const char *const *key = heads[w]; *key; key++)
		emit_option(o, w, *key, out);
	for (const char *const *key = tail; *key; key++)
		emit_option(o, w, *key, out);
	if (o->test_length < 0)
		out_f64(out, "total_transactions", "%.15g", -o->test_length);
	else
		out_f64(out, "total_run_time", "%.15g", o->test_length);
}

static void emit_clock(const char *key, uint64_t ns, struct out *out)
{
	char text[48];

	snprintf(text, sizeof(text), "%" PRIu64 ".%09" PRIu64, (uint64_t)(ns / NS_PER_S),
		(uint64_t)(ns % NS_PER_S));
	out_str(out, key, "%s", text);
}

static void emit_timeval(const char *key, struct timeval t, struct out *out)
{
	char text[48];

	snprintf(text, sizeof(text), "%ld.%06ld", (long)t.tv_sec, (long)t.tv_usec);
	out_str(out, key, "%s", text);
}

static void emit_usage(const struct rusage *a, const struct rusage *b, struct out *out)
{
	emit_timeval("utime_start", a->ru_utime, out);
	emit_timeval("utime_end", b->ru_utime, out);
	emit_timeval("stime_start", a->ru_stime, out);
	emit_timeval("stime_end", b->ru_stime, out);
	out_i64(out, "maxrss_start", "%" PRId64, a->ru_maxrss);
	out_i64(out, "maxrss_end", "%" PRId64, b->ru_maxrss);
	out_i64(out, "minflt_start", "%" PRId64, a->ru_minflt);
	out_i64(out, "minflt_end", "%" PRId64, b->ru_minflt);
	out_i64(out, "majflt_start", "%" PRId64, a->ru_majflt);
	out_i64(out, "majflt_end", "%" PRId64, b->ru_majflt);
	out_i64(out, "nvcsw_start", "%" PRId64, a->ru_nvcsw);
	out_i64(out, "nvcsw_end", "%" PRId64, b->ru_nvcsw);
	out_i64(out, "nivcsw_start", "%" PRId64, a->ru_nivcsw);
	out_i64(out, "nivcsw_end", "%" PRId64, b->ru_nivcsw);
}

static void emit_cores(struct out *out)
{
	struct cpus allowed;
	char text[1024];

	if (cpus_allowed(&allowed, NULL))
		return;
	out_i64(out, "allowed_core_num", "%" PRId64, allowed.count);
	out_str(out, "allowed_cores", "%s", cpus_format(&allowed, text, sizeof(text)));
}

static uint64_t logged_latencies(const struct run *r)
{
	uint64_t count = 0;

	for (uint32_t i = 0; r && i < r->lane_count; i++)
		for (const struct flow *f = r->lanes[i].flows; f; f = f->next)
			count += f->rtt_log ? f->rtt_count : 0;
	return count;
}

/* A server has no latencies; neper prints zeros there. */
static void emit_latency(const struct record *rec, struct out *out)
{
	const struct flow_options *o = rec->options;
	const struct hist *h = rec->local->has_latency ? rec->local->latency : NULL;
	char key[32];

	out_u64(out, "num_transactions", "%" PRIu64, rec->local->counts.transactions);
	if (o->log_rtt && o->client)
		out_u64(out, "rtt_transactions_logged", "%" PRIu64, logged_latencies(rec->run));
	out_f64(out, "latency_min", "%.9f", h ? (double)h->min_ns / 1e9 : 0);
	out_f64(out, "latency_max", "%.9f", h ? (double)h->max_ns / 1e9 : 0);
	out_f64(out, "latency_mean", "%.9f", h ? hist_mean_ns(h) / 1e9 : 0);
	out_f64(out, "latency_stddev", "%.9f", h ? hist_stddev_ns(h) / 1e9 : 0);
	for (int i = 0; i < o->percentile_count; i++) {
		snprintf(key, sizeof(key), "latency_p%g", o->percentile[i]);
		out_f64(out, key, "%.9f",
			h ? (double)hist_percentile(h, o->percentile[i]) / 1e9 : 0);
	}
}

/* Of a line through the first sample, as neper has it: not centred, so nearly always 1. */
static double correlation(const struct sample_row *rows, size_t count)
{
	double xx = 0, xy = 0, yy = 0;

	for (size_t i = 0; i < count; i++) {
		double x = (double)(rows[i].time_ns - rows[0].time_ns);
		double y = (double)(rows[i].running - rows[0].running);

		xx += x * x;
		xy += x * y;
		yy += y * y;
	}
	return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

static void emit_mapped(const struct record *rec, struct out *out)
{
	uint64_t mapped = 0, bytes = rec->local->counts.rx_bytes;

	for (uint32_t i = 0; i < rec->local->flow_count; i++)
		mapped += rec->local->flows[i].mapped_bytes;
	out_u64(out, "bytes_mmaped", "%" PRIu64, mapped);
	/* The sockets count from their begin, the run from its window's. */
	out_f64(out, "percent_mmaped", "%.0f",
		bytes ? fmin(100, floor((double)mapped * 100 / (double)bytes)) : 0);
}

static int emit_throughput(const struct record *rec, struct out *out, struct err *e)
{
	const char *option = rec->options->throughput_opt ? rec->options->throughput_opt : "Mb";
	double bytes_per_s = result_rx_bps(rec->local) / 8;
	struct units_rate unit;
	int ret;

	if (rec->workload != WORKLOAD_STREAM) {
		out_f64(out, "throughput", "%.2f", result_transactions_per_s(rec->local));
		return 0;
	}
	ret = units_rate_lookup(option, bytes_per_s, &unit, e);
	if (ret)
		return ret;
	out_f64(out, "throughput", "%.2f", bytes_per_s / unit.bytes_per_unit);
	out_str(out, "throughput_units", "%s", unit.name);
	if (rec->options->rx_zerocopy)
		emit_mapped(rec, out);
	return 0;
}

static int emit_series(const struct record *rec, struct out *out, struct err *e)
{
	struct sample_row *rows;
	size_t count;
	int ret;

	ret = samples_rows(rec, &rows, &count, e);
	if (ret)
		return ret;
	out_u64(out, "num_samples", "%" PRIu64, count);
	emit_clock("time_end", rec->local->end_ns, out);
	out_f64(out, "correlation_coefficient", "%.2f", correlation(rows, count));
	free(rows);
	return emit_throughput(rec, out, e);
}

/* What neper's last message carries: bits per second received, or transactions per second. */
static uint64_t rate_of(const struct record *rec, const struct end_result *end)
{
	double rate;

	if (!end)
		return 0;
	if (!end->valid)
		return end->rate;
	rate = rec->workload == WORKLOAD_STREAM ? result_rx_bps(end)
						: result_transactions_per_s(end);
	return rate < 1e18 ? (uint64_t)rate : 0; /* the peer may say anything */
}

int neper_emit_results(const struct record *rec, struct out *out, struct err *e)
{
	const struct flow_options *o = rec->options;
	/* neper's crr server keeps no statistics, and an end that only sends has none. */
	bool silent = (rec->workload == WORKLOAD_CRR && !o->client) ||
		      !flow_options_reads(o, rec->workload);
	int ret = 0;

	if (o->pin_cpu)
		emit_cores(out);
	out_i64(out, "invalid_secret_count", "%" PRId64, rec->invalid_secret_count);
	emit_clock("time_start", rec->local->begin_ns, out);
	emit_usage(&rec->local->usage_begin, &rec->local->usage_end, out);
	if (!silent && rec->workload != WORKLOAD_STREAM)
		emit_latency(rec, out);
	if (!silent)
		ret = emit_series(rec, out, e);
	out_u64(out, "local_throughput", "%" PRIu64, rate_of(rec, rec->local));
	out_u64(out, "remote_throughput", "%" PRIu64, rate_of(rec, rec->remote));
	return ret;
}
