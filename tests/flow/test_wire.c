/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "flow/wire.h"

static uint64_t in_ms(uint64_t ms)
{
	return clock_ns() + ms * NS_PER_MS;
}

/* "6e65 7065": blanks are skipped. Returns the number of bytes. */
static size_t from_hex(const char *hex, uint8_t *bytes)
{
	size_t count = 0;
	unsigned int value;

	while (*hex) {
		if (*hex == ' ') {
			hex++;
			continue;
		}
		assert_int_equal(sscanf(hex, "%2x", &value), 1);
		bytes[count++] = (uint8_t)value;
		hex += 2;
	}
	return count;
}

/* Two ends of a stream; both close by themselves when a test is over. */
static int near_end, far_end;

static int setup(void **state)
{
	int fd[2];

	(void)state;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd))
		return -1;
	near_end = fd[0];
	far_end = fd[1];
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(near_end);
	if (far_end >= 0)
		close(far_end);
	return 0;
}

/* neper: an exchange of the real programs, tcp_stream -T1 -F1 -l1, client with -m 1000000000 */

#define ZERO32 "0000000000000000000000000000000000000000000000000000000000000000"

static const struct {
	const char *hex;
	struct neper_message message;
} captured[] = {
	{ "6e65706572207463705f73747265616d 20323031373033323431333030000000"
	  "0000002a 00000001 00000001 00000001 00000001 00000000 000000003b9aca00 0000000000000000",
		{ .secret = "neper tcp_stream 201703241300",
			.magic = 42,
			.type = NEPER_HELLO,
			.num_threads = 1,
			.num_flows = 1,
			.test_length = 1,
			.max_pacing_rate = 1000000000 } },
	{ ZERO32
		"0000002a 00000002 00000001 00000001 00000001 00000000 0000000000000000 0000000000000000",
		{ .magic = 42,
			.type = NEPER_ACK,
			.num_threads = 1,
			.num_flows = 1,
			.test_length = 1 } },
	{ ZERO32
		"0000002a 00000003 00000000 00000000 00000000 00000000 0000000000000000 0000000000000000",
		{ .magic = 42, .type = NEPER_DONE } },
	{ ZERO32
		"0000002a 00000004 00000000 00000000 00000000 00000000 0000000000000000 00000000262eec5a",
		{ .magic = 42, .type = NEPER_BYE, .remote_rate = 640609370 } },
};

#define CAPTURED (sizeof(captured) / sizeof(captured[0]))

static void assert_same_message(const struct neper_message *a, const struct neper_message *b)
{
	assert_memory_equal(a->secret, b->secret, sizeof(a->secret));
	assert_int_equal(a->magic, b->magic);
	assert_int_equal(a->type, b->type);
	assert_int_equal(a->num_threads, b->num_threads);
	assert_int_equal(a->num_flows, b->num_flows);
	assert_int_equal(a->test_length, b->test_length);
	assert_int_equal(a->client_number, b->client_number);
	assert_int_equal(a->max_pacing_rate, b->max_pacing_rate);
	assert_int_equal(a->remote_rate, b->remote_rate);
}

static void test_neper_messages_are_byte_for_byte_those_of_neper(void **state)
{
	uint8_t expected[NEPER_BYTES], bytes[NEPER_BYTES];

	(void)state;
	for (size_t i = 0; i < CAPTURED; i++) {
		assert_int_equal(from_hex(captured[i].hex, expected), NEPER_BYTES);
		neper_encode(&captured[i].message, bytes);
		assert_memory_equal(bytes, expected, NEPER_BYTES);
	}
}

static void test_neper_messages_are_read_as_neper_means_them(void **state)
{
	struct neper_message m;
	uint8_t bytes[NEPER_BYTES];

	(void)state;
	for (size_t i = 0; i < CAPTURED; i++) {
		from_hex(captured[i].hex, bytes);
		memset(&m, 0xff, sizeof(m));
		neper_decode(bytes, &m);
		assert_same_message(&m, &captured[i].message);
	}
}

static void test_neper_negative_lengths_and_large_numbers_survive(void **state)
{
	struct neper_message m = { .magic = INT32_MIN,
		.type = UINT32_MAX,
		.num_threads = 0x01020304,
		.num_flows = UINT32_MAX,
		.test_length = -1000,
		.client_number = 7,
		.max_pacing_rate = UINT64_MAX,
		.remote_rate = WIRE_MARK };
	struct neper_message got;
	uint8_t bytes[NEPER_BYTES], length[4] = { 0xff, 0xff, 0xfc, 0x18 };

	(void)state;
	memset(m.secret, 0xa5, sizeof(m.secret));
	neper_encode(&m, bytes);
	assert_memory_equal(bytes + 48, length, sizeof(length));
	assert_memory_equal(bytes + 64, "weir\0\0\0\1", 8);
	neper_decode(bytes, &got);
	assert_same_message(&m, &got);
}

