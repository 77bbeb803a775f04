// SPDX-License-Identifier: BSD-3-Clause
/* dxs.prober as published: StartPings and StopPings replace all targets and wait for them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "probe/agent_parts.h"

/* Those it waits for go, or are of another list from now on: none of them has a place in its results. */
void change_abort(struct agent *a)
{
	struct change *c = &a->change;

	if (c->call)
		rpc_call_finish(c->call, RPC_ABORTED, "another request replaced this one");
	free(c->result);
	*c = (struct change){ 0 };
}

static void change_begin(struct agent *a, struct rpc_call *call, bool start, size_t targets)
{
	change_abort(a);
	watchers_end(a, RPC_ABORTED, "another controller has replaced the targets");
	agent_remove_all(a);
	a->change = (struct change){ .call = call, .start = start, .targets = targets };
	strcpy(a->owner, "dxs.prober");
	a->generation++;
	a->lease_ns = 0;
	loop_timer_cancel(&a->loop, &a->lease);
	agent_begin_windows(a, NS_PER_S);
}

/* Every target has its result, and the rows of those before are on disk. */
void change_go_on(struct agent *a)
{
	Dxs__Prober__ConnectionResults results = DXS__PROBER__CONNECTION_RESULTS__INIT;
	Dxs__Prober__StartPingsReply started = DXS__PROBER__START_PINGS_REPLY__INIT;
	Dxs__Prober__StopPingsReply stopped = DXS__PROBER__STOP_PINGS_REPLY__INIT;
	struct change *c = &a->change;
	struct rpc_call *call = c->call;
	size_t failed = 0;

	if (!call || c->unsettled || a->leaving)
		return;
	agent_flush(a);
	c->call = NULL;
	if (!c->start) {
		rpc_call_reply(call, &stopped.base);
		return;
	}
	results.n_results = c->targets;
	results.results = c->result;
	for (size_t i = 0; i < c->targets; i++)
		failed += c->result[i] != DXS__PROBER__RESULT__SUCCESS;
	rpc_call_add_detail(call, &results.base);
	if (failed)
		rpc_call_finish(call, RPC_INTERNAL, "%zu of %zu targets cannot be reached", failed,
			c->targets);
	else
		rpc_call_reply(call, &started.base);
	free(c->result);
	c->result = NULL;
}

void change_settled(struct agent *a, struct agent_target *t, const struct probe_result *r)
{
	struct change *c = &a->change;

	/* One of a list before this one has left the list already. */
	if (!c->result || t->link.next == &t->link || t->place >= c->targets)
		return;
	c->unsettled--;
	if (!r->code)
		c->result[t->place] = DXS__PROBER__RESULT__SUCCESS;
	else if (r->stage == PROBE_AT_CONTROL && r->code == RPC_RESOURCE_EXHAUSTED)
		c->result[t->place] = DXS__PROBER__RESULT__FAILURE_CONNECTION_LIMIT;
	else if (r->stage != PROBE_AT_CONTROL && r->code == ENOMEM)
		c->result[t->place] = DXS__PROBER__RESULT__FAILURE_ALLOCATING_GPU_MEMORY;
	else
		c->result[t->place] = DXS__PROBER__RESULT__FAILURE;
}

static void add_target(struct agent *a, size_t place, const Dxs__Prober__Target *from,
	struct probe_want *want, size_t before)
{
	struct change *c = &a->change;
	struct agent_target *t = NULL;
	int ret = -EINVAL;

	want->copy = (uint32_t)before;
	if (agent_parse_address(from->local_nic_ip_address, &want->local) &&
		agent_parse_address(from->peer_nic_ip_address, &want->peer))
		ret = agent_add(a, &t, want, NULL);
	c->result[place] = ret == -EUSERS   ? DXS__PROBER__RESULT__FAILURE_CONNECTION_LIMIT
			   : ret == -ENOMEM ? DXS__PROBER__RESULT__FAILURE_ALLOCATING_GPU_MEMORY
					    : DXS__PROBER__RESULT__FAILURE;
	if (ret)
		return;
	t->place = place;
	c->unsettled++;
}

