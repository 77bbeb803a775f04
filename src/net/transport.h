/* SPDX-License-Identifier: BSD-3-Clause */
/* A transport: messages between registered memory of two processes, without waiting. weir's own runs
 * over TCP (net/tcp.h); any net plugin made for NCCL is the other kind (net/plugin.h). The shape is that
 * of NCCL's net API, because that is what both have to fit.
 *
 *	unsigned char handle[NET_HANDLE_BYTES];
 *
 *	receiver: n->ops->listen(n, dev, handle, &listener, e);	then give handle to the sender, somehow
 *		  do ret = n->ops->accept(listener, &comm, e); while (!ret && !comm);
 *	sender:   do ret = n->ops->connect(n, dev, handle, &comm, e); while (!ret && !comm);
 *
 *	both:	  n->ops->reg(comm, data, bytes, NET_HOST, &memory, e);
 *	receiver: n->ops->irecv(comm, data, bytes, memory, &request, e);
 *	sender:   n->ops->isend(comm, data, bytes, memory, &request, e);
 *	both:	  do ret = n->ops->test(comm, request, &done, &got, e); while (!ret && !done);
 *		  n->ops->dereg(comm, memory, e);
 *		  n->ops->close_comm(comm);
 *
 * A comm goes one way: who connects sends, who accepts receives. Messages arrive in the order in which
 * they were sent; the k-th message goes to the k-th receive that was posted.
 *
 * Nothing here blocks but wait(). "Not yet" is success with *comm, *request or *done left empty: call
 * again, for connect() with the very same handle bytes, in which a connect in progress is remembered.
 *
 * Progress: some transports move bytes only while test() is called, some also in between. So test
 * often, in turn over all comms; call wait() when a whole turn brought nothing.
 *
 * Errors: 0 or -errno, and words in e (which may be NULL). An error of isend, irecv or test is the end
 * of the comm: every outstanding request of it fails when it is tested, within the bound that the
 * transport was opened with, and all that is left is dereg and close_comm. -ECONNRESET and -EPIPE:
 * the peer is gone; -ETIMEDOUT: it does not answer; -EMSGSIZE: it sent more than the receive has room
 * for; -EPROTO: it does not speak this protocol; -EIO: a plugin failed and did not say why.
 *
 * Ownership: data belongs to the caller, and to the transport from isend or irecv until test says
 * done or fails. A request is gone when its test has said done or failed. Close all comms and
 * listeners before the transport; requests that are outstanding when a comm is closed are dropped.
 *
 * Threads: different comms may be used by different threads at the same time. One comm: isend,
 * irecv, iflush, test by one thread at a time; reg and dereg may run beside them in another.
 * listen, connect, accept, properties, close_*: any thread.
 */
#ifndef WEIR_NET_TRANSPORT_H
#define WEIR_NET_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "mem/region.h"

#define NET_HANDLE_BYTES 128
#define NET_MESSAGE_MAX	 ((size_t)1 << 30)
#define NET_REQUESTS	 32 /* outstanding on one comm; at least so many always fit */

/* Where registered memory is; also bits of net_properties.memory. ABI: NCCL's values. */
enum net_memory_kind { NET_HOST = 1, NET_CUDA = 2, NET_DMABUF = 4 };

struct net_ops;
struct net_listener;
struct net_comm;
struct net_memory;
struct net_request;

/* An opened transport: the first member of the implementation's own struct. */
struct net {
	const struct net_ops *ops;
	int devices; /* NICs to choose from, at least one */
	const char
		*ignored; /* words about NICs that were asked for and cannot be used; NULL: none */
};

/* A device of a transport. Strings live as long as the transport. */
struct net_properties {
	const char *name;     /* "eth1" */
	const char *pci_path; /* below /sys, NULL: not a PCI device */
	uint64_t guid;	      /* tells devices of a host apart */
	int memory;	      /* kinds that reg() takes: NET_HOST | ... */
	int speed_mbps;	      /* of one direction */
	int port;
	float latency_us; /* 0: not known */
	int max_comms;
	int requests;	      /* that may be outstanding on one comm */
	size_t message_bytes; /* the longest message */
	bool unpacks;	      /* received data lies in fragments until the caller has gathered it */
};

/* Which way bytes go between a NIC and memory that is not ordinary memory of the host. */
enum net_path {
	NET_PATH_HOST,	 /* it is */
	NET_PATH_DEVMEM, /* the NIC reads and writes it */
	NET_PATH_STAGED, /* the kernel copies, and for a GPU the copy engine */
};

/* What a comm has done so far, and what held it up. Times add up over the comm's connections, and
 * begin and end when a message is begun and done: an idle comm waits for nothing. */
