/* SPDX-License-Identifier: BSD-3-Clause */
/* ABI: what NCCL and its net plugins say to each other, versions 7 to 11 (NCCL 2.19 to 2.29). A plugin is
 * a shared object that exports tables ncclNetPlugin_v7 ... ncclNetPlugin_v11; NCCL takes the newest that
 * it knows. Names are ours; order, types and sizes are NCCL's, and the assertions below hold them to it.
 *
 * All functions return one of enum plugin_result.
 */
#ifndef WEIR_NET_PLUGIN_ABI_H
#define WEIR_NET_PLUGIN_ABI_H

#include <stddef.h>
#include <stdint.h>

#define PLUGIN_HANDLE_BYTES	   128
#define PLUGIN_SYMBOL		   "ncclNetPlugin_v%d"
#define PLUGIN_OLDEST		   7
#define PLUGIN_NEWEST		   11
#define PLUGIN_DEVICES_MAX	   4
#define PLUGIN_OPTIONAL_COMPLETION ((void *)1)

enum plugin_result {
	PLUGIN_OK = 0,
	PLUGIN_CUDA = 1,
	PLUGIN_SYSTEM = 2,
	PLUGIN_INTERNAL = 3,
	PLUGIN_ARGUMENT = 4,
	PLUGIN_USAGE = 5,
	PLUGIN_REMOTE = 6,
	PLUGIN_IN_PROGRESS = 7,
};

enum plugin_level { PLUGIN_WARN = 2, PLUGIN_INFO = 3, PLUGIN_TRACE = 5 };
enum plugin_topic { PLUGIN_TOPIC_INIT = 1, PLUGIN_TOPIC_NET = 16, PLUGIN_TOPIC_ALL = -1 };

typedef void plugin_log_fn(
	int level, unsigned long topics, const char *file, int line, const char *format, ...);
typedef int plugin_profile_fn(void **event, int type, void *parent, int64_t id, void *data);

enum { PLUGIN_DEVICE_HOST = 0, PLUGIN_DEVICE_UNPACK = 1 };

struct plugin_device_handle {
	int type, version;
	void *handle;
	size_t bytes;
	int needs_progress;
};

/* What handle points to, in memory of the GPU, where a plugin leaves what it receives in fragments. The k-th
 * receive of a comm, counted from 0 and with those of no bytes, has slot k % PLUGIN_UNPACK_SLOTS. */
#define PLUGIN_UNPACK_SLOTS	16
#define PLUGIN_UNPACK_FRAGMENTS 2048

struct plugin_unpack_fragment {
	uint32_t from, bytes; /* from: in the pool */
	uint64_t to;	      /* in the message */
};

/* In host memory that the GPU reaches at the same address. */
struct plugin_unpack_meta {
	struct plugin_unpack_fragment fragment[PLUGIN_UNPACK_SLOTS][PLUGIN_UNPACK_FRAGMENTS];
	uint64_t count[PLUGIN_UNPACK_SLOTS]; /* written when the receive is done */
};

struct plugin_unpack_handle {
	struct plugin_unpack_meta *meta;
	void *pool;
	uint64_t head; /* of NCCL's kernel */
};

struct plugin_virtual {
	int count;
	int device[PLUGIN_DEVICES_MAX];
};

struct plugin_config {
	int traffic_class;
};

/* Hints only. */
struct plugin_attributes {
	int32_t send[4], recv[4];
	uint32_t operation, algorithm, protocol;
};

struct plugin_properties_v7 {
	char *name, *pci_path;
	uint64_t guid;
	int memory;
	int speed_mbps, port;
	float latency_us;
	int max_comms, max_receives;
	int device_type, device_version;
};

struct plugin_properties_v8 {
	char *name, *pci_path;
	uint64_t guid;
	int memory, registration_is_global;
	int speed_mbps, port;
	float latency_us;
	int max_comms, max_receives;
	int device_type, device_version;
};

/* Also version 10. */
struct plugin_properties_v9 {
	char *name, *pci_path;
	uint64_t guid;
	int memory, registration_is_global, force_flush;
	int speed_mbps, port;
	float latency_us;
	int max_comms, max_receives;
	int device_type, device_version;
	struct plugin_virtual virtual_devices;
	size_t max_p2p_bytes, max_collective_bytes;
};

struct plugin_properties_v11 {
	struct plugin_properties_v9 v9;
	int max_multi_request;
};

_Static_assert(sizeof(struct plugin_device_handle) == 32, "ABI");
_Static_assert(sizeof(struct plugin_unpack_meta) == 524416, "ABI");
_Static_assert(sizeof(struct plugin_attributes) == 44, "ABI");
_Static_assert(sizeof(struct plugin_properties_v7) == 56, "ABI");
_Static_assert(sizeof(struct plugin_properties_v8) == 64, "ABI");
_Static_assert(sizeof(struct plugin_properties_v9) == 104, "ABI");
_Static_assert(offsetof(struct plugin_properties_v9, virtual_devices) == 64, "ABI");
_Static_assert(offsetof(struct plugin_properties_v9, max_p2p_bytes) == 88, "ABI");
_Static_assert(sizeof(struct plugin_properties_v11) == 112, "ABI");

