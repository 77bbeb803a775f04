// SPDX-License-Identifier: BSD-3-Clause
/* The transport alone, in host memory, over loopback, between two processes: how fast long messages go
 * and how long short ones take there and back. bench/transport runs it beside weir stream and weir rr.
 *
 *	transport stream BYTES COMMS WINDOW CONNECTIONS SECONDS	prints GB/s, as the receiver sees it
 *	transport rr BYTES SECONDS				prints us there and back, median and p99
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpus.h"
#include "base/hist.h"
#include "mem/region.h"
#include "net/tcp.h"

#define COMMS 64

static struct err e;
static struct net *n;
static int peer; /* a socket to the other process */

static void die(const char *what)
{
	fprintf(stderr, "transport: %s: %s\n", what, e.what);
	exit(1);
}

static void must(int ret, const char *what)
{
	if (ret)
		die(what);
}

static struct net_comm *receive_from(void)
{
	unsigned char handle[NET_HANDLE_BYTES];
	struct net_listener *l;
	struct net_comm *c = NULL;

	must(n->ops->listen(n, 0, handle, &l, &e), "listen");
	if (write(peer, handle, sizeof(handle)) != sizeof(handle))
		die("handle");
	while (!c)
		must(n->ops->accept(l, &c, &e), "accept");
	n->ops->close_listener(l);
	return c;
}

static struct net_comm *send_to(void)
{
	unsigned char handle[NET_HANDLE_BYTES];
	struct net_comm *c = NULL;

	if (recv(peer, handle, sizeof(handle), MSG_WAITALL) != sizeof(handle))
		die("handle");
	while (!c)
		must(n->ops->connect(n, 0, handle, &c, &e), "connect");
	return c;
}

static struct net_request *post(
	struct net_comm *c, bool sends, char *data, size_t bytes, struct net_memory *m)
{
	struct net_request *r;

	if (sends)
		must(n->ops->isend(c, data, bytes, m, &r, &e), "isend");
	else
		must(n->ops->irecv(c, data, bytes, m, &r, &e), "irecv");
	return r;
}

struct channel {
	struct net_comm *comm;
	struct region buffer;
	struct net_memory *memory;
	struct net_request *request[64];
	unsigned int head, tail;
};

static void channel_open(struct channel *h, bool sends, size_t bytes, unsigned int window)
{
	h->comm = sends ? send_to() : receive_from();
	must(region_alloc(&h->buffer, bytes * window, &e), "memory");
	must(n->ops->reg(h->comm, h->buffer.data, h->buffer.bytes, NET_HOST, &h->memory, &e),
		"reg");
}

/* Whether anything moved. */
static bool channel_turn(
	struct channel *h, bool sends, size_t bytes, unsigned int window, uint64_t *got)
{
	bool moved = false, done;
	size_t length;

	while (h->tail != h->head) {
		must(n->ops->test(h->comm, h->request[h->tail % window], &done, &length, &e),
			"test");
		if (!done)
			break;
		*got += length;
		h->tail++;
		moved = true;
	}
	while (h->head - h->tail < window) {
		struct net_request *r = post(h->comm, sends,
			h->buffer.data + h->head % window * bytes, bytes, h->memory);

		if (!r)
			break;
		h->request[h->head++ % window] = r;
		moved = true;
	}
	return moved;
}

static void stream(bool sends, size_t bytes, int comms, unsigned int window, double seconds)
{
	static struct channel channel[COMMS];
	uint64_t start_ns, warm_ns = NS_PER_S / 2, got = 0, end_ns;

	for (int i = 0; i < comms; i++)
		channel_open(&channel[i], sends, bytes, window);
	start_ns = clock_ns();
	end_ns = start_ns + warm_ns + (uint64_t)(seconds * NS_PER_S);
	for (bool warm = true; sends || clock_ns() < end_ns;) {
		bool moved = false;

		for (int i = 0; i < comms; i++)
			moved |= channel_turn(&channel[i], sends, bytes, window, &got);
		if (!moved)
			n->ops->wait(n, -1, 10 * NS_PER_MS);
		if (warm && clock_ns() - start_ns > warm_ns) {
			warm = false;
			start_ns = clock_ns();
			got = 0;
		}
	}
	printf("%.3f\n", (double)got / (double)(clock_ns() - start_ns));
}

static void wait_for(struct net_comm *c, struct net_request *r)
{
	bool done;

	for (;;) {
		must(n->ops->test(c, r, &done, NULL, &e), "test");
		if (done)
			return;
	}
}

static void rr(bool asks, size_t bytes, double seconds)
{
	struct net_comm *out = asks ? send_to() : NULL, *in = receive_from();
	struct region buffer;
	struct net_memory *out_memory, *in_memory;
	struct hist h;
	uint64_t end_ns;

	if (!asks)
		out = send_to();
	must(region_alloc(&buffer, 2 * bytes, &e), "memory");
	must(n->ops->reg(out, buffer.data, buffer.bytes, NET_HOST, &out_memory, &e), "reg");
	must(n->ops->reg(in, buffer.data, buffer.bytes, NET_HOST, &in_memory, &e), "reg");
	hist_init(&h);
	end_ns = clock_ns() + (uint64_t)(seconds * NS_PER_S);
	while (!asks || clock_ns() < end_ns) {
		struct net_request *answer = post(in, false, buffer.data + bytes, bytes, in_memory);
		uint64_t start_ns = clock_ns();

		if (asks)
			wait_for(out, post(out, true, buffer.data, bytes, out_memory));
		wait_for(in, answer);
		if (!asks)
			wait_for(out, post(out, true, buffer.data, bytes, out_memory));
		hist_record(&h, clock_ns() - start_ns);
	}
	printf("%.2f %.2f\n", hist_percentile(&h, 50) / 1e3, hist_percentile(&h, 99) / 1e3);
}

int main(int argc, char **argv)
{
	struct net_tcp_options o = { .interfaces = "lo" };
	bool is_stream = argc == 7 && !strcmp(argv[1], "stream");
	bool is_rr = argc == 4 && !strcmp(argv[1], "rr");
	int ends[2];
	pid_t child;
	bool first;

	if (!is_stream && !is_rr) {
		fprintf(stderr,
			"usage: transport stream BYTES COMMS WINDOW CONNECTIONS SECONDS | rr BYTES SECONDS\n");
		return 2;
	}
	if (is_stream)
		o.connections = atoi(argv[5]);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 1;
	child = fork();
	first = child > 0;
	peer = ends[!first];
	if (!first) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (!getenv("TOGETHER"))
			cpus_pin(1, NULL);
	} else if (!getenv("TOGETHER")) {
		cpus_pin(0, NULL);
	}
	must(net_tcp_open(&n, &o, &e), "open");
	if (is_stream)
		stream(!first, strtoul(argv[2], NULL, 0), atoi(argv[3]),
			(unsigned int)atoi(argv[4]), atof(argv[6]));
	else
		rr(first, strtoul(argv[2], NULL, 0), atof(argv[3]));
	if (first) {
		fflush(stdout);
		kill(child, SIGTERM);
		waitpid(child, NULL, 0);
	}
	return 0;
}
