/* SPDX-License-Identifier: BSD-3-Clause */
/* A time is the median of 20, taken by events around the work alone. Before each, as much memory is
 * written as empties the GPU's cache; that also keeps the GPU busy until the measured work is queued,
 * so that the CPU's time to queue it does not count.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "memory.h"

#ifndef BYTES
#define BYTES (64 * MIB)
#endif
#define POOL_BYTES (BYTES * 16)
#define FLUSH	   (BYTES * 4)
#define PAGES	   (BYTES / 4096)
#define REPS	   20

struct lab {
	struct cuda_gpu *gpu;
	const struct cuda *cu;
	struct region pool, target, flush, staging;
	struct pattern p;
	struct cuda_pattern on_gpu;
	struct cuda_stream *stream;
	struct cuda_event *start, *end;
	struct mem_fragment *list; /* PAGES * 4, on the host */
	cuda_address list_address, first;
	double copy_us; /* of BYTES, by the driver: what all is compared with */
};

struct job {
	const char *name;
	struct cuda_function *kernel; /* NULL: the driver's copy */
	unsigned blocks, threads;
	void **arguments;
	size_t bytes;
};

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void say(const struct lab *l, const char *name, size_t bytes, double *us, int count)
{
	double median, ratio;

	qsort(us, (size_t)count, sizeof(*us), compare_doubles);
	median = us[count / 2];
	ratio = l->copy_us > 0 ? l->copy_us / BYTES * (double)bytes / median : 1;
	printf("%-44s %8.1f us  (%.1f to %.1f)  %7.1f GB/s  %5.2f of copy\n", name, median, us[0],
		us[count - 1], (double)bytes / median / 1e3, ratio);
	fprintf(json,
		"%s\n  {\"measure\": \"%s\", \"bytes\": %zu, \"median_us\": %.2f, \"min_us\": %.2f, \"max_us\": %.2f, \"of_copy\": %.3f}",
		json_comma, name, bytes, median, us[0], us[count - 1], ratio);
	json_comma = ",";
	fflush(json);
}

static int run_once(struct lab *l, const struct job *j)
{
	const struct cuda *cu = l->cu;

	if (j->kernel)
		OK(cuda_ok(cu->launch(j->kernel, j->blocks, 1, 1, j->threads, 1, 1, 0, l->stream,
				   j->arguments, NULL),
			&e, "launch"));
	else
		OK(cuda_ok(cu->copy_async(l->target.cuda->address, l->pool.cuda->address, j->bytes,
				   l->stream),
			&e, "copy"));
	return 0;
}

static int measure(struct lab *l, const struct job *j, double *median_us)
{
	const struct cuda *cu = l->cu;
	double us[REPS];

	for (int i = -2; i < REPS; i++) {
		float ms = 0;

		OK(cuda_ok(cu->set_async(l->flush.cuda->address, 1, FLUSH, l->stream), &e, "set"));
		OK(cuda_ok(cu->event_record(l->start, l->stream), &e, "record"));
		OK(run_once(l, j));
		OK(cuda_ok(cu->event_record(l->end, l->stream), &e, "record"));
		OK(cuda_ok(cu->stream_wait(l->stream), &e, "%s", j->name));
		OK(cuda_ok(cu->event_elapsed(&ms, l->start, l->end), &e, "elapsed"));
		if (i >= 0)
			us[i] = ms * 1e3;
	}
	say(l, j->name, j->bytes, us, REPS);
	if (median_us)
		*median_us = us[REPS / 2];
	return 0;
}

