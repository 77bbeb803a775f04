// SPDX-License-Identifier: BSD-3-Clause
#include "probe/roll.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "rpc/proto/agent.pb-c.h"

#define ASK_NS	      (5 * NS_PER_S)
#define MESSAGE_BYTES (64u << 20) /* a window of 20,000 pairs */

static bool is_address(const char *name)
{
	unsigned char binary[sizeof(struct in6_addr)];

	return inet_pton(AF_INET, name, binary) == 1 || inet_pton(AF_INET6, name, binary) == 1;
}

static int open_client(struct roll_agent *a, struct err *e)
{
	/* A certificate is for what was dialled: a name where the user gave one. */
	struct rpc_client_options options = { .tls = a->roll->tls,
		.message_bytes = MESSAGE_BYTES,
		.server_name = is_address(a->name) ? NULL : a->name };

	return rpc_client_new(&a->client, a->roll->loop, &a->addr[a->at], &options, e);
}

static int find(struct roll_agent *a, uint16_t port, struct err *e)
{
	struct sock_addr addr[SOCK_ADDRS];
	struct err unknown = { 0 };
	char text[8];

	snprintf(text, sizeof(text), "%u", port);
	if (sock_resolve(a->name, text, 0, false, addr, &a->addrs, &unknown)) {
		log_warn("%s is left out: %s", a->name, unknown.what);
		return 0;
	}
	if (a->addrs > ROLL_ADDRS)
		a->addrs = ROLL_ADDRS;
	memcpy(a->addr, addr, a->addrs * sizeof(*addr));
	return open_client(a, e);
}

int roll_open(struct roll *r, struct loop *loop, const struct hosts *hosts, uint16_t port,
	const struct rpc_tls_files *tls, struct err *e)
{
	bool any = false;
	int ret;

	*r = (struct roll){ .agent = calloc(hosts->count + 1, sizeof(*r->agent)), .loop = loop };
	if (!r->agent)
		return err_set(e, ENOMEM, "no memory for %zu hosts", hosts->count);
	ret = tls->cert ? rpc_tls_new(&r->tls, tls, e) : 0;
	for (; !ret && r->hosts < hosts->count; r->hosts++) {
		struct roll_agent *a = &r->agent[r->hosts];

		a->roll = r;
		a->name = hosts->name[r->hosts];
		ret = find(a, port, e);
		any |= a->client != NULL;
	}
	if (!ret && !any)
		ret = err_set(e, EHOSTUNREACH, "none of the hosts is known");
	return ret;
}

void roll_close(struct roll *r)
{
	if (r->loop)
		loop_timer_cancel(r->loop, &r->next);
	for (uint32_t i = 0; i < r->hosts; i++)
		if (r->agent[i].client)
			rpc_client_free(r->agent[i].client);
	rpc_tls_free(r->tls);
	free(r->agent);
	*r = (struct roll){ 0 };
}

int roll_nobody(struct err *e)
{
	err_set(e, EHOSTUNREACH, "no agent answers: there is nothing to probe");
	return err_hint(e, "start one on each host: weir agent");
}

static void take_nics(struct roll_agent *a, const Weir__V1__AgentStatus *status)
{
	a->answers = true;
	a->rate_max = status->rate_max;
	for (; a->nics < status->n_nic_address && a->nics < MESH_RAILS_MAX; a->nics++)
		snprintf(a->nic[a->nics], SOCK_ADDR_TEXT, "%s", status->nic_address[a->nics]);
	if (a->nics > a->roll->rails)
		a->roll->rails = a->nics;
}

static void try_next(struct loop *l, struct loop_timer *timer);

static void took_status(void *context, const struct rpc_reply *reply)
{
	struct roll_agent *a = context;
	struct roll *r = a->roll;

	a->reached = reply->code != RPC_UNAVAILABLE && reply->code != RPC_DEADLINE_EXCEEDED;
	if (!a->reached && a->at + 1 < a->addrs) {
		a->refused = true; /* the client is not freed from within its own callback */
		loop_timer_set(r->loop, &r->next, clock_ns(), try_next);
		return;
	}
	if (reply->code)
		log_warn("%s does not answer: %s: %s", a->name, rpc_code_name(reply->code),
			reply->words);
	else
		take_nics(a, (const void *)reply->message);
	if (!--r->waiting)
		r->done(r->context);
}

static int ask(struct roll_agent *a, struct err *e)
{
	Weir__V1__GetStatusRequest message = WEIR__V1__GET_STATUS_REQUEST__INIT;
	struct rpc_request request = { .service = &weir__v1__agent__descriptor,
		.method = "GetStatus",
		.message = &message.base,
		.deadline_ns = clock_ns() + ASK_NS,
		.done = took_status,
		.context = a };

	return rpc_client_call(a->client, &request, e);
}

static void try_next(struct loop *l, struct loop_timer *timer)
{
	struct roll *r = container_of(timer, struct roll, next);
	struct err e = { 0 };

	(void)l;
	for (uint32_t i = 0; i < r->hosts; i++) {
		struct roll_agent *a = &r->agent[i];

		if (!a->refused)
			continue;
		a->refused = false;
		a->at++;
		rpc_client_free(a->client);
		a->client = NULL;
		if (!open_client(a, &e) && !ask(a, &e))
			continue;
		log_warn("%s is left out: %s", a->name, e.what);
		if (!--r->waiting)
			r->done(r->context);
	}
}

int roll_call(struct roll *r, void (*done)(void *context), void *context, struct err *e)
{
	int ret = 0;

	r->done = done;
	r->context = context;
	for (uint32_t i = 0; !ret && i < r->hosts; i++)
		if (r->agent[i].client) {
			ret = ask(&r->agent[i], e);
			r->waiting += !ret;
		}
	return ret;
}

static void stop_loop(void *context)
{
	loop_stop(context);
}

static void stop_ready(struct loop *l, struct loop_fd *source, uint32_t events)
{
	(void)source;
	(void)events;
	loop_stop(l);
}

int roll_sort(const struct hosts *hosts, uint16_t port, const struct rpc_tls_files *tls,
	int stop_fd, struct hosts *there, struct hosts *silent, struct err *e)
{
	struct loop *loop = malloc(sizeof(*loop)); /* its batch is too large for a stack */
	struct loop_fd stop;
	struct roll r;
	int ret;

	if (!loop)
		return err_set(e, ENOMEM, "no memory for %zu hosts", hosts->count);
	ret = loop_init(loop, NULL, e);
	if (ret)
		goto free_loop;
	ret = roll_open(&r, loop, hosts, port, tls, e);
	if (!ret)
		ret = roll_call(&r, stop_loop, loop, e);
	if (!ret)
		ret = loop_add(loop, &stop, stop_fd, EPOLLIN, stop_ready, e);
	if (!ret)
		ret = loop_run(loop, e);
	if (!ret && r.waiting)
		ret = err_set(e, ECANCELED, "stopped before the agents had answered");
	for (uint32_t i = 0; !ret && i < r.hosts; i++)
		ret = hosts_add(r.agent[i].answers ? there : silent, r.agent[i].name, e);
	roll_close(&r);
	loop_close(loop);
free_loop:
	free(loop);
	return ret;
}
