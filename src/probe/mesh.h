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
	MESH_LOAD, /* the same, and round again: ring_steps connections of each NIC, some of them of one pair */
	MESH_ROUND, /* the same rail of the partner in a round of a tournament */
	MESH_FILE,  /* pairs by name, see mesh_read() */
	MESH_GIVEN, /* those that are given, in the order of hosts */
};

struct mesh_pair {
	uint16_t from_host, to_host;
	uint8_t from_rail, to_rail;
	uint16_t copy; /* of MESH_LOAD: which connection of the pair */
};

struct mesh_want {
	enum mesh_kind kind;
	uint32_t hosts, rails;
	uint32_t ring_steps, round;
	const char *file;
	const struct mesh_pair *given;
	size_t givens;
	uint32_t peers_max; /* per NIC; 0: no limit */
};

/* Who the hosts of a file of pairs are. */
struct mesh_names {
	uint32_t hosts;
	const char *(*host)(const void *context, uint32_t host);
	uint32_t (*rails)(const void *context, uint32_t host);
	const char *(*address)(const void *context, uint32_t host, uint32_t rail);
	const void *context;
};

#define MESH_HOSTS_MAX 65535
#define MESH_RAILS_MAX 64

/* "full", "rail", "ring:4", "file:PATH"; the text must outlive want. */
int mesh_parse(struct mesh_want *want, const char *text, struct err *e);
/* pair: malloc()ed, sorted by from_host, from_rail. */
int mesh_build(const struct mesh_want *want, struct mesh_pair **pair, size_t *count, struct err *e);

/* The pairs of a file, one per line, # begins a comment: two NICs, each by its address or as HOST/RAIL, or two hosts, which
 * means all rails of both. Sorted and allocated as above. The error names the line. */
int mesh_read(const char *path, const struct mesh_names *names, struct mesh_pair **pair,
	size_t *count, struct err *e);

/* A tournament: round r of mesh_rounds(hosts) pairs host i with the returned one, each host with at
 * most one; -1: it rests. */
uint32_t mesh_rounds(uint32_t hosts);
int mesh_partner(uint32_t hosts, uint32_t round, uint32_t host);

#endif
