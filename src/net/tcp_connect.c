// SPDX-License-Identifier: BSD-3-Clause
/* How a comm comes to be: the sender makes all its connections at once and says on each which one of
 * which comm it is; the listener sorts them. Nothing here waits. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/tcp_parts.h"

#define ARRIVALS 256 /* connections that are not a comm yet */
/* Who has connected says so at once; who does not is not one of us. */
#define ARRIVAL_NS (10 * NS_PER_S)

struct arrival {
	int fd; /* -1: free */
	uint64_t deadline_ns;
	size_t have;
	unsigned char bytes[TCP_HELLO_BYTES];
	struct tcp_hello hello; /* once all of it is there */
};

struct net_listener {
	struct tcp_net *net;
	int dev, fd;
	struct tcp_pool *pool; /* what its NIC puts payload into; NULL: none */
	unsigned char token[TCP_TOKEN_BYTES];
	pthread_mutex_t lock;
	struct arrival arrival[ARRIVALS];
};

/* A connect in progress. */
struct tcp_attempt {
	struct tcp_attempt *next;
	uint64_t id, deadline_ns;
	int dev, lanes, fds;
	bool device;	/* perhaps from device memory */
	bool to_device; /* the listener has a pool */
	struct sock_addr addr;
	struct tcp_hello hello;
	int fd[TCP_FDS_MAX];
	size_t said[TCP_FDS_MAX]; /* of the hello */
};

static int set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value));
}

/* A peer that is gone without a word is noticed within the time, whether something is under way or
 * not. All of these exist since Linux 2.6.37. */
static void set_options(const struct tcp_net *n, int fd)
{
	int seconds = (int)((n->options.timeout_ns + NS_PER_S - 1) / NS_PER_S);
	int step = seconds > 4 ? seconds / 4 : 1;

	set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set(fd, IPPROTO_TCP, TCP_KEEPIDLE, step);
	set(fd, IPPROTO_TCP, TCP_KEEPINTVL, step);
	set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
	set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)(n->options.timeout_ns / NS_PER_MS));
}

int tcp_listen(struct net *net, int dev, unsigned char handle[NET_HANDLE_BYTES],
	struct net_listener **opened, struct err *e)
{
	struct tcp_net *n = (struct tcp_net *)net;
	struct sock_listen how = { .backlog = 128 };
	struct tcp_handle h = { .lanes = n->options.connections };
	struct net_listener *l;
	int ret;

	*opened = NULL;
	if (dev < 0 || dev >= net->devices)
		return err_set(
			e, EINVAL, "there is no device %d, only 0 to %d", dev, net->devices - 1);
	l = calloc(1, sizeof(*l));
	if (!l)
		return err_set(e, ENOMEM, "no memory for a listener");
	l->net = n;
	l->dev = dev;
	l->fd = -1;
	ret = tcp_pool_get(n, dev, &l->pool, e);
	if (!ret && getrandom(l->token, sizeof(l->token), 0) != sizeof(l->token))
		ret = err_set(e, EIO, "cannot get random bytes: %m");
	if (!ret) {
		l->fd = sock_listen(&n->device[dev].addr, &how, e);
		ret = l->fd < 0 ? l->fd : sock_local(l->fd, &h.addr);
	}
	if (ret) {
		if (l->fd >= 0)
			close(l->fd);
		tcp_pool_put(l->pool);
		free(l);
		return ret;
	}
	h.apart = l->pool;
	pthread_mutex_init(&l->lock, NULL);
	for (int i = 0; i < ARRIVALS; i++)
		l->arrival[i].fd = -1;
	memcpy(h.token, l->token, sizeof(h.token));
	tcp_handle_write(handle, &h);
	*opened = l;
	return 0;
}

static void arrival_drop(struct arrival *a)
{
	close(a->fd);
	a->fd = -1;
}

