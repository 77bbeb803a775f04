// SPDX-License-Identifier: BSD-3-Clause
/* Regions in GPU memory, and host memory pinned for GPUs. */
#include <stdlib.h>
#include <unistd.h>

#include "mem/cuda_queue.h"
#include "mem/ops.h"

#define BLOCK_BYTES ((size_t)2 << 20) /* what the GPU maps at once */
#define PAGE_BYTES  4096u	      /* what a dma-buf must be aligned to */

static int explain_memory(struct cuda_gpu *gpu, int code, size_t bytes, struct err *e)
{
	size_t free_bytes = 0, all_bytes = 0;
	int ret = cuda_ok(code, e, "cannot get %zu MiB of memory of GPU %s (%s)", bytes >> 20,
		gpu->device.address, gpu->device.name);

	if (code == CUDA_OUT_OF_MEMORY && !gpu->cu->mem_info(&free_bytes, &all_bytes))
		err_hint(e, "%zu of its %zu MiB are free: choose a smaller --mem-size",
			free_bytes >> 20, all_bytes >> 20);
	return ret;
}

static int alloc_plain(struct region *r, struct err *e)
{
	struct cuda_region *c = r->cuda;
	const struct cuda *cu = c->gpu->cu;
	int code = cu->mem_alloc(&c->base, r->bytes);

	/* Blocks of this size have been aligned to it always; no document promises it. */
	if (!code && c->base % PAGE_BYTES) {
		cu->mem_free(c->base);
		code = cu->mem_alloc(&c->base, r->bytes + PAGE_BYTES);
	}
	if (code)
		return explain_memory(c->gpu, code, r->bytes, e);
	c->address = (c->base + PAGE_BYTES - 1) & ~(cuda_address)(PAGE_BYTES - 1);
	return 0;
}

static int map_vmm(struct region *r, const struct cuda_location *location, struct err *e)
{
	const struct cuda_access access = { .location = *location, .flags = 3 };
	struct cuda_region *c = r->cuda;
	const struct cuda *cu = c->gpu->cu;
	int ret;

	ret = cuda_ok(cu->address_reserve(&c->base, r->bytes, BLOCK_BYTES, 0, 0), e,
		"cannot reserve %zu MiB of addresses", r->bytes >> 20);
	if (ret)
		return ret;
	ret = cuda_ok(cu->mem_map(c->base, r->bytes, 0, c->allocation, 0), e,
		"cannot map %zu MiB of GPU memory", r->bytes >> 20);
	if (ret)
		goto free_address;
	ret = cuda_ok(cu->mem_access(c->base, r->bytes, &access, 1), e,
		"cannot make %zu MiB of GPU memory accessible", r->bytes >> 20);
	if (ret)
		goto unmap;
	c->address = c->base;
	return 0;

unmap:
	cu->mem_unmap(c->base, r->bytes);
free_address:
	cu->address_free(c->base, r->bytes);
	return ret;
}

static int alloc_vmm(struct region *r, struct err *e)
{
	struct cuda_region *c = r->cuda;
	const struct cuda *cu = c->gpu->cu;
	const struct cuda_allocation_properties p = {
		.type = 1,
		.handle_types = 1,
		.location = { 1, c->gpu->device.handle },
		.rdma = c->gpu->device.vmm_rdma,
	};
	size_t granularity = 0;
	int code, ret;

	if (!c->gpu->device.vmm) {
		err_set(e, EOPNOTSUPP, "GPU %s cannot map memory by itself (cuMemCreate)",
			c->gpu->device.address);
		return err_hint(e, "use plain CUDA memory (cuMemAlloc)");
	}
	ret = cuda_ok(cu->mem_granularity(&granularity, &p, 0), e,
		"cannot read the size of the GPU's pages");
	if (ret)
		return ret;
	if (granularity > BLOCK_BYTES)
		r->bytes = (r->bytes + granularity - 1) / granularity * granularity;
	code = cu->mem_create(&c->allocation, r->bytes, &p, 0);
	if (code)
		return explain_memory(c->gpu, code, r->bytes, e);
	ret = map_vmm(r, &p.location, e);
	if (ret)
		cu->mem_release(c->allocation);
	return ret;
}

static void free_memory(struct region *r)
{
	struct cuda_region *c = r->cuda;
	const struct cuda *cu = c->gpu->cu;

	if (!c->allocation) {
		cu->mem_free(c->base);
		return;
	}
	cu->mem_unmap(c->base, r->bytes);
	cu->address_free(c->base, r->bytes);
	cu->mem_release(c->allocation);
}

