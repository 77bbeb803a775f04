// SPDX-License-Identifier: BSD-3-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "probe/tournament.h"

#define HOSTS	6
#define USUAL	20000.0 /* ns */
#define GBIT	1e9
#define NOTHING (&(struct tournament_hosts){ 0, 0 })

static struct tournament t;
static struct verdicts *v;

static int begin(void **state)
{
	(void)state;
	t = (struct tournament){ .latency = true, .slow = 2 };
	return 0;
}

static int end(void **state)
{
	(void)state;
	tournament_free(&t);
	verdict_free(v);
	v = NULL;
	return 0;
}

static struct tournament_result *pair_of(uint32_t from, uint32_t to)
{
	struct mesh_pair m = { .from_host = from, .to_host = to };

	return tournament_pair(&t, &m, (from + to) % 3, "a", "b", NULL);
}

/* Every pair of hosts once, all alike. */
static void measure_all(double value, const struct tournament_hosts *hosts)
{
	for (uint32_t from = 0; from < HOSTS; from++)
		for (uint32_t to = 0; to < HOSTS; to++)
			if (from != to)
				tournament_keep(&t, pair_of(from, to), value, hosts);
}

static void judge(void)
{
	struct mesh_pair pair[HOSTS * HOSTS];

	for (size_t i = 0; i < t.results; i++)
		pair[i] = t.result[i].m;
	assert_int_equal(verdict_new(&v, HOSTS, 1, pair, t.results, NULL), 0);
	tournament_accuse(&t, v);
	verdict_attribute(v, NS_PER_S);
}

static void test_the_best_of_its_measurements_counts(void **state)
{
	struct tournament_result *r = pair_of(0, 1);

	(void)state;
	tournament_keep(&t, r, 50000, NOTHING);
	tournament_keep(&t, r, 30000, NOTHING);
	tournament_keep(&t, r, 40000, NOTHING);
	tournament_keep(&t, r, 0, NOTHING); /* nothing came */
	assert_true(r->value == 30000);
	t.latency = false;
	tournament_keep(&t, r, 40000, NOTHING);
	assert_true(r->value == 40000);
	assert_ptr_equal(pair_of(0, 1), r);
}

static void test_one_that_is_slow_is_measured_again_with_its_round(void **state)
{
	struct mesh_pair pair[HOSTS * HOSTS];

	(void)state;
	measure_all(USUAL, NOTHING);
	pair_of(1, 4)->value = 10 * USUAL;
	pair_of(2, 5)->value = 2 * USUAL + 1; /* not by an amount that matters */
	assert_int_equal(tournament_usual(&t, NULL), 0);
	assert_true(t.usual == USUAL);
	assert_int_equal(tournament_suspect_count(&t), 1);
	assert_int_equal(tournament_suspects(&t, 5 % 3, pair), 1);
	assert_true(pair[0].from_host == 1 && pair[0].to_host == 4);
	assert_int_equal(tournament_suspects(&t, 0, pair), 0);
	tournament_keep(&t, pair_of(1, 4), USUAL, NOTHING);
	assert_int_equal(tournament_suspect_count(&t), 0);
}

static void test_a_host_that_is_slow_by_probes_is_named(void **state)
{
	(void)state;
	measure_all(USUAL, &(struct tournament_hosts){ 15000, 10000 });
	for (uint32_t to = 0; to < HOSTS; to++)
		if (to != 2)
			pair_of(2, to)->value = pair_of(to, 2)->value = 1e6;
	tournament_usual(&t, NULL);
	judge();
	assert_int_equal(verdict_count(v), 1);
	assert_true(verdict_at(v, 0)->subject == VERDICT_HOST && verdict_at(v, 0)->host == 2);
	assert_false(verdict_at(v, 0)->cannot_tell);
}

static void test_slowness_that_a_late_host_explains_names_its_agent(void **state)
{
	struct tournament_result *r = pair_of(1, 4);

	(void)state;
	measure_all(USUAL, NOTHING);
	*r = (struct tournament_result){ .m = r->m };
	tournament_keep(&t, r, 300000, &(struct tournament_hosts){ 10000, 400000 });
	tournament_usual(&t, NULL);
	assert_true(tournament_is_slow(&t, r) && tournament_is_starved(&t, r, NULL));
	judge();
	assert_int_equal(verdict_count(v), 1);
	assert_true(verdict_at(v, 0)->subject == VERDICT_PROBER && verdict_at(v, 0)->host == 4);
	assert_true(verdict_at(v, 0)->cannot_tell);
}

