// SPDX-License-Identifier: BSD-3-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "probe/controller_parts.h"

#define LIST_NS	 (5 * NS_PER_S)
#define CLEAR_NS (2 * NS_PER_S)
#define WATCH_NS (3600 * NS_PER_S)

static void fail(struct controller *c, const struct err *e)
{
	c->error = *e;
	loop_stop(&c->loop);
}

static void judge_due(struct loop *l, struct loop_timer *timer)
{
	struct controller *c = container_of(timer, struct controller, judge);
	uint64_t now_ns = clock_ns();

	controller_judge(c);
	/* As far apart as agents report, so that none of them falls now before it, now after it. */
	do
		c->judge_ns += c->want->window_ns;
	while (c->judge_ns <= now_ns);
	loop_timer_set(l, timer, c->judge_ns, judge_due);
}

/* Lists and watches */

static void ask_again(struct loop *l, struct loop_timer *timer);
static void watch(struct remote *r);

static void lost_agent(struct remote *r)
{
	r->shown->answers = false;
	loop_timer_set(&r->c->loop, &r->retry, clock_ns() + NS_PER_S, ask_again);
}

/* Two controllers do not fight over an agent: the last one has it. */
static void was_taken(struct remote *r)
{
	struct controller *c = r->c;
	struct err e;

	r->shown->answers = false;
	r->taken = true;
	if (r->is_last)
		controller_last(r);
	for (uint32_t i = 0; i < c->hosts; i++)
		if (c->roll.agent[i].answers && !c->remote[i].taken)
			return;
	if (c->ended)
		return;
	err_set(&e, EBUSY, "another controller has taken all agents");
	err_hint(&e, "stop it, or wait for its end: an agent has one list of targets");
	fail(c, &e);
}

static void watch_ended(void *context, const struct rpc_reply *reply)
{
	struct remote *r = context;

	r->watching = false;
	if (reply->code == RPC_DEADLINE_EXCEEDED) { /* WATCH_NS is over, and nothing else */
		watch(r);
		return;
	}
	if (reply->code == RPC_ABORTED) {
		log_warn("%s: %s", r->shown->name, reply->words);
		was_taken(r);
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
		.received = controller_received,
		.done = watch_ended,
		.context = r };

	message.watcher = r->c->name;
	if (r->watching)
		return;
	r->watching = !rpc_client_call(r->agent->client, &request, NULL);
	if (!r->watching)
		lost_agent(r);
}

/* Pairs beyond a limit of the agent are not probed: that must not pass for health. list NULL: all of them. */
static void take_states(struct remote *r, const Weir__V1__SetPinglistReply *list)
{
	struct controller *c = r->c;
	size_t refused = 0, before = 0;

	for (size_t i = 0; i < r->pairs && (!list || i < list->n_state); i++) {
		struct controller_pair *p = &c->pair[r->first + i];
		bool is = !list || list->state[i] == WEIR__V1__TARGET_STATE__TARGET_REFUSED;

		c->unsettled -= c->settling && is && !p->refused && !p->sent;
		before += p->refused;
		refused += is;
		p->refused = is;
	}
	c->view.refused += refused - before;
	if (refused > before && list)
		log_warn(
			"%s refuses %zu of its %zu pairs, its log says why (--connections-per-nic?)",
			r->shown->name, refused, r->pairs);
	if (c->settling && !c->unsettled)
		controller_settled(c);
}

static void not_listed(struct remote *r, const struct rpc_reply *reply)
{
	if (!r->complained)
		log_warn("%s does not take its list: %s: %s", r->shown->name,
			rpc_code_name(reply->code), reply->words);
	r->complained = true;
	if (reply->code == RPC_INVALID_ARGUMENT) /* nor will it */
		take_states(r, NULL);
	lost_agent(r);
}

static void listed(void *context, const struct rpc_reply *reply)
{
	struct remote *r = context;

	if (reply->code) {
		not_listed(r, reply);
		return;
	}
	r->listed = r->shown->answers = true;
	watch(r);
	take_states(r, (const void *)reply->message);
}

static void cleared(void *context, const struct rpc_reply *reply)
{
	struct controller *c = ((struct remote *)context)->c;

	(void)reply;
	if (!--c->clearing)
		loop_stop(&c->loop);
}

