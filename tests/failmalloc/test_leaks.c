/* SPDX-License-Identifier: BSD-3-Clause */
/* Every allocation of weir's own code fails once while both ends of a run live in this process: nothing is left behind,
 * no descriptor, no thread and, as the sanitizer tells at the end, no memory. The linker leads malloc and its kin here
 * (--wrap), which works under sanitizers too. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "ends.h"

#define SECONDS_EACH 6 /* what does not fit is left out, spread evenly */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

static _Atomic unsigned long calls, fail_at;

static bool fails(void)
{
	if (atomic_fetch_add(&calls, 1) + 1 != fail_at)
		return false;
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t bytes)
{
	return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	return fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
	return fails() ? NULL : __real_realloc(old, bytes);
}

static void arm(unsigned long at)
{
	calls = 0;
	fail_at = at;
}

static unsigned long disarm(void)
{
	fail_at = 0;
	return calls;
}

/* The i-th of 0 to 2^bits - 1 with its bits reversed: any first part is spread over all. */
static unsigned long spread(unsigned long i, unsigned int bits)
{
	unsigned long reversed = 0;

	for (unsigned int b = 0; b < bits; b++)
		reversed |= (i >> b & 1) << (bits - 1 - b);
	return reversed;
}

/* Call attempt once without and then with each allocation failing, as far as there is time. */
static void fail_each(void (*attempt)(const void *context), const void *context)
{
	uint64_t until_ns = clock_ns() + SECONDS_EACH * NS_PER_S;
	unsigned long count, tried = 0;
	unsigned int bits = 0;

	arm(0);
	attempt(context);
	count = disarm();
	assert_true(count > 0);
	while (1ul << bits < count)
		bits++;
	for (unsigned long i = 0; i < 1ul << bits && clock_ns() < until_ns; i++) {
		if (spread(i, bits) >= count)
			continue;
		arm(spread(i, bits) + 1);
		attempt(context);
		disarm();
		tried++;
	}
	print_message("# %lu of %lu allocations\n", tried, count);
}

/* Whole runs */

struct kind {
	enum workload workload;
	const char *line;
};

static void attempt_run(const void *context)
{
	static struct server_end server;
	const struct kind *kind = context;
	struct held before = ends_held();
	struct seen client;
	bool served;

	served = ends_try_serve(&server, kind->workload, "");
	if (served)
		ends_client(&server, kind->line, &client);
	if (served && client.ret)
		assert_int_not_equal(client.e.what[0], 0);
	else if (served)
		assert_true(client.complete || client.error[0]);
	else
		assert_int_not_equal(server.seen.e.what[0], 0);
	if (served)
		assert_int_equal(ends_stop(&server), 0);
	else
		assert_true(ends_join(&server) < 0);
	ends_assert_held(&before);
}

static void test_stream_leaves_nothing_behind(void **state)
{
	struct kind kind = { WORKLOAD_STREAM, "-l 0.02 --warmup 0 -I 0.01 -T 2 -F 3" };

	(void)state;
	fail_each(attempt_run, &kind);
}

static void test_rr_leaves_nothing_behind(void **state)
{
	struct kind kind = {
		WORKLOAD_RR,
		"-l 0.02 --warmup 0 -I 0.01 -T 2 -F 3 -p 50,99 --rate 5000 --all-samples=x --log-rtt=y"
	};

	(void)state;
	fail_each(attempt_run, &kind);
}

static void test_crr_leaves_nothing_behind(void **state)
{
	struct kind kind = { WORKLOAD_CRR, "-l 0.02 --warmup 0 -I 0.01 -T 2 -F 3" };

	(void)state;
	fail_each(attempt_run, &kind);
}

/* Parsers */

static void attempt_result(const void *context)
{
	char text[] = "end valid=1 window_ns=5\ninterval rx_bytes=1\nflow id=0\nflow id=1\n"
		      "latency count=3 min_ns=5 max_ns=5 cells=5:3,\nservice count=1 cells=5:1,\n"
		      "fact kernel 6.1\n";
	struct end_result r;
	struct err e = { 0 };
	size_t length;
	char *again;

	(void)context;
	if (result_decode(&r, text, &e)) {
		assert_int_equal(e.code, ENOMEM);
		return;
	}
	again = result_encode(&r, &length, &e);
	if (!again)
		assert_int_equal(e.code, ENOMEM);
	free(again);
	result_free(&r);
}

static void test_results_leave_nothing_behind(void **state)
{
	(void)state;
	fail_each(attempt_result, NULL);
}

static void attempt_message(const void *context)
{
	struct wire_message m;
	struct err e = { 0 };
	int fd[2], ret;

	(void)context;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	assert_int_equal(wire_send(fd[0], WIRE_REQUEST, "a=1\n", 4, clock_ns() + NS_PER_S, &e), 0);
	ret = wire_recv(fd[1], &m, clock_ns() + NS_PER_S, &e);
	if (ret)
		assert_int_equal(ret, -ENOMEM);
	else
		wire_free(&m);
	close(fd[0]);
	close(fd[1]);
}

static void test_messages_leave_nothing_behind(void **state)
{
	(void)state;
	fail_each(attempt_message, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_results_leave_nothing_behind),
		cmocka_unit_test(test_messages_leave_nothing_behind),
		cmocka_unit_test(test_stream_leaves_nothing_behind),
		cmocka_unit_test(test_rr_leaves_nothing_behind),
		cmocka_unit_test(test_crr_leaves_nothing_behind),
	};

	signal(SIGPIPE, SIG_IGN);
	log_set_level(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
