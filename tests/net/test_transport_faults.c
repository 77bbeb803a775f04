// SPDX-License-Identifier: BSD-3-Clause
/* weir's own transport when things go wrong: every outstanding request fails in bounded time, and who is
 * not to blame goes on. */
#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "comms.h"
#include "net/tcp.h"
#include "net/tcp_wire.h"

static struct net *open_net(uint64_t stall_ns)
{
	struct net_tcp_options o = { .interfaces = "lo",
		.connections = 3,
		.threads = 2,
		.timeout_ns = 2 * NS_PER_S,
		.stall_ns = stall_ns };
	struct err e = { 0 };
	struct net *n;

	if (net_tcp_open(&n, &o, &e))
		fail_msg("%s", e.what);
	return n;
}

/* A process that sends for ever, and the end that receives from it. */
struct child {
	pid_t pid;
	struct net *n;
	struct comms p; /* the receiver only */
};

static void send_for_ever(int from, size_t bytes)
{
	unsigned char handle[NET_HANDLE_BYTES];
	struct net *n = open_net(0);
	struct net_comm *c = NULL;
	struct net_memory *m;
	char *data = calloc(1, bytes);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (recv(from, handle, sizeof(handle), MSG_WAITALL) != sizeof(handle) || !data)
		_exit(1);
	while (!c)
		if (n->ops->connect(n, 0, handle, &c, NULL))
			_exit(1);
	if (n->ops->reg(c, data, bytes, NET_HOST, &m, NULL))
		_exit(1);
	for (;;) {
		struct net_request *r;
		bool done = false;

		if (n->ops->isend(c, data, bytes, m, &r, NULL))
			_exit(0);
		while (r && !done)
			if (n->ops->test(c, r, &done, NULL, NULL))
				_exit(0);
	}
}

static void child_start(struct child *k, size_t bytes, uint64_t stall_ns)
{
	unsigned char handle[NET_HANDLE_BYTES];
	struct net_listener *l;
	struct err e = { 0 };
	int ends[2];

	memset(k, 0, sizeof(*k));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	k->pid = fork();
	if (!k->pid)
		send_for_ever(ends[1], bytes);
	k->n = open_net(stall_ns);
	k->p.n = k->n;
	assert_int_equal(k->n->ops->listen(k->n, 0, handle, &l, &e), 0);
	assert_int_equal(write(ends[0], handle, sizeof(handle)), sizeof(handle));
	while (!k->p.receiver)
		assert_int_equal(k->n->ops->accept(l, &k->p.receiver, &e), 0);
	k->n->ops->close_listener(l);
	close(ends[0]);
	close(ends[1]);
	k->p.bytes = COMMS_BYTES;
	k->p.in = calloc(1, COMMS_BYTES);
	assert_int_equal(
		k->n->ops->reg(k->p.receiver, k->p.in, COMMS_BYTES, NET_HOST, &k->p.in_memory, &e),
		0);
}

static void child_stop(struct child *k)
{
	kill(k->pid, SIGKILL);
	waitpid(k->pid, NULL, 0);
	k->n->ops->close_comm(k->p.receiver);
	free(k->p.in);
	k->n->ops->close(k->n);
}

static void receive_some(struct child *k, int count, size_t bytes)
{
	struct err e = { 0 };
	size_t got;

	for (int i = 0; i < count; i++) {
		struct net_request *r = comms_receive(&k->p, 0, 1 << 20);

		assert_int_equal(comms_finish(&k->p, k->p.receiver, r, &got, &e), 0);
		assert_int_equal(got, bytes);
	}
}

#define RECEIVES (int)(COMMS_BYTES >> 20) /* each has a place of its own */

static void expect_all_fail(struct child *k, int code)
{
	struct net_request *r[RECEIVES];
	struct err e = { 0 };
	int ret = 0;

	/* What was on the way may still arrive, as much as the kernel's buffers take; then comes the end. */
	for (int round = 0; !ret && round < 100; round++) {
		for (int i = 0; i < RECEIVES; i++) {
			if (k->n->ops->irecv(k->p.receiver, (char *)k->p.in + ((size_t)i << 20),
				    1 << 20, k->p.in_memory, &r[i], &e))
				return;
			assert_non_null(r[i]);
		}
		for (int i = 0; !ret && i < RECEIVES; i++)
			ret = comms_finish(&k->p, k->p.receiver, r[i], NULL, &e);
	}
	assert_int_equal(ret, code);
	for (int i = 0; i < RECEIVES; i++) {
		bool done;

		ret = k->n->ops->test(k->p.receiver, r[i], &done, NULL, &e);
		if (i)
			assert_true(ret == code || done || i < RECEIVES - 1);
	}
	assert_int_equal(ret, code);
	assert_true(e.what[0]);
}

