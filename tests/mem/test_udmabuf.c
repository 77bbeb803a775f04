/* SPDX-License-Identifier: BSD-3-Clause */
/* Needs /dev/udmabuf, but for "test_udmabuf words", which tests the explanations alone. A virtual
 * machine runs it as well, linked statically. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fragments.h"
#include "mem/udmabuf.h"
#include "skip.h"
#include "sys/path.h"

#define LIMIT "/sys/module/udmabuf/parameters/size_limit_mb"

static const struct mem_where udmabuf = { .kind = MEM_UDMABUF };
static bool have_device;

static int memfd(unsigned flags, int seals, off_t bytes)
{
	int fd = memfd_create("test", flags);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, bytes), 0);
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

/* The words of what the kernel refuses, or would: where it is there, it must refuse it. */
static void expect_refused(
	int fd, uint64_t offset, uint64_t bytes, const char *what, const char *hint)
{
	struct err e;
	int dmabuf;

	assert_int_equal(udmabuf_explain(EINVAL, fd, offset, bytes, &e), -EINVAL);
	assert_non_null(strstr(e.what, what));
	assert_non_null(strstr(e.hint, hint));
	if (!have_device)
		return;
	assert_int_equal(udmabuf_create(fd, offset, bytes, &dmabuf, &e), -EINVAL);
	assert_int_equal(dmabuf, -1);
	assert_non_null(strstr(e.what, what));
	assert_non_null(strstr(e.hint, hint));
}

static void test_udmabuf_names_each_cause_of_einval(void **state)
{
	int good = memfd(MFD_ALLOW_SEALING, F_SEAL_SHRINK, 65536);
	int unsealable = memfd(0, 0, 65536), unsealed = memfd(MFD_ALLOW_SEALING, 0, 65536);
	int read_only = memfd(MFD_ALLOW_SEALING, F_SEAL_SHRINK | F_SEAL_WRITE, 65536);
	int plain = open("/proc/version", O_RDONLY);

	(void)state;
	assert_true(plain >= 0);
	expect_refused(plain, 0, 4096, "not a memfd", "memfd_create()");
	expect_refused(unsealable, 0, 4096, "not sealed against shrinking", "MFD_ALLOW_SEALING");
	expect_refused(unsealed, 0, 4096, "not sealed against shrinking", "add F_SEAL_SHRINK");
	expect_refused(read_only, 0, 4096, "sealed against writing", "F_SEAL_WRITE");
	expect_refused(good, 0, 0, "0 bytes", "whole pages");
	expect_refused(good, 0, 5000, "5000 bytes", "whole pages");
	expect_refused(good, 100, 4096, "offset 100", "whole pages");
	expect_refused(good, 4096, 65536, "65536 bytes from offset 4096 of a memfd of 65536",
		"ftruncate()");
	close(good);
	close(unsealable);
	close(unsealed);
	close(read_only);
	close(plain);
}

static void test_udmabuf_names_other_errors(void **state)
{
	struct err e;

	(void)state;
	assert_int_equal(udmabuf_explain(EBADF, 77, 0, 4096, &e), -EBADF);
	assert_non_null(strstr(e.what, "descriptor 77 is not open"));
	assert_int_equal(udmabuf_explain(ENOMEM, 3, 0, 4096, &e), -ENOMEM);
	assert_non_null(strstr(e.hint, "--mem-size"));
	assert_int_equal(udmabuf_explain(ENOTTY, 3, 0, 4096, &e), -ENOTTY);
	assert_non_null(strstr(e.what, "another device"));
}

