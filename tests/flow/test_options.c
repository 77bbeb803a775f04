/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "flow/options.h"
#include "given.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct err e;

static void assert_says(const char *words)
{
	if (!strstr(e.what, words))
		fail_msg("\"%s\" does not say \"%s\"", e.what, words);
}

static void assert_refused(enum workload w, const char *line, const char *words)
{
	struct end end;

	if (given_parse(&end, w, line, &e) != -EINVAL)
		fail_msg("%s: not refused", line);
	assert_says(words);
}

/* The tables */

static bool knows(enum workload w, const struct opt *opt)
{
	return !opt->only || (opt->only & (1u << w));
}

static void test_tables_use_no_letter_and_no_name_twice(void **state)
{
	const struct opt *a, *b;

	(void)state;
	for (int w = 0; w < WORKLOADS; w++) {
		const struct opt *opts = flow_option_table[w].opts;

		assert_int_equal(flow_option_table[w].variant, 1u << w);
		for (a = opts; a->name; a++) {
			for (b = a + 1; b->name; b++) {
				if (!knows((enum workload)w, a) || !knows((enum workload)w, b))
					continue;
				if (!strcmp(a->name, b->name))
					fail_msg("%s: --%s twice", workload_name[w], a->name);
				if (a->letter && a->letter == b->letter)
					fail_msg("%s: -%c is --%s and --%s", workload_name[w],
						a->letter, a->name, b->name);
			}
		}
		assert_true((size_t)(a - opts) <= OPT_MAX);
	}
}

static void test_tables_are_whole(void **state)
{
	(void)state;
	for (const struct opt *opt = flow_option_table[0].opts; opt->name; opt++) {
		if (!opt->help || !opt->help[0])
			fail_msg("--%s has no help", opt->name);
		if ((opt->type == OPT_BOOL) != !opt->arg)
			fail_msg("--%s: a flag has no argument, all else has one", opt->name);
		if ((opt->type == OPT_CHOICE) != (opt->choices != NULL))
			fail_msg("--%s: choices", opt->name);
		if (opt->offset >= sizeof(struct flow_options))
			fail_msg("--%s lies outside the struct", opt->name);
	}
}

static void test_tables_begin_with_a_section_and_have_usable_defaults(void **state)
{
	(void)state;
	for (int w = 0; w < WORKLOADS; w++) {
		struct end server = given((enum workload)w, ""),
			   client = given((enum workload)w, "-c");

		assert_non_null(flow_option_table[w].opts[0].section);
		assert_false(server.o.client);
		assert_true(client.o.client);
	}
}

/* neper's letters, names and defaults. */
static void test_defaults_are_those_of_neper(void **state)
{
	struct end s = given(WORKLOAD_STREAM, ""), r = given(WORKLOAD_RR, "");

	(void)state;
	assert_int_equal(s.o.control_port, 12866);
	assert_int_equal(s.o.port, 12867);
	assert_int_equal(s.o.num_threads, 1);
	assert_int_equal(s.o.num_flows, 1);
	assert_int_equal(s.o.magic, 42);
	assert_int_equal(s.o.maxevents, 1000);
	assert_int_equal(s.o.source_port, -1);
	assert_true(s.o.test_length == 10);
	assert_true(s.o.interval == 1);
	assert_int_equal(s.o.buffer_size, 16384);
	assert_string_equal(s.o.throughput_opt, "Mb");
	assert_int_equal(r.o.buffer_size, 65536);
	assert_int_equal(r.o.request_size, 1);
	assert_int_equal(r.o.response_size, 1);
	assert_int_equal(r.o.logrtt_entries_per_flow, 10000);
}

