/* SPDX-License-Identifier: BSD-3-Clause */
/* What a stream, rr or crr run is asked to do: neper's options and weir's own, in one table for all
 * three.
 *
 * Names, letters, defaults and meanings are neper's where neper has them. The struct is filled by
 * opt_parse(), then judged by flow_options_check(); a server lays the client's request over it with
 * flow_options_agree().
 */
#ifndef WEIR_FLOW_OPTIONS_H
#define WEIR_FLOW_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/opt.h"

enum workload { WORKLOAD_STREAM, WORKLOAD_RR, WORKLOAD_CRR, WORKLOADS };
extern const char *const workload_name[WORKLOADS]; /* "stream", "rr", "crr" */

/* opt_table.variant and opt.only */
#define FOR_STREAM (1u << WORKLOAD_STREAM)
#define FOR_RR	   (1u << WORKLOAD_RR)
#define FOR_CRR	   (1u << WORKLOAD_CRR)

enum flow_format { FORMAT_TABLE, FORMAT_JSON, FORMAT_KV };
enum flow_protocol { PROTOCOL_AUTO, PROTOCOL_NEPER, PROTOCOL_WEIR };
enum flow_memory { MEMORY_HOST, MEMORY_UDMABUF, MEMORY_CUDA };
enum flow_path { PATH_AUTO, PATH_DEVMEM, PATH_STAGED };
enum flow_validate { VALIDATE_NO, VALIDATE_PUBLISHED, VALIDATE_SEEDED };

#define PERCENTILES_MAX 32

struct flow_options {
	/* roles and addresses */
	bool client, ipv4, ipv6, freebind;
	const char *host, *local_hosts, *bind_dev;
	int64_t control_port, port, num_ports, source_port, num_clients, listen_backlog, magic;
	/* size of the run */
	int64_t num_threads, num_flows, maxevents;
	double test_length;	/* seconds; negative: transactions */
	double interval;	/* seconds */
	double warmup;		/* seconds; negative: chosen by length */
	double connect_timeout; /* seconds */
	int64_t wait_start;	/* seconds */
	int64_t suicide_length; /* seconds */
	/* data path */
	uint64_t buffer_size;
	bool edge_trigger, reuseaddr, zerocopy, rx_zerocopy, skip_rx_copy, no_cork, no_delay;
	bool enable_read, enable_write, enable_tcp_maerts, split_bidir, async_connect;
	bool tcp_fastopen, time_wait, debug, nonblocking;
	int64_t tcp_tx_delay; /* us */
	int64_t mark;
	uint64_t max_pacing_rate; /* bytes/s */
	const char *congestion_control;
	uint64_t delay, noburst; /* ns */
	uint64_t rx_coalesce;	 /* ns */
	int memory, path, validate;
	const char *nic, *gpu, *queues;
	uint64_t mem_size;
	bool rx_copy;
	/* the same in neper's tcpd branch */
	const char *tcpd_nic_pci_addr, *tcpd_gpu_pci_addr, *tcpd_link_name, *tcpd_src_ip,
		*tcpd_dst_ip;
	uint64_t tcpd_phys_len;
	int64_t queue_start, queue_num;
	bool tcpd_validate, tcpd_rx_cpy;
	uint64_t validate_cycle; /* bytes; 0: buffer_size */
	/* rr */
	uint64_t request_size, response_size;
	double rate; /* transactions/s over all flows; 0: closed loop */
	int64_t outstanding;
	bool busy_poll;
	uint64_t spin; /* ns */
	/* placement and cost */
	bool pin_cpu, stime_use_proc;
	const char *cpus;
	/* output */
	int format, protocol;
	bool counters, json, once, quiet, verbose, dry_run, logtostderr, nolog, help, version;
	const char *out, *all_samples, *log_rtt, *throughput_opt, *percentiles;
	int64_t logrtt_entries_per_flow, iostat_ms;
	/* derived by flow_options_check() */
	double percentile[PERCENTILES_MAX];
	int percentile_count;
	bool interval_given, queues_given;
};

/* The table of a workload. */
extern const struct opt_table flow_option_table[WORKLOADS];

/* Judge what was parsed and derive the rest. An impossible combination is refused by name. */
int flow_options_check(
	struct flow_options *o, enum workload w, const struct opt_given *given, struct err *e);

/* Whether this end receives, sends. A stream client sends unless told otherwise; rr and crr do
 * both. */
bool flow_options_reads(const struct flow_options *o, enum workload w);
bool flow_options_writes(const struct flow_options *o, enum workload w);

/* The client's wishes as "name=value" lines, and the server's answer to them: a setting that the
 * server's user left alone follows the client, one that was given on both sides must be equal, or
 * -EPROTO with both values. The text must outlive o (strings point into it); it comes from outside
 * and is cut into lines in place. */
int flow_options_request(
	const struct flow_options *o, enum workload w, char *buf, size_t size, struct err *e);
int flow_options_agree(struct flow_options *o, enum workload w, const struct opt_given *given,
	char *text, struct err *e);

#endif
