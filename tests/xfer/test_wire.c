// SPDX-License-Identifier: BSD-3-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "xfer/wire.h"

static struct xfer_hello good_hello(void)
{
	struct xfer_hello h = { .version = XFER_VERSION,
		.rank = 3,
		.peer_rank = 5,
		.channels = 8,
		.window = 16,
		.directions = XFER_TO_SERVER | XFER_TO_CLIENT,
		.chunk_bytes = 512 << 10 };

	assert_int_equal(xfer_token("secret", h.token, NULL), 0);
	return h;
}

static void test_hello_comes_back_as_it_was(void **state)
{
	struct xfer_hello h = good_hello(), again;
	uint8_t bytes[XFER_HELLO_BYTES];

	(void)state;
	xfer_hello_encode(&h, bytes);
	assert_int_equal(xfer_hello_decode(bytes, &again, NULL), 0);
	assert_memory_equal(&h, &again, sizeof(h));
	assert_int_equal(xfer_hello_judge(&again, h.token, 5, "tcp"), XFER_WELCOME);
}

static void test_hello_of_something_else_is_refused(void **state)
{
	uint8_t bytes[XFER_HELLO_BYTES] = "GET / HTTP/1.1\r\n";
	struct xfer_hello h;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(xfer_hello_decode(bytes, &h, &e), -EPROTO);
	assert_string_equal(e.what, "what connected is not a weir p2p client");
}

static void test_hello_is_judged(void **state)
{
	struct xfer_hello h = good_hello(), bad;
	uint8_t other[WEIR_P2P_TOKEN_MAX];

	(void)state;
	xfer_token("secreT", other, NULL);
	bad = h, bad.version++;
	assert_int_equal(xfer_hello_judge(&bad, h.token, 5, "tcp"), XFER_WRONG_VERSION);
	assert_int_equal(xfer_hello_judge(&h, other, 5, "tcp"), XFER_WRONG_TOKEN);
	assert_int_equal(xfer_hello_judge(&h, h.token, 4, "tcp"), XFER_WRONG_RANK);
	bad = h;
	strcpy(bad.transport, "a plugin");
	assert_int_equal(xfer_hello_judge(&bad, h.token, 5, "tcp"), XFER_WRONG_TRANSPORT);
	assert_int_equal(xfer_hello_judge(&bad, h.token, 5, "a plugin"), XFER_WELCOME);
	strcpy(bad.transport, "weir");
	assert_int_equal(xfer_hello_judge(&bad, h.token, 5, "tcp"), XFER_WELCOME);
	bad = h;
	bad = h, bad.peer_rank = XFER_ANY_RANK;
	assert_int_equal(xfer_hello_judge(&bad, h.token, 4, "tcp"), XFER_WELCOME);
	bad = h, bad.channels = 0;
	assert_int_equal(xfer_hello_judge(&bad, h.token, 5, "tcp"), XFER_WRONG_COUNT);
	bad = h, bad.channels = 65;
	assert_int_equal(xfer_hello_judge(&bad, h.token, 5, "tcp"), XFER_WRONG_COUNT);
	bad = h, bad.window = 33;
	assert_int_equal(xfer_hello_judge(&bad, h.token, 5, "tcp"), XFER_WRONG_COUNT);
	bad = h, bad.chunk_bytes = 4095;
	assert_int_equal(xfer_hello_judge(&bad, h.token, 5, "tcp"), XFER_WRONG_COUNT);
	bad = h, bad.chunk_bytes = WEIR_P2P_CHUNK_MAX + 1;
	assert_int_equal(xfer_hello_judge(&bad, h.token, 5, "tcp"), XFER_WRONG_COUNT);
	bad = h, bad.directions = XFER_TO_CLIENT;
	assert_int_equal(xfer_hello_judge(&bad, h.token, 5, "tcp"), XFER_WRONG_COUNT);
}

static int welcome(struct xfer_welcome w, struct err *e)
{
	struct xfer_hello asked = good_hello();
	uint8_t bytes[XFER_WELCOME_BYTES];
	struct xfer_welcome again;
	int ret;

	xfer_welcome_encode(&w, bytes);
	ret = xfer_welcome_decode(bytes, &asked, &again, e);
	if (!ret)
		assert_memory_equal(&w, &again, sizeof(w));
	return ret;
}

