// SPDX-License-Identifier: BSD-3-Clause
#include "probe/controller.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "net/sock.h"
#include "rpc/client.h"
#include "rpc/proto/agent.pb-c.h"

#define ASK_NS	 (5 * NS_PER_S)
#define WATCH_NS (3600 * NS_PER_S)
#define NICS_MAX MESH_RAILS_MAX

struct remote {
	struct controller *c;
	struct controller_host *shown;
	struct rpc_client *client;
	struct loop_timer retry;
	char nic[NICS_MAX][SOCK_ADDR_TEXT];
	bool known, watching, listed;
	size_t first, pairs; /* of the controller's pairs, by from_host */
};

struct controller {
	const struct controller_want *want;
	struct loop loop;
	struct loop_fd stop;
	struct loop_timer judge, end;
	struct rpc_tls *tls;
	struct remote *remote;
	struct controller_host *host;
	uint32_t hosts, asked;
	struct mesh_pair *pair;
	size_t pairs;
	struct verdicts *verdicts;
	struct controller_view view;
	struct hist rtt, window, last_window;
	uint64_t window_sent, window_lost, generation;
	char name[64];
};

static void tell(struct controller *c, enum controller_news news)
{
	c->view.wall_ns = clock_wall_ns();
	if (c->want->told)
		c->want->told(c->want->context, news, &c->view);
}

/* Reports */

static uint64_t histogram_median(const Weir__V1__Histogram *h)
{
	uint64_t seen = 0;

	for (size_t i = 0; h && i < h->n_bucket && i < h->n_bucket_count; i++) {
		seen += h->bucket_count[i];
		if (seen * 2 >= h->count && h->bucket[i] < HIST_BUCKETS)
			return hist_bucket_high_ns(h->bucket[i]);
	}
	return 0;
}

static uint32_t histogram_samples(const Weir__V1__Histogram *h)
{
	return !h ? 0 : h->count > UINT32_MAX ? UINT32_MAX : (uint32_t)h->count;
}

static void histogram_add(struct hist *to, const Weir__V1__Histogram *h)
{
	if (!h || !h->count)
		return;
	for (size_t i = 0; i < h->n_bucket && i < h->n_bucket_count; i++)
		if (h->bucket[i] < HIST_BUCKETS && h->bucket_count[i] <= h->count)
			to->bucket[h->bucket[i]] += h->bucket_count[i];
	to->count += h->count;
	to->sum_ns += h->sum_ns;
	to->sum_squares += h->sum_squares;
	if (h->min_ns < to->min_ns)
		to->min_ns = h->min_ns;
	if (h->max_ns > to->max_ns)
		to->max_ns = h->max_ns;
}

static const char *address_of(const struct controller *c, uint32_t host, uint32_t rail)
{
	return c->remote[host].nic[rail];
}

static bool is_pair(const struct controller *c, size_t i, const Weir__V1__PairWindow *w)
{
	const struct mesh_pair *p = &c->pair[i];

	return !strcmp(address_of(c, p->from_host, p->from_rail), w->local_address) &&
	       !strcmp(address_of(c, p->to_host, p->to_rail), w->peer_address);
}

/* Reports come in the order of the list: the next one is nearly always right. */
static bool find_pair(const struct controller *c, const struct remote *r,
	const Weir__V1__PairWindow *w, size_t *at)
{
	for (size_t i = 0; i < r->pairs; i++) {
		size_t index = r->first + (*at - r->first + i) % r->pairs;

		if (is_pair(c, index, w)) {
			*at = index;
			return true;
		}
	}
	return false;
}

