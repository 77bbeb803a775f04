// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "probe/verdict_parts.h"

static struct mesh_pair *pair;
static size_t pairs;
static struct verdicts *v;
static uint64_t wall_ns;

typedef bool touches_fn(const struct mesh_pair *p);

static void begin(uint32_t hosts, uint32_t rails, uint32_t peers_max)
{
	struct mesh_want want = {
		.kind = MESH_RAIL, .hosts = hosts, .rails = rails, .peers_max = peers_max
	};

	wall_ns = NS_PER_S;
	assert_int_equal(mesh_build(&want, &pair, &pairs, NULL), 0);
	assert_int_equal(verdict_new(&v, hosts, rails, pair, pairs, NULL), 0);
}

static int end(void **state)
{
	(void)state;
	verdict_free(v);
	free(pair);
	return 0;
}

/* A window in which the touched pairs lose all, or are slow. */
static void window(touches_fn *touched, struct verdict_window bad)
{
	struct verdict_window good = {
		.sent = 5, .samples = 5, .stamped = true, .median_ns = 40000, .prober_ns = 5000
	};

	for (size_t i = 0; i < pairs; i++)
		verdict_add(v, i, touched && touched(&pair[i]) ? &bad : &good);
	verdict_judge(v, wall_ns, wall_ns + NS_PER_S);
	wall_ns += NS_PER_S;
}

static const struct verdict_window dead = { .sent = 5, .lost = 5 };
static const struct verdict_window unprobed = { 0 };
static const struct verdict_window slow = {
	.sent = 5, .samples = 5, .stamped = true, .median_ns = 400000, .prober_ns = 5000
};

static bool rail_3(const struct mesh_pair *p)
{
	return p->from_rail == 3;
}

static bool host_2(const struct mesh_pair *p)
{
	return p->from_host == 2 || p->to_host == 2;
}

static bool nic_1_5(const struct mesh_pair *p)
{
	return p->from_rail == 5 && (p->from_host == 1 || p->to_host == 1);
}

static bool pair_0_1(const struct mesh_pair *p)
{
	return p->from_rail == 0 && p->from_host == 0 && p->to_host == 1;
}

static const struct verdict *only(void)
{
	assert_int_equal(verdict_count(v), 1);
	return verdict_at(v, 0);
}

/* As often as it takes to be named. */
static void named(touches_fn *touched, struct verdict_window bad)
{
	for (int i = 0; i < VERDICT_NAME_WINDOWS; i++)
		window(touched, bad);
}

static void healthy(int windows)
{
	while (windows--) {
		window(NULL, dead);
		assert_int_equal(verdict_count(v), 0);
	}
}

static void test_a_cut_rail_is_named_and_its_end_is_told(void **state)
{
	uint64_t healed_ns;

	(void)state;
	begin(4, 8, 0);
	healthy(8);
	window(rail_3, dead);
	assert_int_equal(verdict_count(v), 0);
	window(rail_3, dead);
	assert_true(only()->subject == VERDICT_RAIL && only()->rail == 3 && only()->is_new);
	assert_true(only()->begin_ns == wall_ns - 2 * NS_PER_S && !only()->end_ns &&
		    !only()->cannot_tell);
	window(rail_3, dead);
	assert_false(only()->is_new);
	healed_ns = wall_ns;
	window(NULL, dead);
	assert_true(!only()->end_ns);
	window(NULL, dead);
	assert_true(only()->end_ns == healed_ns);
	healthy(1);
}

static void test_a_host_and_a_nic_are_told_apart(void **state)
{
	(void)state;
	begin(4, 8, 0);
	healthy(8);
	named(host_2, dead);
	assert_true(only()->subject == VERDICT_HOST && only()->host == 2);
	verdict_free(v);
	assert_int_equal(verdict_new(&v, 4, 8, pair, pairs, NULL), 0);
	named(nic_1_5, dead);
	assert_true(only()->subject == VERDICT_NIC && only()->host == 1 && only()->rail == 5);
}