static void test_welcome_is_judged(void **state)
{
	struct xfer_welcome w = { .version = XFER_VERSION,
		.channels = 8,
		.window = 16,
		.chunk_bytes = 4096,
		.rank = 5 },
			    bad;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(welcome(w, &e), 0);
	bad = w, bad.version = 7;
	assert_int_equal(welcome(bad, &e), -EPROTO);
	assert_string_equal(e.what, "the server speaks version 7 of the p2p protocol, this end 1");
	bad = w, bad.channels = 0;
	assert_int_equal(welcome(bad, &e), -EPROTO);
	bad = w, bad.channels = 65;
	assert_int_equal(welcome(bad, &e), -EPROTO);
	assert_non_null(strstr(e.what, "65 channels"));
	bad = w, bad.refusal = XFER_WRONG_TOKEN;
	assert_int_equal(welcome(bad, &e), -EACCES);
	bad = w, bad.refusal = XFER_WRONG_RANK;
	assert_int_equal(welcome(bad, &e), -EPROTO);
	bad = w, bad.refusal = 1000;
	assert_int_equal(welcome(bad, &e), -EPROTO);
}

static void test_token_has_a_length(void **state)
{
	uint8_t token[WEIR_P2P_TOKEN_MAX];

	(void)state;
	assert_int_equal(xfer_token("", token, NULL), -EINVAL);
	assert_int_equal(xfer_token("0123456789012345678901234567890123", token, NULL), -EINVAL);
	assert_int_equal(xfer_token("01234567890123456789012345678901", token, NULL), 0);
}

static size_t encode(const struct xfer_frame *f, uint8_t *bytes)
{
	size_t n = xfer_frame_encode(f, bytes);

	if (f->data_bytes)
		memcpy(bytes + n, f->data, f->data_bytes);
	return n + f->data_bytes;
}

