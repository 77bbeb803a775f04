/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of weir probe: one file per kind of run. Each returns -errno, or the exit status. */
#ifndef WEIR_CMD_PROBE_H
#define WEIR_CMD_PROBE_H

#include "base/out.h"
#include "probe/controller.h"

enum pairs_kind { PAIRS_LATENCY, PAIRS_STREAM, PAIRS_P2P };

struct probe_options {
	const char *hosts, *hosts_file, *targets, *nic_ips, *csv, *out;
	int64_t port, series, iterations, increase, connections, rounds, flows;
	int kind; /* enum pairs_kind */
	struct rpc_tls_files tls;
	double rate, budget, slow;
	uint64_t payload_bytes, timeout_ns, window_ns, duration_ns;
	bool verify, json, map, help;
};

int probe_mesh(const struct probe_options *o, const struct hosts *hosts, struct err *e);
int probe_load(const struct probe_options *o, const struct hosts *hosts, struct err *e);
int probe_pairs(const struct probe_options *o, const struct hosts *hosts, struct err *e);

/* probe_show.c: what all of them say alike */

void probe_want(
	struct controller_want *want, const struct probe_options *o, const struct hosts *hosts);

#define PROBE_SUBJECT 700
/* "host node1 rail 3" */
/* After the words of one that cannot tell. */
const char *probe_cannot_tell(const struct verdict *v);
char *probe_subject(
	const struct verdict *v, const struct controller_host *host, char buf[PROBE_SUBJECT]);
void probe_emit_verdict(struct out *o, const char *key, const struct verdict *v,
	const struct controller_host *host);
/* Count, mean and those percentiles that enough samples stand behind. */
void probe_emit_latency(struct out *o, const char *key, const struct hist *h);
extern const char *const probe_faults[2];

/* What was named, kept beyond the run for the record. */
struct probe_past {
	struct verdict *verdict;
	size_t count;
};
void probe_remember(struct probe_past *past, const struct verdict *v);
/* The exit status with one more verdict: an agent that measures itself says nothing about the network. */
int probe_worse(int status, const struct verdict *v);
/* STATUS_GOOD; _FAILED when something was named; _DOUBTFUL when only probers were starved. */
int probe_status(const struct probe_past *past);

/* A map of pairs for a person: rows probe columns, the worst rail of each; and of the NICs. value_ns 0: none. */
struct probe_cell {
	uint64_t value_ns;
	uint64_t sent, lost;
};
void probe_map(struct out *o, const struct controller_view *view);
void probe_nic_table(
	struct out *o, const struct controller_view *view, bool window, int lines_max, int *lines);

#endif
