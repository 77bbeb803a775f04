/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside report/: the sections of a run record's page. Each writes nothing where there is nothing. */
#ifndef WEIR_REPORT_RUN_HTML_H
#define WEIR_REPORT_RUN_HTML_H

#include "record/figures.h"
#include "report/html.h"

/* What ran, its figure, the verdict, links to the sections; counters: whether there is one of them. */
void run_html_head(
	struct html *h, const struct record *rec, const struct figures *f, bool counters);
/* Items of a list. */
void run_html_findings(struct html *h, const struct record *rec);
void run_html_figures(struct html *h, const struct record *rec, const struct figures *f);
void run_html_series(struct html *h, const struct record *rec, const struct figures *f);
void run_html_latency(struct html *h, const struct record *rec, const struct figures *f);
void run_html_flows(struct html *h, const struct record *rec, const struct figures *f);
void run_html_hosts(struct html *h, const struct record *rec, const struct figures *f);
void run_html_options(struct html *h, const struct record *rec);

/* What to call an end: its host's name, or its address. */
const char *run_end_name(const struct record *rec, bool client);

/* "2026-11-15 03:00:00 UTC"; returns buf. */
char *run_time_text(char buf[32], uint64_t wall_ns);

#endif
