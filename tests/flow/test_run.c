/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine, over loopback, both ends in this process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "ends.h"

static struct server_end server;
static struct seen client;
static struct held before;

static int setup(void **state)
{
	(void)state;
	before = ends_held();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ends_abandon(&server);
	return 0;
}

static void serve(enum workload w, const char *line)
{
	ends_serve(&server, w, line);
}

/* A client that ends well. */
static void run(const char *line)
{
	ends_client(&server, line, &client);
	if (client.ret)
		fail_msg("%s: %s", line, client.e.what);
	if (client.error[0])
		fail_msg("%s: %s", line, client.error);
	assert_int_equal(client.over, 1);
	assert_true(client.valid);
	assert_true(client.complete);
	assert_int_equal(client.failed_flows, 0);
}

static void stop(void)
{
	assert_int_equal(ends_stop(&server), 0);
	ends_assert_held(&before);
}

static void assert_near_ns(uint64_t value_ns, double seconds, double slack)
{
	double value = (double)value_ns / 1e9;

	if (value < seconds * (1 - slack) || value > seconds * (1 + slack) + 0.1)
		fail_msg("%g s are not about %g s", value, seconds);
}

/* Both ends know the same of a run that went well. */
static void assert_ends_agree(void)
{
	ends_await_over(&server, 1);
	assert_true(server.seen.valid);
	if (!server.seen.complete)
		fail_msg("server: %s", server.seen.error);
	assert_false(server.seen.neper);
	assert_true(client.remote_valid && client.remote_complete);
	assert_true(server.seen.remote_valid && server.seen.remote_complete);
	assert_memory_equal(&client.remote_counts, &server.seen.counts, sizeof(client.counts));
	assert_memory_equal(&server.seen.remote_counts, &client.counts, sizeof(client.counts));
}

static void assert_sums(const struct seen *seen)
{
	assert_int_equal(seen->intervals_sum.rx_bytes, seen->counts.rx_bytes);
	assert_int_equal(seen->intervals_sum.tx_bytes, seen->counts.tx_bytes);
	assert_int_equal(seen->intervals_sum.transactions, seen->counts.transactions);
	assert_int_equal(seen->intervals_ns, seen->window_ns);
	/* Slivers that the record joins are told as they come; the end is told by the record. */
	assert_true(seen->intervals_told > 0);
	assert_true(seen->told_sum.rx_bytes <= seen->counts.rx_bytes);
	assert_true(seen->told_sum.tx_bytes <= seen->counts.tx_bytes);
	assert_true(seen->told_sum.transactions <= seen->counts.transactions);
}

/* stream */

static void test_stream_the_client_sends_and_the_server_counts(void **state)
{
	(void)state;
	serve(WORKLOAD_STREAM, "");
	run("-F 4 -T 2 -l 0.4 --warmup 0.1 -I 0.1");
	assert_ends_agree();
	assert_int_equal(client.flow_count, 4);
	assert_int_equal(server.seen.flow_count, 4);
	assert_int_equal(client.threads, 2);
	assert_true(client.counts.tx_bytes > 1 << 20);
	assert_int_equal(client.counts.rx_bytes, 0);
	assert_true(server.seen.counts.rx_bytes > 1 << 20);
	assert_int_equal(server.seen.counts.tx_bytes, 0);
	assert_int_equal(client.ready, 1);
	assert_int_equal(client.started, 1);
	stop();
}

static void test_stream_warm_up_is_not_counted(void **state)
{
	(void)state;
	serve(WORKLOAD_STREAM, "");
	run("-l 0.4 --warmup 0.3 -I 0.1");
	assert_ends_agree();
	assert_int_equal(client.warmup_ns, 300 * NS_PER_MS);
	assert_near_ns(client.window_ns, 0.4, 0.1);
	assert_near_ns(server.seen.window_ns, 0.4, 0.1);
	assert_int_equal(client.flows_sum.tx_bytes, client.counts.tx_bytes);
	assert_int_equal(server.seen.flows_sum.rx_bytes, server.seen.counts.rx_bytes);
	stop();
}

