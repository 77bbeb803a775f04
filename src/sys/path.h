/* SPDX-License-Identifier: BSD-3-Clause */
/* Small files of the kernel (/sys, /proc), read below a root directory that can be replaced: by
 * tests with a made tree, by users with one recorded on another machine.
 *
 *	char state[16];
 *	sys_read(state, sizeof(state), "/sys/class/net/%s/operstate", name);
 *	mtu_bytes = sys_read_number(1, INT_MAX, 0, "/sys/class/net/%s/mtu", name);
 *
 * Paths are printf formats, start with "/" and mean a place below the root. What a file holds is
 * not trusted: reads are bounded, text comes back as one printable line, numbers within the range
 * asked for. These functions return -errno without words: a file that is missing is mostly a fact
 * that is absent, and where it is an error only the caller knows what it was wanted for.
 *
 * The root is one for the process. Set it before other threads read; all else is thread-safe.
 */
#ifndef WEIR_SYS_PATH_H
#define WEIR_SYS_PATH_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Read below this directory from now on. NULL and "/" mean the running machine, as at the start. */
int sys_set_root(const char *dir, struct err *e);

/* Whether the root is "/": only then do system calls speak about the same machine as the files. */
bool sys_is_live(void);

/* The whole of a small file as one line: blanks at its end cut, see sys_clean(). buf is empty on
 * failure. -EFBIG when the file does not fit: a value cut short would be a wrong one. */
int sys_read(char *buf, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Open a file or a directory to read it again and again. The descriptor, or -errno. */
int sys_open(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The first size - 1 bytes of a file as they are, for files of many lines. Empty on failure. */
int sys_read_head(char *buf, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The file's number, decimal or "0x" hexadecimal; the fallback when it cannot be read, is not a
 * number, or is not in low..high. */
int64_t sys_read_number(int64_t low, int64_t high, int64_t fallback, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Make text printable, in place: runs of blanks and control characters become one blank, none at
 * either end, bytes beyond ASCII become '?'. */
void sys_clean(char *text);

bool sys_is_dir(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The path with all links followed, as seen from the root ("/sys/devices/..."). buf is empty on
 * failure. -EXDEV when the links lead out of the root. */
int sys_resolve(char *buf, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The names in a directory, sorted by bytes, without those that start with a dot. The caller frees
 * them with sys_names_free(); after a failure there is nothing to free, and freeing is harmless. */
struct sys_names {
	int count;
	struct dirent **entry; /* entry[i]->d_name */
};
int sys_list(struct sys_names *names, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void sys_names_free(struct sys_names *names);

#endif