static void received(void *context, const ProtobufCMessage *message)
{
	const Weir__V1__Report *report = (const void *)message;
	struct remote *r = context;
	struct controller *c = r->c;
	size_t at = r->first;

	r->shown->answers = true;
	for (size_t i = 0; i < report->n_pair && r->pairs; i++) {
		const Weir__V1__PairWindow *w = report->pair[i];
		bool stamped = w->network && w->network->count;
		struct verdict_window window = { .sent = (uint32_t)w->sent,
			.lost = (uint32_t)(w->lost + w->corrupt),
			.samples = histogram_samples(stamped ? w->network : w->rtt),
			.stamped = stamped,
			.median_ns = histogram_median(stamped ? w->network : w->rtt),
			.prober_ns = stamped ? histogram_median(w->prober_delay) : 0,
			.responder_ns = stamped ? histogram_median(w->responder_delay) : 0,
			.late_ns = w->late_ns };

		if (!find_pair(c, r, w, &at))
			continue;
		verdict_add(c->verdicts, at, &window);
		if (++at == r->first + r->pairs)
			at = r->first;
		c->window_sent += w->sent;
		c->window_lost += w->lost;
		c->view.corrupt += w->corrupt;
		r->shown->sent += w->sent;
		r->shown->lost += w->lost;
		histogram_add(&c->rtt, w->rtt);
		histogram_add(&c->window, w->rtt);
	}
}

static void judge_due(struct loop *l, struct loop_timer *timer)
{
	struct controller *c = container_of(timer, struct controller, judge);

	verdict_judge(c->verdicts, clock_wall_ns());
	c->view.windows++;
	c->view.sent += c->window_sent;
	c->view.lost += c->window_lost;
	c->view.window_sent = c->window_sent;
	c->view.window_lost = c->window_lost;
	c->last_window = c->window;
	tell(c, CONTROLLER_WINDOW);
	c->window_sent = c->window_lost = 0;
	hist_init(&c->window);
	for (uint32_t i = 0; i < c->hosts; i++)
		c->host[i].sent = c->host[i].lost = 0;
	loop_timer_set(l, timer, clock_ns() + c->want->window_ns, judge_due);
}

/* Lists and watches */

static void ask_again(struct loop *l, struct loop_timer *timer);

static void lost_agent(struct remote *r)
{
	r->shown->answers = false;
	loop_timer_set(&r->c->loop, &r->retry, clock_ns() + NS_PER_S, ask_again);
}

static void watch_ended(void *context, const struct rpc_reply *reply)
{
	struct remote *r = context;

	r->watching = false;
	if (reply->code == RPC_ABORTED) {
		log_warn("%s: %s", r->shown->name, reply->words);
		r->shown->answers = false;
		return;
	}
	r->listed = false; /* it may be another process by now */
	lost_agent(r);
}

static void watch(struct remote *r)
{
	Weir__V1__WatchRequest message = WEIR__V1__WATCH_REQUEST__INIT;
	struct rpc_request request = { .service = &weir__v1__agent__descriptor,
		.method = "Watch",
		.message = &message.base,
		.deadline_ns = clock_ns() + WATCH_NS,
		.received = received,
		.done = watch_ended,
		.context = r };

	message.watcher = r->c->name;
	if (r->watching)
		return;
	r->watching = !rpc_client_call(r->client, &request, NULL, NULL);
	if (!r->watching)
		lost_agent(r);
}

static void listed(void *context, const struct rpc_reply *reply)
{
	struct remote *r = context;

	if (reply->code) {
		lost_agent(r);
		return;
	}
	r->listed = r->shown->answers = true;
	watch(r);
}

static void fill_target(struct controller *c, size_t i, Weir__V1__PinglistTarget *t, char rail[16])
{
	const struct mesh_pair *p = &c->pair[i];

	weir__v1__pinglist_target__init(t);
	snprintf(rail, 16, "%u", p->from_rail);
	t->local_address = c->remote[p->from_host].nic[p->from_rail];
	t->peer_address = c->remote[p->to_host].nic[p->to_rail];
	t->rail = rail;
	t->rate = c->want->rate;
	t->payload_bytes = c->want->payload_bytes;
	t->verify = c->want->verify;
	t->timeout_ns = c->want->timeout_ns;
}

static void send_list(struct remote *r, bool empty)
{
	struct controller *c = r->c;
	size_t n = empty ? 0 : r->pairs;
	Weir__V1__Pinglist list = WEIR__V1__PINGLIST__INIT;
	Weir__V1__PinglistTarget *target = calloc(n + 1, sizeof(*target));
	Weir__V1__PinglistTarget **pointer = calloc(n + 1, sizeof(*pointer));
	char(*rail)[16] = calloc(n + 1, sizeof(*rail));
	struct rpc_request request = { .service = &weir__v1__agent__descriptor,
		.method = "SetPinglist",
		.message = &list.base,
		.deadline_ns = clock_ns() + ASK_NS,
		.done = listed,
		.context = r };

	for (size_t i = 0; target && pointer && rail && i < n; i++) {
		fill_target(c, r->first + i, &target[i], rail[i]);
		pointer[i] = &target[i];
	}
	list.owner = c->name;
	list.generation = ++c->generation;
	list.lease_ns = CONTROLLER_LEASE_NS;
	list.window_ns = c->want->window_ns;
	list.n_target = n;
	list.target = pointer;
	if (!target || !pointer || !rail || rpc_client_call(r->client, &request, NULL, NULL))
		lost_agent(r);
	free(rail);
	free(pointer);
	free(target);
}

