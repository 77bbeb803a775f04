/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the TCP transport only (tcp*.c): its objects, who owns what, and which thread may touch it.
 *
 * A comm has one connection for short messages (`first`), driven by the caller's thread, and lanes for
 * long ones, each driven by the worker thread that it was given to. A message is a request in a slot of
 * its comm; messages are numbered, and the number chooses the slot. A lane that is free claims the next
 * slice of the oldest message that has unclaimed bytes; whoever finishes the last slice completes the
 * request. Nothing is allocated after a comm is made.
 *
 * Failing: tcp_comm_fail() is called by whoever sees it, the first one wins. A worker looks at `failed`
 * after it has raised `running`, and test() looks at `running` after it has seen `failed`: so no byte of
 * a request is touched after its test has reported the failure.
 */
#ifndef WEIR_NET_TCP_PARTS_H
#define WEIR_NET_TCP_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/cpus.h"
#include "base/spin.h"
#include "mem/cuda_queue.h"
#include "net/devmem.h"
#include "net/tcp.h"
#include "net/tcp_wire.h"
#include "sys/nic.h"

#define TCP_SLOTS	64	     /* requests of a comm; a power of two */
#define TCP_SLICE_MIN	(128u << 10) /* shorter slices cost more in calls than they gain in balance */
#define TCP_SLICE_MAX	(512u << 10)
#define TCP_STAGE_SLOTS 4 /* slices of one lane between its connection and the GPU */
#define TCP_STAGE_BYTES TCP_SLICE_MAX
#define TCP_SLICE_CUDA                                                                             \
	(256u << 10)		  /* shorter: the copy of one and the sending of another overlap */
#define TCP_TURN_BYTES (1u << 20) /* of one lane, until the worker turns to the next */
#define TCP_INPUT      (2 * ((size_t)TCP_SHORT_BYTES + TCP_HEADER_BYTES))

struct tcp_net;
struct tcp_comm;
struct tcp_lane;
struct tcp_pool;
struct tcp_binding;

struct tcp_device {
	struct nic nic;
	struct sock_addr addr;
	char *pci_path; /* NULL: not a PCI device */
	uint64_t guid;
	/* Below the net's lock: whether the NIC may be able to reach device memory by itself. */
	bool asked, devmem;
	_Atomic(char *)
		reason; /* why bytes are staged though it was wished for; NULL: they are not */
};

/* Memory of one registration. */
struct net_memory {
	char *data; /* as the caller counts; of a dma-buf it may be NULL */
	size_t bytes;
	enum net_memory_kind
		kind; /* NET_CUDA goes through pinned memory, everything else is the host's */
	int dmabuf;   /* a duplicate of the caller's, -1: none */
	char *mapping, *view; /* of a dma-buf that the host reaches: what data stands for */
	size_t mapping_bytes;
	struct tcp_binding *binding; /* the NIC sends from it; NULL: it does not */
	uint64_t binding_offset;     /* of data, or of what it stands for, in the dma-buf */
	atomic_int users;	     /* requests */
	struct net_memory *next, **link;
};

enum tcp_state { TCP_FREE, TCP_WAITING, TCP_DONE };

struct net_request {
	struct tcp_comm *comm;
	char *data;
	size_t room;  /* receive: what fits */
	size_t total; /* the message's length; receive: once begun */
	struct net_memory *memory;
	uint32_t seq;
	_Atomic(enum tcp_state) state;
	_Atomic size_t left; /* bytes that are not through yet */
	/* Below the comm's lock. */
	size_t claimed;
	bool begun; /* receive: total is known */
	uint64_t begun_ns;
	uint32_t slice_bytes;
	struct net_request *next; /* of the long messages, or of the short ones that wait */
	/* The caller's thread. */
	size_t short_done; /* of header and data, on the first connection */
	size_t stall_left; /* as last seen */
	uint64_t stall_since_ns, posted_ns;
};

