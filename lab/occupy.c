/* SPDX-License-Identifier: BSD-3-Clause */
/* Somebody else who has a NIC's queues:
 *
 *	occupy xdp IFACE          an XDP program on it
 *	occupy xsk IFACE QUEUE    an AF_XDP socket on a queue
 *	occupy netkit IFACE       makes a virtual device, and ends
 *
 * Prints "ready" and stays until it is killed.
 */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devmem.h"

static int occupy(int argc, char **argv)
{
	int ret;

	if (argc == 3 && !strcmp(argv[1], "netkit"))
		return link_add_netkit(argv[2]);
	if (argc == 4 && !strcmp(argv[1], "xsk"))
		return xsk_open((int)if_nametoindex(argv[2]), atoi(argv[3]));
	if (argc != 3 || strcmp(argv[1], "xdp"))
		return -EINVAL;
	ret = xdp_program_load();
	return ret < 0 ? ret : link_set_xdp((int)if_nametoindex(argv[2]), ret);
}

int main(int argc, char **argv)
{
	int ret = occupy(argc, argv);

	if (ret < 0) {
		fprintf(stderr, "occupy: %s %s\n", strerror(-ret), netlink_words());
		return 1;
	}
	printf("ready\n");
	fflush(stdout);
	if (strcmp(argv[1], "netkit"))
		pause();
	return 0;
}
