/* SPDX-License-Identifier: BSD-3-Clause */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../base/prng.h"
#include "base/clock.h"
#include "net/tcp_state.h"
#include "pair.h"

static double sum_of(const struct tcp_limits *limits)
{
	double sum = 0;

	for (int i = 0; i < TCP_LIMITS; i++)
		sum += limits->share[i];
	return sum;
}

static void assert_shares(const struct tcp_limits *limits)
{
	for (int i = 0; i < TCP_LIMITS; i++)
		if (!(limits->share[i] >= 0 && limits->share[i] <= 1))
			fail_msg("share of %s is %g", tcp_limit_name((enum tcp_limit)i),
				limits->share[i]);
	if (!(sum_of(limits) > 0.999999 && sum_of(limits) < 1.000001))
		fail_msg("the shares add up to %g", sum_of(limits));
}

static void assert_near(double value, double expected)
{
	if (!(value > expected - 0.001 && value < expected + 0.001))
		fail_msg("%g is not %g", value, expected);
}

static void test_limits_divide_the_busy_time(void **state)
{
	struct tcp_state before = {
		.busy_us = 1000, .receive_window_limited_us = 100, .send_buffer_limited_us = 10
	};
	struct tcp_state after = { .busy_us = 801000,
		.receive_window_limited_us = 200100,
		.send_buffer_limited_us = 100010,
		.max_pacing_bytes_per_s = UINT64_MAX };
	struct tcp_limits limits;

	(void)state;
	tcp_limits_between(&before, &after, NS_PER_S, 1 << 20, &limits);
	assert_near(limits.share[TCP_LIMIT_APPLICATION], 0.2);
	assert_near(limits.share[TCP_LIMIT_RECEIVE_WINDOW], 0.2);
	assert_near(limits.share[TCP_LIMIT_SEND_BUFFER], 0.1);
	assert_near(limits.share[TCP_LIMIT_CONGESTION], 0.5);
	assert_near(limits.share[TCP_LIMIT_PACING], 0);
	assert_shares(&limits);
	assert_int_equal(tcp_limits_main(&limits), TCP_LIMIT_CONGESTION);
}

static void test_limits_of_an_idle_connection_are_the_application_s(void **state)
{
	struct tcp_state idle = { .busy_us = 5 };
	struct tcp_limits limits;

	(void)state;
	tcp_limits_between(&idle, &idle, NS_PER_S, 0, &limits);
	assert_near(limits.share[TCP_LIMIT_APPLICATION], 1);
	assert_int_equal(tcp_limits_main(&limits), TCP_LIMIT_APPLICATION);
	assert_shares(&limits);
	/* No time at all is no reason to divide by it. */
	tcp_limits_between(&idle, &idle, 0, 0, &limits);
	assert_shares(&limits);
}

static void test_limits_recognise_the_pacing_rate_that_was_asked_for(void **state)
{
	struct tcp_state before = { 0 };
	struct tcp_state after = { .busy_us = 900000,
		.receive_window_limited_us = 100000,
		.send_buffer_limited_us = 700000,
		.max_pacing_bytes_per_s = 1000000 };
	struct tcp_limits limits;

	(void)state;
	tcp_limits_between(&before, &after, NS_PER_S, 950000, &limits);
	assert_near(limits.share[TCP_LIMIT_PACING], 0.8);
	assert_near(limits.share[TCP_LIMIT_SEND_BUFFER], 0);
	assert_int_equal(tcp_limits_main(&limits), TCP_LIMIT_PACING);
	assert_shares(&limits);
	/* Far below the rate it was something else that held it back. */
	tcp_limits_between(&before, &after, NS_PER_S, 300000, &limits);
	assert_near(limits.share[TCP_LIMIT_PACING], 0);
	assert_int_equal(tcp_limits_main(&limits), TCP_LIMIT_SEND_BUFFER);
	assert_shares(&limits);
}

