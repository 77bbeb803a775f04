/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_cuda.h"

#include <fcntl.h>
#include <linux/udmabuf.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* What kernels.cu takes from CUDA. */
typedef struct {
	unsigned x, y, z, w;
} __attribute__((aligned(16))) uint4;
static __thread struct {
	unsigned x;
} blockIdx, blockDim, threadIdx, gridDim;
#define KERNEL static void
#define DEVICE static inline
#define UNROLLED
#define __ldcs(p)    (*(p))
#define __stcs(p, v) (*(p) = (v))
#define __funnelshift_r(low, high, bits)                                                           \
	((unsigned)(((unsigned long long)(high) << 32 | (low)) >> (bits)))
#define atomicMin(p, v)                                                                            \
	do {                                                                                       \
		if ((v) < *(p))                                                                    \
			*(p) = (v);                                                                \
	} while (0)
#include "mem/kernels.cu"

#define EXPORT __attribute__((visibility("default")))
/* A definition with the prototype that the compiler asks for. */
#define FAKE(name, ...)                                                                            \
	int name(__VA_ARGS__);                                                                     \
	EXPORT int name(__VA_ARGS__)

extern struct fake_cuda fake_cuda;
EXPORT struct fake_cuda fake_cuda;

#define INVALID_VALUE	1
#define INVALID_CONTEXT 201
#define NOT_READY	600
#define CONTEXT		((void *)0x1000)
#define GUARD		((size_t)4096)
#define MEMORY_BYTES	((size_t)1 << 34)

static __thread int depth; /* of the stack of current contexts */

static int failing(const char *name)
{
	if (!fake_cuda.fail || strcmp(fake_cuda.fail, name) || fake_cuda.fail_after-- > 0)
		return 0;
	fake_cuda.fail = NULL;
	return fake_cuda.fail_code;
}

#define BEGIN()                                                                                    \
	do {                                                                                       \
		int failed = failing(__func__);                                                    \
		if (failed)                                                                        \
			return failed;                                                             \
	} while (0)
#define IN_CONTEXT()                                                                               \
	do {                                                                                       \
		BEGIN();                                                                           \
		if (!depth) {                                                                      \
			fake_cuda.wrong++;                                                         \
			return INVALID_CONTEXT;                                                    \
		}                                                                                  \
	} while (0)
#define IN_STREAM(stream)                                                                          \
	do {                                                                                       \
		IN_CONTEXT();                                                                      \
		if (!(stream))                                                                     \
			fake_cuda.wrong++;                                                         \
	} while (0)

FAKE(cuInit, unsigned flags)
{
	(void)flags;
	BEGIN();
	return 0;
}

FAKE(cuDriverGetVersion, int *version)
{
	*version = 13000;
	return 0;
}

FAKE(cuGetErrorName, int code, const char **name)
{
	*name = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
	return 0;
}

FAKE(cuGetErrorString, int code, const char **text)
{
	*text = code == 2 ? "out of memory" : "a fake failure";
	return 0;
}

FAKE(cuDeviceGetCount, int *count)
{
	BEGIN();
	*count = 2;
	return 0;
}

FAKE(cuDeviceGet, int *device, int index)
{
	BEGIN();
	*device = index;
	return 0;
}

FAKE(cuDeviceGetName, char *name, int size, int device)
{
	snprintf(name, (size_t)size, "Fake GPU %d", device);
	return 0;
}

FAKE(cuDeviceTotalMem_v2, size_t *bytes, int device)
{
	(void)device;
	*bytes = MEMORY_BYTES;
	return 0;
}

FAKE(cuDeviceGetPCIBusId, char *address, int size, int device)
{
	snprintf(address, (size_t)size, "0000:%02X:00.0", 0xa6 + device);
	return 0;
}

FAKE(cuDeviceGetAttribute, int *value, int attribute, int device)
{
	(void)device;
	*value = attribute == 16 ? 4 : 1;
	return 0;
}

FAKE(cuDevicePrimaryCtxRetain, void **context, int device)
{
	(void)device;
	BEGIN();
	fake_cuda.retained++;
	*context = CONTEXT;
	return 0;
}

FAKE(cuDevicePrimaryCtxRelease_v2, int device)
{
	(void)device;
	fake_cuda.retained--;
	return 0;
}

