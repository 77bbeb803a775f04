/* SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "sys/path.h"
#include "sys/topo.h"

int topo_address_parse(char address[TOPO_ADDRESS_SIZE], const char *text, struct err *e)
{
	unsigned int domain = 0, bus, slot, function;
	int used = 0;

	if (sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &used) != 4) {
		domain = 0;
		if (sscanf(text, "%2x:%2x.%1x%n", &bus, &slot, &function, &used) != 3)
			used = 0;
	}
	if (!used || text[used] || bus > 0xff || slot > 0x1f || function > 7) {
		err_set(e, EINVAL, "'%s' is not a PCI address", text);
		return err_hint(e, "write it as in 0000:06:00.0");
	}
	snprintf(address, TOPO_ADDRESS_SIZE, "%04x:%02x:%02x.%x", domain, bus, slot, function);
	return 0;
}

static bool is_address(const char *text)
{
	char address[TOPO_ADDRESS_SIZE];

	return !topo_address_parse(address, text, NULL) && !strcmp(address, text);
}

static bool is_host_bridge(const char *text)
{
	unsigned int domain, bus;
	int used = 0;

	return sscanf(text, "pci%8x:%2x%n", &domain, &bus, &used) == 2 && !text[used] &&
	       used < TOPO_ADDRESS_SIZE;
}

/* Read host bridge and chain off a resolved path, and cut the path behind the last PCI function. */
static int read_chain(struct topo_place *p, char *path)
{
	char *end = NULL;

	for (char *part = path + 1, *slash; part; part = slash ? slash + 1 : NULL) {
		slash = strchr(part, '/');
		if (slash)
			*slash = '\0';
		if (!p->host_bridge[0] && is_host_bridge(part)) {
			strcpy(p->host_bridge, part);
		} else if (is_address(part)) {
			if (p->depth == TOPO_DEPTH_MAX)
				return -E2BIG;
			strcpy(p->chain[p->depth++], part);
			end = part + strlen(part);
		}
		if (slash)
			*slash = '/';
	}
	if (end)
		*end = '\0';
	return 0;
}

static void read_numa(struct topo_place *p, const char *path)
{
	char list[4096];

	p->numa_node = (int)sys_read_number(0, INT_MAX, -1, "%s/numa_node", path);
	/* Firmware often names no node where there is only one. */
	if (p->numa_node < 0 && !sys_read(list, sizeof(list), "/sys/devices/system/node/online") &&
		!strcmp(list, "0"))
		p->numa_node = 0;

	if (sys_read(list, sizeof(list), "%s/local_cpulist", path) && p->numa_node >= 0)
		sys_read(list, sizeof(list), "/sys/devices/system/node/node%d/cpulist",
			p->numa_node);
	if (cpus_parse(&p->local_cpus, list, NULL))
		cpus_clear(&p->local_cpus);
}

static void read_link(struct topo_link *l, const char *path, const char *which)
{
	int whole = 0, tenths = 0;
	char text[64];

	l->width = (int)sys_read_number(1, 64, 0, "%s/%s_link_width", path, which);
	sys_read(text, sizeof(text), "%s/%s_link_speed", path, which);
	if (strstr(text, "GT/s") && sscanf(text, "%3d.%1d", &whole, &tenths) >= 1 && whole > 0)
		l->speed_mtps = whole * 1000 + tenths * 100;
}

int topo_place_read(struct topo_place *p, const char *device, struct err *e)
{
	char path[PATH_MAX];
	int ret;

	*p = (struct topo_place){ .numa_node = -1 };
	ret = sys_resolve(path, sizeof(path), "%s", device);
	if (ret)
		return err_set(e, -ret, "cannot find the device %s: %m", device);
	ret = read_chain(p, path);
	if (ret) {
		*p = (struct topo_place){ .numa_node = -1 };
		return err_set(e, -ret, "%s has more than %d PCI bridges above it", device,
			TOPO_DEPTH_MAX);
	}
	read_numa(p, path);
	read_link(&p->link_now, path, "current");
	read_link(&p->link_max, path, "max");
	return 0;
}

const char *topo_address(const struct topo_place *p)
{
	return p->depth ? p->chain[p->depth - 1] : "";
}

enum topo_distance topo_distance(const struct topo_place *a, const struct topo_place *b)
{
	int shared = 0;

	while (shared < a->depth && shared < b->depth &&
		!strcmp(a->chain[shared], b->chain[shared]))
		shared++;

	/* Below the last shared port, one switch adds its downstream port and the device itself. */
	if (shared)
		return a->depth - shared <= 2 && b->depth - shared <= 2 ? TOPO_PIX : TOPO_PXB;
	if (a->host_bridge[0] && !strcmp(a->host_bridge, b->host_bridge))
		return TOPO_PHB;
	return a->numa_node >= 0 && a->numa_node == b->numa_node ? TOPO_NODE : TOPO_SYS;
}

const char *topo_distance_name(enum topo_distance d)
{
	static const char *const name[] = { "PIX", "PXB", "PHB", "NODE", "SYS" };

	return name[d];
}
