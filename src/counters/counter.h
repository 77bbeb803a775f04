/* SPDX-License-Identifier: BSD-3-Clause */
/* A counter: who tells it, what it belongs to, its name, and how to read its value. A set of counters
 * is a catalog: each stands in it once and keeps its index for ever, so that two snapshots with one
 * catalog are compared index by index.
 *
 *	struct catalog c;
 *	uint32_t index;
 *
 *	catalog_init(&c);
 *	ret = catalog_add(&c, &(struct counter){ .source = "netdev", .object = "eth0",
 *			.name = "rx_bytes", .bits = 64, .unit = "bytes" }, &index, e);
 *	c.counter[index].name ...
 *	catalog_free(&c);
 *
 * Texts of a catalog are its own copies, each different one kept once, and live as long as it does.
 * Names come from drivers and files: they hold no control characters (catalog_add() makes them '?'),
 * but anything else; whoever writes HTML or CSV escapes them. Not thread-safe.
 */
#ifndef WEIR_COUNTERS_COUNTER_H
#define WEIR_COUNTERS_COUNTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum counter_kind {
	COUNTER_COUNT,	/* only grows, modulo 2^bits */
	COUNTER_BUCKET, /* the same, one bucket of a histogram */
	COUNTER_GAUGE,	/* a level: never subtracted */
	COUNTER_SIGNED, /* a level that may be negative: the value is an int64_t */
};
#define COUNTER_KINDS 4

extern const char
	*const counter_kind_name[COUNTER_KINDS]; /* "counter", "bucket", "gauge", "signed" */

/* Whether two values of it may be subtracted. */
static inline bool counter_grows(enum counter_kind kind)
{
	return kind == COUNTER_COUNT || kind == COUNTER_BUCKET;
}

#define COUNTER_TEXT 128 /* longest source, object or name with its NUL; the rest is cut */

struct counter {
	const char *source; /* "cxi", "ethtool", "netdev", "tcp", ... */
	const char *object; /* "eth0", "eth0/rx-3", "mlx5_0/1", "cpu2", "0000:06:00.0", "host" */
	const char *name;   /* as its source calls it */
	const char *unit;   /* "bytes", "packets", "ns", "cycles", ...; "" when not known */
	uint8_t kind;	    /* enum counter_kind */
	uint8_t bits;	    /* width of the hardware's counter, 1 to 64 */
};

struct catalog {
	struct counter *counter;
	uint32_t count, room;
	uint32_t *slot; /* hash of source, object and name: index + 1, 0 is free */
	uint32_t slot_count;
	struct text_table {
		const char **slot;
		uint32_t count, slot_count;
		struct text_block *block;
	} texts;
};

void catalog_init(struct catalog *c);
void catalog_free(struct catalog *c);

/* Add a counter, or find it where it is already: its kind, width and unit then stay. bits 0 means
 * 64, unit NULL "". index may be NULL. -ENOMEM, -E2BIG beyond CATALOG_MAX. */
#define CATALOG_MAX (1u << 26)
int catalog_add(struct catalog *c, const struct counter *counter, uint32_t *index, struct err *e);

#define CATALOG_NONE UINT32_MAX
uint32_t catalog_find(
	const struct catalog *c, const char *source, const char *object, const char *name);

/* Order for people: by source, then by object ("eth2" before "eth10"), then by name. As qsort's. */
int counter_compare(const struct counter *a, const struct counter *b);

/* The same of two objects of one source. */
int counter_compare_objects(const char *a, const char *b);

/* Kind, width and unit by its source and name, as far as known.txt knows them. */
void counter_classify(struct counter *counter);

/* What is known of a counter beyond its reading, from known.txt: groups it is in (several), a
 * sentence about it. Static; never NULL, empty where nothing is known. */
#define COUNTER_GROUPS 6
struct counter_about {
	const char *group[COUNTER_GROUPS]; /* "CxiPerfStats"; NULL ends it */
	const char *description;
};
struct counter_about counter_about(const struct counter *counter);

#endif
