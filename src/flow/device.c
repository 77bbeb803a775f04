// SPDX-License-Identifier: BSD-3-Clause
/* Of a lane: its memory, and the bytes on their way in and out. */
#include "flow/device.h"

#include <stdlib.h>
#include <string.h>

#include "flow/run.h"

const char *const device_path_name[] = { "host", "devmem", "staged" };
const char *const device_memory_name[] = { "host", "udmabuf", "cuda" };

static int device_alloc(struct region *r, const struct flow_options *o, size_t bytes, struct err *e)
{
	struct mem_where where = { .kind = o->memory == MEMORY_CUDA ? MEM_CUDA : MEM_UDMABUF,
		.gpu = o->gpu };

	return region_alloc_in(r, &where, bytes, e);
}

/* Every lane_count-th of the run's queues. */
static void device_queues(struct device *d, const struct lane *l)
{
	const struct cpus *all = &l->run->device.queues;

	cpus_clear(&d->queues);
	for (int i = (int)l->index; i < all->count; i += (int)l->run->lane_count)
		cpus_add(&d->queues, cpus_nth(all, i));
}

/* The payload of device memory needs no room here, so one call may take more of it than --buffer-size, and
 * saves what a call costs. Not so much that the NIC could run out of pages meanwhile. */
static int device_take_more(struct lane *l, struct err *e)
{
	const struct flow_options *o = l->run->options;
	size_t most = DEVMEM_CALL_BYTES;

	if (most > o->mem_size / 4)
		most = o->mem_size / 4;
	if (most <= l->rx_length)
		return 0;
	l->rx_length = most;
	region_free(&l->rx);
	return region_alloc(&l->rx, most, e);
}

static int device_open_rx(struct device *d, struct lane *l, struct err *e)
{
	const struct flow_options *o = l->run->options;
	int ret, fd;

	ret = device_alloc(&d->rx, o, o->mem_size, e);
	if (!ret && l->run->device.rx == DEVICE_DEVMEM)
		ret = device_take_more(l, e);
	if (!ret && o->rx_copy)
		ret = device_alloc(&d->gathered, o, l->rx_length, e);
	if (ret || l->run->device.rx != DEVICE_DEVMEM)
		return ret;
	device_queues(d, l);
	ret = region_dmabuf(&d->rx, &fd, e);
	if (!ret)
		ret = nic_bind_rx(&d->rx_binding, l->run->device.nic, &d->queues, fd, e);
	if (!ret)
		ret = devmem_rx_init(&d->devmem, d->rx_binding.id, e);
	return ret;
}

/* Whether bytes go between sockets and a GPU ahead of those who wait for them. A request is what somebody
 * waits for: its copy is part of its latency. */
static bool is_staged_ahead(const struct run *r)
{
	return r->options->memory == MEMORY_CUDA && r->workload == WORKLOAD_STREAM;
}

/* What one copy to or from a GPU takes: many calls' worth, unless so many flows would take too much pinned memory. */
#define SLOT_BYTES  ((uint64_t)512 << 10)
#define SLOTS_BYTES ((uint64_t)512 << 20) /* of all flows */

static uint64_t device_slot_bytes(const struct run *r)
{
	const struct flow_options *o = r->options;
	uint64_t most = SLOTS_BYTES / STAGE_SLOTS / r->flow_count;

	if (most > SLOT_BYTES)
		most = SLOT_BYTES;
	if (most > o->mem_size / 4)
		most = o->mem_size / 4;
	return most < o->buffer_size ? o->buffer_size : most / o->buffer_size * o->buffer_size;
}

/* What lies in device memory needs no room of ours either: a send may take more than --buffer-size, and saves calls and
 * their completions; as long as the region holds a cycle of the pattern besides. */
static uint64_t device_send_bytes(const struct run *r, uint64_t cycle)
{
	const struct flow_options *o = r->options;
	uint64_t most = o->buffer_size;

	if (is_staged_ahead(r) && r->device.tx == DEVICE_STAGED)
		most = device_slot_bytes(r);
	else if (r->workload == WORKLOAD_STREAM && r->device.tx == DEVICE_DEVMEM)
		most = DEVMEM_SEND_BYTES < o->mem_size / 4 ? DEVMEM_SEND_BYTES : o->mem_size / 4;
	return most < o->buffer_size || cycle + most > o->mem_size ? o->buffer_size : most;
}

