/* SPDX-License-Identifier: BSD-3-Clause */
/* RSS tables and steering rules as text, there and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sys/nic_driver.h"
#include "sys/nic_rss.h"
#include "sys/nic_rule.h"

static void table_and_back(const char *text, const char *again)
{
	struct nic_rss r;
	char *out;

	assert_int_equal(nic_rss_parse(&r, text, NULL), 0);
	out = nic_rss_text(&r);
	assert_string_equal(out, again);
	free(out);
	nic_rss_free(&r);
}

static void a_table_is_the_shortest_list_that_repeats(void **state)
{
	(void)state;
	table_and_back("0-15/128", "0-15/128");
	table_and_back("0/64", "0/64");
	table_and_back("0,1,2,3,0,1,2,3/8", "0-3/8");
	table_and_back("0-3,8-11/128", "0-3,8-11/128");
	table_and_back("0,0,1,1/4", "0,0-1,1/4");
	table_and_back("3,2,1,0/10", "3,2,1,0/10");
	table_and_back("0-7/3", "0-2/3");
}

static void a_table_that_is_none_is_refused(void **state)
{
	static const char *const wrong[] = { "", "/", "0-3", "/128", "0-3/0", "0-3/x", "3-0/8",
		"a/8", "0,/8", ",0/8", "0-/8", "0 1/8", "0/99999999", "70000/8", "0-1/8/8", "-1/8",
		"0/8 " };
	struct nic_rss r;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(nic_rss_parse(&r, wrong[i], &e), -EINVAL);
		assert_non_null(strstr(e.hint, "0-7/128"));
		assert_null(r.table);
	}
}

static void a_table_is_spread_over_a_set(void **state)
{
	struct cpus queues = { 0 }, others = { 0 };
	struct nic_rss r;
	char *text;

	(void)state;
	cpus_parse(&queues, "0,2-3", NULL);
	cpus_parse(&others, "1", NULL);
	assert_int_equal(nic_rss_spread(&r, 7, &queues, NULL), 0);
	text = nic_rss_text(&r);
	assert_string_equal(text, "0,2-3/7");
	assert_true(nic_rss_uses(&r, &queues));
	assert_false(nic_rss_uses(&r, &others));
	free(text);
	nic_rss_free(&r);
	cpus_clear(&queues);
	assert_int_equal(nic_rss_spread(&r, 7, &queues, NULL), -EINVAL);
}

static void a_flow_is_read_and_written_in_one_order(void **state)
{
	static const char *const pairs[][2] = {
		{ "dst-port=12867", "tcp4,dst-port=12867" },
		{ "tcp6,dst-port=1", "tcp6,dst-port=1" },
		{ "dst-port=2,src-port=1,dst-ip=10.0.0.2,src-ip=10.0.0.1",
			"tcp4,src-ip=10.0.0.1,dst-ip=10.0.0.2,src-port=1,dst-port=2" },
		{ "dst-ip=2001:db8::1", "tcp6,dst-ip=2001:db8::1" },
		{ "src-ip=0.0.0.0", "tcp4,src-ip=0.0.0.0" },
	};
	char text[NIC_RULE_TEXT];
	struct nic_rule r;

	(void)state;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		assert_int_equal(nic_rule_parse(&r, pairs[i][0], NULL), 0);
		assert_string_equal(nic_rule_text(&r, text), pairs[i][1]);
	}
}

static void a_flow_that_is_none_is_refused(void **state)
{
	static const char *const wrong[] = { "", "tcp4", "udp4,dst-port=1", "dst-port=0",
		"dst-port=65536", "dst-port=", "dst-port=1x", "dst-ip=10.0.0", "port=1", "dst-port",
		"dst-ip=10.0.0.1,src-ip=::1", "tcp6,dst-ip=10.0.0.1", "tcp4,tcp6,dst-port=1",
		"dst-port=1,,", "dst-port=-1" };
	struct nic_rule r;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(nic_rule_parse(&r, wrong[i], &e), -EINVAL);
		assert_non_null(strstr(e.hint, "dst-port"));
	}
}

/* The order matters: gve does not change its buffers while it splits. */
static void gve_gets_its_buffers_before_its_split(void **state)
{
	const struct nic_driver_flag *f = nic_driver_flags();

	(void)state;
	assert_string_equal(f[0].flag, "enable-max-rx-buffer-size");
	assert_string_equal(f[1].flag, "enable-strict-header-split");
	assert_string_equal(f[2].flag, "enable-header-split");
	for (int i = 0; i < 3; i++) {
		assert_string_equal(f[i].driver, "gve");
		assert_true(f[i].on);
	}
	assert_null(f[3].driver);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_table_is_the_shortest_list_that_repeats),
		cmocka_unit_test(a_table_that_is_none_is_refused),
		cmocka_unit_test(a_table_is_spread_over_a_set),
		cmocka_unit_test(a_flow_is_read_and_written_in_one_order),
		cmocka_unit_test(a_flow_that_is_none_is_refused),
		cmocka_unit_test(gve_gets_its_buffers_before_its_split),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
