/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine: one end of a run.
 *
 * A *run* is one test. Its flows are dealt to *workers*, threads with an event loop each. A
 * worker's share of a run is a *lane*: its flows, its counters, its samples. All that happens to a
 * lane happens in its worker's thread, so nothing on the data path is shared or locked. The control
 * thread (client.c, session.c) steers by worker_call().
 *
 *	run_init(&run, workload, &options, workers, count, e);
 *	lanes get flows: lane_connect() at a client, lane_adopt() at a server
 *	run_start(&run);			now is the run's start: warm-up, then the window
 *	wait for run.bell until run_is_over()
 *	run_finish(&run);			the last sample of every lane
 *	run_collect(&run, &result, e);
 *	run_close(&run);			closes all flows
 */
#ifndef WEIR_FLOW_RUN_H
#define WEIR_FLOW_RUN_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/hist.h"
#include "base/loop.h"
#include "flow/device.h"
#include "flow/options.h"
#include "flow/result.h"
#include "flow/stall.h"
#include "flow/wire.h"
#include "flow/worker.h"
#include "mem/pattern.h"
#include "mem/region.h"
#include "net/chan.h"
#include "net/sock.h"

struct run;
struct lane;
struct flow;

/* How a kind of flow behaves. */
struct flow_ops {
	void (*start)(struct flow *f); /* the run has started */
	void (*stop)(struct flow *f);  /* send nothing more; may be NULL */
	void (*lane)(struct lane *l);  /* the lane has started, after its flows; may be NULL */
	loop_fd_fn *ready;
};
extern const struct flow_ops stream_ops, rr_client_ops, rr_server_ops, crr_client_ops,
	crr_server_ops;

struct rr_request {
	uint64_t intended_ns, sent_ns;
	bool counted; /* one of those that end the run */
};

struct flow {
	struct loop_fd io;
	struct chan chan;
	struct lane *lane;
	struct flow *next, **link; /* in the lane; link points at what points here */
	const struct flow_ops *ops;
	uint32_t id;
	bool alive, reads, writes, watched, has_local;
	bool failed_sending;	/* what ended it was a send */
	struct sock_addr local; /* client: where it leaves from, when that was asked for */
	int error;
	struct flow_counts counts, base; /* since the flow began; when the window began */
	struct tcp_state tcp_begin, tcp_end;
	struct chan chan_begin;	     /* its counters when the window began, */
	struct chan chan_end;	     /* and when the last sample was taken */
	struct flow_sample *samples; /* lane->sample_capacity, or NULL */

	uint64_t
		wrong_bytes_at; /* --validate: position of the first wrong byte, when there is one */
	uint64_t wrong_calls;	/* receives with wrong bytes in them */

	struct stage *stage; /* sends from a GPU through pinned memory; or NULL */

	/* messages (rr, crr): bytes left to send, and received of the current one */
	uint64_t to_send, got;
	struct rr_request *requests; /* ring of options.outstanding */
	uint32_t oldest, in_flight;

	/* schedule: --rate, --delay, --noburst; gap 0: none */
	uint64_t next_ns, gap_ns;
	struct loop_timer timer;

	struct spin spin; /* rr, alone on its thread */

	size_t tx_length, rx_length; /* stream: bytes per call */

	uint64_t coalesced_bytes; /* stream: received when the wake-ups were set last, */
	int wake_bytes;		  /* and what was set */

	uint32_t preamble_left; /* crr client: bytes of it that go before the request */

	struct hist *interval_latency; /* --all-samples on an rr client */
	uint64_t *rtt_log;	       /* --log-rtt: pairs of completion time and latency */
	uint32_t rtt_count;
};

struct lane_sample {
	uint64_t time_ns;	   /* since the run's start */
	struct flow_counts counts; /* since the lane began */
	uint64_t retransmits;
	uint32_t rtt_us;	     /* mean over live flows */
	struct rusage usage;	     /* of the thread */
	struct hist_sparse *latency; /* of the interval that ends here, or NULL */
};

struct lane {
	struct run *run;
	struct worker *worker;
	uint32_t index;
	struct flow *flows;
	uint32_t flow_count, live;
	struct flow_counts retired; /* of flows that are gone (crr server) */
	struct flow_counts now;	    /* for run_counts() */
	struct region rx, tx;
	size_t rx_length; /* stream: bytes that one receive takes at most; rx has room for them */
	struct device device; /* --mem udmabuf, cuda */
	bool started, window_open, finished, stopped;
	uint64_t window_ns; /* absolute: when the window opened */
	struct loop_timer tick;
	struct stall stall;
	struct loop_timer coalesce; /* stream */
	uint64_t ticks, coalesced_ns;
	struct lane_sample *samples;
	uint32_t sample_capacity;
	uint32_t window_sample;		 /* the sample that opened the window */
	_Atomic uint32_t sample_count;	 /* read by the control thread while the lane runs */
	struct hist *interval, *latency; /* rr, crr client: since the last sample, of the window */
	struct hist *service;		 /* with --rate: from the actual send */
};

