// SPDX-License-Identifier: BSD-3-Clause
/* Five versions of one table. What differs between them is where arguments stand and how wide they are. */
#include <stdbool.h>

#include "nccl/core.h"

#define NAME   "weir"
#define EXPORT __attribute__((visibility("default")))

static int init_v7(plugin_log_fn *log)
{
	return core_init(log);
}

static int init_v10(plugin_log_fn *log, plugin_profile_fn *profile)
{
	(void)profile;
	return core_init(log);
}

static int init_v11(void **context, uint64_t comm, struct plugin_config *config, plugin_log_fn *log,
	plugin_profile_fn *profile)
{
	static int any;

	(void)comm, (void)config, (void)profile;
	*context = &any; /* nothing is per communicator */
	return core_init(log);
}

static int finalize(void *context)
{
	(void)context;
	return core_finalize();
}

static int properties_v7(int dev, struct plugin_properties_v7 *to)
{
	struct net_properties p;
	int ret = core_properties(dev, &p);

	if (ret)
		return ret;
	*to = (struct plugin_properties_v7){
		.name = (char *)p.name,
		.pci_path = (char *)p.pci_path,
		.guid = p.guid,
		.memory = p.memory,
		.speed_mbps = p.speed_mbps,
		.port = p.port,
		.latency_us = p.latency_us,
		.max_comms = p.max_comms,
		.max_receives = 1,
	};
	return PLUGIN_OK;
}

static int properties_v8(int dev, struct plugin_properties_v8 *to)
{
	struct net_properties p;
	int ret = core_properties(dev, &p);

	if (ret)
		return ret;
	*to = (struct plugin_properties_v8){
		.name = (char *)p.name,
		.pci_path = (char *)p.pci_path,
		.guid = p.guid,
		.memory = p.memory,
		.speed_mbps = p.speed_mbps,
		.port = p.port,
		.latency_us = p.latency_us,
		.max_comms = p.max_comms,
		.max_receives = 1,
	};
	return PLUGIN_OK;
}

static int properties_v9(int dev, struct plugin_properties_v9 *to)
{
	struct net_properties p;
	int ret = core_properties(dev, &p);

	if (ret)
		return ret;
	*to = (struct plugin_properties_v9){
		.name = (char *)p.name,
		.pci_path = (char *)p.pci_path,
		.guid = p.guid,
		.memory = p.memory,
		.speed_mbps = p.speed_mbps,
		.port = p.port,
		.latency_us = p.latency_us,
		.max_comms = p.max_comms,
		.max_receives = 1,
		.virtual_devices = { 1, { dev } },
		.max_p2p_bytes = p.message_bytes,
		.max_collective_bytes = p.message_bytes,
	};
	return PLUGIN_OK;
}

static int properties_v11(int dev, struct plugin_properties_v11 *to)
{
	to->max_multi_request = 1;
	return properties_v9(dev, &to->v9);
}

static int listen_v11(void *context, int dev, void *handle, void **listener)
{
	(void)context;
	return core_listen(dev, handle, listener);
}

static int connect_v7(int dev, void *handle, void **comm, struct plugin_device_handle **device)
{
	(void)device;
	return core_connect(dev, handle, comm);
}

static int connect_v10(int dev, struct plugin_config *config, void *handle, void **comm,
	struct plugin_device_handle **device)
{
	(void)config, (void)device;
	return core_connect(dev, handle, comm);
}

static int connect_v11(
	void *context, int dev, void *handle, void **comm, struct plugin_device_handle **device)
{
	(void)context, (void)device;
	return core_connect(dev, handle, comm);
}

static int accept_any(void *listener, void **comm, struct plugin_device_handle **device)
{
	(void)device;
	return core_accept(listener, comm);
}

static int reg_v7(void *comm, void *data, int bytes, int kind, void **memory)
{
	return bytes < 0 ? PLUGIN_ARGUMENT : core_reg(comm, data, (size_t)bytes, kind, memory);
}

static int send_v7(void *comm, void *data, int bytes, int tag, void *memory, void **request)
{
	(void)tag;
	return bytes < 0 ? PLUGIN_ARGUMENT : core_send(comm, data, (size_t)bytes, memory, request);
}

static int send_v9(void *comm, void *data, size_t bytes, int tag, void *memory, void **request)
{
	(void)tag;
	return core_send(comm, data, bytes, memory, request);
}

static int send_v10(
	void *comm, void *data, size_t bytes, int tag, void *memory, void *profile, void **request)
{
	(void)tag, (void)profile;
	return core_send(comm, data, bytes, memory, request);
}

/* NOLINTBEGIN(readability-non-const-parameter): the types are NCCL's */
static int recv_v7(
	void *comm, int count, void **data, int *bytes, int *tags, void **memory, void **request)
{
	(void)tags;
	if (count < 1 || bytes[0] < 0)
		return PLUGIN_ARGUMENT;
	return core_recv(comm, count, data[0], (size_t)bytes[0], memory[0], request);
}

static int recv_v9(
	void *comm, int count, void **data, size_t *bytes, int *tags, void **memory, void **request)
{
	(void)tags;
	return core_recv(comm, count, data[0], bytes[0], memory[0], request);
}

static int recv_v10(void *comm, int count, void **data, size_t *bytes, int *tags, void **memory,
	void **profile, void **request)
{
	(void)tags, (void)profile;
	return core_recv(comm, count, data[0], bytes[0], memory[0], request);
}

static int flush_any(void *comm, int count, void **data, int *bytes, void **memory, void **request)
{
	(void)comm, (void)count, (void)data, (void)bytes, (void)memory;
	return core_flush(request);
}

/* NOLINTEND(readability-non-const-parameter) */

/* What stands at the same place in all of them. */
#define COMMON                                                                                     \
	.name = NAME, .devices = core_devices, .accept = accept_any, .dereg = core_dereg,          \
	.flush = flush_any, .test = core_test, .close_send = core_close, .close_recv = core_close, \
	.close_listen = core_close_listener, .reg_dmabuf = core_reg_dmabuf

EXPORT const struct plugin_v7 ncclNetPlugin_v7 = {
	COMMON,
	.init = init_v7,
	.properties = properties_v7,
	.listen = core_listen,
	.connect = connect_v7,
	.reg = reg_v7,
	.send = send_v7,
	.recv = recv_v7,
};

EXPORT const struct plugin_v8 ncclNetPlugin_v8 = {
	COMMON,
	.init = init_v7,
	.properties = properties_v8,
	.listen = core_listen,
	.connect = connect_v7,
	.reg = core_reg,
	.send = send_v7,
	.recv = recv_v7,
};

EXPORT const struct plugin_v9 ncclNetPlugin_v9 = {
	COMMON,
	.init = init_v7,
	.properties = properties_v9,
	.listen = core_listen,
	.connect = connect_v7,
	.reg = core_reg,
	.send = send_v9,
	.recv = recv_v9,
};

EXPORT const struct plugin_v10 ncclNetPlugin_v10 = {
	COMMON,
	.init = init_v10,
	.properties = properties_v9,
	.listen = core_listen,
	.connect = connect_v10,
	.reg = core_reg,
	.send = send_v10,
	.recv = recv_v10,
};

EXPORT const struct plugin_v11 ncclNetPlugin_v11 = {
	COMMON,
	.init = init_v11,
	.properties = properties_v11,
	.listen = listen_v11,
	.connect = connect_v11,
	.reg = core_reg,
	.send = send_v10,
	.recv = recv_v10,
	.finalize = finalize,
};
