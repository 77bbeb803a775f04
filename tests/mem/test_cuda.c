/* SPDX-License-Identifier: BSD-3-Clause */
/* CUDA memory. Run twice: with the machine's driver, skipped where there is none, and with a fake one
 * that runs the kernels on the CPU and can be made to fail. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_cuda.h"
#include "fragments.h"
#include "mem/cuda_queue.h"
#include "skip.h"

static const struct mem_where cuda = { .kind = MEM_CUDA };
static const struct mem_where vmm = { .kind = MEM_CUDA, .vmm = true };
static const struct mem_where pinned = { .kind = MEM_PINNED };
static struct fake_cuda *fake; /* NULL: a real GPU */
static struct err e;

#define OK(call)                                                                                   \
	do {                                                                                       \
		if (call)                                                                          \
			fail_msg("%s: %s (%s)", #call, e.what, e.hint);                            \
	} while (0)

/* After every test: what was made is gone. */
static int expect_nothing_left(void **state)
{
	(void)state;
	if (!fake)
		return 0;
	return fake->retained || fake->memory || fake->pinned || fake->registered ||
	       fake->streams || fake->events || fake->modules || fake->mappings || fake->wrong;
}

static void test_cuda_devices_are_listed_and_found(void **state)
{
	struct cuda_device *list, d;
	size_t count;

	(void)state;
	OK(cuda_device_list(&list, &count, &e));
	assert_true(count >= 1);
	for (size_t i = 0; i < count; i++) {
		char index[24];

		assert_true(list[i].memory_bytes > 1 << 20);
		assert_true(list[i].multiprocessors > 0);
		assert_int_equal(strlen(list[i].address), 12);
		OK(cuda_device_find(&d, list[i].address, &e));
		assert_int_equal(d.index, i);
		OK(cuda_device_find(&d, list[i].address + 5, &e)); /* without the domain */
		assert_int_equal(d.index, i);
		snprintf(index, sizeof(index), "%zu", i);
		OK(cuda_device_find(&d, index, &e));
		assert_string_equal(d.address, list[i].address);
	}
	OK(cuda_device_find(&d, "", &e));
	assert_int_equal(d.index, 0);
	assert_int_equal(cuda_device_find(&d, "99", &e), -ENODEV);
	assert_non_null(strstr(e.hint, list[0].address));
	assert_int_equal(cuda_device_find(&d, "00:1f.7", &e), -ENODEV);
	assert_int_equal(cuda_device_find(&d, "first", &e), -EINVAL);
	assert_non_null(strstr(e.what, "first"));
	free(list);
}

static void test_cuda_region_is_two_mib_blocks_out_of_the_hosts_reach(void **state)
{
	struct region r;

	(void)state;
	for (int i = 0; i < 2; i++) {
		OK(region_alloc_in(&r, i ? &vmm : &cuda, 5000, &e));
		assert_int_equal(r.bytes, 2 << 20);
		assert_null(r.data);
		assert_int_equal(r.cuda->address % 4096, 0);
		assert_string_equal(region_kind_name(&r), "cuda");
		region_free(&r);
		region_free(&r);
	}
}

static void test_cuda_fragments_are_filled_checked_and_gathered(void **state)
{
	(void)state;
	fragments_work(&cuda, 1);
	fragments_work(&vmm, 2);
	fragments_work(&pinned, 3);
}

static void test_cuda_region_refuses_ranges_beyond_it(void **state)
{
	(void)state;
	fragments_refuse_bad_ranges(&cuda);
	fragments_refuse_bad_ranges(&pinned);
}

static void test_cuda_region_copies_to_and_from_host_memory(void **state)
{
	(void)state;
	region_copies(&cuda);
	region_copies(&vmm);
	region_copies(&pinned);
}

static void test_cuda_gather_handles_every_alignment(void **state)
{
	struct region from, to;
	struct pattern p;
	struct mem_fragment f = { 0 };
	unsigned char found[256];

	(void)state;
	OK(pattern_init(&p, PATTERN_SEEDED, 1, 1 << 16, &e));
	OK(region_alloc_in(&from, &cuda, 4096, &e));
	OK(region_alloc_in(&to, &cuda, 4096, &e));
	OK(region_fill(&from, &p, 0, 4096, 0, &e));
	for (uint32_t source = 0; source < 17; source++)
		for (uint32_t target = 0; target < 17; target++) {
			f.region_offset = source;
			f.bytes = 61 + (source * 17 + target) % 60;
			f.stream_position = target;
			memset(found, 0, sizeof(found));
			OK(region_write(&to, 0, found, sizeof(found), &e));
			OK(region_gather(&from, &f, 1, &to, 0, &e));
			OK(region_read(&to, 0, found, sizeof(found), &e));
			assert_false(pattern_check(&p, found + target, f.bytes, source, NULL));
			for (uint32_t i = 0; i < target; i++)
				assert_int_equal(found[i], 0);
			for (size_t i = target + f.bytes; i < sizeof(found); i++)
				assert_int_equal(found[i], 0);
			/* The same cut as a check of the data against the pattern. */
			f.stream_position = source;
			OK(region_check(&from, &p, &f, 1, NULL, &e));
			f.stream_position = (uint64_t)(1 << 16) * 100000 + source;
			OK(region_check(&from, &p, &f, 1, NULL, &e));
		}
	region_free(&from);
	region_free(&to);
	pattern_free(&p);
}

/* One launch, long fragments among short ones, more of them than fit the queue at once. */
static void test_cuda_long_lists_and_long_fragments(void **state)
{
	size_t count = CUDA_QUEUE_FRAGMENTS + 100, bytes;
	struct mem_fragment *list = calloc(count, sizeof(*list));
	struct mem_mismatch m;
	struct region from, to;
	struct pattern p;
	unsigned char wrong = 0;
	uint64_t position = 0;

	(void)state;
	assert_non_null(list);
	for (size_t i = 0; i < count; i++) {
		list[i] = (struct mem_fragment){ position, i == 5 ? 300001 : 33, position };
		position += list[i].bytes;
	}
	bytes = position;
	OK(pattern_init(&p, PATTERN_SEEDED, 1, 70001, &e));
	OK(region_alloc_in(&from, &cuda, bytes, &e));
	OK(region_alloc_in(&to, &cuda, bytes, &e));
	OK(region_fill(&from, &p, 0, bytes, 0, &e));
	OK(region_check(&from, &p, list, count, &m, &e));
	OK(region_gather(&from, list, count, &to, 0, &e));
	OK(region_check(&to, &p, list, count, &m, &e));
	OK(region_read(&to, list[count - 1].region_offset + 32, &wrong, 1, &e));
	wrong = (unsigned char)~wrong;
	OK(region_write(&to, list[count - 1].region_offset + 32, &wrong, 1, &e));
	assert_int_equal(region_check(&to, &p, list, count, &m, &e), -EBADMSG);
	assert_int_equal(m.fragment, count - 1);
	assert_int_equal(m.byte, 32);
	OK(region_write(&to, list[5].region_offset + 299000, &wrong, 1, &e));
	if (region_check(&to, &p, list, count, &m, &e)) {
		assert_int_equal(m.fragment, 5);
		assert_int_equal(m.byte, 299000);
	}
	region_free(&from);
	region_free(&to);
	pattern_free(&p);
	free(list);
}

static void test_cuda_memory_is_exported_as_dmabuf(void **state)
{
	struct region r;
	int fd, again;

	(void)state;
	for (int i = 0; i < 2; i++) {
		OK(region_alloc_in(&r, i ? &vmm : &cuda, 3 << 20, &e));
		OK(region_dmabuf(&r, &fd, &e));
		OK(region_dmabuf(&r, &again, &e));
		assert_int_equal(fd, again);
		assert_true(fcntl(fd, F_GETFD) >= 0);
		region_free(&r);
		assert_int_equal(fcntl(fd, F_GETFD), -1);
	}
	OK(region_alloc_in(&r, &pinned, 4096, &e));
	assert_int_equal(region_dmabuf(&r, &fd, &e), -EOPNOTSUPP);
	region_free(&r);
}

static void test_cuda_queue_copies_between_pinned_and_gpu_memory(void **state)
{
	struct region staging, registered, gpu;
	struct cuda_queue *q;
	struct cuda_mark *mark;
	struct pattern p;

	(void)state;
	OK(pattern_init(&p, PATTERN_SEEDED, 9, 1 << 16, &e));
	OK(region_alloc_in(&staging, &pinned, 1 << 20, &e));
	OK(region_alloc(&registered, 1 << 20, &e));
	OK(region_alloc_in(&gpu, &cuda, 2 << 20, &e));
	OK(cuda_queue_open(&q, gpu.cuda->gpu, 0, &e));
	OK(cuda_mark_open(&mark, gpu.cuda->gpu, &e));
	assert_int_equal(cuda_queue_copy(q, &gpu, 0, &registered, 0, 4096, &e), -EOPNOTSUPP);
	assert_non_null(strstr(e.hint, "region_pin()"));
	OK(region_pin(&registered, "", &e));
	assert_int_equal(region_pin(&registered, "", &e), -EEXIST);

	pattern_fill(&p, staging.data, staging.bytes, 0);
	OK(cuda_queue_copy(q, &gpu, 1000, &staging, 0, staging.bytes, &e));
	OK(cuda_queue_copy(q, &registered, 0, &gpu, 1000, registered.bytes, &e));
	OK(cuda_mark_set(mark, q, &e));
	OK(cuda_mark_wait(mark, &e));
	assert_int_equal(cuda_mark_done(mark, &e), 1);
	assert_false(pattern_check(&p, registered.data, registered.bytes, 0, NULL));
	cuda_mark_close(mark);
	cuda_queue_close(q);
	region_free(&staging);
	region_free(&registered);
	region_free(&gpu);
	pattern_free(&p);
}

static void test_cuda_queue_checks_without_waiting(void **state)
{
	struct region r;
	struct cuda_queue *q;
	struct cuda_pattern on_gpu = { 0 };
	struct cuda_check checks[CUDA_QUEUE_CHECKS + 1];
	struct mem_fragment f = { 0, 4096, 0 };
	struct mem_mismatch m;
	struct pattern p;

	(void)state;
	OK(pattern_init(&p, PATTERN_PUBLISHED, 0, 4096, &e));
	OK(region_alloc_in(&r, &cuda, 2 << 20, &e));
	OK(cuda_queue_open(&q, r.cuda->gpu, 2, &e));
	OK(cuda_pattern_load(&on_gpu, r.cuda->gpu, &p, &e));
	OK(cuda_queue_fill(q, &r, 0, 4096, 0, &on_gpu, &e));
	for (int i = 0; i < CUDA_QUEUE_CHECKS; i++) {
		f.stream_position = i % 2; /* every second one is wrong */
		OK(cuda_queue_check(q, &r, &f, 1, &on_gpu, &checks[i], &e));
	}
	assert_int_equal(
		cuda_queue_check(q, &r, &f, 1, &on_gpu, &checks[CUDA_QUEUE_CHECKS], &e), -EAGAIN);
	OK(cuda_queue_wait(q, &e));
	for (int i = 0; i < CUDA_QUEUE_CHECKS; i++)
		assert_int_equal(cuda_check_result(&checks[i], &m, &e), i % 2 ? -EBADMSG : 0);
	/* The slots are as new. */
	f.stream_position = 0;
	for (int i = 0; i < CUDA_QUEUE_CHECKS; i++) {
		OK(cuda_queue_check(q, &r, &f, 1, &on_gpu, &checks[0], &e));
		OK(cuda_queue_wait(q, &e));
		OK(cuda_check_result(&checks[0], &m, &e));
	}
	cuda_pattern_free(&on_gpu);
	cuda_queue_close(q);
	region_free(&r);
	pattern_free(&p);
}

static void test_cuda_queue_says_again_when_its_room_is_in_use(void **state)
{
	struct mem_fragment *list = calloc(CUDA_QUEUE_FRAGMENTS + 1, sizeof(*list));
	struct region r, to;
	struct cuda_queue *q;

	(void)state;
	assert_non_null(list);
	OK(region_alloc_in(&r, &cuda, 4096, &e));
	OK(region_alloc_in(&to, &cuda, 4096, &e));
	OK(cuda_queue_open(&q, r.cuda->gpu, 1, &e));
	OK(cuda_queue_gather(q, &r, list, CUDA_QUEUE_FRAGMENTS, &to, 0, &e));
	OK(cuda_queue_gather(q, &r, list, CUDA_QUEUE_FRAGMENTS, &to, 0, &e));
	fake->lag = 2;
	assert_int_equal(cuda_queue_gather(q, &r, list, 1, &to, 0, &e), -EAGAIN);
	assert_int_equal(cuda_queue_gather(q, &r, list, 1, &to, 0, &e), -EAGAIN);
	OK(cuda_queue_gather(q, &r, list, 1, &to, 0, &e));
	assert_int_equal(
		cuda_queue_gather(q, &r, list, CUDA_QUEUE_FRAGMENTS + 1, &to, 0, &e), -E2BIG);
	cuda_queue_close(q);
	region_free(&r);
	region_free(&to);
	free(list);
}

static void test_cuda_gather_needs_memory_that_the_gpu_reaches(void **state)
{
	struct region gpu, host, staging;
	struct mem_fragment f = { 0, 4096, 0 };

	(void)state;
	OK(region_alloc_in(&gpu, &cuda, 4096, &e));
	OK(region_alloc(&host, 4096, &e));
	OK(region_alloc_in(&staging, &pinned, 4096, &e));
	assert_int_equal(region_gather(&gpu, &f, 1, &host, 0, &e), -EOPNOTSUPP);
	assert_int_equal(region_gather(&host, &f, 1, &gpu, 0, &e), -EOPNOTSUPP);
	OK(region_gather(&gpu, &f, 1, &staging, 0, &e));
	region_free(&gpu);
	region_free(&host);
	region_free(&staging);
}

static void test_cuda_context_is_retained_once_and_released_at_the_end(void **state)
{
	struct cuda_gpu *a, *b;

	(void)state;
	for (int i = 0; i < 20; i++) {
		OK(cuda_gpu_get(&a, "0", &e));
		OK(cuda_gpu_get(&b, a->device.address, &e));
		assert_ptr_equal(a, b);
		if (fake)
			assert_int_equal(fake->retained, 1);
		cuda_gpu_put(a);
		cuda_gpu_put(b);
	}
	cuda_gpu_put(NULL);
}

static void *use_a_gpu(void *arg)
{
	int *failed = arg;
	struct region r;

	for (int i = 0; i < 20 && !*failed; i++) {
		*failed = region_alloc_in(&r, &cuda, 4096, NULL);
		region_free(&r);
	}
	return NULL;
}

static void test_cuda_gpu_is_shared_by_threads(void **state)
{
	pthread_t threads[4];
	int failed[4] = { 0 };

	(void)state;
	/* The fake counts without atomics: one thread after the other there. */
	for (int i = 0; i < 4; i++) {
		assert_int_equal(pthread_create(&threads[i], NULL, use_a_gpu, &failed[i]), 0);
		if (fake)
			pthread_join(threads[i], NULL);
	}
	for (int i = 0; i < 4; i++) {
		if (!fake)
			pthread_join(threads[i], NULL);
		assert_int_equal(failed[i], 0);
	}
}

/* Every call of the driver fails once, at every place it is made from: an error comes back, and
 * nothing stays behind. */
static void test_cuda_failures_of_the_driver_leave_nothing_behind(void **state)
{
	static const char *const calls[] = { "cuDeviceGetCount", "cuDeviceGet",
		"cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuModuleLoadDataEx",
		"cuModuleGetFunction", "cuStreamCreateWithPriority", "cuLaunchKernel",
		"cuMemAlloc_v2", "cuMemHostAlloc", "cuMemHostGetDevicePointer_v2",
		"cuPointerSetAttribute", "cuMemcpyAsync", "cuMemsetD8Async", "cuEventCreate",
		"cuCtxGetStreamPriorityRange", "cuMemGetAllocationGranularity", "cuMemCreate",
		"cuMemAddressReserve", "cuMemMap", "cuMemSetAccess", "cuMemHostRegister_v2",
		"cuMemGetHandleForAddressRange" };
	struct pattern p;

	(void)state;
	OK(pattern_init(&p, PATTERN_SEEDED, 1, 4096, &e));
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		for (int after = 0; after < 12; after++) {
			struct mem_fragment f = { 0, 4096, 0 };
			struct region a, b, host;
			int ret, fd;

			fake->fail = calls[i];
			fake->fail_code = 999;
			fake->fail_after = after;
			memset(&b, 0, sizeof(b));
			memset(&host, 0, sizeof(host));
			e.what[0] = '\0';
			ret = region_alloc_in(&a, after % 2 ? &vmm : &cuda, 4096, &e);
			if (!ret)
				ret = region_alloc_in(&b, &pinned, 4096, &e);
			if (!ret)
				ret = region_alloc(&host, 4096, &e);
			if (!ret)
				ret = region_pin(&host, "0", &e);
			if (!ret)
				ret = region_dmabuf(&a, &fd, &e);
			if (!ret)
				ret = region_fill(&a, &p, 0, 4096, 0, &e);
			if (!ret)
				ret = region_check(&a, &p, &f, 1, NULL, &e);
			if (!ret)
				ret = region_gather(&a, &f, 1, &b, 0, &e);
			if (ret)
				assert_true(strlen(e.what) > 10);
			else if (!fake->fail)
				fail_msg("the failure of %s went unseen", calls[i]);
			fake->fail = NULL;
			region_free(&host);
			region_free(&b);
			region_free(&a);
			assert_int_equal(expect_nothing_left(NULL), 0);
		}
	pattern_free(&p);
}

static void test_cuda_out_of_memory_says_how_much_is_free(void **state)
{
	struct region r;

	(void)state;
	assert_int_equal(region_alloc_in(&r, &cuda, (size_t)1 << 45, &e), -ENOMEM);
	assert_non_null(strstr(e.what, "33554432 MiB"));
	assert_non_null(strstr(e.hint, "MiB are free"));
	assert_int_equal(region_alloc_in(&r, &vmm, (size_t)1 << 45, &e), -ENOMEM);
	region_free(&r);
}

static void test_cuda_module_that_does_not_load_shows_the_compilers_log(void **state)
{
	struct cuda_gpu *gpu;

	(void)state;
	fake->fail = "cuModuleLoadDataEx";
	fake->fail_code = 218;
	fake->fail_after = 0;
	assert_int_equal(cuda_gpu_get(&gpu, "", &e), -EIO);
	assert_null(gpu);
	assert_non_null(strstr(e.hint, "line 7: no such instruction"));
}

static void test_cuda_memory_that_is_not_page_aligned_is_made_so(void **state)
{
	struct region r;
	int fd;

	(void)state;
	fake->misalign = 1;
	OK(region_alloc_in(&r, &cuda, 4096, &e));
	assert_int_equal(r.cuda->address % 4096, 0);
	OK(region_dmabuf(&r, &fd, &e));
	region_free(&r);
	fake->misalign = 0;
}

#define CUDA_TEST(f) cmocka_unit_test_teardown(f, expect_nothing_left)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CUDA_TEST(test_cuda_devices_are_listed_and_found),
		CUDA_TEST(test_cuda_region_is_two_mib_blocks_out_of_the_hosts_reach),
		CUDA_TEST(test_cuda_fragments_are_filled_checked_and_gathered),
		CUDA_TEST(test_cuda_region_refuses_ranges_beyond_it),
		CUDA_TEST(test_cuda_region_copies_to_and_from_host_memory),
		CUDA_TEST(test_cuda_gather_handles_every_alignment),
		CUDA_TEST(test_cuda_long_lists_and_long_fragments),
		CUDA_TEST(test_cuda_memory_is_exported_as_dmabuf),
		CUDA_TEST(test_cuda_queue_copies_between_pinned_and_gpu_memory),
		CUDA_TEST(test_cuda_queue_checks_without_waiting),
		CUDA_TEST(test_cuda_gather_needs_memory_that_the_gpu_reaches),
		CUDA_TEST(test_cuda_context_is_retained_once_and_released_at_the_end),
		CUDA_TEST(test_cuda_gpu_is_shared_by_threads),
		CUDA_TEST(test_cuda_out_of_memory_says_how_much_is_free),
		/* Only a fake one can be told to fail. */
		CUDA_TEST(test_cuda_queue_says_again_when_its_room_is_in_use),
		CUDA_TEST(test_cuda_failures_of_the_driver_leave_nothing_behind),
		CUDA_TEST(test_cuda_module_that_does_not_load_shows_the_compilers_log),
		CUDA_TEST(test_cuda_memory_that_is_not_page_aligned_is_made_so),
	};
	size_t count = sizeof(tests) / sizeof(tests[0]);
	const struct cuda *cu;

	if (cuda_open(&cu, &e))
		return skip_all("mem/cuda", &e);
	fake = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fake_cuda");
	return _cmocka_run_group_tests("cuda", tests, fake ? count : count - 4, NULL, NULL);
}
