// SPDX-License-Identifier: BSD-3-Clause
#include "probe/runs.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/text.h"
#include "rpc/client.h"
#include "rpc/proto/agent.pb-c.h"

#define ASK_NS	 (5 * NS_PER_S)
#define GRACE_NS (25 * NS_PER_S) /* more than the agent gives its process */

struct end {
	struct runs *runs;
	const char *name;
	struct rpc_client *client;
	char nic[MESH_RAILS_MAX][SOCK_ADDR_TEXT];
	uint32_t nics;
};

struct job {
	struct runs *runs;
	struct runs_job told;
	bool over;
};

struct runs {
	struct loop loop;
	struct loop_fd stop;
	struct rpc_tls *tls;
	struct end *end;
	uint32_t hosts, rails, waiting;
	bool stopped;
	/* of this round */
	struct job *job;
	size_t jobs;
	bool p2p;
	uint32_t flows;
	uint64_t length_ns;
	void (*ran)(void *context, const struct runs_job *job);
	void *context;
};

static void one_less(struct runs *r)
{
	if (!--r->waiting)
		loop_stop(&r->loop);
}

static void stop_ready(struct loop *l, struct loop_fd *source, uint32_t events)
{
	struct runs *r = container_of(source, struct runs, stop);

	(void)events;
	loop_remove(l, source);
	r->stopped = true;
	loop_stop(l);
}

/* Who is there */

static void took_status(void *context, const struct rpc_reply *reply)
{
	const Weir__V1__AgentStatus *status = (const void *)reply->message;
	struct end *end = context;

	if (reply->code)
		log_warn("%s does not answer: %s: %s", end->name, rpc_code_name(reply->code),
			reply->words);
	for (size_t i = 0; status && i < status->n_nic_address && i < MESH_RAILS_MAX; i++)
		snprintf(end->nic[end->nics++], SOCK_ADDR_TEXT, "%s", status->nic_address[i]);
	if (end->nics > end->runs->rails)
		end->runs->rails = end->nics;
	one_less(end->runs);
}

static int ask(struct runs *r, struct end *end, uint16_t port, struct err *e)
{
	Weir__V1__GetStatusRequest message = WEIR__V1__GET_STATUS_REQUEST__INIT;
	struct rpc_client_options options = { .tls = r->tls };
	struct rpc_request request = { .service = &weir__v1__agent__descriptor,
		.method = "GetStatus",
		.message = &message.base,
		.deadline_ns = clock_ns() + ASK_NS,
		.done = took_status,
		.context = end };
	unsigned char binary[sizeof(struct in6_addr)];
	struct sock_addr addr[SOCK_ADDRS];
	struct err unknown = { 0 };
	char text[8];
	size_t count;
	int ret;

	if (inet_pton(AF_INET, end->name, binary) != 1 &&
		inet_pton(AF_INET6, end->name, binary) != 1)
		options.server_name = end->name;
	snprintf(text, sizeof(text), "%u", port);
	if (sock_resolve(end->name, text, 0, false, addr, &count, &unknown)) {
		log_warn("%s is left out: %s", end->name, unknown.what);
		return 0;
	}
	ret = rpc_client_new(&end->client, &r->loop, &addr[0], &options, e);
	if (!ret)
		ret = rpc_client_call(end->client, &request, NULL, e);
	r->waiting += !ret;
	return ret;
}

int runs_open(struct runs **out, const struct hosts *hosts, uint16_t port,
	const struct rpc_tls_files *tls, int stop_fd, struct err *e)
{
	struct runs *r = calloc(1, sizeof(*r));
	int ret;

	*out = NULL;
	if (!r)
		return err_set(e, ENOMEM, "no memory for runs");
	r->end = calloc(hosts->count + 1, sizeof(*r->end));
	if (!r->end) {
		free(r);
		return err_set(e, ENOMEM, "no memory for runs");
	}
	ret = loop_init(&r->loop, NULL, e);
	if (ret) {
		free(r->end);
		free(r);
		return ret;
	}
	*out = r;
	r->hosts = (uint32_t)hosts->count;
	if (tls->cert)
		ret = rpc_tls_new(&r->tls, tls, e);
	for (uint32_t i = 0; !ret && i < r->hosts; i++) {
		r->end[i].runs = r;
		r->end[i].name = hosts->name[i];
		ret = ask(r, &r->end[i], port, e);
	}
	if (!ret)
		ret = loop_add(&r->loop, &r->stop, stop_fd, EPOLLIN, stop_ready, e);
	if (!ret && r->waiting)
		ret = loop_run(&r->loop, e);
	if (!ret && !r->rails)
		ret = err_set(e, EHOSTUNREACH, "no agent answers: there is nothing to run");
	return ret;
}

