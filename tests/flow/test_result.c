/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "flow/result.h"

#define INTERVALS 7u
#define FLOWS	  5u

static void fill_hist(struct hist **h, uint64_t scale)
{
	*h = malloc(sizeof(**h));
	assert_non_null(*h);
	hist_init(*h);
	for (uint64_t i = 1; i <= 1000; i++)
		hist_record(*h, i * i * scale);
}

/* Every field has a value of its own, so that two that are mixed up are seen. */
static uint64_t next(void)
{
	static uint64_t n = 1000000007;

	return n++;
}

static void fill(struct end_result *r)
{
	uint64_t *word;

	memset(r, 0, sizeof(*r));
	r->valid = r->complete = r->client = true;
	r->warmup_ns = next();
	r->window_ns = next();
	r->threads = (uint32_t)next();
	r->user_ns = next();
	r->system_ns = next();
	r->busiest_thread = 1.0 / 3;
	r->stopped_ns = next();
	r->starved_ns = next();
	r->device = (struct device_result){ .nic = "eth1",
		.queues = "8-11",
		.rx_reason = "no such luck",
		.tx_reason = "nor here",
		.tokens_peak = next(),
		.tokens_left = next(),
		.pool_stalls = next() };
	r->counts = (struct flow_counts){ next(), next(), next(), next(), next() };
	fill_hist(&r->latency, 3);
	fill_hist(&r->service, 2);
	r->has_latency = true;
	r->interval_count = INTERVALS;
	r->intervals = calloc(INTERVALS, sizeof(*r->intervals));
	r->flow_count = FLOWS;
	r->flows = calloc(FLOWS, sizeof(*r->flows));
	r->facts = calloc(1, sizeof(*r->facts));
	assert_non_null(r->intervals);
	assert_non_null(r->flows);
	assert_non_null(r->facts);
	for (uint32_t i = 0; i < INTERVALS; i++) {
		struct interval_result *iv = &r->intervals[i];

		*iv = (struct interval_result){ next(), next(), next(), next(), next(), next(),
			(uint32_t)next(), next(), next(), next() };
	}
	for (uint32_t i = 0; i < FLOWS; i++) {
		struct flow_result *f = &r->flows[i];

		f->id = i;
		f->thread = (uint32_t)next();
		f->error = i == 2 ? ECONNRESET : 0;
		f->counts = (struct flow_counts){ next(), next(), next(), next(), next() };
		f->zerocopy_sent = (uint32_t)next();
		f->zerocopy_copied = (uint32_t)next();
		f->mapped_bytes = next();
		f->tcp = (struct tcp_state){ .rtt_us = (uint32_t)next(),
			.rttvar_us = (uint32_t)next(),
			.min_rtt_us = (uint32_t)next(),
			.cwnd_segments = (uint32_t)next(),
			.mss_bytes = (uint32_t)next(),
			.reordering = (uint32_t)next(),
			.retransmits = (uint32_t)next(),
			.retransmitted_bytes = next(),
			.delivered = next(),
			.delivered_ce = next(),
			.received_out_of_order = next(),
			.delivery_bytes_per_s = next(),
			.pacing_bytes_per_s = UINT64_MAX,
			.max_pacing_bytes_per_s = UINT64_MAX - i,
			.busy_us = next(),
			.receive_window_limited_us = next(),
			.send_buffer_limited_us = next() };
		for (int k = 0; k < TCP_LIMITS; k++)
			f->limits.share[k] = (double)(k + 1) / 15 + (double)i * 1e-17;
	}
	word = &r->flows[FLOWS - 1].counts.rx_bytes;
	*word = UINT64_MAX;
	snprintf(r->error, sizeof(r->error), "1 of 5 flows ended early: Connection reset by peer");
	host_facts_add(r->facts, "kernel", "%s", "6.1.0 with blanks and = signs");
	host_facts_add(r->facts, "nic_mtu", "%d", 9000);
}

