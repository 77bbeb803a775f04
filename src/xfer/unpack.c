// SPDX-License-Identifier: BSD-3-Clause
/* All work of an engine goes to one queue of its GPU and is done in order: a batch is what lies between two marks
 * in it, and batches are numbered. */
#include "xfer/unpack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem/cuda_queue.h"

#define MARKS	   64 /* batches under way */
#define HOST_SLOTS 4  /* messages on their way through host memory */
#define BLOCKS	   8  /* of the GPU: more than any NIC brings, and the rest is the program's */

struct unpack {
	enum weir_p2p_unpack how;
	char which[16];
	struct cuda_gpu *gpu;
	struct cuda_queue *queue; /* NULL: no GPU was needed yet */
	struct cuda_mark *mark[MARKS];
	struct region staging;	   /* pinned; through host memory only */
	size_t staging_bytes;	   /* of each of its places */
	int broken;		   /* -errno: the GPU failed with work of several connections */
	uint64_t queued, finished; /* batches; the one being filled is queued + 1 */
	bool open;		   /* there is one being filled */
	/* For the kernel: what the batch being filled holds. */
	const char *pool;
	char *to;
	size_t count;
	struct mem_fragment list[CUDA_QUEUE_FRAGMENTS];
};

int unpack_open(struct unpack **opened, enum weir_p2p_unpack how, int gpu, struct err *e)
{
	struct unpack *u = calloc(1, sizeof(*u));

	*opened = NULL;
	if (!u)
		return err_set(e, ENOMEM, "no memory to unpack in");
	u->how = how;
	snprintf(u->which, sizeof(u->which), "%d", gpu < 0 ? 0 : gpu);
	*opened = u;
	return 0;
}

void unpack_close(struct unpack *u)
{
	if (!u)
		return;
	unpack_wait(u);
	for (int i = 0; i < MARKS; i++)
		if (u->mark[i])
			cuda_mark_close(u->mark[i]);
	if (u->queue)
		cuda_queue_close(u->queue);
	region_free(&u->staging);
	if (u->gpu)
		cuda_gpu_put(u->gpu);
	free(u);
}

static int need_gpu(struct unpack *u, struct err *e)
{
	int ret = 0;

	if (u->queue)
		return 0;
	if (!u->gpu)
		ret = cuda_gpu_get(&u->gpu, u->which, e);
	for (int i = 0; !ret && i < MARKS; i++)
		if (!u->mark[i])
			ret = cuda_mark_open(&u->mark[i], u->gpu, e);
	return ret ? ret : cuda_queue_open(&u->queue, u->gpu, BLOCKS, e);
}

/* Both in the host. */
static void copy_here(const struct net_fragments *f, char *to)
{
	for (size_t i = 0; i < f->count; i++)
		memcpy(to + f->list[i].stream_position, f->pool + f->list[i].region_offset,
			f->list[i].bytes);
}

static int copy_each(struct unpack *u, const struct net_fragments *f, const char *to, struct err *e)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < f->count; i++)
		ret = cuda_queue_copy_bytes(u->queue, (uintptr_t)to + f->list[i].stream_position,
			(uintptr_t)f->pool + f->list[i].region_offset, f->list[i].bytes, e);
	return ret;
}

static int need_staging(struct unpack *u, size_t bytes, struct err *e)
{
	struct mem_where where = { .kind = MEM_PINNED, .gpu = u->which };
	int ret;

	if (bytes <= u->staging_bytes)
		return 0;
	unpack_wait(u);
	region_free(&u->staging);
	u->staging_bytes = 0;
	ret = region_alloc_in(&u->staging, &where, HOST_SLOTS * bytes, e);
	if (!ret)
		u->staging_bytes = bytes;
	return ret;
}

/* A batch of its own: its place in the staging is free when the fourth before it is done. */
static int copy_through_host(
	struct unpack *u, const struct net_fragments *f, const char *to, struct err *e)
{
	size_t bytes = 0;
	char *staging;
	int ret;

