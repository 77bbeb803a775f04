/* SPDX-License-Identifier: BSD-3-Clause */
/* Which receive queue of a NIC a connection's packets go to, for device memory.
 *
 *	ret = steer_queues(&queues, "eth1", NULL, e);
 *	...	the NIC is prepared and memory bound to them
 *	ret = steer_socket(&plan, fd, 12, e);		for each connection, then
 *	ret = nic_plan_apply(&plan, e);
 *
 * Thread-safe for different plans.
 */
#ifndef WEIR_NET_STEER_H
#define WEIR_NET_STEER_H

#include "base/cpus.h"
#include "base/err.h"
#include "net/sock.h"
#include "sys/nic_plan.h"

/* The queues that list names ("8-11"), or, where it is NULL, the last quarter of those there are: the first ones serve
 * everything else on the host. -EOPNOTSUPP where there is one only. */
int steer_queues(struct cpus *queues, const char *nic, const char *list, struct err *e);

/* An address as a rule has it: IPv4 mapped into IPv6 is IPv4 on the wire. */
void steer_address(const struct sock_addr *addr, uint8_t ip[16], bool *ipv6, uint16_t *port);

/* Add the rule to a plan: what comes on this connection, and nothing else, goes to this queue. */
int steer_socket(struct nic_plan *p, int fd, int queue, struct err *e);

#endif
