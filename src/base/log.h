/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages for the person at the terminal: one line each on stderr, "PROGRAM: warning: WORDS".
 *
 *	log_set_program("weir stream");
 *	log_set_level(LOG_LEVEL_INFO);
 *	log_warn("%s runs at 10 Gbit/s, not at 100", nic->name);
 *	if (stream_run(&s, &e))
 *		log_error_err(&e);
 *
 * For commands and the agent: a library says what it has to say in its struct err. Errors and
 * warnings are shown until a level is set. The words end without a newline; control characters in
 * them become '?', what is beyond LOG_LINE bytes is cut. Thread-safe: a message is one write(2), so
 * that lines of threads never mix. errno is kept.
 */
#ifndef WEIR_BASE_LOG_H
#define WEIR_BASE_LOG_H

#include "base/err.h"

#define LOG_LINE 1024

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

#define log_error(...) log_message(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_message(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_message(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_message(LOG_LEVEL_DEBUG, __VA_ARGS__)

void log_set_program(const char *name); /* "weir stream"; copied, "weir" until set */
void log_set_level(enum log_level level);

void log_message(enum log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* "PROGRAM: WHAT." and, where the error has one, the hint on a second line, indented. */
void log_error_err(const struct err *e);

/* One line that rewrites itself, cut to the terminal's width; NULL clears it, and so does the next
 * message. Nothing happens where stderr is not a terminal. */
void log_progress(const char *line);

#endif
