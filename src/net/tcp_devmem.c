// SPDX-License-Identifier: BSD-3-Clause
/* Payload of a lane that the NIC itself takes from device memory, or puts there. What stands before slices goes by a
 * connection of its own (header_fd), because the CPU has to read it and cannot read what is in a GPU.
 *
 * Received payload lies in pages of the pool, in as many fragments as there were packets. It is gathered into its place:
 * at once by the CPU where that can reach both, else by the GPU, which is not waited for; then the pages go back to the
 * NIC, and only then the bytes are through. */
#include <time.h>

#include <linux/errqueue.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "net/tcp_parts.h"

static void add(_Atomic uint64_t *counter, uint64_t value)
{
	if (value)
		atomic_fetch_add_explicit(counter, value, memory_order_relaxed);
}

/* The launches of a worker for one GPU. */
static int gather_open(struct tcp_queue *way, struct err *e)
{
	struct tcp_gather *g = way->gather;
	int ret = 0;

	if (g)
		return 0;
	g = calloc(1, sizeof(*g));
	if (!g)
		return err_set(e, ENOMEM, "no memory for fragments");
	g->way = way;
	for (int i = 0; !ret && i < TCP_LAUNCHES; i++)
		ret = cuda_mark_open(&g->mark[i], way->gpu, e);
	if (ret)
		tcp_gather_close(g);
	else
		way->gather = g;
	return ret;
}

void tcp_gather_close(struct tcp_gather *g)
{
	for (int i = 0; g && i < TCP_LAUNCHES; i++)
		if (g->mark[i])
			cuda_mark_close(g->mark[i]);
	free(g);
}

int tcp_taken_open(struct tcp_lane *l, struct tcp_pool *pool, struct err *e)
{
	bool on_gpu = !tcp_pool_memory(pool)->data;
	int ret = 0;

	l->taken = calloc(1, sizeof(*l->taken));
	if (!l->taken)
		return err_set(e, ENOMEM, "no memory for a connection");
	l->taken->pool = pool;
	for (int i = 0; !ret && i < (on_gpu ? TCP_STAGE_SLOTS : 1); i++)
		ret = devmem_rx_init(&l->taken->slot[i].devmem, tcp_pool_id(pool), e);
	if (ret || !on_gpu)
		return ret;
	pthread_mutex_lock(&l->comm->net->lock);
	ret = gather_open(l->stage->way, e);
	pthread_mutex_unlock(&l->comm->net->lock);
	l->taken->gather = l->stage->way->gather;
	return ret;
}

void tcp_taken_close(struct tcp_lane *l)
{
	if (!l->taken)
		return;
	for (int i = 0; i < TCP_STAGE_SLOTS; i++)
		devmem_rx_free(&l->taken->slot[i].devmem);
	free(l->taken);
	l->taken = NULL;
}

/* One receive, and where its bytes came from. */
static ssize_t take(struct tcp_lane *l, struct tcp_taken_slot *s, char *plain, size_t most)
{
	struct devmem_rx *rx = &s->devmem;
	uint64_t device = rx->dmabuf_bytes, linear = rx->linear_bytes, copied = rx->plain_bytes;
	size_t rest = l->piece.header.length - l->piece.done;
	ssize_t n = devmem_recv(rx, l->fd, plain, rest < most ? rest : most);

	add(&l->device_bytes, rx->dmabuf_bytes - device);
	add(&l->linear_bytes, rx->linear_bytes - linear);
	add(&l->plain_bytes, rx->plain_bytes - copied);
	if (n >= 0)
		return n;
	errno = (int)-n;
	return -1;
}

/* Bytes that were not in device memory stand together at the beginning of where all belong: apart with them, the last
 * one first. */
static void spread_linear(const struct devmem_rx *rx, char *to)
{
	for (uint32_t i = rx->linear_count; i--;) {
		const struct mem_fragment *f = &rx->linear[i];

		memmove(to + f->stream_position, to + f->region_offset, f->bytes);
	}
}

