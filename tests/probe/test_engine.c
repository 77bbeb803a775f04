// SPDX-License-Identifier: BSD-3-Clause
#include "engines.h"

static void test_a_probe_is_settled_up_and_answered_in_this_order(void **state)
{
	struct probe_result r;

	(void)state;
	add(2, 10 * NS_PER_MS, 0);
	assert_int_equal(next().kind, PROBE_UP);
	r = next();
	assert_int_equal(r.kind, PROBE_SETTLED);
	assert_int_equal(r.code, 0);
	r = next_of(PROBE_ANSWERED);
	assert_true(r.rtt_ns > 0 && r.rtt_ns < PROBE_TIMEOUT_NS);
	/* Loopback stamps in software: the parts are there, and are not more than the whole. */
	assert_int_equal(r.stamps, PROBE_STAMPS_SOFTWARE);
	assert_true(r.network_ns + r.residence_ns <= r.rtt_ns);
	assert_true(r.starved_ns <= r.late_ns);
}

static void test_a_step_of_the_wall_clock_moves_labels_alone(void **state)
{
	static const int64_t steps_s[] = { 86400, -86400, 1, -1 };
	struct probe_result r = { 0 };
	int64_t away_ns;

	(void)state;
	add(2, 20 * NS_PER_MS, 0);
	next_of(PROBE_ANSWERED);
	for (size_t i = 0; i < sizeof(steps_s) / sizeof(steps_s[0]); i++) {
		step_s = steps_s[i];
		while (probe_engine_next(f.prober, &r))
			;
		/* Up to PROBE_IN_FLIGHT were sent before the step. */
		for (int n = 0; n < 20; n++) {
			r = next_of(PROBE_ANSWERED);
			assert_true(r.rtt_ns < 60 * NS_PER_S && r.late_ns < UINT32_MAX);
			if (r.stamps)
				assert_true(r.network_ns + r.residence_ns <= r.rtt_ns);
		}
		away_ns = (int64_t)(r.wall_ns - clock_wall_ns());
		assert_true(away_ns > -(int64_t)(30 * NS_PER_S) && away_ns <= 0);
	}
}

static void test_a_peer_without_an_agent_is_a_row_per_slot_and_words(void **state)
{
	char words[PROBE_WORDS];
	struct probe_result r;

	(void)state;
	add(3, 10 * NS_PER_MS, 0);
	r = next();
	assert_int_equal(r.kind, PROBE_DOWN);
	assert_string_equal(probe_result_words(&r, words), "not connected: agent: UNAVAILABLE");
	assert_int_equal(next().kind, PROBE_SETTLED);
	for (int i = 0; i < 10; i++)
		assert_int_equal(next().kind, PROBE_UNSENT);
}

static void test_a_removed_target_is_gone_and_its_place_is_free(void **state)
{
	struct probe_target *target = add(2, 10 * NS_PER_MS, 0);
	struct probe_stats stats;
	struct probe_result r;

	(void)state;
	next_of(PROBE_ANSWERED);
	probe_engine_remove(f.prober, target);
	r = next_of(PROBE_GONE);
	assert_ptr_equal(r.target, target);
	assert_false(probe_engine_next(f.prober, &r));
	probe_engine_stats(f.prober, &stats);
	assert_int_equal(stats.targets, 0);
}

static void doze(int signal_number)
{
	struct timespec t = { .tv_nsec = 300000000 };

	(void)signal_number;
	nanosleep(&t, NULL);
}

static void test_periods_that_a_thread_slept_through_are_counted(void **state)
{
	struct sigaction action = { .sa_handler = doze };
	uint64_t end_ns = clock_ns() + PATIENCE_NS;
	struct probe_stats stats;

	(void)state;
	sigaction(SIGUSR1, &action, NULL);
	add(2, 10 * NS_PER_MS, 0);
	next_of(PROBE_ANSWERED);
	pthread_kill(f.prober->worker[0].thread, SIGUSR1);
	do {
		assert_true(clock_ns() < end_ns);
		usleep(1000);
		probe_engine_stats(f.prober, &stats);
	} while (stats.skipped < 25);
	/* No burst makes up for them. */
	assert_true(stats.sent + stats.skipped <=
		    (clock_ns() - (end_ns - PATIENCE_NS)) / (10 * NS_PER_MS) + 1);
}

