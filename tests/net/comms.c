/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "comms.h"

/* A machine may be busy with something else for long: only what never happens takes so much. */
#define PATIENCE_NS (60 * NS_PER_S)

static void must(int ret, const struct err *e)
{
	if (ret)
		fail_msg("%d: %s", ret, e->what);
}

void comms_open(struct comms *p, struct net *n)
{
	unsigned char handle[NET_HANDLE_BYTES];
	struct net_listener *l;
	uint64_t deadline_ns = clock_ns() + PATIENCE_NS;
	struct err e = { 0 };

	memset(p, 0, sizeof(*p));
	p->n = n;
	must(n->ops->listen(n, 0, handle, &l, &e), &e);
	while (!p->sender || !p->receiver) {
		if (!p->sender)
			must(n->ops->connect(n, 0, handle, &p->sender, &e), &e);
		if (!p->receiver)
			must(n->ops->accept(l, &p->receiver, &e), &e);
		assert_true(clock_ns() < deadline_ns);
	}
	n->ops->close_listener(l);
	comms_register(p, COMMS_BYTES);
}

static void *allocate(size_t bytes)
{
	void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(data != MAP_FAILED);
	return data;
}

static void deregister(struct comms *p)
{
	if (p->out_memory)
		p->n->ops->dereg(p->sender, p->out_memory, NULL);
	if (p->in_memory)
		p->n->ops->dereg(p->receiver, p->in_memory, NULL);
	if (p->out)
		munmap(p->out, p->bytes);
	if (p->in)
		munmap(p->in, p->bytes);
}

void comms_register(struct comms *p, size_t bytes)
{
	struct err e = { 0 };

	deregister(p);
	p->bytes = bytes;
	p->out = allocate(bytes);
	p->in = allocate(bytes);
	must(p->n->ops->reg(p->sender, p->out, bytes, NET_HOST, &p->out_memory, &e), &e);
	must(p->n->ops->reg(p->receiver, p->in, bytes, NET_HOST, &p->in_memory, &e), &e);
}

void comms_close(struct comms *p)
{
	if (p->sender && p->receiver)
		deregister(p);
	if (p->sender)
		p->n->ops->close_comm(p->sender);
	if (p->receiver)
		p->n->ops->close_comm(p->receiver);
}

struct net_request *comms_send(struct comms *p, size_t offset, size_t bytes)
{
	struct net_request *r;
	struct err e = { 0 };

	must(p->n->ops->isend(p->sender, p->out + offset, bytes, p->out_memory, &r, &e), &e);
	return r;
}

struct net_request *comms_receive(struct comms *p, size_t offset, size_t bytes)
{
	struct net_request *r;
	struct err e = { 0 };

	must(p->n->ops->irecv(p->receiver, p->in + offset, bytes, p->in_memory, &r, &e), &e);
	return r;
}

int comms_finish(
	struct comms *p, struct net_comm *c, struct net_request *r, size_t *bytes, struct err *e)
{
	uint64_t deadline_ns = clock_ns() + PATIENCE_NS;
	bool done = false;
	int ret = 0;

	assert_non_null(r);
	while (!done && !ret) {
		ret = p->n->ops->test(c, r, &done, bytes, e);
		if (clock_ns() > deadline_ns)
			fail_msg("not done after %.0f s", PATIENCE_NS / 1e9);
		if (!done && !ret)
			p->n->ops->wait(p->n, -1, NS_PER_MS);
	}
	return ret;
}

/* No two words of a message are alike. */
static void fill(char *to, size_t bytes, unsigned int seed)
{
	for (size_t i = 0; i < bytes; i++)
		to[i] = (char)((i * 2654435761u + seed * 40503u) >> 13);
}

void comms_carry(struct comms *p, size_t bytes, unsigned int seed)
{
	struct net_request *receive, *send;
	struct err e = { 0 };
	size_t got = 12345;

	fill(p->out, bytes, seed);
	memset(p->in, 0, bytes + 1);
	receive = comms_receive(p, 0, bytes);
	send = comms_send(p, 0, bytes);
	must(comms_finish(p, p->receiver, receive, &got, &e), &e);
	must(comms_finish(p, p->sender, send, NULL, &e), &e);
	assert_int_equal(got, bytes);
	assert_memory_equal(p->in, p->out, bytes);
	assert_int_equal(p->in[bytes], 0);
}

static int count(const char *folder)
{
	DIR *d = opendir(folder);
	int entries = -2; /* . and .. */

	assert_non_null(d);
	while (readdir(d))
		entries++;
	closedir(d);
	return entries;
}

int threads_running(void)
{
	return count("/proc/self/task");
}

void threads_come_down_to(int wanted)
{
	uint64_t deadline_ns = clock_ns() + PATIENCE_NS;

	while (threads_running() > wanted) {
		if (clock_ns() > deadline_ns)
			fail_msg("%d threads, not %d", threads_running(), wanted);
		usleep(1000);
	}
}

int descriptors_in_use(void)
{
	return count("/proc/self/fd") - 1;
}