static void a_killed_peer_fails_every_request(void **state)
{
	static const size_t sizes[] = { 1000, 1 << 20 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct err e = { 0 };
		struct child k;

		child_start(&k, sizes[i], 0);
		receive_some(&k, 10, sizes[i]);
		kill(k.pid, SIGKILL);
		waitpid(k.pid, NULL, 0);
		/* What the sockets held may still arrive. */
		for (int n = 0; !e.code; n++) {
			struct net_request *r;

			assert_true(n < 100000);
			if (!k.n->ops->irecv(k.p.receiver, k.p.in, 1 << 20, k.p.in_memory, &r, &e))
				comms_finish(&k.p, k.p.receiver, r, NULL, &e);
		}
		assert_true(e.code == ECONNRESET || e.code == EPIPE);
		child_stop(&k);
	}
}

static void a_stopped_peer_fails_requests_that_have_a_limit(void **state)
{
	struct child k;

	(void)state;
	child_start(&k, 1 << 20, NS_PER_S / 2);
	receive_some(&k, 10, 1 << 20);
	kill(k.pid, SIGSTOP);
	expect_all_fail(&k, -ETIMEDOUT);
	child_stop(&k);
}

/* The connected sockets of this process, which are the comm's at both ends. */
static int comm_sockets(int fd[8])
{
	struct sockaddr_in peer;
	int found = 0;

	for (int i = 3; i < 200 && found < 8; i++) {
		socklen_t len = sizeof(peer);

		if (!getpeername(i, (struct sockaddr *)&peer, &len) && peer.sin_family == AF_INET)
			fd[found++] = i;
	}
	return found;
}

static bool has_ended(int fd)
{
	struct pollfd set = { .fd = fd, .events = POLLRDHUP };

	return poll(&set, 1, 0) == 1 && set.revents & (POLLRDHUP | POLLHUP);
}

/* A hole in one of the connections, while nothing is sent and nobody asks: the sender hears of it, and ends them all. */
static void one_connection_cut_fails_the_comm(void **state)
{
	(void)state;
	for (int victim = 0; victim < 8; victim++) {
		struct net *n = open_net(0);
		uint64_t end_ns = clock_ns() + 30 * NS_PER_S;
		struct net_request *request;
		struct err e = { 0 };
		struct comms p;
		int fd[8], ret;

		comms_open(&p, n);
		assert_int_equal(comm_sockets(fd), 8);
		shutdown(fd[victim], SHUT_RDWR);
		for (int i = 0; i < 8; i++) {
			while (!has_ended(fd[i])) {
				assert_true(clock_ns() < end_ns);
				usleep(1000);
			}
		}
		ret = n->ops->isend(p.sender, p.out, 8 << 20, p.out_memory, &request, &e);
		if (!ret)
			ret = comms_finish(&p, p.sender, request, NULL, &e);
		assert_int_equal(ret, -ECONNRESET);
		request = comms_receive(&p, 0, 8 << 20);
		assert_int_not_equal(comms_finish(&p, p.receiver, request, NULL, &e), 0);
		assert_true(e.code == ECONNRESET || e.code == EPIPE);
		assert_int_not_equal(
			n->ops->irecv(p.receiver, p.in, 10, p.in_memory, &request, &e), 0);
		comms_close(&p);
		n->ops->close(n);
	}
}

static void a_message_that_is_too_long_is_an_error_at_both_ends(void **state)
{
	static const size_t sizes[] = { 2000, 2 << 20 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct net *n = open_net(0);
		struct net_request *receive, *send;
		struct err e = { 0 };
		struct comms p;
		int ret = 0;

		comms_open(&p, n);
		receive = comms_receive(&p, 0, sizes[i] - 1);
		send = comms_send(&p, 0, sizes[i]);
		assert_int_equal(comms_finish(&p, p.receiver, receive, NULL, &e), -EMSGSIZE);
		assert_non_null(strstr(e.what, "room for"));
		/* The sender may have handed it all over; it hears of it with one of the next. */
		for (int k = 0; k < 1000 && !ret && send; k++) {
			ret = comms_finish(&p, p.sender, send, NULL, &e);
			if (!ret)
				ret = n->ops->isend(
					p.sender, p.out, 2 << 20, p.out_memory, &send, &e);
		}
		assert_int_not_equal(ret, 0);
		comms_close(&p);
		n->ops->close(n);
	}
}

static void a_handle_of_garbage_is_refused(void **state)
{
	struct net *n = open_net(0);
	unsigned char handle[NET_HANDLE_BYTES];
	struct net_comm *c;
	struct err e = { 0 };

	(void)state;
	memset(handle, 0, sizeof(handle));
	assert_int_equal(n->ops->connect(n, 0, handle, &c, &e), -EINVAL);
	memset(handle, 0xff, sizeof(handle));
	assert_int_equal(n->ops->connect(n, 0, handle, &c, &e), -EINVAL);
	assert_null(c);
	n->ops->close(n);
}

