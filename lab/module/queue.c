// SPDX-License-Identifier: GPL-2.0-only
/* The queues: their page pools, starting and stopping, and how bind-rx restarts one of them. */
#include <net/netdev_queues.h>
#include <net/page_pool/helpers.h>

#include "labnic.h"

#ifndef LABNIC_HAS_NAPI_LOCKED
#define napi_enable_locked  napi_enable
#define napi_disable_locked napi_disable
#endif

#ifdef LABNIC_HAS_QUEUE_CONFIG
#define LABNIC_QUEUE_CONFIG struct netdev_queue_config *config,
#else
#define LABNIC_QUEUE_CONFIG
#endif

static struct page_pool *labnic_pool_create(struct labnic *nic, int index)
{
	struct page_pool_params params = {
		.pool_size = 1024,
		.nid = NUMA_NO_NODE,
		.dev = nic->dev->dev.parent,
		/* No .napi: the core may destroy a pool that never went live while the queue's NAPI
		 * runs, and the page pool warns about that.
		 */
		.dma_dir = DMA_FROM_DEVICE,
		.max_len = PAGE_SIZE,
		.netdev = nic->dev,
		.queue_idx = index,
		.flags = PP_FLAG_DMA_MAP | PP_FLAG_DMA_SYNC_DEV,
	};

	if (!labnic_faults.no_unreadable)
		params.flags |= PP_FLAG_ALLOW_UNREADABLE_NETMEM;
	return page_pool_create(&params);
}

static void labnic_queue_enable(struct labnic_queue *queue)
{
	napi_enable_locked(&queue->napi);
	/* Frames that came while it was off could not schedule it. */
	local_bh_disable();
	napi_schedule(&queue->napi);
	local_bh_enable();
}

static void labnic_queue_set_napi(struct labnic_queue *queue, struct napi_struct *napi)
{
	netif_queue_set_napi(queue->nic->dev, queue->index, NETDEV_QUEUE_TYPE_RX, napi);
	netif_queue_set_napi(queue->nic->dev, queue->index, NETDEV_QUEUE_TYPE_TX, napi);
}

int labnic_queues_start(struct labnic *nic)
{
	int i, count = nic->dev->real_num_rx_queues;

	for (i = 0; i < count; i++) {
		struct page_pool *pool = labnic_pool_create(nic, i);

		if (IS_ERR(pool)) {
			while (i--) {
				page_pool_destroy(nic->queue[i].pool);
				nic->queue[i].pool = NULL;
			}
			return PTR_ERR(pool);
		}
		nic->queue[i].pool = pool;
	}
	for (i = 0; i < count; i++) {
		labnic_queue_set_napi(&nic->queue[i], &nic->queue[i].napi);
		labnic_queue_enable(&nic->queue[i]);
	}
	return 0;
}

void labnic_queues_stop(struct labnic *nic)
{
	int i, count = nic->dev->real_num_rx_queues;

	for (i = 0; i < count; i++) {
		napi_disable_locked(&nic->queue[i].napi);
		labnic_queue_set_napi(&nic->queue[i], NULL);
	}
	synchronize_net(); /* the peer's last frame is on the wire */
	for (i = 0; i < count; i++) {
		skb_queue_purge(&nic->queue[i].wire);
		page_pool_destroy(nic->queue[i].pool);
		nic->queue[i].pool = NULL;
	}
}

/* What the core carries from a stopped queue to a started one. */
struct labnic_queue_memory {
	struct page_pool *pool;
};

static struct labnic_queue *labnic_queue(struct net_device *dev, int index)
{
	struct labnic *nic = netdev_priv(dev);

	return &nic->queue[index];
}

static int labnic_queue_mem_alloc(
	struct net_device *dev, LABNIC_QUEUE_CONFIG void *memory, int index)
{
	struct labnic_queue_memory *m = memory;
	struct page_pool *pool = labnic_pool_create(netdev_priv(dev), index);

	if (IS_ERR(pool))
		return PTR_ERR(pool);
	m->pool = pool;
	return 0;
}

static void labnic_queue_mem_free(struct net_device *dev, void *memory)
{
	struct labnic_queue_memory *m = memory;

	if (m->pool)
		page_pool_destroy(m->pool);
}

/* Newer kernels leave a device that is down alone, 6.12 restarts its queues all the same. There is
 * nothing to stop then, and nothing to start: to open it makes new pools.
 */
static int labnic_queue_stop(struct net_device *dev, void *memory, int index)
{
	struct labnic_queue *queue = labnic_queue(dev, index);
	struct labnic_queue_memory *m = memory;

	if (netif_running(dev))
		napi_disable_locked(&queue->napi);
	m->pool = queue->pool;
	queue->pool = NULL;
	return 0;
}

static int labnic_queue_start(struct net_device *dev, LABNIC_QUEUE_CONFIG void *memory, int index)
{
	struct labnic_queue *queue = labnic_queue(dev, index);
	struct labnic_queue_memory *m = memory;

	if (netif_running(dev)) {
		queue->pool = m->pool;
		labnic_queue_enable(queue);
	} else {
		page_pool_destroy(m->pool);
	}
	m->pool = NULL;
	return 0;
}

#ifdef LABNIC_HAS_QUEUE_DMA_DEV
static struct device *labnic_queue_get_dma_dev(struct net_device *dev, int index)
{
	return labnic_faults.no_dma ? NULL : dev->dev.parent;
}
#endif

const struct netdev_queue_mgmt_ops labnic_queue_ops = {
	.ndo_queue_mem_size = sizeof(struct labnic_queue_memory),
	.ndo_queue_mem_alloc = labnic_queue_mem_alloc,
	.ndo_queue_mem_free = labnic_queue_mem_free,
	.ndo_queue_start = labnic_queue_start,
	.ndo_queue_stop = labnic_queue_stop,
#ifdef LABNIC_HAS_QUEUE_DMA_DEV
	.ndo_queue_get_dma_dev = labnic_queue_get_dma_dev,
#endif
};

static void labnic_queue_stats_rx(
	struct net_device *dev, int index, struct netdev_queue_stats_rx *stats)
{
	const u64 *counter = labnic_queue(dev, index)->counter;

	stats->packets = counter[LABNIC_RX_PACKETS];
	stats->bytes = counter[LABNIC_RX_BYTES];
	stats->alloc_fail = counter[LABNIC_RX_ALLOC_FAIL];
}

static void labnic_queue_stats_tx(
	struct net_device *dev, int index, struct netdev_queue_stats_tx *stats)
{
	const u64 *counter = labnic_queue(dev, index)->counter;

	stats->packets = counter[LABNIC_TX_PACKETS];
	stats->bytes = counter[LABNIC_TX_BYTES];
}

/* Queues live as long as the device: the sum of them is all there ever was. */
static void labnic_base_stats(
	struct net_device *dev, struct netdev_queue_stats_rx *rx, struct netdev_queue_stats_tx *tx)
{
	rx->packets = 0;
	rx->bytes = 0;
	rx->alloc_fail = 0;
	tx->packets = 0;
	tx->bytes = 0;
}

const struct netdev_stat_ops labnic_stat_ops = {
	.get_queue_stats_rx = labnic_queue_stats_rx,
	.get_queue_stats_tx = labnic_queue_stats_tx,
	.get_base_stats = labnic_base_stats,
};
