// SPDX-License-Identifier: BSD-3-Clause
#include "mem/cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem/ops.h"

#define PIECE 4096 /* as in kernels.cu */

/* All GPUs in use. The lock is held while one is opened: two threads want it once, not twice. */
static struct cuda_gpu *gpus;
static pthread_mutex_t gpus_lock = PTHREAD_MUTEX_INITIALIZER;

int cuda_gpu_enter(const struct cuda_gpu *gpu, struct err *e)
{
	return cuda_ok(
		gpu->cu->context_push(gpu->context), e, "cannot use GPU %s", gpu->device.address);
}

void cuda_gpu_leave(const struct cuda_gpu *gpu)
{
	struct cuda_context *context;

	gpu->cu->context_pop(&context);
}

static int load_module(struct cuda_gpu *gpu, struct err *e)
{
	char log[400] = "";
	int options[] = { CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_BYTES };
	void *values[] = { log, (void *)sizeof(log) };
	int ret = cuda_ok(gpu->cu->module_load(&gpu->module, mem_kernels, 2, options, values), e,
		"cannot load weir's kernels on %s", gpu->device.name);

	log[sizeof(log) - 1] = '\0';
	if (ret && log[0])
		err_hint(e, "the driver's compiler says: %s", log);
	else if (ret)
		err_hint(e, "weir needs a GPU of compute capability 7.5 or later");
	return ret;
}

/* Launch every kernel with nothing to do: a driver that loads lazily does it now. Not in the default
 * stream, which would wait for other work of the process. */
