// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

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
	struct timespec began, ended;
	struct mesh_pair *pair;
	double spent_s;

	(void)state;
	/* Time that this thread had: the machine may be busy with others. */
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &began);
	assert_int_equal(build(want, &pair), 1000 * 999 * 8);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended);
	spent_s = (double)(ended.tv_sec - began.tv_sec) +
		  (double)(ended.tv_nsec - began.tv_nsec) / 1e9;
	print_message("# %d pairs listed in %.0f ms of CPU time\n", 1000 * 999 * 8, spent_s * 1e3);
	assert_true(spent_s < 1);
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

static void test_a_load_goes_round_again(void **state)
{
	struct mesh_want want = { .kind = MESH_LOAD, .hosts = 3, .rails = 2, .ring_steps = 5 };
	int met[3][3] = { 0 }, copies[3][3] = { 0 };
	struct mesh_pair *pair;
	size_t count = build(want, &pair);

	(void)state;
	assert_int_equal(count, 3 * 2 * 5);
	for (size_t i = 0; i < count; i++) {
		if (pair[i].from_rail)
			continue;
		met[pair[i].from_host][pair[i].to_host]++;
		copies[pair[i].from_host][pair[i].to_host] += pair[i].copy;
	}
	for (int i = 0; i < 3; i++) {
		assert_int_equal(met[i][(i + 1) % 3], 3);
		assert_int_equal(met[i][(i + 2) % 3], 2);
		assert_int_equal(copies[i][(i + 1) % 3], 0 + 1 + 2);
	}
	free(pair);
}

static void test_a_round_has_both_ways_of_disjoint_pairs(void **state)
{
	struct mesh_want want = { .kind = MESH_ROUND, .hosts = 5, .rails = 3, .round = 2 };
	int out[5] = { 0 }, in[5] = { 0 };
	struct mesh_pair *pair;
	size_t count = build(want, &pair);

	(void)state;
	assert_int_equal(count, 4 * 3); /* one of five rests */
	for (size_t i = 0; i < count; i++) {
		out[pair[i].from_host]++;
		in[pair[i].to_host]++;
		assert_int_equal(pair[i].from_rail, pair[i].to_rail);
	}
	for (int i = 0; i < 5; i++)
		assert_true(out[i] == in[i] && (out[i] == 3 || out[i] == 0));
	free(pair);
}

/* Hosts n0 to n3 with two NICs each, n3 with one. */
static const char *name_of(const void *context, uint32_t host)
{
	static const char *const names[] = { "n0", "n1", "n2", "n3" };

	(void)context;
	return names[host];
}

static uint32_t rails_of(const void *context, uint32_t host)
{
	(void)context;
	return host == 3 ? 1 : 2;
}

static const char *address_of(const void *context, uint32_t host, uint32_t rail)
{
	static const char *const address[4][2] = { { "10.0.0.1", "10.1.0.1" },
		{ "10.0.0.2", "10.1.0.2" }, { "10.0.0.3", "10.1.0.3" }, { "fd00::4", "" } };

	(void)context;
	return address[host][rail];
}

static int read_text(const char *text, struct mesh_pair **pair, size_t *count, struct err *e)
{
	const struct mesh_names names = { 4, name_of, rails_of, address_of, NULL };
	char path[] = "/tmp/weir-test-mesh-XXXXXX";
	int fd = mkstemp(path), ret;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	ret = mesh_read(path, &names, pair, count, e);
	unlink(path);
	return ret;
}

static void test_a_file_names_pairs(void **state)
{
	static const struct mesh_pair wanted[] = {
		{ .from_host = 0, .to_host = 1, .from_rail = 0, .to_rail = 1 },
		{ .from_host = 1, .to_host = 2, .from_rail = 0, .to_rail = 0 },
		{ .from_host = 1, .to_host = 2, .from_rail = 1, .to_rail = 1 },
		{ .from_host = 2, .to_host = 3, .from_rail = 0, .to_rail = 0 },
		{ .from_host = 3, .to_host = 0, .from_rail = 0, .to_rail = 0 },
	};
	struct mesh_pair *pair;
	size_t count;

	(void)state;
	assert_int_equal(read_text("# comment\n\nfd00::4 10.0.0.1\nn1 n2 # all rails\nn0/0,n1/1\n"
				   "n2 n3\r\nn0/0 n1/1\n",
				 &pair, &count, NULL),
		0);
	assert_int_equal(count, 5);
	assert_memory_equal(pair, wanted, sizeof(wanted));
	free(pair);
}

static void test_what_a_file_cannot_mean_is_refused_with_its_line(void **state)
{
	static const char *const wrong[] = { "", "n0 n1\nn0\n", "n0 n9\n", "n0/0 n1/2\n",
		"n0/0 n1\n", "n0/0 n0/1\n", "n0 n1 n2\n", "n0/x n1/0\n",
		"n0/99999999999999999999 n1/0\n" };
	struct mesh_pair *pair;
	struct err e;
	size_t count;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(read_text(wrong[i], &pair, &count, &e), -EINVAL);
		assert_null(pair);
		if (wrong[i][0])
			assert_non_null(strstr(e.what, i == 1 ? "line 2" : "line 1"));
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
	assert_int_equal(mesh_parse(&want, "file:", &e), -EINVAL);
	assert_int_equal(mesh_parse(&want, "file:/a/b", &e), 0);
	assert_string_equal(want.file, "/a/b");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rail_joins_every_host_on_every_rail),
		cmocka_unit_test(test_full_joins_every_nic_with_every_nic_of_others_once),
		cmocka_unit_test(test_a_budget_bounds_what_goes_out_and_what_comes_in),
		cmocka_unit_test(test_a_thousand_nodes_are_listed_within_a_second),
		cmocka_unit_test(test_a_tournament_lets_everyone_meet_everyone_once),
		cmocka_unit_test(test_a_load_goes_round_again),
		cmocka_unit_test(test_a_round_has_both_ways_of_disjoint_pairs),
		cmocka_unit_test(test_a_file_names_pairs),
		cmocka_unit_test(test_what_a_file_cannot_mean_is_refused_with_its_line),
		cmocka_unit_test(test_what_is_no_list_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
