// SPDX-License-Identifier: BSD-3-Clause
/* The engine: what all connections share, turns over them, and who takes the turns. */
#include "xfer/engine.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "mem/cuda_queue.h"

#define SPIN_NS	 (50 * NS_PER_US)
#define DOOR_NS	 NS_PER_MS /* how often a busy engine looks for new connections */
#define SLEEP_NS (100 * NS_PER_MS)

struct gpu_copy {
	struct cuda_gpu *gpu;
	struct cuda_queue *queue;
};

/* Bytes between host memory and a GPU, for messages so short that they came with their offer. */
static int copy_gpu(
	struct weir_p2p *p, cuda_address to, cuda_address from, uint64_t bytes, struct err *e)
{
	struct gpu_copy *g = p->gpu_copy;
	char index[16];
	int ret = 0;

	if (!g) {
		g = calloc(1, sizeof(*g));
		if (!g)
			return err_set(e, ENOMEM, "no memory");
		p->gpu_copy = g;
	}
	snprintf(index, sizeof(index), "%d", p->config.gpu < 0 ? 0 : p->config.gpu);
	if (!g->gpu)
		ret = cuda_gpu_get(&g->gpu, index, e);
	if (!ret && !g->queue)
		ret = cuda_queue_open(&g->queue, g->gpu, 0, e);
	if (!ret)
		ret = cuda_queue_copy_bytes(g->queue, to, from, bytes, e);
	return ret ? ret : cuda_queue_wait(g->queue, e);
}

int engine_copy_in(struct weir_p2p *p, struct weir_p2p_region *r, uint64_t offset, const void *from,
	uint64_t bytes, struct err *e)
{
	if (!bytes)
		return 0;
	if (r->memory == WEIR_P2P_CUDA)
		return copy_gpu(p, (cuda_address)(uintptr_t)r->address + offset,
			(cuda_address)(uintptr_t)from, bytes, e);
	memcpy(r->address + offset, from, bytes);
	return 0;
}

static int copy_text(struct weir_p2p *p, int at, const char **field, struct err *e)
{
	if (!*field)
		return 0;
	p->text[at] = strdup(*field);
	if (!p->text[at])
		return err_set(e, ENOMEM, "no memory for an engine");
	*field = p->text[at];
	return 0;
}

static int check_config(const struct weir_p2p_config *c, struct err *e)
{
	if (!c->channels || c->channels > WEIR_P2P_CHANNELS_MAX)
		return err_set(e, EINVAL, "%u channels: 1 to %d are possible", c->channels,
			WEIR_P2P_CHANNELS_MAX);
	if (!c->window || c->window > WEIR_P2P_WINDOW_MAX)
		return err_set(e, EINVAL, "a window of %u: 1 to %d are possible", c->window,
			WEIR_P2P_WINDOW_MAX);
	if (c->chunk_bytes < 4096 || c->chunk_bytes > WEIR_P2P_CHUNK_MAX)
		return err_set(e, EINVAL, "chunks of %llu bytes: 4 KiB to 1 GiB are possible",
			(unsigned long long)c->chunk_bytes);
	if ((unsigned int)c->path > WEIR_P2P_PATH_STAGED)
		return err_set(e, EINVAL, "%d is no path between NIC and memory", (int)c->path);
	if (!c->connect_timeout_ns || !c->peer_timeout_ns)
		return err_set(e, EINVAL, "a timeout of 0 would end everything at once");
	return 0;
}

static void *thread_main(void *of);

static int start_thread(struct weir_p2p *p, struct err *e)
{
	int ret;

	p->threaded = true;
	p->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->bell < 0)
		return err_set(e, errno, "cannot make an eventfd: %m");
	if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->bell, &(struct epoll_event){ .events = EPOLLIN }))
		return err_set(e, errno, "cannot watch an eventfd: %m");
	ret = pthread_create(&p->thread, NULL, thread_main, p);
	if (ret)
		return err_set(e, ret, "cannot start the thread of an engine: %s", strerror(ret));
	p->started = true;
	return 0;
}

int engine_open(
	struct weir_p2p *p, const struct weir_p2p_config *config, struct net *net, struct err *e)
{
	pthread_condattr_t attr;
	int ret;

	p->config = *config;
	p->listen_fd = p->epoll = p->bell = -1;
	spin_init(&p->spin, SPIN_NS);
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->changed, &attr);
	pthread_condattr_destroy(&attr);
	ret = check_config(config, e);
	if (!ret)
		ret = xfer_token(config->token, p->token, e);
	if (!ret)
		ret = copy_text(p, 0, &p->config.devices, e);
	if (!ret)
		ret = copy_text(p, 1, &p->config.plugin, e);
	if (!ret)
		ret = copy_text(p, 2, &p->config.queues, e);
	if (ret)
		return ret;
	p->config.token = config->token ? "" : NULL;
	p->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (p->epoll < 0)
		return err_set(e, errno, "cannot make an epoll: %m");
	p->net = net;
	ret = net ? 0 : transport_get(&p->net, &p->config, e);
	if (!ret && config->flags & WEIR_P2P_THREAD)
		ret = start_thread(p, e);
	return ret;
}

