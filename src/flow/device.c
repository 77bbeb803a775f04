// SPDX-License-Identifier: BSD-3-Clause
#include "flow/device.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "flow/run.h"
#include "sys/nic.h"
#include "sys/nic_devmem.h"
#include "sys/nic_queue.h"
#include "sys/nic_rss.h"
#include "sys/nic_rule.h"

const char *const device_path_name[] = { "host", "devmem", "staged" };
const char *const device_memory_name[] = { "host", "udmabuf", "cuda" };

/* The NIC */

static int find_nic(struct device_nic *n, const struct flow_options *o,
	const struct sock_addr *local, struct err *e)
{
	struct nic nic;
	int ret;

	if (!o->nic)
		ret = nic_for_address(&nic, (const struct sockaddr *)&local->storage, e);
	else if (strchr(o->nic, ':'))
		ret = nic_for_pci(&nic, o->nic, e);
	else
		ret = nic_for_name(&nic, o->nic, e);
	if (ret)
		return ret;
	snprintf(n->nic, sizeof(n->nic), "%s", nic.name);
	n->ifindex = (unsigned int)nic.ifindex;
	return 0;
}

/* The queues that were asked for, or the last quarter of those there are: the first ones serve
 * everything else on the host. */
static int choose_queues(struct device_nic *n, const struct flow_options *o, struct err *e)
{
	uint32_t count, first, last;
	int ret;

	if (o->queues)
		return cpus_parse(&n->queues, o->queues, e) ? err_prefix(e, "--queues") : 0;
	cpus_clear(&n->queues);
	if (o->queues_given) {
		first = (uint32_t)o->queue_start;
		last = first + (uint32_t)o->queue_num;
	} else {
		ret = nic_rss_queues(n->nic, &count, e);
		if (ret)
			return ret;
		if (count < 2) {
			err_set(e, EOPNOTSUPP,
				"%s has one receive queue: none is left for device memory", n->nic);
			err_hint(e, "give it more: ethtool -L %s combined 8", n->nic);
			return -EOPNOTSUPP;
		}
		first = count - (count >= 4 ? count / 4 : 1);
		last = count;
	}
	for (uint32_t q = first; q < last; q++)
		cpus_add(&n->queues, (int)q);
	return 0;
}

bool device_cannot(int ret)
{
	return ret == -EOPNOTSUPP || ret == -ENODATA || ret == -EPERM;
}

/* Which way bytes go. "auto" takes device memory where the NIC has it; what was asked for by name is
 * tried, and refused with the reason when it fails. */
static int choose_paths(
	struct device_nic *n, const struct run *r, const struct err *refused, struct err *e)
{
	const struct flow_options *o = r->options;
	enum device_path path = o->path == PATH_STAGED ? DEVICE_STAGED : DEVICE_DEVMEM;
	struct err why = { 0 };
	int can = 0;

	if (refused)
		why = *refused;
	else if (o->path != PATH_STAGED)
		can = nic_bind_probe(n->nic, &why);
	/* What was asked for by name is refused before anything is touched. */
	if (can == -EOPNOTSUPP && o->path == PATH_DEVMEM && e) {
		*e = why;
		return can;
	}
	/* Other refusals speak of settings, which are ours to make. */
	if (o->path == PATH_AUTO && (refused || can == -EOPNOTSUPP || can == -EPERM))
		path = DEVICE_STAGED;
	n->rx = flow_options_reads(o, r->workload) ? path : DEVICE_NONE;
	n->tx = flow_options_writes(o, r->workload) ? path : DEVICE_NONE;
	if (n->rx == DEVICE_STAGED && why.code)
		snprintf(n->rx_reason, sizeof(n->rx_reason), "%.250s", why.what);
	if (n->tx == DEVICE_STAGED && why.code)
		snprintf(n->tx_reason, sizeof(n->tx_reason), "%.250s", why.what);
	return 0;
}

