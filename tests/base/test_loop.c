/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/loop.h"

static struct loop loop;
static int wakes;

static void count_wake(struct loop *l)
{
	(void)l;
	wakes++;
}

static int setup(void **state)
{
	struct err e;

	(void)state;
	wakes = 0;
	return loop_init(&loop, count_wake, &e);
}

static int teardown(void **state)
{
	(void)state;
	loop_close(&loop);
	return 0;
}

static void run_loop(void)
{
	struct err e = { 0 };

	if (loop_run(&loop, &e))
		fail_msg("%s", e.what);
}

static void stop_at(struct loop *l, struct loop_timer *timer)
{
	(void)timer;
	loop_stop(l);
}

static void do_nothing(struct loop *l, struct loop_timer *timer)
{
	(void)l;
	(void)timer;
}

/* Descriptors */

struct pair {
	struct loop_fd io;
	struct pair *other; /* what the handler removes, or NULL */
	int far, calls;
	uint32_t events;
	bool forget;
};

static void pair_open(struct pair *p, uint32_t events, loop_fd_fn *ready)
{
	struct err e;
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	p->far = fd[1];
	assert_int_equal(loop_add(&loop, &p->io, fd[0], events, ready, &e), 0);
}

static void pair_close(struct pair *p)
{
	if (p->io.fd >= 0)
		close(p->io.fd);
	close(p->far);
}

static void pair_write(struct pair *p)
{
	assert_int_equal(write(p->far, "x", 1), 1);
}

static void pair_read_and_stop(struct loop *l, struct loop_fd *io, uint32_t events)
{
	struct pair *p = container_of(io, struct pair, io);
	char byte;

	p->calls++;
	p->events = events;
	if (events & EPOLLIN)
		assert_true(read(io->fd, &byte, 1) >= 0);
	loop_stop(l);
}

static void test_loop_calls_a_source_with_its_events(void **state)
{
	struct pair p = { 0 };

	(void)state;
	pair_open(&p, EPOLLIN, pair_read_and_stop);
	pair_write(&p);
	run_loop();
	assert_int_equal(p.calls, 1);
	assert_int_equal(p.events, EPOLLIN);
	loop_change(&loop, &p.io, EPOLLOUT);
	run_loop();
	assert_int_equal(p.calls, 2);
	assert_int_equal(p.events, EPOLLOUT);
	pair_close(&p);
}

static void test_loop_add_says_why_a_descriptor_cannot_be_watched(void **state)
{
	struct loop_fd io;
	struct err e;

	(void)state;
	assert_int_equal(loop_add(&loop, &io, -1, EPOLLIN, pair_read_and_stop, &e), -EBADF);
	assert_int_equal(e.code, EBADF);
	assert_non_null(strstr(e.what, "cannot watch"));
}

static void pair_count(struct loop *l, struct loop_fd *io, uint32_t events)
{
	struct pair *p = container_of(io, struct pair, io);

	(void)l;
	(void)events;
	p->calls++;
}

static void test_loop_change_gives_an_edge_triggered_source_its_edge_again(void **state)
{
	struct loop_timer stop = { 0 };
	struct pair p = { 0 };

	(void)state;
	pair_open(&p, EPOLLIN | EPOLLET, pair_count);
	pair_write(&p);
	loop_timer_set(&loop, &stop, clock_ns() + 3 * NS_PER_MS, stop_at);
	run_loop();
	assert_int_equal(p.calls, 1);
	loop_change(&loop, &p.io, EPOLLIN | EPOLLET);
	loop_timer_set(&loop, &stop, clock_ns() + 3 * NS_PER_MS, stop_at);
	run_loop();
	assert_int_equal(p.calls, 2);
	pair_close(&p);
}

