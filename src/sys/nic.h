/* SPDX-License-Identifier: BSD-3-Clause */
/* The network interfaces of this machine: what they are, how fast, and where they sit.
 *
 *	struct nic *nics;
 *	size_t count;
 *
 *	ret = nic_list(&nics, &count, e);
 *	if (ret)
 *		return ret;
 *	for (size_t i = 0; i < count; i++)
 *		printf("%s %s\n", nics[i].name, topo_address(&nics[i].place));
 *	free(nics);
 *
 * An interface that exists is described as far as it can be read: a value that is missing or makes
 * no sense is left unknown, and is not an error. Thread-safe.
 */
#ifndef WEIR_SYS_NIC_H
#define WEIR_SYS_NIC_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "sys/topo.h"

struct nic {
	char name[IF_NAMESIZE];
	int ifindex;		 /* 0 unknown */
	bool physical;		 /* a device stands behind it: not lo, veth, dummy, bridge, bond */
	char driver[32];	 /* of that device, empty unknown */
	char state[16];		 /* "up", "down", "unknown", ...; empty unknown */
	char mac[64];		 /* "02:00:00:00:00:01"; InfiniBand's has 20 bytes; empty unknown */
	int mtu_bytes;		 /* 0 unknown */
	uint64_t speed_bps;	 /* as the driver says, 0 unknown: a ceiling only where physical */
	int rx_queues;		 /* 0 unknown */
	int tx_queues;		 /* 0 unknown */
	struct topo_place place; /* all unknown unless physical */
};

/* All interfaces, sorted by name ("eth2" before "eth10"). The caller frees the array by free(). */
int nic_list(struct nic **nics, size_t *count, struct err *e);

/* One interface. -EINVAL for what cannot be a name or an address, -ENODEV when there is none.
 * A PCI function with several interfaces is answered with the first by name. */
int nic_for_name(struct nic *n, const char *name, struct err *e);
int nic_for_pci(struct nic *n, const char *address, struct err *e);

/* The interface that owns a local IPv4 or IPv6 address; the port is ignored. -EADDRNOTAVAIL when no
 * interface has it, -EAFNOSUPPORT for other families, -ENOTSUP below a replaced root, whose
 * addresses nobody knows. */
int nic_for_address(struct nic *n, const struct sockaddr *address, struct err *e);

/* The address of an interface that its peers reach it by: the first IPv4 address, or else the first
 * IPv6 address that is not of its link alone. -EADDRNOTAVAIL when it has none, -ENOTSUP below a
 * replaced root. */
int nic_address(struct sockaddr_storage *address, const char *name, struct err *e);

/* The CPUs that its interrupts go to; empty when unknown. */
void nic_irq_cpus(struct cpus *c, const struct nic *n);

/* What only the driver itself can tell, asked by ioctl. */
struct nic_offload {
	const char *name; /* "tso", static */
	bool on;
};
struct nic_ethtool {
	char driver[32]; /* also of virtual interfaces ("veth"); empty unknown, as the next two */
	char version[32];
	char firmware[32];
	size_t offload_count; /* those the kernel knows */
	struct nic_offload offload[16];
};

/* Parts that the driver does not answer are left empty. -ENOTSUP below a replaced root. */
int nic_ethtool_read(struct nic_ethtool *t, const char *name, struct err *e);

#endif
