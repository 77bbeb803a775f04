// SPDX-License-Identifier: BSD-3-Clause
/* The server's main thread: control connections come in here, say HELLO, and become sessions. */
#include "flow/server.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpus.h"
#include "base/log.h"

#define ACCEPT_REST_NS (100 * NS_PER_MS)

/* A control connection that has not said HELLO yet. It holds nothing up: others are served
 * meanwhile. */
struct greeting {
	struct loop_fd in;
	struct loop_timer patience;
	struct server *server;
	struct greeting *next, **link;
	struct sock_addr peer;
	uint8_t bytes[NEPER_BYTES];
	size_t have;
};

static void greeting_end(struct greeting *g, bool close_it)
{
	loop_remove(&g->server->loop, &g->in);
	loop_timer_cancel(&g->server->loop, &g->patience);
	*g->link = g->next;
	if (g->next)
		g->next->link = g->link;
	if (close_it)
		close(g->in.fd);
	free(g);
}

static void greeting_refuse(struct greeting *g, const char *why)
{
	char text[SOCK_ADDR_TEXT];

	log_warn("%s: %s", sock_addr_text(&g->peer, true, text), why);
	greeting_end(g, true);
}

static void greeting_late(struct loop *l, struct loop_timer *patience)
{
	(void)l;
	greeting_refuse(container_of(patience, struct greeting, patience),
		"said nothing, or too little; closed");
}

static const char *secret_owner(const struct neper_message *hello)
{
	for (int w = 0; w < WORKLOADS; w++)
		if (!memcmp(hello->secret, neper_secret[w], sizeof(hello->secret)))
			return workload_name[w];
	return NULL;
}

static void greeting_done(struct greeting *g)
{
	struct server *s = g->server;
	struct neper_message hello;
	struct sock_addr peer = g->peer;
	const char *owner;
	struct err e = { 0 };
	char why[128];
	int control = g->in.fd;

	neper_decode(g->bytes, &hello);
	if (hello.type != NEPER_HELLO ||
		memcmp(hello.secret, neper_secret[s->workload], sizeof(hello.secret))) {
		owner = hello.type == NEPER_HELLO ? secret_owner(&hello) : NULL;
		s->invalid_secrets++;
		if (owner)
			snprintf(why, sizeof(why), "wants %s, this server runs %s; closed", owner,
				workload_name[s->workload]);
		else
			snprintf(why, sizeof(why),
				"did not open with weir's or neper's greeting; closed");
		greeting_refuse(g, why);
		return;
	}
	greeting_end(g, false);
	control_tune(control);
	if (session_start(s, control, &peer, &hello, &e)) {
		if (s->events->failed && e.code != EBUSY)
			s->events->failed(s->events->context, NULL, &e);
		else
			log_error_err(&e);
		close(control);
	}
}

static void greeting_read(struct loop *l, struct loop_fd *in, uint32_t events)
{
	struct greeting *g = container_of(in, struct greeting, in);
	ssize_t n = recv(in->fd, g->bytes + g->have, sizeof(g->bytes) - g->have, MSG_DONTWAIT);

	(void)l;
	(void)events;
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		greeting_refuse(g, g->have ? "closed in the middle of its greeting"
					   : "closed without a greeting");
		return;
	}
	g->have += (size_t)n;
	if (g->have == sizeof(g->bytes))
		greeting_done(g);
}

static void server_rested(struct loop *l, struct loop_timer *rest)
{
	struct server *s = container_of(rest, struct server, rest);

	if (!s->stopping)
		loop_change(l, &s->listener, EPOLLIN);
}

static void server_accept(struct loop *l, struct loop_fd *in, uint32_t events)
{
	struct server *s = container_of(in, struct server, listener);
	struct greeting *g = calloc(1, sizeof(*g));
	int fd = -1;

	(void)events;
	if (g) {
		g->peer.len = sizeof(g->peer.storage);
		fd = accept4(
			in->fd, (struct sockaddr *)&g->peer.storage, &g->peer.len, SOCK_CLOEXEC);
	}
	if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
		log_warn("out of file descriptors: raise the limit with ulimit -n");
		loop_change(l, in, 0);
		loop_timer_set(l, &s->rest, clock_ns() + ACCEPT_REST_NS, server_rested);
	}
	if (fd < 0 || loop_add(l, &g->in, fd, EPOLLIN | EPOLLRDHUP, greeting_read, NULL)) {
		if (fd >= 0)
			close(fd);
		free(g);
		return;
	}
	g->server = s;
	g->next = s->greetings;
	g->link = &s->greetings;
	if (g->next)
		g->next->link = &g->next;
	s->greetings = g;
	loop_timer_set(l, &g->patience, clock_ns() + CONTROL_TIMEOUT_NS, greeting_late);
}

/* A session ended, or the user wants to end. */
static void server_woken(struct loop *l)
{
	struct server *s = container_of(l, struct server, loop);
	bool once;

	pthread_mutex_lock(&s->lock);
	once = s->options->once && s->sessions_served && !s->session_threads;
	if (s->stopping ? !s->session_threads : once)
		loop_stop(l);
	pthread_mutex_unlock(&s->lock);
}

static void server_stop(struct loop *l, struct loop_fd *in, uint32_t events)
{
	struct server *s = container_of(in, struct server, stop);

	(void)events;
	/* stop_fd stays readable: each session sees it too, ends its run and reports. */
	s->stopping = true;
	loop_remove(l, in);
	loop_remove(l, &s->listener);
	server_woken(l);
}

void server_session_over(struct server *s, bool served)
{
	pthread_mutex_lock(&s->lock);
	s->session_threads--;
	s->sessions_served += served;
	/* Under the lock: afterwards the server may be gone. */
	loop_wake(&s->loop);
	pthread_mutex_unlock(&s->lock);
}

