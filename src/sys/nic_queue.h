/* SPDX-License-Identifier: BSD-3-Clause */
/* The queues of a network interface as the kernel's netdev family shows them: which NAPI instance,
 * interrupt and CPUs serve each, what memory is bound to it, what it has counted; and the page pools
 * that receive queues take their memory from.
 *
 *	struct nic_queue *queues;
 *	size_t count;
 *
 *	ret = nic_queues_read(&queues, &count, "eth1", e);
 *	...
 *	free(queues);
 *
 * Values that the kernel or the driver does not tell are left unknown. Errors: -ENODEV, -ENOTSUP
 * (built without libmnl), -ENOENT (no netdev family: Linux 6.8 has the queues). Thread-safe.
 */
#ifndef WEIR_SYS_NIC_QUEUE_H
#define WEIR_SYS_NIC_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define NIC_COUNT_UNKNOWN UINT64_MAX

struct nic_queue {
	bool tx;
	uint32_t id;
	uint32_t napi;	 /* 0 unknown */
	int irq;	 /* -1 unknown */
	char cpus[64];	 /* the interrupt may go to, "0-3"; empty unknown */
	uint32_t dmabuf; /* id of the device memory bound to it, 0 none */
	bool io_uring;	 /* io_uring's zero-copy receive has it */
	bool xsk;	 /* an AF_XDP socket has it */
	uint64_t packets, bytes, alloc_fail, hw_drops; /* NIC_COUNT_UNKNOWN */
};

/* Receive queues first, each by number. The caller frees the array by free(). */
int nic_queues_read(struct nic_queue **queues, size_t *count, const char *nic, struct err *e);

struct nic_pool {
	uint32_t id;
	uint32_t napi;	 /* 0 unknown */
	uint32_t dmabuf; /* 0: ordinary pages */
	bool detached;	 /* its queue has gone, pages are still out */
	uint64_t inflight, inflight_bytes;
	uint64_t alloc_fast, alloc_slow, alloc_empty, recycled; /* NIC_COUNT_UNKNOWN */
};

/* By id. The caller frees the array by free(). */
int nic_pools_read(struct nic_pool **pools, size_t *count, const char *nic, struct err *e);

#endif
