/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"

#undef err_set
#undef err_hint
#undef err_prefix

static void mark_cut(char *words, size_t size, size_t wanted)
{
	if (wanted >= size)
		memcpy(words + size - 4, "...", 4);
}

static void format_words(char *words, size_t size, int code, const char *format, va_list args)
{
	int saved = errno, wanted;

	errno = code; /* so that %m names the reason given, not whatever failed last */
	wanted = vsnprintf(words, size, format, args);
	errno = saved;
	if (wanted < 0)
		words[0] = '\0';
	else
		mark_cut(words, size, (size_t)wanted);
	text_one_line(words);
}

/* All three build a copy first: an argument may be the very words that are replaced. */
int err_set(struct err *e, int code, const char *format, ...)
{
	struct err fresh = { .code = code };
	va_list args;

	if (!e)
		return -code;
	va_start(args, format);
	format_words(fresh.what, sizeof(fresh.what), code, format, args);
	va_end(args);
	*e = fresh;
	return -code;
}

int err_hint(struct err *e, const char *format, ...)
{
	struct err fresh;
	va_list args;

	if (!e)
		return -EINVAL;
	fresh = *e;
	va_start(args, format);
	format_words(fresh.hint, sizeof(fresh.hint), e->code, format, args);
	va_end(args);
	*e = fresh;
	return -e->code;
}

int err_prefix(struct err *e, const char *format, ...)
{
	struct err fresh;
	va_list args;
	size_t used;
	int more;

	if (!e)
		return -EINVAL;
	fresh = *e;
	va_start(args, format);
	format_words(fresh.what, sizeof(fresh.what), e->code, format, args);
	va_end(args);
	used = strlen(fresh.what);
	more = snprintf(fresh.what + used, sizeof(fresh.what) - used, ": %s", e->what);
	mark_cut(fresh.what, sizeof(fresh.what), used + (size_t)more);
	*e = fresh;
	return -e->code;
}
