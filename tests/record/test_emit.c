// SPDX-License-Identifier: BSD-3-Clause
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"

static struct fixture x;
static char *text;
static size_t text_bytes;
static char folder[] = "/tmp/weir-test-emit-XXXXXX";

static void emit(enum out_mode mode)
{
	FILE *file = open_memstream(&text, &text_bytes);
	struct out o;

	record_judge(&x.rec);
	out_init(&o, file, mode);
	record_emit(&x.rec, &o);
	assert_int_equal(out_finish(&o, NULL), 0);
	fclose(file);
}

static void assert_says(const char *words)
{
	if (!strstr(text, words))
		fail_msg("\"%s\" is not in:\n%s", words, text);
}

static void assert_silent(const char *words)
{
	if (strstr(text, words))
		fail_msg("\"%s\" is in:\n%s", words, text);
}

static void test_stream_table(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 2, 2, "-F2", NULL);
	x.server_intervals[1].rx_bytes /= 2;
	x.client_intervals[1].retransmits = 7;
	x.client_flows[1].limits.share[TCP_LIMIT_CONGESTION] = 0.95;
	x.server.threads = 1;
	emit(OUT_TEXT);
	assert_string_equal(text,
		"weir stream    192.0.2.1:43210 -> 192.0.2.2:12866   2 flows, 2 and 1 threads, 16 KiB calls, host memory\n"
		"               warm-up 1 s excluded, 2 s measured\n"
		"\n"
		"  throughput    8.00 Gbit/s     received by the server; the client sent 8.00 Gbit/s\n"
		"  cpu           client 0.52 ns/byte (user 0.02, kernel 0.50)   server 0.52 ns/byte (user 0.02, kernel 0.50)\n"
		"  rtt           mean 30 us, min 12 us   retransmits 0   cwnd 10\n"
		"  limited by    receive window 80 % of the time, congestion window 55 %, application 5 %\n"
		"  fairness      1.00 over 2 flows: 4.00 Gbit/s to 4.00 Gbit/s\n"
		"  steady        not known: fewer than 5 intervals\n"
		"\n"
		"  interval                received   retrans\n"
		"    1.00 -  2.00 s     8.00 Gbit/s         0\n"
		"    2.00 -  3.00 s     4.00 Gbit/s         7\n"
		"\n"
		"   flow  thread        received    share         rtt   retrans    cwnd  limited by\n"
		"      0       0     4.00 Gbit/s   50.0 %       30 us         0      10  receive window 80 %\n"
		"      1       1     4.00 Gbit/s   50.0 %       31 us         0      10  congestion window 95 %\n");
	free(text);
}

static void test_open_loop_table_has_both_times(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_RR, 1, 1, "--rate=10000", "-Q64", "-R1K", NULL);
	emit(OUT_TEXT);
	assert_string_equal(text,
		"weir rr        192.0.2.1:43210 <-> 192.0.2.2:12866   1 flow, 2 threads, request 64 B, response 1 KiB, host memory\n"
		"               warm-up 1 s excluded, 1 s measured\n"
		"\n"
		"  transactions  10.00 k/s       10000 counted by the client in 1 s, open loop, 10000/s asked for\n"
		"                        min       mean        p50        p90        p99      p99.9     p99.99        max    samples\n"
		"  response         20.00 us   25.00 us   25.09 us   29.05 us   29.95 us   29.99 us          -   29.99 us      10000\n"
		"  service          15.00 us   20.00 us   20.09 us   24.06 us   24.96 us   24.99 us          -   24.99 us      10000\n"
		"                response: from the intended start; service: from the actual send\n"
		"  cpu           client 52.00 us/transaction (user 2.00, kernel 50.00)   server 52.00 us/transaction (user 2.00, kernel 50.00)\n"
		"  rtt           mean 30 us, min 12 us   retransmits 0   cwnd 10\n"
		"  steady        not known: fewer than 5 intervals\n");
	free(text);
}

static void test_closed_loop_is_named_and_a_percentile_needs_samples(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_RR, 1, 1, "-p50,99.9999", NULL);
	emit(OUT_TEXT);
	assert_says(", closed loop\n");
	assert_says(
		"  latency          20.00 us   25.00 us   25.09 us          -   29.99 us      10000\n");
	assert_says(
		"  note: 10000 samples do not tell p99.9999: ten must lie beyond a percentile\n");
	assert_silent("service");
	free(text);
}

