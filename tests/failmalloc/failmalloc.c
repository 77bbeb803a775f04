/* SPDX-License-Identifier: BSD-3-Clause */
/* A library to preload that fails one allocation of a program, and only that one.
 *
 *	FAILMALLOC_AT=17 LD_PRELOAD=libfailmalloc.so weir ...	the 17th call fails, as if memory had run out
 *	FAILMALLOC_COUNT=FILE LD_PRELOAD=...			FILE receives the number of calls at the end
 *	FAILMALLOC_WHERE=FILE ...				FILE receives the backtrace of the call that failed
 *
 * Counted are malloc, calloc, realloc and their aligned kin, anonymous mmap, pthread_create, epoll_create1, eventfd
 * and timerfd_create, of all threads together, from the start of main() on.
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define EXPORT	   __attribute__((visibility("default")))
#define FRAMES_MAX 32

/* glibc's own names for them: no dlsym(), which itself allocates. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static _Atomic unsigned long calls;
static unsigned long fail_at;
static const char *count_file, *where_file;
static create_fn *real_pthread_create;
static bool armed;

static void write_where(void)
{
	void *frames[FRAMES_MAX];
	int fd, count;

	fd = open(where_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return;
	count = backtrace(frames, FRAMES_MAX);
	backtrace_symbols_fd(frames, count, fd);
	close(fd);
}

/* Whether this call is the one. */
static bool fails(int code)
{
	if (!armed || atomic_fetch_add(&calls, 1) + 1 != fail_at)
		return false;
	if (where_file)
		write_where();
	errno = code;
	return true;
}

__attribute__((constructor)) static void arm(void)
{
	const char *at = getenv("FAILMALLOC_AT");
	void *frames[1];

	count_file = getenv("FAILMALLOC_COUNT");
	where_file = getenv("FAILMALLOC_WHERE");
	fail_at = at ? strtoul(at, NULL, 10) : 0;
	real_pthread_create = (create_fn *)dlsym(RTLD_NEXT, "pthread_create");
	backtrace(frames, 1); /* loads what it needs now, not in the middle */
	armed = true;
}

__attribute__((destructor)) static void disarm(void)
{
	char text[32];
	int fd, length;

	armed = false;
	if (!count_file)
		return;
	fd = open(count_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return;
	length = snprintf(text, sizeof(text), "%lu\n", atomic_load(&calls));
	if (write(fd, text, (size_t)length) != length)
		_exit(97);
	close(fd);
}

/* Their names in the C library say less.
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

EXPORT void *malloc(size_t bytes)
{
	return fails(ENOMEM) ? NULL : __libc_malloc(bytes);
}

EXPORT void *calloc(size_t count, size_t bytes)
{
	return fails(ENOMEM) ? NULL : __libc_calloc(count, bytes);
}

EXPORT void *realloc(void *old, size_t bytes)
{
	return fails(ENOMEM) ? NULL : __libc_realloc(old, bytes);
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes)
{
	return fails(ENOMEM) ? NULL : __libc_memalign(alignment, bytes);
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t bytes)
{
	void *memory;

	if (fails(ENOMEM))
		return ENOMEM;
	memory = __libc_memalign(alignment, bytes);
	if (!memory)
		return ENOMEM;
	*out = memory;
	return 0;
}

EXPORT void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	if ((flags & MAP_ANONYMOUS) && fails(ENOMEM))
		return MAP_FAILED;
	return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

EXPORT int pthread_create(
	pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *argument)
{
	return fails(EAGAIN) ? EAGAIN : real_pthread_create(thread, attr, run, argument);
}

EXPORT int epoll_create1(int flags)
{
	return fails(EMFILE) ? -1 : (int)syscall(SYS_epoll_create1, flags);
}

EXPORT int eventfd(unsigned int initial, int flags)
{
	return fails(EMFILE) ? -1 : (int)syscall(SYS_eventfd2, initial, flags);
}

EXPORT int timerfd_create(clockid_t clock, int flags)
{
	return fails(EMFILE) ? -1 : (int)syscall(SYS_timerfd_create, clock, flags);
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
