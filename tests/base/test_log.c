/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"

/* stderr goes into a pipe or a terminal of our own while a test logs. */
static int saved_stderr = -1, reader = -1;
static char logged[65536];

static void capture(int into, int from)
{
	saved_stderr = dup(STDERR_FILENO);
	assert_int_equal(dup2(into, STDERR_FILENO), STDERR_FILENO);
	close(into);
	reader = from;
}

static void capture_pipe(void)
{
	int fd[2];

	assert_int_equal(pipe(fd), 0);
	capture(fd[1], fd[0]);
}

static const char *captured(void)
{
	struct pollfd readable = { .fd = reader, .events = POLLIN };
	size_t have = 0;

	/* A terminal hands on what was written a little later, and in pieces. */
	while (have < sizeof(logged) - 1 && poll(&readable, 1, 200) > 0) {
		ssize_t n = read(reader, logged + have, sizeof(logged) - 1 - have);

		if (n <= 0)
			break;
		have += (size_t)n;
	}
	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	close(reader);
	logged[have] = '\0';
	return logged;
}

static int setup(void **state)
{
	(void)state;
	log_set_program("weir stream");
	log_set_level(LOG_LEVEL_WARN);
	return 0;
}

static void test_log_shows_errors_and_warnings_until_told_otherwise(void **state)
{
	(void)state;
	capture_pipe();
	log_error("broken %d", 1);
	log_warn("odd");
	log_info("hidden");
	log_debug("hidden");
	log_set_level(LOG_LEVEL_DEBUG);
	log_info("seen");
	log_debug("seen");
	log_set_level(LOG_LEVEL_ERROR);
	log_warn("hidden");
	assert_string_equal(captured(), "weir stream: broken 1\nweir stream: warning: odd\n"
					"weir stream: info: seen\nweir stream: debug: seen\n");
}

static void test_log_error_err_prints_what_and_the_hint_below(void **state)
{
	struct err e;

	(void)state;
	capture_pipe();
	err_set(&e, EOPNOTSUPP, "cannot bind eth1 queue 8: header split is off on eth1");
	log_error_err(&e);
	err_hint(&e, "Turn it on with:  weir nic prepare eth1");
	log_error_err(&e);
	assert_string_equal(captured(),
		"weir stream: cannot bind eth1 queue 8: header split is off on eth1.\n"
		"weir stream: cannot bind eth1 queue 8: header split is off on eth1.\n"
		"  Turn it on with:  weir nic prepare eth1\n");
}

static void test_log_error_err_without_words_names_the_code(void **state)
{
	struct err e = { .code = ENOMEM };

	(void)state;
	capture_pipe();
	log_error_err(&e);
	assert_string_equal(captured(), "weir stream: Cannot allocate memory.\n");
}

static void test_log_message_is_one_line_and_keeps_errno(void **state)
{
	char text[2 * LOG_LINE];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	capture_pipe();
	errno = ENOENT;
	log_error("a\nb\033[2J: %m");
	assert_int_equal(errno, ENOENT);
	log_error("%s", text);
	captured();
	assert_int_equal(
		strncmp(logged, "weir stream: a?b?[2J: No such file or directory\n", 48), 0);
	assert_int_equal(logged[strlen(logged) - 1], '\n');
	assert_int_equal(strlen(logged), 48 + strlen("weir stream: ") + LOG_LINE - 1 + 1);
}

static void *log_many(void *arg)
{
	int i;

	for (i = 0; i < 100; i++)
		log_warn("thread %s says a line of some length", (const char *)arg);
	return NULL;
}

static void test_log_lines_of_threads_do_not_mix(void **state)
{
	static char name[4][2] = { "0", "1", "2", "3" };
	pthread_t thread[4];
	char *line, *rest;
	int i, lines = 0;

	(void)state;
	capture_pipe();
	for (i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, log_many, name[i]), 0);
	for (i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	captured();
	for (line = strtok_r(logged, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		line[strlen("weir stream: warning: thread ")] = '#';
		assert_string_equal(
			line, "weir stream: warning: thread # says a line of some length");
		lines++;
	}
	assert_int_equal(lines, 400);
}

static void test_log_progress_is_silent_in_a_pipe(void **state)
{
	(void)state;
	capture_pipe();
	log_progress("50 %");
	log_progress(NULL);
	log_error("done");
	assert_string_equal(captured(), "weir stream: done\n");
}

static int capture_terminal(unsigned short columns)
{
	struct winsize size = { .ws_row = 24, .ws_col = columns };
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;
	struct termios raw;

	if (master < 0 || grantpt(master) || unlockpt(master))
		return -1;
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	if (slave < 0)
		return -1;
	tcgetattr(slave, &raw);
	cfmakeraw(&raw);
	tcsetattr(slave, TCSANOW, &raw);
	ioctl(slave, TIOCSWINSZ, &size);
	capture(slave, master);
	return 0;
}

static void test_log_message_clears_the_progress_line_first(void **state)
{
	(void)state;
	if (capture_terminal(10))
		skip();
	log_progress("50 %");
	log_error("x");
	log_error("y");
	log_progress("0123456789");
	log_progress(NULL);
	log_progress(NULL);
	assert_string_equal(captured(), "\r50 %\033[K\r\033[Kweir stream: x\nweir stream: y\n"
					"\r012345678\033[K\r\033[K");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
			test_log_shows_errors_and_warnings_until_told_otherwise, setup),
		cmocka_unit_test_setup(test_log_error_err_prints_what_and_the_hint_below, setup),
		cmocka_unit_test_setup(test_log_error_err_without_words_names_the_code, setup),
		cmocka_unit_test_setup(test_log_message_is_one_line_and_keeps_errno, setup),
		cmocka_unit_test_setup(test_log_lines_of_threads_do_not_mix, setup),
		cmocka_unit_test_setup(test_log_progress_is_silent_in_a_pipe, setup),
		cmocka_unit_test_setup(test_log_message_clears_the_progress_line_first, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
