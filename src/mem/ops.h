/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside mem/ only: the tables of the kinds, and what they share. */
#ifndef WEIR_MEM_OPS_H
#define WEIR_MEM_OPS_H

#include "mem/region.h"

extern const struct mem_ops mem_host_ops, mem_udmabuf_ops, mem_cuda_ops, mem_pinned_ops;

/* For all kinds whose data the host can reach. */
int mem_host_read(struct region *r, size_t offset, void *to, size_t bytes, struct err *e);
int mem_host_write(struct region *r, size_t offset, const void *from, size_t bytes, struct err *e);
int mem_host_fill(struct region *r, const struct pattern *p, size_t offset, size_t bytes,
	uint64_t position, struct err *e);
int mem_host_check(struct region *r, const struct pattern *p, const struct mem_fragment *list,
	size_t count, struct mem_mismatch *m, struct err *e);
int mem_host_gather(struct region *r, const struct mem_fragment *list, size_t count,
	struct region *to, uint64_t to_position, struct err *e);

/* Undo region_pin(): before the memory itself is freed. */
void mem_cuda_unpin(struct region *r);

/* bytes in whole units of a power of two; 0 when there is no such number. */
static inline size_t mem_round_up(size_t bytes, size_t unit)
{
	return bytes > SIZE_MAX - unit ? 0 : (bytes + unit - 1) & ~(unit - 1);
}

#endif
