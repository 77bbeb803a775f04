// SPDX-License-Identifier: BSD-3-Clause
/* Memory of a GPU: slices go through pinned memory, and the copy engine, the connection and the next copy
 * work at the same time. No kernel runs here: copies between the host and a GPU need none, so they go on
 * while NCCL's own kernel fills the GPU and waits for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "net/tcp_parts.h"

/* The queue to a GPU, made when it is first asked for. */
static int queue_get(
	struct tcp_queue **queues, const char *which, struct tcp_queue **found, struct err *e)
{
	struct tcp_queue *q = calloc(1, sizeof(*q));
	int ret;

	*found = NULL;
	if (!q)
		return err_set(e, ENOMEM, "no memory for a queue to a GPU");
	ret = cuda_gpu_get(&q->gpu, which, e);
	if (ret)
		goto free_queue;
	for (*found = *queues; *found && (*found)->gpu != q->gpu; *found = (*found)->next)
		;
	if (*found)
		goto put_gpu;
	ret = cuda_queue_open(&q->queue, q->gpu, 1, e);
	if (ret)
		goto put_gpu;
	q->next = *queues;
	*queues = q;
	*found = q;
	return 0;

put_gpu:
	cuda_gpu_put(q->gpu);
free_queue:
	free(q);
	return ret;
}

void tcp_queues_free(struct tcp_queue **queues)
{
	while (*queues) {
		struct tcp_queue *q = *queues;

		*queues = q->next;
		cuda_queue_close(q->queue);
		tcp_gather_close(q->gather);
		cuda_gpu_put(q->gpu);
		free(q);
	}
}

static void stage_close(struct tcp_stage *s)
{
	if (!s)
		return;
	for (int i = 0; i < TCP_STAGE_SLOTS; i++) {
		struct tcp_stage_slot *slot = &s->slot[i];

		if (slot->mark && slot->copying)
			cuda_mark_wait(slot->mark, NULL);
		cuda_mark_close(slot->mark);
	}
	region_free(&s->pinned);
	free(s);
}

static int stage_open(struct tcp_stage **opened, struct tcp_queue *q, struct err *e)
{
	struct mem_where where = { .kind = MEM_PINNED, .gpu = q->gpu->device.address };
	struct tcp_stage *s = calloc(1, sizeof(*s));
	int ret;

	*opened = NULL;
	if (!s)
		return err_set(e, ENOMEM, "no memory for staging");
	s->queue = q->queue;
	s->way = q;
	ret = region_alloc_in(&s->pinned, &where, (size_t)TCP_STAGE_SLOTS * TCP_STAGE_BYTES, e);
	for (int i = 0; !ret && i < TCP_STAGE_SLOTS; i++) {
		s->slot[i].data = s->pinned.data + (size_t)i * TCP_STAGE_BYTES;
		ret = cuda_mark_open(&s->slot[i].mark, q->gpu, e);
	}
	if (ret)
		stage_close(s);
	else
		*opened = s;
	return ret;
}

static int prepare_short(struct tcp_comm *c, const char *which, struct err *e)
{
	struct mem_where where = { .kind = MEM_PINNED, .gpu = which };
	struct tcp_queue *q;
	int ret = queue_get(&c->net->queues, which, &q, e);

	if (ret || !q)
		return ret;
	c->gpu = q->gpu;
	if (c->sends)
		return 0;
	ret = region_alloc_in(&c->short_pinned, &where, TCP_SHORT_BYTES, e);
	return ret ? ret : cuda_mark_open(&c->short_mark, q->gpu, e);
}

static int prepare_lanes(struct tcp_comm *c, const char *which, struct err *e)
{
	int ret = 0;

	for (int i = 0; !ret && i < c->lanes; i++) {
		struct tcp_lane *l = &c->lane[i];
		struct tcp_stage *s;
		struct tcp_queue *q;

		if (l->stage)
			continue;
		ret = queue_get(&l->worker->queues, which, &q, e);
		if (!ret && q)
			ret = stage_open(&s, q, e);
		if (ret || !q)
			break;
		pthread_mutex_lock(&c->lock);
		l->stage = s;
		pthread_mutex_unlock(&c->lock);
	}
	return ret;
}

int tcp_stage_prepare(struct tcp_comm *c, void *data, struct err *e)
{
	char which[16];
	int ret;

	ret = cuda_gpu_of(data, which, e);
	return ret ? ret : tcp_stage_prepare_on(c, which, e);
}

int tcp_stage_prepare_on(struct tcp_comm *c, const char *which, struct err *e)
{
	struct tcp_net *n = c->net;
	int ret = 0;

	pthread_mutex_lock(&n->lock);
	if (!c->gpu)
		ret = prepare_short(c, which, e);
	else if (c->gpu->device.index != atoi(which))
		ret = err_set(e, EOPNOTSUPP, "one comm serves one GPU: this one %s, not number %s",
			c->gpu->device.address, which);
	if (!ret)
		ret = prepare_lanes(c, which, e);
	pthread_mutex_unlock(&n->lock);
	return ret;
}

void tcp_stage_free(struct tcp_comm *c)
{
	for (int i = 0; i < c->lanes; i++) {
		stage_close(c->lane[i].stage);
		c->lane[i].stage = NULL;
	}
	cuda_mark_close(c->short_mark);
	region_free(&c->short_pinned);
}

bool tcp_stage_full(const struct tcp_stage *s)
{
	return s->count == TCP_STAGE_SLOTS;
}

int tcp_stage_copy(struct tcp_lane *l, struct tcp_stage_slot *slot, bool to_gpu, struct err *e)
{
	const struct tcp_piece *p = &slot->piece;
	cuda_address there = (uintptr_t)(p->request->data + p->header.offset);
	cuda_address here = (uintptr_t)slot->data;
	int ret = cuda_queue_copy_bytes(
		l->stage->queue, to_gpu ? there : here, to_gpu ? here : there, p->header.length, e);

	if (!ret)
		ret = cuda_mark_set(slot->mark, l->stage->queue, e);
	if (ret)
		return ret;
	slot->copying = true;
	atomic_fetch_add(&l->comm->running, 1);
	return 0;
}

int tcp_stage_done(struct tcp_lane *l, struct err *e)
{
	struct tcp_stage_slot *slot = &l->stage->slot[l->stage->first];
	int ret;

	if (!slot->copying)
		return 1;
	ret = cuda_mark_done(slot->mark, e);
	if (!ret) {
		if (!l->copying_since_ns)
			l->copying_since_ns = clock_ns();
		return 0;
	}
	if (l->copying_since_ns)
		atomic_fetch_add(&l->staging_ns, clock_ns() - l->copying_since_ns);
	l->copying_since_ns = 0;
	slot->copying = false;
	atomic_fetch_sub(&l->comm->running, 1);
	return ret;
}

int tcp_stage_short(struct tcp_comm *c, char *to, const void *from, size_t bytes, struct err *e)
{
	struct tcp_net *n = c->net;
	struct tcp_queue *q = n->queues;
	int ret;

	memcpy(c->short_pinned.data, from, bytes);
	pthread_mutex_lock(&n->short_lock);
	while (q->gpu != c->gpu)
		q = q->next;
	ret = cuda_queue_copy_bytes(
		q->queue, (uintptr_t)to, (uintptr_t)c->short_pinned.data, bytes, e);
	if (!ret)
		ret = cuda_mark_set(c->short_mark, q->queue, e);
	pthread_mutex_unlock(&n->short_lock);
	while (!ret)
		ret = cuda_mark_done(c->short_mark, e);
	return ret < 0 ? ret : 0;
}