static void test_slowness_is_named_against_baseline_and_siblings(void **state)
{
	(void)state;
	begin(4, 8, 0);
	healthy(8);
	for (int i = 0; i < VERDICT_SLOW_WINDOWS; i++)
		window(nic_1_5, slow);
	assert_int_equal(verdict_count(v), 0);
	window(nic_1_5, slow);
	assert_true(only()->subject == VERDICT_NIC && only()->fault == VERDICT_SLOW);
	window(NULL, slow);
	window(NULL, slow);
	healthy(1);
	for (int i = 0; i <= VERDICT_SLOW_WINDOWS; i++)
		window(rail_3, slow); /* no healthy sibling */
	assert_true(only()->subject == VERDICT_RAIL && only()->fault == VERDICT_SLOW);
}

static void test_one_pair_is_a_pair(void **state)
{
	(void)state;
	begin(4, 8, 0);
	healthy(8);
	window(pair_0_1, dead);
	assert_int_equal(verdict_count(v), 0);
	window(pair_0_1, dead);
	assert_true(only()->subject == VERDICT_PAIR && !only()->cannot_tell);
	assert_true(only()->host == 0 && only()->to_host == 1);
}

static bool pair_of_rail_3(const struct mesh_pair *p)
{
	return rail_3(p) && p->from_host == 0 && p->to_host == 1;
}

static void test_a_rail_that_heals_pair_by_pair_names_no_pair(void **state)
{
	(void)state;
	begin(4, 8, 0);
	healthy(8);
	named(rail_3, dead);
	window(pair_of_rail_3, dead);
	assert_true(only()->subject == VERDICT_RAIL);
	window(NULL, dead);
	assert_true(only()->subject == VERDICT_RAIL && only()->end_ns);
	healthy(1);
}

static bool half_of_rail_3(const struct mesh_pair *p)
{
	return rail_3(p) && (p->from_host == 0 || p->to_host == 0);
}

static void test_what_is_seen_by_some_first_is_not_named_as_less(void **state)
{
	(void)state;
	begin(4, 8, 0);
	healthy(8);
	window(half_of_rail_3, dead);
	window(rail_3, dead);
	assert_int_equal(verdict_count(v), 0);
	window(rail_3, dead);
	assert_true(only()->subject == VERDICT_RAIL && only()->rail == 3);
}

static void test_two_hosts_are_too_few_to_tell(void **state)
{
	(void)state;
	begin(2, 8, 0);
	healthy(8);
	window(rail_3, dead);
	window(rail_3, dead);
	assert_int_equal(verdict_count(v), 2);
	for (size_t i = 0; i < 2; i++)
		assert_true(
			verdict_at(v, i)->subject == VERDICT_PAIR && verdict_at(v, i)->cannot_tell);
}

static void expect_only_the_prober(struct verdict_window starved, touches_fn *touched)
{
	begin(4, 8, 0);
	healthy(8);
	for (int i = 0; i < 2 * VERDICT_SLOW_WINDOWS; i++) {
		window(touched, starved);
		for (size_t j = 0; j < verdict_count(v); j++)
			assert_true(verdict_at(v, j)->subject == VERDICT_PROBER &&
				    verdict_at(v, j)->cannot_tell);
	}
	assert_true(verdict_count(v) >= 1);
}

static void test_a_starved_prober_accuses_nobody_else(void **state)
{
	struct verdict_window starved = {
		.sent = 5, .samples = 5, .stamped = true, .median_ns = 400000, .prober_ns = 900000
	};

	(void)state;
	expect_only_the_prober(starved, host_2);
}

static void test_a_starved_responder_is_not_the_network(void **state)
{
	struct verdict_window starved = { .sent = 5,
		.samples = 5,
		.stamped = true,
		.median_ns = 400000,
		.responder_ns = 900000 };

	(void)state;
	expect_only_the_prober(starved, nic_1_5);
}

static void test_slowness_below_what_the_prober_was_late_is_none(void **state)
{
	struct verdict_window starved = {
		.sent = 5, .samples = 5, .stamped = true, .median_ns = 400000, .late_ns = 3000000
	};

	(void)state;
	expect_only_the_prober(starved, nic_1_5);
}

