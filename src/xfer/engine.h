/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside xfer/: what an engine, a connection and a transfer are. The contract is weir/p2p.h.
 *
 *	engine.c	the engine: open, listen, progress, sleep, its thread
 *	conn.c		a connection from the first byte to READY, and its end
 *	frames.c	what the peer says once it is READY
 *	move.c		chunks: posted, tested; what is announced
 *	receive.c	chunks: dealt, granted, posted, tested, unpacked (unpack.c)
 *	stats.c		windows and stalls
 *	p2p.c		the public functions
 *	devices.c	which NICs the channels use
 *	transports.c	what moves the chunks
 *
 * All of it runs under the engine's lock, where it has a thread; otherwise in the caller's.
 */
#ifndef WEIR_XFER_ENGINE_H
#define WEIR_XFER_ENGINE_H

#include <pthread.h>
#include <stdbool.h>

#include "base/spin.h"
#include "net/sock.h"
#include "net/transport.h"
#include "weir/p2p.h"
#include "xfer/link.h"
#include "xfer/regions.h"
#include "xfer/unpack.h"
#include "xfer/window.h"

#define TRANSFERS     256		/* of this end, on one connection */
#define SERVED	      (2 * XFER_CREDIT) /* of the peer: writes and reads */
#define OFFERS	      ((size_t)WAYS * XFER_CREDIT)
#define GRANTS	      256 /* in one frame */
#define CONNS_PENDING 64  /* of strangers, not READY yet */
#define DEVICES_MAX   32
#define ID_READ	      (1ull << 63) /* ids of reads and of offers never meet */

/* What waits for its turn on the control connection, and the offers that are open: apart, so that messages
 * which nobody receives hold up nothing else. */
enum way { WAY_MESSAGE, WAY_ONE_SIDED, WAY_ANSWER, WAYS };

enum role {
	ROLE_FREE,
	ROLE_SEND,
	ROLE_RECV,
	ROLE_WRITE,
	ROLE_READ,
	ROLE_TAKE_WRITE, /* the peer writes here */
	ROLE_SERVE_READ, /* the peer reads here */
};

struct weir_p2p_transfer {
	struct weir_p2p_conn *conn;
	struct weir_p2p_transfer *next; /* in one queue at a time */
	enum role role;
	int result; /* 0 under way, 1 done, -errno */
	struct weir_p2p_region *region;
	uint64_t offset, bytes;
	uint64_t key, remote_offset; /* one-sided, ours */
	uint64_t id;		     /* ours: of an offer or a read */
	uint64_t peer_id;	     /* of the offer or read that this one answers */
	uint32_t chunks, granted, done;
	bool settled; /* WRITE: the peer's RESULT is here */
	const char *why;
};

struct queue {
	struct weir_p2p_transfer *first, *last;
};

struct channel {
	struct net_comm *comm;
	struct net_listener *listener;
	unsigned char handle[NET_HANDLE_BYTES];
	int device;		    /* index of the transport's */
	struct net_memory **memory; /* by the region's index */
	struct window posted;
	unsigned int
		unpacking; /* receiving: of the oldest, so many have come and are not in their place */
	struct window granted; /* sending: not posted yet */
};

/* A message that came before its receive. */
struct unexpected {
	uint64_t id, bytes;
	bool whole;    /* data holds all of it */
	uint8_t *data; /* XFER_INLINE_MAX, kept for the next */
};

struct notification {
	struct notification *next;
	uint64_t bytes, done;
	char data[];
};

enum conn_state {
	CONN_CONNECT,  /* client: until there is a connection */
	CONN_WELCOME,  /* client: until the server has answered */
	CONN_HANDLES,  /* client: until all handles are here */
	CONN_HELLO,    /* server: until the client has said what it wants */
	CONN_BACK,     /* server: until the client's handles are here */
	CONN_CHANNELS, /* until all channels are there, at both ends */
	CONN_READY,
	CONN_OVER, /* error says why */
};

