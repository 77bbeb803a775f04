/* SPDX-License-Identifier: BSD-3-Clause */
/* The hosts of a cluster: from words, a file, or what the scheduler says.
 *
 *	hosts_find(&h, "node[01-04,07],gw", NULL, e);	given
 *	hosts_find(&h, NULL, "hosts.txt", e);		one per line, # begins a comment
 *	hosts_find(&h, NULL, NULL, e);			what the environment says, see hosts.c
 *	hosts_free(&h);
 *
 * "dns:NAME" stands for every address of the name: a headless service of Kubernetes. A file may be mpirun's: "node1
 * slots=8" and "node1:8" mean node1. Each host once, in the order of the list.
 */
#ifndef WEIR_PROBE_HOSTS_H
#define WEIR_PROBE_HOSTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define HOSTS_MAX 65535

struct hosts {
	char **name;
	size_t count, room;
	uint32_t *slot; /* of names by their hash: index + 1, 0: free; 2 * room of them */
};

int hosts_find(struct hosts *h, const char *words, const char *file, struct err *e);
/* Add the hosts of a list as Slurm writes it: "a,b[1-3,07-09]x". */
int hosts_add_list(struct hosts *h, const char *list, struct err *e);
/* This name, as it is. */
int hosts_add(struct hosts *h, const char *name, struct err *e);
void hosts_free(struct hosts *h);

#endif
