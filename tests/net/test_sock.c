/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "net/sock.h"
#include "pair.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static uint64_t in_ms(uint64_t ms)
{
	return clock_ns() + ms * NS_PER_MS;
}

/* Addresses */

static struct sock_addr address(const char *host, uint16_t port)
{
	struct sock_addr addr = { 0 };
	struct sockaddr_in6 *in6 = (void *)&addr.storage;
	struct sockaddr_in *in4 = (void *)&addr.storage;

	if (strchr(host, ':')) {
		in6->sin6_family = AF_INET6;
		addr.len = sizeof(*in6);
		assert_int_equal(inet_pton(AF_INET6, host, &in6->sin6_addr), 1);
	} else {
		in4->sin_family = AF_INET;
		addr.len = sizeof(*in4);
		assert_int_equal(inet_pton(AF_INET, host, &in4->sin_addr), 1);
	}
	sock_addr_set_port(&addr, port);
	return addr;
}

static void test_sock_address_text_is_as_people_write_it(void **state)
{
	static const struct {
		const char *host, *with_port, *without;
	} cases[] = {
		{ "10.0.0.1", "10.0.0.1:12866", "10.0.0.1" },
		{ "::1", "[::1]:12866", "::1" },
		{ "fe80::1234:5678:9abc:def0", "[fe80::1234:5678:9abc:def0]:12866",
			"fe80::1234:5678:9abc:def0" },
		{ "1111:2222:3333:4444:5555:6666:7777:8888",
			"[1111:2222:3333:4444:5555:6666:7777:8888]:12866",
			"1111:2222:3333:4444:5555:6666:7777:8888" },
		{ "::ffff:10.0.0.1", "10.0.0.1:12866", "10.0.0.1" },
	};
	char text[SOCK_ADDR_TEXT];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct sock_addr addr = address(cases[i].host, 12866);

		assert_string_equal(sock_addr_text(&addr, true, text), cases[i].with_port);
		assert_string_equal(sock_addr_text(&addr, false, text), cases[i].without);
		assert_int_equal(sock_addr_port(&addr), 12866);
	}
}

static void test_sock_same_host_ignores_ports_and_mapping(void **state)
{
	static const struct {
		const char *a, *b;
		bool same;
	} cases[] = {
		{ "10.0.0.1", "10.0.0.1", true },
		{ "10.0.0.1", "10.0.0.2", false },
		{ "::ffff:10.0.0.1", "10.0.0.1", true },
		{ "10.0.0.1", "::ffff:10.0.0.1", true },
		{ "::ffff:10.0.0.1", "::ffff:10.0.0.1", true },
		{ "::10.0.0.1", "10.0.0.1", false },
		{ "::1", "::1", true },
		{ "::1", "127.0.0.1", false },
		{ "fe80::1", "fe80::2", false },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct sock_addr a = address(cases[i].a, 1), b = address(cases[i].b, 2);

		if (sock_addr_same_host(&a, &b) != cases[i].same)
			fail_msg("%s and %s", cases[i].a, cases[i].b);
	}
}

static void test_sock_loopback_is_recognised_in_all_its_forms(void **state)
{
	static const struct {
		const char *host;
		bool loopback;
	} cases[] = {
		{ "127.0.0.1", true },
		{ "127.3.2.1", true },
		{ "::1", true },
		{ "::ffff:127.0.0.1", true },
		{ "128.0.0.1", false },
		{ "0.0.0.0", false },
		{ "::", false },
		{ "::ffff:10.0.0.1", false },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct sock_addr addr = address(cases[i].host, 1);

		if (sock_addr_is_loopback(&addr) != cases[i].loopback)
			fail_msg("%s", cases[i].host);
	}
}

static void test_sock_resolve_takes_addresses_and_families(void **state)
{
	struct sock_addr addr[SOCK_ADDRS];
	char text[SOCK_ADDR_TEXT];
	size_t count;
	struct err e;

	(void)state;
	assert_int_equal(sock_resolve("127.0.0.1", "12866", AF_UNSPEC, false, addr, &count, &e), 0);
	assert_int_equal(count, 1);
	assert_string_equal(sock_addr_text(&addr[0], true, text), "127.0.0.1:12866");
	assert_int_equal(sock_resolve("::1", "12866", AF_UNSPEC, false, addr, &count, &e), 0);
	assert_string_equal(sock_addr_text(&addr[0], true, text), "[::1]:12866");
	assert_int_equal(sock_resolve("::1", "12866", AF_INET, false, addr, &count, &e), -ENOENT);
	assert_int_equal(count, 0);
}

