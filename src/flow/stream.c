// SPDX-License-Identifier: BSD-3-Clause
/* stream: as many bytes as go. Each turn of the loop gives a flow several calls, so that one
 * epoll_wait serves many of them, and not so many that the other flows of the thread or its timers
 * wait long. */
#include <math.h>

#include "flow/run.h"

#define CALLS_PER_TURN 32
#define BYTES_PER_TURN (4u << 20)

static uint32_t stream_events(const struct flow *f, bool want_out)
{
	return EPOLLRDHUP | (f->reads ? EPOLLIN : 0) | (want_out ? EPOLLOUT : 0) |
	       (f->lane->run->options->edge_trigger ? EPOLLET : 0);
}

/* More may be there: an edge-triggered flow must be given its edge again. */
static void stream_again(struct flow *f)
{
	if (f->lane->run->options->edge_trigger)
		loop_change(&f->lane->worker->loop, &f->io, f->io.events);
}

static void stream_receive(struct flow *f)
{
	/* Before the start, when the first bytes are what starts it, it is not known. */
	size_t most = f->rx_length ? f->rx_length : f->lane->rx_length;
	size_t turn = 0;

	for (int calls = 0; calls < CALLS_PER_TURN && turn < BYTES_PER_TURN; calls++) {
		size_t length = most;
		char *data = device_room(f, &length);
		ssize_t n = data ? f->chan.recv(&f->chan, data, length) : -EIO;
		int ret = 0;

		if (n == -EAGAIN)
			return;
		if (n > 0 && f->lane->run->device.rx)
			ret = device_received(f, (size_t)n);
		else if (n > 0)
			flow_check(f, data, (size_t)n, f->counts.rx_bytes);
		if (n <= 0 || ret) {
			flow_end(f, ret ? -ret : (int)-n);
			return;
		}
		f->counts.rx_bytes += (uint64_t)n;
		f->counts.rx_calls++;
		turn += (size_t)n;
		/* A short read mostly means that the queue is empty; a level-triggered epoll tells
		 * otherwise. */
		if ((size_t)n < length && !f->lane->run->options->edge_trigger)
			return;
	}
	stream_again(f);
}

static void stream_due(struct loop *loop, struct loop_timer *timer)
{
	struct flow *f = container_of(timer, struct flow, timer);

	(void)loop;
	flow_watch(f, stream_events(f, true));
}

static void stream_send(struct flow *f)
{
	const struct flow_options *o = f->lane->run->options;
	int flags = o->no_cork ? 0 : MSG_MORE;
	size_t turn = 0;

	if (f->lane->stopped)
		return;
	for (int calls = 0; calls < CALLS_PER_TURN && turn < BYTES_PER_TURN; calls++) {
		size_t length = f->tx_length;
		const void *data = flow_to_send(f, &length);
		ssize_t n = f->chan.send(&f->chan, data, length, flags);

		if (n == -EAGAIN)
			return;
		if (n < 0) {
			f->failed_sending = true;
			flow_end(f, (int)-n);
			return;
		}
		f->counts.tx_bytes += (uint64_t)n;
		f->counts.tx_calls++;
		if (f->stage && device_sent(f, (size_t)n)) {
			flow_end(f, EIO);
			return;
		}
		turn += (size_t)n;
		if (f->gap_ns) {
			f->next_ns += f->gap_ns;
			flow_watch(f, stream_events(f, false));
			loop_timer_set(&f->lane->worker->loop, &f->timer, f->next_ns, stream_due);
			return;
		}
		/* A short send means that the buffer is full: the next call would say EAGAIN. */
		if ((size_t)n < length && !o->edge_trigger)
			return;
	}
	stream_again(f);
}

static void stream_ready(struct loop *loop, struct loop_fd *io, uint32_t events)
{
	struct flow *f = container_of(io, struct flow, io);
	int ret;

	(void)loop;
	if (events & EPOLLERR) {
		ret = chan_error(&f->chan);
		if (ret < 0) {
			flow_end(f, -ret);
			return;
		}
	}
	if (events & EPOLLIN) {
		lane_touch(f->lane);
		stream_receive(f);
	}
	if (f->alive && (events & EPOLLOUT))
		stream_send(f);
	/* Without reading there is no end of file to see. */
	if (f->alive && (events & (EPOLLHUP | EPOLLRDHUP)) && !(events & EPOLLIN))
		flow_end(f, 0);
}

/* With neper's --split-bidir the server is not told which flows the client reads: those that stay
 * silent. */
#define SPLIT_SILENCE_NS (100 * NS_PER_MS)

static void stream_silent(struct loop *loop, struct loop_timer *timer)
{
	struct flow *f = container_of(timer, struct flow, timer);

	(void)loop;
	f->writes = !f->counts.rx_bytes;
	f->reads = !f->writes;
	flow_watch(f, stream_events(f, f->writes));
}

/* A frame that the kernel hands to the NIC to cut has whole segments, as many as go into 64 KiB with its
 * headers. A call that ends elsewhere leaves a rest: at the sender, or in the window that the receiver opens.
 * Where nothing else is in flight the rest goes as a frame of its own, which costs all that a full one
 * does. Loopback cuts nothing: its segments are as large as a frame. Only where device memory is at one of the
 * ends; between host memories a call has what the user asked for. */
#define FRAME_BYTES (65535u - 320)

static size_t stream_whole_frames(const struct flow *f, size_t bytes)
{
	size_t segment = sock_segment_bytes(f->chan.fd), unit = segment;

	if (!segment || segment > bytes || segment > FRAME_BYTES)
		return bytes;
	if (bytes >= FRAME_BYTES)
		unit = FRAME_BYTES / segment * segment;
	return bytes / unit * unit;
}

