/* SPDX-License-Identifier: BSD-3-Clause */
/* What follows from a record by arithmetic: used by the judge and by every rendering, so that they
 * never disagree. Unknown figures are NAN (null in JSON). Points into the record; nothing to free.
 */
#ifndef WEIR_RECORD_FIGURES_H
#define WEIR_RECORD_FIGURES_H

#include "base/units.h"
#include "record/record.h"
#include "record/stats.h"

enum metric { METRIC_RECEIVED, METRIC_SENT, METRIC_TRANSACTIONS };

/* The sockets of a sending end, taken together. */
struct figures_tcp {
	bool known;
	double rtt_us, cwnd_segments; /* means over flows */
	uint32_t min_rtt_us;	      /* 0: unknown */
	uint64_t retransmits;
	double retransmitted; /* as a share of the segments sent */
	bool limits_known;
	struct tcp_limits limits; /* mean over flows: each was there for the same time */
};

/* What went one way (stream), or the transactions (rr, crr). */
struct figures_part {
	bool to_server;
	const struct end_result *sender, *receiver; /* NULL: unknown */
	double sent_bps, received_bps;
	/* Whose counts, flows and series stand for this part, and which of them: the receiver's, or
	 * the sender's where nothing else is known; the client's transactions, or the server's. */
	const struct end_result *end; /* NULL: nothing is known */
	enum metric metric;
	uint32_t flows;
	double fairness, slowest, fastest; /* rates of flows per second; bits or transactions */
	struct stats_steady steady;
	struct figures_tcp tcp; /* the sender's; for rr those of end */
};

struct figures {
	const struct end_result *client, *server; /* NULL: unknown */
	int part_count;
	struct figures_part part[2];
	double throughput_bps;		   /* received, all parts; NAN for rr and crr */
	double transactions_per_s;	   /* NAN for stream */
	const struct end_result *latency;  /* the end whose histograms count, or NULL */
	double fairness;		   /* the lowest of all parts with two flows or more */
	const struct stats_steady *steady; /* the part that is least level */
};

void figures_make(const struct record *rec, struct figures *f);

/* Whether this flow belongs to the part (--split-bidir gives each direction its own flows). */
bool figures_has_flow(
	const struct record *rec, const struct figures_part *part, const struct flow_result *flow);

/* Per second: bits, or transactions. 0 for an interval without length. */
double figures_flow_rate(const struct figures_part *part, const struct flow_result *flow);
double figures_interval_rate(enum metric metric, const struct interval_result *iv);

/* "12.34 Gbit/s", "118.8 k/s". Returns buf. */
char *figures_rate_text(char buf[UNITS_TEXT], enum metric metric, double per_s);

/* The percentiles asked for, or the usual ones. */
const double *figures_percentiles(const struct flow_options *o, int *count);

/* Whether both ends are on one host: no wire was measured, and its counters are those of both. */
bool figures_is_loopback(const struct record *rec);

/* Of an end with device memory, over its flows. */
struct figures_device {
	uint64_t dmabuf_bytes, host_bytes; /* received by the NIC into it; that missed it */
	uint64_t fragments, calls;
	uint64_t zerocopy_sent, zerocopy_copied;
};
void figures_device(const struct end_result *end, struct figures_device *d);

/* How a flow's payload came and went: "devmem", "mixed", "host", "staged"; NULL: nothing did. */
const char *figures_rx_path(const struct end_result *end, const struct flow_result *flow);
/* Why a part of its payload landed in host memory; NULL: nothing did. */
const char *figures_missed(const struct flow_result *flow);
const char *figures_tx_path(const struct end_result *end, const struct flow_result *flow);

/* "client", "server" */
const char *figures_role(const struct figures *f, const struct end_result *end);

#endif
