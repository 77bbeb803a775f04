/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests and measures CUDA memory: bench/gpu/memory builds and runs this.
 *
 *	memory GPU JSON [PTX...]
 *
 * Every test runs, whatever those before it did; every failure is printed with its reason.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "memory.h"

/* Smaller where no GPU is behind the driver. */
#ifndef LARGE_SHIFT
#define LARGE_SHIFT 30
#endif

const char *which;
struct err e;
int failed, missed;
FILE *json;
const char *json_comma = "";
static int passed;

static uint64_t random_next(void)
{
	static uint64_t state = 1;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static int test_devices(void)
{
	struct cuda_device *list, d;
	const struct cuda *cu;
	int version = 0;
	size_t count;

	OK(cuda_open(&cu, &e));
	cu->driver_version(&version);
	OK(cuda_device_list(&list, &count, &e));
	for (size_t i = 0; i < count; i++)
		printf("     GPU %d %s %s, %llu MiB, %d multiprocessors, dma-buf %d, vmm %d, vmm with rdma %d, CUDA %d\n",
			list[i].index, list[i].address, list[i].name,
			(unsigned long long)(list[i].memory_bytes >> 20), list[i].multiprocessors,
			list[i].dmabuf, list[i].vmm, list[i].vmm_rdma, version);
	EXPECT(count > 0);
	OK(cuda_device_find(&d, list[0].address, &e));
	EXPECT(d.index == 0);
	EXPECT(cuda_device_find(&d, "77", &e) == -ENODEV);
	free(list);
	return 0;
}

static int test_alignments_of(bool vmm)
{
	struct mem_where where = in_gpu(vmm);
	unsigned char found[512], zeros[512] = { 0 };
	struct region from, to;
	struct pattern p;

	OK(pattern_init(&p, PATTERN_SEEDED, 1, 1 << 16, &e));
	OK(region_alloc_in(&from, &where, 8192, &e));
	OK(region_alloc_in(&to, &where, 8192, &e));
	OK(region_fill(&from, &p, 0, 8192, 0, &e));
	for (uint32_t s = 0; s < 17; s++)
		for (uint32_t t = 0; t < 17; t++)
			for (uint32_t n = 0; n < 300; n += n < 34 ? 1 : 61) {
				struct mem_fragment f = { s, n, t };

				OK(region_write(&to, 0, zeros, sizeof(zeros), &e));
				OK(region_gather(&from, &f, 1, &to, 0, &e));
				OK(region_read(&to, 0, found, sizeof(found), &e));
				EXPECT(!pattern_check(&p, found + t, n, s, NULL));
				EXPECT(!memcmp(found, zeros, t));
				EXPECT(!memcmp(found + t + n, zeros, sizeof(found) - t - n));
				f.stream_position = s + (uint64_t)(1 << 16) * (t * 1000000);
				OK(region_check(&from, &p, &f, 1, NULL, &e));
			}
	region_free(&from);
	region_free(&to);
	pattern_free(&p);
	return 0;
}

static int test_alignments(void)
{
	return test_alignments_of(false) | test_alignments_of(true);
}

static int test_fill_alignments(void)
{
	static const size_t cycles[] = { 1, 111, 4095, 65537, 491520 };
	struct mem_where where = in_gpu(false);
	struct region r;
	unsigned char *data = malloc(2 * MIB);

	EXPECT(data);
	OK(region_alloc_in(&r, &where, 2 * MIB, &e));
	for (size_t c = 0; c < 5; c++) {
		struct pattern p;

		OK(pattern_init(&p, c % 2 ? PATTERN_SEEDED : PATTERN_PUBLISHED, 7, cycles[c], &e));
		for (int i = 0; i < 60; i++) {
			size_t at = random_next() % 50000, n = random_next() % 100000;
			uint64_t position = random_next() >> (random_next() % 63) >> 1;

			memset(data, 0xee, 200000);
			OK(region_write(&r, 0, data, 200000, &e));
			OK(region_fill(&r, &p, at, n, position, &e));
			OK(region_read(&r, 0, data, 200000, &e));
			EXPECT(!pattern_check(&p, data + at, n, position, NULL));
			EXPECT(!at || data[at - 1] == 0xee);
			EXPECT(data[at + n] == 0xee);
		}
		pattern_free(&p);
	}
	region_free(&r);
	free(data);
	return 0;
}

static int test_corruption(void)
{
	struct mem_where where = in_gpu(false);
	struct mem_fragment list[3] = { { 3, 1448, 0 }, { 8192, 4096, 1448 },
		{ 20001, 777, 5544 } };
	struct mem_mismatch m;
	struct region r;
	struct pattern p;

	OK(pattern_init(&p, PATTERN_SEEDED, 3, 491520, &e));
	OK(region_alloc_in(&r, &where, 2 * MIB, &e));
	for (size_t i = 0; i < 3; i++)
		OK(region_fill(
			&r, &p, list[i].region_offset, list[i].bytes, list[i].stream_position, &e));
	OK(region_check(&r, &p, list, 3, &m, &e));
	for (size_t i = 0; i < 3; i++)
		for (uint32_t b = 0; b < list[i].bytes; b++) {
			unsigned char right = pattern_byte(&p, list[i].stream_position + b);
			unsigned char wrong = right ^ (unsigned char)(1 << b % 8);

			OK(region_write(&r, list[i].region_offset + b, &wrong, 1, &e));
			EXPECT(region_check(&r, &p, list, 3, &m, &e) == -EBADMSG);
			EXPECT(m.fragment == i && m.byte == b);
			EXPECT(m.found == wrong && m.expected == right);
			OK(region_write(&r, list[i].region_offset + b, &right, 1, &e));
		}
	OK(region_check(&r, &p, list, 3, &m, &e));
	list[0].stream_position = 1448; /* as if the two were swapped */
	list[1].stream_position = 0;
	EXPECT(region_check(&r, &p, list, 3, &m, &e) == -EBADMSG);
	EXPECT(m.fragment == 0);
	region_free(&r);
	pattern_free(&p);
	return 0;
}

/* Long lists, one long fragment among short ones, offsets beyond 32 bits. */
static int test_large(void)
{
	size_t count = 2 * CUDA_QUEUE_FRAGMENTS + 77, bytes = (size_t)5 << LARGE_SHIFT;
	struct mem_fragment *list = calloc(count, sizeof(*list));
	struct mem_where where = in_gpu(false);
	struct mem_mismatch m;
	struct region r, to;
	struct pattern p;
	unsigned char wrong;
	uint64_t at = 0;

	EXPECT(list);
	OK(pattern_init(&p, PATTERN_SEEDED, 3, 491520, &e));
	OK(region_alloc_in(&r, &where, bytes, &e));
	OK(region_fill(&r, &p, 0, bytes, 0, &e));
	for (size_t i = 0; i < count; i++) {
		list[i].bytes =
			i == 9 ? 3u << LARGE_SHIFT
			       : 1 + (uint32_t)(random_next() % ((1u << LARGE_SHIFT) / count));
		list[i].region_offset = list[i].stream_position = at;
		at += list[i].bytes;
	}
	EXPECT(at < bytes);
	OK(region_check(&r, &p, list, count, &m, &e));
	wrong = (unsigned char)~pattern_byte(&p, at - 1);
	OK(region_write(&r, at - 1, &wrong, 1, &e));
	EXPECT(region_check(&r, &p, list, count, &m, &e) == -EBADMSG);
	EXPECT(m.fragment == count - 1 && m.byte == list[count - 1].bytes - 1);
	wrong = (unsigned char)~wrong;
	OK(region_write(&r, at - 1, &wrong, 1, &e));
	OK(region_alloc_in(&to, &where, bytes, &e));
	OK(region_gather(&r, list, count, &to, 0, &e));
	OK(region_check(&to, &p, list, count, &m, &e));
	region_free(&r);
	region_free(&to);
	pattern_free(&p);
	free(list);
	return 0;
}

static int test_dmabuf_of(bool vmm)
{
	struct mem_where where = in_gpu(vmm);
	char path[64], name[128] = "";
	struct region r;
	int fd;

	OK(region_alloc_in(&r, &where, 6 * MIB + 1, &e));
	EXPECT(r.bytes == 8 * MIB);
	OK(region_dmabuf(&r, &fd, &e));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (readlink(path, name, sizeof(name) - 1) < 0)
		name[0] = '\0';
	printf("     %s: %s, %lld bytes\n", vmm ? "cuMemCreate" : "cuMemAlloc", name,
		(long long)lseek(fd, 0, SEEK_END));
	EXPECT(strstr(name, "dmabuf"));
	EXPECT(lseek(fd, 0, SEEK_END) == (off_t)r.bytes);
	region_free(&r);
	return 0;
}

static int test_dmabuf(void)
{
	return test_dmabuf_of(false) | test_dmabuf_of(true);
}

static int test_pinned(void)
{
	struct mem_where pinned = { .kind = MEM_PINNED, .gpu = which }, where = in_gpu(false);
	struct region staging, registered, r, target;
	struct mem_fragment f[2] = { { 5000, 3000, 0 }, { 1, 4999, 3000 } };
	struct cuda_queue *q;
	struct cuda_mark *mark;
	struct pattern p;

	OK(pattern_init(&p, PATTERN_SEEDED, 9, 491520, &e));
	OK(region_alloc_in(&staging, &pinned, 4 * MIB, &e));
	OK(region_alloc(&registered, 4 * MIB, &e));
	OK(region_alloc_in(&r, &where, 8 * MIB, &e));
	OK(cuda_queue_open(&q, r.cuda->gpu, 0, &e));
	OK(cuda_mark_open(&mark, r.cuda->gpu, &e));
	EXPECT(cuda_queue_copy(q, &r, 0, &registered, 0, 4096, &e) == -EOPNOTSUPP);
	OK(region_pin(&registered, which, &e));
	EXPECT(region_pin(&registered, which, &e) == -EEXIST);
	pattern_fill(&p, staging.data, staging.bytes, 0);
	OK(cuda_queue_copy(q, &r, 12345, &staging, 0, staging.bytes, &e));
	OK(cuda_queue_copy(q, &registered, 0, &r, 12345, registered.bytes, &e));
	OK(cuda_mark_set(mark, q, &e));
	while (!cuda_mark_done(mark, &e))
		;
	EXPECT(cuda_mark_done(mark, &e) == 1);
	EXPECT(!pattern_check(&p, registered.data, registered.bytes, 0, NULL));
	/* A kernel writes into pinned memory. */
	OK(region_fill(&r, &p, 5000, 3000, 0, &e));
	OK(region_fill(&r, &p, 1, 4999, 3000, &e));
	memset(staging.data, 0, staging.bytes);
	OK(region_gather(&r, f, 2, &staging, 0, &e));
	EXPECT(!pattern_check(&p, staging.data, 7999, 0, NULL));
	OK(region_alloc(&target, 4 * MIB, &e));
	EXPECT(region_gather(&r, f, 2, &target, 0, &e) == -EOPNOTSUPP);
	cuda_mark_close(mark);
	cuda_queue_close(q);
	region_free(&target);
	region_free(&staging);
	region_free(&registered);
	region_free(&r);
	pattern_free(&p);
	return 0;
}

static int test_out_of_memory(void)
{
	struct region r;

	for (int vmm = 0; vmm < 2; vmm++) {
		struct mem_where where = in_gpu(vmm);

		EXPECT(region_alloc_in(&r, &where, (size_t)1 << 42, &e) == -ENOMEM);
		printf("     %s. %s\n", e.what, e.hint);
	}
	return 0;
}

/* Free memory as a context of our own sees it, retained for the question only. */
static int free_memory(const struct cuda *cu, int device, size_t *bytes)
{
	struct cuda_context *context;
	size_t all;

	OK(cuda_ok(cu->primary_retain(&context, device), &e, "retain"));
	OK(cuda_ok(cu->context_push(context), &e, "push"));
	OK(cuda_ok(cu->mem_info(bytes, &all), &e, "info"));
	OK(cuda_ok(cu->context_pop(&context), &e, "pop"));
	OK(cuda_ok(cu->primary_release(device), &e, "release"));
	return 0;
}

static int use_once(void)
{
	struct mem_where where = in_gpu(random_next() % 2);
	struct mem_fragment f = { 0, 4096, 0 };
	struct region r;
	struct pattern p;
	int fd;

	OK(pattern_init(&p, PATTERN_SEEDED, 9, 491520, &e));
	OK(region_alloc_in(&r, &where, 32 * MIB, &e));
	OK(region_dmabuf(&r, &fd, &e));
	OK(region_fill(&r, &p, 0, r.bytes, 0, &e));
	OK(region_check(&r, &p, &f, 1, NULL, &e));
	region_free(&r);
	pattern_free(&p);
	return 0;
}

static int test_context_pairs(void)
{
	int (*state)(int, unsigned *, int *), (*current)(void **);
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *before_context, *after_context;
	const struct cuda *cu;
	struct cuda_device d;
	size_t before, after;
	unsigned flags;
	int active = -1, rounds = 0, descriptors;
	uint64_t start = clock_ns();

	*(void **)&state = dlsym(library, "cuDevicePrimaryCtxGetState");
	*(void **)&current = dlsym(library, "cuCtxGetCurrent");
	EXPECT(state && current);
	OK(cuda_open(&cu, &e));
	OK(cuda_device_find(&d, which, &e));
	current(&before_context);
	OK(use_once());
	OK(free_memory(cu, d.handle, &before));
	descriptors = dup(0);
	close(descriptors);
	for (; rounds < 100 && clock_ns() - start < 45 * NS_PER_S; rounds++) {
		OK(use_once());
		state(d.handle, &flags, &active);
		EXPECT(!active);
	}
	current(&after_context);
	OK(free_memory(cu, d.handle, &after));
	printf("     %d rounds, %.0f ms each; free memory %zu MiB before, %zu after; next descriptor %d, %d\n",
		rounds, (double)(clock_ns() - start) / rounds / 1e6, before >> 20, after >> 20,
		descriptors, dup(0));
	EXPECT(before_context == after_context);
	EXPECT(after + MIB >= before);
	return 0;
}

/* 100 rounds in a context that someone else holds, as under PyTorch. */
static int test_context_shared(void)
{
	struct cuda_context *context;
	const struct cuda *cu;
	struct cuda_device d;
	size_t before, after;

	OK(cuda_open(&cu, &e));
	OK(cuda_device_find(&d, which, &e));
	OK(cuda_ok(cu->primary_retain(&context, d.handle), &e, "retain"));
	OK(use_once());
	OK(free_memory(cu, d.handle, &before));
	for (int i = 0; i < 100; i++)
		OK(use_once());
	OK(free_memory(cu, d.handle, &after));
	printf("     free memory %zu MiB before, %zu after\n", before >> 20, after >> 20);
	EXPECT(after + MIB >= before);
	OK(cuda_ok(cu->primary_release(d.handle), &e, "release"));
	return 0;
}

static void test(const char *name, int (*run)(void))
{
	uint64_t start = clock_ns();
	int ret;

	printf("test %s\n", name);
	fflush(stdout);
	ret = run();
	printf("%s %s (%.1f s)\n", ret ? "FAILED" : "passed", name,
		(double)(clock_ns() - start) / 1e9);
	*(ret ? &failed : &passed) += 1;
	fprintf(json, "%s\n  {\"test\": \"%s\", \"passed\": %s}", json_comma, name,
		ret ? "false" : "true");
	json_comma = ",";
	fflush(json);
}

int main(int argc, char **argv)
{
	const struct cuda *cu;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 3) {
		fprintf(stderr, "usage: memory GPU JSON [PTX...]\n");
		return 2;
	}
	which = argv[1];
	if (cuda_open(&cu, &e)) {
		printf("%s\n%s\n", e.what, e.hint);
		return 2;
	}
	json = fopen(argv[2], "w");
	if (!json) {
		perror(argv[2]);
		return 2;
	}
	fprintf(json, "{\"schema\": \"weir.bench.gpu-memory\", \"version\": 1, \"results\": [");
	test("devices", test_devices);
	test("alignments", test_alignments);
	test("fill alignments", test_fill_alignments);
	test("corruption", test_corruption);
	test("large", test_large);
	test("dma-buf", test_dmabuf);
	test("pinned", test_pinned);
	test("out of memory", test_out_of_memory);
	test("context shared", test_context_shared);
	test("context pairs", test_context_pairs);
	measure_all(argv + 3, argc - 3 > 0 ? argc - 3 : 0);
	fprintf(json, "\n], \"passed\": %d, \"failed\": %d, \"missed\": %d}\n", passed, failed,
		missed);
	fclose(json);
	printf("\n%d passed, %d failed, %d targets missed\n", passed, failed, missed);
	return failed || missed;
}
