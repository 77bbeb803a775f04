/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory bound to a NIC: receive queues that put payload into a dma-buf, and a dma-buf that
 * may be sent from.
 *
 *	struct nic_binding b;
 *
 *	ret = nic_bind_rx(&b, "eth1", &queues, region->dmabuf, e);
 *	if (ret)
 *		return ret;
 *	...	b.id is what control messages name
 *	nic_unbind(&b);
 *
 * A binding lives as long as its struct is open, and ends with the process in any case. Device
 * memory is never freed under it: close the binding first, the dma-buf afterwards (removing the NIC
 * under an open binding for sending has crashed kernels). The NIC must be prepared: header split on,
 * hds-thresh 0, queues not in the RSS table; nic_devmem.h does that. Every refusal has words of its
 * own and a next step. Thread-safe for different bindings.
 */
#ifndef WEIR_SYS_NIC_BIND_H
#define WEIR_SYS_NIC_BIND_H

#include <stdint.h>

#include "base/cpus.h"
#include "base/err.h"
#include "sys/netlink.h"

struct nic_binding {
	struct netlink link;
	uint32_t id; /* the kernel's name for the bound dma-buf, never 0 while bound */
};

#define NIC_BIND_QUEUES_MAX 256

/* Queues are a set of numbers, written as CPUs are: "8-11". The descriptor stays the caller's.
 * Errors: -EPERM no CAP_NET_ADMIN; -ENODEV; -EOPNOTSUPP the driver cannot, or the kernel is older
 * than 6.12; -EINVAL header split is off, hds-thresh is not 0, no queue or one the NIC does not have,
 * not a dma-buf; -EBADF; -EEXIST a queue is bound already, or has an XDP program; -EBUSY AF_XDP;
 * -ENODATA the driver cannot put such memory there; -ENOTSUP built without libmnl. */
int nic_bind_rx(struct nic_binding *b, const char *nic, const struct cpus *queues, int dmabuf_fd,
	struct err *e);

/* -EOPNOTSUPP also for kernels before 6.16. */
int nic_bind_tx(struct nic_binding *b, const char *nic, int dmabuf_fd, struct err *e);

void nic_unbind(struct nic_binding *b); /* harmless where nothing is bound */

/* Whether the driver can take device memory at all, asked of the kernel without changing anything: 0
 * it can, -EOPNOTSUPP it cannot, -EPERM and others: not known. */
int nic_bind_probe(const char *nic, struct err *e);

/* Words and next step for a refusal of bind-rx or bind-tx: errno, what the kernel said (empty:
 * nothing), and what the words are about. For nic_bind_rx() and its test. */
enum nic_bind_way { NIC_BIND_RX, NIC_BIND_TX };
struct nic_bind_fault {
	enum nic_bind_way way;
	int code; /* positive errno */
	const char *said;
	const char *nic;
	const char *queues; /* "8-11" */
	int fd;
};
int nic_bind_explain(const struct nic_bind_fault *f, struct err *e);

#endif
