/* SPDX-License-Identifier: BSD-3-Clause */
/* The guardian: a small process that puts a NIC back when the one that changed it was killed.
 *
 *	ret = nic_guard_start(&g, &journal, e);		before the first change
 *	...
 *	nic_guard_stop(&g);				after the last was undone
 *
 * It is a forked child in a session of its own, named "nic-guard": neither the terminal's Ctrl-C nor
 * a signal to the owner's process group reaches it. It holds the journal, and with it the lock, and
 * no other descriptor of its owner: not its sockets, not its bound memory, not its standard output.
 * When the owner dies before nic_guard_stop(), it undoes what the journal says is not kept.
 *
 * Start it before other threads and before memory is bound. Not thread-safe.
 */
#ifndef WEIR_SYS_NIC_GUARD_H
#define WEIR_SYS_NIC_GUARD_H

#include <sys/types.h>

#include "base/err.h"
#include "sys/nic_journal.h"

struct nic_guard {
	pid_t pid; /* 0: none */
	int line;  /* to it: a byte sends it home, the end without one means that the owner died */
};

/* It is on guard when this returns. */
int nic_guard_start(struct nic_guard *g, const struct nic_journal *j, struct err *e);
void nic_guard_stop(struct nic_guard *g); /* harmless where none runs */

#endif
