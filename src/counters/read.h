/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside counters/: the forms of a snapshot's file. */
#ifndef WEIR_COUNTERS_READ_H
#define WEIR_COUNTERS_READ_H

#include "counters/emit.h"

/* What is being read: s gets what could be read, and the problems. */
struct reading_file {
	struct snapshot *s;
	const char *label, *text;
	size_t length;
};

/* A problem at a place in the text: "label:LINE". */
void file_problem(const struct reading_file *f, const char *at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* json.c, or json_none.c that refuses. */
int json_snapshot_parse(const struct reading_file *f, enum snapshot_form *form, struct err *e);
int json_difference_parse(struct difference *d, struct findings *findings, const char *text,
	size_t length, const char *label, const char *end, struct err *e);
/* dump.c */
int dump_parse(const struct reading_file *f, const char *path, struct err *e);

/* A whole file, mapped or read; the caller frees it by file_bytes_free(). */
struct file_bytes {
	char *text;
	size_t length;
};
int file_bytes_read(struct file_bytes *b, const char *path, struct err *e);
void file_bytes_free(struct file_bytes *b);

#endif
