// SPDX-License-Identifier: BSD-3-Clause
/* The first connection of a comm: short messages, sent and received by the thread that asks for them,
 * because to wake another one takes longer than they do. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/tcp_parts.h"

/* True: all of it went. */
static bool send_one(struct tcp_comm *c, struct net_request *r)
{
	unsigned char header[TCP_HEADER_BYTES];
	size_t header_done = r->short_done < TCP_HEADER_BYTES ? r->short_done : TCP_HEADER_BYTES;
	size_t done = r->short_done - header_done;
	struct iovec part[2] = {
		{ header + header_done, TCP_HEADER_BYTES - header_done },
		{ r->data + done, r->total - done },
	};
	struct msghdr message = { .msg_iov = part, .msg_iovlen = 2 };
	ssize_t n;

	tcp_header_write(header, &(struct tcp_header){ TCP_SHORT, r->seq, (uint32_t)r->total, 0,
					 (uint32_t)r->total });
	do
		n = sendmsg(c->first, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN)
		tcp_comm_fail(c, errno, "the connection to %s broke: %m", c->peer);
	if (n < 0)
		return false;
	r->short_done += (size_t)n;
	return r->short_done == TCP_HEADER_BYTES + r->total;
}

void tcp_short_send(struct tcp_comm *c)
{
	struct net_request *r;

	while ((r = c->short_oldest) && send_one(c, r)) {
		c->short_oldest = r->next;
		atomic_store(&r->left, 0);
		atomic_store(&r->state, TCP_DONE);
	}
}

void tcp_short_queue(struct tcp_comm *c, struct net_request *r)
{
	r->next = NULL;
	r->short_done = 0;
	if (c->short_oldest)
		c->short_newest->next = r;
	else
		c->short_oldest = r;
	c->short_newest = r;
	tcp_short_send(c);
}

/* One message of the input. False: it is not all there, or nobody has posted a receive for it. */
static bool take_one(struct tcp_comm *c)
{
	const char *at = c->input + c->input_used;
	size_t have = c->input_have - c->input_used;
	struct net_request *r = NULL;
	struct err e = { 0 };
	struct tcp_header h;
	int ret;

	if (have < TCP_HEADER_BYTES)
		return false;
	ret = tcp_header_read(&h, (const unsigned char *)at, &e);
	if (!ret && h.kind == TCP_SLICE)
		ret = err_set(&e, EPROTO, "%s sent a slice where short messages go", c->peer);
	if (!ret && h.kind == TCP_BYE) {
		c->first_ended = true;
		c->last_seq = h.seq;
		c->input_used += TCP_HEADER_BYTES;
		return false;
	}
	if (!ret && have < TCP_HEADER_BYTES + h.length)
		return false;
	if (!ret) {
		pthread_mutex_lock(&c->lock);
		ret = tcp_request_find(c, &h, &r, &e);
		pthread_mutex_unlock(&c->lock);
	}
	if (r && h.length && r->memory->kind == NET_CUDA)
		ret = tcp_stage_short(c, r->data, at + TCP_HEADER_BYTES, h.length, &e);
	else if (r && h.length)
		memcpy(r->data, at + TCP_HEADER_BYTES, h.length);
	if (ret)
		tcp_comm_fail(c, -ret, "%s", e.what);
	if (ret || !r)
		return false;
	c->input_used += TCP_HEADER_BYTES + h.length;
	atomic_store(&r->left, 0);
	atomic_store(&r->state, TCP_DONE);
	return true;
}

static bool read_more(struct tcp_comm *c)
{
	ssize_t n;

	if (c->input_used) {
		memmove(c->input, c->input + c->input_used, c->input_have - c->input_used);
		c->input_have -= c->input_used;
		c->input_used = 0;
	}
	if (c->input_have == TCP_INPUT)
		return false;
	do
		n = recv(c->first, c->input + c->input_have, TCP_INPUT - c->input_have,
			MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		c->input_have += (size_t)n;
	else if (!n)
		tcp_comm_fail(c, ECONNRESET, "%s closed the connection", c->peer);
	else if (errno != EAGAIN)
		tcp_comm_fail(c, errno, "the connection to %s broke: %m", c->peer);
	return n > 0;
}

void tcp_short_receive(struct tcp_comm *c)
{
	do
		while (take_one(c))
			;
	while (!c->first_ended && read_more(c));
}
