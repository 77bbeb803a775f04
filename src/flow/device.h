/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of a lane that is not ordinary host memory: where it is, and how bytes get there.
 *
 *	device_nic_open(&run->device, run, local, NULL, e);	once for a run: which NIC, prepare it
 *	device_open(&lane->device, lane, e);		for each lane: memory, bound to its queues
 *	device_steer(&run->device, flow, e);		for each flow that is received, before data
 *	...
 *	device_close(&lane->device);
 *	device_nic_close(&run->device);			the NIC is as it was before
 *
 * A lane has memory of its own and queues of its own, so that lanes share nothing. Two ways lead
 * between NIC and memory: devmem, where the NIC reads and writes the memory itself, and staged, where
 * the kernel copies to host memory as ever and, for a GPU, the copy engine does the rest. Which one a
 * run takes is chosen before it begins, and said in its record; there is no falling back later.
 */
#ifndef WEIR_FLOW_DEVICE_H
#define WEIR_FLOW_DEVICE_H

#include <net/if.h>
#include <stdbool.h>

#include "base/cpus.h"
#include "flow/options.h"
#include "flow/result.h"
#include "mem/region.h"
#include "net/devmem.h"
#include "net/sock.h"
#include "net/stage.h"
#include "sys/nic_bind.h"
#include "sys/nic_plan.h"

struct run;
struct lane;
struct flow;

enum device_path {
	DEVICE_NONE,   /* ordinary host memory */
	DEVICE_DEVMEM, /* the NIC reads and writes the memory */
	DEVICE_STAGED, /* through host memory */
};
extern const char *const device_path_name[];   /* "host", "devmem", "staged" */
extern const char *const device_memory_name[]; /* by enum flow_memory: "host", "udmabuf", "cuda" */

#define DEVICE_NAPIS 64

/* Of a run. */
struct device_nic {
	enum device_path rx, tx;
	char nic[IF_NAMESIZE];
	unsigned int ifindex;
	struct cpus queues;   /* bound, over all lanes */
	struct nic_plan plan; /* what was changed on the NIC */
	bool planned;
	char rx_reason[256], tx_reason[256]; /* --path auto: why a way is staged; or empty */
	uint64_t stalls_before;		     /* what the NIC had counted, see device_stalls() */
	uint32_t napi[DEVICE_NAPIS];	     /* instances that serve the bound queues */
	uint32_t napi_count;
};

/* Of a lane. */
struct device {
	struct region rx, tx;	/* where payload lies; not allocated: not used */
	struct region gathered; /* --rx-copy: payload in one piece */
	/* CUDA, staged: work for the GPU, and the way in; each flow that sends has its own way out */
	struct cuda_gpu *gpu;
	struct cuda_queue *queue;
	struct cuda_pattern pattern;
	struct stage stage;
	struct nic_binding rx_binding, tx_binding;
	struct cpus queues;
	struct devmem_rx devmem;
	uint64_t ring_bytes; /* of tx: whole cycles of the pattern; sent over and over */
	uint64_t send_bytes; /* stream: that one send, or one copy of a GPU's, takes */
};

/* refused, unless NULL: why binding memory failed before, so that --path auto takes the other way. */
int device_nic_open(struct device_nic *n, const struct run *r, const struct sock_addr *local,
	const struct err *refused, struct err *e);
/* Whether a failure means that this NIC or this process cannot do it at all. */
bool device_cannot(int ret);
void device_nic_close(struct device_nic *n);

int device_open(struct device *d, struct lane *l, struct err *e);
void device_close(struct device *d);

/* Memory is bound: look at the queues as they are now. */
void device_nic_bound(struct device_nic *n);

/* -ENODEV: the NIC that memory is bound to has gone. */
int device_check(const struct device_nic *n, struct err *e);

/* Of a flow whose payload came as ordinary bytes: whether the queue that brought it last is one that is
 * bound to memory. Then header split missed it, else steering did. */
bool device_came_by_bound_queue(const struct device_nic *n, int fd);

/* What became of device memory in a run, for its record. tokens are the lanes' own matter. */
void device_collect(const struct run *r, struct device_result *out);
void device_collect_lane(const struct device *d, struct device_result *out);

/* Why a flow could not go on, in words: error is the errno that sending or receiving ended with. */
int device_explain(const struct run *r, int error, bool sending, struct err *e);

/* Send the packets of this flow to one of its lane's queues. */
int device_steer(struct device_nic *n, const struct flow *f, struct err *e);

/* The same where flows are not known before their data comes, at a server for neper's clients: each data
 * port has one of a lane's queues. local: the server's address; peer: the client's, NULL: any. */
int device_steer_ports(
	struct run *r, const struct sock_addr *local, const struct sock_addr *peer, struct err *e);
/* The lane that serves what comes to a data port, the number-th of them. */
struct lane *device_port_lane(struct run *r, uint32_t number);

/* Where the next chan.recv of a flow puts what does not come as device memory, and at most *length of it: there may be
 * less room. NULL: the flow cannot go on. */
char *device_room(struct flow *f, size_t *length);

/* n bytes were received on f, as chan.recv left them: look at them, put them where they belong, and
 * give the memory back to the NIC. 0, or -errno when the flow cannot go on. */
int device_received(struct flow *f, size_t n);

/* What to hand to chan.send for the bytes at the flow's position, at most length of them; and that n of
 * them were taken. NULL, or -errno, when the flow cannot go on. */
const void *device_to_send(struct flow *f, size_t *length);
int device_sent(struct flow *f, size_t n);

/* A flow's own part, before its first byte and after its last. */
int device_flow_open(struct flow *f, struct err *e);
void device_flow_close(struct flow *f);

/* Wait until all that was received has been looked at. */
void device_settle(struct lane *l);

#endif
