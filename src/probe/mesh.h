/* SPDX-License-Identifier: BSD-3-Clause */
/* Who probes whom: pairs of NICs, made of hosts and rails alone, so that two people get the same list.
 *
 *	struct mesh_want want = { .kind = MESH_RAIL, .hosts = 1000, .rails = 8, .peers_max = 16 };
 *	ret = mesh_build(&want, &pair, &count, e);
 *	...
 *	free(pair);
 *
 * A NIC has as many pairs in as out. With more candidates than peers_max the same number of steps around
 * the ring of hosts is taken by every host, spread evenly: the cost grows as peers_max * n, and any two
 * hosts are few steps apart.
 */
#ifndef WEIR_PROBE_MESH_H
#define WEIR_PROBE_MESH_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum mesh_kind {
	MESH_FULL, /* every NIC to every NIC of other hosts */
	MESH_RAIL, /* to the NIC of the same rail of every other host */
	MESH_RING, /* the same rail, the next ring_steps hosts */
};

struct mesh_want {
	enum mesh_kind kind;
	uint32_t hosts, rails;
	uint32_t ring_steps;
	uint32_t peers_max; /* per NIC; 0: no limit */
};

struct mesh_pair {
	uint16_t from_host, to_host;
	uint8_t from_rail, to_rail;
};

#define MESH_HOSTS_MAX 65535
#define MESH_RAILS_MAX 64

/* "full", "rail", "ring:4" */
int mesh_parse(struct mesh_want *want, const char *text, struct err *e);
/* pair: malloc()ed, sorted by from_host, from_rail. */
int mesh_build(const struct mesh_want *want, struct mesh_pair **pair, size_t *count, struct err *e);

/* A tournament: round r of mesh_rounds(hosts) pairs host i with the returned one, each host with at
 * most one; -1: it rests. */
uint32_t mesh_rounds(uint32_t hosts);
int mesh_partner(uint32_t hosts, uint32_t round, uint32_t host);

#endif
