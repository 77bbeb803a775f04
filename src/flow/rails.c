// SPDX-License-Identifier: BSD-3-Clause
#include "flow/rails.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

#define GATE_NS	  (8 * NS_PER_S) /* a server waits 10 s for its client to be ready */
#define STRAYS_NS (3 * NS_PER_S) /* after the others, a rail without a client has failed */
#define NAP_MS	  100
#define LOOK_NS	  (500 * NS_PER_MS) /* at the links, while they are used */
#define LOOKS	  3 /* that must agree: the kernel is late to say that a link came up */

struct seat {
	struct rails_crew *crew;
	struct rail *rail;
	struct endpoint_events events;
	pthread_t thread;
	const struct run *run; /* under way */
	bool has_thread, at_gate;
	bool ended;	/* its thread has nothing more to say */
	bool reported;	/* in this round */
	int troubled;	/* how often in a row its link was seen to be gone */
	bool dead;	/* cannot listen, */
	struct err why; /* because */
};

struct rails_crew {
	struct rails *rails;
	const struct rails_events *events;
	struct seat *seats;
	pthread_mutex_t lock;
	pthread_cond_t moved;
	int stop, bell; /* eventfd */
	bool stopping, gate_open;
	uint64_t looked_ns;
	uint64_t heard_ns; /* when a server's rail had news last; 0: no round is open */
};

static void ring(int fd)
{
	uint64_t one = 1;

	/* A counter that is full is readable too. */
	if (write(fd, &one, sizeof(one)) < 0)
		return;
}

/* With the lock held: one of the rails has come further. */
static void crew_moved(struct rails_crew *c)
{
	bool open = true;

	for (uint32_t i = 0; i < c->rails->count; i++)
		open &= c->seats[i].at_gate || c->seats[i].ended;
	c->gate_open |= open;
	c->heard_ns = clock_ns();
	pthread_cond_broadcast(&c->moved);
	ring(c->bell);
}

static void seat_fail(struct seat *s, const struct err *why)
{
	struct err words = *why;
	char trouble[64];

	if (s->reported)
		return;
	s->reported = true;
	/* A port that is taken is taken whatever the link does. */
	if (why->code != EADDRINUSE && *rail_trouble(s->rail, trouble)) {
		err_prefix(&words, "%s", trouble);
		words.hint[0] = 0; /* it does not know that */
	}
	if (s->crew->events->failed)
		s->crew->events->failed(s->crew->events->context, s->rail, &words);
}

/* Events of one rail, from its threads */

static void on_ready(void *context, const struct sock_addr *address)
{
	struct seat *s = context;
	const struct rails_events *ev = s->crew->events;

	pthread_mutex_lock(&s->crew->lock);
	if (ev->ready)
		ev->ready(ev->context, s->rail, address);
	pthread_mutex_unlock(&s->crew->lock);
}

static void on_gate(void *context)
{
	struct seat *s = context;
	struct rails_crew *c = s->crew;
	uint64_t deadline_ns = clock_ns() + GATE_NS;
	struct timespec until = { (time_t)(deadline_ns / NS_PER_S),
		(long)(deadline_ns % NS_PER_S) };

	pthread_mutex_lock(&c->lock);
	s->at_gate = true;
	crew_moved(c);
	while (!c->gate_open && !c->stopping)
		if (pthread_cond_timedwait(&c->moved, &c->lock, &until))
			break;
	pthread_mutex_unlock(&c->lock);
}

/* A rail has one run in a round: what a second client does at the same time is not in it. */
static void on_started(void *context, const struct run *run)
{
	struct seat *s = context;
	const struct rails_events *ev = s->crew->events;

	pthread_mutex_lock(&s->crew->lock);
	if (!s->run && !s->reported) {
		s->run = run;
		s->troubled = 0;
		crew_moved(s->crew);
		if (ev->started)
			ev->started(ev->context, s->rail, run);
	}
	pthread_mutex_unlock(&s->crew->lock);
}

static void on_interval(
	void *context, const struct run *run, const struct interval_result *interval)
{
	struct seat *s = context;
	const struct rails_events *ev = s->crew->events;

	pthread_mutex_lock(&s->crew->lock);
	if (s->run == run && ev->interval)
		ev->interval(ev->context, s->rail, run, interval);
	pthread_mutex_unlock(&s->crew->lock);
}

