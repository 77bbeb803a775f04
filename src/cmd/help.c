// SPDX-License-Identifier: BSD-3-Clause
/* weir help COMMAND; and, for the build, the same tables as man page and completion. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cmd/cmd.h"
#include "flow/rails_options.h"

int cmd_help(int argc, char **argv)
{
	const struct opt_table *tables[] = { [WORKLOADS] = &rails_option_table,
#ifdef WEIR_HAVE_RPC
		&agent_option_table,
		&probe_option_table,
#endif
		&nic_option_table,
		&p2p_option_table,
		&report_option_table,
		&diff_option_table,
		&counters_option_table,
		&run_option_table,
		&demo_option_table };
	const int count = (int)(sizeof(tables) / sizeof(tables[0]));
	bool scdoc = argc == 3 && !strcmp(argv[1], "--scdoc");
	struct out o;

	if (argc == 1) {
		command_usage(stdout);
		return STATUS_GOOD;
	}
	for (int w = 0; w < WORKLOADS; w++)
		tables[w] = &flow_option_table[w];
	out_init(&o, stdout, OUT_TEXT);
	if (argc == 2 && !strcmp(argv[1], "--completion")) {
		opt_completion(tables, (size_t)count, command_names(), &o);
		return STATUS_GOOD;
	}
	for (int w = 0; (argc == 2 || scdoc) && w < count; w++) {
		if (strcmp(argv[argc - 1], tables[w]->command))
			continue;
		if (scdoc)
			opt_scdoc(tables[w], &o);
		else
			opt_help(tables[w], &o);
		return STATUS_GOOD;
	}
	log_error(
		"usage: weir help stream|rr|crr|rails|agent|probe|nic|p2p|counters|run|report|diff|demo");
	return STATUS_USAGE;
}
