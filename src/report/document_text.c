// SPDX-License-Identifier: BSD-3-Clause
/* A document for a terminal, and as rows of figures. */
#include <math.h>
#include <string.h>

#include "report/csv.h"
#include "report/document_parts.h"

#define TEXT_COLUMNS 10 /* of a table on a terminal; --html and --csv have them all */

static void print_trouble(const struct document_trouble *t, void *argument)
{
	static const char *const words[] = { "good", "note", "warning", "problem" };
	static const enum out_style styles[] = { OUT_GOOD, OUT_DIM, OUT_WARN, OUT_BAD };
	struct out *o = argument;

	out_style(o, styles[t->mark]);
	out_text(o, "%s: ", words[t->mark]);
	out_style(o, OUT_PLAIN);
	out_text(o, "%s%s%s\n", t->where, t->where[0] ? ": " : "", t->text);
}

static bool has_column(const struct document_table *t, const char *key)
{
	for (int i = 0; i < t->columns; i++)
		if (!t->column[i].outer && !strcmp(t->column[i].key, key))
			return true;
	return false;
}

/* Of a table that is wider than a terminal, the columns that count come first; an address is none where names
 * stand beside it. */
static bool is_shown(const struct document_table *t, int column)
{
	const struct document_column *c = &t->column[column];

	if (t->columns <= TEXT_COLUMNS)
		return true;
	if (!strcmp(c->key, "peer") && has_column(t, "to_host"))
		return false;
	return document_rank(c) < DOCUMENT_TELLING;
}

static int width_of(const struct document_table *t, int column)
{
	char text[DOCUMENT_TEXT];
	size_t width = strlen(document_heading(text, &t->column[column]));

	for (size_t i = 0; i < t->count; i++) {
		size_t one = strlen(document_value(
			text, t->column[column].key, document_cell(t, &t->row[i], column)));

		width = one > width ? one : width;
	}
	return (int)width;
}

static void print_table(const json_t *from, const char *title, struct out *o)
{
	struct document_table t;
	char text[DOCUMENT_TEXT];
	int width[DOCUMENT_COLUMNS];

	if (!document_table_of(&t, from))
		return;
	out_text(o, "\n%s\n", title);
	out_style(o, OUT_DIM);
	if (t.named)
		out_text(o, "  %-8s", "");
	for (int i = 0; i < t.columns; i++) {
		width[i] = is_shown(&t, i) ? width_of(&t, i) : 0;
		if (width[i])
			out_text(o, "  %-*s", width[i], document_heading(text, &t.column[i]));
	}
	out_style(o, OUT_PLAIN);
	out_text(o, "\n");
	for (size_t i = 0; i < t.count; i++) {
		if (t.named)
			out_text(o, "  %-8s", t.row[i].name);
		for (int k = 0; k < t.columns; k++)
			if (width[k])
				out_text(o, "  %-*s", width[k],
					document_value(text, t.column[k].key,
						document_cell(&t, &t.row[i], k)));
		out_text(o, "\n");
	}
	if (t.left)
		out_text(o, "  ... and %zu more\n", t.left);
	document_table_free(&t);
}

static void print_values(const json_t *object, const char *outer, struct out *o)
{
	char label[DOCUMENT_TEXT], before[DOCUMENT_TEXT], text[DOCUMENT_TEXT],
		name[2 * DOCUMENT_TEXT];
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value) {
		if (document_is_small(value) && !outer)
			print_values(value, key, o);
		if (!document_is_cell(value) || json_is_array(value) || json_is_null(value) ||
			!strcmp(key, "schema"))
			continue;
		snprintf(name, sizeof(name), "%s%s%s", outer ? document_label(before, outer) : "",
			outer ? " " : "", document_label(label, key));
		out_text(o, "  %-24s  %s\n", name, document_value(text, key, value));
	}
}

void document_print(const struct document *d, struct out *o)
{
	char figure[DOCUMENT_TEXT], label[DOCUMENT_TEXT];
	const char *key;
	json_t *value;

	out_style(o, OUT_BOLD);
	out_text(o, "%s", d->kind->title);
	out_style(o, OUT_PLAIN);
	if (document_figure(figure, d)[0])
		out_text(o, "  %s  %s", figure, d->kind->about);
	out_text(o, "\n\n");
	document_troubles(d, print_trouble, o);
	out_text(o, "\n");
	print_values(d->top, NULL, o);
	if (document_objects(d->top))
		print_table(d->top, "ends", o);
	json_object_foreach(d->top, key, value)
		if (strcmp(key, "findings") && json_is_array(value))
			print_table(value, document_label(label, key), o);
}

/* One value; a text on one line, whatever it holds. */
static void put_value(FILE *file, const char *section, const char *object, const char *name,
	double time_s, const json_t *value)
{
	struct csv_row row = { section, NULL, object, name, time_s, NAN, NULL, NULL };
	char text[DOCUMENT_TEXT];

	if (json_is_number(value))
		row.value = json_number_value(value);
	else if (!json_is_null(value))
		row.text = document_value(text, name, value);
	csv_row(file, &row);
}

/* Rows: the section is the way to an object, the object its name, the name the field. */
static void put_csv(FILE *file, const json_t *object, const char *section, int depth)
{
	char inner[DOCUMENT_TEXT], name[DOCUMENT_TEXT];
	const char *key;
	json_t *value;

	if (depth > 6)
		return;
	document_name(name, object);
	json_object_foreach((json_t *)object, key, value) {
		size_t i;
		json_t *one;

		snprintf(inner, sizeof(inner), "%.120s%s%.120s", section, section[0] ? "." : "",
			key);
		if (json_is_object(value))
			put_csv(file, value, inner, depth + 1);
		else if (!json_is_array(value))
			put_value(file, section, name, key, NAN, value);
		else
			json_array_foreach(value, i, one) {
				if (json_is_object(one))
					put_csv(file, one, inner, depth + 1);
				else
					put_value(file, section, name, key, (double)i, one);
			}
	}
}

void document_csv(const struct document *d, FILE *file)
{
	csv_head(file);
	put_csv(file, d->top, "", 0);
}