/* What a lane has under way: a slice of a request. */
struct tcp_piece {
	struct net_request *request;
	struct tcp_header header;
	unsigned char bytes[TCP_HEADER_BYTES]; /* the header on the wire */
	size_t header_done, done;	       /* bytes that went or came */
	char *data;			       /* of this slice: the caller's, or pinned */
};

/* Pinned memory of a lane, where slices wait for the copy from or to the GPU: the oldest is at first.
 * Made when CUDA memory is registered, then the worker's alone. */
struct tcp_stage {
	struct cuda_queue *queue; /* the worker's */
	struct tcp_queue *way;	  /* that queue's */
	struct region pinned;
	struct tcp_stage_slot {
		struct tcp_piece piece;
		struct cuda_mark *mark;
		char *data;
		bool copying; /* not for slices of host memory, which only wait for their turn */
	} slot[TCP_STAGE_SLOTS];
	unsigned int first, count;
};

/* A worker's way to a GPU, or the callers' of short messages. */
struct tcp_queue {
	struct cuda_gpu *gpu;
	struct cuda_queue *queue;
	struct tcp_gather *gather; /* made when the first lane needs it */
	struct tcp_queue *next;
};

/* What a lane has received into a pool, and what becomes of it; made with the comm, then the worker's alone. */
struct tcp_taken {
	struct tcp_pool *pool;
	struct tcp_taken_slot {
		struct devmem_rx devmem; /* the fragments, and what gives them back */
		struct net_request *request;
		size_t bytes;
		cuda_address to; /* memory of a GPU: where they belong, */
		uint64_t batch;	 /* and the launch that brings them there; 0: not even asked for */
	} slot[TCP_STAGE_SLOTS];
	unsigned int first, count;
	struct tcp_gather *gather; /* memory of a GPU: the worker's */
};

/* What the lanes of a worker have received for one GPU since the last launch: one kernel for all of it. Launches are
 * numbered from 1; the worker's alone. */
#define TCP_LAUNCHES 16
struct tcp_gather {
	struct tcp_queue *way;
	struct mem_fragment list[CUDA_QUEUE_FRAGMENTS]; /* offsets and positions are addresses */
	size_t count;
	bool open;  /* something waits for the next launch */
	int broken; /* -errno: the GPU failed */
	struct cuda_mark *mark[TCP_LAUNCHES];
	uint64_t launched, finished;
	struct tcp_gather *next; /* of the worker's open ones */
};

/* Slices that the NIC sends from device memory, until the kernel has let go of them. */
#define TCP_FLYING 16
struct tcp_flying {
	struct tcp_flying_slot {
		struct net_request *request;
		size_t bytes;
		uint32_t first_call, calls, calls_done;
		bool whole; /* all of it was handed to the kernel */
	} slot[TCP_FLYING];
	unsigned int first, count;
	uint32_t calls; /* begun on this connection */
};

struct tcp_lane {
	struct tcp_comm *comm;
	struct tcp_worker *worker;
	int fd, index;
	int header_fd; /* what stands before slices has a connection of its own; -1: it has not */
	struct tcp_taken *taken;   /* receiving: NULL: no pool */
	struct tcp_flying *flying; /* sending: NULL: not from device memory */
	/* The worker's thread. */
	bool ready; /* since the last EAGAIN nothing speaks against trying */
	bool busy;  /* piece is in use */
	bool ended; /* the peer closed this connection, between slices */
	bool queued;
	struct tcp_piece piece;
	unsigned char ahead[TCP_HEADER_BYTES]; /* receive: the next header, come with the payload */
	size_t ahead_done;
	struct tcp_lane *next;
	uint64_t held_since_ns;	 /* socket full, or no receive posted */
	struct tcp_stage *stage; /* NULL: no CUDA memory is registered */
	uint64_t copying_since_ns;
	uint32_t waits_for; /* below the comm's lock: the message that no receive is posted for */
	/* Below the worker's lock. */
	bool kicked;
	struct tcp_lane *next_kicked;
	bool leaving, left;
	_Atomic uint64_t slices, full_ns, no_receive_ns, staging_ns;
	_Atomic uint64_t device_bytes, linear_bytes, plain_bytes;
};

