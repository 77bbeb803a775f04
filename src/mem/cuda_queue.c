// SPDX-License-Identifier: BSD-3-Clause
#include "mem/cuda_queue.h"

#include <stdlib.h>
#include <string.h>

#define PIECE	      4096 /* as in kernels.cu */
#define BLOCK_THREADS 256
#define BLOCK_WARPS   (BLOCK_THREADS / 32)
/* A list that is longer is copied to the GPU first: a kernel reads it faster there. */
#define SHORT_LIST 1024
#define ALL_RIGHT  UINT64_MAX

_Static_assert(sizeof(struct mem_fragment) == 24 && offsetof(struct mem_fragment, bytes) == 8 &&
		       offsetof(struct mem_fragment, stream_position) == 16,
	"kernels.cu reads this layout");

/* Lists are written to one half of the room while kernels read the other. */
struct half {
	struct cuda_event *read; /* passed by the last kernel that reads it */
	bool busy;		 /* read was set */
};

struct cuda_queue {
	struct cuda_gpu *gpu;
	struct cuda_stream *stream;
	unsigned blocks;

	struct mem_fragment *lists; /* pinned: two halves of CUDA_QUEUE_FRAGMENTS */
	cuda_address lists_mapped;  /* the same, as the GPU sees it */
	cuda_address lists_copy;    /* as much in the GPU's memory */
	struct half halves[2];
	unsigned half;
	size_t used; /* of that half */

	uint64_t *results;	      /* pinned, one per check */
	cuda_address results_address; /* in the GPU's memory, all ones unless in use */
	bool fetched[CUDA_QUEUE_CHECKS];
	unsigned next_check;
};

struct cuda_mark {
	struct cuda_gpu *gpu;
	struct cuda_event *event;
};

#define LISTS_BYTES   ((size_t)2 * CUDA_QUEUE_FRAGMENTS * sizeof(struct mem_fragment))
#define RESULTS_BYTES (CUDA_QUEUE_CHECKS * sizeof(uint64_t))

static int queue_alloc(struct cuda_queue *q, struct err *e)
{
	const struct cuda *cu = q->gpu->cu;
	int least = 0, greatest = 0, ret;

	/* Small kernels of ours must not wait behind long ones of others. */
	ret = cuda_ok(cu->priority_range(&least, &greatest), e, "cannot read CUDA's priorities");
	if (!ret)
		ret = cuda_ok(cu->stream_create(&q->stream, CUDA_STREAM_NON_BLOCKING, greatest), e,
			"cannot make a CUDA stream");
	for (int i = 0; !ret && i < 2; i++)
		ret = cuda_ok(cu->event_create(&q->halves[i].read, CUDA_EVENT_DISABLE_TIMING), e,
			"cannot make a CUDA event");
	if (!ret)
		ret = cuda_ok(cu->mem_host_alloc((void **)&q->lists, LISTS_BYTES, CUDA_HOST_MAPPED),
			e, "cannot get %zu bytes of pinned memory", LISTS_BYTES);
	if (!ret)
		ret = cuda_ok(cu->mem_host_address(&q->lists_mapped, q->lists, 0), e,
			"cannot map pinned memory for the GPU");
	if (!ret)
		ret = cuda_ok(cu->mem_alloc(&q->lists_copy, LISTS_BYTES), e,
			"cannot get %zu bytes of GPU memory", LISTS_BYTES);
	if (!ret)
		ret = cuda_ok(cu->mem_host_alloc((void **)&q->results, RESULTS_BYTES, 0), e,
			"cannot get %zu bytes of pinned memory", RESULTS_BYTES);
	if (!ret)
		ret = cuda_ok(cu->mem_alloc(&q->results_address, RESULTS_BYTES), e,
			"cannot get %zu bytes of GPU memory", RESULTS_BYTES);
	if (!ret)
		ret = cuda_ok(cu->set_async(q->results_address, 0xff, RESULTS_BYTES, q->stream), e,
			"cannot write to GPU memory");
	if (!ret)
		ret = cuda_ok(cu->stream_wait(q->stream), e, "cannot write to GPU memory");
	return ret;
}

/* Also of a queue that is not complete. */
static void queue_free(struct cuda_queue *q)
{
	const struct cuda *cu = q->gpu->cu;

	if (q->stream) {
		cu->stream_wait(q->stream);
		cu->stream_destroy(q->stream);
	}
	for (int i = 0; i < 2; i++)
		if (q->halves[i].read)
			cu->event_destroy(q->halves[i].read);
	if (q->lists)
		cu->mem_host_free(q->lists);
	if (q->lists_copy)
		cu->mem_free(q->lists_copy);
	if (q->results)
		cu->mem_host_free(q->results);
	if (q->results_address)
		cu->mem_free(q->results_address);
}