static void assert_same_hist(const struct hist *a, const struct hist *b)
{
	assert_non_null(a);
	assert_non_null(b);
	assert_int_equal(a->count, b->count);
	assert_int_equal(a->min_ns, b->min_ns);
	assert_int_equal(a->max_ns, b->max_ns);
	assert_true(a->sum_ns == b->sum_ns);
	assert_true(a->sum_squares == b->sum_squares);
	assert_memory_equal(a->bucket, b->bucket, sizeof(a->bucket));
}

static void assert_same_facts(const struct host_facts *a, const struct host_facts *b)
{
	assert_int_equal(a->count, b->count);
	for (size_t i = 0; i < a->count; i++) {
		assert_string_equal(a->fact[i].name, b->fact[i].name);
		assert_string_equal(a->fact[i].value, b->fact[i].value);
	}
}

static void assert_same(const struct end_result *a, const struct end_result *b)
{
	assert_int_equal(a->valid, b->valid);
	assert_int_equal(a->complete, b->complete);
	assert_int_equal(a->client, b->client);
	assert_int_equal(a->warmup_ns, b->warmup_ns);
	assert_int_equal(a->window_ns, b->window_ns);
	assert_int_equal(a->threads, b->threads);
	assert_int_equal(a->user_ns, b->user_ns);
	assert_int_equal(a->system_ns, b->system_ns);
	assert_true(a->busiest_thread == b->busiest_thread);
	assert_int_equal(a->stopped_ns, b->stopped_ns);
	assert_int_equal(a->starved_ns, b->starved_ns);
	assert_memory_equal(&a->device, &b->device, sizeof(a->device));
	assert_memory_equal(&a->counts, &b->counts, sizeof(a->counts));
	assert_int_equal(a->has_latency, b->has_latency);
	assert_same_hist(a->latency, b->latency);
	assert_same_hist(a->service, b->service);
	assert_int_equal(a->interval_count, b->interval_count);
	for (uint32_t i = 0; i < a->interval_count; i++)
		assert_memory_equal(&a->intervals[i], &b->intervals[i], sizeof(a->intervals[i]));
	assert_int_equal(a->flow_count, b->flow_count);
	for (uint32_t i = 0; i < a->flow_count; i++) {
		const struct flow_result *x = &a->flows[i], *y = &b->flows[i];

		assert_int_equal(x->id, y->id);
		assert_int_equal(x->thread, y->thread);
		assert_int_equal(x->error, y->error);
		assert_memory_equal(&x->counts, &y->counts, sizeof(x->counts));
		assert_memory_equal(&x->tcp, &y->tcp, sizeof(x->tcp));
		assert_memory_equal(&x->limits, &y->limits, sizeof(x->limits));
		assert_int_equal(x->zerocopy_sent, y->zerocopy_sent);
		assert_int_equal(x->zerocopy_copied, y->zerocopy_copied);
		assert_int_equal(x->mapped_bytes, y->mapped_bytes);
	}
	assert_same_facts(a->facts, b->facts);
	assert_string_equal(a->error, b->error);
}

static void test_result_survives_the_way_to_the_peer(void **state)
{
	struct end_result sent, got;
	size_t length;
	char *text;
	struct err e;

	(void)state;
	fill(&sent);
	text = result_encode(&sent, &length, &e);
	assert_non_null(text);
	assert_int_equal(length, strlen(text));
	memset(&got, 0xff, sizeof(got));
	assert_int_equal(result_decode(&got, text, &e), 0);
	assert_same(&sent, &got);
	/* What is this end's own stays here. */
	assert_null(got.flows[0].samples);
	assert_int_equal(got.begin_ns, 0);
	result_free(&sent);
	result_free(&got);
	free(text);
}