static void test_losses_of_a_prober_that_slept_are_its_own(void **state)
{
	struct verdict_window slept = { .sent = 5, .lost = 5, .late_ns = 900000000 };

	(void)state;
	expect_only_the_prober(slept, host_2);
}

/* What a loaded machine does to windows: few probes, no stamps, so that the hosts' delays are in them. */
static void test_windows_without_stamps_are_not_compared_with_stamped_ones(void **state)
{
	struct verdict_window bare = { .sent = 5, .samples = 5, .median_ns = 4000000 };
	struct verdict_window few = {
		.sent = 1, .samples = 1, .stamped = true, .median_ns = 4000000
	};

	(void)state;
	begin(4, 8, 0);
	healthy(8);
	for (int i = 0; i < 10; i++)
		window(pair_0_1, i % 2 ? bare : few);
	assert_int_equal(verdict_count(v), 0);
	for (int i = 0; i < 10; i++)
		window(rail_3, bare);
	assert_int_equal(verdict_count(v), 0);
}

static void test_a_few_slow_windows_are_noise(void **state)
{
	(void)state;
	begin(4, 8, 0);
	healthy(8);
	for (int i = 0; i < 20; i++) {
		window(i % 3 < 2 ? rail_3 : NULL, slow);
		assert_int_equal(verdict_count(v), 0);
	}
}

static bool to_nic_1_5(const struct mesh_pair *p)
{
	return p->to_rail == 5 && p->to_host == 1;
}

static void test_one_side_of_a_nic_is_told(void **state)
{
	(void)state;
	begin(4, 8, 0);
	healthy(8);
	named(to_nic_1_5, dead);
	assert_true(only()->subject == VERDICT_NIC && only()->side == VERDICT_RECEIVES &&
		    only()->host == 1 && only()->rail == 5);
	verdict_free(v);
	assert_int_equal(verdict_new(&v, 4, 8, pair, pairs, NULL), 0);
	named(nic_1_5, dead);
	assert_true(only()->subject == VERDICT_NIC && only()->side == VERDICT_BOTH);
}

static void test_who_is_accused_is_attributed(void **state)
{
	(void)state;
	begin(4, 8, 0);
	for (size_t i = 0; i < pairs; i++)
		if (nic_1_5(&pair[i]))
			verdict_accuse(v, i, VERDICT_SLOW);
	verdict_accuse(v, 0, VERDICT_LOSS);
	verdict_attribute(v, NS_PER_S);
	assert_int_equal(verdict_count(v), 2);
	assert_true(verdict_at(v, 0)->subject == VERDICT_NIC && verdict_at(v, 0)->host == 1);
	assert_true(verdict_at(v, 1)->subject == VERDICT_PAIR);
}

static void test_a_single_loss_is_no_verdict(void **state)
{
	struct verdict_window one = { .sent = 5, .lost = 1, .median_ns = 40000 };

	(void)state;
	begin(4, 8, 0);
	healthy(8);
	window(rail_3, one);
	assert_int_equal(verdict_count(v), 0);
}

/* A window in which every other host has sent one probe of each of its pairs, and the others none. */
static void sparse_window(touches_fn *touched)
{
	for (size_t i = 0; i < pairs; i++) {
		struct verdict_window one = { .sent = 1, .lost = touched && touched(&pair[i]) };

		if (pair[i].from_host % 2 == wall_ns / NS_PER_S % 2)
			verdict_add(v, i, &one);
	}
	verdict_judge(v, wall_ns, wall_ns + NS_PER_S);
	wall_ns += NS_PER_S;
}

static void test_one_probe_in_every_other_window_is_enough(void **state)
{
	int windows = 0;

	(void)state;
	begin(4, 8, 0);
	for (int i = 0; i < 40; i++) {
		sparse_window(NULL);
		assert_int_equal(verdict_count(v), 0);
	}
	while (!verdict_count(v) && windows++ < 20)
		sparse_window(rail_3);
	assert_true(windows <= 8 && only()->is_new);
	assert_true(only()->subject == VERDICT_RAIL && only()->rail == 3);
	sparse_window(rail_3);
	assert_false(only()->is_new); /* it is told once, though nothing was judged */
	for (windows = 0; !only()->end_ns && windows < 20; windows++)
		sparse_window(NULL);
	assert_true(windows <= 12);
	sparse_window(NULL);
	assert_int_equal(verdict_count(v), 0);
}

