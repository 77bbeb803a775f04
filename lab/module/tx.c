// SPDX-License-Identifier: GPL-2.0-only
/* The sending half: a frame is put on the wire to the queue that the peer's steering chooses. */
#include "labnic.h"

/* For a receiver that has made room. To wake too often is harmless: the ring is a soft limit. */
void labnic_tx_wake(struct labnic_queue *queue)
{
	struct labnic *sender;

	rcu_read_lock();
	sender = rcu_dereference(queue->nic->peer);
	if (sender && netif_queue_stopped(sender->dev) &&
		skb_queue_len_lockless(&queue->wire) < LABNIC_RING / 2)
		netif_tx_wake_all_queues(sender->dev);
	rcu_read_unlock();
}

/* All TX queues stop together: any of them may feed the full queue. */
static void labnic_tx_stop_if_full(struct net_device *dev, struct labnic_queue *queue)
{
	if (skb_queue_len_lockless(&queue->wire) < LABNIC_RING)
		return;
	netif_tx_stop_all_queues(dev);
	smp_mb__after_atomic(); /* the receiver may have emptied it before it could see the stop */
	if (skb_queue_len_lockless(&queue->wire) < LABNIC_RING / 2)
		netif_tx_wake_all_queues(dev);
}

netdev_tx_t labnic_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct labnic *nic = netdev_priv(dev), *peer;
	u64 *counter = nic->queue[skb_get_queue_mapping(skb)].counter;
	struct labnic_headers headers;
	struct labnic_queue *queue;

	rcu_read_lock();
	peer = rcu_dereference(nic->peer);
	if (!peer || !netif_running(peer->dev)) {
		dev_kfree_skb_any(skb);
		counter[LABNIC_TX_DROP]++;
		goto unlock;
	}
	labnic_parse(skb, &headers);
	queue = &peer->queue[labnic_steer(peer, &headers)];
	counter[LABNIC_TX_PACKETS] += skb_is_gso(skb) ? skb_shinfo(skb)->gso_segs : 1;
	counter[LABNIC_TX_BYTES] += skb->len;
	skb_tx_timestamp(skb);
	skb_queue_tail(&queue->wire, skb);
	labnic_tx_stop_if_full(dev, queue);
	napi_schedule(&queue->napi);
unlock:
	rcu_read_unlock();
	return NETDEV_TX_OK;
}