static void test_result_of_nothing_survives_the_way_too(void **state)
{
	struct end_result sent = { 0 }, got;
	size_t length;
	char *text;
	struct err e;

	(void)state;
	text = result_encode(&sent, &length, &e);
	assert_non_null(text);
	assert_int_equal(result_decode(&got, text, &e), 0);
	assert_false(got.valid);
	assert_false(got.has_latency);
	assert_int_equal(got.flow_count, 0);
	assert_int_equal(got.interval_count, 0);
	result_free(&got);
	result_free(&got);
	free(text);
}

static void test_result_rates(void **state)
{
	struct end_result r = { .window_ns = 2000000000,
		.counts = { .rx_bytes = 250000000, .tx_bytes = 125000000, .transactions = 1000 } };

	(void)state;
	assert_true(fabs(result_rx_bps(&r) - 1e9) < 1);
	assert_true(fabs(result_tx_bps(&r) - 5e8) < 1);
	assert_true(fabs(result_transactions_per_s(&r) - 500) < 1e-6);
	r.window_ns = 0;
	assert_true(result_rx_bps(&r) == 0);
	assert_true(result_tx_bps(&r) == 0);
	assert_true(result_transactions_per_s(&r) == 0);
}

/* Hostile text */

static int decode(struct end_result *r, const char *text, struct err *e)
{
	char *copy = strdup(text); /* of exactly that size: a read beyond the end is seen */
	int ret;

	assert_non_null(copy);
	memset(e, 0, sizeof(*e));
	ret = result_decode(r, copy, e);
	free(copy);
	return ret;
}

static void test_result_nonsense_is_an_empty_result(void **state)
{
	static const char *const texts[] = { "", "\n", "\n\n\n", " ", "end", "end ", "flow",
		"interval", "latency", "fact", "fact ", "fact x", "error", "nonsense\nmore of it\n",
		"end =\n", "end valid\n", "end valid=\n", "end =1\n", "end ==\n", " end valid=1\n",
		"END valid=1\n", "flows id=1\n", "end x=1 y=2 z=3\n" };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct end_result r;
		struct err e;

		if (decode(&r, texts[i], &e))
			fail_msg("\"%s\": %s", texts[i], e.what);
		assert_false(r.valid);
		assert_int_equal(r.flow_count, 0);
		assert_int_equal(r.interval_count, 0);
		result_free(&r);
	}
}

static void test_result_a_window_of_no_time_is_not_valid(void **state)
{
	struct end_result r;
	struct err e;

	(void)state;
	assert_int_equal(decode(&r, "end valid=1 window_ns=0\n", &e), 0);
	assert_false(r.valid);
	result_free(&r);
	assert_int_equal(decode(&r, "end valid=1 window_ns=5\n", &e), 0);
	assert_true(r.valid);
	result_free(&r);
}

static void test_result_numbers_that_are_none_become_finite(void **state)
{
	struct end_result r;
	struct err e;

	(void)state;
	assert_int_equal(
		decode(&r,
			"end valid=1 window_ns=5 busiest_thread=nan\n"
			"flow id=0 limit_pacing=inf limit_application=-inf limit_congestion=nan\n"
			"latency count=3 min_ns=1 max_ns=9 sum_ns=nan sum_squares=inf cells=5:3,\n",
			&e),
		0);
	assert_true(r.busiest_thread == 0);
	for (int i = 0; i < TCP_LIMITS; i++)
		assert_true(r.flows[0].limits.share[i] == 0);
	assert_true(isfinite(r.latency->sum_ns));
	assert_true(isfinite(hist_mean_ns(r.latency)));
	assert_true(isfinite(hist_stddev_ns(r.latency)));
	result_free(&r);
}

static void test_result_numbers_too_large_or_negative_do_no_harm(void **state)
{
	struct end_result r;
	struct err e;

	(void)state;
	assert_int_equal(
		decode(&r,
			"end valid=1 window_ns=99999999999999999999999 threads=-1 rx_bytes=-1\n"
			"interval begin_ns=9 end_ns=3 rtt_us=99999999999999\n"
			"flow id=99999999999 thread=-5 error=-99999999999 rx_bytes=0x10\n",
			&e),
		0);
	assert_int_equal(r.interval_count, 1);
	assert_int_equal(r.flow_count, 1);
	assert_true(isfinite(result_rx_bps(&r)));
	result_free(&r);
}

