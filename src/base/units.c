/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* One unit is num / per of what is parsed into: only the single bit, an eighth of a byte, needs
 * per. */
struct unit {
	const char *name;
	const char *rate; /* as --throughput-opt prints it */
	uint64_t num;
	unsigned int per;
};

/* A kind of quantity, and the words that refuse one. */
struct quantity {
	const char *noun;
	const char *hint;
	const struct unit *unit;
	size_t units;
};

static const struct unit size_units[] = {
	{ "B", NULL, 1, 1 },
	{ "K", NULL, 1ull << 10, 1 },
	{ "M", NULL, 1ull << 20, 1 },
	{ "G", NULL, 1ull << 30, 1 },
	{ "T", NULL, 1ull << 40, 1 },
	{ "KiB", NULL, 1ull << 10, 1 },
	{ "MiB", NULL, 1ull << 20, 1 },
	{ "GiB", NULL, 1ull << 30, 1 },
	{ "TiB", NULL, 1ull << 40, 1 },
	{ "KB", NULL, 1000ull, 1 },
	{ "MB", NULL, 1000000ull, 1 },
	{ "GB", NULL, 1000000000ull, 1 },
	{ "TB", NULL, 1000000000000ull, 1 },
};

static const struct unit rate_units[] = {
	{ "b", "bits/s", 1, 8 },
	{ "k", "10^3bits/s", 125, 1 },
	{ "m", "10^6bits/s", 125000, 1 },
	{ "g", "10^9bits/s", 125000000, 1 },
	{ "B", "B/s", 1, 1 },
	{ "K", "KBytes/s", 1 << 10, 1 },
	{ "M", "MBytes/s", 1 << 20, 1 },
	{ "G", "GBytes/s", 1 << 30, 1 },
	{ "Kb", "Kbit/s", 125, 1 },
	{ "Mb", "Mbit/s", 125000, 1 },
	{ "Gb", "Gbit/s", 125000000, 1 },
	{ "KB", "KB/s", 1000, 1 },
	{ "MB", "MB/s", 1000000, 1 },
	{ "GB", "GB/s", 1000000000, 1 },
	{ "Kib", "Kibit/s", 1 << 7, 1 },
	{ "Mib", "Mibit/s", 1 << 17, 1 },
	{ "Gib", "Gibit/s", 1 << 27, 1 },
	{ "KiB", "KiB/s", 1 << 10, 1 },
	{ "MiB", "MiB/s", 1 << 20, 1 },
	{ "GiB", "GiB/s", 1 << 30, 1 },
};

static const struct unit duration_units[] = {
	{ "ns", NULL, 1, 1 },
	{ "us", NULL, 1000, 1 },
	{ "ms", NULL, 1000000, 1 },
	{ "s", NULL, 1000000000, 1 },
};

static const struct quantity size_quantity = {
	"size",
	"write a number and nothing, B, K, M, G, T (1024), KB, MB, GB or TB (1000), for example 64K",
	size_units,
	COUNT(size_units),
};

static const struct quantity rate_quantity = {
	"rate",
	"write a number and b, k, m, g, Kb, Mb, Gb, Kib, Mib, Gib for bits per second or nothing, B, "
	"K, M, G, KB, MB, GB, KiB, MiB, GiB for bytes per second, for example 10Gb",
	rate_units,
	COUNT(rate_units),
};

static const struct quantity duration_quantity = {
	"duration",
	"write a number and ns, us, ms or s, for example 250us or 1.5s",
	duration_units,
	COUNT(duration_units),
};

