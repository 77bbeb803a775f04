/* SPDX-License-Identifier: BSD-3-Clause */
/* What is made of the kernel's words about received fragments, and how they are given back. The kernel is
 * played here, word by word; the real one is met in the lab. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "net/devmem.h"
#include "sys/uapi.h"

#define DMABUF	7
#define MESSAGE CMSG_SPACE(sizeof(struct uapi_dmabuf_cmsg))

static struct {
	char control[DEVMEM_FRAGMENTS * MESSAGE + 64];
	size_t control_bytes;
	ssize_t bytes;
	/* what was given back */
	uint32_t calls, fragments, runs_most;
} kernel;

static void say(int type, uint64_t offset, uint32_t bytes, uint32_t token, uint32_t dmabuf)
{
	struct uapi_dmabuf_cmsg word = { offset, bytes, token, dmabuf, 0 };
	struct cmsghdr head = {
		.cmsg_len = CMSG_LEN(sizeof(word)), .cmsg_level = SOL_SOCKET, .cmsg_type = type
	};
	char *to = kernel.control + kernel.control_bytes;

	memcpy(to, &head, sizeof(head));
	memcpy(to + CMSG_LEN(0), &word, sizeof(word));
	kernel.control_bytes += MESSAGE;
	kernel.bytes += bytes;
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	(void)fd;
	assert_true(flags & UAPI_MSG_SOCK_DEVMEM);
	assert_true(msg->msg_controllen >= kernel.control_bytes);
	memcpy(msg->msg_control, kernel.control, kernel.control_bytes);
	msg->msg_controllen = kernel.control_bytes;
	return kernel.bytes;
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
	const struct uapi_dmabuf_token *run = value;
	uint32_t runs = length / sizeof(*run), fragments = 0;

	(void)fd;
	assert_int_equal(level, SOL_SOCKET);
	assert_int_equal(name, UAPI_SO_DEVMEM_DONTNEED);
	for (uint32_t i = 0; i < runs; i++)
		fragments += run[i].token_count;
	kernel.calls++;
	kernel.fragments += fragments;
	if (runs > kernel.runs_most)
		kernel.runs_most = runs;
	return (int)fragments;
}

static struct devmem_rx rx;
static char plain[64];

static int begin(void **state)
{
	struct err e;

	(void)state;
	memset(&kernel, 0, sizeof(kernel));
	return devmem_rx_init(&rx, DMABUF, &e);
}

static int end(void **state)
{
	(void)state;
	devmem_rx_free(&rx);
	return 0;
}

static void test_devmem_fragments_have_their_places_in_the_stream(void **state)
{
	(void)state;
	say(UAPI_SO_DEVMEM_DMABUF, 8192, 4096, 3, DMABUF);
	say(UAPI_SO_DEVMEM_LINEAR, 0, 20, 0, 0);
	say(UAPI_SO_DEVMEM_LINEAR, 0, 10, 0, 0);
	say(UAPI_SO_DEVMEM_DMABUF, 4096, 756, 4, DMABUF);
	assert_int_equal(devmem_recv(&rx, -1, plain, sizeof(plain)), 4096 + 20 + 10 + 756);
	assert_int_equal(rx.count, 2);
	assert_int_equal(rx.list[0].region_offset, 8192);
	assert_int_equal(rx.list[0].bytes, 4096);
	assert_int_equal(rx.list[0].stream_position, 0);
	assert_int_equal(rx.list[1].region_offset, 4096);
	assert_int_equal(rx.list[1].bytes, 756);
	assert_int_equal(rx.list[1].stream_position, 4096 + 30);
	assert_int_equal(rx.linear_count, 2);
	assert_int_equal(rx.linear[0].region_offset, 0);
	assert_int_equal(rx.linear[0].stream_position, 4096);
	assert_int_equal(rx.linear[1].region_offset, 20);
	assert_int_equal(rx.linear[1].bytes, 10);
	assert_int_equal(rx.linear[1].stream_position, 4096 + 20);
	assert_int_equal(rx.dmabuf_bytes, 4096 + 756);
	assert_int_equal(rx.linear_bytes, 30);
	assert_int_equal(rx.tokens_held, 2);
	assert_int_equal(devmem_release(&rx, -1), 0);
	assert_int_equal(kernel.calls, 1);
	assert_int_equal(kernel.runs_most, 1); /* 3 and 4 */
	assert_int_equal(kernel.fragments, 2);
	assert_int_equal(rx.tokens_held, 0);
}

