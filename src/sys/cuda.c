// SPDX-License-Identifier: BSD-3-Clause
#include "sys/cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/path.h"

#define LIBRARY "libcuda.so.1"

/* Written once, under the lock, before anyone has a pointer to it. */
static struct cuda driver;
static bool driver_ready;
static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;

struct symbol {
	const char *name;
	size_t offset;
	bool needed;
};

#define CUDA_NEEDED(member, symbol, arguments) { symbol, offsetof(struct cuda, member), true },
#define CUDA_NEWER(member, symbol, arguments)  { symbol, offsetof(struct cuda, member), false },
static const struct symbol symbols[] = { CUDA_FUNCTIONS(CUDA_NEEDED)
		CUDA_NEWER_FUNCTIONS(CUDA_NEWER) };

static int find_symbols(struct cuda *cu, void *library, struct err *e)
{
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *function = dlsym(library, symbols[i].name);

		if (!function && symbols[i].needed) {
			err_set(e, ENODEV, "no GPU can be used: the CUDA driver has no %s",
				symbols[i].name);
			return err_hint(e, "install a driver of CUDA 10.2 or later");
		}
		memcpy((char *)cu + symbols[i].offset, &function, sizeof(function));
	}
	return 0;
}

static int explain_init(const struct cuda *cu, int code, struct err *e)
{
	const char *name = "unknown", *hint;

	cu->error_name(code, &name);
	switch (code) {
	case 34: /* CUDA_ERROR_STUB_LIBRARY */
		hint = "a stub of the driver for building is in the library path: remove it";
		break;
	case 100: /* CUDA_ERROR_NO_DEVICE */
		err_set(e, ENODEV, "no GPU: the CUDA driver is there and sees none");
		return err_hint(e, "look at: nvidia-smi -L, and at CUDA_VISIBLE_DEVICES");
	case 802: /* CUDA_ERROR_SYSTEM_NOT_READY */
		hint = "machines with NVSwitch need their manager: systemctl start nvidia-fabricmanager";
		break;
	case 803: /* CUDA_ERROR_SYSTEM_DRIVER_MISMATCH */
		hint = "the library and the kernel module are of different versions: reboot, or reload it";
		break;
	default:
		hint = "see whether nvidia-smi works, and whether /dev/nvidia-uvm is there";
	}
	err_set(e, ENODEV, "no GPU can be used: the CUDA driver does not start (%s, %d)", name,
		code);
	return err_hint(e, "%s", hint);
}

static int open_driver(struct err *e)
{
	struct cuda cu = { 0 };
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	int ret;

	if (!library) {
		err_set(e, ENODEV, "no GPU: this machine has no CUDA driver (%s)", dlerror());
		return err_hint(e, "all but CUDA memory works without one");
	}
	ret = find_symbols(&cu, library, e);
	if (ret) {
		dlclose(library);
		return ret;
	}
	ret = cu.init(0); /* NOLINT(clang-analyzer-core.CallAndMessage): found above, by its name */
	/* Not closed again: a driver that has begun to start may have threads. */
	if (ret)
		return explain_init(&cu, ret, e);
	driver = cu;
	driver_ready = true;
	return 0;
}

int cuda_open(const struct cuda **cu, struct err *e)
{
	int ret = 0;

	*cu = NULL;
	pthread_mutex_lock(&driver_lock);
	if (!driver_ready)
		ret = open_driver(e);
	pthread_mutex_unlock(&driver_lock);
	if (!ret)
		*cu = &driver;
	return ret;
}

static int code_errno(int code)
{
	switch (code) {
	case 1: /* CUDA_ERROR_INVALID_VALUE */
		return EINVAL;
	case CUDA_OUT_OF_MEMORY:
		return ENOMEM;
	case 100: /* CUDA_ERROR_NO_DEVICE */
	case 101: /* CUDA_ERROR_INVALID_DEVICE */
		return ENODEV;
	case 700: /* CUDA_ERROR_ILLEGAL_ADDRESS */
	case 716: /* CUDA_ERROR_MISALIGNED_ADDRESS */
	case 719: /* CUDA_ERROR_LAUNCH_FAILED */
		return EFAULT;
	case 712: /* CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED */
		return EEXIST;
	case 800: /* CUDA_ERROR_NOT_PERMITTED */
		return EPERM;
	case CUDA_NOT_SUPPORTED:
		return EOPNOTSUPP;
	default:
		return EIO;
	}
}