static const struct unit *find_unit(const struct quantity *q, const char *name)
{
	size_t i;

	for (i = 0; i < q->units; i++)
		if (!strcmp(q->unit[i].name, name))
			return &q->unit[i];
	return NULL;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Moves *p behind the digits and sums them up; false on overflow. */
static bool read_whole(const char **p, uint64_t *whole)
{
	for (*whole = 0; is_digit(**p); ++*p)
		if (__builtin_mul_overflow(*whole, 10, whole) ||
			__builtin_add_overflow(*whole, (uint64_t)(**p - '0'), whole))
			return false;
	return true;
}

/* The digits after the point, as a part of one. Those after the 18th are beyond what a double
 * holds. */
static double read_fraction(const char **p)
{
	uint64_t digits = 0, scale = 1;

	for (; is_digit(**p); ++*p) {
		if (scale == 1000000000000000000ull)
			continue;
		digits = digits * 10 + (uint64_t)(**p - '0');
		scale *= 10;
	}
	return (double)digits / (double)scale;
}

/* Without strtod(): it takes "nan", "0x10" and " 1", minds the locale and rounds above 2^53. */
static int parse(const struct quantity *q, const char *text, const char *default_unit,
	uint64_t *value, struct err *e)
{
	const struct unit *unit;
	const char *p = text, *why = "it does not start with a number";
	uint64_t whole, result;
	double fraction = 0;
	int code = EINVAL;

	if (*p == '-')
		why = "it is negative";
	if (!is_digit(*p))
		goto refuse;
	code = ERANGE;
	why = "it is too large";
	if (!read_whole(&p, &whole))
		goto refuse;
	if (p[0] == '.' && is_digit(p[1])) {
		p++;
		fraction = read_fraction(&p);
	}
	unit = find_unit(q, *p ? p : default_unit);
	if (!unit) {
		code = EINVAL;
		why = "the unit is unknown";
		goto refuse;
	}
	if (__builtin_mul_overflow(whole, unit->num, &result) ||
		__builtin_add_overflow(
			result, (uint64_t)llround(fraction * (double)unit->num), &result))
		goto refuse;
	result = result / unit->per + (2 * (result % unit->per) >= unit->per);
	why = "it is too small";
	if (!result && (whole || fraction > 0)) /* zero often means "no limit" */
		goto refuse;
	*value = result;
	return 0;

refuse:
	err_set(e, code, "\"%s\" is not a %s: %s", text, q->noun, why);
	err_hint(e, "%s", q->hint);
	return -code;
}

int units_parse_size(const char *text, uint64_t *bytes, struct err *e)
{
	return parse(&size_quantity, text, "B", bytes, e);
}

int units_parse_rate(const char *text, uint64_t *bytes_per_s, struct err *e)
{
	return parse(&rate_quantity, text, "B", bytes_per_s, e);
}

int units_parse_duration(const char *text, const char *default_unit, uint64_t *ns, struct err *e)
{
	return parse(&duration_quantity, text, default_unit, ns, e);
}

/* In the largest of the units, which stand in order, that leaves nothing over. */
static char *write_exact(
	char buf[UNITS_TEXT], uint64_t value, const struct unit *unit, size_t units)
{
	size_t u = units;

	while (u && (!value || value % unit[u - 1].num))
		u--;
	if (u)
		snprintf(buf, UNITS_TEXT, "%" PRIu64 "%s", value / unit[u - 1].num,
			unit[u - 1].name);
	else
		snprintf(buf, UNITS_TEXT, "%" PRIu64, value);
	return buf;
}

char *units_write_size(char buf[UNITS_TEXT], uint64_t bytes)
{
	return write_exact(buf, bytes, &size_units[1], 4); /* K to T */
}

char *units_write_duration(char buf[UNITS_TEXT], uint64_t ns)
{
	return write_exact(buf, ns, duration_units, COUNT(duration_units));
}

static struct units_rate rate_of(const char *name)
{
	const struct unit *unit = find_unit(&rate_quantity, name);

	return (struct units_rate){ (double)unit->num / unit->per, unit->rate };
}

int units_rate_lookup(
	const char *option, double bytes_per_s, struct units_rate *unit, struct err *e)
{
	static const struct {
		const char *option;
		const char *unit[4];
	} family[] = {
		{ "auto-b", { "b", "Kb", "Mb", "Gb" } },
		{ "auto-ib", { "b", "Kib", "Mib", "Gib" } },
		{ "auto-B", { "B", "KB", "MB", "GB" } },
		{ "auto-iB", { "B", "KiB", "MiB", "GiB" } },
	};
	size_t f, u;

	if (find_unit(&rate_quantity, option)) {
		*unit = rate_of(option);
		return 0;
	}
	for (f = 0; f < COUNT(family) && strcmp(family[f].option, option); f++)
		;
	if (f == COUNT(family)) {
		err_set(e, EINVAL, "\"%s\" is not a unit of throughput", option);
		err_hint(e,
			"write b, k, m, g, B, K, M, G, Kb to Gb, KB to GB, Kib to Gib, KiB to GiB, "
			"auto-b, auto-ib, auto-B or auto-iB, for example Mb");
		return -EINVAL;
	}
	*unit = rate_of(family[f].unit[0]);
	for (u = 1; u < COUNT(family[f].unit) && bytes_per_s / unit->bytes_per_unit >= 1000; u++)
		if (bytes_per_s >= rate_of(family[f].unit[u]).bytes_per_unit)
			*unit = rate_of(family[f].unit[u]);
	return 0;
}

/* How a kind of number is scaled for people. */
struct scale {
	double step;  /* from one unit to the next */
	double limit; /* what would be printed as a whole step: 999.95 reads "1000.0" */
	bool exact;   /* "64 KiB" rather than "64.00 KiB" */
	const char *const *unit;
	size_t units;
};

static char *format(char buf[UNITS_TEXT], double value, const struct scale *s)
{
	int decimals;
	size_t u = 0;

	if (!isfinite(value)) {
		snprintf(buf, UNITS_TEXT, "-");
		return buf;
	}
	for (; u + 1 < s->units && fabs(value) >= s->limit; u++)
		value /= s->step;
	if ((!u || s->exact) && value == trunc(value))
		decimals = 0;
	else
		decimals = fabs(value) < 99.995 ? 2 : fabs(value) < 999.95 ? 1 : 0;
	if (fabs(value) < 1e9)
		snprintf(buf, UNITS_TEXT, "%.*f%s", decimals, value, s->unit[u]);
	else
		snprintf(buf, UNITS_TEXT, "%.3g%s", value, s->unit[u]);
	return buf;
}

char *units_format_bits(char buf[UNITS_TEXT], double bits_per_s)
{
	static const char *const unit[] = { " bit/s", " kbit/s", " Mbit/s", " Gbit/s", " Tbit/s" };
	static const struct scale scale = { 1000, 999.95, false, unit, COUNT(unit) };

	return format(buf, bits_per_s, &scale);
}

char *units_format_bytes(char buf[UNITS_TEXT], double bytes)
{
	static const char *const unit[] = { " B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB" };
	static const struct scale scale = { 1024, 1023.5, true, unit, COUNT(unit) };

	return format(buf, bytes, &scale);
}

char *units_format_duration(char buf[UNITS_TEXT], double ns)
{
	static const char *const unit[] = { " ns", " us", " ms", " s" };
	static const struct scale scale = { 1000, 999.95, false, unit, COUNT(unit) };

	return format(buf, ns, &scale);
}

char *units_format_count(char buf[UNITS_TEXT], double count)
{
	static const char *const unit[] = { "", " k", " M", " G", " T" };
	static const struct scale scale = { 1000, 999.95, false, unit, COUNT(unit) };

	return format(buf, count, &scale);
}
