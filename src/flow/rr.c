// SPDX-License-Identifier: BSD-3-Clause
/* rr: requests and responses on an open connection.
 *
 * Both ends answer in place: what was received is answered in the same turn, and epoll is asked to
 * watch for room to send only when a send did not fit. That is three system calls per transaction
 * (epoll_wait, recv, send). A thread with a single flow has nobody else to wait for and saves
 * epoll_wait as well: it waits in recv. */
#include "flow/run.h"

/* By edge: by level, the kernel looks at every socket that had a message once more, to find that it
 * has no other. A receive that does not fill the buffer has taken all there was. */
#define WATCH_IN (EPOLLIN | EPOLLRDHUP | EPOLLET)

#define TURNS_PER_FLOW 64

/* A thread that waits in recv goes back to its loop this often: for new flows and orders. */
#define ALONE_TURN_NS (5 * NS_PER_MS)

/* Send what is owed. false: the flow is blocked or has ended. */
static bool rr_flush(struct flow *f)
{
	size_t buffer = f->lane->run->options->buffer_size;

	while (f->to_send) {
		size_t length = f->to_send < buffer ? f->to_send : buffer;
		const void *data = flow_to_send(f, &length);
		ssize_t n =
			f->chan.send(&f->chan, data, length, length < f->to_send ? MSG_MORE : 0);

		if (n == -EAGAIN) {
			flow_watch(f, WATCH_IN | EPOLLOUT);
			return false;
		}
		if (n < 0) {
			f->failed_sending = true;
			flow_end(f, (int)-n);
			return false;
		}
		f->counts.tx_bytes += (uint64_t)n;
		f->counts.tx_calls++;
		f->to_send -= (uint64_t)n;
	}
	flow_watch(f, WATCH_IN);
	return true;
}

static void rr_due(struct loop *loop, struct loop_timer *timer);

/* Begin as many requests as may be under way now. With a schedule each has its intended start, and
 * one that is late because the flow was busy keeps it: its wait is part of its latency. */
static bool rr_issue(struct flow *f, uint64_t now_ns)
{
	const struct flow_options *o = f->lane->run->options;

	while (f->in_flight < o->outstanding) {
		struct rr_request *request =
			&f->requests[(f->oldest + f->in_flight) % (uint32_t)o->outstanding];

		if (f->gap_ns && f->next_ns > now_ns) {
			loop_timer_set(&f->lane->worker->loop, &f->timer, f->next_ns, rr_due);
			break;
		}
		if (!flow_may_issue(f, request))
			break;
		request->sent_ns = now_ns;
		/* neper's --delay and --noburst pace requests but measure from the send. */
		request->intended_ns = o->rate > 0 ? f->next_ns : now_ns;
		f->next_ns += f->gap_ns;
		f->in_flight++;
		f->to_send += o->request_size;
	}
	return rr_flush(f);
}

static void rr_due(struct loop *loop, struct loop_timer *timer)
{
	struct flow *f = container_of(timer, struct flow, timer);

	(void)loop;
	rr_issue(f, clock_ns());
}

static bool rr_client_got(struct flow *f, uint64_t bytes)
{
	const struct flow_options *o = f->lane->run->options;
	uint64_t now_ns = clock_ns();

	f->got += bytes;
	while (f->got >= o->response_size && f->in_flight) {
		f->got -= o->response_size;
		flow_complete(f, &f->requests[f->oldest], now_ns);
		f->oldest = (f->oldest + 1) % (uint32_t)o->outstanding;
		f->in_flight--;
	}
	return rr_issue(f, now_ns);
}

static bool rr_server_got(struct flow *f, uint64_t bytes)
{
	const struct flow_options *o = f->lane->run->options;
	uint64_t requests;

	lane_touch(f->lane);
	f->got += bytes;
	requests = f->got / o->request_size;
	f->got %= o->request_size;
	f->counts.transactions += requests;
	f->to_send += requests * o->response_size;
	return rr_flush(f);
}

/* Into device memory, and never waits. What came is there when this returns. */
static ssize_t rr_receive_device(struct flow *f)
{
	size_t most = f->lane->run->options->buffer_size;
	char *room = device_room(f, &most);
	ssize_t n = f->chan.recv(&f->chan, room, most);
	int ret = n > 0 ? device_received(f, (size_t)n) : 0;

	return ret ? ret : n;
}

/* One receive; flags decide whether it waits. 2: there may be more, 1: go on, 0: nothing there,
 * -1: blocked or ended. */
