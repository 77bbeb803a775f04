// SPDX-License-Identifier: BSD-3-Clause
/* What goes wrong: peers, channels, strangers, memory in use. */
#include "ends.h"

static void test_a_broken_channel_ends_everything_at_both_ends(void **state)
{
	struct weir_p2p_transfer *s, *r, *waiting;
	struct ends t = { .b.net = { .break_after = 10 } };
	struct weir_error error;

	(void)state;
	ends_open(&t);
	assert_int_equal(weir_p2p_recv(t.b.conn, t.b.region, 0, MEMORY, &r, NULL), 0);
	assert_int_equal(weir_p2p_recv(t.b.conn, t.b.region, 0, MEMORY, &waiting, NULL), 0);
	assert_int_equal(weir_p2p_send(t.a.conn, t.a.region, 0, MEMORY, &s, NULL), 0);
	assert_int_equal(finish(&t, r, NULL, &error), -EIO);
	assert_string_equal(error.what, "broken on purpose");
	assert_int_equal(finish(&t, waiting, NULL, &error), -EIO);
	assert_true(finish(&t, s, NULL, &error) < 0);
	assert_int_equal(weir_p2p_send(t.b.conn, t.b.region, 0, 10, &s, &error), -EIO);
	assert_int_equal(t.a.region->users + t.b.region->users, 0);
	ends_close(&t);
}

static void test_a_silent_peer_is_given_up(void **state)
{
	struct weir_p2p_transfer *x;
	struct ends t = { 0 };
	struct weir_error error;
	uint64_t began;

	(void)state;
	weir_p2p_config_init(&t.config);
	t.config.peer_timeout_ns = 200 * NS_PER_MS;
	ends_open(&t);
	began = clock_ns();
	assert_int_equal(weir_p2p_recv(t.a.conn, t.a.region, 0, 100, &x, NULL), 0);
	/* b takes no turn. */
	assert_int_equal(weir_p2p_wait(x, 5 * WEIR_SECOND, NULL, &error), -ETIMEDOUT);
	assert_in_range(clock_ns() - began, 200 * NS_PER_MS, 2000 * NS_PER_MS);
	ends_close(&t);
}

static void test_a_peer_that_answers_is_waited_for(void **state)
{
	struct weir_p2p_transfer *x;
	struct ends t = { 0 };
	uint64_t until;

	(void)state;
	weir_p2p_config_init(&t.config);
	t.config.peer_timeout_ns = 100 * NS_PER_MS;
	ends_open(&t);
	assert_int_equal(weir_p2p_recv(t.a.conn, t.a.region, 0, 100, &x, NULL), 0);
	for (until = clock_ns() + 400 * NS_PER_MS; clock_ns() < until;)
		turn(&t);
	assert_int_equal(weir_p2p_test(x, NULL, NULL), 0);
	ends_close(&t);
}

static void test_a_region_in_use_is_not_given_up(void **state)
{
	struct weir_p2p_transfer *x;
	struct ends t = { 0 };
	struct weir_error error;

	(void)state;
	ends_open(&t);
	assert_int_equal(weir_p2p_write(t.a.conn, t.a.region, 0, MEMORY, weir_p2p_key(t.b.region),
				 0, &x, NULL),
		0);
	assert_int_equal(weir_p2p_unregister(t.a.region, &error), -EBUSY);
	while (!t.b.region->users)
		turn(&t);
	assert_int_equal(weir_p2p_unregister(t.b.region, &error), -EBUSY);
	assert_string_equal(error.what, "1 transfers are using this memory");
	assert_int_equal(finish(&t, x, NULL, NULL), 1);
	assert_memory_equal(t.a.memory, t.b.memory, MEMORY);
	assert_int_equal(weir_p2p_unregister(t.b.region, &error), 0);
	assert_int_equal(weir_p2p_unregister(t.a.region, &error), 0);
	ends_close(&t);
}

static void test_registration_while_data_flows(void **state)
{
	struct weir_p2p_transfer *s, *r;
	struct weir_p2p_region *more[50];
	struct ends t = { 0 };
	char extra[64];
	int n = 0;

	(void)state;
	ends_open(&t);
	assert_int_equal(weir_p2p_recv(t.b.conn, t.b.region, 0, MEMORY, &r, NULL), 0);
	assert_int_equal(weir_p2p_send(t.a.conn, t.a.region, 0, MEMORY, &s, NULL), 0);
	while (!r->result) {
		turn(&t);
		if (n < 50) {
			assert_int_equal(weir_p2p_register(t.b.p, extra, 64, WEIR_P2P_HOST, 3,
						 &more[n], NULL),
				0);
			n++;
		}
		if (n > 3 && n % 2)
			assert_int_equal(weir_p2p_unregister(more[--n], NULL), 0);
	}
	assert_int_equal(finish(&t, s, NULL, NULL), 1);
	assert_int_equal(finish(&t, r, NULL, NULL), 1);
	assert_memory_equal(t.b.memory, t.a.memory, MEMORY);
	ends_close(&t);
}

