// SPDX-License-Identifier: BSD-3-Clause
/* Which NICs the channels of a connection use: those that were named, else those nearest to the GPU, else
 * the one that the connection itself takes. What cannot be had is an error: never another one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/gpu.h"
#include "sys/nic.h"
#include "xfer/engine.h"

static int device_named(struct net *n, const char *name, size_t length, struct err *e)
{
	struct net_properties p = { 0 };
	char all[256] = "";
	size_t at = 0;

	for (int d = 0; d < n->devices; d++) {
		int ret = n->ops->properties(n, d, &p, e);

		if (ret)
			return ret;
		if (strlen(p.name) == length && !strncmp(p.name, name, length))
			return d;
		if (at < sizeof(all))
			at += (size_t)snprintf(
				all + at, sizeof(all) - at, "%s%s", d ? ", " : "", p.name);
	}
	err_set(e, ENODEV, "the %s transport has no device %.*s", n->ops->name, (int)length, name);
	if (n->ignored)
		return err_hint(e, "it has: %s; up, but without a link: %s", all, n->ignored);
	return err_hint(e, "it has: %s", all);
}

static int choose_named(
	struct net *n, const char *names, int *device, unsigned int *count, struct err *e)
{
	size_t length;

	for (*count = 0; *names; names += length + (names[length] == ',')) {
		length = strcspn(names, ",");
		if (!length)
			return err_set(e, EINVAL, "an empty name among the devices");
		if (*count == DEVICES_MAX)
			return err_set(e, E2BIG, "more than %d devices", DEVICES_MAX);
		device[*count] = device_named(n, names, length, e);
		if (device[*count] < 0)
			return device[*count];
		(*count)++;
	}
	return *count ? 0 : err_set(e, EINVAL, "no device is named");
}

static int gpu_place(int index, struct topo_place *place, struct err *e)
{
	struct gpu *gpus;
	size_t count;
	int ret = gpu_list(&gpus, &count, e);

	if (ret)
		return ret;
	if ((size_t)index < count) {
		*place = gpus[index].place;
	} else {
		ret = err_set(e, ENODEV, "there is no GPU %d: this machine has %zu", index, count);
		err_hint(e, "host memory needs none: --mem host");
	}
	free(gpus);
	return ret;
}

static int choose_nearest(struct net *n, int gpu, int *device, unsigned int *count, struct err *e)
{
	enum topo_distance best = TOPO_SYS;
	struct topo_place near, place;
	struct net_properties p = { 0 };
	int ret = gpu_place(gpu, &near, e);

	*count = 0;
	for (int d = 0; !ret && d < n->devices; d++) {
		enum topo_distance distance = TOPO_SYS;

		ret = n->ops->properties(n, d, &p, e);
		if (ret)
			break;
		if (p.pci_path && !topo_place_read(&place, p.pci_path, NULL))
			distance = topo_distance(&near, &place);
		if (distance < best) {
			best = distance;
			*count = 0;
		}
		if (distance == best && *count < DEVICES_MAX)
			device[(*count)++] = d;
	}
	return ret;
}

static int choose_route(struct net *n, int fd, int *device, unsigned int *count, struct err *e)
{
	struct sock_addr local;
	struct nic nic;
	int ret;

	/* A plugin's devices need not be interfaces: where there is no choice there is no question, unless the
	 * right one is missing because it has no link. */
	*count = 1;
	device[0] = 0;
	if (n->devices == 1 && !n->ignored)
		return 0;
	ret = sock_local(fd, &local);
	if (ret)
		return err_set(e, -ret, "cannot tell the local address of a connection: %s",
			strerror(-ret));
	ret = nic_for_address(&nic, (const struct sockaddr *)&local.storage, e);
	if (ret)
		return ret;
	device[0] = device_named(n, nic.name, strlen(nic.name), e);
	return device[0] < 0 ? device[0] : 0;
}

static void name_them(
	struct net *n, const int *device, unsigned int count, char *names, size_t size)
{
	struct net_properties p = { 0 };
	size_t at = 0;

	names[0] = '\0';
	for (unsigned int i = 0; i < count && at < size; i++)
		if (!n->ops->properties(n, device[i], &p, NULL))
			at += (size_t)snprintf(names + at, size - at, "%s%s", i ? "," : "", p.name);
}

int devices_choose(struct weir_p2p *p, int fd, int device[DEVICES_MAX], unsigned int *count,
	char *names, size_t size, struct err *e)
{
	int ret;

	if (p->config.devices)
		ret = choose_named(p->net, p->config.devices, device, count, e);
	else if (p->config.gpu >= 0)
		ret = choose_nearest(p->net, p->config.gpu, device, count, e);
	else
		ret = choose_route(p->net, fd, device, count, e);
	if (!ret)
		name_them(p->net, device, *count, names, size);
	return ret;
}
