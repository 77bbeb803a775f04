/* SPDX-License-Identifier: BSD-3-Clause */
/* weir nic: what its two files share. */
#ifndef WEIR_CMD_NIC_H
#define WEIR_CMD_NIC_H

#include <stdbool.h>

#include "base/err.h"
#include "base/out.h"

/* nic_show.c: one interface in full, or all of them, a line each. stats: what has been counted too.
 */
int nic_show_one(const char *nic, bool stats, struct out *o, struct err *e);
int nic_show_all(struct out *o, struct err *e);

#endif