static int rr_receive(struct flow *f, bool (*got)(struct flow *f, uint64_t bytes), int flags)
{
	size_t size = f->lane->run->options->buffer_size;
	bool device = f->lane->run->device.rx;
	char *data = f->lane->rx.data;
	ssize_t n;

	if (device) {
		n = rr_receive_device(f);
	} else {
		n = sock_recv(f->chan.fd, data, size, flags);
		if (n > 0)
			flow_check(f, data, (size_t)n, f->counts.rx_bytes);
	}
	if (n == -EAGAIN || n == -EINTR)
		return 0;
	if (n <= 0) {
		flow_end(f, (int)-n);
		return -1;
	}
	f->counts.rx_bytes += (uint64_t)n;
	f->counts.rx_calls++;
	if (!got(f, (uint64_t)n))
		return -1;
	/* Of device memory one call takes one kind, as far as there is room for control messages. */
	return device || (size_t)n == size ? 2 : 1;
}

/* The end of the stream is no edge of its own when it came with the last bytes. A flow that never
 * runs dry gives way to others after a while; watching it anew tells again what is there. */
static int rr_receive_all(
	struct flow *f, bool (*got)(struct flow *f, uint64_t bytes), uint32_t events)
{
	int ret;

	for (int turn = 0; turn < TURNS_PER_FLOW; turn++) {
		ret = rr_receive(f, got, MSG_DONTWAIT);
		if (ret <= 0 || (ret == 1 && !(events & (EPOLLHUP | EPOLLRDHUP))))
			return ret;
	}
	loop_change(&f->lane->worker->loop, &f->io, f->io.events);
	return ret;
}

/* Whether this thread serves this flow alone and may wait in recv for it. */
static bool rr_is_alone(const struct flow *f)
{
	const struct worker *w = f->lane->worker;

	return w->flows == 1 && w->has_turns && !f->lane->stopped && !f->gap_ns &&
	       !f->lane->run->device.rx;
}

static int rr_receive_spin(struct flow *f, bool (*got)(struct flow *f, uint64_t bytes))
{
	int ret = rr_receive(f, got, MSG_DONTWAIT);

	if (ret) /* it was there already: nothing to learn */
		return ret;
	spin_begin(&f->spin);
	do {
		ret = rr_receive(f, got, MSG_DONTWAIT);
	} while (!ret && spin_again(&f->spin));
	spin_end(&f->spin, ret);
	return ret;
}

static void rr_receive_alone(struct flow *f, bool (*got)(struct flow *f, uint64_t bytes))
{
	struct worker *w = f->lane->worker;
	uint64_t now_ns = clock_ns(), until_ns = loop_next_due_ns(&w->loop);
	int ret;

	if (until_ns > now_ns + ALONE_TURN_NS)
		until_ns = now_ns + ALONE_TURN_NS;
	worker_begin_turn(w, until_ns);
	do {
		ret = 0;
		if (w->loop.busy || spin_worth(&f->spin, now_ns))
			ret = rr_receive_spin(f, got);
		if (!ret && !w->loop.busy)
			ret = rr_receive(f, got, 0);
	} while (ret > 0 && rr_is_alone(f) && !worker_turn_is_over(w));
	worker_end_turn(w);
}

static void rr_ready(struct flow *f, uint32_t events, bool (*got)(struct flow *f, uint64_t bytes))
{
	int ret = 1;

	if (events & EPOLLERR) {
		ret = chan_error(&f->chan);
		if (ret < 0) {
			flow_end(f, -ret);
			return;
		}
		ret = 1;
	}
	if ((events & EPOLLOUT) && !rr_flush(f))
		ret = 0;
	if (f->alive && (events & (EPOLLIN | EPOLLHUP | EPOLLRDHUP)))
		ret = rr_receive_all(f, got, events);
	if (ret > 0 && f->alive && rr_is_alone(f))
		rr_receive_alone(f, got);
}

static void rr_client_ready(struct loop *loop, struct loop_fd *io, uint32_t events)
{
	(void)loop;
	rr_ready(container_of(io, struct flow, io), events, rr_client_got);
}

static void rr_server_ready(struct loop *loop, struct loop_fd *io, uint32_t events)
{
	(void)loop;
	rr_ready(container_of(io, struct flow, io), events, rr_server_got);
}

static void rr_prepare_to_wait(struct flow *f)
{
	bool busy = f->lane->worker->loop.busy;

	spin_init(&f->spin, busy ? ALONE_TURN_NS : f->lane->run->options->spin);
}

static void rr_client_start(struct flow *f)
{
	rr_prepare_to_wait(f);
	flow_schedule(f);
	rr_issue(f, clock_ns());
}

/* Bytes that came with the opening of the connection are a request, or part of one. */
static void rr_server_start(struct flow *f)
{
	rr_prepare_to_wait(f);
	if (f->got)
		rr_server_got(f, 0);
}

static void rr_stop(struct flow *f)
{
	loop_timer_cancel(&f->lane->worker->loop, &f->timer);
}

const struct flow_ops rr_client_ops = {
	.start = rr_client_start, .stop = rr_stop, .ready = rr_client_ready
};
const struct flow_ops rr_server_ops = { .start = rr_server_start, .ready = rr_server_ready };