FAKE(cuCtxPushCurrent_v2, void *context)
{
	BEGIN();
	fake_cuda.wrong += context != CONTEXT || !fake_cuda.retained;
	depth++;
	return 0;
}

FAKE(cuCtxPopCurrent_v2, void **context)
{
	fake_cuda.wrong += !depth;
	depth--;
	*context = CONTEXT;
	return 0;
}

FAKE(cuCtxGetStreamPriorityRange, int *least, int *greatest)
{
	IN_CONTEXT();
	*least = 0;
	*greatest = -5;
	return 0;
}

FAKE(cuMemGetInfo_v2, size_t *free_bytes, size_t *bytes)
{
	IN_CONTEXT();
	*bytes = MEMORY_BYTES;
	*free_bytes = (size_t)7 << 30;
	return 0;
}

/* What stands before an allocation; behind it is nothing: who goes there gets a signal. */
struct before {
	size_t bytes;
	int memfd; /* that it is of, so that it can be exported */
	struct before *next;
};
static struct before *allocations;
static pthread_mutex_t allocations_lock = PTHREAD_MUTEX_INITIALIZER;

static char *guarded(size_t bytes)
{
	size_t whole = (bytes + GUARD - 1) / GUARD * GUARD + 2 * GUARD;
	int fd = memfd_create("fake-gpu", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct before *before;
	char *p;

	if (fd < 0 || ftruncate(fd, (off_t)whole) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		return NULL;
	p = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		close(fd);
		return NULL;
	}
	before = (struct before *)(void *)p;
	before->bytes = whole;
	before->memfd = fd;
	mprotect(p + whole - GUARD, GUARD, PROT_NONE);
	pthread_mutex_lock(&allocations_lock);
	before->next = allocations;
	allocations = before;
	pthread_mutex_unlock(&allocations_lock);
	return p + GUARD;
}

static void unguard(char *p)
{
	struct before *before = (struct before *)(void *)(p - GUARD), **link = &allocations;

	pthread_mutex_lock(&allocations_lock);
	while (*link != before)
		link = &(*link)->next;
	*link = before->next;
	pthread_mutex_unlock(&allocations_lock);
	close(before->memfd);
	munmap(before, before->bytes);
}

/* A dma-buf that NICs reach, where the kernel makes them of memfds. */
static int export(unsigned long long address, size_t bytes)
{
	int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), fd = -1;
	const struct before *b;

	pthread_mutex_lock(&allocations_lock);
	for (b = allocations; b; b = b->next)
		if (address >= (uintptr_t)b && address + bytes <= (uintptr_t)b + b->bytes)
			break;
	if (b && device >= 0) {
		struct udmabuf_create create = { .memfd = (unsigned)b->memfd,
			.flags = UDMABUF_FLAGS_CLOEXEC,
			.offset = address - (uintptr_t)b,
			.size = bytes };

		fd = ioctl(device, UDMABUF_CREATE, &create);
	}
	pthread_mutex_unlock(&allocations_lock);
	if (device >= 0)
		close(device);
	return fd;
}

FAKE(cuMemAlloc_v2, unsigned long long *address, size_t bytes)
{
	char *p;

	IN_CONTEXT();
	p = bytes > MEMORY_BYTES ? NULL : guarded(bytes + 512);
	if (!p)
		return 2;
	fake_cuda.memory++;
	*address = (uintptr_t)p + (fake_cuda.misalign ? 512 : 0);
	return 0;
}

FAKE(cuMemFree_v2, unsigned long long address)
{
	IN_CONTEXT();
	fake_cuda.memory--;
	unguard((char *)(uintptr_t)(address & ~4095ull));
	return 0;
}

FAKE(cuMemHostAlloc, void **data, size_t bytes, unsigned flags)
{
	(void)flags;
	IN_CONTEXT();
	*data = guarded(bytes);
	if (!*data)
		return 2;
	fake_cuda.pinned++;
	return 0;
}

FAKE(cuMemFreeHost, void *data)
{
	IN_CONTEXT();
	fake_cuda.pinned--;
	unguard(data);
	return 0;
}

FAKE(cuMemHostRegister_v2, void *data, size_t bytes, unsigned flags)
{
	(void)data, (void)bytes, (void)flags;
	IN_CONTEXT();
	fake_cuda.registered++;
	return 0;
}

