/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's own numbers that are newer than the headers of the distribution weir is built on.
 *
 * Each is part of the kernel's stable interface and never changes. Names start with UAPI_, so that
 * they do not clash once the distribution's headers have caught up.
 */
#ifndef WEIR_SYS_UAPI_H
#define WEIR_SYS_UAPI_H

#include <stdint.h>

/* Generic netlink family "netdev" (Linux 6.3; queues 6.8; device memory receive 6.12, send 6.16).
 */
#define UAPI_NETDEV_FAMILY "netdev"

enum {
	UAPI_NETDEV_PAGE_POOL_GET = 5,
	UAPI_NETDEV_PAGE_POOL_STATS_GET = 9,
	UAPI_NETDEV_QUEUE_GET = 10,
	UAPI_NETDEV_NAPI_GET = 11,
	UAPI_NETDEV_QSTATS_GET = 12,
	UAPI_NETDEV_BIND_RX = 13,
	UAPI_NETDEV_BIND_TX = 15,
};

enum { UAPI_QUEUE_TYPE_RX = 0, UAPI_QUEUE_TYPE_TX = 1 };

enum {
	UAPI_DMABUF_IFINDEX = 1,
	UAPI_DMABUF_QUEUES = 2, /* nests of UAPI_QUEUE_ID and UAPI_QUEUE_TYPE, repeated */
	UAPI_DMABUF_FD = 3,
	UAPI_DMABUF_ID = 4,
};

enum {
	UAPI_QUEUE_ID = 1,
	UAPI_QUEUE_IFINDEX = 2,
	UAPI_QUEUE_TYPE = 3,
	UAPI_QUEUE_NAPI_ID = 4,
	UAPI_QUEUE_DMABUF = 5,
	UAPI_QUEUE_IO_URING = 6,
	UAPI_QUEUE_XSK = 7,
};

enum { UAPI_NAPI_ID = 2, UAPI_NAPI_IRQ = 3 };

enum {
	UAPI_PAGE_POOL_ID = 1,
	UAPI_PAGE_POOL_IFINDEX = 2,
	UAPI_PAGE_POOL_NAPI_ID = 3,
	UAPI_PAGE_POOL_INFLIGHT = 4,
	UAPI_PAGE_POOL_INFLIGHT_MEM = 5,
	UAPI_PAGE_POOL_DETACH_TIME = 6,
	UAPI_PAGE_POOL_DMABUF = 7,
};

enum {
	UAPI_PAGE_POOL_STATS_INFO = 1, /* a nest with UAPI_PAGE_POOL_ID */
	UAPI_PAGE_POOL_STATS_ALLOC_FAST = 8,
	UAPI_PAGE_POOL_STATS_ALLOC_SLOW = 9,
	UAPI_PAGE_POOL_STATS_ALLOC_EMPTY = 11,
	UAPI_PAGE_POOL_STATS_RECYCLE_CACHED = 14,
	UAPI_PAGE_POOL_STATS_RECYCLE_RING = 16,
};

enum {
	UAPI_QSTATS_IFINDEX = 1,
	UAPI_QSTATS_QUEUE_TYPE = 2,
	UAPI_QSTATS_QUEUE_ID = 3,
	UAPI_QSTATS_SCOPE = 4, /* 1: a message for each queue */
	UAPI_QSTATS_RX_PACKETS = 8,
	UAPI_QSTATS_RX_BYTES = 9,
	UAPI_QSTATS_TX_PACKETS = 10,
	UAPI_QSTATS_TX_BYTES = 11,
	UAPI_QSTATS_RX_ALLOC_FAIL = 12,
	UAPI_QSTATS_RX_HW_DROPS = 13,
};

/* Attributes of the rings in the family "ethtool" (Linux 6.14). */
enum { UAPI_RINGS_HDS_THRESH = 17, UAPI_RINGS_HDS_THRESH_MAX = 18 };

/* Sockets (Linux 6.12; sending 6.16). */
#define UAPI_SO_DEVMEM_LINEAR	78 /* also the type of the control message */
#define UAPI_SO_DEVMEM_DMABUF	79
#define UAPI_SO_DEVMEM_DONTNEED 80
#define UAPI_MSG_SOCK_DEVMEM	0x2000000

/* The control message of a received fragment. */
struct uapi_dmabuf_cmsg {
	uint64_t frag_offset; /* in the dma-buf */
	uint32_t frag_size;
	uint32_t frag_token; /* for UAPI_SO_DEVMEM_DONTNEED */
	uint32_t dmabuf_id;
	uint32_t flags;
};

/* One run of fragments given back. */
struct uapi_dmabuf_token {
	uint32_t token_start;
	uint32_t token_count;
};
#define UAPI_DONTNEED_TOKENS_MAX 128
#define UAPI_DONTNEED_FRAGS_MAX	 1024

#endif
