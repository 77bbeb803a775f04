/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory over TCP: the NIC puts payload into a dma-buf, or takes it from there, and the CPU
 * sees only where it lies.
 *
 * Receiving. The connection's queue is bound to the dma-buf (sys/nic_bind):
 *
 *	devmem_rx_init(&rx, dmabuf_id, e);		one for all connections of a thread
 *	n = devmem_recv(&rx, fd, plain, length);	fragments, or bytes that missed the dma-buf
 *	use rx.list[0 .. rx.count - 1] and rx.linear, then
 *	devmem_release(&rx, fd);			their pages go back to the NIC
 *	devmem_rx_free(&rx);
 *
 * Pages that are not released are lost to the NIC; when all are, it drops packets and nobody says
 * so. Release before the next receive.
 *
 * Sending. The dma-buf is bound to the device (sys/nic_bind), the socket has SO_ZEROCOPY:
 *
 *	n = devmem_send(fd, dmabuf_id, offset, length, MSG_MORE);
 *
 * and the bytes at offset stay as they are until the completion is read from the error queue
 * (chan_error() does that). Not thread-safe: each thread has its own.
 */
#ifndef WEIR_NET_DEVMEM_H
#define WEIR_NET_DEVMEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "mem/region.h"

/* That one call brings at most, and so hold at most: more make neither calls nor acknowledgements much fewer,
 * and the NIC's own store of free pages (1,024 and more) does not take more back at once: what goes beyond
 * is given to the dma-buf and searched for there again. The kernel ends a call early where this is full. */
#define DEVMEM_FRAGMENTS 512

/* What one receive may well be asked for: every call costs, and its bytes need no room of ours. And one send, which
 * costs its completion too: what the kernel's buffer of a connection takes at most by default. */
#define DEVMEM_CALL_BYTES ((size_t)4 << 20)
#define DEVMEM_SEND_BYTES ((size_t)4 << 20)

struct uapi_dmabuf_token; /* sys/uapi.h */

struct devmem_rx {
	uint32_t dmabuf_id;
	/* Of the last receive; stream_position: the first byte's place in what it brought. */
	struct mem_fragment *list; /* in the dma-buf */
	struct mem_fragment *
		linear; /* the NIC did not split these off: copied to the plain buffer, and there */
	uint32_t count, linear_count;
	struct uapi_dmabuf_token *run; /* from 1 on: the tokens of all fragments, as runs */
	uint32_t runs;
	char *control; /* room for the control messages of the worst case */
	size_t control_bytes;
	/* since the begin */
	uint64_t dmabuf_bytes; /* payload that lies in the dma-buf */
	uint64_t linear_bytes; /* of a device-memory packet, but copied: header split missed it */
	uint64_t plain_bytes;  /* came through another queue: steering missed it */
	uint64_t fragments, calls, releases;
	uint64_t tokens_held, tokens_held_most;
};

int devmem_rx_init(struct devmem_rx *rx, uint32_t dmabuf_id, struct err *e);
void devmem_rx_free(struct devmem_rx *rx);

/* Receive up to length bytes without waiting. Bytes received; 0: the peer closed; -EAGAIN: nothing
 * there; -EIO: a fragment of another dma-buf, which is released at once; other -errno. What did not
 * come as device memory is in plain, which has room for length bytes. */
ssize_t devmem_recv(struct devmem_rx *rx, int fd, void *plain, size_t length);

/* Give the fragments of the last receive back. 0, or -errno: some could not be given back. */
int devmem_release(struct devmem_rx *rx, int fd);

/* Send length bytes from offset of a bound dma-buf, without waiting. Bytes taken, or -errno:
 * -EAGAIN when the connection is full. Each call that takes bytes has one completion. */
ssize_t devmem_send(int fd, uint32_t dmabuf_id, uint64_t offset, size_t length, int flags);

/* What went wrong, in words, with the next step; for the errors of the two calls above. */
int devmem_explain(int error, int sending, struct err *e);

#endif
