/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run or a pair of snapshots comes to, in the form a person or a program wants it.
 *
 *	struct report r;
 *
 *	ret = report_load(&r, "run.json", NULL, NULL, e);
 *	ret = report_write(&r, REPORT_HTML, stdout, e);
 *	report_free(&r);
 */
#ifndef WEIR_REPORT_REPORT_H
#define WEIR_REPORT_REPORT_H

#include "record/figures.h"
#include "record/read.h"

enum report_form { REPORT_TEXT, REPORT_JSON, REPORT_CSV, REPORT_HTML };

struct report {
	struct record_stored run; /* rec.options NULL: this is no run */
};

/* Read a file, "-" is standard input. Errors as record_read(). */
int report_load(struct report *r, const char *path, struct err *e);
void report_free(struct report *r);

/* -errno of the write that failed. */
int report_write(const struct report *r, enum report_form form, FILE *file, struct err *e);

/* Inside report/. */
void run_csv(FILE *file, const struct record *rec, const struct figures *f);

#endif
