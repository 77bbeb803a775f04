/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory: found by handle here and by key from the peer, never beyond its bounds, and not
 * given up while it is in use.
 *
 *	ret = regions_add(&rs, address, bytes, WEIR_P2P_HOST, access, &r, e);
 *	...
 *	ret = regions_find(&rs, key, offset, bytes, WEIR_P2P_REMOTE_WRITE, &r, e);	a peer asks
 *	r->users++;
 *	...
 *	r->users--;
 *	ret = regions_remove(&rs, r, e);						-EBUSY
 */
#ifndef WEIR_XFER_REGIONS_H
#define WEIR_XFER_REGIONS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "weir/p2p.h"

#define REGIONS_MAX 1024

struct weir_p2p_region {
	struct weir_p2p *engine;
	char *address;
	uint64_t bytes;
	enum weir_p2p_memory memory;
	unsigned int access;
	unsigned int index; /* of the engine's table */
	unsigned int users; /* transfers under way */
	uint64_t key;	    /* random; the index in its low bits */
	int dmabuf;	    /* a duplicate, -1: none */
	uint64_t dmabuf_offset;
};

struct regions {
	struct weir_p2p_region *at[REGIONS_MAX];
	unsigned int used; /* entries from this one on were never used */
};

/* -EINVAL: no memory, or it wraps round; -ENOSPC: REGIONS_MAX are registered. */
int regions_add(struct regions *rs, void *address, uint64_t bytes, enum weir_p2p_memory memory,
	unsigned int access, struct weir_p2p_region **region, struct err *e);
/* -EBUSY while there are users. */
int regions_remove(struct regions *rs, struct weir_p2p_region *r, struct err *e);
void regions_free(struct regions *rs);

/* What a peer asks for. -ENOENT: no such key; -EACCES: it may not; -ERANGE: beyond its bounds. */
int regions_find(struct regions *rs, uint64_t key, uint64_t offset, uint64_t bytes,
	unsigned int access, struct weir_p2p_region **region);

/* Whether short messages of it travel with their announcement: not what a NIC is to fetch by itself. */
static inline int region_is_inline(const struct weir_p2p_region *r)
{
	return r->memory == WEIR_P2P_HOST && r->dmabuf < 0;
}

/* Whether a range lies in a region. */
static inline int region_range(const struct weir_p2p_region *r, uint64_t offset, uint64_t bytes)
{
	return offset <= r->bytes && bytes <= r->bytes - offset;
}

#endif
