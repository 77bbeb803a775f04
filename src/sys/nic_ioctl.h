/* SPDX-License-Identifier: BSD-3-Clause */
/* One ethtool ioctl: for what the ethtool netlink family does not have (steering rules, RSS tables).
 *
 *	struct ethtool_rxnfc rings = { .cmd = ETHTOOL_GRXRINGS };
 *
 *	ret = nic_ioctl("eth1", &rings, "read the queues", e);
 *
 * The request is answered in place. The words of an error are "cannot VERB of NIC: REASON". -EINVAL
 * also for what cannot be a name. Thread-safe.
 */
#ifndef WEIR_SYS_NIC_IOCTL_H
#define WEIR_SYS_NIC_IOCTL_H

#include "base/err.h"

int nic_ioctl(const char *nic, void *request, const char *verb, struct err *e);

#endif
