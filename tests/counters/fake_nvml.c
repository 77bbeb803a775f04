// SPDX-License-Identifier: BSD-3-Clause
/* Not NVIDIA's: two GPUs that do not exist, for machines that have none. The first is throttled for most of the time,
 * trained to half of its lanes and sends packets again; the second is well. */
#include <stdint.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

struct pci_info {
	char bus_id_legacy[16];
	unsigned int domain, bus, device, pci_device_id, pci_subsystem_id;
	char bus_id[32];
};
struct violation {
	unsigned long long reference_us, violation_ns;
};

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT int nvmlDeviceGetCount_v2(unsigned int *count);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device);
EXPORT int nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *info);
EXPORT int nvmlDeviceGetViolationStatus(void *device, int policy, struct violation *v);
EXPORT int nvmlDeviceGetPcieReplayCounter(void *device, unsigned int *value);
EXPORT int nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned int *value);
EXPORT int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned int *value);
EXPORT int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned int *value);
EXPORT int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned int *value);

static char gpus[2];

static int is_ill(const void *device)
{
	return device == &gpus[0];
}

static unsigned long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (unsigned long long)t.tv_sec * 1000000000ull + (unsigned long long)t.tv_nsec;
}

int nvmlInit_v2(void)
{
	return 0;
}

int nvmlShutdown(void)
{
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned int *count)
{
	*count = 2;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device)
{
	*device = &gpus[index];
	return 0;
}

int nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *info)
{
	memset(info, 0, sizeof(*info));
	info->bus = is_ill(device) ? 0x1b : 0x43;
	return 0;
}

/* 80 % of the time that passes, for power (0); nothing for heat. */
int nvmlDeviceGetViolationStatus(void *device, int policy, struct violation *v)
{
	v->reference_us = now_ns() / 1000;
	v->violation_ns = is_ill(device) && !policy ? now_ns() / 10 * 8 : 0;
	return 0;
}

/* One more in each millisecond. */
int nvmlDeviceGetPcieReplayCounter(void *device, unsigned int *value)
{
	*value = is_ill(device) ? (unsigned int)(now_ns() / 1000000 % 1000000000) : 7;
	return 0;
}

int nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned int *value)
{
	(void)device;
	*value = 5;
	return 0;
}

int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned int *value)
{
	(void)device;
	*value = 5;
	return 0;
}

int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned int *value)
{
	*value = is_ill(device) ? 8 : 16;
	return 0;
}

int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned int *value)
{
	(void)device;
	*value = 16;
	return 0;
}