static void test_neper_secrets_are_those_of_neper(void **state)
{
	static const char zeros[32];

	(void)state;
	assert_string_equal(neper_secret[WORKLOAD_STREAM], "neper tcp_stream 201703241300");
	assert_string_equal(neper_secret[WORKLOAD_RR], "neper tcp_rr 201703241250");
	assert_memory_equal(neper_secret[WORKLOAD_CRR], zeros, sizeof(zeros));
}

static void test_neper_a_message_leaves_in_one_piece(void **state)
{
	struct neper_message got;
	uint8_t bytes[2 * NEPER_BYTES];
	struct err e;

	(void)state;
	assert_int_equal(neper_send(near_end, &captured[0].message, in_ms(1000), &e), 0);
	assert_int_equal(recv(far_end, bytes, sizeof(bytes), MSG_PEEK), NEPER_BYTES);
	assert_int_equal(neper_recv(far_end, &got, in_ms(1000), &e), 0);
	assert_same_message(&got, &captured[0].message);
}

static void test_neper_recv_of_half_a_message_says_how_much_came(void **state)
{
	struct neper_message got;
	uint8_t bytes[NEPER_BYTES];
	struct err e;

	(void)state;
	from_hex(captured[0].hex, bytes);
	assert_int_equal(write(far_end, bytes, 40), 40);
	assert_int_equal(neper_recv(near_end, &got, in_ms(30), &e), -EPROTO);
	assert_non_null(strstr(e.what, "40 of the 72"));
	assert_int_equal(write(far_end, bytes, 3), 3);
	close(far_end);
	far_end = -1;
	assert_int_equal(neper_recv(near_end, &got, in_ms(1000), &e), -EPROTO);
	assert_non_null(strstr(e.what, "3 of the 72"));
}

static void test_neper_recv_tells_silence_from_a_close(void **state)
{
	struct neper_message got;
	struct err e;

	(void)state;
	assert_int_equal(neper_recv(near_end, &got, in_ms(30), &e), -ETIMEDOUT);
	close(far_end);
	far_end = -1;
	assert_int_equal(neper_recv(near_end, &got, in_ms(30), &e), -EPIPE);
}

/* weir's messages */

static void test_wire_every_type_arrives_with_its_body(void **state)
{
	static const char body[] = "num-flows=8\nnum-threads=2\n";

	(void)state;
	for (int type = WIRE_REQUEST; type <= WIRE_ABORT; type++) {
		struct wire_message m;
		struct err e;

		assert_int_equal(wire_send(near_end, (enum wire_type)type, body, strlen(body),
					 in_ms(1000), &e),
			0);
		assert_int_equal(wire_recv(far_end, &m, in_ms(1000), &e), 0);
		assert_int_equal(m.type, type);
		assert_int_equal(m.length, strlen(body));
		assert_string_equal(m.body, body);
		wire_free(&m);
		assert_null(m.body);
		wire_free(&m);
	}
}

static void test_wire_an_empty_body_is_an_empty_string(void **state)
{
	struct wire_message m;
	struct err e;

	(void)state;
	assert_int_equal(wire_send(near_end, WIRE_TICK, "", 0, in_ms(1000), &e), 0);
	assert_int_equal(wire_recv(far_end, &m, in_ms(1000), &e), 0);
	assert_int_equal(m.length, 0);
	assert_string_equal(m.body, "");
	wire_free(&m);
}

static void test_wire_the_head_is_length_and_type_in_network_order(void **state)
{
	uint8_t bytes[16], expected[] = { 0, 0, 0, 3, 0, 0, 0, 1, 'a', '=', '1' };
	struct err e;

	(void)state;
	assert_int_equal(wire_send(near_end, WIRE_REQUEST, "a=1", 3, in_ms(1000), &e), 0);
	assert_int_equal(read(far_end, bytes, sizeof(bytes)), sizeof(expected));
	assert_memory_equal(bytes, expected, sizeof(expected));
}

static void say(const char *hex)
{
	uint8_t bytes[64];
	size_t count = from_hex(hex, bytes);

	assert_int_equal(write(far_end, bytes, count), count);
}

static void assert_recv_fails(int code, const char *words)
{
	struct wire_message m;
	struct err e = { 0 };

	assert_int_equal(wire_recv(near_end, &m, in_ms(50), &e), -code);
	assert_int_equal(e.code, code);
	if (!strstr(e.what, words))
		fail_msg("\"%s\" does not say \"%s\"", e.what, words);
	assert_null(m.body);
}

