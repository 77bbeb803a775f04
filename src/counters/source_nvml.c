// SPDX-License-Identifier: BSD-3-Clause
/* NVIDIA GPUs by their management library, which is opened at run time: own prototypes, ABI as
 * published. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "counters/source.h"

#define LIBRARY	 "libnvidia-ml.so.1"
#define GPUS_MAX 64

typedef int number_fn(void *device, unsigned int *value);

struct violation {
	unsigned long long reference_us, violation_ns;
};

struct pci_info {
	char bus_id_legacy[16];
	unsigned int domain, bus, device, pci_device_id, pci_subsystem_id;
	char bus_id[32];
};

struct nvml {
	void *library; /* NULL: not there */
	int (*shutdown)(void);
	int (*throughput)(void *device, int which, unsigned int *kbps);
	int (*reasons)(void *device, unsigned long long *bits);
	int (*violation)(void *device, int policy, struct violation *v);
	int (*temperature)(void *device, int sensor, unsigned int *celsius);
	number_fn *replays, *generation, *generation_max, *width, *width_max;
	unsigned int count;
	void *device[GPUS_MAX];
	char object[GPUS_MAX][64];
};

/* A function pointer cannot be assigned from dlsym() in ISO C. */
static void find(const struct nvml *n, const char *name, void *function)
{
	void *found = dlsym(n->library, name);

	memcpy(function, &found, sizeof(found));
}

static void name_gpu(struct nvml *n, unsigned int i, int (*pci)(void *, struct pci_info *))
{
	struct pci_info info = { 0 };

	if (pci && !pci(n->device[i], &info))
		snprintf(n->object[i], sizeof(n->object[i]), "gpu%u (%04x:%02x:%02x.0)", i,
			info.domain, info.bus, info.device);
	else
		snprintf(n->object[i], sizeof(n->object[i]), "gpu%u", i);
}

static void nvml_open(struct nvml *n)
{
	int (*init)(void), (*count)(unsigned int *), (*handle)(unsigned int, void **);
	int (*pci)(void *, struct pci_info *);

	n->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!n->library)
		return;
	find(n, "nvmlInit_v2", &init);
	find(n, "nvmlShutdown", &n->shutdown);
	find(n, "nvmlDeviceGetCount_v2", &count);
	find(n, "nvmlDeviceGetHandleByIndex_v2", &handle);
	find(n, "nvmlDeviceGetPciInfo_v3", &pci);
	find(n, "nvmlDeviceGetPcieThroughput", &n->throughput);
	find(n, "nvmlDeviceGetCurrentClocksThrottleReasons", &n->reasons);
	find(n, "nvmlDeviceGetViolationStatus", &n->violation);
	find(n, "nvmlDeviceGetTemperature", &n->temperature);
	find(n, "nvmlDeviceGetPcieReplayCounter", &n->replays);
	find(n, "nvmlDeviceGetCurrPcieLinkGeneration", &n->generation);
	find(n, "nvmlDeviceGetMaxPcieLinkGeneration", &n->generation_max);
	find(n, "nvmlDeviceGetCurrPcieLinkWidth", &n->width);
	find(n, "nvmlDeviceGetMaxPcieLinkWidth", &n->width_max);
	if (!init || !n->shutdown || !count || !handle || init()) {
		dlclose(n->library);
		n->library = NULL;
		return;
	}
	if (count(&n->count))
		n->count = 0;
	if (n->count > GPUS_MAX)
		n->count = GPUS_MAX;
	for (unsigned int i = 0; i < n->count; i++) {
		if (handle(i, &n->device[i]))
			n->device[i] = NULL;
		else
			name_gpu(n, i, pci);
	}
}

static void put_number(
	struct reader *r, const struct nvml *n, unsigned int i, const char *name, number_fn *ask)
{
	unsigned int value;

	if (ask && !ask(n->device[i], &value))
		reader_put(r, n->object[i], name, value, clock_wall_ns());
}

static void put_violation(
	struct reader *r, const struct nvml *n, unsigned int i, const char *name, int policy)
{
	struct violation v = { 0 };

	if (n->violation && !n->violation(n->device[i], policy, &v))
		reader_put(r, n->object[i], name, v.violation_ns, clock_wall_ns());
}

static void read_gpu(struct reader *r, const struct nvml *n, unsigned int i)
{
	unsigned long long bits;
	unsigned int value;

	put_number(r, n, i, "pcie_replays", n->replays);
	put_number(r, n, i, "pcie_generation", n->generation);
	put_number(r, n, i, "pcie_generation_max", n->generation_max);
	put_number(r, n, i, "pcie_width", n->width);
	put_number(r, n, i, "pcie_width_max", n->width_max);
	if (n->reasons && !n->reasons(n->device[i], &bits))
		reader_put(r, n->object[i], "throttle_reasons", bits, clock_wall_ns());
	put_violation(r, n, i, "throttle_power_ns", 0);
	put_violation(r, n, i, "throttle_thermal_ns", 1);
	if (n->temperature && !n->temperature(n->device[i], 0, &value))
		reader_put(r, n->object[i], "temperature_c", value, clock_wall_ns());
	/* The driver measures for 20 ms before it answers: only for who asks for this source alone. */
	for (int which = 0; n->throughput && r->options->sources && which < 2; which++)
		if (!n->throughput(n->device[i], which, &value))
			reader_put(r, n->object[i], which ? "pcie_rx_kbps" : "pcie_tx_kbps", value,
				clock_wall_ns());
}

static void nvml_read(struct reader *r, void **state)
{
	struct nvml *n = *state;

	if (!n) {
		n = *state = calloc(1, sizeof(*n));
		if (n)
			nvml_open(n);
	}
	for (unsigned int i = 0; n && n->library && i < n->count && !r->ret; i++)
		if (n->device[i] && reader_wants(r, n->object[i]))
			read_gpu(r, n, i);
}

static void nvml_forget(void *state)
{
	struct nvml *n = state;

	if (n->library) {
		n->shutdown();
		dlclose(n->library);
	}
	free(n);
}

const struct source source_nvml = {
	.name = "nvml",
	.about =
		"NVIDIA GPUs: PCIe link, replays, throttling (NVML); throughput where named by --source",
	.calls = true,
	.read = nvml_read,
	.forget = nvml_forget,
};