static void fill_target(struct controller *c, size_t i, Weir__V1__PinglistTarget *t, char rail[16])
{
	const struct controller_pair *p = &c->pair[i];

	weir__v1__pinglist_target__init(t);
	snprintf(rail, 16, "%u", p->m.from_rail);
	t->local_address = (char *)p->local;
	t->peer_address = (char *)p->peer;
	t->copy = p->m.copy;
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
		.deadline_ns = clock_ns() + (empty ? CLEAR_NS : LIST_NS),
		.done = empty ? cleared : listed,
		.context = r };
	int ret = target && pointer && rail ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < n; i++) {
		fill_target(c, r->first + i, &target[i], rail[i]);
		pointer[i] = &target[i];
	}
	list.owner = c->name;
	list.generation = ++c->generation;
	list.lease_ns = CONTROLLER_LEASE_NS;
	list.window_ns = c->want->window_ns;
	list.n_target = n;
	list.target = pointer;
	if (!ret)
		ret = rpc_client_call(r->agent->client, &request, NULL);
	if (ret && !empty)
		lost_agent(r);
	c->clearing += !ret && empty;
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

/* The end */

/* The lists are emptied, so that nobody waits for the lease. */
static void finish(struct controller *c)
{
	if (c->ended)
		return;
	c->ended = true;
	loop_timer_cancel(&c->loop, &c->judge);
	if (c->verdicts && c->window_sent)
		controller_judge(c);
	for (uint32_t i = 0; i < c->hosts; i++) {
		struct remote *r = &c->remote[i];

		loop_timer_cancel(&c->loop, &r->retry);
		if (r->listed && !r->taken && r->shown->answers)
			send_list(r, true);
	}
	if (!c->clearing)
		loop_stop(&c->loop);
}

static void finish_due(struct loop *l, struct loop_timer *timer)
{
	(void)l;
	finish(container_of(timer, struct controller, end));
}

void controller_last(struct remote *r)
{
	struct controller *c = r->c;

	r->is_last = false;
	for (uint32_t i = 0; i < c->hosts; i++)
		if (c->remote[i].is_last)
			return;
	/* Not from within a callback of the client that reports. */
	loop_timer_set(&c->loop, &c->end, clock_ns(), finish_due);
}

/* The time is over: what agents have counted since their last report is still to come. */
static void end_due(struct loop *l, struct loop_timer *timer)
{
	struct controller *c = container_of(timer, struct controller, end);
	bool any = false;

	for (uint32_t i = 0; i < c->hosts; i++) {
		c->remote[i].is_last = c->remote[i].watching && c->remote[i].pairs;
		any |= c->remote[i].is_last;
	}
	loop_timer_set(l, timer, clock_ns() + (any ? 2 * c->want->window_ns : 0), finish_due);
}

static void stop_ready(struct loop *l, struct loop_fd *source, uint32_t events)
{
	(void)events;
	loop_remove(l, source);
	finish(container_of(source, struct controller, stop));
}

/* The beginning: who is there */

static const char *name_of(const void *context, uint32_t host)
{
	return ((const struct controller *)context)->host[host].name;
}

static uint32_t rails_of(const void *context, uint32_t host)
{
	return ((const struct controller *)context)->host[host].nics;
}

static const char *address_of(const void *context, uint32_t host, uint32_t rail)
{
	return ((const struct controller *)context)->roll.agent[host].nic[rail];
}

/* What the budgets leave of the pairs of a NIC. */
static uint32_t peers_max(const struct controller *c, const struct mesh_want *mesh)
{
	uint32_t most = mesh->peers_max, limit;

	if (c->want->budget > 0) {
		limit = (uint32_t)(c->want->budget / c->want->rate);
		most = most && most < limit ? most : limit ? limit : 1;
	}
	if (c->want->series && mesh->rails) {
		limit = c->want->series / mesh->rails;
		most = most && most < limit ? most : limit ? limit : 1;
	}
	return most;
}

static int make_pairs(struct controller *c, struct mesh_want *mesh, struct err *e)
{
	struct mesh_names names = { c->hosts, name_of, rails_of, address_of, c };
	struct mesh_pair *pair;
	size_t count;
	int ret;

	mesh->hosts = c->hosts;
	mesh->rails = 0;
	for (uint32_t i = 0; i < c->hosts; i++)
		if (c->host[i].nics > mesh->rails)
			mesh->rails = c->host[i].nics;
	if (!mesh->rails)
		return roll_nobody(e);
	mesh->peers_max = peers_max(c, mesh);
	ret = mesh->kind == MESH_FILE ? mesh_read(mesh->file, &names, &pair, &count, e)
				      : mesh_build(mesh, &pair, &count, e);
	if (ret)
		return ret;
	c->pair = calloc(count + 1, sizeof(*c->pair));
	/* A host with fewer NICs, or one that does not answer, has no pairs there. */
	for (size_t i = 0; c->pair && i < count; i++) {
		const struct mesh_pair *m = &pair[i];

		if (m->from_rail < c->host[m->from_host].nics &&
			m->to_rail < c->host[m->to_host].nics)
			c->pair[c->pairs++] = (struct controller_pair){ .m = *m,
				.local = c->roll.agent[m->from_host].nic[m->from_rail],
				.peer = c->roll.agent[m->to_host].nic[m->to_rail] };
	}
	/* What is left of the list, for those who vote. */
	for (size_t i = 0; c->pair && i < c->pairs; i++)
		pair[i] = c->pair[i].m;
	if (!c->pair)
		ret = err_set(e, ENOMEM, "no memory for %zu pairs", count);
	else if (!c->pairs)
		ret = err_set(e, EHOSTUNREACH,
			"no two agents of the list answer: there is nothing to probe");
	else
		ret = verdict_new(&c->verdicts, c->hosts, mesh->rails, pair, c->pairs, e);
	free(pair);
	return ret;
}

