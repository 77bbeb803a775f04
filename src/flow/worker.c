// SPDX-License-Identifier: BSD-3-Clause
#include "flow/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif

#include "base/cpus.h"
#include "base/log.h"

static void worker_woken(struct loop *l)
{
	struct worker *w = container_of(l, struct worker, loop);
	struct worker_job *job;

	pthread_mutex_lock(&w->lock);
	job = w->jobs;
	w->jobs = NULL;
	w->jobs_end = &w->jobs;
	atomic_store_explicit(&w->has_jobs, false, memory_order_relaxed);
	pthread_mutex_unlock(&w->lock);
	while (job) {
		struct worker_job *next = job->next;

		job->act(w, job);
		job = next;
	}
}

#define TURN_SIGNAL SIGRTMIN

/* The signal may come between the last look at turn_over and the wait: it is repeated. */
#define TURN_REPEAT_NS NS_PER_MS

static void turn_is_over(int signal, siginfo_t *info, void *context)
{
	struct worker *w = info->si_value.sival_ptr;

	(void)signal;
	(void)context;
	w->turn_over = 1;
}

/* In the worker's own thread: the timer is for it alone. */
static void worker_prepare_turns(struct worker *w)
{
	struct sigaction action = { .sa_sigaction = turn_is_over, .sa_flags = SA_SIGINFO };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID,
		.sigev_signo = TURN_SIGNAL,
		.sigev_value.sival_ptr = w };
	sigset_t turn;

	event._sigev_un._tid = gettid(); /* libc has no other name for it */
	sigemptyset(&turn);
	sigaddset(&turn, TURN_SIGNAL);
	w->has_turns = !sigaction(TURN_SIGNAL, &action, NULL) &&
		       !timer_create(CLOCK_MONOTONIC, &event, &w->turn_timer) &&
		       !pthread_sigmask(SIG_UNBLOCK, &turn, NULL);
}

void worker_begin_turn(struct worker *w, uint64_t until_ns)
{
	struct itimerspec when = {
		.it_value = { (time_t)(until_ns / NS_PER_S), (long)(until_ns % NS_PER_S) },
		.it_interval.tv_nsec = TURN_REPEAT_NS,
	};

	w->turn_over = 0;
	timer_settime(w->turn_timer, TIMER_ABSTIME, &when, NULL);
}

void worker_end_turn(struct worker *w)
{
	struct itimerspec never = { 0 };

	timer_settime(w->turn_timer, 0, &never, NULL);
}

/* libc registers every thread for restartable sequences: at each switch the kernel then writes into
 * user memory which CPU the thread is on. Nothing here asks, and on a shared CPU it is 3 % of a
 * round trip. Where libc registered more bytes than this, it stays as it is. */
static void worker_leave_rseq(void)
{
#ifdef RSEQ_SIG
	char *area = (char *)__builtin_thread_pointer() + __rseq_offset;

	syscall(SYS_rseq, area, sizeof(struct rseq), RSEQ_FLAG_UNREGISTER, RSEQ_SIG);
#endif
}

static void *worker_main(void *argument)
{
	struct worker *w = argument;
	struct err e = { 0 };
	char name[16];

	snprintf(name, sizeof(name), "weir-%u", w->index);
	prctl(PR_SET_NAME, name);
	prctl(PR_SET_TIMERSLACK, 1); /* schedules are kept to the microsecond */
	if (w->cpu >= 0 && cpus_pin(w->cpu, &e))
		log_error_err(&e);
	worker_leave_rseq();
	worker_prepare_turns(w);
	if (loop_run(&w->loop, &e))
		log_error_err(&e);
	if (w->has_turns)
		timer_delete(w->turn_timer);
	return NULL;
}

int worker_start(struct worker **out, uint32_t index, int cpu, int batch, struct err *e)
{
	struct worker *w = calloc(1, sizeof(*w));
	sigset_t all, before;
	int ret;

	if (!w)
		return err_set(e, ENOMEM, "no memory for a worker thread");
	w->index = index;
	w->cpu = cpu;
	w->jobs_end = &w->jobs;
	pthread_mutex_init(&w->lock, NULL);
	ret = loop_init(&w->loop, worker_woken, e);
	if (ret)
		goto free_worker;
	w->loop.batch_size = batch < LOOP_EVENTS_MAX ? batch : LOOP_EVENTS_MAX;
	/* Signals are for the control thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&w->thread, NULL, worker_main, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret) {
		ret = err_set(e, ret, "cannot start a worker thread");
		loop_close(&w->loop);
		goto free_worker;
	}
	*out = w;
	return 0;

free_worker:
	free(w);
	return ret;
}

static void worker_quit(struct worker *w, void *argument)
{
	(void)argument;
	loop_stop(&w->loop);
}

void worker_stop(struct worker *w)
{
	worker_call(w, worker_quit, NULL);
	pthread_join(w->thread, NULL);
	loop_close(&w->loop);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

void worker_post(struct worker *w, struct worker_job *job)
{
	job->next = NULL;
	pthread_mutex_lock(&w->lock);
	*w->jobs_end = job;
	w->jobs_end = &job->next;
	atomic_store_explicit(&w->has_jobs, true, memory_order_relaxed);
	pthread_mutex_unlock(&w->lock);
	loop_wake(&w->loop);
}

struct worker_sync {
	struct worker_job job;
	void (*act)(struct worker *w, void *argument);
	void *argument;
	pthread_mutex_t lock;
	pthread_cond_t done;
	bool is_done;
};

static void worker_call_act(struct worker *w, struct worker_job *job)
{
	struct worker_sync *sync = container_of(job, struct worker_sync, job);

	sync->act(w, sync->argument);
	pthread_mutex_lock(&sync->lock);
	sync->is_done = true;
	pthread_cond_signal(&sync->done);
	pthread_mutex_unlock(&sync->lock);
}

/* Waits without a deadline, for our own thread alone: a worker never sleeps longer than its
 * loop. */
void worker_call(struct worker *w, void (*act)(struct worker *w, void *argument), void *argument)
{
	struct worker_sync sync = { .job.act = worker_call_act,
		.act = act,
		.argument = argument,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.done = PTHREAD_COND_INITIALIZER };

	worker_post(w, &sync.job);
	pthread_mutex_lock(&sync.lock);
	while (!sync.is_done)
		pthread_cond_wait(&sync.done, &sync.lock);
	pthread_mutex_unlock(&sync.lock);
}