/* The CPU reaches the pool and the place. */
static ssize_t receive_here(struct tcp_lane *l)
{
	struct tcp_taken_slot *s = &l->taken->slot[0];
	struct tcp_piece *p = &l->piece;
	struct region place = { .data = p->data + p->done };
	ssize_t n = take(l, s, place.data, DEVMEM_CALL_BYTES);
	int ret, kept;

	if (n <= 0)
		return n;
	place.bytes = (size_t)n;
	spread_linear(&s->devmem, place.data);
	ret = region_gather(
		tcp_pool_memory(l->taken->pool), s->devmem.list, s->devmem.count, &place, 0, NULL);
	kept = devmem_release(&s->devmem, l->fd);
	ret = ret ? ret : kept;
	if (ret) {
		errno = -ret;
		return -1;
	}
	tcp_request_through(p->request, (size_t)n);
	return n;
}

/* Where a slot's bytes that came as ordinary ones wait for their copy. */
static char *plain_of(const struct tcp_lane *l, const struct tcp_taken_slot *s)
{
	return l->stage->slot[s - l->taken->slot].data;
}

static int copy_linear(struct tcp_lane *l, const struct tcp_taken_slot *s, struct err *e)
{
	const struct devmem_rx *rx = &s->devmem;
	const char *plain = plain_of(l, s);
	int ret = 0;

	if (!rx->count && !rx->linear_count)
		return cuda_queue_copy_bytes(l->stage->queue, s->to, (uintptr_t)plain, s->bytes, e);
	for (uint32_t i = 0; !ret && i < rx->linear_count; i++) {
		const struct mem_fragment *f = &rx->linear[i];

		ret = cuda_queue_copy_bytes(l->stage->queue, s->to + f->stream_position,
			(uintptr_t)plain + f->region_offset, f->bytes, e);
	}
	return ret;
}

/* From the GPU's memory to the host's, which happens where a program mixes both: no kernel reaches there. */
static int copy_fragments(
	struct tcp_lane *l, const struct mem_fragment *list, size_t count, struct err *e)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < count; i++)
		ret = cuda_queue_copy_bytes(l->stage->queue, list[i].stream_position,
			list[i].region_offset, list[i].bytes, e);
	return ret;
}

/* Offsets in the pool and places in the message become addresses. */
static void list_addresses(
	const struct devmem_rx *rx, uint64_t pool, uint64_t message, struct mem_fragment *to)
{
	for (uint32_t i = 0; i < rx->count; i++)
		to[i] = (struct mem_fragment){ pool + rx->list[i].region_offset, rx->list[i].bytes,
			message + rx->list[i].stream_position };
}

/* Into the next launch. False: it has no room for now. */
static bool ask(struct tcp_lane *l, struct tcp_taken_slot *s, struct err *e)
{
	struct tcp_gather *g = l->taken->gather;
	struct tcp_worker *w = l->worker;
	int ret = g->broken;

	if (!ret && (g->count + s->devmem.count > CUDA_QUEUE_FRAGMENTS ||
			    g->launched - g->finished >= TCP_LAUNCHES - 1))
		return false;
	if (!ret)
		ret = copy_linear(l, s, e);
	if (!ret) {
		list_addresses(&s->devmem, tcp_pool_memory(l->taken->pool)->cuda->address, s->to,
			g->list + g->count);
		if (s->request->memory->kind == NET_CUDA)
			g->count += s->devmem.count;
		else
			ret = copy_fragments(l, g->list + g->count, s->devmem.count, e);
	}
	if (ret)
		g->broken = ret;
	s->batch = g->launched + 1;
	if (!g->open) {
		g->open = true;
		g->next = w->gathers;
		w->gathers = g;
	}
	return true;
}