/* Members that are the same in all versions, in the order in which they stand together. */
#define PLUGIN_ACCEPT int (*accept)(void *listener, void **comm, struct plugin_device_handle **);
#define PLUGIN_REG_DMABUF                                                                          \
	int (*reg_dmabuf)(void *comm, void *data, size_t bytes, int kind, uint64_t offset, int fd, \
		void **memory);                                                                    \
	int (*dereg)(void *comm, void *memory);
#define PLUGIN_END                                                                                 \
	int (*flush)(                                                                              \
		void *comm, int count, void **data, int *bytes, void **memory, void **request);    \
	int (*test)(void *request, int *done, int *bytes);                                         \
	int (*close_send)(void *comm);                                                             \
	int (*close_recv)(void *comm);                                                             \
	int (*close_listen)(void *listener);                                                       \
	int (*device_memory)(void *comm, void *memory, void **device_pointer);                     \
	int (*consumed)(void *comm, int count, void *request);

struct plugin_v7 {
	const char *name;
	int (*init)(plugin_log_fn *);
	int (*devices)(int *count);
	int (*properties)(int dev, struct plugin_properties_v7 *);
	int (*listen)(int dev, void *handle, void **listener);
	int (*connect)(int dev, void *handle, void **comm, struct plugin_device_handle **);
	PLUGIN_ACCEPT
	int (*reg)(void *comm, void *data, int bytes, int kind, void **memory);
	PLUGIN_REG_DMABUF
	int (*send)(void *comm, void *data, int bytes, int tag, void *memory, void **request);
	int (*recv)(void *comm, int count, void **data, int *bytes, int *tags, void **memory,
		void **request);
	PLUGIN_END
};

struct plugin_v8 {
	const char *name;
	int (*init)(plugin_log_fn *);
	int (*devices)(int *count);
	int (*properties)(int dev, struct plugin_properties_v8 *);
	int (*listen)(int dev, void *handle, void **listener);
	int (*connect)(int dev, void *handle, void **comm, struct plugin_device_handle **);
	PLUGIN_ACCEPT
	int (*reg)(void *comm, void *data, size_t bytes, int kind, void **memory);
	PLUGIN_REG_DMABUF
	int (*send)(void *comm, void *data, int bytes, int tag, void *memory, void **request);
	int (*recv)(void *comm, int count, void **data, int *bytes, int *tags, void **memory,
		void **request);
	PLUGIN_END
};

struct plugin_v9 {
	const char *name;
	int (*init)(plugin_log_fn *);
	int (*devices)(int *count);
	int (*properties)(int dev, struct plugin_properties_v9 *);
	int (*listen)(int dev, void *handle, void **listener);
	int (*connect)(int dev, void *handle, void **comm, struct plugin_device_handle **);
	PLUGIN_ACCEPT
	int (*reg)(void *comm, void *data, size_t bytes, int kind, void **memory);
	PLUGIN_REG_DMABUF
	int (*send)(void *comm, void *data, size_t bytes, int tag, void *memory, void **request);
	int (*recv)(void *comm, int count, void **data, size_t *bytes, int *tags, void **memory,
		void **request);
	PLUGIN_END
	int (*make_virtual)(int *dev, struct plugin_virtual *);
};

struct plugin_v10 {
	const char *name;
	int (*init)(plugin_log_fn *, plugin_profile_fn *);
	int (*devices)(int *count);
	int (*properties)(int dev, struct plugin_properties_v9 *);
	int (*listen)(int dev, void *handle, void **listener);
	int (*connect)(int dev, struct plugin_config *, void *handle, void **comm,
		struct plugin_device_handle **);
	PLUGIN_ACCEPT
	int (*reg)(void *comm, void *data, size_t bytes, int kind, void **memory);
	PLUGIN_REG_DMABUF
	int (*send)(void *comm, void *data, size_t bytes, int tag, void *memory, void *profile,
		void **request);
	int (*recv)(void *comm, int count, void **data, size_t *bytes, int *tags, void **memory,
		void **profile, void **request);
	PLUGIN_END
	int (*make_virtual)(int *dev, struct plugin_virtual *);
};

struct plugin_v11 {
	const char *name;
	int (*init)(void **context, uint64_t comm, struct plugin_config *, plugin_log_fn *,
		plugin_profile_fn *);
	int (*devices)(int *count);
	int (*properties)(int dev, struct plugin_properties_v11 *);
	int (*listen)(void *context, int dev, void *handle, void **listener);
	int (*connect)(
		void *context, int dev, void *handle, void **comm, struct plugin_device_handle **);
	PLUGIN_ACCEPT
	int (*reg)(void *comm, void *data, size_t bytes, int kind, void **memory);
	PLUGIN_REG_DMABUF
	int (*send)(void *comm, void *data, size_t bytes, int tag, void *memory, void *profile,
		void **request);
	int (*recv)(void *comm, int count, void **data, size_t *bytes, int *tags, void **memory,
		void **profile, void **request);
	PLUGIN_END
	int (*make_virtual)(int *dev, struct plugin_virtual *);
	int (*finalize)(void *context);
	int (*set_attributes)(void *context, struct plugin_attributes *);
};

_Static_assert(sizeof(struct plugin_v7) == 152, "ABI");
_Static_assert(sizeof(struct plugin_v8) == 152, "ABI");
_Static_assert(sizeof(struct plugin_v9) == 160, "ABI");
_Static_assert(sizeof(struct plugin_v10) == 160, "ABI");
_Static_assert(sizeof(struct plugin_v11) == 176, "ABI");

#endif