static void pair_remove_other(struct loop *l, struct loop_fd *io, uint32_t events)
{
	struct pair *p = container_of(io, struct pair, io);
	char byte;

	(void)events;
	p->calls++;
	assert_int_equal(read(io->fd, &byte, 1), 1);
	if (!p->other)
		return;
	if (p->forget) {
		loop_forget(l, &p->other->io);
		close(p->other->io.fd);
		p->other->io.fd = -1;
	} else {
		loop_remove(l, &p->other->io);
	}
	/* What is removed may be freed at once: its memory must not be touched any more. */
	p->other->io.ready = NULL;
	p->other->other = NULL;
}

static void remove_in_the_same_batch(bool forget)
{
	struct loop_timer stop = { 0 };
	struct pair a = { .forget = forget }, b = { .forget = forget };

	a.other = &b;
	b.other = &a;
	pair_open(&a, EPOLLIN, pair_remove_other);
	pair_open(&b, EPOLLIN, pair_remove_other);
	pair_write(&a);
	pair_write(&b);
	/* Both are ready in one batch; whichever comes first removes the other. */
	loop_timer_set(&loop, &stop, clock_ns() + 5 * NS_PER_MS, stop_at);
	run_loop();
	assert_int_equal(a.calls + b.calls, 1);
	pair_close(&a);
	pair_close(&b);
}

static void test_loop_remove_drops_events_of_the_same_batch(void **state)
{
	(void)state;
	remove_in_the_same_batch(false);
}

static void test_loop_forget_drops_events_of_the_same_batch(void **state)
{
	(void)state;
	remove_in_the_same_batch(true);
}

static void pair_remove_itself(struct loop *l, struct loop_fd *io, uint32_t events)
{
	struct pair *p = container_of(io, struct pair, io);

	(void)events;
	p->calls++;
	loop_remove(l, io);
	io->ready = NULL;
}

static void test_loop_a_source_may_remove_itself(void **state)
{
	struct loop_timer stop = { 0 };
	struct pair p = { 0 };

	(void)state;
	pair_open(&p, EPOLLIN, pair_remove_itself);
	pair_write(&p);
	loop_timer_set(&loop, &stop, clock_ns() + 3 * NS_PER_MS, stop_at);
	run_loop();
	assert_int_equal(p.calls, 1);
	pair_close(&p);
}

/* As for a moment a process has that is being started. */
static void test_loop_remove_holds_where_another_has_the_descriptor_too(void **state)
{
	struct loop_timer stop = { 0 };
	struct pair p = { 0 };
	int others;

	(void)state;
	pair_open(&p, EPOLLIN, pair_read_and_stop);
	others = dup(p.io.fd);
	assert_true(others >= 0);
	loop_remove(&loop, &p.io);
	close(p.io.fd);
	p.io.fd = -1;
	pair_write(&p);
	loop_timer_set(&loop, &stop, clock_ns() + 3 * NS_PER_MS, stop_at);
	run_loop();
	assert_int_equal(p.calls, 0);
	close(others);
	pair_close(&p);
}

static void pair_replace(struct loop *l, struct loop_fd *io, uint32_t events)
{
	struct pair *p = container_of(io, struct pair, io);
	struct err e;

	(void)events;
	p->calls++;
	loop_remove(l, io);
	assert_int_equal(loop_add(l, io, io->fd, EPOLLIN, pair_read_and_stop, &e), 0);
}

static void test_loop_a_handler_may_add_its_source_again(void **state)
{
	struct pair p = { 0 };

	(void)state;
	pair_open(&p, EPOLLIN, pair_replace);
	pair_write(&p);
	run_loop();
	assert_int_equal(p.calls, 2);
	pair_close(&p);
}

static void test_loop_stop_leaves_the_rest_of_the_batch_for_the_next_run(void **state)
{
	struct pair a = { 0 }, b = { 0 };

	(void)state;
	pair_open(&a, EPOLLIN, pair_read_and_stop);
	pair_open(&b, EPOLLIN, pair_read_and_stop);
	pair_write(&a);
	pair_write(&b);
	run_loop();
	assert_int_equal(a.calls + b.calls, 1);
	run_loop();
	assert_int_equal(a.calls + b.calls, 2);
	pair_close(&a);
	pair_close(&b);
}