int cuda_ok(int code, struct err *e, const char *format, ...)
{
	const char *name = NULL, *text = NULL;
	char what[256];
	va_list args;

	if (!code)
		return 0;
	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	driver.error_name(code, &name);
	driver.error_string(code, &text);
	return err_set(e, code_errno(code), "%s: %s (%s, %d)", what, text ? text : "unknown error",
		name ? name : "unknown", code);
}

static bool device_has(const struct cuda *cu, int device, enum cuda_attribute attribute)
{
	int value = 0;

	/* An older driver does not know the newer attributes: then it does not have them. */
	return !cu->device_attribute(&value, (int)attribute, device) && value;
}

static int device_read(const struct cuda *cu, struct cuda_device *d, int index, struct err *e)
{
	char address[32] = "";
	size_t bytes = 0;
	int ret;

	memset(d, 0, sizeof(*d));
	d->index = index;
	ret = cuda_ok(cu->device_get(&d->handle, index), e, "cannot open GPU %d", index);
	if (!ret)
		ret = cuda_ok(cu->device_name(d->name, sizeof(d->name), d->handle), e,
			"cannot read the name of GPU %d", index);
	if (!ret)
		ret = cuda_ok(cu->device_pci(address, sizeof(address), d->handle), e,
			"cannot read the PCI address of GPU %d", index);
	if (!ret)
		ret = cuda_ok(cu->device_memory(&bytes, d->handle), e,
			"cannot read the memory size of GPU %d", index);
	if (!ret)
		ret = topo_address_parse(d->address, address, e);
	if (ret)
		return ret;
	sys_clean(d->name);
	d->memory_bytes = bytes;
	cu->device_attribute(&d->multiprocessors, CUDA_MULTIPROCESSORS, d->handle);
	d->dmabuf = cu->range_handle && device_has(cu, d->handle, CUDA_HAS_DMABUF);
	d->vmm = cu->mem_create && device_has(cu, d->handle, CUDA_HAS_VMM);
	d->vmm_rdma = d->vmm && device_has(cu, d->handle, CUDA_HAS_VMM_RDMA);
	return 0;
}

int cuda_device_list(struct cuda_device **devices, size_t *count, struct err *e)
{
	struct cuda_device *list;
	const struct cuda *cu;
	int n = 0, ret;

	*devices = NULL;
	*count = 0;
	ret = cuda_open(&cu, e);
	if (!ret)
		ret = cuda_ok(cu->device_count(&n), e, "cannot count the GPUs");
	if (ret)
		return ret;
	list = calloc((size_t)n + 1, sizeof(*list));
	if (!list)
		return err_set(e, ENOMEM, "no memory for a list of %d GPUs", n);
	for (int i = 0; !ret && i < n; i++)
		ret = device_read(cu, &list[i], i, e);
	if (ret) {
		free(list);
		return ret;
	}
	*devices = list;
	*count = (size_t)n;
	return 0;
}

static bool is_index(const char *text)
{
	return strlen(text) <= 4 && strspn(text, "0123456789") == strlen(text);
}

static int device_missing(
	const struct cuda_device *list, size_t count, const char *which, struct err *e)
{
	char all[200] = "";
	size_t used = 0;

	err_set(e, ENODEV, "CUDA shows no GPU %s", which);
	for (size_t i = 0; i < count && used < sizeof(all); i++)
		used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%d = %s", i ? ", " : "",
			list[i].index, list[i].address);
	return err_hint(e, "it shows: %s", count ? all : "none");
}

int cuda_device_find(struct cuda_device *d, const char *which, struct err *e)
{
	char address[TOPO_ADDRESS_SIZE] = "";
	struct cuda_device *list;
	size_t count, i = 0;
	int ret;

	memset(d, 0, sizeof(*d));
	if (!which || !which[0])
		which = "0";
	if (!is_index(which) && topo_address_parse(address, which, e)) {
		err_set(e, EINVAL, "%s is neither the index nor the PCI address of a GPU", which);
		return err_hint(e, "examples: 0, 0000:06:00.0; nvidia-smi -L lists them");
	}
	ret = cuda_device_list(&list, &count, e);
	if (ret)
		return ret;
	if (address[0])
		while (i < count && strcmp(list[i].address, address))
			i++;
	else
		i = (size_t)atoi(which);
	if (i < count)
		*d = list[i];
	else
		ret = device_missing(list, count, which, e);
	free(list);
	return ret;
}
