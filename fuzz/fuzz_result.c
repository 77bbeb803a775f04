/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer's results: decoded, judged and shown beside our own, and encoded again. */
#include <math.h>
#include <stdio.h>

#include "flow/result.h"
#include "fuzz.h"
#include "record/record.h"

static struct flow_options options[WORKLOADS];
static FILE *nowhere;

static void prepare(void)
{
	char *argv[] = { (char *)"weir", (char *)"-c" };
	struct opt_given given;

	nowhere = fopen("/dev/null", "w");
	MUST(nowhere);
	for (int w = 0; w < WORKLOADS; w++) {
		const struct opt_table *t = &flow_option_table[w];

		MUST(!opt_parse(t, 2, argv, &options[w], &given, NULL));
		MUST(!flow_options_check(&options[w], (enum workload)w, &given, NULL));
	}
}

/* The same figures as ours and as theirs: both ends of a bad day. */
static void show(const struct end_result *r)
{
	for (int w = 0; w < WORKLOADS; w++) {
		for (int mode = OUT_TEXT; mode <= OUT_KV; mode++) {
			struct record rec = { .workload = (enum workload)w,
				.options = &options[w],
				.local = r,
				.remote = r,
				.ceiling_bps = 1000000000 };
			struct out o;

			out_init(&o, nowhere, (enum out_mode)mode);
			record_judge(&rec);
			record_emit(&rec, &o);
			MUST(!out_finish(&o, NULL));
		}
	}
}

static void check(const struct end_result *r)
{
	for (uint32_t i = 0; i < r->flow_count; i++)
		for (int k = 0; k < TCP_LIMITS; k++)
			MUST(isfinite(r->flows[i].limits.share[k]));
	MUST(isfinite(r->busiest_thread));
	MUST(isfinite(result_rx_bps(r)) && isfinite(result_transactions_per_s(r)));
	MUST(!r->has_latency || r->latency->count);
	if (!r->has_latency)
		return;
	for (double p = 0; p <= 100; p += 12.5)
		MUST(hist_percentile(r->latency, p) <= r->latency->max_ns);
	MUST(isfinite(hist_mean_ns(r->latency)) && hist_stddev_ns(r->latency) >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_string(data, size), *first, *second;
	struct end_result r, again;
	struct err e = { 0 };
	size_t first_length, second_length;
	int ret;

	ret = result_decode(&r, text, &e);
	free(text);
	if (ret) {
		MUST(ret < 0 && e.code == -ret && e.what[0]);
		return 0;
	}
	if (!nowhere)
		prepare();
	check(&r);
	show(&r);
	/* What was understood survives another journey unchanged. */
	first = result_encode(&r, &first_length, &e);
	MUST(first);
	text = strdup(first);
	MUST(text && !result_decode(&again, text, &e));
	second = result_encode(&again, &second_length, &e);
	MUST(second && first_length == second_length && !memcmp(first, second, first_length));
	free(text);
	free(first);
	free(second);
	result_free(&r);
	result_free(&again);
	return 0;
}