struct weir_p2p_conn {
	struct weir_p2p *engine;
	struct weir_p2p_conn *next;
	enum conn_state state;
	bool server, accepted, abandoned;
	bool ready_put, ready_here, bye_here;
	struct link link;
	uint32_t watched; /* events of the link that the engine's epoll looks for; 0: none */
	struct sock_addr address[SOCK_ADDRS];
	size_t addresses, address_next;
	int connecting; /* a socket, -1: none */
	uint64_t deadline_ns, retry_ns;
	struct xfer_hello hello;
	struct xfer_welcome agreed;
	char peer[SOCK_ADDR_TEXT], devices[256];
	struct channel *out, *in; /* agreed.channels each; NULL: nothing goes this way */
	const struct window *in_window[WEIR_P2P_CHANNELS_MAX];
	int sockets;
	bool unpacks;	       /* what the devices receive lies in fragments */
	enum net_path path[2]; /* of what comes, and what goes; as last looked at */
	const char *path_reason;
	uint64_t registered_out[REGIONS_MAX / 64], registered_in[REGIONS_MAX / 64];
	struct err error;

	/* data */
	struct weir_p2p_transfer pool[TRANSFERS + SERVED];
	struct queue free_own, free_served;
	unsigned int own; /* handed out, not tested to their end */
	unsigned int under_way;
	bool idle;		     /* nothing was under way at the last turn */
	struct queue announce[WAYS]; /* that wait for credit or room */
	struct queue receives;	     /* that no message has met */
	struct queue incoming;	     /* whose chunks are being dealt */
	struct weir_p2p_transfer *offer[OFFERS], *read[XFER_CREDIT];
	unsigned int offers_open;
	uint32_t generation;
	unsigned int credit;	    /* messages that may be offered */
	unsigned int messages_open; /* of the peer, that it has no credit back for */
	unsigned int credit_back;   /* to be given */
	struct unexpected unexpected[XFER_CREDIT];
	unsigned int unexpected_first, unexpected_count;
	unsigned int turn; /* of dealing */
	struct {
		struct weir_p2p_transfer *transfer;
		uint32_t first, count;
		uint8_t channel[GRANTS];
	} grant;
	unsigned int receives_posted; /* chunks; those of them not granted yet are grant.count */
	struct notification *notify_first, *notify_last; /* to be sent */
	struct notification *heard_first, *heard_last;	 /* whole ones */
	struct notification *hearing;
	uint64_t heard_bytes;
	uint64_t heard_ns, ping_ns, turn_ns;
	/* since the last turn */
	bool active;
	int stalled; /* enum weir_p2p_stall, -1 not */
	unsigned int in_flight;
	double in_flight_time;
	struct weir_p2p_stats stats;
};

struct weir_p2p {
	struct weir_p2p_config config; /* its strings are in text */
	char *text[3];		       /* devices, plugin, queues */
	uint8_t token[WEIR_P2P_TOKEN_MAX];
	struct net *net;
	struct regions regions;
	struct weir_p2p_conn *conns;
	int listen_fd, epoll, bell; /* -1: none */
	uint16_t port;
	unsigned int refused;
	struct err refused_why;
	struct spin spin;
	struct gpu_copy *gpu_copy; /* opened when first needed, as is the next */
	struct unpack *unpack;
	uint64_t finished, told; /* transfers, connections, notifications: what a waiter looks at */

	bool threaded, started, stopping;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned int waiting; /* for the lock; atomic */
	bool asleep;	      /* the thread, or about to be; atomic */
	uint64_t listened_ns; /* when somebody was last asked for at the door */
};

/* engine.c */
/* net NULL: the one that the configuration asks for. The engine closes it. */
int engine_open(
	struct weir_p2p *p, const struct weir_p2p_config *config, struct net *net, struct err *e);
void engine_close(struct weir_p2p *p); /* also after a failure to open */
int engine_listen(struct weir_p2p *p, const char *host, uint16_t port, struct err *e);
void engine_lock(struct weir_p2p *p);
/* news: there is work for the thread, where there is one. */
void engine_unlock(struct weir_p2p *p, bool news);
/* A turn over everything: 1 something moved. */
int engine_turn(struct weir_p2p *p);
void engine_sleep(struct weir_p2p *p, uint64_t timeout_ns);
/* A step of waiting until deadline_ns, in the caller's thread or, where the engine has its own, for it. The
 * lock is held, and let go meanwhile. */