static void launch(struct tcp_gather *g)
{
	/* Offsets and positions are addresses. */
	struct cuda_region none = { .gpu = g->way->gpu, .address = 0 };
	struct region all = { .cuda = &none };
	int ret = g->broken;

	if (!ret && g->count)
		ret = cuda_queue_gather(g->way->queue, &all, g->list, g->count, &all, 0, NULL);
	if (ret == -EAGAIN)
		return;
	if (!ret)
		ret = cuda_mark_set(g->mark[g->launched % TCP_LAUNCHES], g->way->queue, NULL);
	if (ret)
		g->broken = ret;
	g->count = 0;
	g->open = false;
	g->launched++;
}

void tcp_gathers_launch(struct tcp_worker *w)
{
	struct tcp_gather *g = w->gathers, *next;

	w->gathers = NULL;
	for (; g; g = next) {
		next = g->next;
		launch(g);
		if (!g->open)
			continue;
		g->next = w->gathers;
		w->gathers = g;
	}
}

static ssize_t receive_for_gpu(struct tcp_lane *l)
{
	struct tcp_taken *t = l->taken;
	struct tcp_taken_slot *s = &t->slot[(t->first + t->count) % TCP_STAGE_SLOTS];
	struct tcp_piece *p = &l->piece;
	ssize_t n = take(l, s, plain_of(l, s), TCP_STAGE_BYTES);

	if (n <= 0)
		return n;
	s->request = p->request;
	s->bytes = (size_t)n;
	s->to = (uintptr_t)(p->data + p->done);
	s->batch = 0;
	t->count++;
	atomic_fetch_add(&l->comm->running, 1);
	return n;
}

bool tcp_taken_full(const struct tcp_lane *l)
{
	return l->taken && l->taken->count == TCP_STAGE_SLOTS;
}

ssize_t tcp_taken_receive(struct tcp_lane *l)
{
	return l->taken->gather ? receive_for_gpu(l) : receive_here(l);
}

/* Whether a launch is over; also when it never will be, because the GPU failed. */
static bool is_over(struct tcp_gather *g, uint64_t batch)
{
	while (!g->broken && g->finished < g->launched) {
		int ret = cuda_mark_done(g->mark[g->finished % TCP_LAUNCHES], NULL);

		if (ret < 0)
			g->broken = ret;
		if (ret <= 0)
			break;
		g->finished++;
	}
	return g->broken || batch <= g->finished;
}

static void slot_over(struct tcp_lane *l)
{
	struct tcp_taken *t = l->taken;

	t->first = (t->first + 1) % TCP_STAGE_SLOTS;
	t->count--;
	atomic_fetch_sub(&l->comm->running, 1);
}

int tcp_taken_reap(struct tcp_lane *l, struct err *e)
{
	struct tcp_taken *t = l->taken;
	int ret;

	for (unsigned int i = 0; i < t->count; i++) {
		struct tcp_taken_slot *s = &t->slot[(t->first + i) % TCP_STAGE_SLOTS];

		if (!s->batch && !ask(l, s, e))
			break;
	}
	while (t->count) {
		struct tcp_taken_slot *s = &t->slot[t->first];
		struct net_request *r = s->request;
		size_t bytes = s->bytes;

		if (!s->batch || !is_over(t->gather, s->batch))
			return 0;
		ret = t->gather->broken;
		if (ret)
			return err_set(e, -ret, "the GPU failed to put what came in its place");
		ret = devmem_release(&s->devmem, l->fd);
		slot_over(l);
		if (ret)
			return devmem_explain(-ret, 0, e);
		tcp_request_through(r, bytes);
	}
	return 0;
}

bool tcp_taken_drain(struct tcp_lane *l)
{
	struct tcp_taken *t = l->taken;

	while (t && t->count) {
		if (t->slot[t->first].batch && !is_over(t->gather, t->slot[t->first].batch))
			return true;
		slot_over(l);
	}
	return false;
}

void tcp_taken_leave(struct tcp_lane *l)
{
	struct tcp_taken *t = l->taken;

	if (!t || !t->count)
		return;
	tcp_gathers_launch(l->worker);
	cuda_queue_wait(t->gather->way->queue, NULL);
	while (tcp_taken_drain(l))
		tcp_gathers_launch(l->worker);
}