static void test_sparse_losses_of_a_pair_add_up(void **state)
{
	(void)state;
	begin(2, 1, 0);
	for (int i = 0; i < 8; i++)
		sparse_window(NULL);
	for (int i = 0; i < 8; i++)
		sparse_window(pair_0_1);
	assert_true(only()->subject == VERDICT_PAIR && only()->fault == VERDICT_LOSS);
}

static void test_one_sparse_loss_is_no_verdict(void **state)
{
	(void)state;
	begin(2, 1, 0);
	for (int i = 0; i < 100; i++) {
		sparse_window(i % 50 < 2 ? pair_0_1 : NULL);
		assert_int_equal(verdict_count(v), 0);
	}
}

static void test_windows_without_probes_are_between_two_in_a_row(void **state)
{
	(void)state;
	begin(4, 8, 0);
	healthy(8);
	window(pair_0_1, dead);
	for (int i = 0; i < 3; i++)
		window(pair_0_1, unprobed);
	assert_int_equal(verdict_count(v), 0);
	window(pair_0_1, dead);
	assert_true(only()->subject == VERDICT_PAIR && only()->is_new);
	verdict_free(v);
	assert_int_equal(verdict_new(&v, 4, 8, pair, pairs, NULL), 0);
	window(pair_0_1, dead);
	window(NULL, dead);
	window(pair_0_1, dead);
	assert_int_equal(verdict_count(v), 0);
}

static void expect_no_end_without_probes(touches_fn *touched)
{
	begin(4, 8, 0);
	healthy(8);
	named(touched, dead);
	for (int i = 0; i < 5; i++) {
		window(touched, unprobed);
		assert_true(!only()->end_ns && !only()->is_new);
	}
	window(NULL, dead);
	window(touched, unprobed);
	assert_true(!only()->end_ns);
	window(NULL, dead);
	assert_true(only()->end_ns);
	healthy(1);
	end(NULL);
}

static void test_windows_without_probes_end_no_verdict(void **state)
{
	(void)state;
	expect_no_end_without_probes(pair_0_1);
	expect_no_end_without_probes(nic_1_5);
	expect_no_end_without_probes(host_2);
	expect_no_end_without_probes(rail_3);
	v = NULL;
	pair = NULL;
}

static void test_slowness_began_with_the_first_slow_window(void **state)
{
	uint64_t slow_ns, healed_ns;

	(void)state;
	begin(4, 8, 0);
	healthy(8);
	slow_ns = wall_ns;
	for (int i = 0; i <= VERDICT_SLOW_WINDOWS; i++)
		window(nic_1_5, slow);
	assert_true(only()->begin_ns == slow_ns);
	window(nic_1_5, slow);
	healed_ns = wall_ns;
	window(NULL, slow);
	window(NULL, slow);
	assert_true(only()->begin_ns == slow_ns && only()->end_ns == healed_ns);
}

static void test_what_is_slow_after_losses_was_not_slow_before(void **state)
{
	uint64_t dead_ns, slow_ns;

	(void)state;
	begin(4, 8, 0);
	healthy(8);
	dead_ns = wall_ns;
	named(nic_1_5, dead);
	slow_ns = wall_ns;
	named(nic_1_5, slow);
	assert_int_equal(verdict_count(v), 2);
	assert_true(verdict_at(v, 0)->fault == VERDICT_LOSS &&
		    verdict_at(v, 0)->begin_ns == dead_ns && verdict_at(v, 0)->end_ns == slow_ns);
	assert_true(
		verdict_at(v, 1)->fault == VERDICT_SLOW && verdict_at(v, 1)->begin_ns == slow_ns);
}