static int warm_up(struct cuda_gpu *gpu, struct err *e)
{
	struct cuda_function *const kernels[] = { gpu->fill, gpu->check, gpu->gather };
	uint64_t zero = 0;
	void *arguments[] = { &zero, &zero, &zero, &zero, &zero, &zero, &zero, &zero };
	const struct cuda *cu = gpu->cu;
	struct cuda_stream *stream;
	int code = 0, ret;

	ret = cuda_ok(cu->stream_create(&stream, CUDA_STREAM_NON_BLOCKING, 0), e,
		"cannot make a CUDA stream");
	if (ret)
		return ret;
	for (int i = 0; !code && i < 3; i++)
		code = cu->launch(kernels[i], 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
	if (!code)
		code = cu->stream_wait(stream);
	cu->stream_destroy(stream);
	return cuda_ok(code, e, "cannot run weir's kernels on %s", gpu->device.name);
}

static int load_kernels(struct cuda_gpu *gpu, struct err *e)
{
	const struct {
		const char *name;
		struct cuda_function **function;
	} kernels[] = {
		{ "weir_fill", &gpu->fill },
		{ "weir_check", &gpu->check },
		{ "weir_gather", &gpu->gather },
	};
	int ret = load_module(gpu, e);

	if (ret)
		return ret;
	for (size_t i = 0; !ret && i < sizeof(kernels) / sizeof(kernels[0]); i++)
		ret = cuda_ok(
			gpu->cu->module_function(kernels[i].function, gpu->module, kernels[i].name),
			e, "cannot find kernel %s", kernels[i].name);
	if (!ret)
		ret = warm_up(gpu, e);
	if (ret)
		gpu->cu->module_unload(gpu->module);
	return ret;
}

static int gpu_open(
	struct cuda_gpu **opened, const struct cuda *cu, const struct cuda_device *d, struct err *e)
{
	struct cuda_gpu *gpu = calloc(1, sizeof(*gpu));
	int ret;

	if (!gpu)
		return err_set(e, ENOMEM, "no memory for a GPU");
	gpu->cu = cu;
	gpu->device = *d;
	ret = cuda_ok(cu->primary_retain(&gpu->context, d->handle), e, "cannot use GPU %s (%s)",
		d->address, d->name);
	if (ret) {
		err_hint(e, "see what holds it: nvidia-smi");
		goto free_gpu;
	}
	ret = cuda_gpu_enter(gpu, e);
	if (ret)
		goto release;
	ret = load_kernels(gpu, e);
	cuda_gpu_leave(gpu);
	if (ret)
		goto release;
	gpu->next = gpus;
	gpus = gpu;
	*opened = gpu;
	return 0;

release:
	cu->primary_release(d->handle);
free_gpu:
	free(gpu);
	return ret;
}

int cuda_gpu_get(struct cuda_gpu **gpu, const char *which, struct err *e)
{
	struct cuda_gpu *found;
	struct cuda_device d;
	const struct cuda *cu;
	int ret;

	*gpu = NULL;
	ret = cuda_open(&cu, e);
	if (!ret)
		ret = cuda_device_find(&d, which, e);
	if (ret)
		return ret;
	pthread_mutex_lock(&gpus_lock);
	found = gpus;
	while (found && found->device.index != d.index)
		found = found->next;
	if (!found)
		ret = gpu_open(&found, cu, &d, e);
	if (!ret && found) {
		found->users++;
		*gpu = found;
	}
	pthread_mutex_unlock(&gpus_lock);
	return ret;
}

static void gpu_close(struct cuda_gpu *gpu)
{
	struct cuda_gpu **link = &gpus;

	while (*link != gpu)
		link = &(*link)->next;
	*link = gpu->next;
	if (!cuda_gpu_enter(gpu, NULL)) {
		gpu->cu->module_unload(gpu->module);
		cuda_gpu_leave(gpu);
	}
	gpu->cu->primary_release(gpu->device.handle);
	free(gpu);
}

void cuda_gpu_put(struct cuda_gpu *gpu)
{
	if (!gpu)
		return;
	pthread_mutex_lock(&gpus_lock);
	if (!--gpu->users)
		gpu_close(gpu);
	pthread_mutex_unlock(&gpus_lock);
}

static bool pattern_same(const struct pattern *a, const struct pattern *b)
{
	return a->kind == b->kind && a->seed == b->seed && a->cycle_bytes == b->cycle_bytes;
}

static int pattern_upload(struct cuda_pattern *c, const void *from, size_t bytes, struct err *e)
{
	const struct cuda *cu = c->gpu->cu;
	struct cuda_stream *stream;
	int ret;

	ret = cuda_ok(cu->mem_alloc(&c->reference, bytes), e,
		"cannot get %zu bytes of GPU memory for a pattern", bytes);
	if (ret)
		return ret;
	ret = cuda_ok(cu->stream_create(&stream, CUDA_STREAM_NON_BLOCKING, 0), e,
		"cannot make a CUDA stream");
	if (ret)
		goto free_reference;
	ret = cuda_ok(cu->copy_async(c->reference, (uintptr_t)from, bytes, stream), e,
		"cannot copy a pattern to the GPU");
	if (!ret)
		ret = cuda_ok(cu->stream_wait(stream), e, "cannot copy a pattern to the GPU");
	cu->stream_destroy(stream);
	if (!ret)
		return 0;
free_reference:
	cu->mem_free(c->reference);
	return ret;
}

int cuda_pattern_load(
	struct cuda_pattern *c, struct cuda_gpu *gpu, const struct pattern *p, struct err *e)
{
	/* A piece that starts at the last byte goes on where the cycle does; a kernel reads whole
	 * words around it. */
	size_t bytes = p->reference_bytes + PIECE + 32;
	void *reference;
	int ret;

	if (c->gpu == gpu && pattern_same(&c->key, p))
		return 0;
	cuda_pattern_free(c);
	reference = malloc(bytes);
	if (!reference)
		return err_set(e, ENOMEM, "no memory for a pattern of %zu bytes", bytes);
	pattern_fill(p, reference, bytes, 0);
	c->gpu = gpu;
	c->key = *p;
	c->key.reference = NULL;
	ret = cuda_gpu_enter(gpu, e);
	if (!ret) {
		ret = pattern_upload(c, reference, bytes, e);
		cuda_gpu_leave(gpu);
	}
	if (ret)
		c->gpu = NULL;
	free(reference);
	return ret;
}

void cuda_pattern_free(struct cuda_pattern *c)
{
	if (c->gpu && !cuda_gpu_enter(c->gpu, NULL)) {
		c->gpu->cu->mem_free(c->reference);
		cuda_gpu_leave(c->gpu);
	}
	memset(c, 0, sizeof(*c));
}

/* Who asks has a context current, as a rule; asking without one needs some context, and that of a GPU that
 * nobody else uses here costs hundreds of MiB: so that comes last. */
int cuda_gpu_of(const void *data, char which[16], struct err *e)
{
	const struct cuda *cu;
	struct cuda_gpu *any;
	int ret, device = 0;

	ret = cuda_open(&cu, e);
	if (ret)
		return ret;
	if (cu->pointer_get(&device, CUDA_POINTER_DEVICE, (uintptr_t)data)) {
		ret = cuda_gpu_get(&any, NULL, e);
		if (ret)
			return ret;
		ret = cuda_gpu_enter(any, e);
		if (!ret) {
			ret = cuda_ok(
				cu->pointer_get(&device, CUDA_POINTER_DEVICE, (uintptr_t)data), e,
				"cannot tell which GPU the memory at %p is in", data);
			cuda_gpu_leave(any);
		}
		cuda_gpu_put(any);
	}
	snprintf(which, 16, "%d", device);
	return ret;
}

#define PAGE_BYTES 4096u /* what a dma-buf must be aligned to */

int cuda_export(const void *data, size_t bytes, int *fd, uint64_t *offset, struct err *e)
{
	cuda_address first = (uintptr_t)data & ~(cuda_address)(PAGE_BYTES - 1);
	struct cuda_gpu *gpu;
	char which[16];
	int ret;

	*fd = -1;
	*offset = (uintptr_t)data - first;
	bytes = (bytes + *offset + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
	ret = cuda_gpu_of(data, which, e);
	if (!ret)
		ret = cuda_gpu_get(&gpu, which, e);
	if (ret)
		return ret;
	if (!gpu->device.dmabuf) {
		ret = err_set(e, EOPNOTSUPP, "GPU %s cannot export memory as a dma-buf",
			gpu->device.address);
		err_hint(e, "it needs driver 515 or later and NVIDIA's open kernel modules");
	}
	if (!ret)
		ret = cuda_gpu_enter(gpu, e);
	if (!ret) {
		ret = cuda_ok(gpu->cu->range_handle(fd, first, bytes, CUDA_RANGE_DMABUF_FD, 0), e,
			"cannot export %zu MiB of GPU %s as a dma-buf", bytes >> 20,
			gpu->device.address);
		cuda_gpu_leave(gpu);
	}
	cuda_gpu_put(gpu);
	return ret;
}
