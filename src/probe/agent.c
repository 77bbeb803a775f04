// SPDX-License-Identifier: BSD-3-Clause
#include "probe/agent.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "probe/agent_parts.h"
#include "rpc/reflection.h"
#include "sys/path.h"
#include "web/server.h"

#define DRAIN_NS (200 * NS_PER_MS)

bool agent_parse_address(const char *text, struct sock_addr *addr)
{
	struct sockaddr_in *in4 = (void *)&addr->storage;
	struct sockaddr_in6 *in6 = (void *)&addr->storage;

	memset(addr, 0, sizeof(*addr));
	if (inet_pton(AF_INET, text, &in4->sin_addr) == 1) {
		in4->sin_family = AF_INET;
		addr->len = sizeof(*in4);
		return true;
	}
	if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		addr->len = sizeof(*in6);
		return true;
	}
	return false;
}

/* Targets */

int agent_add(struct agent *a, struct agent_target **target, const struct probe_want *want,
	const char *rail)
{
	struct agent_target *t;
	struct err e = { 0 };
	int ret;

	*target = NULL;
	if (a->target_count >= AGENT_TARGETS_MAX)
		return -EUSERS;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->want = *want;
	t->want.context = t;
	sock_addr_text(&want->local, false, t->local);
	sock_addr_text(&want->peer, false, t->peer);
	snprintf(t->rail, sizeof(t->rail), "%s", rail ? rail : "");
	t->state = WEIR__V1__TARGET_STATE__TARGET_CONNECTING;
	ret = probe_engine_add(a->engine, &t->probe, &t->want, &e);
	if (ret) {
		log_warn("no probes from %s to %s: %s", t->local, t->peer, e.what);
		free(t);
		return ret;
	}
	t->nic = (size_t)probe_engine_nic(a->engine, &want->local);
	list_add(&a->targets, &t->link);
	a->target_count++;
	*target = t;
	return 0;
}

void agent_remove(struct agent *a, struct agent_target *t)
{
	list_del(&t->link); /* it comes once more, when it is gone */
	a->target_count--;
	a->leaving++;
	probe_engine_remove(a->engine, t->probe);
}

void agent_remove_all(struct agent *a)
{
	while (a->targets.next != &a->targets)
		agent_remove(a, container_of(a->targets.next, struct agent_target, link));
}

int agent_flush(struct agent *a)
{
	struct err e = { 0 };
	int ret;

	if (!a->has_results)
		return 0;
	ret = results_flush(&a->results, &e);
	if (ret && !a->results_failed)
		log_error("%s; rows wait in memory, up to %u MiB", e.what, RESULTS_HELD_MAX >> 20);
	if (!ret && a->results_failed)
		log_warn("results are written again; %llu rows were dropped meanwhile",
			(unsigned long long)a->results.dropped);
	a->results_failed = ret != 0;
	return ret;
}

/* Many rows and a long interval: they are not to be dropped while the disk takes them. */
static void flush_full(struct agent *a, bool again)
{
	if (a->has_results && a->results.used >= RESULTS_FULL && (again || !a->results_failed))
		agent_flush(a);
}

/* Results of the engine */

static void keep_sample(struct agent_target *t, const struct probe_result *r)
{
	size_t room = t->room ? t->room * 2 : 8;
	struct sample *s;

	if (t->samples == t->room) {
		s = room <= SAMPLES_MAX ? realloc(t->sample, room * sizeof(*s)) : NULL;
		if (!s)
			return;
		t->sample = s;
		t->room = room;
	}
	t->sample[t->samples++] =
		(struct sample){ r->rtt_ns, r->network_ns, r->residence_ns, r->stamps };
}

