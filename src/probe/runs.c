// SPDX-License-Identifier: BSD-3-Clause
#include "probe/runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/text.h"
#include "probe/roll.h"
#include "rpc/proto/agent.pb-c.h"

#define GRACE_NS (25 * NS_PER_S) /* more than the agent gives its process */

struct job {
	struct runs *runs;
	struct runs_job told;
	bool over;
};

struct runs {
	struct loop loop;
	struct loop_fd stop;
	struct roll roll;
	uint32_t waiting;
	bool stopped;
	/* of this round */
	struct job *job;
	size_t jobs;
	bool p2p;
	uint32_t flows;
	uint64_t length_ns;
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

static void roll_called(void *context)
{
	struct runs *r = context;

	loop_stop(&r->loop);
}

int runs_open(struct runs **out, const struct hosts *hosts, uint16_t port,
	const struct rpc_tls_files *tls, int stop_fd, struct err *e)
{
	struct runs *r = calloc(1, sizeof(*r));
	int ret;

	*out = NULL;
	if (!r)
		return err_set(e, ENOMEM, "no memory for runs");
	ret = loop_init(&r->loop, NULL, e);
	if (ret) {
		free(r);
		return ret;
	}
	*out = r;
	ret = roll_open(&r->roll, &r->loop, hosts, port, tls, e);
	if (!ret)
		ret = roll_call(&r->roll, roll_called, r, e);
	if (!ret)
		ret = loop_add(&r->loop, &r->stop, stop_fd, EPOLLIN, stop_ready, e);
	if (!ret)
		ret = loop_run(&r->loop, e);
	if (!ret && !r->roll.rails)
		ret = roll_nobody(e);
	return ret;
}

uint32_t runs_rails(const struct runs *r)
{
	return r->roll.rails;
}

void runs_close(struct runs *r)
{
	if (!r)
		return;
	roll_close(&r->roll);
	loop_close(&r->loop);
	free(r->job);
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
	return rpc_client_call(r->roll.agent[host].client, &request, NULL);
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
		const struct roll_agent *from = &r->roll.agent[pair[i].from_host];
		const struct roll_agent *to = &r->roll.agent[pair[i].to_host];

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