/* The kernel counts in ticks and at other moments than we do: a little more than all of the time
 * may be busy. */
static void test_limits_add_up_to_one_whatever_the_kernel_counted(void **state)
{
	uint64_t seed = 11;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct tcp_state before = { .busy_us = prng_below(&seed, 1000) }, after = before;
		struct tcp_limits limits;
		uint64_t window_us = prng_below(&seed, 1200), buffer_us = prng_below(&seed, 1200);

		before.receive_window_limited_us = prng_below(&seed, 100);
		before.send_buffer_limited_us = prng_below(&seed, 100);
		after.receive_window_limited_us = before.receive_window_limited_us + window_us;
		after.send_buffer_limited_us = before.send_buffer_limited_us + buffer_us;
		after.busy_us += window_us + buffer_us + prng_below(&seed, 1200);
		after.max_pacing_bytes_per_s = i % 2 ? 1000000 : UINT64_MAX;
		tcp_limits_between(
			&before, &after, 1000 * NS_PER_US, prng_below(&seed, 2000), &limits);
		assert_shares(&limits);
	}
}

static void test_limits_have_names_and_keys(void **state)
{
	(void)state;
	assert_string_equal(tcp_limit_name(TCP_LIMIT_RECEIVE_WINDOW), "receive window");
	assert_string_equal(tcp_limit_key(TCP_LIMIT_RECEIVE_WINDOW), "receive_window");
	for (int i = 0; i < TCP_LIMITS; i++) {
		assert_non_null(tcp_limit_name((enum tcp_limit)i));
		assert_null(strchr(tcp_limit_key((enum tcp_limit)i), ' '));
		for (int k = 0; k < i; k++)
			assert_string_not_equal(
				tcp_limit_key((enum tcp_limit)i), tcp_limit_key((enum tcp_limit)k));
	}
}

static void test_state_of_a_real_connection(void **state)
{
	struct sock_options options = { .max_pacing_rate = 123456789 };
	struct tcp_state s;
	struct pair p;
	char byte;

	(void)state;
	pair_open(&p, AF_INET, &options);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(write(p.client, "x", 1), 1);
		assert_int_equal(read(p.server, &byte, 1), 1);
		assert_int_equal(write(p.server, "x", 1), 1);
		assert_int_equal(read(p.client, &byte, 1), 1);
	}
	assert_int_equal(tcp_state_read(p.client, &s), 0);
	assert_true(s.rtt_us > 0 && s.rtt_us < 1000000);
	assert_true(s.min_rtt_us <= s.rtt_us);
	assert_true(s.mss_bytes >= 500);
	assert_true(s.cwnd_segments >= 1);
	assert_true(s.delivered >= 10);
	assert_int_equal(s.retransmits, 0);
	assert_int_equal(s.max_pacing_bytes_per_s, 123456789);
	pair_close(&p);
}

static void test_state_of_what_is_no_connection_is_an_error(void **state)
{
	struct tcp_state s;
	int fd[2];

	(void)state;
	assert_int_equal(tcp_state_read(-1, &s), -EBADF);
	assert_int_equal(pipe(fd), 0);
	assert_int_equal(tcp_state_read(fd[0], &s), -ENOTSOCK);
	close(fd[0]);
	close(fd[1]);
}

/* Fill the connection and go on offering data until the time is over. Returns the bytes that went.
 */
static uint64_t push(int fd, uint64_t ns, int drain)
{
	uint64_t until_ns = clock_ns() + ns, sent = 0;
	static char data[256 << 10];

	while (clock_ns() < until_ns) {
		ssize_t n = send(fd, data, sizeof(data), MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0)
			sent += (uint64_t)n;
		else
			sock_wait(fd, POLLOUT, -1, clock_ns() + 5 * NS_PER_MS);
		if (drain >= 0)
			while (recv(drain, data, sizeof(data), MSG_DONTWAIT | MSG_TRUNC) > 0)
				;
	}
	return sent;
}

