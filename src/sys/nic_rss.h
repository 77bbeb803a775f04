/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive side scaling: the table that spreads packets over receive queues, and further tables
 * ("contexts") that steering rules can send packets to.
 *
 *	struct nic_rss r;
 *
 *	ret = nic_rss_read(&r, "eth1", 0, e);
 *	if (ret)
 *		return ret;
 *	text = nic_rss_text(&r);		"0-15/128": 128 entries, queues 0 to 15 in turn
 *	nic_rss_free(&r);
 *
 * As text a table is the shortest list of queues that, repeated, fills it, and its size. The key and
 * the hash function are never changed. Errors as in nic_link.h, but by ioctl: they work without
 * libmnl. Thread-safe.
 */
#ifndef WEIR_SYS_NIC_RSS_H
#define WEIR_SYS_NIC_RSS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpus.h"
#include "base/err.h"

struct nic_rss {
	uint32_t size;	 /* entries, never 0 after a successful read */
	uint32_t *table; /* queue of each */
};

#define NIC_RSS_CONTEXTS 256 /* numbers that are looked at */

/* Context 0 is the table of all packets. -ENOENT for a context that is not there. The caller frees
 * by nic_rss_free(), which is harmless after a failure. */
int nic_rss_read(struct nic_rss *r, const char *nic, uint32_t context, struct err *e);
void nic_rss_free(struct nic_rss *r);

/* Write context 0. A table that is the kernel's default for the NIC's queues is set by a reset, so
 * that the NIC counts as not configured again and follows later changes of its channels. */
int nic_rss_write(const char *nic, const struct nic_rss *r, struct err *e);

/* Make a context with this table, or remove one. */
int nic_rss_create(const char *nic, const struct nic_rss *r, uint32_t *context, struct err *e);
int nic_rss_remove(const char *nic, uint32_t context, struct err *e);

/* The lowest context with exactly this table; -ENOENT when there is none. */
int nic_rss_find(const char *nic, const struct nic_rss *r, uint32_t *context, struct err *e);

/* The text of a table, allocated, NULL when memory is short; and back: -EINVAL names what is wrong.
 */
char *nic_rss_text(const struct nic_rss *r);
int nic_rss_parse(struct nic_rss *r, const char *text, struct err *e);

/* A table of that size over these queues in turn. -EINVAL when there is none. */
int nic_rss_spread(struct nic_rss *r, uint32_t size, const struct cpus *queues, struct err *e);

bool nic_rss_uses(const struct nic_rss *r, const struct cpus *queues);

/* How many receive queues the NIC has now, by the driver's word. */
int nic_rss_queues(const char *nic, uint32_t *count, struct err *e);

#endif
