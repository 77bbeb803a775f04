// SPDX-License-Identifier: BSD-3-Clause
#include "record/read_end.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "counters/json_in.h"
#include "flow/device.h"

#define ERRNO_MAX   133
#define SAMPLES_MAX (1ll << 53)

static int out_of_memory(struct json_in *in)
{
	if (!in->ret)
		in->ret = err_set(in->e, ENOMEM, "cannot read %s: out of memory", in->file);
	return in->ret;
}

/* Memory for as many as a list has; NULL for none and after a complaint. */
static void *make_list(struct json_in *in, const json_t *list, size_t size, uint32_t *count)
{
	size_t n = json_array_size(list);
	void *memory;

	*count = 0;
	if (in->ret || !n)
		return NULL;
	memory = n < UINT32_MAX ? calloc(n, size) : NULL;
	if (!memory) {
		out_of_memory(in);
		return NULL;
	}
	*count = (uint32_t)n;
	return memory;
}

static uint32_t u32(struct json_in *in, const json_t *from, const char *key)
{
	return (uint32_t)json_in_u64(in, from, key, UINT32_MAX);
}

static uint64_t u64(struct json_in *in, const json_t *from, const char *key)
{
	return json_in_u64(in, from, key, UINT64_MAX);
}

static uint64_t u64_or(
	struct json_in *in, const json_t *from, const char *key, uint64_t max, uint64_t none)
{
	return json_in_has(from, key) ? json_in_u64(in, from, key, max) : none;
}

void read_text(char *into, size_t size, const char *text)
{
	snprintf(into, size, "%s", text ? text : "");
	text_one_line(into);
}

static uint32_t read_name(
	struct json_in *in, const json_t *from, const char *key, const char *const *names)
{
	const char *name = json_in_str(in, from, key);

	for (uint32_t i = 0; name && i < 3; i++)
		if (!strcmp(name, names[i]))
			return i;
	json_in_wrong(in, key, "is not a word that is known here");
	return 0;
}

static void read_counts(struct json_in *in, const json_t *from, struct flow_counts *c)
{
	const json_t *counts = json_in_object(in, from, "counts");

	if (!counts) {
		json_in_wrong(in, "counts", "is null");
		return;
	}
	c->rx_bytes = u64(in, counts, "rx_bytes");
	c->tx_bytes = u64(in, counts, "tx_bytes");
	c->rx_calls = u64(in, counts, "rx_calls");
	c->tx_calls = u64(in, counts, "tx_calls");
	c->transactions = u64(in, counts, "transactions");
}

static void read_tcp(struct json_in *in, const json_t *tcp, struct tcp_state *t)
{
	t->rtt_us = u32(in, tcp, "rtt_us");
	t->rttvar_us = u32(in, tcp, "rttvar_us");
	t->min_rtt_us = (uint32_t)u64_or(in, tcp, "min_rtt_us", UINT32_MAX, UINT32_MAX);
	t->cwnd_segments = u32(in, tcp, "cwnd_segments");
	t->mss_bytes = u32(in, tcp, "mss_bytes");
	t->reordering = u32(in, tcp, "reordering_segments");
	t->retransmits = u32(in, tcp, "retransmits");
	t->retransmitted_bytes = u64(in, tcp, "retransmitted_bytes");
	t->delivered = u64(in, tcp, "delivered_segments");
	t->delivered_ce = u64(in, tcp, "delivered_ce_segments");
	t->received_out_of_order = u64(in, tcp, "received_out_of_order_segments");
	t->delivery_bytes_per_s = u64(in, tcp, "delivery_bytes_per_s");
	t->pacing_bytes_per_s = u64_or(in, tcp, "pacing_bytes_per_s", UINT64_MAX, UINT64_MAX);
	t->max_pacing_bytes_per_s =
		u64_or(in, tcp, "max_pacing_bytes_per_s", UINT64_MAX, UINT64_MAX);
	t->busy_us = u64(in, tcp, "busy_us");
	t->receive_window_limited_us = u64(in, tcp, "receive_window_limited_us");
	t->send_buffer_limited_us = u64(in, tcp, "send_buffer_limited_us");
}

static void read_limits(struct json_in *in, const json_t *from, struct tcp_limits *limits)
{
	for (int i = 0; i < TCP_LIMITS; i++) {
		limits->share[i] = json_in_f64(in, from, tcp_limit_key((enum tcp_limit)i));
		if (!isfinite(limits->share[i]))
			limits->share[i] = 0;
	}
}

/* The words come from strerror(), in C's own language. */
static int read_error(struct json_in *in, const json_t *from)
{
	const char *words = json_in_str(in, from, "error");

	if (!words)
		return 0;
	for (int code = 1; code <= ERRNO_MAX; code++)
		if (!strcmp(words, strerror(code)))
			return code;
	return EIO;
}

