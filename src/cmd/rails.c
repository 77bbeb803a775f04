// SPDX-License-Identifier: BSD-3-Clause
/* weir rails: many NICs in one run. Options in, rails planned and run, one record for all of them. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "flow/rails.h"
#include "record/rails.h"

struct command {
	struct rails_options options;
	struct rails *rails;
	struct rails_record record;
	struct out out;
	double rate_bps[RAILS_MAX]; /* of the latest interval, NAN: none yet */
	int status;
};

static void on_ready(void *context, const struct rail *r, const struct sock_addr *address)
{
	struct command *c = context;
	char text[SOCK_ADDR_TEXT];

	if (c->out.mode == OUT_TEXT)
		log_info("%s: listening on %s, data on ports %d to %d", r->nic.name,
			sock_addr_text(address, true, text), (int)r->port,
			(int)(r->port + c->options.flows - 1));
}

static void on_started(void *context, const struct rail *r, const struct run *run)
{
	struct command *c = context;

	(void)run;
	record_emit_event("start", NULL, r->nic.name, &c->out);
}

/* "3.0 s of 10.0   72.1 Gbit/s   eth1 18.3 Gbit/s  eth2 failed" */
static void show_progress(struct command *c, const struct run *run, uint64_t end_ns)
{
	char line[1024], rate[UNITS_TEXT];
	double total = 0;
	size_t n;

	for (uint32_t i = 0; i < c->rails->count; i++)
		total += isnan(c->rate_bps[i]) ? 0 : c->rate_bps[i];
	n = (size_t)snprintf(line, sizeof(line), "%.1f s of %.1f   %s  ",
		(double)(end_ns - run->warmup_ns) / 1e9, (double)run->length_ns / 1e9,
		units_format_bits(rate, total));
	for (uint32_t i = 0; i < c->rails->count && n < sizeof(line); i++) {
		const char *text = isnan(c->rate_bps[i])
					   ? c->record.entry[i].reported ? "failed" : "-"
					   : units_format_bits(rate, c->rate_bps[i]);

		n += (size_t)snprintf(
			line + n, sizeof(line) - n, " %s %s ", c->rails->rail[i].nic.name, text);
	}
	log_progress(line);
}

/* One line for all of them, when the first that is still there has news. */
static bool leads(const struct command *c, const struct rail *r)
{
	uint32_t first = 0;

	while (first < r->index && c->record.entry[first].reported)
		first++;
	return first == r->index;
}

static void on_interval(void *context, const struct rail *r, const struct run *run,
	const struct interval_result *iv)
{
	struct command *c = context;
	double seconds = (double)(iv->end_ns - iv->begin_ns) / 1e9;
	double bytes = (double)(iv->rx_bytes > iv->tx_bytes ? iv->rx_bytes : iv->tx_bytes);

	if (seconds > 0)
		c->rate_bps[r->index] = bytes * 8 / seconds;
	if (c->out.mode != OUT_JSON && !c->options.quiet && leads(c, r))
		show_progress(c, run, iv->end_ns);
	record_emit_interval(iv, WORKLOAD_STREAM, r->nic.name, &c->out);
}

/* Said at once: the others may go on for long. */
static void tell_failure(struct command *c, const struct rail *r, const char *why)
{
	c->rate_bps[r->index] = NAN;
	log_error("%s failed: %s", r->nic.name, why);
	record_emit_event("error", why, r->nic.name, &c->out);
}

static void on_trouble(void *context, const struct rail *r, const char *words)
{
	struct command *c = context;

	log_warn("%s", words);
	record_emit_event("trouble", words, r->nic.name, &c->out);
}

static void on_over(void *context, const struct rail *r, const struct outcome *outcome)
{
	struct command *c = context;
	const struct rails_entry *entry = &c->record.entry[r->index];
	struct err e = { 0 };

	if (rails_record_over(&c->record, r, outcome, &e)) {
		log_error_err(&e);
		rails_record_failed(&c->record, r, &e);
	} else if (!entry->measured) {
		tell_failure(c, r, entry->error);
	}
}

static void on_failed(void *context, const struct rail *r, const struct err *why)
{
	struct command *c = context;

	rails_record_failed(&c->record, r, why);
	tell_failure(c, r, c->record.entry[r->index].error);
}

static void rates_forget(struct command *c)
{
	for (uint32_t i = 0; i < RAILS_MAX; i++)
		c->rate_bps[i] = NAN;
}

