// SPDX-License-Identifier: GPL-2.0-only
/* What ethtool can read and set. */
#include <linux/ethtool_netlink.h>

#include "labnic.h"

static const char *const labnic_counter_name[LABNIC_COUNTERS] = {
	[LABNIC_RX_PACKETS] = "rx_pkts",
	[LABNIC_RX_BYTES] = "rx_bytes",
	[LABNIC_RX_MERGED] = "rx_merged",
	[LABNIC_RX_DEVMEM_BYTES] = "rx_devmem_bytes",
	[LABNIC_RX_PAGE_BYTES] = "rx_page_bytes",
	[LABNIC_RX_LINEAR_BYTES] = "rx_linear_bytes",
	[LABNIC_RX_ALLOC_FAIL] = "rx_alloc_fail",
	[LABNIC_RX_WIRE_DROP] = "rx_wire_drop",
	[LABNIC_FROM_DEVMEM_BYTES] = "from_devmem_bytes",
	[LABNIC_FROM_OTHER_BYTES] = "from_other_bytes",
	[LABNIC_TX_PACKETS] = "tx_pkts",
	[LABNIC_TX_BYTES] = "tx_bytes",
	[LABNIC_TX_DROP] = "tx_drop",
};

static void labnic_get_ringparam(struct net_device *dev, struct ethtool_ringparam *ring,
	struct kernel_ethtool_ringparam *more, struct netlink_ext_ack *extack)
{
	const struct labnic *nic = netdev_priv(dev);

	ring->rx_max_pending = LABNIC_RING;
	ring->tx_max_pending = LABNIC_RING;
	ring->rx_pending = LABNIC_RING;
	ring->tx_pending = LABNIC_RING;
	more->tcp_data_split =
		nic->split ? ETHTOOL_TCP_DATA_SPLIT_ENABLED : ETHTOOL_TCP_DATA_SPLIT_DISABLED;
#ifdef LABNIC_HAS_HDS_THRESH
	more->hds_thresh_max = LABNIC_HDS_THRESH_MAX;
#endif
}

static int labnic_set_ringparam(struct net_device *dev, struct ethtool_ringparam *ring,
	struct kernel_ethtool_ringparam *more, struct netlink_ext_ack *extack)
{
	struct labnic *nic = netdev_priv(dev);

	if (ring->rx_pending != LABNIC_RING || ring->tx_pending != LABNIC_RING) {
		NL_SET_ERR_MSG(extack, "ring sizes are fixed");
		return -EINVAL;
	}
	WRITE_ONCE(nic->split, more->tcp_data_split == ETHTOOL_TCP_DATA_SPLIT_ENABLED);
#ifdef LABNIC_HAS_HDS_THRESH
	WRITE_ONCE(nic->hds_thresh, more->hds_thresh);
#endif
	return 0;
}

/* Not ethtool_op_get_link: that wants RTNL, which newer kernels do not hold here. */
static u32 labnic_get_link(struct net_device *dev)
{
	return netif_carrier_ok(dev);
}

static void labnic_get_channels(struct net_device *dev, struct ethtool_channels *channels)
{
	channels->max_combined = dev->real_num_rx_queues;
	channels->combined_count = dev->real_num_rx_queues;
}

#ifdef LABNIC_HAS_RING_COUNT
static u32 labnic_get_rx_ring_count(struct net_device *dev)
{
	return dev->real_num_rx_queues;
}
#endif

static int labnic_get_rxnfc(struct net_device *dev, struct ethtool_rxnfc *nfc, u32 *locations)
{
	return labnic_rule_get(netdev_priv(dev), nfc, locations);
}

static int labnic_set_rxnfc(struct net_device *dev, struct ethtool_rxnfc *nfc)
{
	return labnic_rule_set(netdev_priv(dev), nfc);
}

static u32 labnic_get_rxfh_key_size(struct net_device *dev)
{
	return LABNIC_KEY_BYTES;
}

static u32 labnic_get_rxfh_indir_size(struct net_device *dev)
{
	return LABNIC_INDIR;
}

static int labnic_get_rxfh(struct net_device *dev, struct ethtool_rxfh_param *param)
{
	const struct labnic *nic = netdev_priv(dev);

	param->hfunc = ETH_RSS_HASH_TOP;
	if (param->indir)
		memcpy(param->indir, nic->indir[0], sizeof(nic->indir[0]));
	if (param->key)
		memcpy(param->key, nic->rss_key, sizeof(nic->rss_key));
	return 0;
}

