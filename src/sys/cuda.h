/* SPDX-License-Identifier: BSD-3-Clause */
/* The CUDA driver, found at run time: nothing of it is needed to build weir, and a machine without
 * a GPU says so in one line.
 *
 *	const struct cuda *cu;
 *	struct cuda_device gpu;
 *
 *	ret = cuda_open(&cu, e);
 *	if (!ret)
 *		ret = cuda_device_find(&gpu, "0000:06:00.0", e);
 *	if (ret)
 *		return ret;
 *	ret = cuda_ok(cu->mem_alloc(&address, bytes), e, "cannot get %zu bytes of %s", bytes, gpu.name);
 *
 * The members of struct cuda are the driver's functions under our prototypes; NVIDIA's documentation
 * of the name beside each is their contract. They return 0 or a code that cuda_ok() turns into
 * -errno and words. Thread-safe.
 */
#ifndef WEIR_SYS_CUDA_H
#define WEIR_SYS_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sys/topo.h"

typedef unsigned long long cuda_address; /* of device memory */
typedef unsigned long long cuda_allocation;

struct cuda_context;
struct cuda_stream;
struct cuda_event;
struct cuda_module;
struct cuda_function;

/* Codes that callers look at. */
enum {
	CUDA_OUT_OF_MEMORY = 2,
	CUDA_NOT_READY = 600,
	CUDA_NOT_SUPPORTED = 801,
};

enum cuda_attribute {
	CUDA_MULTIPROCESSORS = 16,
	CUDA_HAS_VMM = 102,
	CUDA_HAS_VMM_RDMA = 110, /* memory of cuMemCreate can be made reachable for a NIC */
	CUDA_HAS_DMABUF = 124,
};

#define CUDA_STREAM_NON_BLOCKING  1u
#define CUDA_EVENT_DISABLE_TIMING 2u
#define CUDA_HOST_PORTABLE	  1u /* both flags of mem_host_alloc and mem_host_register */
#define CUDA_HOST_MAPPED	  2u
#define CUDA_POINTER_SYNC_MEMOPS  6
#define CUDA_POINTER_DEVICE	  9 /* index of the GPU that the memory belongs to */
#define CUDA_RANGE_DMABUF_FD	  1
#define CUDA_JIT_ERROR_LOG	  5
#define CUDA_JIT_ERROR_LOG_BYTES  6

struct cuda_location {
	int type; /* 1: a device */
	int id;
};

struct cuda_allocation_properties {
	int type;	  /* 1: pinned, the only one */
	int handle_types; /* 1: can be shared as a POSIX descriptor */
	struct cuda_location location;
	void *unused;
	unsigned char compression;
	unsigned char rdma; /* 1: a NIC may reach it */
	unsigned short usage;
	unsigned char reserved[4];
};

struct cuda_access {
	struct cuda_location location;
	int flags; /* 3: read and write */
};

/* clang-format off */
/* F(member, name in the library, arguments) */
#define CUDA_FUNCTIONS(F)                                                                          \
	F(init, "cuInit", (unsigned flags))                                                        \
	F(driver_version, "cuDriverGetVersion", (int *version))                                    \
	F(error_name, "cuGetErrorName", (int code, const char **name))                             \
	F(error_string, "cuGetErrorString", (int code, const char **text))                         \
	F(device_count, "cuDeviceGetCount", (int *count))                                          \
	F(device_get, "cuDeviceGet", (int *device, int index))                                     \
	F(device_name, "cuDeviceGetName", (char *name, int size, int device))                      \
	F(device_memory, "cuDeviceTotalMem_v2", (size_t *bytes, int device))                       \
	F(device_pci, "cuDeviceGetPCIBusId", (char *address, int size, int device))                \
	F(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))       \
	F(primary_retain, "cuDevicePrimaryCtxRetain",                                              \
		(struct cuda_context **context, int device))                                       \
	F(primary_release, "cuDevicePrimaryCtxRelease_v2", (int device))                           \
	F(context_push, "cuCtxPushCurrent_v2", (struct cuda_context *context))                     \
	F(context_pop, "cuCtxPopCurrent_v2", (struct cuda_context **context))                      \
	F(priority_range, "cuCtxGetStreamPriorityRange", (int *least, int *greatest))              \
	F(mem_info, "cuMemGetInfo_v2", (size_t *free_bytes, size_t *bytes))                        \
	F(mem_alloc, "cuMemAlloc_v2", (cuda_address *address, size_t bytes))                       \
	F(mem_free, "cuMemFree_v2", (cuda_address address))                                        \
	F(mem_host_alloc, "cuMemHostAlloc", (void **data, size_t bytes, unsigned flags))           \
	F(mem_host_free, "cuMemFreeHost", (void *data))                                            \
	F(mem_host_register, "cuMemHostRegister_v2", (void *data, size_t bytes, unsigned flags))   \
	F(mem_host_unregister, "cuMemHostUnregister", (void *data))                                \
	F(mem_host_address, "cuMemHostGetDevicePointer_v2",                                        \
		(cuda_address *address, void *data, unsigned flags))                               \
	F(pointer_get, "cuPointerGetAttribute",                                                    \
		(void *value, int attribute, cuda_address address))                                \
	F(pointer_set, "cuPointerSetAttribute",                                                    \
		(const void *value, int attribute, cuda_address address))                          \
	F(copy_async, "cuMemcpyAsync",                                                             \
		(cuda_address to, cuda_address from, size_t bytes, struct cuda_stream *stream))    \
	F(set_async, "cuMemsetD8Async",                                                            \
		(cuda_address to, unsigned char value, size_t bytes, struct cuda_stream *stream))  \
	F(stream_create, "cuStreamCreateWithPriority",                                             \
		(struct cuda_stream **stream, unsigned flags, int priority))                       \
	F(stream_destroy, "cuStreamDestroy_v2", (struct cuda_stream *stream))                      \
	F(stream_wait, "cuStreamSynchronize", (struct cuda_stream *stream))                        \
	F(event_create, "cuEventCreate", (struct cuda_event **event, unsigned flags))              \
	F(event_destroy, "cuEventDestroy_v2", (struct cuda_event *event))                          \
	F(event_record, "cuEventRecord", (struct cuda_event *event, struct cuda_stream *stream))   \
	F(event_query, "cuEventQuery", (struct cuda_event *event))                                 \
	F(event_wait, "cuEventSynchronize", (struct cuda_event *event))                            \
	F(event_elapsed, "cuEventElapsedTime",                                                     \
		(float *ms, struct cuda_event *start, struct cuda_event *end))                     \
	F(module_load, "cuModuleLoadDataEx",                                                       \
		(struct cuda_module **module, const void *image, unsigned count, int *options,     \
			void **values))                                                            \
	F(module_unload, "cuModuleUnload", (struct cuda_module *module))                           \
	F(module_function, "cuModuleGetFunction",                                                  \
		(struct cuda_function **function, struct cuda_module *module, const char *name))   \
	F(launch, "cuLaunchKernel",                                                                \
		(struct cuda_function *function, unsigned grid_x, unsigned grid_y,                 \
			unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,     \
			unsigned shared_bytes, struct cuda_stream *stream, void **arguments,       \
			void **extra))

