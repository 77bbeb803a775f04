/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes, rates and durations, as users write them and as people read them.
 *
 * Parsing takes a whole number or a decimal fraction and an exact suffix; anything left over, a
 * negative value, an overflow, an unknown suffix or more than nothing that rounds to 0 is refused
 * with the value, what is allowed, and an example.
 */
#ifndef WEIR_BASE_UNITS_H
#define WEIR_BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Bytes: "4096", "64K" = "64KiB" = 65536, "64KB" = 64000; K, M, G, T. */
int units_parse_size(const char *text, uint64_t *bytes, struct err *e);

/* Bytes per second. neper's table of unit names, matched exactly (neper matches prefixes, so that
 * its "10Mb" means 10 MiB/s; here it means ten million bits per second, as the table says): none or
 * "B" bytes; b k m g: 1, 10^3, 10^6, 10^9 bits; K M G: 2^10.. bytes; Kb Mb Gb: 10^3.. bits; KB MB
 * GB: 10^3.. bytes; Kib Mib Gib: 2^10.. bits; KiB MiB GiB: 2^10.. bytes. */
int units_parse_rate(const char *text, uint64_t *bytes_per_s, struct err *e);

/* Nanoseconds: "250us", "1.5s"; suffixes ns us ms s; a bare number is in default_unit ("s"). */
int units_parse_duration(const char *text, const char *default_unit, uint64_t *ns, struct err *e);

/* neper's --throughput-opt: the same unit names, and auto-b auto-ib auto-B auto-iB, which pick the
 * unit by the value (the first with 1 <= value < 1000, else the largest that gives a value of at
 * least 1, else the smallest). bytes_per_unit receives the divisor, name the printed string
 * ("Mbit/s", "10^9bits/s", "GiB/s"). */
struct units_rate {
	double bytes_per_unit;
	const char *name;
};
int units_rate_lookup(
	const char *option, double bytes_per_s, struct units_rate *unit, struct err *e);

/* As a user would write it, to the last byte or nanosecond: "64K", "1000", "10ms", "3600s", "0". Each returns
 * buf. */
#define UNITS_TEXT 24
char *units_write_size(char buf[UNITS_TEXT], uint64_t bytes);
char *units_write_duration(char buf[UNITS_TEXT], uint64_t ns);

/* For people: three or four significant digits and a unit. Each returns buf. */
char *units_format_bits(char buf[UNITS_TEXT], double bits_per_s); /* "12.34 Gbit/s" */
char *units_format_bytes(char buf[UNITS_TEXT], double bytes); /* "64 KiB", "1.50 GiB", "511 B" */
char *units_format_duration(char buf[UNITS_TEXT], double ns); /* "812 ns", "24.95 us", "3.00 s" */
char *units_format_count(char buf[UNITS_TEXT], double count); /* "118.8 k", "1.20 M", "87" */

#endif