static void test_letters_mean_what_they_mean_in_neper(void **state)
{
	struct end s = given(WORKLOAD_STREAM,
		"-c -H h -C 1 -P 2 -T 3 -F 4 -l 5 -I 0.5 -B 6 -L a -4 -m 8 -U -S -d -s 9 -n -A -X -t 7 "
		"-E");
	struct end r = given(WORKLOAD_RR, "-c -Q 10 -R 11 -p 50 -M 12 -D 13");

	(void)state;
	assert_string_equal(s.o.host, "h");
	assert_int_equal(s.o.control_port, 1);
	assert_int_equal(s.o.port, 2);
	assert_int_equal(s.o.num_threads, 3);
	assert_int_equal(s.o.num_flows, 4);
	assert_true(s.o.test_length == 5);
	assert_true(s.o.interval == 0.5);
	assert_true(s.o.interval_given);
	assert_int_equal(s.o.buffer_size, 6);
	assert_string_equal(s.o.local_hosts, "a");
	assert_true(s.o.ipv4 && s.o.pin_cpu && s.o.stime_use_proc && s.o.debug && s.o.dry_run);
	assert_true(s.o.tcp_fastopen && s.o.edge_trigger);
	assert_int_equal(s.o.max_pacing_rate, 8);
	assert_int_equal(s.o.suicide_length, 9);
	assert_int_equal(s.o.tcp_tx_delay, 7);
	assert_string_equal(s.o.all_samples, "samples.csv");
	assert_int_equal(r.o.request_size, 10);
	assert_int_equal(r.o.response_size, 11);
	assert_int_equal(r.o.mark, 12);
	assert_int_equal(r.o.delay, 13);
	assert_true(given(WORKLOAD_STREAM, "-M").o.enable_tcp_maerts);
	assert_true(given(WORKLOAD_STREAM, "-R").o.reuseaddr);
	assert_true(given(WORKLOAD_STREAM, "-Z").o.zerocopy);
	assert_true(given(WORKLOAD_STREAM, "-z").o.rx_zerocopy);
}

static char *made_from(
	void (*make)(const struct opt_table *t, struct out *o), const struct opt_table *t)
{
	char *text = NULL;
	size_t size;
	struct out o;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	out_init(&o, f, OUT_TEXT);
	make(t, &o);
	assert_int_equal(out_finish(&o, NULL), 0);
	fclose(f);
	return text;
}

static void completion_of(const struct opt_table *t, struct out *o)
{
	const char *const commands[] = { t->command, NULL };

	opt_completion(&t, 1, commands, o);
}

static void test_help_man_page_and_completion_hold_every_option(void **state)
{
	(void)state;
	for (int w = 0; w < WORKLOADS; w++) {
		const struct opt_table *t = &flow_option_table[w];
		char *help = made_from(opt_help, t), *man = made_from(opt_scdoc, t);
		char *words = made_from(completion_of, t), name[80];

		for (const struct opt *opt = t->opts; opt->name; opt++) {
			bool known = knows((enum workload)w, opt);

			snprintf(name, sizeof(name), " --%s", opt->name);
			if (known && (!strstr(help, name) || !strstr(man, name + 3)))
				fail_msg("%s: help or man page lacks %s", t->command, name);
			snprintf(name, sizeof(name), "*--%s*", opt->name);
			if (known && !strstr(man, name))
				fail_msg("%s: the man page lacks %s", t->command, name);
			if (!opt_find(t, opt->name) && strstr(man, name))
				fail_msg("%s: the man page has %s", t->command, name);
			snprintf(name, sizeof(name), opt->implied ? "--%s= " : "--%s ", opt->name);
			if (known && !strstr(words, name))
				fail_msg("%s: completion lacks %s", t->command, name);
		}
		free(help);
		free(man);
		free(words);
	}
}

/* Checks */

