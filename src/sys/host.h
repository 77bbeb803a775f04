/* SPDX-License-Identifier: BSD-3-Clause */
/* The facts about a host that a run record keeps: an ordered list of names and values, both text,
 * so that two runs can be compared line by line.
 *
 *	struct host_facts facts;
 *
 *	ret = host_facts_read(&facts, "eth1", e);
 *	if (ret)
 *		return ret;
 *	host_facts_add(&facts, "gpu_driver", "%s", version);
 *	for (size_t i = 0; i < facts.count; i++)
 *		printf("%s = %s\n", facts.fact[i].name, facts.fact[i].value);
 *
 * Names are stable, in snake case, with the unit at the end ("memory_bytes"). A sysctl is named by
 * its full name with underscores ("net_ipv4_tcp_rmem"), what concerns the NIC starts with "nic_". A
 * fact that cannot be read is absent: no value ever stands for "unknown". "none" is a value: known
 * not to be there.
 *
 * Plain memory, nothing to free. Not thread-safe: each caller has its own.
 */
#ifndef WEIR_SYS_HOST_H
#define WEIR_SYS_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define HOST_FACTS_MAX	96
#define HOST_NAME_SIZE	48
#define HOST_VALUE_SIZE 256

struct host_facts {
	size_t count;
	struct host_fact {
		char name[HOST_NAME_SIZE];
		char value[HOST_VALUE_SIZE]; /* one printable line, never empty */
	} fact[HOST_FACTS_MAX];
};

/* Read all facts: of the host, its GPUs, and, unless nic is NULL, of that network interface.
 * -ENODEV or -EINVAL when there is no such interface; the host's facts are there all the same. */
int host_facts_read(struct host_facts *facts, const char *nic, struct err *e);

/* The value of a fact, NULL when absent. It lives as long as the facts do. */
const char *host_facts_get(const struct host_facts *facts, const char *name);

/* Add a fact, or replace the value of one that is there. The value is made one printable line, see
 * sys_clean(); a longer one ends in "..."; an empty one is left out. -ENAMETOOLONG for the name,
 * -ENOSPC when the list is full. */
int host_facts_add(struct host_facts *facts, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* CPU time that the whole machine has spent in the kernel: system, interrupts and soft interrupts.
 * 0 or -errno. */
int host_system_time(uint64_t *ns);

#endif
