/* SPDX-License-Identifier: BSD-3-Clause */
/* A channel: bytes between memory and one TCP connection, by one of several paths each way.
 *
 *	chan_init(&c, fd, CHAN_PLAIN, CHAN_MAPPED, buffer_bytes, e);
 *	n = c.send(&c, buffer, length, MSG_MORE);	never blocks: -EAGAIN when it is full
 *	n = c.recv(&c, buffer, length);			0: the peer closed, -EAGAIN: nothing there
 *	if (events & EPOLLERR)
 *		ret = chan_error(&c);			reaps completions; < 0: it broke
 *	chan_close(&c);
 *
 * The path is chosen once; the counters say which way the bytes really went. Not thread-safe.
 */
#ifndef WEIR_NET_CHAN_H
#define WEIR_NET_CHAN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum chan_path {
	CHAN_PLAIN,    /* copied between user and kernel */
	CHAN_ZEROCOPY, /* send: MSG_ZEROCOPY, pages pinned until the completion comes */
	CHAN_DISCARD,  /* receive: MSG_TRUNC, dropped inside the kernel without a copy */
	CHAN_MAPPED,   /* receive: TCP_ZEROCOPY_RECEIVE, whole pages mapped, the rest copied */
	CHAN_DEVMEM,   /* both: between the NIC and a dma-buf, see net/devmem.h */
};

struct chan {
	int fd;
	ssize_t (*send)(struct chan *c, const void *data, size_t length, int flags);
	ssize_t (*recv)(struct chan *c, void *data, size_t length);
	uint32_t zerocopy_sent, zerocopy_done; /* calls begun and completed */
	uint32_t zerocopy_copied;	       /* of those done: the kernel copied after all */
	uint64_t mapped_bytes;		       /* received without a copy */
	uint32_t send_dmabuf;		       /* CHAN_DEVMEM: what send's data is an offset in */
	struct devmem_rx *devmem;	       /* CHAN_DEVMEM: the thread's; borrowed */
	uint64_t dmabuf_bytes, linear_bytes, plain_bytes, fragments; /* received, see there */
	char *map; /* CHAN_MAPPED: where pages appear */
	size_t map_bytes;
};

/* Takes fd over when it succeeds. A channel of CHAN_DEVMEM is told its send_dmabuf or its devmem
 * afterwards. What devmem received stays in devmem->fragment until chan_release(). map_bytes: CHAN_MAPPED only, the most that one receive takes. */
int chan_init(struct chan *c, int fd, enum chan_path send, enum chan_path recv, size_t map_bytes,
	struct err *e);
void chan_close(struct chan *c);

/* Give what the last receive brought back to the NIC. Harmless on other paths. */
int chan_release(struct chan *c);

/* After EPOLLERR: read completions; 0, or -errno of an error of the connection itself. */
int chan_error(struct chan *c);

#endif
