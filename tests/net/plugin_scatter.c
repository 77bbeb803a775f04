// SPDX-License-Identifier: BSD-3-Clause
/* A plugin of version 7 that leaves what it receives in fragments, as Google's TCPX does, over weir's own transport:
 * for tests of unpacking where there is no such NIC. It keeps the contract of the original to the letter: 16 receives
 * at most, tested and consumed in order, no length reported, slots in the order of posting. What is consumed is
 * overwritten at once, so that an unpacking that was not over brings wrong data.
 *
 * WEIR_TEST_SCATTER=cuda: the fragments lie in the memory of a GPU, else in the host's. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "mem/cuda.h"
#include "net/plugin_abi.h"
#include "net/tcp.h"

#define SLOT_BYTES                                                                                 \
	((size_t)2 << 20) /* of the pool: fragments of a message, and the gaps between them */
#define MESSAGE ((size_t)1 << 20)

enum state { FREE, POSTED, DONE };

struct comm;

struct memory {
	char *data;
	int kind;
	struct net_memory *sent; /* registered with the transport */
};

struct request {
	struct comm *comm;
	enum state state;
	struct net_request *request;
	struct memory *memory;
	char *to;
	size_t bytes;
};

struct comm {
	struct net_comm *comm;
	bool sends;
	struct request request[64];
	/* Receiving. */
	struct region staging, pool, meta, handle;
	struct net_memory *staged;
	unsigned int posted, done, consumed;
};

static struct net *net;
static struct mem_where where;

static char *address(const struct region *r)
{
	return r->data ? r->data : (char *)(uintptr_t)r->cuda->address;
}

static int init(plugin_log_fn *log)
{
	const char *kind = getenv("WEIR_TEST_SCATTER");
	struct net_tcp_options o = { .interfaces = "lo", .connections = 1 };

	(void)log;
	where.kind = kind && !strcmp(kind, "cuda") ? MEM_CUDA : MEM_HOST;
	o.cuda = where.kind == MEM_CUDA;
	return net_tcp_open(&net, &o, NULL) ? PLUGIN_SYSTEM : PLUGIN_OK;
}

static int devices(int *count)
{
	*count = 1;
	return PLUGIN_OK;
}

static int properties(int dev, struct plugin_properties_v7 *p)
{
	(void)dev;
	*p = (struct plugin_properties_v7){ .name = (char *)"lo",
		.memory = NET_HOST | NET_CUDA,
		.speed_mbps = 10000,
		.max_comms = 65536,
		.max_receives = 1,
		.device_type = PLUGIN_DEVICE_UNPACK,
		.device_version = 7 };
	return PLUGIN_OK;
}

static int listen(int dev, void *handle, void **listener)
{
	struct net_listener *l;

	*listener = NULL;
	if (net->ops->listen(net, dev, handle, &l, NULL))
		return PLUGIN_SYSTEM;
	*listener = l;
	return PLUGIN_OK;
}

static int close_comm(void *closing)
{
	struct comm *c = closing;

	net->ops->close_comm(c->comm);
	region_free(&c->staging);
	region_free(&c->pool);
	region_free(&c->meta);
	region_free(&c->handle);
	free(c);
	return PLUGIN_OK;
}

static struct comm *wrap(struct net_comm *comm, bool sends)
{
	struct comm *c = calloc(1, sizeof(*c));

	if (!c)
		abort();
	c->comm = comm;
	c->sends = sends;
	for (int i = 0; i < 64; i++)
		c->request[i].comm = c;
	return c;
}

static int connect(int dev, void *handle, void **comm, struct plugin_device_handle **device)
{
	struct net_comm *c;

	(void)device;
	*comm = NULL;
	if (net->ops->connect(net, dev, handle, &c, NULL))
		return PLUGIN_SYSTEM;
	if (c)
		*comm = wrap(c, true);
	return PLUGIN_OK;
}

