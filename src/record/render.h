/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside record/: the forms of a record. */
#ifndef WEIR_RECORD_RENDER_H
#define WEIR_RECORD_RENDER_H

#include "base/file.h"
#include "record/figures.h"

void table_emit(const struct record *rec, const struct figures *f, struct out *o);
void table_emit_series(const struct record *rec, const struct figures *f, struct out *o);
/* With --counters: what each end's counters mean. */
void table_emit_counters(const struct record *rec, struct out *o);
/* "35 us"; returns buf. */
char *table_rtt(char buf[UNITS_TEXT], double rtt_us);
void json_emit(const struct record *rec, const struct figures *f, struct out *o);

void json_time(const char *key, uint64_t wall_ns, struct out *o);
const char *record_verdict_name(enum record_verdict verdict); /* "good" */

/* Text, JSON. The label, when there is one, stands before each finding. */
void findings_emit(
	const struct record_finding *findings, int count, const char *label, struct out *o);

/* One flow at one moment. */
struct sample_row {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	const struct lane *lane;
	const struct flow *flow;
	uint32_t index;	  /* of the sample */
	uint64_t count;	  /* bytes received or transactions, since the window began */
	double per_s;	  /* of them since the flow's row before, 0 in its first */
	uint64_t running; /* count of all flows, each at its latest row up to this one */
};

/* All samples of the window of all flows of a run, by time, then by flow. The caller frees *rows.
 */
int samples_rows(const struct record *rec, struct sample_row **rows, size_t *count, struct err *e);

#endif