static void ask_again(struct loop *l, struct loop_timer *timer)
{
	struct remote *r = container_of(timer, struct remote, retry);

	(void)l;
	if (r->listed)
		watch(r);
	else
		send_list(r, false);
}

/* The beginning: who is there */

static void build(struct controller *c)
{
	struct mesh_want mesh = c->want->mesh;
	uint32_t limit = c->want->budget > 0 ? (uint32_t)(c->want->budget / c->want->rate) : 0;
	struct err e = { 0 };
	size_t kept = 0;

	for (uint32_t i = 0; i < c->hosts; i++)
		if (c->host[i].nics > mesh.rails)
			mesh.rails = c->host[i].nics;
	mesh.hosts = c->hosts;
	if (limit && (!mesh.peers_max || mesh.peers_max > limit))
		mesh.peers_max = limit;
	if (mesh_build(&mesh, &c->pair, &c->pairs, &e)) {
		log_error_err(&e);
		loop_stop(&c->loop);
		return;
	}
	/* A host with fewer NICs, or one that does not answer, has no pairs there. */
	for (size_t i = 0; i < c->pairs; i++) {
		const struct mesh_pair p = c->pair[i];

		if (p.from_rail < c->host[p.from_host].nics && p.to_rail < c->host[p.to_host].nics)
			c->pair[kept++] = p;
	}
	c->pairs = kept;
	for (size_t i = kept; i-- > 0;) {
		c->remote[c->pair[i].from_host].first = i;
		c->remote[c->pair[i].from_host].pairs++;
	}
	if (!kept || verdict_new(&c->verdicts, c->hosts, mesh.rails, c->pair, c->pairs, &e)) {
		if (!kept)
			log_error("no two agents answer: there is nothing to probe");
		loop_stop(&c->loop);
		return;
	}
	c->view.rails = mesh.rails;
	c->view.pairs = c->pairs;
	c->view.verdicts = c->verdicts;
	tell(c, CONTROLLER_STARTED);
	for (uint32_t i = 0; i < c->hosts; i++)
		if (c->remote[i].known)
			send_list(&c->remote[i], false);
	/* The first windows end after the first probes. */
	loop_timer_set(&c->loop, &c->judge, clock_ns() + c->want->window_ns, judge_due);
}

static void answered(void *context, const struct rpc_reply *reply)
{
	const Weir__V1__AgentStatus *status = (const void *)reply->message;
	struct remote *r = context;
	struct controller *c = r->c;

	if (reply->code) {
		log_warn("%s does not answer: %s: %s", r->shown->name, rpc_code_name(reply->code),
			reply->words);
	} else {
		r->known = r->shown->answers = true;
		for (size_t i = 0; i < status->n_nic_address && i < NICS_MAX; i++) {
			snprintf(r->nic[i], sizeof(r->nic[i]), "%s", status->nic_address[i]);
			r->shown->nics++;
		}
	}
	if (!--c->asked)
		build(c);
}

static int ask(struct controller *c, uint32_t i, struct err *e)
{
	Weir__V1__GetStatusRequest message = WEIR__V1__GET_STATUS_REQUEST__INIT;
	struct remote *r = &c->remote[i];
	struct rpc_client_options options = { .tls = c->tls, .message_bytes = 64 << 20 };
	struct rpc_request request = { .service = &weir__v1__agent__descriptor,
		.method = "GetStatus",
		.message = &message.base,
		.deadline_ns = clock_ns() + ASK_NS,
		.done = answered,
		.context = r };
	struct sock_addr addr[SOCK_ADDRS];
	char port[8];
	size_t count;
	int ret;

	r->c = c;
	r->shown = &c->host[i];
	snprintf(r->shown->name, sizeof(r->shown->name), "%s", c->want->hosts->name[i]);
	snprintf(port, sizeof(port), "%u", c->want->port);
	ret = sock_resolve(r->shown->name, port, 0, false, addr, &count, e);
	if (!ret)
		ret = rpc_client_new(&r->client, &c->loop, &addr[0], &options, e);
	if (!ret)
		ret = rpc_client_call(r->client, &request, NULL, e);
	if (!ret)
		c->asked++;
	return ret;
}

