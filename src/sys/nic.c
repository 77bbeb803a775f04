/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <limits.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "sys/nic.h"
#include "sys/path.h"

/* Names become parts of paths. */
static bool is_name(const char *name)
{
	return name[0] && strlen(name) < IF_NAMESIZE && !strchr(name, '/') && strcmp(name, ".") &&
	       strcmp(name, "..");
}

static void count_queues(struct nic *n)
{
	struct sys_names queues;

	sys_list(&queues, "/sys/class/net/%s/queues", n->name);
	for (int i = 0; i < queues.count; i++) {
		n->rx_queues += !strncmp(queues.entry[i]->d_name, "rx-", 3);
		n->tx_queues += !strncmp(queues.entry[i]->d_name, "tx-", 3);
	}
	sys_names_free(&queues);
}

static void read_device(struct nic *n)
{
	char path[PATH_MAX];
	const char *driver;

	snprintf(path, sizeof(path), "/sys/class/net/%s/device", n->name);
	n->physical = topo_place_read(&n->place, path, NULL) != -ENOENT;
	if (sys_resolve(path, sizeof(path), "/sys/class/net/%s/device/driver", n->name))
		return;
	driver = strrchr(path, '/') + 1;
	if (strlen(driver) < sizeof(n->driver))
		strcpy(n->driver, driver);
}

int nic_for_name(struct nic *n, const char *name, struct err *e)
{
	if (!is_name(name))
		return err_set(e, EINVAL, "'%s' cannot be the name of a network interface", name);
	if (!sys_is_dir("/sys/class/net/%s", name)) {
		err_set(e, ENODEV, "there is no network interface %s", name);
		err_hint(e, "list the interfaces with: weir nic show");
		return -ENODEV;
	}

	*n = (struct nic){ 0 };
	strcpy(n->name, name);
	n->ifindex = (int)sys_read_number(1, INT_MAX, 0, "/sys/class/net/%s/ifindex", name);
	n->mtu_bytes = (int)sys_read_number(1, INT_MAX, 0, "/sys/class/net/%s/mtu", name);
	/* Mbit/s; unknown is -1, or that as an unsigned number. */
	n->speed_bps = 1000000u *
		       (uint64_t)sys_read_number(1, INT_MAX, 0, "/sys/class/net/%s/speed", name);
	sys_read(n->state, sizeof(n->state), "/sys/class/net/%s/operstate", name);
	sys_read(n->mac, sizeof(n->mac), "/sys/class/net/%s/address", name);
	count_queues(n);
	read_device(n);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strverscmp(((const struct nic *)a)->name, ((const struct nic *)b)->name);
}

int nic_list(struct nic **nics, size_t *count, struct err *e)
{
	struct sys_names names;
	int ret;

	*nics = NULL;
	*count = 0;
	ret = sys_list(&names, "/sys/class/net");
	if (ret)
		return err_set(e, -ret, "cannot list the network interfaces: %m");

	*nics = calloc((size_t)names.count + 1, sizeof(**nics));
	if (!*nics) {
		ret = err_set(e, ENOMEM, "no memory for %d network interfaces", names.count);
		goto free_names;
	}
	/* Not all names are interfaces (bonding_masters), and one may have gone since. */
	for (int i = 0; i < names.count; i++)
		*count += !nic_for_name(*nics + *count, names.entry[i]->d_name, NULL);
	qsort(*nics, *count, sizeof(**nics), by_name);

free_names:
	sys_names_free(&names);
	return ret;
}

int nic_for_pci(struct nic *n, const char *address, struct err *e)
{
	char wanted[TOPO_ADDRESS_SIZE];
	struct nic *nics;
	size_t count, i;
	int ret;

	ret = topo_address_parse(wanted, address, e);
	if (ret)
		return ret;
	ret = nic_list(&nics, &count, e);
	if (ret)
		return ret;

	for (i = 0; i < count && strcmp(topo_address(&nics[i].place), wanted); i++)
		;
	if (i < count)
		*n = nics[i];
	else
		ret = err_set(e, ENODEV, "the PCI device %s has no network interface", wanted);
	free(nics);
	return ret;
}

/* A socket for both families reports IPv4 peers and itself as ::ffff:a.b.c.d. */
static const struct sockaddr *unmapped(const struct sockaddr *address, struct sockaddr_in *v4)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;

	if (address->sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
		return address;
	*v4 = (struct sockaddr_in){ .sin_family = AF_INET };
	memcpy(&v4->sin_addr, v6->sin6_addr.s6_addr + 12, sizeof(v4->sin_addr));
	return (const struct sockaddr *)v4;
}