/* The responder sleeps with requests before it, the prober longer: beyond the deadline, the answers wait. */
static bool sleep_over_answers(uint64_t timeout_ns)
{
	struct probe_stats before, now;
	struct probe_result r;

	pthread_kill(f.responder->worker[0].thread, SIGUSR1);
	probe_engine_stats(f.prober, &before);
	do {
		usleep(1000);
		probe_engine_stats(f.prober, &now);
	} while (now.sent < before.sent + 3);
	pthread_kill(f.prober->worker[0].thread, SIGUSR1);
	usleep(50000);
	pthread_kill(f.prober->worker[0].thread, SIGUSR1); /* waits for the first */
	for (int i = 0; i < 10; i++) {
		r = next();
		if (r.kind == PROBE_ANSWERED && r.rtt_ns > timeout_ns)
			return true;
	}
	return false;
}

static void test_an_answer_that_waited_for_a_sleeping_prober_is_not_lost(void **state)
{
	struct probe_want want = { .local = address(1),
		.peer = address(2),
		.period_ns = 20 * NS_PER_MS,
		.timeout_ns = 200 * NS_PER_MS,
		.payload_bytes = 100 };
	struct sigaction action = { .sa_handler = doze };
	struct probe_target *target;
	bool seen = false;

	(void)state;
	sigaction(SIGUSR1, &action, NULL);
	assert_int_equal(probe_engine_add(f.prober, &target, &want, NULL), 0);
	next_of(PROBE_ANSWERED);
	/* On a busy machine the responder may be the later one. */
	for (int i = 0; i < 20 && !seen; i++)
		seen = sleep_over_answers(want.timeout_ns);
	assert_true(seen);
}

/* Without an end, but for a test that fails: then the prober is free to say what it saw instead. */
static void gives_what_nobody_asked_for(int fd)
{
	uint64_t end_ns = clock_ns() + 5 * NS_PER_S;

	if (!peer_take(fd))
		return;
	while (clock_ns() < end_ns && peer_give(fd, 0, 0, PEER_FRAMES))
		;
}

static void test_answers_that_nobody_asked_for_end_their_connection_and_stop_no_other(void **state)
{
	struct probe_target *honest = add(2, 10 * NS_PER_MS, 0), *flooded;
	struct probe_result r;

	(void)state;
	next_of(PROBE_ANSWERED);
	peer_begin(gives_what_nobody_asked_for);
	flooded = peer_add(10 * NS_PER_MS, 0);
	r = next_of(PROBE_DOWN);
	assert_ptr_equal(r.target, flooded);
	assert_int_equal(r.stage, PROBE_AT_PROBE);
	assert_int_equal(r.code, EPROTO);
	assert_ptr_equal(next_of(PROBE_ANSWERED).target, honest);
}

static void gives_one_twice(int fd)
{
	if (peer_take(fd))
		peer_give(fd, 1, 0, 2);
}

static void test_an_answer_that_comes_twice_ends_the_connection(void **state)
{
	(void)state;
	peer_begin(gives_one_twice);
	peer_add(50 * NS_PER_MS, 100 * NS_PER_MS);
	assert_int_equal(next_of(PROBE_ANSWERED).code, 0);
	assert_int_equal(next_of(PROBE_DOWN).code, EPROTO);
}

#define SAVED_UP (3 * PROBE_IN_FLIGHT)

/* As if so many had been sent and lost one by one, and the next is due now and no other soon. */
static void lose_some(void *context)
{
	struct worker *w = &f.prober->worker[0];
	struct probe_target *t = container_of(w->targets.next, struct probe_target, link);

	(void)context;
	if (t->state != TARGET_UP || t->next != 1)
		return;
	t->next = t->oldest = 1 + SAVED_UP;
	t->phase_ns = clock_ns() + 10 * NS_PER_MS - t->want.period_ns;
}

