/* SPDX-License-Identifier: BSD-3-Clause */
/* The rails of a run: which device, GPU and CPUs each has, and the weir stream command that it is.
 *
 *	struct rails *rails;
 *
 *	ret = rails_plan(&rails, &options, e);
 *	for (uint32_t i = 0; i < rails->count; i++)
 *		puts(rail_command(&rails->rail[i], text, sizeof(text)));
 *	rails_free(rails);
 *
 * A rail is that command: its words are made first, then parsed by the table of weir stream. What
 * --dry-run prints is therefore what runs.
 *
 * Devices, GPUs and CPUs that were not given are found:
 * device  the one that carries the host: by its route at a client, by its address at a server
 * GPU     the nearest on PCI; among equals the one that the fewest rails have, then the first
 * CPUs    each thread its own: of the NIC's NUMA node, without its interrupts, without a sibling in
 *         use, not CPU 0; whatever of that cannot be had is given up in the reverse order. Threads
 *         are bound to none when there are more of them than CPUs.
 */
#ifndef WEIR_FLOW_RAILS_PLAN_H
#define WEIR_FLOW_RAILS_PLAN_H

#include "flow/rails_options.h"
#include "sys/nic.h"
#include "sys/topo.h"

#define RAIL_HOST  256
#define RAIL_WORDS 160
#define RAIL_TEXT  8192

struct rail {
	uint32_t index;
	struct nic nic;
	char host[RAIL_HOST], src_ip[RAIL_HOST]; /* empty: not given */
	struct cpus irq_cpus;
	struct cpus cpus;	  /* one for each thread; empty: bound to none */
	char gpu[32];		  /* PCI address or index; empty: none */
	int gpu_index;		  /* by PCI address; -1 unknown */
	const char *gpu_distance; /* "PIX"; NULL unknown */
	int64_t control_port, port, source_port;
	/* the command */
	char *word[RAIL_WORDS];
	int words;
	char text[RAIL_TEXT]; /* what word[] points into */
	size_t text_used;
	struct flow_options options;
	struct opt_given given;
};

struct rails {
	const struct rails_options *asked; /* borrowed */
	uint32_t count;
	struct rail *rail;
};

/* Owned by the caller, for rails_free(). Errors say which option cannot be had, and why. */
int rails_plan(struct rails **out, const struct rails_options *asked, struct err *e);
void rails_free(struct rails *rails);

/* "weir stream -c -H 10.0.1.2 ..."; and, as multi_neper prints it, "taskset --cpu-list 2-5
 * ./tcp_stream -T 4 ...". Return buf. */
#define RAIL_COMMAND (RAIL_TEXT + RAIL_WORDS)
char *rail_command(const struct rail *r, char buf[RAIL_COMMAND]);
char *rail_neper_command(const struct rails *rails, const struct rail *r, char buf[RAIL_COMMAND]);
/* The variables that belong to it, "CUDA_VISIBLE_DEVICES=2 ", or nothing. */
char *rail_environment(const struct rails *rails, const struct rail *r, char buf[RAIL_HOST]);

/* "eth1 is down", "eth1 is gone"; empty when nothing is wrong with its device now. Returns buf. */
char *rail_trouble(const struct rail *r, char buf[64]);

/* rails_place.c: fill gpu and cpus of all rails. */
int rails_place_gpus(struct rails *rails, struct err *e);
int rails_place_cpus(struct rails *rails, struct err *e);

#endif
