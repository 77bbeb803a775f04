/* SPDX-License-Identifier: BSD-3-Clause */
/* A client's request at a server: the first byte chooses the workload, the second what the server's user gave. */
#include <math.h>

#include "flow/options.h"
#include "fuzz.h"

static const char *const lines[][8] = {
	{ NULL },
	{ "-T", "2", NULL },
	{ "-l", "5", "--warmup", "1", NULL },
	{ "-B", "4K", "-F", "8", NULL },
};

#define LINES (sizeof(lines) / sizeof(lines[0]))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *argv[9] = { (char *)"weir" }, *text;
	struct flow_options o = { 0 };
	struct opt_given given;
	struct err e = { 0 };
	enum workload w;
	int argc = 1, ret;

	if (size < 2)
		return 0;
	w = (enum workload)(data[0] % WORKLOADS);
	for (const char *const *word = lines[data[1] % LINES]; *word; word++)
		argv[argc++] = (char *)*word;
	MUST(!opt_parse(&flow_option_table[w], argc, argv, &o, &given, &e));
	MUST(!flow_options_check(&o, w, &given, &e));
	text = fuzz_string(data + 2, size - 2);
	ret = flow_options_agree(&o, w, &given, text, &e);
	MUST(ret <= 0);
	if (ret) {
		MUST(e.code == -ret && e.what[0]);
	} else {
		/* What a server is made to do stays within what its own user could ask. */
		MUST(!o.client);
		MUST(o.num_threads >= 1 && o.num_threads <= 1024);
		MUST(o.num_flows >= 1 && o.num_flows <= 1000000);
		MUST(o.buffer_size >= 1 && o.buffer_size <= 1 << 30);
		MUST(isfinite(o.test_length) && o.test_length != 0);
		MUST(isfinite(o.warmup) && o.interval >= 0.001);
		if (w != WORKLOAD_STREAM)
			MUST(o.request_size >= 1 && o.response_size >= 1);
		MUST(!o.out && !o.all_samples && !o.log_rtt);
	}
	free(text);
	return 0;
}