static void take_row(struct agent *a, struct agent_target *t, const struct probe_result *r)
{
	struct nic_totals *n = &a->nic[t->nic];
	bool good = r->kind == PROBE_ANSWERED;
	char words[PROBE_WORDS];

	if (a->has_results)
		results_row(&a->results, r->wall_ns, t->local, t->peer, r->rtt_ns,
			good ? NULL : probe_result_words(r, words));
	flush_full(a, false);
	if (r->starved_ns > t->late_ns)
		t->late_ns = r->starved_ns;
	t->sent++;
	n->sent++;
	if (good) {
		t->answered++;
		hist_record(&n->rtt, r->rtt_ns);
		hist_record(&a->schedule, r->late_ns);
		hist_record(a->recent[0], r->late_ns);
		keep_sample(t, r);
	} else if (r->kind == PROBE_CORRUPT) {
		t->corrupt++;
		n->corrupt++;
	} else {
		t->lost++;
		n->lost++;
	}
}

static void take_state(struct agent *a, struct agent_target *t, const struct probe_result *r)
{
	Weir__V1__TargetState to = r->kind == PROBE_UP ? WEIR__V1__TARGET_STATE__TARGET_UP
						       : WEIR__V1__TARGET_STATE__TARGET_FAILING;
	char words[PROBE_WORDS] = "";
	struct event *x;

	if (r->kind == PROBE_DOWN)
		log_warn("%s to %s: %s", t->local, t->peer, probe_result_words(r, words));
	else if (t->state == WEIR__V1__TARGET_STATE__TARGET_FAILING)
		log_info("%s to %s: connected again", t->local, t->peer);
	if (a->events < EVENTS_MAX && a->watchers.next != &a->watchers) {
		x = &a->event[a->events++];
		x->wall_ns = r->wall_ns;
		memcpy(x->local, t->local, sizeof(x->local));
		memcpy(x->peer, t->peer, sizeof(x->peer));
		x->from = t->state;
		x->to = to;
		memcpy(x->reason, words, sizeof(x->reason));
	}
	t->state = to;
}

void agent_drain(struct agent *a)
{
	struct probe_result r;

	while (probe_engine_next(a->engine, &r)) {
		struct agent_target *t = r.context;

		if (r.kind <= PROBE_HELD) {
			take_row(a, t, &r);
		} else if (r.kind == PROBE_SETTLED) {
			change_settled(a, t, &r);
		} else if (r.kind == PROBE_GONE) {
			a->leaving--;
			free(t->sample);
			free(t);
		} else {
			take_state(a, t, &r);
		}
	}
	flush_full(a, true); /* the disk may have room again; not with each row */
	if (a->events)
		report_changes(a);
	change_go_on(a);
}

static void agent_woken(struct loop *l)
{
	agent_drain(container_of(l, struct agent, loop));
}

static void notify(void *context)
{
	loop_wake(&((struct agent *)context)->loop);
}

/* So long from now, or nearly: when no burst of probes wants this CPU. */
static uint64_t lull_after_ns(const struct agent *a, uint64_t ns)
{
	uint64_t due_ns = clock_ns() + ns;

	return ns < PROBE_GRID_NS ? due_ns : probe_engine_lull_ns(a->engine, due_ns);
}

static void drain_due(struct loop *l, struct loop_timer *timer)
{
	struct agent *a = container_of(timer, struct agent, drain);

	agent_drain(a);
	loop_timer_set(
		l, timer, lull_after_ns(a, a->target_count ? DRAIN_NS : NS_PER_S), drain_due);
}

static void flush_due(struct loop *l, struct loop_timer *timer)
{
	struct agent *a = container_of(timer, struct agent, flush);

	agent_drain(a);
	agent_flush(a);
	loop_timer_set(l, timer, lull_after_ns(a, a->options->flush_ns), flush_due);
}

static void age_lateness(struct agent *a)
{
	struct hist *oldest = a->recent[1];

	if (clock_ns() - a->recent_ns < LATE_NS)
		return;
	a->recent[1] = a->recent[0];
	a->recent[0] = oldest;
	hist_init(oldest);
	a->recent_ns = clock_ns();
}