static void read_samples(struct json_in *in, const json_t *from, struct flow_result *flow)
{
	json_t *list = json_in_array(in, from, "samples"), *one;
	size_t i;

	flow->samples = make_list(in, list, sizeof(*flow->samples), &flow->sample_count);
	json_array_foreach(list, i, one) {
		struct flow_sample *s = &flow->samples[i];

		if (in->ret)
			return;
		s->time_ns = u64(in, one, "time_ns");
		s->counts.rx_bytes = u64(in, one, "rx_bytes");
		s->counts.tx_bytes = u64(in, one, "tx_bytes");
		s->counts.transactions = u64(in, one, "transactions");
		s->delivery_bytes_per_s = u64(in, one, "delivery_bytes_per_s");
		s->retransmits = u32(in, one, "retransmits");
		s->rtt_us = u32(in, one, "rtt_us");
		s->cwnd_segments = u32(in, one, "cwnd_segments");
	}
}

static void read_flow(struct json_in *in, const json_t *from, struct flow_result *flow)
{
	flow->id = u32(in, from, "id");
	flow->thread = u32(in, from, "thread");
	read_counts(in, from, &flow->counts);
	if (json_in_has(from, "tcp"))
		read_tcp(in, json_in_object(in, from, "tcp"), &flow->tcp);
	if (json_in_has(from, "limits"))
		read_limits(in, json_in_object(in, from, "limits"), &flow->limits);
	flow->zerocopy_sent = u32(in, from, "zerocopy_sent");
	flow->zerocopy_copied = u32(in, from, "zerocopy_copied");
	flow->mapped_bytes = u64(in, from, "mapped_bytes");
	flow->dmabuf_bytes = u64(in, from, "dmabuf_bytes");
	flow->linear_bytes = u64(in, from, "linear_bytes");
	flow->plain_bytes = u64(in, from, "plain_bytes");
	flow->fragments = u64(in, from, "fragments");
	flow->wrong_calls = u64(in, from, "wrong_calls");
	flow->wrong_bytes_at = u64_or(in, from, "wrong_bytes_at", UINT64_MAX, 0);
	flow->error = read_error(in, from);
	if (json_in_has(from, "samples"))
		read_samples(in, from, flow);
}

static void read_interval(struct json_in *in, const json_t *from, struct interval_result *iv)
{
	iv->begin_ns = u64(in, from, "begin_ns");
	iv->end_ns = u64(in, from, "end_ns");
	iv->rx_bytes = u64(in, from, "rx_bytes");
	iv->tx_bytes = u64(in, from, "tx_bytes");
	iv->transactions = u64(in, from, "transactions");
	iv->retransmits = u64(in, from, "retransmits");
	iv->rtt_us = u32(in, from, "rtt_us");
	iv->latency_p50_ns = u64(in, from, "latency_p50_ns");
	iv->latency_p99_ns = u64(in, from, "latency_p99_ns");
	iv->latency_max_ns = u64(in, from, "latency_max_ns");
}

/* More facts than there is room for are those of a newer weir: passed over. */
static void read_facts(struct json_in *in, const json_t *from, struct end_result *end)
{
	json_t *facts = json_in_object(in, from, "facts"), *value;
	char clean[HOST_NAME_SIZE];
	const char *name;

	if (!facts || !json_object_size(facts))
		return;
	end->facts = calloc(1, sizeof(*end->facts));
	if (!end->facts) {
		out_of_memory(in);
		return;
	}
	json_object_foreach(facts, name, value) {
		read_text(clean, sizeof(clean), name);
		if (!json_is_string(value))
			json_in_wrong(in, clean, "is a fact that is not a string");
		else if (strlen(name) < HOST_NAME_SIZE)
			host_facts_add(end->facts, clean, "%s", json_string_value(value));
	}
}

static void read_lists(
	struct json_in *in, const json_t *from, const char *name, struct end_result *end)
{
	json_t *list = json_in_array(in, from, "intervals"), *one;
	size_t i;

	end->intervals = make_list(in, list, sizeof(*end->intervals), &end->interval_count);
	json_array_foreach(list, i, one) {
		if (in->ret)
			return;
		json_in_at(in, "%s.intervals[%zu]", name, i);
		read_interval(in, one, &end->intervals[i]);
	}
	json_in_at(in, "%s", name);
	list = json_in_array(in, from, "flows");
	end->flows = make_list(in, list, sizeof(*end->flows), &end->flow_count);
	json_array_foreach(list, i, one) {
		if (in->ret)
			return;
		json_in_at(in, "%s.flows[%zu]", name, i);
		read_flow(in, one, &end->flows[i]);
	}
	json_in_at(in, "%s", name);
}

