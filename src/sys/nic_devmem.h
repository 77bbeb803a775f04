/* SPDX-License-Identifier: BSD-3-Clause */
/* What a NIC needs before device memory can be bound to its queues: checked, and planned.
 *
 *	struct nic_devmem_want want = { .flow = flows, .flow_count = 2 };
 *
 *	cpus_parse(&want.queues, "8-11", e);
 *	ret = nic_plan_open(&plan, "eth1", false, e);
 *	if (!ret)
 *		ret = nic_devmem_plan(&plan, &want, e);
 *	if (!ret)
 *		ret = nic_plan_apply(&plan, e);
 *
 * Thread-safe for different plans.
 */
#ifndef WEIR_SYS_NIC_DEVMEM_H
#define WEIR_SYS_NIC_DEVMEM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cpus.h"
#include "base/err.h"
#include "sys/nic_plan.h"

struct nic_devmem_want {
	struct cpus queues;	 /* to be kept free of other traffic; empty: leave RSS alone */
	const char *const *flow; /* what goes to them, as nic_rule_parse() reads it */
	size_t flow_count;
	bool spread; /* all flows to an RSS context over the queues, not each to one of them */
};

/* Add all that is missing: channels, the driver's private flags, header split, hds-thresh,
 * rx-ntuple-filter, the RSS table without the queues, a context, a rule for each flow (the n-th goes
 * to the n-th queue, and round again). Nothing is added for what is there. */
int nic_devmem_plan(struct nic_plan *p, const struct nic_devmem_want *want, struct err *e);

enum nic_check_state { NIC_CHECK_HOLDS, NIC_CHECK_FAILS, NIC_CHECK_UNKNOWN };

struct nic_check {
	const char *name; /* static, "header-split" */
	enum nic_check_state state;
	char found[128]; /* what is there */
	char mend[192];	 /* what to do about it; empty where it holds */
};

/* Each precondition for receiving into device memory, and for sending from it. Returns how many. */
#define NIC_CHECKS 8
size_t nic_devmem_check(const char *nic, struct nic_check check[NIC_CHECKS]);

#endif
