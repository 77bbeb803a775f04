/* SPDX-License-Identifier: BSD-3-Clause */
/* A region of memory that the network sends from or receives into: in the host, in the host and
 * known to a NIC as a dma-buf (udmabuf), or in a GPU.
 *
 *	struct region r;
 *	struct mem_where where = { .kind = MEM_CUDA, .gpu = "0000:06:00.0" };
 *
 *	ret = region_alloc_in(&r, &where, 64 << 20, e);
 *	ret = region_fill(&r, &pattern, 0, r.bytes, 0, e);
 *	ret = region_dmabuf(&r, &fd, e);
 *	...
 *	ret = region_check(&r, &pattern, fragments, count, &mismatch, e);
 *	region_free(&r);
 *
 * All kinds do the same things; where the memory is decides who does them. The functions below
 * return when the work is done (mem/cuda_queue.h has those that do not wait). Offsets and lengths are
 * checked: a range beyond the region is -EFAULT, with words. A region serves one thread at a time.
 */
#ifndef WEIR_MEM_REGION_H
#define WEIR_MEM_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "mem/pattern.h"

enum mem_kind {
	MEM_HOST,    /* anonymous memory of this process */
	MEM_UDMABUF, /* a sealed memfd, mapped here and exported as a dma-buf */
	MEM_CUDA,    /* in a GPU: data is NULL */
	MEM_PINNED,  /* host memory that GPUs copy from and to at full speed */
};

struct mem_where {
	enum mem_kind kind;
	const char *gpu; /* CUDA, pinned: index or PCI address; NULL or "" the first */
	bool huge_pages; /* udmabuf: on 2 MiB pages, or fail */
	bool vmm;	 /* CUDA: by cuMemCreate, exportable, instead of cuMemAlloc */
};

struct cuda_region;

struct region {
	char *data;		   /* page-aligned; NULL where the host cannot reach it */
	size_t bytes;		   /* whole pages: at least what was asked for */
	const struct mem_ops *ops; /* NULL: nothing is allocated */
	int memfd, dmabuf;	   /* -1: none. Both belong to the region */
	struct cuda_region *cuda;  /* CUDA and pinned memory */
};

/* A piece of a stream, where it lies and where it belongs. The GPU reads this very layout. */
struct mem_fragment {
	uint64_t region_offset;
	uint32_t bytes;
	uint64_t stream_position;
};

struct mem_mismatch {
	size_t fragment; /* index in the list */
	uint32_t byte;	 /* in the fragment */
	unsigned char expected, found;
};

/* What a kind of memory can do; the functions below check and then call these. */
struct mem_ops {
	const char *name; /* "host" */
	int (*alloc)(struct region *r, const struct mem_where *where, size_t bytes, struct err *e);
	void (*free)(struct region *r);
	int (*dmabuf)(struct region *r, struct err *e); /* sets r->dmabuf; may be NULL */
	int (*read)(struct region *r, size_t offset, void *to, size_t bytes, struct err *e);
	int (*write)(
		struct region *r, size_t offset, const void *from, size_t bytes, struct err *e);
	int (*fill)(struct region *r, const struct pattern *p, size_t offset, size_t bytes,
		uint64_t position, struct err *e);
	/* -EBADMSG with *m for a wrong byte; the words are the caller's */
	int (*check)(struct region *r, const struct pattern *p, const struct mem_fragment *list,
		size_t count, struct mem_mismatch *m, struct err *e);
	int (*gather)(struct region *r, const struct mem_fragment *list, size_t count,
		struct region *to, uint64_t to_position, struct err *e);
};

/* Anonymous host memory, faulted in, on huge pages where the system gives them for the asking. */
int region_alloc(struct region *r, size_t bytes, struct err *e);

/* Memory of any kind; what it holds is not defined. CUDA memory and huge pages come in 2 MiB. After
 * a failure there is nothing to free, and freeing is harmless. */
int region_alloc_in(struct region *r, const struct mem_where *where, size_t bytes, struct err *e);
void region_free(struct region *r);

const char *region_kind_name(const struct region *r); /* "cuda" */

/* Fill with bytes that do not compress: memory that the host can reach only. */
void region_fill_random(struct region *r);

/* The region as a dma-buf, made on the first call. The descriptor is the region's: it is closed by
 * region_free(), and who needs it longer duplicates it. -EOPNOTSUPP for host memory. */
int region_dmabuf(struct region *r, int *fd, struct err *e);

/* Copy to and from any host memory. */
int region_read(struct region *r, size_t offset, void *to, size_t bytes, struct err *e);
int region_write(struct region *r, size_t offset, const void *from, size_t bytes, struct err *e);

/* Make [offset, offset + bytes) the bytes of the stream from position on. */
int region_fill(struct region *r, const struct pattern *p, size_t offset, size_t bytes,
	uint64_t position, struct err *e);

/* Compare every fragment with what belongs at its place in the stream. -EBADMSG when a byte is wrong:
 * m, unless NULL, and the words name the first, in the order of the list. */
int region_check(struct region *r, const struct pattern *p, const struct mem_fragment *list,
	size_t count, struct mem_mismatch *m, struct err *e);

/* Copy every fragment to its place in `to`, which holds the stream from to_position on. Fragments
 * must not overlap there. CUDA memory gathers into memory of the same GPU or into pinned memory,
 * host memory into what the host can reach; anything else is -EOPNOTSUPP. */
int region_gather(struct region *r, const struct mem_fragment *list, size_t count,
	struct region *to, uint64_t to_position, struct err *e);

#endif