static void test_device_memory_has_a_line_for_each_end(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 2, 5, "-F2", "--mem=udmabuf", NULL);
	fixture_device(&x);
	emit(OUT_TEXT);
	assert_says("client udmabuf (devmem), server udmabuf (devmem) memory");
	assert_says("udmabuf       client: sent from it by eth1: 200 sends completed, 1 of them "
		    "copied\n");
	assert_says(
		"udmabuf       server: 99.98 % of 4.66 GiB came into it by eth2, queues 8-11\n");
	assert_says(
		"12.5 fragments of 19.07 MiB per call, at most 40 held at once, 3 pool stalls\n");
	assert_says("warning: 0.04 % of flow 0 landed in the server's host memory");
	free(text);
	x.server.rx_path = DEVICE_STAGED;
	x.client.tx_path = DEVICE_STAGED;
	strcpy(x.server.device.rx_reason, "the driver of eth2 cannot");
	emit(OUT_TEXT);
	assert_says("server: received through host memory: the driver of eth2 cannot\n");
	assert_says("client: sent through host memory, as asked for\n");
	free(text);
}

static void test_both_directions_have_a_line_each(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 1, 1, "-r", NULL);
	x.client.counts.rx_bytes = x.server.counts.tx_bytes = 500000000;
	emit(OUT_TEXT);
	assert_says("192.0.2.1:43210 <-> 192.0.2.2:12866");
	assert_says(
		"  throughput    8.00 Gbit/s     received by the server; the client sent 8.00 Gbit/s\n"
		"                4.00 Gbit/s     received by the client; the server sent 4.00 Gbit/s\n");
	free(text);
}

static void test_the_server_prints_the_same_directions(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 1, 1, "-M", NULL);
	fixture_turn(&x);
	emit(OUT_TEXT);
	assert_says("192.0.2.2:12866 <- 192.0.2.1:43210");
	assert_says("received by the client; the server sent 8.00 Gbit/s\n");
	free(text);
}

static void test_a_neper_peer_gives_its_rate_or_nothing(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 1, 1, NULL);
	fixture_neper(&x, 7900000000);
	emit(OUT_TEXT);
	assert_says("neper's protocol\n");
	assert_says("7.90 Gbit/s     received by the server; the client sent 8.00 Gbit/s\n");
	free(text);
	fixture_neper(&x, 0);
	emit(OUT_TEXT);
	assert_says("8.00 Gbit/s     sent by the client; what the server received is not known\n");
	free(text);
	fixture_init(&x, WORKLOAD_RR, 1, 1, NULL);
	fixture_neper(&x, 9990);
	emit(OUT_TEXT);
	assert_says(
		"  transactions  10.00 k/s       10000 counted by the client in 1 s, closed loop\n"
		"                9.99 k/s        counted by the server\n");
	free(text);
}

static void test_many_flows_are_the_four_slowest(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 20, 1, "-F20", NULL);
	for (int i = 3; i < 20; i += 4)
		x.server_flows[i].counts.rx_bytes -= (uint64_t)i * 1000000;
	emit(OUT_TEXT);
	assert_says("     19       1    248.0 Mbit/s");
	assert_says("\n  ... the 4 slowest of 20 flows: --json has every one\n");
	assert_silent("\n      3  ");
	free(text);
}

static void test_many_intervals_are_summed_up(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 1, 11, NULL);
	x.server_intervals[4].rx_bytes /= 2;
	emit(OUT_TEXT);
	assert_says(
		"  intervals     11: slowest 4.00 Gbit/s, median 8.00 Gbit/s, fastest 8.00 Gbit/s\n");
	assert_silent("  interval   ");
	free(text);
}

static void test_a_run_cut_short_prints_what_it_has(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 2, 3, "-F2", "-l10", NULL);
	x.client.complete = x.server.valid = false;
	strcpy(x.client.error, "the server went away");
	emit(OUT_TEXT);
	assert_says("3 s measured of 10 s asked for\n");
	assert_says("8.00 Gbit/s     sent by the client");
	assert_says("\n  failed: the server went away\n");
	free(text);
}

static void test_events_are_for_json_alone(void **state)
{
	FILE *file = open_memstream(&text, &text_bytes);
	struct out o;

	(void)state;
	fixture_init(&x, WORKLOAD_RR, 1, 1, NULL);
	out_init(&o, file, OUT_TEXT);
	record_emit_interval(&x.client_intervals[0], WORKLOAD_RR, NULL, &o);
	record_emit_event("start", "words", NULL, &o);
	out_finish(&o, NULL);
	assert_int_equal(text_bytes, 0);
	fclose(file);
	free(text);
}