/* A recorded limit: the machine that runs this may have none. */
static void test_udmabuf_names_the_limit_and_how_to_raise_it(void **state)
{
	char root[] = "/tmp/weir-udmabuf-XXXXXX", path[128];
	int fd = memfd(MFD_ALLOW_SEALING, F_SEAL_SHRINK, (off_t)65 << 20);
	static const char *const folders[] = { "/sys", "/sys/module", "/sys/module/udmabuf",
		"/sys/module/udmabuf/parameters" };
	struct err e;
	FILE *f;

	(void)state;
	assert_non_null(mkdtemp(root));
	for (int i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s%s", root, folders[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	snprintf(path, sizeof(path), "%s" LIMIT, root);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs("64\n", f);
	fclose(f);
	assert_int_equal(sys_set_root(root, &e), 0);
	assert_int_equal(udmabuf_explain(EINVAL, fd, 0, 65 << 20, &e), -EINVAL);
	assert_int_equal(sys_set_root(NULL, NULL), 0);
	assert_string_equal(e.what, "cannot make a dma-buf of 65 MiB: udmabuf takes at most 64");
	assert_string_equal(e.hint, "raise the limit: echo 65 | sudo tee " LIMIT);
	unlink(path);
	for (int i = 3; i >= 0; i--) {
		snprintf(path, sizeof(path), "%s%s", root, folders[i]);
		rmdir(path);
	}
	rmdir(root);
	close(fd);
}

static void test_udmabuf_missing_device_is_said_with_the_module(void **state)
{
	struct region r;
	struct err e;

	(void)state;
	assert_int_equal(region_alloc_in(&r, &udmabuf, 4096, &e), -ENOENT);
	assert_non_null(strstr(e.what, "/dev/udmabuf"));
	assert_non_null(strstr(e.hint, "modprobe udmabuf"));
	region_free(&r);
}

static void test_udmabuf_region_is_a_dmabuf_and_memory(void **state)
{
	struct region r;
	struct err e;
	int fd, again;

	(void)state;
	assert_int_equal(region_alloc_in(&r, &udmabuf, 5000, &e), 0);
	assert_int_equal(r.bytes, 8192);
	assert_string_equal(region_kind_name(&r), "udmabuf");
	assert_int_equal(region_dmabuf(&r, &fd, &e), 0);
	assert_int_equal(region_dmabuf(&r, &again, &e), 0);
	assert_int_equal(fd, again);
	assert_int_equal(lseek(fd, 0, SEEK_END), 8192);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	memset(r.data, 0x5a, r.bytes);
	region_free(&r);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void test_udmabuf_dmabuf_shows_what_the_region_holds(void **state)
{
	struct region r;
	struct pattern p;
	struct err e;
	char *map;
	int fd;

	(void)state;
	assert_int_equal(pattern_init(&p, PATTERN_SEEDED, 1, 4096, &e), 0);
	assert_int_equal(region_alloc_in(&r, &udmabuf, 1 << 20, &e), 0);
	assert_int_equal(region_fill(&r, &p, 0, r.bytes, 17, &e), 0);
	assert_int_equal(region_dmabuf(&r, &fd, &e), 0);
	map = mmap(NULL, r.bytes, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	assert_false(pattern_check(&p, map, r.bytes, 17, NULL));
	munmap(map, r.bytes);
	region_free(&r);
	pattern_free(&p);
}

static void test_udmabuf_fragments_are_filled_checked_and_gathered(void **state)
{
	(void)state;
	fragments_work(&udmabuf, 9);
	fragments_refuse_bad_ranges(&udmabuf);
	region_copies(&udmabuf);
}

static void test_udmabuf_beyond_the_limit_is_refused_with_the_limit(void **state)
{
	int64_t limit_mb = sys_read_number(1, 1 << 20, 0, LIMIT);
	struct region r;
	struct err e;

	(void)state;
	assert_true(limit_mb > 0);
	assert_int_equal(region_alloc_in(&r, &udmabuf, ((size_t)limit_mb << 20) + 1, &e), -EINVAL);
	assert_non_null(strstr(e.hint, "size_limit_mb"));
	region_free(&r);
}

static void test_udmabuf_on_huge_pages_works_or_says_how_many_are_missing(void **state)
{
	const struct mem_where huge = { .kind = MEM_UDMABUF, .huge_pages = true };
	struct region r;
	struct err e = { 0 };
	int ret;

	(void)state;
	ret = region_alloc_in(&r, &huge, 3 << 20, &e);
	if (ret) {
		assert_non_null(strstr(e.what, "2 huge pages of 2 MiB"));
		assert_non_null(strstr(e.hint, "nr_hugepages"));
		print_message("# huge pages: %s\n", e.what);
	} else {
		assert_int_equal(r.bytes, 4 << 20);
		memset(r.data, 1, r.bytes);
	}
	region_free(&r);
}

static void test_udmabuf_regions_leave_no_descriptor_behind(void **state)
{
	struct region r;
	struct err e;
	int before = dup(0), after;

	(void)state;
	close(before);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(region_alloc_in(&r, &udmabuf, 1 << 16, &e), 0);
		region_free(&r);
	}
	after = dup(0);
	assert_int_equal(after, before);
	close(after);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest words[] = {
		cmocka_unit_test(test_udmabuf_names_each_cause_of_einval),
		cmocka_unit_test(test_udmabuf_names_other_errors),
		cmocka_unit_test(test_udmabuf_names_the_limit_and_how_to_raise_it),
	};
	const struct CMUnitTest missing[] = {
		cmocka_unit_test(test_udmabuf_names_each_cause_of_einval),
		cmocka_unit_test(test_udmabuf_names_other_errors),
		cmocka_unit_test(test_udmabuf_names_the_limit_and_how_to_raise_it),
		cmocka_unit_test(test_udmabuf_missing_device_is_said_with_the_module),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_udmabuf_region_is_a_dmabuf_and_memory),
		cmocka_unit_test(test_udmabuf_dmabuf_shows_what_the_region_holds),
		cmocka_unit_test(test_udmabuf_fragments_are_filled_checked_and_gathered),
		cmocka_unit_test(test_udmabuf_beyond_the_limit_is_refused_with_the_limit),
		cmocka_unit_test(test_udmabuf_on_huge_pages_works_or_says_how_many_are_missing),
		cmocka_unit_test(test_udmabuf_regions_leave_no_descriptor_behind),
	};
	int fd = open("/dev/udmabuf", O_RDWR);
	struct err e;

	have_device = fd >= 0;
	err_set(&e, errno, "/dev/udmabuf cannot be opened here: %m");
	if (have_device)
		close(fd);
	if (argc > 1 && !strcmp(argv[1], "words"))
		return access("/dev/udmabuf", F_OK) ? cmocka_run_group_tests(missing, NULL, NULL)
						    : cmocka_run_group_tests(words, NULL, NULL);
	if (!have_device)
		return skip_all("mem/udmabuf", &e);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
