// SPDX-License-Identifier: BSD-3-Clause
#include "mem/region.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "mem/ops.h"

static int host_alloc(struct region *r, const struct mem_where *where, size_t bytes, struct err *e)
{
	(void)where;
	r->bytes = mem_round_up(bytes, 4096);
	r->data = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (r->data == MAP_FAILED) {
		err_set(e, errno, "cannot get %zu bytes of memory: %m", r->bytes);
		return err_hint(e, "choose a smaller --buffer-size");
	}
	madvise(r->data, r->bytes, MADV_HUGEPAGE);
	return 0;
}

static void host_free(struct region *r)
{
	munmap(r->data, r->bytes);
}

int mem_host_read(struct region *r, size_t offset, void *to, size_t bytes, struct err *e)
{
	(void)e;
	memcpy(to, r->data + offset, bytes);
	return 0;
}

int mem_host_write(struct region *r, size_t offset, const void *from, size_t bytes, struct err *e)
{
	(void)e;
	memcpy(r->data + offset, from, bytes);
	return 0;
}

int mem_host_fill(struct region *r, const struct pattern *p, size_t offset, size_t bytes,
	uint64_t position, struct err *e)
{
	(void)e;
	pattern_fill(p, r->data + offset, bytes, position);
	return 0;
}

int mem_host_check(struct region *r, const struct pattern *p, const struct mem_fragment *list,
	size_t count, struct mem_mismatch *m, struct err *e)
{
	struct pattern_mismatch wrong;

	(void)e;
	for (size_t i = 0; i < count; i++) {
		const char *data = r->data + list[i].region_offset;

		if (!pattern_differs(p, data, list[i].bytes, list[i].stream_position) ||
			!pattern_check(p, data, list[i].bytes, list[i].stream_position, &wrong))
			continue;
		*m = (struct mem_mismatch){ i, (uint32_t)wrong.index, wrong.expected, wrong.found };
		return -EBADMSG;
	}
	return 0;
}

int mem_host_gather(struct region *r, const struct mem_fragment *list, size_t count,
	struct region *to, uint64_t to_position, struct err *e)
{
	if (!to->data) {
		err_set(e, EOPNOTSUPP, "cannot gather from %s memory into %s memory", r->ops->name,
			to->ops->name);
		return err_hint(e, "gather into host memory first, then write that to the GPU");
	}
	for (size_t i = 0; i < count; i++)
		memcpy(to->data + (list[i].stream_position - to_position),
			r->data + list[i].region_offset, list[i].bytes);
	return 0;
}

const struct mem_ops mem_host_ops = {
	.name = "host",
	.alloc = host_alloc,
	.free = host_free,
	.read = mem_host_read,
	.write = mem_host_write,
	.fill = mem_host_fill,
	.check = mem_host_check,
	.gather = mem_host_gather,
};

static const struct mem_ops *const kinds[] = {
	[MEM_HOST] = &mem_host_ops,
	[MEM_UDMABUF] = &mem_udmabuf_ops,
	[MEM_CUDA] = &mem_cuda_ops,
	[MEM_PINNED] = &mem_pinned_ops,
};

static void region_clear(struct region *r)
{
	*r = (struct region){ .memfd = -1, .dmabuf = -1 };
}

int region_alloc_in(struct region *r, const struct mem_where *where, size_t bytes, struct err *e)
{
	int ret;

	region_clear(r);
	if (!bytes || !mem_round_up(bytes, (size_t)2 << 20)) {
		err_set(e, EINVAL, "a region cannot have %zu bytes", bytes);
		return err_hint(e, "choose a size of at least 1 byte that the machine has");
	}
	ret = kinds[where->kind]->alloc(r, where, bytes, e);
	if (ret)
		region_clear(r);
	else
		r->ops = kinds[where->kind];
	return ret;
}

int region_alloc(struct region *r, size_t bytes, struct err *e)
{
	static const struct mem_where host = { .kind = MEM_HOST };

	return region_alloc_in(r, &host, bytes, e);
}

void region_free(struct region *r)
{
	if (!r->ops)
		return;
	if (r->cuda && r->ops != &mem_cuda_ops && r->ops != &mem_pinned_ops)
		mem_cuda_unpin(r);
	if (r->dmabuf >= 0)
		close(r->dmabuf);
	r->ops->free(r);
	region_clear(r);
}

const char *region_kind_name(const struct region *r)
{
	return r->ops ? r->ops->name : "no";
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

int region_dmabuf(struct region *r, int *fd, struct err *e)
{
	int ret = 0;

	*fd = -1;
	if (r->dmabuf < 0 && (!r->ops || !r->ops->dmabuf)) {
		err_set(e, EOPNOTSUPP, "%s memory cannot be exported as a dma-buf",
			region_kind_name(r));
		return err_hint(e, "use --mem udmabuf or --mem cuda");
	}
	if (r->dmabuf < 0)
		ret = r->ops->dmabuf(r, e);
	if (!ret)
		*fd = r->dmabuf;
	return ret;
}

static int check_range(const struct region *r, uint64_t offset, uint64_t bytes, struct err *e)
{
	if (offset <= r->bytes && bytes <= r->bytes - offset)
		return 0;
	return err_set(e, EFAULT, "%llu bytes at offset %llu lie beyond the region's %zu",
		(unsigned long long)bytes, (unsigned long long)offset, r->bytes);
}

static int check_fragments(
	const struct region *r, const struct mem_fragment *list, size_t count, struct err *e)
{
	for (size_t i = 0; i < count; i++)
		if (check_range(r, list[i].region_offset, list[i].bytes, e))
			return err_prefix(e, "fragment %zu", i);
	return 0;
}

int region_read(struct region *r, size_t offset, void *to, size_t bytes, struct err *e)
{
	int ret = check_range(r, offset, bytes, e);

	return ret || !bytes ? ret : r->ops->read(r, offset, to, bytes, e);
}

int region_write(struct region *r, size_t offset, const void *from, size_t bytes, struct err *e)
{
	int ret = check_range(r, offset, bytes, e);

	return ret || !bytes ? ret : r->ops->write(r, offset, from, bytes, e);
}

int region_fill(struct region *r, const struct pattern *p, size_t offset, size_t bytes,
	uint64_t position, struct err *e)
{
	int ret = check_range(r, offset, bytes, e);

	return ret || !bytes ? ret : r->ops->fill(r, p, offset, bytes, position, e);
}

int region_check(struct region *r, const struct pattern *p, const struct mem_fragment *list,
	size_t count, struct mem_mismatch *m, struct err *e)
{
	struct mem_mismatch first = { 0 };
	int ret = check_fragments(r, list, count, e);

	if (ret || !count)
		return ret;
	ret = r->ops->check(r, p, list, count, &first, e);
	if (ret != -EBADMSG)
		return ret;
	if (m)
		*m = first;
	return err_set(e, EBADMSG,
		"wrong data: byte %u of the fragment at stream position %llu is %u, not %u",
		first.byte, (unsigned long long)list[first.fragment].stream_position, first.found,
		first.expected);
}

int region_gather(struct region *r, const struct mem_fragment *list, size_t count,
	struct region *to, uint64_t to_position, struct err *e)
{
	int ret = check_fragments(r, list, count, e);

	for (size_t i = 0; !ret && i < count; i++)
		/* A position before the first becomes an offset beyond the last. */
		ret = check_range(to, list[i].stream_position - to_position, list[i].bytes, e);
	return ret || !count ? ret : r->ops->gather(r, list, count, to, to_position, e);
}