static void test_check_refuses_what_cannot_be(void **state)
{
	static const struct {
		enum workload w;
		const char *line, *words;
	} cases[] = {
		{ WORKLOAD_STREAM, "-T 0", "--num-threads 0" },
		{ WORKLOAD_STREAM, "-F 0", "--num-flows 0" },
		{ WORKLOAD_STREAM, "-c -T 4 -F 2", "--num-flows 2" },
		{ WORKLOAD_STREAM, "-P 0", "--port 0" },
		{ WORKLOAD_STREAM, "-P 65536", "--port 65536" },
		{ WORKLOAD_STREAM, "-C 70000", "--control-port 70000" },
		{ WORKLOAD_STREAM, "-P 65535 --num-ports 2", "65535" },
		{ WORKLOAD_STREAM, "-P 12860 --num-ports 10", "--control-port 12866" },
		{ WORKLOAD_STREAM, "--num-ports 0", "--num-ports 0" },
		{ WORKLOAD_STREAM, "-B 0", "--buffer-size 0" },
		{ WORKLOAD_STREAM, "-B 64Q", "64Q" },
		{ WORKLOAD_STREAM, "-B 2G", "2G" },
		{ WORKLOAD_STREAM, "-m 10Xb", "10Xb" },
		{ WORKLOAD_STREAM, "-l 0", "--test-length 0" },
		{ WORKLOAD_STREAM, "-l -5", "--test-length -5" },
		{ WORKLOAD_STREAM, "-l nan", "nan" },
		{ WORKLOAD_RR, "-l 0", "--test-length 0" },
		{ WORKLOAD_STREAM, "-I 0", "--interval 0" },
		{ WORKLOAD_STREAM, "--skip-rx-copy -z", "exclude" },
		{ WORKLOAD_STREAM, "-L 10.0.0.1", "--local-hosts" },
		{ WORKLOAD_STREAM, "-c -L 10.0.0.1 --source-port 5000", "--source-port" },
		{ WORKLOAD_STREAM, "-c --source-port 0", "--source-port 0" },
		{ WORKLOAD_STREAM, "-c --source-port 65000 -F 1000", "65535" },
		{ WORKLOAD_STREAM, "--wait-start 5", "--wait-start" },
		{ WORKLOAD_RR, "-c -D 5 --noburst 5", "exclude" },
		{ WORKLOAD_RR, "-c --rate 100 -D 5", "--rate" },
		{ WORKLOAD_RR, "-c --rate -1", "--rate -1" },
		{ WORKLOAD_RR, "-c --rate 1e-300", "--rate 1e-300" },
		{ WORKLOAD_RR, "--logtostderr --nolog", "exclude" },
		{ WORKLOAD_RR, "-U --cpus 0", "exclude" },
		{ WORKLOAD_RR, "--cpus 1-0", "1-0" },
		{ WORKLOAD_RR, "--cpus=", "names no CPU" },
		{ WORKLOAD_RR, "-p 101", "101" },
		{ WORKLOAD_RR, "-p nan", "nan" },
		{ WORKLOAD_RR, "-p abc", "abc" },
		{ WORKLOAD_RR, "-p 50,,90", ",90" },
		{ WORKLOAD_RR, "-Q 0", "--request-size 0" },
		{ WORKLOAD_RR, "--outstanding 0", "--outstanding 0" },
		{ WORKLOAD_STREAM, "--throughput-opt furlongs", "furlongs" },
		{ WORKLOAD_STREAM, "--protocol http", "http" },
		{ WORKLOAD_STREAM, "--mem cheese", "cheese" },
		{ WORKLOAD_STREAM, "--request-size 5", "--request-size" },
		{ WORKLOAD_RR, "--zerocopy", "--zerocopy" },
		{ WORKLOAD_CRR, "--outstanding 2", "--outstanding" },
		{ WORKLOAD_STREAM, "node2", "node2" },
		{ WORKLOAD_RR, "-l -0.5", "--test-length -0.5" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		assert_refused(cases[i].w, cases[i].line, cases[i].words);
}

static void test_check_takes_what_can_be(void **state)
{
	static const struct {
		enum workload w;
		const char *line;
	} cases[] = {
		{ WORKLOAD_STREAM, "-T 4 -F 2" },
		{ WORKLOAD_STREAM, "-c -T 4 -F 4" },
		{ WORKLOAD_STREAM, "-P 65535" },
		{ WORKLOAD_STREAM, "-c --source-port 65000 -F 536" },
		{ WORKLOAD_STREAM, "-l 0.1" },
		{ WORKLOAD_RR, "-l -1000" },
		{ WORKLOAD_CRR, "-l -1" },
		{ WORKLOAD_RR, "-p 0,50,100" },
		{ WORKLOAD_STREAM, "--throughput-opt auto-iB" },
		{ WORKLOAD_STREAM, "--cpus 0" },
		{ WORKLOAD_STREAM, "-m 10Gb -D 1ms" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		given(cases[i].w, cases[i].line);
}

static void test_check_sorts_percentiles_and_knows_neper_s_spelling(void **state)
{
	static const double expected[] = { 50, 90, 99, 99.9, 99.99 };
	struct end end = given(WORKLOAD_RR, "-p 99,50,9999,999,90,50");

	(void)state;
	assert_int_equal(end.o.percentile_count, COUNT(expected));
	for (size_t i = 0; i < COUNT(expected); i++)
		assert_true(end.o.percentile[i] == expected[i]);
	/* Any one character separates. */
	assert_int_equal(given(WORKLOAD_RR, "-p 50;90:99").o.percentile_count, 3);
}

static void test_check_bounds_the_number_of_percentiles(void **state)
{
	char line[512] = "-p 1";
	struct end end;

	(void)state;
	for (int i = 2; i <= PERCENTILES_MAX; i++)
		snprintf(line + strlen(line), sizeof(line) - strlen(line), ",%d", i);
	assert_int_equal(given(WORKLOAD_RR, line).o.percentile_count, PERCENTILES_MAX);
	strcat(line, ",99.5");
	assert_int_equal(given_parse(&end, WORKLOAD_RR, line, &e), -EINVAL);
}

static void test_json_is_the_format_json(void **state)
{
	(void)state;
	assert_int_equal(given(WORKLOAD_STREAM, "--json").o.format, FORMAT_JSON);
	assert_int_equal(given(WORKLOAD_STREAM, "--format kv").o.format, FORMAT_KV);
}

/* Who sends and who receives */

static void test_directions_of_each_workload(void **state)
{
	static const struct {
		const char *line;
		enum workload w;
		bool reads, writes;
	} cases[] = {
		{ "-c", WORKLOAD_STREAM, false, true },
		{ "", WORKLOAD_STREAM, true, false },
		{ "-c -r", WORKLOAD_STREAM, true, true },
		{ "-w", WORKLOAD_STREAM, true, true },
		{ "-c -M", WORKLOAD_STREAM, true, false },
		{ "-M", WORKLOAD_STREAM, false, true },
		{ "-c -M -w", WORKLOAD_STREAM, true, false },
		{ "-c --split-bidir", WORKLOAD_STREAM, true, true },
		{ "--split-bidir", WORKLOAD_STREAM, true, true },
		{ "-c", WORKLOAD_RR, true, true },
		{ "", WORKLOAD_RR, true, true },
		{ "", WORKLOAD_CRR, true, true },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct end end = given(cases[i].w, cases[i].line);

		if (flow_options_reads(&end.o, cases[i].w) != cases[i].reads ||
			flow_options_writes(&end.o, cases[i].w) != cases[i].writes)
			fail_msg("%s %s", workload_name[cases[i].w], cases[i].line);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tables_use_no_letter_and_no_name_twice),
		cmocka_unit_test(test_tables_are_whole),
		cmocka_unit_test(test_tables_begin_with_a_section_and_have_usable_defaults),
		cmocka_unit_test(test_defaults_are_those_of_neper),
		cmocka_unit_test(test_letters_mean_what_they_mean_in_neper),
		cmocka_unit_test(test_help_man_page_and_completion_hold_every_option),
		cmocka_unit_test(test_check_refuses_what_cannot_be),
		cmocka_unit_test(test_check_takes_what_can_be),
		cmocka_unit_test(test_check_sorts_percentiles_and_knows_neper_s_spelling),
		cmocka_unit_test(test_check_bounds_the_number_of_percentiles),
		cmocka_unit_test(test_json_is_the_format_json),
		cmocka_unit_test(test_directions_of_each_workload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
