// SPDX-License-Identifier: BSD-3-Clause
/* A plugin of version 8 with the defects that real ones have: connect succeeds without a comm at first
 * and remembers that in the handle, test never writes a length and fails once in between, flush must not
 * be called. Both ends are in one process, so that the "network" is a buffer. */
#include <stdlib.h>
#include <string.h>

#include "net/plugin_abi.h"

static struct {
	char data[4096];
	int bytes;
	int tests;
} wire;

struct request {
	int bytes;
	char *to;
};

static int init(plugin_log_fn *log)
{
	(void)log;
	return PLUGIN_OK;
}

static int devices(int *count)
{
	*count = 1;
	return PLUGIN_OK;
}

static int properties(int dev, struct plugin_properties_v8 *p)
{
	(void)dev;
	memset(p, 0, sizeof(*p));
	p->name = (char *)"wire";
	p->memory = 1;
	p->speed_mbps = 1000;
	return PLUGIN_OK;
}

static int listen(int dev, void *handle, void **listener)
{
	(void)dev;
	memset(handle, 0, PLUGIN_HANDLE_BYTES);
	*listener = &wire;
	return PLUGIN_OK;
}

static int connect(int dev, void *handle, void **comm, struct plugin_device_handle **device)
{
	unsigned char *calls = handle;

	(void)dev, (void)device;
	*comm = ++calls[64] < 3 ? NULL : &wire;
	return PLUGIN_OK;
}

static int accept(void *listener, void **comm, struct plugin_device_handle **device)
{
	(void)listener;
	(*device)->handle = &wire; /* the caller's memory, as a plugin that unpacks expects */
	*comm = &wire;
	return PLUGIN_OK;
}

static int reg(void *comm, void *data, size_t bytes, int kind, void **memory)
{
	(void)comm, (void)data, (void)kind;
	/* A driver that calls this as version 7 passes an int. */
	*memory = bytes == (size_t)8 << 20 ? &wire : NULL;
	return *memory ? PLUGIN_OK : PLUGIN_ARGUMENT;
}

static int dereg(void *comm, void *memory)
{
	(void)comm, (void)memory;
	return PLUGIN_OK;
}

static int send(void *comm, void *data, int bytes, int tag, void *memory, void **request)
{
	struct request *r = calloc(1, sizeof(*r));

	(void)comm, (void)tag, (void)memory;
	if (!r)
		return PLUGIN_SYSTEM;
	memcpy(wire.data, data, (size_t)bytes);
	wire.bytes = bytes;
	*request = r;
	return PLUGIN_OK;
}

static int recv(
	void *comm, int count, void **data, int *bytes, int *tags, void **memory, void **request)
{
	struct request *r = calloc(1, sizeof(*r));

	(void)comm, (void)tags, (void)memory;
	if (!r || count != 1)
		return PLUGIN_SYSTEM;
	r->to = data[0];
	r->bytes = bytes[0];
	*request = r;
	return PLUGIN_OK;
}

static int flush(void *comm, int count, void **data, int *bytes, void **memory, void **request)
{
	(void)comm, (void)count, (void)data, (void)bytes, (void)memory, (void)request;
	abort();
}

static int test(void *request, int *done, int *bytes)
{
	struct request *r = request;

	(void)bytes;
	*done = 0;
	if (++wire.tests == 2)
		return PLUGIN_SYSTEM;
	if (wire.tests < 4)
		return PLUGIN_OK;
	if (r->to)
		memcpy(r->to, wire.data, (size_t)wire.bytes);
	*done = 1;
	free(r);
	return PLUGIN_OK;
}

static int close_any(void *what)
{
	(void)what;
	return PLUGIN_OK;
}

extern const struct plugin_v8 ncclNetPlugin_v8;
__attribute__((visibility("default"))) const struct plugin_v8 ncclNetPlugin_v8 = {
	.name = "wire",
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
	.close_send = close_any,
	.close_recv = close_any,
	.close_listen = close_any,
};
