// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"

static struct fixture x;

static void assert_found(const char *name, enum record_severity severity, const char *words)
{
	const struct record_finding *f = fixture_finding(&x, name);

	if (!f)
		fail_msg("no finding %s", name);
	if (f->severity != severity || !strstr(f->text, words))
		fail_msg("%s (%d): \"%s\", expected (%d) \"%s\"", name, f->severity, f->text,
			severity, words);
}

static void assert_not_found(const char *name)
{
	const struct record_finding *f = fixture_finding(&x, name);

	if (f)
		fail_msg("%s: %s", name, f->text);
}

static void test_good_run_has_the_limit_alone(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 4, 10, NULL);
	record_judge(&x.rec);
	assert_found("limited_by", FINDING_NOTE,
		"the client was limited by the receive window for 80 %");
	assert_int_equal(x.rec.finding_count, 1);
	assert_int_equal(x.rec.verdict, VERDICT_GOOD);
}

static void test_judging_twice_does_not_repeat(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 4, 10, NULL);
	record_judge(&x.rec);
	record_judge(&x.rec);
	assert_int_equal(x.rec.finding_count, 1);
}

static void test_an_error_of_this_end_fails_the_run(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 4, 10, NULL);
	strcpy(x.client.error, "the server went away");
	record_judge(&x.rec);
	assert_found("incomplete", FINDING_FAILED, "the server went away");
	assert_int_equal(x.rec.verdict, VERDICT_FAILED);
}

static void test_an_error_of_the_peer_is_one_printable_line(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 4, 10, NULL);
	strcpy(x.server.error, "out\nof \033[31mmemory");
	record_judge(&x.rec);
	assert_found("incomplete", FINDING_FAILED, "the server says: out?of ?[31mmemory");
	assert_int_equal(x.rec.verdict, VERDICT_FAILED);
}

static void test_failed_flows_are_counted_once(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 8, 10, NULL);
	for (int i = 2; i < 5; i++)
		x.client_flows[i].error = x.server_flows[i].error = ECONNRESET;
	x.client.complete = x.server.complete = false;
	record_judge(&x.rec);
	assert_found("incomplete", FINDING_FAILED, "3 of 8 flows failed: Connection reset by peer");
	assert_string_not_equal(x.rec.findings[1].name, "incomplete");
	assert_int_equal(x.rec.verdict, VERDICT_FAILED);
}

static void test_a_run_without_a_reason_is_still_not_complete(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 4, 10, NULL);
	x.client.complete = false;
	record_judge(&x.rec);
	assert_found("incomplete", FINDING_FAILED, "ended before its time, after 10 s");
	fixture_init(&x, WORKLOAD_STREAM, 4, 10, NULL);
	memset(&x.client, 0, sizeof(x.client));
	record_judge(&x.rec);
	assert_found("incomplete", FINDING_FAILED, "nothing was measured");
	assert_int_equal(x.rec.verdict, VERDICT_FAILED);
}

static void test_an_unknown_peer_is_said_but_not_of_neper(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 4, 10, NULL);
	x.server.valid = false;
	record_judge(&x.rec);
	assert_found("one_sided", FINDING_WARNING, "the server's figures are not known");
	assert_int_equal(x.rec.verdict, VERDICT_GOOD);
	fixture_init(&x, WORKLOAD_STREAM, 4, 10, NULL);
	fixture_neper(&x, 8000000000);
	record_judge(&x.rec);
	assert_not_found("one_sided");
	x.rec.remote = NULL;
	record_judge(&x.rec);
	assert_int_equal(x.rec.verdict, VERDICT_GOOD);
}

static void test_ends_that_differ_by_what_buffers_hold_are_noted(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 8, 1, NULL);
	x.server.counts.rx_bytes -= 30 << 20; /* 3.1 % */
	record_judge(&x.rec);
	assert_found(
		"ends_disagree", FINDING_NOTE, "3.1 % apart: socket buffers can hold that much");
	assert_int_equal(x.rec.verdict, VERDICT_GOOD);
	/* what the receiver's host allows counts, not a guess */
	x.server.counts.rx_bytes -= 70 << 20;
	record_judge(&x.rec);
	assert_found("ends_disagree", FINDING_INVALID, "10.5 % apart");
	host_facts_add(&x.facts, "net_ipv4_tcp_rmem", "4096 131072 33554432");
	x.server.facts = &x.facts;
	record_judge(&x.rec);
	assert_found("ends_disagree", FINDING_NOTE, "socket buffers can hold that much");
}

