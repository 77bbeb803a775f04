/* SPDX-License-Identifier: BSD-3-Clause */
/* What the numbers mean: which host, NIC, rail or pair is bad, and since when.
 *
 *	verdict_new(&v, hosts, rails, pair, pairs, e);
 *	for each window:
 *		for each pair that reported:
 *			verdict_add(v, index, &window);
 *		verdict_judge(v, begin_ns, end_ns);
 *		for (i = 0; i < verdict_count(v); i++)
 *			... verdict_at(v, i)		what is bad now, and what has just ended
 *	verdict_free(v);
 *
 * Windows that hold fewer than VERDICT_PROBES_MIN probes of a pair, on average, are joined until they hold as many,
 * and are judged as one. A pair is bad in a window when it lost half of its probes or more (at least two), or a
 * twentieth of those of the last ten windows that it was probed in (at least three). It is slow when its median is
 * three times its own baseline, twice that of its siblings, VERDICT_SLOW_NS and eight times its usual deviation above
 * the baseline, in VERDICT_SLOW_WINDOWS windows that follow each other. Bad pairs vote: the group (host, rail, NIC,
 * or one side of a host or NIC) that explains the most of them and is bad in four fifths of its pairs is named, what
 * it explains is set aside, and so on. Only what is found in VERDICT_NAME_WINDOWS windows that follow each other is
 * told: agents do not report in step, and the first half of a cut rail looks like something smaller. What was named
 * ends with the second window without a vote. A window in which nothing of it was probed counts neither way, and
 * parts no two that follow each other. A group with fewer than three members is never named: its pairs are, with
 * cannot_tell set.
 *
 * A host that is starved of CPU measures itself. Slowness that is not larger than what the prober was late, or than the
 * delay of prober or responder, says nothing about the network, nor does loss where either was VERDICT_LATE_NS late: the
 * host is named as VERDICT_PROBER, with cannot_tell set. Windows without kernel stamps are not compared with those that
 * have them, since the hosts' delays are in them.
 *
 * No sockets, no clock: the same windows give the same verdicts. Not thread-safe.
 */
#ifndef WEIR_PROBE_VERDICT_H
#define WEIR_PROBE_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "probe/mesh.h"

#define VERDICT_SLOW_NS	     50000
#define VERDICT_SLOW_WINDOWS 3
#define VERDICT_NAME_WINDOWS                                                                       \
	2 /* in a row, before a name is told: what breaks is not seen by all at once */
#define VERDICT_SAMPLES_MIN  3 /* answers behind a median */
#define VERDICT_PROBES_MIN   2 /* of a pair, on average, behind a judgement */
#define VERDICT_LATE_NS	     500000000ull
#define VERDICT_MEMBERS_MIN  3
#define VERDICT_BASE_WINDOWS 5 /* healthy windows before a baseline is believed */
#define VERDICT_HISTORY	     10

struct verdict_window {
	uint32_t sent, lost;
	uint32_t samples;      /* behind the medians */
	bool stamped;	       /* median_ns is of the network alone, not of the round trip */
	uint64_t median_ns;    /* 0: none */
	uint64_t prober_ns;    /* median delay at the prober; 0: not known */
	uint64_t responder_ns; /* and at the responder */
	uint64_t late_ns;      /* how late the latest probe was sent */
};

enum verdict_subject { VERDICT_HOST, VERDICT_RAIL, VERDICT_NIC, VERDICT_PAIR, VERDICT_PROBER };
enum verdict_fault { VERDICT_LOSS, VERDICT_SLOW };
/* Of a host or NIC: all of its pairs are bad, or those it probes from, or those it answers. */
enum verdict_side { VERDICT_BOTH, VERDICT_SENDS, VERDICT_RECEIVES };

struct verdict {
	enum verdict_subject subject;
	enum verdict_fault fault;
	enum verdict_side side;
	uint32_t host, rail;	   /* of a pair: its prober's */
	uint32_t to_host, to_rail; /* of a pair */
	uint32_t pairs, bad;	   /* of the group, in this window */
	bool cannot_tell;
	uint64_t begin_ns, end_ns; /* wall clock, of all bad windows; end 0: it lasts */
	bool is_new;		   /* named for the first time by this judgement */
};

struct verdicts;

int verdict_new(struct verdicts **out, uint32_t hosts, uint32_t rails, const struct mesh_pair *pair,
	size_t pairs, struct err *e);
void verdict_free(struct verdicts *v);

void verdict_add(struct verdicts *v, size_t pair, const struct verdict_window *w);
/* Judge what was added since the last time, if it is enough; begins a new window. Wall clock: when this one
 * began and ended. */
int verdict_judge(struct verdicts *v, uint64_t begin_ns, uint64_t end_ns);

/* Instead, where a pair was judged by other means than windows: accuse those that are bad, then let them vote. All pairs
 * take part. */
void verdict_accuse(struct verdicts *v, size_t pair, enum verdict_fault fault);
/* One that was accused, but that this host of it explains. */
void verdict_starve(struct verdicts *v, size_t pair, uint32_t host);
void verdict_attribute(struct verdicts *v, uint64_t wall_ns);

/* What lasts, and what ended with the last judgement. Valid until the next. */
size_t verdict_count(const struct verdicts *v);
const struct verdict *verdict_at(const struct verdicts *v, size_t index);

#endif
