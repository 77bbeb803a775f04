// SPDX-License-Identifier: BSD-3-Clause
/* The answering end: takes a frame in whole, and returns it. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/net_tstamp.h>

#include "probe/worker.h"

/* A prober that vanished without a word is forgotten after a minute. */
void answer_keepalive(int fd)
{
	int on = 1, idle_s = 30, every_s = 10, count = 3, user_ms = 60000;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_ms, sizeof(user_ms));
}

static void stranger_leave(struct answerer *a)
{
	list_del(&a->stranger);
	a->worker->strangers_count--;
}

void answerer_close(struct answerer *a)
{
	// NOLINTNEXTLINE(clang-analyzer-unix.Malloc): one that is freed has left all lists
	struct worker *w = a->worker;

	if (a->known)
		w->engine->answering[a->nic]--;
	else
		stranger_leave(a);
	if (a->frame)
		w->engine->payload_bytes -= a->payload_bytes;
	loop_timer_cancel(&w->loop, &a->patience);
	loop_remove(&w->loop, &a->data);
	close(a->data.fd);
	list_del(&a->link);
	free(a->frame);
	free(a);
}

static size_t frame_bytes(const struct answerer *a)
{
	return PROBE_HEADER_BYTES + a->payload_bytes;
}

/* 0: all of it went; 2: the rest waits for room; -1: closed. */
static int answer_send(struct answerer *a)
{
	ssize_t n = send(
		a->data.fd, a->frame + a->sent, a->have - a->sent, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		answerer_close(a);
		return -1;
	}
	if (n > 0)
		a->sent += (size_t)n;
	if (a->sent < a->have) {
		loop_change(&a->worker->loop, &a->data, EPOLLOUT);
		return 2;
	}
	a->have = a->sent = 0;
	return 0;
}

/* Probers send in bursts: the next of one comes before this thread had slept. The first of a burst tells nothing, so after it
 * counts whether the burst before had a second. */
static void expect_more(struct worker *w)
{
	uint64_t now_ns = clock_ns();
	bool begins = now_ns - w->answered_ns >= BURST_NS;

	w->in_burst = !begins || w->burst > 1;
	w->burst = begins ? 1 : w->burst + 1;
	w->answered_ns = now_ns;
	worker_expect(w, now_ns);
}

static int answer_frame(struct answerer *a)
{
	struct worker *w = a->worker;
	struct probe_header h;
	uint64_t now_ns;
	int ret;

	if (probe_header_decode(&h, a->frame, a->payload_bytes) ||
		payload_return(&w->engine->payload[a->nic], a->frame + PROBE_HEADER_BYTES,
			a->payload_bytes)) {
		answerer_close(a);
		return -1;
	}
	h.stamps = PROBE_STAMPS_NONE;
	h.residence_ns = 0;
	if (a->arrived_ns) {
		now_ns = clock_wall_ns();
		if (now_ns >= a->arrived_ns) {
			h.stamps = PROBE_STAMPS_SOFTWARE;
			h.residence_ns = now_ns - a->arrived_ns;
		}
	}
	probe_header_encode(&h, a->frame);
	ret = answer_send(a);
	expect_more(w);
	return ret;
}

static int answer_hello(struct answerer *a)
{
	struct probe_engine *engine = a->worker->engine;
	struct probe_header welcome = { 0 };
	struct probe_hello hello;

	if (probe_hello_decode(&hello, a->hello) ||
		!engine_take_expected(engine, &hello, &a->peer, a->nic))
		goto refuse;
	a->payload_bytes = hello.payload_bytes;
	if (engine->payload_bytes + a->payload_bytes > engine->config.memory_bytes)
		goto refuse;
	a->frame = malloc(frame_bytes(a));
	if (!a->frame)
		goto refuse;
	engine->payload_bytes += a->payload_bytes;
	engine->answering[a->nic]++;
	stranger_leave(a);
	a->known = true;
	loop_timer_cancel(&a->worker->loop, &a->patience);
	probe_header_encode(&welcome, a->frame);
	a->have = PROBE_HEADER_BYTES;
	return answer_send(a);

refuse:
	answerer_close(a);
	return -1;
}

/* Bytes of the hello, or of the next frame. <0: closed; 0: nothing more now; 1: more may wait. */
static int answer_recv(struct answerer *a)
{
	unsigned char *to = a->known ? a->frame : a->hello;
	size_t whole = a->known ? frame_bytes(a) : PROBE_HELLO_BYTES;
	struct stamp stamp;
	ssize_t got = stamp_recv(a->data.fd, to + a->have, whole - a->have, &stamp);

	if (got == -EAGAIN || got == -EINTR)
		return 0;
	if (got <= 0) {
		answerer_close(a);
		return -1;
	}
	a->have += (size_t)got;
	a->arrived_ns = stamp.software_ns;
	if (a->have < whole)
		return whole > 65536; /* large frames come in pieces that are there already */
	return a->known ? answer_frame(a) : answer_hello(a);
}

