// SPDX-License-Identifier: GPL-2.0-only
/* The module, its parameters, and the life of the NICs. */
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/rtnetlink.h>

#include "labnic.h"

static unsigned int queues = 4;
module_param(queues, uint, 0444);
MODULE_PARM_DESC(queues, "queues of each NIC, 1 to 16 (4)");
static unsigned int pairs = 1;
module_param(pairs, uint, 0444);
MODULE_PARM_DESC(pairs, "pairs of NICs, each back to back, 1 to 4 (1)");

struct labnic_faults labnic_faults;
#define LABNIC_FAULT(name, type, mode, text)                                                       \
	module_param_named(name, labnic_faults.name, type, mode);                                  \
	MODULE_PARM_DESC(name, text)

LABNIC_FAULT(drop_every, uint, 0644, "lose every n-th TCP data packet");
LABNIC_FAULT(
	linear_bytes, uint, 0644, "imprecise split: leave n bytes of payload with the headers");
LABNIC_FAULT(nosplit_every, uint, 0644, "do not split every n-th TCP data packet");
LABNIC_FAULT(
	mixed_every, uint, 0644, "broken split: half of every n-th payload in ordinary memory");
LABNIC_FAULT(copybreak, uint, 0644, "do not split packets with at most n bytes of payload");
LABNIC_FAULT(no_unreadable, bool, 0644, "pools without unreadable memory: bind-rx must fail");
LABNIC_FAULT(no_netmem_tx, bool, 0444, "no device memory TX: bind-tx must fail");
LABNIC_FAULT(no_gro_hw, bool, 0444, "no hardware GRO");
LABNIC_FAULT(no_dma, bool, 0644, "no DMA device: bind-rx must fail (not on 6.12)");

static struct platform_device *labnic_device[2 * LABNIC_PAIRS_MAX];
static struct labnic *labnic_port[2 * LABNIC_PAIRS_MAX]; /* RTNL */

/* The link is up when both ends are, as with a cable. */
static void labnic_update_carrier(struct labnic *nic)
{
	struct labnic *peer = rtnl_dereference(nic->peer);

	if (peer && netif_running(nic->dev) && netif_running(peer->dev)) {
		netif_carrier_on(nic->dev);
		netif_carrier_on(peer->dev);
		netif_tx_wake_all_queues(peer->dev); /* we may have gone down while full */
		return;
	}
	netif_carrier_off(nic->dev);
	if (peer)
		netif_carrier_off(peer->dev);
}

static int labnic_open(struct net_device *dev)
{
	struct labnic *nic = netdev_priv(dev);
	int err;

	err = labnic_queues_start(nic);
	if (err)
		return err;
	netif_tx_start_all_queues(dev);
	labnic_update_carrier(nic);
	return 0;
}

static int labnic_stop(struct net_device *dev)
{
	struct labnic *nic = netdev_priv(dev);

	labnic_update_carrier(nic);
	netif_tx_disable(dev);
	labnic_queues_stop(nic);
	return 0;
}

static void labnic_get_stats64(struct net_device *dev, struct rtnl_link_stats64 *total)
{
	const struct labnic *nic = netdev_priv(dev);
	int i;

	for (i = 0; i < dev->real_num_rx_queues; i++) {
		const u64 *counter = nic->queue[i].counter;

		total->rx_packets += counter[LABNIC_RX_PACKETS];
		total->rx_bytes += counter[LABNIC_RX_BYTES];
		total->rx_dropped += counter[LABNIC_RX_ALLOC_FAIL];
		total->rx_missed_errors += counter[LABNIC_RX_WIRE_DROP];
		total->tx_packets += counter[LABNIC_TX_PACKETS];
		total->tx_bytes += counter[LABNIC_TX_BYTES];
		total->tx_dropped += counter[LABNIC_TX_DROP];
	}
}

