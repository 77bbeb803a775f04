/* SPDX-License-Identifier: BSD-3-Clause */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "net/chan.h"
#include "pair.h"

#define PAGE   4096u
#define LENGTH (64u << 10)

static struct pair p;
static struct chan tx, rx;
static char *sent, *got;

static uint64_t in_s(uint64_t s)
{
	return clock_ns() + s * NS_PER_S;
}

static void open_chans(enum chan_path send, enum chan_path recv)
{
	struct sock_options options = { .zerocopy = send == CHAN_ZEROCOPY };
	struct err e;

	pair_open(&p, AF_INET, &options);
	assert_int_equal(chan_init(&tx, p.client, send, CHAN_PLAIN, 0, &e), 0);
	if (chan_init(&rx, p.server, CHAN_PLAIN, recv, LENGTH, &e))
		fail_msg("%s", e.what);
	sent = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	got = calloc(1, LENGTH);
	assert_ptr_not_equal(sent, MAP_FAILED);
	assert_non_null(got);
	for (size_t i = 0; i < LENGTH; i++)
		sent[i] = (char)(i * 31 + i / 251);
}

static void close_chans(void)
{
	chan_close(&tx);
	chan_close(&rx);
	chan_close(&tx); /* again is nothing */
	munmap(sent, LENGTH);
	free(got);
}

static void send_all(size_t length)
{
	for (size_t done = 0; done < length;) {
		ssize_t n = tx.send(&tx, sent + done, length - done, 0);

		if (n == -EAGAIN) {
			chan_error(&tx);
			assert_true(sock_wait(tx.fd, POLLOUT, -1, in_s(5)) > 0);
			continue;
		}
		assert_true(n > 0);
		done += (size_t)n;
	}
}

/* Receive until length bytes were counted; returns in how many calls. */
static int recv_all(size_t length, size_t at_most)
{
	int calls = 0;

	for (size_t done = 0; done < length; calls++) {
		ssize_t n;

		assert_int_equal(sock_wait(rx.fd, POLLIN, -1, in_s(5)), 1);
		n = rx.recv(&rx, got + done, at_most < LENGTH - done ? at_most : LENGTH - done);
		if (n == -EAGAIN)
			continue;
		assert_true(n > 0);
		done += (size_t)n;
		assert_true(done <= length);
	}
	return calls;
}

static void reap(uint32_t calls)
{
	uint64_t give_up_ns = in_s(5);

	while (tx.zerocopy_done != calls && clock_ns() < give_up_ns) {
		sock_wait(tx.fd, POLLERR, -1, clock_ns() + NS_PER_MS);
		assert_int_equal(chan_error(&tx), 0);
	}
	assert_int_equal(tx.zerocopy_done, calls);
}

static void test_chan_plain_carries_bytes_unchanged_and_never_blocks(void **state)
{
	(void)state;
	open_chans(CHAN_PLAIN, CHAN_PLAIN);
	assert_int_equal(rx.recv(&rx, got, LENGTH), -EAGAIN);
	send_all(LENGTH);
	recv_all(LENGTH, LENGTH);
	assert_memory_equal(got, sent, LENGTH);
	assert_int_equal(tx.zerocopy_sent, 0);
	assert_int_equal(rx.mapped_bytes, 0);
	close_chans();
}

static void test_chan_a_full_connection_says_so(void **state)
{
	ssize_t n = 0;

	(void)state;
	open_chans(CHAN_PLAIN, CHAN_PLAIN);
	for (int i = 0; i < 100000 && n >= 0; i++)
		n = tx.send(&tx, sent, LENGTH, 0);
	assert_int_equal(n, -EAGAIN);
	close_chans();
}