FAKE(cuMemHostUnregister, const void *data)
{
	(void)data;
	IN_CONTEXT();
	fake_cuda.registered--;
	return 0;
}

FAKE(cuMemHostGetDevicePointer_v2, unsigned long long *address, const void *data, unsigned flags)
{
	(void)flags;
	IN_CONTEXT();
	*address = (uintptr_t)data;
	return 0;
}

FAKE(cuPointerGetAttribute, void *value, int attribute, unsigned long long address)
{
	(void)address;
	BEGIN();
	if (!depth)
		return INVALID_CONTEXT;
	*(int *)value = 0;
	return attribute == 9 ? 0 : INVALID_VALUE;
}

FAKE(cuPointerSetAttribute, const void *value, int attribute, unsigned long long address)
{
	(void)value, (void)address;
	IN_CONTEXT();
	return attribute == 6 ? 0 : INVALID_VALUE;
}

FAKE(cuMemcpyAsync, unsigned long long to, unsigned long long from, size_t bytes, void *stream)
{
	IN_STREAM(stream);
	memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
	return 0;
}

FAKE(cuMemsetD8Async, unsigned long long to, unsigned char value, size_t bytes, void *stream)
{
	IN_STREAM(stream);
	memset((void *)(uintptr_t)to, value, bytes);
	return 0;
}

FAKE(cuStreamCreateWithPriority, void **stream, unsigned flags, int priority)
{
	(void)priority;
	IN_CONTEXT();
	fake_cuda.wrong += flags != 1; /* non-blocking */
	fake_cuda.streams++;
	*stream = (void *)0x2000;
	return 0;
}

FAKE(cuStreamDestroy_v2, void *stream)
{
	IN_STREAM(stream);
	fake_cuda.streams--;
	return 0;
}

FAKE(cuStreamSynchronize, void *stream)
{
	IN_STREAM(stream);
	return 0;
}

FAKE(cuEventCreate, void **event, unsigned flags)
{
	IN_CONTEXT();
	fake_cuda.wrong += flags != 2; /* no timing */
	fake_cuda.events++;
	*event = (void *)0x3000;
	return 0;
}

FAKE(cuEventDestroy_v2, void *event)
{
	(void)event;
	IN_CONTEXT();
	fake_cuda.events--;
	return 0;
}

FAKE(cuEventRecord, void *event, void *stream)
{
	(void)event;
	IN_STREAM(stream);
	return 0;
}

FAKE(cuEventQuery, void *event)
{
	(void)event;
	BEGIN();
	if (!fake_cuda.lag)
		return 0;
	fake_cuda.lag--;
	return NOT_READY;
}

FAKE(cuEventSynchronize, void *event)
{
	(void)event;
	BEGIN();
	fake_cuda.lag = 0;
	return 0;
}

FAKE(cuEventElapsedTime, float *ms, void *start, void *end)
{
	(void)start, (void)end;
	*ms = 1;
	return 0;
}

FAKE(cuModuleLoadDataEx, void **module, const void *image, unsigned count, const int *options,
	void **values)
{
	int failed = failing(__func__);

	if (!depth || count != 2 || options[0] != 5 || options[1] != 6) {
		fake_cuda.wrong++;
		return INVALID_CONTEXT;
	}
	if (failed) {
		snprintf(values[0], (size_t)(uintptr_t)values[1], "line 7: no such instruction");
		return failed;
	}
	if (!strstr(image, ".visible .entry weir_gather("))
		return 200;
	fake_cuda.modules++;
	*module = (void *)0x4000;
	return 0;
}

FAKE(cuModuleUnload, void *module)
{
	(void)module;
	IN_CONTEXT();
	fake_cuda.modules--;
	return 0;
}

FAKE(cuModuleGetFunction, void **function, void *module, const char *name)
{
	static const char *const names[] = { "weir_fill", "weir_check", "weir_gather" };

	(void)module;
	IN_CONTEXT();
	for (uintptr_t i = 0; i < 3; i++)
		if (!strcmp(name, names[i])) {
			*function = (void *)(i + 1); /* NOLINT(performance-no-int-to-ptr) */
			return 0;
		}
	return 500;
}

#define ARG(type, i) (*(type *)arguments[i])

