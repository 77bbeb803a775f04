/* SPDX-License-Identifier: BSD-3-Clause */
/* Records that are not of one run: of many rails, between GPUs, of a mesh of probes. They are shown by the
 * shape of their JSON, so that a field that a record gains is on the page without a word here: what is alike
 * becomes a table, numbers get the unit that ends their names (_ns, _bps, _bytes), runs inside a record their
 * own sections.
 *
 *	ret = document_load(&d, "rails.json", e);
 *	ret = document_write(d, REPORT_HTML, stdout, e);
 *	document_free(d);
 *
 * Not thread-safe.
 */
#ifndef WEIR_REPORT_DOCUMENT_H
#define WEIR_REPORT_DOCUMENT_H

#include "report/report.h"

struct document;

/* Whether records of this schema are shown so: "weir/rails/1". */
bool document_is(const char *schema);

/* Errors as record_read(). On failure there is nothing to free. */
int document_load(struct document **document, const char *path, struct err *e);
void document_free(struct document *d); /* NULL is left alone */

/* -errno of the write that failed. */
int document_write(const struct document *d, enum report_form form, FILE *file, struct err *e);

#endif
