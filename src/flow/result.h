/* SPDX-License-Identifier: BSD-3-Clause */
/* What one end of a run measured. Made by run_collect(), sent to the peer as text, rendered by
 * record/.
 *
 *	struct end_result mine = { 0 }, theirs = { 0 };
 *	run_collect(&run, &mine, e);
 *	text = result_encode(&mine, &length, e);	to the peer
 *	result_decode(&theirs, text_of_peer, e);	from the peer: hostile until decoded
 *	result_free(&mine);
 *
 * All counts are of the measured window: warm-up is not in them. Times are this end's own clock.
 */
#ifndef WEIR_FLOW_RESULT_H
#define WEIR_FLOW_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/err.h"
#include "base/hist.h"
#include "net/tcp_state.h"
#include "sys/host.h"

struct counters_result; /* counters/result.h */

struct flow_counts {
	uint64_t rx_bytes, tx_bytes;
	uint64_t rx_calls, tx_calls; /* system calls that moved data */
	uint64_t transactions;
};

static inline void counts_add(struct flow_counts *sum, const struct flow_counts *c)
{
	sum->rx_bytes += c->rx_bytes;
	sum->tx_bytes += c->tx_bytes;
	sum->rx_calls += c->rx_calls;
	sum->tx_calls += c->tx_calls;
	sum->transactions += c->transactions;
}

static inline void counts_subtract(struct flow_counts *from, const struct flow_counts *c)
{
	from->rx_bytes -= c->rx_bytes;
	from->tx_bytes -= c->tx_bytes;
	from->rx_calls -= c->rx_calls;
	from->tx_calls -= c->tx_calls;
	from->transactions -= c->transactions;
}

/* A flow at one moment; counts since the flow began. */
struct flow_sample {
	uint64_t time_ns; /* since the run's start */
	struct flow_counts counts;
	uint64_t delivery_bytes_per_s;
	uint32_t retransmits, rtt_us, cwnd_segments;
	struct flow_latency { /* rr client with --all-samples: of this interval */
		double min_ns, mean_ns, max_ns, stddev_ns;
		double *percentile_ns; /* as many as the options ask for, or NULL; borrowed */
	} latency;
};

struct flow_result {
	uint32_t id, thread;
	struct flow_counts counts;
	struct tcp_state tcp; /* at the end; what counts segments or bytes, of the window alone */
	struct tcp_limits limits;
	uint32_t zerocopy_sent, zerocopy_copied;
	uint64_t mapped_bytes;
	uint64_t dmabuf_bytes; /* device memory: received by the NIC into it, */
	uint64_t linear_bytes; /* split off badly and copied, */
	uint64_t plain_bytes;  /* or steered badly and copied */
	uint64_t fragments;
	uint32_t
		unsplit; /* its plain_bytes came by a queue of device memory: header split missed them */
	uint64_t wrong_calls;	 /* --validate: receives with wrong bytes in them, the whole run */
	uint64_t wrong_bytes_at; /* position in the stream of the first wrong byte */
	int error;		 /* positive errno when the flow ended early */
	uint32_t sample_count;
	struct flow_sample *samples; /* this end's own only; the peer's are not sent */
};

/* What an end with device memory says of it; all empty for host memory. */
#define POOL_STALLS_UNKNOWN UINT64_MAX
struct device_result {
	char nic[16];	 /* its interface */
	char queues[64]; /* receive queues bound to the memory, "8-11"; empty: none */
	/* Why bytes go through host memory although device memory was not excluded; or empty. */
	char rx_reason[256], tx_reason[256];
	uint64_t tokens_peak; /* most fragments that one thread held back from the NIC at once */
	uint64_t tokens_left; /* held when the window ended, by all threads */
	/* How often the NIC wanted a page of the memory and all were out, since the memory was bound:
	 * the growth of rx-alloc-fail, which the driver counts for each queue. */
	uint64_t pool_stalls;
};

/* All flows over one interval. */
struct interval_result {
	uint64_t begin_ns, end_ns; /* since the run's start */
	uint64_t rx_bytes, tx_bytes, transactions, retransmits;
	uint32_t rtt_us; /* mean over flows at the end of the interval */
	uint64_t latency_p50_ns, latency_p99_ns, latency_max_ns;
};

struct end_result {
	bool valid;    /* something was measured */
	bool complete; /* the whole window was measured, no flow lost */
	bool client;
	uint64_t warmup_ns, window_ns;
	struct flow_counts counts;
	uint32_t threads;
	uint32_t memory, rx_path, tx_path; /* enum flow_memory, enum device_path */
	struct device_result device;
	uint64_t user_ns, system_ns; /* CPU time of the worker threads in the window */
	double busiest_thread;	     /* share of one CPU, 0 to 1 */
	uint64_t
		stopped_ns; /* of the window, the thread that had most of it: it neither ran nor waited for a CPU */
	uint64_t starved_ns; /* the same: it waited for a CPU */
	bool has_latency;
	struct hist
		*latency; /* from the intended start or, without a schedule, the send; or NULL */
	struct hist *service; /* open loop only: from the actual send; or NULL */
	uint32_t interval_count, flow_count;
	struct interval_result *intervals;
	struct flow_result *flows;
	struct host_facts *facts;	  /* or NULL */
	struct counters_result *counters; /* with --counters; or NULL */
	char error[512];		  /* why it is not complete, or empty */
	uint64_t rate; /* what the peer said in neper's last message; used when not valid */
	/* this end's own only, for neper's output; not sent to the peer */
	uint64_t begin_ns, end_ns;	      /* of the window, CLOCK_MONOTONIC */
	struct rusage usage_begin, usage_end; /* of the whole process */
};

/* Bits per second received (sent) in the window, and transactions per second. */
double result_rx_bps(const struct end_result *r);
double result_tx_bps(const struct end_result *r);
double result_transactions_per_s(const struct end_result *r);

void result_free(struct end_result *r);

/* Text for the peer: the caller frees it. NULL when out of memory. */
char *result_encode(const struct end_result *r, size_t *length, struct err *e);
/* text is cut in place. */
int result_decode(struct end_result *r, char *text, struct err *e);

#endif
