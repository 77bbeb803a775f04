/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fragments.h"
#include "mem/region.h"

static void test_region_is_page_aligned_and_whole_pages(void **state)
{
	static const size_t sizes[] = { 1, 4095, 4096, 4097, 65536, 3 << 20 };
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct region r;
		struct err e;

		assert_int_equal(region_alloc(&r, sizes[i], &e), 0);
		assert_int_equal((uintptr_t)r.data % page, 0);
		assert_true(r.bytes >= sizes[i]);
		assert_int_equal(r.bytes % page, 0);
		memset(r.data, 0x5a, r.bytes);
		region_free(&r);
		assert_null(r.data);
		region_free(&r);
	}
}

static void test_region_refuses_what_the_system_does_not_have(void **state)
{
	struct region r;
	struct err e;

	(void)state;
	assert_int_equal(region_alloc(&r, (size_t)1 << 60, &e), -ENOMEM);
	assert_null(r.data);
	assert_non_null(strstr(e.what, "1152921504606846976 bytes"));
	assert_non_null(strstr(e.hint, "--buffer-size"));
	region_free(&r);
}

static void test_region_fill_random_fills_all_of_it_differently_each_time(void **state)
{
	struct region a, b;
	struct err e;
	size_t equal = 0, seen[256] = { 0 };

	(void)state;
	assert_int_equal(region_alloc(&a, 1 << 16, &e), 0);
	assert_int_equal(region_alloc(&b, 1 << 16, &e), 0);
	region_fill_random(&a);
	region_fill_random(&b);
	for (size_t i = 0; i < a.bytes; i++) {
		seen[(uint8_t)a.data[i]]++;
		equal += a.data[i] == b.data[i];
	}
	/* 256 of each value on average; nothing that compresses. */
	for (int i = 0; i < 256; i++)
		assert_in_range(seen[i], 128, 512);
	assert_true(equal < 1024);
	region_free(&a);
	region_free(&b);
}

static const struct mem_where host = { .kind = MEM_HOST };

static void test_region_fragments_are_filled_checked_and_gathered(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 5; seed++)
		fragments_work(&host, seed);
}

static void test_region_refuses_ranges_beyond_it(void **state)
{
	(void)state;
	fragments_refuse_bad_ranges(&host);
}

static void test_region_copies_to_and_from_host_memory(void **state)
{
	(void)state;
	region_copies(&host);
}

static void test_region_refuses_sizes_that_cannot_be(void **state)
{
	struct region r;
	struct err e;

	(void)state;
	assert_int_equal(region_alloc(&r, 0, &e), -EINVAL);
	assert_int_equal(region_alloc(&r, SIZE_MAX, &e), -EINVAL);
	region_free(&r);
}

static void test_region_of_host_memory_is_no_dmabuf(void **state)
{
	struct region r = { 0 };
	struct err e;
	int fd;

	(void)state;
	assert_int_equal(region_alloc(&r, 4096, &e), 0);
	assert_string_equal(region_kind_name(&r), "host");
	assert_int_equal(region_dmabuf(&r, &fd, &e), -EOPNOTSUPP);
	assert_int_equal(fd, -1);
	assert_non_null(strstr(e.hint, "--mem udmabuf"));
	region_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_region_is_page_aligned_and_whole_pages),
		cmocka_unit_test(test_region_refuses_what_the_system_does_not_have),
		cmocka_unit_test(test_region_fill_random_fills_all_of_it_differently_each_time),
		cmocka_unit_test(test_region_fragments_are_filled_checked_and_gathered),
		cmocka_unit_test(test_region_refuses_ranges_beyond_it),
		cmocka_unit_test(test_region_copies_to_and_from_host_memory),
		cmocka_unit_test(test_region_refuses_sizes_that_cannot_be),
		cmocka_unit_test(test_region_of_host_memory_is_no_dmabuf),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
