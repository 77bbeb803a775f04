// SPDX-License-Identifier: BSD-3-Clause
#include "record/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double stats_fairness(const double *rates, size_t n)
{
	double sum = 0, squares = 0, most = 0;

	/* Scaled by the largest, so that rates in bit/s do not overflow when squared. */
	for (size_t i = 0; i < n; i++)
		most = fmax(most, fabs(rates[i]));
	if (most == 0)
		return 1;
	for (size_t i = 0; i < n; i++) {
		double rate = rates[i] / most;

		sum += rate;
		squares += rate * rate;
	}
	return sum * sum / ((double)n * squares);
}

double stats_mean(const double *values, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += values[i];
	return n ? sum / (double)n : 0;
}

double stats_stddev(const double *values, size_t n)
{
	double mean = stats_mean(values, n), squares = 0;

	for (size_t i = 0; i < n; i++)
		squares += (values[i] - mean) * (values[i] - mean);
	return n ? sqrt(squares / (double)n) : 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

double stats_median(double *values, size_t n)
{
	if (!n)
		return 0;
	qsort(values, n, sizeof(*values), compare);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Sums over a part of a series, enough for a straight line through it. x and y are offsets from the
 * first point's place and from the mean of all, so that the sums do not drown in rounding. */
struct line {
	double n, x, y, xx, xy, yy;
};

static void line_add(struct line *l, double x, double y)
{
	l->n++;
	l->x += x;
	l->y += y;
	l->xx += x * x;
	l->xy += x * y;
	l->yy += y * y;
}

/* Three, or where few points leave the error itself uncertain, what noise exceeds once in a hundred
 * series: the first terms of Student's quantile as a series in 1/freedom. */
static double noise_limit(double freedom)
{
	double d = 1 / freedom;

	return fmax(3, 2.576 + 4.917 * d + 8.84 * d * d + 12.15 * d * d * d);
}

/* Fitted change from the first to the last point, as a share of their mean. The series' overall
 * mean is 1, and y is what a point differs from it. */
static enum steady line_judge(const struct line *l, double *drift, double *mean_error)
{
	double sxx = l->xx - l->x * l->x / l->n;
	double sxy = l->xy - l->x * l->y / l->n;
	double syy = fmax(l->yy - l->y * l->y / l->n, 0);
	double slope = sxy / sxx, mean = 1 + l->y / l->n;
	double residual = fmax(syy - slope * sxy, 0);
	double error = sqrt(residual / (l->n - 2) / sxx);

	*drift = mean > 0 ? slope * (l->n - 1) / mean : 0;
	*mean_error = mean > 0 ? 2 * sqrt(syy / (l->n - 1) / l->n) / mean : 0;
	if (fabs(*drift) > STEADY_DRIFT && fabs(slope) > noise_limit(l->n - 2) * error)
		return STEADY_NO;
	return *mean_error > STEADY_DRIFT ? STEADY_NOISY : STEADY_YES;
}

void stats_steady(const double *rates, size_t n, struct stats_steady *s)
{
	double mean = stats_mean(rates, n);
	struct line line = { 0 };

	memset(s, 0, sizeof(*s));
	s->steady_from = n;
	if (n < STEADY_POINTS || !(mean > 0))
		return;
	s->variation = stats_stddev(rates, n) / mean;
	/* From the end, so that each point is the begin of a line through all behind it; the last
	 * line is through all, and its figures stay. */
	for (size_t i = n; i-- > 0;) {
		line_add(&line, (double)i - (double)n, rates[i] / mean - 1);
		if (n - i < STEADY_POINTS)
			continue;
		s->state = line_judge(&line, &s->drift, &s->mean_error);
		if (s->state == STEADY_YES)
			s->steady_from = i;
	}
}