static void test_ends_that_differ_more_are_a_warning_then_not_valid(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 8, 10, NULL);
	x.server.counts.rx_bytes = 9700000000;
	record_judge(&x.rec);
	assert_found("ends_disagree", FINDING_WARNING,
		"the client sent 9.31 GiB and the server received 9.03 GiB, 3.0 % apart");
	assert_int_equal(x.rec.verdict, VERDICT_GOOD);
	x.server.counts.rx_bytes = 9400000000;
	record_judge(&x.rec);
	assert_found("ends_disagree", FINDING_INVALID, "6.0 % apart");
	assert_int_equal(x.rec.verdict, VERDICT_DOUBTFUL);
	x.server.counts.rx_bytes = 9950000000;
	record_judge(&x.rec);
	assert_not_found("ends_disagree");
}

static void test_transactions_are_compared_but_for_those_under_way(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_RR, 16, 10, NULL);
	x.server.counts.transactions -= 10;
	record_judge(&x.rec);
	assert_not_found("ends_disagree");
	x.server.counts.transactions = 98000;
	record_judge(&x.rec);
	assert_found("ends_disagree", FINDING_WARNING,
		"the client counted 100000 transactions and the server 98000, 2.0 % apart");
	x.server.counts.transactions = 90000;
	record_judge(&x.rec);
	assert_int_equal(x.rec.verdict, VERDICT_DOUBTFUL);
	x.server.counts.transactions = 0; /* it does not count */
	record_judge(&x.rec);
	assert_not_found("ends_disagree");
}

static void test_a_drifting_receiver_is_not_valid(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 4, 10, NULL);
	for (int i = 0; i < 10; i++)
		x.server_intervals[i].rx_bytes -= (uint64_t)i * 40000000;
	record_judge(&x.rec);
	assert_found("not_steady", FINDING_INVALID, "the rate fell by 44 %");
	assert_int_equal(x.rec.verdict, VERDICT_DOUBTFUL);
	/* what the sender could put into buffers does not count */
	fixture_init(&x, WORKLOAD_STREAM, 4, 10, NULL);
	for (int i = 0; i < 10; i++)
		x.client_intervals[i].tx_bytes -= (uint64_t)i * 40000000;
	record_judge(&x.rec);
	assert_not_found("not_steady");
}

static void test_a_drift_of_transactions_at_the_client_is_not_valid(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_CRR, 4, 9, NULL);
	for (int i = 0; i < 3; i++)
		x.client_intervals[i].transactions = 2000 + 3000 * (uint64_t)i;
	record_judge(&x.rec);
	assert_found("not_steady", FINDING_INVALID, "it is level from ");
}

static void test_noise_that_could_hide_a_drift_is_a_warning(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 4, 6, NULL);
	for (int i = 0; i < 6; i += 2)
		x.server_intervals[i].rx_bytes /= 4;
	record_judge(&x.rec);
	assert_found("noisy", FINDING_WARNING, "the rate varied by 60 % from interval to interval");
	assert_not_found("not_steady");
	assert_int_equal(x.rec.verdict, VERDICT_GOOD);
}

static void test_a_short_last_interval_is_not_judged(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 4, 6, NULL);
	x.server_intervals[5].end_ns = x.server_intervals[5].begin_ns + 1000000;
	x.server_intervals[5].rx_bytes *= 100;
	record_judge(&x.rec);
	assert_not_found("not_steady");
}

static void test_a_rate_above_the_link_is_not_valid(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 4, 10, NULL);
	x.rec.ceiling_bps = 10000000000;
	record_judge(&x.rec);
	assert_not_found("above_ceiling");
	x.rec.ceiling_bps = 1000000000;
	record_judge(&x.rec);
	assert_found("above_ceiling", FINDING_INVALID,
		"8.00 Gbit/s is more than the link can carry (1.00 Gbit/s)");
	assert_int_equal(x.rec.verdict, VERDICT_DOUBTFUL);
}

static void test_both_directions_may_fill_the_link(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 4, 10, "-r", NULL);
	x.rec.ceiling_bps = 10000000000;
	record_judge(&x.rec);
	assert_not_found("above_ceiling");
	assert_int_equal(x.rec.finding_count, 2); /* what limited each */
}

static void test_a_busy_thread_is_named(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_RR, 4, 10, NULL);
	x.server.busiest_thread = 0.99;
	record_judge(&x.rec);
	assert_found("cpu_bound", FINDING_NOTE,
		"the server's busiest thread used 99 % of its CPU: more threads (-T)");
	fixture_turn(&x);
	record_judge(&x.rec);
	assert_found("cpu_bound", FINDING_NOTE, "the server's busiest thread");
	assert_int_equal(x.rec.verdict, VERDICT_GOOD);
}

