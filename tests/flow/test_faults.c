/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes wrong between two ends: each gets a reason, neither hangs, nothing is left behind. */
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "ends.h"

static struct server_end server;
static struct seen client;
static struct held before;

static int setup(void **state)
{
	(void)state;
	before = ends_held();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ends_abandon(&server);
	return 0;
}

static void serve(enum workload w, const char *line)
{
	ends_serve(&server, w, line);
}

static void stop(void)
{
	assert_int_equal(ends_stop(&server), 0);
	ends_assert_held(&before);
}

static void assert_works(void)
{
	ends_client(&server, "-l 0.1 --warmup 0", &client);
	if (client.ret || !client.complete)
		fail_msg("the server does not serve: %s %s", client.e.what, client.error);
}

static void assert_fails(const char *line, int code, const char *words)
{
	uint64_t begin_ns = clock_ns();

	ends_client(&server, line, &client);
	if (client.ret != -code)
		fail_msg("%s: %d is not %d: %s", line, client.ret, -code, client.e.what);
	assert_int_equal(client.e.code, code);
	if (!strstr(client.e.what, words))
		fail_msg("%s: \"%s\" does not say \"%s\"", line, client.e.what, words);
	assert_true(clock_ns() - begin_ns < 5 * NS_PER_S);
}

static void test_client_without_a_server_is_refused_at_once(void **state)
{
	(void)state;
	serve(WORKLOAD_STREAM, "");
	assert_int_equal(ends_stop(&server), 0);
	assert_fails("--connect-timeout 0", ECONNREFUSED, "cannot connect to");
	assert_non_null(strstr(client.e.hint, "weir stream"));
	assert_int_equal(client.over, 0);
	ends_assert_held(&before);
}

static void test_client_with_an_unknown_host_names_it(void **state)
{
	(void)state;
	serve(WORKLOAD_STREAM, "");
	assert_fails("-H no.such.host.invalid", ENOENT, "no.such.host.invalid");
	assert_works();
	stop();
}

static void test_server_refuses_what_differs_and_says_both_values(void **state)
{
	(void)state;
	serve(WORKLOAD_RR, "-Q 100");
	assert_fails("-l 0.1 -Q 200", EPROTO, "--request-size");
	assert_non_null(strstr(client.e.what, "100"));
	assert_non_null(strstr(client.e.what, "200"));
	ends_client(&server, "-l 0.1 -Q 100", &client);
	assert_int_equal(client.ret, 0);
	stop();
}

static void test_server_refuses_buffers_larger_than_it_gives(void **state)
{
	(void)state;
	serve(WORKLOAD_STREAM, "");
	assert_fails("-l 0.1 -B 1G", EPROTO, "--buffer-size");
	assert_works();
	stop();
}

static void test_server_refuses_congestion_control_that_it_does_not_have(void **state)
{
	(void)state;
	serve(WORKLOAD_STREAM, "");
	assert_fails("-l 0.1 --congestion-control no-such-thing", ENOENT, "no-such-thing");
	assert_works();
	stop();
}

static void test_client_of_another_workload_is_told(void **state)
{
	struct server_end other;

	(void)state;
	serve(WORKLOAD_RR, "");
	other = server;
	other.workload = WORKLOAD_STREAM;
	ends_client(&other, "-l 0.1", &client);
	assert_int_equal(client.ret, -EPROTO);
	assert_non_null(strstr(client.e.hint, "another workload"));
	assert_works();
	stop();
}

static void test_protocols_that_exclude_each_other_are_refused(void **state)
{
	(void)state;
	serve(WORKLOAD_RR, "--protocol weir");
	ends_client(&server, "-l 0.1 --protocol neper", &client);
	assert_int_equal(client.ret, -EPROTO);
	assert_works();
	assert_int_equal(ends_stop(&server), 0);
	serve(WORKLOAD_RR, "--protocol neper");
	assert_fails("-l 0.1 --protocol weir", EPROTO, "protocol");
	stop();
}

