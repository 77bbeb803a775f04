/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes, rates, durations and lists of CPUs. */
#include <math.h>
#include <stdio.h>

#include "base/cpus.h"
#include "base/units.h"
#include "fuzz.h"

static void check(int ret, const struct err *e)
{
	MUST(ret <= 0);
	if (ret)
		MUST(e->code == -ret && e->what[0]);
}

static void try_units(const char *text)
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	char said[UNITS_TEXT];
	struct units_rate rate;
	struct err e;
	uint64_t value;
	int ret;

	ret = units_parse_size(text, &value, &e);
	check(ret, &e);
	if (!ret)
		MUST(units_format_bytes(said, (double)value) == said && strlen(said) < UNITS_TEXT);
	ret = units_parse_rate(text, &value, &e);
	check(ret, &e);
	if (!ret)
		units_format_bits(said, (double)value * 8);
	for (int i = 0; i < 4; i++) {
		ret = units_parse_duration(text, units[i], &value, &e);
		check(ret, &e);
		if (!ret)
			units_format_duration(said, (double)value);
	}
	ret = units_rate_lookup(text, 1e9, &rate, &e);
	check(ret, &e);
	if (!ret)
		MUST(rate.name && rate.bytes_per_unit > 0);
}

/* A list that was taken is written shorter, and means the same. */
static void try_cpus(const char *text)
{
	struct cpus cpus = { 0 }, again = { 0 };
	static char list[8 * CPUS_MAX];
	struct err e;
	int ret, count = 0;

	ret = cpus_parse(&cpus, text, &e);
	check(ret, &e);
	if (ret)
		return;
	for (int i = 0; i < CPUS_MAX; i++)
		count += cpus_has(&cpus, i);
	MUST(count == cpus.count);
	MUST(cpus_nth(&cpus, count) == -1);
	MUST(!count || cpus_has(&cpus, cpus_nth(&cpus, count - 1)));
	cpus_format(&cpus, list, sizeof(list));
	MUST(!cpus_parse(&again, list, &e));
	MUST(!memcmp(&cpus, &again, sizeof(cpus)));
	cpus_format(&cpus, list, 8);
	MUST(strlen(list) < 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_string(data, size);

	try_units(text);
	try_cpus(text);
	free(text);
	return 0;
}
