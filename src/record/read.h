/* SPDX-License-Identifier: BSD-3-Clause */
/* A run record read back from its file, as hostile as any file.
 *
 *	struct record_stored s;
 *
 *	ret = record_read(&s, "run.json", e);
 *	if (ret)
 *		return ret;
 *	record_emit(&s.rec, &out);	as on the day it was written
 *	record_stored_free(&s);
 *
 * The file holds one record, as --out writes it, or the events and records that --json prints, of
 * which the last record counts. Findings and verdict are those of the file, not judged again.
 */
#ifndef WEIR_RECORD_READ_H
#define WEIR_RECORD_READ_H

#include "record/record.h"

struct record_stored {
	struct record rec; /* points into the rest */
	struct flow_options options;
	struct end_result local, remote;
	uint32_t records; /* in the file: the last one is here */
	void *document;	  /* of the parser: strings point into it */
};

/* -EINVAL with file and place for what is no record; -EPROTONOSUPPORT for a record of a newer weir;
 * -ENOTSUP where weir was built without jansson. On failure there is nothing to free. */
int record_read(struct record_stored *s, const char *path, struct err *e);

/* The same from memory; file stands for the path in words. text ends in a NUL that is not counted. */
int record_parse(
	struct record_stored *s, const char *file, const char *text, size_t length, struct err *e);

void record_stored_free(struct record_stored *s); /* one of all zeros is left alone */

/* The schema that a file's last document names, for whoever has to choose a reader: "weir/run/1"; ""
 * for JSON that names none; -EINVAL for what is not JSON. Events do not count. */
#define RECORD_SCHEMA_TEXT 64
int record_schema(const char *path, char schema[RECORD_SCHEMA_TEXT], struct err *e);

/* The last document of a file, of any schema: a json_t that the caller releases. Events do not count. */
int record_document(const char *path, void **document, struct err *e);

/* A record of weir run: the command's words, and how it ended ("exit status 3"). Errors as above. */
#define COMMAND_SCHEMA "weir/command/1"
int record_command(const char *path, char *words, size_t words_size, char *ended, size_t ended_size,
	struct err *e);

#endif