static void saves_up(int fd)
{
	if (peer_take(fd))
		peer_give(fd, 1, 1, SAVED_UP + 1);
}

static void test_answers_that_were_saved_up_are_all_taken_without_another_edge(void **state)
{
	struct probe_stats stats;

	(void)state;
	f.prober->config.notify = lose_some;
	peer_begin(saves_up);
	peer_add(2 * PATIENCE_NS, 2 * PATIENCE_NS);
	next_of(PROBE_ANSWERED);
	probe_engine_stats(f.prober, &stats);
	assert_int_equal(stats.sent, 1);
}

/* By somebody who says nothing. */
static int connected(uint16_t port)
{
	struct sock_addr from = address(1), to = address(2);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	sock_addr_set_port(&to, port);
	assert_int_equal(bind(fd, (struct sockaddr *)&from.storage, from.len), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to.storage, to.len), 0);
	return fd;
}

#define SILENT (STRANGERS_MAX + 8)

/* false: this process may not have the descriptors of both ends. */
static bool descriptors_suffice(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_cur >= 2 * SILENT + 100;
}

static void test_silent_connections_do_not_keep_a_prober_out(void **state)
{
	int fd[SILENT];
	char byte;

	(void)state;
	if (!descriptors_suffice())
		skip();
	for (int i = 0; i < SILENT; i++)
		fd[i] = connected(f.responder->worker[0].door[0].port);
	add(2, 10 * NS_PER_MS, 0);
	assert_int_equal(next().kind, PROBE_UP);
	next_of(PROBE_ANSWERED);
	/* Who came first has left. */
	assert_true(recv(fd[0], &byte, 1, 0) <= 0);
	for (int i = 0; i < SILENT; i++)
		close(fd[i]);
}

/* Somebody waits at the port while descriptors are out: it is asked a few times, not all the time. */
static void wait_at(uint16_t port)
{
	uint64_t begin_ns = clock_ns();
	int fd;

	refusals = 0;
	refused_port = port;
	fd = connected(port);
	while (!refusals) {
		assert_true(clock_ns() < begin_ns + PATIENCE_NS);
		usleep(1000);
	}
	usleep(300000);
	assert_true(refusals <= 1 + (clock_ns() - begin_ns) / DOOR_PAUSE_NS);
	refused_port = 0;
	close(fd);
}

static void test_a_door_without_descriptors_is_looked_at_now_and_then(void **state)
{
	(void)state;
	wait_at(f.responder->worker[0].door[0].port);
	add(2, 10 * NS_PER_MS, 0);
	next_of(PROBE_ANSWERED);
}

static void test_a_pongs_door_without_descriptors_is_looked_at_now_and_then(void **state)
{
	struct sock_addr client = address(1), server = address(2);
	uint16_t port;

	(void)state;
	assert_int_equal(
		probe_engine_pong(f.responder, &client, &server, UINT64_MAX, &port, NULL), 0);
	wait_at(port);
}

static void test_an_engine_ends_while_a_thread_waits_for_its_owner(void **state)
{
	struct worker *w = &f.prober->worker[0];

	(void)state;
	/* As if so many results had not been read. */
	memset(w->ring, 0, RING_RESULTS * sizeof(*w->ring));
	w->tail = w->head - RING_RESULTS;
	add(2, 10 * NS_PER_MS, 0);
	usleep(200000); /* until it is connected, more or less */
	alarm(PATIENCE_NS / NS_PER_S);
	probe_engine_free(f.prober);
	alarm(0);
	f.prober = NULL;
}

static uint64_t tick_of(const struct probe_target *t)
{
	return t->phase_ns;
}

static void test_pairs_share_a_grid_that_is_their_agents_own(void **state)
{
	const uint64_t four_ns = 4 * PROBE_GRID_NS;
	struct probe_target *first = add(2, four_ns, 0), *other;

	(void)state;
	for (uint32_t copy = 1; copy < 40; copy++) {
		other = add(2, copy % 2 ? four_ns : 5 * four_ns, copy);
		assert_int_equal(tick_of(other) % PROBE_GRID_NS, tick_of(first) % PROBE_GRID_NS);
	}
	/* Few of them share one: a tick wakes both ends. */
	for (uint32_t tick = 0, used = 0; tick < TICKS; tick++) {
		used += f.prober->worker[0].ticks[tick] > 0;
		assert_true(used <= 2); /* that of 5 * four_ns may be one that four_ns has not */
	}
}

