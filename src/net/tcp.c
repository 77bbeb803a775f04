// SPDX-License-Identifier: BSD-3-Clause
#include "net/tcp.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/tcp_parts.h"

#define CONNECTIONS 4
#define THREADS_MAX 16
#define TIMEOUT_NS  (20 * NS_PER_S)
#define SPIN_NS	    (20 * NS_PER_US)
#define POOL_BYTES  ((size_t)64 << 20)

/* Every completion of any transport of the process, and those that this thread knows of: a wait() that
 * comes after a completion does not sleep. */
static _Atomic uint64_t rings;
static _Thread_local uint64_t rings_seen;
static _Thread_local struct spin wait_spin;

void tcp_net_ring(struct tcp_net *n)
{
	uint64_t one = 1;

	atomic_fetch_add(&rings, 1);
	if (atomic_load(&n->waiters))
		(void)!write(n->bell, &one, sizeof(one));
}

static bool wait_look(struct tcp_net *n, int fd, uint64_t timeout_ns)
{
	struct timespec t = { .tv_sec = (time_t)(timeout_ns / NS_PER_S),
		.tv_nsec = (long)(timeout_ns % NS_PER_S) };
	struct pollfd on[2] = { { .fd = n->waiting, .events = POLLIN },
		{ .fd = fd, .events = POLLIN } };
	struct epoll_event event;
	uint64_t count;

	if (ppoll(on, 2, &t, NULL) <= 0)
		return false;
	if (on[0].revents && epoll_wait(n->waiting, &event, 1, 0) > 0 && event.data.ptr == n)
		(void)!read(n->bell, &count, sizeof(count));
	return true;
}

static bool wait_changed(void)
{
	uint64_t now = atomic_load(&rings);
	bool changed = now != rings_seen;

	rings_seen = now;
	return changed;
}

static bool wait_spinning(struct tcp_net *n, int fd)
{
	bool found;

	if (!wait_spin.limit_ns)
		spin_init(&wait_spin, SPIN_NS);
	if (!spin_worth(&wait_spin, clock_ns()))
		return false;
	spin_begin(&wait_spin);
	do
		found = wait_look(n, fd, 0) || wait_changed();
	while (!found && spin_again(&wait_spin));
	spin_end(&wait_spin, found);
	return found;
}

static void tcp_wait(struct net *net, int fd, uint64_t timeout_ns)
{
	struct tcp_net *n = (struct tcp_net *)net;

	if (wait_changed() || wait_spinning(n, fd))
		return;
	atomic_fetch_add(&n->waiters, 1);
	if (!wait_changed())
		wait_look(n, fd, timeout_ns < NS_PER_S ? timeout_ns : NS_PER_S);
	atomic_fetch_sub(&n->waiters, 1);
}

static void tcp_close(struct net *net)
{
	struct tcp_net *n = (struct tcp_net *)net;

	if (!n)
		return;
	tcp_attempts_drop(n, true);
	tcp_queues_free(&n->queues);
	tcp_devices_free(n);
	free(n->queue_list);
	if (n->waiting >= 0)
		close(n->waiting);
	if (n->bell >= 0)
		close(n->bell);
	pthread_mutex_destroy(&n->lock);
	pthread_mutex_destroy(&n->short_lock);
	free(n);
}

static const struct net_ops tcp_ops = {
	.name = "tcp",
	.close = tcp_close,
	.properties = tcp_device_properties,
	.listen = tcp_listen,
	.connect = tcp_connect,
	.accept = tcp_accept,
	.close_listener = tcp_close_listener,
	.close_comm = tcp_comm_close,
	.reg = tcp_reg,
	.reg_dmabuf = tcp_reg_dmabuf,
	.dereg = tcp_dereg,
	.isend = tcp_isend,
	.irecv = tcp_irecv,
	.iflush = tcp_iflush,
	.test = tcp_test,
	.wait = tcp_wait,
	.stats = tcp_stats,
};

/* Half of the CPUs, since each rank of a host has a transport, and each has its own work to do. */
static int default_threads(void)
{
	struct cpus allowed;
	int most;

	if (cpus_allowed(&allowed, NULL))
		return 1;
	most = allowed.count * 3 / 4;
	return most < 1 ? 1 : most > THREADS_MAX ? THREADS_MAX : most;
}

static int judge(struct net_tcp_options *o, struct err *e)
{
	if (!o->connections)
		o->connections = CONNECTIONS;
	if (!o->threads)
		o->threads = default_threads();
	if (!o->timeout_ns)
		o->timeout_ns = TIMEOUT_NS;
	if (!o->pool_bytes)
		o->pool_bytes = POOL_BYTES;
	if (o->connections < 1 || o->connections > TCP_LANES_MAX)
		return err_set(e, EINVAL, "%d connections per comm: 1 to %d are possible",
			o->connections, TCP_LANES_MAX);
	if (o->threads < 1 || o->threads > 256)
		return err_set(e, EINVAL, "%d helper threads: 1 to 256 are possible", o->threads);
	return 0;
}

/* Copies of the caller's. */
static int keep_words(struct tcp_net *n, struct err *e)
{
	struct net_tcp_options *o = &n->options;

	if (o->device.gpu)
		snprintf(n->gpu, sizeof(n->gpu), "%s", o->device.gpu);
	o->device.gpu = n->gpu;
	if (!o->queues)
		return 0;
	n->queue_list = strdup(o->queues);
	o->queues = n->queue_list;
	return n->queue_list ? 0 : err_set(e, ENOMEM, "no memory for a transport");
}

int net_tcp_open(struct net **opened, const struct net_tcp_options *o, struct err *e)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct tcp_net *n = calloc(1, sizeof(*n));
	int ret;

	*opened = NULL;
	if (!n)
		return err_set(e, ENOMEM, "no memory for a transport");
	n->base.ops = &tcp_ops;
	n->options = *o;
	n->waiting = n->bell = -1;
	pthread_mutex_init(&n->lock, NULL);
	pthread_mutex_init(&n->short_lock, NULL);
	ret = judge(&n->options, e);
	if (!ret)
		ret = keep_words(n, e);
	if (!ret)
		ret = tcp_devices_find(n, e);
	if (ret)
		goto close;
	n->waiting = epoll_create1(EPOLL_CLOEXEC);
	n->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	event.data.ptr = n;
	if (n->waiting < 0 || n->bell < 0 ||
		epoll_ctl(n->waiting, EPOLL_CTL_ADD, n->bell, &event) < 0) {
		ret = err_set(e, errno, "cannot make an event queue: %m");
		goto close;
	}
	n->options.interfaces = NULL; /* the caller's */
	*opened = &n->base;
	return 0;

close:
	tcp_close(&n->base);
	return ret;
}
