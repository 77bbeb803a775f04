/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct good {
	const char *text;
	uint64_t value;
};

struct bad {
	const char *text;
	int code;
};

static int parse_duration(const char *text, uint64_t *ns, struct err *e)
{
	return units_parse_duration(text, "s", ns, e);
}

static void assert_takes(
	int (*parse)(const char *, uint64_t *, struct err *), const struct good *good, size_t count)
{
	uint64_t value;
	struct err e;
	size_t i;

	for (i = 0; i < count; i++) {
		if (parse(good[i].text, &value, &e))
			fail_msg("%s", e.what);
		if (value != good[i].value)
			fail_msg("%s became %ju", good[i].text, (uintmax_t)value);
	}
}

static void assert_refuses(
	int (*parse)(const char *, uint64_t *, struct err *), const struct bad *bad, size_t count)
{
	uint64_t value = 42;
	struct err e;
	size_t i;

	for (i = 0; i < count; i++) {
		if (parse(bad[i].text, &value, &e) != -bad[i].code)
			fail_msg("\"%s\": not refused by %d", bad[i].text, bad[i].code);
		assert_int_equal(e.code, bad[i].code);
		assert_non_null(strstr(e.what, bad[i].text));
		assert_non_null(strstr(e.hint, "for example"));
		assert_int_equal(value, 42);
		assert_int_equal(parse(bad[i].text, &value, NULL), -bad[i].code);
	}
}

static const struct bad never[] = {
	{ "", EINVAL },
	{ " ", EINVAL },
	{ "-1", EINVAL },
	{ "-0", EINVAL },
	{ "+1", EINVAL },
	{ " 1", EINVAL },
	{ "1 ", EINVAL },
	{ "nan", EINVAL },
	{ "inf", EINVAL },
	{ "1e400", EINVAL },
	{ "1e3", EINVAL },
	{ "0x10", EINVAL },
	{ "10Q", EINVAL },
	{ "1,5", EINVAL },
	{ "1.", EINVAL },
	{ ".5", EINVAL },
	{ "1.5.5", EINVAL },
	{ "K", EINVAL },
	{ "18446744073709551616", ERANGE },
	{ "99999999999999999999999999", ERANGE },
};

static void test_units_size_takes_exact_suffixes(void **state)
{
	static const struct good good[] = {
		{ "0", 0 },
		{ "4096", 4096 },
		{ "4096B", 4096 },
		{ "64K", 65536 },
		{ "64KiB", 65536 },
		{ "64KB", 64000 },
		{ "1M", 1048576 },
		{ "1MB", 1000000 },
		{ "2G", 2147483648 },
		{ "2GB", 2000000000 },
		{ "1T", 1099511627776 },
		{ "1TiB", 1099511627776 },
		{ "1TB", 1000000000000 },
		{ "1.5K", 1536 },
		{ "0.5", 1 },
		{ "0.3G", 322122547 },
		{ "0.0009765625M", 1024 },
		{ "1.00000000000000000000000001K", 1024 },
		{ "9007199254740993", 9007199254740993 },
		{ "18446744073709551615", UINT64_MAX },
		{ "16777215T", 16777215ull << 40 },
	};
	static const struct bad bad[] = {
		{ "64k", EINVAL },
		{ "64 K", EINVAL },
		{ "64Kb", EINVAL },
		{ "64KiBs", EINVAL },
		{ "16777216T", ERANGE },
		{ "0.4", ERANGE },
		{ "18446744073709551615.5", ERANGE },
	};

	(void)state;
	assert_takes(units_parse_size, good, COUNT(good));
	assert_refuses(units_parse_size, bad, COUNT(bad));
	assert_refuses(units_parse_size, never, COUNT(never));
}

static void test_units_rate_takes_bits_and_bytes(void **state)
{
	static const struct good good[] = {
		{ "0", 0 },
		{ "0b", 0 },
		{ "1000", 1000 },
		{ "1000B", 1000 },
		{ "8b", 1 },
		{ "12b", 2 },
		{ "8k", 1000 },
		{ "10m", 1250000 },
		{ "10g", 1250000000 },
		{ "1K", 1024 },
		{ "1M", 1048576 },
		{ "1G", 1073741824 },
		{ "10Kb", 1250 },
		{ "10Mb", 1250000 },
		{ "400Gb", 50000000000 },
		{ "10KB", 10000 },
		{ "10MB", 10000000 },
		{ "10GB", 10000000000 },
		{ "1Kib", 128 },
		{ "1Mib", 131072 },
		{ "1Gib", 134217728 },
		{ "1KiB", 1024 },
		{ "1MiB", 1048576 },
		{ "1GiB", 1073741824 },
		{ "2.5Gb", 312500000 },
		{ "18446744073709551615b", 2305843009213693952 },
	};
	static const struct bad bad[] = {
		{ "1b", ERANGE },
		{ "10kb", EINVAL },
		{ "10Tb", EINVAL },
		{ "10Mbit", EINVAL },
		{ "10Mb/s", EINVAL },
		{ "auto-b", EINVAL },
		{ "99999999999999999G", ERANGE },
	};

	(void)state;
	assert_takes(units_parse_rate, good, COUNT(good));
	assert_refuses(units_parse_rate, bad, COUNT(bad));
	assert_refuses(units_parse_rate, never, COUNT(never));
}

