// SPDX-License-Identifier: BSD-3-Clause
/* A record read back is the record that was written; what is none is refused with file and place. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "fixture.h"
#include "record/read.h"

static struct fixture x;
static struct record_stored s;
static struct err e;

/* The caller frees it. */
static char *emit(const struct record *rec, enum out_mode mode)
{
	size_t bytes;
	char *text;
	FILE *file = open_memstream(&text, &bytes);
	struct out o;

	out_init(&o, file, mode);
	record_emit(rec, &o);
	assert_int_equal(out_finish(&o, NULL), 0);
	fclose(file);
	return text;
}

static int parse(const char *text)
{
	memset(&e, 0, sizeof(e));
	return record_parse(&s, "run.json", text, strlen(text), &e);
}

static void assert_refused(const char *text, int code, const char *words)
{
	assert_int_equal(parse(text), -code);
	if (!strstr(e.what, words))
		fail_msg("\"%s\" is not in \"%s\"", words, e.what);
}

/* Every form, twice: as written, and as read. */
static void assert_survives(void)
{
	char *json, *again, *text, *text_again;

	record_judge(&x.rec);
	json = emit(&x.rec, OUT_JSON);
	text = emit(&x.rec, OUT_TEXT);
	if (parse(json))
		fail_msg("%s", e.what);
	again = emit(&s.rec, OUT_JSON);
	text_again = emit(&s.rec, OUT_TEXT);
	assert_string_equal(text, text_again);
	assert_string_equal(json, again);
	record_stored_free(&s);
	free(json);
	free(again);
	free(text);
	free(text_again);
}

static void test_streams_survive_writing_and_reading(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 8, 10, "-F8", "-T2", NULL);
	x.client_flows[0].samples = x.samples;
	x.client_flows[0].sample_count = FIXTURE_SAMPLES;
	x.rec.ceiling_bps = 100000000000;
	assert_survives();
	fixture_turn(&x);
	assert_survives();
	fixture_init(&x, WORKLOAD_STREAM, 2, 5, "-F2", "-r", "--host=\"n\\o\tde\"", NULL);
	assert_survives();
	fixture_init(&x, WORKLOAD_STREAM, 1, 3, "--max-pacing-rate=10Gb", "--delay=3us", NULL);
	fixture_neper(&x, 7900000000);
	assert_survives();
}

static void test_failed_runs_survive(void **state)
{
	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 2, 10, "-F2", NULL);
	x.client.complete = x.server.valid = false;
	x.client_flows[1].error = ECONNRESET;
	strcpy(x.client.error, "the server went away");
	assert_survives();
	memset(&x.client, 0, sizeof(x.client));
	assert_survives();
}

/* Mean and standard deviation go through a sum: the table, which rounds, is the same. */
static void test_transactions_survive_with_their_histogram(void **state)
{
	char *json, *text, *again;

	(void)state;
	fixture_init(&x, WORKLOAD_RR, 4, 10, "-F4", "--rate=20000", "-p50,99,99.9999", NULL);
	record_judge(&x.rec);
	json = emit(&x.rec, OUT_JSON);
	text = emit(&x.rec, OUT_TEXT);
	assert_int_equal(parse(json), 0);
	again = emit(&s.rec, OUT_TEXT);
	assert_string_equal(text, again);
	assert_memory_equal(s.local.latency->bucket, x.latency.bucket, sizeof(x.latency.bucket));
	assert_memory_equal(s.local.service->bucket, x.service.bucket, sizeof(x.service.bucket));
	assert_int_equal(s.local.latency->count, x.latency.count);
	assert_int_equal(hist_percentile(s.local.latency, 99), hist_percentile(&x.latency, 99));
	assert_true(fabs(hist_mean_ns(s.local.latency) - hist_mean_ns(&x.latency)) < 1e-6);
	record_stored_free(&s);
	free(json);
	free(text);
	free(again);
}

