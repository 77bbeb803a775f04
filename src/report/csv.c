// SPDX-License-Identifier: BSD-3-Clause
#include "report/csv.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static void put_text(FILE *file, const char *text)
{
	bool quoted;

	if (!text)
		return;
	quoted = strpbrk(text, ",\"\r\n") || text[0] == ' ';
	if (quoted)
		fputc('"', file);
	if (text[0] && strchr("=+-@\t", text[0]))
		fputc('\'', file);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', file);
		fputc(*text, file);
	}
	if (quoted)
		fputc('"', file);
}

/* The shortest form that reads back as the same number. */
static void put_number(FILE *file, double number)
{
	char text[32];

	if (!isfinite(number))
		return;
	snprintf(text, sizeof(text), "%.15g", number);
	fputs(text, file);
}

void csv_head(FILE *file)
{
	fputs("section,end,object,name,time_s,value,unit\n", file);
}

void csv_row(FILE *file, const struct csv_row *row)
{
	const char *const texts[] = { row->section, row->end, row->object, row->name };

	for (int i = 0; i < 4; i++) {
		put_text(file, texts[i]);
		fputc(',', file);
	}
	put_number(file, row->time_s);
	fputc(',', file);
	if (row->text)
		put_text(file, row->text);
	else
		put_number(file, row->value);
	fputc(',', file);
	put_text(file, row->unit);
	fputc('\n', file);
}
