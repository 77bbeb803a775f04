// SPDX-License-Identifier: BSD-3-Clause
/* Queues of NICs and the page pools behind them, by the kernel's netdev family. */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "counters/source.h"
#include "sys/netlink.h"
#include "sys/uapi.h"

struct netdev_state {
	struct netlink n;
	bool tried;
	uint32_t ifindex; /* the last one that was looked up */
	char nic[IF_NAMESIZE];
};

struct netdev_context {
	struct reader *r;
	struct netdev_state *s;
	uint64_t now_ns;
};

static struct netdev_state *state_of(void **state)
{
	struct netdev_state *s = *state;

	if (!s)
		s = *state = calloc(1, sizeof(*s));
	if (s && !s->tried) {
		s->tried = true;
		if (netlink_open(&s->n, UAPI_NETDEV_FAMILY, NULL))
			s->n.socket = NULL;
	}
	return s && s->n.socket ? s : NULL;
}

static void netdev_forget(void *state)
{
	struct netdev_state *s = state;

	netlink_close(&s->n);
	free(s);
}

/* The interface's name, NULL when it is not wanted. */
static const char *nic_of(struct netdev_context *c, uint64_t ifindex)
{
	if (ifindex != c->s->ifindex || !c->s->nic[0]) {
		c->s->ifindex = (uint32_t)ifindex;
		if (!if_indextoname((unsigned int)ifindex, c->s->nic))
			c->s->nic[0] = '\0';
	}
	return c->s->nic[0] && reader_wants(c->r, c->s->nic) ? c->s->nic : NULL;
}

/* ABI: by attribute type, from UAPI_QSTATS_RX_PACKETS on. */
static const char *const queue_name[] = { "rx_packets", "rx_bytes", "tx_packets", "tx_bytes",
	"rx_alloc_fail", "rx_hw_drops", "rx_hw_drop_overruns", "rx_csum_complete",
	"rx_csum_unnecessary", "rx_csum_none", "rx_csum_bad", "rx_hw_gro_packets",
	"rx_hw_gro_bytes", "rx_hw_gro_wire_packets", "rx_hw_gro_wire_bytes",
	"rx_hw_drop_ratelimits", "tx_hw_drops", "tx_hw_drop_errors", "tx_csum_none",
	"tx_needs_csum", "tx_hw_gso_packets", "tx_hw_gso_bytes", "tx_hw_gso_wire_packets",
	"tx_hw_gso_wire_bytes", "tx_hw_drop_ratelimits", "tx_stop", "tx_wake" };
#define QUEUE_NAMES (sizeof(queue_name) / sizeof(queue_name[0]))

static int take_queue(const struct nlattr *const *attr, void *context)
{
	bool tx = netlink_number(attr[UAPI_QSTATS_QUEUE_TYPE]) == UAPI_QUEUE_TYPE_TX;
	struct netdev_context *c = context;
	const char *nic = nic_of(c, netlink_number(attr[UAPI_QSTATS_IFINDEX]));
	char object[COUNTER_TEXT];

	if (!nic)
		return 0;
	snprintf(object, sizeof(object), "%s/%s-%u", nic, tx ? "tx" : "rx",
		(unsigned int)netlink_number(attr[UAPI_QSTATS_QUEUE_ID]));
	for (size_t i = 0; i < QUEUE_NAMES; i++)
		if (attr[UAPI_QSTATS_RX_PACKETS + i])
			reader_put(c->r, object, queue_name[i],
				netlink_number(attr[UAPI_QSTATS_RX_PACKETS + i]), c->now_ns);
	return c->r->ret;
}

static void queue_read(struct reader *r, void **state)
{
	struct netdev_context c = { .r = r, .s = state_of(state), .now_ns = clock_wall_ns() };
	struct netlink_request q;

	if (!c.s || !netlink_has(&c.s->n, UAPI_NETDEV_QSTATS_GET))
		return;
	netlink_begin(&q, &c.s->n, UAPI_NETDEV_QSTATS_GET);
	netlink_put_u32(&q, UAPI_QSTATS_SCOPE, 1);
	netlink_dump(&c.s->n, &q, take_queue, &c, NULL);
}