static int device_open_tx(struct device *d, struct lane *l, struct err *e)
{
	struct run *r = l->run;
	const struct flow_options *o = r->options;
	uint64_t cycle = r->validates ? o->validate_cycle : o->buffer_size;
	int ret, fd;

	if (o->mem_size < cycle + o->buffer_size) {
		err_set(e, EINVAL,
			"--mem-size %llu does not hold a cycle of %llu bytes and a call of %llu",
			(unsigned long long)o->mem_size, (unsigned long long)cycle,
			(unsigned long long)o->buffer_size);
		return -EINVAL;
	}
	ret = device_alloc(&d->tx, o, o->mem_size, e);
	if (ret)
		return ret;
	d->send_bytes = device_send_bytes(r, cycle);
	d->ring_bytes = (o->mem_size - d->send_bytes) / cycle * cycle;
	ret = region_fill(&d->tx, &r->pattern, 0, o->mem_size, 0, e);
	if (ret || r->device.tx != DEVICE_DEVMEM)
		return ret;
	ret = region_dmabuf(&d->tx, &fd, e);
	if (!ret)
		ret = nic_bind_tx(&d->tx_binding, r->device.nic, fd, e);
	/* Kernels and drivers that receive into device memory but do not send from it. */
	if (ret == -EOPNOTSUPP && o->path == PATH_AUTO) {
		r->device.tx = DEVICE_STAGED;
		snprintf(r->device.tx_reason, sizeof(r->device.tx_reason), "%.250s", e->what);
		err_clear(e);
		ret = 0;
	}
	return ret;
}

/* Between sockets and a GPU: its queue, and pinned memory that what is received goes through. */
static int device_open_stage(struct device *d, struct lane *l, struct err *e)
{
	const struct run *r = l->run;
	int ret;

	if (!is_staged_ahead(r))
		return 0;
	ret = cuda_gpu_get(&d->gpu, r->options->gpu, e);
	if (!ret)
		ret = cuda_queue_open(&d->queue, d->gpu, 0, e);
	if (!ret && r->validates)
		ret = cuda_pattern_load(&d->pattern, d->gpu, &r->pattern, e);
	if (!ret && r->device.rx == DEVICE_STAGED)
		ret = stage_open(&d->stage, &d->rx, d->queue, r->validates ? &d->pattern : NULL,
			device_slot_bytes(r), 0, e);
	return ret;
}

int device_open(struct device *d, struct lane *l, struct err *e)
{
	const struct device_nic *n = &l->run->device;
	int ret = 0;

	if (n->rx != DEVICE_NONE)
		ret = device_open_rx(d, l, e);
	if (!ret && n->tx != DEVICE_NONE)
		ret = device_open_tx(d, l, e);
	if (!ret && (n->rx == DEVICE_STAGED || n->tx == DEVICE_STAGED))
		ret = device_open_stage(d, l, e);
	return ret;
}

void device_close(struct device *d)
{
	stage_close(&d->stage);
	nic_unbind(&d->rx_binding);
	nic_unbind(&d->tx_binding);
	devmem_rx_free(&d->devmem);
	region_free(&d->rx);
	region_free(&d->tx);
	region_free(&d->gathered);
	if (d->queue)
		cuda_queue_close(d->queue);
	cuda_pattern_free(&d->pattern);
	if (d->gpu)
		cuda_gpu_put(d->gpu);
	d->queue = NULL;
	d->gpu = NULL;
}

/* Bytes */

static int use_fragments(struct flow *f)
{
	struct device *d = &f->lane->device;
	const struct devmem_rx *rx = &d->devmem;
	const struct run *r = f->lane->run;
	struct mem_fragment *end = rx->list + rx->count;
	uint64_t position = f->counts.rx_bytes;
	struct mem_mismatch wrong = { 0 };
	int ret = 0;

	if (!r->validates && !r->options->rx_copy)
		return 0;
	for (uint32_t i = 0; i < rx->linear_count; i++)
		flow_check(f, f->lane->rx.data + rx->linear[i].region_offset, rx->linear[i].bytes,
			position + rx->linear[i].stream_position);
	for (struct mem_fragment *next = rx->list; next < end; next++)
		next->stream_position += position;
	if (r->validates)
		ret = region_check(&d->rx, &r->pattern, rx->list, rx->count, &wrong, NULL);
	if (ret == -EBADMSG) {
		flow_note_wrong(f, rx->list[wrong.fragment].stream_position + wrong.byte);
		ret = 0;
	}
	if (!ret && r->options->rx_copy)
		ret = region_gather(
			&d->rx, rx->list, rx->count, &d->gathered, f->counts.rx_bytes, NULL);
	return ret;
}

