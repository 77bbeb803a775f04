// SPDX-License-Identifier: BSD-3-Clause
/* Data connections at the server: which session is it for?
 *
 * Between weirs a connection opens with its session's token and its flow's number. neper's
 * connections open with payload, or with silence when the server is to send: they go to the neper
 * session from the same host that still waits for flows. When there are only neper sessions nothing
 * is read and nothing waits. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "flow/server.h"

#define PREAMBLE_TIMEOUT_NS                                                                        \
	NS_PER_S /* then it may be one of neper's, if such a session waits for one */
#define ACCEPTS_PER_TURN 64
#define ACCEPT_REST_NS	 (100 * NS_PER_MS)

struct listener {
	struct loop_fd in;
	struct loop_timer rest;
	struct server *server;
	struct worker *worker;
	struct listener *next;
};

/* A connection that has not said yet whose it is. */
struct arrival {
	struct loop_fd in;
	struct loop_timer patience;
	struct server *server;
	struct worker *worker;
	struct arrival *next, **link; /* in the worker's door */
	struct sock_addr peer;
	uint64_t give_up_ns;
	uint8_t bytes[WIRE_PREAMBLE_BYTES];
	size_t have;
};

/* What a worker has open for newcomers: worker.owner. */
struct door {
	struct listener *listeners;
	struct arrival *arrivals;
};

/* A flow on its way to the worker that will serve it. */
struct adoption {
	struct worker_job job;
	struct lane *lane;
	int fd;
	uint32_t id;
	uint64_t early_bytes;
};

/* A flow of the run is lost: nobody must wait for it. */
static void run_lose(struct run *r, int error)
{
	int none = 0;

	atomic_compare_exchange_strong(&r->first_error, &none, error);
	run_ring(r);
}

static void adopt(struct lane *l, int fd, uint32_t id, uint64_t early_bytes)
{
	struct err e = { 0 };

	if (l->stopped) {
		close(fd);
		return;
	}
	if (lane_adopt(l, fd, id, early_bytes, &e)) {
		log_error_err(&e);
		run_lose(l->run, e.code ? e.code : ENOMEM);
	}
}

static void adopt_job(struct worker *w, struct worker_job *job)
{
	struct adoption *a = container_of(job, struct adoption, job);

	(void)w;
	adopt(a->lane, a->fd, a->id, a->early_bytes);
	free(a);
}

/* With server.lock held. A lane of this very worker is served at once. */
static void arrival_give(
	struct worker *here, struct lane *l, int fd, uint32_t id, uint64_t early_bytes)
{
	struct adoption *a;

	if (l->worker == here) {
		adopt(l, fd, id, early_bytes);
		return;
	}
	a = calloc(1, sizeof(*a));
	if (!a) {
		close(fd);
		run_lose(l->run, ENOMEM);
		return;
	}
	*a = (struct adoption){
		.job.act = adopt_job, .lane = l, .fd = fd, .id = id, .early_bytes = early_bytes
	};
	worker_post(l->worker, &a->job);
}

/* crr connections are short: they stay with the worker that accepted them, if it serves the
 * session. */
static struct lane *session_lane(struct session *s, struct worker *here, uint32_t id)
{
	for (uint32_t i = 0; s->server->workload == WORKLOAD_CRR && i < s->run.lane_count; i++)
		if (s->run.lanes[i].worker == here)
			return &s->run.lanes[i];
	/* A run has at least one lane. */
	return &s->run.lanes[id % s->run.lane_count]; // NOLINT(clang-analyzer-core.DivideZero)
}

static void arrival_weir(
	struct server *server, struct worker *here, int fd, const struct wire_preamble *p)
{
	bool known = false;

	pthread_mutex_lock(&server->lock);
	for (struct session *s = server->sessions; s && !known; s = s->next) {
		if (s->neper || memcmp(s->run.token, p->token, sizeof(p->token)))
			continue;
		if (p->flow >= s->run.flow_count)
			break;
		/* A token is good for as many connections as were agreed. */
		if (s->seen[p->flow] && server->workload != WORKLOAD_CRR)
			break;
		s->seen[p->flow] = true;
		known = true;
		arrival_give(here, session_lane(s, here, p->flow), fd, p->flow, 0);
	}
	pthread_mutex_unlock(&server->lock);
	if (!known)
		close(fd);
}

