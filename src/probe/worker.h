/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine from the inside: what engine.c, prober.c and responder.c share. What belongs to a worker
 * is touched by its thread alone, but for the inbox (locked) and the ring (one writer, one reader). */
#ifndef WEIR_PROBE_WORKER_H
#define WEIR_PROBE_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/loop.h"
#include "mem/pattern.h"
#include "probe/engine.h"
#include "probe/pace.h"
#include "probe/payload.h"
#include "probe/stamp.h"
#include "rpc/client.h"

#define RING_RESULTS  32768u
#define SET_UPS_MAX   512  /* under way at once in one worker */
#define STRANGERS_MAX 1024 /* connections of one worker that have not said hello yet */
#define ACCEPTS_MAX   16   /* at one door in a turn of the loop */
#define DOOR_PAUSE_NS (100 * NS_PER_MS)
#define SCRATCH_BYTES (PROBE_HEADER_BYTES + PROBE_PAYLOAD_MAX)
#define TOO_LATE_NS   (200 * NS_PER_US)
#define HURRY_NS      (TOO_LATE_NS / 2)
#define TICKS	      128
/* In a tick: sent within 2 ms or so, where payloads are small and the host's. More, and one whose CPU is taken away delays more of them. */
#define TICK_TARGETS 200
#define TICK_PAYLOAD 4096
#define TICK_NS	     (500 * NS_PER_US) /* for sending all probes of a tick */
#define SETTLE_NS    (300 * NS_PER_US) /* to be awake before a probe is due, at most */
/* For an answer, or the next probe of a burst, before going to sleep; and for all of it in a second, a fiftieth. */
#define LOOK_NS	      (250 * NS_PER_US)
#define BURST_NS      (40 * NS_PER_US)
#define LOOK_PER_S_NS (20 * NS_PER_MS)
#define PATTERN_BYTES 65537 /* prime: no payload size divides it */

struct worker;
struct pong;

struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline void list_add(struct list *head, struct list *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

static inline void list_del(struct list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}

enum target_state {
	TARGET_WAITING, /* for its turn to set up */
	TARGET_CALLING, /* the peer's agent */
	TARGET_CALLED,
	TARGET_CONNECTING,
	TARGET_GREETING,
	TARGET_UP,
	TARGET_BACKOFF,
};

/* Targets of one period, in the order in which their next probes are due: whose probe was sent goes to the
 * end. One timer for all of them: a timer of each would be looked up among those of all others. */
struct lane {
	uint64_t period_ns; /* 0: free */
	struct list targets;
	struct list late; /* let those go first that can still be on time */
	struct loop_timer timer;
	struct worker *worker;
};
#define LANES 4

struct flight {
	uint64_t sent_ns, wall_ns;
	uint64_t software_ns, hardware_ns; /* when it left */
	uint32_t late_ns, starved_ns;
};

struct probe_target {
	struct list link; /* of the worker's targets */
	struct list turn; /* of those that wait to set up */
	bool is_local;	  /* the peer is a NIC of this host: not bound to the device */
	bool settled, removed, holds_turn;
	uint32_t *in_tick; /* of the worker's ticks */

	struct rpc_client *client;
	struct loop_timer life; /* set-up deadline, back-off */
	struct loop_timer tick; /* the deadline of the oldest, or the next probe when in no lane */
	unsigned char token[PROBE_TOKEN_BYTES];
	uint16_t port;
	uint64_t backoff_ns, set_up_deadline_ns;
	uint8_t stage; /* why it is down */
	int32_t code;

	/* From the end of want on: what a probe touches, side by side. Between two probes of a target all of it
	 * has left the cache. */
	struct probe_want want;
	struct worker *worker;
	struct lane *lane; /* NULL: none */
	struct list in_lane;
	uint64_t phase_ns, slot; /* probe slot is due after the tick at phase + slot * period */
	uint64_t after_tick_ns;	 /* of its next slot */
	uint32_t place;		 /* among those of its tick */
	struct loop_fd data;
	enum target_state state;
	uint32_t next, oldest;	   /* sequences: of the next probe, of the oldest without an end */
	uint32_t first;		   /* that of flight[0]; no probe was under way when it was sent */
	uint32_t losses, failures; /* in a row: of probes, of set-ups */
	size_t nic;
	size_t sent;	 /* bytes of frame next - 1 that were sent; a whole frame: all */
	size_t received; /* bytes of the frame that comes */
	bool corrupt;
	uint32_t answer; /* sequence of the frame that comes: each comes once, in their order */
	unsigned char head[PROBE_HEADER_BYTES];
	struct flight flight[PROBE_IN_FLIGHT];
};

/* A connection that asks. */
struct answerer {
	struct list link;
	struct worker *worker;
	struct loop_fd data;
	struct loop_timer patience; /* for the hello */
	struct sock_addr peer;
	size_t nic;
	bool known;
	uint32_t payload_bytes;
	size_t have, sent; /* of the hello, then of the frame */
	uint64_t arrived_ns;
	unsigned char hello[PROBE_HELLO_BYTES];
	unsigned char *frame;
	struct list stranger; /* of the worker's strangers; alone once it is known */
};

struct listener {
	struct loop_fd io;
	struct loop_timer pause; /* until it is looked at again */
};

struct door {
	struct listener listener;
	struct worker *worker;
	size_t nic;
	uint16_t port;
};

enum order_kind { ORDER_ADD, ORDER_REMOVE, ORDER_HANG_UP, ORDER_PONG, ORDER_STOP };
struct order {
	struct order *next;
	enum order_kind kind;
	struct probe_target *target;
	struct pong *pong;
	struct sock_addr prober, responder;
};

struct worker {
	struct probe_engine *engine;
	struct loop loop;
	pthread_t thread;
	bool runs;
	struct rpc_tls *tls;
	struct list targets, turns, answerers, pongs;
	struct list strangers; /* answerers without a hello, those that have waited longest first */
	struct lane lane[LANES];
	unsigned int set_ups, strangers_count;
	unsigned char *scratch;
	struct door *door;    /* of its NICs */
	uint32_t in_flight;   /* probes without an end */
	uint64_t answered_ns; /* the latest probe of another */
	uint32_t burst;	      /* how many came right after each other */
	bool in_burst;	      /* more are likely to */
	uint64_t look_ns;     /* when the second began in which looking is counted */
	struct pace pace;
	uint64_t tick_ns;      /* of the latest probe */
	uint32_t tick_late_ns; /* the first of that tick */
	uint32_t ticks[TICKS]; /* targets of each tick of the grid; the owner's */
	size_t doors;

	pthread_mutex_t inbox_lock;
	struct order *inbox, **inbox_end;

	/* one writer: this thread; one reader: the owner */
	struct probe_result *ring;
	_Atomic uint32_t head, tail;
	_Atomic uint64_t sent, answered, lost, unsent, skipped, dropped;
};

/* A token that waits for its connection. */
struct expected {
	unsigned char token[PROBE_TOKEN_BYTES];
	struct sock_addr prober;
	size_t nic;
	uint32_t payload_bytes;
	uint64_t until_ns; /* 0: free */
};
#define EXPECTED_MAX 4096

struct probe_engine {
	struct probe_config config;
	struct probe_nic *nic;
	size_t nics;
	struct worker *worker;
	size_t workers;
	size_t turn; /* the worker whose ring is read next */
	struct pattern pattern;
	struct payload *payload;     /* of each NIC; its worker's */
	uint32_t *probing;	     /* targets per NIC; the owner's */
	_Atomic uint32_t *answering; /* connections per NIC */
	_Atomic uint64_t payload_bytes;
	uint32_t targets;
	struct probe_target *gone; /* freed when the next result is asked for */
	pthread_mutex_t expected_lock;
	struct expected expected[EXPECTED_MAX];
};

static inline size_t worker_of_nic(size_t nic)
{
	return nic / PROBE_NICS_PER_LOOP;
}

void worker_push(struct worker *w, const struct probe_result *r, bool urgent);
int worker_order(struct worker *w, const struct order *what); /* a copy of it; 0 or -ENOMEM */
void data_socket(int fd); /* that probes go by: no delay, soon sent again */

/* Says how long to look for what may come before going to sleep, when that has changed. */
void worker_expect(struct worker *w, uint64_t now_ns);

/* prober.c */
void target_begin(struct probe_target *t);
void target_end(struct probe_target *t); /* closes all; the target stays */
void worker_next_turn(struct worker *w);

void target_turn(struct probe_target *t); /* a probe of it is due, or overdue */

static inline uint64_t target_tick_ns(const struct probe_target *t)
{
	return t->phase_ns + t->slot * t->want.period_ns;
}

static inline uint64_t target_due_ns(const struct probe_target *t)
{
	return target_tick_ns(t) + t->after_tick_ns;
}

/* From tick to tick. */
static inline uint64_t target_grid_ns(const struct probe_target *t)
{
	return t->want.period_ns < PROBE_GRID_NS ? t->want.period_ns : PROBE_GRID_NS;
}

/* lane.c */
void lane_join(struct probe_target *t); /* t->lane tells whether it did */
void lane_leave(struct probe_target *t);

/* responder.c */
/* A connection that waits, and whose; <0: none now. */
int listener_accept(struct loop *l, struct listener *from, struct sock_addr *peer);
int door_open(struct door *d, struct worker *w, size_t nic, struct err *e);
void door_close(struct door *d);
void answerer_close(struct answerer *a);
void answer_keepalive(int fd);
/* Take a token that is expected; false: it is not, or not for this. */
bool engine_take_expected(struct probe_engine *engine, const struct probe_hello *hello,
	const struct sock_addr *peer, size_t nic);

/* pong.c */
void pong_begin(struct pong *p);
void pong_close(struct pong *p);
void pong_drop(struct pong *p); /* one that has not begun */
struct pong *pong_of_link(struct list *link);
bool pong_is_of(
	const struct pong *p, const struct sock_addr *prober, const struct sock_addr *responder);

#endif
