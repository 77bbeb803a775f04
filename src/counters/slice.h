/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside counters/: a large JSON text cut into its members and elements, so that each is parsed on its
 * own by a real parser: one that is broken does not spoil the others, and memory stays small.
 *
 *	struct slices in;
 *	struct slice key, value;
 *
 *	if (slices_open(&in, text))
 *		while (slices_next(&in, &key, &value) > 0)
 *			...
 *
 * Only brackets, strings and commas are looked at; what a slice holds is up to whoever parses it.
 */
#ifndef WEIR_COUNTERS_SLICE_H
#define WEIR_COUNTERS_SLICE_H

#include <stdbool.h>
#include <stddef.h>

struct slice {
	const char *text;
	size_t length;
};

struct slices {
	const char *at, *end;
	bool in_object, first;
};

/* Whether the slice is an object or an array; the first member is next. */
bool slices_open(struct slices *s, struct slice of);
/* 1 and the next member (key is empty in an array), 0 at the end, -1 where the text breaks off or is no
 * JSON: s->at is where. */
int slices_next(struct slices *s, struct slice *key, struct slice *value);

#endif