/* Both the source that stops the loop and the alarm of a timer are in the batch that follows. */
static void pair_make_a_full_batch(struct loop *l, struct loop_fd *io, uint32_t events)
{
	struct pair *p = container_of(io, struct pair, io);
	uint64_t due_ns = loop_next_due_ns(l);
	char byte;

	(void)events;
	assert_int_equal(read(io->fd, &byte, 1), 1);
	pair_write(p->other);
	while (clock_ns() < due_ns + 2 * NS_PER_MS)
		;
}

static void *write_later(void *argument)
{
	usleep(2000);
	pair_write(argument);
	return NULL;
}

static volatile sig_atomic_t alarms;

static void count_alarm(int number)
{
	(void)number;
	alarms++;
}

static void test_loop_stop_with_the_alarm_in_the_batch_leaves_the_next_run_its_timers(void **state)
{
	struct loop_timer soon = { 0 }, stop = { 0 };
	struct pair a = { 0 }, b = { 0 };
	pthread_t thread;

	(void)state;
	a.other = &b;
	pair_open(&a, EPOLLIN, pair_make_a_full_batch);
	pair_open(&b, EPOLLIN, pair_read_and_stop);
	loop_timer_set(&loop, &soon, clock_ns() + 30 * NS_PER_MS, do_nothing);
	assert_int_equal(pthread_create(&thread, NULL, write_later, &a), 0);
	run_loop();
	pthread_join(thread, NULL);
	assert_int_equal(b.calls, 1);
	/* Ends the sleep of a loop that would sleep for ever. */
	alarms = 0;
	signal(SIGALRM, count_alarm);
	alarm(10);
	loop_timer_set(&loop, &stop, clock_ns() + NS_PER_MS, stop_at);
	run_loop();
	alarm(0);
	assert_int_equal(alarms, 0);
	pair_close(&a);
	pair_close(&b);
}

static void pair_read_all(struct loop *l, struct loop_fd *io, uint32_t events)
{
	struct pair *p = container_of(io, struct pair, io);
	char byte;

	(void)l;
	(void)events;
	p->calls += (int)read(io->fd, &byte, 1);
}

static void test_loop_serves_many_sources_in_small_batches(void **state)
{
	struct loop_timer stop = { 0 };
	static struct pair p[100];
	int calls = 0;

	(void)state;
	loop.batch_size = 3;
	for (int i = 0; i < 100; i++) {
		pair_open(&p[i], EPOLLIN, pair_read_all);
		pair_write(&p[i]);
	}
	loop_timer_set(&loop, &stop, clock_ns() + 20 * NS_PER_MS, stop_at);
	run_loop();
	for (int i = 0; i < 100; i++) {
		calls += p[i].calls;
		pair_close(&p[i]);
	}
	assert_int_equal(calls, 100);
}

/* A schedule that cannot be kept is always due. */
struct ticker {
	struct loop_timer timer;
	int beats;
};

static void always_due(struct loop *l, struct loop_timer *timer)
{
	struct ticker *t = container_of(timer, struct ticker, timer);

	if (++t->beats == 1000)
		loop_stop(l);
	else
		loop_timer_set(l, timer, clock_ns(), always_due);
}

static void test_loop_a_timer_that_is_always_due_does_not_starve_the_sources(void **state)
{
	struct ticker t = { 0 };
	struct pair p = { 0 };

	(void)state;
	pair_open(&p, EPOLLIN, pair_read_all);
	pair_write(&p);
	loop_wake(&loop);
	loop_timer_set(&loop, &t.timer, clock_ns(), always_due);
	run_loop();
	assert_int_equal(p.calls, 1);
	assert_int_equal(wakes, 1);
	pair_close(&p);
}

/* Waking */

static void *wake_later(void *argument)
{
	(void)argument;
	usleep(3000);
	loop_wake(&loop);
	return NULL;
}

static void wake_and_stop(struct loop *l)
{
	wakes++;
	loop_stop(l);
}

