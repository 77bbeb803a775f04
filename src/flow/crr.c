// SPDX-License-Identifier: BSD-3-Clause
/* crr: a new connection for every transaction. A client's flow is a slot that makes one connection
 * after another; at the server each connection is a flow of its own, gone when the client closes
 * it. */
#include <string.h>

#include "flow/run.h"

static void crr_due(struct loop *loop, struct loop_timer *timer);

/* The preamble and the request in one call, so that they leave in one segment. */
static ssize_t crr_send_opening(struct flow *f)
{
	const struct run *r = f->lane->run;
	uint8_t bytes[WIRE_PREAMBLE_BYTES];
	struct wire_preamble p = { .flow = f->id };
	size_t rest = f->to_send < r->options->buffer_size ? f->to_send : r->options->buffer_size;
	struct iovec iov[2] = {
		{ bytes + WIRE_PREAMBLE_BYTES - f->preamble_left, f->preamble_left },
		{ f->lane->tx.data, rest },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	ssize_t n;

	memcpy(p.token, r->token, sizeof(p.token));
	wire_preamble_encode(&p, bytes);
	n = sendmsg(
		f->chan.fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL | (rest < f->to_send ? MSG_MORE : 0));
	if (n < 0)
		return -errno;
	if ((size_t)n < f->preamble_left) {
		f->preamble_left -= (uint32_t)n;
		return 0;
	}
	n -= f->preamble_left;
	f->preamble_left = 0;
	return n;
}

static bool crr_flush(struct flow *f)
{
	size_t buffer = f->lane->run->options->buffer_size;

	while (f->to_send) {
		size_t length = f->to_send < buffer ? f->to_send : buffer;
		ssize_t n = f->preamble_left ? crr_send_opening(f)
					     : f->chan.send(&f->chan, f->lane->tx.data, length,
						       length < f->to_send ? MSG_MORE : 0);

		if (n == -EAGAIN) {
			flow_watch(f, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
			return false;
		}
		if (n < 0) {
			flow_end(f, (int)-n);
			return false;
		}
		f->counts.tx_bytes += (uint64_t)n;
		f->counts.tx_calls++;
		f->to_send -= (uint64_t)n;
	}
	flow_watch(f, EPOLLIN | EPOLLRDHUP);
	return true;
}

/* Client: begin the next transaction. On a short path the handshake is over when connect returns,
 * although it says "in progress": the request is tried at once. */
static void crr_begin(struct flow *f, uint64_t now_ns)
{
	const struct run *r = f->lane->run;
	struct sock_options options;
	struct err e = { 0 };
	int fd;

	if (f->gap_ns && f->next_ns > now_ns) {
		loop_timer_set(&f->lane->worker->loop, &f->timer, f->next_ns, crr_due);
		return;
	}
	if (!flow_may_issue(f, &f->requests[0]))
		return;
	f->in_flight = 1;
	f->requests[0].sent_ns = now_ns;
	f->requests[0].intended_ns = r->options->rate > 0 ? f->next_ns : now_ns;
	f->next_ns += f->gap_ns;
	f->got = 0;
	f->to_send = r->options->request_size;
	f->preamble_left = r->tokens ? WIRE_PREAMBLE_BYTES : 0;
	fd = flow_connect_start(f, &e);
	if (fd < 0 || chan_init(&f->chan, fd, CHAN_PLAIN, CHAN_PLAIN, 0, &e)) {
		flow_end(f, e.code);
		return;
	}
	flow_sock_options(r->options, true, &options);
	if (sock_set_after(fd, &options, &e)) {
		flow_end(f, e.code);
		return;
	}
	crr_flush(f);
}

static void crr_due(struct loop *loop, struct loop_timer *timer)
{
	(void)loop;
	crr_begin(container_of(timer, struct flow, timer), clock_ns());
}

/* false: nothing there, or the flow has ended. */
static bool crr_receive(struct flow *f)
{
	ssize_t n = f->chan.recv(&f->chan, f->lane->rx.data, f->lane->run->options->buffer_size);

	if (n == -EAGAIN)
		return false;
	if (n <= 0) {
		flow_end(f, (int)-n);
		return false;
	}
	f->counts.rx_bytes += (uint64_t)n;
	f->counts.rx_calls++;
	f->got += (uint64_t)n;
	return true;
}

static void crr_client_ready(struct loop *loop, struct loop_fd *io, uint32_t events)
{
	struct flow *f = container_of(io, struct flow, io);
	uint64_t now_ns;
	int ret;

	(void)loop;
	if (events & EPOLLERR) {
		ret = chan_error(&f->chan);
		flow_end(f, ret < 0 ? -ret : ECONNRESET);
		return;
	}
	if ((events & EPOLLOUT) && !crr_flush(f))
		return;
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLRDHUP)) || !crr_receive(f))
		return;
	if (f->got < f->lane->run->options->response_size)
		return;
	now_ns = clock_ns();
	f->in_flight = 0;
	flow_complete(f, &f->requests[0], now_ns);
	flow_disconnect(f);
	crr_begin(f, now_ns);
}

static void crr_client_start(struct flow *f)
{
	flow_schedule(f);
	crr_begin(f, clock_ns());
}

static void crr_client_stop(struct flow *f)
{
	loop_timer_cancel(&f->lane->worker->loop, &f->timer);
	flow_disconnect(f);
}

static void crr_server_answer(struct flow *f)
{
	const struct flow_options *o = f->lane->run->options;

	lane_touch(f->lane);
	if (f->got < o->request_size)
		return;
	f->got -= o->request_size;
	f->counts.transactions++;
	f->to_send += o->response_size;
	crr_flush(f);
}

/* The client closes first, mostly by a reset: that is the good end of a connection here. */
static void crr_server_ready(struct loop *loop, struct loop_fd *io, uint32_t events)
{
	struct flow *f = container_of(io, struct flow, io);
	ssize_t n = -EAGAIN;

	(void)loop;
	if (!(events & EPOLLERR) && (events & EPOLLOUT) && !crr_flush(f) && f->alive)
		return;
	if (f->alive && !(events & EPOLLERR) && (events & EPOLLIN)) {
		n = f->chan.recv(&f->chan, f->lane->rx.data, f->lane->run->options->buffer_size);
		if (n > 0) {
			f->counts.rx_bytes += (uint64_t)n;
			f->counts.rx_calls++;
			f->got += (uint64_t)n;
			crr_server_answer(f);
		}
	}
	if (!f->alive || (events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) ||
		(n <= 0 && n != -EAGAIN)) {
		flow_leave(f);
		flow_retire(f);
	}
}

static void crr_server_start(struct flow *f)
{
	if (f->got)
		crr_server_answer(f);
}

const struct flow_ops crr_client_ops = {
	.start = crr_client_start, .stop = crr_client_stop, .ready = crr_client_ready
};
const struct flow_ops crr_server_ops = { .start = crr_server_start, .ready = crr_server_ready };
