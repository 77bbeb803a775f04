/* SPDX-License-Identifier: BSD-3-Clause */
/* What all versions of the plugin have in common. Functions return enum plugin_result and log why by
 * NCCL's own logger. One transport serves all communicators of the process; it is opened by the first
 * core_init() and closed by the last core_finalize(), or with the library. Thread-safe as
 * net/transport.h says; core_init and core_finalize by any thread. */
#ifndef WEIR_NCCL_CORE_H
#define WEIR_NCCL_CORE_H

#include "net/plugin_abi.h"
#include "net/transport.h"

struct core_comm;
struct core_request;

int core_init(plugin_log_fn *log);
int core_finalize(void);
int core_devices(int *count);
int core_properties(int dev, struct net_properties *p);

int core_listen(int dev, void *handle, void **listener);
int core_connect(int dev, void *handle, void **comm);
int core_accept(void *listener, void **comm);
int core_close_listener(void *listener);
int core_close(void *comm);

int core_reg(void *comm, void *data, size_t bytes, int kind, void **memory);
int core_reg_dmabuf(
	void *comm, void *data, size_t bytes, int kind, uint64_t offset, int fd, void **memory);
int core_dereg(void *comm, void *memory);

int core_send(void *comm, void *data, size_t bytes, void *memory, void **request);
int core_recv(void *comm, int count, void *data, size_t bytes, void *memory, void **request);
int core_flush(void **request);
int core_test(void *request, int *done, int *bytes);

#endif