/* What device memory sends comes in long rows of full frames, and each receive answers with an acknowledgement that costs both
 * ends as much as a frame does: so take more than --buffer-size into host memory too. Without memory for it this is
 * slower, not wrong. */
#define HOST_CALL_BYTES ((size_t)1 << 20)

static void stream_make_room(struct lane *l)
{
	struct region more;

	if (l->run->device.rx != DEVICE_NONE || !l->rx.data || l->rx_length >= HOST_CALL_BYTES ||
		region_alloc(&more, HOST_CALL_BYTES, NULL))
		return;
	region_free(&l->rx);
	l->rx = more;
	l->rx_length = HOST_CALL_BYTES;
}

/* What lies unread in device memory must leave the NIC pages to go on with, or both wait for ever. */
static double stream_device_share(const struct flow *f)
{
	return (double)f->lane->run->options->mem_size / 16 / f->lane->flow_count;
}

/* A sender of device memory always has more to send. Where the receiver's window stops it in the middle of a frame, the rest
 * is a frame of its own: two of ten were. The kernel makes room for what a reader waits for at once, keeps it, and
 * still lets it grow. */
#define WINDOW_BYTES  2097152.0
#define WINDOWS_BYTES 67108864.0 /* of all flows of a thread */

static void stream_open_window(const struct flow *f)
{
	const struct run *r = f->lane->run;
	double most = r->device.rx == DEVICE_DEVMEM ? stream_device_share(f)
						    : WINDOWS_BYTES / f->lane->flow_count;
	int window = (int)fmin(WINDOW_BYTES, most), any = 1;

	setsockopt(f->chan.fd, SOL_SOCKET, SO_RCVLOWAT, &window, sizeof(window));
	setsockopt(f->chan.fd, SOL_SOCKET, SO_RCVLOWAT, &any, sizeof(any));
}

static void stream_start(struct flow *f)
{
	const struct run *r = f->lane->run;

	flow_schedule(f);
	f->tx_length = r->options->buffer_size;
	if (r->device.tx == DEVICE_DEVMEM && !f->gap_ns && !r->options->no_cork)
		f->tx_length = f->lane->device.send_bytes;
	if ((r->device.tx == DEVICE_DEVMEM || r->peer_receives_devmem) && !r->options->no_cork)
		f->tx_length = stream_whole_frames(f, f->tx_length);
	if (r->peer_sends_devmem)
		stream_make_room(f->lane);
	f->rx_length = f->lane->rx_length;
	if (r->device.rx == DEVICE_DEVMEM || r->peer_sends_devmem) {
		f->rx_length = stream_whole_frames(f, f->rx_length);
		if (f->reads)
			stream_open_window(f);
	}
	if (r->starts_by_data && r->options->split_bidir) {
		loop_timer_set(&f->lane->worker->loop, &f->timer, clock_ns() + SPLIT_SILENCE_NS,
			stream_silent);
		return;
	}
	if (f->writes)
		flow_watch(f, stream_events(f, true));
}

/* To wake a sleeping receiver costs both ends more than to hand it a few more kilobytes.
 * SO_RCVLOWAT lets it sleep until --rx-coalesce's worth of data is there, by the rate of the time
 * before; a slow flow is woken for every byte. */
#define COALESCE_FIRST_NS  (10 * NS_PER_MS)
#define COALESCE_EVERY_NS  (100 * NS_PER_MS)
#define COALESCE_MAX_BYTES (512u << 10)

static double stream_wake_most(const struct flow *f)
{
	const struct run *r = f->lane->run;
	double most = COALESCE_MAX_BYTES;

	/* One frame: what comes while a reader waits for more, the kernel acknowledges frame by frame. */
	if (r->peer_sends_devmem)
		most = (double)stream_whole_frames(f, FRAME_BYTES);
	return r->device.rx == DEVICE_DEVMEM ? fmin(most, stream_device_share(f)) : most;
}

static void stream_coalesce_flow(struct flow *f, uint64_t elapsed_ns)
{
	double rate = (double)(f->counts.rx_bytes - f->coalesced_bytes) / (double)elapsed_ns;
	double bytes = fmin(rate * (double)f->lane->run->options->rx_coalesce, stream_wake_most(f));
	int wanted = bytes < 4096 ? 1 : (int)bytes;

	f->coalesced_bytes = f->counts.rx_bytes;
	/* Not for every small change: it is a system call. */
	if (wanted < f->wake_bytes * 3 / 4 || wanted > f->wake_bytes * 4 / 3) {
		f->wake_bytes = wanted;
		setsockopt(f->chan.fd, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof(wanted));
	}
}

static void stream_coalesce(struct loop *loop, struct loop_timer *timer)
{
	struct lane *l = container_of(timer, struct lane, coalesce);
	uint64_t now_ns = clock_ns();

	for (struct flow *f = l->flows; f; f = f->next)
		if (f->alive && f->reads)
			stream_coalesce_flow(f, now_ns - l->coalesced_ns);
	l->coalesced_ns = now_ns;
	if (l->live)
		loop_timer_set(loop, &l->coalesce, now_ns + COALESCE_EVERY_NS, stream_coalesce);
}

static void stream_lane(struct lane *l)
{
	l->coalesced_ns = clock_ns();
	if (l->run->options->rx_coalesce && l->rx.data)
		loop_timer_set(&l->worker->loop, &l->coalesce, l->coalesced_ns + COALESCE_FIRST_NS,
			stream_coalesce);
}

static void stream_stop(struct flow *f)
{
	loop_timer_cancel(&f->lane->worker->loop, &f->timer);
	if (f->alive && f->watched)
		flow_watch(f, stream_events(f, false));
}

const struct flow_ops stream_ops = {
	.start = stream_start, .stop = stream_stop, .lane = stream_lane, .ready = stream_ready
};
