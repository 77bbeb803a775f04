/* SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/gpu.h"
#include "sys/path.h"

/* Data centre GPUs call themselves VGA, 3D or other display controllers, or processing
 * accelerators. */
static bool is_gpu_class(int64_t class)
{
	return class >> 16 == 0x03 || class >> 8 == 0x1200;
}

static bool read_gpu(struct gpu *g, const char *address)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", address);
	if (!is_gpu_class(sys_read_number(0, 0xffffff, 0, "%s/class", path)))
		return false;
	g->vendor = (uint16_t)sys_read_number(0, 0xffff, 0, "%s/vendor", path);
	if (g->vendor != GPU_VENDOR_NVIDIA && g->vendor != GPU_VENDOR_AMD)
		return false;
	g->device = (uint16_t)sys_read_number(0, 0xffff, 0, "%s/device", path);
	return !topo_place_read(&g->place, path, NULL);
}

int gpu_list(struct gpu **gpus, size_t *count, struct err *e)
{
	struct sys_names names;
	int ret;

	*gpus = NULL;
	*count = 0;
	ret = sys_list(&names, "/sys/bus/pci/devices");
	/* A machine whose buses can be seen and that has no PCI has no GPUs. */
	if (ret && !(ret == -ENOENT && sys_is_dir("/sys/bus")))
		return err_set(e, -ret, "cannot list the PCI devices: %m");

	ret = 0;
	*gpus = calloc((size_t)names.count + 1, sizeof(**gpus));
	if (!*gpus) {
		ret = err_set(e, ENOMEM, "no memory for %d PCI devices", names.count);
		goto free_names;
	}
	for (int i = 0; i < names.count; i++)
		*count += read_gpu(*gpus + *count, names.entry[i]->d_name);

free_names:
	sys_names_free(&names);
	return ret;
}

const char *gpu_vendor_name(const struct gpu *g)
{
	return g->vendor == GPU_VENDOR_NVIDIA ? "NVIDIA" : "AMD";
}