/* The end */

static void stop(struct controller *c)
{
	loop_timer_cancel(&c->loop, &c->judge);
	loop_stop(&c->loop);
}

static void stop_ready(struct loop *l, struct loop_fd *source, uint32_t events)
{
	(void)l;
	(void)events;
	stop(container_of(source, struct controller, stop));
}

static void end_due(struct loop *l, struct loop_timer *timer)
{
	(void)l;
	stop(container_of(timer, struct controller, end));
}

/* The lists are emptied, so that nobody waits for the lease. */
static void clear_lists(struct controller *c)
{
	Weir__V1__Pinglist list = WEIR__V1__PINGLIST__INIT;
	struct rpc_client_options options = { .tls = c->tls };
	struct rpc_request request = { .service = &weir__v1__agent__descriptor,
		.method = "SetPinglist",
		.message = &list.base };
	struct sock_addr addr[SOCK_ADDRS];
	char port[8];
	size_t count;

	list.owner = c->name;
	snprintf(port, sizeof(port), "%u", c->want->port);
	for (uint32_t i = 0; i < c->hosts; i++) {
		if (!c->remote[i].known || !c->remote[i].shown->answers)
			continue;
		list.generation = ++c->generation;
		request.deadline_ns = clock_ns() + NS_PER_S;
		if (!sock_resolve(c->host[i].name, port, 0, false, addr, &count, NULL))
			rpc_call_wait(&addr[0], &options, &request, NULL);
	}
}

int controller_mesh(const struct controller_want *want, int stop_fd, struct err *e)
{
	struct controller *c = calloc(1, sizeof(*c));
	int ret;

	if (!c)
		return err_set(e, ENOMEM, "no memory for the controller");
	c->want = want;
	c->hosts = (uint32_t)want->hosts->count;
	gethostname(c->name, 32);
	snprintf(c->name + strlen(c->name), 24, ":%d", (int)getpid());
	hist_init(&c->rtt);
	hist_init(&c->window);
	hist_init(&c->last_window);
	c->host = calloc(c->hosts, sizeof(*c->host));
	c->remote = calloc(c->hosts, sizeof(*c->remote));
	c->view = (struct controller_view){
		.host = c->host, .hosts = c->hosts, .rtt = &c->rtt, .window = &c->last_window
	};
	if (!c->host || !c->remote) {
		ret = err_set(e, ENOMEM, "no memory for the controller");
		goto free_all;
	}
	ret = loop_init(&c->loop, NULL, e);
	if (ret)
		goto free_all;
	if (want->tls.cert)
		ret = rpc_tls_new(&c->tls, &want->tls, e);
	for (uint32_t i = 0; !ret && i < c->hosts; i++)
		ret = ask(c, i, e);
	if (!ret && stop_fd >= 0)
		ret = loop_add(&c->loop, &c->stop, stop_fd, EPOLLIN, stop_ready, e);
	if (!ret && want->duration_ns)
		loop_timer_set(&c->loop, &c->end, clock_ns() + want->duration_ns, end_due);
	if (!ret)
		ret = loop_run(&c->loop, e);
	if (!ret && !c->verdicts && !c->view.windows)
		ret = err_set(e, ECANCELED, "the mesh did not come to a first window");
	if (!ret)
		tell(c, CONTROLLER_ENDED);
	for (uint32_t i = 0; i < c->hosts; i++)
		if (c->remote[i].client)
			rpc_client_free(c->remote[i].client);
	if (!ret)
		clear_lists(c);
	rpc_tls_free(c->tls);
	loop_close(&c->loop);
free_all:
	verdict_free(c->verdicts);
	free(c->pair);
	free(c->host);
	free(c->remote);
	free(c);
	return ret;
}