static void test_result_a_histogram_said_twice_is_refused(void **state)
{
	struct end_result r;
	struct err e;

	(void)state;
	assert_int_equal(decode(&r, "latency count=1 cells=5:1,\nlatency count=1 cells=5:1,\n", &e),
		-EPROTO);
	assert_non_null(strstr(e.what, "twice"));
	/* Nothing is left to free. */
	assert_null(r.latency);
	assert_null(r.flows);
	assert_int_equal(decode(&r, "service cells=\nservice cells=\n", &e), -EPROTO);
}

static void test_result_histogram_cells_out_of_range_are_ignored(void **state)
{
	char text[256];
	struct end_result r;
	struct err e;

	(void)state;
	snprintf(text, sizeof(text),
		"latency count=7 min_ns=0 max_ns=%ju sum_ns=1 sum_squares=1 "
		"cells=5:2,%u:3,4294967295:9,-1:4,99999999999:5,x:1,:7,6:,7,\n",
		(uintmax_t)UINT64_MAX, HIST_BUCKETS);
	assert_int_equal(decode(&r, text, &e), 0);
	assert_int_equal(r.latency->bucket[5], 2);
	assert_int_equal(hist_percentile(r.latency, 100), 5);
	assert_true(r.latency->max_ns <= hist_bucket_high_ns(5));
	result_free(&r);
}

static void test_result_histogram_counts_cannot_overflow(void **state)
{
	struct end_result r;
	struct err e;

	(void)state;
	assert_int_equal(
		decode(&r,
			"latency count=1 cells=1:18446744073709551615,2:18446744073709551615,3:9,"
			"1:18446744073709551615,\n",
			&e),
		0);
	assert_int_equal(hist_percentile(r.latency, 50), 1);
	assert_true(r.latency->count >= r.latency->bucket[1]);
	result_free(&r);
}

static void test_result_more_cells_than_buckets_are_cut(void **state)
{
	size_t cells = 3 * (sizeof(((struct hist *)0)->bucket) / sizeof(uint64_t)),
	       length = 32 + cells * 4;
	char *text = malloc(length), *at = text;
	struct end_result r;
	struct err e;

	(void)state;
	at += sprintf(at, "latency count=1 cells=");
	for (size_t i = 0; i < cells; i++)
		at += sprintf(at, "1:1,");
	strcpy(at, "\n");
	assert_int_equal(decode(&r, text, &e), 0);
	assert_true(r.latency->count <= cells);
	assert_int_equal(r.latency->count, r.latency->bucket[1]);
	result_free(&r);
	free(text);
}

static void repeat(const char *line, size_t times, struct end_result *r)
{
	size_t each = strlen(line);
	char *text = malloc(each * times + 1);
	struct err e = { 0 };

	assert_non_null(text);
	for (size_t i = 0; i < times; i++)
		memcpy(text + i * each, line, each);
	text[each * times] = 0;
	if (result_decode(r, text, &e))
		fail_msg("%s", e.what);
	free(text);
}

static void test_result_a_million_lines_are_capped(void **state)
{
	struct end_result r;

	(void)state;
	repeat("flow id=1\n", 1000000, &r);
	assert_int_equal(r.flow_count, 100000);
	result_free(&r);
	repeat("interval rx_bytes=1\n", 1000000, &r);
	assert_int_equal(r.interval_count, 200000);
	result_free(&r);
	repeat("fact x y\n", 1000000, &r);
	assert_int_equal(r.facts->count, 1);
	result_free(&r);
}