static void test_closing_is_seen_and_what_was_sent_arrives(void **state)
{
	struct weir_p2p_transfer *s, *r, *never;
	struct ends t = { 0 };
	struct weir_error error;

	(void)state;
	ends_open(&t);
	assert_int_equal(weir_p2p_recv(t.b.conn, t.b.region, 0, 200000, &r, NULL), 0);
	assert_int_equal(weir_p2p_recv(t.b.conn, t.b.region, 0, 100, &never, NULL), 0);
	assert_int_equal(weir_p2p_send(t.a.conn, t.a.region, 0, 200000, &s, NULL), 0);
	assert_int_equal(finish(&t, s, NULL, NULL), 1);
	weir_p2p_disconnect(t.a.conn);
	assert_int_equal(finish(&t, r, NULL, &error), 1);
	assert_memory_equal(t.b.memory, t.a.memory, 200000);
	assert_int_equal(finish(&t, never, NULL, &error), -EPIPE);
	assert_int_equal(weir_p2p_connected(t.b.conn, &error), -EPIPE);
	ends_close(&t);
}

static void test_a_closed_connection_cancels_what_was_under_way(void **state)
{
	struct weir_p2p_transfer *x;
	struct ends t = { 0 };
	struct weir_error error;

	(void)state;
	ends_open(&t);
	assert_int_equal(weir_p2p_recv(t.a.conn, t.a.region, 0, 100, &x, NULL), 0);
	weir_p2p_disconnect(t.a.conn);
	assert_int_equal(weir_p2p_test(x, NULL, &error), -ECANCELED);
	ends_close(&t);
}

/* Bytes to a listening engine as a stranger would send them; what it says about them. */
static void stranger(struct ends *t, const void *bytes, size_t length, struct weir_error *why)
{
	unsigned int before = weir_p2p_refused(t->b.p, NULL);
	uint64_t until = clock_ns() + 5 * NS_PER_S;
	struct sock_addr addr[SOCK_ADDRS];
	char port[8];
	size_t count;
	int fd;

	snprintf(port, sizeof(port), "%u", weir_p2p_port(t->b.p));
	assert_int_equal(sock_resolve("127.0.0.1", port, AF_INET, false, addr, &count, NULL), 0);
	fd = sock_connect(&addr[0], NULL, &(struct sock_options){ 0 }, until, NULL);
	assert_true(fd >= 0);
	assert_int_equal(send(fd, bytes, length, MSG_NOSIGNAL), length);
	shutdown(fd, SHUT_WR);
	while (weir_p2p_refused(t->b.p, why) == before) {
		assert_true(clock_ns() < until);
		turn(t);
	}
	close(fd);
}

static void test_strangers_are_refused_and_counted(void **state)
{
	const struct xfer_hello h = { .version = XFER_VERSION,
		.peer_rank = XFER_ANY_RANK,
		.channels = 1,
		.window = 1,
		.directions = 1,
		.chunk_bytes = 4096 };
	uint8_t bytes[XFER_HELLO_BYTES + 100] = { 0 };
	struct xfer_hello bad;
	struct ends t = { 0 };
	struct weir_error why;

	(void)state;
	ends_open(&t);
	stranger(&t, "GET / HTTP/1.1", 14, &why);
	assert_non_null(strstr(why.what, "hung up"));
	memset(bytes, 'x', sizeof(bytes));
	stranger(&t, bytes, sizeof(bytes), &why);
	assert_non_null(strstr(why.what, "not a weir p2p client"));
	bad = h, bad.version = 9;
	xfer_hello_encode(&bad, bytes);
	stranger(&t, bytes, XFER_HELLO_BYTES, &why);
	assert_non_null(strstr(why.what, "another version"));
	bad = h, bad.token[0] = 'x';
	xfer_hello_encode(&bad, bytes);
	stranger(&t, bytes, XFER_HELLO_BYTES, &why);
	assert_int_equal(why.code, EACCES);
	bad = h, bad.channels = 65;
	xfer_hello_encode(&bad, bytes);
	stranger(&t, bytes, XFER_HELLO_BYTES, &why);
	assert_non_null(strstr(why.what, "impossible channels"));
	/* One that goes away before its channels are there. */
	xfer_hello_encode(&h, bytes);
	stranger(&t, bytes, XFER_HELLO_BYTES, &why);
	assert_non_null(strstr(why.what, "hung up before all channels"));
	exchange(&t, 0, 200000, 0, 200000);
	ends_close(&t);
}