static void window_due(struct loop *l, struct loop_timer *timer)
{
	struct agent *a = container_of(timer, struct agent, window);

	agent_drain(a);
	age_lateness(a);
	report_window(a);
	loop_timer_set(l, timer, lull_after_ns(a, a->window_ns), window_due);
}

/* The first is shorter: agents that get their lists together report together, of the same time, and a quarter of a window before the
 * controller judges, whose windows begin with the lists. */
void agent_begin_windows(struct agent *a, uint64_t window_ns)
{
	a->window_ns = window_ns;
	report_begin(a);
	loop_timer_set(
		&a->loop, &a->window, lull_after_ns(a, window_ns - window_ns / 4), window_due);
}

/* The end */

static void server_done(struct rpc_server *server, void *context)
{
	struct agent *a = context;

	(void)server;
	loop_stop(&a->loop);
}

static void stop_ready(struct loop *l, struct loop_fd *source, uint32_t events)
{
	struct agent *a = container_of(source, struct agent, stop);

	(void)events;
	loop_remove(l, source);
	a->stopping = true;
	agent_remove_all(a);
	agent_kill_runs(a);
	watchers_end(a, RPC_UNAVAILABLE, "the agent shuts down");
	rpc_server_shutdown(a->server, clock_ns() + 2 * NS_PER_S, server_done, a);
}

/* The beginning */

static void find_device(struct probe_nic *nic)
{
	struct ifaddrs *all, *i;
	struct sock_addr one = { 0 };

	if (getifaddrs(&all))
		return;
	for (i = all; i; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != nic->addr.storage.ss_family)
			continue;
		one.len = nic->addr.len;
		memcpy(&one.storage, i->ifa_addr, one.len);
		if (sock_addr_same_host(&one, &nic->addr))
			snprintf(nic->device, sizeof(nic->device), "%s", i->ifa_name);
	}
	freeifaddrs(all);
	/* Bound to the device only where that is allowed. */
	if (nic->device[0] &&
		sock_try_options(&(struct sock_options){ .device = nic->device }, NULL))
		nic->device[0] = '\0';
}

/* One address of every physical interface that is up, IPv4 first, in the order of the system. */
static void find_nics(struct agent *a, struct probe_nic nic[PROBE_NICS_MAX])
{
	static const int family[] = { AF_INET, AF_INET6 };
	struct ifaddrs *all, *i;

	if (getifaddrs(&all))
		return;
	for (i = all; i; i = i->ifa_next)
		for (int f = 0; f < 2 && i->ifa_addr && a->nics < PROBE_NICS_MAX; f++) {
			struct probe_nic *n = &nic[a->nics];
			const struct sockaddr_in6 *in6 = (const void *)i->ifa_addr;
			bool known = false;

			if (i->ifa_addr->sa_family != family[f] || !(i->ifa_flags & IFF_UP) ||
				!sys_is_dir("/sys/class/net/%s/device", i->ifa_name) ||
				(family[f] == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr)))
				continue;
			for (size_t j = 0; j < a->nics; j++)
				known |= !strcmp(nic[j].device, i->ifa_name);
			if (known)
				continue;
			n->addr.len = family[f] == AF_INET ? sizeof(struct sockaddr_in)
							   : sizeof(struct sockaddr_in6);
			memcpy(&n->addr.storage, i->ifa_addr, n->addr.len);
			snprintf(n->device, sizeof(n->device), "%s", i->ifa_name);
			a->nics++;
		}
	freeifaddrs(all);
	for (size_t j = 0; j < a->nics; j++)
		if (sock_try_options(&(struct sock_options){ .device = nic[j].device }, NULL))
			nic[j].device[0] = '\0';
}