const struct source source_queue = {
	.name = "queue",
	.about = "each queue of each NIC, by netlink (Linux 6.9)",
	.calls = true,
	.read = queue_read,
	.forget = netdev_forget,
};

static const char *pool_object(
	struct netdev_context *c, const struct nlattr *const *attr, char object[COUNTER_TEXT])
{
	const char *nic = nic_of(c, netlink_number(attr[UAPI_PAGE_POOL_IFINDEX]));

	if (nic)
		snprintf(object, COUNTER_TEXT, "%s/pool-%u", nic,
			(unsigned int)netlink_number(attr[UAPI_PAGE_POOL_ID]));
	return nic;
}

static int take_pool(const struct nlattr *const *attr, void *context)
{
	struct netdev_context *c = context;
	char object[COUNTER_TEXT];

	if (!pool_object(c, attr, object))
		return 0;
	if (attr[UAPI_PAGE_POOL_INFLIGHT])
		reader_put(c->r, object, "inflight", netlink_number(attr[UAPI_PAGE_POOL_INFLIGHT]),
			c->now_ns);
	if (attr[UAPI_PAGE_POOL_INFLIGHT_MEM])
		reader_put(c->r, object, "inflight_bytes",
			netlink_number(attr[UAPI_PAGE_POOL_INFLIGHT_MEM]), c->now_ns);
	return c->r->ret;
}

static int take_pool_stats(const struct nlattr *const *attr, void *context)
{
	static const struct {
		int type;
		const char *name;
	} stat[] = {
		{ UAPI_PAGE_POOL_STATS_ALLOC_FAST, "alloc_fast" },
		{ UAPI_PAGE_POOL_STATS_ALLOC_SLOW, "alloc_slow" },
		{ UAPI_PAGE_POOL_STATS_ALLOC_EMPTY, "alloc_empty" },
	};
	const struct nlattr *info[NETLINK_ATTRS];
	struct netdev_context *c = context;
	char object[COUNTER_TEXT];

	if (!attr[UAPI_PAGE_POOL_STATS_INFO])
		return 0;
	netlink_nested(attr[UAPI_PAGE_POOL_STATS_INFO], info);
	if (!pool_object(c, info, object))
		return 0;
	for (size_t i = 0; i < sizeof(stat) / sizeof(stat[0]); i++)
		if (attr[stat[i].type])
			reader_put(c->r, object, stat[i].name, netlink_number(attr[stat[i].type]),
				c->now_ns);
	if (attr[UAPI_PAGE_POOL_STATS_RECYCLE_CACHED])
		reader_put(c->r, object, "recycled",
			netlink_number(attr[UAPI_PAGE_POOL_STATS_RECYCLE_CACHED]) +
				netlink_number(attr[UAPI_PAGE_POOL_STATS_RECYCLE_RING]),
			c->now_ns);
	return c->r->ret;
}

static void page_pool_read(struct reader *r, void **state)
{
	struct netdev_context c = { .r = r, .s = state_of(state), .now_ns = clock_wall_ns() };
	struct netlink_request q;

	if (!c.s || !netlink_has(&c.s->n, UAPI_NETDEV_PAGE_POOL_GET))
		return;
	netlink_begin(&q, &c.s->n, UAPI_NETDEV_PAGE_POOL_GET);
	netlink_dump(&c.s->n, &q, take_pool, &c, NULL);
	if (!netlink_has(&c.s->n, UAPI_NETDEV_PAGE_POOL_STATS_GET))
		return;
	netlink_begin(&q, &c.s->n, UAPI_NETDEV_PAGE_POOL_STATS_GET);
	netlink_dump(&c.s->n, &q, take_pool_stats, &c, NULL);
}

const struct source source_page_pool = {
	.name = "page_pool",
	.about = "memory that receive queues take their pages from, by netlink (Linux 6.8)",
	.calls = true,
	.read = page_pool_read,
	.forget = netdev_forget,
};