static void test_server_survives_garbage_and_half_a_greeting(void **state)
{
	static const char garbage[200] = "GET / HTTP/1.1\r\n\r\n";
	char byte;
	int fd;

	(void)state;
	serve(WORKLOAD_RR, "");
	fd = ends_dial(&server);
	assert_int_equal(write(fd, garbage, sizeof(garbage)), sizeof(garbage));
	assert_true(read(fd, &byte, 1) <= 0);
	close(fd);
	fd = ends_dial(&server);
	assert_int_equal(write(fd, garbage, 40), 40);
	close(fd);
	fd = ends_dial(&server);
	close(fd);
	assert_works();
	stop();
}

/* HELLO from a weir, and then what follows. */
static int greet(enum workload w)
{
	struct neper_message hello = { .magic = 42,
		.type = NEPER_HELLO,
		.num_threads = 1,
		.num_flows = 1,
		.test_length = 1,
		.remote_rate = WIRE_MARK };
	struct neper_message ack;
	int fd = ends_dial(&server);

	memcpy(hello.secret, neper_secret[w], sizeof(hello.secret));
	assert_int_equal(neper_send(fd, &hello, clock_ns() + NS_PER_S, NULL), 0);
	assert_int_equal(neper_recv(fd, &ack, clock_ns() + 5 * NS_PER_S, NULL), 0);
	assert_int_equal(ack.type, NEPER_ACK);
	assert_int_equal(ack.remote_rate, WIRE_MARK);
	return fd;
}

static void assert_hangs_up(int fd)
{
	char bytes[4096];

	assert_true(sock_wait(fd, POLLIN, -1, clock_ns() + 5 * NS_PER_S) == 1);
	while (recv(fd, bytes, sizeof(bytes), 0) > 0)
		;
	close(fd);
}

static void test_server_hangs_up_on_a_client_that_talks_nonsense_later(void **state)
{
	static const char *const requests[] = { "nonsense", "num-flows=0\n", "interval=0\n" };
	int fd;

	(void)state;
	serve(WORKLOAD_STREAM, "");
	fd = greet(WORKLOAD_STREAM);
	assert_int_equal(write(fd, "\377\377\377\377\377\377\377\377", 8), 8);
	assert_hangs_up(fd);
	fd = greet(WORKLOAD_STREAM);
	assert_int_equal(wire_send(fd, WIRE_GO, "", 0, clock_ns() + NS_PER_S, NULL), 0);
	assert_hangs_up(fd);
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		struct wire_message m;

		fd = greet(WORKLOAD_STREAM);
		assert_int_equal(wire_send(fd, WIRE_REQUEST, requests[i], strlen(requests[i]),
					 clock_ns() + NS_PER_S, NULL),
			0);
		assert_int_equal(wire_recv(fd, &m, clock_ns() + 5 * NS_PER_S, NULL), 0);
		assert_int_equal(m.type, WIRE_REFUSE);
		wire_free(&m);
		assert_hangs_up(fd);
	}
	assert_works();
	stop();
}

static void test_server_is_freed_when_a_client_dies_at_any_step(void **state)
{
	int fd;

	(void)state;
	serve(WORKLOAD_STREAM, "");
	close(greet(WORKLOAD_STREAM));
	fd = greet(WORKLOAD_STREAM);
	assert_int_equal(
		wire_send(fd, WIRE_REQUEST, "num-flows=1\n", 12, clock_ns() + NS_PER_S, NULL), 0);
	close(fd);
	fd = greet(WORKLOAD_STREAM);
	assert_int_equal(
		wire_send(fd, WIRE_REQUEST, "num-flows=1\n", 12, clock_ns() + NS_PER_S, NULL), 0);
	assert_int_equal(wire_send(fd, WIRE_READY, "", 0, clock_ns() + NS_PER_S, NULL), 0);
	close(fd);
	assert_works();
	stop();
}

/* Two clients, and one that says nothing, at the same time. */
struct runner {
	pthread_t thread;
	struct seen seen;
	const char *line;
	int stop_fd;
};

static void *runner_main(void *argument)
{
	struct runner *r = argument;

	ends_client_stoppable(&server, r->line, r->stop_fd, &r->seen);
	return NULL;
}