static bool owns_v4(const struct ifaddrs *i, const struct sockaddr_in *wanted)
{
	const struct sockaddr_in *own = (const struct sockaddr_in *)i->ifa_addr;
	const struct sockaddr_in *mask = (const struct sockaddr_in *)i->ifa_netmask;
	in_addr_t differs = own->sin_addr.s_addr ^ wanted->sin_addr.s_addr;

	/* On loopback the whole prefix is local: 127.0.0.2 needs no address of its own. */
	if ((i->ifa_flags & IFF_LOOPBACK) && mask)
		differs &= mask->sin_addr.s_addr;
	return !differs;
}

static bool owns_v6(const struct ifaddrs *i, const struct sockaddr_in6 *wanted)
{
	const struct sockaddr_in6 *own = (const struct sockaddr_in6 *)i->ifa_addr;

	/* A link-local address may be there on every interface: the scope tells them apart. */
	return IN6_ARE_ADDR_EQUAL(&own->sin6_addr, &wanted->sin6_addr) &&
	       (!wanted->sin6_scope_id || own->sin6_scope_id == wanted->sin6_scope_id);
}

static bool owns(const struct ifaddrs *i, const struct sockaddr *wanted)
{
	if (!i->ifa_addr || i->ifa_addr->sa_family != wanted->sa_family)
		return false;
	return wanted->sa_family == AF_INET ? owns_v4(i, (const struct sockaddr_in *)wanted)
					    : owns_v6(i, (const struct sockaddr_in6 *)wanted);
}

static const char *address_text(const struct sockaddr *address, char text[INET6_ADDRSTRLEN])
{
	const void *bytes = address->sa_family == AF_INET
				    ? (const void *)&((const struct sockaddr_in *)address)->sin_addr
				    : &((const struct sockaddr_in6 *)address)->sin6_addr;

	return inet_ntop(address->sa_family, bytes, text, INET6_ADDRSTRLEN);
}

int nic_for_address(struct nic *n, const struct sockaddr *address, struct err *e)
{
	char name[IF_NAMESIZE] = "", text[INET6_ADDRSTRLEN];
	const struct sockaddr *wanted;
	struct ifaddrs *all, *i;
	struct sockaddr_in v4;

	if (address->sa_family != AF_INET && address->sa_family != AF_INET6)
		return err_set(e, EAFNOSUPPORT, "only IPv4 and IPv6 addresses have an interface");
	if (!sys_is_live())
		return err_set(e, ENOTSUP, "a recorded machine has no addresses to look up");
	if (getifaddrs(&all))
		return err_set(e, errno, "cannot read the addresses of this machine: %m");

	wanted = unmapped(address, &v4);
	for (i = all; i && !owns(i, wanted); i = i->ifa_next)
		;
	/* An IPv4 address may carry a label, "eth0:1". */
	if (i)
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(i->ifa_name, ":"), i->ifa_name);
	freeifaddrs(all);

	if (!name[0])
		return err_set(e, EADDRNOTAVAIL, "no network interface has the address %s",
			address_text(wanted, text));
	return nic_for_name(n, name, e);
}

/* 2: what peers use first, 1: what they can use, 0: neither. */
static int address_rank(const struct ifaddrs *i, const char *name)
{
	size_t length = strlen(name);

	if (!i->ifa_addr || strncmp(i->ifa_name, name, length) != 0 ||
		(i->ifa_name[length] && i->ifa_name[length] != ':'))
		return 0;
	if (i->ifa_addr->sa_family == AF_INET)
		return 2;
	return i->ifa_addr->sa_family == AF_INET6 &&
	       !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr);
}

int nic_address(struct sockaddr_storage *address, const char *name, struct err *e)
{
	const struct ifaddrs *best = NULL;
	struct ifaddrs *all;

	if (!sys_is_live())
		return err_set(e, ENOTSUP, "a recorded machine has no addresses to look up");
	if (getifaddrs(&all))
		return err_set(e, errno, "cannot read the addresses of this machine: %m");
	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		if (address_rank(i, name) > (best ? address_rank(best, name) : 0))
			best = i;
	*address = (struct sockaddr_storage){ 0 };
	if (best)
		memcpy(address, best->ifa_addr,
			best->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
							     : sizeof(struct sockaddr_in6));
	freeifaddrs(all);
	return best ? 0 : err_set(e, EADDRNOTAVAIL, "%s has no address", name);
}

void nic_irq_cpus(struct cpus *c, const struct nic *n)
{
	struct sys_names irqs;
	struct cpus one;
	char list[256];

	cpus_clear(c);
	sys_list(&irqs, "/sys/bus/pci/devices/%s/msi_irqs", topo_address(&n->place));
	for (int i = 0; i < irqs.count; i++) {
		const char *irq = irqs.entry[i]->d_name;

		if (sys_read(list, sizeof(list), "/proc/irq/%s/effective_affinity_list", irq) &&
			sys_read(list, sizeof(list), "/proc/irq/%s/smp_affinity_list", irq))
			continue;
		if (cpus_parse(&one, list, NULL))
			continue;
		for (int k = 0; k < one.count; k++)
			cpus_add(c, cpus_nth(&one, k));
	}
	sys_names_free(&irqs);
}

