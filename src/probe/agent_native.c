// SPDX-License-Identifier: BSD-3-Clause
/* weir.v1.Agent: pinglists, reports to those who watch, and the answering end of a set-up. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "probe/agent_parts.h"

#define WINDOW_MIN_NS (100 * NS_PER_MS)
#define WINDOW_MAX_NS (60 * NS_PER_S)
#define LEASE_MIN_NS  (500 * NS_PER_MS)	 /* an owner that watches is pinged after a quarter of it */
#define LEASE_MAX_NS  (86400 * NS_PER_S) /* a clock and this do not wrap */
#define AWAY_NS	      (500 * NS_PER_MS)
#define WATCHERS_MAX  64

/* State */

static uint64_t late_p99_ns(const struct agent *a)
{
	struct hist *both = malloc(sizeof(*both));
	uint64_t p99_ns = 0;

	if (both) {
		*both = *a->recent[0];
		hist_merge(both, a->recent[1]);
		p99_ns = hist_percentile(both, 99.0);
	}
	free(both);
	return p99_ns;
}

void agent_health(struct agent *a, Weir__V1__Health *h)
{
	struct probe_stats stats;
	struct rusage usage;
	FILE *statm;
	unsigned long pages = 0;

	weir__v1__health__init(h);
	probe_engine_stats(a->engine, &stats);
	h->probes_sent = stats.sent;
	h->probes_lost = stats.lost + stats.unsent;
	h->results_dropped = stats.results_dropped + a->results.dropped;
	h->connections = stats.targets + stats.answering;
	h->probes_skipped = stats.skipped;
	h->schedule_error_p99_ns = late_p99_ns(a);
	getrusage(RUSAGE_SELF, &usage);
	h->cpu_ns =
		((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * NS_PER_S +
		((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) * NS_PER_US;
	statm = fopen("/proc/self/statm", "re");
	if (statm && fscanf(statm, "%*u %lu", &pages) == 1)
		h->resident_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
	if (statm)
		fclose(statm);
}

static void get_status(struct rpc_call *call, const ProtobufCMessage *message, void *context)
{
	struct agent *a = context;
	Weir__V1__AgentStatus status = WEIR__V1__AGENT_STATUS__INIT;
	Weir__V1__Health health;
	char *address[PROBE_NICS_MAX];

	(void)message;
	for (size_t i = 0; i < a->nics; i++)
		address[i] = a->nic[i].address;
	agent_health(a, &health);
	status.version = (char *)WEIR_VERSION;
	status.host = a->host;
	status.started_wall_ns = a->started_wall_ns;
	status.n_nic_address = a->nics;
	status.nic_address = address;
	status.pinglist_generation = a->generation;
	status.pinglist_owner = a->owner;
	status.health = &health;
	status.rate_max = (uint64_t)a->options->max_qps;
	rpc_call_reply(call, &status.base);
}

/* Watchers */

static bool is_of_owner(const struct agent *a, const struct watcher *w)
{
	return !strcmp(w->name, a->owner);
}

/* A watcher sends nothing by itself: one whose list has a lease is asked whether it still lives. */
static void watch_closely(struct agent *a)
{
	for (struct list *l = a->watchers.next; l != &a->watchers; l = l->next) {
		struct watcher *w = container_of(l, struct watcher, link);

		if (is_of_owner(a, w))
			rpc_call_keepalive(w->call, a->lease_ns / 4);
	}
}

static void end_watcher(struct watcher *w, enum rpc_code code, const char *why)
{
	struct agent *a = w->agent;

	rpc_call_keepalive(w->call, 0);
	rpc_call_finish(w->call, code, "%s", why);
	list_del(&w->link);
	free(w);
	watch_closely(a); /* another may have the same connection */
}

void watchers_end(struct agent *a, enum rpc_code code, const char *why)
{
	struct list *l, *next;

	for (l = a->watchers.next; l != &a->watchers; l = next) {
		next = l->next;
		end_watcher(container_of(l, struct watcher, link), code, why);
	}
}

/* The lease of a list */

static uint64_t owner_seen_ns(const struct agent *a)
{
	uint64_t seen_ns = a->seen_ns;

	for (struct list *l = a->watchers.next; l != &a->watchers; l = l->next) {
		const struct watcher *w = container_of(l, struct watcher, link);
		uint64_t heard_ns = is_of_owner(a, w) ? rpc_call_heard_ns(w->call) : 0;

		if (heard_ns > seen_ns)
			seen_ns = heard_ns;
	}
	return seen_ns;
}

static void lease_due(struct loop *l, struct loop_timer *timer);

static void lease_look_at(struct agent *a, uint64_t due_ns)
{
	a->lease_due_ns = due_ns;
	loop_timer_set(&a->loop, &a->lease, due_ns, lease_due);
}

/* One that comes back asks for its targets again when its watch has ended. */
static void lease_over(struct agent *a)
{
	struct list *l, *next;

	log_warn("%s has gone: probing ends", a->owner);
	agent_remove_all(a);
	for (l = a->watchers.next; l != &a->watchers; l = next) {
		struct watcher *w = container_of(l, struct watcher, link);

		next = l->next;
		if (is_of_owner(a, w))
			end_watcher(w, RPC_UNAVAILABLE, "its lease is over");
	}
}

static void lease_due(struct loop *l, struct loop_timer *timer)
{
	struct agent *a = container_of(timer, struct agent, lease);
	uint64_t now_ns = clock_ns(), end_ns = owner_seen_ns(a) + a->lease_ns;

	(void)l;
	/* Were we away ourselves? Then nobody asked it, or its answer is still to be read. */
	if (now_ns >= end_ns && now_ns > a->lease_due_ns + AWAY_NS)
		end_ns = now_ns + a->lease_ns / 4;
	if (now_ns >= end_ns)
		lease_over(a);
	else
		lease_look_at(a, end_ns);
}

static void lease_begin(struct agent *a, uint64_t lease_ns)
{
	if (lease_ns && lease_ns < LEASE_MIN_NS)
		lease_ns = LEASE_MIN_NS;
	a->lease_ns = lease_ns < LEASE_MAX_NS ? lease_ns : LEASE_MAX_NS;
	a->seen_ns = clock_ns();
	loop_timer_cancel(&a->loop, &a->lease);
	if (a->lease_ns)
		lease_look_at(a, a->seen_ns + a->lease_ns);
	watch_closely(a);
}

/* Pinglists */

static bool is_same(const struct agent_target *t, const struct probe_want *w, const char *rail)
{
	return sock_addr_same_host(&t->want.local, &w->local) &&
	       sock_addr_same_host(&t->want.peer, &w->peer) && t->want.period_ns == w->period_ns &&
	       t->want.timeout_ns == w->timeout_ns && t->want.payload_bytes == w->payload_bytes &&
	       t->want.copy == w->copy && t->want.verify == w->verify && !strcmp(t->rail, rail);
}

/* The target of the old list that this one is, or a new one. */
static Weir__V1__TargetState place_target(
	struct agent *a, struct list *old, const Weir__V1__PinglistTarget *from)
{
	struct probe_want want = { .payload_bytes = from->payload_bytes,
		.verify = from->verify,
		.copy = from->copy,
		.timeout_ns = from->timeout_ns ? from->timeout_ns : PROBE_TIMEOUT_NS };
	struct agent_target *t;
	char rail[sizeof(t->rail)];

	if (!(from->rate > 0 && from->rate <= PROBE_RATE_MAX) || want.timeout_ns > 60 * NS_PER_S ||
		!agent_parse_address(from->local_address, &want.local) ||
		!agent_parse_address(from->peer_address, &want.peer))
		return WEIR__V1__TARGET_STATE__TARGET_REFUSED;
	snprintf(rail, sizeof(rail), "%s", from->rail);
	text_one_line(rail);
	want.period_ns = (uint64_t)(1e9 / from->rate);
	/* Lists keep their order: what goes on is mostly the first of the old ones. */
	for (struct list *l = old->next; l != old; l = l->next) {
		t = container_of(l, struct agent_target, link);
		if (is_same(t, &want, rail)) {
			list_del(&t->link);
			list_add(&a->targets, &t->link);
			return t->state;
		}
	}
	if (agent_add(a, &t, &want, rail))
		return WEIR__V1__TARGET_STATE__TARGET_REFUSED;
	return t->state;
}

static uint64_t window_of(const struct agent *a, const Weir__V1__Pinglist *list)
{
	if (!list->window_ns)
		return a->window_ns;
	return list->window_ns < WINDOW_MIN_NS	 ? WINDOW_MIN_NS
	       : list->window_ns > WINDOW_MAX_NS ? WINDOW_MAX_NS
						 : list->window_ns;
}

static void set_pinglist(struct rpc_call *call, const ProtobufCMessage *message, void *context)
{
	const Weir__V1__Pinglist *list = (const void *)message;
	Weir__V1__SetPinglistReply reply = WEIR__V1__SET_PINGLIST_REPLY__INIT;
	struct agent *a = context;
	struct list old;
	bool is_other;

	if (!strcmp(list->owner, a->owner) && list->generation <= a->generation) {
		rpc_call_finish(call, RPC_FAILED_PRECONDITION,
			"list %" PRIu64 " of %s is not newer than list %" PRIu64, list->generation,
			a->owner, a->generation);
		return;
	}
	if (!list->owner[0] || strlen(list->owner) >= sizeof(a->owner) ||
		list->n_target > AGENT_TARGETS_MAX) {
		rpc_call_finish(call, RPC_INVALID_ARGUMENT,
			"a list has an owner (up to %zu bytes) and up to %d targets",
			sizeof(a->owner) - 1, AGENT_TARGETS_MAX);
		return;
	}
	reply.state = calloc(list->n_target + 1, sizeof(*reply.state));
	if (!reply.state) {
		rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	agent_drain(a);
	is_other = strcmp(list->owner, a->owner);
	if (is_other)
		watchers_end(a, RPC_ABORTED, "another controller has replaced the targets");
	change_abort(a);
	list_init(&old);
	while (a->targets.next != &a->targets) {
		struct list *l = a->targets.next;

		list_del(l);
		list_add(&old, l);
	}
	for (size_t i = 0; i < list->n_target; i++)
		reply.state[i] = place_target(a, &old, list->target[i]);
	reply.n_state = list->n_target;
	while (old.next != &old)
		agent_remove(a, container_of(old.next, struct agent_target, link));
	strcpy(a->owner, list->owner);
	text_one_line(a->owner);
	a->generation = list->generation;
	lease_begin(a, list->lease_ns);
	/* What was counted for somebody else is not told to this one. */
	if (is_other || window_of(a, list) != a->window_ns)
		agent_begin_windows(a, window_of(a, list));
	rpc_call_reply(call, &reply.base);
	free(reply.state);
}

/* Reports */

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The filled buckets of a window's few samples; needs no histogram of 36 KiB per pair. */
static bool fill_histogram(Weir__V1__Histogram *h, uint64_t *v, size_t n)
{
	weir__v1__histogram__init(h);
	if (!n)
		return true;
	qsort(v, n, sizeof(*v), by_number);
	h->bucket = malloc(n * sizeof(*h->bucket));
	h->bucket_count = malloc(n * sizeof(*h->bucket_count));
	if (!h->bucket || !h->bucket_count)
		return false;
	h->count = n;
	h->min_ns = v[0];
	h->max_ns = v[n - 1];
	for (size_t i = 0; i < n; i++) {
		uint32_t b = hist_bucket(v[i]);

		h->sum_ns += (double)v[i];
		h->sum_squares += (double)v[i] * (double)v[i];
		if (h->n_bucket && h->bucket[h->n_bucket - 1] == b) {
			h->bucket_count[h->n_bucket - 1]++;
			continue;
		}
		h->bucket[h->n_bucket] = b;
		h->bucket_count[h->n_bucket++] = 1;
	}
	h->n_bucket_count = h->n_bucket;
	return true;
}

struct pair_message {
	Weir__V1__PairWindow pair;
	Weir__V1__Histogram rtt, network, prober, responder;
};

static bool fill_pair(struct pair_message *m, struct agent_target *t, uint64_t *scratch)
{
	Weir__V1__PairWindow *p = &m->pair;
	size_t stamped = 0;
	bool ok;

	weir__v1__pair_window__init(p);
	p->local_address = t->local;
	p->peer_address = t->peer;
	p->rail = t->rail;
	p->sent = t->sent;
	p->lost = t->lost;
	p->corrupt = t->corrupt;
	p->late_ns = t->late_ns;
	p->rtt = &m->rtt;
	for (size_t i = 0; i < t->samples; i++) {
		scratch[i] = t->sample[i].rtt_ns;
		if (t->sample[i].stamps > (uint8_t)p->timestamps)
			p->timestamps = (Weir__V1__TimestampSource)t->sample[i].stamps;
	}
	ok = fill_histogram(&m->rtt, scratch, t->samples);
	for (size_t i = 0; i < t->samples; i++)
		if (t->sample[i].stamps)
			scratch[stamped++] = t->sample[i].network_ns;
	p->network = &m->network;
	ok = fill_histogram(&m->network, scratch, stamped) && ok;
	stamped = 0;
	for (size_t i = 0; i < t->samples; i++)
		if (t->sample[i].stamps)
			scratch[stamped++] = t->sample[i].rtt_ns - t->sample[i].network_ns -
					     t->sample[i].residence_ns;
	p->prober_delay = &m->prober;
	ok = fill_histogram(&m->prober, scratch, stamped) && ok;
	stamped = 0;
	for (size_t i = 0; i < t->samples; i++)
		if (t->sample[i].stamps)
			scratch[stamped++] = t->sample[i].residence_ns;
	p->responder_delay = &m->responder;
	return fill_histogram(&m->responder, scratch, stamped) && ok;
}

static void free_histogram(Weir__V1__Histogram *h)
{
	free(h->bucket);
	free(h->bucket_count);
}

static void send_report(struct agent *a, Weir__V1__Report *report)
{
	struct list *l, *next;

	for (l = a->watchers.next; l != &a->watchers; l = next) {
		struct watcher *w = container_of(l, struct watcher, link);
		int ret;

		next = l->next;
		report->sequence = ++w->sequence;
		ret = rpc_call_send(w->call, &report->base);
		if (ret == -ECANCELED || ret == -ENOBUFS)
			end_watcher(w, RPC_RESOURCE_EXHAUSTED, "nobody reads");
	}
}

static void send_window(struct agent *a)
{
	Weir__V1__Report report = WEIR__V1__REPORT__INIT;
	struct pair_message *m = calloc(a->target_count + 1, sizeof(*m));
	uint64_t *scratch = malloc(SAMPLES_MAX * sizeof(*scratch));
	Weir__V1__Health health;
	bool ok;

	report.pair = calloc(a->target_count + 1, sizeof(*report.pair));
	ok = m && scratch && report.pair;
	for (struct list *l = a->targets.next; ok && l != &a->targets; l = l->next) {
		ok = fill_pair(
			&m[report.n_pair], container_of(l, struct agent_target, link), scratch);
		report.pair[report.n_pair] = &m[report.n_pair].pair;
		report.n_pair++;
	}
	agent_health(a, &health);
	report.health = &health;
	report.window_start_wall_ns = a->window_wall_ns;
	report.window_ns = clock_ns() - a->window_begun_ns;
	if (ok)
		send_report(a, &report);
	for (size_t i = 0; m && i < report.n_pair; i++) {
		free_histogram(&m[i].rtt);
		free_histogram(&m[i].network);
		free_histogram(&m[i].prober);
		free_histogram(&m[i].responder);
	}
	free(report.pair);
	free(scratch);
	free(m);
}

void report_begin(struct agent *a)
{
	for (struct list *l = a->targets.next; l != &a->targets; l = l->next) {
		struct agent_target *t = container_of(l, struct agent_target, link);

		t->sent = t->lost = t->corrupt = t->answered = 0;
		t->samples = 0;
		t->late_ns = 0;
	}
	a->window_wall_ns = clock_wall_ns();
	a->window_begun_ns = clock_ns();
}

void report_window(struct agent *a)
{
	if (a->watchers.next != &a->watchers)
		send_window(a);
	report_begin(a);
}

void report_changes(struct agent *a)
{
	Weir__V1__Report report = WEIR__V1__REPORT__INIT;
	Weir__V1__StateChange *change = calloc(a->events, sizeof(*change));

	report.change = calloc(a->events, sizeof(*report.change));
	for (size_t i = 0; change && report.change && i < a->events; i++) {
		weir__v1__state_change__init(&change[i]);
		change[i].wall_ns = a->event[i].wall_ns;
		change[i].local_address = a->event[i].local;
		change[i].peer_address = a->event[i].peer;
		change[i].from = a->event[i].from;
		change[i].to = a->event[i].to;
		change[i].reason = a->event[i].reason;
		report.change[report.n_change++] = &change[i];
	}
	if (report.n_change)
		send_report(a, &report);
	a->events = 0;
	free(report.change);
	free(change);
}

static void watcher_gone(struct rpc_call *call, void *context)
{
	struct watcher *w = context;

	(void)call;
	if (is_of_owner(w->agent, w))
		w->agent->seen_ns = clock_ns();
	end_watcher(w, RPC_CANCELLED, "the watcher has gone");
}

static void watch(struct rpc_call *call, const ProtobufCMessage *message, void *context)
{
	const Weir__V1__WatchRequest *request = (const void *)message;
	struct agent *a = context;
	struct watcher *w;
	size_t count = 0;

	for (struct list *l = a->watchers.next; l != &a->watchers; l = l->next)
		count++;
	w = count < WATCHERS_MAX && !a->stopping ? calloc(1, sizeof(*w)) : NULL;
	if (!w) {
		rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "%d watch already", WATCHERS_MAX);
		return;
	}
	w->agent = a;
	w->call = call;
	snprintf(w->name, sizeof(w->name), "%s", request->watcher);
	list_add(&a->watchers, &w->link);
	rpc_call_on_cancel(call, watcher_gone, w);
	watch_closely(a);
}

/* The answering end */

static void set_up_probe(struct rpc_call *call, const ProtobufCMessage *message, void *context)
{
	const Weir__V1__SetUpProbeRequest *request = (const void *)message;
	Weir__V1__SetUpProbeReply reply = WEIR__V1__SET_UP_PROBE_REPLY__INIT;
	unsigned char token[PROBE_TOKEN_BYTES];
	struct sock_addr prober, responder;
	struct agent *a = context;
	struct err e = { 0 };
	uint16_t port;
	int ret;

	if (!agent_parse_address(request->prober_address, &prober) ||
		!agent_parse_address(request->responder_address, &responder)) {
		rpc_call_finish(call, RPC_INVALID_ARGUMENT, "these are no addresses");
		return;
	}
	ret = probe_engine_expect(
		a->engine, &prober, &responder, request->payload_bytes, token, &port, &e);
	if (ret) {
		rpc_call_finish(call,
			ret == -EUSERS		? RPC_RESOURCE_EXHAUSTED
			: ret == -EADDRNOTAVAIL ? RPC_NOT_FOUND
						: RPC_INVALID_ARGUMENT,
			"%s", e.what);
		return;
	}
	reply.port = port;
	reply.token.data = token;
	reply.token.len = sizeof(token);
	rpc_call_reply(call, &reply.base);
}

const struct rpc_method agent_native_methods[5] = {
	{ "GetStatus", RPC_UNARY, get_status },
	{ "SetPinglist", RPC_UNARY, set_pinglist },
	{ "Watch", RPC_SERVER_STREAM, watch },
	{ "SetUpProbe", RPC_UNARY, set_up_probe },
	{ "Run", RPC_UNARY, agent_run_end },
};