/* Takes over the table of one context. The key is kept for show: the hash is our own. */
static int labnic_set_context(
	struct labnic *nic, u32 context, const struct ethtool_rxfh_param *param)
{
	if (param->hfunc != ETH_RSS_HASH_NO_CHANGE && param->hfunc != ETH_RSS_HASH_TOP)
		return -EOPNOTSUPP;
	if (context >= LABNIC_CONTEXTS)
		return -EINVAL;
	if (param->indir)
		memcpy(nic->indir[context], param->indir, sizeof(nic->indir[context]));
	return 0;
}

static int labnic_set_rxfh(
	struct net_device *dev, struct ethtool_rxfh_param *param, struct netlink_ext_ack *extack)
{
	struct labnic *nic = netdev_priv(dev);
	int err;

	err = labnic_set_context(nic, 0, param);
	if (!err && param->key)
		memcpy(nic->rss_key, param->key, sizeof(nic->rss_key));
	return err;
}

static int labnic_modify_context(struct net_device *dev, struct ethtool_rxfh_context *context,
	const struct ethtool_rxfh_param *param, struct netlink_ext_ack *extack)
{
	return labnic_set_context(netdev_priv(dev), param->rss_context, param);
}

static int labnic_create_context(struct net_device *dev, struct ethtool_rxfh_context *context,
	const struct ethtool_rxfh_param *param, struct netlink_ext_ack *extack)
{
	struct labnic *nic = netdev_priv(dev);
	u32 *shown = ethtool_rxfh_context_indir(context);
	int i, err;

	err = labnic_set_context(nic, param->rss_context, param);
	if (err)
		return err;
	/* What the caller left open is ours to choose, and to show in context. */
	context->hfunc = ETH_RSS_HASH_TOP;
	memcpy(ethtool_rxfh_context_key(context), nic->rss_key, sizeof(nic->rss_key));
	for (i = 0; !param->indir && i < LABNIC_INDIR; i++) {
		shown[i] = i % dev->real_num_rx_queues;
		nic->indir[param->rss_context][i] = shown[i];
	}
	return 0;
}

static int labnic_remove_context(struct net_device *dev, struct ethtool_rxfh_context *context,
	u32 id, struct netlink_ext_ack *extack)
{
	const struct labnic *nic = netdev_priv(dev);
	unsigned int i;

	for_each_set_bit (i, nic->rules, LABNIC_RULES)
		if (nic->rule[i].context == id)
			return -EBUSY;
	return 0;
}

static int labnic_get_sset_count(struct net_device *dev, int set)
{
	return set == ETH_SS_STATS ? LABNIC_COUNTERS * dev->real_num_rx_queues : -EOPNOTSUPP;
}

static void labnic_get_strings(struct net_device *dev, u32 set, u8 *to)
{
	int i, j;

	if (set != ETH_SS_STATS)
		return;
	for (i = 0; i < dev->real_num_rx_queues; i++)
		for (j = 0; j < LABNIC_COUNTERS; j++)
			ethtool_sprintf(&to, "q%d_%s", i, labnic_counter_name[j]);
}

static void labnic_get_ethtool_stats(struct net_device *dev, struct ethtool_stats *stats, u64 *to)
{
	const struct labnic *nic = netdev_priv(dev);
	int i;

	for (i = 0; i < dev->real_num_rx_queues; i++, to += LABNIC_COUNTERS)
		memcpy(to, nic->queue[i].counter, sizeof(nic->queue[i].counter));
}

const struct ethtool_ops labnic_ethtool_ops = {
#ifdef LABNIC_HAS_HDS_THRESH
	.supported_ring_params = ETHTOOL_RING_USE_TCP_DATA_SPLIT | ETHTOOL_RING_USE_HDS_THRS,
#else
	.supported_ring_params = ETHTOOL_RING_USE_TCP_DATA_SPLIT,
#endif
	.rxfh_max_num_contexts = LABNIC_CONTEXTS,
	.get_link = labnic_get_link,
	.get_ringparam = labnic_get_ringparam,
	.set_ringparam = labnic_set_ringparam,
	.get_channels = labnic_get_channels,
#ifdef LABNIC_HAS_RING_COUNT
	.get_rx_ring_count = labnic_get_rx_ring_count,
#endif
	.get_rxnfc = labnic_get_rxnfc,
	.set_rxnfc = labnic_set_rxnfc,
	.get_rxfh_key_size = labnic_get_rxfh_key_size,
	.get_rxfh_indir_size = labnic_get_rxfh_indir_size,
	.get_rxfh = labnic_get_rxfh,
	.set_rxfh = labnic_set_rxfh,
	.create_rxfh_context = labnic_create_context,
	.modify_rxfh_context = labnic_modify_context,
	.remove_rxfh_context = labnic_remove_context,
	.get_sset_count = labnic_get_sset_count,
	.get_strings = labnic_get_strings,
	.get_ethtool_stats = labnic_get_ethtool_stats,
};