static void test_sock_resolve_without_a_host_is_loopback_or_any(void **state)
{
	struct sock_addr addr[SOCK_ADDRS];
	char text[SOCK_ADDR_TEXT];
	size_t count;
	struct err e;

	(void)state;
	assert_int_equal(sock_resolve(NULL, "80", AF_INET, false, addr, &count, &e), 0);
	assert_true(sock_addr_is_loopback(&addr[0]));
	assert_int_equal(sock_resolve(NULL, "80", AF_INET, true, addr, &count, &e), 0);
	assert_string_equal(sock_addr_text(&addr[0], true, text), "0.0.0.0:80");
	assert_int_equal(sock_resolve(NULL, "80", AF_INET6, true, addr, &count, &e), 0);
	assert_string_equal(sock_addr_text(&addr[0], true, text), "[::]:80");
}

static void test_sock_resolve_names_the_host_that_it_cannot_find(void **state)
{
	struct sock_addr addr[SOCK_ADDRS];
	size_t count = 7;
	struct err e;

	(void)state;
	assert_int_equal(
		sock_resolve("no.such.host.invalid", "80", AF_UNSPEC, false, addr, &count, &e),
		-ENOENT);
	assert_int_equal(count, 0);
	assert_non_null(strstr(e.what, "no.such.host.invalid"));
	assert_string_equal(e.hint, "check the name, or give the host's address in its place");
	assert_int_equal(
		sock_resolve("999.1.1.1", "80", AF_UNSPEC, false, addr, &count, NULL), -ENOENT);
}

/* Listening and connecting */

static void connect_over(int family)
{
	struct sock_addr local, peer;
	struct pair p;

	pair_open(&p, family, NULL);
	assert_int_equal(sock_local(p.client, &local), 0);
	assert_int_equal(sock_peer(p.server, &peer), 0);
	assert_int_equal(sock_addr_port(&local), sock_addr_port(&peer));
	assert_true(sock_addr_is_loopback(&peer));
	/* Close-on-exec, and waits where it is asked to. */
	assert_true(fcntl(p.client, F_GETFD) & FD_CLOEXEC);
	assert_false(fcntl(p.client, F_GETFL) & O_NONBLOCK);
	pair_close(&p);
}

static void test_sock_connects_over_both_families(void **state)
{
	(void)state;
	connect_over(AF_INET);
	connect_over(AF_INET6);
}

static void test_sock_connect_refused_names_the_address_and_leaves_no_descriptor(void **state)
{
	int before = descriptors_open(), listener;
	char text[SOCK_ADDR_TEXT];
	struct sock_addr addr;
	struct err e;

	(void)state;
	listener = pair_listen(AF_INET, &addr);
	close(listener);
	assert_int_equal(sock_connect(&addr, NULL, NULL, in_ms(5000), &e), -ECONNREFUSED);
	assert_non_null(strstr(e.what, sock_addr_text(&addr, true, text)));
	assert_int_equal(descriptors_open(), before);
}

/* A listener whose queue is full drops what comes: the connection never completes. */
static void test_sock_connect_gives_up_at_its_deadline(void **state)
{
	struct sock_listen how = { .backlog = 0 };
	int before = descriptors_open(), waiting[8], listener, fd = -1;
	struct sock_addr addr = address("127.0.0.1", 0);
	uint64_t begin_ns;
	struct err e;

	(void)state;
	listener = sock_listen(&addr, &how, &e);
	assert_true(listener >= 0);
	assert_int_equal(sock_local(listener, &addr), 0);
	for (size_t i = 0; i < COUNT(waiting); i++)
		waiting[i] = sock_connect_start(&addr, NULL, NULL, &e);
	begin_ns = clock_ns();
	fd = sock_connect(&addr, NULL, NULL, in_ms(150), &e);
	assert_int_equal(fd, -ETIMEDOUT);
	assert_int_equal(e.code, ETIMEDOUT);
	assert_true(clock_ns() - begin_ns >= 150 * NS_PER_MS);
	assert_true(clock_ns() - begin_ns < 3 * NS_PER_S);
	for (size_t i = 0; i < COUNT(waiting); i++)
		close(waiting[i]);
	close(listener);
	assert_int_equal(descriptors_open(), before);
}

