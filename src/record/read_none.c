// SPDX-License-Identifier: BSD-3-Clause
/* Without a JSON parser nothing is read. */
#include "record/read.h"

static int without_parser(struct err *e)
{
	err_set(e, ENOTSUP, "this weir was built without jansson and cannot read records");
	return err_hint(e, "install libjansson-dev and build again");
}

int record_read(struct record_stored *s, const char *path, struct err *e)
{
	(void)s;
	(void)path;
	return without_parser(e);
}

int record_parse(
	struct record_stored *s, const char *file, const char *text, size_t length, struct err *e)
{
	(void)s;
	(void)file;
	(void)text;
	(void)length;
	return without_parser(e);
}

int record_schema(const char *path, char schema[RECORD_SCHEMA_TEXT], struct err *e)
{
	(void)path;
	(void)schema;
	return without_parser(e);
}

int record_document(const char *path, void **document, struct err *e)
{
	(void)path;
	(void)document;
	return without_parser(e);
}

int record_command(const char *path, char *words, size_t words_size, char *ended, size_t ended_size,
	struct err *e)
{
	(void)path;
	(void)words;
	(void)words_size;
	(void)ended;
	(void)ended_size;
	return without_parser(e);
}

void record_stored_free(struct record_stored *s)
{
	(void)s;
}