static void test_loop_wake_from_another_thread_ends_the_sleep(void **state)
{
	pthread_t thread;

	(void)state;
	loop.woken = wake_and_stop;
	assert_int_equal(pthread_create(&thread, NULL, wake_later, NULL), 0);
	run_loop();
	pthread_join(thread, NULL);
	assert_int_equal(wakes, 1);
}

static void test_loop_wake_before_the_run_is_not_lost_and_several_are_one(void **state)
{
	(void)state;
	loop.woken = wake_and_stop;
	for (int i = 0; i < 1000; i++)
		loop_wake(&loop);
	run_loop();
	assert_int_equal(wakes, 1);
}

static void test_loop_without_a_woken_function_survives_a_wake(void **state)
{
	struct loop_timer stop = { 0 };

	(void)state;
	loop.woken = NULL;
	loop_wake(&loop);
	loop_timer_set(&loop, &stop, clock_ns() + 2 * NS_PER_MS, stop_at);
	run_loop();
}

#define WAKES 20000

static _Atomic int posted;
static int seen;

static void *wake_often(void *argument)
{
	(void)argument;
	for (int i = 0; i < WAKES; i++) {
		posted++;
		loop_wake(&loop);
	}
	return NULL;
}

static void look_at_posted(struct loop *l)
{
	seen = posted;
	if (seen == 2 * WAKES)
		loop_stop(l);
}

static void test_loop_no_wake_is_lost_under_a_storm_of_them(void **state)
{
	pthread_t a, b;

	(void)state;
	posted = 0;
	loop.woken = look_at_posted;
	assert_int_equal(pthread_create(&a, NULL, wake_often, NULL), 0);
	assert_int_equal(pthread_create(&b, NULL, wake_often, NULL), 0);
	run_loop();
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	assert_int_equal(seen, 2 * WAKES);
}

static void test_loop_sleeps_while_nothing_happens(void **state)
{
	struct loop_timer stop = { 0 };
	struct timespec before, after;

	(void)state;
	loop_timer_set(&loop, &stop, clock_ns() + 200 * NS_PER_MS, stop_at);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
	run_loop();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
	assert_true(clock_timespec_ns(after) - clock_timespec_ns(before) < 50 * NS_PER_MS);
}

static void test_loop_busy_serves_timers_sources_and_wakes(void **state)
{
	struct loop_timer stop = { 0 }, between[8] = { 0 };
	struct rusage before, after;
	struct pair p = { 0 };
	uint64_t due_ns;

	(void)state;
	loop.busy = true;
	pair_open(&p, EPOLLIN, pair_read_all);
	pair_write(&p);
	loop_wake(&loop);
	due_ns = clock_ns() + 40 * NS_PER_MS;
	loop_timer_set(&loop, &stop, due_ns, stop_at);
	for (uint64_t i = 0; i < 8; i++)
		loop_timer_set(&loop, &between[i], due_ns - (i + 1) * 4 * NS_PER_MS, do_nothing);
	getrusage(RUSAGE_THREAD, &before);
	run_loop();
	getrusage(RUSAGE_THREAD, &after);
	assert_true(clock_ns() >= due_ns);
	assert_int_equal(p.calls, 1);
	assert_int_equal(wakes, 1);
	/* It never gave the processor up by itself; asleep, it would have for each timer. */
	assert_true(after.ru_nvcsw - before.ru_nvcsw <= 2);
	pair_close(&p);
}

static void test_loop_goes_back_from_busy_to_sleeping(void **state)
{
	struct loop_timer stop = { 0 };

	(void)state;
	loop.busy = true;
	loop_timer_set(&loop, &stop, clock_ns() + NS_PER_MS, stop_at);
	run_loop();
	loop.busy = false;
	loop_timer_set(&loop, &stop, clock_ns() + NS_PER_MS, stop_at);
	run_loop();
}

static void test_loop_that_looks_again_sees_what_comes_meanwhile(void **state)
{
	pthread_t thread;

	(void)state;
	spin_init(&loop.spin, 50 * NS_PER_MS);
	loop.woken = wake_and_stop;
	assert_int_equal(pthread_create(&thread, NULL, wake_later, NULL), 0);
	run_loop();
	pthread_join(thread, NULL);
	assert_int_equal(wakes, 1);
}

