// SPDX-License-Identifier: BSD-3-Clause
#include "mem/region.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

int region_alloc(struct region *r, size_t bytes, struct err *e)
{
	r->bytes = (bytes + 4095) & ~(size_t)4095;
	r->data = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (r->data == MAP_FAILED) {
		r->data = NULL;
		err_set(e, errno, "cannot get %zu bytes of memory: %m", r->bytes);
		return err_hint(e, "choose a smaller --buffer-size");
	}
	madvise(r->data, r->bytes, MADV_HUGEPAGE);
	return 0;
}

void region_free(struct region *r)
{
	if (r->data)
		munmap(r->data, r->bytes);
	r->data = NULL;
}

void region_fill_random(struct region *r)
{
	uint64_t state = 0x9e3779b97f4a7c15;

	if (getrandom(&state, sizeof(state), GRND_NONBLOCK) < 0)
		state ^= (uintptr_t)r->data;
	state |= 1;
	for (size_t i = 0; i + sizeof(state) <= r->bytes; i += sizeof(state)) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		memcpy(r->data + i, &state, sizeof(state));
	}
}