struct tcp_comm {
	struct tcp_net *net;
	int dev;
	bool sends;
	struct tcp_pool *pool; /* receiving: what the NIC puts payload into; NULL: none */
	_Atomic bool binds;    /* sending: some memory is bound to the NIC */
	bool to_device; /* sending: short messages, too, go where the receiver's NIC puts them */
	int first;	/* the connection for short messages */
	char peer[SOCK_ADDR_TEXT];
	int lanes;
	struct tcp_lane lane[TCP_LANES_MAX];

	_Atomic int failed;	   /* 0 or a positive errno */
	_Atomic int running;	   /* workers that are at it, and copies from or to a GPU */
	_Atomic bool rested;	   /* since it failed there was a moment with none running */
	_Atomic uint64_t ended_ns; /* when the peer closed one of its connections, 0 none */
	_Atomic int ended_lanes;   /* of which all was read */
	_Atomic uint64_t all_ended_ns;

	pthread_mutex_t lock;
	struct err error;		     /* why it failed */
	uint32_t posted;		     /* number of the next request */
	struct net_request *oldest, *newest; /* sending: long messages with unclaimed bytes */
	uint32_t waiting_lanes;	   /* sending: nothing to claim; receiving: no receive posted */
	struct net_memory *memory; /* registrations */
	struct cuda_gpu *gpu;	   /* of the CUDA memory among them; borrowed from the queues */
	struct net_request request[TCP_SLOTS];

	/* The caller's thread. */
	struct net_request *short_oldest, *short_newest; /* sending: not taken by the socket yet */
	char *input;					 /* receiving: of the first connection */
	size_t input_have, input_used;
	bool first_ended; /* the peer will send no more than last_seq messages */
	uint32_t last_seq;
	uint64_t messages, bytes, starved_ns, last_done_ns;
	struct region short_pinned; /* receiving: one short message on its way to a GPU */
	struct cuda_mark *short_mark;
};

struct tcp_worker {
	struct tcp_net *net;
	pthread_t thread;
	int epoll, bell;
	struct spin spin;
	struct tcp_lane *run, **run_end; /* lanes that may be able to do something */
	atomic_bool asleep;
	pthread_mutex_t lock;
	pthread_cond_t left; /* a lane has */
	struct tcp_lane *kicked;
	bool stop;
	struct tcp_queue *queues;   /* below the net's lock */
	struct tcp_gather *gathers; /* open ones */
};

struct tcp_attempt;

struct tcp_net {
	struct net base;
	struct net_tcp_options options;
	struct tcp_device *device;
	char ignored[256];	 /* interfaces that are up and lead nowhere */
	struct sock_addr *local; /* all addresses of this host */
	size_t locals;
	/* wait() */
	int waiting, bell; /* epoll and eventfd */
	atomic_int waiters;

	pthread_mutex_t lock;
	int comms;
	struct tcp_worker *worker;
	int workers;
	unsigned int next_sender, next_receiver; /* worker for the next lane */
	struct tcp_attempt *attempts;
	struct tcp_queue *queues;   /* for short messages */
	pthread_mutex_t short_lock; /* whoever uses those */
	char *queue_list;	    /* of options */
	char gpu[32];		    /* of options */
};

/* tcp_device.c: the devices that options.interfaces asks for. */
int tcp_devices_find(struct tcp_net *n, struct err *e);
void tcp_devices_free(struct tcp_net *n);
int tcp_device_properties(struct net *n, int dev, struct net_properties *p, struct err *e);
bool tcp_is_local(const struct tcp_net *n, const struct sock_addr *addr);

/* tcp_connect.c */
int tcp_listen(struct net *net, int dev, unsigned char handle[NET_HANDLE_BYTES],
	struct net_listener **opened, struct err *e);
