/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/loop.h"
#include "prng.h"

static struct loop loop;

static int setup(void **state)
{
	struct err e;

	(void)state;
	return loop_init(&loop, NULL, &e);
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

/* A pairing heap against the plainest model there is: an array that is searched. */

#define TIMERS 300

struct alarm {
	struct loop_timer timer;
	uint64_t due_ns; /* as the model has it; 0: not set */
};

static struct alarm alarms[TIMERS];
static uint64_t last_due_ns;
static int fired_count, early, out_of_order;

static uint64_t model_earliest(void)
{
	uint64_t earliest = UINT64_MAX;

	for (int i = 0; i < TIMERS; i++)
		if (alarms[i].due_ns && alarms[i].due_ns < earliest)
			earliest = alarms[i].due_ns;
	return earliest;
}

static void model_fire(struct loop *l, struct loop_timer *timer)
{
	struct alarm *a = container_of(timer, struct alarm, timer);

	early += clock_ns() < a->due_ns;
	out_of_order += a->due_ns < last_due_ns || a->due_ns != model_earliest();
	last_due_ns = a->due_ns;
	a->due_ns = 0;
	fired_count++;
	if (model_earliest() == UINT64_MAX)
		loop_stop(l);
}

static void model_step(uint64_t *seed, uint64_t base_ns, uint64_t spread_ns)
{
	struct alarm *a = &alarms[prng_below(seed, TIMERS)];

	if (prng_below(seed, 4) == 0) {
		loop_timer_cancel(&loop, &a->timer);
		a->due_ns = 0;
		return;
	}
	a->due_ns = base_ns + prng_below(seed, spread_ns);
	loop_timer_set(&loop, &a->timer, a->due_ns, model_fire);
}

static void test_loop_timers_keep_the_order_of_a_sorted_model(void **state)
{
	(void)state;
	for (uint64_t round = 1; round <= 40; round++) {
		uint64_t seed = round, base_ns = clock_ns();
		/* Narrow spreads make many equal times. */
		uint64_t spread_ns = round % 3 ? 3 * NS_PER_MS : 40;

		memset(alarms, 0, sizeof(alarms));
		last_due_ns = 0;
		fired_count = early = out_of_order = 0;
		for (int step = 0; step < 3000; step++) {
			model_step(&seed, base_ns, spread_ns);
			assert_int_equal(loop_next_due_ns(&loop), model_earliest());
		}
		if (model_earliest() != UINT64_MAX)
			run_loop();
		assert_true(fired_count > 0);
		assert_int_equal(early, 0);
		assert_int_equal(out_of_order, 0);
		assert_int_equal(loop_next_due_ns(&loop), UINT64_MAX);
	}
}

/* The same while handlers move other timers about. */
static uint64_t churn_seed;

static void churn_fire(struct loop *l, struct loop_timer *timer)
{
	struct alarm *a = container_of(timer, struct alarm, timer);

	early += clock_ns() < a->due_ns;
	out_of_order += a->due_ns != model_earliest();
	a->due_ns = 0;
	if (++fired_count < 5000) {
		for (int i = 0; i < 2; i++) {
			struct alarm *b = &alarms[prng_below(&churn_seed, TIMERS)];

			if (prng_below(&churn_seed, 3) == 0) {
				loop_timer_cancel(l, &b->timer);
				b->due_ns = 0;
				continue;
			}
			b->due_ns = clock_ns() + prng_below(&churn_seed, 30 * NS_PER_US);
			loop_timer_set(l, &b->timer, b->due_ns, churn_fire);
		}
	}
	if (model_earliest() == UINT64_MAX)
		loop_stop(l);
}

static void test_loop_timers_keep_order_while_handlers_set_and_cancel_others(void **state)
{
	(void)state;
	memset(alarms, 0, sizeof(alarms));
	fired_count = early = out_of_order = 0;
	churn_seed = 7;
	for (int i = 0; i < TIMERS; i++) {
		alarms[i].due_ns = clock_ns() + prng_below(&churn_seed, NS_PER_MS);
		loop_timer_set(&loop, &alarms[i].timer, alarms[i].due_ns, churn_fire);
	}
	run_loop();
	assert_true(fired_count > 1000);
	assert_int_equal(early, 0);
	assert_int_equal(out_of_order, 0);
}

static void test_loop_timer_fires_once_and_may_be_cancelled_when_not_set(void **state)
{
	struct alarm a = { 0 };
	struct loop_timer stop = { 0 };

	(void)state;
	loop_timer_cancel(&loop, &a.timer);
	memset(alarms, 0, sizeof(alarms));
	fired_count = 0;
	a.due_ns = clock_ns();
	loop_timer_set(&loop, &a.timer, a.due_ns, model_fire);
	loop_timer_set(&loop, &stop, clock_ns() + 5 * NS_PER_MS, stop_at);
	alarms[0].due_ns = UINT64_MAX - 1; /* keeps model_fire() from stopping the loop */
	run_loop();
	assert_int_equal(fired_count, 1);
	loop_timer_cancel(&loop, &a.timer);
}

static void test_loop_timer_due_long_ago_or_at_zero_fires_at_once(void **state)
{
	struct loop_timer stop = { 0 };

	(void)state;
	loop_timer_set(&loop, &stop, 0, stop_at);
	run_loop();
	loop_timer_set(&loop, &stop, 1, stop_at);
	run_loop();
	loop_timer_set(&loop, &stop, clock_ns(), stop_at);
	run_loop();
}

static void test_loop_timer_far_away_never_fires(void **state)
{
	struct loop_timer never = { 0 }, stop = { 0 };

	(void)state;
	loop_timer_set(&loop, &never, UINT64_MAX, NULL);
	loop_timer_set(&loop, &stop, clock_ns() + NS_PER_MS, stop_at);
	run_loop();
	loop_timer_cancel(&loop, &stop);
	assert_int_equal(loop_next_due_ns(&loop), UINT64_MAX);
	loop_timer_cancel(&loop, &never);
}

/* A timer that was armed and then moved later must not fire at its old time, nor be lost. */
static void test_loop_timer_moved_later_fires_at_its_new_time(void **state)
{
	struct loop_timer stop = { 0 }, soon = { 0 };
	uint64_t due_ns = clock_ns() + 20 * NS_PER_MS;

	(void)state;
	loop_timer_set(&loop, &soon, clock_ns() + NS_PER_MS, stop_at);
	run_loop();
	loop_timer_set(&loop, &stop, clock_ns() + 2 * NS_PER_MS, stop_at);
	loop_timer_set(&loop, &soon, clock_ns(), stop_at);
	run_loop(); /* the alarm is armed for stop's old time now */
	loop_timer_set(&loop, &stop, due_ns, stop_at);
	run_loop();
	assert_true(clock_ns() >= due_ns);
}

/* Each turn is late by some work; the schedule is not. */
struct metronome {
	struct loop_timer timer;
	uint64_t due_ns, gap_ns;
	uint64_t least_late_ns; /* of the last ten beats */
	int beats;
};

static void metronome_fire(struct loop *l, struct loop_timer *timer)
{
	struct metronome *m = container_of(timer, struct metronome, timer);

	uint64_t now_ns = clock_ns();

	early += now_ns < m->due_ns;
	if (m->beats >= 40 && now_ns - m->due_ns < m->least_late_ns)
		m->least_late_ns = now_ns - m->due_ns;
	usleep(300);
	m->due_ns += m->gap_ns;
	if (++m->beats == 50)
		loop_stop(l);
	else
		loop_timer_set(l, timer, m->due_ns, metronome_fire);
}

static void test_loop_timers_on_an_absolute_schedule_do_not_drift(void **state)
{
	uint64_t least_late_ns = UINT64_MAX;

	(void)state;
	early = 0;
	/* With gaps counted from the end of the work, beat 40 would come 12 ms late, every time; on a busy
	 * machine it may once or twice. */
	for (int i = 0; i < 50 && least_late_ns >= 6 * NS_PER_MS; i++) {
		struct metronome m = { .gap_ns = NS_PER_MS, .least_late_ns = UINT64_MAX };
		uint64_t begin_ns = clock_ns();

		m.due_ns = begin_ns + m.gap_ns;
		loop_timer_set(&loop, &m.timer, m.due_ns, metronome_fire);
		run_loop();
		assert_int_equal(early, 0);
		assert_true(clock_ns() - begin_ns >= 50 * NS_PER_MS);
		least_late_ns = m.least_late_ns;
	}
	assert_true(least_late_ns < 6 * NS_PER_MS);
}

static void test_loop_looks_again_before_it_sleeps_and_gives_that_up_when_it_does_not_pay(
	void **state)
{
	struct metronome m = { .gap_ns = 2 * NS_PER_MS, .least_late_ns = UINT64_MAX };
	struct timespec before, after;

	(void)state;
	early = 0;
	spin_init(&loop.spin, 500 * NS_PER_US);
	m.due_ns = clock_ns() + m.gap_ns;
	loop_timer_set(&loop, &m.timer, m.due_ns, metronome_fire);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
	run_loop();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
	assert_int_equal(early, 0);
	assert_int_equal(m.beats, 50);
	/* Looking for 500 us before each of 50 beats would take 25 ms. */
	assert_true(clock_timespec_ns(after) - clock_timespec_ns(before) < 15 * NS_PER_MS);
}

/* Due at once: each writes a byte, and finds that the one of the timer before was taken. */
static int pipe_ends[2], written, taken, behind;

static void write_one(struct loop *l, struct loop_timer *timer)
{
	(void)timer;
	behind += written > taken;
	written += (int)write(pipe_ends[1], "x", 1);
	if (written == 10)
		loop_stop(l);
}

static void take_one(struct loop *l, struct loop_fd *source, uint32_t events)
{
	char byte;

	(void)l;
	(void)events;
	taken += (int)read(source->fd, &byte, 1);
}

static int late_ones(unsigned int fire_max, uint64_t late_ns)
{
	struct loop_timer timers[10] = { 0 };
	struct loop_fd source;

	written = taken = behind = 0;
	loop.fire_max = fire_max;
	loop.late_ns = late_ns;
	assert_int_equal(pipe(pipe_ends), 0);
	assert_int_equal(loop_add(&loop, &source, pipe_ends[0], EPOLLIN, take_one, NULL), 0);
	for (int i = 0; i < 10; i++)
		loop_timer_set(&loop, &timers[i], 1, write_one);
	run_loop();
	loop_remove(&loop, &source);
	close(pipe_ends[0]);
	close(pipe_ends[1]);
	return behind;
}

static void test_loop_looks_at_sources_between_timers_when_told(void **state)
{
	(void)state;
	assert_int_equal(late_ones(1, 0), 0);
	assert_int_equal(late_ones(0, 0), 9);
	assert_int_equal(late_ones(1, NS_PER_US), 9); /* all were due long ago */
	assert_int_equal(late_ones(1, UINT64_MAX / 2), 0);
}

static void set_to_the_past(struct loop *l, struct loop_timer *timer)
{
	if (!written)
		written += (int)write(pipe_ends[1], "x", 1);
	if (++fired_count == 1000000) /* nothing else would end it */
		loop_stop(l);
	loop_timer_set(l, timer, 1, set_to_the_past);
}

static void take_and_stop(struct loop *l, struct loop_fd *source, uint32_t events)
{
	take_one(l, source, events);
	loop_stop(l);
}

static int taken_beside_the_past(uint64_t late_ns)
{
	struct loop_timer past = { 0 };
	struct loop_fd source;

	written = taken = fired_count = 0;
	loop.late_ns = late_ns;
	assert_int_equal(pipe(pipe_ends), 0);
	assert_int_equal(loop_add(&loop, &source, pipe_ends[0], EPOLLIN, take_and_stop, NULL), 0);
	loop_timer_set(&loop, &past, 1, set_to_the_past);
	run_loop();
	loop_timer_cancel(&loop, &past);
	loop_remove(&loop, &source);
	close(pipe_ends[0]);
	close(pipe_ends[1]);
	return taken;
}

static void test_loop_timer_that_sets_itself_to_the_past_does_not_starve_the_sources(void **state)
{
	(void)state;
	assert_int_equal(taken_beside_the_past(0), 1);
	loop.fire_max = 1;
	assert_int_equal(taken_beside_the_past(NS_PER_US), 1);
}

static struct loop_timer overdue;
static int fired_after; /* so many sources */

static void count_fired(struct loop *l, struct loop_timer *timer)
{
	(void)timer;
	fired_after = taken;
	loop_stop(l);
}

/* The timer becomes overdue while the first of two is served. */
static void take_long(struct loop *l, struct loop_fd *source, uint32_t events)
{
	uint64_t end_ns = clock_ns() + 2 * NS_PER_MS;

	take_one(l, source, events);
	if (taken == 1)
		loop_timer_set(l, &overdue, clock_ns() + NS_PER_US, count_fired);
	while (clock_ns() < end_ns)
		;
}

static int sources_before_the_overdue(uint64_t late_ns)
{
	struct loop_fd source[2];
	int ends[2][2];

	taken = 0;
	loop.fire_max = 1;
	loop.late_ns = late_ns;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pipe(ends[i]), 0);
		assert_int_equal(write(ends[i][1], "x", 1), 1);
		assert_int_equal(
			loop_add(&loop, &source[i], ends[i][0], EPOLLIN, take_long, NULL), 0);
	}
	run_loop();
	for (int i = 0; i < 2; i++) {
		loop_remove(&loop, &source[i]);
		close(ends[i][0]);
		close(ends[i][1]);
	}
	return fired_after;
}

