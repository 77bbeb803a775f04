// SPDX-License-Identifier: BSD-3-Clause
/* Helper threads. Each has lanes of its own, so that nothing on the way of a byte is shared but the
 * comm's list of messages. Events are edge-triggered: a lane is tried until it says EAGAIN, and no system
 * call says what to wait for. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "net/tcp_parts.h"

#define EVENTS	64
#define SPIN_NS (50 * NS_PER_US)

static void enqueue(struct tcp_worker *w, struct tcp_lane *l)
{
	if (l->queued)
		return;
	l->queued = true;
	l->next = NULL;
	*w->run_end = l;
	w->run_end = &l->next;
}

static struct tcp_lane *dequeue(struct tcp_worker *w)
{
	struct tcp_lane *l = w->run;

	if (!l)
		return NULL;
	w->run = l->next;
	if (!w->run)
		w->run_end = &w->run;
	l->queued = false;
	return l;
}

static void drop(struct tcp_worker *w, struct tcp_lane *gone)
{
	struct tcp_lane *list = w->run, *next;

	w->run = NULL;
	w->run_end = &w->run;
	for (; list; list = next) {
		next = list->next;
		list->queued = false;
		if (list != gone)
			enqueue(w, list);
	}
}

/* Lanes that others want looked at; those that shall leave do so here. False: stop. */
static bool take_kicked(struct tcp_worker *w)
{
	struct tcp_lane *l;
	bool stop;

	pthread_mutex_lock(&w->lock);
	while ((l = w->kicked)) {
		w->kicked = l->next_kicked;
		l->kicked = false;
		if (!l->leaving) {
			enqueue(w, l);
			continue;
		}
		epoll_ctl(w->epoll, EPOLL_CTL_DEL, l->fd, NULL);
		if (l->header_fd >= 0)
			epoll_ctl(w->epoll, EPOLL_CTL_DEL, l->header_fd, NULL);
		if (!l->index)
			epoll_ctl(w->epoll, EPOLL_CTL_DEL, l->comm->first, NULL);
		drop(w, l);
		tcp_taken_leave(l);
		l->left = true;
		pthread_cond_broadcast(&w->left);
	}
	stop = w->stop;
	pthread_mutex_unlock(&w->lock);
	return !stop;
}

static int take_events(struct tcp_worker *w, int timeout_ms)
{
	struct epoll_event event[EVENTS];
	int count = epoll_wait(w->epoll, event, EVENTS, timeout_ms);
	uint64_t rings;

	for (int i = 0; i < count; i++) {
		struct tcp_lane *l = event[i].data.ptr;

		if (!l) {
			while (read(w->bell, &rings, sizeof(rings)) < 0 && errno == EINTR)
				;
			continue;
		}
		l->ready = true;
		if (event[i].events & (EPOLLRDHUP | EPOLLHUP))
			tcp_comm_closing(l->comm);
		enqueue(w, l);
	}
	return count;
}

static bool look_again(struct tcp_worker *w)
{
	bool found;

	if (!spin_worth(&w->spin, clock_ns()))
		return false;
	spin_begin(&w->spin);
	do {
		found = take_events(w, 0) > 0;
		pthread_mutex_lock(&w->lock);
		found |= w->kicked || w->stop;
		pthread_mutex_unlock(&w->lock);
	} while (!found && spin_again(&w->spin));
	spin_end(&w->spin, found);
	return found;
}

static void rest(struct tcp_worker *w)
{
	bool kicked;

	if (take_events(w, 0) > 0 || look_again(w))
		return;
	atomic_store(&w->asleep, true);
	pthread_mutex_lock(&w->lock);
	kicked = w->kicked || w->stop;
	pthread_mutex_unlock(&w->lock);
	if (!kicked)
		take_events(w, -1);
	atomic_store(&w->asleep, false);
}

static void *worker_main(void *arg)
{
	struct tcp_worker *w = arg;

	while (take_kicked(w)) {
		struct tcp_lane *last = NULL, *l;

		if (!w->run) {
			rest(w);
			continue;
		}
		/* One turn: those that are in the queue now, not those that come back to it. */
		for (l = w->run; l; l = l->next)
			last = l;
		do {
			l = dequeue(w);
			if (tcp_lane_run(l))
				enqueue(w, l);
		} while (l != last);
		if (w->gathers)
			tcp_gathers_launch(w);
		take_events(w, 0);
	}
	return NULL;
}

static void ring(struct tcp_worker *w)
{
	uint64_t one = 1;

	if (atomic_load(&w->asleep))
		(void)!write(w->bell, &one, sizeof(one));
}

static void kick_locked(struct tcp_lane *l)
{
	if (l->kicked)
		return;
	l->kicked = true;
	l->next_kicked = l->worker->kicked;
	l->worker->kicked = l;
}