static void test_units_duration_takes_suffixes_and_the_default_unit(void **state)
{
	static const struct good good[] = {
		{ "0", 0 },
		{ "10", 10000000000 },
		{ "250us", 250000 },
		{ "1.5s", 1500000000 },
		{ "3ms", 3000000 },
		{ "7ns", 7 },
		{ "0.1", 100000000 },
		{ "1.0000000001s", 1000000000 },
	};
	static const struct bad bad[] = {
		{ "5m", EINVAL },
		{ "5S", EINVAL },
		{ "5sec", EINVAL },
		{ "0.1ns", ERANGE },
		{ "18446744074s", ERANGE },
	};
	uint64_t ns;

	(void)state;
	assert_takes(parse_duration, good, COUNT(good));
	assert_refuses(parse_duration, bad, COUNT(bad));
	assert_refuses(parse_duration, never, COUNT(never));
	assert_int_equal(units_parse_duration("10", "ns", &ns, NULL), 0);
	assert_int_equal(ns, 10);
	assert_int_equal(units_parse_duration("10ms", "ns", &ns, NULL), 0);
	assert_int_equal(ns, 10000000);
}

static void assert_rate(const char *option, double bytes_per_s, double per_unit, const char *name)
{
	struct units_rate unit;
	struct err e;

	assert_int_equal(units_rate_lookup(option, bytes_per_s, &unit, &e), 0);
	assert_true(unit.bytes_per_unit == per_unit);
	assert_string_equal(unit.name, name);
}

static void test_units_rate_lookup_knows_every_name(void **state)
{
	(void)state;
	assert_rate("b", 0, 0.125, "bits/s");
	assert_rate("k", 0, 125, "10^3bits/s");
	assert_rate("m", 0, 125e3, "10^6bits/s");
	assert_rate("g", 0, 125e6, "10^9bits/s");
	assert_rate("B", 0, 1, "B/s");
	assert_rate("K", 0, 0x1p10, "KBytes/s");
	assert_rate("M", 0, 0x1p20, "MBytes/s");
	assert_rate("G", 0, 0x1p30, "GBytes/s");
	assert_rate("Kb", 0, 125, "Kbit/s");
	assert_rate("Mb", 0, 125e3, "Mbit/s");
	assert_rate("Gb", 0, 125e6, "Gbit/s");
	assert_rate("KB", 0, 1e3, "KB/s");
	assert_rate("MB", 0, 1e6, "MB/s");
	assert_rate("GB", 0, 1e9, "GB/s");
	assert_rate("Kib", 0, 0x1p7, "Kibit/s");
	assert_rate("Mib", 0, 0x1p17, "Mibit/s");
	assert_rate("Gib", 0, 0x1p27, "Gibit/s");
	assert_rate("KiB", 0, 0x1p10, "KiB/s");
	assert_rate("MiB", 0, 0x1p20, "MiB/s");
	assert_rate("GiB", 0, 0x1p30, "GiB/s");
}

static void test_units_rate_lookup_auto_picks_by_the_value(void **state)
{
	(void)state;
	assert_rate("auto-b", 0, 0.125, "bits/s");
	assert_rate("auto-b", 0.01, 0.125, "bits/s");
	assert_rate("auto-b", 100, 0.125, "bits/s");
	assert_rate("auto-b", 125, 125, "Kbit/s");
	assert_rate("auto-b", 124999, 125, "Kbit/s");
	assert_rate("auto-b", 125000, 125e3, "Mbit/s");
	assert_rate("auto-b", 125e6, 125e6, "Gbit/s");
	assert_rate("auto-b", 125e12, 125e6, "Gbit/s");
	assert_rate("auto-b", INFINITY, 125e6, "Gbit/s");
	assert_rate("auto-b", NAN, 0.125, "bits/s");
	assert_rate("auto-B", 5e5, 1e3, "KB/s");
	assert_rate("auto-B", 5e9, 1e9, "GB/s");
	assert_rate("auto-iB", 1010, 1, "B/s");
	assert_rate("auto-iB", 1024, 0x1p10, "KiB/s");
	assert_rate("auto-iB", 1010 * 0x1p10, 0x1p10, "KiB/s");
	assert_rate("auto-ib", 0x1p17, 0x1p17, "Mibit/s");
	assert_rate("auto-ib", 0x1p40, 0x1p27, "Gibit/s");
}

static void test_units_rate_lookup_refuses_other_names(void **state)
{
	static const char *const bad[] = { "", "kb", "Tb", "auto", "auto-", "auto-K", "Mb ",
		"Mbit/s" };
	struct units_rate unit = { 7, "untouched" };
	struct err e;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(bad); i++) {
		assert_int_equal(units_rate_lookup(bad[i], 1, &unit, &e), -EINVAL);
		assert_non_null(strstr(e.what, bad[i]));
		assert_non_null(strstr(e.hint, "auto-iB"));
		assert_string_equal(unit.name, "untouched");
	}
}