static void test_loop_timer_that_is_late_comes_before_the_next_source(void **state)
{
	(void)state;
	assert_int_equal(sources_before_the_overdue(NS_PER_MS), 1);
	assert_int_equal(sources_before_the_overdue(0), 2);
}

/* Early to wake, never early to fire */

static void test_settling_is_learned_from_what_most_sleeps_take(void **state)
{
	struct settle s;

	(void)state;
	settle_init(&s, 100 * NS_PER_US);
	for (int i = 0; i < 2000; i++)
		settle_learn(&s, i % 20 ? 30 * NS_PER_US : NS_PER_MS);
	assert_in_range(s.ns, 28 * NS_PER_US, 50 * NS_PER_US);
	for (int i = 0; i < 2000; i++)
		settle_learn(&s, i % 5 ? 30 * NS_PER_US : 80 * NS_PER_US);
	assert_in_range(s.ns, 70 * NS_PER_US, 90 * NS_PER_US);
	assert_int_equal(settle_early_ns(&s, NS_PER_S), s.ns);
	assert_int_equal(settle_early_ns(&s, 3840 * NS_PER_US), 60 * NS_PER_US);
	assert_int_equal(settle_early_ns(&s, 10 * NS_PER_US), SETTLE_LEAST_NS);
	for (int i = 0; i < 1000; i++)
		settle_learn(&s, NS_PER_MS);
	assert_int_equal(s.ns, 100 * NS_PER_US);
	for (int i = 0; i < 1000; i++)
		settle_learn(&s, 0);
	assert_int_equal(s.ns, 0);
	settle_init(&s, 0);
	settle_learn(&s, NS_PER_MS);
	assert_int_equal(s.ns, 0);
}

