/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker: a thread with an event loop, and a way to have work done in it.
 *
 *	worker_start(&w, 0, cpu, 1024, e);
 *	worker_call(w, act, argument);	run act in the worker's thread and wait for it
 *	worker_post(w, &job);		run job.act there some time; the job must live until then
 *	worker_stop(w);
 *
 * A handler may stay away from the loop and wait in a system call of its own, for one turn:
 *
 *	worker_begin_turn(w, until_ns);
 *	while (!worker_turn_is_over(w))
 *		recv(...);
 *	worker_end_turn(w);
 *
 * At the end of the turn a signal interrupts the call (EINTR). That is armed once per turn; a
 * timeout of the call itself would be armed and disarmed by the kernel with every wait.
 */
#ifndef WEIR_FLOW_WORKER_H
#define WEIR_FLOW_WORKER_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/err.h"
#include "base/loop.h"

struct worker;

struct worker_job {
	void (*act)(struct worker *w, struct worker_job *job);
	struct worker_job *next;
};

struct worker {
	struct loop loop;
	pthread_t thread;
	uint32_t index;
	int cpu;	      /* bound to it, or -1 */
	uint32_t flows;	      /* watched by the loop; the worker's thread only */
	pthread_mutex_t lock; /* jobs */
	struct worker_job *jobs, **jobs_end;
	_Atomic bool has_jobs; /* for handlers that stay away from the loop for long */
	bool has_turns;	       /* there is a timer for them */
	timer_t turn_timer;
	volatile sig_atomic_t turn_over;
	void *owner; /* whoever started it */
};

/* cpu: -1 for any; batch: events per epoll call. */
int worker_start(struct worker **out, uint32_t index, int cpu, int batch, struct err *e);
void worker_stop(struct worker *w);
void worker_post(struct worker *w, struct worker_job *job);
void worker_call(struct worker *w, void (*act)(struct worker *w, void *argument), void *argument);
/* Only with has_turns. */
void worker_begin_turn(struct worker *w, uint64_t until_ns);
void worker_end_turn(struct worker *w);

static inline bool worker_turn_is_over(const struct worker *w)
{
	return w->turn_over || atomic_load_explicit(&w->has_jobs, memory_order_relaxed);
}

#endif
