// SPDX-License-Identifier: BSD-3-Clause
/* The expected keys, orders and formats were seen in the output of neper 1.1.0. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"

static struct fixture x;
static char *text;
static size_t text_bytes;

static void emit_before(void)
{
	FILE *file = open_memstream(&text, &text_bytes);
	struct out o;

	out_init(&o, file, OUT_KV);
	neper_emit_before(&x.options, x.rec.workload, &o);
	assert_int_equal(out_finish(&o, NULL), 0);
	fclose(file);
}

static void emit_results(void)
{
	FILE *file = open_memstream(&text, &text_bytes);
	struct out o;
	struct err e;

	out_init(&o, file, OUT_KV);
	assert_int_equal(neper_emit_results(&x.rec, &o, &e), 0);
	assert_int_equal(out_finish(&o, NULL), 0);
	fclose(file);
}

/* The keys alone, a blank behind each. */
static void assert_keys(const char *expected)
{
	char keys[4096] = "", *next = text, *line;

	while ((line = strsep(&next, "\n"))) {
		line[strcspn(line, "=")] = '\0';
		strcat(keys, line);
		strcat(keys, *line ? " " : "");
	}
	assert_string_equal(keys, expected);
	free(text);
}

static void assert_says(const char *words)
{
	if (!strstr(text, words))
		fail_msg("\"%s\" is not in:\n%s", words, text);
}

#define TAIL                                                                                                  \
	"congestion_control no_delay tcp_tx_delay tcp_fastopen num_ports wait_start iostat_ms time_wait "     \
	"all_samples port control_port host local_hosts max_pacing_rate interval freebind nonblocking nolog " \
	"logtostderr pin_cpu dry_run debug client ipv6 ipv4 stime_use_proc source_port suicide_length "       \
	"listen_backlog num_clients num_threads num_flows maxevents magic "
#define HEAD                                                                                                   \
	"invalid_secret_count time_start utime_start utime_end stime_start stime_end maxrss_start maxrss_end " \
	"minflt_start minflt_end majflt_start majflt_end nvcsw_start nvcsw_end nivcsw_start nivcsw_end "

static void test_options_come_in_nepers_order(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 1, 1, NULL);
	emit_before();
	assert_keys(
		"VERSION mark no_cork async_connect enable_tcp_maerts split_bidir enable_write enable_read "
		"rx_zerocopy skip_rx_copy buffer_size delay throughput_opt zerocopy reuseaddr edge_trigger "
		"test_length " TAIL "total_run_time ");
	fixture_init(&x, WORKLOAD_RR, 1, 1, NULL);
	emit_before();
	assert_keys(
		"VERSION noburst reuseaddr async_connect delay mark logrtt_entries_per_flow log_rtt buffer_size "
		"test_length percentiles response_size request_size " TAIL "total_run_time ");
	fixture_init(&x, WORKLOAD_CRR, 1, 1, "-l-1000", NULL);
	emit_before();
	assert_keys(
		"VERSION async_connect mark logrtt_entries_per_flow log_rtt buffer_size test_length percentiles "
		"response_size request_size " TAIL "total_transactions ");
}

static void test_options_have_nepers_formats(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_RR, 1, 1, "-p99,50,999", "-l20", "--log-rtt", NULL);
	emit_before();
	assert_memory_equal(text, "VERSION=weir-", 13);
	assert_says("\npercentiles=50,99,99.9,\n");
	assert_says("\ninterval=1.000000\n");
	assert_says("\ncongestion_control=\n");
	assert_says("\nsource_port=-1\n");
	assert_says("\nclient=1\n");
	assert_says("\nlog_rtt=rtt_samples.txt\n");
	assert_says("\ntest_length=20\n");
	assert_says("\ntotal_run_time=20\n");
	free(text);
	fixture_init(&x, WORKLOAD_RR, 1, 1, "-l-1000", NULL);
	emit_before();
	assert_says("\npercentiles=\n");
	assert_says("\ntotal_transactions=1000\n");
	free(text);
}

static void test_options_show_what_is_implied(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 1, 1, NULL);
	emit_before();
	assert_says("\nenable_write=1\nenable_read=0\n");
	free(text);
	x.options.client = false;
	emit_before();
	assert_says("\nenable_write=0\nenable_read=1\n");
	free(text);
	fixture_init(&x, WORKLOAD_CRR, 1, 1, NULL);
	emit_before();
	assert_says("\nasync_connect=1\n");
	free(text);
}

