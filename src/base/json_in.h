/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading JSON that may be hostile: files of one or more documents, and fields of known types, each
 * complaint with the file and the place in it.
 *
 *	struct json_in in = { .file = path, .e = e };
 *
 *	ret = json_in_file(path, &text, &length, e);
 *	ret = json_in_next(path, text, length, &at, &document, e);
 *	json_in_at(&in, "local.flows[%zu]", i);
 *	flow->id = (uint32_t)json_in_u64(&in, object, "id", UINT32_MAX);
 *	...
 *	return in.ret;		the first complaint: "run.json: local.flows[3].id is a string, not a number"
 *
 * The parser is jansson's: this header is for builds that have it.
 */
#ifndef WEIR_BASE_JSON_IN_H
#define WEIR_BASE_JSON_IN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Bytes of a file that are read at most; a larger one is refused before memory is full of it. */
#define JSON_IN_MAX (1ull << 30)

/* All of a file, "-" is standard input. The caller frees *text, which ends in a NUL that is not
 * counted. -EFBIG for more than JSON_IN_MAX bytes, -EISDIR, -ENOENT and so on by their words. */
int json_in_file(const char *path, char **text, size_t *length, struct err *e);

/* The document that begins at *at, which moves behind it; *document is NULL at the end of the text.
 * The caller releases it by json_decref(). -EINVAL says file, line and column. Whole numbers beyond
 * 64 bits signed become floating-point ones. */
int json_in_next(const char *file, const char *text, size_t length, size_t *at, json_t **document,
	struct err *e);

struct json_in {
	const char *file;
	struct err *e;
	int ret;	 /* 0 or -errno: the first complaint */
	char where[128]; /* "local.flows[3].", or empty for the top */
};

/* Where the next fields are. */
void json_in_at(struct json_in *in, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Complain, unless there was a complaint before: "FILE: WHERE.KEY WORDS". */
void json_in_wrong(struct json_in *in, const char *key, const char *words);

/* A field that must be there and be of its type. A wrong one is complained about and reads as 0, NAN,
 * NULL or false; all of them do nothing more after a complaint. Strings live as long as object. */
uint64_t json_in_u64(struct json_in *in, const json_t *object, const char *key, uint64_t max);
double json_in_f64(struct json_in *in, const json_t *object, const char *key);
bool json_in_bool(struct json_in *in, const json_t *object, const char *key);
const char *json_in_str(struct json_in *in, const json_t *object, const char *key);
json_t *json_in_object(struct json_in *in, const json_t *object, const char *key);
json_t *json_in_array(struct json_in *in, const json_t *object, const char *key);

/* Whether a field is there and not null: for those that may be absent. */
bool json_in_has(const json_t *object, const char *key);

#endif
