// SPDX-License-Identifier: BSD-3-Clause
#include "mem/udmabuf.h"

#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mem/ops.h"
#include "sys/path.h"

#define DEVICE	   "/dev/udmabuf"
#define LIMIT	   "/sys/module/udmabuf/parameters/size_limit_mb"
#define HUGE_PAGES "/sys/kernel/mm/hugepages/hugepages-2048kB"
#define HUGE_BYTES ((size_t)2 << 20)
#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26)
#endif

static int explain_open(int code, struct err *e)
{
	err_set(e, code, "cannot open " DEVICE ": %m");
	switch (code) {
	case ENOENT:
	case ENODEV:
	case ENXIO:
		return err_hint(
			e, "the kernel has no udmabuf: sudo modprobe udmabuf (CONFIG_UDMABUF)");
	case EACCES:
	case EPERM:
		return err_hint(e, "run as root, or: sudo setfacl -m u:$USER:rw " DEVICE);
	default:
		return -code;
	}
}

static int check_limit(uint64_t bytes, struct err *e)
{
	uint64_t limit_mb = (uint64_t)sys_read_number(1, INT32_MAX, INT32_MAX, LIMIT);
	uint64_t wanted_mb = (bytes + (1 << 20) - 1) >> 20;

	if (bytes <= limit_mb << 20)
		return 0;
	err_set(e, EINVAL, "cannot make a dma-buf of %llu MiB: udmabuf takes at most %llu",
		(unsigned long long)wanted_mb, (unsigned long long)limit_mb);
	return err_hint(
		e, "raise the limit: echo %llu | sudo tee " LIMIT, (unsigned long long)wanted_mb);
}

/* The kernel's own order: the seals, then the range, then the limit. */
static int explain_invalid(int memfd, uint64_t offset, uint64_t bytes, struct err *e)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int seals = fcntl(memfd, F_GET_SEALS);
	struct stat s;

	if (seals < 0) {
		err_set(e, EINVAL, "cannot make a dma-buf of what is not a memfd");
		return err_hint(e, "make it by memfd_create() with MFD_ALLOW_SEALING");
	}
	if (!(seals & F_SEAL_SHRINK)) {
		err_set(e, EINVAL,
			"cannot make a dma-buf: the memfd is not sealed against shrinking");
		if (seals & F_SEAL_SEAL)
			return err_hint(
				e, "make it with MFD_ALLOW_SEALING, then add F_SEAL_SHRINK");
		return err_hint(e, "add F_SEAL_SHRINK to it first");
	}
	if (seals & F_SEAL_WRITE) {
		err_set(e, EINVAL, "cannot make a dma-buf: the memfd is sealed against writing");
		return err_hint(e, "make one without F_SEAL_WRITE: a device writes to it");
	}
	if (!bytes || bytes % page || offset % page) {
		err_set(e, EINVAL, "cannot make a dma-buf of %llu bytes at offset %llu",
			(unsigned long long)bytes, (unsigned long long)offset);
		return err_hint(e, "both must be whole pages of %llu bytes, at least one",
			(unsigned long long)page);
	}
	if (!fstat(memfd, &s) &&
		(offset > (uint64_t)s.st_size || bytes > (uint64_t)s.st_size - offset)) {
		err_set(e, EINVAL,
			"cannot make a dma-buf of %llu bytes from offset %llu of a memfd of %llu",
			(unsigned long long)bytes, (unsigned long long)offset,
			(unsigned long long)s.st_size);
		return err_hint(e, "make the memfd larger by ftruncate() first");
	}
	if (check_limit(bytes, e))
		return -EINVAL;
	err_set(e, EINVAL, "the kernel makes no dma-buf of %llu bytes at offset %llu: %m",
		(unsigned long long)bytes, (unsigned long long)offset);
	return err_hint(e, "look at: dmesg | tail");
}

int udmabuf_explain(int code, int memfd, uint64_t offset, uint64_t bytes, struct err *e)
{
	switch (code) {
	case EINVAL:
	case EBADFD: /* newer kernels say this for a plain file */
		return explain_invalid(memfd, offset, bytes, e);
	case EBADF:
		err_set(e, EBADF, "cannot make a dma-buf: descriptor %d is not open", memfd);
		return err_hint(e, "make it by memfd_create() with MFD_ALLOW_SEALING");
	case ENOTTY:
		err_set(e, ENOTTY, "cannot make a dma-buf: " DEVICE " is another device");
		return err_hint(e, "reload it: sudo rm " DEVICE "; sudo modprobe -r udmabuf; "
				   "sudo modprobe udmabuf");
	case ENOMEM:
		err_set(e, ENOMEM, "no memory for a dma-buf of %llu bytes",
			(unsigned long long)bytes);
		return err_hint(e, "choose a smaller --mem-size");
	default:
		return err_set(e, code, "cannot make a dma-buf of %llu bytes: %m",
			(unsigned long long)bytes);
	}
}

int udmabuf_create(int memfd, uint64_t offset, uint64_t bytes, int *dmabuf, struct err *e)
{
	struct udmabuf_create create = {
		.memfd = (uint32_t)memfd,
		.flags = UDMABUF_FLAGS_CLOEXEC,
		.offset = offset,
		.size = bytes,
	};
	int device = open(DEVICE, O_RDWR | O_CLOEXEC), code;

	*dmabuf = -1;
	if (device < 0)
		return explain_open(errno, e);
	*dmabuf = ioctl(device, UDMABUF_CREATE, &create);
	code = errno;
	close(device);
	return *dmabuf < 0 ? udmabuf_explain(code, memfd, offset, bytes, e) : 0;
}

