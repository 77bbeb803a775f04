/* SPDX-License-Identifier: BSD-3-Clause */
/* Steering rules ("n-tuple filters"): TCP packets with these addresses and ports go to this queue.
 *
 *	struct nic_rule r;
 *
 *	ret = nic_rule_parse(&r, "tcp4,dst-ip=10.0.0.2,dst-port=12867", e);
 *	r.queue = 8;
 *	if (!ret)
 *		ret = nic_rule_add("eth1", &r, e);
 *
 * A rule is told from others by what it matches, not by its place in the driver's table: places are
 * the driver's choice on some NICs and ours on others. Errors as in nic_rss.h; -ENOSPC when the
 * table is full. Thread-safe.
 */
#ifndef WEIR_SYS_NIC_RULE_H
#define WEIR_SYS_NIC_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct nic_rule {
	bool known; /* TCP with whole addresses and ports: else only location says something */
	bool ipv6;
	bool has_src_ip, has_dst_ip; /* those and ports that are 0 match all */
	uint8_t src_ip[16], dst_ip[16];
	uint16_t src_port, dst_port;
	bool to_context; /* to an RSS context instead of a queue */
	uint32_t queue, context;
	uint32_t location; /* in the driver's table */
};

/* "tcp4" or "tcp6" may be left out where an address or nothing says so. */
int nic_rule_parse(struct nic_rule *r, const char *text, struct err *e);

/* What it matches, as nic_rule_parse() reads it. Returns buf. */
#define NIC_RULE_TEXT 192
char *nic_rule_text(const struct nic_rule *r, char buf[NIC_RULE_TEXT]);

/* All rules by their place. The caller frees the array by free(). */
int nic_rules_read(struct nic_rule **rules, size_t *count, const char *nic, struct err *e);

/* The rule that matches the same packets; -ENOENT when there is none. */
int nic_rule_find(
	const char *nic, const struct nic_rule *like, struct nic_rule *found, struct err *e);
int nic_rule_add(const char *nic, const struct nic_rule *r, struct err *e);
int nic_rule_remove(const char *nic, uint32_t location, struct err *e);

#endif
