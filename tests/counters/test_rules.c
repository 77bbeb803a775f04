// SPDX-License-Identifier: BSD-3-Clause
/* Rules: how they are read, and when they hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "counters/finding.h"
#include "counters/known.h"

#define S 1000000000ull

static struct snapshot before, after;
static struct difference d;
static struct findings f;

static void put(const char *object, const char *name, uint64_t a, uint64_t b)
{
	struct counter c = { .source = "t", .object = object, .name = name };

	assert_int_equal(0, snapshot_put(&before, &c, a, 10 * S, NULL));
	assert_int_equal(0, snapshot_put(&after, &c, b, 11 * S, NULL));
}

static int open_snapshots(void **state)
{
	(void)state;
	return snapshot_init(&before, NULL) || snapshot_init(&after, NULL);
}

static int close_snapshots(void **state)
{
	(void)state;
	findings_free(&f);
	difference_free(&d);
	snapshot_free(&before);
	snapshot_free(&after);
	return 0;
}

static uint32_t ask(const char *text)
{
	struct rules *rules;
	struct err e = { 0 };

	findings_free(&f);
	difference_free(&d);
	if (rules_parse(&rules, text, strlen(text), "test", &e))
		fail_msg("%s", e.what);
	before.taken_ns = 10 * S;
	after.taken_ns = 12 * S;
	assert_int_equal(0, difference_make(&d, &before, &after, NULL));
	assert_int_equal(0, findings_make(&f, &d, rules, NULL));
	rules_free(rules);
	return f.count;
}

#define RULE(when) "[r]\nof = t\nx = delta(a)\nwhen = " when "\nsay = {object} {x} {x%}\n"

static void test_a_rule_says_its_figures_and_keeps_its_evidence(void **state)
{
	(void)state;
	put("nic", "a", 0, 3);
	assert_int_equal(1, ask(RULE("x > 2")));
	assert_string_equal("nic 3 300 %", f.finding[0].text);
	assert_int_equal(1, f.finding[0].evidence_count);
	assert_string_equal("a", f.finding[0].evidence[0].name);
	assert_int_equal(0, ask(RULE("x > 3")));
}

static void test_a_rule_that_lacks_a_counter_is_skipped(void **state)
{
	(void)state;
	put("nic", "b", 0, 3);
	assert_int_equal(0, ask(RULE("x >= 0")));
	assert_int_equal(1, f.skipped);
	assert_int_equal(1, ask("[r]\nof = t\nwhen = maybe(a) == 0 and has(b)\nsay = x\n"));
	assert_int_equal(0, f.skipped);
}

static void test_expressions_keep_their_order(void **state)
{
	(void)state;
	put("nic", "a", 0, 8);
	assert_int_equal(1, ask(RULE("x + 2 * 3 == 14 and (x + 2) * 3 == 30")));
	assert_int_equal(1, ask(RULE("x - 2 - 1 == 5 and x / 2 / 2 == 2")));
	assert_int_equal(1, ask(RULE("x == 1 or x == 8 and -x == 0 - 8")));
	assert_int_equal(1, ask(RULE("x / 0 == 0 and seconds == 2 and rate(a) == 8")));
}

static void test_patterns_sum_and_the_first_of_several_is_taken(void **state)
{
	(void)state;
	put("nic", "q0_drop", 0, 1);
	put("nic", "q10_drop", 0, 2);
	put("nic", "qx_drop", 0, 4);
	assert_int_equal(1, ask("[r]\nof = t\nwhen = delta(q#_drop) == 3\nsay = x\n"));
	assert_int_equal(1, ask("[r]\nof = t\nwhen = delta(q*_drop) == 7\nsay = x\n"));
	assert_int_equal(1, ask("[r]\nof = t\nwhen = delta(none|qx_drop|q0_drop) == 4\nsay = x\n"));
	assert_int_equal(1, ask("[r]\nof = t\nwhen = most(q*_drop) == 4\nsay = x\n"));
}

static void test_one_of_several_siblings_is_told_apart(void **state)
{
	static const char rule[] =
		"[r]\nof = t\naway = outlier(a)\nwhen = away > 5\nsay = {object}\n";

	(void)state;
	put("n0", "a", 0, 1000);
	put("n1", "a", 0, 1003);
	put("n2", "a", 0, 998);
	assert_int_equal(0, ask(rule)); /* too few to tell */
	assert_int_equal(1, f.skipped);
	put("n3", "a", 0, 1001);
	assert_int_equal(0, ask(rule));
	put("n4", "a", 0, 400);
	assert_int_equal(1, ask(rule));
	assert_string_equal("n4", f.finding[0].text);
}

