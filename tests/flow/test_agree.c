/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

#define REQUEST_BYTES 4096

static int agree(struct end *server, enum workload w, const char *client_line, char *text)
{
	struct end client = given(w, client_line);

	assert_int_equal(flow_options_request(&client.o, w, text, REQUEST_BYTES, &e), 0);
	memset(&e, 0, sizeof(e));
	return flow_options_agree(&server->o, w, &server->given, text, &e);
}

static void test_agree_the_server_follows_its_client(void **state)
{
	struct end server = given(WORKLOAD_STREAM, "");
	char text[REQUEST_BYTES];

	(void)state;
	assert_int_equal(agree(&server, WORKLOAD_STREAM,
				 "-c -T 2 -F 8 -l 2.5 -B 128K -M --warmup 0.5 -I 0.25 "
				 "-m 1Gb --congestion-control reno",
				 text),
		0);
	assert_int_equal(server.o.num_threads, 2);
	assert_int_equal(server.o.num_flows, 8);
	assert_true(server.o.test_length == 2.5);
	assert_true(server.o.warmup == 0.5);
	assert_true(server.o.interval == 0.25);
	assert_int_equal(server.o.buffer_size, 131072);
	assert_true(server.o.enable_tcp_maerts);
	assert_int_equal(server.o.max_pacing_rate, 125000000);
	assert_string_equal(server.o.congestion_control, "reno");
	/* Its own affairs stay its own. */
	assert_false(server.o.client);
	assert_int_equal(server.o.port, 12867);
}

static void test_agree_the_sizes_of_messages_follow_too(void **state)
{
	char text[REQUEST_BYTES];

	(void)state;
	for (int w = WORKLOAD_RR; w <= WORKLOAD_CRR; w++) {
		struct end server = given((enum workload)w, "");

		assert_int_equal(
			agree(&server, (enum workload)w, "-c -Q 100 -R 2000 -l -500", text), 0);
		assert_int_equal(server.o.request_size, 100);
		assert_int_equal(server.o.response_size, 2000);
		assert_true(server.o.test_length == -500);
	}
}

static void test_agree_what_the_client_reads_the_server_writes(void **state)
{
	struct end server = given(WORKLOAD_STREAM, "");
	char text[REQUEST_BYTES];

	(void)state;
	assert_int_equal(agree(&server, WORKLOAD_STREAM, "-c -r", text), 0);
	assert_true(flow_options_writes(&server.o, WORKLOAD_STREAM));
	assert_true(flow_options_reads(&server.o, WORKLOAD_STREAM));
	server = given(WORKLOAD_STREAM, "");
	assert_int_equal(agree(&server, WORKLOAD_STREAM, "-c", text), 0);
	assert_false(flow_options_writes(&server.o, WORKLOAD_STREAM));
	server = given(WORKLOAD_STREAM, "");
	assert_int_equal(agree(&server, WORKLOAD_STREAM, "-c --split-bidir -F 2", text), 0);
	assert_true(server.o.split_bidir);
}

static void test_agree_a_client_may_wait_before_it_starts(void **state)
{
	struct end server = given(WORKLOAD_STREAM, "");
	char text[REQUEST_BYTES];

	(void)state;
	if (agree(&server, WORKLOAD_STREAM, "-c --wait-start 5", text))
		fail_msg("%s", e.what);
}

static void test_agree_client_options_that_a_server_could_not_have_are_no_conflict(void **state)
{
	static const struct {
		enum workload w;
		const char *line;
	} cases[] = {
		{ WORKLOAD_STREAM, "-c -D 1ms" },
		{ WORKLOAD_STREAM, "-c -L 127.0.0.1" },
		{ WORKLOAD_STREAM, "-c --source-port 5000 -F 4" },
		{ WORKLOAD_RR, "-c --rate 1000" },
		{ WORKLOAD_RR, "-c --noburst 1ms" },
		{ WORKLOAD_RR, "-c --outstanding 16" },
		{ WORKLOAD_CRR, "-c --rate 1000" },
		{ WORKLOAD_RR, "-c -p 50,99" },
	};
	char text[REQUEST_BYTES];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct end server = given(cases[i].w, "");

		if (agree(&server, cases[i].w, cases[i].line, text))
			fail_msg("%s: %s", cases[i].line, e.what);
	}
}

