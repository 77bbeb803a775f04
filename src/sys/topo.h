/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a device sits on PCI, and how far two devices are apart: what decides whether a GPU and a
 * NIC reach each other through one switch or through the CPU.
 *
 *	struct topo_place gpu, nic;
 *	topo_place_read(&gpu, "/sys/bus/pci/devices/0000:06:00.0", e);
 *	topo_place_read(&nic, "/sys/class/net/eth1/device", e);
 *	puts(topo_distance_name(topo_distance(&gpu, &nic)));
 *
 * Plain memory, nothing to free. Thread-safe.
 */
#ifndef WEIR_SYS_TOPO_H
#define WEIR_SYS_TOPO_H

#include "base/cpus.h"
#include "base/err.h"

#define TOPO_ADDRESS_SIZE 20 /* "0000:06:00.0"; domains have up to eight digits */
#define TOPO_DEPTH_MAX	  16

struct topo_link {
	int speed_mtps; /* per lane, million transfers a second: 16000 is "16.0 GT/s"; 0 unknown */
	int width;	/* lanes, 0 unknown */
};

struct topo_place {
	char host_bridge[TOPO_ADDRESS_SIZE];	       /* "pci0000:00", empty when not on PCI */
	int depth;				       /* members of chain, 0 when not on PCI */
	char chain[TOPO_DEPTH_MAX][TOPO_ADDRESS_SIZE]; /* root port first, the device itself last */
	int numa_node;				       /* -1 when unknown */
	struct cpus local_cpus;			       /* empty when unknown */
	struct topo_link link_now, link_max;
};

/* Ordered from near to far; the names are those of nvidia-smi and NCCL. */
enum topo_distance {
	TOPO_PIX,  /* at most one PCIe switch between them */
	TOPO_PXB,  /* several switches, but not the CPU's host bridge */
	TOPO_PHB,  /* the same host bridge */
	TOPO_NODE, /* other host bridges of the same NUMA node */
	TOPO_SYS,  /* across NUMA nodes, or not known to be nearer */
};

/* Read the place of the device at a sysfs path, links followed. A device that is not a PCI function
 * but hangs on one (virtio, USB) has that function's place. What is unknown is left empty, also
 * after a failure. Errors: those of following the link, -E2BIG below more than TOPO_DEPTH_MAX
 * bridges. */
int topo_place_read(struct topo_place *p, const char *device, struct err *e);

/* The PCI address of the device itself, "" when it is not on PCI. */
const char *topo_address(const struct topo_place *p);

/* A PCI address as people and drivers write it ("06:00.0", "00000000:06:00.0", upper case) in the
 * form that sysfs uses. -EINVAL for anything else. */
int topo_address_parse(char address[TOPO_ADDRESS_SIZE], const char *text, struct err *e);

enum topo_distance topo_distance(const struct topo_place *a, const struct topo_place *b);
const char *topo_distance_name(enum topo_distance d); /* "PIX" */

#endif
