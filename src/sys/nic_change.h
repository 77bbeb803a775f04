/* SPDX-License-Identifier: BSD-3-Clause */
/* A setting of a network interface as text: its kind, its key and its value. Whatever the driver and
 * the way to the kernel, all are read and written by the same two calls, so that a change can be
 * shown, written down, and undone by a program that knows nothing else about it.
 *
 *	kind            key                      values
 *	feature         the kernel's name        on, off
 *	priv-flag       the driver's name        on, off
 *	channels        rx, tx, other, combined  a number
 *	ring            rx, tx                   a number
 *	tcp-data-split                           on, off, unknown
 *	hds-thresh                               a number
 *	rss-table                                queues/entries: 0-15/128
 *	rss-context     its table: 8-11/128      present, absent
 *	ntuple-rule     what it matches          queue N, context TABLE, absent
 *
 *	ret = nic_change_read("eth1", NIC_KIND_FEATURE, "rx-ntuple-filter", &value, e);
 *
 * An RSS context is known by its table and a rule by what it matches, not by the number that the
 * driver gave it: one that was made just before a crash is found again. Thread-safe.
 */
#ifndef WEIR_SYS_NIC_CHANGE_H
#define WEIR_SYS_NIC_CHANGE_H

#include <stdbool.h>

#include "base/err.h"

enum nic_kind {
	NIC_KIND_FEATURE,
	NIC_KIND_PRIV_FLAG,
	NIC_KIND_CHANNELS,
	NIC_KIND_RING,
	NIC_KIND_SPLIT,
	NIC_KIND_HDS_THRESH,
	NIC_KIND_RSS_TABLE,
	NIC_KIND_RSS_CONTEXT,
	NIC_KIND_RULE,
};
#define NIC_KINDS 9

/* All text is allocated; key is empty, never NULL, where the kind has none. */
struct nic_change {
	enum nic_kind kind;
	char *key, *before, *after;
	bool wish; /* helps, but is not needed: a driver that refuses it keeps what it has */
};

const char *nic_kind_name(enum nic_kind kind);
int nic_kind_parse(enum nic_kind *kind, const char *name, struct err *e);

/* The value now, allocated: the caller frees it by free(). -ENOENT where the key names nothing. */
int nic_change_read(
	const char *nic, enum nic_kind kind, const char *key, char **value, struct err *e);
int nic_change_write(
	const char *nic, enum nic_kind kind, const char *key, const char *value, struct err *e);

/* Copies of the texts. -ENOMEM; -EINVAL for text with control characters, which no line of a record
 * could hold. */
int nic_change_init(struct nic_change *c, enum nic_kind kind, const char *key, const char *before,
	const char *after, struct err *e);
void nic_change_free(struct nic_change *c);

#endif
