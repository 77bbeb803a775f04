// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "rpc/header.h"

static void test_timeout_reads_every_unit(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = { { "1n", 1 }, { "250u", 250 * NS_PER_US }, { "5m", 5 * NS_PER_MS },
		{ "2S", 2 * NS_PER_S }, { "3M", 180 * NS_PER_S }, { "1H", 3600 * NS_PER_S },
		{ "0S", 0 }, { "00000001S", NS_PER_S }, { "99999999n", 99999999 },
		{ "99999999S", 99999999 * NS_PER_S }, { "99999999H", UINT64_MAX } };
	uint64_t ns;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(rpc_timeout_parse(good[i].text, strlen(good[i].text), &ns), 0);
		assert_int_equal(ns, good[i].ns);
	}
}

static void test_timeout_refuses_what_is_none(void **state)
{
	static const char *const bad[] = { "", "S", "1", "1s", "1h", "-1S", "+1S", " 1S", "1S ",
		"1.5S", "1e3S", "123456789S", "1SS", "0x1S" };
	uint64_t ns;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(rpc_timeout_parse(bad[i], strlen(bad[i]), &ns), -EINVAL);
}

static void test_timeout_text_is_never_less_and_hardly_more(void **state)
{
	static const uint64_t ns[] = { 0, 1, 99999999, 100000000, 100000001, NS_PER_S,
		86400 * NS_PER_S, UINT64_MAX / 2, 99999999999999999ull };
	char text[RPC_TIMEOUT_TEXT];
	uint64_t back;

	(void)state;
	for (size_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++) {
		rpc_timeout_text(ns[i], text);
		assert_int_equal(rpc_timeout_parse(text, strlen(text), &back), 0);
		assert_true(back >= ns[i]);
		assert_true(back - ns[i] <= ns[i] / 50000);
	}
	assert_string_equal(rpc_timeout_text(2 * NS_PER_S, text), "2000000u");
}

static void test_percent_keeps_printable_and_brings_the_rest_back(void **state)
{
	char *text = rpc_percent_encode("50 % of \xc3\xa4 ~!");

	(void)state;
	assert_string_equal(text, "50 %25 of %C3%A4 ~!");
	rpc_percent_decode(text);
	assert_string_equal(text, "50 % of \xc3\xa4 ~!");
	free(text);
}

static void test_percent_decode_takes_nonsense_as_it_is(void **state)
{
	char words[] = "%zz %4 %a0%0a%00%1b[2J %c3%A4%";

	(void)state;
	rpc_percent_decode(words);
	assert_string_equal(words, "%zz %4 \xa0???[2J \xc3\xa4%");
}

static void test_base64_of_every_length_comes_back(void **state)
{
	uint8_t bytes[64];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 37 + 200);
	for (size_t n = 0; n <= sizeof(bytes); n++) {
		char *text = rpc_base64_encode(bytes, n), padded[100];
		size_t length = strlen(text), back;
		uint8_t *out = rpc_base64_decode(text, length, &back);

		assert_int_equal(back, n);
		assert_memory_equal(out, bytes, n);
		free(out);
		strcpy(padded, text);
		strcat(padded, &"==="[3 - (4 - length % 4) % 4]);
		out = rpc_base64_decode(padded, strlen(padded), &back);
		assert_int_equal(back, n);
		assert_memory_equal(out, bytes, n);
		free(out);
		free(text);
	}
}

static void test_base64_refuses_what_is_none(void **state)
{
	size_t bytes;

	(void)state;
	assert_null(rpc_base64_decode("A", 1, &bytes));
	assert_null(rpc_base64_decode("AAAAA", 5, &bytes));
	assert_null(rpc_base64_decode("A-_A", 4, &bytes));
	assert_null(rpc_base64_decode("AA\0A", 4, &bytes));
	assert_null(rpc_base64_decode("AA=A", 4, &bytes));
}

static void test_content_type_is_grpc_alone_or_with_more(void **state)
{
	static const char *const good[] = { "application/grpc", "application/grpc+proto",
		"application/grpc;charset=utf-8", "Application/GRPC" };
	static const char *const bad[] = { "", "application/grp", "application/grpcx",
		"application/grpc-web", "text/html", " application/grpc" };

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(rpc_content_type_is_grpc(good[i], strlen(good[i])));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(rpc_content_type_is_grpc(bad[i], strlen(bad[i])));
}

static void test_codes_from_elsewhere_are_mapped(void **state)
{
	(void)state;
	assert_int_equal(rpc_code_of_http(401), RPC_UNAUTHENTICATED);
	assert_int_equal(rpc_code_of_http(404), RPC_UNIMPLEMENTED);
	assert_int_equal(rpc_code_of_http(503), RPC_UNAVAILABLE);
	assert_int_equal(rpc_code_of_http(302), RPC_UNKNOWN);
	assert_int_equal(rpc_code_of_reset(7), RPC_UNAVAILABLE);
	assert_int_equal(rpc_code_of_reset(0xffffffff), RPC_INTERNAL);
	assert_int_equal(rpc_code_parse("16", 2), RPC_UNAUTHENTICATED);
	assert_int_equal(rpc_code_parse("17", 2), RPC_UNKNOWN);
	assert_int_equal(rpc_code_parse("0", 1), RPC_OK);
	assert_int_equal(rpc_code_parse("", 0), RPC_UNKNOWN);
	assert_int_equal(rpc_code_parse("000", 3), RPC_UNKNOWN);
	assert_string_equal(rpc_code_name(RPC_DEADLINE_EXCEEDED), "DEADLINE_EXCEEDED");
	assert_string_equal(rpc_code_name((enum rpc_code)99), "UNKNOWN");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_timeout_reads_every_unit),
		cmocka_unit_test(test_timeout_refuses_what_is_none),
		cmocka_unit_test(test_timeout_text_is_never_less_and_hardly_more),
		cmocka_unit_test(test_percent_keeps_printable_and_brings_the_rest_back),
		cmocka_unit_test(test_percent_decode_takes_nonsense_as_it_is),
		cmocka_unit_test(test_base64_of_every_length_comes_back),
		cmocka_unit_test(test_base64_refuses_what_is_none),
		cmocka_unit_test(test_content_type_is_grpc_alone_or_with_more),
		cmocka_unit_test(test_codes_from_elsewhere_are_mapped),
	};

	return cmocka_run_group_tests_name("rpc/header", tests, NULL, NULL);
}
