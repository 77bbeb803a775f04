// SPDX-License-Identifier: BSD-3-Clause
/* What became of each rail, and what all of them come to. */
#include "record/rails.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/units.h"
#include "record/render.h"

#define SLOW_RAIL     0.8 /* of the rail in the middle */
#define TOGETHER_LATE 0.1 /* of the window that a rail may begin after the first */

void rails_record_clear(struct rails_record *rec)
{
	for (uint32_t i = 0; i < rec->rails->count; i++) {
		free(rec->entry[i].json);
		rec->entry[i] = (struct rails_entry){ .rail = &rec->rails->rail[i],
			.received_bps = NAN,
			.sent_bps = NAN,
			.rtt_us = NAN,
			.client_ns_per_byte = NAN,
			.server_ns_per_byte = NAN };
	}
	rec->started_wall_ns = 0;
}

int rails_record_init(struct rails_record *rec, const struct rails *rails, struct err *e)
{
	*rec = (struct rails_record){ .rails = rails };
	rec->entry = calloc(rails->count, sizeof(*rec->entry));
	if (!rec->entry)
		return err_set(e, ENOMEM, "no memory for %u rails", rails->count);
	rails_record_clear(rec);
	return 0;
}

void rails_record_free(struct rails_record *rec)
{
	for (uint32_t i = 0; rec->entry && i < rec->rails->count; i++)
		free(rec->entry[i].json);
	free(rec->entry);
	rec->entry = NULL;
}

/* One rail */

static double cost(const struct end_result *end)
{
	double bytes;

	if (!end)
		return NAN;
	bytes = (double)end->counts.rx_bytes + (double)end->counts.tx_bytes;
	return bytes > 0 ? (double)(end->user_ns + end->system_ns) / bytes : NAN;
}

static void take_limit(struct rails_entry *entry, const struct figures_tcp *tcp)
{
	enum tcp_limit most;

	if (!tcp->limits_known)
		return;
	most = tcp_limits_main(&tcp->limits);
	snprintf(entry->limited_by, sizeof(entry->limited_by), "%s %.0f %%", tcp_limit_name(most),
		tcp->limits.share[most] * 100);
}

static void take_figures(struct rails_entry *entry, const struct figures *f)
{
	const struct figures_part *first = &f->part[0];

	entry->received_bps = f->throughput_bps;
	entry->sent_bps = 0;
	for (int i = 0; i < f->part_count; i++) {
		entry->sent_bps += f->part[i].sent_bps;
		entry->retransmits += f->part[i].tcp.retransmits;
		entry->tcp_known |= f->part[i].tcp.known;
	}
	if (first->tcp.known)
		entry->rtt_us = first->tcp.rtt_us;
	take_limit(entry, &first->tcp);
	entry->client_ns_per_byte = cost(f->client);
	entry->server_ns_per_byte = cost(f->server);
	entry->flows = first->flows;
	if (first->end) {
		entry->window_s = (double)first->end->window_ns / 1e9;
		entry->warmup_s = (double)first->end->warmup_ns / 1e9;
	}
}

/* The gravest finding, and what is wrong with the device now. */
static void take_failure(struct rails_entry *entry, const struct record *rec)
{
	const char *text = "it failed";
	char trouble[64];

	if (rec->verdict != VERDICT_FAILED)
		return;
	for (int i = rec->finding_count - 1; i >= 0; i--)
		if (rec->findings[i].severity == FINDING_FAILED)
			text = rec->findings[i].text;
	rail_trouble(entry->rail, trouble);
	snprintf(entry->error, sizeof(entry->error), "%s%s%.560s", trouble, trouble[0] ? ": " : "",
		text);
}

static int take_json(struct rails_entry *entry, const struct record *rec, struct err *e)
{
	struct out o;
	size_t size;
	FILE *memory = open_memstream(&entry->json, &size);
	int ret;

	if (!memory)
		return err_set(e, errno, "no memory for the record of %s", entry->rail->nic.name);
	out_init(&o, memory, OUT_JSON);
	record_emit(rec, &o);
	ret = out_finish(&o, e);
	if (fclose(memory) && !ret)
		ret = err_set(e, ENOMEM, "no memory for the record of %s", entry->rail->nic.name);
	return ret;
}

int rails_record_over(struct rails_record *rec, const struct rail *r, const struct outcome *outcome,
	struct err *e)
{
	struct rails_entry *entry = &rec->entry[r->index];
	struct record one;
	struct figures f;

	record_of(&one, outcome);
	record_judge(&one);
	figures_make(&one, &f);
	entry->reported = true;
	entry->verdict = one.verdict;
	entry->measured = one.verdict != VERDICT_FAILED;
	entry->start_ns = outcome->run ? outcome->run->start_ns : 0;
	take_figures(entry, &f);
	take_failure(entry, &one);
	memcpy(entry->local_address, one.local_address, sizeof(entry->local_address));
	memcpy(entry->peer_address, one.peer_address, sizeof(entry->peer_address));
	memcpy(entry->findings, one.findings, sizeof(entry->findings));
	entry->finding_count = one.finding_count;
	if (!rec->started_wall_ns || outcome->started_wall_ns < rec->started_wall_ns)
		rec->started_wall_ns = outcome->started_wall_ns;
	return take_json(entry, &one, e);
}