uint32_t runs_rails(const struct runs *r)
{
	return r->rails;
}

void runs_close(struct runs *r)
{
	if (!r)
		return;
	for (uint32_t i = 0; i < r->hosts; i++)
		if (r->end[i].client)
			rpc_client_free(r->end[i].client);
	rpc_tls_free(r->tls);
	loop_close(&r->loop);
	free(r->job);
	free(r->end);
	free(r);
}

/* A round */

static void job_over(struct job *j, const struct rpc_reply *reply)
{
	const Weir__V1__RunReply *run = (const void *)reply->message;

	j->over = true;
	j->told.failed = reply->code != RPC_OK;
	if (reply->code) {
		snprintf(j->told.why, sizeof(j->told.why), "%s: %s", rpc_code_name(reply->code),
			reply->words);
	} else {
		j->told.bits_per_s = run->bits_per_s;
		j->told.from_starved_ns = run->starved_ns;
		j->told.to_starved_ns = run->peer_starved_ns;
	}
	text_one_line(j->told.why);
	one_less(j->runs);
}

static void client_done(void *context, const struct rpc_reply *reply)
{
	job_over(context, reply);
}

static int call_run(struct job *j, bool serves, uint32_t port, uint32_t data_port,
	void (*done)(void *context, const struct rpc_reply *reply))
{
	struct runs *r = j->runs;
	uint32_t host = serves ? j->told.pair.to_host : j->told.pair.from_host;
	Weir__V1__RunRequest message = WEIR__V1__RUN_REQUEST__INIT;
	struct rpc_request request = { .service = &weir__v1__agent__descriptor,
		.method = "Run",
		.message = &message.base,
		.deadline_ns = clock_ns() + r->length_ns + GRACE_NS,
		.done = done,
		.context = j };

	message.kind = r->p2p ? WEIR__V1__RUN_KIND__RUN_P2P : WEIR__V1__RUN_KIND__RUN_STREAM;
	message.serves = serves;
	message.local_address = (char *)(serves ? j->told.peer : j->told.local);
	message.peer_address = (char *)(serves ? j->told.local : j->told.peer);
	message.port = port;
	message.data_port = data_port;
	message.length_ns = r->length_ns;
	message.flows = r->flows;
	return rpc_client_call(r->end[host].client, &request, NULL, NULL);
}

static void server_ready(void *context, const struct rpc_reply *reply)
{
	const Weir__V1__RunReply *run = (const void *)reply->message;
	struct rpc_reply failed = { .code = RPC_RESOURCE_EXHAUSTED, .words = "no memory" };
	struct job *j = context;

	if (reply->code)
		job_over(j, reply);
	else if (call_run(j, false, run->port, run->data_port, client_done))
		job_over(j, &failed);
}

static int make_jobs(struct runs *r, const struct mesh_pair *pair, size_t pairs, struct err *e)
{
	r->jobs = 0;
	r->job = calloc(pairs + 1, sizeof(*r->job));
	if (!r->job)
		return err_set(e, ENOMEM, "no memory for a round");
	for (size_t i = 0; i < pairs; i++) {
		const struct end *from = &r->end[pair[i].from_host], *to = &r->end[pair[i].to_host];

		if (pair[i].from_rail < from->nics && pair[i].to_rail < to->nics)
			r->job[r->jobs++] = (struct job){ .runs = r,
				.told = { .pair = pair[i],
					.local = from->nic[pair[i].from_rail],
					.peer = to->nic[pair[i].to_rail] } };
	}
	return 0;
}

int runs_round(struct runs *r, const struct mesh_pair *pair, size_t pairs, bool p2p, uint32_t flows,
	uint64_t length_ns, void (*ran)(void *context, const struct runs_job *job), void *context,
	struct err *e)
{
	int ret = make_jobs(r, pair, pairs, e);

	r->p2p = p2p;
	r->flows = flows;
	r->length_ns = length_ns;
	for (size_t i = 0; !ret && i < r->jobs; i++) {
		ret = call_run(&r->job[i], true, 0, 0, server_ready);
		if (ret)
			err_set(e, -ret, "cannot ask for a run");
		r->waiting += !ret;
	}
	if (!ret && r->waiting && !r->stopped)
		ret = loop_run(&r->loop, e);
	for (size_t i = 0; !ret && i < r->jobs; i++)
		if (r->job[i].over)
			ran(context, &r->job[i].told);
	if (!r->waiting) { /* else the calls that wait still have it: runs_close() */
		free(r->job);
		r->job = NULL;
	}
	return ret;
}
