// SPDX-License-Identifier: BSD-3-Clause
#include "net/stage.h"

#include <string.h>

static int stage_fetch_ahead(struct stage *s, struct err *e);

int stage_open(struct stage *s, struct region *gpu_memory, struct cuda_queue *queue,
	struct cuda_pattern *pattern, size_t slot_bytes, uint64_t ring_bytes, struct err *e)
{
	struct mem_where where = { .kind = MEM_PINNED,
		.gpu = gpu_memory->cuda->gpu->device.address };
	int ret;

	memset(s, 0, sizeof(*s));
	s->gpu_memory = gpu_memory;
	s->queue = queue;
	s->pattern = pattern;
	s->slot_bytes = slot_bytes;
	s->ring_bytes = ring_bytes;
	ret = region_alloc_in(&s->pinned, &where, STAGE_SLOTS * slot_bytes, e);
	for (int i = 0; !ret && i < STAGE_SLOTS; i++)
		ret = cuda_mark_open(&s->slot[i].mark, gpu_memory->cuda->gpu, e);
	if (!ret && ring_bytes)
		ret = stage_fetch_ahead(s, e);
	return ret;
}

void stage_close(struct stage *s)
{
	struct stage_settled ignored;

	while (!s->ring_bytes && stage_settle(s, &ignored))
		;
	for (int i = 0; i < STAGE_SLOTS; i++) {
		if (s->slot[i].mark && s->slot[i].busy)
			cuda_mark_wait(s->slot[i].mark, NULL);
		if (s->slot[i].mark)
			cuda_mark_close(s->slot[i].mark);
		s->slot[i].mark = NULL;
	}
	region_free(&s->pinned);
}

static char *slot_data(const struct stage *s, unsigned int slot)
{
	return s->pinned.data + slot % STAGE_SLOTS * s->slot_bytes;
}

/* Wait for a slot's copy, and fetch the result of its check. */
static void slot_settle(struct stage_slot *slot, struct stage_settled *settled)
{
	struct mem_mismatch wrong;

	settled->wrong = false;
	if (!slot->busy)
		return;
	cuda_mark_wait(slot->mark, NULL);
	settled->wrong =
		slot->checking && cuda_check_result(&slot->check, &wrong, NULL) == -EBADMSG;
	if (settled->wrong) {
		settled->position = slot->position + wrong.byte;
		settled->owner = slot->owner;
	}
	slot->busy = slot->checking = false;
	slot->bytes = 0;
}

/* The slot that is being filled goes to the GPU, if there is something in it. */
static int stage_submit(struct stage *s, struct err *e)
{
	struct stage_slot *slot = &s->slot[s->head % STAGE_SLOTS];
	struct mem_fragment piece = { slot->offset, (uint32_t)slot->bytes, slot->position };
	int ret;

	if (slot->busy || !slot->bytes)
		return 0;
	ret = cuda_queue_copy(s->queue, s->gpu_memory, slot->offset, &s->pinned,
		s->head % STAGE_SLOTS * s->slot_bytes, slot->bytes, e);
	if (!ret && s->pattern) {
		ret = cuda_queue_check(
			s->queue, s->gpu_memory, &piece, 1, s->pattern, &slot->check, e);
		slot->checking = !ret;
	}
	if (!ret)
		ret = cuda_mark_set(slot->mark, s->queue, e);
	if (ret)
		return ret;
	slot->busy = true;
	s->head++;
	return 0;
}

/* A rest that is not worth a receive of its own. */
static bool is_full(const struct stage *s, const struct stage_slot *slot)
{
	return s->slot_bytes - slot->bytes < s->slot_bytes / 8;
}

char *stage_room(struct stage *s, const void *owner, uint64_t offset, size_t *bytes,
	struct stage_settled *settled)
{
	struct stage_slot *slot = &s->slot[s->head % STAGE_SLOTS];

	settled->wrong = false;
	if (!slot->busy && slot->bytes &&
		(slot->owner != owner || slot->offset + slot->bytes != offset) &&
		stage_submit(s, NULL))
		return NULL;
	slot = &s->slot[s->head % STAGE_SLOTS];
	slot_settle(slot, settled);
	if (*bytes > s->slot_bytes - slot->bytes)
		*bytes = s->slot_bytes - slot->bytes;
	return slot_data(s, s->head) + slot->bytes;
}

int stage_received(struct stage *s, size_t bytes, uint64_t offset, uint64_t position, void *owner,
	struct err *e)
{
	struct stage_slot *slot = &s->slot[s->head % STAGE_SLOTS];

	if (!slot->bytes) {
		slot->offset = offset;
		slot->position = position;
		slot->owner = owner;
	}
	slot->bytes += bytes;
	return is_full(s, slot) ? stage_submit(s, e) : 0;
}

bool stage_settle(struct stage *s, struct stage_settled *settled)
{
	struct stage_slot *slot = &s->slot[s->head % STAGE_SLOTS];

	/* What the GPU did not take nobody has looked at. */
	if (stage_submit(s, NULL)) {
		*settled = (struct stage_settled){ true, slot->position, slot->owner };
		slot->bytes = 0;
		return true;
	}
	for (int i = 0; i < STAGE_SLOTS; i++) {
		if (!s->slot[i].busy)
			continue;
		slot_settle(&s->slot[i], settled);
		return true;
	}
	settled->wrong = false;
	return false;
}

/* Keep every free slot on its way. */
static int stage_fetch_ahead(struct stage *s, struct err *e)
{
	int ret = 0;

	while (!ret && s->head - s->tail < STAGE_SLOTS) {
		struct stage_slot *slot = &s->slot[s->head % STAGE_SLOTS];
		uint64_t offset = s->next_position % s->ring_bytes;

		ret = cuda_queue_copy(s->queue, &s->pinned, s->head % STAGE_SLOTS * s->slot_bytes,
			s->gpu_memory, offset, s->slot_bytes, e);
		if (!ret)
			ret = cuda_mark_set(slot->mark, s->queue, e);
		slot->busy = true;
		slot->bytes = s->slot_bytes;
		slot->done = 0;
		s->next_position += s->slot_bytes;
		s->head++;
	}
	return ret;
}

const char *stage_data(struct stage *s, size_t *bytes, struct err *e)
{
	struct stage_slot *slot = &s->slot[s->tail % STAGE_SLOTS];

	if (slot->busy && cuda_mark_wait(slot->mark, e))
		return NULL;
	slot->busy = false;
	if (*bytes > slot->bytes - slot->done)
		*bytes = slot->bytes - slot->done;
	return slot_data(s, s->tail) + slot->done;
}

int stage_sent(struct stage *s, size_t bytes, struct err *e)
{
	struct stage_slot *slot = &s->slot[s->tail % STAGE_SLOTS];

	slot->done += bytes;
	if (slot->done < slot->bytes)
		return 0;
	s->tail++;
	return stage_fetch_ahead(s, e);
}