static void on_over(void *context, const struct outcome *outcome)
{
	struct seat *s = context;
	const struct rails_events *ev = s->crew->events;

	pthread_mutex_lock(&s->crew->lock);
	if (s->run == outcome->run || (!s->run && !s->reported)) {
		s->run = NULL;
		s->reported = true;
		if (ev->over)
			ev->over(ev->context, s->rail, outcome);
		crew_moved(s->crew);
	}
	pthread_mutex_unlock(&s->crew->lock);
}

/* Server: a client of this rail came to nothing. */
static void on_failed(void *context, const struct run *run, const struct err *why)
{
	struct seat *s = context;

	pthread_mutex_lock(&s->crew->lock);
	if (!s->run || s->run == run) {
		s->run = NULL;
		seat_fail(s, why);
		crew_moved(s->crew);
	}
	pthread_mutex_unlock(&s->crew->lock);
}

/* The thread of a rail */

static int seat_run_client(struct seat *s, struct err *e)
{
	struct timespec look = { 0, LOOK_NS };
	char trouble[64];

	/* It would only time out. */
	for (int i = 0; i < LOOKS && *rail_trouble(s->rail, trouble); i++)
		nanosleep(&look, NULL);
	if (*rail_trouble(s->rail, trouble))
		return err_set(e, ENETDOWN, "nothing was tried");
	return client_run(WORKLOAD_STREAM, &s->rail->options, &s->events, e);
}