struct run {
	enum workload workload;
	const struct flow_options *options; /* borrowed */
	bool client;
	bool starts_by_data;	   /* neper server: the first byte starts the clock */
	bool tokens;		   /* data connections open with a preamble */
	bool peer_receives_devmem; /* client: the server's NIC puts payload into device memory */
	bool peer_sends_devmem;	   /* the other end's NIC takes payload from there */
	uint8_t token[WIRE_TOKEN_BYTES];
	struct sock_addr peer; /* client: where flows go; server: who the client is */
	uint64_t warmup_ns, interval_ns;
	uint64_t length_ns;		       /* 0: until told, or until to_complete is 0 */
	_Atomic uint64_t start_ns;	       /* absolute; 0: not started */
	_Atomic uint64_t end_ns;	       /* absolute; 0: not known before it comes */
	bool counted;			       /* a number of transactions ends the run: */
	_Atomic int64_t to_issue, to_complete; /* those not begun, not ended */
	int bell;			       /* eventfd: rung when something happened */
	_Atomic uint32_t arrived, live;	       /* flows */
	_Atomic uint32_t windows, lanes_over;  /* lanes whose window opened, whose run ended */
	/* of the process, when the first window opened and when the last lane ended */
	struct rusage usage_begin, usage_end;
	pthread_mutex_t usage_lock;
	_Atomic int first_error;	  /* positive errno of the first flow that broke, */
	_Atomic bool first_error_sending; /* in a send */
	uint32_t flow_count, lane_count;
	struct lane *lanes;
	struct pattern pattern; /* what the payload looks like, and whether it is checked */
	bool has_pattern, validates;
	struct device_nic device;
};

/* Deal a run over count workers. options must outlive it. */
int run_init(struct run *r, enum workload w, const struct flow_options *options,
	struct worker **workers, uint32_t count, struct err *e);
void run_free(struct run *r);
/* Memory that the samples of such a run take, over so many lanes and all its flows. */
uint64_t run_samples_bytes(const struct flow_options *o, uint32_t lanes);

/* With --mem udmabuf or cuda: memory for each lane, bound to the NIC of this local address. And, when
 * all flows are there and before any data: their steering. Both from the control thread. */
int run_open_device(struct run *r, const struct sock_addr *local, struct err *e);
int run_steer(struct run *r, struct err *e);

void run_start(struct run *r);
/* All lanes reached their end, or the transactions are done, or no flow is alive. */
bool run_is_over(const struct run *r);
/* Take the last sample of each lane where it is not taken; then stop sending. */
void run_finish(struct run *r);
void run_stop(struct run *r);
void run_close(struct run *r);
int run_collect(struct run *r, struct end_result *out, struct err *e);
/* The interval that follows the index-th, when all lanes have it: 1; 0: not yet. Any thread, while
 * the run runs. */
int run_interval(const struct run *r, uint32_t index, struct interval_result *out);
/* What all flows have counted until now. The control thread only. */
void run_counts(struct run *r, struct flow_counts *sum);
void run_ring(struct run *r);
/* At a crr server flows come and go all the time: that one came, or that none is there, means
 * nothing. */
static inline bool run_is_transient(const struct run *r)
{
	return r->workload == WORKLOAD_CRR && !r->client;
}
/* Whether the n-th flow (from 0) of a run reads and writes at this end. */
void run_flow_direction(const struct run *r, uint32_t id, bool *reads, bool *writes);

/* In the lane's thread only. */
int lane_connect(struct lane *l, struct err *e);
int lane_adopt(struct lane *l, int fd, uint32_t id, uint64_t early_bytes, struct err *e);
void lane_begin(struct lane *l);

const struct flow_ops *flow_ops_of(const struct run *r);
struct flow *flow_new(struct lane *l, uint32_t id, struct err *e);
int flow_attach(struct flow *f, int fd, struct err *e);
void flow_watch(struct flow *f, uint32_t events);
/* The flow ended: error 0 when the peer closed in good order. */
void flow_end(struct flow *f, int error);
/* The same where that is how it should end. */
void flow_leave(struct flow *f);
/* Close the connection alone; a crr flow goes on with another. */
void flow_disconnect(struct flow *f);
/* Forget a flow that has ended: its counts go to the lane. */
void flow_retire(struct flow *f);
/* Whether another transaction may begin (a run may be limited to a number of them), and mark it. */
bool flow_may_issue(struct flow *f, struct rr_request *request);
/* A transaction was completed: count it, record its latency, end the run when it was the last. */
void flow_complete(struct flow *f, const struct rr_request *request, uint64_t now_ns);
/* Connect one socket of a flow: which address, which source. */
int flow_connect_start(struct flow *f, struct err *e);
void flow_data_address(const struct run *r, uint32_t id, struct sock_addr *addr);
/* The socket options that the run's options mean. */
void flow_sock_options(const struct flow_options *o, bool client, struct sock_options *s);
/* What to hand to chan.send next, at most length bytes of it; NULL: the flow cannot go on. */
const void *flow_to_send(struct flow *f, size_t *length);
/* Look at bytes that lie in the host's memory, with --validate: every one is what belongs at its
 * position in the stream, or the flow remembers the first that is not. */
void flow_check(struct flow *f, const char *data, size_t bytes, uint64_t position);
void flow_note_wrong(struct flow *f, uint64_t position);
/* When the first and each further request of a flow is due; gap 0 when there is no schedule. */
void flow_schedule(struct flow *f);

static inline void lane_touch(struct lane *l)
{
	if (__builtin_expect(!l->started, 0))
		lane_begin(l);
}

#endif