/* Judge what holds a connection back, over 600 ms that push() fills. */
static enum tcp_limit held_back_by(struct pair *p, int drain, struct tcp_limits *limits)
{
	struct tcp_state before, after;
	uint64_t begin_ns, sent;

	assert_int_equal(tcp_state_read(p->client, &before), 0);
	begin_ns = clock_ns();
	sent = push(p->client, 600 * NS_PER_MS, drain);
	assert_int_equal(tcp_state_read(p->client, &after), 0);
	tcp_limits_between(&before, &after, clock_ns() - begin_ns, sent, limits);
	assert_shares(limits);
	return tcp_limits_main(limits);
}

static void test_limits_a_reader_that_does_not_read_is_the_receive_window(void **state)
{
	uint64_t deadline_ns = clock_ns() + 60 * NS_PER_S;
	struct tcp_limits limits;
	struct pair p;

	(void)state;
	pair_open(&p, AF_INET, NULL);
	while (push(p.client, 100 * NS_PER_MS, -1)) /* until the window is full */
		assert_true(clock_ns() < deadline_ns);
	assert_int_equal(held_back_by(&p, -1, &limits), TCP_LIMIT_RECEIVE_WINDOW);
	if (limits.share[TCP_LIMIT_RECEIVE_WINDOW] <= 0.5)
		fail_msg("receive window: %g", limits.share[TCP_LIMIT_RECEIVE_WINDOW]);
	pair_close(&p);
}

/* Where something else takes the CPUs, this process may be what holds the connection back: then once more. */
static void test_limits_of_a_paced_connection_are_pacing(void **state)
{
	struct sock_options options = { .max_pacing_rate = 20 << 20 };
	uint64_t deadline_ns = clock_ns() + 60 * NS_PER_S;
	struct tcp_limits limits;
	struct pair p;

	(void)state;
	pair_open(&p, AF_INET, &options);
	push(p.client, 200 * NS_PER_MS, p.server);
	while (held_back_by(&p, p.server, &limits) != TCP_LIMIT_PACING)
		assert_true(clock_ns() < deadline_ns);
	pair_close(&p);
}

static void test_limits_of_a_sender_with_nothing_to_say_are_the_application_s(void **state)
{
	struct tcp_state before, after;
	struct tcp_limits limits;
	uint64_t begin_ns;
	struct pair p;
	char byte;

	(void)state;
	pair_open(&p, AF_INET, NULL);
	assert_int_equal(tcp_state_read(p.client, &before), 0);
	begin_ns = clock_ns();
	for (int i = 0; i < 20; i++) {
		assert_int_equal(write(p.client, "x", 1), 1);
		assert_int_equal(read(p.server, &byte, 1), 1);
		usleep(10000);
	}
	assert_int_equal(tcp_state_read(p.client, &after), 0);
	tcp_limits_between(&before, &after, clock_ns() - begin_ns, 20, &limits);
	assert_shares(&limits);
	assert_int_equal(tcp_limits_main(&limits), TCP_LIMIT_APPLICATION);
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits_divide_the_busy_time),
		cmocka_unit_test(test_limits_of_an_idle_connection_are_the_application_s),
		cmocka_unit_test(test_limits_recognise_the_pacing_rate_that_was_asked_for),
		cmocka_unit_test(test_limits_add_up_to_one_whatever_the_kernel_counted),
		cmocka_unit_test(test_limits_have_names_and_keys),
		cmocka_unit_test(test_state_of_a_real_connection),
		cmocka_unit_test(test_state_of_what_is_no_connection_is_an_error),
		cmocka_unit_test(test_limits_a_reader_that_does_not_read_is_the_receive_window),
		cmocka_unit_test(test_limits_of_a_paced_connection_are_pacing),
		cmocka_unit_test(test_limits_of_a_sender_with_nothing_to_say_are_the_application_s),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