static void test_server_serves_several_clients_at_once(void **state)
{
	struct runner r[3] = { 0 };
	int silent;

	(void)state;
	serve(WORKLOAD_RR, "");
	silent = ends_dial(&server);
	for (int i = 0; i < 3; i++) {
		r[i].line = i == 2 ? "-T 2 -F 4 -l -500" : "-T 2 -F 3 -l 0.4 --warmup 0";
		r[i].stop_fd = -1;
		assert_int_equal(pthread_create(&r[i].thread, NULL, runner_main, &r[i]), 0);
	}
	for (int i = 0; i < 3; i++) {
		pthread_join(r[i].thread, NULL);
		if (r[i].seen.ret || !r[i].seen.complete)
			fail_msg("%s %s", r[i].seen.e.what, r[i].seen.error);
		assert_true(r[i].seen.remote_valid);
		assert_int_equal(r[i].seen.remote_counts.transactions > 0, 1);
	}
	assert_int_equal(r[2].seen.counts.transactions, 500);
	assert_int_equal(r[2].seen.remote_counts.transactions, 500);
	close(silent);
	ends_await_over(&server, 3);
	stop();
}

static void test_server_takes_several_neper_clients_as_one_run(void **state)
{
	struct runner r[2] = { 0 };

	(void)state;
	serve(WORKLOAD_STREAM, "--num-clients 2 --once");
	for (int i = 0; i < 2; i++) {
		r[i].line = "--protocol neper -l 1 -F 2";
		r[i].stop_fd = -1;
		assert_int_equal(pthread_create(&r[i].thread, NULL, runner_main, &r[i]), 0);
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(r[i].thread, NULL);
		if (r[i].seen.ret || !r[i].seen.complete)
			fail_msg("%s %s", r[i].seen.e.what, r[i].seen.error);
	}
	assert_int_equal(ends_join(&server), 0);
	assert_int_equal(server.seen.over, 1);
	assert_int_equal(server.seen.flow_count, 4);
	ends_assert_held(&before);
}

static void test_once_ends_the_server_after_one_run(void **state)
{
	(void)state;
	serve(WORKLOAD_STREAM, "--once");
	ends_client(&server, "-l 0.2", &client);
	assert_int_equal(client.ret, 0);
	assert_int_equal(ends_join(&server), 0);
	assert_int_equal(server.seen.over, 1);
	ends_assert_held(&before);
}

/* Stopping */

static void stop_the_client_while_it_runs(const char *line)
{
	uint64_t one = 1, begin_ns = clock_ns();
	struct runner r = { .line = line };

	r.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_int_equal(pthread_create(&r.thread, NULL, runner_main, &r), 0);
	usleep(300000);
	assert_int_equal(write(r.stop_fd, &one, sizeof(one)), sizeof(one));
	pthread_join(r.thread, NULL);
	close(r.stop_fd);
	assert_true(clock_ns() - begin_ns < 5 * NS_PER_S);
	assert_int_equal(r.seen.over, 1);
	assert_true(r.seen.valid);
	assert_true(r.seen.interrupted);
}

static void test_client_that_is_stopped_reports_what_it_has(void **state)
{
	static const enum workload workloads[] = { WORKLOAD_STREAM, WORKLOAD_RR, WORKLOAD_CRR };

	(void)state;
	for (size_t i = 0; i < WORKLOADS; i++) {
		serve(workloads[i], "");
		stop_the_client_while_it_runs("-l 30 --warmup 0 -F 2");
		ends_await_over(&server, 1);
		assert_works();
		stop();
	}
}

static void stop_the_server_while_it_runs(const char *line)
{
	struct runner r = { .line = line, .stop_fd = -1 };
	uint64_t begin_ns = clock_ns();

	assert_int_equal(pthread_create(&r.thread, NULL, runner_main, &r), 0);
	usleep(300000);
	assert_int_equal(ends_stop(&server), 0);
	assert_true(clock_ns() - begin_ns < 5 * NS_PER_S);
	pthread_join(r.thread, NULL);
	assert_true(clock_ns() - begin_ns < 5 * NS_PER_S);
	assert_int_equal(r.seen.over, 1);
	assert_true(r.seen.valid);
	assert_false(r.seen.complete);
	assert_int_not_equal(r.seen.error[0], 0);
	ends_assert_held(&before);
}

static void test_server_that_is_stopped_frees_its_client(void **state)
{
	static const enum workload workloads[] = { WORKLOAD_STREAM, WORKLOAD_RR, WORKLOAD_CRR };

	(void)state;
	for (size_t i = 0; i < WORKLOADS; i++) {
		serve(workloads[i], "");
		stop_the_server_while_it_runs("-l 30 --warmup 0 -T 2 -F 4");
		serve(workloads[i], "");
		stop_the_server_while_it_runs("-l 30 --protocol neper -T 2 -F 4");
	}
}