static bool session_knows(const struct session *s, const struct sock_addr *peer)
{
	for (uint32_t i = 0; i < s->members; i++)
		if (sock_addr_same_host(&s->peer[i], peer))
			return true;
	return false;
}

/* The neper session that waits for a flow, one from the same host before any other. */
static struct session *neper_session(struct server *server, const struct sock_addr *peer)
{
	struct session *other = NULL;

	for (struct session *s = server->sessions; s; s = s->next) {
		bool waits = s->neper &&
			     (server->workload == WORKLOAD_CRR || s->flows_given < s->flows_wanted);

		if (waits && session_knows(s, peer))
			return s;
		if (waits)
			other = s;
	}
	return other;
}

/* With device memory the port says which lane's memory the data comes to. */
static struct lane *neper_lane(struct session *s, struct worker *here, int fd, uint32_t id)
{
	struct sock_addr local;

	if (s->run.device.rx == DEVICE_DEVMEM && !sock_local(fd, &local))
		return device_port_lane(
			&s->run, (uint32_t)(sock_addr_port(&local) - s->server->options->port));
	return session_lane(s, here, id);
}

/* false: no session wants it, and it is still open. */
static bool arrival_neper(struct server *server, struct worker *here, int fd,
	const struct sock_addr *peer, uint64_t early_bytes)
{
	struct session *s;

	pthread_mutex_lock(&server->lock);
	s = neper_session(server, peer);
	if (s) {
		uint32_t id = s->flows_given++;

		arrival_give(here, neper_lane(s, here, fd, id), fd, id, early_bytes);
	}
	pthread_mutex_unlock(&server->lock);
	return s != NULL;
}

/* Take an arrival out of the loop and the door; its descriptor stays open. */
static void arrival_end(struct arrival *a)
{
	loop_remove(&a->worker->loop, &a->in);
	loop_timer_cancel(&a->worker->loop, &a->patience);
	*a->link = a->next;
	if (a->next)
		a->next->link = a->link;
}

static void arrival_drop(struct arrival *a)
{
	arrival_end(a);
	close(a->in.fd);
	free(a);
}

static void arrival_read(struct loop *loop, struct loop_fd *in, uint32_t events)
{
	struct arrival *a = container_of(in, struct arrival, in);
	ssize_t n = recv(in->fd, a->bytes + a->have, sizeof(a->bytes) - a->have, MSG_DONTWAIT);
	struct wire_preamble p;
	int ret;

	(void)loop;
	(void)events;
	if (n < 0 && errno == EAGAIN)
		return;
	/* It is in device memory already, so it is payload: one of neper's. */
	if (n < 0 && errno == EFAULT) {
		arrival_end(a);
		if (!arrival_neper(a->server, a->worker, in->fd, &a->peer, a->have))
			close(in->fd);
		free(a);
		return;
	}
	if (n <= 0) {
		arrival_drop(a);
		return;
	}
	a->have += (size_t)n;
	ret = wire_preamble_decode(a->bytes, a->have, &p);
	if (ret == -EAGAIN)
		return;
	arrival_end(a);
	if (!ret)
		arrival_weir(a->server, a->worker, in->fd, &p);
	else if (!arrival_neper(a->server, a->worker, in->fd, &a->peer, a->have))
		close(in->fd);
	free(a);
}

/* One connection could not be taken in, and nobody knows whose it was: all who wait are told. */
static void arrival_lost(struct server *server, int fd)
{
	close(fd);
	pthread_mutex_lock(&server->lock);
	for (struct session *s = server->sessions; s; s = s->next)
		if (server->workload != WORKLOAD_CRR && s->run.arrived < s->run.flow_count)
			run_lose(&s->run, ENOMEM);
	pthread_mutex_unlock(&server->lock);
}

static void arrival_late(struct loop *loop, struct loop_timer *patience);

/* Wait for what it says, or frees it. */
static void arrival_begin(struct arrival *a, int fd)
{
	struct loop *loop = &a->worker->loop;
	struct door *door = a->worker->owner;

	if (loop_add(loop, &a->in, fd, EPOLLIN | EPOLLRDHUP, arrival_read, NULL)) {
		arrival_lost(a->server, fd);
		free(a);
		return;
	}
	a->next = door->arrivals;
	a->link = &door->arrivals;
	if (a->next)
		a->next->link = &a->next;
	door->arrivals = a;
	loop_timer_set(loop, &a->patience, clock_ns() + PREAMBLE_TIMEOUT_NS, arrival_late);
	arrival_read(loop, &a->in, EPOLLIN);
}

