// SPDX-License-Identifier: BSD-3-Clause
/* One connection that carries slices of long messages, driven by its worker. */
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/tcp_parts.h"

void tcp_request_through(struct net_request *r, size_t bytes)
{
	if (atomic_fetch_sub(&r->left, bytes) != bytes)
		return;
	atomic_store(&r->state, TCP_DONE);
	tcp_net_ring(r->comm->net);
}

static void add(_Atomic uint64_t *counter, uint64_t value)
{
	atomic_fetch_add_explicit(counter, value, memory_order_relaxed);
}

static void hold(struct tcp_lane *l)
{
	if (!l->held_since_ns)
		l->held_since_ns = clock_ns();
}

static void release(struct tcp_lane *l, _Atomic uint64_t *counter)
{
	if (!l->held_since_ns)
		return;
	add(counter, clock_ns() - l->held_since_ns);
	l->held_since_ns = 0;
}

/* Take the next slice; a lane that finds none is woken by the next isend. */
static bool claim(struct tcp_lane *l)
{
	struct tcp_comm *c = l->comm;
	struct tcp_piece *p = &l->piece;
	struct net_request *r;
	size_t length;

	pthread_mutex_lock(&c->lock);
	r = c->oldest;
	if (!r) {
		c->waiting_lanes |= 1u << l->index;
		pthread_mutex_unlock(&c->lock);
		return false;
	}
	length = r->total - r->claimed;
	if (length > r->slice_bytes)
		length = r->slice_bytes;
	p->request = r;
	p->header = (struct tcp_header){ TCP_SLICE, r->seq, (uint32_t)r->total,
		(uint32_t)r->claimed, (uint32_t)length };
	r->claimed += length;
	if (r->claimed == r->total)
		c->oldest = r->next;
	pthread_mutex_unlock(&c->lock);
	tcp_header_write(p->bytes, &p->header);
	p->header_done = p->done = 0;
	l->busy = true;
	return true;
}

/* Count what one call moved: header first, then payload. */
static void piece_moved(struct tcp_piece *p, size_t bytes)
{
	size_t header = TCP_HEADER_BYTES - p->header_done;

	if (header > bytes)
		header = bytes;
	p->header_done += header;
	p->done += bytes - header;
}

/* True: a slice went, or part of one. */
static bool send_piece(struct tcp_lane *l)
{
	struct tcp_piece *p = &l->piece;
	struct iovec part[2] = {
		{ p->bytes + p->header_done, TCP_HEADER_BYTES - p->header_done },
		{ p->request->data + p->header.offset + p->done, p->header.length - p->done },
	};
	struct msghdr message = { .msg_iov = part, .msg_iovlen = 2 };
	ssize_t n = sendmsg(l->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0 && errno == EAGAIN) {
		l->ready = false;
		hold(l);
		return false;
	}
	if (n < 0) {
		tcp_comm_fail(l->comm, errno, "the connection to %s broke: %m", l->comm->peer);
		return false;
	}
	release(l, &l->full_ns);
	piece_moved(p, (size_t)n);
	if (p->done == p->header.length) {
		add(&l->slices, 1);
		l->busy = false;
		tcp_request_through(p->request, p->header.length);
	}
	return true;
}

static bool run_sender(struct tcp_lane *l)
{
	size_t turn = 0;

	while (turn < TCP_TURN_BYTES) {
		size_t before;

		if (!l->busy && !claim(l))
			return false;
		before = l->piece.done;
		if (!l->ready || !send_piece(l))
			return false;
		turn += l->busy ? l->piece.done - before : l->piece.header.length - before;
	}
	return true;
}

int tcp_request_find(
	struct tcp_comm *c, const struct tcp_header *h, struct net_request **found, struct err *e)
{
	struct net_request *r = &c->request[h->seq % TCP_SLOTS];

	*found = NULL;
	if ((int32_t)(h->seq - c->posted) >= 0)
		return 0;
	if (r->seq != h->seq || atomic_load(&r->state) != TCP_WAITING)
		return err_set(e, EPROTO, "%s sent more of message %u, which is complete", c->peer,
			h->seq);
	if (h->total > r->room)
		return err_set(e, EMSGSIZE,
			"%s sent a message of %u bytes, the receive has room for %zu", c->peer,
			h->total, r->room);
	if (r->begun && (r->total != h->total || h->length > r->total - r->claimed))
		return err_set(e, EPROTO, "%s sent slices of message %u that do not fit together",
			c->peer, h->seq);
	if (!r->begun) {
		r->begun = true;
		r->total = h->total;
		atomic_store(&r->left, r->total);
	}
	r->claimed += h->length;
	*found = r;
	return 0;
}