static void test_the_last_record_after_events_counts(void **state)
{
	char *first, *second, *all;

	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 1, 3, NULL);
	record_judge(&x.rec);
	first = emit(&x.rec, OUT_JSON);
	fixture_init(&x, WORKLOAD_STREAM, 2, 3, "-F2", NULL);
	record_judge(&x.rec);
	second = emit(&x.rec, OUT_JSON);
	assert_true(asprintf(&all,
			    "{\"schema\":\"weir/event/1\",\"event\":\"start\"}\n%s%s"
			    "{\"schema\":\"weir/event/1\",\"event\":\"end\"}\n\n",
			    first, second) > 0);
	assert_int_equal(parse(all), 0);
	assert_int_equal(s.records, 2);
	assert_int_equal(s.local.flow_count, 2);
	record_stored_free(&s);
	free(first);
	free(second);
	free(all);
}

static void test_what_is_no_record_is_refused_with_words(void **state)
{
	(void)state;
	assert_refused("", EINVAL, "run.json holds no record: it is empty");
	assert_refused("{\"schema\":\"weir/event/1\"}\n", EINVAL, "the run has not ended");
	assert_refused("[1,2]", EINVAL, "it names no schema");
	assert_refused("17", EINVAL, "it names no schema");
	assert_refused("{\"schema\":\"weir/run/2\"}", EPROTONOSUPPORT, "holds weir/run/2");
	assert_non_null(strstr(e.hint, "newer"));
	assert_refused("{\"schema\":\"weir/nic/1\"}", EINVAL, "holds weir/nic/1, not a run record");
	assert_refused("{\"schema\":\"weir/run/1\"}", EINVAL, "run.json: weir is missing");
	assert_refused("{\n\"schema\":\n\"weir/run/1\",,}", EINVAL, "run.json:3:");
	assert_refused("{\"a\":1,\"a\":1}", EINVAL, "duplicate");
	assert_refused("{\"schema\":\"weir/\\u001b[2Jrun/1\"}", EINVAL, "weir/?[2Jrun/1");
}

static void test_every_cut_is_refused(void **state)
{
	char *json, kept;
	size_t length;

	(void)state;
	fixture_init(&x, WORKLOAD_RR, 1, 1, "-l-10", NULL);
	x.client.counts.transactions = 3;
	hist_init(&x.latency);
	hist_record(&x.latency, 17);
	record_judge(&x.rec);
	json = emit(&x.rec, OUT_JSON);
	length = strlen(json) - 1; /* without its newline it is still whole */
	for (size_t cut = 0; cut < length; cut++) {
		kept = json[cut];
		json[cut] = '\0';
		assert_int_equal(parse(json), -EINVAL);
		assert_non_null(strstr(e.what, "run.json"));
		json[cut] = kept;
	}
	free(json);
}

/* Every value at every depth, replaced by each other kind of value: refused or taken, never more. */
static unsigned int replaced, refused;

static void try_it(json_t *top)
{
	char *text = json_dumps(top, JSON_COMPACT), *table;

	assert_non_null(text);
	replaced++;
	if (parse(text)) {
		refused++;
		assert_non_null(strstr(e.what, "run.json"));
	} else {
		table = emit(&s.rec, OUT_TEXT);
		free(table);
		table = emit(&s.rec, OUT_JSON);
		free(table);
		record_stored_free(&s);
	}
	free(text);
}

static json_t *strange(int kind)
{
	return kind == 0   ? json_object()
	       : kind == 1 ? json_array()
	       : kind == 2 ? json_string("\033]0;<script>")
	       : kind == 3 ? json_integer(-1)
	       : kind == 4 ? json_real(1e300)
	       : kind == 5 ? json_null()
			   : json_true();
}

