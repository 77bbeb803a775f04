// SPDX-License-Identifier: BSD-3-Clause
/* A comm: its requests, and what the caller's thread does with them. */
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/tcp_parts.h"

/* How long the connections of a comm that the peer closes may be apart, and how long what came on the last of
 * them may be on its way to its request. */
#define ENDING_NS (2 * NS_PER_S)

static struct tcp_comm *comm_of(struct net_comm *c)
{
	return (struct tcp_comm *)c;
}

void tcp_comm_fail(struct tcp_comm *c, int code, const char *format, ...)
{
	va_list words;

	pthread_mutex_lock(&c->lock);
	if (!c->error.code) {
		c->error.code = code;
		va_start(words, format);
		vsnprintf(c->error.what, sizeof(c->error.what), format, words);
		va_end(words);
		atomic_store(&c->failed, code);
		/* The peer learns it now and not when this end is closed; and so does every lane, which
		 * may have copies to see to their end. */
		shutdown(c->first, SHUT_RDWR);
		for (int i = 0; i < c->lanes; i++) {
			shutdown(c->lane[i].fd, SHUT_RDWR);
			if (c->lane[i].header_fd >= 0)
				shutdown(c->lane[i].header_fd, SHUT_RDWR);
		}
	}
	pthread_mutex_unlock(&c->lock);
	tcp_net_ring(c->net);
}

/* A receiver says nothing: when a sender hears something, it is the end. */
void tcp_comm_closing(struct tcp_comm *c)
{
	uint64_t none = 0;

	if (c->sends)
		tcp_comm_fail(c, ECONNRESET, "%s closed the connection", c->peer);
	else if (atomic_compare_exchange_strong(&c->ended_ns, &none, clock_ns()))
		tcp_net_ring(c->net);
}

int tcp_comm_failure(struct tcp_comm *c, struct err *e)
{
	int code = atomic_load(&c->failed);

	if (!code)
		return 0;
	/* Workers still look in for a moment now and then; what they find is the failure. */
	if (!atomic_load(&c->rested)) {
		if (atomic_load(&c->running))
			return 0;
		atomic_store(&c->rested, true);
	}
	if (e) {
		pthread_mutex_lock(&c->lock);
		*e = c->error;
		pthread_mutex_unlock(&c->lock);
	}
	return -code;
}

/* Which worker drives which lane. */
static void lanes_place(struct tcp_comm *c)
{
	struct tcp_net *n = c->net;
	unsigned int *next = c->sends ? &n->next_sender : &n->next_receiver;

	for (int i = 0; i < c->lanes; i++)
		c->lane[i].worker = &n->worker[(*next)++ % (unsigned int)n->workers];
}

static int watch_first(struct tcp_comm *c, struct err *e)
{
	struct epoll_event event = { .events =
					     c->sends ? EPOLLOUT | EPOLLRDHUP | EPOLLET : EPOLLIN };

	if (epoll_ctl(c->net->waiting, EPOLL_CTL_ADD, c->first, &event) < 0)
		return err_set(e, errno, "cannot watch a connection: %m");
	return 0;
}

static void lanes_init(struct tcp_comm *c, const struct tcp_comm_parts *parts)
{
	for (int i = 0; i < c->lanes; i++) {
		c->lane[i] = (struct tcp_lane){ .comm = c,
			.fd = parts->fd[i + 1],
			.header_fd = parts->apart ? parts->fd[c->lanes + i + 1] : -1,
			.index = i,
			.ready = true };
		if (c->sends)
			c->waiting_lanes |= 1u << i;
	}
}

/* What lanes need where the NIC itself reaches device memory. */
static int lanes_prepare(struct tcp_comm *c, const struct tcp_comm_parts *parts, struct err *e)
{
	int on = 1, ret = 0;

	if (c->pool && !tcp_pool_memory(c->pool)->data)
		ret = tcp_stage_prepare_on(c, c->net->gpu, e);
	for (int i = 0; !ret && i < c->lanes; i++) {
		struct tcp_lane *l = &c->lane[i];

		if (c->pool)
			ret = tcp_taken_open(l, c->pool, e);
		if (!c->sends || !parts->device)
			continue;
		l->flying = calloc(1, sizeof(*l->flying));
		if (!l->flying)
			ret = err_set(e, ENOMEM, "no memory for a connection");
		else if (setsockopt(l->fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)))
			ret = err_set(e, errno, "cannot send without a copy: %m");
	}
	return ret;
}