static void path_of(char path[PATH_MAX], const char *name)
{
	snprintf(path, PATH_MAX, "%s/%s", folder, name);
}

static int files_in_folder(void)
{
	DIR *dir = opendir(folder);
	int count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 2; /* . and .. */
}

static void test_a_record_is_written_whole_with_the_users_mode(void **state)
{
	char path[PATH_MAX];
	struct stat st;
	mode_t old = umask(027);
	struct err e;

	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 1, 1, NULL);
	path_of(path, "run.json");
	assert_int_equal(record_write(&x.rec, path, &e), 0);
	umask(old);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	assert_true(st.st_size > 1000);
	assert_int_equal(files_in_folder(), 1);
	unlink(path);
}

static void test_a_link_stays_a_link(void **state)
{
	char path[PATH_MAX], link_path[PATH_MAX];
	struct stat st;
	struct err e;
	FILE *file;

	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 1, 1, NULL);
	path_of(path, "target.json");
	path_of(link_path, "link.json");
	file = fopen(path, "w");
	assert_non_null(file);
	fclose(file);
	assert_int_equal(symlink(path, link_path), 0);
	assert_int_equal(record_write(&x.rec, link_path, &e), 0);
	assert_int_equal(lstat(link_path, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size > 1000);
	unlink(link_path);
	unlink(path);
}

static void test_a_device_is_written_to_and_not_replaced(void **state)
{
	struct stat st;
	struct err e;

	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 1, 1, NULL);
	assert_int_equal(record_write(&x.rec, "/dev/null", &e), 0);
	assert_int_equal(stat("/dev/null", &st), 0);
	assert_true(S_ISCHR(st.st_mode));
	assert_int_equal(record_write(&x.rec, "/dev/full", &e), -ENOSPC);
	assert_string_equal(e.what, "cannot write /dev/full: No space left on device");
}

static void test_a_folder_that_is_not_there_is_named(void **state)
{
	struct err e;

	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 1, 1, NULL);
	assert_int_equal(record_write(&x.rec, "/nowhere/run.json", &e), -ENOENT);
	assert_string_equal(e.what, "cannot write /nowhere/run.json: No such file or directory");
	assert_int_equal(record_write(&x.rec, folder, &e), -EISDIR);
}

/* A limit on the size of files stands for a full disk: both fail in the middle. */
static void test_a_write_that_fails_leaves_the_old_file_and_nothing_else(void **state)
{
	struct rlimit old, small;
	char path[PATH_MAX];
	struct stat st;
	struct err e;
	FILE *file;

	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 32, 60, NULL);
	path_of(path, "run.json");
	file = fopen(path, "w");
	assert_non_null(file);
	fputs("old", file);
	fclose(file);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small = (struct rlimit){ 4096, old.rlim_max };
	setrlimit(RLIMIT_FSIZE, &small);
	assert_int_equal(record_write(&x.rec, path, &e), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &old);
	assert_non_null(strstr(e.what, path));
	assert_non_null(strstr(e.what, "File too large"));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 3);
	assert_int_equal(files_in_folder(), 1);
	unlink(path);
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stream_table),
		cmocka_unit_test(test_open_loop_table_has_both_times),
		cmocka_unit_test(test_closed_loop_is_named_and_a_percentile_needs_samples),
		cmocka_unit_test(test_device_memory_has_a_line_for_each_end),
		cmocka_unit_test(test_both_directions_have_a_line_each),
		cmocka_unit_test(test_the_server_prints_the_same_directions),
		cmocka_unit_test(test_a_neper_peer_gives_its_rate_or_nothing),
		cmocka_unit_test(test_many_flows_are_the_four_slowest),
		cmocka_unit_test(test_many_intervals_are_summed_up),
		cmocka_unit_test(test_a_run_cut_short_prints_what_it_has),
		cmocka_unit_test(test_events_are_for_json_alone),
		cmocka_unit_test(test_a_record_is_written_whole_with_the_users_mode),
		cmocka_unit_test(test_a_link_stays_a_link),
		cmocka_unit_test(test_a_device_is_written_to_and_not_replaced),
		cmocka_unit_test(test_a_folder_that_is_not_there_is_named),
		cmocka_unit_test(test_a_write_that_fails_leaves_the_old_file_and_nothing_else),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