int cuda_queue_open(
	struct cuda_queue **opened, struct cuda_gpu *gpu, unsigned blocks, struct err *e)
{
	struct cuda_queue *q = calloc(1, sizeof(*q));
	int ret;

	*opened = NULL;
	if (!q)
		return err_set(e, ENOMEM, "no memory for a GPU's queue");
	q->gpu = gpu;
	q->blocks = blocks ? blocks : INT32_MAX;
	memset(q->fetched, true, sizeof(q->fetched));
	ret = cuda_gpu_enter(gpu, e);
	if (ret)
		goto free_queue;
	ret = queue_alloc(q, e);
	if (ret)
		queue_free(q);
	cuda_gpu_leave(gpu);
	if (ret)
		goto free_queue;
	*opened = q;
	return 0;

free_queue:
	free(q);
	return ret;
}

void cuda_queue_close(struct cuda_queue *q)
{
	if (!q)
		return;
	if (!cuda_gpu_enter(q->gpu, NULL)) {
		queue_free(q);
		cuda_gpu_leave(q->gpu);
	}
	free(q);
}

int cuda_queue_wait(struct cuda_queue *q, struct err *e)
{
	int ret = cuda_gpu_enter(q->gpu, e);

	if (ret)
		return ret;
	ret = cuda_ok(q->gpu->cu->stream_wait(q->stream), e, "work of the GPU failed");
	cuda_gpu_leave(q->gpu);
	return ret;
}

static int reachable(const struct cuda_queue *q, const struct region *r, size_t offset,
	cuda_address *address, struct err *e)
{
	*address = 0;
	/* Pinned memory is portable: any GPU reaches it. */
	if (r->cuda && (r->data || r->cuda->gpu == q->gpu)) {
		*address = r->cuda->address + offset;
		return 0;
	}
	if (r->cuda)
		return err_set(e, EOPNOTSUPP, "the memory is in GPU %s, the work is for GPU %s",
			r->cuda->gpu->device.address, q->gpu->device.address);
	err_set(e, EOPNOTSUPP, "the GPU cannot reach %s memory that is not pinned",
		region_kind_name(r));
	return err_hint(e, "allocate it as MEM_PINNED, or call region_pin() first");
}

int cuda_queue_copy_bytes(
	struct cuda_queue *q, cuda_address to, cuda_address from, size_t bytes, struct err *e)
{
	int ret = cuda_gpu_enter(q->gpu, e);

	if (ret)
		return ret;
	ret = cuda_ok(q->gpu->cu->copy_async(to, from, bytes, q->stream), e,
		"cannot copy %zu bytes from or to GPU %s", bytes, q->gpu->device.address);
	cuda_gpu_leave(q->gpu);
	return ret;
}

int cuda_queue_copy(struct cuda_queue *q, const struct region *to, size_t to_offset,
	const struct region *from, size_t from_offset, size_t bytes, struct err *e)
{
	cuda_address target, source;
	int ret = reachable(q, to, to_offset, &target, e);

	if (!ret)
		ret = reachable(q, from, from_offset, &source, e);
	return ret ? ret : cuda_queue_copy_bytes(q, target, source, bytes, e);
}

static unsigned block_count(const struct cuda_queue *q, uint64_t warps)
{
	uint64_t blocks = (warps + BLOCK_WARPS - 1) / BLOCK_WARPS;

	return blocks < q->blocks ? (unsigned)blocks : q->blocks;
}

static int launch(struct cuda_queue *q, struct cuda_function *kernel, uint64_t warps,
	void **arguments, struct err *e)
{
	return cuda_ok(q->gpu->cu->launch(kernel, block_count(q, warps), 1, 1, BLOCK_THREADS, 1, 1,
			       0, q->stream, arguments, NULL),
		e, "cannot start work on GPU %s", q->gpu->device.address);
}