/* Lanes are given to workers when all is there that they need. */
static int comm_join(struct tcp_comm *c, const struct tcp_comm_parts *parts, struct err *e)
{
	struct tcp_net *n = c->net;
	int ret = 0;

	pthread_mutex_lock(&n->lock);
	if (!n->comms)
		ret = tcp_workers_start(n, c->dev, e);
	if (!ret) {
		n->comms++;
		lanes_place(c);
	}
	pthread_mutex_unlock(&n->lock);
	if (!ret)
		ret = lanes_prepare(c, parts, e);
	for (int i = 0; !ret && i < c->lanes; i++)
		ret = tcp_worker_add(&c->lane[i], e);
	return ret ? ret : watch_first(c, e);
}

int tcp_comm_open(struct tcp_comm **opened, struct tcp_net *n, const struct tcp_comm_parts *parts,
	struct err *e)
{
	struct tcp_comm *c = calloc(1, sizeof(*c));
	struct sock_addr peer;
	int ret;

	*opened = NULL;
	if (c && !parts->sends)
		c->input = malloc(TCP_INPUT);
	if (!c || (!parts->sends && !c->input)) {
		for (int i = 0; i < tcp_fd_count(parts->lanes, parts->apart); i++)
			close(parts->fd[i]);
		tcp_pool_put(parts->pool);
		free(c);
		return err_set(e, ENOMEM, "no memory for a connection");
	}
	c->net = n;
	c->dev = parts->dev;
	c->sends = parts->sends;
	c->first = parts->fd[0];
	c->lanes = parts->lanes;
	c->pool = parts->pool;
	c->to_device = parts->to_device;
	pthread_mutex_init(&c->lock, NULL);
	for (int i = 0; i < TCP_SLOTS; i++)
		c->request[i].comm = c;
	lanes_init(c, parts);
	if (!sock_peer(c->first, &peer))
		sock_addr_text(&peer, true, c->peer);
	ret = comm_join(c, parts, e);
	if (ret) {
		tcp_comm_close((struct net_comm *)c);
		return ret;
	}
	*opened = c;
	return 0;
}