void tcp_close_listener(struct net_listener *l)
{
	if (!l)
		return;
	for (int i = 0; i < ARRIVALS; i++)
		if (l->arrival[i].fd >= 0)
			arrival_drop(&l->arrival[i]);
	close(l->fd);
	tcp_pool_put(l->pool);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static struct arrival *arrival_free(struct net_listener *l)
{
	for (int i = 0; i < ARRIVALS; i++)
		if (l->arrival[i].fd < 0)
			return &l->arrival[i];
	return NULL;
}

static int take_arrivals(struct net_listener *l, struct err *e)
{
	struct arrival *a;

	while ((a = arrival_free(l))) {
		/* cppcheck-suppress nullPointer; nobody asks who it is */
		int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0 && errno == EAGAIN)
			return 0;
		if (fd < 0)
			return err_set(e, errno, "cannot accept a connection: %m");
		*a = (struct arrival){ .fd = fd, .deadline_ns = clock_ns() + ARRIVAL_NS };
	}
	return 0;
}

static bool token_is(const unsigned char *a, const unsigned char *b)
{
	unsigned char difference = 0;

	for (int i = 0; i < TCP_TOKEN_BYTES; i++)
		difference |= a[i] ^ b[i];
	return !difference;
}

/* Read what a connection says of itself. One that says the wrong thing, or nothing, is closed and
 * forgotten: it is not ours, and no reason to disturb those that are. */
static void hear(struct net_listener *l, struct arrival *a)
{
	ssize_t n;

	if (a->have < TCP_HELLO_BYTES) {
		n = recv(a->fd, a->bytes + a->have, TCP_HELLO_BYTES - a->have, MSG_DONTWAIT);
		if (!n || (n < 0 && errno != EAGAIN && errno != EINTR)) {
			arrival_drop(a);
			return;
		}
		if (n > 0)
			a->have += (size_t)n;
		if (a->have == TCP_HELLO_BYTES && (tcp_hello_read(&a->hello, a->bytes, NULL) ||
							  !token_is(a->hello.token, l->token))) {
			arrival_drop(a);
			return;
		}
	}
	if (clock_ns() > a->deadline_ns)
		arrival_drop(a);
}

/* All connections of the comm that an arrival belongs to; false when some are missing. */
static bool gather(struct net_listener *l, const struct arrival *of, struct arrival **all)
{
	for (int index = 0; index < tcp_fd_count(of->hello.lanes, of->hello.apart); index++) {
		all[index] = NULL;
		for (int i = 0; i < ARRIVALS && !all[index]; i++) {
			struct arrival *a = &l->arrival[i];

			if (a->fd >= 0 && a->have == TCP_HELLO_BYTES && a->hello.index == index &&
				a->hello.comm == of->hello.comm &&
				a->hello.lanes == of->hello.lanes &&
				a->hello.apart == of->hello.apart)
				all[index] = a;
		}
		if (!all[index])
			return false;
	}
	return true;
}

/* All connections are there. Their payload goes to the pool from now on; what came before is with the kernel, as
 * ordinary bytes. */
static int open_receiver(
	struct net_listener *l, struct tcp_comm_parts *parts, struct tcp_comm **c, struct err *e)
{
	int ret;

	if (l->pool && parts->apart) {
		ret = tcp_pool_steer(l->pool, parts->fd + 1, parts->lanes, e);
		if (ret) {
			for (int i = 0; i < tcp_fd_count(parts->lanes, parts->apart); i++)
				close(parts->fd[i]);
			return ret;
		}
		tcp_pool_keep(l->pool);
		parts->pool = l->pool;
	}
	return tcp_comm_open(c, l->net, parts, e);
}

static int accept_one(struct net_listener *l, struct tcp_comm **c, struct err *e)
{
	struct arrival *all[TCP_FDS_MAX];
	int fd[TCP_FDS_MAX];
	struct tcp_comm_parts parts = { .dev = l->dev, .fd = fd };

	for (int i = 0; i < ARRIVALS; i++)
		if (l->arrival[i].fd >= 0)
			hear(l, &l->arrival[i]);
	for (int i = 0; i < ARRIVALS; i++) {
		struct arrival *a = &l->arrival[i];

		if (a->fd < 0 || a->have < TCP_HELLO_BYTES || a->hello.index || !gather(l, a, all))
			continue;
		parts.lanes = a->hello.lanes;
		parts.apart = a->hello.apart;
		for (int k = 0; k < tcp_fd_count(parts.lanes, parts.apart); k++) {
			fd[k] = all[k]->fd;
			all[k]->fd = -1;
			set_options(l->net, fd[k]);
		}
		return open_receiver(l, &parts, c, e);
	}
	return 0;
}

