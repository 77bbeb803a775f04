/* SPDX-License-Identifier: BSD-3-Clause */
/* The controller: tells agents whom to probe, gathers what they see, and judges it.
 *
 *	struct controller_want want = { .hosts = &hosts, .port = 8080, .mesh = ..., .told = told };
 *	ret = controller_mesh(&want, stop_fd, e);
 *
 * A run is: ask every agent who it is, give each its list, gather windows until the duration is over or stop_fd is readable,
 * empty the lists. What one run leaves is in the last view; load tests and tournaments are several runs.
 *
 * An agent that does not answer at the start is left out and named; one that is lost later is asked again every
 * second, and the others go on. Agents stop probing by themselves when the controller is gone for
 * CONTROLLER_LEASE_NS. Where another controller takes an agent, it is left to that one and named; when all are taken the run
 * ends. One thread, the caller's; told is called from it.
 */
#ifndef WEIR_PROBE_CONTROLLER_H
#define WEIR_PROBE_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hist.h"
#include "probe/hosts.h"
#include "probe/mesh.h"
#include "probe/verdict.h"
#include "rpc/tls.h"

#define CONTROLLER_LEASE_NS  10000000000ull
#define CONTROLLER_SETTLE_NS 15000000000ull

struct controller_host {
	char name[256];
	uint32_t nics;
	bool answers;	     /* now */
	uint64_t sent, lost; /* by its own probes, in the last window */
};

struct controller_pair {
	struct mesh_pair m;
	const char *local, *peer; /* addresses */
	bool refused;		  /* by its agent: it is not probed */
	/* since the start */
	uint64_t sent, lost, corrupt, answered, min_ns, max_ns;
	double sum_ns;
	/* in the last window: medians, 0 where nothing is known */
	uint32_t window_sent, window_lost;
	uint64_t rtt_ns, network_ns, prober_ns, responder_ns, late_ns;
};

/* What is known now. Lives until told returns. */
struct controller_view {
	const struct controller_host *host;
	uint32_t hosts, rails;
	const struct controller_pair *pair;
	size_t pairs, refused;
	uint64_t wall_ns, windows;
	uint64_t sent, lost, corrupt; /* since the start */
	uint64_t window_sent, window_lost;
	const struct hist *rtt;	   /* since the start */
	const struct hist *window; /* in the last window */
	const struct verdicts *verdicts;
};

enum controller_news { CONTROLLER_STARTED, CONTROLLER_WINDOW, CONTROLLER_ENDED };

struct controller_want {
	const struct hosts *hosts;
	uint16_t port;
	struct rpc_tls_files tls; /* cert NULL: plaintext */
	struct mesh_want mesh;	  /* hosts and rails are found out */
	/* hosts * nics_per_host addresses in rail order, instead of what the agents say; NULL: what they say */
	const char *const *nic;
	uint32_t nics_per_host;
	double rate;	 /* probes per second and pair */
	double budget;	 /* probes per second and NIC; 0: none */
	uint32_t series; /* pairs of a host at most; 0: no limit */
	uint32_t payload_bytes;
	bool verify;
	uint64_t timeout_ns, window_ns;
	uint64_t duration_ns; /* 0: until stop_fd is readable */
	/* Count, and let the time begin, when every pair has sent its first probe, or CONTROLLER_SETTLE_NS after the start. */
	bool settle;
	void (*told)(void *context, enum controller_news news, const struct controller_view *view);
	void *context;
};

int controller_mesh(const struct controller_want *want, int stop_fd, struct err *e);

#endif