void rails_record_failed(struct rails_record *rec, const struct rail *r, const struct err *why)
{
	struct rails_entry *entry = &rec->entry[r->index];

	entry->reported = true;
	entry->verdict = VERDICT_FAILED;
	snprintf(entry->error, sizeof(entry->error), "%s", why->what);
	snprintf(entry->hint, sizeof(entry->hint), "%s", why->hint);
	text_one_line(entry->error);
	text_one_line(entry->hint);
}

/* All of them */

__attribute__((format(printf, 4, 5))) static void finding(struct rails_record *rec,
	const char *name, enum record_severity severity, const char *format, ...)
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
	rec->finding_count++;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The slowest rail sets the pace of a collective operation over all of them. */
static void judge_slow(struct rails_record *rec)
{
	double rates[RAILS_MAX], middle;
	char slow[UNITS_TEXT], usual[UNITS_TEXT];
	uint32_t count = 0;

	for (uint32_t i = 0; i < rec->rails->count; i++)
		if (rec->entry[i].measured && !isnan(rec->entry[i].received_bps))
			rates[count++] = rec->entry[i].received_bps;
	if (count < 2)
		return;
	qsort(rates, count, sizeof(rates[0]), by_size);
	middle = rates[count / 2];
	for (uint32_t i = 0; i < rec->rails->count; i++) {
		const struct rails_entry *entry = &rec->entry[i];

		if (entry->measured && entry->received_bps < SLOW_RAIL * middle)
			finding(rec, "slow_rail", FINDING_WARNING,
				"%s carries %s, %.0f %% of the %s that is usual among the rails",
				entry->rail->nic.name, units_format_bits(slow, entry->received_bps),
				100 * entry->received_bps / middle,
				units_format_bits(usual, middle));
	}
}

static void judge_together(struct rails_record *rec)
{
	const struct rails_entry *first = NULL, *last = NULL;
	double late_s;

	for (uint32_t i = 0; i < rec->rails->count; i++) {
		const struct rails_entry *entry = &rec->entry[i];

		if (!entry->measured || !entry->start_ns)
			continue;
		if (!first || entry->start_ns < first->start_ns)
			first = entry;
		if (!last || entry->start_ns > last->start_ns)
			last = entry;
	}
	if (!first || first == last)
		return;
	late_s = (double)(last->start_ns - first->start_ns) / 1e9;
	if (late_s > TOGETHER_LATE * first->window_s)
		finding(rec, "not_together", FINDING_INVALID,
			"%s began %.3g s after %s: the total is not of one time",
			last->rail->nic.name, late_s, first->rail->nic.name);
}

void rails_record_judge(struct rails_record *rec)
{
	uint32_t failed = 0, doubtful = 0;

	rec->measured = 0;
	rec->retransmits = 0;
	rec->finding_count = 0;
	rec->received_bps = rec->sent_bps = 0;
	for (uint32_t i = 0; i < rec->rails->count; i++) {
		const struct rails_entry *entry = &rec->entry[i];

		failed += !entry->reported || entry->verdict == VERDICT_FAILED;
		doubtful += entry->verdict == VERDICT_DOUBTFUL;
		if (!entry->measured)
			continue;
		rec->measured++;
		rec->received_bps += entry->received_bps;
		rec->sent_bps += entry->sent_bps;
		rec->retransmits += entry->retransmits;
	}
	if (!rec->measured)
		rec->received_bps = rec->sent_bps = NAN;
	judge_together(rec);
	judge_slow(rec);
	for (int i = 0; i < rec->finding_count; i++)
		doubtful += rec->findings[i].severity == FINDING_INVALID;
	rec->verdict = failed ? VERDICT_FAILED : doubtful ? VERDICT_DOUBTFUL : VERDICT_GOOD;
}

/* Lines of scripts that were written for multi_neper; the total does not look like a device's. */
static void emit_neper(const struct rails_record *rec, struct out *o)
{
	for (uint32_t i = 0; i < rec->rails->count; i++) {
		const struct rails_entry *entry = &rec->entry[i];

		if (entry->measured && !isnan(entry->received_bps))
			fprintf(o->file, "[%s] Throughput (Mb/s): %.2f\n", entry->rail->nic.name,
				entry->received_bps / 1e6);
		else
			fprintf(o->file, "[%s] Throughput (Mb/s): NA\n", entry->rail->nic.name);
	}
	if (isnan(rec->received_bps))
		fprintf(o->file, "Total throughput (Mb/s): NA\n");
	else
		fprintf(o->file, "Total throughput (Mb/s): %.2f\n", rec->received_bps / 1e6);
}

void rails_record_emit(const struct rails_record *rec, struct out *o)
{
	if (o->mode == OUT_JSON)
		rails_emit_json(rec, o);
	else if (o->mode == OUT_KV)
		emit_neper(rec, o);
	else
		rails_emit_table(rec, o);
}

static int write_json(FILE *file, const void *from, struct err *e)
{
	struct out o;

	out_init(&o, file, OUT_JSON);
	rails_emit_json(from, &o);
	return out_finish(&o, e);
}

int rails_record_write(const struct rails_record *rec, const char *path, struct err *e)
{
	return file_replace(path, write_json, rec, e);
}
