/* SPDX-License-Identifier: BSD-3-Clause */
/* Work for a GPU, done in order, without waiting for it.
 *
 *	struct cuda_queue *q;
 *	struct cuda_mark *done;
 *
 *	ret = cuda_queue_open(&q, gpu, 0, e);
 *	ret = cuda_mark_open(&done, gpu, e);
 *	...
 *	ret = cuda_queue_gather(q, &pool, fragments, count, &target, position, e);
 *	if (!ret)
 *		ret = cuda_mark_set(done, q, e);
 *	...
 *	if (cuda_mark_done(done, e) == 1)
 *		return_the_fragments();
 *
 * A queue is a non-blocking stream of high priority with room for lists of fragments, all made when
 * it is opened: its functions neither allocate nor wait. They copy the list, so the caller may reuse
 * it at once. They return -EAGAIN, with no words, when earlier work of the queue still holds all the
 * room; try again later. Ranges are the caller's promise here: region_gather() and its like check
 * them. A queue and a mark serve one thread at a time; different queues of one GPU run side by side.
 */
#ifndef WEIR_MEM_CUDA_QUEUE_H
#define WEIR_MEM_CUDA_QUEUE_H

#include "mem/cuda.h"

#define CUDA_QUEUE_FRAGMENTS 16384 /* at most in one call: 64 MiB in pages */
#define CUDA_QUEUE_CHECKS    32	   /* checks without their result fetched */

/* blocks limits how much of the GPU one call may take: a block keeps about one multiprocessor busy
 * at 60 GB/s; 0 is no limit. The queue must be closed before its GPU is put. */
int cuda_queue_open(
	struct cuda_queue **opened, struct cuda_gpu *gpu, unsigned blocks, struct err *e);

/* Waits for what was queued. */
void cuda_queue_close(struct cuda_queue *q);

/* Wait for all that was queued. Here shows what a kernel did wrong. */
int cuda_queue_wait(struct cuda_queue *q, struct err *e);

/* Between CUDA and pinned memory in any direction. -EOPNOTSUPP for other memory: such a copy waits. */
int cuda_queue_copy(struct cuda_queue *q, const struct region *to, size_t to_offset,
	const struct region *from, size_t from_offset, size_t bytes, struct err *e);

/* The same between any addresses of this GPU and the host: with host memory that is not pinned, the
 * call takes as long as the copy. */
int cuda_queue_copy_bytes(
	struct cuda_queue *q, cuda_address to, cuda_address from, size_t bytes, struct err *e);

/* As region_fill(), region_gather(). -E2BIG for more than CUDA_QUEUE_FRAGMENTS. */
int cuda_queue_fill(struct cuda_queue *q, const struct region *to, size_t offset, size_t bytes,
	uint64_t position, const struct cuda_pattern *p, struct err *e);
int cuda_queue_gather(struct cuda_queue *q, const struct region *from,
	const struct mem_fragment *list, size_t count, const struct region *to,
	uint64_t to_position, struct err *e);

/* As region_check(), in two steps: c is for cuda_check_result() once the work is done. Every check
 * that was queued must be fetched. */
struct cuda_check {
	struct cuda_queue *queue;
	unsigned slot;
};
int cuda_queue_check(struct cuda_queue *q, const struct region *from,
	const struct mem_fragment *list, size_t count, const struct cuda_pattern *p,
	struct cuda_check *c, struct err *e);

/* -EBADMSG when a byte was wrong. m then has its place and what was found; what was expected is the
 * caller's to look up, by pattern_byte(). */
int cuda_check_result(struct cuda_check *c, struct mem_mismatch *m, struct err *e);

/* A point in a queue that can be asked for. */
struct cuda_mark;
int cuda_mark_open(struct cuda_mark **opened, struct cuda_gpu *gpu, struct err *e);
void cuda_mark_close(struct cuda_mark *m);
int cuda_mark_set(struct cuda_mark *m, struct cuda_queue *q, struct err *e);

/* 1 when all that was queued before the mark is done, 0 when not yet, or why it never will. */
int cuda_mark_done(struct cuda_mark *m, struct err *e);
int cuda_mark_wait(struct cuda_mark *m, struct err *e);

#endif
