/* SPDX-License-Identifier: BSD-3-Clause */
/* A transaction on a network interface: what will change is known before, written to disk before it
 * is done, and undone in reverse order when it is over, whatever ends it.
 *
 *	struct nic_plan p;
 *
 *	ret = nic_plan_open(&p, "eth1", false, e);	-EBUSY names who has it
 *	if (ret)
 *		return ret;
 *	ret = nic_plan_add(&p, NIC_KIND_SPLIT, "", "on", e);
 *	if (!ret)
 *		ret = nic_plan_apply(&p, e);
 *	...	more may be added and applied while it is open
 *	nic_plan_close(&p, e);				all is as it was
 *
 * Killed with -9 at any moment, a guardian process does what nic_plan_close() would have done; if it
 * is killed too, "weir nic restore" does. A program that handles SIGINT and SIGTERM calls
 * nic_plan_close() on its way out; one that does not is served by the guardian as well.
 *
 * Open it before threads are started and memory is bound (nic_guard.h says why), close it after the
 * last binding was closed. Not thread-safe.
 */
#ifndef WEIR_SYS_NIC_PLAN_H
#define WEIR_SYS_NIC_PLAN_H

#include "base/err.h"
#include "base/out.h"
#include "sys/nic_change.h"
#include "sys/nic_guard.h"
#include "sys/nic_journal.h"

struct nic_plan {
	char nic[IF_NAMESIZE];
	bool dry_run;
	struct nic_journal journal;
	struct nic_guard guard;
	size_t count, applied; /* changes; those of them that are done */
	struct nic_change *change;
	size_t first;	  /* of our own in the journal: before it come those kept by others */
	size_t recovered; /* changes of a killed owner that nic_plan_open() has undone */
};

/* Lock the NIC. What a killed owner left is undone first. Said before anything is touched: -EPERM
 * without CAP_NET_ADMIN, -EBUSY with the owner named, -ENODEV, -ENOSPC and others when the record
 * cannot be written. dry_run locks and needs nothing, and only lets changes be added and shown. */
int nic_plan_open(struct nic_plan *p, const char *nic, bool dry_run, struct err *e);

/* Add a change; a setting that has the value already is left out. Reads only. */
int nic_plan_add(
	struct nic_plan *p, enum nic_kind kind, const char *key, const char *after, struct err *e);

/* The same for what helps and is not needed: where the driver refuses, it stays as it is. */
int nic_plan_wish(
	struct nic_plan *p, enum nic_kind kind, const char *key, const char *after, struct err *e);

/* As text "  tcp-data-split  off -> on", as JSON an array of objects under key. */
void nic_plan_show(const struct nic_plan *p, const char *key, struct out *o);

/* Write down what was added since the last time, then do it. After a failure none of that is done,
 * earlier changes stay. */
int nic_plan_apply(struct nic_plan *p, struct err *e);

/* Undo all, last first, and give the NIC free. What cannot be undone stays on record for "weir nic
 * restore", and is said. Frees everything in any case; harmless after a failed open. */
int nic_plan_close(struct nic_plan *p, struct err *e);

/* Leave all as it is until "weir nic restore", and give the NIC free. */
int nic_plan_keep(struct nic_plan *p, struct err *e);

/* Whether this process may change NICs: 0, or -EPERM with words. */
int nic_plan_may(const char *nic, struct err *e);

#endif
