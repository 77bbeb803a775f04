/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"

#define CLEAR_LINE "\r\033[K"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of program and progress_shown */
static char program[64] = "weir";
static bool progress_shown;
static atomic_int shown_level = LOG_LEVEL_WARN;

void log_set_program(const char *name)
{
	pthread_mutex_lock(&lock);
	snprintf(program, sizeof(program), "%s", name);
	pthread_mutex_unlock(&lock);
}

void log_set_level(enum log_level level)
{
	shown_level = (int)level;
}

static void write_stderr(const char *text, size_t length)
{
	while (write(STDERR_FILENO, text, length) < 0 && errno == EINTR)
		;
}

/* Clears the progress line in the same write: another thread must not get in between. */
static void write_message(const char *words)
{
	char text[LOG_LINE + sizeof(CLEAR_LINE) + sizeof(program) + 4];
	int saved = errno, length;

	pthread_mutex_lock(&lock);
	length = snprintf(
		text, sizeof(text), "%s%s: %s\n", progress_shown ? CLEAR_LINE : "", program, words);
	progress_shown = false;
	write_stderr(text, (size_t)length);
	pthread_mutex_unlock(&lock);
	errno = saved;
}

void log_message(enum log_level level, const char *format, ...)
{
	static const char *const prefix[] = {
		[LOG_LEVEL_ERROR] = "",
		[LOG_LEVEL_WARN] = "warning: ",
		[LOG_LEVEL_INFO] = "info: ",
		[LOG_LEVEL_DEBUG] = "debug: ",
	};
	char words[LOG_LINE];
	size_t used;
	va_list args;

	if ((int)level > shown_level)
		return;
	used = (size_t)snprintf(words, sizeof(words), "%s", prefix[level]);
	va_start(args, format);
	if (vsnprintf(words + used, sizeof(words) - used, format, args) < 0)
		words[used] = '\0';
	va_end(args);
	text_one_line(words);
	write_message(words);
}

void log_error_err(const struct err *e)
{
	char words[LOG_LINE];

	snprintf(words, sizeof(words), "%s.%s%s", e->what[0] ? e->what : strerror(e->code),
		e->hint[0] ? "\n  " : "", e->hint);
	write_message(words);
}

/* 0 when stderr is not a terminal; some serial lines do not know their width and say 0. */
static int terminal_columns(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size))
		return 0;
	return size.ws_col ? size.ws_col : 80;
}

void log_progress(const char *line)
{
	int saved = errno, columns = terminal_columns(), length = 0;
	char text[LOG_LINE];

	pthread_mutex_lock(&lock);
	if (columns && line)
		length = snprintf(text, sizeof(text), "\r%.*s\033[K",
			columns < LOG_LINE / 2 ? columns - 1 : LOG_LINE / 2, line);
	else if (progress_shown)
		length = snprintf(text, sizeof(text), CLEAR_LINE);
	if (length)
		write_stderr(text, (size_t)length);
	progress_shown = columns && line;
	pthread_mutex_unlock(&lock);
	errno = saved;
}