static void test_frames_come_back_as_they_were(void **state)
{
	uint8_t handles[2 * NET_HANDLE_BYTES] = { 1, 2, 3 }, channels[3] = { 0, 7, 1 };
	const struct xfer_frame all[] = {
		{ .type = XFER_BACK, .count = 2, .data = handles, .data_bytes = sizeof(handles) },
		{ .type = XFER_READY },
		{ .type = XFER_OFFER,
			.kind = XFER_WRITE,
			.id = 77,
			.bytes = 1ull << 40,
			.key = 5,
			.offset = 1ull << 50 },
		{ .type = XFER_OFFER,
			.kind = XFER_ANSWER,
			.id = 78,
			.answers = 1ull << 63,
			.bytes = 3,
			.data = channels,
			.data_bytes = 3 },
		{ .type = XFER_GRANT,
			.id = 77,
			.first = 9,
			.count = 3,
			.data = channels,
			.data_bytes = 3 },
		{ .type = XFER_CREDIT_BACK, .count = XFER_CREDIT },
		{ .type = XFER_RESULT, .id = 9, .status = -ERANGE },
		{ .type = XFER_READ, .id = 1, .key = 2, .offset = 3, .bytes = 4 },
		{ .type = XFER_NOTIFY, .bytes = 30, .data = channels, .data_bytes = 3 },
		{ .type = XFER_PING },
		{ .type = XFER_PONG },
		{ .type = XFER_BYE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		uint8_t bytes[XFER_HEAD_MAX + sizeof(handles)];
		size_t length = encode(&all[i], bytes);
		struct xfer_frame f, expected = all[i];

		for (size_t cut = 0; cut < XFER_FRAME_BYTES; cut++)
			assert_int_equal(xfer_frame_length(bytes, cut), 0);
		assert_int_equal(xfer_frame_length(bytes, XFER_FRAME_BYTES), length);
		assert_int_equal(xfer_frame_decode(bytes, length, &f, NULL), 0);
		assert_int_equal(f.data_bytes, expected.data_bytes);
		if (f.data_bytes)
			assert_memory_equal(f.data, expected.data, f.data_bytes);
		f.data = expected.data;
		assert_memory_equal(&f, &expected, sizeof(f));
	}
}

static int decode(struct xfer_frame f, size_t data_bytes)
{
	uint8_t bytes[XFER_HEAD_MAX + 1024] = { 0 };
	struct xfer_frame again;
	size_t n;

	f.data_bytes = data_bytes;
	n = xfer_frame_encode(&f, bytes);
	return xfer_frame_decode(bytes, n + data_bytes, &again, NULL);
}

static void test_frames_that_do_not_fit_together_are_refused(void **state)
{
	(void)state;
	assert_int_equal(decode((struct xfer_frame){ .type = XFER_BACK, .count = 0 }, 0), -EPROTO);
	assert_int_equal(
		decode((struct xfer_frame){ .type = XFER_BACK, .count = 2 }, 128), -EPROTO);
	assert_int_equal(decode((struct xfer_frame){ .type = XFER_GRANT, .count = 0 }, 0), -EPROTO);
	assert_int_equal(decode((struct xfer_frame){ .type = XFER_GRANT, .count = 4 }, 3), -EPROTO);
	assert_int_equal(
		decode((struct xfer_frame){ .type = XFER_OFFER, .kind = XFER_KINDS }, 0), -EPROTO);
	assert_int_equal(decode((struct xfer_frame){ .type = XFER_OFFER, .bytes = 9 }, 8), -EPROTO);
	assert_int_equal(
		decode((struct xfer_frame){ .type = XFER_RESULT, .status = 1 }, 0), -EPROTO);
	assert_int_equal(
		decode((struct xfer_frame){ .type = XFER_RESULT, .status = -5000 }, 0), -EPROTO);
	assert_int_equal(
		decode((struct xfer_frame){ .type = XFER_NOTIFY, .bytes = 2 }, 3), -EPROTO);
	assert_int_equal(
		decode((struct xfer_frame){ .type = XFER_NOTIFY, .bytes = WEIR_P2P_NOTIFY_MAX + 1 },
			3),
		-EPROTO);
	assert_int_equal(
		decode((struct xfer_frame){ .type = XFER_CREDIT_BACK, .count = 65 }, 0), -EPROTO);
	assert_int_equal(decode((struct xfer_frame){ .type = XFER_READY }, 1), -EPROTO);
}

static void test_a_frame_of_no_type_or_too_long_is_refused(void **state)
{
	uint8_t none[8] = { 0 }, unknown[8] = { 0, 0, 0, 0, XFER_TYPES },
		odd[8] = { 0, 0, 0, 0, 2, 1 };
	uint8_t long_one[8] = { 0, 0, 1, 0, XFER_NOTIFY }, short_one[8] = { 3, 0, 0, 0, XFER_BACK };

	(void)state;
	assert_int_equal(xfer_frame_length(none, 8), -EPROTO);
	assert_int_equal(xfer_frame_length(unknown, 8), -EPROTO);
	assert_int_equal(xfer_frame_length(odd, 8), -EPROTO);
	assert_int_equal(xfer_frame_length(long_one, 8), -EPROTO);
	assert_int_equal(xfer_frame_length(short_one, 8), -EPROTO);
}

static void test_chunks_cover_all_bytes(void **state)
{
	(void)state;
	assert_int_equal(xfer_chunks(0, 4096), 1);
	assert_int_equal(xfer_chunks(1, 4096), 1);
	assert_int_equal(xfer_chunks(4096, 4096), 1);
	assert_int_equal(xfer_chunks(4097, 4096), 2);
	assert_int_equal(xfer_chunk_length(0, 4096, 0), 0);
	assert_int_equal(xfer_chunk_length(4097, 4096, 0), 4096);
	assert_int_equal(xfer_chunk_length(4097, 4096, 1), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hello_comes_back_as_it_was),
		cmocka_unit_test(test_hello_of_something_else_is_refused),
		cmocka_unit_test(test_hello_is_judged),
		cmocka_unit_test(test_welcome_is_judged),
		cmocka_unit_test(test_token_has_a_length),
		cmocka_unit_test(test_frames_come_back_as_they_were),
		cmocka_unit_test(test_frames_that_do_not_fit_together_are_refused),
		cmocka_unit_test(test_a_frame_of_no_type_or_too_long_is_refused),
		cmocka_unit_test(test_chunks_cover_all_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