static void answerer_ready(struct loop *l, struct loop_fd *source, uint32_t events)
{
	struct answerer *a = container_of(source, struct answerer, data);

	if (events & EPOLLOUT) {
		if (answer_send(a))
			return;
		loop_change(l, &a->data, EPOLLIN);
		return;
	}
	if (events & (EPOLLERR | EPOLLHUP) && !(events & EPOLLIN)) {
		answerer_close(a);
		return;
	}
	for (int i = 0; i < 64 && answer_recv(a) == 1; i++)
		;
}

static void answerer_late(struct loop *l, struct loop_timer *timer)
{
	(void)l;
	answerer_close(container_of(timer, struct answerer, patience));
}

/* Arrival stamps alone: what an answer's sending takes is the network's. */
static void set_stamps(int fd)
{
	int flags = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;

	setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof(flags));
}

/* Whoever reaches the port can connect and say nothing, as often as it likes, while a prober says hello within a round trip: when
 * there are too many, the one that has waited longest leaves. At 100,000 connections a second a hello has 10 ms; and where they come
 * faster than this thread takes them it is there already, and is read after at most two turns of all doors. Not defended: the CPU
 * that a flood takes from this thread, and the kernel's queue before the port. */
_Static_assert(
	2 * ACCEPTS_MAX * PROBE_NICS_PER_LOOP < STRANGERS_MAX, "a hello that is there is read");
static void make_room(struct worker *w)
{
	if (w->strangers_count >= STRANGERS_MAX)
		answerer_close(container_of(w->strangers.next, struct answerer, stranger));
}

static void take_stranger(struct door *d, int fd, const struct sock_addr *peer)
{
	struct worker *w = d->worker;
	struct answerer *a = calloc(1, sizeof(*a));

	if (!a || loop_add(&w->loop, &a->data, fd, EPOLLIN, answerer_ready, NULL)) {
		free(a);
		close(fd);
		return;
	}
	answer_keepalive(fd);
	data_socket(fd);
	set_stamps(fd);
	a->worker = w;
	a->peer = *peer;
	a->nic = d->nic;
	list_add(&w->answerers, &a->link);
	list_add(&w->strangers, &a->stranger);
	w->strangers_count++;
	loop_timer_set(&w->loop, &a->patience, clock_ns() + PROBE_SET_UP_NS, answerer_late);
}

static void listener_resume(struct loop *l, struct loop_timer *timer)
{
	loop_change(l, &container_of(timer, struct listener, pause)->io, EPOLLIN);
}

int listener_accept(struct loop *l, struct listener *from, struct sock_addr *peer)
{
	int fd;

	peer->len = sizeof(peer->storage);
	fd = accept4(from->io.fd, (struct sockaddr *)&peer->storage, &peer->len, SOCK_CLOEXEC);
	if (fd >= 0 || errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
		return fd;
	/* Out of descriptors or memory: the socket stays readable, and would keep us busy. */
	loop_change(l, &from->io, 0);
	loop_timer_set(l, &from->pause, clock_ns() + DOOR_PAUSE_NS, listener_resume);
	return -1;
}

static void door_ready(struct loop *l, struct loop_fd *source, uint32_t events)
{
	struct door *d = container_of(source, struct door, listener.io);
	struct sock_addr peer;
	int fd;

	(void)events;
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		fd = listener_accept(l, &d->listener, &peer);
		if (fd < 0)
			return;
		make_room(d->worker);
		take_stranger(d, fd, &peer);
	}
}

int door_open(struct door *d, struct worker *w, size_t nic, struct err *e)
{
	struct sock_listen how = { .backlog = 1024, .port_option = "--data-port" };
	struct sock_addr addr = w->engine->nic[nic].addr;
	int fd, ret;

	sock_addr_set_port(&addr, w->engine->config.data_port);
	fd = sock_listen(&addr, &how, e);
	if (fd < 0)
		return err_prefix(e, "cannot answer probes");
	sock_local(fd, &addr);
	d->worker = w;
	d->nic = nic;
	d->port = sock_addr_port(&addr);
	ret = loop_add(&w->loop, &d->listener.io, fd, EPOLLIN, door_ready, e);
	if (ret)
		close(fd);
	return ret;
}

void door_close(struct door *d)
{
	loop_timer_cancel(&d->worker->loop, &d->listener.pause);
	loop_remove(&d->worker->loop, &d->listener.io);
	close(d->listener.io.fd);
}