void controller_begin(struct controller *c, uint64_t first_ns)
{
	c->judge_ns = clock_ns() + first_ns;
	loop_timer_set(&c->loop, &c->judge, c->judge_ns, judge_due);
	loop_timer_cancel(&c->loop, &c->end);
	if (c->want->duration_ns)
		loop_timer_set(&c->loop, &c->end, clock_ns() + c->want->duration_ns, end_due);
}

static void settle_due(struct loop *l, struct loop_timer *timer)
{
	struct controller *c = container_of(timer, struct controller, end);

	(void)l;
	log_warn("%zu pairs have not sent a probe yet; going on without them", c->unsettled);
	controller_settled(c);
}

static void build(struct controller *c)
{
	struct mesh_want mesh = c->want->mesh;
	struct err e = { 0 };

	if (make_pairs(c, &mesh, &e)) {
		fail(c, &e);
		return;
	}
	for (size_t i = c->pairs; i-- > 0;) {
		c->remote[c->pair[i].m.from_host].first = i;
		c->remote[c->pair[i].m.from_host].pairs++;
	}
	c->view.rails = mesh.rails;
	c->view.pair = c->pair;
	c->view.pairs = c->pairs;
	c->view.verdicts = c->verdicts;
	controller_tell(c, CONTROLLER_STARTED);
	for (uint32_t i = 0; i < c->hosts; i++)
		if (c->roll.agent[i].answers)
			send_list(&c->remote[i], false);
	c->settling = c->want->settle;
	for (size_t i = 0; i < c->pairs; i++)
		c->unsettled += c->roll.agent[c->pair[i].m.from_host].answers;
	if (c->settling)
		loop_timer_set(&c->loop, &c->end, clock_ns() + CONTROLLER_SETTLE_NS, settle_due);
	else
		controller_begin(c, c->want->window_ns); /* agents report a quarter before it */
}

static void take_nics(struct roll_agent *a, const char *const *address, uint32_t count)
{
	for (a->nics = 0; a->nics < count && a->nics < MESH_RAILS_MAX; a->nics++)
		snprintf(a->nic[a->nics], SOCK_ADDR_TEXT, "%s", address[a->nics]);
}

static void roll_called(void *context)
{
	struct controller *c = context;

	for (uint32_t i = 0; i < c->hosts; i++) {
		struct roll_agent *a = &c->roll.agent[i];

		if (c->want->nic)
			take_nics(a, &c->want->nic[(size_t)i * c->want->nics_per_host],
				c->want->nics_per_host);
		c->host[i].answers = a->answers;
		c->host[i].nics = a->nics;
	}
	build(c);
}

static void name_hosts(struct controller *c)
{
	for (uint32_t i = 0; i < c->hosts; i++) {
		c->remote[i].c = c;
		c->remote[i].shown = &c->host[i];
		c->remote[i].agent = &c->roll.agent[i];
		snprintf(c->host[i].name, sizeof(c->host[i].name), "%s", c->want->hosts->name[i]);
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
	/* One process may run one after the other: each list is newer than those of the run before. */
	c->generation = clock_wall_ns();
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
	ret = roll_open(&c->roll, &c->loop, want->hosts, want->port, &want->tls, e);
	if (!ret) {
		name_hosts(c);
		ret = roll_call(&c->roll, roll_called, c, e);
	}
	if (!ret && stop_fd >= 0)
		ret = loop_add(&c->loop, &c->stop, stop_fd, EPOLLIN, stop_ready, e);
	if (!ret)
		ret = loop_run(&c->loop, e);
	if (!ret && c->error.code) {
		if (e)
			*e = c->error;
		ret = -c->error.code;
	}
	if (!ret && !c->verdicts)
		ret = err_set(e, ECANCELED, "stopped before the agents had answered");
	if (c->verdicts)
		controller_tell(c, CONTROLLER_ENDED);
	roll_close(&c->roll);
	loop_close(&c->loop);
free_all:
	verdict_free(c->verdicts);
	free(c->pair);
	free(c->host);
	free(c->remote);
	free(c);
	return ret;
}