static void test_sock_listen_says_when_the_port_is_taken(void **state)
{
	struct sock_listen how = { .backlog = 1 };
	int before = descriptors_open(), listener;
	char text[SOCK_ADDR_TEXT];
	struct sock_addr addr;
	struct err e;

	(void)state;
	listener = pair_listen(AF_INET, &addr);
	assert_int_equal(sock_listen(&addr, &how, &e), -EADDRINUSE);
	assert_non_null(strstr(e.what, sock_addr_text(&addr, true, text)));
	assert_non_null(strstr(e.hint, "choose another port"));
	assert_null(strstr(e.hint, "with"));
	how.port_option = "--port";
	assert_int_equal(sock_listen(&addr, &how, &e), -EADDRINUSE);
	assert_non_null(strstr(e.hint, "choose another port with --port"));
	close(listener);
	assert_int_equal(descriptors_open(), before);
}

static void test_sock_listen_shares_a_port_when_asked(void **state)
{
	struct sock_listen how = { .backlog = 1, .share_port = true };
	struct sock_addr addr = address("127.0.0.1", 0);
	struct err e;
	int a, b;

	(void)state;
	a = sock_listen(&addr, &how, &e);
	assert_true(a >= 0);
	assert_int_equal(sock_local(a, &addr), 0);
	b = sock_listen(&addr, &how, &e);
	assert_true(b >= 0);
	close(a);
	close(b);
}

static void test_sock_listen_refuses_an_address_of_another_host_unless_freebind(void **state)
{
	struct sock_listen how = { .backlog = 1 };
	struct sock_addr addr = address("203.0.113.7", 0);
	struct err e;
	int fd;

	(void)state;
	assert_int_equal(sock_listen(&addr, &how, &e), -EADDRNOTAVAIL);
	assert_non_null(strstr(e.hint, "is 203.0.113.7 an address of this host?"));
	how.freebind = true;
	fd = sock_listen(&addr, &how, &e);
	assert_true(fd >= 0);
	close(fd);
}

static void test_sock_listen_says_what_a_low_port_needs(void **state)
{
	struct sock_listen how = { .backlog = 1, .port_option = "--control-port" };
	struct sock_addr addr = address("127.0.0.1", 81);
	bool root = !geteuid();
	struct err e;
	int fd;

	(void)state;
	if (root)
		assert_int_equal(seteuid(65534), 0);
	fd = sock_listen(&addr, &how, &e);
	if (root)
		assert_int_equal(seteuid(0), 0);
	if (fd != -EACCES) {
		close(fd);
		skip(); /* the machine gives these ports to all */
	}
	assert_string_equal(e.hint,
		"a port below 1024 needs CAP_NET_BIND_SERVICE: choose another with --control-port");
}

static void test_sock_listen_says_how_to_find_an_interface(void **state)
{
	struct sock_listen how = { .backlog = 1, .device = "nope0" };
	struct sock_addr addr = address("127.0.0.1", 0);
	struct err e;

	(void)state;
	assert_int_equal(sock_listen(&addr, &how, &e), -ENODEV);
	assert_string_equal(e.hint, "list the interfaces with: weir nic show");
}

static void test_sock_connect_leaves_from_the_address_and_port_given(void **state)
{
	struct sock_addr addr, from = address("127.0.0.9", 0), local;
	int listener = pair_listen(AF_INET, &addr), fd;
	struct err e;
	uint16_t port;

	(void)state;
	fd = sock_connect(&addr, &from, NULL, in_ms(5000), &e);
	assert_true(fd >= 0);
	assert_int_equal(sock_local(fd, &local), 0);
	assert_true(sock_addr_same_host(&local, &from));
	port = sock_addr_port(&local);
	close(fd);
	sock_addr_set_port(&from, (uint16_t)(port ^ 1));
	fd = sock_connect(&addr, &from, NULL, in_ms(5000), &e);
	assert_true(fd >= 0);
	assert_int_equal(sock_local(fd, &local), 0);
	assert_int_equal(sock_addr_port(&local), port ^ 1);
	close(fd);
	close(listener);
}