#define FEATURES_MAX 256ul

/* ABI: what the kernel answers stands behind the request, in its data[]. */
union feature_count {
	struct ethtool_sset_info request;
	char room[sizeof(struct ethtool_sset_info) + sizeof(uint32_t)];
};

union feature_names {
	struct ethtool_gstrings request;
	char room[sizeof(struct ethtool_gstrings) + FEATURES_MAX * ETH_GSTRING_LEN];
};

union feature_bits {
	struct ethtool_gfeatures request;
	char room[sizeof(struct ethtool_gfeatures) +
		  FEATURES_MAX / 32 * sizeof(struct ethtool_get_features_block)];
};

/* Our short names for the kernel's features; an offload is on when any of its features is. */
static const struct {
	const char *offload, *feature;
} features[] = {
	{ "tso", "tx-tcp-segmentation" },
	{ "gso", "tx-generic-segmentation" },
	{ "gro", "rx-gro" },
	{ "gro_hw", "rx-gro-hw" },
	{ "lro", "rx-lro" },
	{ "rx_checksum", "rx-checksum" },
	{ "tx_checksum", "tx-checksum-ip-generic" },
	{ "tx_checksum", "tx-checksum-ipv4" },
	{ "tx_checksum", "tx-checksum-ipv6" },
	{ "scatter_gather", "tx-scatter-gather" },
	{ "tx_nocache_copy", "tx-nocache-copy" },
	{ "rx_hash", "rx-hashing" },
	{ "ntuple", "rx-ntuple-filter" },
};

_Static_assert(sizeof(features) / sizeof(features[0]) <=
		       sizeof(((struct nic_ethtool *)0)->offload) / sizeof(struct nic_offload),
	"struct nic_ethtool has room for all offloads");

static int ask(int fd, const char *name, void *request)
{
	struct ifreq ifr = { .ifr_data = request };

	strcpy(ifr.ifr_name, name);
	return ioctl(fd, SIOCETHTOOL, &ifr) ? -errno : 0;
}

static void add_offload(struct nic_ethtool *t, const char *name, bool on)
{
	size_t i;

	for (i = 0; i < t->offload_count && strcmp(t->offload[i].name, name); i++)
		;
	if (i == t->offload_count)
		t->offload[t->offload_count++] = (struct nic_offload){ .name = name };
	t->offload[i].on |= on;
}

static void read_offloads(struct nic_ethtool *t, int fd, const char *nic)
{
	union feature_count count = { .request.cmd = ETHTOOL_GSSET_INFO };
	union feature_names names = { .request.cmd = ETHTOOL_GSTRINGS };
	union feature_bits bits = { .request.cmd = ETHTOOL_GFEATURES };
	const char *name;
	uint32_t known;

	count.request.sset_mask = 1u << ETH_SS_FEATURES;
	if (ask(fd, nic, &count) || !count.request.sset_mask)
		return;
	/* The kernel writes all names that it has, however many were asked for. */
	known = count.request.data[0];
	if (known > FEATURES_MAX)
		return;
	names.request.string_set = ETH_SS_FEATURES;
	names.request.len = known;
	bits.request.size = FEATURES_MAX / 32;
	if (ask(fd, nic, &names) || ask(fd, nic, &bits))
		return;

	for (size_t f = 0; f < sizeof(features) / sizeof(features[0]); f++) {
		for (size_t i = 0; i < known; i++) {
			name = (const char *)names.request.data + i * ETH_GSTRING_LEN;
			if (!strncmp(name, features[f].feature, ETH_GSTRING_LEN))
				add_offload(t, features[f].offload,
					bits.request.features[i / 32].active >> (i % 32) & 1);
		}
	}
}

static void copy_text(char to[32], const char from[32])
{
	snprintf(to, 32, "%.31s", from);
	sys_clean(to);
	if (!strcmp(to, "N/A"))
		to[0] = '\0';
}

int nic_ethtool_read(struct nic_ethtool *t, const char *name, struct err *e)
{
	struct ethtool_drvinfo info = { .cmd = ETHTOOL_GDRVINFO };
	int fd, ret;

	*t = (struct nic_ethtool){ 0 };
	if (!sys_is_live())
		return err_set(
			e, ENOTSUP, "a recorded machine has no driver to ask about %s", name);
	if (!is_name(name))
		return err_set(e, EINVAL, "'%s' cannot be the name of a network interface", name);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(e, errno, "cannot ask the driver of %s: %m", name);

	ret = ask(fd, name, &info);
	if (ret == -ENODEV) {
		err_set(e, ENODEV, "there is no network interface %s", name);
		goto close_fd;
	}
	copy_text(t->driver, info.driver);
	copy_text(t->version, info.version);
	copy_text(t->firmware, info.fw_version);
	read_offloads(t, fd, name);
	ret = 0;

close_fd:
	close(fd);
	return ret;
}
