// SPDX-License-Identifier: BSD-3-Clause
#include "xfer/link.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

int link_open(struct link *l, int fd, struct err *e)
{
	*l = (struct link){ .fd = fd };
	l->in = malloc(LINK_IN_BYTES);
	l->out_bytes = LINK_BACKLOG + 2 * XFER_BODY_MAX;
	l->out = malloc(l->out_bytes);
	if (l->in && l->out)
		return 0;
	link_close(l);
	return err_set(e, ENOMEM, "no memory for a connection");
}

void link_close(struct link *l)
{
	if (l->fd >= 0)
		close(l->fd);
	free(l->in);
	free(l->out);
	*l = (struct link){ .fd = -1 };
}

/* Room for so many bytes behind what lies there. Grants and results are put however long the backlog is,
 * so it may have to grow; what they can come to is bounded by what the peer may have under way. */
static int out_reserve(struct link *l, size_t bytes, struct err *e)
{
	size_t need;
	uint8_t *more;

	if (l->out_first + l->out_count + bytes <= l->out_bytes)
		return 0;
	memmove(l->out, l->out + l->out_first, l->out_count);
	l->out_first = 0;
	need = l->out_count + bytes;
	if (need <= l->out_bytes)
		return 0;
	more = realloc(l->out, need * 2);
	if (!more)
		return err_set(e, ENOMEM, "no memory for %zu bytes to the peer", need);
	l->out = more;
	l->out_bytes = need * 2;
	return 0;
}

int link_put_bytes(struct link *l, const void *data, size_t bytes, struct err *e)
{
	int ret = bytes ? out_reserve(l, bytes, e) : 0;

	if (ret || !bytes)
		return ret;
	memcpy(l->out + l->out_first + l->out_count, data, bytes);
	l->out_count += bytes;
	return 0;
}

int link_put(struct link *l, const struct xfer_frame *f, struct err *e)
{
	uint8_t head[XFER_HEAD_MAX];
	size_t bytes = xfer_frame_encode(f, head);
	int ret;

	ret = out_reserve(l, bytes + f->data_bytes, e);
	if (ret)
		return ret;
	ret = link_put_bytes(l, head, bytes, e);
	if (!ret && f->data_bytes)
		ret = link_put_bytes(l, f->data, f->data_bytes, e);
	return ret;
}

int link_send(struct link *l, const struct xfer_frame *f, struct err *e)
{
	uint8_t head[XFER_HEAD_MAX];
	size_t bytes = xfer_frame_encode(f, head), all = bytes + f->data_bytes;
	struct iovec part[2] = { { head, bytes }, { (void *)f->data, f->data_bytes } };
	struct msghdr m = { .msg_iov = part, .msg_iovlen = f->data_bytes ? 2 : 1 };
	ssize_t n = 0;

	if (!l->out_count)
		n = sendmsg(l->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n == (ssize_t)all)
		return 0;
	/* What did not go, or what is wrong, shows at the next flush. */
	n = n < 0 ? 0 : n;
	if ((size_t)n < bytes) {
		int ret = link_put_bytes(l, head + n, bytes - (size_t)n, e);

		return ret ? ret : link_put_bytes(l, f->data, f->data_bytes, e);
	}
	n -= (ssize_t)bytes;
	return link_put_bytes(l, f->data + n, f->data_bytes - (size_t)n, e);
}

int link_flush(struct link *l)
{
	ssize_t n;

	if (!l->out_count)
		return 0;
	n = send(l->fd, l->out + l->out_first, l->out_count, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	l->out_first += (size_t)n;
	l->out_count -= (size_t)n;
	if (!l->out_count)
		l->out_first = 0;
	return n > 0;
}

int link_fill(struct link *l)
{
	size_t end = l->in_first + l->in_count;
	ssize_t n;

	if (!l->in_count)
		end = l->in_first = 0;
	/* A frame always fits behind its own beginning. */
	if (LINK_IN_BYTES - end < XFER_FRAME_BYTES + XFER_BODY_MAX) {
		memmove(l->in, l->in + l->in_first, l->in_count);
		l->in_first = 0;
		end = l->in_count;
	}
	if (end == LINK_IN_BYTES)
		return 0;
	n = recv(l->fd, l->in + end, LINK_IN_BYTES - end, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (!n)
		return -EPIPE;
	l->in_count += (size_t)n;
	return 1;
}

const uint8_t *link_take_bytes(struct link *l, size_t bytes)
{
	const uint8_t *at = l->in + l->in_first;

	if (l->in_count < bytes)
		return NULL;
	l->in_first += bytes;
	l->in_count -= bytes;
	return at;
}

int link_take(struct link *l, struct xfer_frame *f, struct err *e)
{
	int64_t length = xfer_frame_length(l->in + l->in_first, l->in_count);
	const uint8_t *bytes;
	int ret;

	if (length < 0)
		return err_set(e, EPROTO, "the peer sent what is no frame of the p2p protocol");
	bytes = length ? link_take_bytes(l, (size_t)length) : NULL;
	if (!bytes)
		return 0;
	ret = xfer_frame_decode(bytes, (size_t)length, f, e);
	return ret ? ret : 1;
}