/* Fragments of the stream at random places of the pool, spaced by a power of two. */
static int scatter(struct lab *l, uint32_t bytes, size_t count, bool in_order)
{
	size_t slot = 4096, slots;

	while (slot < bytes)
		slot *= 2;
	slots = POOL_BYTES / slot;
	for (size_t i = 0; i < count; i++)
		l->list[i] = (struct mem_fragment){ i * slot, bytes, i * bytes };
	for (size_t i = 0; !in_order && i < count; i++) {
		/* A permutation of all slots: an odd factor modulo a power of two. */
		l->list[i].region_offset = (i * 2654435761u + 12345) % slots * slot;
	}
	OK(cuda_ok(l->cu->copy_async(l->list_address, (uintptr_t)l->list, count * sizeof(*l->list),
			   l->stream),
		&e, "copy list"));
	OK(cuda_ok(l->cu->stream_wait(l->stream), &e, "copy list"));
	/* Every fragment gets its part of the stream: the stream is made whole, then dealt out. */
	OK(region_fill(&l->target, &l->p, 0, count * bytes, 0, &e));
	for (size_t i = 0; i < count; i++) {
		uint64_t swap = l->list[i].region_offset;

		l->list[i].region_offset = l->list[i].stream_position;
		l->list[i].stream_position = swap;
	}
	OK(region_gather(&l->target, l->list, count, &l->pool, 0, &e));
	for (size_t i = 0; i < count; i++) {
		uint64_t swap = l->list[i].region_offset;

		l->list[i].region_offset = l->list[i].stream_position;
		l->list[i].stream_position = swap;
	}
	OK(region_check(&l->pool, &l->p, l->list, count, NULL, &e));
	return 0;
}

static int expect_target(struct lab *l, size_t bytes)
{
	struct mem_fragment all = { 0, (uint32_t)bytes, 0 };

	OK(region_check(&l->target, &l->p, &all, 1, NULL, &e));
	return 0;
}

static int wipe_target(struct lab *l)
{
	OK(cuda_ok(l->cu->set_async(l->target.cuda->address, 0, BYTES, l->stream), &e, "wipe"));
	OK(cuda_ok(l->cu->stream_wait(l->stream), &e, "wipe"));
	return 0;
}

static int measure_gather(struct lab *l, struct cuda_function *kernel, const char *name,
	uint32_t bytes, size_t count, unsigned blocks, unsigned threads, double *median_us)
{
	uint32_t piece = 4096, split = (bytes + piece - 1) / piece;
	uint32_t pieces = split * (uint32_t)count;
	uint64_t position = 0;
	void *arguments[] = { &l->list_address, &pieces, &split, &piece, &l->pool.cuda->address,
		&l->target.cuda->address, &position };
	unsigned all = (pieces * 32 + threads - 1) / threads;
	struct job j = { name, kernel, blocks && blocks < all ? blocks : all, threads, arguments,
		bytes * count };

	OK(wipe_target(l));
	OK(measure(l, &j, median_us));
	OK(expect_target(l, j.bytes));
	return 0;
}

static int measure_check(struct lab *l, struct cuda_function *kernel, const char *name,
	uint32_t bytes, size_t count, const struct cuda_pattern *p, unsigned threads)
{
	uint32_t piece = 4096, split = (bytes + piece - 1) / piece;
	uint32_t pieces = split * (uint32_t)count;
	uint64_t cycle = p->key.reference_bytes, first = 0;
	void *arguments[] = { &l->list_address, &pieces, &split, &piece, &l->pool.cuda->address,
		(void *)&p->reference, &cycle, &l->first };
	struct job j = { name, kernel, (pieces * 32 + threads - 1) / threads, threads, arguments,
		bytes * count };

	OK(cuda_ok(l->cu->set_async(l->first, 0xff, 8, l->stream), &e, "set"));
	OK(measure(l, &j, NULL));
	OK(cuda_ok(l->cu->copy_async((uintptr_t)&first, l->first, 8, l->stream), &e, "copy"));
	OK(cuda_ok(l->cu->stream_wait(l->stream), &e, "copy"));
	EXPECT(first == UINT64_MAX);
	return 0;
}

