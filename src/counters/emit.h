/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside counters/: what snapshots and differences share. */
#ifndef WEIR_COUNTERS_EMIT_H
#define WEIR_COUNTERS_EMIT_H

#include "counters/difference.h"
#include "counters/finding.h"

/* A value as JSON; beyond INT64_MAX as a string of digits. */
void emit_value(const char *key, uint8_t kind, uint64_t value, struct out *o);
/* "2026-01-02T03:04:05.678Z" */
void emit_time(const char *key, uint64_t wall_ns, struct out *o);

/* Room for a reading of every counter of the catalog; new ones are absent. */
int snapshot_reserve(struct snapshot *s, struct err *e);
/* The indexes of those that are there by counter_compare(); the caller frees them. NULL: no memory. */
uint32_t *snapshot_order(const struct snapshot *s, uint32_t *count);
/* Sort indexes of a catalog by counter_compare(). */
void catalog_sort(const struct catalog *c, uint32_t *order, uint32_t count);

/* cxi3 is net_prof's interface 4; 0 for what is none. */
uint32_t cxi_interface_number(const struct counter *c);

/* Runs of rows and counts of states, of rows that are sorted. */
int difference_index(struct difference *d, struct err *e);

/* The digits at the start of text as a number: how many bytes they are, 0 when there is none or it
 * does not fit in 64 bits. With a sign allowed the value is an int64_t. */
size_t parse_number(const char *text, size_t length, bool allow_sign, uint64_t *value);
/* "1746204071.662953620" in nanoseconds; 0 when it is not that. */
uint64_t parse_seconds(const char *text, size_t length);

#endif
