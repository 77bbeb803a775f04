/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * labnic: two virtual NICs, back to back, that can do what device memory TCP wants from a driver.
 *
 * The wire is a copy made by the receiver. A frame handed to tx.c waits on the queue of the peer
 * that steer.c chose; that queue's NAPI (rx.c) cuts it into packets as a TSO engine would, or leaves
 * them together as hardware GRO would, splits headers from payload and copies the payload into
 * buffers of the queue's page pool (queue.c), which is the bound dma-buf where there is one. Only
 * then is the frame freed: that is its TX completion.
 *
 * Locks: settings change under the device's instance lock or RTNL, as the core calls us. The data
 * path reads them without a lock. peer is RCU. A queue's counters are written by its NAPI alone,
 * its TX counters under the TX queue's lock; readers may see a value that is a packet old.
 */
#ifndef LABNIC_H
#define LABNIC_H

#include <linux/ethtool.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <net/page_pool/types.h>

#define LABNIC_PAIRS_MAX      4
#define LABNIC_QUEUES_MAX     16
#define LABNIC_RING	      256 /* frames, each up to 64 KiB, on their way to a queue */
#define LABNIC_RULES	      64
#define LABNIC_CONTEXTS	      8 /* RSS contexts, the default one included */
#define LABNIC_INDIR	      128
#define LABNIC_KEY_BYTES      40
#define LABNIC_HDS_THRESH_MAX 16384

/* Per queue, in `ethtool -S` as q<queue>_<name>; ethtool.c has the names. */
enum labnic_counter {
	LABNIC_RX_PACKETS,
	LABNIC_RX_BYTES,
	LABNIC_RX_MERGED, /* packets that hardware GRO has put together with others */
	LABNIC_RX_DEVMEM_BYTES, /* payload put into device memory */
	LABNIC_RX_PAGE_BYTES,	/* payload put into ordinary pages of the pool */
	LABNIC_RX_LINEAR_BYTES, /* payload left next to the headers */
	LABNIC_RX_ALLOC_FAIL,
	LABNIC_RX_WIRE_DROP,
	LABNIC_FROM_DEVMEM_BYTES, /* what the wire read from the sender's device memory */
	LABNIC_FROM_OTHER_BYTES,  /* and from anything else of the sender's, headers included */
	LABNIC_RX_COUNTERS,
	LABNIC_TX_PACKETS = LABNIC_RX_COUNTERS,
	LABNIC_TX_BYTES,
	LABNIC_TX_DROP,
	LABNIC_COUNTERS,
};

/* What goes wrong on purpose: parameters of the module, main.c describes them. */
struct labnic_faults {
	unsigned int drop_every;
	unsigned int linear_bytes;
	unsigned int nosplit_every;
	unsigned int mixed_every;
	unsigned int copybreak;
	bool no_unreadable;
	bool no_netmem_tx;
	bool no_gro_hw;
	bool no_dma;
};
extern struct labnic_faults labnic_faults;

struct labnic_queue {
	struct napi_struct napi;
	struct page_pool *pool;	  /* NULL while the device or the queue is down */
	struct sk_buff_head wire; /* frames of the peer, steered here, not yet received */
	struct labnic *nic;
	u16 index;
	u32 data_packets; /* TCP packets with payload: the faults count these */
	u64 counter[LABNIC_COUNTERS];
};

struct labnic_rule {
	struct ethtool_rx_flow_spec flow;
	u32 context; /* RSS context to send to, where flow.flow_type has FLOW_RSS */
};

struct labnic {
	struct net_device *dev;
	struct labnic __rcu *peer; /* NULL while the other one is gone */
	bool split;		   /* tcp-data-split */
	u32 hds_thresh;		   /* packets no longer than this are not split */
	u8 rss_key[LABNIC_KEY_BYTES];
	u32 indir[LABNIC_CONTEXTS][LABNIC_INDIR];
	struct labnic_rule rule[LABNIC_RULES];
	DECLARE_BITMAP(rules, LABNIC_RULES); /* which of rule[] are in force */
	struct labnic_queue queue[LABNIC_QUEUES_MAX];
};

/* Where a frame's headers are and what they say; tcp is false for all that is not TCP over IP. */
struct labnic_headers {
	bool tcp;
	bool ipv6;
	u16 network;		      /* offset of the IP header */
	u16 transport;		      /* offset of the TCP header */
	u16 bytes;		      /* all headers */
	struct in6_addr source, dest; /* an IPv4 address is in the first word */
	__be16 source_port, dest_port;
};

/* steer.c */
void labnic_parse(const struct sk_buff *frame, struct labnic_headers *h);
unsigned int labnic_steer(const struct labnic *nic, const struct labnic_headers *h);
int labnic_rule_get(struct labnic *nic, struct ethtool_rxnfc *nfc, u32 *locations);
int labnic_rule_set(struct labnic *nic, struct ethtool_rxnfc *nfc);

/* tx.c */
netdev_tx_t labnic_xmit(struct sk_buff *skb, struct net_device *dev);
void labnic_tx_wake(struct labnic_queue *queue);

/* rx.c */
int labnic_poll(struct napi_struct *napi, int budget);

/* queue.c */
extern const struct netdev_queue_mgmt_ops labnic_queue_ops;
extern const struct netdev_stat_ops labnic_stat_ops;
int labnic_queues_start(struct labnic *nic);
void labnic_queues_stop(struct labnic *nic);

/* ethtool.c */
extern const struct ethtool_ops labnic_ethtool_ops;

#endif
