/* SPDX-License-Identifier: BSD-3-Clause */
/* What was changed on a NIC, on disk before it is changed: one file for each NIC, locked by the one
 * process that may change it.
 *
 *	struct nic_journal j;
 *
 *	ret = nic_journal_open(&j, "eth1", true, e);		-EBUSY names the owner
 *	if (ret)
 *		return ret;
 *	ret = nic_journal_add(&j, &change, 1, e);		synced when this returns
 *	...	make the change
 *	ret = nic_journal_undo(&j, 0, NULL, NULL, e);
 *	nic_journal_finish(&j);
 *
 * The files are text in /run/weir, or in the directory that WEIR_STATE_DIR names:
 *
 *	weir-nic	1
 *	nic	eth1	7	4026531840	6f9c...		name, ifindex, network namespace, boot
 *	owner	4711	88213	weir stream --mem udmabuf	pid, its start, its words
 *	change	tcp-data-split		off	on		kind, key, before, after
 *	kept						all above stay until "weir nic restore"
 *
 * Undoing is safe at any time and any number of times: it sets what differs from "before". A line
 * that was cut short stands for a change that was never made. The lock is held by the open file:
 * a forked child that keeps it (nic_guard.h) holds it too. Not thread-safe.
 */
#ifndef WEIR_SYS_NIC_JOURNAL_H
#define WEIR_SYS_NIC_JOURNAL_H

#include <limits.h>
#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "sys/nic_change.h"

struct nic_owner {
	pid_t pid;	/* 0 unknown */
	uint64_t start; /* clock ticks after boot: tells it from a later process of that pid */
	char command[256];
};

struct nic_journal {
	char nic[IF_NAMESIZE];
	char path[PATH_MAX];
	int fd; /* -1 closed */
	uint32_t ifindex;
	bool outlived; /* by a reboot: the settings went with it */
	struct nic_owner owner;
	size_t count, kept; /* changes; the first of them that stay on purpose */
	struct nic_change *change;
	off_t bytes, kept_bytes; /* the file's length, with them and with those kept only */
};

/* Open and lock the journal of a NIC in this network namespace, and read what it holds. create false:
 * -ENOENT when there is none. -EBUSY when another process has it, named in the words. Other errors
 * say why there can be no journal: no changes may be made then. */
int nic_journal_open(struct nic_journal *j, const char *nic, bool create, struct err *e);

/* Become the owner: the line that others are shown. */
int nic_journal_claim(struct nic_journal *j, struct err *e);

/* Write changes to disk. Either all are there when this returns, or, with an error, none. */
int nic_journal_add(struct nic_journal *j, const struct nic_change *c, size_t count, struct err *e);

/* Forget the changes from number from on, which were undone or never made. */
int nic_journal_drop(struct nic_journal *j, size_t from, struct err *e);

/* Leave all changes on the NIC, also after this process. */
int nic_journal_keep(struct nic_journal *j, struct err *e);

/* Put back what the changes from number from on have changed, last first. told hears of each: a NULL
 * now means that nothing could be read. An interface that is gone has nothing to put back. Goes on
 * after a failure and returns the first. */
typedef void nic_told_fn(void *context, const struct nic_change *c, const char *now, int ret);
int nic_journal_undo(
	struct nic_journal *j, size_t from, nic_told_fn *told, void *context, struct err *e);

/* Whether the NIC that the journal is about is still there, and not another of its name. */
bool nic_journal_is_current(const struct nic_journal *j);

/* Read the file again: another process may have written to it. */
int nic_journal_reload(struct nic_journal *j, struct err *e);

/* Remove what is not kept from the disk, and close. */
void nic_journal_finish(struct nic_journal *j);
/* Close; the file stays as it is, unless it is empty. */
void nic_journal_close(struct nic_journal *j);

/* The interfaces of this network namespace that have a journal; *elsewhere counts those of others.
 * The caller frees the array by free(). */
int nic_journal_list(char (**nics)[IF_NAMESIZE], size_t *count, size_t *elsewhere, struct err *e);

/* Who has the NIC now: 0 and the owner; -ENOENT nobody. Locks nothing. */
int nic_journal_peek(const char *nic, struct nic_owner *owner, bool *kept, struct err *e);

#endif
