/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run or a pair of snapshots comes to, in the form a person or a program wants it.
 *
 *	struct report r;
 *
 *	ret = report_load(&r, "run.json", NULL, NULL, e);
 *	ret = report_load(&r, "before.json", "after.json", NULL, e);
 *	ret = report_write(&r, REPORT_HTML, stdout, e);
 *	report_free(&r);
 *
 * A run has two ends, each with its counters if they were asked for; a pair of snapshots has one.
 */
#ifndef WEIR_REPORT_REPORT_H
#define WEIR_REPORT_REPORT_H

#include "counters/finding.h"
#include "record/figures.h"
#include "record/read.h"

enum report_form { REPORT_TEXT, REPORT_JSON, REPORT_CSV, REPORT_HTML };

struct document; /* document.h */

struct report {
	bool has_run;
	struct record_stored run;
	struct report_counters { /* of the end that wrote the record, or of the pair; of its peer */
		const struct difference *difference; /* NULL: none */
		const struct findings *findings;
	} counters[2];
	struct document *document;    /* of a record that is not of one run; or NULL */
	char command[256], ended[64]; /* of weir run: what ran, how it ended; or empty */
	/* what a pair or weir run owns */
	struct snapshot before, after;
	struct difference difference;
	struct findings findings;
};

/* Read a record of a run or a command, of rails, GPUs or probes ("-" is standard input), a difference, or with second a pair of snapshots; names as
 * in snapshot_load(). Errors as record_read() and snapshot_load(). On failure there is nothing to
 * free. */
int report_load(
	struct report *r, const char *first, const char *second, const char *names, struct err *e);
void report_free(struct report *r);

/* -errno of the write that failed. */
int report_write(const struct report *r, enum report_form form, FILE *file, struct err *e);

/* The form that the ending of a file's name asks for; text where it asks for none. */
enum report_form report_form_of(const char *path);

/* "client, node1" or "node1": whose counters these are; returns buf. */
#define REPORT_WHOSE 128
char *report_whose(const struct report *r, int end, char buf[REPORT_WHOSE]);

/* Inside report/. */
void run_csv(FILE *file, const struct record *rec, const struct figures *f);
void counters_csv(FILE *file, const struct report_counters *c, const char *end);

#endif
