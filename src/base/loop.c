// SPDX-License-Identifier: BSD-3-Clause
#include "base/loop.h"

#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"

/* Timers: an intrusive pairing heap. Set and cancel cost a few pointers, nothing is allocated. */

static struct loop_timer *heap_meld(struct loop_timer *a, struct loop_timer *b)
{
	struct loop_timer *swap;

	if (!a)
		return b;
	if (!b)
		return a;
	if (b->due_ns < a->due_ns) {
		swap = a;
		a = b;
		b = swap;
	}
	b->prev = a;
	b->next = a->child;
	if (b->next)
		b->next->prev = b;
	a->child = b;
	return a;
}

/* Meld a list of siblings: pairs from the left, then all from the right. */
static struct loop_timer *heap_meld_siblings(struct loop_timer *first)
{
	struct loop_timer *pairs = NULL, *all = NULL;

	while (first) {
		struct loop_timer *a = first, *b = a->next, *melded;

		first = b ? b->next : NULL;
		a->next = a->prev = NULL;
		if (b)
			b->next = b->prev = NULL;
		melded = heap_meld(a, b);
		melded->next = pairs;
		pairs = melded;
	}
	while (pairs) {
		struct loop_timer *next = pairs->next;

		pairs->next = NULL;
		all = heap_meld(all, pairs);
		pairs = next;
	}
	return all;
}

static void heap_remove(struct loop *l, struct loop_timer *timer)
{
	struct loop_timer *children = heap_meld_siblings(timer->child);

	timer->child = NULL;
	if (timer == l->timers) {
		l->timers = children;
	} else {
		if (timer->prev->child == timer)
			timer->prev->child = timer->next;
		else
			timer->prev->next = timer->next;
		if (timer->next)
			timer->next->prev = timer->prev;
		l->timers = heap_meld(l->timers, children);
	}
	timer->next = timer->prev = NULL;
	timer->due_ns = 0;
}

void loop_timer_set(struct loop *l, struct loop_timer *timer, uint64_t due_ns, loop_timer_fn *fire)
{
	if (timer->due_ns)
		heap_remove(l, timer);
	timer->due_ns = due_ns ? due_ns : 1;
	timer->fire = fire;
	l->timers = heap_meld(l->timers, timer);
}

void loop_timer_cancel(struct loop *l, struct loop_timer *timer)
{
	if (timer->due_ns)
		heap_remove(l, timer);
}

uint64_t loop_next_due_ns(const struct loop *l)
{
	return l->timers ? l->timers->due_ns : UINT64_MAX;
}

static bool loop_is_late(const struct loop *l, uint64_t now_ns)
{
	return l->late_ns && l->timers && l->timers->due_ns + l->late_ns <= now_ns;
}

/* As many as events at most, for a timer that sets itself to a moment in the past is due without end. */
static bool loop_fire_due(struct loop *l)
{
	uint64_t now_ns = clock_ns();
	unsigned int fired = 0;

	while (l->timers && l->timers->due_ns <= now_ns && !l->stopping &&
		fired < LOOP_EVENTS_MAX) {
		struct loop_timer *timer = l->timers;

		heap_remove(l, timer);
		timer->fire(l, timer);
		if (++fired >= l->fire_max && l->fire_max && !loop_is_late(l, now_ns))
			break;
	}
	return fired;
}

/* A timer that moved later is left armed: one early wake-up is cheaper than a system call each
 * time. */
static void loop_arm(struct loop *l, uint64_t now_ns)
{
	struct itimerspec when = { 0 };
	uint64_t due_ns = loop_next_due_ns(l);

	if (due_ns != UINT64_MAX)
		due_ns -= settle_early_ns(&l->settle, due_ns - now_ns);
	if (due_ns == UINT64_MAX || (l->armed_ns && l->armed_ns <= due_ns))
		return;
	when.it_value.tv_sec = (time_t)(due_ns / NS_PER_S);
	when.it_value.tv_nsec = (long)(due_ns % NS_PER_S);
	timerfd_settime(l->alarm.fd, TFD_TIMER_ABSTIME, &when, NULL);
	l->armed_ns = due_ns;
}

/* Edge-triggered: it need not be read, the next arming takes back that it went off. */
static void loop_alarm(struct loop *l, struct loop_fd *source, uint32_t events)
{
	(void)source;
	(void)events;
	if (l->slept)
		settle_learn(&l->settle, clock_ns() - l->armed_ns);
	l->armed_ns = 0;
}

static void loop_bell(struct loop *l, struct loop_fd *source, uint32_t events)
{
	uint64_t rings;

	(void)events;
	if (read(source->fd, &rings, sizeof(rings)) == sizeof(rings) && l->woken)
		l->woken(l);
}

void loop_wake(struct loop *l)
{
	uint64_t one = 1;

	/* Fails only when the counter is full, and then the loop is about to wake anyway. */
	if (write(l->bell.fd, &one, sizeof(one)) < 0)
		return;
}

