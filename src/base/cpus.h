/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of CPUs: written as the kernel writes them ("0-3,8,10-14:2"), and threads pinned to them.
 *
 *	struct cpus c;
 *	cpus_allowed(&c, e);
 *	cpus_pin(cpus_nth(&c, thread % c.count), e);
 */
#ifndef WEIR_BASE_CPUS_H
#define WEIR_BASE_CPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CPUS_MAX 4096

struct cpus {
	int count; /* members of the set */
	uint64_t bits[CPUS_MAX / 64];
};

void cpus_clear(struct cpus *c);
void cpus_add(struct cpus *c, int cpu); /* outside 0..CPUS_MAX-1: ignored */
bool cpus_has(const struct cpus *c, int cpu);

/* "0-3,8", "0-14:2" (every second), blanks and a final newline allowed. An empty list is an empty
 * set; a list that is refused leaves the set as it was. */
int cpus_parse(struct cpus *c, const char *list, struct err *e);

/* The shortest list of numbers and ranges, "0-3,8". Returns buf; cut short, ending in "...", where
 * size does not suffice. */
char *cpus_format(const struct cpus *c, char *buf, size_t size);

/* The n-th member in ascending order, n from 0; -1 when there are fewer. */
int cpus_nth(const struct cpus *c, int n);

/* The CPUs this thread may run on (sched_getaffinity). */
int cpus_allowed(struct cpus *c, struct err *e);

/* Bind the calling thread to one CPU, or to a set. */
int cpus_pin(int cpu, struct err *e);
int cpus_pin_set(const struct cpus *c, struct err *e);

#endif
