// SPDX-License-Identifier: BSD-3-Clause
#include "xfer/regions.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

int regions_add(struct regions *rs, void *address, uint64_t bytes, enum weir_p2p_memory memory,
	unsigned int access, struct weir_p2p_region **region, struct err *e)
{
	struct weir_p2p_region *r;
	unsigned int index = 0;
	uint64_t key;

	if (!address || !bytes || bytes > UINTPTR_MAX - (uintptr_t)address)
		return err_set(
			e, EINVAL, "there is no memory of %" PRIu64 " bytes at %p", bytes, address);
	if (memory != WEIR_P2P_HOST && memory != WEIR_P2P_CUDA)
		return err_set(e, EINVAL, "%d is no kind of memory", (int)memory);
	while (index < REGIONS_MAX && rs->at[index])
		index++;
	if (index == REGIONS_MAX)
		return err_set(
			e, ENOSPC, "%d regions are registered, more do not fit", REGIONS_MAX);
	if (getrandom(&key, sizeof(key), 0) != sizeof(key))
		return err_set(e, errno, "cannot get a random key: %m");
	r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(e, ENOMEM, "no memory for a region");
	*r = (struct weir_p2p_region){ .address = address,
		.bytes = bytes,
		.memory = memory,
		.access = access,
		.index = index,
		.dmabuf = -1,
		.key = (key & ~(uint64_t)(REGIONS_MAX - 1)) | index };
	rs->at[index] = r;
	if (index >= rs->used)
		rs->used = index + 1;
	*region = r;
	return 0;
}

static void region_drop(struct weir_p2p_region *r)
{
	if (r && r->dmabuf >= 0)
		close(r->dmabuf);
	free(r);
}

int regions_remove(struct regions *rs, struct weir_p2p_region *r, struct err *e)
{
	if (r->users) {
		err_set(e, EBUSY, "%u transfers are using this memory", r->users);
		return err_hint(e, "wait for them, or disconnect first");
	}
	rs->at[r->index] = NULL;
	region_drop(r);
	return 0;
}

void regions_free(struct regions *rs)
{
	for (unsigned int i = 0; i < rs->used; i++) {
		region_drop(rs->at[i]);
		rs->at[i] = NULL;
	}
	rs->used = 0;
}

int regions_find(struct regions *rs, uint64_t key, uint64_t offset, uint64_t bytes,
	unsigned int access, struct weir_p2p_region **region)
{
	struct weir_p2p_region *r = rs->at[key & (REGIONS_MAX - 1)];

	if (!r || r->key != key)
		return -ENOENT;
	if ((r->access & access) != access)
		return -EACCES;
	if (!region_range(r, offset, bytes))
		return -ERANGE;
	*region = r;
	return 0;
}