struct net_stats {
	uint64_t messages, bytes;
	uint64_t slices;	    /* pieces that went over one connection each */
	int connections;	    /* that carry long messages */
	uint64_t socket_full_ns;    /* sending: the connection took no more */
	uint64_t no_receive_ns;	    /* receiving: data was there, no receive was posted */
	uint64_t starved_ns;	    /* receiving: a receive was posted, no data was there */
	uint64_t unacknowledged_ns; /* sending: all sent, not yet taken (0: nobody asks) */
	uint64_t staging_ns;	    /* waited for the copy between GPU and pinned memory */
	enum net_path path;
	const char
		*reason; /* why it is not devmem, which was wished for; NULL: it was not, or is */
	/* Payload between the NIC and device memory; and what came as ordinary bytes where device memory was
	 * meant to: with the headers (header split missed it), or by another queue (steering did). */
	uint64_t device_bytes, linear_bytes, plain_bytes;
};

/* A received message that lies in fragments. */
struct net_fragments {
	enum net_memory_kind kind;	 /* of the memory that they lie in */
	const char *pool;		 /* what region_offset counts from */
	const struct mem_fragment *list; /* stream_position: in the message */
	size_t count;			 /* 0: the message is in its place */
};

struct net_ops {
	const char *name; /* "tcp", or the plugin's own */

	void (*close)(struct net *n);
	/* dev: 0 .. devices - 1. */
	int (*properties)(struct net *n, int dev, struct net_properties *p, struct err *e);

	int (*listen)(struct net *n, int dev, unsigned char handle[NET_HANDLE_BYTES],
		struct net_listener **l, struct err *e);
	int (*connect)(struct net *n, int dev, unsigned char handle[NET_HANDLE_BYTES],
		struct net_comm **c, struct err *e);
	/* One listener may be accepted from more than once: once for each connect() with its handle. */
	int (*accept)(struct net_listener *l, struct net_comm **c, struct err *e);
	void (*close_listener)(struct net_listener *l);
	void (*close_comm)(struct net_comm *c);

	/* Memory is registered with the comm that uses it, any part of it may then be sent or received
	 * into. -EOPNOTSUPP for a kind that the device cannot use. dereg: -EBUSY while a request uses
	 * it. reg_dmabuf may be NULL; the descriptor stays the caller's, who may close it at once. kind
	 * NET_CUDA: data is its address in the GPU; NET_DMABUF: memory that the host can map, and data is what
	 * the caller counts from, NULL for offsets. */
	int (*reg)(struct net_comm *c, void *data, size_t bytes, enum net_memory_kind kind,
		struct net_memory **m, struct err *e);
	int (*reg_dmabuf)(struct net_comm *c, void *data, size_t bytes, enum net_memory_kind kind,
		uint64_t offset, int fd, struct net_memory **m, struct err *e);
	int (*dereg)(struct net_comm *c, struct net_memory *m, struct err *e);

	/* *r NULL: no room now, test what is outstanding and call again. A message may be 0 bytes
	 * long and shorter than the receive it goes to. */
	int (*isend)(struct net_comm *c, const void *data, size_t bytes, struct net_memory *m,
		struct net_request **r, struct err *e);
	int (*irecv)(struct net_comm *c, void *data, size_t bytes, struct net_memory *m,
		struct net_request **r, struct err *e);
	/* Make what a finished receive brought visible to the GPU. *r NULL: it is already. */
	int (*iflush)(struct net_comm *c, void *data, size_t bytes, struct net_memory *m,
		struct net_request **r, struct err *e);
	/* Test requests of a comm in the order in which they were posted: the oldest first. done: the
	 * send's data may be changed, the receive's is there and *bytes long (may be NULL). */
	int (*test)(struct net_comm *c, struct net_request *r, bool *done, size_t *bytes,
		struct err *e);
	/* Where unpacks is set, after test said done: where the message lies. The list is good until the next
	 * call for this comm, what it points to until consumed(). May be NULL. */
	int (*fragments)(
		struct net_comm *c, struct net_request *r, struct net_fragments *f, struct err *e);
	/* Where unpacks is set: the fragments of a received message have been gathered. Called once for
	 * each receive, in order, after test said done; until then the request is not gone. May be NULL. */
	int (*consumed)(struct net_comm *c, struct net_request *r, struct err *e);

	/* Sleep until something may have happened on any comm of this transport, or fd (-1: none) can be
	 * read, at most timeout_ns. For a caller whose last turn over all its comms brought nothing. */
	void (*wait)(struct net *n, int fd, uint64_t timeout_ns);

	/* May be NULL. */
	void (*stats)(struct net_comm *c, struct net_stats *s);
};

#endif