int device_nic_open(struct device_nic *n, const struct run *r, const struct sock_addr *local,
	const struct err *refused, struct err *e)
{
	struct nic_devmem_want want = { 0 };
	int ret;

	memset(n, 0, sizeof(*n));
	if (r->options->memory == MEMORY_HOST)
		return 0;
	ret = find_nic(n, r->options, local, e);
	if (ret)
		return ret;
	ret = choose_paths(n, r, refused, e);
	if (ret || n->rx != DEVICE_DEVMEM)
		return ret;
	ret = choose_queues(n, r->options, e);
	if (!ret && (uint32_t)n->queues.count < r->lane_count) {
		err_set(e, EINVAL, "%u threads need a receive queue each, and %s gives %d",
			r->lane_count, n->nic, n->queues.count);
		ret = -EINVAL;
		err_hint(e, "name more with --queues, or use fewer threads (-T)");
	}
	if (!ret)
		ret = nic_plan_open(&n->plan, n->nic, false, e);
	if (ret)
		return ret;
	n->planned = true;
	want.queues = n->queues;
	ret = nic_devmem_plan(&n->plan, &want, e);
	if (!ret)
		ret = nic_plan_apply(&n->plan, e);
	if (ret)
		device_nic_close(n);
	return ret;
}

void device_nic_close(struct device_nic *n)
{
	struct err e = { 0 };

	if (n->planned && nic_plan_close(&n->plan, &e))
		log_error_err(&e);
	n->planned = false;
}

/* How often the NIC has wanted memory of the bound queues and all was out; and who serves them. */
static uint64_t look_at_queues(const struct device_nic *n, uint32_t *napi, uint32_t *napi_count)
{
	uint64_t stalls = POOL_STALLS_UNKNOWN;
	struct nic_queue *queue;
	size_t count;

	*napi_count = 0;
	if (n->rx != DEVICE_DEVMEM || nic_queues_read(&queue, &count, n->nic, NULL))
		return stalls;
	for (size_t i = 0; i < count; i++) {
		if (queue[i].tx || !cpus_has(&n->queues, (int)queue[i].id))
			continue;
		if (queue[i].alloc_fail != NIC_COUNT_UNKNOWN)
			stalls = (stalls == POOL_STALLS_UNKNOWN ? 0 : stalls) + queue[i].alloc_fail;
		if (queue[i].napi && *napi_count < DEVICE_NAPIS)
			napi[(*napi_count)++] = queue[i].napi;
	}
	free(queue);
	return stalls;
}

void device_nic_bound(struct device_nic *n)
{
	n->stalls_before = look_at_queues(n, n->napi, &n->napi_count);
}

int device_check(const struct device_nic *n, struct err *e)
{
	if ((n->rx != DEVICE_DEVMEM && n->tx != DEVICE_DEVMEM) ||
		if_nametoindex(n->nic) == n->ifindex)
		return 0;
	err_set(e, ENODEV, "the interface %s, which had the memory bound, has gone", n->nic);
	return err_hint(e, "look for its driver's last words: dmesg | tail");
}

bool device_came_by_bound_queue(const struct device_nic *n, int fd)
{
	unsigned int napi = 0;
	socklen_t size = sizeof(napi);

	if (getsockopt(fd, SOL_SOCKET, SO_INCOMING_NAPI_ID, &napi, &size))
		return false;
	for (uint32_t i = 0; i < n->napi_count; i++)
		if (n->napi[i] == napi)
			return true;
	return false;
}

void device_collect(const struct run *r, struct device_result *out)
{
	const struct device_nic *n = &r->device;
	uint32_t napi[DEVICE_NAPIS], napi_count;
	uint64_t now = look_at_queues(n, napi, &napi_count);

	out->pool_stalls = POOL_STALLS_UNKNOWN;
	if (now != POOL_STALLS_UNKNOWN && n->stalls_before != POOL_STALLS_UNKNOWN)
		out->pool_stalls = now - n->stalls_before;
	snprintf(out->nic, sizeof(out->nic), "%s", n->nic);
	if (n->rx == DEVICE_DEVMEM)
		cpus_format(&n->queues, out->queues, sizeof(out->queues));
	memcpy(out->rx_reason, n->rx_reason, sizeof(out->rx_reason));
	memcpy(out->tx_reason, n->tx_reason, sizeof(out->tx_reason));
}

void device_collect_lane(const struct device *d, struct device_result *out)
{
	if (d->devmem.tokens_held_most > out->tokens_peak)
		out->tokens_peak = d->devmem.tokens_held_most;
	out->tokens_left += d->devmem.tokens_held;
}

int device_explain(const struct run *r, int error, bool sending, struct err *e)
{
	if ((sending ? r->device.tx : r->device.rx) == DEVICE_DEVMEM)
		return devmem_explain(error, sending, e);
	return err_set(e, error, "%s", strerror(error));
}

