/* SPDX-License-Identifier: BSD-3-Clause */
/* A GPU in use: its primary context, weir's kernels, and memory in it or pinned for it.
 *
 *	struct cuda_gpu *gpu;
 *
 *	ret = cuda_gpu_get(&gpu, "0", e);
 *	...
 *	cuda_gpu_put(gpu);
 *
 * Regions of kind MEM_CUDA and MEM_PINNED do this themselves; who works without waiting opens a
 * queue (mem/cuda_queue.h). The primary context is the one that PyTorch and NCCL use: it is retained
 * by the first get and released by the last put of a GPU, and made current only while a function
 * here runs, so the caller's own context stays what it was. Thread-safe unless said.
 */
#ifndef WEIR_MEM_CUDA_H
#define WEIR_MEM_CUDA_H

#include "mem/region.h"
#include "sys/cuda.h"

struct cuda_gpu {
	const struct cuda *cu;
	struct cuda_device device;
	struct cuda_context *context;
	struct cuda_module *module;
	struct cuda_function *fill, *check, *gather;
	struct cuda_gpu *next;
	int users;
};

/* Open a GPU by index or PCI address (the first when NULL or empty): its kernels are loaded and have
 * run once when this returns, so nothing is loaded lazily later. Every get needs a put. -ENODEV
 * without a driver or such a GPU. */
int cuda_gpu_get(struct cuda_gpu **gpu, const char *which, struct err *e);
void cuda_gpu_put(struct cuda_gpu *gpu);

/* Which GPU has this memory, as cuda_gpu_get() takes it: memory of a GPU or pinned for one. -ENODEV without a
 * driver, another error for memory that CUDA knows nothing of. */
int cuda_gpu_of(const void *data, char which[16], struct err *e);

/* Memory of a GPU as a dma-buf: the whole pages that it is in. *offset: of its first byte there. The caller closes the
 * descriptor. -EOPNOTSUPP where the GPU cannot; another error where those pages are not all of one allocation. */
int cuda_export(const void *data, size_t bytes, int *fd, uint64_t *offset, struct err *e);

/* Make the GPU's context current for this thread, and what was before current again. */
int cuda_gpu_enter(const struct cuda_gpu *gpu, struct err *e);
void cuda_gpu_leave(const struct cuda_gpu *gpu);

/* The kernels, as PTX: kernels.cu says how it is made. */
extern const char mem_kernels[];

/* A pattern's reference in the memory of a GPU. Not thread-safe. */
struct cuda_pattern {
	struct cuda_gpu *gpu; /* NULL: empty */
	struct pattern key;   /* its pointer is not used */
	cuda_address reference;
};

/* Upload a pattern, unless this is it already. The GPU must outlive it; free what was loaded. */
int cuda_pattern_load(
	struct cuda_pattern *c, struct cuda_gpu *gpu, const struct pattern *p, struct err *e);
void cuda_pattern_free(struct cuda_pattern *c);

struct cuda_queue;

struct cuda_region {
	struct cuda_gpu *gpu;
	cuda_address address; /* as kernels see it; page-aligned in the GPU's memory */
	/* The rest is how it is freed, and what region_fill() and its like keep between calls. */
	cuda_address base;
	cuda_allocation allocation; /* 0 unless by cuMemCreate */
	struct cuda_queue *queue;
	struct cuda_pattern pattern;
};

/* Make memory that the host has already (host or udmabuf) pinned for this GPU and its kin: copies
 * run at full speed and without the CPU, kernels can reach it. Undone by region_free(). -EEXIST when
 * it is pinned or CUDA's own already. */
int region_pin(struct region *r, const char *gpu, struct err *e);

#endif