static void test_wire_unknown_types_are_refused(void **state)
{
	(void)state;
	say("00000000 00000000");
	assert_recv_fails(EPROTO, "type 0");
	say("00000000 00000009");
	assert_recv_fails(EPROTO, "type 9");
	say("00000000 ffffffff");
	assert_recv_fails(EPROTO, "type 4294967295");
}

static void test_wire_a_message_beyond_the_bound_is_refused_before_it_is_read(void **state)
{
	(void)state;
	say("02000001 00000001");
	assert_recv_fails(EPROTO, "33554433 bytes");
	say("ffffffff 00000007");
	assert_recv_fails(EPROTO, "4294967295 bytes");
	/* neper's greeting, where a weir message was due */
	say("6e657065 72207463");
	assert_recv_fails(EPROTO, "not weir's");
}

static void test_wire_send_refuses_a_body_beyond_the_bound(void **state)
{
	struct err e;

	(void)state;
	assert_int_equal(
		wire_send(near_end, WIRE_RESULT, "", (size_t)WIRE_BODY_MAX + 1, in_ms(100), &e),
		-EMSGSIZE);
	assert_int_equal(recv(far_end, &e, 1, MSG_DONTWAIT), -1);
}

static void test_wire_truncated_messages_are_errors(void **state)
{
	static const char *const parts[] = { "00", "00000005 0000", "00000005 00000001",
		"00000005 00000001 61626364" };

	(void)state;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		say(parts[i]);
		close(far_end);
		far_end = -1;
		assert_recv_fails(EPIPE, "closed");
		close(near_end);
		assert_int_equal(setup(NULL), 0);
	}
}

static void test_wire_a_slow_sender_is_given_up(void **state)
{
	uint64_t begin_ns = clock_ns();

	(void)state;
	say("00000005 00000001 6162");
	assert_recv_fails(ETIMEDOUT, "in time");
	assert_true(clock_ns() - begin_ns >= 50 * NS_PER_MS);
	assert_true(clock_ns() - begin_ns < 2 * NS_PER_S);
}

static void test_wire_a_body_may_hold_any_bytes(void **state)
{
	struct wire_message m;
	struct err e;

	(void)state;
	say("00000004 00000007 00ff0a00");
	assert_int_equal(wire_recv(near_end, &m, in_ms(1000), &e), 0);
	assert_int_equal(m.length, 4);
	assert_memory_equal(m.body, "\0\xff\n\0", 5);
	wire_free(&m);
}

static char *large;

static void *send_large(void *argument)
{
	int *ret = argument;

	*ret = wire_send(near_end, WIRE_RESULT, large, WIRE_BODY_MAX, in_ms(20000), NULL);
	return NULL;
}

static void test_wire_the_largest_message_arrives(void **state)
{
	struct wire_message m;
	pthread_t thread;
	int ret = -1;
	struct err e;

	(void)state;
	large = malloc(WIRE_BODY_MAX);
	assert_non_null(large);
	memset(large, 'x', WIRE_BODY_MAX);
	large[WIRE_BODY_MAX - 1] = '\n';
	assert_int_equal(pthread_create(&thread, NULL, send_large, &ret), 0);
	assert_int_equal(wire_recv(far_end, &m, in_ms(20000), &e), 0);
	pthread_join(thread, NULL);
	assert_int_equal(ret, 0);
	assert_int_equal(m.length, WIRE_BODY_MAX);
	assert_memory_equal(m.body, large, WIRE_BODY_MAX);
	assert_int_equal(m.body[WIRE_BODY_MAX], 0);
	wire_free(&m);
	free(large);
}

/* Preamble and token */

static void test_preamble_survives_the_way(void **state)
{
	struct wire_preamble p = { .flow = 0xfedcba98 }, got;
	uint8_t bytes[WIRE_PREAMBLE_BYTES];

	(void)state;
	for (int i = 0; i < WIRE_TOKEN_BYTES; i++)
		p.token[i] = (uint8_t)(i * 17);
	memset(bytes, 0xff, sizeof(bytes));
	wire_preamble_encode(&p, bytes);
	assert_int_equal(wire_preamble_decode(bytes, sizeof(bytes), &got), 0);
	assert_memory_equal(got.token, p.token, sizeof(p.token));
	assert_int_equal(got.flow, p.flow);
	/* What follows it is the payload's. */
	memset(&got, 0, sizeof(got));
	assert_int_equal(wire_preamble_decode(bytes, sizeof(bytes) + 100, &got), 0);
	assert_int_equal(got.flow, p.flow);
}

static void test_preamble_every_beginning_of_one_may_become_one(void **state)
{
	struct wire_preamble p = { .flow = 1 };
	uint8_t bytes[WIRE_PREAMBLE_BYTES];

	(void)state;
	wire_preamble_encode(&p, bytes);
	for (size_t length = 0; length < WIRE_PREAMBLE_BYTES; length++)
		assert_int_equal(wire_preamble_decode(bytes, length, &p), -EAGAIN);
}