int cuda_queue_fill(struct cuda_queue *q, const struct region *to, size_t offset, size_t bytes,
	uint64_t position, const struct cuda_pattern *p, struct err *e)
{
	uint64_t length = bytes, start = position % p->key.reference_bytes;
	uint64_t cycle = p->key.reference_bytes;
	cuda_address target, reference = p->reference;
	void *arguments[] = { &target, &length, &start, &reference, &cycle };
	int ret = reachable(q, to, offset, &target, e);

	if (!ret && bytes)
		ret = cuda_gpu_enter(q->gpu, e);
	if (ret || !bytes)
		return ret;
	ret = launch(q, q->gpu->fill, (bytes + PIECE - 1) / PIECE, arguments, e);
	cuda_gpu_leave(q->gpu);
	return ret;
}

/* How a list is dealt to warps: every fragment in `split` pieces, the last of them maybe empty. */
struct plan {
	cuda_address list;
	uint32_t pieces, split, piece_bytes;
};

static void plan_pieces(struct plan *plan, const struct mem_fragment *list, size_t count)
{
	uint64_t longest = 1, total = 0, enough;

	for (size_t i = 0; i < count; i++) {
		total += list[i].bytes;
		if (list[i].bytes > longest)
			longest = list[i].bytes;
	}
	/* One long fragment among many short ones must not make mostly empty pieces. */
	enough = 4 * (count + total / PIECE);
	plan->piece_bytes = PIECE;
	for (;;) {
		uint64_t split = (longest + plan->piece_bytes - 1) / plan->piece_bytes;

		plan->split = (uint32_t)split;
		plan->pieces = (uint32_t)(count * split);
		if (count * split <= enough && count * split <= INT32_MAX)
			return;
		plan->piece_bytes *= 2;
	}
}

static int half_ready(struct cuda_queue *q, struct half *h, struct err *e)
{
	int code = h->busy ? q->gpu->cu->event_query(h->read) : 0;

	if (code == CUDA_NOT_READY)
		return -EAGAIN;
	if (!code)
		h->busy = false;
	return cuda_ok(code, e, "work of the GPU failed");
}

static int take_room(struct cuda_queue *q, size_t count, size_t *at, struct err *e)
{
	struct half *now = &q->halves[q->half], *other = &q->halves[!q->half];
	int ret;

	if (q->used + count > CUDA_QUEUE_FRAGMENTS) {
		ret = half_ready(q, other, e);
		if (!ret)
			ret = cuda_ok(q->gpu->cu->event_record(now->read, q->stream), e,
				"cannot mark the GPU's work");
		if (ret)
			return ret;
		now->busy = true;
		q->half = !q->half;
		q->used = 0;
	}
	*at = q->half * (size_t)CUDA_QUEUE_FRAGMENTS + q->used;
	q->used += count;
	return 0;
}

static int plan_list(struct cuda_queue *q, struct plan *plan, const struct mem_fragment *list,
	size_t count, struct err *e)
{
	size_t at, bytes = count * sizeof(*list), offset;
	int ret;

	if (count > CUDA_QUEUE_FRAGMENTS)
		return err_set(e, E2BIG, "%zu fragments at once are more than %d", count,
			CUDA_QUEUE_FRAGMENTS);
	ret = take_room(q, count, &at, e);
	if (ret)
		return ret;
	memcpy(q->lists + at, list, bytes);
	plan_pieces(plan, list, count);
	offset = at * sizeof(*list);
	plan->list = q->lists_mapped + offset;
	if (count <= SHORT_LIST)
		return 0;
	plan->list = q->lists_copy + offset;
	return cuda_ok(
		q->gpu->cu->copy_async(plan->list, (uintptr_t)(q->lists + at), bytes, q->stream), e,
		"cannot copy a list to the GPU");
}

int cuda_queue_gather(struct cuda_queue *q, const struct region *from,
	const struct mem_fragment *list, size_t count, const struct region *to,
	uint64_t to_position, struct err *e)
{
	cuda_address source, target;
	struct plan plan = { 0 };
	void *arguments[] = { &plan.list, &plan.pieces, &plan.split, &plan.piece_bytes, &source,
		&target, &to_position };
	int ret = reachable(q, from, 0, &source, e);

	if (!ret)
		ret = reachable(q, to, 0, &target, e);
	if (!ret && count)
		ret = cuda_gpu_enter(q->gpu, e);
	if (ret || !count)
		return ret;
	ret = plan_list(q, &plan, list, count, e);
	if (!ret)
		ret = launch(q, q->gpu->gather, plan.pieces, arguments, e);
	cuda_gpu_leave(q->gpu);
	return ret;
}