	if (u->queued - u->finished >= HOST_SLOTS)
		return 0;
	for (size_t i = 0; i < f->count; i++)
		bytes += f->list[i].bytes;
	ret = need_staging(u, bytes, e);
	if (ret)
		return ret;
	staging = u->staging.data + u->queued % HOST_SLOTS * u->staging_bytes;
	ret = copy_each(u, f, staging, e);
	if (!ret)
		ret = cuda_queue_copy_bytes(u->queue, (uintptr_t)to, (uintptr_t)staging, bytes, e);
	u->open = true;
	return ret ? ret : 1;
}

/* Into the list for the kernel. 0: there is no room, or it belongs to another launch. */
static int add_to_list(struct unpack *u, const struct net_fragments *f, char *to, struct err *e)
{
	int ret;

	if (u->count &&
		(u->pool != f->pool || to < u->to || u->count + f->count > CUDA_QUEUE_FRAGMENTS)) {
		ret = unpack_flush(u, e);
		if (ret || u->count)
			return ret;
	}
	if (!u->count) {
		u->pool = f->pool;
		u->to = to;
	}
	for (size_t i = 0; i < f->count; i++) {
		struct mem_fragment *at = &u->list[u->count++];

		*at = f->list[i];
		at->stream_position += (uint64_t)(to - u->to);
	}
	u->open = true;
	return 1;
}

int unpack_start(struct unpack *u, const struct net_fragments *f, char *to,
	enum weir_p2p_memory memory, uint64_t *batch, struct err *e)
{
	int ret;

	*batch = 0;
	if (u->how == WEIR_P2P_UNPACK_NONE || !f->count)
		return 1;
	if (f->kind == NET_HOST && memory == WEIR_P2P_HOST) {
		copy_here(f, to);
		return 1;
	}
	ret = need_gpu(u, e);
	if (!ret && u->queued - u->finished == MARKS)
		return 0;
	if (ret)
		return ret;
	if (u->how == WEIR_P2P_UNPACK_HOST) {
		ret = copy_through_host(u, f, to, e);
		if (ret <= 0)
			return ret;
		*batch = u->queued + 1;
		ret = unpack_flush(u, e);
		return ret ? ret : 1;
	}
	/* A kernel reaches memory of the GPU only; copies reach all. */
	if (u->how == WEIR_P2P_UNPACK_KERNEL && f->kind == NET_CUDA && memory == WEIR_P2P_CUDA) {
		ret = add_to_list(u, f, to, e);
	} else {
		ret = copy_each(u, f, to, e);
		u->open = true;
		ret = ret ? ret : 1;
	}
	*batch = u->queued + 1;
	return ret;
}

int unpack_flush(struct unpack *u, struct err *e)
{
	struct cuda_region from_cuda, to_cuda;
	struct region from = { .cuda = &from_cuda }, to = { .cuda = &to_cuda };
	int ret = 0;

	if (!u->open || u->queued - u->finished == MARKS)
		return 0;
	if (u->count) {
		from_cuda = (struct cuda_region){ .gpu = u->gpu, .address = (uintptr_t)u->pool };
		to_cuda = (struct cuda_region){ .gpu = u->gpu, .address = (uintptr_t)u->to };
		ret = cuda_queue_gather(u->queue, &from, u->list, u->count, &to, 0, e);
	}
	if (ret == -EAGAIN)
		return 0;
	if (!ret)
		ret = cuda_mark_set(u->mark[u->queued % MARKS], u->queue, e);
	if (ret)
		return ret;
	u->count = 0;
	u->open = false;
	u->queued++;
	return 0;
}

int unpack_done(struct unpack *u, uint64_t batch, struct err *e)
{
	if (u->broken)
		return err_set(e, -u->broken, "the GPU failed to put what came in its place");
	while (u->finished < u->queued) {
		int ret = cuda_mark_done(u->mark[u->finished % MARKS], e);

		if (ret < 0)
			return ret;
		if (!ret)
			break;
		u->finished++;
	}
	return batch <= u->finished;
}

void unpack_wait(struct unpack *u)
{
	if (!u->queue)
		return;
	for (int i = 0; i < 2; i++) {
		int ret = cuda_queue_wait(u->queue, NULL);

		u->finished = u->queued;
		if (!ret && !i) /* there is room for what was still being collected */
			ret = unpack_flush(u, NULL);
		if (ret)
			u->broken = ret;
	}
	u->open = false;
	u->count = 0;
}
