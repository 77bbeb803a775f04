// SPDX-License-Identifier: BSD-3-Clause
#include "probe/pings.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "probe/roll.h"
#include "rpc/proto/prober.pb-c.h"

#define START_NS (30 * NS_PER_S)
#define STOP_NS	 (5 * NS_PER_S)

struct pings {
	const struct pings_want *want;
	struct loop loop;
	struct roll roll;
	uint32_t waiting, failed;
};

static void answered(void *context, const struct rpc_reply *reply)
{
	struct roll_agent *a = context;
	struct pings *p = a->roll->context;

	if (reply->code)
		log_warn("%s: %s: %s", a->name, rpc_code_name(reply->code), reply->words);
	p->failed += reply->code != RPC_OK;
	if (!--p->waiting)
		loop_stop(&p->loop);
}

static int call(struct pings *p, struct roll_agent *a, const char *method,
	const ProtobufCMessage *message, uint64_t within_ns, struct err *e)
{
	struct rpc_request request = { .service = &dxs__prober__agent_service__descriptor,
		.method = method,
		.message = message,
		.deadline_ns = clock_ns() + within_ns,
		.done = answered,
		.context = a };
	int ret = rpc_client_call(a->client, &request, e);

	p->waiting += !ret;
	return ret;
}

/* The targets of a host. */
static int start_one(
	struct pings *p, uint32_t host, const struct mesh_pair *pair, size_t pairs, struct err *e)
{
	const struct pings_want *want = p->want;
	Dxs__Prober__StartPingsRequest message = DXS__PROBER__START_PINGS_REQUEST__INIT;
	Dxs__Prober__Target *target = calloc(pairs + 1, sizeof(*target));
	struct roll_agent *agent = p->roll.agent;
	int ret;

	message.targets = calloc(pairs + 1, sizeof(*message.targets));
	message.probe_rate_qps = (int32_t)want->rate;
	message.verify_payload = want->verify;
	for (size_t i = 0; target && message.targets && i < pairs; i++) {
		Dxs__Prober__Target *t = &target[message.n_targets];

		if (pair[i].from_host != host || pair[i].from_rail >= agent[host].nics ||
			pair[i].to_rail >= agent[pair[i].to_host].nics)
			continue;
		dxs__prober__target__init(t);
		t->local_nic_ip_address = agent[host].nic[pair[i].from_rail];
		t->peer_nic_ip_address = agent[pair[i].to_host].nic[pair[i].to_rail];
		message.targets[message.n_targets++] = t;
	}
	if (agent[host].rate_max && (uint64_t)message.probe_rate_qps > agent[host].rate_max)
		log_warn("%s sends %" PRIu64 " probes a second, not %d: its --max-qps",
			agent[host].name, agent[host].rate_max, message.probe_rate_qps);
	ret = target && message.targets
		      ? call(p, &agent[host], "StartPings", &message.base, START_NS, e)
		      : err_set(e, ENOMEM, "no memory for %zu targets", pairs);
	free(message.targets);
	free(target);
	return ret;
}

/* For a file of pairs */

static const char *name_of(const void *context, uint32_t host)
{
	return ((const struct roll *)context)->agent[host].name;
}

static uint32_t rails_of(const void *context, uint32_t host)
{
	return ((const struct roll *)context)->agent[host].nics;
}

static const char *address_of(const void *context, uint32_t host, uint32_t rail)
{
	return ((const struct roll *)context)->agent[host].nic[rail];
}

static int make_pairs(const struct pings *p, struct mesh_pair **pair, size_t *pairs, struct err *e)
{
	const struct pings_want *want = p->want;
	struct mesh_names names = { p->roll.hosts, name_of, rails_of, address_of, &p->roll };
	struct mesh_want mesh = want->mesh;

	mesh.hosts = p->roll.hosts;
	mesh.rails = p->roll.rails;
	if (want->budget > 0)
		mesh.peers_max =
			want->budget < want->rate ? 1 : (uint32_t)(want->budget / want->rate);
	return mesh.kind == MESH_FILE ? mesh_read(mesh.file, &names, pair, pairs, e)
				      : mesh_build(&mesh, pair, pairs, e);
}

static void roll_called(void *context)
{
	struct pings *p = context;

	loop_stop(&p->loop);
}

static int start_all(struct pings *p, struct err *e)
{
	struct mesh_pair *pair = NULL;
	size_t pairs;
	int ret = 0;

	if (!p->roll.rails)
		ret = roll_nobody(e);
	if (!ret)
		ret = make_pairs(p, &pair, &pairs, e);
	for (uint32_t i = 0; !ret && i < p->roll.hosts; i++) {
		if (p->roll.agent[i].nics)
			ret = start_one(p, i, pair, pairs, e);
		else
			p->failed++;
	}
	if (!ret && p->waiting)
		ret = loop_run(&p->loop, e);
	free(pair);
	return ret;
}

/* Who speaks no more than the published calls is stopped as well. */
static int stop_all(struct pings *p, struct err *e)
{
	Dxs__Prober__StopPingsRequest message = DXS__PROBER__STOP_PINGS_REQUEST__INIT;
	int ret = 0;

	for (uint32_t i = 0; !ret && i < p->roll.hosts; i++) {
		if (p->roll.agent[i].reached)
			ret = call(p, &p->roll.agent[i], "StopPings", &message.base, STOP_NS, e);
		else
			p->failed++;
	}
	if (!ret && p->waiting)
		ret = loop_run(&p->loop, e);
	return ret;
}

int pings_all(const struct pings_want *want, bool start, struct err *e)
{
	struct pings *p = calloc(1, sizeof(*p));
	int ret;

	if (!p)
		return err_set(e, ENOMEM, "no memory for %zu hosts", want->hosts->count);
	p->want = want;
	ret = loop_init(&p->loop, NULL, e);
	if (ret)
		goto free_pings;
	ret = roll_open(&p->roll, &p->loop, want->hosts, want->port, &want->tls, e);
	if (!ret)
		ret = roll_call(&p->roll, roll_called, p, e);
	if (!ret)
		ret = loop_run(&p->loop, e);
	if (!ret)
		ret = start ? start_all(p, e) : stop_all(p, e);
	if (!ret)
		ret = (int)p->failed;
	roll_close(&p->roll);
	loop_close(&p->loop);
free_pings:
	free(p);
	return ret;
}
