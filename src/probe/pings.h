/* SPDX-License-Identifier: BSD-3-Clause */
/* StartPings and StopPings at every agent, as the published controller does: agents probe on their own until they are told
 * to stop, and write their results where they run. */
#ifndef WEIR_PROBE_PINGS_H
#define WEIR_PROBE_PINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/hosts.h"
#include "probe/mesh.h"
#include "rpc/tls.h"

struct pings_want {
	const struct hosts *hosts;
	uint16_t port;
	struct rpc_tls_files tls; /* cert NULL: plaintext */
	struct mesh_want mesh;	  /* hosts and rails are found out */
	double rate, budget;	  /* whole probes per second, 1 or more; per NIC */
	bool verify;
};

/* All at once. Returns how many hosts failed, which is said, or -errno. */
int pings_all(const struct pings_want *want, bool start, struct err *e);

#endif
