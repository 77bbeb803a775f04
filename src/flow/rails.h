/* SPDX-License-Identifier: BSD-3-Clause */
/* Many rails at once in one process, each a client or server of weir stream in a thread of its own.
 *
 *	struct rails_events events = { .over = keep_result, .round = print_table, ... };
 *	ret = rails_run(rails, &events, e);
 *
 * Clients wait for each other: once its flows are connected a rail begins when all others are
 * connected or have failed, so that all are measured in the same seconds. A server serves rounds:
 * one begins with the first client that comes, and is over when every rail has had its run or has
 * failed; a rail that no client comes to within a few seconds of the others has failed.
 *
 * A rail that fails does not touch the others. It is reported once in each round, by over (something
 * was measured) or by failed (nothing was), with the rail it is about.
 */
#ifndef WEIR_FLOW_RAILS_H
#define WEIR_FLOW_RAILS_H

#include "flow/endpoint.h"
#include "flow/rails_plan.h"

/* Calls never overlap. */
struct rails_events {
	void *context;
	int stop_fd; /* readable: end soon, with what was measured */
	/* server: this rail listens */
	void (*ready)(void *context, const struct rail *r, const struct sock_addr *address);
	void (*started)(void *context, const struct rail *r, const struct run *run);
	void (*interval)(void *context, const struct rail *r, const struct run *run,
		const struct interval_result *iv);
	/* the link of a rail that is being measured is gone: "eth1 is down" */
	void (*trouble)(void *context, const struct rail *r, const char *words);
	void (*over)(void *context, const struct rail *r, const struct outcome *outcome);
	void (*failed)(void *context, const struct rail *r, const struct err *why);
	/* Every rail has been reported: a client's run, or a round of a server, is over. */
	void (*round)(void *context);
};

/* Until all rails of a client are over, or a server was stopped, has served one round with --once,
 * or has no rail left that listens. What becomes of single rails is in the events. */
int rails_run(struct rails *rails, const struct rails_events *events, struct err *e);

#endif
