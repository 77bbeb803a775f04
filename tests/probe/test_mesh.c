// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "probe/mesh.h"

static size_t build(struct mesh_want want, struct mesh_pair **pair)
{
	size_t count;

	assert_int_equal(mesh_build(&want, pair, &count, NULL), 0);
	return count;
}

static void test_rail_joins_every_host_on_every_rail(void **state)
{
	struct mesh_pair *pair;
	size_t count =
		build((struct mesh_want){ .kind = MESH_RAIL, .hosts = 4, .rails = 8 }, &pair);

	(void)state;
	assert_int_equal(count, 4 * 3 * 8);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(pair[i].from_rail, pair[i].to_rail);
		assert_int_not_equal(pair[i].from_host, pair[i].to_host);
	}
	free(pair);
}

static void test_full_joins_every_nic_with_every_nic_of_others_once(void **state)
{
	struct mesh_pair *pair;
	size_t count =
		build((struct mesh_want){ .kind = MESH_FULL, .hosts = 3, .rails = 4 }, &pair);
	unsigned char seen[12][12] = { 0 };

	(void)state;
	assert_int_equal(count, 3 * 4 * 2 * 4);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(seen[pair[i].from_host * 4 + pair[i].from_rail]
				     [pair[i].to_host * 4 + pair[i].to_rail]++,
			0);
	free(pair);
}

static void test_a_budget_bounds_what_goes_out_and_what_comes_in(void **state)
{
	struct mesh_want want = { .kind = MESH_RAIL, .hosts = 100, .rails = 2, .peers_max = 7 };
	struct mesh_pair *pair;
	size_t count = build(want, &pair);
	int out[200] = { 0 }, in[200] = { 0 };

	(void)state;
	assert_int_equal(count, 100 * 2 * 7);
	for (size_t i = 0; i < count; i++) {
		out[pair[i].from_host * 2 + pair[i].from_rail]++;
		in[pair[i].to_host * 2 + pair[i].to_rail]++;
	}
	for (int i = 0; i < 200; i++)
		assert_true(out[i] == 7 && in[i] == 7);
	free(pair);
}

static void test_a_thousand_nodes_are_listed_within_a_second(void **state)
{
	struct mesh_want want = { .kind = MESH_RAIL, .hosts = 1000, .rails = 8 };
	uint64_t began_ns = clock_ns();
	struct mesh_pair *pair;

	(void)state;
	assert_int_equal(build(want, &pair), 1000 * 999 * 8);
	assert_true(clock_ns() - began_ns < NS_PER_S);
	free(pair);
}

static void test_a_tournament_lets_everyone_meet_everyone_once(void **state)
{
	(void)state;
	for (uint32_t hosts = 2; hosts < 30; hosts++) {
		int met[30][30] = { 0 };

		for (uint32_t round = 0; round < mesh_rounds(hosts); round++)
			for (uint32_t i = 0; i < hosts; i++) {
				int other = mesh_partner(hosts, round, i);

				if (other < 0)
					continue;
				assert_int_equal(mesh_partner(hosts, round, (uint32_t)other), i);
				met[i][other]++;
			}
		for (uint32_t i = 0; i < hosts; i++)
			for (uint32_t j = 0; j < hosts; j++)
				assert_int_equal(met[i][j], i != j);
	}
}

static void test_what_is_no_list_is_refused(void **state)
{
	struct mesh_want want = { 0 };
	struct err e;

	(void)state;
	assert_int_equal(mesh_parse(&want, "ring:0", &e), -EINVAL);
	assert_int_equal(mesh_parse(&want, "star", &e), -EINVAL);
	assert_int_equal(mesh_parse(&want, "ring:3", &e), 0);
	assert_int_equal(want.ring_steps, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rail_joins_every_host_on_every_rail),
		cmocka_unit_test(test_full_joins_every_nic_with_every_nic_of_others_once),
		cmocka_unit_test(test_a_budget_bounds_what_goes_out_and_what_comes_in),
		cmocka_unit_test(test_a_thousand_nodes_are_listed_within_a_second),
		cmocka_unit_test(test_a_tournament_lets_everyone_meet_everyone_once),
		cmocka_unit_test(test_what_is_no_list_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
