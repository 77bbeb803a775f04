// SPDX-License-Identifier: BSD-3-Clause
#include "web/metrics.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"

void metrics_family(struct metrics *m, const char *name, enum metrics_kind kind, const char *help)
{
	static const char *const type[] = { "counter", "gauge", "histogram" };

	m->family = name;
	web_text_format(m->text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type[kind]);
}

/* The length of the UTF-8 character at s; 0: it is none. */
static size_t utf8_length(const unsigned char *s)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = s[0] < 0x80	     ? 1
		   : s[0] >> 5 == 6  ? 2
		   : s[0] >> 4 == 14 ? 3
		   : s[0] >> 3 == 30 ? 4
				     : 0;
	uint32_t code = s[0] & (0xffu >> (n + 1));

	if (n < 2)
		return n;
	for (size_t i = 1; i < n; i++) {
		if (s[i] >> 6 != 2)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	if (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return 0;
	return n;
}

static void add_escaped(struct web_text *text, const char *value)
{
	while (*value) {
		size_t n = utf8_length((const unsigned char *)value);

		if (*value == '\\' || *value == '"')
			web_text_format(text, "\\%c", *value);
		else if (*value == '\n')
			web_text_add(text, "\\n", 2);
		else
			web_text_add(text, n ? value : "?", n ? n : 1);
		value += n ? n : 1;
	}
}

/* NAME SUFFIX {labels, and one more where given}, and the space before the value. */
static void add_series(struct metrics *m, const char *suffix, const struct metrics_label *label,
	size_t labels, const struct metrics_label *last)
{
	const char *between = "{";

	web_text_format(m->text, "%s%s", m->family, suffix);
	for (size_t i = 0; i < labels + (last != NULL); i++) {
		const struct metrics_label *one = i < labels ? &label[i] : last;

		web_text_format(m->text, "%s%s=\"", between, one->name);
		add_escaped(m->text, one->value);
		web_text_add(m->text, "\"", 1);
		between = ",";
	}
	web_text_format(m->text, "%s ", between[0] == ',' ? "}" : "");
}

static void add_number(struct web_text *text, double value)
{
	if (isnan(value))
		web_text_format(text, "NaN\n");
	else if (isinf(value))
		web_text_format(text, "%cInf\n", value > 0 ? '+' : '-');
	else
		web_text_format(text, "%.15g\n", value);
}

void metrics_value(
	struct metrics *m, double value, const struct metrics_label *label, size_t labels)
{
	add_series(m, "", label, labels, NULL);
	add_number(m->text, value);
}

static void add_count(struct metrics *m, const char *suffix, uint64_t count,
	const struct metrics_label *label, size_t labels, const struct metrics_label *last)
{
	add_series(m, suffix, label, labels, last);
	web_text_format(m->text, "%" PRIu64 "\n", count);
}

void metrics_count(
	struct metrics *m, uint64_t count, const struct metrics_label *label, size_t labels)
{
	add_count(m, "", count, label, labels, NULL);
}

static const struct {
	const char *seconds;
	uint64_t ns;
} bounds[METRICS_BOUNDS] = {
	{ "1e-06", 1000 },
	{ "2e-06", 2000 },
	{ "5e-06", 5000 },
	{ "1e-05", 10000 },
	{ "2e-05", 20000 },
	{ "5e-05", 50000 },
	{ "0.0001", 100000 },
	{ "0.0002", 200000 },
	{ "0.0005", 500000 },
	{ "0.001", 1000000 },
	{ "0.002", 2000000 },
	{ "0.005", 5000000 },
	{ "0.01", 10000000 },
	{ "0.02", 20000000 },
	{ "0.05", 50000000 },
	{ "0.1", 100000000 },
	{ "0.2", 200000000 },
	{ "0.5", 500000000 },
	{ "1", 1000000000 },
	{ "2", 2000000000 },
	{ "5", 5000000000 },
	{ "10", 10000000000 },
};

void metrics_hist(
	struct metrics *m, const struct hist *h, const struct metrics_label *label, size_t labels)
{
	struct metrics_label le = { "le", "+Inf" };
	unsigned int bucket = 0;
	uint64_t below = 0;

	for (size_t i = 0; i < METRICS_BOUNDS; i++) {
		while (bucket < HIST_BUCKETS && hist_bucket_high_ns(bucket) <= bounds[i].ns)
			below += h->bucket[bucket++];
		le.value = bounds[i].seconds;
		add_count(m, "_bucket", below, label, labels, &le);
	}
	le.value = "+Inf";
	add_count(m, "_bucket", h->count, label, labels, &le);
	add_series(m, "_sum", label, labels, NULL);
	add_number(m->text, h->sum_ns / (double)NS_PER_S);
	add_count(m, "_count", h->count, label, labels, NULL);
}

static unsigned int open_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned int count = 0;

	while (folder && readdir(folder)) // cppcheck-suppress readdirCalled
		count++;
	if (folder)
		closedir(folder);
	return count > 3 ? count - 3 : 0; /* ".", "..", and the folder itself */
}

static uint64_t resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long all, resident = 0;

	if (file && fscanf(file, "%lu %lu", &all, &resident) != 2)
		resident = 0;
	if (file)
		fclose(file);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

void metrics_process(struct metrics *m)
{
	struct metrics_label version = { "version", WEIR_VERSION };
	struct timespec cpu = { 0 };
	struct rlimit files = { 0 };

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	getrlimit(RLIMIT_NOFILE, &files);
	metrics_family(m, "weir_build_info", METRICS_GAUGE, "Which weir this is; always 1");
	metrics_count(m, 1, &version, 1);
	metrics_family(m, "process_cpu_seconds_total", METRICS_COUNTER, "CPU time used");
	metrics_value(m, (double)clock_timespec_ns(cpu) / (double)NS_PER_S, NULL, 0);
	metrics_family(m, "process_resident_memory_bytes", METRICS_GAUGE, "Memory in use");
	metrics_count(m, resident_bytes(), NULL, 0);
	metrics_family(m, "process_open_fds", METRICS_GAUGE, "Open descriptors");
	metrics_count(m, open_descriptors(), NULL, 0);
	metrics_family(m, "process_max_fds", METRICS_GAUGE, "Descriptors it may open");
	metrics_count(m, files.rlim_cur, NULL, 0);
}