static void assert_formats(char *(*format)(char *, double), double value, const char *text)
{
	char buf[UNITS_TEXT];

	assert_ptr_equal(format(buf, value), buf);
	assert_string_equal(buf, text);
}

static void test_units_write_is_exact_and_can_be_read_back(void **state)
{
	static const struct {
		uint64_t value;
		const char *size, *duration;
	} cases[] = {
		{ 0, "0", "0" },
		{ 1, "1", "1ns" },
		{ 1000, "1000", "1us" },
		{ 1024, "1K", "1024ns" },
		{ 1025, "1025", "1025ns" },
		{ 1536, "1536", "1536ns" },
		{ 2 << 20, "2M", "2097152ns" },
		{ 10000000, "10000000", "10ms" },
		{ 3600000000000ull, "3515625000K", "3600s" },
		{ 1ull << 40, "1T", "1099511627776ns" },
		{ UINT64_MAX, "18446744073709551615", "18446744073709551615ns" },
	};
	char text[UNITS_TEXT];
	uint64_t back;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_string_equal(units_write_size(text, cases[i].value), cases[i].size);
		assert_int_equal(units_parse_size(text, &back, NULL), 0);
		assert_true(back == cases[i].value);
		assert_string_equal(units_write_duration(text, cases[i].value), cases[i].duration);
		assert_int_equal(units_parse_duration(text, "s", &back, NULL), 0);
		assert_true(back == cases[i].value);
	}
}

static void test_units_format_keeps_three_or_four_digits(void **state)
{
	(void)state;
	assert_formats(units_format_bits, 0, "0 bit/s");
	assert_formats(units_format_bits, 12.34e9, "12.34 Gbit/s");
	assert_formats(units_format_bits, 1e3, "1.00 kbit/s");
	assert_formats(units_format_bits, 412.34e12, "412.3 Tbit/s");
	assert_formats(units_format_bits, 5000e12, "5000 Tbit/s");
	assert_formats(units_format_bytes, 511, "511 B");
	assert_formats(units_format_bytes, 1023, "1023 B");
	assert_formats(units_format_bytes, 65536, "64 KiB");
	assert_formats(units_format_bytes, 1.5 * 0x1p30, "1.50 GiB");
	assert_formats(units_format_bytes, 1000.2 * 0x1p10, "1000 KiB");
	assert_formats(units_format_bytes, 0x1p64, "16 EiB");
	assert_formats(units_format_duration, 812, "812 ns");
	assert_formats(units_format_duration, 812.44, "812.4 ns");
	assert_formats(units_format_duration, 24950, "24.95 us");
	assert_formats(units_format_duration, 3e9, "3.00 s");
	assert_formats(units_format_duration, 86400e9, "86400 s");
	assert_formats(units_format_count, 87, "87");
	assert_formats(units_format_count, 0.5, "0.50");
	assert_formats(units_format_count, 118800, "118.8 k");
	assert_formats(units_format_count, 1.2e6, "1.20 M");
}

static void test_units_format_never_prints_a_whole_step(void **state)
{
	(void)state;
	assert_formats(units_format_count, 999.96, "1.00 k");
	assert_formats(units_format_count, 999949, "999.9 k");
	assert_formats(units_format_count, 999951, "1.00 M");
	assert_formats(units_format_count, 99996, "100.0 k");
	assert_formats(units_format_bytes, 1023.7 * 0x1p10, "1.00 MiB");
	assert_formats(units_format_bytes, 999.97 * 0x1p10, "1000 KiB");
	assert_formats(units_format_duration, 999999, "1.00 ms");
}

static void test_units_format_takes_any_double(void **state)
{
	(void)state;
	assert_formats(units_format_duration, -24950, "-24.95 us");
	assert_formats(units_format_duration, NAN, "-");
	assert_formats(units_format_bits, -INFINITY, "-");
	assert_formats(units_format_bits, 1.5e300, "1.5e+288 Tbit/s");
	assert_formats(units_format_bits, -1.234e300, "-1.23e+288 Tbit/s");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_units_size_takes_exact_suffixes),
		cmocka_unit_test(test_units_rate_takes_bits_and_bytes),
		cmocka_unit_test(test_units_duration_takes_suffixes_and_the_default_unit),
		cmocka_unit_test(test_units_rate_lookup_knows_every_name),
		cmocka_unit_test(test_units_rate_lookup_auto_picks_by_the_value),
		cmocka_unit_test(test_units_rate_lookup_refuses_other_names),
		cmocka_unit_test(test_units_write_is_exact_and_can_be_read_back),
		cmocka_unit_test(test_units_format_keeps_three_or_four_digits),
		cmocka_unit_test(test_units_format_never_prints_a_whole_step),
		cmocka_unit_test(test_units_format_takes_any_double),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