static int accept(void *listener, void **comm, struct plugin_device_handle **device)
{
	struct mem_where pinned = { .kind = where.kind == MEM_CUDA ? MEM_PINNED : MEM_HOST };
	struct plugin_unpack_handle handle = { .head = UINT64_MAX };
	struct net_comm *accepted;
	struct comm *c;

	*comm = NULL;
	if (net->ops->accept(listener, &accepted, NULL))
		return PLUGIN_SYSTEM;
	if (!accepted)
		return PLUGIN_OK;
	c = wrap(accepted, false);
	if (region_alloc(&c->staging, PLUGIN_UNPACK_SLOTS * MESSAGE, NULL) ||
		region_alloc_in(&c->pool, &where, PLUGIN_UNPACK_SLOTS * SLOT_BYTES, NULL) ||
		region_alloc_in(&c->meta, &pinned, sizeof(struct plugin_unpack_meta), NULL) ||
		region_alloc_in(&c->handle, &where, sizeof(handle), NULL) ||
		net->ops->reg(
			c->comm, c->staging.data, c->staging.bytes, NET_HOST, &c->staged, NULL)) {
		close_comm(c);
		return PLUGIN_SYSTEM;
	}
	handle.meta = (void *)c->meta.data;
	handle.pool = address(&c->pool);
	region_write(&c->handle, 0, &handle, sizeof(handle), NULL);
	(*device)->handle = address(&c->handle);
	*comm = c;
	return PLUGIN_OK;
}

static int reg(void *comm, void *data, int bytes, int kind, void **memory)
{
	struct comm *c = comm;
	struct memory *m = calloc(1, sizeof(*m));

	*memory = m;
	if (!m)
		return PLUGIN_SYSTEM;
	m->data = data;
	m->kind = kind;
	if (c->sends && net->ops->reg(c->comm, data, (size_t)bytes, (enum net_memory_kind)kind,
				&m->sent, NULL)) {
		free(m);
		return PLUGIN_SYSTEM;
	}
	return PLUGIN_OK;
}

static int dereg(void *comm, void *memory)
{
	struct comm *c = comm;
	struct memory *m = memory;

	if (m->sent)
		net->ops->dereg(c->comm, m->sent, NULL);
	free(m);
	return PLUGIN_OK;
}

static int send(void *comm, void *data, int bytes, int tag, void *memory, void **request)
{
	struct comm *c = comm;
	struct request *r = NULL;

	(void)tag;
	*request = NULL;
	for (int i = 0; !r && i < 64; i++)
		if (c->request[i].state == FREE)
			r = &c->request[i];
	if (!r)
		return PLUGIN_OK;
	if (net->ops->isend(c->comm, data, (size_t)bytes, ((struct memory *)memory)->sent,
		    &r->request, NULL))
		return PLUGIN_REMOTE;
	if (r->request) {
		r->state = POSTED;
		*request = r;
	}
	return PLUGIN_OK;
}

static int recv(
	void *comm, int count, void **data, int *bytes, int *tags, void **memory, void **request)
{
	struct comm *c = comm;
	struct request *r = &c->request[c->posted % PLUGIN_UNPACK_SLOTS];

	(void)tags;
	*request = NULL;
	/* The 17th: its slot is not consumed. */
	if (count != 1 || (size_t)*bytes > MESSAGE || r->state != FREE)
		return PLUGIN_INTERNAL;
	if (net->ops->irecv(c->comm, c->staging.data + c->posted % PLUGIN_UNPACK_SLOTS * MESSAGE,
		    (size_t)*bytes, c->staged, &r->request, NULL))
		return PLUGIN_REMOTE;
	if (!r->request)
		return PLUGIN_OK;
	r->state = POSTED;
	r->memory = *memory;
	r->to = *data;
	c->posted++;
	*request = r;
	return PLUGIN_OK;
}

