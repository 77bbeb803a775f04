// SPDX-License-Identifier: BSD-3-Clause
#include "ends.h"

void side_open(struct side *s, const struct weir_p2p_config *config)
{
	struct err e = { 0 };

	s->net.slow_comm = s->net.slow_comm ? s->net.slow_comm : -1;
	s->p = calloc(1, sizeof(*s->p));
	assert_int_equal(engine_open(s->p, config, fake_net_open(&s->net), &e), 0);
	s->memory = malloc(MEMORY);
	assert_int_equal(weir_p2p_register(s->p, s->memory, MEMORY, WEIR_P2P_HOST,
				 WEIR_P2P_REMOTE_READ | WEIR_P2P_REMOTE_WRITE, &s->region, NULL),
		0);
}

void turn(struct ends *t)
{
	weir_p2p_progress(t->a.p);
	weir_p2p_progress(t->b.p);
}

void ends_open(struct ends *t)
{
	struct weir_error error = { 0 };
	uint64_t until = clock_ns() + 10 * NS_PER_S;

	if (!t->config.channels) {
		weir_p2p_config_init(&t->config);
		t->config.chunk_bytes = 16 << 10;
	}
	side_open(&t->a, &t->config);
	side_open(&t->b, &t->config);
	assert_int_equal(weir_p2p_listen(t->b.p, "127.0.0.1", 0, &error), 0);
	assert_int_equal(
		weir_p2p_connect(t->a.p, "127.0.0.1", weir_p2p_port(t->b.p), &t->a.conn, &error),
		0);
	while (weir_p2p_connected(t->a.conn, &error) != 1 ||
		weir_p2p_accept(t->b.p, &t->b.conn, NULL)) {
		assert_true(weir_p2p_connected(t->a.conn, &error) >= 0);
		assert_true(clock_ns() < until);
		turn(t);
	}
	for (size_t i = 0; i < MEMORY; i++)
		t->a.memory[i] = (unsigned char)(i * 7 + i / 251);
	memset(t->b.memory, 0, MEMORY);
}

void side_close(struct side *s)
{
	weir_p2p_close(s->p);
	free(s->memory);
}

void ends_close(struct ends *t)
{
	side_close(&t->a);
	side_close(&t->b);
	assert_int_equal(t->a.net.comms + t->b.net.comms, 0);
	assert_int_equal(t->a.net.memories + t->b.net.memories, 0);
}

/* Until a transfer is over; both engines take turns. */
int finish(struct ends *t, struct weir_p2p_transfer *x, uint64_t *bytes, struct weir_error *error)
{
	uint64_t until = clock_ns() + 10 * NS_PER_S;
	struct weir_p2p_status status = { 0 };
	int ret;

	while (!(ret = weir_p2p_test(x, &status, error))) {
		assert_true(clock_ns() < until);
		turn(t);
	}
	if (bytes)
		*bytes = status.bytes;
	return ret;
}

void exchange(struct ends *t, uint64_t offset, uint64_t bytes, uint64_t to, uint64_t room)
{
	struct weir_p2p_transfer *s, *r;
	uint64_t got;

	assert_int_equal(weir_p2p_recv(t->b.conn, t->b.region, to, room, &r, NULL), 0);
	assert_int_equal(weir_p2p_send(t->a.conn, t->a.region, offset, bytes, &s, NULL), 0);
	assert_int_equal(finish(t, s, NULL, NULL), 1);
	assert_int_equal(finish(t, r, &got, NULL), 1);
	assert_int_equal(got, bytes);
	assert_memory_equal(t->b.memory + to, t->a.memory + offset, bytes);
}