static void test_sock_connect_says_when_the_source_is_not_ours(void **state)
{
	struct sock_addr addr, from = address("203.0.113.7", 0);
	int listener = pair_listen(AF_INET, &addr), before = descriptors_open();
	struct err e;

	(void)state;
	assert_int_equal(sock_connect(&addr, &from, NULL, in_ms(1000), &e), -EADDRNOTAVAIL);
	assert_non_null(strstr(e.what, "203.0.113.7"));
	assert_non_null(strstr(e.hint, "ip address show"));
	assert_int_equal(descriptors_open(), before);
	close(listener);
}

static int get_int(int fd, int level, int name)
{
	socklen_t len = sizeof(int);
	int value = -1;

	assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
	return value;
}

static void test_sock_options_reach_the_kernel(void **state)
{
	struct sock_options options = { .reuse_address = true,
		.no_delay = true,
		.zerocopy = true,
		.reset_on_close = true,
		.max_pacing_rate = 5000000000,
		.congestion_control = "reno" };
	struct linger linger;
	socklen_t len = sizeof(linger);
	uint64_t rate = 0;
	struct pair p;

	(void)state;
	pair_open(&p, AF_INET, &options);
	assert_int_equal(get_int(p.client, SOL_SOCKET, SO_REUSEADDR), 1);
	assert_int_equal(get_int(p.client, IPPROTO_TCP, TCP_NODELAY), 1);
	assert_int_equal(get_int(p.client, SOL_SOCKET, SO_ZEROCOPY), 1);
	assert_int_equal(getsockopt(p.client, SOL_SOCKET, SO_LINGER, &linger, &len), 0);
	assert_int_equal(linger.l_onoff, 1);
	assert_int_equal(linger.l_linger, 0);
	len = sizeof(rate);
	assert_int_equal(getsockopt(p.client, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &len), 0);
	assert_int_equal(rate, 5000000000);
	pair_close(&p);
}

static void test_sock_an_option_that_the_kernel_refuses_is_named(void **state)
{
	struct sock_options options = { .congestion_control = "no-such-thing" };
	struct sock_addr addr;
	int listener = pair_listen(AF_INET, &addr), before = descriptors_open();
	struct err e;

	(void)state;
	assert_int_equal(sock_connect(&addr, NULL, &options, in_ms(1000), &e), -ENOENT);
	assert_non_null(strstr(e.what, "no-such-thing"));
	assert_non_null(strstr(e.hint, "tcp_available_congestion_control"));
	assert_int_equal(descriptors_open(), before);
	close(listener);
}

/* Waiting, sending and receiving whole messages */

static void test_sock_wait_tells_which_of_two_is_ready(void **state)
{
	struct pair a, b;
	uint64_t begin_ns = clock_ns();

	(void)state;
	pair_open(&a, AF_INET, NULL);
	pair_open(&b, AF_INET, NULL);
	assert_int_equal(sock_wait(a.server, POLLIN, b.server, in_ms(30)), -ETIMEDOUT);
	assert_true(clock_ns() - begin_ns >= 30 * NS_PER_MS);
	assert_int_equal(write(b.client, "x", 1), 1);
	assert_int_equal(sock_wait(a.server, POLLIN, b.server, in_ms(1000)), 2);
	assert_int_equal(write(a.client, "x", 1), 1);
	assert_int_equal(sock_wait(a.server, POLLIN, b.server, in_ms(1000)), 1);
	assert_int_equal(sock_wait(a.server, POLLIN, -1, in_ms(1000)), 1);
	/* A deadline that has passed still looks once. */
	assert_int_equal(sock_wait(a.server, POLLIN, -1, 1), 1);
	pair_close(&a);
	pair_close(&b);
}

