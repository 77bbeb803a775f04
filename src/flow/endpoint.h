/* SPDX-License-Identifier: BSD-3-Clause */
/* The two ends of a run: a client, and a server that serves many.
 *
 *	struct endpoint_events events = { .over = print_result, ... };
 *	ret = client_run(WORKLOAD_STREAM, &options, &events, e);
 *	ret = server_run(WORKLOAD_STREAM, &options, &given, &events, e);
 *
 * What was measured is handed to events->over, complete or not; the struct err of client_run() says
 * why the run failed. A server returns when events->stop_fd becomes readable, after one run with
 * --once, or when it cannot listen.
 */
#ifndef WEIR_FLOW_ENDPOINT_H
#define WEIR_FLOW_ENDPOINT_H

#include "flow/options.h"
#include "flow/result.h"
#include "flow/run.h"

/* What is known of a run when it is over. Borrowed by the callback. */
struct outcome {
	enum workload workload;
	const struct flow_options *options; /* as agreed */
	bool neper;			    /* neper's protocol was spoken */
	bool interrupted;		    /* ended early because the user asked */
	struct sock_addr local_address, peer_address;
	uint64_t started_wall_ns;
	struct end_result local, remote;
	const struct run *run;
	uint64_t ceiling_bps; /* of the link that carried it, 0 unknown or virtual */
	int invalid_secret_count;
};

struct endpoint_events {
	void *context;
	int stop_fd; /* readable: end soon, with what was measured; -1: never */
	/* server: listening on this address; client: connected */
	void (*ready)(void *context, const struct sock_addr *address);
	/* a run began; while it runs, each interval; it is over. A server's calls for different
	 * runs never overlap. */
	void (*started)(void *context, const struct run *run);
	void (*interval)(
		void *context, const struct run *run, const struct interval_result *interval);
	void (*over)(void *context, const struct outcome *outcome);
	/* server: a client came, and its run (NULL: there was none) came to nothing. Without this
	 * function the log says why */
	void (*failed)(void *context, const struct run *run, const struct err *why);
	/* client: all flows are connected; the run begins when this returns, within 8 s. NULL: at
	 * once */
	void (*gate)(void *context);
	/* client, every iostat_ms */
	void (*iostat)(void *context, const struct run *run, uint64_t since_start_ns,
		const struct flow_counts *now, const struct flow_counts *before,
		uint64_t elapsed_ns);
};

int client_run(enum workload w, struct flow_options *o, const struct endpoint_events *events,
	struct err *e);
int server_run(enum workload w, const struct flow_options *o, const struct opt_given *given,
	const struct endpoint_events *events, struct err *e);

/* Shared by both ends. */

#define CONTROL_TIMEOUT_NS (10 * NS_PER_S) /* for one message, and for a silent peer */
#define CONTROL_TICK_NS	   NS_PER_S

/* No delay, and a dead peer is noticed although nothing is said. */
void control_tune(int fd);
int control_abort(int fd, const char *reason);

/* Words and next step in one line, for the peer and for logs. Returns buf. */
#define ENDPOINT_WORDS 800
char *endpoint_words(const struct err *e, char buf[ENDPOINT_WORDS]);
/* CPUs for worker i as the options say: -1 for none. */
int endpoint_cpu(const struct flow_options *o, uint32_t index);
/* Addresses, host facts and the link's speed, from the control connection. */
void outcome_describe(struct outcome *outcome, int control);
void outcome_free(struct outcome *outcome);
/* The rate that neper's last message carries: bits/s or transactions/s. */
uint64_t outcome_neper_rate(const struct outcome *outcome);
/* What failed, from the flows: sets result.error. */
void outcome_explain(struct outcome *outcome, const struct run *run);

#endif