static void test_server_that_is_stopped_drops_those_that_wait(void **state)
{
	struct sock_addr addr;
	int greeting, fd;

	(void)state;
	serve(WORKLOAD_STREAM, "");
	greeting = ends_dial(&server); /* says nothing */
	fd = greet(WORKLOAD_STREAM);   /* is in the middle of the handshake */
	assert_int_equal(
		wire_send(fd, WIRE_REQUEST, "num-flows=2\n", 12, clock_ns() + NS_PER_S, NULL), 0);
	/* and a data connection that does not say whose it is */
	assert_int_equal(sock_peer(fd, &addr), 0);
	sock_addr_set_port(&addr, (uint16_t)server.port);
	usleep(100000);
	{
		int data = sock_connect(&addr, NULL, NULL, clock_ns() + NS_PER_S, NULL);

		assert_true(data >= 0);
		assert_int_equal(write(data, "\367we", 3), 3);
		usleep(100000);
		assert_int_equal(ends_stop(&server), 0);
		close(data);
	}
	close(greeting);
	close(fd);
	ends_assert_held(&before);
}

static void test_server_without_a_port_says_so(void **state)
{
	struct endpoint_events events = { .stop_fd = -1 };
	struct end second;
	struct err e = { 0 };
	char line[64];

	(void)state;
	serve(WORKLOAD_STREAM, "");
	snprintf(line, sizeof(line), "-C %d -P %d", server.control_port, server.port + 1);
	second = given(WORKLOAD_STREAM, line);
	assert_int_equal(
		server_run(WORKLOAD_STREAM, &second.o, &second.given, &events, &e), -EADDRINUSE);
	assert_non_null(strstr(e.what, "cannot listen"));
	/* The data port alone is taken by somebody else. */
	snprintf(line, sizeof(line), "-C %d -P %d", server.port + 1, server.control_port);
	second = given(WORKLOAD_STREAM, line);
	assert_int_equal(
		server_run(WORKLOAD_STREAM, &second.o, &second.given, &events, &e), -EADDRINUSE);
	assert_works();
	stop();
}

/* A server of our own that speaks neper's protocol and treats its flows as it likes. */
struct fake {
	int listener, data_listener, control;
	int data[2];
};

static void fake_open(struct fake *f)
{
	struct sock_addr addr = { .len = sizeof(struct sockaddr_in) };
	struct sock_listen how = { .backlog = 4 };

	memset(&server, 0, sizeof(server));
	server.workload = WORKLOAD_RR;
	server.stop_fd = -1;
	addr.storage.ss_family = AF_INET;
	f->listener = sock_listen(&addr, &how, NULL);
	f->data_listener = sock_listen(&addr, &how, NULL);
	assert_true(f->listener >= 0 && f->data_listener >= 0);
	assert_int_equal(sock_local(f->listener, &addr), 0);
	server.control_port = sock_addr_port(&addr);
	assert_int_equal(sock_local(f->data_listener, &addr), 0);
	server.port = sock_addr_port(&addr);
}

