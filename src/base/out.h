/* SPDX-License-Identifier: BSD-3-Clause */
/* The output writer: one call emits text, JSON or key=value lines.
 *
 *	out_object(o, "link");
 *	out_str(o, "name", "%s: ", nic->name);
 *	out_u64(o, "mtu", "mtu %" PRIu64 "\n", nic->mtu);
 *	out_end(o);
 *
 * prints "eth0: mtu 9000" as text and {"link":{"name":"eth0","mtu":9000}} as JSON.
 *
 * Text: the value goes through format; a NULL format prints nothing (JSON only).
 *
 * JSON: key and value, escaped; bytes that are not UTF-8 become U+FFFD, numbers that JSON cannot
 * hold (not finite) become null. A NULL key inside an object prints nothing (text only), nor does
 * anything opened under it; in an array the key is not used. One line for each value at the top
 * level, flushed at once, so that a reader of a pipe sees it; with a key it gets an object around
 * it, as above.
 *
 * kv: "key=", the value through format and a newline, flushed at once; a NULL key or format prints
 * nothing. A newline that ends the value is dropped and other control characters become '?', so
 * that a value is one line.
 *
 * The format holds exactly one conversion for the value: PRIu64, PRId64, %f-like, %s. Failed writes
 * are remembered, not returned by every call; out_finish() reports the first. Not thread-safe.
 */
#ifndef WEIR_BASE_OUT_H
#define WEIR_BASE_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

enum out_mode { OUT_TEXT, OUT_JSON, OUT_KV };

#define OUT_DEPTH 16

struct out {
	FILE *file; /* borrowed */
	enum out_mode mode;
	bool color;   /* text only: a terminal, and NO_COLOR is not set */
	int error;    /* first failure, errno */
	int depth;    /* open objects and arrays */
	int silent;   /* open objects and arrays, inside of those, that JSON leaves out */
	bool wrapped; /* the top-level value has a key, and so an object around it */
	bool is_array[OUT_DEPTH];
	bool has_member[OUT_DEPTH];
};

void out_init(struct out *o, FILE *file, enum out_mode mode);

/* Close what is still open, and flush. -errno of the first write that failed, with the reason ("No
 * space left on device"); -EINVAL when JSON nests deeper than OUT_DEPTH or ends too often. */
int out_finish(struct out *o, struct err *e);

/* Open an object or an array, and close the innermost one. */
void out_object(struct out *o, const char *key);
void out_array(struct out *o, const char *key);
void out_end(struct out *o);

void out_u64(struct out *o, const char *key, const char *format, uint64_t value);
void out_i64(struct out *o, const char *key, const char *format, int64_t value);
void out_f64(struct out *o, const char *key, const char *format, double value);

/* NULL is null in JSON and "-" elsewhere. */
void out_str(struct out *o, const char *key, const char *format, const char *value);

/* The format's %s gets "yes" or "no" as text; kv prints 1 or 0. */
void out_bool(struct out *o, const char *key, const char *format, bool value);

void out_null(struct out *o, const char *key); /* JSON only */

/* A value that is JSON already, made by another writer: its line, without the newline that ends it.
 * JSON only. */
void out_json(struct out *o, const char *key, const char *json);

/* A value that reads better in another form as text than it is in JSON: JSON and kv print the
 * number, as text the format's %s gets the words ("12.34 Gbit/s"). */
void out_f64_as(
	struct out *o, const char *key, double value, const char *format, const char *words);

/* Text mode only: headings and blank lines. */
void out_text(struct out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Text mode on a terminal only: colour of what follows, until OUT_PLAIN. */
enum out_style { OUT_PLAIN, OUT_BOLD, OUT_DIM, OUT_GOOD, OUT_WARN, OUT_BAD };
void out_style(struct out *o, enum out_style style);

#endif