static uint64_t due_ns;
static int fired, too_early;

static void fire_again(struct loop *l, struct loop_timer *timer)
{
	too_early += clock_ns() < due_ns;
	due_ns += 2 * NS_PER_MS;
	loop_timer_set(l, timer, due_ns, ++fired < 20 ? fire_again : stop_at);
}

static void test_a_loop_that_wakes_up_early_fires_no_timer_before_it_is_due(void **state)
{
	struct loop_timer timer = { 0 };

	(void)state;
	settle_init(&loop.settle, NS_PER_MS);
	loop.settle.ns = NS_PER_MS;
	fired = too_early = 0;
	due_ns = clock_ns() + 5 * NS_PER_MS;
	loop_timer_set(&loop, &timer, due_ns, fire_again);
	run_loop();
	assert_int_equal(fired, 20);
	assert_int_equal(too_early, 0);
	assert_true(loop.settle.ns <= NS_PER_MS);
}

#define LOOP_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOOP_TEST(test_loop_timers_keep_the_order_of_a_sorted_model),
		LOOP_TEST(test_loop_timers_keep_order_while_handlers_set_and_cancel_others),
		LOOP_TEST(test_loop_timer_fires_once_and_may_be_cancelled_when_not_set),
		LOOP_TEST(test_loop_timer_due_long_ago_or_at_zero_fires_at_once),
		LOOP_TEST(test_loop_timer_far_away_never_fires),
		LOOP_TEST(test_loop_timer_moved_later_fires_at_its_new_time),
		LOOP_TEST(test_loop_looks_at_sources_between_timers_when_told),
		LOOP_TEST(test_loop_timer_that_sets_itself_to_the_past_does_not_starve_the_sources),
		LOOP_TEST(test_loop_timer_that_is_late_comes_before_the_next_source),
		LOOP_TEST(test_settling_is_learned_from_what_most_sleeps_take),
		LOOP_TEST(test_a_loop_that_wakes_up_early_fires_no_timer_before_it_is_due),
		LOOP_TEST(test_loop_timers_on_an_absolute_schedule_do_not_drift),
		LOOP_TEST(
			test_loop_looks_again_before_it_sleeps_and_gives_that_up_when_it_does_not_pay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