/* Else a copy that CUDA calls synchronous may return before a NIC can see its bytes. VMM memory
 * does not know the attribute on all drivers; copies of ours are waited for in any case. */
static int set_sync(struct region *r, struct err *e)
{
	unsigned on = 1;
	int code = r->cuda->gpu->cu->pointer_set(&on, CUDA_POINTER_SYNC_MEMOPS, r->cuda->address);

	if (r->cuda->allocation)
		return 0;
	return cuda_ok(code, e, "cannot make copies to GPU memory synchronous");
}

/* A cuda_region with its GPU, whose context is current when this returns 0. */
static int attach(struct region *r, const char *which, struct err *e)
{
	struct cuda_gpu *gpu;
	int ret = cuda_gpu_get(&gpu, which, e);

	if (ret)
		return ret;
	r->cuda = calloc(1, sizeof(*r->cuda));
	if (!r->cuda) {
		ret = err_set(e, ENOMEM, "no memory for a region");
		goto put;
	}
	r->cuda->gpu = gpu;
	ret = cuda_gpu_enter(gpu, e);
	if (!ret)
		return 0;
	free(r->cuda);
	r->cuda = NULL;
put:
	cuda_gpu_put(gpu);
	return ret;
}

static void detach(struct region *r)
{
	struct cuda_gpu *gpu = r->cuda->gpu;

	free(r->cuda);
	r->cuda = NULL;
	cuda_gpu_put(gpu);
}

static int region_alloc_cuda(
	struct region *r, const struct mem_where *where, size_t bytes, struct err *e)
{
	int ret = attach(r, where->gpu, e);

	if (ret)
		return ret;
	r->bytes = mem_round_up(bytes, BLOCK_BYTES);
	ret = where->vmm ? alloc_vmm(r, e) : alloc_plain(r, e);
	if (!ret) {
		ret = set_sync(r, e);
		if (ret)
			free_memory(r);
	}
	cuda_gpu_leave(r->cuda->gpu);
	if (ret)
		detach(r);
	return ret;
}

static void region_free_cuda(struct region *r)
{
	struct cuda_region *c = r->cuda;

	cuda_queue_close(c->queue);
	cuda_pattern_free(&c->pattern);
	if (!cuda_gpu_enter(c->gpu, NULL)) {
		free_memory(r);
		cuda_gpu_leave(c->gpu);
	}
	detach(r);
}

static int dmabuf_cuda(struct region *r, struct err *e)
{
	uint64_t offset;

	return cuda_export((void *)(uintptr_t)r->cuda->address, r->bytes, &r->dmabuf, &offset, e);
}

/* The queue of a region is made when it is first needed: one for the network needs none. */
static int need_queue(struct region *r, struct err *e)
{
	struct cuda_region *c = r->cuda;

	return c->queue ? 0 : cuda_queue_open(&c->queue, c->gpu, 0, e);
}

static int need_pattern(struct region *r, const struct pattern *p, struct err *e)
{
	int ret = need_queue(r, e);

	return ret ? ret : cuda_pattern_load(&r->cuda->pattern, r->cuda->gpu, p, e);
}

static int copy_and_wait(
	struct region *r, cuda_address to, cuda_address from, size_t bytes, struct err *e)
{
	int ret = need_queue(r, e);

	if (!ret)
		ret = cuda_queue_copy_bytes(r->cuda->queue, to, from, bytes, e);
	return ret ? ret : cuda_queue_wait(r->cuda->queue, e);
}

static int read_cuda(struct region *r, size_t offset, void *to, size_t bytes, struct err *e)
{
	return copy_and_wait(r, (uintptr_t)to, r->cuda->address + offset, bytes, e);
}

static int write_cuda(
	struct region *r, size_t offset, const void *from, size_t bytes, struct err *e)
{
	return copy_and_wait(r, r->cuda->address + offset, (uintptr_t)from, bytes, e);
}

static int fill_cuda(struct region *r, const struct pattern *p, size_t offset, size_t bytes,
	uint64_t position, struct err *e)
{
	struct cuda_region *c = r->cuda;
	int ret = need_pattern(r, p, e);

	if (!ret)
		ret = cuda_queue_fill(c->queue, r, offset, bytes, position, &c->pattern, e);
	return ret ? ret : cuda_queue_wait(c->queue, e);
}

static size_t at_once(size_t left)
{
	return left < CUDA_QUEUE_FRAGMENTS ? left : CUDA_QUEUE_FRAGMENTS;
}

