// SPDX-License-Identifier: BSD-3-Clause
#include "web/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 4096

static bool text_make_room(struct web_text *text, size_t more)
{
	size_t room = text->room ? text->room : FIRST_BYTES;
	char *data;

	while (room - text->length <= more)
		room *= 2;
	if (room == text->room)
		return true;
	data = text->failed ? NULL : realloc(text->data, room);
	if (!data) {
		text->failed = true;
		return false;
	}
	text->data = data;
	text->room = room;
	return true;
}

void web_text_add(struct web_text *text, const char *data, size_t length)
{
	if (!text_make_room(text, length))
		return;
	memcpy(text->data + text->length, data, length);
	text->length += length;
	text->data[text->length] = 0;
}

void web_text_format(struct web_text *text, const char *format, ...)
{
	va_list args, again;
	int length;

	va_start(args, format);
	va_copy(again, args);
	length = vsnprintf(NULL, 0, format, args);
	if (length < 0)
		text->failed = true;
	else if (text_make_room(text, (size_t)length))
		text->length += (size_t)vsnprintf(
			text->data + text->length, (size_t)length + 1, format, again);
	va_end(again);
	va_end(args);
}