static void test_stream_receiver(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 2, 10, NULL);
	fixture_turn(&x);
	fixture_run(&x);
	x.server.usage_end.ru_utime = (struct timeval){ 1, 91174 };
	x.server.usage_end.ru_maxrss = 2064;
	x.rec.invalid_secret_count = 3;
	emit_results();
	assert_says("invalid_secret_count=3\ntime_start=100.000000000\nutime_start=0.000000\n"
		    "utime_end=1.091174\nstime_start=0.000000\n");
	assert_says("\nmaxrss_end=2064\n");
	assert_says("\nnum_samples=6\ntime_end=110.000000000\ncorrelation_coefficient=0.96\n"
		    "throughput=8000.00\nthroughput_units=Mbit/s\nlocal_throughput=8000000000\n"
		    "remote_throughput=0\n");
	assert_keys(HEAD "num_samples time_end correlation_coefficient throughput throughput_units "
			 "local_throughput remote_throughput ");
}

static void test_stream_receiver_units_and_mapping(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 2, 10, "--throughput-opt=GB", "-z", NULL);
	fixture_turn(&x);
	fixture_run(&x);
	x.server_flows[0].mapped_bytes = x.server_flows[1].mapped_bytes = 4650000000;
	emit_results();
	assert_says("\nthroughput=1.00\nthroughput_units=GB/s\nbytes_mmaped=9300000000\n"
		    "percent_mmaped=93\nlocal_throughput=");
	free(text);
}

static void test_stream_sender_prints_no_throughput_of_its_own(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 2, 10, NULL);
	fixture_run(&x);
	emit_results();
	assert_says("\nlocal_throughput=0\nremote_throughput=8000000000\n");
	assert_keys(HEAD "local_throughput remote_throughput ");
	fixture_neper(&x, 7900000000);
	emit_results();
	assert_says("\nlocal_throughput=0\nremote_throughput=7900000000\n");
	free(text);
}

static void test_rr_client(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_RR, 2, 10, "-p50,99.9", "--log-rtt", NULL);
	fixture_run(&x);
	emit_results();
	/* all of them: neper loses those of the last interval */
	assert_says(
		"\nnum_transactions=100000\nrtt_transactions_logged=4\nlatency_min=0.000020000\n"
		"latency_max=0.000029990\nlatency_mean=0.000024995\nlatency_stddev=0.000002887\n"
		"latency_p50=0.000025087\nlatency_p99.9=0.000029990\nnum_samples=6\n");
	assert_says("\nthroughput=10000.00\nlocal_throughput=10000\nremote_throughput=10000\n");
	assert_keys(HEAD
		"num_transactions rtt_transactions_logged latency_min latency_max latency_mean "
		"latency_stddev latency_p50 latency_p99.9 num_samples time_end "
		"correlation_coefficient throughput local_throughput remote_throughput ");
}

static void test_rr_server_has_latencies_of_zero(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_RR, 2, 10, "-p50", NULL);
	fixture_turn(&x);
	fixture_run(&x);
	emit_results();
	assert_says(
		"\nnum_transactions=100000\nlatency_min=0.000000000\nlatency_max=0.000000000\n"
		"latency_mean=0.000000000\nlatency_stddev=0.000000000\nlatency_p50=0.000000000\n"
		"num_samples=6\n");
	free(text);
}

static void test_crr_server_is_silent(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_CRR, 2, 10, NULL);
	fixture_turn(&x);
	emit_results();
	assert_keys(HEAD "local_throughput remote_throughput ");
}

static void test_pinned_ends_list_their_cores(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 1, 1, "-U", NULL);
	emit_results();
	assert_memory_equal(text, "allowed_core_num=", 17);
	assert_keys("allowed_core_num allowed_cores " HEAD "local_throughput remote_throughput ");
}

static void test_absurd_rates_of_a_peer_do_no_harm(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 1, 1, NULL);
	x.server.window_ns = 1;
	x.server.counts.rx_bytes = UINT64_MAX;
	emit_results();
	assert_says("\nremote_throughput=0\n");
	free(text);
}