static void run_thread(uintptr_t kernel, void **arguments)
{
	if (kernel == 1)
		weir_fill(ARG(u8 *, 0), ARG(u64, 1), ARG(u64, 2), ARG(const u8 *, 3), ARG(u64, 4));
	else if (kernel == 2)
		weir_check(ARG(const struct fragment *, 0), ARG(u32, 1), ARG(u32, 2), ARG(u32, 3),
			ARG(const u8 *, 4), ARG(const u8 *, 5), ARG(u64, 6), ARG(u64 *, 7));
	else
		weir_gather(ARG(const struct fragment *, 0), ARG(u32, 1), ARG(u32, 2), ARG(u32, 3),
			ARG(const u8 *, 4), ARG(u8 *, 5), ARG(u64, 6));
}

FAKE(cuLaunchKernel, void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
	unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream,
	void **arguments, void **extra)
{
	IN_STREAM(stream);
	if (!grid_x || grid_y != 1 || grid_z != 1 || !block_x || block_y != 1 || block_z != 1 ||
		shared_bytes || extra)
		return INVALID_VALUE;
	fake_cuda.launches++;
	gridDim.x = grid_x;
	blockDim.x = block_x;
	for (blockIdx.x = 0; blockIdx.x < grid_x; blockIdx.x++)
		for (threadIdx.x = 0; threadIdx.x < block_x; threadIdx.x++)
			run_thread((uintptr_t)function, arguments);
	return 0;
}

FAKE(cuMemGetHandleForAddressRange, void *handle, unsigned long long address, size_t bytes,
	int type, unsigned long long flags)
{
	IN_CONTEXT();
	if (type != 1 || flags || address % 4096 || bytes % 4096)
		return INVALID_VALUE;
	*(int *)handle = export(address, bytes);
	if (*(int *)handle < 0)
		*(int *)handle = memfd_create("fake-dmabuf", MFD_CLOEXEC);
	return 0;
}

FAKE(cuMemGetAllocationGranularity, size_t *bytes, const void *properties, int option)
{
	(void)properties, (void)option;
	IN_CONTEXT();
	*bytes = 2 << 20;
	return 0;
}

FAKE(cuMemCreate, unsigned long long *allocation, size_t bytes, const int *properties,
	unsigned long long flags)
{
	int fd;

	(void)flags;
	IN_CONTEXT();
	if (properties[0] != 1 || properties[1] != 1 || bytes % (2 << 20))
		return INVALID_VALUE;
	if (bytes > MEMORY_BYTES)
		return 2;
	fd = memfd_create("fake-vmm", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		return 2;
	fake_cuda.memory++;
	*allocation = (unsigned long long)fd;
	return 0;
}

FAKE(cuMemRelease, unsigned long long allocation)
{
	IN_CONTEXT();
	fake_cuda.memory--;
	return close((int)allocation);
}

FAKE(cuMemAddressReserve, unsigned long long *address, size_t bytes, size_t alignment,
	unsigned long long wanted, unsigned long long flags)
{
	void *p;

	(void)alignment, (void)wanted, (void)flags;
	IN_CONTEXT();
	p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return 2;
	fake_cuda.mappings++;
	*address = (uintptr_t)p;
	return 0;
}

FAKE(cuMemAddressFree, unsigned long long address, size_t bytes)
{
	IN_CONTEXT();
	fake_cuda.mappings--;
	return munmap((void *)(uintptr_t)address, bytes);
}

FAKE(cuMemMap, unsigned long long address, size_t bytes, size_t offset,
	unsigned long long allocation, unsigned long long flags)
{
	(void)flags;
	IN_CONTEXT();
	fake_cuda.mappings++;
	/* cppcheck-suppress leakReturnValNotUsed */
	return mmap((void *)(uintptr_t)address, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
		       (int)allocation, (off_t)offset) == MAP_FAILED;
}

FAKE(cuMemUnmap, unsigned long long address, size_t bytes)
{
	IN_CONTEXT();
	fake_cuda.mappings--;
	/* cppcheck-suppress leakReturnValNotUsed */
	return mmap((void *)(uintptr_t)address, bytes, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED;
}

FAKE(cuMemSetAccess, unsigned long long address, size_t bytes, const void *access, size_t count)
{
	(void)access, (void)count;
	IN_CONTEXT();
	return mprotect((void *)(uintptr_t)address, bytes, PROT_READ | PROT_WRITE);
}
