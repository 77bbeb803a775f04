// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_PER_S	   1000000000ull
#define TRANSACTIONS_PER_S 10000ull

static void parse(struct fixture *x, enum workload w, va_list words)
{
	char *argv[32] = { (char *)"weir", (char *)"-c" };
	struct opt_given given;
	int argc = 2;
	struct err e;

	while (argc < 31 && (argv[argc] = va_arg(words, char *)))
		argc++;
	if (opt_parse(&flow_option_table[w], argc, argv, &x->options, &given, &e) ||
		flow_options_check(&x->options, w, &given, &e)) {
		fprintf(stderr, "fixture: %s\n", e.what);
		abort();
	}
}

static void fill_flow(struct flow_result *flow, const struct end_result *end, uint32_t id)
{
	*flow = (struct flow_result){
		.id = id,
		.thread = id % end->threads,
		.tcp = { .rtt_us = 30 + id,
			.min_rtt_us = 12 + id,
			.cwnd_segments = 10,
			.mss_bytes = 1448,
			.pacing_bytes_per_s = UINT64_MAX,
			.max_pacing_bytes_per_s = UINT64_MAX },
	};
	flow->counts.rx_bytes = end->counts.rx_bytes / end->flow_count;
	flow->counts.tx_bytes = end->counts.tx_bytes / end->flow_count;
	flow->counts.transactions = end->counts.transactions / end->flow_count;
	flow->limits.share[TCP_LIMIT_RECEIVE_WINDOW] = 0.8;
	flow->limits.share[TCP_LIMIT_CONGESTION] = 0.15;
	flow->limits.share[TCP_LIMIT_APPLICATION] = 0.05;
}

static void fill_end(const struct fixture *x, struct end_result *end)
{
	bool stream = x->rec.workload == WORKLOAD_STREAM, writes = end->client;
	uint64_t seconds = end->interval_count;
	uint64_t bytes = seconds * (stream ? BYTES_PER_S : TRANSACTIONS_PER_S);

	if (x->options.enable_tcp_maerts)
		writes = !end->client;
	end->valid = end->complete = true;
	end->threads = 2;
	end->warmup_ns = NS_PER_S;
	end->window_ns = seconds * NS_PER_S;
	end->counts.rx_bytes = stream && writes && !x->options.enable_read ? 0 : bytes;
	end->counts.tx_bytes = stream && !writes && !x->options.enable_read ? 0 : bytes;
	end->counts.rx_calls = end->counts.tx_calls = 1000;
	end->counts.transactions = stream ? 0 : seconds * TRANSACTIONS_PER_S;
	end->user_ns = seconds * NS_PER_S / 50;
	end->system_ns = seconds * NS_PER_S / 2;
	end->busiest_thread = 0.5;
	end->stopped_ns = seconds * NS_PER_S / 100;
	end->starved_ns = seconds * NS_PER_S / 50;
	end->begin_ns = 100 * NS_PER_S;
	end->end_ns = end->begin_ns + end->window_ns;
	for (uint32_t i = 0; i < end->flow_count; i++)
		fill_flow(&end->flows[i], end, i);
	for (uint32_t i = 0; i < end->interval_count; i++)
		end->intervals[i] = (struct interval_result){
			.begin_ns = (i + 1) * NS_PER_S,
			.end_ns = (i + 2) * NS_PER_S,
			.rx_bytes = end->counts.rx_bytes / seconds,
			.tx_bytes = end->counts.tx_bytes / seconds,
			.transactions = end->counts.transactions / seconds,
			.rtt_us = 35,
		};
}

static void fill_latency(struct fixture *x)
{
	hist_init(&x->latency);
	hist_init(&x->service);
	for (uint64_t i = 0; i < x->client.counts.transactions; i++) {
		hist_record(&x->latency, 20000 + i % 1000 * 10);
		hist_record(&x->service, 15000 + i % 1000 * 10);
	}
	for (uint32_t i = 0; i < x->client.interval_count; i++) {
		x->client_intervals[i].latency_p50_ns = 25000;
		x->client_intervals[i].latency_p99_ns = 29900;
		x->client_intervals[i].latency_max_ns = 30000;
	}
	x->client.has_latency = true;
	x->client.latency = &x->latency;
	x->client.service = x->options.rate > 0 ? &x->service : NULL;
}

