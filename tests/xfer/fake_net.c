// SPDX-License-Identifier: BSD-3-Clause
#include "fake_net.h"

#include <stdlib.h>
#include <string.h>

#define REQUESTS 64
#define MAGIC	 0x66616b65u

struct net_request {
	char *data;
	size_t bytes;
	bool done;
	int tests;
};

struct net_comm {
	struct fake_net *f;
	struct net_comm *peer; /* NULL: gone */
	int number;
	bool receives;
	struct net_request ring[REQUESTS];
	unsigned posted, matched, taken; /* counts since the beginning */
	int posts, messages;
};

struct net_listener {
	struct fake_net *f;
	struct net_comm *waiting; /* the receiving end of a connect that has come */
	int calls;
};

struct net_memory {
	struct fake_net *f;
};

struct fake_handle {
	uint32_t magic;
	int calls;
	struct net_listener *listener; /* one process */
};

static int fake_properties(struct net *n, int dev, struct net_properties *p, struct err *e)
{
	static const char *const names[] = { "fake0", "fake1", "fake2", "fake3" };

	(void)n;
	(void)e;
	*p = (struct net_properties){ .name = names[dev],
		.memory = NET_HOST,
		.requests = NET_REQUESTS,
		.message_bytes = NET_MESSAGE_MAX };
	return 0;
}

static int fake_listen(struct net *n, int dev, unsigned char handle[NET_HANDLE_BYTES],
	struct net_listener **l, struct err *e)
{
	struct fake_handle h = { .magic = MAGIC };

	(void)dev;
	(void)e;
	*l = calloc(1, sizeof(**l));
	(*l)->f = (struct fake_net *)n;
	h.listener = *l;
	memset(handle, 0, NET_HANDLE_BYTES);
	memcpy(handle, &h, sizeof(h));
	return 0;
}

static struct net_comm *comm_new(struct fake_net *f, bool receives)
{
	struct net_comm *c = calloc(1, sizeof(*c));

	c->f = f;
	c->receives = receives;
	f->comms++;
	return c;
}

static int fake_connect(struct net *n, int dev, unsigned char handle[NET_HANDLE_BYTES],
	struct net_comm **c, struct err *e)
{
	struct fake_net *f = (struct fake_net *)n;
	struct fake_handle h;

	(void)dev;
	memcpy(&h, handle, sizeof(h));
	if (h.magic != MAGIC)
		return err_set(e, EPROTO, "this is no handle");
	if (h.calls++ < f->connect_calls) {
		memcpy(handle, &h, sizeof(h));
		return 0;
	}
	*c = comm_new(f, false);
	(*c)->peer = comm_new(h.listener->f, true);
	(*c)->peer->peer = *c;
	h.listener->waiting = (*c)->peer;
	return 0;
}

static int fake_accept(struct net_listener *l, struct net_comm **c, struct err *e)
{
	static int number;

	(void)e;
	if (!l->waiting || l->calls++ < l->f->connect_calls)
		return 0;
	*c = l->waiting;
	l->waiting = NULL;
	(*c)->number = number++ % 64;
	return 0;
}

static void fake_close_comm(struct net_comm *c)
{
	if (c->peer)
		c->peer->peer = NULL;
	c->f->comms--;
	free(c);
}

static void fake_close_listener(struct net_listener *l)
{
	if (l->waiting)
		fake_close_comm(l->waiting);
	free(l);
}

static int fake_reg(struct net_comm *c, void *data, size_t bytes, enum net_memory_kind kind,
	struct net_memory **m, struct err *e)
{
	(void)data;
	(void)bytes;
	if (kind != NET_HOST)
		return err_set(e, EOPNOTSUPP, "host memory only");
	*m = calloc(1, sizeof(**m));
	(*m)->f = c->f;
	c->f->memories++;
	return 0;
}

static int fake_dereg(struct net_comm *c, struct net_memory *m, struct err *e)
{
	(void)c;
	(void)e;
	m->f->memories--;
	free(m);
	return 0;
}

/* The oldest send meets the oldest receive. */
static void match(struct net_comm *s, struct net_comm *r)
{
	while (s->matched < s->posted && r->matched < r->posted) {
		struct net_request *from = &s->ring[s->matched++ % REQUESTS];
		struct net_request *to = &r->ring[r->matched++ % REQUESTS];

		if (from->bytes > to->bytes)
			abort();
		memcpy(to->data, from->data, from->bytes);
		to->bytes = from->bytes;
		from->done = to->done = true;
		to->tests = r->number == r->f->slow_comm ? r->f->slow_tests : 0;
	}
}

static int post(struct net_comm *c, const void *data, size_t bytes, struct net_memory *m,
	struct net_request **r, struct err *e)
{
	struct fake_net *f = c->f;

	if (!m)
		abort();
	if (f->not_now && ++c->posts % f->not_now == 0)
		return 0;
	if (c->posted - c->taken >= NET_REQUESTS)
		return err_set(e, ENOBUFS, "a request too many");
	*r = &c->ring[c->posted++ % REQUESTS];
	**r = (struct net_request){ .data = (char *)data, .bytes = bytes };
	if ((int)(c->posted - c->taken) > f->requests)
		f->requests = (int)(c->posted - c->taken);
	return 0;
}

static int fake_isend(struct net_comm *c, const void *data, size_t bytes, struct net_memory *m,
	struct net_request **r, struct err *e)
{
	return post(c, data, bytes, m, r, e);
}

static int fake_irecv(struct net_comm *c, void *data, size_t bytes, struct net_memory *m,
	struct net_request **r, struct err *e)
{
	return post(c, data, bytes, m, r, e);
}

static int fake_test(
	struct net_comm *c, struct net_request *r, bool *done, size_t *bytes, struct err *e)
{
	if (r != &c->ring[c->taken % REQUESTS])
		return err_set(e, EINVAL, "not the oldest");
	if (!c->peer && !r->done)
		return err_set(e, ECONNRESET, "the peer's comm is closed");
	if (c->peer)
		match(c->receives ? c->peer : c, c->receives ? c : c->peer);
	if (!r->done || r->tests-- > 0)
		return 0;
	if (c->receives && c->f->break_after && ++c->messages > c->f->break_after)
		return err_set(e, EIO, "broken on purpose");
	if (c->receives)
		c->f->received[c->number]++;
	c->taken++;
	*done = true;
	if (bytes)
		*bytes = 0; /* as some plugins do: not to be trusted */
	return 0;
}

static void fake_wait(struct net *n, int fd, uint64_t timeout_ns)
{
	(void)n;
	(void)fd;
	(void)timeout_ns;
}

static void fake_close(struct net *n)
{
	struct fake_net *f = (struct fake_net *)n;

	if (f->comms || f->memories)
		abort();
}

static const struct net_ops fake_ops = {
	.name = "fake",
	.close = fake_close,
	.properties = fake_properties,
	.listen = fake_listen,
	.connect = fake_connect,
	.accept = fake_accept,
	.close_listener = fake_close_listener,
	.close_comm = fake_close_comm,
	.reg = fake_reg,
	.dereg = fake_dereg,
	.isend = fake_isend,
	.irecv = fake_irecv,
	.test = fake_test,
	.wait = fake_wait,
};

struct net *fake_net_open(struct fake_net *f)
{
	f->net.ops = &fake_ops;
	if (!f->net.devices)
		f->net.devices = 1;
	return &f->net;
}
