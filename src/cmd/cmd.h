/* SPDX-License-Identifier: BSD-3-Clause */
/* The subcommands of weir. Each gets its own words from argv[0] on and returns the exit status. */
#ifndef WEIR_CMD_CMD_H
#define WEIR_CMD_CMD_H

#include <stdio.h>

#include "flow/options.h"

/* Exit status, the same for all commands. */
enum {
	STATUS_GOOD = 0,
	STATUS_FAILED = 1,
	STATUS_USAGE = 2,
	STATUS_DOUBTFUL = 3,
};

int cmd_stream(int argc, char **argv);
int cmd_rr(int argc, char **argv);
int cmd_crr(int argc, char **argv);
int cmd_rails(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_agent(int argc, char **argv);
int cmd_probe(int argc, char **argv);
int cmd_nic(int argc, char **argv);
int cmd_p2p(int argc, char **argv);
int cmd_counters(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_demo(int argc, char **argv);
int cmd_help(int argc, char **argv);
/* weir alone: what this host looks like, and what to try next. */
int cmd_here(void);

/* nic.c, report.c, diff.c */
extern const struct opt_table nic_option_table, report_option_table, diff_option_table;

/* report.c: the form that options or the ending of a file's name ask for, or -EINVAL. */
int report_form(bool html, bool csv, bool json, const char *out, struct err *e);

/* agent.c, probe.c; prober_main: called as prober, set by the published environment. */
extern const struct opt_table agent_option_table, probe_option_table;
int prober_main(int argc, char **argv);

/* p2p_options.c */
extern const struct opt_table p2p_option_table;
/* p2p.c: called by the names of others' tests, with their command lines. */
int p2p_as_published(bool orchestrator, int argc, char **argv);

/* counters.c */
extern const struct opt_table counters_option_table;

/* run.c, demo.c */
extern const struct opt_table run_option_table, demo_option_table;

/* main.c: all commands, ends in NULL. */
const char *const *command_names(void);
/* weir --help */
void command_usage(FILE *to);

/* stop.c: a descriptor that the first SIGINT or SIGTERM makes readable, or -errno; the second signal
 * ends the process. Once in a process. */
int stop_on_signals(struct err *e);

/* traffic.c: any of the three workloads; as_neper: called by a link of neper's name, with its
 * defaults. */
int traffic_main(enum workload w, bool as_neper, int argc, char **argv);

/* rails.c; as_neper: called as multi_neper, with its defaults and words. */
int rails_main(bool as_neper, int argc, char **argv);

#endif
