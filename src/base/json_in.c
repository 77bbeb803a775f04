// SPDX-License-Identifier: BSD-3-Clause
#include "base/json_in.h"

#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

#define READ_STEP (1u << 20)

static int too_big(const char *path, struct err *e)
{
	return err_set(e, EFBIG, "%s is larger than %llu MiB, the most that is read", path,
		JSON_IN_MAX >> 20);
}

/* What stat() says is a wish: a file may grow, a pipe has no size. */
static int read_all(int fd, const char *path, char **text, size_t *length, struct err *e)
{
	size_t room = 0, used = 0;
	char *all = NULL, *more;
	struct stat st;
	ssize_t got;

	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0) {
		if ((uint64_t)st.st_size > JSON_IN_MAX)
			return too_big(path, e);
		room = (size_t)st.st_size + 2;
		all = malloc(room);
		if (!all)
			return err_set(e, ENOMEM, "cannot read %s: out of memory", path);
	}
	for (;;) {
		if (room - used < 2) {
			room += room / 2 + READ_STEP;
			more = realloc(all, room);
			if (!more) {
				free(all);
				return err_set(e, ENOMEM, "cannot read %s: out of memory", path);
			}
			all = more;
		}
		got = read(fd, all + used, room - used - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		used += (size_t)got;
		if (used > JSON_IN_MAX)
			break;
	}
	if (got) {
		free(all);
		return got < 0 ? err_set(e, errno, "cannot read %s: %m", path) : too_big(path, e);
	}
	all[used] = '\0';
	*text = all;
	*length = used;
	return 0;
}

int json_in_file(const char *path, char **text, size_t *length, struct err *e)
{
	int fd, ret;

	if (!strcmp(path, "-"))
		return read_all(STDIN_FILENO, "standard input", text, length, e);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, errno, "cannot open %s: %m", path);
	ret = read_all(fd, path, text, length, e);
	close(fd);
	return ret;
}

/* Line and column in the whole file; jansson counts from where it was told to begin. */
static int wrong_json(const char *file, const char *text, size_t at, size_t length,
	const json_error_t *error, struct err *e)
{
	size_t place = at + (error->position > 0 ? (size_t)error->position : 0), line = 1,
	       column = 1;
	char words[JSON_ERROR_TEXT_LENGTH];

	if (json_error_code(error) == json_error_out_of_memory)
		return err_set(e, ENOMEM, "cannot read %s: out of memory", file);
	for (size_t i = 0; i < place && i < length; i++) {
		column = text[i] == '\n' ? 1 : column + 1;
		line += text[i] == '\n';
	}
	snprintf(words, sizeof(words), "%s", error->text);
	text_one_line(words);
	return err_set(e, EINVAL, "%s:%zu:%zu: this is not JSON: %s", file, line, column, words);
}

int json_in_next(const char *file, const char *text, size_t length, size_t *at, json_t **document,
	struct err *e)
{
	const size_t flags = JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
	json_error_t error;

	*document = NULL;
	while (*at < length && strchr(" \t\r\n", text[*at]) && text[*at])
		(*at)++;
	if (*at == length)
		return 0;
	*document = json_loadb(text + *at, length - *at, flags, &error);
	if (!*document && json_error_code(&error) == json_error_numeric_overflow)
		*document = json_loadb(
			text + *at, length - *at, flags | JSON_DECODE_INT_AS_REAL, &error);
	if (!*document)
		return wrong_json(file, text, *at, length, &error, e);
	*at += (size_t)error.position;
	return 0;
}

void json_in_at(struct json_in *in, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(in->where, sizeof(in->where) - 1, format, args);
	va_end(args);
	if (in->where[0])
		strcat(in->where, ".");
}

void json_in_wrong(struct json_in *in, const char *key, const char *words)
{
	if (!in->ret)
		in->ret = err_set(in->e, EINVAL, "%s: %s%s %s", in->file, in->where, key, words);
}

static const char *kind_of(const json_t *value)
{
	static const char *const names[] = {
		[JSON_OBJECT] = "an object",
		[JSON_ARRAY] = "a list",
		[JSON_STRING] = "a string",
		[JSON_INTEGER] = "a number",
		[JSON_REAL] = "a number",
		[JSON_TRUE] = "true",
		[JSON_FALSE] = "false",
		[JSON_NULL] = "null",
	};

	return names[json_typeof(value)];
}

/* The value, when it is of the kind wanted; NULL and a complaint otherwise. Null is no complaint where
 * it may be. */
static json_t *take(struct json_in *in, const json_t *object, const char *key, bool fits,
	bool may_be_null, const char *wanted, json_t *value)
{
	char words[96];

	(void)object;
	if (in->ret)
		return NULL;
	if (!value) {
		json_in_wrong(in, key, "is missing");
		return NULL;
	}
	if (fits)
		return value;
	if (may_be_null && json_is_null(value))
		return NULL;
	snprintf(words, sizeof(words), "is %s, not %s", kind_of(value), wanted);
	json_in_wrong(in, key, words);
	return NULL;
}

uint64_t json_in_u64(struct json_in *in, const json_t *object, const char *key, uint64_t max)
{
	json_t *value = json_object_get(object, key);
	uint64_t number;
	char words[96];
	double real;

	value = take(in, object, key, json_is_number(value), false, "a number", value);
	if (!value)
		return 0;
	real = json_number_value(value);
	if (json_is_integer(value) && json_integer_value(value) >= 0)
		number = (uint64_t)json_integer_value(value);
	else if (json_is_real(value) && real >= 0 && real <= 0x1p64)
		number = real < 0x1p64 ? (uint64_t)real : UINT64_MAX;
	else
		number = UINT64_MAX;
	if (real >= 0 && real <= 0x1p64 && number <= max)
		return number;
	snprintf(words, sizeof(words), "is %.15g, not from 0 to %.15g", real, (double)max);
	json_in_wrong(in, key, words);
	return 0;
}

double json_in_f64(struct json_in *in, const json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);

	value = take(in, object, key, json_is_number(value), true, "a number", value);
	return value ? json_number_value(value) : NAN;
}

bool json_in_bool(struct json_in *in, const json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);

	value = take(in, object, key, json_is_boolean(value), false, "true or false", value);
	return json_is_true(value);
}

const char *json_in_str(struct json_in *in, const json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);

	value = take(in, object, key, json_is_string(value), true, "a string", value);
	return value ? json_string_value(value) : NULL;
}

json_t *json_in_object(struct json_in *in, const json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);

	return take(in, object, key, json_is_object(value), true, "an object", value);
}

json_t *json_in_array(struct json_in *in, const json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);

	return take(in, object, key, json_is_array(value), false, "a list", value);
}

bool json_in_has(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return value && !json_is_null(value);
}