static int check_cuda(struct region *r, const struct pattern *p, const struct mem_fragment *list,
	size_t count, struct mem_mismatch *m, struct err *e)
{
	struct cuda_queue *q;
	int ret = need_pattern(r, p, e);

	q = r->cuda->queue;
	for (size_t done = 0, n; !ret && done < count; done += n) {
		struct cuda_check c;

		n = at_once(count - done);
		ret = cuda_queue_check(q, r, list + done, n, &r->cuda->pattern, &c, e);
		if (ret)
			return ret;
		ret = cuda_queue_wait(q, e);
		if (!ret)
			ret = cuda_check_result(&c, m, e);
		if (ret != -EBADMSG)
			continue;
		m->fragment += done;
		m->expected = pattern_byte(p, list[m->fragment].stream_position + m->byte);
	}
	return ret;
}

static int gather_cuda(struct region *r, const struct mem_fragment *list, size_t count,
	struct region *to, uint64_t to_position, struct err *e)
{
	int ret = need_queue(r, e);

	for (size_t done = 0, n; !ret && done < count; done += n) {
		n = at_once(count - done);
		ret = cuda_queue_gather(r->cuda->queue, r, list + done, n, to, to_position, e);
		if (!ret)
			ret = cuda_queue_wait(r->cuda->queue, e);
	}
	return ret;
}

const struct mem_ops mem_cuda_ops = {
	.name = "cuda",
	.alloc = region_alloc_cuda,
	.free = region_free_cuda,
	.dmabuf = dmabuf_cuda,
	.read = read_cuda,
	.write = write_cuda,
	.fill = fill_cuda,
	.check = check_cuda,
	.gather = gather_cuda,
};

static int map_pinned(struct region *r, struct err *e)
{
	return cuda_ok(r->cuda->gpu->cu->mem_host_address(&r->cuda->address, r->data, 0), e,
		"cannot map pinned memory for GPU %s", r->cuda->gpu->device.address);
}

static int region_alloc_pinned(
	struct region *r, const struct mem_where *where, size_t bytes, struct err *e)
{
	int ret = attach(r, where->gpu, e);
	const struct cuda *cu;
	void *data = NULL;

	if (ret)
		return ret;
	cu = r->cuda->gpu->cu;
	r->bytes = mem_round_up(bytes, PAGE_BYTES);
	ret = cuda_ok(cu->mem_host_alloc(&data, r->bytes, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED), e,
		"cannot get %zu bytes of pinned memory", r->bytes);
	r->data = data;
	if (!ret) {
		ret = map_pinned(r, e);
		if (ret)
			cu->mem_host_free(data);
	}
	cuda_gpu_leave(r->cuda->gpu);
	if (ret)
		detach(r);
	return ret;
}

static void region_free_pinned(struct region *r)
{
	struct cuda_gpu *gpu = r->cuda->gpu;

	if (!cuda_gpu_enter(gpu, NULL)) {
		gpu->cu->mem_host_free(r->data);
		cuda_gpu_leave(gpu);
	}
	detach(r);
}

const struct mem_ops mem_pinned_ops = {
	.name = "pinned",
	.alloc = region_alloc_pinned,
	.free = region_free_pinned,
	.read = mem_host_read,
	.write = mem_host_write,
	.fill = mem_host_fill,
	.check = mem_host_check,
	.gather = mem_host_gather,
};

int region_pin(struct region *r, const char *gpu, struct err *e)
{
	const struct cuda *cu;
	int ret;

	if (r->cuda)
		return err_set(
			e, EEXIST, "%s memory is known to a GPU already", region_kind_name(r));
	ret = attach(r, gpu, e);
	if (ret)
		return ret;
	cu = r->cuda->gpu->cu;
	ret = cuda_ok(
		cu->mem_host_register(r->data, r->bytes, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED), e,
		"cannot pin %zu bytes of %s memory", r->bytes, region_kind_name(r));
	if (!ret) {
		ret = map_pinned(r, e);
		if (ret)
			cu->mem_host_unregister(r->data);
	}
	cuda_gpu_leave(r->cuda->gpu);
	if (ret)
		detach(r);
	return ret;
}

void mem_cuda_unpin(struct region *r)
{
	struct cuda_gpu *gpu = r->cuda->gpu;

	if (!cuda_gpu_enter(gpu, NULL)) {
		gpu->cu->mem_host_unregister(r->data);
		cuda_gpu_leave(gpu);
	}
	detach(r);
}
