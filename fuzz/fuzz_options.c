/* SPDX-License-Identifier: BSD-3-Clause */
/* Command lines: the first byte chooses the workload, the rest are words, one per line. */
#include <math.h>
#include <stdio.h>

#include "flow/options.h"
#include "fuzz.h"

#define WORDS_MAX 200

/* What was taken is within its range, and can be said and read again. */
static void check_values(const struct opt_table *t, const struct flow_options *o)
{
	char text[OPT_TEXT], again[OPT_TEXT];

	for (const struct opt *opt = t->opts; opt->name; opt++) {
		struct flow_options copy = *o;

		if (opt->only && !(opt->only & t->variant))
			continue;
		opt_value(opt, o, text);
		if (opt->type == OPT_STRING)
			continue;
		MUST(!opt_set(opt, &copy, text, NULL));
		MUST(!strcmp(opt_value(opt, &copy, again), text));
	}
	MUST(o->num_threads >= 1 && o->num_flows >= 1 && o->port >= 1);
	MUST(isfinite(o->test_length) && o->test_length != 0);
	MUST(o->percentile_count >= 0 && o->percentile_count <= PERCENTILES_MAX);
	for (int i = 1; i < o->percentile_count; i++)
		MUST(o->percentile[i - 1] < o->percentile[i]);
}

static void check_request(const struct flow_options *o, enum workload w)
{
	struct flow_options server = { 0 };
	struct opt_given none;
	char *argv[] = { (char *)"weir" }, request[4096];

	if (!o->client || flow_options_request(o, w, request, sizeof(request), NULL))
		return;
	MUST(!opt_parse(&flow_option_table[w], 1, argv, &server, &none, NULL));
	MUST(!flow_options_check(&server, w, &none, NULL));
	/* Whatever a client may ask, a server without wishes of its own understands. */
	MUST(flow_options_agree(&server, w, &none, request, NULL) <= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text, *next, *word, *argv[WORDS_MAX + 1] = { (char *)"weir" };
	struct flow_options o = { 0 };
	struct opt_given given;
	struct err e = { 0 };
	enum workload w;
	int argc = 1, ret;

	if (!size)
		return 0;
	w = (enum workload)(data[0] % WORKLOADS);
	next = text = fuzz_string(data + 1, size - 1);
	while (argc < WORDS_MAX && (word = strsep(&next, "\n")))
		argv[argc++] = word;
	ret = opt_parse(&flow_option_table[w], argc, argv, &o, &given, &e);
	if (!ret)
		ret = flow_options_check(&o, w, &given, &e);
	MUST(ret <= 0);
	if (ret)
		MUST(e.code == -ret && e.what[0]);
	else
		check_values(&flow_option_table[w], &o);
	if (!ret)
		check_request(&o, w);
	free(text);
	return 0;
}
