// SPDX-License-Identifier: BSD-3-Clause
/* The record and the events as users see them; what the forms have in common. */
#include <string.h>

#include "base/clock.h"
#include "record/render.h"

static const struct {
	const char *key, *label;
	enum out_style style;
} severities[] = {
	[FINDING_NOTE] = { "note", "note", OUT_DIM },
	[FINDING_WARNING] = { "warning", "warning", OUT_WARN },
	[FINDING_INVALID] = { "invalid", "not valid", OUT_BAD },
	[FINDING_FAILED] = { "failed", "failed", OUT_BAD },
};

void findings_emit(
	const struct record_finding *findings, int count, const char *label, struct out *o)
{
	bool first = !label;

	out_array(o, "findings");
	for (int i = 0; i < count; i++) {
		const struct record_finding *f = &findings[i];

		/* The table has a line for it. */
		if (o->mode == OUT_TEXT && !strcmp(f->name, "limited_by"))
			continue;
		out_text(o, first ? "\n" : "");
		first = false;
		out_object(o, NULL);
		out_str(o, "name", NULL, f->name);
		out_str(o, "severity", NULL, severities[f->severity].key);
		out_style(o, severities[f->severity].style);
		out_text(o, "  %s: ", severities[f->severity].label);
		out_style(o, OUT_PLAIN);
		if (label)
			out_text(o, "%s: ", label);
		out_str(o, "text", "%s\n", f->text);
		out_end(o);
	}
	out_end(o);
}

void record_emit(const struct record *rec, struct out *o)
{
	struct figures f;

	figures_make(rec, &f);
	if (o->mode == OUT_JSON)
		json_emit(rec, &f, o);
	else
		table_emit(rec, &f, o);
}

void record_of(struct record *rec, const struct outcome *outcome)
{
	*rec = (struct record){
		.workload = outcome->workload,
		.options = outcome->options,
		.neper = outcome->neper,
		.started_wall_ns = outcome->started_wall_ns,
		.local = &outcome->local,
		.remote = &outcome->remote,
		.run = outcome->run,
		.ceiling_bps = outcome->ceiling_bps,
		.invalid_secret_count = outcome->invalid_secret_count,
	};
	sock_addr_text(&outcome->local_address, true, rec->local_address);
	sock_addr_text(&outcome->peer_address, true, rec->peer_address);
}

static void event_begin(const char *event, const char *rail, struct out *o)
{
	out_object(o, NULL);
	out_str(o, "schema", NULL, EVENT_SCHEMA);
	out_str(o, "event", NULL, event);
	out_u64(o, "time_ns", NULL, clock_wall_ns());
	if (rail)
		out_str(o, "rail", NULL, rail);
}

void record_emit_event(const char *event, const char *text, const char *rail, struct out *o)
{
	if (o->mode != OUT_JSON)
		return;
	event_begin(event, rail, o);
	if (text)
		out_str(o, "text", NULL, text);
	out_end(o);
}

void record_emit_interval(
	const struct interval_result *iv, enum workload w, const char *rail, struct out *o)
{
	if (o->mode != OUT_JSON)
		return;
	event_begin("interval", rail, o);
	out_u64(o, "begin_ns", NULL, iv->begin_ns);
	out_u64(o, "end_ns", NULL, iv->end_ns);
	out_f64(o, "rx_bps", NULL, figures_interval_rate(METRIC_RECEIVED, iv));
	out_f64(o, "tx_bps", NULL, figures_interval_rate(METRIC_SENT, iv));
	if (w != WORKLOAD_STREAM) {
		out_f64(o, "transactions_per_s", NULL,
			figures_interval_rate(METRIC_TRANSACTIONS, iv));
		out_u64(o, "latency_p50_ns", NULL, iv->latency_p50_ns);
		out_u64(o, "latency_p99_ns", NULL, iv->latency_p99_ns);
	}
	out_u64(o, "retransmits", NULL, iv->retransmits);
	out_u64(o, "rtt_us", NULL, iv->rtt_us);
	out_end(o);
}

static int write_record(FILE *file, const void *from, struct err *e)
{
	struct out o;

	out_init(&o, file, OUT_JSON);
	record_emit(from, &o);
	return out_finish(&o, e);
}

int record_write(const struct record *rec, const char *path, struct err *e)
{
	return file_replace(path, write_record, rec, e);
}