static int fake_accept(int listener)
{
	int fd;

	assert_int_equal(sock_wait(listener, POLLIN, -1, clock_ns() + 5 * NS_PER_S), 1);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

/* Greet a client and take its flows. */
static void fake_accept_all(struct fake *f, int flows)
{
	struct neper_message m;

	f->control = fake_accept(f->listener);
	assert_int_equal(neper_recv(f->control, &m, clock_ns() + 5 * NS_PER_S, NULL), 0);
	m = (struct neper_message){ .magic = 42, .type = NEPER_ACK };
	assert_int_equal(neper_send(f->control, &m, clock_ns() + NS_PER_S, NULL), 0);
	for (int i = 0; i < flows; i++)
		f->data[i] = fake_accept(f->data_listener);
}

/* The client says DONE, and gets its BYE. false: it does not within seconds. */
static bool fake_close(struct fake *f)
{
	struct neper_message m;
	bool done = !neper_recv(f->control, &m, clock_ns() + 4 * NS_PER_S, NULL);

	if (done) {
		m = (struct neper_message){ .magic = 42, .type = NEPER_BYE };
		neper_send(f->control, &m, clock_ns() + NS_PER_S, NULL);
	}
	close(f->control);
	close(f->listener);
	close(f->data_listener);
	return done;
}

static void assert_broken(const struct runner *r, uint64_t begin_ns)
{
	assert_true(clock_ns() - begin_ns < 6 * NS_PER_S);
	assert_true(r->seen.ret || r->seen.error[0]);
	assert_false(r->seen.complete);
	ends_assert_held(&before);
}

/* A client whose flows all end has nothing more to measure. */
static void test_client_whose_flows_all_break_does_not_wait_for_the_end(void **state)
{
	struct runner r = { .line = "--protocol neper -l 20 -H 127.0.0.1", .stop_fd = -1 };
	uint64_t begin_ns = clock_ns();
	struct fake f;
	bool ended;

	(void)state;
	fake_open(&f);
	assert_int_equal(pthread_create(&r.thread, NULL, runner_main, &r), 0);
	fake_accept_all(&f, 1);
	usleep(200000);
	close(f.data[0]);
	ended = fake_close(&f);
	pthread_join(r.thread, NULL);
	assert_true(ended);
	assert_broken(&r, begin_ns);
}

static void *echo(void *argument)
{
	const int *fd = argument;
	char byte;

	while (recv(*fd, &byte, 1, 0) == 1)
		if (send(*fd, &byte, 1, MSG_NOSIGNAL) != 1)
			break;
	return NULL;
}

/* The transaction that a broken flow had begun never ends: the others must not wait for it. */
static void test_client_that_counts_transactions_ends_although_a_flow_broke(void **state)
{
	struct runner r = { .line = "--protocol neper -l -1000 -F 2 -H 127.0.0.1", .stop_fd = -1 };
	uint64_t begin_ns = clock_ns();
	pthread_t echoing;
	struct fake f;
	bool ended;

	(void)state;
	fake_open(&f);
	assert_int_equal(pthread_create(&r.thread, NULL, runner_main, &r), 0);
	fake_accept_all(&f, 2);
	assert_int_equal(pthread_create(&echoing, NULL, echo, &f.data[0]), 0);
	assert_int_equal(sock_wait(f.data[1], POLLIN, -1, clock_ns() + 5 * NS_PER_S), 1);
	close(f.data[1]);
	ended = fake_close(&f);
	shutdown(f.data[0], SHUT_RDWR);
	pthread_join(echoing, NULL);
	close(f.data[0]);
	pthread_join(r.thread, NULL);
	assert_true(ended);
	assert_broken(&r, begin_ns);
}

#define RUN_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_TEST(test_client_without_a_server_is_refused_at_once),
		RUN_TEST(test_client_with_an_unknown_host_names_it),
		RUN_TEST(test_server_refuses_what_differs_and_says_both_values),
		RUN_TEST(test_server_refuses_buffers_larger_than_it_gives),
		RUN_TEST(test_server_refuses_congestion_control_that_it_does_not_have),
		RUN_TEST(test_client_of_another_workload_is_told),
		RUN_TEST(test_protocols_that_exclude_each_other_are_refused),
		RUN_TEST(test_server_survives_garbage_and_half_a_greeting),
		RUN_TEST(test_server_hangs_up_on_a_client_that_talks_nonsense_later),
		RUN_TEST(test_server_is_freed_when_a_client_dies_at_any_step),
		RUN_TEST(test_server_serves_several_clients_at_once),
		RUN_TEST(test_server_takes_several_neper_clients_as_one_run),
		RUN_TEST(test_once_ends_the_server_after_one_run),
		RUN_TEST(test_client_that_is_stopped_reports_what_it_has),
		RUN_TEST(test_server_that_is_stopped_frees_its_client),
		RUN_TEST(test_server_that_is_stopped_drops_those_that_wait),
		RUN_TEST(test_server_without_a_port_says_so),
		RUN_TEST(test_client_whose_flows_all_break_does_not_wait_for_the_end),
		RUN_TEST(test_client_that_counts_transactions_ends_although_a_flow_broke),
	};

	signal(SIGPIPE, SIG_IGN);
	log_set_level(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
