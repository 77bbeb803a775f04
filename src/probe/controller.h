/* SPDX-License-Identifier: BSD-3-Clause */
/* The controller: tells agents whom to probe, gathers what they see, and judges it.
 *
 *	struct controller_want want = { .hosts = &hosts, .port = 8080, .mesh = ..., .told = told };
 *	ret = controller_mesh(&want, stop_fd, e);
 *
 * An agent that does not answer at the start is left out and named; one that is lost later is asked again every
 * second, and the others go on. Agents stop probing by themselves when the controller is gone for
 * CONTROLLER_LEASE_NS. One thread, the caller's; told is called from it.
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

#define CONTROLLER_LEASE_NS 10000000000ull

struct controller_host {
	char name[256];
	uint32_t nics;
	bool answers;	     /* now */
	uint64_t sent, lost; /* by its own probes, in the last window */
};

/* What is known now. Lives until told returns. */
struct controller_view {
	const struct controller_host *host;
	uint32_t hosts, rails;
	size_t pairs;
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
	double rate;		  /* probes per second and pair */
	double budget;		  /* probes per second and NIC; 0: none */
	uint32_t payload_bytes;
	bool verify;
	uint64_t timeout_ns, window_ns;
	uint64_t duration_ns; /* 0: until stop_fd is readable */
	void (*told)(void *context, enum controller_news news, const struct controller_view *view);
	void *context;
};

int controller_mesh(const struct controller_want *want, int stop_fd, struct err *e);

#endif