static int measure_fill(struct lab *l, struct cuda_function *kernel, const char *name,
	uint64_t position, unsigned threads)
{
	uint64_t bytes = BYTES, cycle = l->p.reference_bytes;
	void *arguments[] = { &l->target.cuda->address, &bytes, &position, &l->on_gpu.reference,
		&cycle };
	struct job j = { name, kernel, (unsigned)(PAGES * 32 / threads), threads, arguments,
		BYTES };
	struct mem_fragment all = { 0, BYTES, position };

	OK(wipe_target(l));
	OK(measure(l, &j, NULL));
	OK(region_check(&l->target, &l->p, &all, 1, NULL, &e));
	return 0;
}

static int lab_open(struct lab *l)
{
	struct mem_where where = in_gpu(false), pinned = { .kind = MEM_PINNED, .gpu = which };

	OK(cuda_gpu_get(&l->gpu, which, &e));
	l->cu = l->gpu->cu;
	OK(pattern_init(&l->p, PATTERN_SEEDED, 5, 491520, &e));
	OK(region_alloc_in(&l->pool, &where, POOL_BYTES, &e));
	OK(region_alloc_in(&l->target, &where, BYTES, &e));
	OK(region_alloc_in(&l->flush, &where, FLUSH, &e));
	OK(region_alloc_in(&l->staging, &pinned, BYTES, &e));
	OK(cuda_pattern_load(&l->on_gpu, l->gpu, &l->p, &e));
	l->list = calloc(PAGES * 4, sizeof(*l->list));
	EXPECT(l->list);
	OK(cuda_gpu_enter(l->gpu, &e));
	OK(cuda_ok(l->cu->stream_create(&l->stream, CUDA_STREAM_NON_BLOCKING, 0), &e, "stream"));
	OK(cuda_ok(l->cu->event_create(&l->start, 0), &e, "event"));
	OK(cuda_ok(l->cu->event_create(&l->end, 0), &e, "event"));
	OK(cuda_ok(l->cu->mem_alloc(&l->list_address, PAGES * 4 * sizeof(*l->list)), &e, "list"));
	OK(cuda_ok(l->cu->mem_alloc(&l->first, 8), &e, "first"));
	return 0;
}

static int measure_copy(struct lab *l)
{
	struct job j = { .name = "device copy", .bytes = BYTES };
	double us;

	OK(measure(l, &j, &us));
	l->copy_us = us;
	return 0;
}

static int measure_pages(struct lab *l)
{
	static const unsigned limits[] = { 1, 2, 4, 8, 16, 32, 66, 132, 264, 528 };
	double copies[3] = { 0 }, us = 0, ratio;
	char name[64];

	OK(scatter(l, 4096, PAGES, false));
	/* Three times each in turn: clocks and neighbours change. */
	for (int i = 0; i < 3; i++) {
		l->copy_us = 0;
		OK(measure_copy(l));
		copies[i] = l->copy_us;
		OK(measure_gather(
			l, l->gpu->gather, "gather 4 KiB, 64 MiB", 4096, PAGES, 0, 256, &us));
	}
	qsort(copies, 3, sizeof(copies[0]), compare_doubles);
	l->copy_us = copies[1];
	ratio = l->copy_us / us;
	printf("target: gather of 4 KiB fragments, 64 MiB: %.2f of a device copy, 0.90 wanted: %s\n",
		ratio, ratio >= 0.9 ? "reached" : "MISSED");
	missed += ratio < 0.9;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		snprintf(name, sizeof(name), "gather 4 KiB, 64 MiB, %u blocks", limits[i]);
		OK(measure_gather(l, l->gpu->gather, name, 4096, PAGES, limits[i], 256, NULL));
	}
	OK(measure_gather(l, l->gpu->gather, "gather 4 KiB, 4 MiB", 4096, 1024, 0, 256, NULL));
	OK(measure_gather(l, l->gpu->gather, "gather 4 KiB, 512 KiB", 4096, 128, 0, 256, NULL));
	OK(measure_check(l, l->gpu->check, "check 4 KiB, 64 MiB", 4096, PAGES, &l->on_gpu, 256));
	OK(measure_fill(l, l->gpu->fill, "fill 64 MiB", 0, 256));
	OK(measure_fill(l, l->gpu->fill, "fill 64 MiB, position 5", 5, 256));
	return 0;
}