static void on_signal(int number)
{
	(void)number;
}

static void test_loop_survives_a_signal(void **state)
{
	struct itimerval every = { .it_interval.tv_usec = 2000, .it_value.tv_usec = 2000 },
			 off = { 0 };
	struct sigaction action = { .sa_handler = on_signal };
	struct loop_timer stop = { 0 };
	uint64_t due_ns = clock_ns() + 20 * NS_PER_MS;

	(void)state;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	loop_timer_set(&loop, &stop, due_ns, stop_at);
	run_loop();
	setitimer(ITIMER_REAL, &off, NULL);
	assert_true(clock_ns() >= due_ns);
}

static int open_descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void test_loop_close_gives_back_its_descriptors(void **state)
{
	int before = open_descriptors();
	struct loop *l = malloc(sizeof(*l));

	(void)state;
	assert_int_equal(loop_init(l, NULL, NULL), 0);
	loop_close(l);
	loop_close(l);
	free(l);
	assert_int_equal(open_descriptors(), before);
}

static void test_loop_init_without_descriptors_says_so_and_leaks_none(void **state)
{
	struct rlimit limit, low;
	struct loop *l = malloc(sizeof(*l));
	int before = open_descriptors();
	struct err e;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &limit);
	for (rlim_t spare = 0; spare < 3; spare++) {
		int used = dup(STDIN_FILENO), last = used;

		close(used);
		low = limit;
		low.rlim_cur = (rlim_t)last + spare;
		setrlimit(RLIMIT_NOFILE, &low);
		assert_int_equal(loop_init(l, NULL, &e), -EMFILE);
		setrlimit(RLIMIT_NOFILE, &limit);
		assert_int_equal(open_descriptors(), before);
	}
	free(l);
}

#define LOOP_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOOP_TEST(test_loop_calls_a_source_with_its_events),
		LOOP_TEST(test_loop_add_says_why_a_descriptor_cannot_be_watched),
		LOOP_TEST(test_loop_change_gives_an_edge_triggered_source_its_edge_again),
		LOOP_TEST(test_loop_remove_drops_events_of_the_same_batch),
		LOOP_TEST(test_loop_forget_drops_events_of_the_same_batch),
		LOOP_TEST(test_loop_a_source_may_remove_itself),
		LOOP_TEST(test_loop_remove_holds_where_another_has_the_descriptor_too),
		LOOP_TEST(test_loop_a_handler_may_add_its_source_again),
		LOOP_TEST(test_loop_stop_leaves_the_rest_of_the_batch_for_the_next_run),
		LOOP_TEST(
			test_loop_stop_with_the_alarm_in_the_batch_leaves_the_next_run_its_timers),
		LOOP_TEST(test_loop_serves_many_sources_in_small_batches),
		LOOP_TEST(test_loop_a_timer_that_is_always_due_does_not_starve_the_sources),
		LOOP_TEST(test_loop_wake_from_another_thread_ends_the_sleep),
		LOOP_TEST(test_loop_wake_before_the_run_is_not_lost_and_several_are_one),
		LOOP_TEST(test_loop_without_a_woken_function_survives_a_wake),
		LOOP_TEST(test_loop_no_wake_is_lost_under_a_storm_of_them),
		LOOP_TEST(test_loop_sleeps_while_nothing_happens),
		LOOP_TEST(test_loop_busy_serves_timers_sources_and_wakes),
		LOOP_TEST(test_loop_goes_back_from_busy_to_sleeping),
		LOOP_TEST(test_loop_that_looks_again_sees_what_comes_meanwhile),
		LOOP_TEST(test_loop_survives_a_signal),
		LOOP_TEST(test_loop_close_gives_back_its_descriptors),
		LOOP_TEST(test_loop_init_without_descriptors_says_so_and_leaks_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