int loop_init(struct loop *l, void (*woken)(struct loop *l), struct err *e)
{
	int alarm, bell, ret;

	memset(l, 0, offsetof(struct loop, batch));
	l->woken = woken;
	l->batch_size = LOOP_EVENTS_MAX;
	l->alarm.fd = l->bell.fd = -1;
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll < 0)
		return err_set(e, errno, "cannot make an event loop: %m");
	alarm = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (alarm < 0 || bell < 0) {
		ret = err_set(e, errno, "cannot make an event loop: %m");
		if (alarm >= 0)
			close(alarm);
		if (bell >= 0)
			close(bell);
		loop_close(l);
		return ret;
	}
	ret = loop_add(l, &l->alarm, alarm, EPOLLIN | EPOLLET, loop_alarm, e);
	if (!ret)
		ret = loop_add(l, &l->bell, bell, EPOLLIN, loop_bell, e);
	if (ret)
		loop_close(l);
	return ret;
}

void loop_close(struct loop *l)
{
	if (l->alarm.fd >= 0)
		close(l->alarm.fd);
	if (l->bell.fd >= 0)
		close(l->bell.fd);
	if (l->epoll >= 0)
		close(l->epoll);
	l->alarm.fd = l->bell.fd = l->epoll = -1;
}

int loop_add(struct loop *l, struct loop_fd *source, int fd, uint32_t events, loop_fd_fn *ready,
	struct err *e)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	source->fd = fd;
	source->events = events;
	source->ready = ready;
	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		return err_set(e, errno, "cannot watch a descriptor: %m");
	return 0;
}

void loop_change(struct loop *l, struct loop_fd *source, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	source->events = events;
	epoll_ctl(l->epoll, EPOLL_CTL_MOD, source->fd, &event);
}

void loop_remove(struct loop *l, struct loop_fd *source)
{
	epoll_ctl(l->epoll, EPOLL_CTL_DEL, source->fd, NULL);
	loop_forget(l, source);
}

void loop_forget(struct loop *l, struct loop_fd *source)
{
	for (int i = l->batch_next; i < l->batch_count; i++)
		if (l->batch[i].data.ptr == source)
			l->batch[i].data.ptr = NULL;
}

void loop_stop(struct loop *l)
{
	l->stopping = true;
}

/* Not libc's, which is a point of cancellation and as such costs as much as half of a look. */
static int loop_epoll(struct loop *l, int timeout_ms)
{
	return (int)syscall(
		SYS_epoll_pwait, l->epoll, l->batch, l->batch_size, timeout_ms, NULL, 0);
}

static int loop_look(struct loop *l)
{
	return loop_epoll(l, 0);
}

static int loop_spin(struct loop *l)
{
	int count = loop_look(l);

	if (count) /* it was there already: nothing to learn */
		return count;
	spin_begin(&l->spin);
	do {
		count = loop_look(l);
	} while (!count && spin_again(&l->spin) && l->spin.looked_ns < loop_next_due_ns(l));
	spin_end(&l->spin, count > 0);
	return count;
}

/* Or so soon that a sleep would last longer. */
static bool loop_is_due(const struct loop *l, uint64_t now_ns)
{
	uint64_t due_ns = loop_next_due_ns(l);

	return due_ns <= now_ns || due_ns - now_ns <= settle_early_ns(&l->settle, due_ns - now_ns);
}

static int loop_wait(struct loop *l)
{
	uint64_t now_ns;
	int count;

	l->slept = false;
	if (l->busy)
		return loop_look(l);
	now_ns = clock_ns();
	if (l->served)
		l->served_ns += now_ns - l->turn_ns;
	l->turn_ns = now_ns;
	if (loop_is_due(l, now_ns))
		return loop_look(l);
	if (spin_worth(&l->spin, now_ns)) {
		count = loop_spin(l);
		if (count) {
			if (l->spin.looked_ns > now_ns) /* until then it looked in vain */
				l->turn_ns = l->spin.looked_ns;
			return count;
		}
		now_ns = clock_ns();
		if (loop_is_due(l, now_ns))
			return loop_look(l);
	}
	loop_arm(l, now_ns);
	l->slept = l->settle.max_ns && now_ns < l->armed_ns;
	count = loop_epoll(l, -1);
	l->turn_ns = clock_ns();
	return count;
}

int loop_run(struct loop *l, struct err *e)
{
	l->stopping = false;
	/* The run before may have stopped with the alarm's event in hand, and its edge does not come again. */
	l->armed_ns = 0;
	while (!l->stopping) {
		int count = loop_wait(l);

		if (count < 0 && errno != EINTR)
			return err_set(e, errno, "cannot wait for events: %m");
		l->batch_count = count > 0 ? count : 0;
		for (l->batch_next = 0; l->batch_next < l->batch_count && !l->stopping;) {
			struct epoll_event event = l->batch[l->batch_next++];
			struct loop_fd *source = event.data.ptr;

			if (source)
				source->ready(l, source, event.events);
			if (l->late_ns && loop_is_late(l, clock_ns()))
				loop_fire_due(l);
		}
		l->batch_count = 0;
		l->served = count > 0;
		if (l->timers && loop_fire_due(l))
			l->served = true;
	}
	return 0;
}