static void test_stream_directions(void **state)
{
	static const struct {
		const char *line;
		bool client_sends, server_sends;
	} cases[] = {
		{ "-l 0.3", true, false },
		{ "-l 0.3 -M", false, true },
		{ "-l 0.3 -r", true, true },
		{ "-l 0.3 --split-bidir -F 2", true, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		serve(WORKLOAD_STREAM, "");
		run(cases[i].line);
		assert_ends_agree();
		assert_int_equal(client.counts.tx_bytes > 0, cases[i].client_sends);
		assert_int_equal(server.seen.counts.rx_bytes > 0, cases[i].client_sends);
		assert_int_equal(server.seen.counts.tx_bytes > 0, cases[i].server_sends);
		assert_int_equal(client.counts.rx_bytes > 0, cases[i].server_sends);
		stop();
	}
}

static void test_stream_paths_of_memory(void **state)
{
	static const struct {
		const char *server, *client;
	} cases[] = {
		{ "", "-l 0.2 -Z -B 64K" },
		{ "-z", "-l 0.2 -Z -B 64K" },
		{ "--skip-rx-copy", "-l 0.2" },
		{ "-E", "-l 0.2 -E" },
		{ "", "-l 0.2 --busy-poll" },
		{ "", "-l 0.2 -D 100us" },
		{ "", "-l 0.2 --no-cork --no-delay" },
		{ "", "-l 0.2 --num-ports 1 -B 1" },
		{ "", "-l 0.2 -B 4M" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		serve(WORKLOAD_STREAM, cases[i].server);
		run(cases[i].client);
		assert_ends_agree();
		assert_true(server.seen.counts.rx_bytes > 0);
		if (i == 0) {
			assert_true(client.zerocopy_sent > 0);
			assert_true(client.zerocopy_copied <= client.zerocopy_sent);
		}
		stop();
	}
}

static void test_stream_pacing_holds_the_rate(void **state)
{
	(void)state;
	serve(WORKLOAD_STREAM, "");
	run("-l 0.8 --warmup 0.2 -m 40Mb -F 2");
	assert_ends_agree();
	/* two flows of 5 MB/s each */
	assert_true(server.seen.counts.rx_bytes < 0.8 * 10e6 * 1.3);
	assert_true(server.seen.counts.rx_bytes > 0.8 * 10e6 * 0.5);
	stop();
}

/* rr and crr */

static void test_rr_counted_transactions_are_exact_over_several_threads(void **state)
{
	static const char *const lines[] = { "-T 3 -F 7 -l -5000", "-T 1 -F 1 -l -1",
		"-T 2 -F 5 -l -3", "-T 2 -F 2 -l -2000 -Q 10000 -R 300",
		"-T 1 -F 4 --outstanding 8 -l -3001" };
	static const uint64_t counts[] = { 5000, 1, 3, 2000, 3001 };

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		serve(WORKLOAD_RR, "");
		run(lines[i]);
		assert_ends_agree();
		assert_int_equal(client.counts.transactions, counts[i]);
		assert_int_equal(client.latency_count, counts[i]);
		assert_int_equal(client.flows_sum.transactions, counts[i]);
		assert_int_equal(server.seen.counts.transactions, counts[i]);
		stop();
	}
}

static void test_rr_transactions_of_the_warm_up_are_not_among_those_counted(void **state)
{
	(void)state;
	serve(WORKLOAD_RR, "");
	run("-F 2 -l -500 --warmup 0.1");
	assert_int_equal(client.counts.transactions, 500);
	assert_int_equal(client.latency_count, 500);
	stop();
}

static void test_rr_bytes_follow_from_the_sizes(void **state)
{
	(void)state;
	serve(WORKLOAD_RR, "");
	run("-F 3 -l -600 -Q 1000 -R 70000 -B 16K");
	assert_ends_agree();
	assert_int_equal(client.counts.tx_bytes, 600 * 1000);
	assert_int_equal(client.counts.rx_bytes, 600 * 70000);
	assert_int_equal(server.seen.counts.rx_bytes, 600 * 1000);
	assert_int_equal(server.seen.counts.tx_bytes, 600 * 70000);
	stop();
}

static void test_rr_every_latency_of_the_window_is_recorded(void **state)
{
	(void)state;
	serve(WORKLOAD_RR, "");
	run("-F 4 -T 2 -l 0.5 --warmup 0.1 -I 0.1");
	assert_ends_agree();
	assert_int_equal(client.latency_count, client.counts.transactions);
	assert_int_equal(client.service_count, 0);
	assert_true(client.latency_max_ns < 2 * NS_PER_S);
	stop();
}

static void test_rr_open_loop_keeps_its_rate_and_measures_service_apart(void **state)
{
	(void)state;
	serve(WORKLOAD_RR, "");
	run("-F 4 -l 1 --warmup 0.1 --rate 1000");
	assert_ends_agree();
	assert_in_range(client.counts.transactions, 900, 1100);
	assert_int_equal(client.latency_count, client.counts.transactions);
	assert_int_equal(client.service_count, client.counts.transactions);
	stop();
}

static void test_rr_delay_and_noburst_pace_the_requests(void **state)
{
	(void)state;
	serve(WORKLOAD_RR, "");
	run("-F 2 -l 0.5 --warmup 0 -D 5ms");
	assert_in_range(client.counts.transactions, 150, 210);
	run("-F 2 -T 2 -l 0.5 --warmup 0 --noburst 5ms");
	assert_in_range(client.counts.transactions, 70, 110);
	stop();
}

static void test_rr_without_sleeping(void **state)
{
	(void)state;
	serve(WORKLOAD_RR, "");
	run("-l -2000 --busy-poll");
	assert_ends_agree();
	assert_int_equal(client.counts.transactions, 2000);
	stop();
}

static void test_crr_counted_transactions_are_exact_over_several_threads(void **state)
{
	static const char *const lines[] = { "-T 3 -F 7 -l -800", "-T 1 -F 1 -l -1",
		"-T 2 -F 3 -l -100 -Q 20000 -R 50000" };
	static const uint64_t counts[] = { 800, 1, 100 };

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		serve(WORKLOAD_CRR, "");
		run(lines[i]);
		ends_await_over(&server, 1);
		assert_int_equal(client.counts.transactions, counts[i]);
		assert_int_equal(client.latency_count, counts[i]);
		assert_int_equal(server.seen.counts.transactions, counts[i]);
		stop();
	}
}