static void test_preamble_a_wrong_byte_shows_at_once(void **state)
{
	struct wire_preamble p = { .flow = 1 };
	uint8_t bytes[WIRE_PREAMBLE_BYTES];

	(void)state;
	for (size_t at = 0; at < 8; at++) {
		wire_preamble_encode(&p, bytes);
		bytes[at] ^= 1;
		for (size_t length = 0; length <= WIRE_PREAMBLE_BYTES; length++)
			assert_int_equal(wire_preamble_decode(bytes, length, &p),
				length > at ? -EPROTO : -EAGAIN);
	}
}

static void test_preamble_is_never_text(void **state)
{
	uint8_t bytes[WIRE_PREAMBLE_BYTES] = "GET / HTTP/1.1\r\nHost: node2\r\n";
	struct wire_preamble p = { 0 };

	(void)state;
	assert_int_equal(wire_preamble_decode(bytes, sizeof(bytes), &p), -EPROTO);
	wire_preamble_encode(&p, bytes);
	assert_true(bytes[0] >= 0x80);
}

static void test_token_text_and_back(void **state)
{
	uint8_t token[WIRE_TOKEN_BYTES] = { 0x00, 0x01, 0xfe, 0xff, 0x9a }, got[WIRE_TOKEN_BYTES];
	char text[2 * WIRE_TOKEN_BYTES + 1];

	(void)state;
	wire_token_text(token, text);
	assert_string_equal(text, "0001feff9a0000000000000000000000");
	assert_int_equal(wire_token_parse(text, got), 0);
	assert_memory_equal(got, token, sizeof(token));
}

static void test_token_that_is_not_32_digits_is_refused(void **state)
{
	static const char *const bad[] = { "", "0", "0001feff9a000000000000000000000",
		"0001feff9a00000000000000000000000", "0001feff9a0000000000000000000000 ",
		"0001FEFF9a0000000000000000000000", "0001fexx9a0000000000000000000000",
		"-001feff9a0000000000000000000000", " 001feff9a0000000000000000000000",
		"0x01feff9a0000000000000000000000" };
	uint8_t token[WIRE_TOKEN_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		/* On the heap, so that a read beyond the end is seen. */
		char *text = strdup(bad[i]);

		if (wire_token_parse(text, token) != -EPROTO)
			fail_msg("took \"%s\"", bad[i]);
		free(text);
	}
}

static void test_tokens_differ(void **state)
{
	uint8_t a[WIRE_TOKEN_BYTES] = { 0 }, b[WIRE_TOKEN_BYTES] = { 0 };
	struct err e;

	(void)state;
	assert_int_equal(wire_token_make(a, &e), 0);
	assert_int_equal(wire_token_make(b, &e), 0);
	assert_memory_not_equal(a, b, sizeof(a));
}

#define WITH_PAIR(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_neper_messages_are_byte_for_byte_those_of_neper),
		cmocka_unit_test(test_neper_messages_are_read_as_neper_means_them),
		cmocka_unit_test(test_neper_negative_lengths_and_large_numbers_survive),
		cmocka_unit_test(test_neper_secrets_are_those_of_neper),
		WITH_PAIR(test_neper_a_message_leaves_in_one_piece),
		WITH_PAIR(test_neper_recv_of_half_a_message_says_how_much_came),
		WITH_PAIR(test_neper_recv_tells_silence_from_a_close),
		WITH_PAIR(test_wire_every_type_arrives_with_its_body),
		WITH_PAIR(test_wire_an_empty_body_is_an_empty_string),
		WITH_PAIR(test_wire_the_head_is_length_and_type_in_network_order),
		WITH_PAIR(test_wire_unknown_types_are_refused),
		WITH_PAIR(test_wire_a_message_beyond_the_bound_is_refused_before_it_is_read),
		WITH_PAIR(test_wire_send_refuses_a_body_beyond_the_bound),
		WITH_PAIR(test_wire_truncated_messages_are_errors),
		WITH_PAIR(test_wire_a_slow_sender_is_given_up),
		WITH_PAIR(test_wire_a_body_may_hold_any_bytes),
		WITH_PAIR(test_wire_the_largest_message_arrives),
		cmocka_unit_test(test_preamble_survives_the_way),
		cmocka_unit_test(test_preamble_every_beginning_of_one_may_become_one),
		cmocka_unit_test(test_preamble_a_wrong_byte_shows_at_once),
		cmocka_unit_test(test_preamble_is_never_text),
		cmocka_unit_test(test_token_text_and_back),
		cmocka_unit_test(test_token_that_is_not_32_digits_is_refused),
		cmocka_unit_test(test_tokens_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