static void test_sock_recv_all_gathers_what_comes_in_parts(void **state)
{
	char got[8] = { 0 };
	size_t received = 0;
	struct pair p;
	struct err e;

	(void)state;
	pair_open(&p, AF_INET, NULL);
	assert_int_equal(write(p.client, "weir", 4), 4);
	assert_int_equal(sock_recv_all(p.server, got, 0, in_ms(1000), &received, &e), 0);
	assert_int_equal(received, 0);
	assert_int_equal(sock_recv_all(p.server, got, 4, in_ms(1000), &received, &e), 0);
	assert_int_equal(received, 4);
	assert_string_equal(got, "weir");
	pair_close(&p);
}

static void test_sock_recv_all_times_out_and_says_how_much_had_come(void **state)
{
	uint64_t begin_ns = clock_ns();
	size_t received = 99;
	char got[8];
	struct pair p;
	struct err e;

	(void)state;
	pair_open(&p, AF_INET, NULL);
	assert_int_equal(write(p.client, "wei", 3), 3);
	assert_int_equal(sock_recv_all(p.server, got, 8, in_ms(50), &received, &e), -ETIMEDOUT);
	assert_int_equal(e.code, ETIMEDOUT);
	assert_int_equal(received, 3);
	assert_true(clock_ns() - begin_ns >= 50 * NS_PER_MS);
	assert_int_equal(sock_recv_all(p.server, got, 8, 0, NULL, NULL), -ETIMEDOUT);
	pair_close(&p);
}

/* A peer that sends a byte now and then must not stretch the deadline. */
static void *drip(void *argument)
{
	const int *fd = argument;

	for (int i = 0; i < 60; i++) {
		usleep(5000);
		if (send(*fd, "x", 1, MSG_NOSIGNAL) < 0)
			break;
	}
	return NULL;
}

static void test_sock_recv_all_keeps_its_deadline_while_bytes_drip_in(void **state)
{
	uint64_t begin_ns = clock_ns();
	pthread_t thread;
	char got[1000];
	struct pair p;
	struct err e;

	(void)state;
	pair_open(&p, AF_INET, NULL);
	assert_int_equal(pthread_create(&thread, NULL, drip, &p.client), 0);
	assert_int_equal(
		sock_recv_all(p.server, got, sizeof(got), in_ms(60), NULL, &e), -ETIMEDOUT);
	assert_true(clock_ns() - begin_ns < 250 * NS_PER_MS);
	close(p.server);
	p.server = -1;
	pthread_join(thread, NULL);
	pair_close(&p);
}