static void test_agree_what_was_given_on_both_sides_must_be_equal(void **state)
{
	static const struct {
		enum workload w;
		const char *server, *client, *name, *ours, *theirs;
	} cases[] = {
		{ WORKLOAD_STREAM, "-l 5", "-c -l 7", "--test-length", "5", "7" },
		{ WORKLOAD_STREAM, "-l 5", "-c", "--test-length", "5", "10" },
		{ WORKLOAD_STREAM, "--warmup 1", "-c --warmup 2", "--warmup", "1", "2" },
		{ WORKLOAD_STREAM, "-M", "-c", "--enable-tcp-maerts", "1", "0" },
		{ WORKLOAD_STREAM, "-w", "-c", "--enable-write", "1", "0" },
		{ WORKLOAD_STREAM, "--split-bidir", "-c", "--split-bidir", "1", "0" },
		{ WORKLOAD_RR, "-Q 10", "-c -Q 20", "--request-size", "10", "20" },
		{ WORKLOAD_CRR, "-R 10", "-c -R 20", "--response-size", "10", "20" },
	};
	char text[REQUEST_BYTES];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct end server = given(cases[i].w, cases[i].server);

		assert_int_equal(agree(&server, cases[i].w, cases[i].client, text), -EPROTO);
		assert_says(cases[i].name);
		assert_says(cases[i].ours);
		assert_says(cases[i].theirs);
	}
}

static void test_agree_equal_values_in_other_words_are_equal(void **state)
{
	struct end server = given(WORKLOAD_RR, "-Q 1K -l 2 -M 5");
	char text[REQUEST_BYTES];

	(void)state;
	assert_int_equal(agree(&server, WORKLOAD_RR, "-c -Q 1024 -l 2.0", text), 0);
	assert_int_equal(server.o.request_size, 1024);
}

static void test_agree_the_server_keeps_its_own_threads_and_buffers(void **state)
{
	struct end server = given(WORKLOAD_STREAM, "-T 3 -B 4K");
	char text[REQUEST_BYTES];

	(void)state;
	assert_int_equal(agree(&server, WORKLOAD_STREAM, "-c -T 2 -F 2 -B 1M", text), 0);
	assert_int_equal(server.o.num_threads, 3);
	assert_int_equal(server.o.buffer_size, 4096);
	assert_int_equal(server.o.num_flows, 2);
}

static void test_request_says_when_it_does_not_fit(void **state)
{
	struct end client = given(WORKLOAD_STREAM, "-c");
	char text[REQUEST_BYTES];

	(void)state;
	for (size_t size = 1; size < 100; size++) {
		char *small = malloc(size);

		assert_int_equal(flow_options_request(&client.o, WORKLOAD_STREAM, small, size, &e),
			-EMSGSIZE);
		free(small);
	}
	assert_int_equal(
		flow_options_request(&client.o, WORKLOAD_STREAM, text, sizeof(text), &e), 0);
	assert_true(strlen(text) < 2048);
}

/* Hostile requests */

static int ask(enum workload w, const char *server_line, const char *text, struct end *server)
{
	/* A copy on the heap of exactly that size: a read beyond the end is seen. */
	char *copy = strdup(text);
	int ret;

	*server = given(w, server_line);
	memset(&e, 0, sizeof(e));
	ret = flow_options_agree(&server->o, w, &server->given, copy, &e);
	server->o.congestion_control = NULL;
	free(copy);
	return ret;
}

static void test_agree_refuses_requests_that_make_no_sense(void **state)
{
	static const struct {
		enum workload w;
		const char *text;
	} cases[] = {
		{ WORKLOAD_STREAM, "num-flows" },
		{ WORKLOAD_STREAM, "num-flows=8\nnonsense\n" },
		{ WORKLOAD_STREAM, "num-flows=\n" },
		{ WORKLOAD_STREAM, "num-flows=0\n" },
		{ WORKLOAD_STREAM, "num-flows=-1\n" },
		{ WORKLOAD_STREAM, "num-flows=1000001\n" },
		{ WORKLOAD_STREAM, "num-flows=99999999999999999999\n" },
		{ WORKLOAD_STREAM, "num-flows=8 \n" },
		{ WORKLOAD_STREAM, "num-threads=0\n" },
		{ WORKLOAD_STREAM, "num-threads=1025\n" },
		{ WORKLOAD_STREAM, "test-length=nan\n" },
		{ WORKLOAD_STREAM, "test-length=inf\n" },
		{ WORKLOAD_STREAM, "test-length=0\n" },
		{ WORKLOAD_STREAM, "test-length=-5\n" },
		{ WORKLOAD_STREAM, "test-length=1e7\n" },
		{ WORKLOAD_STREAM, "warmup=-2\n" },
		{ WORKLOAD_STREAM, "interval=0\n" },
		{ WORKLOAD_STREAM, "interval=nan\n" },
		{ WORKLOAD_STREAM, "buffer-size=0\n" },
		{ WORKLOAD_STREAM, "buffer-size=1T\n" },
		{ WORKLOAD_RR, "request-size=0\n" },
		{ WORKLOAD_RR, "request-size=-1\n" },
		{ WORKLOAD_RR, "response-size=18446744073709551616\n" },
		{ WORKLOAD_STREAM, "max-pacing-rate=-5\n" },
		{ WORKLOAD_STREAM, "enable-tcp-maerts=maybe\n" },
		{ WORKLOAD_RR, "test-length=-0.5\n" },
	};
	struct end server;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		int ret = ask(cases[i].w, "", cases[i].text, &server);

		if (ret != -EINVAL && ret != -ERANGE && ret != -EPROTO)
			fail_msg("took %s", cases[i].text);
		assert_int_not_equal(e.what[0], 0);
	}
}

