/* SPDX-License-Identifier: BSD-3-Clause */
/* An event loop: file descriptors by epoll, timers on an absolute schedule. One per thread.
 *
 *	struct peer { struct loop_fd in; struct loop_timer tick; ... };
 *
 *	static void peer_readable(struct loop *l, struct loop_fd *in, uint32_t events)
 *	{
 *		struct peer *p = container_of(in, struct peer, in);
 *		...
 *	}
 *
 *	loop_init(&l, NULL, e);
 *	loop_add(&l, &p->in, fd, EPOLLIN, peer_readable, e);
 *	loop_timer_set(&l, &p->tick, clock_ns() + NS_PER_S, peer_tick);
 *	loop_run(&l, e);
 *
 * Sources and timers live inside their owners: the loop allocates nothing after loop_init(). The
 * wait has no timeout of its own: one timerfd is armed when the earliest timer changes, so that a
 * loop whose timers are far away pays one reading of the clock per turn for them (a timeout on
 * epoll_wait would start and cancel a kernel timer on every sleep). Handlers may add, change and
 * remove any source or timer, their own included. Sources are looked at again after LOOP_EVENTS_MAX
 * timers at the latest, whatever those are set to. Single-threaded, except loop_wake().
 */
#ifndef WEIR_BASE_LOOP_H
#define WEIR_BASE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/err.h"
#include "base/settle.h"
#include "base/spin.h"

#define container_of(member_pointer, type, member)                                                 \
	((type *)((char *)(member_pointer)-offsetof(type, member)))

struct loop;
struct loop_fd;
struct loop_timer;
typedef void loop_fd_fn(struct loop *l, struct loop_fd *source, uint32_t events);
typedef void loop_timer_fn(struct loop *l, struct loop_timer *timer);

struct loop_fd {
	int fd;
	uint32_t events;
	loop_fd_fn *ready;
};

struct loop_timer {
	uint64_t due_ns; /* 0: not set */
	loop_timer_fn *fire;
	struct loop_timer *child, *next,
		*prev; /* pairing heap; prev is the parent of a first child */
};

#define LOOP_EVENTS_MAX 1024 /* of a turn; and timers */

struct loop {
	int epoll;
	struct loop_fd alarm; /* the timerfd */
	struct loop_fd bell;  /* the eventfd behind loop_wake() */
	void (*woken)(struct loop *l);
	struct loop_timer *timers; /* earliest */
	uint64_t armed_ns;	   /* what the timerfd is set to, 0: nothing */
	bool stopping;
	bool busy;	      /* never sleep */
	struct spin spin;     /* look again before sleeping */
	struct settle settle; /* wake up before a timer is due, and look until it is */
	bool slept;	      /* until the alarm, if that is what ended this wait */
	bool served;	      /* something, in this turn */
	uint64_t turn_ns;     /* when this turn began, or its sleep ended */
	uint64_t served_ns; /* what turns have taken that served something; not counted when busy */
	int batch_size;	    /* events per wait */
	unsigned int
		fire_max; /* timers per turn, sources are looked at in between; 0: all that are due */
	uint64_t late_ns; /* those that were due so long ago come before any source; 0: no */
	int batch_next, batch_count;
	struct epoll_event batch[LOOP_EVENTS_MAX];
};

/* woken is called in the loop's thread after loop_wake(); NULL: nothing. */
int loop_init(struct loop *l, void (*woken)(struct loop *l), struct err *e);
void loop_close(struct loop *l);

/* Serve sources and timers until loop_stop(). With l->busy the loop never sleeps; l->spin says how
 * long it looks again before it does, l->settle how long before a timer it wakes up at most. */
int loop_run(struct loop *l, struct err *e);
void loop_stop(struct loop *l);

/* From any thread: make the loop call woken soon. Async-signal-safe. */
void loop_wake(struct loop *l);

int loop_add(struct loop *l, struct loop_fd *source, int fd, uint32_t events, loop_fd_fn *ready,
	struct err *e);
/* Change the events. Also gives an edge-triggered source its edge again. */
void loop_change(struct loop *l, struct loop_fd *source, uint32_t events);
/* Stop watching a source; its descriptor stays open. Events of it that wait in this turn are
 * dropped. */
void loop_remove(struct loop *l, struct loop_fd *source);
/* The same for a source whose descriptor is closed next, which itself takes it out of epoll, unless another process has it too.
 * Not for a program that starts others: for a moment the new one has all descriptors, also those that it does not
 * keep, and epoll goes on telling of one that was closed meanwhile. */
void loop_forget(struct loop *l, struct loop_fd *source);

/* Call fire once, at due_ns (monotonic) or as soon as possible after. Setting again moves it. */
void loop_timer_set(struct loop *l, struct loop_timer *timer, uint64_t due_ns, loop_timer_fn *fire);
void loop_timer_cancel(struct loop *l, struct loop_timer *timer);

/* When the next timer is due; UINT64_MAX when there is none. For handlers that stay away for long.
 */
uint64_t loop_next_due_ns(const struct loop *l);

#endif