static int measure_shapes(struct lab *l)
{
	struct pattern large;
	struct cuda_pattern large_on_gpu = { 0 };

	OK(scatter(l, 4096, PAGES, true));
	OK(measure_gather(l, l->gpu->gather, "gather 4 KiB in order", 4096, PAGES, 0, 256, NULL));
	OK(scatter(l, 1448, BYTES / 1448, false));
	OK(measure_gather(l, l->gpu->gather, "gather 1448 B", 1448, BYTES / 1448, 0, 256, NULL));
	OK(measure_check(l, l->gpu->check, "check 1448 B", 1448, BYTES / 1448, &l->on_gpu, 256));
	OK(scatter(l, 4001, BYTES / 4096, false));
	OK(measure_gather(l, l->gpu->gather, "gather 4001 B (odd)", 4001, PAGES, 0, 256, NULL));
	OK(measure_check(l, l->gpu->check, "check 4001 B (odd)", 4001, PAGES, &l->on_gpu, 256));
	OK(scatter(l, 65536, BYTES / 65536, false));
	OK(measure_gather(l, l->gpu->gather, "gather 64 KiB", 65536, BYTES / 65536, 0, 256, NULL));
	OK(pattern_init(&large, PATTERN_SEEDED, 5, BYTES, &e));
	OK(cuda_pattern_load(&large_on_gpu, l->gpu, &large, &e));
	OK(scatter(l, 4096, PAGES, true));
	OK(region_fill(&l->pool, &large, 0, BYTES, 0, &e));
	OK(measure_check(
		l, l->gpu->check, "check 4 KiB, cycle 64 MiB", 4096, PAGES, &large_on_gpu, 256));
	cuda_pattern_free(&large_on_gpu);
	pattern_free(&large);
	return 0;
}

/* What a caller sees: wall time of a queued gather until its mark is seen, and of the call alone. */
static int measure_queue(struct lab *l)
{
	static const size_t counts[] = { 1, 128, 1024, PAGES / 4, PAGES };
	struct cuda_queue *q;
	struct cuda_mark *mark;
	double call[REPS], all[REPS], check[REPS];
	char name[64];

	OK(scatter(l, 4096, PAGES, false));
	OK(cuda_queue_open(&q, l->gpu, 0, &e));
	OK(cuda_mark_open(&mark, l->gpu, &e));
	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		size_t n = counts[c];

		OK(wipe_target(l));
		for (int i = -2; i < REPS; i++) {
			struct cuda_check result;
			struct mem_mismatch m;
			uint64_t t0 = clock_ns(), t1, t2, t3;

			OK(cuda_queue_gather(q, &l->pool, l->list, n, &l->target, 0, &e));
			t1 = clock_ns();
			OK(cuda_mark_set(mark, q, &e));
			while (!cuda_mark_done(mark, &e))
				;
			t2 = clock_ns();
			OK(cuda_queue_check(q, &l->pool, l->list, n, &l->on_gpu, &result, &e));
			OK(cuda_queue_wait(q, &e));
			OK(cuda_check_result(&result, &m, &e));
			t3 = clock_ns();
			if (i < 0)
				continue;
			call[i] = (double)(t1 - t0) / 1e3;
			all[i] = (double)(t2 - t0) / 1e3;
			check[i] = (double)(t3 - t2) / 1e3;
		}
		OK(expect_target(l, n * 4096));
		snprintf(name, sizeof(name), "queue: gather %zu x 4 KiB, the call", n);
		say(l, name, n * 4096, call, REPS);
		snprintf(name, sizeof(name), "queue: gather %zu x 4 KiB until done", n);
		say(l, name, n * 4096, all, REPS);
		snprintf(name, sizeof(name), "queue: check %zu x 4 KiB until done", n);
		say(l, name, n * 4096, check, REPS);
	}
	cuda_mark_close(mark);
	cuda_queue_close(q);
	return 0;
}

