/* SPDX-License-Identifier: BSD-3-Clause */
/* Charts as inline SVG. A plot fills the width it gets, and its words are HTML around it, so that they
 * keep their size on a phone and on paper. Lines differ by dash as well as by colour. Every chart has its
 * values in a table below it, folded away: for those who cannot see it, for copying, and for the
 * script that shows the value under the pointer. */
#ifndef WEIR_REPORT_CHART_H
#define WEIR_REPORT_CHART_H

#include <stdint.h>

#include "base/hist.h"
#include "base/units.h"
#include "report/html.h"

#define CHART_LINES 4

struct chart {
	const char *title;
	const double *begin_s, *end_s; /* of each interval */
	size_t count;
	struct chart_line {
		const char *name;
		const double *y; /* count of them; NAN: a gap */
	} line[CHART_LINES];
	int lines;
	bool bars;	   /* instead of lines; the first one only */
	double reference;  /* a level to compare with, NAN or 0: none */
	const char *about; /* what the reference is */
	char *(*text)(char buf[UNITS_TEXT], double y);
};

/* Nothing where there is no point. */
void chart_series(struct html *h, const struct chart *c);

/* One bar cut into shares that add up to about 1, and the words for them. A share below 0.5 % is left out. */
void chart_shares(struct html *h, const char *label, const char *const *names, const double *shares,
	int count);

/* How often which latency, with logarithmic buckets, and where the percentiles lie. */
void chart_histogram(struct html *h, const char *title, const struct hist *hist,
	const double *percent, int percents);

/* A small line without axes, for a cell of a table. */
void chart_spark(struct html *h, const double *y, size_t count);

/* The number at or above y that reads well on an axis: 1, 1.5, 2, 3, 4, 5, 6 or 8 times a power of
 * ten. */
double chart_top(double y);

#endif
