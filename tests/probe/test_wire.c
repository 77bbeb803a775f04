// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "probe/wire.h"

static void test_hello_comes_back_as_it_was(void **state)
{
	struct probe_hello in = { .payload_bytes = 4096 }, out;
	unsigned char bytes[PROBE_HELLO_BYTES];

	(void)state;
	memset(in.token, 0xa5, sizeof(in.token));
	probe_hello_encode(&in, bytes);
	assert_int_equal(probe_hello_decode(&out, bytes), 0);
	assert_memory_equal(&in, &out, sizeof(in));
	bytes[0] ^= 1;
	assert_int_equal(probe_hello_decode(&out, bytes), -EPROTO);
}

static void test_hello_refuses_a_payload_beyond_the_limit(void **state)
{
	struct probe_hello in = { .payload_bytes = PROBE_PAYLOAD_MAX + 1 }, out;
	unsigned char bytes[PROBE_HELLO_BYTES];

	(void)state;
	probe_hello_encode(&in, bytes);
	assert_int_equal(probe_hello_decode(&out, bytes), -EMSGSIZE);
}

static void test_header_comes_back_as_it_was(void **state)
{
	struct probe_header in = { 0xfffffffe, 7, PROBE_STAMPS_SOFTWARE, 123456789012ull }, out;
	unsigned char bytes[PROBE_HEADER_BYTES];

	(void)state;
	probe_header_encode(&in, bytes);
	assert_int_equal(probe_header_decode(&out, bytes, 7), 0);
	assert_int_equal(out.sequence, in.sequence);
	assert_int_equal(out.stamps, in.stamps);
	assert_true(out.residence_ns == in.residence_ns);
	assert_int_equal(probe_header_decode(&out, bytes, 8), -EMSGSIZE);
	bytes[15] = 3; /* a kind of stamp that there is not */
	assert_int_equal(probe_header_decode(&out, bytes, 7), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hello_comes_back_as_it_was),
		cmocka_unit_test(test_hello_refuses_a_payload_beyond_the_limit),
		cmocka_unit_test(test_header_comes_back_as_it_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
