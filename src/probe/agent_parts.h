/* SPDX-License-Identifier: BSD-3-Clause */
/* The agent from the inside: what agent.c, agent_prober.c and agent_native.c share. */
#ifndef WEIR_PROBE_AGENT_PARTS_H
#define WEIR_PROBE_AGENT_PARTS_H

#include "base/hist.h"
#include "base/loop.h"
#include "probe/agent.h"
#include "probe/engine.h"
#include "probe/results.h"
#include "probe/worker.h"
#include "rpc/health.h"
#include "rpc/proto/agent.pb-c.h"
#include "rpc/proto/prober.pb-c.h"
#include "rpc/server.h"

/* What one probe of a window measured. */
struct sample {
	uint64_t rtt_ns, network_ns, residence_ns;
	uint8_t stamps;
};
#define SAMPLES_MAX 4096 /* of one target in one window; beyond it they are only counted */

struct agent_target {
	/* What a row touches: first, where the engine fetches it. */
	size_t nic;
	char local[SOCK_ADDR_TEXT], peer[SOCK_ADDR_TEXT];
	uint64_t sent, lost, corrupt, answered; /* in this window */
	uint64_t late_ns;			/* the latest of it */
	struct sample *sample;
	size_t samples, room;

	struct list link;
	struct probe_target *probe;
	struct probe_want want;
	char rail[32];
	Weir__V1__TargetState state;
	size_t place; /* in the request of the change under way */
};
_Static_assert(offsetof(struct agent_target, link) <= PROBE_FETCHED, "a row touches no more");

/* A StartPings or StopPings that waits for its targets. */
struct change {
	struct rpc_call *call;
	bool start;
	size_t targets, unsettled;
	Dxs__Prober__Result *result;
};

struct watcher {
	struct list link;
	struct agent *agent;
	struct rpc_call *call;
	char name[64];
	uint64_t sequence;
};

/* A change of state since the last report. */
struct event {
	uint64_t wall_ns;
	char local[SOCK_ADDR_TEXT], peer[SOCK_ADDR_TEXT];
	Weir__V1__TargetState from, to;
	char reason[PROBE_WORDS];
};
#define EVENTS_MAX 1024 /* between two reports */

/* Since the start, per NIC. */
struct nic_totals {
	char address[SOCK_ADDR_TEXT];
	uint64_t sent, lost, corrupt;
	struct hist rtt;
};

#define LATE_NS (10 * NS_PER_S)

struct agent {
	const struct agent_options *options;
	struct loop loop;
	struct loop_fd stop;
	struct loop_timer drain, flush, window, lease;
	struct rpc_server *server;
	struct rpc_health *health;
	struct rpc_tls *tls;
	struct probe_engine *engine;
	struct web_server *web;
	struct results results;
	bool has_results, results_failed, stopping;

	struct list targets;
	size_t target_count, leaving; /* leaving: removed, not yet gone */
	struct change change;
	struct list watchers, runs;
	size_t run_count;
	struct event *event;
	size_t events;
	uint64_t generation, started_wall_ns;
	uint64_t lease_ns, lease_due_ns;
	uint64_t seen_ns; /* a sign of the owner, other than what its watchers' connections bring */
	uint64_t window_ns, window_begun_ns, window_wall_ns;
	char owner[64], host[65];

	struct nic_totals *nic;
	size_t nics;
	struct hist schedule;	/* how late probes were sent, since the start */
	struct hist *recent[2]; /* the same, in this LATE_NS and the one before */
	uint64_t recent_ns;
};

/* agent.c */
/* 0 or -errno, said in the log: -EADDRNOTAVAIL, -EUSERS, -EINVAL, -ENOMEM. */
int agent_add(struct agent *a, struct agent_target **target, const struct probe_want *want,
	const char *rail);
void agent_remove(struct agent *a, struct agent_target *t);
void agent_remove_all(struct agent *a);
void agent_drain(struct agent *a); /* take what the engine has */
/* A report after so long, again and again, from now on: of nothing before. */
void agent_begin_windows(struct agent *a, uint64_t window_ns);
int agent_flush(struct agent *a);
bool agent_parse_address(const char *text, struct sock_addr *addr);

/* agent_prober.c */
extern const struct rpc_method agent_service_methods[2], connection_manager_methods[2];
void change_settled(struct agent *a, struct agent_target *t, const struct probe_result *r);
void change_go_on(struct agent *a); /* answers when nothing is waited for any more */
void change_abort(struct agent *a); /* another list replaces its targets */

/* agent_metrics.c */
int agent_metrics_start(struct agent *a, struct err *e);

/* agent_run.c */
int agent_name_parent(
	struct err *e); /* for runs, which end when this process does; before there are threads */
void agent_run_end(struct rpc_call *call, const ProtobufCMessage *message, void *context);
void agent_kill_runs(struct agent *a);
/* The GPU beside a NIC, as long as there are as many: those of rail i belong together. */
unsigned int agent_gpu_of(size_t nic);

/* agent_native.c */
extern const struct rpc_method agent_native_methods[5];
void report_window(struct agent *a);  /* all pairs, and begin a new window */
void report_begin(struct agent *a);   /* a new window */
void report_changes(struct agent *a); /* what happened, at once */
void watchers_end(struct agent *a, enum rpc_code code, const char *why);
void agent_health(struct agent *a, Weir__V1__Health *h);

#endif