static void test_an_end_that_did_not_run_is_named(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 4, 10, NULL);
	record_judge(&x.rec);
	assert_not_found("stopped");
	assert_not_found("starved");
	x.server.stopped_ns = 3 * NS_PER_S;
	x.client.starved_ns = 4 * NS_PER_S;
	record_judge(&x.rec);
	assert_found("stopped", FINDING_WARNING,
		"the server's process was stopped for 30 % of the time");
	assert_found("starved", FINDING_NOTE,
		"a thread of the client waited for a CPU for 40 % of the time");
	assert_int_equal(x.rec.verdict, VERDICT_GOOD);
}

static void test_a_run_inside_one_host_says_so(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 1, 10, NULL);
	record_judge(&x.rec);
	assert_not_found("loopback");
	snprintf(x.rec.local_address, sizeof(x.rec.local_address), "[::1]:43210");
	snprintf(x.rec.peer_address, sizeof(x.rec.peer_address), "[::1]:12866");
	record_judge(&x.rec);
	assert_found("loopback", FINDING_NOTE,
		"both ends are on one host: no NIC and no wire was measured");
}

static void test_uneven_flows_are_a_warning(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 4, 10, NULL);
	x.server_flows[0].counts.rx_bytes *= 10;
	record_judge(&x.rec);
	assert_found("unfair", FINDING_WARNING, "the 4 flows shared unevenly: fairness 0.41");
	fixture_init(&x, WORKLOAD_STREAM, 1, 10, NULL);
	record_judge(&x.rec);
	assert_not_found("unfair");
}

/* With --split-bidir half of the flows carry nothing one way: that is not unfair. */
static void test_split_directions_are_judged_apart(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 8, 10, "--split-bidir", NULL);
	x.client.counts = x.server.counts = (struct flow_counts){ 0 };
	for (int i = 0; i < 8; i++) {
		struct flow_result *c = &x.client_flows[i], *s = &x.server_flows[i];
		bool to_server = i % 2;

		c->counts.rx_bytes = s->counts.tx_bytes = to_server ? 0 : 3000000000;
		c->counts.tx_bytes = s->counts.rx_bytes = to_server ? 3000000000 : 0;
		x.client.counts.rx_bytes += c->counts.rx_bytes;
		x.client.counts.tx_bytes += c->counts.tx_bytes;
		x.server.counts.rx_bytes += s->counts.rx_bytes;
		x.server.counts.tx_bytes += s->counts.tx_bytes;
	}
	record_judge(&x.rec);
	assert_not_found("unfair");
	assert_not_found("ends_disagree");
}

static void test_copies_of_zero_copy_sends_are_a_warning(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 2, 10, "--zerocopy", NULL);
	x.client_flows[0].zerocopy_sent = x.client_flows[1].zerocopy_sent = 1000;
	record_judge(&x.rec);
	assert_not_found("zerocopy_copied");
	x.client_flows[0].zerocopy_copied = 500;
	record_judge(&x.rec);
	assert_found("zerocopy_copied", FINDING_WARNING,
		"the client's kernel copied 25 % of the zero-copy sends after all (500 of 2000)");
}

static void test_retransmits_are_a_warning_above_a_thousandth(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 2, 10, NULL);
	x.client_flows[0].tcp.retransmits = 1000; /* of 6.9 million */
	record_judge(&x.rec);
	assert_not_found("retransmits");
	x.client_flows[0].tcp.retransmits = 69061;
	record_judge(&x.rec);
	assert_found("retransmits", FINDING_WARNING,
		"the client sent 1 % of its segments again (69061)");
}

static void test_percentiles_asked_for_need_samples(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_RR, 1, 10, "-p50,99,99.99,99.999", NULL);
	record_judge(&x.rec);
	assert_found("few_samples", FINDING_NOTE, "100000 samples do not tell p99.999:");
	x.latency.count = 15;
	record_judge(&x.rec);
	assert_found("few_samples", FINDING_NOTE, "15 samples do not tell p99 and above:");
	fixture_init(&x, WORKLOAD_RR, 1, 1, NULL);
	record_judge(&x.rec);
	assert_not_found("few_samples"); /* nobody asked */
}