void read_end(struct json_in *in, const json_t *from, const char *name, struct end_result *end)
{
	const json_t *cpu;
	double busiest;

	json_in_at(in, "%s", name);
	end->complete = json_in_bool(in, from, "complete");
	end->threads = u32(in, from, "threads");
	end->memory = read_name(in, from, "memory", device_memory_name);
	end->rx_path = read_name(in, from, "rx_path", device_path_name);
	end->tx_path = read_name(in, from, "tx_path", device_path_name);
	end->warmup_ns = u64(in, from, "warmup_ns");
	end->window_ns = u64(in, from, "window_ns");
	end->valid = end->window_ns > 0;
	read_counts(in, from, &end->counts);
	cpu = json_in_object(in, from, "cpu");
	end->user_ns = u64(in, cpu, "user_ns");
	end->system_ns = u64(in, cpu, "system_ns");
	busiest = json_in_f64(in, cpu, "busiest_thread_share");
	end->busiest_thread = isfinite(busiest) ? busiest : 0;
	if (json_in_has(cpu, "stopped_ns"))
		end->stopped_ns = u64(in, cpu, "stopped_ns");
	if (json_in_has(cpu, "starved_ns"))
		end->starved_ns = u64(in, cpu, "starved_ns");
	read_lists(in, from, name, end);
	read_facts(in, from, end);
	read_text(end->error, sizeof(end->error), json_in_str(in, from, "error"));
	if (!in->ret && json_in_has(from, "counters"))
		in->ret = counters_result_read(
			&end->counters, json_in_object(in, from, "counters"), in->file, in->e);
}

void read_end_free(struct end_result *end)
{
	for (uint32_t i = 0; end->flows && i < end->flow_count; i++)
		free(end->flows[i].samples);
	free(end->flows);
	free(end->intervals);
	free(end->facts);
	free(end->latency);
	free(end->service);
	counters_result_free(end->counters);
}

/* Cells in any order, from anybody: a bucket that a value falls into is a bucket that exists. */
static void read_cells(struct json_in *in, const json_t *from, struct hist *h)
{
	json_t *list = json_in_array(in, from, "histogram"), *cell;
	size_t i;

	json_array_foreach(list, i, cell) {
		const json_t *ns = json_array_get(cell, 0), *count = json_array_get(cell, 1);

		if (!json_is_integer(ns) || !json_is_integer(count) || json_integer_value(ns) < 0 ||
			json_integer_value(count) < 0 || json_integer_value(count) > SAMPLES_MAX ||
			h->count > SAMPLES_MAX) {
			json_in_wrong(in, "histogram", "holds something that is not [ns, count]");
			return;
		}
		h->bucket[hist_bucket((uint64_t)json_integer_value(ns))] +=
			(uint64_t)json_integer_value(count);
		h->count += (uint64_t)json_integer_value(count);
	}
}

static struct hist *read_latency(struct json_in *in, const json_t *top, const char *key)
{
	const json_t *from;
	struct hist *h;
	double mean, stddev;

	if (!json_in_has(top, key))
		return NULL;
	from = json_in_object(in, top, key);
	json_in_at(in, "%s", key);
	h = calloc(1, sizeof(*h));
	if (!h) {
		out_of_memory(in);
		return NULL;
	}
	read_cells(in, from, h);
	h->min_ns = u64(in, from, "min");
	h->max_ns = u64(in, from, "max");
	mean = json_in_f64(in, from, "mean");
	stddev = json_in_f64(in, from, "stddev");
	if (h->count != u64(in, from, "count"))
		json_in_wrong(in, "histogram", "does not add up to count");
	if (!in->ret &&
		(!h->count || !isfinite(mean) || !isfinite(stddev) || h->min_ns > h->max_ns))
		json_in_wrong(in, "mean, stddev, min and max", "do not belong together");
	h->sum_ns = mean * (double)h->count;
	h->sum_squares = (stddev * stddev + mean * mean) * (double)h->count;
	if (!in->ret)
		return h;
	free(h);
	return NULL;
}

static void read_percentiles(struct json_in *in, const json_t *top, struct flow_options *options)
{
	json_t *list = json_in_array(in, json_object_get(top, "latency_ns"), "percentiles"), *one;
	size_t i;

	json_array_foreach(list, i, one) {
		double percent = json_in_f64(in, one, "percent");

		if (in->ret || i == PERCENTILES_MAX)
			return;
		if (!(percent >= 0 && percent <= 100)) {
			json_in_wrong(in, "percentiles", "holds one that is not between 0 and 100");
			return;
		}
		options->percentile[i] = percent;
		options->percentile_count = (int)i + 1;
	}
}

void read_latencies(struct json_in *in, const json_t *top, struct end_result *client,
	struct flow_options *options)
{
	client->latency = read_latency(in, top, "latency_ns");
	client->service = read_latency(in, top, "service_ns");
	client->has_latency = client->latency;
	if (client->latency && options->percentiles)
		read_percentiles(in, top, options);
	json_in_at(in, "%s", "");
}