/* What a writer puts into a file. */
static void assert_file(int (*write)(const struct record *, const char *, struct err *),
	const char *suffix, const char *expected)
{
	char path[PATH_MAX] = "/tmp/weir-test-neper-XXXXXX", content[4096] = "";
	int fd = mkstemp(path);
	struct err e;
	FILE *file;

	assert_true(fd >= 0);
	close(fd);
	unlink(path);
	strcat(path, suffix);
	assert_int_equal(write(&x.rec, path, &e), 0);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_true(fread(content, 1, sizeof(content) - 1, file) > 0);
	fclose(file);
	unlink(path);
	assert_string_equal(content, expected);
}

/* From the window's begin on, each row with its own flow's rate. */
static void test_stream_csv(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 2, 2, NULL);
	fixture_turn(&x);
	fixture_run(&x);
	assert_file(samples_write_csv, "",
		"tid,flow_id,time,bytes_read,bytes_read/s,utime,stime,maxrss,minflt,majflt,nvcsw,nivcsw\n"
		"0,0,100.000000000,0,0.00,0.001000,1.000000,2000,0,0,0,0\n"
		"1,1,100.000000001,0,0.00,0.001000,1.000000,2000,0,0,0,0\n"
		"0,0,101.000000000,1000,1000.00,0.002000,2.000000,2000,0,0,0,0\n"
		"1,1,101.000000001,2000,2000.00,0.002000,2.000000,2000,0,0,0,0\n"
		"0,0,102.000000000,2000,1000.00,0.003000,3.000000,2000,0,0,0,0\n"
		"1,1,102.000000001,4000,2000.00,0.003000,3.000000,2000,0,0,0,0\n");
}

static void test_rr_csv_has_latencies_in_every_row(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_RR, 2, 2, "-p50,99.9", NULL);
	fixture_run(&x);
	x.lanes[1].window_open = false; /* a lane that measured nothing has no rows */
	assert_file(samples_write_csv, "",
		"tid,flow_id,time,transactions,transactions/s,utime,stime,maxrss,minflt,majflt,nvcsw,nivcsw,"
		"latency_min,latency_mean,latency_max,latency_stddev,latency_p50,latency_p99.9\n"
		"0,0,100.000000000,0,0.00,0.001000,1.000000,2000,0,0,0,0,"
		"0.000020,0.000020,0.000020,0.000000,0.000020,0.000030\n"
		"0,0,101.000000000,1000,1000.00,0.002000,2.000000,2000,0,0,0,0,"
		"0.000020,0.000020,0.000020,0.000000,0.000020,0.000030\n"
		"0,0,102.000000000,2000,1000.00,0.003000,3.000000,2000,0,0,0,0,"
		"0.000020,0.000020,0.000020,0.000000,0.000020,0.000030\n");
}

static void test_rtt_log_in_both_forms(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_RR, 2, 2, "--log-rtt", NULL);
	fixture_run(&x);
	assert_file(samples_write_rtt, "",
		"      timestamp  thread_id    flow_id          rtt\n"
		"   -0.000000500          0          0  0.000020000\n"
		"    1.000000000          0          0  0.000025001\n"
		"   -0.000000500          1          1  0.000020000\n"
		"    1.000000000          1          1  0.000025002\n");
	x.flows[1].rtt_count = 0;
	assert_file(samples_write_rtt, ".csv",
		"      timestamp, thread_id,   flow_id,         rtt\n"
		"   -0.000000500,         0,         0, 0.000020000\n"
		"    1.000000000,         0,         0, 0.000025001\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options_come_in_nepers_order),
		cmocka_unit_test(test_options_have_nepers_formats),
		cmocka_unit_test(test_options_show_what_is_implied),
		cmocka_unit_test(test_stream_receiver),
		cmocka_unit_test(test_stream_receiver_units_and_mapping),
		cmocka_unit_test(test_stream_sender_prints_no_throughput_of_its_own),
		cmocka_unit_test(test_rr_client),
		cmocka_unit_test(test_rr_server_has_latencies_of_zero),
		cmocka_unit_test(test_crr_server_is_silent),
		cmocka_unit_test(test_pinned_ends_list_their_cores),
		cmocka_unit_test(test_absurd_rates_of_a_peer_do_no_harm),
		cmocka_unit_test(test_stream_csv),
		cmocka_unit_test(test_rr_csv_has_latencies_in_every_row),
		cmocka_unit_test(test_rtt_log_in_both_forms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