static void on_round(void *context)
{
	struct command *c = context;
	struct err e = { 0 };
	int ret;

	log_progress(NULL);
	rails_record_judge(&c->record);
	c->status = (int)c->record.verdict;
	/* neper has no word for doubt. */
	if (c->options.as_neper && c->record.verdict == VERDICT_DOUBTFUL)
		c->status = STATUS_GOOD;
	rails_record_emit(&c->record, &c->out);
	ret = out_finish(&c->out, &e);
	if (!ret && c->options.out)
		ret = rails_record_write(&c->record, c->options.out, &e);
	if (ret) {
		log_error_err(&e);
		c->status = STATUS_FAILED;
	}
	rails_record_clear(&c->record);
	rates_forget(c);
}

static int command_run(struct command *c, struct err *e)
{
	struct rails_events events = { .context = c,
		.ready = on_ready,
		.started = on_started,
		.interval = on_interval,
		.trouble = on_trouble,
		.over = on_over,
		.failed = on_failed,
		.round = on_round };
	int ret;

	events.stop_fd = stop_on_signals(e);
	if (events.stop_fd < 0)
		return events.stop_fd;
	ret = rails_record_init(&c->record, c->rails, e);
	if (ret)
		return ret;
	rates_forget(c);
	ret = rails_run(c->rails, &events, e);
	log_progress(NULL);
	rails_record_free(&c->record);
	return ret;
}

/* The equivalent commands, one a line. multi_neper's form is that of its own log. */
static void show_commands(struct command *c)
{
	char command[RAIL_COMMAND], environment[RAIL_HOST];

	for (uint32_t i = 0; i < c->rails->count; i++) {
		const struct rail *r = &c->rails->rail[i];

		if (c->options.as_neper)
			rail_neper_command(c->rails, r, command);
		else
			rail_command(r, command);
		if (c->out.mode != OUT_JSON) {
			printf("%s%s\n", rail_environment(c->rails, r, environment), command);
			continue;
		}
		out_object(&c->out, NULL);
		out_str(&c->out, "device", NULL, r->nic.name);
		out_str(&c->out, "environment", NULL, rail_environment(c->rails, r, environment));
		out_str(&c->out, "command", NULL, command);
		out_end(&c->out);
	}
}

static void say_plan(const struct command *c)
{
	char cpus[256];

	for (uint32_t i = 0; i < c->rails->count; i++) {
		const struct rail *r = &c->rails->rail[i];

		log_debug("%s: host %s, NUMA node %d, CPUs %s%s%s%s%s", r->nic.name, r->host,
			topo_address(&r->nic.place)[0] ? r->nic.place.numa_node : -1,
			r->cpus.count ? cpus_format(&r->cpus, cpus, sizeof(cpus)) : "any",
			r->gpu[0] ? ", GPU " : "", r->gpu, r->gpu_distance ? " at distance " : "",
			r->gpu_distance ? r->gpu_distance : "");
	}
}

/* As basicConfig of a script is left alone, people at a terminal see what a server does. */
static enum log_level level_of(const struct rails_options *o)
{
	if (!o->as_neper && !o->verbose && !rails_options_given(o, "log"))
		return isatty(STDERR_FILENO) ? LOG_LEVEL_INFO : LOG_LEVEL_WARN;
	return rails_options_log_level(o);
}

int rails_main(bool as_neper, int argc, char **argv)
{
	struct command c = { .status = STATUS_GOOD };
	struct err e = { 0 };
	int ret;

	log_set_program(as_neper ? "multi_neper" : "weir rails");
	ret = rails_options_parse(&c.options, argc, argv, as_neper, &e);
	out_init(&c.out, stdout, c.options.json ? OUT_JSON : as_neper ? OUT_KV : OUT_TEXT);
	if (!ret && c.options.help) {
		out_init(&c.out, stdout, OUT_TEXT);
		opt_help(&rails_option_table, &c.out);
		return STATUS_GOOD;
	}
	if (!ret && c.options.version) {
		printf("weir %s\n", WEIR_VERSION);
		return STATUS_GOOD;
	}
	if (!ret && !c.options.dry_run)
		ret = file_try(c.options.out, "out", &e);
	if (!ret) {
		log_set_level(level_of(&c.options));
		ret = rails_plan(&c.rails, &c.options, &e);
	}
	if (ret) {
		log_error_err(&e);
		return as_neper ? STATUS_FAILED : STATUS_USAGE;
	}
	say_plan(&c);
	if (c.options.dry_run)
		show_commands(&c);
	else
		ret = command_run(&c, &e);
	if (ret) {
		log_error_err(&e);
		c.status = STATUS_FAILED;
	}
	if (out_finish(&c.out, &e)) {
		log_error_err(&e);
		c.status = STATUS_FAILED;
	}
	rails_free(c.rails);
	return c.status;
}

int cmd_rails(int argc, char **argv)
{
	return rails_main(false, argc, argv);
}
