// SPDX-License-Identifier: BSD-3-Clause
/* weir: one table of commands, nothing else. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/cmd.h"
#include "sys/path.h"

static const struct {
	const char *name;
	int (*main)(int argc, char **argv);
	const char *summary;
} commands[] = {
	{ "stream", cmd_stream, "bulk TCP throughput between two hosts" },
	{ "rr", cmd_rr, "request/response latency and rate on open connections" },
	{ "crr", cmd_crr, "connect/request/response: a connection for each transaction" },
	{ "rails", cmd_rails, "bulk TCP throughput over many NICs at once" },
	{ "report", cmd_report, "a record or two snapshots as text, CSV, JSON or one HTML file" },
	{ "diff", cmd_diff, "two runs compared: what changed, and the likely cause" },
#ifdef WEIR_HAVE_RPC
	{ "agent", cmd_agent, "the process on every host that probes and answers probes" },
	{ "probe", cmd_probe, "which host, NIC or rail is bad: probes between many agents" },
#endif
	{ "nic", cmd_nic, "show, prepare and restore the settings of network interfaces" },
	{ "p2p", cmd_p2p, "move memory between GPUs, or hosts, over several NICs" },
	{ "counters", cmd_counters, "what this host counts, what moved, and what it means" },
	{ "run", cmd_run, "a command, and which counters moved meanwhile" },
	{ "demo", cmd_demo, "stream, rr and crr on this machine, in a few seconds" },
	{ "help", cmd_help, "the options of a command" },
};

const char *const *command_names(void)
{
	static const char *names[sizeof(commands) / sizeof(commands[0]) + 1];

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		names[i] = commands[i].name;
	return names;
}

/* neper's programs, by whose names weir may be called. */
static const char *const neper_names[WORKLOADS] = { "tcp_stream", "tcp_rr", "tcp_crr" };

void command_usage(FILE *to)
{
	fprintf(to, "usage: weir COMMAND [options]\n\n");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].summary);
	fprintf(to,
		"\n  weir COMMAND --help lists the options, weir --version says which weir this is.\n");
}

/* A thousand flows need more descriptors than the usual soft limit. */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* What an agent has started does not outlive it, however that ends. */
static void end_with_parent(void)
{
	const char *parent = getenv("WEIR_PARENT");

	if (!parent)
		return;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != (pid_t)strtol(parent, NULL, 10))
		raise(SIGTERM); /* it went before that */
	unsetenv("WEIR_PARENT");
}

static int dispatch(int argc, char **argv)
{
	const char *slash = argc ? strrchr(argv[0], '/') : NULL;
	const char *called = slash ? slash + 1 : argc ? argv[0] : "weir";

	for (int w = 0; w < WORKLOADS; w++)
		if (!strcmp(called, neper_names[w]))
			return traffic_main((enum workload)w, true, argc, argv);
	if (!strcmp(called, "multi_neper") || !strcmp(called, "multi_neper.py"))
		return rails_main(true, argc, argv);
	if (!strcmp(called, "test_tcpx_perf_multi") ||
		!strcmp(called, "test_tcpx_perf_orchestrator"))
		return p2p_as_published(called[15] == 'o', argc, argv);
#ifdef WEIR_HAVE_RPC
	if (!strcmp(called, "prober"))
		return prober_main(argc, argv);
#endif
	if (argc < 2)
		return cmd_here();
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-v")) {
		printf("weir %s\n", WEIR_VERSION);
		return STATUS_GOOD;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		command_usage(stdout);
		return STATUS_GOOD;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].main(argc - 1, argv + 1);
	log_error("there is no command \"%s\"", argv[1]);
	command_usage(stderr);
	return STATUS_USAGE;
}

int main(int argc, char **argv)
{
	struct err e = { 0 };
	int status;

	raise_descriptor_limit();
	end_with_parent();
	if (sys_set_root(getenv("WEIR_SYSROOT"), &e)) {
		log_error_err(&e);
		return STATUS_USAGE;
	}
	status = dispatch(argc, argv);
	if ((fflush(stdout) || ferror(stdout)) && status == STATUS_GOOD) {
		log_error("cannot write to standard output: %s", strerror(errno));
		status = STATUS_FAILED;
	}
	return status;
}