static void test_one_measurement_that_nobody_disturbed_is_enough(void **state)
{
	struct tournament_result *r = pair_of(1, 4);

	(void)state;
	measure_all(USUAL, NOTHING);
	*r = (struct tournament_result){ .m = r->m };
	tournament_keep(&t, r, 300000, &(struct tournament_hosts){ 900000, 0 });
	tournament_keep(&t, r, 310000, &(struct tournament_hosts){ 100000, 5000 });
	tournament_usual(&t, NULL);
	assert_true(tournament_is_slow(&t, r) && !tournament_is_starved(&t, r, NULL));
	judge();
	assert_int_equal(verdict_at(v, 0)->subject, VERDICT_PAIR);
}

static void test_loss_while_a_host_slept_says_nothing(void **state)
{
	struct tournament_result *slept = pair_of(0, 3), *lost = pair_of(1, 4);
	uint32_t host;

	(void)state;
	measure_all(USUAL, NOTHING);
	slept->sent = lost->sent = 20;
	slept->lost = lost->lost = 5;
	tournament_keep_late(slept, &(struct tournament_hosts){ 1e6, 6e8 });
	tournament_keep_late(slept, &(struct tournament_hosts){ 2e6, 1e3 });
	tournament_keep_late(lost, &(struct tournament_hosts){ 1e6, 1e6 });
	tournament_usual(&t, NULL);
	assert_true(tournament_is_starved(&t, slept, &host));
	assert_int_equal(host, 3);
	assert_true(tournament_is_lossy(lost) && !tournament_is_starved(&t, lost, NULL));
	slept->failed = true; /* no connection at all is no matter of time */
	assert_false(tournament_is_starved(&t, slept, NULL));
}

/* A stream of host 0 to 1 that is slower than all others, and how long its ends waited for a CPU. */
static struct tournament_result *stream(double from, double to)
{
	struct tournament_result *r = pair_of(0, 1);

	t.latency = false;
	measure_all(10 * GBIT, &(struct tournament_hosts){ 0.6, 0.6 });
	*r = (struct tournament_result){ .m = r->m };
	tournament_keep(&t, r, 2 * GBIT, &(struct tournament_hosts){ from, to });
	tournament_usual(&t, NULL);
	return r;
}

static void test_a_stream_whose_end_had_no_cpu_cannot_tell(void **state)
{
	uint32_t host;

	(void)state;
	assert_true(tournament_is_starved(&t, stream(0.1, 0.8), &host));
	assert_int_equal(host, 1);
	judge();
	assert_int_equal(verdict_count(v), 1);
	assert_true(verdict_at(v, 0)->subject == VERDICT_PROBER && verdict_at(v, 0)->host == 1);
}

static void test_a_slow_stream_that_had_its_cpu_is_named(void **state)
{
	(void)state;
	assert_false(tournament_is_starved(&t, stream(0.1, 0.2), NULL));
	judge();
	assert_int_equal(verdict_count(v), 1);
	assert_true(verdict_at(v, 0)->subject == VERDICT_PAIR && !verdict_at(v, 0)->cannot_tell);
}

static void test_a_fast_stream_is_not_starved(void **state)
{
	(void)state;
	stream(0.9, 0.9);
	assert_false(tournament_is_starved(&t, pair_of(2, 3), NULL)); /* it waited, too */
	judge();
	assert_int_equal(verdict_count(v), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_the_best_of_its_measurements_counts),
		TEST(test_one_that_is_slow_is_measured_again_with_its_round),
		TEST(test_a_host_that_is_slow_by_probes_is_named),
		TEST(test_slowness_that_a_late_host_explains_names_its_agent),
		TEST(test_one_measurement_that_nobody_disturbed_is_enough),
		TEST(test_loss_while_a_host_slept_says_nothing),
		TEST(test_a_stream_whose_end_had_no_cpu_cannot_tell),
		TEST(test_a_slow_stream_that_had_its_cpu_is_named),
		TEST(test_a_fast_stream_is_not_starved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
