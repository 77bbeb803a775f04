/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside report/: the sections of a page about a difference of counters. */
#ifndef WEIR_REPORT_COUNTERS_HTML_H
#define WEIR_REPORT_COUNTERS_HTML_H

#include "counters/finding.h"
#include "report/html.h"

/* Items of a list; said as in findings_print(), whose: "client: " or "". */
void counters_html_findings(
	struct html *h, const struct findings *f, const struct findings *said, const char *whose);

/* Per-NIC totals, the largest differences, the heat map, groups, every counter. id names the section,
 * heading says whose counters they are. */
void counters_html(struct html *h, const struct difference *d, const char *id, const char *heading);

/* How many counters differ; a record leaves out those that do not. */
uint32_t counters_moved(const struct difference *d);

/* The heat map alone: objects that have the same counters side by side. */
void counters_html_heat(struct html *h, const struct difference *d);

/* The value of a reading as digits, "-" where it is absent; returns buf. */
#define COUNTER_DIGITS 24
char *counter_digits(char buf[COUNTER_DIGITS], const struct row *r, const struct reading *reading);
/* What a row says in few words: "+17", "was set back", "3 -> 5"; returns buf. */
#define CHANGE_TEXT 64
char *counter_change(char buf[CHANGE_TEXT], const struct row *r);

#endif
