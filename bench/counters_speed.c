// SPDX-License-Identifier: BSD-3-Clause
/* Times what bench/counters cannot see from outside: each step in one process, below WEIR_SYSROOT. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "counters/collector.h"
#include "counters/finding.h"
#include "sys/path.h"

static unsigned long allocations;

/* glibc's own, counted on the way. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
	allocations++;
	return __libc_malloc(bytes);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t bytes)
{
	allocations++;
	return __libc_calloc(count, bytes);
}

__attribute__((visibility("default"))) void *realloc(void *block, size_t bytes)
{
	allocations++;
	return __libc_realloc(block, bytes);
}

static double since_ms(uint64_t began_ns)
{
	return (double)(clock_ns() - began_ns) / 1e6;
}

static int fail(const struct err *e)
{
	fprintf(stderr, "counters_speed: %s\n", e->what);
	return 1;
}

int main(void)
{
	struct snapshot before = { 0 }, after = { 0 };
	double first_ms, again_ms, difference_ms;
	struct findings findings;
	struct difference d;
	struct collector *c;
	struct rules *rules;
	struct err e = { 0 };
	struct mallinfo2 used;
	unsigned long counted;
	uint64_t began_ns;

	if (sys_set_root(getenv("WEIR_SYSROOT"), &e) ||
		collector_open(&c, &(struct collector_options){ .sources = "cxi" }, &e))
		return fail(&e);
	began_ns = clock_ns();
	if (collector_read(c, &before, &e))
		return fail(&e);
	first_ms = since_ms(began_ns);
	if (collector_read(c, &after, &e)) /* gives it its memory */
		return fail(&e);
	counted = allocations;
	began_ns = clock_ns();
	if (collector_read(c, &after, &e))
		return fail(&e);
	again_ms = since_ms(began_ns);
	counted = allocations - counted;
	/* So that there is something to find: every third counter has moved. */
	for (uint32_t i = 0; i < after.count; i += 3)
		after.reading[i] = (struct reading){ after.reading[i].value + i,
			after.reading[i].time_ns + NS_PER_S };
	began_ns = clock_ns();
	if (rules_load(&rules, NULL, &e) || difference_make(&d, &before, &after, &e) ||
		findings_make(&findings, &d, rules, &e))
		return fail(&e);
	difference_ms = since_ms(began_ns);
	used = mallinfo2();
	printf("{\"counters\":%u,\"first_ms\":%.3f,\"again_ms\":%.3f,\"allocations\":%lu,"
	       "\"difference_ms\":%.3f,\"findings\":%u,\"memory_mib\":%.2f}\n",
		d.count, first_ms, again_ms, counted, difference_ms, findings.count,
		(double)(used.uordblks + used.hblkhd) / 1048576);
	return 0;
}