static void *seat_main(void *argument)
{
	struct seat *s = argument;
	struct rails_crew *c = s->crew;
	struct err e = { 0 };
	int ret;

	if (s->rail->options.client)
		ret = seat_run_client(s, &e);
	else
		ret = server_run(
			WORKLOAD_STREAM, &s->rail->options, &s->rail->given, &s->events, &e);
	pthread_mutex_lock(&c->lock);
	s->ended = true;
	s->run = NULL;
	if (ret && !s->rail->options.client) {
		s->dead = true;
		s->why = e;
	}
	if (ret)
		seat_fail(s, &e);
	crew_moved(c);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

static void seat_start(struct seat *s, struct rails_crew *c, struct rail *rail)
{
	struct err e = { 0 };
	int ret;

	s->crew = c;
	s->rail = rail;
	/* A round is over when all are: the rail's own server stays. */
	rail->options.once = false;
	s->events = (struct endpoint_events){
		.context = s,
		.stop_fd = c->stop,
		.started = on_started,
		.interval = on_interval,
		.over = on_over,
	};
	if (rail->options.client) {
		s->events.gate = on_gate;
	} else {
		s->events.ready = on_ready;
		s->events.failed = on_failed;
	}
	ret = pthread_create(&s->thread, NULL, seat_main, s);
	s->has_thread = !ret;
	if (!ret)
		return;
	err_set(&e, ret, "cannot start a thread for %s", rail->nic.name);
	s->dead = s->ended = true;
	s->why = e;
	seat_fail(s, &e);
}

/* The main thread */

static bool all_are(const struct rails_crew *c, bool (*is)(const struct seat *s))
{
	for (uint32_t i = 0; i < c->rails->count; i++)
		if (!is(&c->seats[i]))
			return false;
	return true;
}

static bool seat_ended(const struct seat *s)
{
	return s->ended;
}

static bool seat_idle(const struct seat *s)
{
	return !s->run;
}

static bool seat_reported(const struct seat *s)
{
	return s->reported;
}

/* Those without a report have had no client. */
static void round_end(struct rails_crew *c)
{
	struct err why = { 0 };

	for (uint32_t i = 0; i < c->rails->count; i++) {
		struct seat *s = &c->seats[i];

		err_set(&why, ETIMEDOUT, "no client came, although others did");
		err_hint(&why, "does the client reach %s through this rail?", s->rail->host);
		seat_fail(s, s->dead ? &s->why : &why);
	}
	if (c->events->round)
		c->events->round(c->events->context);
	for (uint32_t i = 0; i < c->rails->count; i++)
		c->seats[i].reported = false;
	c->heard_ns = 0;
}

/* A round is under way when a rail that can be served had news. */
static bool round_is_open(const struct rails_crew *c)
{
	for (uint32_t i = 0; i < c->rails->count; i++)
		if (!c->seats[i].dead && (c->seats[i].run || c->seats[i].reported))
			return true;
	return false;
}

static bool round_is_over(const struct rails_crew *c)
{
	if (!round_is_open(c) || !all_are(c, seat_idle))
		return false;
	return all_are(c, seat_reported) || clock_ns() > c->heard_ns + STRAYS_NS;
}

static void crew_stop(struct rails_crew *c)
{
	c->stopping = true;
	pthread_cond_broadcast(&c->moved);
	ring(c->stop);
}

/* With the lock held. TCP waits long before it gives a connection up: a link that is gone is said at
 * once. */
static void crew_look_at_links(struct rails_crew *c)
{
	const struct rails_events *ev = c->events;
	char trouble[64];

	if (clock_ns() < c->looked_ns + LOOK_NS)
		return;
	c->looked_ns = clock_ns();
	for (uint32_t i = 0; i < c->rails->count; i++) {
		struct seat *s = &c->seats[i];

		if (!s->run || s->troubled >= LOOKS)
			continue;
		s->troubled = *rail_trouble(s->rail, trouble) ? s->troubled + 1 : 0;
		if (s->troubled == LOOKS && ev->trouble)
			ev->trouble(ev->context, s->rail, trouble);
	}
}

/* With the lock held. Whether it is time to go. */
static bool crew_look(struct rails_crew *c)
{
	bool client = c->rails->asked->client;

	crew_look_at_links(c);
	if (!client && round_is_over(c)) {
		round_end(c);
		if (c->rails->asked->once && !c->stopping)
			crew_stop(c);
	}
	return all_are(c, seat_ended);
}

static void crew_watch(struct rails_crew *c)
{
	bool done = false;
	uint64_t rings;

	while (!done) {
		struct pollfd set[2] = { { .fd = c->bell, .events = POLLIN },
			{ .fd = c->stopping ? -1 : c->events->stop_fd, .events = POLLIN } };

		if (poll(set, 2, NAP_MS) < 0)
			set[0].revents = set[1].revents = 0;
		if (set[0].revents && read(c->bell, &rings, sizeof(rings)) < 0)
			set[0].revents = 0;
		pthread_mutex_lock(&c->lock);
		if (set[1].revents)
			crew_stop(c);
		done = crew_look(c);
		pthread_mutex_unlock(&c->lock);
	}
}

static int crew_open(
	struct rails_crew *c, struct rails *rails, const struct rails_events *events, struct err *e)
{
	pthread_condattr_t attr;

	*c = (struct rails_crew){ .rails = rails, .events = events };
	c->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->seats = calloc(rails->count, sizeof(*c->seats));
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->moved, &attr);
	pthread_condattr_destroy(&attr);
	if (c->stop < 0 || c->bell < 0)
		return err_set(e, errno, "cannot make an eventfd: %m");
	return c->seats ? 0 : err_set(e, ENOMEM, "no memory for %u rails", rails->count);
}

static void crew_close(struct rails_crew *c)
{
	if (c->stop >= 0)
		close(c->stop);
	if (c->bell >= 0)
		close(c->bell);
	pthread_cond_destroy(&c->moved);
	pthread_mutex_destroy(&c->lock);
	free(c->seats);
}

int rails_run(struct rails *rails, const struct rails_events *events, struct err *e)
{
	struct rails_crew c;
	sigset_t all, before;
	int ret;

	ret = crew_open(&c, rails, events, e);
	if (ret)
		goto close;
	/* Signals are for the main thread. Nobody looks at the crew before all have a seat. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_mutex_lock(&c.lock);
	for (uint32_t i = 0; i < rails->count; i++)
		seat_start(&c.seats[i], &c, &rails->rail[i]);
	pthread_mutex_unlock(&c.lock);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	crew_watch(&c);
	for (uint32_t i = 0; i < rails->count; i++)
		if (c.seats[i].has_thread)
			pthread_join(c.seats[i].thread, NULL);
	/* A client's round; a server's that was stopped in the middle, or that could never listen. */
	if (rails->asked->client || round_is_open(&c) ||
		(!c.stopping && all_are(&c, seat_reported)))
		round_end(&c);
close:
	crew_close(&c);
	return ret;
}