static int read_nics(struct agent *a, struct probe_nic nic[PROBE_NICS_MAX], struct err *e)
{
	char *copy = strdup(a->options->nics ? a->options->nics : ""), *rest = copy, *word;
	int ret = copy ? 0 : err_set(e, ENOMEM, "no memory");

	while (!ret && (word = strsep(&rest, ", "))) {
		if (!word[0])
			continue;
		if (a->nics == PROBE_NICS_MAX)
			ret = err_set(e, EINVAL, "an agent has up to %d NICs", PROBE_NICS_MAX);
		else if (!agent_parse_address(word, &nic[a->nics].addr))
			ret = err_set(e, EINVAL, "\"%s\" is no address of a NIC", word);
		else
			find_device(&nic[a->nics++]);
	}
	free(copy);
	if (!ret && !a->options->nics)
		find_nics(a, nic);
	if (!ret && !a->nics) {
		err_set(e, EINVAL,
			"no physical interface is up: an agent needs the addresses of the NICs it probes from");
		ret = err_hint(e, "for example: weir agent --nics 10.0.1.1,10.0.2.1");
	}
	if (!ret)
		a->nic = calloc(a->nics + 1, sizeof(*a->nic));
	if (!ret && !a->nic)
		ret = err_set(e, ENOMEM, "no memory");
	for (size_t i = 0; !ret && i < a->nics; i++) {
		hist_init(&a->nic[i].rtt);
		sock_addr_text(&nic[i].addr, false, a->nic[i].address);
	}
	return ret;
}

static int listen_at(struct agent *a, const char *where, struct err *e)
{
	char port[8];
	struct sock_addr addr[SOCK_ADDRS];
	size_t count;
	int ret;

	snprintf(port, sizeof(port), "%d", (int)a->options->port);
	ret = sock_resolve(where, port, AF_UNSPEC, true, addr, &count, e);
	if (!ret)
		ret = rpc_server_listen(a->server, &addr[0], e);
	return ret < 0 ? ret : 0;
}

/* A socket for :: takes what comes by IPv4, too, where the system is not set otherwise. A kernel may have no IPv6, or no ::1. */
static int listen_both(struct agent *a, const char *v6, const char *v4, struct err *e)
{
	bool is_any = !strcmp(v6, "::");
	struct err why = { 0 };
	int ret = listen_at(a, v6, &why);

	if (!ret && is_any && !sys_read_number(0, 1, 0, "/proc/sys/net/ipv6/bindv6only"))
		return 0;
	if (!ret || ret == -EAFNOSUPPORT || ret == -EADDRNOTAVAIL)
		return listen_at(a, v4, e);
	*e = why;
	return ret;
}

static int listen_all(struct agent *a, struct err *e)
{
	const struct agent_options *o = a->options;
	char *copy, *rest, *word;
	int ret = 0;

	if (!o->listen && (o->insecure || o->tls.cert))
		return listen_both(a, "::", "0.0.0.0", e);
	if (!o->listen)
		return listen_both(a, "::1", "127.0.0.1", e);
	copy = rest = strdup(o->listen);
	while (!ret && (word = strsep(&rest, ", ")))
		if (word[0])
			ret = listen_at(a, word, e);
	free(copy);
	return ret;
}

static int serve(struct agent *a, struct err *e)
{
	static struct rpc_service service[3];
	struct rpc_server_options options = { .tls = a->tls, .insecure = a->options->insecure };
	int ret;

	service[0] = (struct rpc_service){ &dxs__prober__agent_service__descriptor,
		agent_service_methods, 2, a };
	service[1] = (struct rpc_service){ &dxs__prober__connection_manager__descriptor,
		connection_manager_methods, 2, a };
	service[2] =
		(struct rpc_service){ &weir__v1__agent__descriptor, agent_native_methods, 5, a };
	ret = rpc_server_new(&a->server, &a->loop, &options, e);
	for (int i = 0; !ret && i < 3; i++)
		ret = rpc_server_add(a->server, &service[i], e);
	if (!ret)
		ret = rpc_health_new(&a->health, a->server, e);
	for (int i = 0; !ret && i < 3; i++)
		ret = rpc_health_set(a->health, service[i].descriptor->name, true);
	if (!ret)
		ret = rpc_reflection_add(a->server, e);
	return ret ? ret : listen_all(a, e);
}

