/* SPDX-License-Identifier: BSD-3-Clause */
/* A snapshot: the value and the time of reading of every counter of a catalog.
 *
 *	struct snapshot before, after;
 *	struct collector *c;
 *
 *	ret = collector_open(&c, NULL, e);		finds what there is, opens its files (collector.h)
 *	ret = collector_read(c, &before, e);
 *	...
 *	ret = collector_read(c, &after, e);		same files, same catalog, no memory per counter
 *	ret = difference_make(&d, &before, &after, e);
 *
 *	ret = snapshot_load(&s, "before.json", NULL, e);	weir's, net_prof's JSON, or a text dump
 *	ret = snapshot_write(&s, "copy.json", SNAPSHOT_WEIR, e);
 *	snapshot_free(&s);
 *
 * A counter that could not be read is absent: reading[i].time_ns is 0 and its value means nothing.
 * What could not be read is named in the problems; what could is used. Not thread-safe.
 */
#ifndef WEIR_COUNTERS_SNAPSHOT_H
#define WEIR_COUNTERS_SNAPSHOT_H

#include <stdio.h>

#include "base/out.h"
#include "counters/counter.h"

#define SNAPSHOT_SCHEMA "weir/counters/1"

struct reading {
	uint64_t value;	  /* of a COUNTER_SIGNED: an int64_t */
	uint64_t time_ns; /* wall clock of the reading, 0: absent */
};

/* What could not be read: the first SNAPSHOT_PROBLEMS of them are kept, all are counted. */
#define SNAPSHOT_PROBLEMS 32
struct problem {
	char where
		[256]; /* "before.json:17", "/sys/class/cxi/cxi3/device/telemetry/x", "ethtool eth1" */
	char what[192]; /* "not a number: \"abc\"" */
};
struct problems {
	uint32_t count;		 /* all; kept are the first SNAPSHOT_PROBLEMS */
	struct problem *problem; /* owned, NULL while there is none */
};
void problems_add(struct problems *p, const char *where, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void problems_free(struct problems *p);

struct snapshot {
	char host[65];		 /* hostname, or empty */
	uint64_t taken_ns;	 /* wall clock, when the reading began */
	uint64_t took_ns;	 /* how long it took, 0 unknown */
	struct catalog *catalog; /* the collector's, or own */
	bool owns_catalog;
	uint32_t count;		 /* readings; the catalog may have grown since */
	struct reading *reading; /* by the catalog's index */
	uint32_t room;
	struct problems problems;
};

static inline bool snapshot_has(const struct snapshot *s, uint32_t index)
{
	return index < s->count && s->reading[index].time_ns;
}

/* An empty one with a catalog of its own, to be filled by snapshot_put(). */
int snapshot_init(struct snapshot *s, struct err *e);
int snapshot_put(struct snapshot *s, const struct counter *counter, uint64_t value,
	uint64_t time_ns, struct err *e);
void snapshot_free(struct snapshot *s); /* one of all zeros is left alone */

/* Files. A file of any of these forms is recognised by what it holds. A text dump needs the names of
 * its lines: names is a file with one name a line (or a listing by ls -l), NULL the built-in list of
 * a Cassini-1. Without jansson JSON is refused with -ENOTSUP and words that say so. */
enum snapshot_form {
	SNAPSHOT_WEIR,	   /* schema/counters-1.json */
	SNAPSHOT_NET_PROF, /* JSON: "meta" and "counters"; only cxi counters have a place in it */
	SNAPSHOT_NET_PROF_LIST, /* the list alone, as its older versions have it */
	SNAPSHOT_DUMP,		/* lines of value@time: read, never written */
};
int snapshot_load(struct snapshot *s, const char *path, const char *names, struct err *e);
/* The same from memory; label stands for the path in words. text need not end in NUL. */
int snapshot_parse(struct snapshot *s, const char *text, size_t length, const char *label,
	const char *names, enum snapshot_form *form, struct err *e);
int snapshot_write(
	const struct snapshot *s, const char *path, enum snapshot_form form, struct err *e);
void snapshot_emit(const struct snapshot *s, struct out *o); /* JSON, schema/counters-1.json */

#endif
