/* SPDX-License-Identifier: BSD-3-Clause */
/* The results of a tournament: what each pair of NICs reached at its best, who stands out, and what that says.
 *
 *	struct tournament t = { .latency = true, .slow = 2 };
 *	r = tournament_pair(&t, &pair, round, local, peer, e);	for each measurement
 *	tournament_keep(&t, r, value, &hosts);
 *	tournament_usual(&t, e);				when all were measured once
 *	n = tournament_suspects(&t, round, pairs);		to be measured once more
 *	tournament_accuse(&t, verdicts);			who still stands out
 *	tournament_free(&t);
 *
 * A pair stands out when it failed, lost probes, or is slower than the median of all by the factor slow (latency: and by VERDICT_SLOW_NS). It is starved
 * when its own hosts explain that: by probes, when it is slower by no more than an end of it was late, or than its part of the round trip, whenever it was
 * measured, or lost probes while an end of it was VERDICT_LATE_NS late; by streams, when an end of it waited for a CPU for half of the time. Such a one
 * accuses its host alone, as one that cannot tell.
 *
 * No sockets, no clock. Not thread-safe.
 */
#ifndef WEIR_PROBE_TOURNAMENT_H
#define WEIR_PROBE_TOURNAMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/sock.h"
#include "probe/mesh.h"
#include "probe/verdict.h"

/* What the hosts of a pair took themselves: nanoseconds of latency, or of streams the share of the time that it waited for a CPU. */
struct tournament_hosts {
	double from, to;
};

struct tournament_result {
	struct mesh_pair m;
	char local[SOCK_ADDR_TEXT], peer[SOCK_ADDR_TEXT];
	uint32_t round;
	double value;		       /* ns or bit/s, the best; 0: none */
	struct tournament_hosts hosts; /* latency: the least; streams: of the best */
	uint64_t sent, lost;	       /* of the last time it was measured */
	struct tournament_hosts late;  /* latency: the most, in ns */
	bool failed;
	char why[160]; /* it failed */
};

struct tournament {
	bool latency;
	double slow; /* the factor */
	struct tournament_result *result;
	size_t results, room;
	size_t first; /* those before it are of rounds that are over, and not looked for */
	double usual; /* the median of all values */
};

void tournament_free(struct tournament *t);

/* The result of a pair, made when there is none yet; NULL: -ENOMEM is in e. */
struct tournament_result *tournament_pair(struct tournament *t, const struct mesh_pair *m,
	uint32_t round, const char *local, const char *peer, struct err *e);

void tournament_keep(const struct tournament *t, struct tournament_result *r, double value,
	const struct tournament_hosts *hosts);
void tournament_keep_late(struct tournament_result *r, const struct tournament_hosts *late);

int tournament_usual(struct tournament *t, struct err *e);

bool tournament_is_lossy(const struct tournament_result *r);
bool tournament_is_slow(const struct tournament *t, const struct tournament_result *r);
bool tournament_is_suspect(
	const struct tournament *t, const struct tournament_result *r); /* either */
/* It stands out, but its hosts explain it. host gets which; NULL: no matter. */
bool tournament_is_starved(
	const struct tournament *t, const struct tournament_result *r, uint32_t *host);

/* The pairs that stand out in a round; pair has room for all of it. */
size_t tournament_suspects(const struct tournament *t, uint32_t round, struct mesh_pair *pair);
/* In all rounds. */
size_t tournament_suspect_count(const struct tournament *t);

/* Accuse those that stand out. v was made of all pairs, in the order of the results. */
void tournament_accuse(const struct tournament *t, struct verdicts *v);

#endif
