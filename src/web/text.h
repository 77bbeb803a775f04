/* SPDX-License-Identifier: BSD-3-Clause */
/* Text that grows. Once memory is out it stays as it is, failed is set, and nobody needs to look before
 * the end. */
#ifndef WEIR_WEB_TEXT_H
#define WEIR_WEB_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct web_text {
	char *data; /* NULL while empty; free() it */
	size_t length, room;
	bool failed;
};

void web_text_add(struct web_text *text, const char *data, size_t length);
void web_text_format(struct web_text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
