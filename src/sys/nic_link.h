/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings of a network interface that ethtool's netlink family reads and sets: rings with
 * header split, channels, features and the driver's private flags.
 *
 *	struct nic_rings r;
 *
 *	ret = nic_rings_read(&r, "eth1", e);
 *	if (!ret && r.split != NIC_SPLIT_ON)
 *		ret = nic_rings_set("eth1", NIC_RING_SPLIT, NIC_SPLIT_ON, e);
 *
 * Errors carry the kernel's own words. -EOPNOTSUPP: the driver has no such setting; -ENODEV: no such
 * interface in this network namespace; -EPERM: CAP_NET_ADMIN is missing; -ENOTSUP: weir was built
 * without libmnl. Nothing here remembers what was set: nic_plan.h does. Thread-safe.
 */
#ifndef WEIR_SYS_NIC_LINK_H
#define WEIR_SYS_NIC_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum nic_split { NIC_SPLIT_UNKNOWN, NIC_SPLIT_OFF, NIC_SPLIT_ON }; /* ABI: the kernel's values */

struct nic_rings {
	uint32_t rx, rx_max, tx, tx_max; /* descriptors */
	enum nic_split split;		 /* unknown: the driver decides, or cannot */
	bool has_hds_thresh;		 /* the kernel (6.14) and the driver have it */
	uint32_t hds_thresh, hds_thresh_max;
};

enum nic_ring { NIC_RING_RX, NIC_RING_TX, NIC_RING_SPLIT, NIC_RING_HDS_THRESH };

int nic_rings_read(struct nic_rings *r, const char *nic, struct err *e);
int nic_rings_set(const char *nic, enum nic_ring what, uint32_t value, struct err *e);

enum nic_channel { NIC_CHANNEL_RX, NIC_CHANNEL_TX, NIC_CHANNEL_OTHER, NIC_CHANNEL_COMBINED };
#define NIC_CHANNELS 4

struct nic_channels {
	uint32_t count[NIC_CHANNELS],
		max[NIC_CHANNELS]; /* max 0: the driver has none of that kind */
};

extern const char *const nic_channel_name[NIC_CHANNELS]; /* "rx", "tx", "other", "combined" */

int nic_channels_read(struct nic_channels *c, const char *nic, struct err *e);
int nic_channels_set(const char *nic, enum nic_channel which, uint32_t count, struct err *e);

/* Features (offloads) and private flags are both sets of named bits. */
enum nic_bits { NIC_FEATURES, NIC_PRIVATE_FLAGS };

struct nic_bit {
	char name[33];
	bool on;     /* in effect */
	bool wanted; /* asked for: what nic_bit_set() sets; for a private flag the same as on */
	bool fixed;  /* cannot be changed */
};

/* All of them, in the driver's order; none for a driver without private flags. The caller frees the
 * array by free(). */
int nic_bits_read(
	struct nic_bit **bits, size_t *count, const char *nic, enum nic_bits set, struct err *e);
/* One by its name. -ENOENT when there is none. */
int nic_bit_find(
	struct nic_bit *bit, const char *nic, enum nic_bits set, const char *name, struct err *e);
int nic_bit_set(const char *nic, enum nic_bits set, const char *name, bool on, struct err *e);

#endif
