// SPDX-License-Identifier: BSD-3-Clause
#include "probe/payload.h"

#include <errno.h>
#include <string.h>

#include "probe/wire.h"

#define CAME_AT PROBE_PAYLOAD_MAX

int payload_open(struct payload *p, const struct mem_where *where, const struct pattern *pattern,
	struct err *e)
{
	memset(p, 0, sizeof(*p));
	p->pattern = pattern;
	return where->kind == MEM_HOST
		       ? 0
		       : region_alloc_in(&p->region, where, (size_t)2 * PROBE_PAYLOAD_MAX, e);
}

void payload_close(struct payload *p)
{
	if (p->region.ops)
		region_free(&p->region);
}

int payload_make(struct payload *p, void *to, size_t bytes, uint64_t position)
{
	int ret = 0;

	if (!p->region.ops) {
		pattern_fill(p->pattern, to, bytes, position);
		return 0;
	}
	if (position != p->position || bytes > p->filled_bytes) {
		ret = region_fill(&p->region, p->pattern, 0, bytes, position, NULL);
		p->position = position;
		p->filled_bytes = ret ? 0 : bytes;
	}
	return ret ? ret : region_read(&p->region, 0, to, bytes, NULL);
}

int payload_take(struct payload *p, const void *from, size_t bytes, uint64_t position, bool check)
{
	struct mem_fragment piece = { CAME_AT, (uint32_t)bytes, position };
	int ret;

	if (!p->region.ops)
		return check && pattern_check(p->pattern, from, bytes, position, NULL) ? -EBADMSG
										       : 0;
	ret = region_write(&p->region, CAME_AT, from, bytes, NULL);
	if (!ret && check)
		ret = region_check(&p->region, p->pattern, &piece, 1, NULL, NULL);
	return ret;
}

int payload_return(struct payload *p, void *data, size_t bytes)
{
	int ret;

	if (!p->region.ops)
		return 0;
	ret = region_write(&p->region, CAME_AT, data, bytes, NULL);
	return ret ? ret : region_read(&p->region, CAME_AT, data, bytes, NULL);
}
