// SPDX-License-Identifier: BSD-3-Clause
/* Sources that are directories of sysfs: cxi, network interfaces, InfiniBand. */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "counters/source.h"
#include "sys/path.h"

static struct files *files_of(struct reader *r, void **state, enum file_form form)
{
	if (!*state)
		*state = files_new(form);
	if (!*state)
		r->ret = err_set(r->e, ENOMEM, "no memory for counters");
	return *state;
}

static void files_forget(void *state)
{
	files_free(state);
}

static void add(struct files *f, struct reader *r, const char *object, const char *prefix,
	const char *directory, bool below_root)
{
	int ret = files_add(f, r, object, prefix, directory, below_root, NULL);

	if (ret && ret != -ENOENT && ret != -ENOTDIR && !r->ret)
		reader_problem(r, directory, "cannot read it: %s", strerror(-ret));
}

/* cxi */

static bool is_cxi(const char *name)
{
	return !strncmp(name, "cxi", 3) && isdigit((unsigned char)name[3]) &&
	       !name[3 + strspn(name + 3, "0123456789")];
}

static void cxi_scan(
	struct files *f, struct reader *r, const char *parent, const char *name, bool below_root)
{
	char directory[PATH_MAX];

	if (!is_cxi(name) || !reader_wants(r, name))
		return;
	snprintf(directory, sizeof(directory), "%s/%s/device/telemetry", parent, name);
	add(f, r, name, "", directory, below_root);
}

/* ".../cxi3/device/telemetry" is that one NIC: its name, or false. */
static bool cxi_of_telemetry(const char *path, char nic[COUNTER_TEXT])
{
	static const char tail[] = "/device/telemetry";
	size_t length = strlen(path);
	const char *begin;

	if (length < sizeof(tail) || strcmp(path + length - sizeof(tail) + 1, tail))
		return false;
	length -= sizeof(tail) - 1;
	for (begin = path + length; begin > path && begin[-1] != '/';)
		begin--;
	snprintf(nic, COUNTER_TEXT, "%.*s", (int)(path + length - begin), begin);
	return is_cxi(nic);
}

static int cxi_refuse(struct reader *r, int code, const char *path, const char *why)
{
	err_set(r->e, code, "%s: %s", path, why);
	return err_hint(r->e,
		"give the directory that holds cxi0, cxi1, ... (/sys/class/cxi), or one "
		"NIC's .../cxi0/device/telemetry");
}

/* A directory that the user gave: all of it must make sense. */
static void cxi_scan_given(struct files *f, struct reader *r, const char *given)
{
	char path[PATH_MAX], nic[COUNTER_TEXT];
	struct dirent **entry = NULL;
	int count, nics = 0;

	snprintf(path, sizeof(path), "%s", given);
	for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = '\0';
	count = scandir(path, &entry, NULL, versionsort);
	if (count < 0) {
		r->ret = cxi_refuse(
			r, errno, path, errno == ENOTDIR ? "not a directory" : strerror(errno));
		return;
	}
	if (cxi_of_telemetry(path, nic)) {
		nics = 1;
		add(f, r, nic, "", path, false);
	}
	for (int i = 0; i < count; i++) {
		nics += is_cxi(entry[i]->d_name);
		cxi_scan(f, r, path, entry[i]->d_name, false);
		free(entry[i]);
	}
	free(entry);
	if (!nics && !r->ret)
		r->ret = cxi_refuse(
			r, EINVAL, path, "neither a telemetry directory nor one that holds cxi*");
	else if (!files_count(f) && !r->ret)
		r->ret = cxi_refuse(r, ENOENT, path, "no telemetry below it");
}

static void cxi_read(struct reader *r, void **state)
{
	struct files *f = files_of(r, state, FILE_TELEMETRY);
	struct sys_names nics;

	if (f && r->options->cxi) {
		cxi_scan_given(f, r, r->options->cxi);
	} else if (f && !sys_list(&nics, "/sys/class/cxi")) {
		for (int i = 0; i < nics.count; i++)
			cxi_scan(f, r, "/sys/class/cxi", nics.entry[i]->d_name, true);
		sys_names_free(&nics);
	}
	if (f && !r->ret)
		files_read(f, r);
}

