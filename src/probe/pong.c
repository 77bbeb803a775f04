// SPDX-License-Identifier: BSD-3-Clause
/* The answering end of the published prober: two connections, one each way, bytes as they are. The prober
 * connects to a port of ours, we connect to one of its own, and what comes by the first goes back by the
 * second. There is no token: only the address that the call named may connect, and nobody is connected to
 * who has not proved to own that address by connecting first. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe/worker.h"

#define PONG_BYTES 16384

struct pong {
	struct list link;
	struct worker *worker;
	struct listener door;
	struct loop_fd in, out; /* fd -1: not open, also the door's */
	struct loop_timer patience;
	uint64_t deadline_ns;
	struct sock_addr client; /* with its port */
	size_t nic;
	bool stands;
	size_t have, sent;
	unsigned char bytes[PONG_BYTES];
};

static void close_end(struct loop *l, struct loop_fd *end)
{
	if (end->fd < 0)
		return;
	loop_remove(l, end);
	close(end->fd);
	end->fd = -1;
}

void pong_close(struct pong *p)
{
	struct worker *w = p->worker;

	w->engine->answering[p->nic]--;
	loop_timer_cancel(&w->loop, &p->patience);
	loop_timer_cancel(&w->loop, &p->door.pause);
	close_end(&w->loop, &p->door.io);
	close_end(&w->loop, &p->in);
	close_end(&w->loop, &p->out);
	list_del(&p->link);
	free(p);
}

struct pong *pong_of_link(struct list *link)
{
	return container_of(link, struct pong, link);
}

bool pong_is_of(
	const struct pong *p, const struct sock_addr *prober, const struct sock_addr *responder)
{
	return sock_addr_same_host(&p->client, prober) &&
	       sock_addr_same_host(&p->worker->engine->nic[p->nic].addr, responder);
}

/* false: closed. */
static bool pong_send(struct pong *p)
{
	ssize_t n;

	if (p->sent == p->have)
		return true;
	n = send(p->out.fd, p->bytes + p->sent, p->have - p->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		pong_close(p);
		return false;
	}
	p->sent += n > 0 ? (size_t)n : 0;
	return true;
}

static void pong_in_ready(struct loop *l, struct loop_fd *source, uint32_t events)
{
	struct pong *p = container_of(source, struct pong, in);
	ssize_t n;

	if (!p->stands || p->sent < p->have) { /* not asked for: the prober has gone */
		pong_close(p);
		return;
	}
	n = recv(p->in.fd, p->bytes, sizeof(p->bytes), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR) && !(events & (EPOLLERR | EPOLLHUP)))
		return;
	if (n <= 0) {
		pong_close(p);
		return;
	}
	p->have = (size_t)n;
	p->sent = 0;
	if (!pong_send(p) || p->sent == p->have)
		return;
	loop_change(l, &p->in, 0); /* what is left goes first */
	loop_change(l, &p->out, EPOLLOUT);
}

static void pong_stand(struct loop *l, struct pong *p)
{
	socklen_t length = sizeof(int);
	int error = 0;

	getsockopt(p->out.fd, SOL_SOCKET, SO_ERROR, &error, &length);
	if (error) {
		pong_close(p);
		return;
	}
	p->stands = true;
	loop_timer_cancel(l, &p->patience);
	loop_change(l, &p->in, EPOLLIN);
	loop_change(l, &p->out, EPOLLRDHUP);
}

static void pong_out_ready(struct loop *l, struct loop_fd *source, uint32_t events)
{
	struct pong *p = container_of(source, struct pong, out);

	if (!p->stands) {
		pong_stand(l, p);
		return;
	}
	if (events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) {
		pong_close(p);
		return;
	}
	if (!pong_send(p) || p->sent < p->have)
		return;
	loop_change(l, &p->out, EPOLLRDHUP);
	loop_change(l, &p->in, EPOLLIN);
}

