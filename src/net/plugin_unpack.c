// SPDX-License-Identifier: BSD-3-Clause
#include "net/plugin_unpack.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mem/cuda.h"

struct plugin_unpack {
	const struct plugin_unpack_meta *meta;
	const char *pool;
	enum net_memory_kind kind;
	struct mem_fragment list[PLUGIN_UNPACK_FRAGMENTS];
};

/* Some bytes from a GPU, waited for. */
static int fetch(const char *which, void *to, const void *from, size_t bytes, struct err *e)
{
	struct cuda_stream *stream;
	struct cuda_gpu *gpu;
	int ret;

	ret = cuda_gpu_get(&gpu, which, e);
	if (ret)
		return ret;
	ret = cuda_gpu_enter(gpu, e);
	if (ret)
		goto put;
	ret = cuda_ok(gpu->cu->stream_create(&stream, CUDA_STREAM_NON_BLOCKING, 0), e,
		"cannot make a stream");
	if (ret)
		goto leave;
	ret = cuda_ok(gpu->cu->copy_async((uintptr_t)to, (uintptr_t)from, bytes, stream), e,
		"cannot read the plugin's device handle");
	if (!ret)
		ret = cuda_ok(
			gpu->cu->stream_wait(stream), e, "cannot read the plugin's device handle");
	gpu->cu->stream_destroy(stream);
leave:
	cuda_gpu_leave(gpu);
put:
	cuda_gpu_put(gpu);
	return ret;
}

int plugin_unpack_open(
	struct plugin_unpack **opened, const struct plugin_device_handle *handle, struct err *e)
{
	struct plugin_unpack_handle h;
	struct plugin_unpack *u;
	char which[16];
	int ret = 0;

	*opened = NULL;
	if (!handle->handle)
		return err_set(e, EPROTO, "the plugin says that it unpacks, and not from where");
	u = calloc(1, sizeof(*u));
	if (!u)
		return err_set(e, ENOMEM, "no memory for lists of fragments");
	u->kind = cuda_gpu_of(handle->handle, which, NULL) ? NET_HOST : NET_CUDA;
	if (u->kind == NET_CUDA)
		ret = fetch(which, &h, handle->handle, sizeof(h), e);
	else
		memcpy(&h, handle->handle, sizeof(h));
	if (!ret && (!h.meta || !h.pool))
		ret = err_set(e, EPROTO, "the plugin says that it unpacks, and not from where");
	if (ret) {
		free(u);
		return ret;
	}
	u->meta = h.meta;
	u->pool = h.pool;
	*opened = u;
	return 0;
}

void plugin_unpack_close(struct plugin_unpack *u)
{
	free(u);
}

/* Neighbours here and there are one. */
static bool joins(const struct mem_fragment *last, const struct plugin_unpack_fragment *next)
{
	return last->region_offset + last->bytes == next->from &&
	       last->stream_position + last->bytes == next->to;
}

int plugin_unpack_list(struct plugin_unpack *u, unsigned int number, size_t bytes,
	struct net_fragments *f, struct err *e)
{
	unsigned int slot = number % PLUGIN_UNPACK_SLOTS;
	uint64_t given = u->meta->count[slot];
	const struct plugin_unpack_fragment *from = u->meta->fragment[slot];
	uint64_t sum = 0;
	size_t count = 0;

	*f = (struct net_fragments){ .kind = u->kind, .pool = u->pool, .list = u->list };
	if (given > PLUGIN_UNPACK_FRAGMENTS)
		return err_set(e, EPROTO,
			"the plugin says that a message has %" PRIu64 " fragments", given);
	for (uint64_t i = 0; i < given; i++) {
		if (from[i].to > bytes || from[i].bytes > bytes - from[i].to)
			return err_set(e, EPROTO,
				"a fragment of %u bytes at %" PRIu64
				" is not within the message of %zu",
				from[i].bytes, from[i].to, bytes);
		sum += from[i].bytes;
		if (count && joins(&u->list[count - 1], &from[i]))
			u->list[count - 1].bytes += from[i].bytes;
		else if (from[i].bytes)
			u->list[count++] =
				(struct mem_fragment){ from[i].from, from[i].bytes, from[i].to };
	}
	/* A message to host memory is where it belongs. */
	if (given && sum != bytes)
		return err_set(e, EPROTO, "the fragments of a message of %zu bytes have %" PRIu64,
			bytes, sum);
	f->count = count;
	return 0;
}