static void test_ticks_are_filled_one_after_the_other_then_evenly(void **state)
{
	const uint64_t four_ns = 4 * PROBE_GRID_NS;
	const uint32_t *ticks = f.prober->worker[0].ticks;
	uint32_t full = 0, used = 0;

	(void)state;
	for (uint32_t copy = 0; copy < 2 * TICK_TARGETS + 1; copy++)
		add(2, four_ns, copy);
	for (int i = 0; i < 4; i++) {
		full += ticks[i] == TICK_TARGETS;
		used += ticks[i] > 0;
	}
	assert_true(full == 2 && used == 3);
	for (uint32_t copy = 2 * TICK_TARGETS + 1; copy < 5 * TICK_TARGETS; copy++)
		add(2, four_ns, copy);
	for (int i = 0; i < 4; i++)
		assert_in_range(ticks[i], TICK_TARGETS, TICK_TARGETS * 3 / 2);
}

static void test_large_payloads_are_spread_over_all_ticks(void **state)
{
	struct probe_want want = { .local = address(1),
		.peer = address(2),
		.period_ns = 4 * PROBE_GRID_NS,
		.payload_bytes = TICK_PAYLOAD + 1 };
	struct probe_target *target;

	(void)state;
	for (want.copy = 0; want.copy < 4; want.copy++)
		assert_int_equal(probe_engine_add(f.prober, &target, &want, NULL), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(f.prober->worker[0].ticks[i], 1);
}

static void test_pairs_with_a_period_shorter_than_the_grid_send_together_too(void **state)
{
	const uint64_t periods_ns[] = { PROBE_GRID_NS / 2, PROBE_GRID_NS / 3, 5 * NS_PER_MS };

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		uint64_t period_ns = periods_ns[i];
		struct probe_target *first = add(2, period_ns, 2 * i),
				    *other = add(2, period_ns, 2 * i + 1);

		assert_int_equal(tick_of(other) % period_ns, tick_of(first) % period_ns);
		assert_true(tick_of(first) < clock_ns() + period_ns);
	}
}

static void test_each_pair_of_a_tick_is_due_at_a_time_of_its_own(void **state)
{
	uint64_t period_ns = 200 * NS_PER_MS, due_ns[60], apart_ns;
	struct pace pace;

	(void)state;
	pace_init(&pace);
	for (uint32_t copy = 0; copy < 60; copy++) {
		struct probe_target *t = add(2, period_ns, copy);

		due_ns[copy] = (t->phase_ns + pace_after_ns(&pace, t->place)) % period_ns;
		for (uint32_t other = 0; other < copy; other++) {
			apart_ns = due_ns[copy] > due_ns[other] ? due_ns[copy] - due_ns[other]
								: due_ns[other] - due_ns[copy];
			assert_true(apart_ns >= PACE_GAP_NS);
		}
	}
}

#define SHARING 100

/* The worker waits for its inbox, as if another had its CPU, from before a tick until some of it are too late. */
static void hold_up(uint64_t tick_ns)
{
	struct worker *w = &f.prober->worker[0];

	usleep((useconds_t)((tick_ns - 2 * NS_PER_MS - clock_ns()) / NS_PER_US));
	pthread_mutex_lock(&w->inbox_lock);
	loop_wake(&w->loop);
	while (clock_ns() < tick_ns + 2 * TOO_LATE_NS)
		;
	pthread_mutex_unlock(&w->inbox_lock);
}

/* Whether the first of a tick was sent after another of it. All of it are answered. */
static bool first_gave_way(void)
{
	uint64_t first_ns = 0, earliest_ns = UINT64_MAX;
	struct probe_result r;

	for (int i = 0; i < SHARING; i++) {
		r = next_of(PROBE_ANSWERED);
		if (!r.target->place)
			first_ns = r.wall_ns;
		else if (r.wall_ns < earliest_ns)
			earliest_ns = r.wall_ns;
	}
	assert_true(first_ns);
	return earliest_ns < first_ns;
}