/* The prober is there: now it is connected to. */
static int connect_back(struct loop *l, struct pong *p)
{
	struct probe_engine *engine = p->worker->engine;
	const char *device = engine->nic[p->nic].device;
	struct sock_addr from = engine->nic[p->nic].addr;
	bool is_local = probe_engine_nic(engine, &p->client) >= 0;
	struct sock_options options = { .device = device[0] && !is_local ? device : NULL };
	int fd;

	sock_addr_set_port(&from, 0);
	fd = sock_connect_start(&p->client, &from, &options, NULL);
	if (fd < 0)
		return fd;
	data_socket(fd);
	if (loop_add(l, &p->out, fd, EPOLLOUT, pong_out_ready, NULL)) {
		close(fd);
		p->out.fd = -1;
		return -ENOMEM;
	}
	return 0;
}

static void pong_door_ready(struct loop *l, struct loop_fd *source, uint32_t events)
{
	struct pong *p = container_of(source, struct pong, door.io);
	struct sock_addr peer;
	int fd = listener_accept(l, &p->door, &peer);

	(void)events;
	if (fd < 0)
		return;
	if (!sock_addr_same_host(&peer, &p->client)) {
		close(fd);
		return;
	}
	answer_keepalive(fd);
	if (loop_add(l, &p->in, fd, 0, pong_in_ready, NULL)) {
		close(fd);
		p->in.fd = -1;
		pong_close(p);
		return;
	}
	close_end(l, &p->door.io);
	if (connect_back(l, p))
		pong_close(p);
}

static void pong_late(struct loop *l, struct loop_timer *timer)
{
	(void)l;
	pong_close(container_of(timer, struct pong, patience));
}

void pong_begin(struct pong *p)
{
	struct worker *w = p->worker;
	int fd = p->door.io.fd;

	list_add(&w->pongs, &p->link);
	loop_timer_set(&w->loop, &p->patience, p->deadline_ns, pong_late);
	if (loop_add(&w->loop, &p->door.io, fd, EPOLLIN, pong_door_ready, NULL))
		pong_close(p);
}

void pong_drop(struct pong *p)
{
	p->worker->engine->answering[p->nic]--;
	close(p->door.io.fd);
	free(p);
}

static int open_door(struct pong *p, uint16_t *port, struct err *e)
{
	struct sock_listen how = { .backlog = 4 };
	struct sock_addr addr = p->worker->engine->nic[p->nic].addr;

	sock_addr_set_port(&addr, 0);
	p->door.io.fd = sock_listen(&addr, &how, e);
	if (p->door.io.fd < 0)
		return p->door.io.fd;
	sock_local(p->door.io.fd, &addr);
	*port = sock_addr_port(&addr);
	return 0;
}

int probe_engine_pong(struct probe_engine *engine, const struct sock_addr *client,
	const struct sock_addr *server, uint64_t deadline_ns, uint16_t *port, struct err *e)
{
	int nic = probe_engine_nic(engine, server), ret;
	uint32_t limit = engine->config.connections_per_nic;
	char text[SOCK_ADDR_TEXT];
	struct pong *p;

	if (nic < 0)
		return err_set(e, EADDRNOTAVAIL, "%s is no NIC of this agent",
			sock_addr_text(server, false, text));
	if (limit && engine->answering[nic] >= limit)
		return err_set(e, EUSERS, "%s answers as many connections as it may",
			sock_addr_text(server, false, text));
	p = calloc(1, sizeof(*p));
	if (!p)
		return err_set(e, ENOMEM, "no memory for a connection");
	list_init(&p->link);
	p->worker = &engine->worker[worker_of_nic((size_t)nic)];
	p->nic = (size_t)nic;
	p->client = *client;
	p->in.fd = p->out.fd = -1;
	p->deadline_ns = clock_ns() + PROBE_SET_UP_NS;
	if (deadline_ns < p->deadline_ns)
		p->deadline_ns = deadline_ns;
	ret = open_door(p, port, e);
	if (ret) {
		free(p);
		return ret;
	}
	engine->answering[nic]++;
	if (worker_order(p->worker, &(struct order){ .kind = ORDER_PONG, .pong = p })) {
		pong_drop(p);
		return err_set(e, ENOMEM, "no memory for a connection");
	}
	return 0;
}
