// SPDX-License-Identifier: BSD-3-Clause
#include "net/chan.h"

#include <linux/errqueue.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/devmem.h"
#include "net/sock.h"

#ifndef TCP_ZEROCOPY_RECEIVE
#define TCP_ZEROCOPY_RECEIVE 35
#endif

/* The kernel's struct of the same purpose; its header cannot be included beside libc's
 * <netinet/tcp.h>. */
struct zerocopy_receive {
	uint64_t address;
	uint32_t length;	 /* in: of the mapping; out: mapped */
	uint32_t recv_skip_hint; /* out: bytes to read() before mapping can go on */
	uint32_t inq;
	int32_t err;
	uint64_t copybuf_address;
	int32_t copybuf_len;
	uint32_t flags;
};

static ssize_t chan_send_plain(struct chan *c, const void *data, size_t length, int flags)
{
	return sock_send(c->fd, data, length, flags | MSG_DONTWAIT);
}

static ssize_t chan_send_zerocopy(struct chan *c, const void *data, size_t length, int flags)
{
	ssize_t n = send(c->fd, data, length, flags | MSG_ZEROCOPY | MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n >= 0) {
		c->zerocopy_sent++;
		return n;
	}
	/* No room for another notification: with some outstanding their completion makes room. */
	if (errno == ENOBUFS && c->zerocopy_sent != c->zerocopy_done) {
		chan_error(c);
		return -EAGAIN;
	}
	return -errno;
}

static ssize_t chan_recv_plain(struct chan *c, void *data, size_t length)
{
	return sock_recv(c->fd, data, length, MSG_DONTWAIT);
}

static ssize_t chan_recv_discard(struct chan *c, void *data, size_t length)
{
	return sock_recv(c->fd, data, length, MSG_TRUNC | MSG_DONTWAIT);
}

/* Map what lies in whole pages, then read what does not. A mapping is given back at once: the bytes
 * are counted, not used, as a consumer that is done with them would do. */
static ssize_t chan_recv_mapped(struct chan *c, void *data, size_t length)
{
	struct zerocopy_receive zc = { .address = (uint64_t)(uintptr_t)c->map,
		.length = (uint32_t)c->map_bytes };
	socklen_t len = sizeof(zc);
	size_t rest;
	ssize_t n;

	/* EIO: all was received and the peer has closed. */
	if (getsockopt(c->fd, IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, &zc, &len) < 0)
		return errno == EIO ? 0 : -errno;
	if (zc.err)
		return zc.err;
	if (zc.length) {
		madvise(c->map, zc.length, MADV_DONTNEED);
		c->mapped_bytes += zc.length;
	}
	rest = zc.recv_skip_hint < length ? zc.recv_skip_hint : length;
	if (!zc.length && !rest)
		rest = length;
	if (!rest)
		return zc.length;
	n = recv(c->fd, data, rest, MSG_DONTWAIT);
	if (n < 0)
		return zc.length ? (ssize_t)zc.length : -errno;
	return (ssize_t)zc.length + n;
}

/* For a dma-buf data is an offset. */
static ssize_t chan_send_devmem(struct chan *c, const void *data, size_t length, int flags)
{
	ssize_t n = devmem_send(c->fd, c->send_dmabuf, (uintptr_t)data, length, flags);

	if (n > 0)
		c->zerocopy_sent++;
	if (n != -ENOBUFS || c->zerocopy_sent == c->zerocopy_done)
		return n;
	chan_error(c);
	return -EAGAIN;
}

/* data takes what did not come as device memory. */
static ssize_t chan_recv_devmem(struct chan *c, void *data, size_t length)
{
	struct devmem_rx before = *c->devmem;
	ssize_t n = devmem_recv(c->devmem, c->fd, data, length);

	c->dmabuf_bytes += c->devmem->dmabuf_bytes - before.dmabuf_bytes;
	c->linear_bytes += c->devmem->linear_bytes - before.linear_bytes;
	c->plain_bytes += c->devmem->plain_bytes - before.plain_bytes;
	c->fragments += c->devmem->fragments - before.fragments;
	return n;
}

int chan_release(struct chan *c)
{
	return c->devmem ? devmem_release(c->devmem, c->fd) : 0;
}

int chan_init(struct chan *c, int fd, enum chan_path send_path, enum chan_path recv_path,
	size_t map_bytes, struct err *e)
{
	memset(c, 0, sizeof(*c));
	c->fd = fd;
	c->send = send_path == CHAN_ZEROCOPY ? chan_send_zerocopy
		  : send_path == CHAN_DEVMEM ? chan_send_devmem
					     : chan_send_plain;
	c->recv = recv_path == CHAN_DISCARD  ? chan_recv_discard
		  : recv_path == CHAN_DEVMEM ? chan_recv_devmem
					     : chan_recv_plain;
	if (recv_path != CHAN_MAPPED)
		return 0;
	c->map_bytes = (map_bytes + 4095) & ~(size_t)4095;
	c->map = mmap(NULL, c->map_bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (c->map == MAP_FAILED) {
		c->map = NULL;
		return err_set(e, errno, "cannot map a socket for zero-copy receive: %m");
	}
	c->recv = chan_recv_mapped;
	return 0;
}

void chan_close(struct chan *c)
{
	if (c->map)
		munmap(c->map, c->map_bytes);
	c->map = NULL;
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

/* One notification covers the calls ee_info to ee_data. */
static void chan_completion(struct chan *c, const struct sock_extended_err *ee)
{
	uint32_t calls = ee->ee_data - ee->ee_info + 1;

	c->zerocopy_done += calls;
	if (ee->ee_code & SO_EE_CODE_ZEROCOPY_COPIED)
		c->zerocopy_copied += calls;
}

int chan_error(struct chan *c)
{
	char control[128];
	struct msghdr msg;
	struct cmsghdr *cmsg;
	int why = 0;
	socklen_t len = sizeof(why);

	for (;;) {
		memset(&msg, 0, sizeof(msg));
		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		if (recvmsg(c->fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
			break;
		for (cmsg = CMSG_FIRSTHDR(&msg); cmsg; cmsg = CMSG_NXTHDR(&msg, cmsg)) {
			struct sock_extended_err ee;

			if ((cmsg->cmsg_level != SOL_IP || cmsg->cmsg_type != IP_RECVERR) &&
				(cmsg->cmsg_level != SOL_IPV6 || cmsg->cmsg_type != IPV6_RECVERR))
				continue;
			memcpy(&ee, CMSG_DATA(cmsg), sizeof(ee));
			if (ee.ee_origin == SO_EE_ORIGIN_ZEROCOPY)
				chan_completion(c, &ee);
		}
	}
	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &why, &len) < 0)
		return -errno;
	return -why;
}
