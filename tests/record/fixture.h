/* SPDX-License-Identifier: BSD-3-Clause */
/* Records made by hand, for tests: two ends that agree, a level series, fair flows. A test changes
 * what it is about.
 *
 *	struct fixture x;
 *
 *	fixture_init(&x, WORKLOAD_STREAM, 4, 10, "-F4", NULL);
 *	x.server.counts.rx_bytes /= 2;
 *	record_judge(&x.rec);
 */
#ifndef WEIR_TESTS_RECORD_FIXTURE_H
#define WEIR_TESTS_RECORD_FIXTURE_H

#include "record/record.h"

#define FIXTURE_FLOWS	  32
#define FIXTURE_INTERVALS 64
#define FIXTURE_SAMPLES	  4

struct fixture {
	struct flow_options options;
	struct record rec; /* of the client; fixture_turn() makes it the server's */
	struct end_result client, server;
	struct flow_result client_flows[FIXTURE_FLOWS], server_flows[FIXTURE_FLOWS];
	struct interval_result client_intervals[FIXTURE_INTERVALS];
	struct interval_result server_intervals[FIXTURE_INTERVALS];
	struct hist latency, service;
	struct host_facts facts;
	struct flow_sample samples[FIXTURE_SAMPLES];
	/* fixture_run(): two lanes with a flow each */
	struct run run;
	struct lane lanes[2];
	struct lane_sample lane_samples[2][FIXTURE_SAMPLES];
	struct flow flows[2];
	struct flow_sample flow_samples[2][FIXTURE_SAMPLES];
	double percentiles[2][FIXTURE_SAMPLES][2];
	uint64_t rtt_log[2][4];
};

/* Eight Gbit/s or 10000 transactions/s over all flows in intervals of a second after a warm-up of a
 * second. The words that follow, up to NULL, are the command line. */
void fixture_init(struct fixture *x, enum workload w, uint32_t flows, uint32_t intervals, ...)
	__attribute__((sentinel));

/* The same record at the server. */
void fixture_turn(struct fixture *x);

/* neper's protocol: nothing is known of the peer but a rate. */
void fixture_neper(struct fixture *x, uint64_t rate);

/* The client sends from udmabuf memory, the server receives into it; one of its flows missed it in part. */
void fixture_device(struct fixture *x);

/* A run with samples behind the record, for what reads them. */
void fixture_run(struct fixture *x);

/* The finding of that name, or NULL. */
const struct record_finding *fixture_finding(const struct fixture *x, const char *name);

#endif