static void note_settled(const struct stage_settled *settled)
{
	if (settled->wrong)
		flow_note_wrong(settled->owner, settled->position);
}

/* Where in the region what is received through host memory goes: round and round. */
static uint64_t staged_offset(const struct flow *f)
{
	uint64_t room = f->lane->device.rx.bytes - f->lane->run->options->buffer_size;

	return room ? f->counts.rx_bytes % room : 0;
}

char *device_room(struct flow *f, size_t *length)
{
	struct stage *s = &f->lane->device.stage;
	struct stage_settled settled;
	char *room;

	if (!s->pinned.data)
		return f->lane->rx.data;
	room = stage_room(s, f, staged_offset(f), length, &settled);
	note_settled(&settled);
	return room;
}

void device_settle(struct lane *l)
{
	struct stage_settled settled;

	while (l->device.stage.pinned.data && stage_settle(&l->device.stage, &settled))
		note_settled(&settled);
}

/* Into the region; checked there. */
static int use_staged(struct flow *f, size_t n)
{
	struct device *d = &f->lane->device;
	const struct run *r = f->lane->run;
	uint64_t offset = staged_offset(f);
	struct mem_fragment piece = { offset, (uint32_t)n, f->counts.rx_bytes };
	struct mem_mismatch wrong = { 0 };
	int ret;

	if (d->stage.pinned.data)
		return stage_received(&d->stage, n, offset, f->counts.rx_bytes, f, NULL);
	ret = region_write(&d->rx, offset, f->lane->rx.data, n, NULL);
	if (!ret && r->validates)
		ret = region_check(&d->rx, &r->pattern, &piece, 1, &wrong, NULL);
	if (ret != -EBADMSG)
		return ret;
	flow_note_wrong(f, f->counts.rx_bytes + wrong.byte);
	return 0;
}

int device_received(struct flow *f, size_t n)
{
	struct device *d = &f->lane->device;
	int ret = 0;

	if (f->lane->run->device.rx == DEVICE_STAGED)
		return use_staged(f, n);
	if (d->devmem.count || d->devmem.linear_count)
		ret = use_fragments(f);
	else
		flow_check(f, f->lane->rx.data, n, f->counts.rx_bytes);
	return ret ? ret : chan_release(&f->chan);
}

int device_flow_open(struct flow *f, struct err *e)
{
	struct device *d = &f->lane->device;
	const struct run *r = f->lane->run;

	if (!f->writes || r->device.tx != DEVICE_STAGED || !is_staged_ahead(r))
		return 0;
	f->stage = calloc(1, sizeof(*f->stage));
	if (!f->stage)
		return err_set(e, ENOMEM, "no memory for flow %u", f->id);
	return stage_open(f->stage, &d->tx, d->queue, NULL, d->send_bytes, d->ring_bytes, e);
}

void device_flow_close(struct flow *f)
{
	if (f->stage)
		stage_close(f->stage);
	free(f->stage);
	f->stage = NULL;
}

const void *device_to_send(struct flow *f, size_t *length)
{
	struct device *d = &f->lane->device;
	uint64_t offset = f->counts.tx_bytes % d->ring_bytes;

	if (f->stage)
		return stage_data(f->stage, length, NULL);
	if (f->lane->run->device.tx == DEVICE_DEVMEM)
		return (const void *)(uintptr_t)offset;
	if (d->tx.data)
		return d->tx.data + offset;
	return region_read(&d->tx, offset, f->lane->tx.data, *length, NULL) ? NULL
									    : f->lane->tx.data;
}

int device_sent(struct flow *f, size_t n)
{
	return f->stage ? stage_sent(f->stage, n, NULL) : 0;
}
