// SPDX-License-Identifier: BSD-3-Clause
/* The transport with memory that it knows by the descriptor of a dma-buf alone. Needs /dev/udmabuf, which the laboratory
 * has, but for "test_transport_dmabuf words", which tests what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "comms.h"
#include "mem/region.h"
#include "net/tcp.h"

#include "../mem/skip.h"

#define BYTES  ((size_t)1 << 20)
#define INSIDE 5000 /* registered from here on, which is no page */

static const struct mem_where udmabuf = { .kind = MEM_UDMABUF };
static struct err e;

static struct net *open_net(void)
{
	struct net_tcp_options o = { .interfaces = "lo", .connections = 3, .threads = 2 };
	struct net *n;

	if (net_tcp_open(&n, &o, &e))
		fail_msg("%s", e.what);
	return n;
}

static void what_is_no_dmabuf_is_refused_and_nothing_is_left(void **state)
{
	struct net *n = open_net();
	int fd = memfd_create("no dma-buf", MFD_CLOEXEC), descriptors;
	struct net_memory *m;
	struct comms p;

	(void)state;
	assert_int_equal(ftruncate(fd, 8192), 0);
	comms_open(&p, n);
	descriptors = descriptors_in_use();
	assert_int_equal(
		n->ops->reg_dmabuf(p.sender, NULL, 8192, NET_DMABUF, 0, fd, &m, &e), -EINVAL);
	assert_non_null(strstr(e.what, "no dma-buf"));
	assert_int_equal(
		n->ops->reg_dmabuf(p.sender, NULL, 8192, NET_DMABUF, 0, -1, &m, &e), -EBADF);
	assert_int_equal(n->ops->reg_dmabuf(p.sender, NULL, 0, NET_DMABUF, 0, fd, &m, &e), -EINVAL);
	assert_int_equal(
		n->ops->reg_dmabuf(p.sender, NULL, 8192, NET_DMABUF, UINT64_MAX - 4096, fd, &m, &e),
		-EINVAL);
	assert_int_equal(
		n->ops->reg_dmabuf(p.sender, p.out, 8192, NET_CUDA, 0, fd, &m, &e), -EOPNOTSUPP);
	assert_int_equal(descriptors_in_use(), descriptors);
	comms_carry(&p, 100000, 1);
	comms_close(&p);
	close(fd);
	n->ops->close(n);
}

/* Known to the transport by descriptor and offset; the caller's descriptor is closed at once. */
static struct net_memory *known(struct net *n, struct net_comm *c, struct region *r)
{
	struct net_memory *m;
	int fd, own;

	if (region_dmabuf(r, &fd, &e))
		fail_msg("%s", e.what);
	own = dup(fd);
	if (n->ops->reg_dmabuf(c, NULL, BYTES - INSIDE, NET_DMABUF, INSIDE, own, &m, &e))
		fail_msg("%s", e.what);
	close(own);
	return m;
}

static void a_dmabuf_is_carried_by_offset(void **state)
{
	static const size_t sizes[] = { 1, 5000, 300000, BYTES - INSIDE };
	struct net_memory *out_memory, *in_memory;
	struct net_request *send, *receive;
	struct region out, in;
	struct net *n;
	struct comms p;
	size_t got;

	(void)state;
	assert_int_equal(region_alloc_in(&out, &udmabuf, BYTES, &e), 0);
	assert_int_equal(region_alloc_in(&in, &udmabuf, BYTES, &e), 0);
	n = open_net();
	comms_open(&p, n);
	out_memory = known(n, p.sender, &out);
	in_memory = known(n, p.receiver, &in);
	region_fill_random(&out);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uintptr_t at = BYTES - INSIDE - sizes[i];

		memset(in.data, 0, BYTES);
		assert_int_equal(
			n->ops->irecv(p.receiver, (void *)at, sizes[i], in_memory, &receive, &e),
			0);
		assert_int_equal(n->ops->dereg(p.receiver, in_memory, &e), -EBUSY);
		assert_int_equal(
			n->ops->isend(p.sender, (void *)at, sizes[i], out_memory, &send, &e), 0);
		assert_int_equal(comms_finish(&p, p.receiver, receive, &got, &e), 0);
		assert_int_equal(comms_finish(&p, p.sender, send, NULL, &e), 0);
		assert_int_equal(got, sizes[i]);
		assert_memory_equal(in.data + INSIDE + at, out.data + INSIDE + at, sizes[i]);
		/* And nothing before it. */
		assert_int_equal(in.data[INSIDE + at - 1], 0);
	}
	assert_int_equal(n->ops->isend(p.sender, (void *)(uintptr_t)1, BYTES - INSIDE, out_memory,
				 &send, &e),
		-EFAULT);
	assert_int_equal(n->ops->dereg(p.sender, out_memory, &e), 0);
	assert_int_equal(n->ops->dereg(p.receiver, in_memory, &e), 0);
	comms_close(&p);
	region_free(&out);
	region_free(&in);
	n->ops->close(n);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest words[] = {
		cmocka_unit_test(what_is_no_dmabuf_is_refused_and_nothing_is_left),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dmabuf_is_carried_by_offset),
	};
	struct region r;

	if (argc > 1 && !strcmp(argv[1], "words"))
		return cmocka_run_group_tests(words, NULL, NULL);
	if (region_alloc_in(&r, &udmabuf, 4096, &e))
		return skip_all("net/transport-dmabuf", &e);
	region_free(&r);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