static void assert_same(
	const struct flow_options *a, const struct flow_options *b, const char *line)
{
	char x[OPT_TEXT], y[OPT_TEXT];

	for (const struct opt *opt = flow_option_table[WORKLOAD_STREAM].opts; opt->name; opt++)
		if (strcmp(opt_value(opt, a, x), opt_value(opt, b, y)))
			fail_msg("%s changed --%s", line, opt->name);
}

static void test_agree_ignores_names_it_does_not_know_or_does_not_share(void **state)
{
	static const char *const lines[] = { "", "\n\n", "a-wish-of-next-year=7\n", "=\n", "=5\n",
		"client=1\n", "host=evil\n", "out=/etc/passwd\n", "all-samples=/etc/passwd\n",
		"port=1\n", "control-port=1\n", "pin-cpu=1\n", "cpus=0\n", "mark=5\n", "once=1\n",
		"suicide-length=1\n", "magic=1\n", "listen-backlog=1\n", "freebind=1\n",
		"num-flow=5\n", "num-flows2=5\n", "NUM-FLOWS=5\n", " num-flows=5\n",
		"request-size=5\n", "tcp-tx-delay=1000000\n", "num-clients=5\n", "num-ports=5\n" };
	struct end server, before = given(WORKLOAD_STREAM, "");

	(void)state;
	for (size_t i = 0; i < COUNT(lines); i++) {
		if (ask(WORKLOAD_STREAM, "", lines[i], &server))
			fail_msg("%s: %s", lines[i], e.what);
		assert_same(&server.o, &before.o, lines[i]);
	}
}

static void test_agree_the_last_of_several_wins(void **state)
{
	struct end server;

	(void)state;
	assert_int_equal(ask(WORKLOAD_STREAM, "", "num-flows=8\nnum-flows=9\n", &server), 0);
	assert_int_equal(server.o.num_flows, 9);
}

static void test_agree_survives_very_long_lines(void **state)
{
	size_t length = 1 << 20;
	char *text = malloc(length + 1);
	struct end server;

	(void)state;
	memset(text, 'x', length);
	text[length] = 0;
	assert_int_equal(ask(WORKLOAD_STREAM, "", text, &server), -EPROTO);
	memcpy(text, "num-flows=", 10);
	assert_int_equal(ask(WORKLOAD_STREAM, "", text, &server), -EINVAL);
	memcpy(text, "congestion-control=", 19);
	ask(WORKLOAD_STREAM, "", text, &server);
	memset(text, '\n', length);
	assert_int_equal(ask(WORKLOAD_STREAM, "", text, &server), 0);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_agree_the_server_follows_its_client),
		cmocka_unit_test(test_agree_the_sizes_of_messages_follow_too),
		cmocka_unit_test(test_agree_what_the_client_reads_the_server_writes),
		cmocka_unit_test(test_agree_a_client_may_wait_before_it_starts),
		cmocka_unit_test(
			test_agree_client_options_that_a_server_could_not_have_are_no_conflict),
		cmocka_unit_test(test_agree_what_was_given_on_both_sides_must_be_equal),
		cmocka_unit_test(test_agree_equal_values_in_other_words_are_equal),
		cmocka_unit_test(test_agree_the_server_keeps_its_own_threads_and_buffers),
		cmocka_unit_test(test_request_says_when_it_does_not_fit),
		cmocka_unit_test(test_agree_refuses_requests_that_make_no_sense),
		cmocka_unit_test(test_agree_ignores_names_it_does_not_know_or_does_not_share),
		cmocka_unit_test(test_agree_the_last_of_several_wins),
		cmocka_unit_test(test_agree_survives_very_long_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
