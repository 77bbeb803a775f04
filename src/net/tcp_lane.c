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
static bool claim(struct tcp_lane *l, struct tcp_piece *p)
{
	struct tcp_comm *c = l->comm;
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
	p->data = r->data + p->header.offset;
	return true;
}

/* Memory of a GPU that no NIC reaches. */
static bool is_staged(const struct tcp_lane *l, const struct net_request *r)
{
	return r->memory->kind == NET_CUDA && !r->memory->binding && !l->taken;
}

/* Slices on their way from the GPU while the connection is busy with the one before. */
static void fetch_ahead(struct tcp_lane *l)
{
	struct tcp_stage *s = l->stage;
	struct err e = { 0 };

	while (!tcp_stage_full(s)) {
		struct tcp_stage_slot *slot = &s->slot[(s->first + s->count) % TCP_STAGE_SLOTS];
		int ret = 0;

		if (!claim(l, &slot->piece))
			return;
		s->count++;
		if (is_staged(l, slot->piece.request)) {
			slot->piece.data = slot->data;
			ret = tcp_stage_copy(l, slot, false, &e);
		}
		if (ret) {
			tcp_comm_fail(l->comm, -ret, "%s", e.what);
			return;
		}
	}
}

enum next { NEXT_NONE, NEXT_READY, NEXT_COPYING };

/* The slice to send next. */
static enum next next_piece(struct tcp_lane *l)
{
	struct tcp_stage *s = l->stage;
	struct err e = { 0 };
	int ret;

	if (l->busy)
		return NEXT_READY;
	if (!s || !s->count) {
		if (!claim(l, &l->piece))
			return NEXT_NONE;
		if (!is_staged(l, l->piece.request)) {
			l->busy = true;
			return NEXT_READY;
		}
		s = l->stage;
		if (!s) {
			tcp_comm_fail(l->comm, EINVAL, "nothing is prepared for memory of a GPU");
			return NEXT_NONE;
		}
		s->slot[s->first].piece = l->piece;
		s->slot[s->first].piece.data = s->slot[s->first].data;
		s->count = 1;
		ret = tcp_stage_copy(l, &s->slot[s->first], false, &e);
		if (ret) {
			tcp_comm_fail(l->comm, -ret, "%s", e.what);
			return NEXT_NONE;
		}
	}
	fetch_ahead(l);
	ret = tcp_stage_done(l, &e);
	if (ret < 0)
		tcp_comm_fail(l->comm, -ret, "%s", e.what);
	if (ret <= 0)
		return ret ? NEXT_NONE : NEXT_COPYING;
	l->piece = s->slot[s->first].piece;
	l->busy = true;
	return NEXT_READY;
}