static void replace_all(json_t *top, json_t *in)
{
	json_t *value, *kept;
	const char *key;
	size_t i;
	void *next;

	json_object_foreach_safe(in, next, key, value)
	{
		kept = json_incref(value);
		for (int kind = 0; kind < 7; kind++) {
			json_object_set_new(in, key, strange(kind));
			try_it(top);
		}
		json_object_set_new(in, key, kept);
		replace_all(top, kept);
	}
	json_array_foreach(in, i, value) {
		kept = json_incref(value);
		for (int kind = 0; kind < 7; kind++) {
			json_array_set_new(in, i, strange(kind));
			try_it(top);
		}
		json_array_set_new(in, i, kept);
		replace_all(top, kept);
	}
}

static void test_every_field_of_a_wrong_kind_is_survived(void **state)
{
	json_t *top;
	char *json;

	(void)state;
	fixture_init(&x, WORKLOAD_RR, 1, 1, "--rate=20000", NULL);
	hist_init(&x.latency);
	hist_record(&x.latency, 17);
	hist_init(&x.service);
	hist_record(&x.service, 17);
	x.client_flows[0].samples = x.samples;
	x.client_flows[0].sample_count = 1;
	record_judge(&x.rec);
	json = emit(&x.rec, OUT_JSON);
	top = json_loads(json, 0, NULL);
	assert_non_null(top);
	replace_all(top, top);
	assert_true(replaced > 1500);
	assert_true(refused > replaced / 2);
	json_decref(top);
	free(json);
}

static void test_counts_beyond_63_bits_are_read(void **state)
{
	char *json;

	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 1, 2, NULL);
	x.server.counts.rx_bytes = UINT64_MAX;
	record_judge(&x.rec);
	json = emit(&x.rec, OUT_JSON);
	assert_int_equal(parse(json), 0);
	assert_true(s.remote.counts.rx_bytes == UINT64_MAX);
	record_stored_free(&s);
	free(json);
}

static void test_words_of_a_record_stay_on_their_line(void **state)
{
	char *json, *text;

	(void)state;
	fixture_init(&x, WORKLOAD_STREAM, 1, 2, NULL);
	strcpy(x.server.error, "\033[2J\nwarning: forged");
	host_facts_add(&x.facts, "ev\nil", "x");
	record_judge(&x.rec);
	json = emit(&x.rec, OUT_JSON);
	assert_int_equal(parse(json), 0);
	text = emit(&s.rec, OUT_TEXT);
	assert_null(strchr(text, '\033'));
	assert_null(strstr(text, "\nwarning: forged"));
	assert_non_null(host_facts_get(s.local.facts, "ev?il"));
	record_stored_free(&s);
	free(json);
	free(text);
}

static void test_files(void **state)
{
	char schema[RECORD_SCHEMA_TEXT], path[] = "/tmp/weir-test-read-XXXXXX";

	(void)state;
	assert_int_equal(record_read(&s, "/nonexistent/run.json", &e), -ENOENT);
	assert_non_null(strstr(e.what, "/nonexistent/run.json"));
	assert_int_equal(record_read(&s, "/tmp", &e), -EISDIR);
	fixture_init(&x, WORKLOAD_STREAM, 1, 2, NULL);
	record_judge(&x.rec);
	assert_true(mkstemp(path) >= 0);
	assert_int_equal(record_write(&x.rec, path, &e), 0);
	assert_int_equal(record_schema(path, schema, &e), 0);
	assert_string_equal(schema, "weir/run/1");
	assert_int_equal(record_read(&s, path, &e), 0);
	record_stored_free(&s);
	remove(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_streams_survive_writing_and_reading),
		cmocka_unit_test(test_failed_runs_survive),
		cmocka_unit_test(test_transactions_survive_with_their_histogram),
		cmocka_unit_test(test_the_last_record_after_events_counts),
		cmocka_unit_test(test_what_is_no_record_is_refused_with_words),
		cmocka_unit_test(test_every_cut_is_refused),
		cmocka_unit_test(test_every_field_of_a_wrong_kind_is_survived),
		cmocka_unit_test(test_counts_beyond_63_bits_are_read),
		cmocka_unit_test(test_words_of_a_record_stay_on_their_line),
		cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