void engine_wait(struct weir_p2p *p, uint64_t deadline_ns);
void engine_refuse(struct weir_p2p *p, const struct err *why);
/* Copy between a region, which may be in a GPU, and host memory. */
int engine_copy_in(struct weir_p2p *p, struct weir_p2p_region *r, uint64_t offset, const void *from,
	uint64_t bytes, struct err *e);
int engine_copy_out(struct weir_p2p *p, struct weir_p2p_region *r, uint64_t offset, void *to,
	uint64_t bytes, struct err *e);

/* conn.c */
int conn_new(struct weir_p2p *p, struct weir_p2p_conn **conn, struct err *e);
void conn_free(struct weir_p2p_conn *c);
int conn_serve(struct weir_p2p *p, int fd, struct err *e);
/* One turn on the way to READY; 1: something happened. A failure is the connection's. */
int conn_open_turn(struct weir_p2p_conn *c, uint64_t now_ns);
/* It is over: error is why, whatever is under way ends with it. */
void conn_over(struct weir_p2p_conn *c, const struct err *why);
bool conn_is_done_with(const struct weir_p2p_conn *c);

/* frames.c: all that has come. */
int frames_take(struct weir_p2p_conn *c, struct err *e);
int frames_result(struct weir_p2p_conn *c, uint64_t id, int status, struct err *e);
/* Give the data of a message to a receive. */
int frames_match(struct weir_p2p_conn *c, struct weir_p2p_transfer *t, uint64_t id, uint64_t bytes,
	const uint8_t *data, bool whole, struct err *e);

/* move.c */
int move_turn(struct weir_p2p_conn *c, uint64_t now_ns);
void move_reset(struct weir_p2p_conn *c);
int move_announce(struct weir_p2p_conn *c, struct err *e);
int move_notify(struct weir_p2p_conn *c, struct err *e);
/* receive.c: 1 something came or was dealt. */
int receive_turn(struct weir_p2p_conn *c, struct err *e);
/* Register a region on the channels of one way. */
int move_memory(struct weir_p2p_conn *c, struct weir_p2p_region *r, bool out, struct err *e);
void move_forget_memory(struct weir_p2p_conn *c, struct weir_p2p_region *r);

struct weir_p2p_transfer *transfer_new(struct weir_p2p_conn *c, enum role role,
	struct weir_p2p_region *r, uint64_t offset, uint64_t bytes);
/* The transfer is over: 1 or -errno. One of the peer is free again. */
void transfer_finish(struct weir_p2p_transfer *t, int result, const char *why);
void transfer_free(struct weir_p2p_transfer *t);
void offer_close(struct weir_p2p_transfer *t);

static inline void queue_push(struct queue *q, struct weir_p2p_transfer *t)
{
	t->next = NULL;
	if (q->last)
		q->last->next = t;
	else
		q->first = t;
	q->last = t;
}

static inline struct weir_p2p_transfer *queue_pop(struct queue *q)
{
	struct weir_p2p_transfer *t = q->first;

	if (t) {
		q->first = t->next;
		if (!q->first)
			q->last = NULL;
		t->next = NULL;
	}
	return t;
}

/* stats.c: the end of a turn, in which something moved or not; the sum of all turns. */
void stats_account(struct weir_p2p_conn *c, uint64_t now_ns, bool moved);
void stats_read(struct weir_p2p_conn *c, struct weir_p2p_stats *s);

/* transports.c: what a configuration asks for; a plugin is shared by all engines of the process. */
int transport_get(struct net **net, const struct weir_p2p_config *config, struct err *e);
void transport_put(struct net *net);

/* devices.c */
int devices_choose(struct weir_p2p *p, int fd, int device[DEVICES_MAX], unsigned int *count,
	char *names, size_t size, struct err *e);

#endif