static void a_handle_of_another_version_is_refused(void **state)
{
	struct net *n = open_net(0);
	unsigned char handle[NET_HANDLE_BYTES];
	struct net_listener *l;
	struct net_comm *c;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(n->ops->listen(n, 0, handle, &l, &e), 0);
	handle[4]++;
	assert_int_equal(n->ops->connect(n, 0, handle, &c, &e), -EPROTONOSUPPORT);
	assert_non_null(strstr(e.what, "version 2"));
	n->ops->close_listener(l);
	n->ops->close(n);
}

static void a_handle_whose_listener_is_gone_is_refused(void **state)
{
	struct net *n = open_net(0);
	unsigned char handle[NET_HANDLE_BYTES];
	struct net_comm *c = NULL;
	struct net_listener *l;
	struct err e = { 0 };
	int ret = 0;

	(void)state;
	assert_int_equal(n->ops->listen(n, 0, handle, &l, &e), 0);
	n->ops->close_listener(l);
	while (!ret && !c)
		ret = n->ops->connect(n, 0, handle, &c, &e);
	assert_int_equal(ret, -ECONNREFUSED);
	n->ops->close(n);
}

/* Strangers at the listener: a wrong token, another protocol, silence. Ours connects all the same. */
static void strangers_are_turned_away_and_harm_nobody(void **state)
{
	struct net *n = open_net(0);
	unsigned char handle[NET_HANDLE_BYTES], wrong[NET_HANDLE_BYTES];
	struct net_comm *stranger = NULL, *ours = NULL, *accepted = NULL;
	int fd[20], descriptors = descriptors_in_use();
	struct net_listener *l;
	struct tcp_handle h;
	struct err e = { 0 };
	char answer;

	(void)state;
	assert_int_equal(n->ops->listen(n, 0, handle, &l, &e), 0);
	memcpy(wrong, handle, sizeof(wrong));
	wrong[40] ^= 1;
	while (!stranger)
		assert_int_equal(n->ops->connect(n, 0, wrong, &stranger, &e), 0);
	assert_int_equal(tcp_handle_read(&h, handle, &e), 0);
	for (int i = 0; i < 20; i++) {
		fd[i] = sock_connect(&h.addr, NULL, NULL, clock_ns() + 30 * NS_PER_S, &e);
		assert_true(fd[i] >= 0);
		if (i < 10)
			assert_int_equal(
				send(fd[i], "GET / HTTP/1.1\r\nHost: a.example.net\r\n\r\n", 40, 0),
				40);
	}
	while (!ours || !accepted) {
		if (!ours)
			assert_int_equal(n->ops->connect(n, 0, handle, &ours, &e), 0);
		if (!accepted)
			assert_int_equal(n->ops->accept(l, &accepted, &e), 0);
	}
	assert_true(recv(fd[0], &answer, 1, 0) <= 0);
	{
		struct comms p = { .n = n, .sender = ours, .receiver = accepted };

		comms_register(&p, COMMS_BYTES);
		comms_carry(&p, 1 << 20, 3);
		comms_close(&p);
	}
	/* The stranger's own end hears of it, too. */
	{
		struct comms p = { .n = n, .sender = stranger };
		struct net_request *r;
		struct net_memory *m;
		char data[100] = "";
		int ret = 0;

		assert_int_equal(n->ops->accept(l, &accepted, &e), 0);
		assert_null(accepted);
		assert_int_equal(n->ops->reg(stranger, data, sizeof(data), NET_HOST, &m, &e), 0);
		for (int i = 0; !ret && i < 1000; i++) {
			ret = n->ops->isend(stranger, data, sizeof(data), m, &r, &e);
			if (!ret && r)
				ret = comms_finish(&p, stranger, r, NULL, &e);
			n->ops->wait(n, -1, NS_PER_MS);
		}
		assert_int_not_equal(ret, 0);
	}
	n->ops->close_comm(stranger);
	for (int i = 0; i < 20; i++)
		close(fd[i]);
	n->ops->close_listener(l);
	assert_int_equal(descriptors_in_use(), descriptors);
	n->ops->close(n);
}