const struct source source_cxi = {
	.name = "cxi",
	.about = "telemetry of HPE Cassini NICs: /sys/class/cxi/*/device/telemetry",
	.read = cxi_read,
	.forget = files_forget,
};

/* Beside the telemetry: when the link was restarted, the last times. */
static void cxi_link_read(struct reader *r, void **state)
{
	struct files *f = files_of(r, state, FILE_NUMBER);
	char directory[PATH_MAX];
	struct sys_names nics;

	if (!f || sys_list(&nics, "/sys/class/cxi"))
		return;
	for (int i = 0; i < nics.count && !r->ret; i++) {
		const char *nic = nics.entry[i]->d_name;

		if (!is_cxi(nic) || !reader_wants(r, nic))
			continue;
		snprintf(directory, sizeof(directory), "/sys/class/cxi/%s/device/link_restarts",
			nic);
		add(f, r, nic, "link_restarts.", directory, true);
	}
	sys_names_free(&nics);
	if (!r->ret)
		files_read(f, r);
}

const struct source source_cxi_link = {
	.name = "cxi_link",
	.about =
		"when links of HPE Cassini NICs were restarted: /sys/class/cxi/*/device/link_restarts",
	.read = cxi_link_read,
	.forget = files_forget,
};

/* /sys/class/net */

static void netdev_read(struct reader *r, void **state)
{
	static const char *const more[] = { "carrier_changes", "carrier_up_count",
		"carrier_down_count", "mtu", "speed", NULL };
	static const char *const ids[] = { "vendor", "device", NULL };
	struct files *f = files_of(r, state, FILE_NUMBER);
	char directory[PATH_MAX];
	struct sys_names nics;

	if (!f || sys_list(&nics, "/sys/class/net"))
		return;
	for (int i = 0; i < nics.count && !r->ret; i++) {
		const char *nic = nics.entry[i]->d_name;

		if (!reader_wants(r, nic))
			continue;
		snprintf(directory, sizeof(directory), "/sys/class/net/%s/statistics", nic);
		add(f, r, nic, "", directory, true);
		snprintf(directory, sizeof(directory), "/sys/class/net/%s", nic);
		files_add(f, r, nic, "", directory, true, more);
		/* What its siblings have in common. */
		snprintf(directory, sizeof(directory), "/sys/class/net/%s/device", nic);
		files_add(f, r, nic, "pci.", directory, true, ids);
	}
	sys_names_free(&nics);
	if (!r->ret)
		files_read(f, r);
}

const struct source source_netdev = {
	.name = "netdev",
	.about = "what the kernel counts of every interface: /sys/class/net/*/statistics",
	.read = netdev_read,
	.forget = files_forget,
};

/* InfiniBand and RoCE */

static void infiniband_port(struct files *f, struct reader *r, const char *device, const char *port)
{
	char directory[PATH_MAX], object[COUNTER_TEXT];

	snprintf(object, sizeof(object), "%s/%s", device, port);
	snprintf(directory, sizeof(directory), "/sys/class/infiniband/%s/ports/%s/counters", device,
		port);
	add(f, r, object, "", directory, true);
	snprintf(directory, sizeof(directory), "/sys/class/infiniband/%s/ports/%s/hw_counters",
		device, port);
	add(f, r, object, "", directory, true);
}

static void infiniband_read(struct reader *r, void **state)
{
	struct files *f = files_of(r, state, FILE_NUMBER);
	struct sys_names devices, ports;

	if (!f || sys_list(&devices, "/sys/class/infiniband"))
		return;
	for (int i = 0; i < devices.count && !r->ret; i++) {
		const char *device = devices.entry[i]->d_name;

		if (!reader_wants(r, device) ||
			sys_list(&ports, "/sys/class/infiniband/%s/ports", device))
			continue;
		for (int k = 0; k < ports.count; k++)
			infiniband_port(f, r, device, ports.entry[k]->d_name);
		sys_names_free(&ports);
	}
	sys_names_free(&devices);
	if (!r->ret)
		files_read(f, r);
}

const struct source source_infiniband = {
	.name = "infiniband",
	.about =
		"InfiniBand and RoCE ports: /sys/class/infiniband/*/ports/*/{counters,hw_counters}",
	.read = infiniband_read,
	.forget = files_forget,
};