static int server_add_worker(struct server *s, struct err *e)
{
	const struct flow_options *o = s->options;
	struct worker **grown = realloc(s->workers, (s->worker_count + 1) * sizeof(*grown));
	struct worker *w;
	int ret;

	if (!grown)
		return err_set(e, ENOMEM, "no memory for a worker");
	s->workers = grown;
	ret = worker_start(
		&w, s->worker_count, endpoint_cpu(o, s->worker_count), (int)o->maxevents, e);
	if (ret)
		return ret;
	s->workers[s->worker_count] = w;
	ret = arrival_listen(s, w, e);
	if (ret) {
		worker_call(w, arrival_close, NULL);
		worker_stop(w);
		return ret;
	}
	s->worker_count++;
	return 0;
}

int server_workers(
	struct server *s, uint32_t count, struct worker ***list, uint32_t *got, struct err *e)
{
	const struct opt_table *t = &flow_option_table[s->workload];
	struct cpus cpus;
	int ret = 0;

	if (opt_was_given(t, s->given, "num-threads"))
		count = (uint32_t)s->options->num_threads;
	else if (!cpus_allowed(&cpus, NULL) && count > (uint32_t)cpus.count)
		count = (uint32_t)cpus.count; /* more threads than CPUs serve nobody */
	if (!count)
		count = 1;
	pthread_mutex_lock(&s->lock);
	while (!ret && s->worker_count < count)
		ret = server_add_worker(s, e);
	*list = ret ? NULL : malloc(count * sizeof(**list));
	if (!ret && !*list)
		ret = err_set(e, ENOMEM, "no memory for %u workers", count);
	if (!ret)
		for (uint32_t i = 0; i < count; i++)
			(*list)[i] = s->workers[i]; // NOLINT(clang-analyzer-core.NullDereference)
	*got = count;
	pthread_mutex_unlock(&s->lock);
	return ret;
}

/* Without -H: any address of both families where the host has IPv6, so that every client finds
 * us. */
static int server_listen(struct server *s, struct err *e)
{
	const struct flow_options *o = s->options;
	struct sock_listen how = { .backlog = (int)o->listen_backlog,
		.freebind = o->freebind,
		.device = o->bind_dev,
		.port_option = "--control-port" };
	int family = o->ipv4 && !o->ipv6 ? AF_INET : o->ipv6 && !o->ipv4 ? AF_INET6 : AF_UNSPEC;
	struct sock_addr addr[SOCK_ADDRS];
	char port[16];
	size_t count;
	int fd = -ENOENT, ret;

	snprintf(port, sizeof(port), "%d", (int)o->control_port);
	if (!o->host && family == AF_UNSPEC) {
		ret = sock_resolve(NULL, port, AF_INET6, true, addr, &count, NULL);
		if (!ret && count) {
			fd = sock_listen(&addr[0], &how, e);
			s->address = addr[0];
		}
		family = AF_INET;
	}
	if (fd == -ENOENT || fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL) {
		ret = sock_resolve(o->host, port, family, true, addr, &count, e);
		if (ret)
			return ret;
		fd = sock_listen(&addr[0], &how, e);
		s->address = addr[0];
	}
	return fd;
}

/* Workers share the data ports among each other, and would share them with another server as well:
 * see that nobody has them. */
static int server_claim_ports(const struct server *s, struct err *e)
{
	struct sock_listen alone = { .backlog = 1,
		.freebind = s->options->freebind,
		.device = s->options->bind_dev,
		.port_option = "--port" };

	for (int64_t i = 0; i < s->options->num_ports; i++) {
		struct sock_addr addr = s->address;
		int fd;

		sock_addr_set_port(&addr, (uint16_t)(s->options->port + i));
		fd = sock_listen(&addr, &alone, e);
		if (fd < 0)
			return fd;
		close(fd);
	}
	return 0;
}

static int server_open(struct server *s, struct err *e)
{
	struct worker **first;
	uint32_t count;
	int fd, ret;

	fd = server_listen(s, e);
	if (fd < 0)
		return fd;
	ret = loop_add(&s->loop, &s->listener, fd, EPOLLIN, server_accept, e);
	if (!ret && s->events->stop_fd >= 0)
		ret = loop_add(&s->loop, &s->stop, s->events->stop_fd, EPOLLIN, server_stop, e);
	if (!ret)
		ret = server_claim_ports(s, e);
	/* The data ports are open before the first client is answered. */
	if (!ret)
		ret = server_workers(s, 1, &first, &count, e);
	if (!ret)
		free(first);
	if (ret)
		close(fd);
	return ret;
}

int server_run(enum workload w, const struct flow_options *o, const struct opt_given *given,
	const struct endpoint_events *events, struct err *e)
{
	struct server *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return err_set(e, ENOMEM, "no memory for a server");
	s->workload = w;
	s->options = o;
	s->given = given;
	s->events = events;
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->telling, NULL);
	ret = loop_init(&s->loop, server_woken, e);
	if (ret)
		goto free_server;
	ret = server_open(s, e);
	if (!ret) {
		if (events->ready)
			events->ready(events->context, &s->address);
		ret = loop_run(&s->loop, e);
		close(s->listener.fd);
	}
	/* Each takes itself out of the list, which the analyzer does not see. */
	while (s->greetings)
		greeting_end(s->greetings, true); // NOLINT(clang-analyzer-unix.Malloc)
	for (uint32_t i = 0; i < s->worker_count; i++)
		worker_call(s->workers[i], arrival_close, NULL);
	for (uint32_t i = 0; i < s->worker_count; i++)
		worker_stop(s->workers[i]);
	loop_close(&s->loop);
free_server:
	free(s->workers);
	free(s);
	return ret;
}