int tcp_accept(struct net_listener *l, struct net_comm **accepted, struct err *e)
{
	struct tcp_comm *c = NULL;
	int ret;

	*accepted = NULL;
	pthread_mutex_lock(&l->lock);
	ret = take_arrivals(l, e);
	if (!ret)
		ret = accept_one(l, &c, e);
	pthread_mutex_unlock(&l->lock);
	*accepted = (struct net_comm *)c;
	return ret;
}

static void attempt_free(struct tcp_attempt *a)
{
	for (int i = 0; i < a->fds; i++)
		if (a->fd[i] >= 0)
			close(a->fd[i]);
	free(a);
}

void tcp_attempts_drop(struct tcp_net *n, bool all)
{
	struct tcp_attempt **link = &n->attempts;
	uint64_t now_ns = clock_ns();

	while (*link) {
		struct tcp_attempt *a = *link;

		/* Who still calls has been told of the deadline long before. */
		if (!all && now_ns < a->deadline_ns + 10 * NS_PER_S) {
			link = &a->next;
			continue;
		}
		*link = a->next;
		attempt_free(a);
	}
}

/* Pacing, which bbr brings with it, holds loopback to less than half of its speed; on the way to
 * oneself there is no congestion to control. Reno is always there and always allowed. */
static const char *congestion_for(const struct tcp_net *n, const struct sock_addr *addr)
{
	return tcp_is_local(n, addr) ? "reno" : NULL;
}