static void start_pings(struct rpc_call *call, const ProtobufCMessage *message, void *context)
{
	const Dxs__Prober__StartPingsRequest *request = (const void *)message;
	struct agent *a = context;
	struct probe_want want = { .payload_bytes = (uint32_t)a->options->payload_bytes,
		.verify = request->verify_payload };
	int64_t qps = request->probe_rate_qps ? request->probe_rate_qps : 1;
	Dxs__Prober__Result *result;

	if (qps < 0 || request->n_targets > AGENT_TARGETS_MAX) {
		rpc_call_finish(call, RPC_INVALID_ARGUMENT,
			"probe_rate_qps is %" PRId64
			" and there are %zu targets: at least 0, and up to %d",
			qps, request->n_targets, AGENT_TARGETS_MAX);
		return;
	}
	if (a->options->max_qps && qps > a->options->max_qps) {
		log_warn("%" PRId64 " probes a second were asked for, the limit is %" PRId64, qps,
			a->options->max_qps);
		qps = a->options->max_qps;
	}
	if (qps > PROBE_RATE_MAX)
		qps = PROBE_RATE_MAX;
	want.period_ns = NS_PER_S / (uint64_t)qps;
	result = calloc(request->n_targets + 1, sizeof(*result));
	if (!result) {
		rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	change_begin(a, call, true, request->n_targets);
	a->change.result = result;
	/* Copies of a pair spread over its period by their number in the list. */
	for (size_t i = 0; i < request->n_targets; i++)
		add_target(a, i, request->targets[i], &want, i);
	change_go_on(a);
}

static void stop_pings(struct rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct agent *a = context;

	(void)message;
	change_begin(a, call, false, 0);
	change_go_on(a);
}

const struct rpc_method agent_service_methods[2] = {
	{ "StartPings", RPC_UNARY, start_pings },
	{ "StopPings", RPC_UNARY, stop_pings },
};

/* For probers of the published kind; agents of weir set up by weir.v1.Agent, where there is a token. */
static void set_up_pong(struct rpc_call *call, const ProtobufCMessage *message, void *context)
{
	const Dxs__Prober__SetUpRequest *request = (const void *)message;
	Dxs__Prober__SetUpReply reply = DXS__PROBER__SET_UP_REPLY__INIT;
	struct sock_addr client, server;
	struct agent *a = context;
	struct err e = { 0 };
	uint16_t port;

	if (!agent_parse_address(request->client_gpu_ip, &client) ||
		!agent_parse_address(request->server_gpu_ip, &server) ||
		request->client_dxs_port < 1 || request->client_dxs_port > 65535) {
		rpc_call_finish(call, RPC_CANCELLED,
			"client_gpu_ip and server_gpu_ip are addresses, client_dxs_port is 1 to 65535");
		return;
	}
	sock_addr_set_port(&client, (uint16_t)request->client_dxs_port);
	if (probe_engine_pong(a->engine, &client, &server, rpc_call_deadline_ns(call), &port, &e)) {
		rpc_call_finish(call, RPC_CANCELLED, "%s", e.what);
		return;
	}
	reply.dxs_port = port;
	rpc_call_reply(call, &reply.base);
}

static void tear_down(struct rpc_call *call, const ProtobufCMessage *message, void *context)
{
	const Dxs__Prober__TearDownRequest *request = (const void *)message;
	Dxs__Prober__TearDownReply reply = DXS__PROBER__TEAR_DOWN_REPLY__INIT;
	struct agent *a = context;
	struct sock_addr ping, pong;

	if (!agent_parse_address(request->ping_ip, &ping) ||
		!agent_parse_address(request->pong_ip, &pong)) {
		rpc_call_finish(call, RPC_CANCELLED, "ping_ip and pong_ip are no addresses");
		return;
	}
	probe_engine_hang_up(a->engine, &ping, &pong);
	rpc_call_reply(call, &reply.base);
}

const struct rpc_method connection_manager_methods[2] = {
	{ "SetUpPongConnection", RPC_UNARY, set_up_pong },
	{ "TearDownConnection", RPC_UNARY, tear_down },
};