static int check_start(struct cuda_queue *q, struct plan *plan, cuda_address source,
	const struct cuda_pattern *p, unsigned slot, struct err *e)
{
	cuda_address reference = p->reference, first = q->results_address + slot * sizeof(uint64_t);
	uint64_t cycle = p->key.reference_bytes;
	void *arguments[] = { &plan->list, &plan->pieces, &plan->split, &plan->piece_bytes, &source,
		&reference, &cycle, &first };
	int ret = launch(q, q->gpu->check, plan->pieces, arguments, e);

	if (ret)
		return ret;
	return cuda_ok(q->gpu->cu->copy_async(
			       (uintptr_t)&q->results[slot], first, sizeof(uint64_t), q->stream),
		e, "cannot fetch the result of a check");
}

int cuda_queue_check(struct cuda_queue *q, const struct region *from,
	const struct mem_fragment *list, size_t count, const struct cuda_pattern *p,
	struct cuda_check *c, struct err *e)
{
	unsigned slot = q->next_check % CUDA_QUEUE_CHECKS;
	cuda_address source;
	struct plan plan = { 0 };
	int ret = reachable(q, from, 0, &source, e);

	if (ret)
		return ret;
	if (!q->fetched[slot])
		return -EAGAIN;
	*c = (struct cuda_check){ q, slot };
	q->results[slot] = ALL_RIGHT;
	if (count) {
		ret = cuda_gpu_enter(q->gpu, e);
		if (ret)
			return ret;
		ret = plan_list(q, &plan, list, count, e);
		if (!ret)
			ret = check_start(q, &plan, source, p, slot, e);
		cuda_gpu_leave(q->gpu);
	}
	if (ret)
		return ret;
	q->fetched[slot] = false;
	q->next_check++;
	return 0;
}

int cuda_check_result(struct cuda_check *c, struct mem_mismatch *m, struct err *e)
{
	struct cuda_queue *q = c->queue;
	uint64_t first = *(volatile uint64_t *)&q->results[c->slot];
	int ret;

	q->fetched[c->slot] = true;
	if (first == ALL_RIGHT)
		return 0;
	*m = (struct mem_mismatch){
		.fragment = first >> 40,
		.byte = (uint32_t)(first >> 8),
		.found = (unsigned char)first,
	};
	ret = cuda_gpu_enter(q->gpu, e);
	if (ret)
		return ret;
	ret = cuda_ok(q->gpu->cu->set_async(q->results_address + c->slot * sizeof(uint64_t), 0xff,
			      sizeof(uint64_t), q->stream),
		e, "cannot write to GPU memory");
	cuda_gpu_leave(q->gpu);
	return ret ? ret : -EBADMSG;
}

int cuda_mark_open(struct cuda_mark **opened, struct cuda_gpu *gpu, struct err *e)
{
	struct cuda_mark *m = calloc(1, sizeof(*m));
	int ret;

	*opened = NULL;
	if (!m)
		return err_set(e, ENOMEM, "no memory for a mark");
	m->gpu = gpu;
	ret = cuda_gpu_enter(gpu, e);
	if (!ret) {
		ret = cuda_ok(gpu->cu->event_create(&m->event, CUDA_EVENT_DISABLE_TIMING), e,
			"cannot make a CUDA event");
		cuda_gpu_leave(gpu);
	}
	if (ret)
		free(m);
	else
		*opened = m;
	return ret;
}

void cuda_mark_close(struct cuda_mark *m)
{
	if (!m)
		return;
	if (!cuda_gpu_enter(m->gpu, NULL)) {
		m->gpu->cu->event_destroy(m->event);
		cuda_gpu_leave(m->gpu);
	}
	free(m);
}

int cuda_mark_set(struct cuda_mark *m, struct cuda_queue *q, struct err *e)
{
	int ret = cuda_gpu_enter(m->gpu, e);

	if (ret)
		return ret;
	ret = cuda_ok(
		m->gpu->cu->event_record(m->event, q->stream), e, "cannot mark the GPU's work");
	cuda_gpu_leave(m->gpu);
	return ret;
}

/* Events know their context: none need be current to ask for them. */
int cuda_mark_done(struct cuda_mark *m, struct err *e)
{
	int code = m->gpu->cu->event_query(m->event);

	if (code == CUDA_NOT_READY)
		return 0;
	return code ? cuda_ok(code, e, "work of the GPU failed") : 1;
}

int cuda_mark_wait(struct cuda_mark *m, struct err *e)
{
	return cuda_ok(m->gpu->cu->event_wait(m->event), e, "work of the GPU failed");
}