static void test_sock_recv_all_tells_a_close_from_a_reset(void **state)
{
	struct linger reset = { .l_onoff = 1 };
	size_t received;
	char got[8];
	struct pair p;
	struct err e;

	(void)state;
	pair_open(&p, AF_INET, NULL);
	assert_int_equal(write(p.client, "we", 2), 2);
	close(p.client);
	p.client = -1;
	assert_int_equal(sock_recv_all(p.server, got, 8, in_ms(1000), &received, &e), -EPIPE);
	assert_int_equal(received, 2);
	assert_non_null(strstr(e.what, "closed"));
	pair_close(&p);

	pair_open(&p, AF_INET, NULL);
	setsockopt(p.client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(p.client);
	p.client = -1;
	assert_int_equal(sock_recv_all(p.server, got, 8, in_ms(1000), &received, &e), -ECONNRESET);
	assert_int_equal(received, 0);
	pair_close(&p);
}

static void test_sock_recv_all_from_what_is_no_socket_sets_the_words(void **state)
{
	struct err e = { 0 };
	char got[8];

	(void)state;
	assert_int_equal(sock_recv_all(-1, got, 8, in_ms(50), NULL, &e), -EBADF);
	assert_int_equal(e.code, EBADF);
	assert_int_not_equal(e.what[0], 0);
}

struct reader {
	int fd;
	size_t bytes;
	uint64_t sum;
};

static void *read_slowly(void *argument)
{
	struct reader *r = argument;
	unsigned char part[4096];
	ssize_t n;

	while ((n = read(r->fd, part, sizeof(part))) > 0) {
		for (ssize_t i = 0; i < n; i++)
			r->sum += part[i];
		r->bytes += (size_t)n;
	}
	return NULL;
}

static void test_sock_send_all_sends_more_than_the_buffers_hold(void **state)
{
	size_t length = 8 << 20;
	unsigned char *data = malloc(length);
	struct reader r = { 0 };
	uint64_t sum = 0;
	pthread_t thread;
	struct pair p;
	struct err e;

	(void)state;
	for (size_t i = 0; i < length; i++)
		sum += data[i] = (unsigned char)(i * 7);
	pair_open(&p, AF_INET, NULL);
	r.fd = p.server;
	assert_int_equal(pthread_create(&thread, NULL, read_slowly, &r), 0);
	assert_int_equal(sock_send_all(p.client, data, length, in_ms(20000), &e), 0);
	close(p.client);
	p.client = -1;
	pthread_join(thread, NULL);
	assert_int_equal(r.bytes, length);
	assert_int_equal(r.sum, sum);
	pair_close(&p);
	free(data);
}

static void test_sock_send_all_gives_up_on_a_peer_that_does_not_read(void **state)
{
	size_t length = 64 << 20;
	char *data = calloc(1, length);
	uint64_t begin_ns;
	struct pair p;
	struct err e;

	(void)state;
	pair_open(&p, AF_INET, NULL);
	begin_ns = clock_ns();
	assert_int_equal(sock_send_all(p.client, data, length, in_ms(100), &e), -ETIMEDOUT);
	assert_non_null(strstr(e.what, "does not read"));
	assert_true(clock_ns() - begin_ns < 5 * NS_PER_S);
	pair_close(&p);
	free(data);
}

static void test_sock_send_all_to_a_closed_peer_fails_without_a_signal(void **state)
{
	char data[65536] = { 0 };
	struct pair p;
	struct err e;
	int ret = 0;

	(void)state;
	pair_open(&p, AF_INET, NULL);
	close(p.server);
	p.server = -1;
	for (int i = 0; i < 100 && !ret; i++)
		ret = sock_send_all(p.client, data, sizeof(data), in_ms(1000), &e);
	assert_true(ret == -EPIPE || ret == -ECONNRESET);
	assert_int_equal(e.code, -ret);
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sock_address_text_is_as_people_write_it),
		cmocka_unit_test(test_sock_same_host_ignores_ports_and_mapping),
		cmocka_unit_test(test_sock_loopback_is_recognised_in_all_its_forms),
		cmocka_unit_test(test_sock_resolve_takes_addresses_and_families),
		cmocka_unit_test(test_sock_resolve_without_a_host_is_loopback_or_any),
		cmocka_unit_test(test_sock_resolve_names_the_host_that_it_cannot_find),
		cmocka_unit_test(test_sock_connects_over_both_families),
		cmocka_unit_test(
			test_sock_connect_refused_names_the_address_and_leaves_no_descriptor),
		cmocka_unit_test(test_sock_connect_gives_up_at_its_deadline),
		cmocka_unit_test(test_sock_listen_says_when_the_port_is_taken),
		cmocka_unit_test(test_sock_listen_shares_a_port_when_asked),
		cmocka_unit_test(
			test_sock_listen_refuses_an_address_of_another_host_unless_freebind),
		cmocka_unit_test(test_sock_listen_says_what_a_low_port_needs),
		cmocka_unit_test(test_sock_listen_says_how_to_find_an_interface),
		cmocka_unit_test(test_sock_connect_leaves_from_the_address_and_port_given),
		cmocka_unit_test(test_sock_connect_says_when_the_source_is_not_ours),
		cmocka_unit_test(test_sock_options_reach_the_kernel),
		cmocka_unit_test(test_sock_an_option_that_the_kernel_refuses_is_named),
		cmocka_unit_test(test_sock_wait_tells_which_of_two_is_ready),
		cmocka_unit_test(test_sock_recv_all_gathers_what_comes_in_parts),
		cmocka_unit_test(test_sock_recv_all_times_out_and_says_how_much_had_come),
		cmocka_unit_test(test_sock_recv_all_keeps_its_deadline_while_bytes_drip_in),
		cmocka_unit_test(test_sock_recv_all_tells_a_close_from_a_reset),
		cmocka_unit_test(test_sock_recv_all_from_what_is_no_socket_sets_the_words),
		cmocka_unit_test(test_sock_send_all_sends_more_than_the_buffers_hold),
		cmocka_unit_test(test_sock_send_all_gives_up_on_a_peer_that_does_not_read),
		cmocka_unit_test(test_sock_send_all_to_a_closed_peer_fails_without_a_signal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