/* Sending */

bool tcp_flying_full(const struct tcp_lane *l)
{
	return l->flying && l->flying->count == TCP_FLYING;
}

/* The slice that is being handed to the kernel: the newest. */
static struct tcp_flying_slot *flying_piece(struct tcp_lane *l)
{
	struct tcp_flying *f = l->flying;
	const struct tcp_piece *p = &l->piece;
	struct tcp_flying_slot *s = &f->slot[(f->first + f->count - 1) % TCP_FLYING];

	if (p->done || (f->count && !s->whole))
		return s;
	s = &f->slot[(f->first + f->count++) % TCP_FLYING];
	*s = (struct tcp_flying_slot){
		.request = p->request, .bytes = p->header.length, .first_call = f->calls
	};
	return s;
}

ssize_t tcp_flying_send(struct tcp_lane *l)
{
	struct tcp_flying_slot *s = flying_piece(l);
	struct tcp_piece *p = &l->piece;
	const struct net_memory *m = p->request->memory;
	uint64_t inside = (uintptr_t)(p->data + p->done) - (uintptr_t)(m->view ? m->view : m->data);
	/* Its end is the end of a packet: ordinary bytes that come after it share none with it. */
	ssize_t n = devmem_send(l->fd, tcp_binding_id(m), m->binding_offset + inside,
		p->header.length - p->done, MSG_EOR);

	if (n > 0) {
		s->calls++;
		l->flying->calls++;
		s->whole = p->done + (size_t)n == p->header.length;
		add(&l->device_bytes, (uint64_t)n);
		return n;
	}
	/* No room for another completion: those that are outstanding make some. */
	errno = n == -ENOBUFS ? EAGAIN : (int)-n;
	return -1;
}

/* How many of the calls from first on are among lo .. hi, all modulo 2^32. */
static uint32_t overlap(uint32_t first, uint32_t calls, uint32_t lo, uint32_t hi)
{
	int64_t from = (int32_t)(lo - first), to = (int32_t)(hi - first);

	if (from < 0)
		from = 0;
	if (to > (int64_t)calls - 1)
		to = (int64_t)calls - 1;
	return to < from ? 0 : (uint32_t)(to - from + 1);
}

static void complete(struct tcp_flying *f, uint32_t lo, uint32_t hi)
{
	for (unsigned int i = 0; i < f->count; i++) {
		struct tcp_flying_slot *s = &f->slot[(f->first + i) % TCP_FLYING];

		s->calls_done += overlap(s->first_call, s->calls, lo, hi);
	}
}

static void read_completions(struct tcp_lane *l)
{
	char control[128];

	for (;;) {
		struct msghdr m = { .msg_control = control, .msg_controllen = sizeof(control) };

		if (recvmsg(l->fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
			return;
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
			struct sock_extended_err ee;

			if ((c->cmsg_level != SOL_IP || c->cmsg_type != IP_RECVERR) &&
				(c->cmsg_level != SOL_IPV6 || c->cmsg_type != IPV6_RECVERR))
				continue;
			memcpy(&ee, CMSG_DATA(c), sizeof(ee));
			if (ee.ee_origin == SO_EE_ORIGIN_ZEROCOPY)
				complete(l->flying, ee.ee_info, ee.ee_data);
		}
	}
}

int tcp_flying_reap(struct tcp_lane *l)
{
	struct tcp_flying *f = l->flying;
	int why = 0;
	socklen_t len = sizeof(why);

	if (!f->count)
		return 0;
	read_completions(l);
	if (getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &why, &len) < 0)
		why = errno;
	while (f->count) {
		struct tcp_flying_slot *s = &f->slot[f->first];

		if (!s->whole || s->calls_done < s->calls)
			break;
		f->first = (f->first + 1) % TCP_FLYING;
		f->count--;
		tcp_request_through(s->request, s->bytes);
	}
	return -why;
}