static void test_chan_the_peer_s_close_is_zero_and_a_reset_an_error(void **state)
{
	struct linger reset = { .l_onoff = 1 };

	(void)state;
	open_chans(CHAN_PLAIN, CHAN_PLAIN);
	chan_close(&tx);
	assert_int_equal(sock_wait(rx.fd, POLLIN, -1, in_s(5)), 1);
	assert_int_equal(rx.recv(&rx, got, LENGTH), 0);
	assert_int_equal(chan_error(&rx), 0);
	close_chans();

	open_chans(CHAN_PLAIN, CHAN_PLAIN);
	setsockopt(tx.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	chan_close(&tx);
	assert_int_equal(sock_wait(rx.fd, POLLIN, -1, in_s(5)), 1);
	assert_int_equal(chan_error(&rx), -ECONNRESET);
	close_chans();
}

static void test_chan_sending_to_a_closed_peer_gives_no_signal(void **state)
{
	ssize_t n = 0;

	(void)state;
	open_chans(CHAN_PLAIN, CHAN_PLAIN);
	chan_close(&rx);
	for (int i = 0; i < 100 && n != -EPIPE && n != -ECONNRESET; i++)
		n = tx.send(&tx, sent, LENGTH, 0);
	assert_true(n == -EPIPE || n == -ECONNRESET);
	close_chans();
}

/* Over loopback the kernel copies after all, and says so: the counters keep both numbers. */
static void test_chan_zerocopy_counts_calls_completions_and_copies(void **state)
{
	uint32_t calls = 0;

	(void)state;
	open_chans(CHAN_ZEROCOPY, CHAN_PLAIN);
	for (int i = 0; i < 20; i++) {
		ssize_t n = tx.send(&tx, sent, 16 << 10, 0);

		assert_int_equal(n, 16 << 10);
		calls++;
		recv_all(16 << 10, LENGTH);
	}
	assert_memory_equal(got, sent, 16 << 10);
	assert_int_equal(tx.zerocopy_sent, calls);
	reap(calls);
	assert_int_equal(tx.zerocopy_copied, calls);
	assert_int_equal(tx.zerocopy_sent, calls);
	close_chans();
}

static void test_chan_zerocopy_many_calls_are_reaped_in_few_readings(void **state)
{
	(void)state;
	open_chans(CHAN_ZEROCOPY, CHAN_DISCARD);
	for (int i = 0; i < 300; i++) {
		send_all(PAGE);
		recv_all(PAGE, LENGTH);
	}
	assert_true(tx.zerocopy_sent >= 300);
	reap(tx.zerocopy_sent);
	assert_int_equal(tx.zerocopy_copied, tx.zerocopy_done);
	close_chans();
}

/* With no memory for another notification the call is to be tried again later, not an error. */
static void test_chan_zerocopy_waits_for_completions_when_there_are_too_many(void **state)
{
	size_t bytes = 0;
	ssize_t n = 0;

	(void)state;
	open_chans(CHAN_ZEROCOPY, CHAN_PLAIN);
	for (int i = 0; i < 200000 && n >= 0; i++) {
		n = tx.send(&tx, sent, 1, 0);
		bytes += n > 0 ? (size_t)n : 0;
	}
	assert_true(n >= 0 || n == -EAGAIN);
	assert_true(bytes > 0);
	close_chans();
}

static void test_chan_discard_counts_bytes_and_leaves_the_buffer_alone(void **state)
{
	(void)state;
	open_chans(CHAN_PLAIN, CHAN_DISCARD);
	assert_int_equal(rx.recv(&rx, got, LENGTH), -EAGAIN);
	memset(got, 0x5a, LENGTH);
	send_all(LENGTH);
	recv_all(LENGTH, LENGTH);
	for (size_t i = 0; i < LENGTH; i++)
		assert_int_equal(got[i], 0x5a);
	assert_int_equal(rx.recv(&rx, got, LENGTH), -EAGAIN);
	chan_close(&tx);
	assert_int_equal(sock_wait(rx.fd, POLLIN, -1, in_s(5)), 1);
	assert_int_equal(rx.recv(&rx, got, LENGTH), 0);
	close_chans();
}

/* Zero-copy sends of whole pages give the receiver whole pages, which it can map. */
static void test_chan_mapped_takes_all_bytes_and_maps_whole_pages(void **state)
{
	uint64_t total = 0;

	(void)state;
	open_chans(CHAN_ZEROCOPY, CHAN_MAPPED);
	assert_int_equal(rx.recv(&rx, got, LENGTH), -EAGAIN);
	for (int i = 0; i < 8; i++) {
		send_all(LENGTH);
		recv_all(LENGTH, LENGTH);
		total += LENGTH;
	}
	assert_true(rx.mapped_bytes <= total);
	assert_int_equal(rx.mapped_bytes % PAGE, 0);
	assert_true(rx.mapped_bytes > 0);
	chan_close(&tx);
	assert_int_equal(sock_wait(rx.fd, POLLIN, -1, in_s(5)), 1);
	assert_int_equal(rx.recv(&rx, got, LENGTH), 0);
	close_chans();
}

static void test_chan_mapped_takes_odd_lengths_too(void **state)
{
	static const size_t lengths[] = { 1, 7, PAGE - 1, PAGE + 1, 3 * PAGE + 5, LENGTH - 1 };

	(void)state;
	open_chans(CHAN_PLAIN, CHAN_MAPPED);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		send_all(lengths[i]);
		recv_all(lengths[i], LENGTH);
		assert_int_equal(rx.recv(&rx, got, LENGTH), -EAGAIN);
	}
	close_chans();
}

static void test_chan_mapped_on_what_is_no_socket_is_refused(void **state)
{
	struct chan c;
	struct err e;
	int fd[2];

	(void)state;
	assert_int_equal(pipe(fd), 0);
	assert_true(chan_init(&c, fd[0], CHAN_PLAIN, CHAN_MAPPED, LENGTH, &e) < 0);
	assert_non_null(strstr(e.what, "zero-copy receive"));
	/* It was not taken over. */
	assert_int_equal(close(fd[0]), 0);
	close(fd[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chan_plain_carries_bytes_unchanged_and_never_blocks),
		cmocka_unit_test(test_chan_a_full_connection_says_so),
		cmocka_unit_test(test_chan_the_peer_s_close_is_zero_and_a_reset_an_error),
		cmocka_unit_test(test_chan_sending_to_a_closed_peer_gives_no_signal),
		cmocka_unit_test(test_chan_zerocopy_counts_calls_completions_and_copies),
		cmocka_unit_test(test_chan_zerocopy_many_calls_are_reaped_in_few_readings),
		cmocka_unit_test(test_chan_zerocopy_waits_for_completions_when_there_are_too_many),
		cmocka_unit_test(test_chan_discard_counts_bytes_and_leaves_the_buffer_alone),
		cmocka_unit_test(test_chan_mapped_takes_all_bytes_and_maps_whole_pages),
		cmocka_unit_test(test_chan_mapped_takes_odd_lengths_too),
		cmocka_unit_test(test_chan_mapped_on_what_is_no_socket_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
