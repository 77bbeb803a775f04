/* SPDX-License-Identifier: BSD-3-Clause */
/* Comma-separated values, one figure a line, so that every kind of report has the same columns:
 *
 *	section,end,object,name,time_s,value,unit
 *	interval,server,,received,1.5,8000000000,bit/s
 *	flow,client,3,rtt,,0.000035,s
 *	counter,client,eth0,rx_missed_errors,,17,packets
 *
 * Fields are quoted as RFC 4180 says. A text that a spreadsheet would take for a formula gets an
 * apostrophe before it. Numbers are in the units named, without separators; unknown ones are empty.
 */
#ifndef WEIR_REPORT_CSV_H
#define WEIR_REPORT_CSV_H

#include <stdio.h>

struct csv_row {
	const char *section, *end, *object, *name; /* NULL: empty */
	double time_s;				   /* NAN: empty */
	double value;				   /* NAN: the text, or empty */
	const char *text;
	const char *unit;
};

void csv_head(FILE *file);
void csv_row(FILE *file, const struct csv_row *row);

#endif