static void test_a_verdict_of_joined_windows_began_with_the_first_of_them(void **state)
{
	uint64_t dead_ns, healed_ns;

	(void)state;
	begin(4, 8, 0);
	for (int i = 0; i < 4; i++)
		sparse_window(NULL);
	for (int i = 0; i < 100; i++, wall_ns += NS_PER_S) /* nobody probes: nothing has begun */
		verdict_judge(v, wall_ns, wall_ns + NS_PER_S);
	dead_ns = wall_ns;
	for (int i = 0; i < 8; i++)
		sparse_window(rail_3);
	assert_true(only()->begin_ns == dead_ns);
	healed_ns = wall_ns;
	for (int i = 0; i < 8; i++)
		sparse_window(NULL);
	assert_true(only()->end_ns == healed_ns);
}

/* Time that this thread had: the machine may be busy with others. */
static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static uint64_t judged_in(touches_fn *touched, const char *words)
{
	uint64_t began_ns = cpu_ns();

	window(touched, dead);
	began_ns = cpu_ns() - began_ns;
	print_message("# %zu pairs, %s: judged in %.0f ms of CPU time\n", pairs, words,
		(double)began_ns / 1e6);
	return began_ns;
}

static bool every_tenth_nic(const struct mesh_pair *p)
{
	return (p->from_host * 8 + p->from_rail) % 10 == 0 ||
	       (p->to_host * 8 + p->to_rail) % 10 == 0;
}

static void test_a_thousand_nodes_are_judged_within_a_second(void **state)
{
	struct rusage usage;

	(void)state;
	begin(1000, 8, 16);
	window(NULL, dead);
	window(nic_1_5, dead);
	assert_true(judged_in(nic_1_5, "one NIC dead") < NS_PER_S);
	assert_true(only()->subject == VERDICT_NIC && only()->host == 1 && only()->rail == 5);
	assert_true(judged_in(rail_3, "a rail dead") < NS_PER_S);
	window(every_tenth_nic, dead);
	assert_true(judged_in(every_tenth_nic, "800 NICs dead") < NS_PER_S);
	assert_true(verdict_count(v) >= 800);
	getrusage(RUSAGE_SELF, &usage);
	print_message("# %ld MiB at most, %zu bytes for a pair\n", usage.ru_maxrss / 1024,
		sizeof(struct pair) + 2 * sizeof(struct mesh_pair) + sizeof(uint64_t) +
			sizeof(uint32_t));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, end)
	const struct CMUnitTest tests[] = {
		TEST(test_a_cut_rail_is_named_and_its_end_is_told),
		TEST(test_a_host_and_a_nic_are_told_apart),
		TEST(test_slowness_is_named_against_baseline_and_siblings),
		TEST(test_one_pair_is_a_pair),
		TEST(test_a_rail_that_heals_pair_by_pair_names_no_pair),
		TEST(test_what_is_seen_by_some_first_is_not_named_as_less),
		TEST(test_two_hosts_are_too_few_to_tell),
		TEST(test_a_starved_prober_accuses_nobody_else),
		TEST(test_a_starved_responder_is_not_the_network),
		TEST(test_slowness_below_what_the_prober_was_late_is_none),
		TEST(test_losses_of_a_prober_that_slept_are_its_own),
		TEST(test_windows_without_stamps_are_not_compared_with_stamped_ones),
		TEST(test_a_few_slow_windows_are_noise),
		TEST(test_one_side_of_a_nic_is_told),
		TEST(test_who_is_accused_is_attributed),
		TEST(test_a_single_loss_is_no_verdict),
		TEST(test_one_probe_in_every_other_window_is_enough),
		TEST(test_sparse_losses_of_a_pair_add_up),
		TEST(test_one_sparse_loss_is_no_verdict),
		TEST(test_windows_without_probes_are_between_two_in_a_row),
		TEST(test_windows_without_probes_end_no_verdict),
		TEST(test_slowness_began_with_the_first_slow_window),
		TEST(test_what_is_slow_after_losses_was_not_slow_before),
		TEST(test_a_verdict_of_joined_windows_began_with_the_first_of_them),
		TEST(test_a_thousand_nodes_are_judged_within_a_second),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
