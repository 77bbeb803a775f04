/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics of series and of flows. */
#ifndef WEIR_RECORD_STATS_H
#define WEIR_RECORD_STATS_H

#include <stdbool.h>
#include <stddef.h>

/* Jain's index of n rates: 1 when all are equal, 1/n when one has everything. 1 for none. */
double stats_fairness(const double *rates, size_t n);

/* All 0 for no values. The median of an even number is the mean of the middle two. */
double stats_mean(const double *values, size_t n);
double stats_median(double *values, size_t n);	     /* sorts values */
double stats_stddev(const double *values, size_t n); /* of the population */

/* Whether a series of rates is level, so that its mean stands for all of it.
 *
 *	NO	a straight line through it rises or falls by more than STEADY_DRIFT of the mean from
 *		its begin to its end, and that slope is not noise: more than three standard errors,
 *		or in a short series (below 15 points) as many as noise exceeds once in a hundred
 *	NOISY	no such line, but the points lie so far apart that the mean is not known to within
 *		STEADY_DRIFT (two standard errors): a drift could hide in that
 *	YES	neither
 *	UNKNOWN	fewer than STEADY_POINTS points, or a mean of 0
 */
#define STEADY_POINTS 5
#define STEADY_DRIFT  0.10

enum steady { STEADY_UNKNOWN, STEADY_YES, STEADY_NOISY, STEADY_NO }; /* the worse, the higher */

struct stats_steady {
	enum steady state;
	double drift;	   /* fitted change over the whole series, as a share of the mean, signed */
	double variation;  /* standard deviation as a share of the mean */
	double mean_error; /* two standard errors of the mean, as a share of it */
	size_t steady_from; /* the first point from which on the rest, STEADY_POINTS or more, is
			       level (0 when all is); the number of points when there is none */
};
void stats_steady(const double *rates, size_t n, struct stats_steady *s);

#endif
