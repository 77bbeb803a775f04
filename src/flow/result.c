// SPDX-License-Identifier: BSD-3-Clause
/* Results as text: a line of "kind name=value ..." for the whole, each interval, each flow, each
 * histogram and each fact of the host. One table per struct serves both directions; names that the
 * other end does not know are skipped. */
#include "flow/result.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "counters/result.h"
#include "flow/device.h"

#define FLOWS_MAX     100000u
#define INTERVALS_MAX 200000u

enum field_type { FIELD_BOOL, FIELD_I32, FIELD_U32, FIELD_U64, FIELD_F64 };

struct field {
	const char *name;
	enum field_type type;
	size_t offset;
};

#define END(type, member)                                                                          \
	{                                                                                          \
#member, FIELD_##type, offsetof(struct end_result, member)                         \
	}
#define INTERVAL(type, member)                                                                     \
	{                                                                                          \
#member, FIELD_##type, offsetof(struct interval_result, member)                    \
	}
#define FLOW(type, member)                                                                         \
	{                                                                                          \
#member, FIELD_##type, offsetof(struct flow_result, member)                        \
	}
#define TCP(type, member)                                                                          \
	{                                                                                          \
#member, FIELD_##type, offsetof(struct flow_result, tcp.member)                    \
	}
#define HIST(type, member)                                                                         \
	{                                                                                          \
#member, FIELD_##type, offsetof(struct hist_sparse, member)                        \
	}
#define COUNTS(structure, name)                                                                    \
	{                                                                                          \
#name, FIELD_U64, offsetof(struct structure, counts.name)                          \
	}

static const struct field end_fields[] = {
	END(BOOL, valid),
	END(BOOL, complete),
	END(BOOL, client),
	END(U64, warmup_ns),
	END(U64, window_ns),
	END(U32, threads),
	END(U32, memory),
	END(U32, rx_path),
	END(U32, tx_path),
	{ "tokens_peak", FIELD_U64, offsetof(struct end_result, device.tokens_peak) },
	{ "tokens_left", FIELD_U64, offsetof(struct end_result, device.tokens_left) },
	{ "pool_stalls", FIELD_U64, offsetof(struct end_result, device.pool_stalls) },
	END(U64, user_ns),
	END(U64, system_ns),
	END(F64, busiest_thread),
	END(U64, stopped_ns),
	END(U64, starved_ns),
	COUNTS(end_result, rx_bytes),
	COUNTS(end_result, tx_bytes),
	COUNTS(end_result, rx_calls),
	COUNTS(end_result, tx_calls),
	COUNTS(end_result, transactions),
	{ 0 },
};

static const struct field interval_fields[] = {
	INTERVAL(U64, begin_ns),
	INTERVAL(U64, end_ns),
	INTERVAL(U64, rx_bytes),
	INTERVAL(U64, tx_bytes),
	INTERVAL(U64, transactions),
	INTERVAL(U64, retransmits),
	INTERVAL(U32, rtt_us),
	INTERVAL(U64, latency_p50_ns),
	INTERVAL(U64, latency_p99_ns),
	INTERVAL(U64, latency_max_ns),
	{ 0 },
};

