/* SPDX-License-Identifier: BSD-3-Clause */
/* weir's own transport over TCP (see net/transport.h for how it is used).
 *
 *	struct net_tcp_options o = { .interfaces = "eth1,eth2" };
 *	struct net *n;
 *
 *	ret = net_tcp_open(&n, &o, e);
 *	...
 *	n->ops->close(n);
 *
 * A comm is one connection for short messages, which go in the thread that sends and come in the thread
 * that tests, and several for long ones, which helper threads cut into slices: a connection that is free
 * takes the next slice, so that a slow one does not hold the others up. The helpers belong to the
 * transport, are started by its first comm and gone when its last comm is closed.
 */
#ifndef WEIR_NET_TCP_H
#define WEIR_NET_TCP_H

#include "net/transport.h"

/* Between NICs and memory that is not the host's own: through host memory; by the NIC itself where it can, else staged,
 * and why is said; by the NIC or not at all. */
enum net_tcp_path { NET_TCP_STAGED, NET_TCP_AUTO, NET_TCP_DEVMEM };

/* All zero: the defaults. */
struct net_tcp_options {
	const char *
		interfaces; /* as NCCL_SOCKET_IFNAME: "eth,ib" by prefix, "=eth0" exactly, "^docker"
				 * all but; NULL: all that are up, loopback only where nothing else is */
	int connections;    /* for long messages, of one comm; 1..16 */
	int threads;	    /* helpers of the transport */
	bool cuda; /* take memory of GPUs as well: through pinned memory, by the copy engine */
	uint64_t timeout_ns; /* a peer that is silent for so long while it owes an answer to the
				 * network is dead; 20 s */
	uint64_t stall_ns;   /* a request that moves nothing for so long fails; 0: it may wait for
				 * ever, as long as the peer lives */
	/* The NIC's own way to device memory. A NIC is changed when the first comm of the process that receives by
	 * it listens, and put back when the last is closed: sys/nic_plan.h. */
	enum net_tcp_path path;
	struct mem_where device; /* where that memory is: udmabuf, CUDA; MEM_HOST: there is none */
	const char *queues;	 /* of the NIC, "8-11"; NULL: the last quarter */
	size_t pool_bytes;	 /* that packets are received into, on each NIC; 64 MiB */
};

int net_tcp_open(struct net **opened, const struct net_tcp_options *o, struct err *e);

/* Give up all outstanding requests of a comm: when this returns nothing of their data is touched any more,
 * and their memory can be deregistered. What is left of the comm is to close it. */
void net_tcp_abort(struct net_comm *c);

#endif