static void test_a_probe_that_is_too_late_lets_those_go_first_that_are_not(void **state)
{
	uint64_t period_ns = 200 * NS_PER_MS, tick_ns = 0;
	bool gave_way = false;

	(void)state;
	for (uint32_t copy = 0; copy < SHARING; copy++)
		tick_ns = tick_of(add(2, period_ns, copy));
	for (int i = 0; i < SHARING; i++)
		next_of(PROBE_UP);
	for (int tries = 0; !gave_way && tries < 20; tries++) {
		struct probe_result r;

		while (tick_ns < clock_ns() + 50 * NS_PER_MS)
			tick_ns += period_ns;
		while (probe_engine_next(f.prober, &r))
			;
		hold_up(tick_ns);
		gave_way = first_gave_way();
	}
	assert_true(gave_way);
}

static void test_a_lull_is_near_and_well_before_a_tick(void **state)
{
	uint64_t tick_ns = tick_of(add(2, PROBE_GRID_NS, 0)), near_ns, lull_ns;

	(void)state;
	for (int i = 0; i < 100; i++) {
		near_ns = tick_ns + (uint64_t)i * 7 * NS_PER_MS;
		lull_ns = probe_engine_lull_ns(f.prober, near_ns);
		assert_in_range(lull_ns, near_ns - PROBE_GRID_NS / 2, near_ns + PROBE_GRID_NS / 2);
		assert_int_equal(
			(lull_ns - tick_ns + PROBE_GRID_NS) % PROBE_GRID_NS, PROBE_GRID_NS * 3 / 4);
	}
}

static void test_looking_for_answers_ends_with_its_share_of_a_second(void **state)
{
	static struct worker w;
	uint64_t now_ns = 5 * NS_PER_S;

	(void)state;
	worker_expect(&w, now_ns);
	assert_int_equal(w.loop.spin.limit_ns, 0);
	w.in_burst = true;
	worker_expect(&w, now_ns);
	assert_int_equal(w.loop.spin.limit_ns, BURST_NS);
	assert_int_equal(w.loop.spin.credit, 1); /* the end of a burst before does not count */
	w.in_flight = 1;
	worker_expect(&w, now_ns);
	assert_int_equal(w.loop.spin.limit_ns, LOOK_NS);
	w.loop.spin.spent_ns = LOOK_PER_S_NS;
	worker_expect(&w, now_ns + NS_PER_S - 1);
	assert_int_equal(w.loop.spin.limit_ns, 0);
	worker_expect(&w, now_ns + NS_PER_S);
	assert_int_equal(w.loop.spin.limit_ns, LOOK_NS);
}

/* A target that only waits for its next probe: it has no connection. */
static struct probe_target *waits(struct worker *w, uint64_t period_ns, uint64_t phase_ns)
{
	struct probe_target *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	t->worker = w;
	t->want.period_ns = period_ns;
	t->phase_ns = phase_ns;
	list_init(&t->in_lane);
	lane_join(t);
	return t;
}

static void test_a_lane_is_in_the_order_in_which_probes_are_due(void **state)
{
	static const uint64_t due_ns[] = { 500, 600, 550, 700 };
	static struct worker w;
	struct probe_target *t[5];
	struct list *at;
	uint64_t before_ns = 0;

	(void)state;
	for (int i = 0; i < 4; i++)
		t[i] = waits(&w, 1000, due_ns[i]);
	t[4] = waits(&w, 2000, 100);
	assert_ptr_not_equal(t[4]->lane, t[0]->lane);
	for (at = t[0]->lane->targets.next; at != &t[0]->lane->targets; at = at->next) {
		uint64_t now_ns = target_due_ns(container_of(at, struct probe_target, in_lane));

		assert_true(now_ns > before_ns);
		before_ns = now_ns;
	}
	assert_int_equal(before_ns, 700);
	/* Who joins again moves: a deadline and the next probe may be due at once. */
	t[1]->slot++;
	lane_join(t[1]);
	assert_ptr_equal(t[1]->in_lane.next, &t[1]->lane->targets);
	assert_ptr_equal(t[1]->in_lane.prev, &t[3]->in_lane);
	/* One timer, at the first; who leaves takes its time away. */
	assert_int_equal(t[0]->lane->timer.due_ns, 500);
	lane_leave(t[0]);
	assert_null(t[0]->lane);
	assert_int_equal(t[2]->lane->timer.due_ns, 550);
	for (int i = 1; i < 5; i++)
		lane_leave(t[i]);
	assert_int_equal(loop_next_due_ns(&w.loop), UINT64_MAX);
	for (int i = 0; i < 5; i++)
		free(t[i]);
}

