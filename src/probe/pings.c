// SPDX-License-Identifier: BSD-3-Clause
#include "probe/pings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "net/sock.h"
#include "rpc/client.h"
#include "rpc/proto/agent.pb-c.h"
#include "rpc/proto/prober.pb-c.h"

#define ASK_NS	 (5 * NS_PER_S)
#define START_NS (30 * NS_PER_S)

struct node {
	char nic[MESH_RAILS_MAX][SOCK_ADDR_TEXT];
	uint32_t nics;
};

static void took_status(void *context, const struct rpc_reply *reply)
{
	const Weir__V1__AgentStatus *status = (const void *)reply->message;
	struct node *node = context;

	for (size_t i = 0; status && i < status->n_nic_address && i < MESH_RAILS_MAX; i++) {
		snprintf(node->nic[i], SOCK_ADDR_TEXT, "%s", status->nic_address[i]);
		node->nics++;
	}
}

static int call(const struct pings_want *want, struct rpc_tls *tls, size_t host,
	struct rpc_request *request)
{
	struct rpc_client_options options = { .tls = tls };
	struct sock_addr addr[SOCK_ADDRS];
	struct err e = { 0 };
	char port[8];
	size_t count;
	int ret;

	snprintf(port, sizeof(port), "%u", want->port);
	ret = sock_resolve(want->hosts->name[host], port, 0, false, addr, &count, &e);
	if (!ret)
		ret = rpc_call_wait(&addr[0], &options, request, &e);
	if (ret && want->said)
		want->said(want->context, want->hosts->name[host], e.what);
	return ret;
}

static int start_one(const struct pings_want *want, struct rpc_tls *tls, size_t host,
	struct node *node, const struct mesh_pair *pair, size_t pairs)
{
	Dxs__Prober__StartPingsRequest message = DXS__PROBER__START_PINGS_REQUEST__INIT;
	Dxs__Prober__Target *target = calloc(pairs + 1, sizeof(*target));
	struct rpc_request request = { .service = &dxs__prober__agent_service__descriptor,
		.method = "StartPings",
		.message = &message.base,
		.deadline_ns = clock_ns() + START_NS };
	int ret = -ENOMEM;

	message.targets = calloc(pairs + 1, sizeof(*message.targets));
	message.probe_rate_qps = want->rate < 1 ? 1 : (int32_t)want->rate;
	message.verify_payload = want->verify;
	for (size_t i = 0; target && message.targets && i < pairs; i++) {
		Dxs__Prober__Target *t = &target[message.n_targets];

		if (pair[i].from_host != host || pair[i].from_rail >= node[host].nics ||
			pair[i].to_rail >= node[pair[i].to_host].nics)
			continue;
		dxs__prober__target__init(t);
		t->local_nic_ip_address = node[host].nic[pair[i].from_rail];
		t->peer_nic_ip_address = node[pair[i].to_host].nic[pair[i].to_rail];
		message.targets[message.n_targets++] = t;
	}
	if (target && message.targets)
		ret = call(want, tls, host, &request);
	free(message.targets);
	free(target);
	return ret;
}

/* For a file of pairs */
struct names {
	const struct hosts *hosts;
	const struct node *node;
};

static const char *name_of(const void *context, uint32_t host)
{
	return ((const struct names *)context)->hosts->name[host];
}

static uint32_t rails_of(const void *context, uint32_t host)
{
	return ((const struct names *)context)->node[host].nics;
}

static const char *address_of(const void *context, uint32_t host, uint32_t rail)
{
	return ((const struct names *)context)->node[host].nic[rail];
}

static int make_pairs(const struct mesh_want *mesh, const struct names *n, struct mesh_pair **pair,
	size_t *pairs, struct err *e)
{
	struct mesh_names names = { mesh->hosts, name_of, rails_of, address_of, n };

	return mesh->kind == MESH_FILE ? mesh_read(mesh->file, &names, pair, pairs, e)
				       : mesh_build(mesh, pair, pairs, e);
}

static int start_all(const struct pings_want *want, struct rpc_tls *tls, struct err *e)
{
	Weir__V1__GetStatusRequest message = WEIR__V1__GET_STATUS_REQUEST__INIT;
	struct node *node = calloc(want->hosts->count, sizeof(*node));
	struct mesh_want mesh = want->mesh;
	struct mesh_pair *pair = NULL;
	size_t pairs;
	int ret, failed = 0;

	if (!node)
		return err_set(e, ENOMEM, "no memory for hosts");
	for (size_t i = 0; i < want->hosts->count; i++) {
		struct rpc_request request = { .service = &weir__v1__agent__descriptor,
			.method = "GetStatus",
			.message = &message.base,
			.deadline_ns = clock_ns() + ASK_NS,
			.done = took_status,
			.context = &node[i] };

		failed += call(want, tls, i, &request) != 0;
		if (node[i].nics > mesh.rails)
			mesh.rails = node[i].nics;
	}
	mesh.hosts = (uint32_t)want->hosts->count;
	if (want->budget > 0)
		mesh.peers_max = (uint32_t)(want->budget / (want->rate < 1 ? 1 : want->rate));
	ret = make_pairs(&mesh, &(struct names){ want->hosts, node }, &pair, &pairs, e);
	for (size_t i = 0; !ret && i < want->hosts->count; i++)
		if (node[i].nics)
			failed += start_one(want, tls, i, node, pair, pairs) != 0;
	free(pair);
	free(node);
	return ret ? ret : failed;
}

static int stop_all(const struct pings_want *want, struct rpc_tls *tls)
{
	Dxs__Prober__StopPingsRequest message = DXS__PROBER__STOP_PINGS_REQUEST__INIT;
	int failed = 0;

	for (size_t i = 0; i < want->hosts->count; i++) {
		struct rpc_request request = { .service = &dxs__prober__agent_service__descriptor,
			.method = "StopPings",
			.message = &message.base,
			.deadline_ns = clock_ns() + ASK_NS };

		failed += call(want, tls, i, &request) != 0;
	}
	return failed;
}

int pings_all(const struct pings_want *want, bool start, struct err *e)
{
	struct rpc_tls *tls = NULL;
	int ret = want->tls.cert ? rpc_tls_new(&tls, &want->tls, e) : 0;

	if (!ret)
		ret = start ? start_all(want, tls, e) : stop_all(want, tls);
	rpc_tls_free(tls);
	return ret;
}
