// SPDX-License-Identifier: BSD-3-Clause
/* weir stream, rr and crr: options in, one client or server run, records out. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "flow/endpoint.h"
#include "record/record.h"

struct traffic {
	enum workload workload;
	bool as_neper;
	struct flow_options options;
	struct opt_given given;
	struct out out;
	int status;
	bool reported;
};

static void on_alarm(int number)
{
	static const char words[] = "weir: --suicide-length is over\n";

	(void)number;
	_exit(write(STDERR_FILENO, words, sizeof(words) - 1) > 0 ? 255 : 254);
}

static int catch_signals(const struct flow_options *o, struct err *e)
{
	if (o->suicide_length) {
		signal(SIGALRM, on_alarm);
		alarm((unsigned int)o->suicide_length);
	}
	return stop_on_signals(e);
}

static void on_ready(void *context, const struct sock_addr *address)
{
	struct traffic *t = context;
	char text[SOCK_ADDR_TEXT];

	if (!t->options.client && t->out.mode == OUT_TEXT)
		log_info("listening on %s, data on port %d", sock_addr_text(address, true, text),
			(int)t->options.port);
}

static void on_started(void *context, const struct run *run)
{
	struct traffic *t = context;

	(void)run;
	record_emit_event("start", NULL, NULL, &t->out);
}

/* "3.0 s of 10.0   18.32 Gbit/s", or transactions and latency */
static void show_progress(
	const struct traffic *t, const struct run *run, const struct interval_result *iv)
{
	double seconds = (double)(iv->end_ns - iv->begin_ns) / 1e9;
	double bytes = (double)(iv->rx_bytes > iv->tx_bytes ? iv->rx_bytes : iv->tx_bytes);
	char rate[UNITS_TEXT], p50[UNITS_TEXT], p99[UNITS_TEXT], line[160];
	int n;

	if (t->options.quiet || seconds <= 0)
		return;
	n = snprintf(line, sizeof(line), "%.1f s", (double)(iv->end_ns - run->warmup_ns) / 1e9);
	if (run->length_ns)
		n += snprintf(line + n, sizeof(line) - (size_t)n, " of %.1f",
			(double)run->length_ns / 1e9);
	if (t->workload == WORKLOAD_STREAM)
		snprintf(line + n, sizeof(line) - (size_t)n, "   %s   retransmits %" PRIu64,
			units_format_bits(rate, bytes * 8 / seconds), iv->retransmits);
	else
		snprintf(line + n, sizeof(line) - (size_t)n,
			"   %s transactions/s   p50 %s   p99 %s",
			units_format_count(rate, (double)iv->transactions / seconds),
			units_format_duration(p50, (double)iv->latency_p50_ns),
			units_format_duration(p99, (double)iv->latency_p99_ns));
	log_progress(line);
}

static void on_interval(void *context, const struct run *run, const struct interval_result *iv)
{
	struct traffic *t = context;

	if (t->out.mode == OUT_TEXT)
		show_progress(t, run, iv);
	record_emit_interval(iv, t->workload, NULL, &t->out);
}

static void on_iostat(void *context, const struct run *run, uint64_t since_start_ns,
	const struct flow_counts *now, const struct flow_counts *before, uint64_t elapsed_ns)
{
	struct traffic *t = context;
	double seconds = (double)elapsed_ns / 1e9;
	uint64_t tx = now->tx_bytes - before->tx_bytes, rx = now->rx_bytes - before->rx_bytes;

	(void)run;
	if (t->out.mode != OUT_KV)
		return;
	fprintf(t->out.file,
		"t=%.3f      TX: %6" PRIu64 " ops, %10" PRIu64 " bytes, %8.1f Mbps; RX: %6" PRIu64
		" ops, %10" PRIu64 " bytes, %8.1f Mbps;\n",
		(double)since_start_ns / 1e9, now->tx_calls - before->tx_calls, tx,
		(double)tx * 8e-6 / seconds, now->rx_calls - before->rx_calls, rx,
		(double)rx * 8e-6 / seconds);
	fflush(t->out.file);
}

/* Nobody is to measure for long and then hear that the result cannot be kept. */
static int try_files(const struct flow_options *o, struct err *e)
{
	int ret;

	if (o->dry_run)
		return 0;
	ret = file_try(o->out, "out", e);
	if (!ret)
		ret = file_try(o->all_samples, "all-samples", e);
	if (!ret && o->client)
		ret = file_try(o->log_rtt, "log-rtt", e);
	return ret;
}

static int write_files(const struct record *rec, const struct flow_options *o, struct err *e)
{
	int ret = 0;

	if (o->out)
		ret = record_write(rec, o->out, e);
	if (!ret && o->all_samples)
		ret = samples_write_csv(rec, o->all_samples, e);
	if (!ret && o->log_rtt && o->client)
		ret = samples_write_rtt(rec, o->log_rtt, e);
	return ret;
}

