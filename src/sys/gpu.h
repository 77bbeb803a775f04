/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPUs of this machine as the PCI bus shows them: no driver is opened, none need be loaded.
 *
 *	struct gpu *gpus;
 *	size_t count;
 *
 *	ret = gpu_list(&gpus, &count, e);
 *	...
 *	near = topo_distance(&gpus[0].place, &nic.place) <= TOPO_PXB;
 *	free(gpus);
 *
 * Thread-safe.
 */
#ifndef WEIR_SYS_GPU_H
#define WEIR_SYS_GPU_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sys/topo.h"

#define GPU_VENDOR_AMD	  0x1002
#define GPU_VENDOR_NVIDIA 0x10de

struct gpu {
	uint16_t vendor; /* one of the above: others (a management controller's VGA) are left out */
	uint16_t device; /* PCI device id, 0 unknown */
	struct topo_place place;
};

/* All GPUs, sorted by PCI address (CUDA_DEVICE_ORDER=PCI_BUS_ID); none is not an error. The caller
 * frees the array with free(). */
int gpu_list(struct gpu **gpus, size_t *count, struct err *e);

const char *gpu_vendor_name(const struct gpu *g); /* "NVIDIA", "AMD" */

#endif