int tcp_connect(struct net *net, int dev, unsigned char handle[NET_HANDLE_BYTES],
	struct net_comm **connected, struct err *e);
int tcp_accept(struct net_listener *l, struct net_comm **accepted, struct err *e);
void tcp_close_listener(struct net_listener *l);
/* Give up connects that nobody asks for any more; all of them when the net closes. */
void tcp_attempts_drop(struct tcp_net *n, bool all);

/* tcp_comm.c: what a comm is made of, fd as tcp_hello.index says. Takes descriptors and pool over, also on failure. */
struct tcp_comm_parts {
	int dev, lanes;
	bool sends, apart;
	bool device;	/* sending: perhaps from device memory */
	bool to_device; /* sending: the receiver has a pool */
	const int *fd;
	struct tcp_pool *pool; /* NULL: none */
};
int tcp_comm_open(struct tcp_comm **opened, struct tcp_net *n, const struct tcp_comm_parts *parts,
	struct err *e);
static inline int tcp_fd_count(int lanes, bool apart)
{
	return 1 + lanes * (apart ? 2 : 1);
}
void tcp_comm_close(struct net_comm *c);
/* Words about what ends a comm; the first call counts. Any thread. */
void tcp_comm_fail(struct tcp_comm *c, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The peer closes one of its connections. */
void tcp_comm_closing(struct tcp_comm *c);
/* The error of a comm, once nobody touches its requests any more; 0 before that. */
int tcp_comm_failure(struct tcp_comm *c, struct err *e);
int tcp_isend(struct net_comm *c, const void *data, size_t bytes, struct net_memory *m,
	struct net_request **r, struct err *e);
int tcp_irecv(struct net_comm *c, void *data, size_t bytes, struct net_memory *m,
	struct net_request **r, struct err *e);
int tcp_iflush(struct net_comm *c, void *data, size_t bytes, struct net_memory *m,
	struct net_request **r, struct err *e);
int tcp_test(struct net_comm *c, struct net_request *r, bool *done, size_t *bytes, struct err *e);
void tcp_stats(struct net_comm *c, struct net_stats *s);

/* tcp_memory.c: registrations. */
int tcp_reg(struct net_comm *comm, void *data, size_t bytes, enum net_memory_kind kind,
	struct net_memory **registered, struct err *e);
int tcp_reg_dmabuf(struct net_comm *comm, void *data, size_t bytes, enum net_memory_kind kind,
	uint64_t offset, int fd, struct net_memory **registered, struct err *e);
int tcp_dereg(struct net_comm *c, struct net_memory *m, struct err *e);
void tcp_memory_free(struct tcp_comm *c); /* all of a comm */
/* A dma-buf that the host reaches: where its byte is, and what the kernel wants to know before and after. */
char *tcp_memory_begin(struct net_memory *m, const char *data);
void tcp_memory_end(struct net_memory *m);

/* tcp_short.c: the first connection. Both are called by the caller's thread alone. */
void tcp_short_send(struct tcp_comm *c);
void tcp_short_receive(struct tcp_comm *c);
void tcp_short_queue(struct tcp_comm *c, struct net_request *r);

/* tcp_lane.c: do what can be done without waiting. True: there may be more to do at once. */
bool tcp_lane_run(struct tcp_lane *l);
/* All bytes of a part are through: completes the request when they were the last. */
void tcp_request_through(struct net_request *r, size_t bytes);
/* Receiving, below the comm's lock: the request for a header. 0 with *found NULL: not posted yet; -errno: it
 * cannot be received, and the comm must fail. */
int tcp_request_find(
	struct tcp_comm *c, const struct tcp_header *h, struct net_request **found, struct err *e);

/* tcp_stage.c: memory of a GPU. Prepare: in reg(), so that nothing is made while data flows. */
int tcp_stage_prepare(struct tcp_comm *c, void *data, struct err *e);
int tcp_stage_prepare_on(struct tcp_comm *c, const char *which, struct err *e);
void tcp_stage_free(struct tcp_comm *c);
void tcp_queues_free(struct tcp_queue **queues);
bool tcp_stage_full(const struct tcp_stage *s);
/* Start the copy of the newest slot, from or to the GPU; 0 or -errno. */
int tcp_stage_copy(struct tcp_lane *l, struct tcp_stage_slot *slot, bool to_gpu, struct err *e);
/* Whether the oldest slot's copy is done; -errno when it failed. */
int tcp_stage_done(struct tcp_lane *l, struct err *e);
/* The copy of a short message, waited for: it takes some microseconds, and rarely happens. */
int tcp_stage_short(struct tcp_comm *c, char *to, const void *from, size_t bytes, struct err *e);

/* tcp_pool.c: memory that NICs receive into, and memory that they send from. */
/* Whether device memory is wished for and the device may be able to; where it is not, its reason says why. -errno only
 * where there must be no other way. */
int tcp_pool_wanted(struct tcp_net *n, int dev, bool *wanted, struct err *e);
/* The pool of a device, made when nobody of the process has it yet. 0 with *pool NULL: the way is staged, and the
 * device's reason says why. */
int tcp_pool_get(struct tcp_net *n, int dev, struct tcp_pool **pool, struct err *e);
void tcp_pool_keep(struct tcp_pool *p); /* one more user */
void tcp_pool_put(struct tcp_pool *p);	/* after its connections are closed */
/* What comes on these connections goes to the pool from now on. */
int tcp_pool_steer(struct tcp_pool *p, const int *fd, int count, struct err *e);
struct region *tcp_pool_memory(struct tcp_pool *p);
uint32_t tcp_pool_id(const struct tcp_pool *p);
/* Bind registered memory of a comm to its NIC, where that is wished for: a dma-buf, or, with fd -1, memory of a GPU, which
 * is exported for it. 0 without a binding: as tcp_pool_get(). */
int tcp_binding_get(
	struct tcp_comm *c, struct net_memory *m, int fd, uint64_t offset, struct err *e);
void tcp_binding_put(struct net_memory *m);
uint32_t tcp_binding_id(const struct net_memory *m);

/* tcp_devmem.c: payload of a lane by the NIC itself. */
int tcp_taken_open(struct tcp_lane *l, struct tcp_pool *pool, struct err *e);
void tcp_taken_close(struct tcp_lane *l);
bool tcp_taken_full(const struct tcp_lane *l);
/* Receive of the slice that is under way. Bytes, as recv() with its errno. What is in its place is through. */
ssize_t tcp_taken_receive(struct tcp_lane *l);
/* Gathers that have ended: their fragments go back, their bytes are through. -errno with words. */
int tcp_taken_reap(struct tcp_lane *l, struct err *e);
/* After a failure: true while the GPU still writes. */
bool tcp_taken_drain(struct tcp_lane *l);
/* The lane leaves its worker, in whose thread this is: wait for the GPU. */
void tcp_taken_leave(struct tcp_lane *l);
/* The end of a worker's turn: launch what its lanes have received. */
void tcp_gathers_launch(struct tcp_worker *w);
void tcp_gather_close(struct tcp_gather *g);
/* A slice, begun and continued; bytes, as send(). */
bool tcp_flying_full(const struct tcp_lane *l);
ssize_t tcp_flying_send(struct tcp_lane *l);
/* What the kernel has let go of is through; -errno: the connection broke. */
int tcp_flying_reap(struct tcp_lane *l);

/* tcp_worker.c */
int tcp_workers_start(struct tcp_net *n, int dev, struct err *e);
void tcp_workers_stop(struct tcp_net *n);
int tcp_worker_add(struct tcp_lane *l, struct err *e);
/* The lane is the worker's no more when this returns. */
void tcp_worker_remove(struct tcp_lane *l);
/* Any thread: make the worker look at the lane. */
void tcp_worker_kick(struct tcp_lane *l);

/* Something happened that a wait() may be for. Any thread. */
void tcp_net_ring(struct tcp_net *n);

#endif