static int connect_with(struct ends *t, struct side *c, struct weir_error *error)
{
	uint64_t until = clock_ns() + 5 * NS_PER_S;
	int ret;

	assert_int_equal(
		weir_p2p_connect(c->p, "127.0.0.1", weir_p2p_port(t->b.p), &c->conn, error), 0);
	while (!(ret = weir_p2p_connected(c->conn, error)) && clock_ns() < until) {
		weir_p2p_progress(c->p);
		turn(t);
	}
	return ret;
}

static void test_what_a_refused_client_is_told(void **state)
{
	struct weir_p2p_config other;
	struct ends t = { 0 };
	struct side token = { 0 }, rank = { 0 };
	struct weir_error error;

	(void)state;
	weir_p2p_config_init(&t.config);
	t.config.token = "right";
	ends_open(&t);
	other = t.config;
	other.token = "wrong";
	side_open(&token, &other);
	assert_int_equal(connect_with(&t, &token, &error), -EACCES);
	assert_non_null(strstr(error.what, "does not know this token"));
	side_close(&token);
	other = t.config;
	other.peer_rank = 3;
	side_open(&rank, &other);
	assert_int_equal(connect_with(&t, &rank, &error), -EPROTO);
	assert_non_null(strstr(error.what, "GPU 0 listens there, not GPU 3"));
	side_close(&rank);
	ends_close(&t);
}

/* A server that answers with whatever the test says. */
static int false_server(const struct xfer_welcome *w, const uint8_t *handles, size_t bytes,
	struct weir_error *error)
{
	struct weir_p2p_config config;
	struct side c = { 0 };
	struct sock_addr addr[SOCK_ADDRS];
	uint8_t answer[XFER_WELCOME_BYTES];
	uint64_t until = clock_ns() + 5 * NS_PER_S;
	size_t count;
	int door, fd = -1, ret;

	assert_int_equal(sock_resolve("127.0.0.1", "0", AF_INET, true, addr, &count, NULL), 0);
	door = sock_listen(&addr[0], &(struct sock_listen){ .backlog = 1 }, NULL);
	assert_int_equal(sock_local(door, &addr[0]), 0);
	weir_p2p_config_init(&config);
	config.connect_timeout_ns = WEIR_SECOND;
	side_open(&c, &config);
	assert_int_equal(
		weir_p2p_connect(c.p, "127.0.0.1", sock_addr_port(&addr[0]), &c.conn, error), 0);
	while (!(ret = weir_p2p_connected(c.conn, error)) && clock_ns() < until) {
		weir_p2p_progress(c.p);
		if (fd >= 0)
			continue;
		fd = accept4(door, NULL, NULL, SOCK_NONBLOCK);
		if (fd < 0)
			continue;
		xfer_welcome_encode(w, answer);
		assert_int_equal(send(fd, answer, sizeof(answer), 0), sizeof(answer));
		if (bytes)
			assert_int_equal(send(fd, handles, bytes, 0), bytes);
	}
	side_close(&c);
	close(fd);
	close(door);
	return ret;
}

static void test_a_false_server_is_found_out(void **state)
{
	const struct xfer_welcome w = {
		.version = XFER_VERSION, .channels = 8, .window = 16, .chunk_bytes = 4096
	};
	uint8_t garbage[8 * NET_HANDLE_BYTES];
	struct xfer_welcome bad;
	struct weir_error error;

	(void)state;
	bad = w, bad.channels = 0;
	assert_int_equal(false_server(&bad, NULL, 0, &error), -EPROTO);
	assert_non_null(strstr(error.what, "offers 0 channels"));
	bad = w, bad.channels = 65;
	assert_int_equal(false_server(&bad, NULL, 0, &error), -EPROTO);
	bad = w, bad.version = 2;
	assert_int_equal(false_server(&bad, NULL, 0, &error), -EPROTO);
	memset(garbage, 0xa5, sizeof(garbage));
	assert_int_equal(false_server(&w, garbage, sizeof(garbage), &error), -EPROTO);
	assert_non_null(strstr(error.what, "this is no handle"));
	/* Handles that never come. */
	assert_int_equal(false_server(&w, garbage, 100, &error), -ETIMEDOUT);
	assert_non_null(strstr(error.what, "the rest of the answer"));
}

