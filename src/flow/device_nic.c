// SPDX-License-Identifier: BSD-3-Clause
/* Of a run: which NIC, which way, which queues; prepared, steered to, looked at in the end. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "flow/run.h"
#include "net/steer.h"
#include "sys/nic.h"
#include "sys/nic_devmem.h"
#include "sys/nic_queue.h"
#include "sys/nic_rule.h"

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

/* The queues that were asked for, by the published options or by ours, or steer's choice. */
static int choose_queues(struct device_nic *n, const struct flow_options *o, struct err *e)
{
	if (o->queues || !o->queues_given)
		return steer_queues(&n->queues, n->nic, o->queues, e);
	cpus_clear(&n->queues);
	for (int64_t q = o->queue_start; q < o->queue_start + o->queue_num; q++)
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
		steer_address(peer, rule.src_ip, &rule.ipv6, &ignored);
	steer_address(local, rule.dst_ip, &rule.ipv6, &ignored);
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
	steer_address(&peer, rule.src_ip, &rule.ipv6, &rule.src_port);
	steer_address(&local, rule.dst_ip, &rule.ipv6, &rule.dst_port);
	return add_rule(n, &rule, f->lane, f->id / f->lane->run->lane_count, e);
}
