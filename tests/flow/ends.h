/* SPDX-License-Identifier: BSD-3-Clause */
/* Both ends of a run in one process, for tests.
 *
 *	struct server_end server;
 *	struct seen client;
 *
 *	ends_serve(&server, WORKLOAD_RR, "");
 *	ends_client(&server, "-F 4 -l 0.2", &client);
 *	ends_stop(&server);
 *
 * What each end was told is kept in a struct seen. Everything that fails where it should not fails the test.
 */
#ifndef WEIR_TESTS_FLOW_ENDS_H
#define WEIR_TESTS_FLOW_ENDS_H

#include <pthread.h>

#include "flow/endpoint.h"
#include "given.h"

/* One outcome, copied while it was lent. */
struct seen {
	int ret; /* of client_run() */
	struct err e;
	int ready, started, over; /* calls */
	uint32_t intervals_told;
	bool neper, interrupted;
	/* of the last outcome */
	bool valid, complete, remote_valid, remote_complete;
	uint64_t window_ns, warmup_ns;
	uint32_t flow_count, failed_flows, threads, interval_count;
	struct flow_counts counts, remote_counts, flows_sum, intervals_sum, told_sum;
	uint64_t intervals_ns, latency_count, service_count, latency_max_ns;
	uint64_t zerocopy_sent, zerocopy_copied, mapped_bytes;
	uint64_t remote_rate;
	char error[512];
};

struct server_end {
	enum workload workload;
	struct end end;
	int control_port, port, stop_fd;
	pthread_t thread;
	struct seen seen;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool running;
};

/* Start a server on free ports and wait until it listens. */
void ends_serve(struct server_end *s, enum workload w, const char *line);
/* The same where it may fail: false when it has ended already, and only ends_join() remains. */
bool ends_try_serve(struct server_end *s, enum workload w, const char *line);
/* Wait until the server has reported count runs. */
void ends_await_over(struct server_end *s, int count);
/* Ask it to end, and wait for that. Returns what server_run() returned. */
int ends_stop(struct server_end *s);
/* The same for a server with --once, which ends by itself. */
int ends_join(struct server_end *s);
/* Stop a server that a failed test has left behind. */
void ends_abandon(struct server_end *s);

/* Run a client against it; the line goes without -c and ports. stop_fd: see struct endpoint_events. */
void ends_client_stoppable(
	const struct server_end *s, const char *line, int stop_fd, struct seen *seen);
void ends_client(const struct server_end *s, const char *line, struct seen *seen);

/* A TCP connection to the server's control port. */
int ends_dial(const struct server_end *s);

/* What this process holds. Threads that are about to end are waited for. */
struct held {
	int descriptors, threads;
};
struct held ends_held(void);
void ends_assert_held(const struct held *before);

#endif