static void test_devmem_no_words_mean_ordinary_bytes(void **state)
{
	(void)state;
	kernel.bytes = 40;
	assert_int_equal(devmem_recv(&rx, -1, plain, sizeof(plain)), 40);
	assert_int_equal(rx.plain_bytes, 40);
	assert_int_equal(rx.count, 0);
	assert_int_equal(devmem_release(&rx, -1), 0);
	assert_int_equal(kernel.calls, 0);
}

static void test_devmem_tokens_in_a_row_go_back_in_one_run(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < DEVMEM_FRAGMENTS; i++)
		say(UAPI_SO_DEVMEM_DMABUF, 0, 1448, 100 + i, DMABUF);
	assert_int_equal(devmem_recv(&rx, -1, plain, sizeof(plain)), DEVMEM_FRAGMENTS * 1448);
	assert_int_equal(rx.tokens_held_most, DEVMEM_FRAGMENTS);
	assert_int_equal(devmem_release(&rx, -1), 0);
	assert_int_equal(kernel.fragments, DEVMEM_FRAGMENTS);
	assert_int_equal(kernel.runs_most, 1);
	assert_int_equal(kernel.calls, 1);
}

static void test_devmem_scattered_tokens_go_back_in_lists_of_128(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 300; i++)
		say(UAPI_SO_DEVMEM_DMABUF, 0, 1, 2 * i, DMABUF);
	assert_int_equal(devmem_recv(&rx, -1, plain, sizeof(plain)), 300);
	assert_int_equal(devmem_release(&rx, -1), 0);
	assert_int_equal(kernel.fragments, 300);
	assert_int_equal(kernel.runs_most, UAPI_DONTNEED_TOKENS_MAX);
	assert_int_equal(kernel.calls, 3);
}

static void test_devmem_a_fragment_of_another_dmabuf_is_refused_and_given_back(void **state)
{
	(void)state;
	say(UAPI_SO_DEVMEM_DMABUF, 0, 100, 1, DMABUF);
	say(UAPI_SO_DEVMEM_DMABUF, 0, 100, 2, DMABUF + 1);
	assert_int_equal(devmem_recv(&rx, -1, plain, sizeof(plain)), -EIO);
	assert_int_equal(kernel.fragments, 2);
	assert_int_equal(rx.tokens_held, 0);
}

static void test_devmem_words_that_do_not_fit_end_the_list(void **state)
{
	static const size_t lengths[] = { 0, 15, 1 << 20, SIZE_MAX };

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		memset(&kernel, 0, sizeof(kernel));
		say(UAPI_SO_DEVMEM_DMABUF, 0, 100, 1, DMABUF);
		say(UAPI_SO_DEVMEM_DMABUF, 0, 100, 2, DMABUF);
		memcpy(kernel.control + MESSAGE, &lengths[i], sizeof(lengths[i]));
		assert_int_equal(devmem_recv(&rx, -1, plain, sizeof(plain)), 100);
		assert_int_equal(rx.count, 1);
		assert_int_equal(devmem_release(&rx, -1), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_devmem_fragments_have_their_places_in_the_stream, begin, end),
		cmocka_unit_test_setup_teardown(
			test_devmem_no_words_mean_ordinary_bytes, begin, end),
		cmocka_unit_test_setup_teardown(
			test_devmem_tokens_in_a_row_go_back_in_one_run, begin, end),
		cmocka_unit_test_setup_teardown(
			test_devmem_scattered_tokens_go_back_in_lists_of_128, begin, end),
		cmocka_unit_test_setup_teardown(
			test_devmem_a_fragment_of_another_dmabuf_is_refused_and_given_back, begin,
			end),
		cmocka_unit_test_setup_teardown(
			test_devmem_words_that_do_not_fit_end_the_list, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
