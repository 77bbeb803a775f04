/* SPDX-License-Identifier: BSD-3-Clause */
/* A made machine: /sys and /proc below a temporary directory that src/sys then reads.
 *
 *	cmocka_unit_test_setup_teardown(test, tree_gpu_host, tree_remove)
 *
 * A failure to make it fails the test. Paths start with "/" and lie below the temporary directory.
 */
#ifndef WEIR_TESTS_SYS_TREE_H
#define WEIR_TESTS_SYS_TREE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

int tree_empty(void **state); /* nothing in it */

/* Two sockets; on each, two PCI switches with two GPUs and one rail NIC; a front NIC without a
 * switch; lo and a veth. The PCI chains, root port first:
 *
 *	node 0	pci0000:10  10:01.0 11:00.0 { 12:00.0 GPU 13:00.0
 *					      12:01.0 GPU 14:00.0
 *					      12:02.0 eth1 15:00.0 }
 *			    10:02.0 eth0 18:00.0
 *			    VGA of the management controller 10:03.0
 *		pci0000:20  the same on buses 20 to 25, eth2
 *	node 1	pci0000:80  the same on buses 80 to 85, eth3
 *		pci0000:90  90:01.0 91:00.0 { 92:00.0 GPU 93:00.0
 *					      92:01.0 GPU 94:00.0
 *					      92:02.0 95:00.0 96:00.0 eth4 97:00.0 }
 */
int tree_gpu_host(void **state);

int tree_remove(void **state); /* and back to the running machine */

const char *tree_top(void); /* the temporary directory */

void tree_file(const char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tree_link(const char *target, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tree_dir(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tree_fifo(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tree_long_file(char byte, size_t bytes, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* A PCI function at a path below /sys/devices, entered in /sys/bus/pci/devices. */
void tree_pci(const char *path, const char *vendor, const char *class, int numa_node);

/* A network interface below a device (NULL: virtual), entered in /sys/class/net. */
void tree_nic(const char *device, const char *name, int ifindex, const char *speed);

#endif
