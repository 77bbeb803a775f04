/* SPDX-License-Identifier: BSD-3-Clause */
/* Verdicts from the inside: verdict_look.c judges each pair, verdict.c lets them vote and keeps what is named. */
#ifndef WEIR_PROBE_VERDICT_PARTS_H
#define WEIR_PROBE_VERDICT_PARTS_H

#include "probe/verdict.h"

#define VERDICT_NAMES_MAX 1024 /* at once */

struct pair {
	struct mesh_pair m;
	struct verdict_window now;
	uint64_t base_ns, deviation_ns; /* of its median */
	uint32_t base_windows;
	uint16_t sent[VERDICT_HISTORY], lost[VERDICT_HISTORY];
	uint8_t at; /* in both: the next window that it is probed in */
	uint8_t suspect_windows, starved_windows; /* one after the other, to the last */
	bool stamped;				  /* what the baseline is of */
	bool seen, bad, explained;
	bool starved; /* bad, but its own hosts explain it */
	uint32_t starved_host;
	enum verdict_fault fault;
};

/* A group's votes of this window. */
struct group {
	uint32_t pairs, bad, left;		       /* left: bad and not yet explained */
	bool probed;				       /* any of its pairs, starved ones too */
	uint32_t member[VERDICT_MEMBERS_MIN], members; /* other hosts, up to as many as matter */
};

struct name {
	struct verdict v;
	uint32_t quiet, votes; /* votes: windows in a row, until it is published */
	bool voted, published;
	size_t pair;	 /* of a pair: the one that voted last */
	uint64_t bad_ns; /* the end of the last window that voted for it */
};

struct verdicts {
	uint32_t hosts, rails, name_windows;
	uint64_t begin_ns[VERDICT_SLOW_WINDOWS]; /* of the last windows, this one first */
	uint64_t end_ns;			 /* of this one */
	bool joining;				 /* this one goes on: it holds too few probes */
	struct pair *pair;
	size_t pairs;
	struct group *group; /* rails, then hosts and NICs, three sides each */
	size_t groups;
	uint64_t *rail_median, *scratch; /* scratch */
	uint32_t *accused;		 /* pairs that are bad and that no group explains yet */
	size_t accusations;
	uint64_t *late_ns; /* of each host, in this window */
	struct name name[VERDICT_NAMES_MAX];
	size_t names;
};

/* Judge every pair by its window: bad, fault, starved. */
void verdict_look(struct verdicts *v);

#endif