static void test_result_more_facts_than_there_is_room_for_are_left_out(void **state)
{
	char *text = malloc(1 << 20), *at = text;
	struct end_result r;
	struct err e;

	(void)state;
	for (int i = 0; i < 1000; i++)
		at += sprintf(at, "fact name%d value %d\n", i, i);
	assert_int_equal(decode(&r, text, &e), 0);
	assert_int_equal(r.facts->count, HOST_FACTS_MAX);
	assert_string_equal(host_facts_get(r.facts, "name5"), "value 5");
	result_free(&r);
	free(text);
}

static void test_result_long_names_and_values_are_cut_or_left_out(void **state)
{
	char *text = malloc(1 << 17), *at = text;
	struct end_result r;
	struct err e;

	(void)state;
	at += sprintf(at, "error ");
	memset(at, 'x', 5000);
	at += sprintf(at + 5000, "\nfact ") + 5000;
	memset(at, 'n', 5000);
	at += sprintf(at + 5000, " v\nfact name ") + 5000;
	memset(at, 'v', 5000);
	at += sprintf(at + 5000, "\nend ") + 5000;
	memset(at, 'k', 5000);
	at += sprintf(at + 5000, "=1 window_ns=") + 5000;
	memset(at, '9', 5000);
	sprintf(at + 5000, "\n");
	assert_int_equal(decode(&r, text, &e), 0);
	assert_int_equal(strlen(r.error), sizeof(r.error) - 1);
	assert_int_equal(r.facts->count, 1);
	assert_true(strlen(r.facts->fact[0].value) < HOST_VALUE_SIZE);
	result_free(&r);
	free(text);
}

/* What the peer says is shown to people: it must not move their cursor. */
static void test_result_control_characters_from_the_peer_are_not_kept(void **state)
{
	struct end_result r;
	struct err e;

	(void)state;
	assert_int_equal(decode(&r, "error bad\033[2J\rgood\nfact kernel 6.1\033[31m\n", &e), 0);
	for (const char *c = r.error; *c; c++)
		assert_true((unsigned char)*c >= ' ' && *c != 127);
	for (const char *c = r.facts->fact[0].value; *c; c++)
		assert_true((unsigned char)*c >= ' ' && *c != 127);
	result_free(&r);
}

static void test_result_what_a_newer_peer_says_is_skipped(void **state)
{
	struct end_result r;
	struct err e;

	(void)state;
	assert_int_equal(decode(&r,
				 "weather fine=1\nend valid=1 window_ns=5 colour=7 complete=1\n"
				 "flow id=3 mood=good rx_bytes=9\n",
				 &e),
		0);
	assert_true(r.valid && r.complete);
	assert_int_equal(r.flows[0].id, 3);
	assert_int_equal(r.flows[0].counts.rx_bytes, 9);
	result_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_result_survives_the_way_to_the_peer),
		cmocka_unit_test(test_result_of_nothing_survives_the_way_too),
		cmocka_unit_test(test_result_rates),
		cmocka_unit_test(test_result_nonsense_is_an_empty_result),
		cmocka_unit_test(test_result_a_window_of_no_time_is_not_valid),
		cmocka_unit_test(test_result_numbers_that_are_none_become_finite),
		cmocka_unit_test(test_result_numbers_too_large_or_negative_do_no_harm),
		cmocka_unit_test(test_result_a_histogram_said_twice_is_refused),
		cmocka_unit_test(test_result_histogram_cells_out_of_range_are_ignored),
		cmocka_unit_test(test_result_histogram_counts_cannot_overflow),
		cmocka_unit_test(test_result_more_cells_than_buckets_are_cut),
		cmocka_unit_test(test_result_a_million_lines_are_capped),
		cmocka_unit_test(test_result_more_facts_than_there_is_room_for_are_left_out),
		cmocka_unit_test(test_result_long_names_and_values_are_cut_or_left_out),
		cmocka_unit_test(test_result_control_characters_from_the_peer_are_not_kept),
		cmocka_unit_test(test_result_what_a_newer_peer_says_is_skipped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