static const struct field flow_fields[] = {
	FLOW(U32, id),
	FLOW(U32, thread),
	FLOW(I32, error),
	COUNTS(flow_result, rx_bytes),
	COUNTS(flow_result, tx_bytes),
	COUNTS(flow_result, rx_calls),
	COUNTS(flow_result, tx_calls),
	COUNTS(flow_result, transactions),
	FLOW(U32, zerocopy_sent),
	FLOW(U32, zerocopy_copied),
	FLOW(U64, mapped_bytes),
	FLOW(U64, dmabuf_bytes),
	FLOW(U64, linear_bytes),
	FLOW(U64, plain_bytes),
	FLOW(U64, fragments),
	FLOW(U32, unsplit),
	FLOW(U64, wrong_calls),
	FLOW(U64, wrong_bytes_at),
	TCP(U32, rtt_us),
	TCP(U32, rttvar_us),
	TCP(U32, min_rtt_us),
	TCP(U32, cwnd_segments),
	TCP(U32, mss_bytes),
	TCP(U32, reordering),
	TCP(U32, retransmits),
	TCP(U64, retransmitted_bytes),
	TCP(U64, delivered),
	TCP(U64, delivered_ce),
	TCP(U64, received_out_of_order),
	TCP(U64, delivery_bytes_per_s),
	TCP(U64, pacing_bytes_per_s),
	TCP(U64, max_pacing_bytes_per_s),
	TCP(U64, busy_us),
	TCP(U64, receive_window_limited_us),
	TCP(U64, send_buffer_limited_us),
	{ "limit_application", FIELD_F64,
		offsetof(struct flow_result, limits.share[TCP_LIMIT_APPLICATION]) },
	{ "limit_receive_window", FIELD_F64,
		offsetof(struct flow_result, limits.share[TCP_LIMIT_RECEIVE_WINDOW]) },
	{ "limit_send_buffer", FIELD_F64,
		offsetof(struct flow_result, limits.share[TCP_LIMIT_SEND_BUFFER]) },
	{ "limit_congestion", FIELD_F64,
		offsetof(struct flow_result, limits.share[TCP_LIMIT_CONGESTION]) },
	{ "limit_pacing", FIELD_F64, offsetof(struct flow_result, limits.share[TCP_LIMIT_PACING]) },
	{ 0 },
};

static const struct field hist_fields[] = {
	HIST(U64, count),
	HIST(U64, min_ns),
	HIST(U64, max_ns),
	HIST(F64, sum_ns),
	HIST(F64, sum_squares),
	{ 0 },
};

/* Lines of their own: "name words to the end of the line". */
#define TEXT(name, member)                                                                         \
	{                                                                                          \
		name, offsetof(struct end_result, member),                                         \
			sizeof(((struct end_result *)0)->member)                                   \
	}
static const struct text_field {
	const char *name;
	size_t offset, size;
} text_fields[] = {
	TEXT("error", error),
	TEXT("nic", device.nic),
	TEXT("queues", device.queues),
	TEXT("rx_reason", device.rx_reason),
	TEXT("tx_reason", device.tx_reason),
};
#define TEXT_FIELDS (sizeof(text_fields) / sizeof(text_fields[0]))

double result_rx_bps(const struct end_result *r)
{
	return r->window_ns ? (double)r->counts.rx_bytes * 8e9 / (double)r->window_ns : 0;
}

double result_tx_bps(const struct end_result *r)
{
	return r->window_ns ? (double)r->counts.tx_bytes * 8e9 / (double)r->window_ns : 0;
}

double result_transactions_per_s(const struct end_result *r)
{
	return r->window_ns ? (double)r->counts.transactions * 1e9 / (double)r->window_ns : 0;
}

void result_free(struct end_result *r)
{
	free(r->latency);
	free(r->service);
	free(r->intervals);
	free(r->flows);
	free(r->facts);
	counters_result_free(r->counters);
	memset(r, 0, sizeof(*r));
}

static void encode_fields(FILE *f, const struct field *field, const void *from)
{
	for (; field->name; field++) {
		const char *at = (const char *)from + field->offset;

		fprintf(f, " %s=", field->name);
		switch (field->type) {
		case FIELD_BOOL:
			fprintf(f, "%d", *(const bool *)at);
			break;
		case FIELD_I32:
			fprintf(f, "%d", *(const int *)at);
			break;
		case FIELD_U32:
			fprintf(f, "%u", *(const uint32_t *)at);
			break;
		case FIELD_U64:
			fprintf(f, "%" PRIu64, *(const uint64_t *)at);
			break;
		case FIELD_F64:
			fprintf(f, "%.17g", *(const double *)at);
			break;
		}
	}
}