static void test_nobody_there_is_an_error_in_time(void **state)
{
	struct weir_p2p_config config;
	struct weir_error error;
	struct side c = { 0 };
	uint64_t began = clock_ns();

	(void)state;
	weir_p2p_config_init(&config);
	config.connect_timeout_ns = 200 * NS_PER_MS;
	side_open(&c, &config);
	assert_int_equal(weir_p2p_connect(c.p, "127.0.0.1", 1, &c.conn, &error), 0);
	assert_int_equal(weir_p2p_await(c.conn, 5 * WEIR_SECOND, &error), -ECONNREFUSED);
	assert_in_range(clock_ns() - began, 200 * NS_PER_MS, 2000 * NS_PER_MS);
	side_close(&c);
}

static void test_a_server_that_comes_late_is_found(void **state)
{
	struct weir_p2p_config config;
	struct side a = { 0 }, b = { 0 };
	struct weir_p2p_conn *served = NULL;
	struct weir_error error;
	uint64_t until;
	uint16_t port;

	(void)state;
	weir_p2p_config_init(&config);
	side_open(&b, &config);
	assert_int_equal(weir_p2p_listen(b.p, "::1", 0, &error), 0);
	port = weir_p2p_port(b.p);
	side_close(&b);
	side_open(&a, &config);
	assert_int_equal(weir_p2p_connect(a.p, "::1", port, &a.conn, &error), 0);
	for (until = clock_ns() + 150 * NS_PER_MS; clock_ns() < until;)
		weir_p2p_progress(a.p);
	assert_int_equal(weir_p2p_connected(a.conn, &error), 0);
	b = (struct side){ 0 };
	side_open(&b, &config);
	assert_int_equal(weir_p2p_listen(b.p, "::1", port, &error), 0);
	for (until = clock_ns() + 5 * NS_PER_S; clock_ns() < until && !served;) {
		weir_p2p_progress(a.p);
		weir_p2p_progress(b.p);
		weir_p2p_accept(b.p, &served, NULL);
	}
	assert_non_null(served);
	side_close(&a);
	side_close(&b);
}

static void test_listening_beyond_loopback_needs_a_token(void **state)
{
	struct weir_p2p_config config;
	struct weir_error error;
	struct side c = { 0 };

	(void)state;
	weir_p2p_config_init(&config);
	side_open(&c, &config);
	assert_int_equal(weir_p2p_listen(c.p, NULL, 0, &error), -EACCES);
	assert_int_equal(weir_p2p_listen(c.p, "::1", 0, &error), 0);
	assert_int_equal(weir_p2p_listen(c.p, "127.0.0.1", 0, &error), -EALREADY);
	side_close(&c);
}

static void test_connections_leave_nothing_behind(void **state)
{
	struct ends t = { 0 };
	int highest[2] = { 0 };

	(void)state;
	ends_open(&t);
	for (int i = 0; i < 100; i++) {
		struct weir_p2p_conn *a, *b;
		int probe, half = i >= 50;

		assert_int_equal(
			weir_p2p_connect(t.a.p, "127.0.0.1", weir_p2p_port(t.b.p), &a, NULL), 0);
		while (weir_p2p_accept(t.b.p, &b, NULL) || weir_p2p_connected(a, NULL) != 1)
			turn(&t);
		weir_p2p_disconnect(i % 2 ? a : b);
		while (weir_p2p_connected(i % 2 ? b : a, NULL) >= 0)
			turn(&t);
		weir_p2p_disconnect(i % 2 ? b : a);
		probe = dup(0);
		highest[half] = probe > highest[half] ? probe : highest[half];
		close(probe);
	}
	assert_int_equal(highest[0], highest[1]);
	assert_int_equal(t.a.net.comms + t.b.net.comms, 32);
	exchange(&t, 0, 200000, 0, 200000);
	ends_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_broken_channel_ends_everything_at_both_ends),
		cmocka_unit_test(test_a_silent_peer_is_given_up),
		cmocka_unit_test(test_a_peer_that_answers_is_waited_for),
		cmocka_unit_test(test_a_region_in_use_is_not_given_up),
		cmocka_unit_test(test_registration_while_data_flows),
		cmocka_unit_test(test_closing_is_seen_and_what_was_sent_arrives),
		cmocka_unit_test(test_a_closed_connection_cancels_what_was_under_way),
		cmocka_unit_test(test_strangers_are_refused_and_counted),
		cmocka_unit_test(test_what_a_refused_client_is_told),
		cmocka_unit_test(test_a_false_server_is_found_out),
		cmocka_unit_test(test_nobody_there_is_an_error_in_time),
		cmocka_unit_test(test_a_server_that_comes_late_is_found),
		cmocka_unit_test(test_listening_beyond_loopback_needs_a_token),
		cmocka_unit_test(test_connections_leave_nothing_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
