/* SPDX-License-Identifier: BSD-3-Clause */
/* A region of memory that the network sends from or receives into.
 *
 *	struct region r;
 *	region_alloc(&r, 64 << 10, e);
 *	region_fill_random(&r);
 *	...
 *	region_free(&r);
 */
#ifndef WEIR_MEM_REGION_H
#define WEIR_MEM_REGION_H

#include <stddef.h>

#include "base/err.h"

struct region {
	char *data; /* page-aligned */
	size_t bytes;
};

/* Anonymous host memory, faulted in, on huge pages where the system gives them for the asking. */
int region_alloc(struct region *r, size_t bytes, struct err *e);
void region_free(struct region *r);

/* Fill with bytes that do not compress. */
void region_fill_random(struct region *r);

#endif
