// SPDX-License-Identifier: BSD-3-Clause
/* The transport with CUDA memory at one end or both. Run twice: with the machine's driver, skipped where
 * there is none, and with a fake one whose memory is the host's, which can be made slow and to fail. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "mem/cuda.h"
#include "mem/fake_cuda.h"
#include "mem/skip.h"
#include "net/comms.h"
#include "net/tcp.h"

#define BYTES ((size_t)4 << 20)

static struct fake_cuda *fake; /* NULL: a real GPU */
static struct err e;

#define OK(call)                                                                                   \
	do {                                                                                       \
		if (call)                                                                          \
			fail_msg("%s: %s (%s)", #call, e.what, e.hint);                            \
	} while (0)

struct ends {
	struct net *n;
	struct comms p;
	struct region out, in;
	struct net_memory *out_memory, *in_memory;
	struct pattern pattern;
};

static struct net_memory *registered(struct net *n, struct net_comm *c, struct region *r)
{
	struct net_memory *m;

	if (r->data)
		OK(n->ops->reg(c, r->data, r->bytes, NET_HOST, &m, &e));
	else
		OK(n->ops->reg(c, (void *)(uintptr_t)r->cuda->address, r->bytes, NET_CUDA, &m, &e));
	return m;
}

static void ends_open(struct ends *t, enum mem_kind from, enum mem_kind to)
{
	struct net_tcp_options o = {
		.interfaces = "lo", .connections = 2, .threads = 2, .cuda = true
	};
	struct mem_where out = { .kind = from }, in = { .kind = to };

	OK(net_tcp_open(&t->n, &o, &e));
	comms_open(&t->p, t->n);
	OK(region_alloc_in(&t->out, &out, BYTES, &e));
	OK(region_alloc_in(&t->in, &in, BYTES, &e));
	t->out_memory = registered(t->n, t->p.sender, &t->out);
	t->in_memory = registered(t->n, t->p.receiver, &t->in);
	OK(pattern_init(&t->pattern, PATTERN_SEEDED, 5, 1 << 20, &e));
	OK(region_fill(&t->out, &t->pattern, 0, BYTES, 0, &e));
}

static void ends_close(struct ends *t)
{
	t->n->ops->dereg(t->p.sender, t->out_memory, NULL);
	t->n->ops->dereg(t->p.receiver, t->in_memory, NULL);
	comms_close(&t->p);
	region_free(&t->out);
	region_free(&t->in);
	pattern_free(&t->pattern);
	t->n->ops->close(t->n);
}

static char *at(const struct region *r, size_t offset)
{
	return (r->data ? r->data : (char *)(uintptr_t)r->cuda->address) + offset;
}

static int carry(struct ends *t, size_t from, size_t to, size_t bytes)
{
	struct mem_fragment piece = { to, (uint32_t)bytes, from };
	struct net_request *send, *receive;
	struct mem_mismatch wrong;
	size_t got = 0;
	int ret;

	ret = t->n->ops->irecv(t->p.receiver, at(&t->in, to), bytes, t->in_memory, &receive, &e);
	if (!ret)
		ret = t->n->ops->isend(
			t->p.sender, at(&t->out, from), bytes, t->out_memory, &send, &e);
	if (!ret)
		ret = comms_finish(&t->p, t->p.receiver, receive, &got, &e);
	if (!ret)
		ret = comms_finish(&t->p, t->p.sender, send, NULL, &e);
	if (ret)
		return ret;
	assert_int_equal(got, bytes);
	if (bytes)
		OK(region_check(&t->in, &t->pattern, &piece, 1, &wrong, &e));
	return 0;
}

static void every_pair_of_memory_kinds_carries_data(void **state)
{
	static const enum mem_kind kinds[][2] = { { MEM_CUDA, MEM_CUDA }, { MEM_HOST, MEM_CUDA },
		{ MEM_CUDA, MEM_HOST }, { MEM_PINNED, MEM_CUDA } };
	static const size_t sizes[] = { 0, 1, 1000, 32768, 32769, 300001, BYTES - 16 };

	(void)state;
	for (int k = 0; k < 4; k++) {
		struct ends t;

		ends_open(&t, kinds[k][0], kinds[k][1]);
		for (int i = 0; i < 7; i++) {
			OK(carry(&t, 0, 0, sizes[i]));
			OK(carry(&t, 3, 7, sizes[i])); /* pointers need no alignment */
		}
		ends_close(&t);
	}
}

static void many_messages_are_under_way_at_once(void **state)
{
	struct net_request *send[16], *receive[16];
	struct ends t;

	(void)state;
	ends_open(&t, MEM_CUDA, MEM_CUDA);
	for (int round = 0; round < 10; round++) {
		for (size_t i = 0; i < 16; i++) {
			OK(t.n->ops->irecv(t.p.receiver, at(&t.in, i << 18), 1 << 18, t.in_memory,
				&receive[i], &e));
			OK(t.n->ops->isend(t.p.sender, at(&t.out, i << 18), 1 << 18, t.out_memory,
				&send[i], &e));
		}
		for (int i = 0; i < 16; i++) {
			OK(comms_finish(&t.p, t.p.receiver, receive[i], NULL, &e));
			OK(comms_finish(&t.p, t.p.sender, send[i], NULL, &e));
		}
		OK(region_check(
			&t.in, &t.pattern, &(struct mem_fragment){ 0, BYTES, 0 }, 1, NULL, &e));
	}
	ends_close(&t);
}

static void copies_that_take_long_are_waited_for(void **state)
{
	struct ends t;

	(void)state;
	if (!fake)
		skip();
	ends_open(&t, MEM_CUDA, MEM_CUDA);
	for (int i = 0; i < 5; i++) {
		fake->lag = 500;
		OK(carry(&t, 0, 0, 1 << 20));
	}
	ends_close(&t);
}

static void a_copy_that_fails_ends_the_comm(void **state)
{
	struct ends t;

	(void)state;
	if (!fake)
		skip();
	for (int after = 0; after < 6; after++) {
		ends_open(&t, MEM_CUDA, MEM_CUDA);
		fake->fail_code = 700;
		fake->fail_after = after;
		fake->fail = "cuMemcpyAsync";
		assert_true(carry(&t, 0, 0, 1 << 20) < 0);
		fake->fail = NULL;
		ends_close(&t);
	}
}

static void memory_of_a_gpu_is_refused_unless_asked_for(void **state)
{
	struct net_tcp_options o = { .interfaces = "lo" };
	struct net_properties q;
	struct net_memory *m;
	struct comms p;
	struct net *n;

	(void)state;
	OK(net_tcp_open(&n, &o, &e));
	OK(n->ops->properties(n, 0, &q, &e));
	assert_int_equal(q.memory, NET_HOST);
	comms_open(&p, n);
	assert_int_equal(n->ops->reg(p.sender, &p, sizeof(p), NET_CUDA, &m, &e), -EOPNOTSUPP);
	comms_close(&p);
	n->ops->close(n);
}

static void no_memory_for_staging_is_said_and_leaves_the_comm_whole(void **state)
{
	struct net_tcp_options o = { .interfaces = "lo", .cuda = true };
	struct mem_where where = { .kind = MEM_CUDA };
	struct net_memory *m;
	struct region r;
	struct comms p;
	struct net *n;

	(void)state;
	if (!fake)
		skip();
	OK(net_tcp_open(&n, &o, &e));
	comms_open(&p, n);
	OK(region_alloc_in(&r, &where, BYTES, &e));
	for (int after = 0; after < 3; after++) {
		fake->fail_code = 2;
		fake->fail_after = after;
		fake->fail = "cuMemHostAlloc";
		assert_int_equal(
			n->ops->reg(p.sender, at(&r, 0), BYTES, NET_CUDA, &m, &e), -ENOMEM);
	}
	OK(n->ops->reg(p.sender, at(&r, 0), BYTES, NET_CUDA, &m, &e));
	comms_carry(&p, 1 << 20, 1);
	OK(n->ops->dereg(p.sender, m, &e));
	comms_close(&p);
	region_free(&r);
	n->ops->close(n);
}

/* After every test: what was made is gone. */
static int expect_nothing_left(void **state)
{
	(void)state;
	if (!fake)
		return 0;
	return fake->retained || fake->memory || fake->pinned || fake->registered ||
	       fake->streams || fake->events || fake->modules || fake->mappings || fake->wrong;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(
			every_pair_of_memory_kinds_carries_data, expect_nothing_left),
		cmocka_unit_test_teardown(many_messages_are_under_way_at_once, expect_nothing_left),
		cmocka_unit_test_teardown(
			copies_that_take_long_are_waited_for, expect_nothing_left),
		cmocka_unit_test_teardown(a_copy_that_fails_ends_the_comm, expect_nothing_left),
		cmocka_unit_test_teardown(
			memory_of_a_gpu_is_refused_unless_asked_for, expect_nothing_left),
		cmocka_unit_test_teardown(no_memory_for_staging_is_said_and_leaves_the_comm_whole,
			expect_nothing_left),
	};
	const struct cuda *cu;
	void *driver;

	if (cuda_open(&cu, &e))
		return skip_all("test_transport_cuda", &e);
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	fake = driver ? dlsym(driver, "fake_cuda") : NULL;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