static void on_over(void *context, const struct outcome *outcome)
{
	struct traffic *t = context;
	struct record rec;
	struct err e = { 0 };
	int ret = 0;

	record_of(&rec, outcome);
	log_progress(NULL);
	record_judge(&rec);
	t->status = (int)rec.verdict;
	t->reported = true;
	if (t->out.mode == OUT_KV) {
		ret = neper_emit_results(&rec, &t->out, &e);
		/* neper has no word for doubt. */
		if (t->as_neper && rec.verdict == VERDICT_DOUBTFUL)
			t->status = STATUS_GOOD;
	} else {
		record_emit(&rec, &t->out);
	}
	if (!ret)
		ret = out_finish(&t->out, &e);
	if (!ret)
		ret = write_files(&rec, &t->options, &e);
	if (ret) {
		log_error_err(&e);
		t->status = STATUS_FAILED;
	}
}

/* What neper's users expect where they said nothing. */
static void default_as_neper(struct traffic *t)
{
	const struct opt_table *table = &flow_option_table[t->workload];
	struct flow_options *o = &t->options;

	o->once = true;
	if (!opt_was_given(table, &t->given, "format") && !o->json)
		o->format = FORMAT_KV;
	if (!opt_was_given(table, &t->given, "warmup"))
		o->warmup = 0;
	if (t->workload != WORKLOAD_STREAM && !opt_was_given(table, &t->given, "spin"))
		o->spin = 0;
	if (!opt_was_given(table, &t->given, "connect-timeout"))
		o->connect_timeout = 30;
}

/* Whole messages are sent with MSG_MORE up to their last part, so that there is nothing for Nagle
 * to save. */
static void default_as_weir(struct traffic *t)
{
	if (t->workload != WORKLOAD_STREAM &&
		!opt_was_given(&flow_option_table[t->workload], &t->given, "no-delay"))
		t->options.no_delay = true;
}

static int traffic_run(struct traffic *t, struct err *e)
{
	struct flow_options *o = &t->options;
	struct endpoint_events events = { .context = t,
		.ready = on_ready,
		.started = on_started,
		.interval = on_interval,
		.over = on_over,
		.iostat = on_iostat };
	int ret;

	ret = catch_signals(o, e);
	if (ret < 0)
		return ret;
	events.stop_fd = ret;
	if (o->client)
		ret = client_run(t->workload, o, &events, e);
	else
		ret = server_run(t->workload, o, &t->given, &events, e);
	log_progress(NULL);
	return ret;
}

int traffic_main(enum workload w, bool as_neper, int argc, char **argv)
{
	static const enum out_mode modes[] = {
		[FORMAT_TABLE] = OUT_TEXT, [FORMAT_JSON] = OUT_JSON, [FORMAT_KV] = OUT_KV
	};
	const struct opt_table *table = &flow_option_table[w];
	struct traffic t = { .workload = w, .as_neper = as_neper };
	struct err e = { 0 };
	char name[32];
	int ret;

	snprintf(name, sizeof(name), as_neper ? "tcp_%s" : "weir %s", workload_name[w]);
	log_set_program(name);
	ret = opt_parse(table, argc, argv, &t.options, &t.given, &e);
	if (!ret && as_neper)
		default_as_neper(&t);
	else if (!ret)
		default_as_weir(&t);
	if (!ret && !t.options.help && !t.options.version)
		ret = flow_options_check(&t.options, w, &t.given, &e);
	if (!ret && !t.options.help && !t.options.version)
		ret = try_files(&t.options, &e);
	if (ret) {
		log_error_err(&e);
		return as_neper ? STATUS_FAILED : STATUS_USAGE;
	}
	log_set_level(t.options.verbose || t.options.logtostderr ? LOG_LEVEL_DEBUG
		      : isatty(STDERR_FILENO)			 ? LOG_LEVEL_INFO
								 : LOG_LEVEL_WARN);
	out_init(&t.out, stdout, modes[t.options.format]);
	if (t.options.help) {
		out_init(&t.out, stdout, OUT_TEXT);
		opt_help(table, &t.out);
		return STATUS_GOOD;
	}
	if (t.options.version) {
		printf("weir %s\n", WEIR_VERSION);
		return STATUS_GOOD;
	}
	if (t.options.dry_run)
		out_init(&t.out, stdout, OUT_KV);
	if (t.out.mode == OUT_KV)
		neper_emit_before(&t.options, w, &t.out);
	if (!t.options.dry_run)
		ret = traffic_run(&t, &e);
	if (ret) {
		record_emit_event("error", e.what, NULL, &t.out);
		log_error_err(&e);
		t.status = STATUS_FAILED;
	}
	if (out_finish(&t.out, &e)) {
		log_error_err(&e);
		t.status = STATUS_FAILED;
	}
	return t.status;
}

int cmd_stream(int argc, char **argv)
{
	return traffic_main(WORKLOAD_STREAM, false, argc, argv);
}

int cmd_rr(int argc, char **argv)
{
	return traffic_main(WORKLOAD_RR, false, argc, argv);
}

int cmd_crr(int argc, char **argv)
{
	return traffic_main(WORKLOAD_CRR, false, argc, argv);
}