static int attempt_connect(struct tcp_net *n, struct tcp_attempt *a, int i, struct err *e)
{
	const char *congestion = congestion_for(n, &a->addr);
	const struct sock_addr *local = &n->device[a->dev].addr;
	char text[SOCK_ADDR_TEXT];
	int fd;

	fd = socket(a->addr.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(e, errno, "cannot make a socket: %m");
	a->fd[i] = fd;
	set_options(n, fd);
	if (congestion)
		setsockopt(
			fd, IPPROTO_TCP, TCP_CONGESTION, congestion, (socklen_t)strlen(congestion));
	if (!congestion && local->storage.ss_family == a->addr.storage.ss_family) {
		struct sock_addr any_port = *local;

		sock_addr_set_port(&any_port, 0);
		set(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
		if (bind(fd, (const struct sockaddr *)&any_port.storage, any_port.len) < 0)
			return err_set(e, errno, "cannot send from %s: %m",
				sock_addr_text(local, false, text));
	}
	if (connect(fd, (const struct sockaddr *)&a->addr.storage, a->addr.len) < 0 &&
		errno != EINPROGRESS)
		return err_set(
			e, errno, "cannot connect to %s: %m", sock_addr_text(&a->addr, true, text));
	return 0;
}

static int attempt_begin(struct tcp_net *n, int dev, const struct tcp_handle *h,
	struct tcp_attempt **begun, struct err *e)
{
	struct tcp_attempt *a = calloc(1, sizeof(*a));
	int ret = 0;

	if (!a)
		return err_set(e, ENOMEM, "no memory for a connection");
	a->dev = dev;
	a->lanes = h->lanes;
	a->addr = h->addr;
	a->deadline_ns = clock_ns() + n->options.timeout_ns;
	ret = tcp_pool_wanted(n, dev, &a->device, e);
	a->to_device = h->apart;
	a->hello.apart = h->apart || a->device;
	a->fds = tcp_fd_count(a->lanes, a->hello.apart);
	for (int i = 0; i < a->fds; i++)
		a->fd[i] = -1;
	memcpy(a->hello.token, h->token, sizeof(a->hello.token));
	a->hello.lanes = a->lanes;
	if (!ret && (getrandom(&a->hello.comm, sizeof(a->hello.comm), 0) < 0 ||
			    getrandom(&a->id, sizeof(a->id), 0) < 0))
		ret = err_set(e, EIO, "cannot get random bytes: %m");
	a->id |= 1; /* 0 is none */
	for (int i = 0; !ret && i < a->fds; i++)
		ret = attempt_connect(n, a, i, e);
	if (ret) {
		attempt_free(a);
		return ret;
	}
	pthread_mutex_lock(&n->lock);
	tcp_attempts_drop(n, false);
	a->next = n->attempts;
	n->attempts = a;
	pthread_mutex_unlock(&n->lock);
	*begun = a;
	return 0;
}

/* One connection a step further; 1 when it has said all. */
static int attempt_step(struct tcp_attempt *a, int i, struct err *e)
{
	unsigned char hello[TCP_HELLO_BYTES];
	char text[SOCK_ADDR_TEXT];
	struct pollfd ready = { .fd = a->fd[i], .events = POLLOUT };
	socklen_t len = sizeof(int);
	int why = 0;
	ssize_t n;

	if (a->said[i] == TCP_HELLO_BYTES)
		return 1;
	if (poll(&ready, 1, 0) <= 0)
		return 0;
	if (getsockopt(a->fd[i], SOL_SOCKET, SO_ERROR, &why, &len) < 0)
		why = errno;
	if (why)
		return err_set(e, why, "cannot connect to %s: %s",
			sock_addr_text(&a->addr, true, text), strerror(why));
	a->hello.index = i;
	tcp_hello_write(hello, &a->hello);
	n = send(a->fd[i], hello + a->said[i], TCP_HELLO_BYTES - a->said[i],
		MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return err_set(
			e, errno, "cannot connect to %s: %m", sock_addr_text(&a->addr, true, text));
	if (n > 0)
		a->said[i] += (size_t)n;
	return a->said[i] == TCP_HELLO_BYTES;
}

/* 1 when all connections are there. */
static int attempt_progress(struct tcp_attempt *a, struct err *e)
{
	char text[SOCK_ADDR_TEXT];
	int all = 1;

	for (int i = 0; i < a->fds; i++) {
		int ret = attempt_step(a, i, e);

		if (ret < 0)
			return ret;
		all &= ret;
	}
	if (!all && clock_ns() > a->deadline_ns)
		return err_set(e, ETIMEDOUT, "cannot connect to %s: no answer",
			sock_addr_text(&a->addr, true, text));
	return all;
}

static struct tcp_attempt *attempt_find(struct tcp_net *n, uint64_t id)
{
	struct tcp_attempt *a;

	pthread_mutex_lock(&n->lock);
	for (a = n->attempts; a && a->id != id; a = a->next)
		;
	pthread_mutex_unlock(&n->lock);
	return a;
}

static void attempt_unlink(struct tcp_net *n, const struct tcp_attempt *a)
{
	struct tcp_attempt **link = &n->attempts;

	pthread_mutex_lock(&n->lock);
	while (*link != a)
		link = &(*link)->next;
	*link = a->next;
	pthread_mutex_unlock(&n->lock);
}

int tcp_connect(struct net *net, int dev, unsigned char handle[NET_HANDLE_BYTES],
	struct net_comm **connected, struct err *e)
{
	struct tcp_net *n = (struct tcp_net *)net;
	struct tcp_attempt *a = NULL;
	struct tcp_comm *c = NULL;
	struct tcp_handle h;
	int ret;

	*connected = NULL;
	if (dev < 0 || dev >= net->devices)
		return err_set(
			e, EINVAL, "there is no device %d, only 0 to %d", dev, net->devices - 1);
	ret = tcp_handle_read(&h, handle, e);
	if (ret)
		return ret;
	if (h.attempt) {
		a = attempt_find(n, h.attempt);
		if (!a)
			return err_set(e, EINVAL, "the handle is of a connect that is over");
	} else {
		ret = attempt_begin(n, dev, &h, &a, e);
		if (ret || !a)
			return ret;
		tcp_handle_set_attempt(handle, a->id);
	}
	ret = attempt_progress(a, e);
	if (!ret)
		return 0;
	attempt_unlink(n, a);
	tcp_handle_set_attempt(handle, 0);
	if (ret < 0) {
		attempt_free(a);
		return ret;
	}
	ret = tcp_comm_open(&c, n,
		&(struct tcp_comm_parts){ .dev = a->dev,
			.lanes = a->lanes,
			.sends = true,
			.apart = a->hello.apart,
			.device = a->device,
			.to_device = a->to_device,
			.fd = a->fd },
		e);
	free(a);
	*connected = (struct net_comm *)c;
	return ret;
}