void fixture_init(struct fixture *x, enum workload w, uint32_t flows, uint32_t intervals, ...)
{
	va_list words;

	memset(x, 0, sizeof(*x));
	va_start(words, intervals);
	parse(x, w, words);
	va_end(words);
	x->rec = (struct record){
		.workload = w,
		.options = &x->options,
		.local_address = "192.0.2.1:43210",
		.peer_address = "192.0.2.2:12866",
		.started_wall_ns = 1794711600123456789ull,
		.local = &x->client,
		.remote = &x->server,
	};
	x->client = (struct end_result){ .client = true };
	x->client.flows = x->client_flows;
	x->client.intervals = x->client_intervals;
	x->server.flows = x->server_flows;
	x->server.intervals = x->server_intervals;
	x->client.flow_count = x->server.flow_count = flows;
	x->client.interval_count = x->server.interval_count = intervals;
	fill_end(x, &x->client);
	fill_end(x, &x->server);
	host_facts_add(&x->facts, "hostname", "node1");
	host_facts_add(&x->facts, "kernel_release", "6.12.0");
	x->client.facts = &x->facts;
	if (w != WORKLOAD_STREAM)
		fill_latency(x);
}

void fixture_turn(struct fixture *x)
{
	x->options.client = false;
	x->rec.local = &x->server;
	x->rec.remote = &x->client;
}

void fixture_device(struct fixture *x)
{
	x->client.memory = x->server.memory = MEMORY_UDMABUF;
	x->client.tx_path = x->server.rx_path = DEVICE_DEVMEM;
	x->client.device = (struct device_result){ .nic = "eth1" };
	x->client.device.pool_stalls = POOL_STALLS_UNKNOWN;
	x->server.device = (struct device_result){ .nic = "eth2", .queues = "8-11" };
	x->server.device.tokens_peak = 40;
	x->server.device.pool_stalls = 3;
	for (uint32_t i = 0; i < x->server.flow_count; i++) {
		x->client_flows[i].zerocopy_sent = 100;
		x->server_flows[i].dmabuf_bytes = x->server_flows[i].counts.rx_bytes;
		x->server_flows[i].counts.rx_calls = 10;
		x->server_flows[i].fragments = 125;
	}
	x->client_flows[0].zerocopy_copied = 1;
	x->server_flows[0].plain_bytes = 1000000;
	x->server_flows[0].dmabuf_bytes -= 1000000;
}

void fixture_neper(struct fixture *x, uint64_t rate)
{
	struct end_result *peer = x->options.client ? &x->server : &x->client;

	memset(peer, 0, sizeof(*peer));
	peer->rate = rate;
	x->rec.neper = true;
}

/* Flow i of lane i: 1000 * (i + 1) more every second from a base of 50, seen at 0, 1, 2 and 3 s.
 * The first sample is the warm-up's. */
void fixture_run(struct fixture *x)
{
	x->run.workload = x->rec.workload;
	x->run.options = &x->options;
	x->run.client = x->options.client;
	x->run.start_ns = 99 * NS_PER_S;
	x->run.lane_count = 2;
	x->run.lanes = x->lanes;
	x->rec.run = &x->run;
	for (uint32_t i = 0; i < 2; i++) {
		struct lane *l = &x->lanes[i];
		struct flow *f = &x->flows[i];

		*l = (struct lane){ .run = &x->run, .index = i, .flows = f, .flow_count = 1 };
		l->samples = x->lane_samples[i];
		l->window_open = true;
		l->window_sample = 1;
		l->sample_count = FIXTURE_SAMPLES;
		f->id = i;
		f->lane = l;
		f->samples = x->flow_samples[i];
		f->rtt_log = x->rtt_log[i];
		f->rtt_count = 2;
		for (uint32_t k = 0; k < FIXTURE_SAMPLES; k++) {
			struct flow_sample *s = &f->samples[k];

			l->samples[k].time_ns = s->time_ns = k * NS_PER_S + i;
			l->samples[k].usage.ru_utime.tv_usec = (suseconds_t)1000 * k;
			l->samples[k].usage.ru_stime.tv_sec = k;
			l->samples[k].usage.ru_maxrss = 2000;
			s->counts.rx_bytes = s->counts.transactions = 50 + 1000ull * (i + 1) * k;
			s->latency.min_ns = s->latency.mean_ns = s->latency.max_ns = 20000;
			s->latency.percentile_ns = x->percentiles[i][k];
			x->percentiles[i][k][0] = 20000;
			x->percentiles[i][k][1] = 30000;
		}
		x->rtt_log[i][0] = 100 * NS_PER_S - 500;
		x->rtt_log[i][1] = 20000;
		x->rtt_log[i][2] = 101 * NS_PER_S;
		x->rtt_log[i][3] = 25001 + i;
	}
}

const struct record_finding *fixture_finding(const struct fixture *x, const char *name)
{
	for (int i = 0; i < x->rec.finding_count; i++)
		if (!strcmp(x->rec.findings[i].name, name))
			return &x->rec.findings[i];
	return NULL;
}
