/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the payloads of a NIC's probes lie: in the host, or in memory of a device, through which every byte of them goes.
 *
 *	payload_open(&p, &where, &pattern, e);
 *	payload_make(&p, frame, bytes, position);		what a probe sends
 *	payload_take(&p, came, bytes, position, true);		what came back, checked where it lies
 *	payload_return(&p, frame, bytes);			what is answered
 *	payload_close(&p);
 *
 * A probe leaves from device memory and ends there by copies through the host. The NIC's own way to that memory takes receive
 * queues and steering rules, which belong to the jobs that the agent runs beside. A copy is waited for: its time is the
 * prober's or the responder's delay, not the network's. One thread at a time.
 */
#ifndef WEIR_PROBE_PAYLOAD_H
#define WEIR_PROBE_PAYLOAD_H

#include "mem/region.h"

struct payload {
	const struct pattern *pattern; /* borrowed */
	struct region region;	       /* two halves: what is sent, what came; empty: the host's */
	uint64_t position; /* what is sent holds so many bytes of the stream from here on */
	size_t filled_bytes;
};

/* where->kind MEM_HOST needs nothing. After a failure close it all the same. */
int payload_open(struct payload *p, const struct mem_where *where, const struct pattern *pattern,
	struct err *e);
void payload_close(struct payload *p);

/* All return 0 or -errno of the device. */
int payload_make(struct payload *p, void *to, size_t bytes, uint64_t position);
/* -EBADMSG: other bytes than belong at this position of the stream. */
int payload_take(struct payload *p, const void *from, size_t bytes, uint64_t position, bool check);
int payload_return(struct payload *p, void *data, size_t bytes);

#endif