static void test_wrong_rules_are_refused_with_their_line(void **state)
{
	static const struct {
		const char *text, *words;
	} wrong[] = {
		{ "x = 1\n", "test:1" },
		{ "[r]\nof = t\nwhen = y > 1\nsay = x\n", "test:3: there is no such variable" },
		{ "[r]\nof = t\nwhen = 1 +\nsay = x\n", "test:3" },
		{ "[r]\nof = t\nwhen = (1\nsay = x\n", "not closed" },
		{ "[r]\nof = t\nwhen = 1 2\nsay = x\n", "left over" },
		{ "[r]\nof = t\nwhen = nonsense(a)\nsay = x\n", "no such function" },
		{ "[r]\nof = t\nsay = x\n", "lacks its when" },
		{ "[r]\nseverity = dire\n", "severity is note" },
		{ "[r\n", "begins with its name" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct rules *rules;
		struct err e = { 0 };

		assert_int_not_equal(
			0, rules_parse(&rules, wrong[i].text, strlen(wrong[i].text), "test", &e));
		assert_null(rules);
		if (!strstr(e.what, wrong[i].words))
			fail_msg("\"%s\" says \"%s\"", wrong[i].text, e.what);
	}
}

static void test_the_built_in_rules_can_be_read(void **state)
{
	struct rules *rules;
	struct err e = { 0 };

	(void)state;
	if (rules_load(&rules, NULL, &e))
		fail_msg("%s", e.what);
	rules_free(rules);
}

static void test_cassini_names_are_all_known_with_kind_and_width(void **state)
{
	const char *const *name = known_cxi_names();
	uint32_t gauges = 0, wide = 0, narrow = 0;

	(void)state;
	for (uint32_t i = 0; i < KNOWN_CXI_NAMES; i++) {
		struct counter c = { .source = "cxi", .name = name[i] };

		counter_classify(&c);
		assert_int_equal(i + 1, known_cxi_number(name[i]));
		gauges += c.kind == COUNTER_GAUGE;
		wide += counter_grows(c.kind) && c.bits == 56;
		narrow += counter_grows(c.kind) && c.bits < 56;
	}
	assert_int_equal(411, gauges);
	assert_int_equal(1466, wide);
	assert_int_equal(13, narrow);
	assert_string_equal("atu_cache_evictions", name[16]);
	assert_string_equal("pct_trs_rsp_nack_drops", name[1723]);
}

static void test_a_counter_is_shown_in_all_of_its_groups(void **state)
{
	struct counter c = { .source = "cxi", .object = "cxi0", .name = "hni_pkts_sent_by_tc_3" };
	struct counter_about about = counter_about(&c);

	(void)state;
	assert_string_equal("CxiPerfStats", about.group[0]);
	assert_string_equal("CxiOpPackets", about.group[1]);
	assert_null(about.group[2]);
	assert_true(about.description[0]);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_snapshots, close_snapshots)
	const struct CMUnitTest tests[] = {
		T(test_a_rule_says_its_figures_and_keeps_its_evidence),
		T(test_a_rule_that_lacks_a_counter_is_skipped),
		T(test_expressions_keep_their_order),
		T(test_patterns_sum_and_the_first_of_several_is_taken),
		T(test_one_of_several_siblings_is_told_apart),
		cmocka_unit_test(test_wrong_rules_are_refused_with_their_line),
		cmocka_unit_test(test_the_built_in_rules_can_be_read),
		cmocka_unit_test(test_cassini_names_are_all_known_with_kind_and_width),
		cmocka_unit_test(test_a_counter_is_shown_in_all_of_its_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
