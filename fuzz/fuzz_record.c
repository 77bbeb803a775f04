/* SPDX-License-Identifier: BSD-3-Clause */
/* A run record from a file: read, shown in every form, and written again. */
#include <stdio.h>

#include "fuzz.h"
#include "record/read.h"

static char *write_json(const struct record *rec)
{
	size_t bytes;
	char *text;
	FILE *file = open_memstream(&text, &bytes);
	struct out o;

	MUST(file);
	out_init(&o, file, OUT_JSON);
	record_emit(rec, &o);
	MUST(!out_finish(&o, NULL));
	fclose(file);
	return text;
}

static void show(const struct record *rec)
{
	static FILE *nowhere;
	struct out o;

	if (!nowhere)
		nowhere = fopen("/dev/null", "w");
	MUST(nowhere);
	out_init(&o, nowhere, OUT_TEXT);
	record_emit(rec, &o);
	MUST(!out_finish(&o, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_string(data, size), *first, *second;
	struct record_stored s, again;
	struct err e = { 0 };
	int ret;

	ret = record_parse(&s, "input", text, size, &e);
	free(text);
	if (ret) {
		MUST(ret < 0 && e.code == -ret && e.what[0]);
		return 0;
	}
	show(&s.rec);
	/* What was understood survives another journey. */
	first = write_json(&s.rec);
	if (record_parse(&again, "again", first, strlen(first), &e)) {
		fprintf(stderr, "%s\n", e.what);
		abort();
	}
	second = write_json(&again.rec);
	MUST(strlen(first) > 0 && strlen(second) > 0);
	free(first);
	free(second);
	record_stored_free(&s);
	record_stored_free(&again);
	return 0;
}