static void piece_over(struct tcp_lane *l)
{
	struct tcp_stage *s = l->stage;

	add(&l->slices, 1);
	l->busy = false;
	if (s && s->count) {
		s->first = (s->first + 1) % TCP_STAGE_SLOTS;
		s->count--;
	}
	if (!l->piece.request->memory->binding) /* else when the kernel has let go of it */
		tcp_request_through(l->piece.request, l->piece.header.length);
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

static ssize_t send_together(struct tcp_lane *l)
{
	struct tcp_piece *p = &l->piece;
	struct iovec part[2] = {
		{ p->bytes + p->header_done, TCP_HEADER_BYTES - p->header_done },
		{ p->data + p->done, p->header.length - p->done },
	};
	struct msghdr message = { .msg_iov = part, .msg_iovlen = 2 };

	return sendmsg(l->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The header by its own connection, then the payload. */
static ssize_t send_apart(struct tcp_lane *l)
{
	const struct tcp_piece *p = &l->piece;

	if (p->header_done < TCP_HEADER_BYTES)
		return send(l->header_fd, p->bytes + p->header_done,
			TCP_HEADER_BYTES - p->header_done, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (p->request->memory->binding)
		return tcp_flying_send(l);
	return send(l->fd, p->data + p->done, p->header.length - p->done,
		MSG_DONTWAIT | MSG_NOSIGNAL | (l->flying ? MSG_EOR : 0));
}

static void broke(struct tcp_lane *l, int code, bool by_device)
{
	struct err e = { 0 };

	if (by_device && code != ECONNRESET && code != EPIPE && code != ETIMEDOUT)
		devmem_explain(code, l->comm->sends, &e);
	else
		err_set(&e, code, "%s", strerror(code));
	tcp_comm_fail(l->comm, code, "the connection to %s broke: %s", l->comm->peer, e.what);
}

/* True: a slice went, or part of one. */
static bool send_piece(struct tcp_lane *l)
{
	struct tcp_piece *p = &l->piece;
	ssize_t n = l->header_fd >= 0 ? send_apart(l) : send_together(l);

	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0 && errno == EAGAIN) {
		l->ready = false;
		hold(l);
		return false;
	}
	if (n < 0) {
		broke(l, errno, l->flying);
		return false;
	}
	release(l, &l->full_ns);
	piece_moved(p, (size_t)n);
	if (p->done == p->header.length)
		piece_over(l);
	return true;
}

static bool run_sender(struct tcp_lane *l)
{
	size_t turn = 0;
	int ret = l->flying ? tcp_flying_reap(l) : 0;

	if (ret) {
		broke(l, -ret, false);
		return false;
	}
	while (turn < TCP_TURN_BYTES) {
		enum next next;
		size_t before;

		/* Completions wake it. */
		if (!l->busy && tcp_flying_full(l))
			return false;
		next = next_piece(l);
		before = l->piece.done;
		if (next != NEXT_READY)
			return next == NEXT_COPYING;
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
		r->begun_ns = clock_ns();
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
	if (!ret && !p->request) {
		c->waiting_lanes |= 1u << l->index;
		l->waits_for = p->header.seq;
	}
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
	p->data = p->request->data + p->header.offset;
	if (is_staged(l, p->request)) {
		struct tcp_stage *s = l->stage;

		if (p->header.length > TCP_STAGE_BYTES) {
			tcp_comm_fail(c, EPROTO, "%s sent a slice of %u bytes", c->peer,
				p->header.length);
			return false;
		}
		p->data = s->slot[(s->first + s->count) % TCP_STAGE_SLOTS].data;
	}
	return true;
}

/* All of a slice has come: on to the GPU with it, or done. */
static void piece_received(struct tcp_lane *l)
{
	struct tcp_piece *p = &l->piece;
	struct tcp_stage *s = l->stage;
	struct tcp_stage_slot *slot;
	struct err e = { 0 };
	int ret;

	add(&l->slices, 1);
	l->busy = false;
	if (l->taken) /* its bytes are through as they get to their place */
		return;
	if (!is_staged(l, p->request)) {
		tcp_request_through(p->request, p->header.length);
		return;
	}
	// NOLINTNEXTLINE(clang-analyzer-core.NullDereference): made when the memory was registered
	slot = &s->slot[(s->first + s->count) % TCP_STAGE_SLOTS];
	slot->piece = *p;
	ret = tcp_stage_copy(l, slot, true, &e);
	if (ret)
		tcp_comm_fail(l->comm, -ret, "%s", e.what);
	else
		s->count++;
}

/* Copies to the GPU, and gathers there, that have ended. */
static void reap(struct tcp_lane *l)
{
	struct tcp_stage *s = l->stage;
	struct err e = { 0 };
	int taken = l->taken ? tcp_taken_reap(l, &e) : 0;

	if (taken)
		tcp_comm_fail(l->comm, -taken, "%s", e.what);
	while (s && s->count) {
		struct tcp_piece *p = &s->slot[s->first].piece;
		int ret = tcp_stage_done(l, &e);

		if (!ret)
			return;
		s->first = (s->first + 1) % TCP_STAGE_SLOTS;
		s->count--;
		if (ret < 0)
			tcp_comm_fail(l->comm, -ret, "%s", e.what);
		else
			tcp_request_through(p->request, p->header.length);
	}
}

static bool receive_failed(struct tcp_lane *l, ssize_t n)
{
	struct tcp_comm *c = l->comm;

	if (n < 0 && errno == EINTR)
		return true;
	l->ready = false;
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n < 0) {
		broke(l, errno, l->taken && l->busy);
	} else if (l->busy || l->piece.header_done) {
		tcp_comm_fail(c, ECONNRESET, "%s closed a connection within a message", c->peer);
	} else {
		l->ended = true;
		if (atomic_fetch_add(&c->ended_lanes, 1) + 1 == c->lanes)
			atomic_store(&c->all_ended_ns, clock_ns());
		tcp_net_ring(c->net);
	}
	return false;
}

static bool receive_header(struct tcp_lane *l)
{
	struct tcp_piece *p = &l->piece;
	ssize_t n = recv(l->header_fd >= 0 ? l->header_fd : l->fd, p->bytes + p->header_done,
		TCP_HEADER_BYTES - p->header_done, MSG_DONTWAIT);

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
		{ p->data + p->done, rest },
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
	piece_received(l);
	p->header_done = (size_t)n - payload;
	memcpy(p->bytes, l->ahead, p->header_done);
	return true;
}

/* The rest of the payload, alone on its connection. */
static bool receive_apart(struct tcp_lane *l)
{
	struct tcp_piece *p = &l->piece;
	ssize_t n =
		l->taken ? tcp_taken_receive(l)
			 : recv(l->fd, p->data + p->done, p->header.length - p->done, MSG_DONTWAIT);

	if (n <= 0)
		return receive_failed(l, n);
	p->done += (size_t)n;
	if (p->done < p->header.length)
		return true;
	piece_received(l);
	p->header_done = 0;
	return true;
}

/* True: go on; false: nothing more can be done now. */
static bool receive_step(struct tcp_lane *l)
{
	if (!l->busy && l->piece.header_done == TCP_HEADER_BYTES)
		return begin_receive(l);
	if (!l->ready || l->ended)
		return false;
	if (!l->busy)
		return receive_header(l);
	return l->header_fd >= 0 ? receive_apart(l) : receive_payload(l);
}

static bool run_receiver(struct tcp_lane *l)
{
	struct tcp_stage *s = l->stage;
	size_t turn = 0;

	while (turn < TCP_TURN_BYTES) {
		size_t before = l->piece.done;

		if (s || l->taken)
			reap(l);
		if ((s && tcp_stage_full(s)) || tcp_taken_full(l))
			return true;
		if (!receive_step(l)) {
			if (l->taken && l->taken->count)
				reap(l); /* launch what has just come */
			return (s && s->count) || (l->taken && l->taken->count);
		}
		turn += l->piece.done > before ? l->piece.done - before : 0;
	}
	return true;
}

/* After a failure: what the copy engine still does must end before anybody is told. True: not yet. */
static bool drain(struct tcp_lane *l)
{
	struct tcp_stage *s = l->stage;

	if (tcp_taken_drain(l))
		return true;
	while (s && s->count) {
		if (!tcp_stage_done(l, NULL))
			return true;
		s->first = (s->first + 1) % TCP_STAGE_SLOTS;
		s->count--;
	}
	return false;
}

bool tcp_lane_run(struct tcp_lane *l)
{
	struct tcp_comm *c = l->comm;
	bool again;

	atomic_fetch_add(&c->running, 1);
	if (atomic_load(&c->failed))
		again = drain(l);
	else
		again = c->sends ? run_sender(l) : run_receiver(l);
	atomic_fetch_sub(&c->running, 1);
	return again;
}