static const struct net_device_ops labnic_netdev_ops = {
	.ndo_open = labnic_open,
	.ndo_stop = labnic_stop,
	.ndo_start_xmit = labnic_xmit,
	.ndo_get_stats64 = labnic_get_stats64,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

static void labnic_setup(struct net_device *dev)
{
	strscpy(dev->name, "lab%d");
	eth_hw_addr_random(dev);
	dev->netdev_ops = &labnic_netdev_ops;
	dev->ethtool_ops = &labnic_ethtool_ops;
	dev->queue_mgmt_ops = &labnic_queue_ops;
	dev->stat_ops = &labnic_stat_ops;
#ifdef LABNIC_HAS_NETMEM_TX
	dev->netmem_tx = !labnic_faults.no_netmem_tx; /* true, or NETMEM_TX_DMA */
#endif
	dev->features = NETIF_F_SG | NETIF_F_HW_CSUM | NETIF_F_TSO | NETIF_F_TSO6 | NETIF_F_RXCSUM |
			NETIF_F_GRO | NETIF_F_HIGHDMA | NETIF_F_NTUPLE;
	dev->hw_features = dev->features;
	if (!labnic_faults.no_gro_hw)
		dev->hw_features |= NETIF_F_GRO_HW; /* off until it is asked for, as with most drivers */
	dev->min_mtu = 256;
	dev->max_mtu = 9216;
}

static void labnic_init_queues(struct labnic *nic)
{
	int i;

	for (i = 0; i < LABNIC_INDIR; i++)
		nic->indir[0][i] = i % queues;
	for (i = 0; i < queues; i++) {
		nic->queue[i].nic = nic;
		nic->queue[i].index = i;
		skb_queue_head_init(&nic->queue[i].wire);
		netif_napi_add(nic->dev, &nic->queue[i].napi, labnic_poll);
	}
}

static void labnic_join(struct labnic *nic, int id)
{
	struct labnic *peer;

	rtnl_lock();
	labnic_port[id] = nic;
	peer = labnic_port[id ^ 1];
	if (peer) {
		rcu_assign_pointer(nic->peer, peer);
		rcu_assign_pointer(peer->peer, nic);
	}
	labnic_update_carrier(nic);
	rtnl_unlock();
}

static void labnic_part(struct labnic *nic, int id)
{
	struct labnic *peer;

	rtnl_lock();
	labnic_port[id] = NULL;
	peer = rtnl_dereference(nic->peer);
	RCU_INIT_POINTER(nic->peer, NULL);
	if (peer) {
		RCU_INIT_POINTER(peer->peer, NULL);
		netif_carrier_off(peer->dev);
	}
	rtnl_unlock();
	synchronize_net();
}

static int labnic_probe(struct platform_device *pdev)
{
	struct net_device *dev;
	struct labnic *nic;
	int err;

	dev = alloc_etherdev_mqs(sizeof(*nic), queues, queues);
	if (!dev)
		return -ENOMEM;
	SET_NETDEV_DEV(dev, &pdev->dev);
	nic = netdev_priv(dev);
	nic->dev = dev;
	labnic_setup(dev);
	labnic_init_queues(nic);
	netif_carrier_off(dev);
	err = register_netdev(dev);
	if (err) {
		free_netdev(dev);
		return err;
	}
	platform_set_drvdata(pdev, nic);
	labnic_join(nic, pdev->id);
	return 0;
}

static void labnic_remove(struct platform_device *pdev)
{
	struct labnic *nic = platform_get_drvdata(pdev);

	labnic_part(nic, pdev->id);
	unregister_netdev(nic->dev);
	free_netdev(nic->dev);
}

static struct platform_driver labnic_driver = {
	.driver.name = "labnic",
	.probe = labnic_probe,
	.remove = labnic_remove,
};

static int labnic_add_device(int id)
{
	struct platform_device_info info = {
		.name = "labnic",
		.id = id,
		.dma_mask = DMA_BIT_MASK(64),
	};
	struct platform_device *pdev = platform_device_register_full(&info);

	if (IS_ERR(pdev))
		return PTR_ERR(pdev);
	labnic_device[id] = pdev;
	return platform_get_drvdata(pdev) ? 0 : -ENODEV; /* else the probe failed and said why */
}

static void labnic_remove_devices(void)
{
	int i;

	for (i = 0; i < 2 * pairs; i++)
		platform_device_unregister(labnic_device[i]); /* takes NULL */
	platform_driver_unregister(&labnic_driver);
}

static int __init labnic_init(void)
{
	int i, err;

	queues = clamp_t(unsigned int, queues, 1, LABNIC_QUEUES_MAX);
	pairs = clamp_t(unsigned int, pairs, 1, LABNIC_PAIRS_MAX);
	err = platform_driver_register(&labnic_driver);
	for (i = 0; !err && i < 2 * pairs; i++) {
		err = labnic_add_device(i);
		if (err)
			labnic_remove_devices();
	}
	return err;
}

module_init(labnic_init);
module_exit(labnic_remove_devices);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("virtual NICs, back to back, with device memory TCP");
