/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside report/: what the forms of a document share. For builds with jansson. */
#ifndef WEIR_REPORT_DOCUMENT_PARTS_H
#define WEIR_REPORT_DOCUMENT_PARTS_H

#include <jansson.h>

#include "report/document.h"
#include "report/html.h"

struct document {
	json_t *top;
	const struct document_kind *kind;
};

struct document_kind {
	const char *schema, *title;
	const char *about; /* what its figure is */
	const char *of;	   /* object that holds the figure, NULL: the top */
	const char *figure;
};

#define DOCUMENT_TEXT 256
/* "12.3 Gbit/s": the value in the unit that its name ends with; "-" for null. Returns buf. */
char *document_value(char buf[DOCUMENT_TEXT], const char *key, const json_t *value);
/* "throughput_bps": "throughput". Returns buf. */
char *document_label(char buf[DOCUMENT_TEXT], const char *key);
/* What to call an object: its device, host, peer or GPU, both ends of a pair; or "". Returns buf. */
char *document_name(char buf[DOCUMENT_TEXT], const json_t *object);
/* The figure that counts, with its unit; "" where there is none. Returns buf. */
char *document_figure(char buf[DOCUMENT_TEXT], const struct document *d);

/* Trouble that a record tells of, at any depth; the gravest first. */
struct document_trouble {
	enum html_mark mark;
	char where[DOCUMENT_TEXT], text[640];
};
typedef void document_trouble_fn(const struct document_trouble *t, void *argument);
void document_troubles(const struct document *d, document_trouble_fn *tell_of, void *argument);

/* Objects that are alike, as rows. */
#define DOCUMENT_COLUMNS 40
#define DOCUMENT_ROWS	 2000 /* shown of a table; --json has the rest */
struct document_table {
	struct document_row {
		char name[DOCUMENT_TEXT]; /* of the row; empty where the columns say it */
		const json_t *object;
	} * row;
	size_t count, left; /* left: not shown */
	bool named;
	struct document_column {
		const char *outer, *key; /* outer: of a small object inside the row; or NULL */
	} column[DOCUMENT_COLUMNS];
	int columns;
};
/* The objects of an array, or those that are members of an object. False: out of memory, or there are none. */
bool document_table_of(struct document_table *t, const json_t *from);
void document_table_free(struct document_table *t);
const json_t *document_cell(
	const struct document_table *t, const struct document_row *row, int column);
/* Lower is shown earlier; DOCUMENT_TELLING: as it comes. */
#define DOCUMENT_TELLING 100
int document_rank(const struct document_column *column);
/* "window in flight mean"; returns buf. */
char *document_heading(char buf[DOCUMENT_TEXT], const struct document_column *column);

/* Whether the value belongs into a row: no object, no list of objects. */
bool document_is_cell(const json_t *value);
/* An object of few plain values: its values become columns of the row that has it. */
bool document_is_small(const json_t *value);
/* How many of an object's members are objects that are not small. */
size_t document_objects(const json_t *object);

/* A map of hosts by hosts, where the list is one of pairs of NICs; nothing otherwise. */
void document_heat(struct html *h, const json_t *pairs);
void document_html(const struct document *d, FILE *file);
void document_csv(const struct document *d, FILE *file);
void document_print(const struct document *d, struct out *o);

#endif