static void test_who_finds_no_place_in_a_lane_keeps_its_own_timer(void **state)
{
	static struct worker w;
	struct probe_target *t[40], *early, *other, *place[LANES];

	(void)state;
	for (int i = 0; i < 40; i++)
		t[i] = waits(&w, 1000, 500 + (uint64_t)i);
	early = waits(&w, 1000, 400); /* its place is far from the end */
	assert_null(early->lane);
	for (int i = 1; i < LANES; i++) {
		place[i] = waits(&w, 1000 + (uint64_t)i, 500);
		assert_non_null(place[i]->lane);
	}
	other = waits(&w, 999, 500); /* no lane is left */
	assert_null(other->lane);
	lane_leave(place[1]);
	lane_join(other); /* one that became empty serves another period */
	assert_non_null(other->lane);
	for (int i = 0; i < 40; i++)
		free(t[i]);
	for (int i = 1; i < LANES; i++)
		free(place[i]);
	free(early);
	free(other);
}

static void test_a_limit_is_refused_with_its_name(void **state)
{
	struct probe_want want = { .local = address(7), .peer = address(2), .period_ns = NS_PER_S };
	struct probe_target *target;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(probe_engine_add(f.prober, &target, &want, &e), -EADDRNOTAVAIL);
	want.local = address(1);
	want.period_ns = 1;
	assert_int_equal(probe_engine_add(f.prober, &target, &want, &e), -EINVAL);
	assert_string_equal(e.what, "a probe has up to 2097152 bytes and 10000 a second");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_probe_is_settled_up_and_answered_in_this_order),
		TEST(test_a_step_of_the_wall_clock_moves_labels_alone),
		TEST(test_a_peer_without_an_agent_is_a_row_per_slot_and_words),
		TEST(test_a_removed_target_is_gone_and_its_place_is_free),
		TEST(test_periods_that_a_thread_slept_through_are_counted),
		TEST(test_an_answer_that_waited_for_a_sleeping_prober_is_not_lost),
		TEST(test_answers_that_nobody_asked_for_end_their_connection_and_stop_no_other),
		TEST(test_an_answer_that_comes_twice_ends_the_connection),
		TEST(test_answers_that_were_saved_up_are_all_taken_without_another_edge),
		TEST(test_silent_connections_do_not_keep_a_prober_out),
		TEST(test_a_door_without_descriptors_is_looked_at_now_and_then),
		TEST(test_a_pongs_door_without_descriptors_is_looked_at_now_and_then),
		TEST(test_an_engine_ends_while_a_thread_waits_for_its_owner),
		TEST(test_pairs_share_a_grid_that_is_their_agents_own),
		TEST(test_ticks_are_filled_one_after_the_other_then_evenly),
		TEST(test_large_payloads_are_spread_over_all_ticks),
		TEST(test_pairs_with_a_period_shorter_than_the_grid_send_together_too),
		TEST(test_each_pair_of_a_tick_is_due_at_a_time_of_its_own),
		TEST(test_a_probe_that_is_too_late_lets_those_go_first_that_are_not),
		TEST(test_a_lull_is_near_and_well_before_a_tick),
		TEST(test_looking_for_answers_ends_with_its_share_of_a_second),
		TEST(test_a_lane_is_in_the_order_in_which_probes_are_due),
		TEST(test_who_finds_no_place_in_a_lane_keeps_its_own_timer),
		TEST(test_a_limit_is_refused_with_its_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