static void test_a_missed_rate_is_not_valid(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_RR, 4, 10, "--rate", "10050", NULL);
	record_judge(&x.rec);
	assert_not_found("rate_missed");
	x.options.rate = 50000;
	record_judge(&x.rec);
	assert_found(
		"rate_missed", FINDING_INVALID, "asked for 50000 transactions/s, 10000 were done");
	assert_int_equal(x.rec.verdict, VERDICT_DOUBTFUL);
	fixture_turn(&x);
	record_judge(&x.rec);
	assert_found("rate_missed", FINDING_INVALID, "10000 were done");
}

static void test_failure_outweighs_doubt(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 4, 10, NULL);
	x.rec.ceiling_bps = 1000;
	strcpy(x.client.error, "interrupted");
	record_judge(&x.rec);
	assert_int_equal(x.rec.verdict, VERDICT_FAILED);
}

static void test_the_receiver_is_found_from_both_ends(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 1, 1, NULL);
	assert_ptr_equal(record_receiver(&x.rec, true), &x.server);
	assert_ptr_equal(record_sender(&x.rec, true), &x.client);
	assert_null(record_receiver(&x.rec, false));
	assert_null(record_sender(&x.rec, false));
	fixture_turn(&x);
	assert_ptr_equal(record_receiver(&x.rec, true), &x.server);
	assert_null(record_receiver(&x.rec, false));
	fixture_init(&x, WORKLOAD_STREAM, 1, 1, "-M", NULL);
	assert_ptr_equal(record_receiver(&x.rec, false), &x.client);
	assert_null(record_receiver(&x.rec, true));
	fixture_neper(&x, 1);
	assert_null(record_sender(&x.rec, false));
}

/* Whatever a peer says, judging ends and stays within its memory. */
static void test_absurd_figures_of_a_peer_do_no_harm(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 4, 10, "-r", NULL);
	x.server.client = true;
	x.server.window_ns = 1;
	memset(&x.server.counts, 0xff, sizeof(x.server.counts));
	memset(x.server_intervals, 0xff, sizeof(x.server_intervals));
	memset(x.server_flows, 0xff, sizeof(x.server_flows[0]) * 4);
	for (int i = 0; i < 4; i++)
		x.server_flows[i].samples = NULL;
	x.server.busiest_thread = 1e300;
	memset(x.server.error, 'x', sizeof(x.server.error) - 1);
	record_judge(&x.rec);
	assert_int_equal(x.rec.verdict, VERDICT_FAILED);
	assert_true(x.rec.finding_count <= RECORD_FINDINGS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_run_has_the_limit_alone),
		cmocka_unit_test(test_judging_twice_does_not_repeat),
		cmocka_unit_test(test_an_error_of_this_end_fails_the_run),
		cmocka_unit_test(test_an_error_of_the_peer_is_one_printable_line),
		cmocka_unit_test(test_failed_flows_are_counted_once),
		cmocka_unit_test(test_a_run_without_a_reason_is_still_not_complete),
		cmocka_unit_test(test_an_unknown_peer_is_said_but_not_of_neper),
		cmocka_unit_test(test_ends_that_differ_by_what_buffers_hold_are_noted),
		cmocka_unit_test(test_ends_that_differ_more_are_a_warning_then_not_valid),
		cmocka_unit_test(test_transactions_are_compared_but_for_those_under_way),
		cmocka_unit_test(test_a_drifting_receiver_is_not_valid),
		cmocka_unit_test(test_a_drift_of_transactions_at_the_client_is_not_valid),
		cmocka_unit_test(test_noise_that_could_hide_a_drift_is_a_warning),
		cmocka_unit_test(test_a_short_last_interval_is_not_judged),
		cmocka_unit_test(test_a_rate_above_the_link_is_not_valid),
		cmocka_unit_test(test_both_directions_may_fill_the_link),
		cmocka_unit_test(test_a_busy_thread_is_named),
		cmocka_unit_test(test_uneven_flows_are_a_warning),
		cmocka_unit_test(test_split_directions_are_judged_apart),
		cmocka_unit_test(test_copies_of_zero_copy_sends_are_a_warning),
		cmocka_unit_test(test_retransmits_are_a_warning_above_a_thousandth),
		cmocka_unit_test(test_percentiles_asked_for_need_samples),
		cmocka_unit_test(test_a_missed_rate_is_not_valid),
		cmocka_unit_test(test_an_end_that_did_not_run_is_named),
		cmocka_unit_test(test_a_run_inside_one_host_says_so),
		cmocka_unit_test(test_failure_outweighs_doubt),
		cmocka_unit_test(test_the_receiver_is_found_from_both_ends),
		cmocka_unit_test(test_absurd_figures_of_a_peer_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
