/* SPDX-License-Identifier: BSD-3-Clause */
/* A file that is there whole or not at all.
 *
 *	ret = file_replace("run.json", write_record, record, e);
 *
 * Thread-safe for different files.
 */
#ifndef WEIR_BASE_FILE_H
#define WEIR_BASE_FILE_H

#include <stdio.h>

#include "base/err.h"

/* Replace a file by what emit writes: written beside it, synced, then renamed. What is no plain file (a
 * pipe, a device) is written to as it is. emit returns 0 or -errno, with the words in e; what stdio
 * could not write is noticed here. The error names the file, which is then as it was before. */
int file_replace(const char *path, int (*emit)(FILE *file, const void *from, struct err *e),
	const void *from, struct err *e);

/* Whether file_replace() could write there, for those who would rather know before they measure for an hour:
 * makes a file beside it and removes it. A path of NULL is none. The error names the option, without its
 * dashes, that the path came from, and what to do. */
int file_try(const char *path, const char *option, struct err *e);

#endif