static void stop_thread(struct weir_p2p *p)
{
	uint64_t one = 1;

	if (!p->started)
		return;
	__atomic_store_n(&p->stopping, true, __ATOMIC_RELEASE);
	while (write(p->bell, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	pthread_join(p->thread, NULL);
	p->threaded = p->started = false;
}

void engine_close(struct weir_p2p *p)
{
	stop_thread(p);
	while (p->conns)
		conn_free(p->conns);
	regions_free(&p->regions);
	unpack_close(p->unpack);
	if (p->net)
		transport_put(p->net);
	if (p->gpu_copy) {
		if (p->gpu_copy->queue)
			cuda_queue_close(p->gpu_copy->queue);
		if (p->gpu_copy->gpu)
			cuda_gpu_put(p->gpu_copy->gpu);
		free(p->gpu_copy);
	}
	if (p->listen_fd >= 0)
		close(p->listen_fd);
	if (p->bell >= 0)
		close(p->bell);
	if (p->epoll >= 0)
		close(p->epoll);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p->text[0]);
	free(p->text[1]);
	free(p->text[2]);
}

/* The port of all addresses, IPv6 with IPv4 where the machine has it. */
static int resolve(const char *host, uint16_t port, struct sock_addr *addr, struct err *e)
{
	struct sock_addr found[SOCK_ADDRS];
	char text[8];
	size_t count;
	int ret;

	snprintf(text, sizeof(text), "%u", port);
	ret = sock_resolve(host, text, AF_UNSPEC, true, found, &count, e);
	if (ret)
		return ret;
	*addr = found[0];
	for (size_t i = 0; !host && i < count; i++)
		if (found[i].storage.ss_family == AF_INET6)
			*addr = found[i];
	return 0;
}

int engine_listen(struct weir_p2p *p, const char *host, uint16_t port, struct err *e)
{
	struct sock_listen how = { .backlog = CONNS_PENDING };
	struct epoll_event event = { .events = EPOLLIN };
	struct sock_addr addr;
	int ret;

	if (p->listen_fd >= 0)
		return err_set(e, EALREADY, "this engine listens already, on port %u", p->port);
	ret = resolve(host, port, &addr, e);
	if (ret)
		return ret;
	if (!p->config.token && !(p->config.flags & WEIR_P2P_OPEN) &&
		!sock_addr_is_loopback(&addr)) {
		err_set(e, EACCES, "listening beyond loopback needs a token");
		return err_hint(e, "set config.token at both ends, or WEIR_P2P_OPEN");
	}
	p->listen_fd = sock_listen(&addr, &how, e);
	/* A machine without IPv6. */
	if (p->listen_fd < 0 && !host && addr.storage.ss_family == AF_INET6) {
		ret = resolve("0.0.0.0", port, &addr, e);
		if (ret)
			return ret;
		p->listen_fd = sock_listen(&addr, &how, e);
	}
	if (p->listen_fd < 0) {
		ret = p->listen_fd;
		p->listen_fd = -1;
		return ret;
	}
	if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->listen_fd, &event))
		return err_set(e, errno, "cannot watch a listening socket: %m");
	if (!sock_local(p->listen_fd, &addr))
		p->port = sock_addr_port(&addr);
	return 0;
}

void engine_refuse(struct weir_p2p *p, const struct err *why)
{
	p->refused++;
	p->refused_why = *why;
}

void engine_lock(struct weir_p2p *p)
{
	if (!p->threaded)
		return;
	__atomic_add_fetch(&p->waiting, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&p->lock);
	__atomic_sub_fetch(&p->waiting, 1, __ATOMIC_RELAXED);
}

void engine_unlock(struct weir_p2p *p, bool news)
{
	uint64_t one = 1;

	if (!p->threaded)
		return;
	pthread_mutex_unlock(&p->lock);
	if (news && __atomic_load_n(&p->asleep, __ATOMIC_SEQ_CST))
		while (write(p->bell, &one, sizeof(one)) < 0 && errno == EINTR)
			;
}

static unsigned int strangers(const struct weir_p2p *p)
{
	unsigned int n = 0;

	for (const struct weir_p2p_conn *c = p->conns; c; c = c->next)
		n += c->server && !c->accepted;
	return n;
}

