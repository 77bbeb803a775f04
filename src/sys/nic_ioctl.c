/* SPDX-License-Identifier: BSD-3-Clause */
#include <linux/sockios.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sys/nic_ioctl.h"

static int blame(int code, const char *nic, const char *verb, struct err *e)
{
	switch (code) {
	case ENODEV:
		err_set(e, ENODEV, "there is no network interface %s in this network namespace",
			nic);
		err_hint(e, "list the interfaces with: weir nic show");
		return -ENODEV;
	case EPERM:
		err_set(e, EPERM, "cannot %s of %s: this needs CAP_NET_ADMIN", verb, nic);
		err_hint(e, "run it as root");
		return -EPERM;
	case EOPNOTSUPP:
		return err_set(e, code, "the driver of %s does not let weir %s", nic, verb);
	default:
		return err_set(e, code, "cannot %s of %s: %m", verb, nic);
	}
}

int nic_ioctl(const char *nic, void *request, const char *verb, struct err *e)
{
	struct ifreq ifr = { .ifr_data = request };
	int fd, code;

	if (!nic[0] || strlen(nic) >= sizeof(ifr.ifr_name))
		return err_set(e, EINVAL, "'%s' cannot be the name of a network interface", nic);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(e, errno, "cannot ask the driver of %s: %m", nic);
	strcpy(ifr.ifr_name, nic);
	code = ioctl(fd, SIOCETHTOOL, &ifr) ? errno : 0;
	close(fd);
	return code ? blame(code, nic, verb, e) : 0;
}