static int start(struct agent *a, int stop_fd, struct err *e)
{
	const struct agent_options *o = a->options;
	struct probe_nic nic[PROBE_NICS_MAX];
	struct probe_config config = { .nic = nic,
		.control_port = (uint16_t)o->port,
		.data_port = (uint16_t)o->data_port,
		.connections_per_nic = (uint32_t)o->connections_per_nic,
		.memory = (enum mem_kind)o->memory,
		.tls = o->tls.cert ? &o->tls : NULL,
		.notify = notify,
		.context = a };
	int ret;

	memset(nic, 0, sizeof(nic));
	ret = read_nics(a, nic, e);
	config.nics = a->nics;
	for (size_t i = 0; o->memory == MEM_CUDA && i < a->nics; i++)
		snprintf(nic[i].gpu, sizeof(nic[i].gpu), "%u", agent_gpu_of(i));
	a->event = calloc(EVENTS_MAX, sizeof(*a->event));
	if (!ret && !a->event)
		ret = err_set(e, ENOMEM, "no memory");
	if (!ret && o->tls.cert)
		ret = rpc_tls_new(&a->tls, &o->tls, e);
	if (!ret && o->results_dir) {
		ret = results_open(
			&a->results, o->results_dir, o->results_prefix, o->rotation_ns, e);
		a->has_results = !ret;
	}
	if (!ret)
		ret = probe_engine_new(&a->engine, &config, e);
	if (!ret)
		ret = serve(a, e);
	if (!ret)
		ret = agent_metrics_start(a, e);
	if (!ret)
		ret = loop_add(&a->loop, &a->stop, stop_fd, EPOLLIN, stop_ready, e);
	return ret;
}

int agent_run(const struct agent_options *o, int stop_fd, struct err *e)
{
	struct agent *a = calloc(1, sizeof(*a));
	uint64_t now_ns = clock_ns();
	int ret;

	if (!a)
		return err_set(e, ENOMEM, "no memory for the agent");
	a->options = o;
	a->started_wall_ns = clock_wall_ns();
	gethostname(a->host, sizeof(a->host) - 1);
	hist_init(&a->schedule);
	a->recent_ns = now_ns;
	for (int i = 0; i < 2; i++) {
		a->recent[i] = malloc(sizeof(*a->recent[i]));
		if (a->recent[i])
			hist_init(a->recent[i]);
	}
	list_init(&a->targets);
	list_init(&a->watchers);
	list_init(&a->runs);
	ret = a->recent[0] && a->recent[1] ? loop_init(&a->loop, agent_woken, e)
					   : err_set(e, ENOMEM, "no memory for the agent");
	if (ret)
		goto free_agent;
	ret = agent_name_parent(e);
	if (!ret)
		ret = start(a, stop_fd, e);
	if (!ret) {
		loop_timer_set(&a->loop, &a->drain, now_ns + DRAIN_NS, drain_due);
		loop_timer_set(&a->loop, &a->flush, now_ns + o->flush_ns, flush_due);
		agent_begin_windows(a, NS_PER_S);
		log_info("%zu NICs, gRPC on port %d", a->nics, (int)o->port);
		ret = loop_run(&a->loop, e);
		for (int i = 0; a->leaving && i < 100; i++) {
			agent_drain(a);
			usleep(10000);
		}
		agent_flush(a);
	}
	agent_kill_runs(a);
	web_server_free(a->web);
	rpc_health_free(a->health);
	rpc_server_free(a->server);
	probe_engine_free(a->engine);
	rpc_tls_free(a->tls);
	if (a->has_results)
		results_close(&a->results);
	loop_close(&a->loop);
free_agent:
	free(a->recent[0]);
	free(a->recent[1]);
	free(a->nic);
	free(a->event);
	free(a->change.result);
	free(a);
	return ret;
}