static int encode_hist(FILE *f, const char *kind, const struct hist *h)
{
	struct hist_sparse *sparse = hist_compact(h);

	if (!sparse)
		return -ENOMEM;
	fprintf(f, "%s", kind);
	encode_fields(f, hist_fields, sparse);
	fprintf(f, " cells=");
	for (uint32_t i = 0; i < sparse->filled; i++)
		fprintf(f, "%u:%" PRIu64 ",", sparse->cell[i].bucket, sparse->cell[i].count);
	fputc('\n', f);
	free(sparse);
	return 0;
}

char *result_encode(const struct end_result *r, size_t *length, struct err *e)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, length);
	int ret = 0;

	if (!f)
		goto no_memory;
	fprintf(f, "end");
	encode_fields(f, end_fields, r);
	fprintf(f, "\n");
	for (size_t i = 0; i < TEXT_FIELDS; i++) {
		const char *words = (const char *)r + text_fields[i].offset;

		if (words[0])
			fprintf(f, "%s %s\n", text_fields[i].name, words);
	}
	for (uint32_t i = 0; i < r->interval_count; i++) {
		fprintf(f, "interval");
		encode_fields(f, interval_fields, &r->intervals[i]);
		fputc('\n', f);
	}
	for (uint32_t i = 0; i < r->flow_count; i++) {
		fprintf(f, "flow");
		encode_fields(f, flow_fields, &r->flows[i]);
		fputc('\n', f);
	}
	if (r->latency)
		ret = encode_hist(f, "latency", r->latency);
	if (!ret && r->service)
		ret = encode_hist(f, "service", r->service);
	for (size_t i = 0; r->facts && i < r->facts->count; i++)
		fprintf(f, "fact %s %s\n", r->facts->fact[i].name, r->facts->fact[i].value);
	if (r->counters)
		counters_result_encode(r->counters, f);
	if (fclose(f) || ret)
		goto no_memory;
	return text;

no_memory:
	free(text);
	err_set(e, ENOMEM, "no memory to send the results");
	return NULL;
}

static void decode_value(const struct field *field, void *into, const char *value)
{
	char *at = (char *)into + field->offset;
	double number;

	switch (field->type) {
	case FIELD_BOOL:
		*(bool *)at = value[0] == '1';
		break;
	case FIELD_I32:
		*(int *)at = (int)strtol(value, NULL, 10);
		break;
	case FIELD_U32:
		*(uint32_t *)at = (uint32_t)strtoul(value, NULL, 10);
		break;
	case FIELD_U64:
		*(uint64_t *)at = strtoull(value, NULL, 10);
		break;
	case FIELD_F64:
		number = strtod(value, NULL);
		*(double *)at = isfinite(number) ? number : 0;
		break;
	}
}

/* "name=value name=value"; returns the value of "cells" when there is one. */
static char *decode_fields(char *text, const struct field *fields, void *into)
{
	char *word, *cells = NULL;

	while ((word = strsep(&text, " "))) {
		char *value = strchr(word, '=');

		if (!value)
			continue;
		*value++ = 0;
		if (!strcmp(word, "cells"))
			cells = value;
		for (const struct field *field = fields; field->name; field++)
			if (!strcmp(field->name, word))
				decode_value(field, into, value);
	}
	return cells;
}

