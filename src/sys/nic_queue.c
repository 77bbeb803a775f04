/* SPDX-License-Identifier: BSD-3-Clause */
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "sys/netlink.h"
#include "sys/nic_queue.h"
#include "sys/path.h"
#include "sys/uapi.h"

static uint64_t count_of(const struct nlattr *a)
{
	return a ? netlink_number(a) : NIC_COUNT_UNKNOWN;
}

static int open_netdev(struct netlink *n, const char *nic, uint32_t *ifindex, struct err *e)
{
	*ifindex = if_nametoindex(nic);
	if (!*ifindex) {
		err_set(e, ENODEV, "there is no network interface %s in this network namespace",
			nic);
		return err_hint(e, "list the interfaces with: weir nic show");
	}
	return netlink_open(n, UAPI_NETDEV_FAMILY, e);
}

/* All objects of a kind; a kernel that does not know the kind has none. */
static int dump(struct netlink *n, uint8_t command, uint16_t ifindex_type, uint32_t ifindex,
	netlink_take_fn *take, void *context, struct err *e)
{
	struct netlink_request r;
	int ret;

	if (!netlink_has(n, command))
		return 0;
	netlink_begin(&r, n, command);
	if (ifindex_type)
		netlink_put_u32(&r, ifindex_type, ifindex);
	if (command == UAPI_NETDEV_QSTATS_GET)
		netlink_put_u32(&r, UAPI_QSTATS_SCOPE, 1);
	ret = netlink_dump(n, &r, take, context, e);
	if (ret != -EOPNOTSUPP)
		return ret;
	err_clear(e);
	return 0;
}

struct queue_list {
	struct nic_queue *queue;
	size_t count;
};