static void rule_address(const struct sock_addr *addr, uint8_t ip[16], bool *ipv6, uint16_t *port)
{
	char text[SOCK_ADDR_TEXT];
	struct in_addr v4;

	*port = sock_addr_port(addr);
	/* An IPv4 address mapped into IPv6 is IPv4 on the wire. */
	*ipv6 = inet_pton(AF_INET, sock_addr_text(addr, false, text), &v4) != 1;
	if (*ipv6)
		memcpy(ip, &((const struct sockaddr_in6 *)&addr->storage)->sin6_addr, 16);
	else
		memcpy(ip, &v4, sizeof(v4));
}

/* Of the queues of a lane, the number-th, round and round. */
static int add_rule(struct device_nic *n, const struct nic_rule *rule, const struct lane *l,
	uint32_t number, struct err *e)
{
	const struct cpus *queues = &l->device.queues;
	char key[NIC_RULE_TEXT], queue[32];

	snprintf(queue, sizeof(queue), "queue %d",
		cpus_nth(queues, (int)(number % (uint32_t)queues->count)));
	return nic_plan_add(&n->plan, NIC_KIND_RULE, nic_rule_text(rule, key), queue, e);
}

struct lane *device_port_lane(struct run *r, uint32_t number)
{
	return &r->lanes[number % r->lane_count];
}

int device_steer_ports(
	struct run *r, const struct sock_addr *local, const struct sock_addr *peer, struct err *e)
{
	struct nic_rule rule = { .known = true, .has_src_ip = peer, .has_dst_ip = true };
	uint16_t ignored;
	int ret = 0;

	if (r->device.rx != DEVICE_DEVMEM)
		return 0;
	if (peer)
		rule_address(peer, rule.src_ip, &rule.ipv6, &ignored);
	rule_address(local, rule.dst_ip, &rule.ipv6, &ignored);
	for (uint32_t i = 0; !ret && i < r->options->num_ports; i++) {
		rule.dst_port = (uint16_t)(r->options->port + i);
		ret = add_rule(&r->device, &rule, device_port_lane(r, i), i / r->lane_count, e);
	}
	return ret ? ret : nic_plan_apply(&r->device.plan, e);
}

int device_steer(struct device_nic *n, const struct flow *f, struct err *e)
{
	struct nic_rule rule = { .known = true, .has_src_ip = true, .has_dst_ip = true };
	struct sock_addr local, peer;
	int ret;

	if (n->rx != DEVICE_DEVMEM || !f->reads || !f->alive)
		return 0;
	ret = sock_local(f->chan.fd, &local);
	if (!ret)
		ret = sock_peer(f->chan.fd, &peer);
	if (ret)
		return err_set(e, -ret, "cannot steer flow %u: %s", f->id, strerror(-ret));
	rule_address(&peer, rule.src_ip, &rule.ipv6, &rule.src_port);
	rule_address(&local, rule.dst_ip, &rule.ipv6, &rule.dst_port);
	return add_rule(n, &rule, f->lane, f->id / f->lane->run->lane_count, e);
}

/* The memory of a lane */

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
	d->list = calloc(DEVMEM_FRAGMENTS, sizeof(*d->list));
	if (!d->list)
		return err_set(e, ENOMEM, "no memory for %d fragments", DEVMEM_FRAGMENTS);
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
	free(d->list);
	d->list = NULL;
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
	const struct run *r = f->lane->run;
	struct mem_mismatch wrong = { 0 };
	size_t count = 0;
	int ret = 0;

	if (!r->validates && !r->options->rx_copy)
		return 0;
	for (uint32_t i = 0; i < d->devmem.count; i++) {
		const struct devmem_fragment *frag = &d->devmem.fragment[i];
		uint64_t position = f->counts.rx_bytes + frag->at;

		if (frag->linear)
			flow_check(f, f->lane->rx.data + frag->offset, frag->bytes, position);
		else
			d->list[count++] =
				(struct mem_fragment){ frag->offset, frag->bytes, position };
	}
	if (count && r->validates)
		ret = region_check(&d->rx, &r->pattern, d->list, count, &wrong, NULL);
	if (ret == -EBADMSG) {
		flow_note_wrong(f, d->list[wrong.fragment].stream_position + wrong.byte);
		ret = 0;
	}
	if (!ret && count && r->options->rx_copy)
		ret = region_gather(&d->rx, d->list, count, &d->gathered, f->counts.rx_bytes, NULL);
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
	if (d->devmem.count)
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