/* It has said too little to be one of weir's. When nobody else waits for it, its preamble may still be
 * under way. */
static void arrival_late(struct loop *loop, struct loop_timer *patience)
{
	struct arrival *a = container_of(patience, struct arrival, patience);
	int fd = a->in.fd;

	(void)loop;
	arrival_end(a);
	if (arrival_neper(a->server, a->worker, fd, &a->peer, a->have)) {
		free(a);
	} else if (clock_ns() > a->give_up_ns) {
		close(fd);
		free(a);
	} else {
		arrival_begin(a, fd);
	}
}

static void arrival_wait(struct listener *l, int fd, const struct sock_addr *peer)
{
	struct arrival *a = calloc(1, sizeof(*a));

	if (!a) {
		arrival_lost(l->server, fd);
		return;
	}
	a->server = l->server;
	a->worker = l->worker;
	a->peer = *peer;
	a->give_up_ns = clock_ns() + CONTROL_TIMEOUT_NS;
	arrival_begin(a, fd);
}

static void listener_rested(struct loop *loop, struct loop_timer *rest)
{
	struct listener *l = container_of(rest, struct listener, rest);

	loop_change(loop, &l->in, EPOLLIN);
}

static void listener_ready(struct loop *loop, struct loop_fd *in, uint32_t events)
{
	struct listener *l = container_of(in, struct listener, in);
	struct sock_addr peer;

	(void)events;
	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		int fd;

		peer.len = sizeof(peer.storage);
		fd = accept4(in->fd, (struct sockaddr *)&peer.storage, &peer.len, SOCK_CLOEXEC);
		if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
			log_warn("out of file descriptors: raise the limit with ulimit -n");
			loop_change(loop, in, 0);
			loop_timer_set(
				loop, &l->rest, clock_ns() + ACCEPT_REST_NS, listener_rested);
			return;
		}
		if (fd < 0)
			return;
		if (atomic_load(&l->server->token_sessions))
			arrival_wait(l, fd, &peer);
		else if (!arrival_neper(l->server, l->worker, fd, &peer, 0))
			close(fd);
	}
}

int arrival_listen(struct server *s, struct worker *w, struct err *e)
{
	struct sock_listen how = { .backlog = (int)s->options->listen_backlog,
		.freebind = s->options->freebind,
		.share_port = true,
		.device = s->options->bind_dev,
		.port_option = "--port" };
	struct door *door = calloc(1, sizeof(*door));

	if (!door)
		return err_set(e, ENOMEM, "no memory for a listener");
	w->owner = door;
	for (int64_t i = 0; i < s->options->num_ports; i++) {
		struct listener *l = calloc(1, sizeof(*l));
		struct sock_addr addr = s->address;
		int fd, ret;

		if (!l)
			return err_set(e, ENOMEM, "no memory for a listener");
		sock_addr_set_port(&addr, (uint16_t)(s->options->port + i));
		fd = sock_listen(&addr, &how, e);
		if (fd < 0) {
			free(l);
			return fd;
		}
		l->server = s;
		l->worker = w;
		ret = loop_add(&w->loop, &l->in, fd, EPOLLIN, listener_ready, e);
		if (ret) {
			close(fd);
			free(l);
			return ret;
		}
		l->next = door->listeners;
		door->listeners = l;
	}
	return 0;
}

void arrival_close(struct worker *w, void *unused)
{
	struct door *door = w->owner;
	struct listener *l = door ? door->listeners : NULL;

	(void)unused;
	while (l) {
		struct listener *next = l->next;

		loop_timer_cancel(&w->loop, &l->rest);
		loop_forget(&w->loop, &l->in);
		close(l->in.fd);
		free(l);
		l = next;
	}
	/* Each takes itself out of the list, which the analyzer does not see. */
	while (door && door->arrivals)
		arrival_drop(door->arrivals); // NOLINT(clang-analyzer-unix.Malloc)
	free(door);
	w->owner = NULL;
}