/* All that was sent is out of our hands: say so, and the peer can tell an end from an accident. */
static void say_bye(struct tcp_comm *c)
{
	unsigned char bye[TCP_HEADER_BYTES];
	struct pollfd set = { .fd = c->first, .events = POLLOUT };

	for (int i = 0; i < TCP_SLOTS; i++)
		if (atomic_load(&c->request[i].state) == TCP_WAITING)
			return;
	tcp_header_write(bye, &(struct tcp_header){ .kind = TCP_BYE, .seq = c->posted });
	if (poll(&set, 1, 100) > 0)
		(void)!send(c->first, bye, sizeof(bye), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void comm_leave(struct tcp_comm *c)
{
	struct tcp_net *n = c->net;

	for (int i = 0; i < c->lanes; i++)
		tcp_worker_remove(&c->lane[i]);
	for (int i = 0; i < c->lanes; i++)
		tcp_taken_close(&c->lane[i]);
	tcp_stage_free(c);
	pthread_mutex_lock(&n->lock);
	if (n->comms && !--n->comms)
		tcp_workers_stop(n);
	pthread_mutex_unlock(&n->lock);
}

void tcp_comm_close(struct net_comm *closing)
{
	struct tcp_comm *c = comm_of(closing);

	if (!c)
		return;
	if (c->sends && !atomic_load(&c->failed))
		say_bye(c);
	comm_leave(c);
	epoll_ctl(c->net->waiting, EPOLL_CTL_DEL, c->first, NULL);
	close(c->first);
	for (int i = 0; i < c->lanes; i++) {
		close(c->lane[i].fd);
		if (c->lane[i].header_fd >= 0)
			close(c->lane[i].header_fd);
		free(c->lane[i].flying);
	}
	tcp_memory_free(c);
	tcp_pool_put(c->pool);
	pthread_mutex_destroy(&c->lock);
	free(c->input);
	free(c);
}

/* The slot of the next request, or NULL while it is taken. */
static struct net_request *slot_take(struct tcp_comm *c, char *data, struct net_memory *m)
{
	struct net_request *r = &c->request[c->posted % TCP_SLOTS];

	if (atomic_load(&r->state) != TCP_FREE)
		return NULL;
	r->data = m && m->view ? tcp_memory_begin(m, data) : data;
	r->memory = m;
	r->seq = c->posted;
	r->claimed = 0;
	r->begun = false;
	r->next = NULL;
	r->posted_ns = clock_ns();
	r->stall_since_ns = r->posted_ns;
	r->stall_left = 0;
	if (m)
		atomic_fetch_add(&m->users, 1);
	return r;
}

static int check_range(const struct tcp_comm *c, bool sends, const void *data, size_t bytes,
	const struct net_memory *m, struct err *e)
{
	uintptr_t at = (uintptr_t)data;

	if (c->sends != sends)
		return err_set(e, EINVAL, "this end of the connection %s",
			c->sends ? "sends: it cannot receive" : "receives: it cannot send");
	if (bytes > NET_MESSAGE_MAX)
		return err_set(e, EMSGSIZE, "a message of %zu bytes is longer than %zu", bytes,
			NET_MESSAGE_MAX);
	if (!m && bytes)
		return err_set(e, EINVAL, "the memory is not registered");
	if (bytes && (at < (uintptr_t)m->data || bytes > m->bytes ||
			     at - (uintptr_t)m->data > m->bytes - bytes))
		return err_set(e, EFAULT, "the message is not within the registered memory");
	return 0;
}

/* As few slices as keep all lanes busy, none too long to hold the others up at the end. */
static uint32_t slice_size(const struct tcp_comm *c, size_t total)
{
	uint32_t most = c->net->options.cuda ? TCP_SLICE_CUDA : TCP_SLICE_MAX;
	size_t share = (total / (size_t)c->lanes + 4095) & ~(size_t)4095;

	if (share < TCP_SLICE_MIN)
		return TCP_SLICE_MIN;
	return share < most ? (uint32_t)share : most;
}

/* Wake as many idle lanes as there are slices. */
static void wake_for(struct tcp_comm *c, uint32_t idle)
{
	while (idle) {
		int lane = __builtin_ctz(idle);

		idle &= idle - 1;
		tcp_worker_kick(&c->lane[lane]);
	}
}

static void long_queue(struct tcp_comm *c, struct net_request *r)
{
	size_t slices = (r->total + r->slice_bytes - 1) / r->slice_bytes;
	uint32_t wake = 0;

	pthread_mutex_lock(&c->lock);
	if (c->oldest)
		c->newest->next = r;
	else
		c->oldest = r;
	c->newest = r;
	for (; slices && c->waiting_lanes; slices--) {
		uint32_t lane = c->waiting_lanes & -c->waiting_lanes;

		c->waiting_lanes &= ~lane;
		wake |= lane;
	}
	pthread_mutex_unlock(&c->lock);
	wake_for(c, wake);
}

static bool is_short(const struct tcp_comm *c, size_t bytes, const struct net_memory *m)
{
	return bytes <= TCP_SHORT_BYTES && m->kind == NET_HOST && !m->binding && !c->to_device;
}

int tcp_isend(struct net_comm *comm, const void *data, size_t bytes, struct net_memory *m,
	struct net_request **request, struct err *e)
{
	struct tcp_comm *c = comm_of(comm);
	struct net_request *r;
	int ret;

	*request = NULL;
	ret = check_range(c, true, data, bytes, m, e);
	if (!ret)
		ret = tcp_comm_failure(c, e);
	if (ret)
		return ret;
	r = slot_take(c, (char *)data, m);
	if (!r)
		return 0;
	r->total = bytes;
	r->slice_bytes = slice_size(c, bytes);
	atomic_store(&r->left, bytes);
	atomic_store(&r->state, TCP_WAITING);
	c->posted++;
	if (!bytes || is_short(c, bytes, m))
		tcp_short_queue(c, r);
	else
		long_queue(c, r);
	*request = r;
	return 0;
}

int tcp_irecv(struct net_comm *comm, void *data, size_t bytes, struct net_memory *m,
	struct net_request **request, struct err *e)
{
	struct tcp_comm *c = comm_of(comm);
	struct net_request *r;
	uint32_t wake = 0;
	int ret;

	*request = NULL;
	ret = check_range(c, false, data, bytes, m, e);
	if (!ret)
		ret = tcp_comm_failure(c, e);
	if (ret)
		return ret;
	pthread_mutex_lock(&c->lock);
	r = slot_take(c, data, m);
	if (r) {
		r->room = bytes;
		r->total = 0;
		atomic_store(&r->left, SIZE_MAX);
		atomic_store(&r->state, TCP_WAITING);
		c->posted++;
		for (int i = 0; c->waiting_lanes >> i; i++)
			if (c->waiting_lanes >> i & 1 && c->lane[i].waits_for == r->seq)
				wake |= 1u << i;
		c->waiting_lanes &= ~wake;
	}
	pthread_mutex_unlock(&c->lock);
	wake_for(c, wake);
	*request = r;
	return 0;
}

int tcp_iflush(struct net_comm *comm, void *data, size_t bytes, struct net_memory *m,
	struct net_request **request, struct err *e)
{
	(void)comm, (void)data, (void)bytes, (void)m, (void)e;
	/* A receive is done only when the copy to the GPU is: nothing is left to make visible. */
	*request = NULL;
	return 0;
}

static uint64_t later(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns > b_ns ? a_ns : b_ns;
}

static void finish(struct net_request *r, bool *done, size_t *bytes)
{
	struct tcp_comm *c = r->comm;

	*done = true;
	if (bytes)
		*bytes = r->total;
	c->messages++;
	c->bytes += r->total;
	if (!c->sends && r->begun_ns > r->posted_ns && r->begun_ns > c->last_done_ns)
		c->starved_ns += r->begun_ns - later(r->posted_ns, c->last_done_ns);
	c->last_done_ns = clock_ns();
	if (r->memory && r->memory->view)
		tcp_memory_end(r->memory);
	if (r->memory)
		atomic_fetch_sub(&r->memory->users, 1);
	atomic_store(&r->state, TCP_FREE);
}

static bool has_begun(struct tcp_comm *c, const struct net_request *r)
{
	bool begun;

	pthread_mutex_lock(&c->lock);
	begun = r->begun;
	pthread_mutex_unlock(&c->lock);
	return begun;
}

/* The peer has closed some of the connections: is this a request that can still be served? After a bye it is
 * while any of them is open; a receive that is posted late finds its message where it waited. */
static void check_ending(struct tcp_comm *c, const struct net_request *r)
{
	uint64_t ended_ns = atomic_load(c->first_ended ? &c->all_ended_ns : &c->ended_ns);

	if (c->first_ended && (int32_t)(r->seq - c->last_seq) >= 0)
		tcp_comm_fail(c, EPIPE, "%s closed the connection after %u messages", c->peer,
			c->last_seq);
	else if (ended_ns && clock_ns() - later(ended_ns, r->posted_ns) > ENDING_NS)
		tcp_comm_fail(c, ECONNRESET, "%s closed a connection and left a message unfinished",
			c->peer);
}

static void check_stall(struct tcp_comm *c, struct net_request *r)
{
	uint64_t limit_ns = c->net->options.stall_ns;
	size_t left = atomic_load(&r->left);
	uint64_t now_ns;

	if (!limit_ns)
		return;
	now_ns = clock_ns();
	if (left != r->stall_left) {
		r->stall_left = left;
		r->stall_since_ns = now_ns;
	} else if (now_ns - r->stall_since_ns > limit_ns) {
		tcp_comm_fail(c, ETIMEDOUT, "message %u %s %s has not moved for %.1f s", r->seq,
			c->sends ? "to" : "from", c->peer, (double)limit_ns / NS_PER_S);
	}
}

int tcp_test(struct net_comm *comm, struct net_request *r, bool *done, size_t *bytes, struct err *e)
{
	struct tcp_comm *c = comm_of(comm);

	*done = false;
	if (!atomic_load(&c->failed) && atomic_load(&r->state) != TCP_DONE) {
		if (c->sends)
			tcp_short_send(c);
		/* What comes on the lanes is not on the first connection. */
		else if (atomic_load(&c->ended_ns) || !has_begun(c, r))
			tcp_short_receive(c);
	}
	if (atomic_load(&r->state) == TCP_DONE) {
		finish(r, done, bytes);
		return 0;
	}
	if (!atomic_load(&c->failed)) {
		if (!c->sends)
			check_ending(c, r);
		check_stall(c, r);
	}
	return tcp_comm_failure(c, e);
}

void net_tcp_abort(struct net_comm *comm)
{
	struct tcp_comm *c = comm_of(comm);

	tcp_comm_fail(c, ECANCELED, "given up");
	while (!tcp_comm_failure(c, NULL))
		sched_yield();
}

void tcp_stats(struct net_comm *comm, struct net_stats *s)
{
	struct tcp_comm *c = comm_of(comm);

	*s = (struct net_stats){ .messages = c->messages,
		.bytes = c->bytes,
		.connections = c->lanes,
		.starved_ns = c->starved_ns };
	for (int i = 0; i < c->lanes; i++) {
		struct tcp_lane *l = &c->lane[i];

		s->slices += atomic_load(&l->slices);
		s->socket_full_ns += atomic_load(&l->full_ns);
		s->no_receive_ns += atomic_load(&l->no_receive_ns);
		s->staging_ns += atomic_load(&l->staging_ns);
		s->device_bytes += atomic_load(&l->device_bytes);
		s->linear_bytes += atomic_load(&l->linear_bytes);
		s->plain_bytes += atomic_load(&l->plain_bytes);
	}
	s->reason = atomic_load(&c->net->device[c->dev].reason);
	if (c->pool || atomic_load(&c->binds))
		s->path = NET_PATH_DEVMEM;
	else if (c->net->options.cuda || c->net->options.device.kind != MEM_HOST)
		s->path = NET_PATH_STAGED;
	if (s->path == NET_PATH_DEVMEM)
		s->reason = NULL;
}