static int take_queue(const struct nlattr *const *attr, void *context)
{
	struct queue_list *l = context;
	struct nic_queue *grown;

	grown = reallocarray(l->queue, l->count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	l->queue = grown;
	l->queue[l->count++] = (struct nic_queue){
		.tx = netlink_number(attr[UAPI_QUEUE_TYPE]) == UAPI_QUEUE_TYPE_TX,
		.id = (uint32_t)netlink_number(attr[UAPI_QUEUE_ID]),
		.napi = (uint32_t)netlink_number(attr[UAPI_QUEUE_NAPI_ID]),
		.irq = -1,
		.dmabuf = (uint32_t)netlink_number(attr[UAPI_QUEUE_DMABUF]),
		.io_uring = attr[UAPI_QUEUE_IO_URING],
		.xsk = attr[UAPI_QUEUE_XSK],
		.packets = NIC_COUNT_UNKNOWN,
		.bytes = NIC_COUNT_UNKNOWN,
		.alloc_fail = NIC_COUNT_UNKNOWN,
		.hw_drops = NIC_COUNT_UNKNOWN,
	};
	return 0;
}

static int take_irq(const struct nlattr *const *attr, void *context)
{
	if (attr[UAPI_NAPI_IRQ])
		*(int *)context = (int)netlink_number(attr[UAPI_NAPI_IRQ]);
	return 0;
}

/* One by one: the kernel's dump of all warns where a driver has numbered its instances anew. */
static void read_irqs(struct netlink *n, struct queue_list *l)
{
	struct netlink_request r;

	for (size_t i = 0; netlink_has(n, UAPI_NETDEV_NAPI_GET) && i < l->count; i++) {
		struct nic_queue *q = &l->queue[i];

		if (!q->napi)
			continue;
		netlink_begin(&r, n, UAPI_NETDEV_NAPI_GET);
		netlink_put_u32(&r, UAPI_NAPI_ID, q->napi);
		netlink_call(n, &r, take_irq, &q->irq, NULL);
		if (q->irq >= 0)
			sys_read(
				q->cpus, sizeof(q->cpus), "/proc/irq/%d/smp_affinity_list", q->irq);
	}
}

static int take_stats(const struct nlattr *const *attr, void *context)
{
	bool tx = netlink_number(attr[UAPI_QSTATS_QUEUE_TYPE]) == UAPI_QUEUE_TYPE_TX;
	uint32_t id = (uint32_t)netlink_number(attr[UAPI_QSTATS_QUEUE_ID]);
	struct queue_list *l = context;

	for (size_t i = 0; i < l->count; i++) {
		struct nic_queue *q = &l->queue[i];

		if (q->tx != tx || q->id != id)
			continue;
		q->packets = count_of(attr[tx ? UAPI_QSTATS_TX_PACKETS : UAPI_QSTATS_RX_PACKETS]);
		q->bytes = count_of(attr[tx ? UAPI_QSTATS_TX_BYTES : UAPI_QSTATS_RX_BYTES]);
		q->alloc_fail = count_of(attr[UAPI_QSTATS_RX_ALLOC_FAIL]);
		q->hw_drops = count_of(attr[UAPI_QSTATS_RX_HW_DROPS]);
	}
	return 0;
}

static int by_number(const void *left, const void *right)
{
	const struct nic_queue *a = left, *b = right;

	if (a->tx != b->tx)
		return a->tx ? 1 : -1;
	return a->id < b->id ? -1 : a->id > b->id;
}

int nic_queues_read(struct nic_queue **queues, size_t *count, const char *nic, struct err *e)
{
	struct queue_list l = { 0 };
	struct netlink n;
	uint32_t ifindex;
	int ret;

	*queues = NULL;
	*count = 0;
	ret = open_netdev(&n, nic, &ifindex, e);
	if (ret)
		return ret;
	ret = dump(&n, UAPI_NETDEV_QUEUE_GET, UAPI_QUEUE_IFINDEX, ifindex, take_queue, &l, e);
	if (!ret)
		read_irqs(&n, &l);
	if (!ret)
		ret = dump(&n, UAPI_NETDEV_QSTATS_GET, UAPI_QSTATS_IFINDEX, ifindex, take_stats, &l,
			e);
	netlink_close(&n);
	if (ret) {
		free(l.queue);
		return err_prefix(e, "cannot read the queues of %s", nic);
	}
	if (l.count)
		qsort(l.queue, l.count, sizeof(*l.queue), by_number);
	*queues = l.queue;
	*count = l.count;
	return 0;
}

struct pool_list {
	uint32_t ifindex;
	struct nic_pool *pool;
	size_t count;
};

static int take_pool(const struct nlattr *const *attr, void *context)
{
	struct pool_list *l = context;
	struct nic_pool *grown;

	if (netlink_number(attr[UAPI_PAGE_POOL_IFINDEX]) != l->ifindex)
		return 0;
	grown = reallocarray(l->pool, l->count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	l->pool = grown;
	l->pool[l->count++] = (struct nic_pool){
		.id = (uint32_t)netlink_number(attr[UAPI_PAGE_POOL_ID]),
		.napi = (uint32_t)netlink_number(attr[UAPI_PAGE_POOL_NAPI_ID]),
		.dmabuf = (uint32_t)netlink_number(attr[UAPI_PAGE_POOL_DMABUF]),
		.detached = attr[UAPI_PAGE_POOL_DETACH_TIME],
		.inflight = netlink_number(attr[UAPI_PAGE_POOL_INFLIGHT]),
		.inflight_bytes = netlink_number(attr[UAPI_PAGE_POOL_INFLIGHT_MEM]),
		.alloc_fast = NIC_COUNT_UNKNOWN,
		.alloc_slow = NIC_COUNT_UNKNOWN,
		.alloc_empty = NIC_COUNT_UNKNOWN,
		.recycled = NIC_COUNT_UNKNOWN,
	};
	return 0;
}

static int take_pool_stats(const struct nlattr *const *attr, void *context)
{
	const struct nlattr *info[NETLINK_ATTRS];
	struct pool_list *l = context;

	if (!attr[UAPI_PAGE_POOL_STATS_INFO])
		return 0;
	netlink_nested(attr[UAPI_PAGE_POOL_STATS_INFO], info);
	for (size_t i = 0; i < l->count; i++) {
		struct nic_pool *p = &l->pool[i];

		if (p->id != netlink_number(info[UAPI_PAGE_POOL_ID]))
			continue;
		p->alloc_fast = count_of(attr[UAPI_PAGE_POOL_STATS_ALLOC_FAST]);
		p->alloc_slow = count_of(attr[UAPI_PAGE_POOL_STATS_ALLOC_SLOW]);
		p->alloc_empty = count_of(attr[UAPI_PAGE_POOL_STATS_ALLOC_EMPTY]);
		p->recycled = netlink_number(attr[UAPI_PAGE_POOL_STATS_RECYCLE_CACHED]) +
			      netlink_number(attr[UAPI_PAGE_POOL_STATS_RECYCLE_RING]);
	}
	return 0;
}

static int by_pool(const void *left, const void *right)
{
	const struct nic_pool *a = left, *b = right;

	return a->id < b->id ? -1 : a->id > b->id;
}

int nic_pools_read(struct nic_pool **pools, size_t *count, const char *nic, struct err *e)
{
	struct pool_list l = { 0 };
	struct netlink n;
	int ret;

	*pools = NULL;
	*count = 0;
	ret = open_netdev(&n, nic, &l.ifindex, e);
	if (ret)
		return ret;
	/* The kernel gives those of all interfaces. */
	ret = dump(&n, UAPI_NETDEV_PAGE_POOL_GET, 0, 0, take_pool, &l, e);
	if (!ret)
		ret = dump(&n, UAPI_NETDEV_PAGE_POOL_STATS_GET, 0, 0, take_pool_stats, &l, e);
	netlink_close(&n);
	if (ret) {
		free(l.pool);
		return err_prefix(e, "cannot read the page pools of %s", nic);
	}
	if (l.count)
		qsort(l.pool, l.count, sizeof(*l.pool), by_pool);
	*pools = l.pool;
	*count = l.count;
	return 0;
}