/* Pieces of several lengths, those of a message in the reverse order, none at an even address. */
static void scatter(struct comm *c, unsigned int slot, size_t bytes)
{
	static const uint32_t lengths[] = { 1448, 4096, 100, 2896, 1 };
	struct plugin_unpack_meta *meta = (void *)c->meta.data;
	const char *from = c->staging.data + slot * MESSAGE;
	size_t at = (slot + 1) * SLOT_BYTES, done = 0, count = 0;

	while (done < bytes) {
		uint32_t length = lengths[count % 5];

		if (length > bytes - done)
			length = (uint32_t)(bytes - done);
		at -= length + count % 3;
		region_write(&c->pool, at, from + done, length, NULL);
		meta->fragment[slot][count++] =
			(struct plugin_unpack_fragment){ (uint32_t)at, length, done };
		done += length;
	}
	__atomic_store_n(&meta->count[slot], count, __ATOMIC_RELEASE);
}

static int test_receive(struct request *r, int *done)
{
	struct comm *c = r->comm;
	unsigned int slot = (unsigned int)(r - c->request);
	struct plugin_unpack_meta *meta = (void *)c->meta.data;
	bool is_done;

	if (slot != c->done % PLUGIN_UNPACK_SLOTS || r->state != POSTED)
		return PLUGIN_INTERNAL;
	if (net->ops->test(c->comm, r->request, &is_done, &r->bytes, NULL))
		return PLUGIN_REMOTE;
	if (!is_done)
		return PLUGIN_OK;
	/* To host memory it comes without fragments, where the pool is in a GPU. */
	if (where.kind == MEM_CUDA && r->memory->kind == NET_HOST) {
		memcpy(r->to, c->staging.data + slot * MESSAGE, r->bytes);
		meta->count[slot] = 0;
	} else {
		scatter(c, slot, r->bytes);
	}
	r->state = DONE;
	c->done++;
	*done = 1;
	return PLUGIN_OK;
}

static int test(void *request, int *done, int *bytes)
{
	struct request *r = request;
	bool is_done;

	(void)bytes;
	*done = 0;
	if (!r->comm->sends)
		return test_receive(r, done);
	if (net->ops->test(r->comm->comm, r->request, &is_done, NULL, NULL))
		return PLUGIN_REMOTE;
	if (is_done)
		r->state = FREE;
	*done = is_done;
	return PLUGIN_OK;
}

static int consumed(void *comm, int count, void *request)
{
	static char poison[SLOT_BYTES];
	struct comm *c = comm;
	struct request *r = request;
	unsigned int slot = (unsigned int)(r - c->request);

	if (count != 1 || slot != c->consumed % PLUGIN_UNPACK_SLOTS || r->state != DONE)
		return PLUGIN_INTERNAL;
	memset(poison, 0xee, sizeof(poison));
	region_write(&c->pool, slot * SLOT_BYTES, poison, sizeof(poison), NULL);
	r->state = FREE;
	c->consumed++;
	return PLUGIN_OK;
}

/* The original reads through the request here, which is none. */
static int flush(void *comm, int count, void **data, int *bytes, void **memory, void **request)
{
	(void)comm, (void)count, (void)data, (void)bytes, (void)memory, (void)request;
	abort();
}

static int close_listen(void *listener)
{
	net->ops->close_listener(listener);
	return PLUGIN_OK;
}

__attribute__((destructor)) static void unload(void)
{
	if (net)
		net->ops->close(net);
}

__attribute__((visibility("default"))) extern const struct plugin_v7 ncclNetPlugin_v7;
const struct plugin_v7 ncclNetPlugin_v7 = {
	.name = "scatter",
	.init = init,
	.devices = devices,
	.properties = properties,
	.listen = listen,
	.connect = connect,
	.accept = accept,
	.reg = reg,
	.dereg = dereg,
	.send = send,
	.recv = recv,
	.flush = flush,
	.test = test,
	.close_send = close_comm,
	.close_recv = close_comm,
	.close_listen = close_listen,
	.consumed = consumed,
};