static void test_crr_for_a_time(void **state)
{
	(void)state;
	serve(WORKLOAD_CRR, "");
	run("-T 2 -F 4 -l 0.4 --warmup 0.1 -I 0.1");
	assert_ends_agree();
	assert_true(client.counts.transactions > 20);
	assert_int_equal(client.latency_count, client.counts.transactions);
	run("-F 2 -l 0.4 --warmup 0 --rate 200");
	assert_in_range(client.counts.transactions, 60, 100);
	stop();
}

/* Series */

static void test_intervals_add_up_to_the_totals(void **state)
{
	static const struct {
		enum workload w;
		const char *line;
	} cases[] = {
		{ WORKLOAD_STREAM, "-l 0.5 --warmup 0.1 -I 0.1" },
		{ WORKLOAD_STREAM, "-l 0.5 --warmup 0 -I 0.07 -T 3 -F 6" },
		{ WORKLOAD_RR, "-l 0.5 -I 0.05 -F 2" },
		{ WORKLOAD_RR, "-l 0.5 --warmup 0.1 -I 0.1 -T 3 -F 6" },
		{ WORKLOAD_RR, "-l -5000 -I 0.01 -T 2 -F 4" },
		{ WORKLOAD_CRR, "-l 0.4 -I 0.1 -T 2 -F 4" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		serve(cases[i].w, "");
		run(cases[i].line);
		assert_ends_agree();
		assert_sums(&client);
		assert_sums(&server.seen);
		stop();
	}
}

static void test_short_runs_still_have_a_series(void **state)
{
	(void)state;
	serve(WORKLOAD_STREAM, "");
	run("-l 1 --warmup 0");
	assert_int_equal(client.interval_count, 5);
	stop();
}

/* neper's protocol between the two of us */

static void test_neper_protocol_carries_every_workload(void **state)
{
	static const struct {
		enum workload w;
		const char *line;
	} cases[] = {
		{ WORKLOAD_STREAM, "--protocol neper -l 1 -T 2 -F 4" },
		{ WORKLOAD_RR, "--protocol neper -l 1 -T 2 -F 4" },
		{ WORKLOAD_CRR, "--protocol neper -l 1 -T 2 -F 4" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		serve(cases[i].w, "");
		run(cases[i].line);
		assert_true(client.neper);
		ends_await_over(&server, 1);
		assert_true(server.seen.neper);
		assert_true(server.seen.valid);
		if (cases[i].w == WORKLOAD_STREAM)
			assert_true(client.remote_rate > 1000000);
		if (cases[i].w == WORKLOAD_RR)
			assert_true(client.remote_rate > 100);
		stop();
	}
}

static void test_neper_protocol_counted_transactions_are_exact(void **state)
{
	(void)state;
	serve(WORKLOAD_RR, "");
	run("--protocol neper -l -1000 -T 2 -F 3");
	assert_int_equal(client.counts.transactions, 1000);
	assert_int_equal(client.latency_count, 1000);
	stop();
}

#define RUN_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_TEST(test_stream_the_client_sends_and_the_server_counts),
		RUN_TEST(test_stream_warm_up_is_not_counted),
		RUN_TEST(test_stream_directions),
		RUN_TEST(test_stream_paths_of_memory),
		RUN_TEST(test_stream_pacing_holds_the_rate),
		RUN_TEST(test_rr_counted_transactions_are_exact_over_several_threads),
		RUN_TEST(test_rr_transactions_of_the_warm_up_are_not_among_those_counted),
		RUN_TEST(test_rr_bytes_follow_from_the_sizes),
		RUN_TEST(test_rr_every_latency_of_the_window_is_recorded),
		RUN_TEST(test_rr_open_loop_keeps_its_rate_and_measures_service_apart),
		RUN_TEST(test_rr_delay_and_noburst_pace_the_requests),
		RUN_TEST(test_rr_without_sleeping),
		RUN_TEST(test_crr_counted_transactions_are_exact_over_several_threads),
		RUN_TEST(test_crr_for_a_time),
		RUN_TEST(test_intervals_add_up_to_the_totals),
		RUN_TEST(test_short_runs_still_have_a_series),
		RUN_TEST(test_neper_protocol_carries_every_workload),
		RUN_TEST(test_neper_protocol_counted_transactions_are_exact),
	};

	log_set_level(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
