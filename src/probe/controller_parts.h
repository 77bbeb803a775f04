/* SPDX-License-Identifier: BSD-3-Clause */
/* The controller from the inside: controller.c speaks to agents, controller_report.c adds up what they see. */
#ifndef WEIR_PROBE_CONTROLLER_PARTS_H
#define WEIR_PROBE_CONTROLLER_PARTS_H

#include "base/loop.h"
#include "probe/controller.h"
#include "probe/roll.h"
#include "rpc/proto/agent.pb-c.h"

struct remote {
	struct controller *c;
	struct controller_host *shown;
	struct roll_agent *agent;
	struct loop_timer retry;
	bool watching, listed;
	bool complained;     /* it was said that it does not take its list */
	bool taken;	     /* by another controller */
	bool is_last;	     /* the report that ends the run is still to come */
	size_t first, pairs; /* of the controller's pairs, by from_host */
};

struct controller {
	const struct controller_want *want;
	struct loop loop;
	struct loop_fd stop;
	struct loop_timer judge, end;
	uint64_t judge_ns; /* when the window ends */
	struct roll roll;
	struct remote *remote;
	struct controller_host *host;
	uint32_t hosts, clearing;
	bool settling, ended;
	size_t unsettled; /* pairs */
	struct controller_pair *pair;
	size_t pairs;
	struct verdicts *verdicts;
	struct controller_view view;
	struct hist rtt, window, last_window;
	uint64_t window_sent, window_lost, generation;
	struct err error; /* what ended it */
	char name[64];
};

/* The time runs from now on, and the first window is judged after so long. */
void controller_begin(struct controller *c, uint64_t first_ns);
/* A message of Watch. */
void controller_received(void *context, const ProtobufCMessage *message);
/* The window is over: judged, told, forgotten. */
void controller_judge(struct controller *c);
void controller_tell(struct controller *c, enum controller_news news);
/* Every pair has probed, or was waited for long enough: from now on it counts. */
void controller_settled(struct controller *c);
/* The last report has come, of this agent. */
void controller_last(struct remote *r);

#endif