/* A whole header has come: find where its payload belongs. A lane whose message nobody wants yet is
 * woken by the irecv that does. */
static bool begin_receive(struct tcp_lane *l)
{
	struct tcp_comm *c = l->comm;
	struct tcp_piece *p = &l->piece;
	struct err e = { 0 };
	int ret;

	ret = tcp_header_read(&p->header, p->bytes, &e);
	if (!ret && p->header.kind != TCP_SLICE)
		ret = err_set(&e, EPROTO, "%s sent a short message where slices go", c->peer);
	pthread_mutex_lock(&c->lock);
	if (!ret)
		ret = tcp_request_find(c, &p->header, &p->request, &e);
	if (!ret && !p->request)
		c->waiting_lanes |= 1u << l->index;
	pthread_mutex_unlock(&c->lock);
	if (ret) {
		tcp_comm_fail(c, -ret, "%s", e.what);
		return false;
	}
	if (!p->request) {
		hold(l);
		return false;
	}
	release(l, &l->no_receive_ns);
	l->busy = true;
	p->done = 0;
	return true;
}

static bool receive_failed(struct tcp_lane *l, ssize_t n)
{
	struct tcp_comm *c = l->comm;
	uint64_t none = 0;

	if (n < 0 && errno == EINTR)
		return true;
	l->ready = false;
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n < 0) {
		tcp_comm_fail(c, errno, "the connection to %s broke: %m", c->peer);
	} else if (l->busy || l->piece.header_done) {
		tcp_comm_fail(c, ECONNRESET, "%s closed a connection within a message", c->peer);
	} else {
		l->ended = true;
		atomic_compare_exchange_strong(&c->ended_ns, &none, clock_ns());
		tcp_net_ring(c->net);
	}
	return false;
}

static bool receive_header(struct tcp_lane *l)
{
	struct tcp_piece *p = &l->piece;
	ssize_t n = recv(
		l->fd, p->bytes + p->header_done, TCP_HEADER_BYTES - p->header_done, MSG_DONTWAIT);

	if (n <= 0)
		return receive_failed(l, n);
	p->header_done += (size_t)n;
	return true;
}

/* The rest of the payload, and in the same call what has come of the next header. */
static bool receive_payload(struct tcp_lane *l)
{
	struct tcp_piece *p = &l->piece;
	size_t rest = p->header.length - p->done;
	struct iovec part[2] = {
		{ p->request->data + p->header.offset + p->done, rest },
		{ l->ahead, TCP_HEADER_BYTES },
	};
	struct msghdr message = { .msg_iov = part, .msg_iovlen = 2 };
	ssize_t n = recvmsg(l->fd, &message, MSG_DONTWAIT);
	size_t payload;

	if (n <= 0)
		return receive_failed(l, n);
	payload = (size_t)n < rest ? (size_t)n : rest;
	p->done += payload;
	if (p->done < p->header.length)
		return true;
	add(&l->slices, 1);
	l->busy = false;
	tcp_request_through(p->request, p->header.length);
	p->header_done = (size_t)n - payload;
	memcpy(p->bytes, l->ahead, p->header_done);
	return true;
}

static bool run_receiver(struct tcp_lane *l)
{
	size_t turn = 0;

	while (turn < TCP_TURN_BYTES) {
		size_t before = l->piece.done;

		if (!l->busy && l->piece.header_done == TCP_HEADER_BYTES) {
			if (!begin_receive(l))
				return false;
			continue;
		}
		if (!l->ready || l->ended)
			return false;
		if (!l->busy) {
			if (!receive_header(l))
				return false;
			continue;
		}
		if (!receive_payload(l))
			return false;
		turn += l->piece.done - before;
	}
	return true;
}

bool tcp_lane_run(struct tcp_lane *l)
{
	struct tcp_comm *c = l->comm;
	bool again = false;

	atomic_fetch_add(&c->running, 1);
	if (!atomic_load(&c->failed))
		again = c->sends ? run_sender(l) : run_receiver(l);
	atomic_fetch_sub(&c->running, 1);
	return again;
}
