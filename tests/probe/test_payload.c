// SPDX-License-Identifier: BSD-3-Clause
/* Payloads in memory of the kind that the argument names, skipped where there is none of it. cuda runs twice: with the machine's driver,
 * and with one that runs the kernels on the CPU. */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../mem/fake_cuda.h"
#include "../mem/skip.h"
#include "probe/payload.h"
#include "probe/wire.h"

#define BYTES 100001
#define STEP  257ull

static struct pattern pattern;
static struct payload p;
static struct mem_where where;
static unsigned char frame[PROBE_PAYLOAD_MAX];
static struct fake_cuda *fake; /* NULL: a real GPU, or none */

static int set_up(void **state)
{
	(void)state;
	return payload_open(&p, &where, &pattern, NULL);
}

static int tear_down(void **state)
{
	(void)state;
	payload_close(&p);
	return fake ? fake->memory || fake->retained || fake->wrong : 0;
}

static void test_payloads_are_made_checked_and_returned(void **state)
{
	(void)state;
	for (uint64_t position = 0; position < 3 * STEP; position += STEP) {
		memset(frame, 0, sizeof(frame));
		assert_int_equal(payload_make(&p, frame, BYTES, position), 0);
		assert_false(pattern_check(&pattern, frame, BYTES, position, NULL));
		assert_int_equal(payload_take(&p, frame, BYTES, position, true), 0);
		assert_int_equal(payload_take(&p, frame + 7, 100, position + 7, true), 0);
		assert_int_equal(payload_return(&p, frame, BYTES), 0);
		assert_false(pattern_check(&pattern, frame, BYTES, position, NULL));
	}
	frame[BYTES / 2] ^= 1;
	assert_int_equal(payload_take(&p, frame, BYTES, 2 * STEP, true), -EBADMSG);
	assert_int_equal(payload_take(&p, frame, BYTES, 2 * STEP, false), 0);
	assert_int_equal(payload_make(&p, frame, sizeof(frame), 0), 0);
	assert_false(pattern_check(&pattern, frame, sizeof(frame), 0, NULL));
}

static void test_a_payload_that_stays_the_same_is_filled_once(void **state)
{
	int launches;

	(void)state;
	assert_int_equal(payload_make(&p, frame, BYTES, 0), 0);
	assert_true(fake->memory > 0);
	launches = fake->launches;
	assert_int_equal(payload_make(&p, frame, BYTES / 2, 0), 0);
	assert_int_equal(fake->launches, launches);
	assert_int_equal(payload_make(&p, frame, BYTES / 2, STEP), 0);
	assert_true(fake->launches > launches);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_payloads_are_made_checked_and_returned, set_up, tear_down),
		/* Only a fake driver counts. */
		cmocka_unit_test_setup_teardown(
			test_a_payload_that_stays_the_same_is_filled_once, set_up, tear_down),
	};
	const char *kind = argc > 1 ? argv[1] : "host";
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	struct err e = { 0 };
	int failed;

	where.kind = !strcmp(kind, "cuda")	? MEM_CUDA
		     : !strcmp(kind, "udmabuf") ? MEM_UDMABUF
						: MEM_HOST;
	fake = driver && where.kind == MEM_CUDA ? dlsym(driver, "fake_cuda") : NULL;
	if (pattern_init(&pattern, PATTERN_SEEDED, 1, 65537, &e) ||
		payload_open(&p, &where, &pattern, &e)) {
		pattern_free(&pattern);
		return skip_all("probe/payload", &e);
	}
	payload_close(&p);
	failed = _cmocka_run_group_tests("payload", tests, fake ? 2 : 1, NULL, NULL);
	pattern_free(&pattern);
	return failed;
}
