/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/out.h"
#include "base/text.h"

#define NUMBER_TEXT 32

void out_init(struct out *o, FILE *file, enum out_mode mode)
{
	const char *no_color = getenv("NO_COLOR");

	*o = (struct out){ .file = file, .mode = mode };
	o->color = mode == OUT_TEXT && !(no_color && no_color[0]) && isatty(fileno(file));
}

static void remember(struct out *o, int code)
{
	if (!o->error)
		o->error = code;
}

/* stdio keeps that a write failed, but not why: errno is asked before anything else can change it.
 */
static void check(struct out *o, bool flush)
{
	if ((flush && fflush(o->file)) || ferror(o->file))
		remember(o, errno ? errno : EIO);
}

/* The bytes of the UTF-8 sequence at s; 0 when it is none: cut short, overlong, a surrogate, too
 * big. */
static int utf8_length(const char *s)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned char lead = (unsigned char)s[0];
	int length = lead < 0x80 ? 1 : lead < 0xc0 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
	uint32_t point = length > 1 ? lead & (0x7fu >> length) : lead;
	int i;

	if (lead >= 0xf8)
		return 0;
	for (i = 1; i < length; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (s[i] & 0x3f);
	}
	if (point < smallest[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
		return 0;
	return length;
}

static void json_string(FILE *file, const char *s)
{
	int length;

	fputc('"', file);
	for (; *s; s += length ? length : 1) {
		length = utf8_length(s);
		if (!length)
			fputs("\xef\xbf\xbd", file);
		else if (*s == '"' || *s == '\\')
			fprintf(file, "\\%c", *s);
		else if (*s == '\n')
			fputs("\\n", file);
		else if (*s == '\t')
			fputs("\\t", file);
		else if ((unsigned char)*s < ' ')
			fprintf(file, "\\u%04x", (unsigned int)*s);
		else
			fwrite(s, 1, (size_t)length, file);
	}
	fputc('"', file);
}

/* What comes before a value: comma and key. False when there is no place for the value. */
static bool json_begin(struct out *o, const char *key)
{
	int level = o->depth - 1;
	bool in_array = level >= 0 && o->is_array[level];

	if (o->silent || (level >= 0 && !in_array && !key))
		return false;
	if (level < 0 && key) {
		fputc('{', o->file);
		o->wrapped = true;
	}
	if (level >= 0) {
		if (o->has_member[level])
			fputc(',', o->file);
		o->has_member[level] = true;
	}
	if (key && !in_array) {
		json_string(o->file, key);
		fputc(':', o->file);
	}
	return true;
}

/* What comes after a value: at the top level, the end of the line. */
static void json_end(struct out *o)
{
	if (!o->depth) {
		fputs(o->wrapped ? "}\n" : "\n", o->file);
		o->wrapped = false;
	}
	check(o, !o->depth);
}

static void json_value(struct out *o, const char *key, const char *token)
{
	if (!json_begin(o, key))
		return;
	fputs(token, o->file);
	json_end(o);
}

/* The shortest form that reads back as the same double. */
static const char *shortest(char text[NUMBER_TEXT], double value)
{
	int digits = 15;

	do
		snprintf(text, NUMBER_TEXT, "%.*g", digits, value);
	while (strtod(text, NULL) != value && ++digits <= 17);
	return text;
}

static void kv_line(struct out *o, const char *key, const char *format, va_list args)
{
	char *value;
	size_t length;

	if (vasprintf(&value, format, args) < 0) {
		remember(o, ENOMEM);
		return;
	}
	length = strlen(value);
	while (length && value[length - 1] == '\n')
		value[--length] = '\0';
	text_one_line(value);
	fprintf(o->file, "%s=%s\n", key, value);
	check(o, true);
	free(value);
}

/* A value for the modes that use the caller's format. */
static void plain_value(struct out *o, const char *key, const char *format, ...)
{
	va_list args;

	if (!format || (o->mode == OUT_KV && !key))
		return;
	va_start(args, format);
	if (o->mode == OUT_KV) {
		kv_line(o, key, format, args);
	} else {
		vfprintf(o->file, format, args);
		check(o, false);
	}
	va_end(args);
}

int out_finish(struct out *o, struct err *e)
{
	while (o->depth)
		out_end(o);
	check(o, true);
	if (o->error)
		return err_set(e, o->error, "cannot write the output: %m");
	return 0;
}

static void open_level(struct out *o, const char *key, bool is_array)
{
	if (o->mode != OUT_JSON)
		return;
	if (o->depth == OUT_DEPTH)
		remember(o, EINVAL);
	if (o->depth == OUT_DEPTH || !json_begin(o, key)) {
		o->silent++;
		return;
	}
	fputc(is_array ? '[' : '{', o->file);
	o->is_array[o->depth] = is_array;
	o->has_member[o->depth] = false;
	o->depth++;
	check(o, false);
}

void out_object(struct out *o, const char *key)
{
	open_level(o, key, false);
}

void out_array(struct out *o, const char *key)
{
	open_level(o, key, true);
}

void out_end(struct out *o)
{
	if (o->mode != OUT_JSON)
		return;
	if (o->silent) {
		o->silent--;
	} else if (o->depth) {
		o->depth--;
		fputc(o->is_array[o->depth] ? ']' : '}', o->file);
		json_end(o);
	} else {
		remember(o, EINVAL);
	}
}

void out_json(struct out *o, const char *key, const char *json)
{
	if (o->mode != OUT_JSON || !json_begin(o, key))
		return;
	fwrite(json, 1, strcspn(json, "\n"), o->file);
	json_end(o);
}

void out_u64(struct out *o, const char *key, const char *format, uint64_t value)
{
	char text[NUMBER_TEXT];

	if (o->mode == OUT_JSON) {
		snprintf(text, sizeof(text), "%" PRIu64, value);
		json_value(o, key, text);
	} else {
		plain_value(o, key, format, value);
	}
}

void out_i64(struct out *o, const char *key, const char *format, int64_t value)
{
	char text[NUMBER_TEXT];

	if (o->mode == OUT_JSON) {
		snprintf(text, sizeof(text), "%" PRId64, value);
		json_value(o, key, text);
	} else {
		plain_value(o, key, format, value);
	}
}

void out_f64(struct out *o, const char *key, const char *format, double value)
{
	char text[NUMBER_TEXT];

	if (o->mode == OUT_JSON)
		json_value(o, key, isfinite(value) ? shortest(text, value) : "null");
	else
		plain_value(o, key, format, value);
}

void out_str(struct out *o, const char *key, const char *format, const char *value)
{
	if (o->mode != OUT_JSON) {
		plain_value(o, key, format, value ? value : "-");
	} else if (!value) {
		out_null(o, key);
	} else if (json_begin(o, key)) {
		json_string(o->file, value);
		json_end(o);
	}
}

void out_bool(struct out *o, const char *key, const char *format, bool value)
{
	if (o->mode == OUT_JSON)
		json_value(o, key, value ? "true" : "false");
	else if (o->mode == OUT_KV)
		plain_value(o, key, format ? "%d" : NULL, value);
	else
		plain_value(o, key, format, value ? "yes" : "no");
}

void out_null(struct out *o, const char *key)
{
	if (o->mode == OUT_JSON)
		json_value(o, key, "null");
}

void out_f64_as(struct out *o, const char *key, double value, const char *format, const char *words)
{
	char text[NUMBER_TEXT];

	if (o->mode == OUT_JSON)
		out_f64(o, key, NULL, value);
	else if (o->mode == OUT_KV)
		plain_value(o, key, format ? "%s" : NULL, shortest(text, value));
	else
		plain_value(o, key, format, words);
}

void out_text(struct out *o, const char *format, ...)
{
	va_list args;

	if (o->mode != OUT_TEXT)
		return;
	va_start(args, format);
	vfprintf(o->file, format, args);
	va_end(args);
	check(o, false);
}

void out_style(struct out *o, enum out_style style)
{
	static const char *const code[] = {
		[OUT_PLAIN] = "\033[0m",
		[OUT_BOLD] = "\033[1m",
		[OUT_DIM] = "\033[2m",
		[OUT_GOOD] = "\033[32m",
		[OUT_WARN] = "\033[33m",
		[OUT_BAD] = "\033[31m",
	};

	if (o->color)
		fputs(code[style], o->file);
}
