/* SPDX-License-Identifier: BSD-3-Clause */
/* The agent: the one long-running process of a host. It answers probes, sends those that a controller
 * asks for, keeps the results and tells who watches.
 *
 *	struct agent_options o;
 *	agent_options_init(&o);
 *	agent_options_environ(&o, e);		the link "prober": TCPXO_PROBER_*
 *	ret = agent_run(&o, stop_fd, e);	until stop_fd is readable
 *
 * Three services on one port: dxs.prober's AgentService and ConnectionManager as published, and
 * weir.v1.Agent. There is one list of targets: the last StartPings or SetPinglist made it, and a watcher
 * whose list was replaced is told so. Everything but the engine's threads happens in the caller's.
 */
#ifndef WEIR_PROBE_AGENT_H
#define WEIR_PROBE_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "rpc/tls.h"

#define AGENT_TARGETS_MAX 20000

struct agent_options {
	const char *nics;   /* addresses, commas between them; NULL: of all physical interfaces */
	const char *listen; /* addresses for gRPC, commas between them; NULL: all, or loopback */
	const char *metrics_listen;		  /* NULL: loopback */
	int64_t port, data_port, metrics_port;	  /* metrics 0: none */
	int64_t max_qps;			  /* 0: none */
	int64_t connections_per_nic;		  /* 0: none */
	uint64_t payload_bytes;			  /* of StartPings */
	int memory;				  /* enum mem_kind: where payloads lie */
	const char *results_dir, *results_prefix; /* NULL dir: no files */
	uint64_t rotation_ns, flush_ns;
	struct rpc_tls_files tls; /* cert NULL: plaintext */
	bool insecure;
};

void agent_options_init(struct agent_options *o);
/* What the published prober reads of the environment; says which defaults it took. */
int agent_options_environ(struct agent_options *o, struct err *e);
int agent_run(const struct agent_options *o, int stop_fd, struct err *e);

#endif