static int decode_hist(struct hist **out, char *text, struct err *e)
{
	struct hist_sparse *sparse;
	char *cells, *cell;

	if (*out) /* said twice */
		return err_set(e, EPROTO, "the peer's results hold a histogram twice");
	*out = malloc(sizeof(**out));
	sparse = calloc(1, sizeof(*sparse) + (size_t)HIST_BUCKETS * sizeof(sparse->cell[0]));
	if (!*out || !sparse) {
		free(sparse);
		return err_set(e, ENOMEM, "no memory for the peer's results");
	}
	hist_init(*out);
	cells = decode_fields(text, hist_fields, sparse);
	while (cells && (cell = strsep(&cells, ",")) && *cell && sparse->filled < HIST_BUCKETS) {
		char *end;

		sparse->cell[sparse->filled].bucket = (uint32_t)strtoul(cell, &end, 10);
		if (*end == ':')
			sparse->cell[sparse->filled++].count = strtoull(end + 1, NULL, 10);
	}
	hist_merge_sparse(*out, sparse);
	free(sparse);
	return 0;
}

static int decode_fact(struct end_result *r, char *text, struct err *e)
{
	char *name = strsep(&text, " ");

	if (!r->facts)
		r->facts = calloc(1, sizeof(*r->facts));
	if (!r->facts)
		return err_set(e, ENOMEM, "no memory for the peer's facts");
	if (name && text)
		host_facts_add(r->facts, name, "%s", text); /* too many or too long: left out */
	return 0;
}

/* Of a line that is said twice the first holds. */
static void decode_text(struct end_result *r, const char *kind, const char *line)
{
	for (size_t i = 0; i < TEXT_FIELDS; i++) {
		char *into = (char *)r + text_fields[i].offset;

		if (strcmp(kind, text_fields[i].name) || into[0])
			continue;
		memcpy(into, line, strnlen(line, text_fields[i].size - 1));
		text_one_line(into);
	}
}

static int decode_other(struct end_result *r, const char *kind, char *line, struct err *e)
{
	int ret = counters_result_decode(&r->counters, kind, line, e);

	if (!ret)
		decode_text(r, kind, line);
	return ret < 0 ? ret : 0;
}

static uint32_t count_lines(const char *text, const char *kind, uint32_t most)
{
	size_t length = strlen(kind);
	uint32_t count = 0;

	while (text && count < most) {
		count += !strncmp(text, kind, length) && text[length] == ' ';
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	return count;
}

int result_decode(struct end_result *r, char *text, struct err *e)
{
	uint32_t intervals = count_lines(text, "interval", INTERVALS_MAX);
	uint32_t flows = count_lines(text, "flow", FLOWS_MAX);
	char *line, *kind;
	int ret = 0;

	memset(r, 0, sizeof(*r));
	r->intervals = calloc(intervals ? intervals : 1, sizeof(*r->intervals));
	r->flows = calloc(flows ? flows : 1, sizeof(*r->flows));
	if (!r->intervals || !r->flows)
		ret = err_set(e, ENOMEM, "no memory for the peer's results");
	while (!ret && (line = strsep(&text, "\n"))) {
		kind = strsep(&line, " ");
		if (!line)
			continue;
		if (!strcmp(kind, "end"))
			decode_fields(line, end_fields, r);
		else if (!strcmp(kind, "interval") && r->interval_count < intervals)
			decode_fields(line, interval_fields, &r->intervals[r->interval_count++]);
		else if (!strcmp(kind, "flow") && r->flow_count < flows)
			decode_fields(line, flow_fields, &r->flows[r->flow_count++]);
		else if (!strcmp(kind, "latency"))
			ret = decode_hist(&r->latency, line, e);
		else if (!strcmp(kind, "service"))
			ret = decode_hist(&r->service, line, e);
		else if (!strcmp(kind, "fact"))
			ret = decode_fact(r, line, e);
		else
			ret = decode_other(r, kind, line, e);
	}
	if (!ret)
		ret = counters_result_finish(r->counters, e);
	if (r->memory > MEMORY_CUDA || r->rx_path > DEVICE_STAGED || r->tx_path > DEVICE_STAGED)
		r->memory = r->rx_path = r->tx_path = 0;
	// NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): decode_hist() has filled it
	r->has_latency = r->latency && r->latency->count;
	r->valid = r->valid && r->window_ns;
	if (ret)
		result_free(r);
	return ret;
}