void tcp_worker_kick(struct tcp_lane *l)
{
	struct tcp_worker *w = l->worker;

	pthread_mutex_lock(&w->lock);
	kick_locked(l);
	pthread_mutex_unlock(&w->lock);
	ring(w);
}

static int watch(struct tcp_lane *l, int fd, uint32_t what)
{
	struct epoll_event event = { .data.ptr = l, .events = what | EPOLLRDHUP | EPOLLET };

	return epoll_ctl(l->worker->epoll, EPOLL_CTL_ADD, fd, &event);
}

/* Of the comm's first connection, which others read and write, the first lane's worker hears the end. */
int tcp_worker_add(struct tcp_lane *l, struct err *e)
{
	uint32_t what = l->comm->sends ? EPOLLOUT : EPOLLIN;

	if (watch(l, l->fd, what) || (l->header_fd >= 0 && watch(l, l->header_fd, what)) ||
		(!l->index && watch(l, l->comm->first, 0)))
		return err_set(e, errno, "cannot watch a connection: %m");
	return 0;
}

void tcp_worker_remove(struct tcp_lane *l)
{
	struct tcp_worker *w = l->worker;

	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	l->leaving = true;
	kick_locked(l);
	pthread_mutex_unlock(&w->lock);
	ring(w);
	pthread_mutex_lock(&w->lock);
	while (!l->left)
		pthread_cond_wait(&w->left, &w->lock);
	pthread_mutex_unlock(&w->lock);
	l->worker = NULL;
}

static int worker_open(struct tcp_worker *w, struct tcp_net *n, struct err *e)
{
	struct epoll_event event = { .events = EPOLLIN };

	w->net = n;
	w->run_end = &w->run;
	spin_init(&w->spin, SPIN_NS);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->left, NULL);
	w->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (w->bell < 0 || w->epoll < 0 || epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->bell, &event) < 0)
		return err_set(e, errno, "cannot make an event queue for a helper thread: %m");
	return 0;
}

static void worker_close(struct tcp_worker *w)
{
	if (w->bell >= 0)
		close(w->bell);
	if (w->epoll >= 0)
		close(w->epoll);
	pthread_cond_destroy(&w->left);
	pthread_mutex_destroy(&w->lock);
}

/* Signals are the program's, not ours. */
static int worker_start(struct tcp_worker *w, int index, const struct cpus *near, struct err *e)
{
	sigset_t all, before;
	char name[16];
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&w->thread, NULL, worker_main, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret)
		return err_set(e, ret, "cannot start a helper thread: %s", strerror(ret));
	snprintf(name, sizeof(name), "weir-net-%d", index);
	pthread_setname_np(w->thread, name);
	if (near->count) {
		cpu_set_t set;

		CPU_ZERO(&set);
		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
			if (cpus_has(near, cpu))
				CPU_SET(cpu, &set);
		pthread_setaffinity_np(w->thread, sizeof(set), &set);
	}
	return 0;
}

/* The CPUs next to the NIC that this process may use; none known: any. */
static void near_cpus(const struct tcp_device *d, struct cpus *near)
{
	struct cpus allowed;

	cpus_clear(near);
	if (!d->nic.place.local_cpus.count || cpus_allowed(&allowed, NULL))
		return;
	for (int cpu = 0; cpu < CPUS_MAX; cpu++)
		if (cpus_has(&allowed, cpu) && cpus_has(&d->nic.place.local_cpus, cpu))
			cpus_add(near, cpu);
}

int tcp_workers_start(struct tcp_net *n, int dev, struct err *e)
{
	struct cpus near;
	int ret = 0;

	near_cpus(&n->device[dev], &near);
	n->worker = calloc((size_t)n->options.threads, sizeof(*n->worker));
	if (!n->worker)
		return err_set(e, ENOMEM, "no memory for helper threads");
	for (n->workers = 0; n->workers < n->options.threads; n->workers++) {
		struct tcp_worker *w = &n->worker[n->workers];

		ret = worker_open(w, n, e);
		if (!ret)
			ret = worker_start(w, n->workers, &near, e);
		if (ret) {
			worker_close(w);
			tcp_workers_stop(n);
			return ret;
		}
	}
	return 0;
}

void tcp_workers_stop(struct tcp_net *n)
{
	for (int i = 0; i < n->workers; i++) {
		struct tcp_worker *w = &n->worker[i];

		pthread_mutex_lock(&w->lock);
		w->stop = true;
		pthread_mutex_unlock(&w->lock);
		ring(w);
		pthread_join(w->thread, NULL);
		tcp_queues_free(&w->queues);
		worker_close(w);
	}
	free(n->worker);
	n->worker = NULL;
	n->workers = 0;
}
