/* SPDX-License-Identifier: BSD-3-Clause */
/* Measurements between agents: streams or transfers that agents run for us, many at once.
 *
 *	ret = runs_open(&runs, &hosts, 8080, &tls, stop_fd, e);
 *	mesh = (struct mesh_want){ .kind = MESH_ROUND, .hosts = hosts.count, .rails = runs_rails(runs), .round = 0 };
 *	mesh_build(&mesh, &pair, &pairs, e);
 *	ret = runs_round(runs, pair, pairs, false, 1, 2 * NS_PER_S, ran, context, e);
 *	runs_close(runs);
 *
 * All pairs of a round measure at the same time. Agents that do not answer are left out and named, as are pairs of NICs that
 * are not there. One thread, the caller's; ran is called from it.
 */
#ifndef WEIR_PROBE_RUNS_H
#define WEIR_PROBE_RUNS_H

#include <stdbool.h>
#include <stdint.h>

#include "net/sock.h"
#include "probe/hosts.h"
#include "probe/mesh.h"
#include "rpc/tls.h"

struct runs;

struct runs_job {
	struct mesh_pair pair; /* from: the client, who sends */
	const char *local, *peer;
	double bits_per_s;
	uint64_t from_starved_ns, to_starved_ns; /* waited for a CPU; 0 also where nobody counted */
	bool failed;
	char why[160]; /* it failed */
};

int runs_open(struct runs **out, const struct hosts *hosts, uint16_t port,
	const struct rpc_tls_files *tls, int stop_fd, struct err *e);
uint32_t runs_rails(const struct runs *r);
int runs_round(struct runs *r, const struct mesh_pair *pair, size_t pairs, bool p2p, uint32_t flows,
	uint64_t length_ns, void (*ran)(void *context, const struct runs_job *job), void *context,
	struct err *e);
void runs_close(struct runs *r);

#endif