static int open_door(struct weir_p2p *p, uint64_t now_ns)
{
	struct err e = { 0 };
	int fd, moved = 0;

	if (p->listen_fd < 0 || now_ns - p->listened_ns < DOOR_NS)
		return 0;
	p->listened_ns = now_ns;
	while (strangers(p) < CONNS_PENDING) {
		/* cppcheck-suppress nullPointer; who it is comes with its hello */
		fd = accept4(p->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			break;
		if (conn_serve(p, fd, &e))
			engine_refuse(p, &e);
		moved = 1;
	}
	return moved;
}

int engine_turn(struct weir_p2p *p)
{
	uint64_t now_ns = clock_ns();
	struct weir_p2p_conn *c, *next;
	int moved = open_door(p, now_ns);

	for (c = p->conns; c; c = next) {
		next = c->next;
		if (c->state == CONN_READY)
			moved |= move_turn(c, now_ns);
		else if (c->state != CONN_OVER)
			moved |= conn_open_turn(c, now_ns);
		if (conn_is_done_with(c))
			conn_free(c);
	}
	if (p->threaded && p->finished != p->told) {
		p->told = p->finished;
		pthread_cond_broadcast(&p->changed);
	}
	return moved;
}

/* Look for what control connections wait for; whether chunks are under way, and whether it is all at its
 * beginning, where nothing wakes us. */
static void watch_links(struct weir_p2p *p, bool *chunks, bool *opening)
{
	*chunks = *opening = false;
	for (struct weir_p2p_conn *c = p->conns; c; c = c->next) {
		uint32_t events = EPOLLIN | (c->link.out_count ? (uint32_t)EPOLLOUT : 0);
		struct epoll_event event = { .events = events };

		if (c->state == CONN_OVER)
			continue;
		*opening |= c->state != CONN_READY;
		*chunks |= c->receives_posted > 0;
		for (unsigned int i = 0; c->out && i < c->agreed.channels && !*chunks; i++)
			*chunks = c->out[i].posted.count || c->out[i].granted.count;
		if (c->link.fd < 0 || c->watched == events)
			continue;
		if (!epoll_ctl(p->epoll, c->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->link.fd,
			    &event))
			c->watched = events;
	}
}

static void sleep_on_links(struct weir_p2p *p, uint64_t timeout_ns)
{
	struct timespec t = { .tv_sec = (time_t)(timeout_ns / NS_PER_S),
		.tv_nsec = (long)(timeout_ns % NS_PER_S) };
	struct pollfd fd = { .fd = p->epoll, .events = POLLIN };

	if (ppoll(&fd, 1, &t, NULL) > 0)
		p->listened_ns = 0;
}

static void ring_off(struct weir_p2p *p)
{
	uint64_t count;

	while (p->bell >= 0 && read(p->bell, &count, sizeof(count)) > 0)
		;
}

void engine_sleep(struct weir_p2p *p, uint64_t timeout_ns)
{
	bool chunks, opening;

	/* A silent peer has to be asked, and given up, in time. */
	if (timeout_ns > p->config.peer_timeout_ns / 8)
		timeout_ns = p->config.peer_timeout_ns / 8;
	if (timeout_ns > SLEEP_NS)
		timeout_ns = SLEEP_NS;
	engine_lock(p);
	watch_links(p, &chunks, &opening);
	engine_unlock(p, false);
	if (opening && timeout_ns > NS_PER_MS)
		timeout_ns = NS_PER_MS;
	if (chunks)
		p->net->ops->wait(p->net, p->epoll, timeout_ns);
	else
		sleep_on_links(p, timeout_ns);
	ring_off(p);
}

static int locked_turn(struct weir_p2p *p)
{
	int moved;

	engine_lock(p);
	moved = engine_turn(p);
	engine_unlock(p, false);
	return moved;
}

/* Nothing moved: look again for a while, where that has paid, then sleep. */
static void idle(struct weir_p2p *p, uint64_t timeout_ns)
{
	bool found = false;

	if (spin_worth(&p->spin, clock_ns())) {
		spin_begin(&p->spin);
		do
			found = locked_turn(p);
		while (!found && spin_again(&p->spin));
		spin_end(&p->spin, found);
	}
	if (!found)
		engine_sleep(p, timeout_ns);
}

static void *thread_main(void *of)
{
	struct weir_p2p *p = of;

	pthread_setname_np(pthread_self(), "weir-p2p");
	while (!__atomic_load_n(&p->stopping, __ATOMIC_ACQUIRE)) {
		/* A mutex is not fair to those who come seldom. */
		while (__atomic_load_n(&p->waiting, __ATOMIC_RELAXED) &&
			!__atomic_load_n(&p->stopping, __ATOMIC_RELAXED))
			sched_yield();
		if (locked_turn(p))
			continue;
		/* Whoever brings work from here on rings the bell; what came before is found. */
		__atomic_store_n(&p->asleep, true, __ATOMIC_SEQ_CST);
		if (!locked_turn(p))
			idle(p, SLEEP_NS);
		__atomic_store_n(&p->asleep, false, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

void engine_wait(struct weir_p2p *p, uint64_t deadline_ns)
{
	uint64_t now_ns = clock_ns(), until_ns;
	struct timespec t;

	if (now_ns >= deadline_ns)
		return;
	if (!p->threaded) {
		if (!engine_turn(p))
			idle(p, deadline_ns - now_ns);
		return;
	}
	until_ns = deadline_ns - now_ns > SLEEP_NS ? now_ns + SLEEP_NS : deadline_ns;
	t = (struct timespec){ .tv_sec = (time_t)(until_ns / NS_PER_S),
		.tv_nsec = (long)(until_ns % NS_PER_S) };
	pthread_cond_timedwait(&p->changed, &p->lock, &t);
}