static int measure_pinned(struct lab *l)
{
	double us[REPS];

	for (int up = 0; up < 2; up++) {
		cuda_address a = l->staging.cuda->address, b = l->target.cuda->address;

		for (int i = -2; i < REPS; i++) {
			float ms;

			OK(cuda_ok(l->cu->event_record(l->start, l->stream), &e, "record"));
			OK(cuda_ok(l->cu->copy_async(up ? b : a, up ? a : b, BYTES, l->stream), &e,
				"copy"));
			OK(cuda_ok(l->cu->event_record(l->end, l->stream), &e, "record"));
			OK(cuda_ok(l->cu->stream_wait(l->stream), &e, "copy"));
			OK(cuda_ok(l->cu->event_elapsed(&ms, l->start, l->end), &e, "elapsed"));
			if (i >= 0)
				us[i] = ms * 1e3;
		}
		say(l, up ? "pinned host to GPU, 64 MiB" : "GPU to pinned host, 64 MiB", BYTES, us,
			REPS);
	}
	return 0;
}

static int measure_variant(struct lab *l, const char *file)
{
	static const unsigned threads[] = { 64, 128, 256 };
	struct cuda_function *gather, *check, *fill;
	struct cuda_module *module;
	struct stat s;
	char name[96], *text;
	FILE *f = fopen(file, "r");
	const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;

	EXPECT(f && !fstat(fileno(f), &s));
	text = calloc(1, (size_t)s.st_size + 1);
	EXPECT(text && fread(text, 1, (size_t)s.st_size, f) == (size_t)s.st_size);
	fclose(f);
	OK(cuda_ok(l->cu->module_load(&module, text, 0, NULL, NULL), &e, "cannot load %s", file));
	OK(cuda_ok(l->cu->module_function(&gather, module, "weir_gather"), &e, "gather"));
	OK(cuda_ok(l->cu->module_function(&check, module, "weir_check"), &e, "check"));
	OK(cuda_ok(l->cu->module_function(&fill, module, "weir_fill"), &e, "fill"));
	for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++) {
		snprintf(name, sizeof(name), "%s gather, %u threads", base, threads[i]);
		OK(measure_gather(l, gather, name, 4096, PAGES, 0, threads[i], NULL));
		snprintf(name, sizeof(name), "%s check, %u threads", base, threads[i]);
		OK(measure_check(l, check, name, 4096, PAGES, &l->on_gpu, threads[i]));
		snprintf(name, sizeof(name), "%s fill, %u threads", base, threads[i]);
		OK(measure_fill(l, fill, name, 0, threads[i]));
	}
	l->cu->module_unload(module);
	free(text);
	return 0;
}

static void part(const char *name, int ret)
{
	if (ret)
		printf("FAILED measuring %s\n", name);
	failed += ret != 0;
}

void measure_all(char **variants, int count)
{
	static struct lab l;

	printf("\n%zu MiB unless said, medians of %d\n", BYTES / MIB, REPS);
	if (lab_open(&l)) {
		part("anything", -1);
		return;
	}
	part("pages", measure_pages(&l));
	part("shapes", measure_shapes(&l));
	part("queues", measure_queue(&l));
	part("pinned memory", measure_pinned(&l));
	part("pages again", scatter(&l, 4096, PAGES, false));
	for (int i = 0; i < count; i++)
		part(variants[i], measure_variant(&l, variants[i]));
	/* The process ends here: what the lab holds goes with it. */
}