/* A peer that knows the token and then breaks the protocol. */
static void a_peer_that_breaks_the_protocol_fails_its_comm_alone(void **state)
{
	static const struct tcp_header bad[] = {
		{ TCP_SLICE, 0, 100, 90, 20 },
		{ TCP_SLICE, 0, 1 << 20, 0, 1 << 20 },
		{ TCP_SHORT, 0, 100, 0, 100 },
		{ TCP_SLICE, 0xfffffff0u, 100000, 0, 100000 },
	};
	struct net *n = open_net(0);

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		unsigned char handle[NET_HANDLE_BYTES], bytes[TCP_HELLO_BYTES + TCP_HEADER_BYTES];
		struct tcp_hello hello = { .comm = 77, .lanes = 1 };
		struct comms p = { .n = n };
		struct net_request *r;
		struct net_listener *l;
		struct tcp_handle h;
		struct err e = { 0 };
		char room[4096];
		int fd[2], ret;

		assert_int_equal(n->ops->listen(n, 0, handle, &l, &e), 0);
		assert_int_equal(tcp_handle_read(&h, handle, &e), 0);
		memcpy(hello.token, h.token, sizeof(hello.token));
		for (int k = 0; k < 2; k++) {
			fd[k] = sock_connect(&h.addr, NULL, NULL, clock_ns() + 30 * NS_PER_S, &e);
			hello.index = k;
			tcp_hello_write(bytes, &hello);
			assert_int_equal(send(fd[k], bytes, TCP_HELLO_BYTES, 0), TCP_HELLO_BYTES);
		}
		while (!p.receiver)
			assert_int_equal(n->ops->accept(l, &p.receiver, &e), 0);
		assert_int_equal(
			n->ops->reg(p.receiver, room, sizeof(room), NET_HOST, &p.in_memory, &e), 0);
		assert_int_equal(
			n->ops->irecv(p.receiver, room, sizeof(room), p.in_memory, &r, &e), 0);
		tcp_header_write(bytes, &bad[i]);
		assert_int_equal(send(fd[1], bytes, TCP_HEADER_BYTES, 0), TCP_HEADER_BYTES);
		ret = comms_finish(&p, p.receiver, r, NULL, &e);
		assert_true(ret == -EPROTO || ret == -EMSGSIZE);
		n->ops->close_comm(p.receiver);
		n->ops->close_listener(l);
		close(fd[0]);
		close(fd[1]);
	}
	n->ops->close(n);
}

/* Some lanes carried nothing and are seen to end at once; the slices of the others wait for the receive. */
static void a_receive_posted_long_after_an_orderly_close_gets_its_message(void **state)
{
	struct net *n = open_net(0);
	struct net_request *send, *receive;
	struct err e = { 0 };
	struct comms p;
	size_t got;

	(void)state;
	comms_open(&p, n);
	memset(p.out, 9, 100000);
	send = comms_send(&p, 0, 100000);
	assert_int_equal(comms_finish(&p, p.sender, send, NULL, &e), 0);
	assert_int_equal(n->ops->dereg(p.sender, p.out_memory, &e), 0);
	p.out_memory = NULL;
	n->ops->close_comm(p.sender);
	p.sender = NULL;
	usleep(2200000); /* connections that end may be two seconds apart, no more */
	receive = comms_receive(&p, 0, 1 << 20);
	assert_int_equal(comms_finish(&p, p.receiver, receive, &got, &e), 0);
	assert_int_equal(got, 100000);
	assert_memory_equal(p.in, p.out, 100000);
	assert_int_equal(n->ops->dereg(p.receiver, p.in_memory, &e), 0);
	munmap(p.in, p.bytes);
	munmap(p.out, p.bytes);
	comms_close(&p);
	n->ops->close(n);
}

static void abandoned_connects_are_cleaned_up(void **state)
{
	int descriptors = descriptors_in_use();
	struct net *n = open_net(0);
	unsigned char handle[NET_HANDLE_BYTES], copy[NET_HANDLE_BYTES];
	struct net_comm *c[50];
	struct net_listener *l;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(n->ops->listen(n, 0, handle, &l, &e), 0);
	for (int i = 0; i < 50; i++) {
		memcpy(copy, handle, sizeof(copy));
		assert_int_equal(n->ops->connect(n, 0, copy, &c[i], &e), 0);
	}
	for (int i = 0; i < 50; i++)
		n->ops->close_comm(c[i]);
	n->ops->close_listener(l);
	n->ops->close(n);
	assert_int_equal(descriptors_in_use(), descriptors);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_killed_peer_fails_every_request),
		cmocka_unit_test(a_stopped_peer_fails_requests_that_have_a_limit),
		cmocka_unit_test(one_connection_cut_fails_the_comm),
		cmocka_unit_test(a_message_that_is_too_long_is_an_error_at_both_ends),
		cmocka_unit_test(a_handle_of_garbage_is_refused),
		cmocka_unit_test(a_handle_of_another_version_is_refused),
		cmocka_unit_test(a_handle_whose_listener_is_gone_is_refused),
		cmocka_unit_test(strangers_are_turned_away_and_harm_nobody),
		cmocka_unit_test(a_peer_that_breaks_the_protocol_fails_its_comm_alone),
		cmocka_unit_test(a_receive_posted_long_after_an_orderly_close_gets_its_message),
		cmocka_unit_test(abandoned_connects_are_cleaned_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
