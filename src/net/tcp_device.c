// SPDX-License-Identifier: BSD-3-Clause
/* Which interfaces a transport uses, and what it says of them. */
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/tcp_parts.h"
#include "sys/path.h"

#define DEVICES_MAX 64
/* Of an interface that does not say: what a few cores get through loopback, and no NIC that matters
 * keeps its speed to itself. */
#define UNKNOWN_MBPS 100000

/* One of the names in list begins the interface's name, or is it when exact. */
static bool listed(const char *list, const char *name, bool exact)
{
	while (*list) {
		size_t length = strcspn(list, ",");

		if (length && !strncmp(list, name, length) && (!exact || !name[length]))
			return true;
		list += length;
		list += *list == ',';
	}
	return false;
}

/* As NCCL reads NCCL_SOCKET_IFNAME: "^" excludes, "=" wants the whole name. */
static bool wanted(const char *spec, const char *name, bool loopback, bool last_resort)
{
	bool exclude, exact;

	if (!spec || !*spec)
		return loopback == last_resort && strncmp(name, "docker", 6) != 0;
	exclude = *spec == '^';
	spec += exclude;
	exact = *spec == '=';
	spec += exact;
	if (exclude)
		return loopback == last_resort && !listed(spec, name, exact);
	return !last_resort && listed(spec, name, exact);
}

static bool usable(const struct ifaddrs *i)
{
	const struct sockaddr_in6 *in6 = (const void *)i->ifa_addr;

	if (!i->ifa_addr || !(i->ifa_flags & IFF_UP))
		return false;
	if (i->ifa_addr->sa_family == AF_INET)
		return true;
	return i->ifa_addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
}

static void copy_address(struct sock_addr *to, const struct sockaddr *from)
{
	memset(to, 0, sizeof(*to));
	to->len = from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					      : sizeof(struct sockaddr_in);
	memcpy(&to->storage, from, to->len);
	sock_addr_set_port(to, 0);
}

/* The same on every look, different for every interface of every host that has a MAC. */
static uint64_t guid_of(const struct nic *n)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (const char *p = n->mac; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
	for (const char *p = n->name; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
	return hash;
}

static void device_describe(struct tcp_device *d, const char *name)
{
	char path[PATH_MAX];

	if (nic_for_name(&d->nic, name, NULL))
		snprintf(d->nic.name, sizeof(d->nic.name), "%s", name);
	d->guid = guid_of(&d->nic);
	if (d->nic.physical && !sys_resolve(path, sizeof(path), "/sys/class/net/%s/device", name))
		d->pci_path = strdup(path);
}

/* IPv4 where an interface has both. */
static void device_add(struct tcp_net *n, const struct ifaddrs *i)
{
	struct tcp_device *d;

	for (int k = 0; k < n->base.devices; k++) {
		d = &n->device[k];
		if (strcmp(d->nic.name, i->ifa_name) != 0)
			continue;
		if (i->ifa_addr->sa_family == AF_INET && d->addr.storage.ss_family == AF_INET6)
			copy_address(&d->addr, i->ifa_addr);
		return;
	}
	if (n->base.devices == DEVICES_MAX)
		return;
	d = &n->device[n->base.devices++];
	copy_address(&d->addr, i->ifa_addr);
	device_describe(d, i->ifa_name);
}

static int locals_add(struct tcp_net *n, const struct ifaddrs *list)
{
	size_t count = 0;

	for (const struct ifaddrs *i = list; i; i = i->ifa_next)
		count += usable(i);
	n->local = calloc(count + 1, sizeof(*n->local));
	if (!n->local)
		return -ENOMEM;
	for (const struct ifaddrs *i = list; i; i = i->ifa_next)
		if (usable(i))
			copy_address(&n->local[n->locals++], i->ifa_addr);
	return 0;
}

/* Up, and nothing at the other end of the cable: a connection through it would never come to be. */
static void ignore(struct tcp_net *n, const char *name)
{
	size_t at = strlen(n->ignored);

	if (strstr(n->ignored, name))
		return;
	snprintf(n->ignored + at, sizeof(n->ignored) - at, "%s%s", at ? ", " : "", name);
}

static void look_at(struct tcp_net *n, const struct ifaddrs *i, bool last_resort)
{
	bool loopback = i->ifa_flags & IFF_LOOPBACK;

	if (!usable(i) || !wanted(n->options.interfaces, i->ifa_name, loopback, last_resort))
		return;
	if (loopback || i->ifa_flags & IFF_RUNNING)
		device_add(n, i);
	else
		ignore(n, i->ifa_name);
}

int tcp_devices_find(struct tcp_net *n, struct err *e)
{
	const char *spec = n->options.interfaces;
	struct ifaddrs *list;
	int ret;

	if (getifaddrs(&list) < 0)
		return err_set(e, errno, "cannot list the network interfaces: %m");
	n->device = calloc(DEVICES_MAX, sizeof(*n->device));
	ret = n->device ? locals_add(n, list) : -ENOMEM;
	for (int last_resort = 0; !ret && !n->base.devices && last_resort < 2; last_resort++)
		for (const struct ifaddrs *i = list; i; i = i->ifa_next)
			look_at(n, i, last_resort);
	freeifaddrs(list);
	if (ret)
		return err_set(e, -ret, "no memory for network interfaces");
	if (n->ignored[0])
		n->base.ignored = n->ignored;
	if (n->base.devices)
		return 0;
	err_set(e, ENODEV, "no interface is up and has an address%s%s",
		spec && *spec ? " among " : "", spec ? spec : "");
	if (n->ignored[0])
		return err_hint(e, "up, but without a link: %s", n->ignored);
	return err_hint(e, "list them with: ip address");
}

void tcp_devices_free(struct tcp_net *n)
{
	for (int i = 0; n->device && i < n->base.devices; i++) {
		free(n->device[i].pci_path);
		free(atomic_load(&n->device[i].reason));
	}
	free(n->device);
	free(n->local);
}

int tcp_device_properties(struct net *net, int dev, struct net_properties *p, struct err *e)
{
	struct tcp_net *n = (struct tcp_net *)net;
	const struct tcp_device *d;
	bool by_nic;

	if (dev < 0 || dev >= net->devices)
		return err_set(
			e, EINVAL, "there is no device %d, only 0 to %d", dev, net->devices - 1);
	d = &n->device[dev];
	/* Where it must be and cannot, listen and connect say so. */
	if (tcp_pool_wanted(n, dev, &by_nic, NULL))
		by_nic = false;
	*p = (struct net_properties){
		.name = d->nic.name,
		.pci_path = d->pci_path,
		.guid = d->guid,
		.memory = NET_HOST | (n->options.cuda ? NET_CUDA : 0) | (by_nic ? NET_DMABUF : 0),
		.speed_mbps = d->nic.speed_bps ? (int)(d->nic.speed_bps / 1000000) : UNKNOWN_MBPS,
		.max_comms = 65536,
		.requests = TCP_SLOTS,
		.message_bytes = NET_MESSAGE_MAX,
	};
	return 0;
}

bool tcp_is_local(const struct tcp_net *n, const struct sock_addr *addr)
{
	if (sock_addr_is_loopback(addr))
		return true;
	for (size_t i = 0; i < n->locals; i++)
		if (sock_addr_same_host(&n->local[i], addr))
			return true;
	return false;
}