/* NULL where the driver is older: VMM came with 10.2, dma-buf with 11.7. */
#define CUDA_NEWER_FUNCTIONS(F)                                                                    \
	F(range_handle, "cuMemGetHandleForAddressRange",                                           \
		(void *handle, cuda_address address, size_t bytes, int type,                       \
			unsigned long long flags))                                                 \
	F(mem_granularity, "cuMemGetAllocationGranularity",                                        \
		(size_t *bytes, const struct cuda_allocation_properties *p, int option))           \
	F(mem_create, "cuMemCreate",                                                               \
		(cuda_allocation *allocation, size_t bytes,                                        \
			const struct cuda_allocation_properties *p, unsigned long long flags))     \
	F(mem_release, "cuMemRelease", (cuda_allocation allocation))                               \
	F(address_reserve, "cuMemAddressReserve",                                                  \
		(cuda_address *address, size_t bytes, size_t alignment, cuda_address wanted,       \
			unsigned long long flags))                                                 \
	F(address_free, "cuMemAddressFree", (cuda_address address, size_t bytes))                  \
	F(mem_map, "cuMemMap",                                                                     \
		(cuda_address address, size_t bytes, size_t offset, cuda_allocation allocation,    \
			unsigned long long flags))                                                 \
	F(mem_unmap, "cuMemUnmap", (cuda_address address, size_t bytes))                           \
	F(mem_access, "cuMemSetAccess",                                                            \
		(cuda_address address, size_t bytes, const struct cuda_access *access,             \
			size_t count))
/* clang-format on */

struct cuda {
#define CUDA_MEMBER(member, symbol, arguments)                                                     \
	int(*member) arguments; /* NOLINT(bugprone-macro-parentheses) */
	CUDA_FUNCTIONS(CUDA_MEMBER)
	CUDA_NEWER_FUNCTIONS(CUDA_MEMBER)
#undef CUDA_MEMBER
};

/* The driver, loaded and initialised once for the process and never unloaded. -ENODEV with the
 * reason when there is no driver, no GPU, or the two do not fit. */
int cuda_open(const struct cuda **cu, struct err *e);

/* 0 for 0; otherwise "FORMAT: the driver's words (NAME)" in e, and -errno: -ENOMEM, -EINVAL,
 * -ENODEV, -EPERM, -EOPNOTSUPP, -EFAULT for a kernel that touched what is not its own, else -EIO. */
int cuda_ok(int code, struct err *e, const char *format, ...) __attribute__((format(printf, 3, 4)));

struct cuda_device {
	int index;  /* as CUDA counts, CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER respected */
	int handle; /* what the driver's functions take as device */
	char address[TOPO_ADDRESS_SIZE]; /* as in sysfs, "0000:06:00.0" */
	char name[64];
	uint64_t memory_bytes;
	int multiprocessors;
	bool dmabuf;   /* memory can be exported as a dma-buf */
	bool vmm;      /* cuMemCreate and its kin work */
	bool vmm_rdma; /* ... and its memory can be made reachable for a NIC */
};

/* All GPUs that CUDA shows, by index. The caller frees the array with free(). */
int cuda_device_list(struct cuda_device **devices, size_t *count, struct err *e);

/* One of them by index ("0") or PCI address; the first when which is NULL or empty. -ENODEV when
 * there is none such, with those that are there; -EINVAL when it is neither. */
int cuda_device_find(struct cuda_device *d, const char *which, struct err *e);

#endif