static int explain_memory(int code, size_t bytes, bool huge, struct err *e)
{
	size_t pages = bytes / HUGE_BYTES;

	if (!huge) {
		err_set(e, code, "cannot get %zu bytes of shared memory: %m", bytes);
		return err_hint(e, "choose a smaller --mem-size");
	}
	err_set(e, code, "cannot get %zu huge pages of 2 MiB, %lld are free: %m", pages,
		(long long)sys_read_number(0, INT64_MAX, 0, HUGE_PAGES "/free_hugepages"));
	return err_hint(e, "reserve them: echo %zu | sudo tee " HUGE_PAGES "/nr_hugepages", pages);
}

static int memfd_sealed(struct region *r, bool huge, struct err *e)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB | MFD_HUGE_2MB : 0);
	int code;

	r->memfd = memfd_create("weir", flags);
	if (r->memfd < 0)
		return explain_memory(errno, r->bytes, huge, e);
	if (!ftruncate(r->memfd, (off_t)r->bytes) && !fcntl(r->memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		return 0;
	code = errno;
	close(r->memfd);
	return explain_memory(code, r->bytes, huge, e);
}

/* What would fail in the end is said before gigabytes are faulted in for it. */
static int check_usable(uint64_t bytes, struct err *e)
{
	int device = open(DEVICE, O_RDWR | O_CLOEXEC);

	if (device < 0)
		return explain_open(errno, e);
	close(device);
	return check_limit(bytes, e);
}

static int udmabuf_alloc(
	struct region *r, const struct mem_where *where, size_t bytes, struct err *e)
{
	size_t page = where->huge_pages ? HUGE_BYTES : (size_t)sysconf(_SC_PAGESIZE);
	int ret;

	r->bytes = mem_round_up(bytes, page);
	ret = check_usable(r->bytes, e);
	if (!ret)
		ret = memfd_sealed(r, where->huge_pages, e);
	if (ret)
		return ret;
	/* Faulted in here: later, a page that is not there would be a signal. */
	r->data = mmap(
		NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->memfd, 0);
	if (r->data == MAP_FAILED) {
		ret = explain_memory(errno, r->bytes, where->huge_pages, e);
		goto close_memfd;
	}
	ret = udmabuf_create(r->memfd, 0, r->bytes, &r->dmabuf, e);
	if (ret)
		goto unmap;
	return 0;

unmap:
	munmap(r->data, r->bytes);
close_memfd:
	close(r->memfd);
	return ret;
}

static void udmabuf_free(struct region *r)
{
	munmap(r->data, r->bytes);
	close(r->memfd);
}

/* The CPU looks at what a device wrote, or writes what it will read: the kernel is told before and after, for
 * machines whose caches do not see DMA. Once for all fragments of a call, not for each. */
static int udmabuf_sync(const struct region *r, uint64_t flags, struct err *e)
{
	struct dma_buf_sync sync = { .flags = flags };
	int ret;

	do {
		ret = ioctl(r->dmabuf, DMA_BUF_IOCTL_SYNC, &sync);
	} while (ret < 0 && (errno == EINTR || errno == EAGAIN));
	return ret < 0 ? err_set(e, errno, "cannot get at the contents of a dma-buf: %m") : 0;
}

/* What was done stands, whatever the end of the access says. */
static int udmabuf_done(const struct region *r, uint64_t access, int ret, struct err *e)
{
	int ended = udmabuf_sync(r, DMA_BUF_SYNC_END | access, ret ? NULL : e);

	return ret ? ret : ended;
}

static int udmabuf_read(struct region *r, size_t offset, void *to, size_t bytes, struct err *e)
{
	int ret = udmabuf_sync(r, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ, e);

	if (ret)
		return ret;
	ret = mem_host_read(r, offset, to, bytes, e);
	return udmabuf_done(r, DMA_BUF_SYNC_READ, ret, e);
}

static int udmabuf_write(
	struct region *r, size_t offset, const void *from, size_t bytes, struct err *e)
{
	int ret = udmabuf_sync(r, DMA_BUF_SYNC_START | DMA_BUF_SYNC_WRITE, e);

	if (ret)
		return ret;
	ret = mem_host_write(r, offset, from, bytes, e);
	return udmabuf_done(r, DMA_BUF_SYNC_WRITE, ret, e);
}

static int udmabuf_fill(struct region *r, const struct pattern *p, size_t offset, size_t bytes,
	uint64_t position, struct err *e)
{
	int ret = udmabuf_sync(r, DMA_BUF_SYNC_START | DMA_BUF_SYNC_WRITE, e);

	if (ret)
		return ret;
	ret = mem_host_fill(r, p, offset, bytes, position, e);
	return udmabuf_done(r, DMA_BUF_SYNC_WRITE, ret, e);
}

static int udmabuf_check(struct region *r, const struct pattern *p, const struct mem_fragment *list,
	size_t count, struct mem_mismatch *m, struct err *e)
{
	int ret = udmabuf_sync(r, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ, e);

	if (ret)
		return ret;
	ret = mem_host_check(r, p, list, count, m, e);
	return udmabuf_done(r, DMA_BUF_SYNC_READ, ret, e);
}

static int udmabuf_gather(struct region *r, const struct mem_fragment *list, size_t count,
	struct region *to, uint64_t to_position, struct err *e)
{
	int ret = udmabuf_sync(r, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ, e);

	if (ret)
		return ret;
	ret = mem_host_gather(r, list, count, to, to_position, e);
	return udmabuf_done(r, DMA_BUF_SYNC_READ, ret, e);
}

const struct mem_ops mem_udmabuf_ops = {
	.name = "udmabuf",
	.alloc = udmabuf_alloc,
	.free = udmabuf_free,
	.read = udmabuf_read,
	.write = udmabuf_write,
	.fill = udmabuf_fill,
	.check = udmabuf_check,
	.gather = udmabuf_gather,
};
