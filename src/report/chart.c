// SPDX-License-Identifier: BSD-3-Clause
#include "report/chart.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define PLOT_WIDTH  1000.0
#define PLOT_HEIGHT 100.0
#define POINTS_MAX                                                                                 \
	600 /* more than a screen can show: drawn as the lowest and the highest of each */
#define BINS_MAX   72
#define BINS_MIN   12
#define BUCKET_LOG 0.017 /* two buckets of the histogram: narrower bins would be a comb */

double chart_top(double y)
{
	static const double steps[] = { 1, 1.5, 2, 3, 4, 5, 6, 8, 10 };
	double power, scaled;

	if (!(y > 0) || !isfinite(y))
		return 1;
	power = pow(10, floor(log10(y)));
	scaled = y / power;
	for (int i = 0; i < 9; i++)
		if (scaled <= steps[i] * (1 + 1e-9))
			return steps[i] * power;
	return 10 * power;
}

static double highest(const struct chart *c)
{
	double most = 0;

	for (int l = 0; l < c->lines; l++)
		for (size_t i = 0; i < c->count; i++)
			most = fmax(most, c->line[l].y[i]);
	/* A ceiling far above would press the lines to the ground. */
	if (c->reference > most && c->reference < 3 * most)
		most = c->reference;
	return most;
}

static double place_y(double y, double top)
{
	return PLOT_HEIGHT - fmin(fmax(y, 0), top) / top * PLOT_HEIGHT;
}

static double place_x(const struct chart *c, size_t i)
{
	double from = c->begin_s[0], to = c->end_s[c->count - 1];
	double middle = (c->begin_s[i] + c->end_s[i]) / 2;
	double place = to > from ? (middle - from) / (to - from) * PLOT_WIDTH : PLOT_WIDTH / 2;

	return fmin(fmax(place, 0), PLOT_WIDTH);
}

static void draw_line(struct html *h, const struct chart *c, int l, double top)
{
	size_t step = c->count / POINTS_MAX + 1;
	bool pen_down = false;

	html_put(h, "<path class=\"l%d\" d=\"", l);
	for (size_t i = 0; i < c->count; i += step) {
		double least = INFINITY, most = -INFINITY;

		for (size_t k = i; k < i + step && k < c->count; k++) {
			least = fmin(least, c->line[l].y[k]);
			most = fmax(most, c->line[l].y[k]);
		}
		if (!isfinite(most)) {
			pen_down = false;
			continue;
		}
		html_put(h, "%s%.1f %.2f", pen_down ? "L" : "M", place_x(c, i), place_y(most, top));
		if (step > 1)
			html_put(h, "L%.1f %.2f", place_x(c, i), place_y(least, top));
		pen_down = true;
	}
	html_put(h, "\"/>");
	/* A line through one point is no line. */
	if (c->count == 1 && isfinite(c->line[l].y[0]))
		html_put(h, "<path class=\"l%d\" d=\"M0 %.2fH%.0f\"/>", l,
			place_y(c->line[l].y[0], top), PLOT_WIDTH);
}

static void draw_bars(struct html *h, const struct chart *c, double top)
{
	size_t step = c->count / POINTS_MAX + 1;
	size_t bars = (c->count + step - 1) / step;
	double width = PLOT_WIDTH / (double)bars;

	for (size_t bar = 0; bar < bars; bar++) {
		size_t i = bar * step;
		double most = 0, y;

		for (size_t k = i; k < i + step && k < c->count; k++)
			most = fmax(most, c->line[0].y[k]);
		if (!(most > 0))
			continue;
		y = place_y(most, top);
		html_put(h,
			"<rect class=\"b\" x=\"%.1f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>",
			((double)bar + 0.1) * width, y, width * 0.8, PLOT_HEIGHT - y);
	}
}

static void draw_values(struct html *h, const struct chart *c)
{
	char text[UNITS_TEXT];

	html_put(h, "<details class=\"values\"><summary>Values</summary><div class=\"scroll\">"
		    "<table><thead><tr><th>Interval</th>");
	for (int l = 0; l < c->lines; l++)
		html_put(h, "<th class=\"n\">%s</th>", c->line[l].name);
	html_put(h, "</tr></thead><tbody>\n");
	for (size_t i = 0; i < c->count; i++) {
		html_put(h, "<tr><td>%.2f to %.2f s</td>", c->begin_s[i], c->end_s[i]);
		for (int l = 0; l < c->lines; l++)
			html_put(h, "<td class=\"n\">%s</td>",
				isfinite(c->line[l].y[i]) ? c->text(text, c->line[l].y[i]) : "-");
		html_put(h, "</tr>\n");
	}
	html_put(h, "</tbody></table></div></details>\n");
}

static void draw_head(struct html *h, const struct chart *c)
{
	char text[UNITS_TEXT];

	html_put(h, "<figure class=\"chart\"><figcaption>%s", c->title);
	for (int l = 0; l < c->lines && c->lines > 1; l++)
		html_put(h,
			"<span class=\"key\"><svg viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"l%d\" d=\"M0 4H24\"/></svg>%s</span>",
			l, c->line[l].name);
	if (c->reference > 0)
		html_put(h,
			"<span class=\"key\"><svg viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"ref\" d=\"M0 4H24\"/></svg>%s %s</span>",
			c->about, c->text(text, c->reference));
	html_put(h, "</figcaption>\n");
}

void chart_series(struct html *h, const struct chart *c)
{
	char text[UNITS_TEXT];
	double top = chart_top(highest(c));

	if (!c->count)
		return;
	draw_head(h, c);
	html_put(h, "<div class=\"plot\"><div class=\"y\" aria-hidden=\"true\"><span>%s</span>",
		c->text(text, top));
	html_put(h, "<span>%s</span><span>0</span></div>\n", c->text(text, top / 2));
	html_put(h,
		"<svg viewBox=\"0 0 %.0f %.0f\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"%s over time; the values are in the table below\">",
		PLOT_WIDTH, PLOT_HEIGHT, c->title);
	html_put(h, "<path class=\"grid\" d=\"M0 0H1000M0 50H1000M0 100H1000\"/>");
	if (c->reference > 0 && c->reference <= top)
		html_put(h, "<path class=\"ref\" d=\"M0 %.2fH1000\"/>", place_y(c->reference, top));
	if (c->bars)
		draw_bars(h, c, top);
	for (int l = 0; l < c->lines && !c->bars; l++)
		draw_line(h, c, l, top);
	html_put(h,
		"</svg>\n<div class=\"x\" aria-hidden=\"true\"><span>%.3g s</span><span>%.3g s</span><span>%.3g s</span></div></div>\n",
		c->begin_s[0], (c->begin_s[0] + c->end_s[c->count - 1]) / 2,
		c->end_s[c->count - 1]);
	draw_values(h, c);
	html_put(h, "</figure>\n");
}

void chart_shares(struct html *h, const char *label, const char *const *names, const double *shares,
	int count)
{
	double at = 0;

	html_put(h, "<figure class=\"shares\"><figcaption>%s</figcaption>\n", label);
	html_put(h,
		"<svg viewBox=\"0 0 1000 20\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"%s\">",
		label);
	for (int i = 0; i < count; i++) {
		double share = shares[i] > 0 ? fmin(shares[i], 1 - at) : 0;

		if (share < 0.0005)
			continue;
		html_put(h, "<rect class=\"s%d\" x=\"%.1f\" width=\"%.1f\" height=\"20\"/>", i,
			at * 1000, share * 1000);
		at += share;
	}
	html_put(h, "</svg><ul class=\"keys\">");
	for (int i = 0; i < count; i++)
		if (shares[i] >= 0.005)
			html_put(h,
				"<li><svg viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect class=\"s%d\" width=\"12\" height=\"12\"/></svg>%s <b>%.0f %%</b></li>",
				i, names[i], fmin(shares[i], 1) * 100);
	html_put(h, "</ul></figure>\n");
}

/* The lowest and highest power by which the bins are laid out: a tenth of a decade around the values. */
struct log_axis {
	double from, to;
};

static double place_ns(const struct log_axis *axis, double ns)
{
	double place = (log10(fmax(ns, 1)) - axis->from) / (axis->to - axis->from);

	return fmin(fmax(place, 0), 1) * PLOT_WIDTH;
}

static double fill_bins(const struct hist *hist, const struct log_axis *axis, double *bin, int bins)
{
	double most = 0;

	for (unsigned int i = 0; i < HIST_BUCKETS; i++) {
		double middle;
		int b;

		if (!hist->bucket[i])
			continue;
		middle =
			i == HIST_BUCKETS - 1
				? (double)hist_bucket_low_ns(i)
				: ((double)hist_bucket_low_ns(i) + (double)hist_bucket_high_ns(i)) /
					  2;
		b = (int)(place_ns(axis, middle) / PLOT_WIDTH * bins);
		b = b < bins ? b : bins - 1;
		bin[b] += (double)hist->bucket[i];
		most = fmax(most, bin[b]);
	}
	return most;
}

static void draw_percentiles(
	struct html *h, const struct hist *hist, const double *percent, int percents)
{
	char text[UNITS_TEXT];

	html_put(h,
		"<div class=\"scroll\"><table class=\"figures\"><thead><tr><th class=\"n\">min</th><th class=\"n\">mean</th>");
	for (int i = 0; i < percents; i++)
		html_put(h, "<th class=\"n\">p%g</th>", percent[i]);
	html_put(h, "<th class=\"n\">max</th><th class=\"n\">samples</th></tr></thead><tbody><tr>");
	html_put(h, "<td class=\"n\">%s</td>", units_format_duration(text, (double)hist->min_ns));
	html_put(h, "<td class=\"n\">%s</td>", units_format_duration(text, hist_mean_ns(hist)));
	for (int i = 0; i < percents; i++) {
		if (hist_percentile_is_sound(hist, percent[i]))
			html_put(h, "<td class=\"n\">%s</td>",
				units_format_duration(
					text, (double)hist_percentile(hist, percent[i])));
		else
			html_put(h,
				"<td class=\"n\" title=\"fewer than ten samples lie beyond it\">-</td>");
	}
	html_put(h, "<td class=\"n\">%s</td>", units_format_duration(text, (double)hist->max_ns));
	html_put(h, "<td class=\"n\">%" PRIu64 "</td></tr></tbody></table></div>\n", hist->count);
}

void chart_histogram(struct html *h, const char *title, const struct hist *hist,
	const double *percent, int percents)
{
	struct log_axis axis = { log10(fmax((double)hist->min_ns, 1)) - 0.05,
		log10(fmax((double)hist->max_ns, 1)) + 0.05 };
	double wanted = (axis.to - axis.from) * log(10) / BUCKET_LOG;
	int bins = (int)fmin(fmax(wanted, BINS_MIN), BINS_MAX);
	double bin[BINS_MAX] = { 0 }, most = fill_bins(hist, &axis, bin, bins);
	char text[UNITS_TEXT];

	html_put(h, "<figure class=\"chart\"><figcaption>%s</figcaption>\n", title);
	draw_percentiles(h, hist, percent, percents);
	html_put(h, "<div class=\"plot\"><div class=\"y\" aria-hidden=\"true\"><span>%s</span>",
		units_format_count(text, most));
	html_put(h, "<span></span><span>0</span></div>\n");
	html_put(h,
		"<svg viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"%s: how often which time\"><path class=\"grid\" d=\"M0 0H1000M0 100H1000\"/>",
		title);
	for (int i = 0; i < bins && most > 0; i++) {
		double tall = bin[i] / most * PLOT_HEIGHT;

		if (bin[i] > 0)
			html_put(h,
				"<rect class=\"b\" x=\"%.1f\" y=\"%.2f\" width=\"%.1f\" height=\"%.2f\"/>",
				i * PLOT_WIDTH / bins + 1, PLOT_HEIGHT - fmax(tall, 1),
				PLOT_WIDTH / bins - 2, fmax(tall, 1));
	}
	for (int i = 0; i < percents; i++)
		if (hist_percentile_is_sound(hist, percent[i]))
			html_put(h,
				"<path class=\"ref\" d=\"M%.1f 0V100\"><title>p%g</title></path>",
				place_ns(&axis, (double)hist_percentile(hist, percent[i])),
				percent[i]);
	html_put(h, "</svg>\n<div class=\"x\" aria-hidden=\"true\">");
	for (int i = 0; i < 3; i++)
		html_put(h, "<span>%s</span>",
			units_format_duration(
				text, pow(10, axis.from + (axis.to - axis.from) * i / 2)));
	html_put(h,
		"</div></div><p class=\"aside\">Logarithmic scale. Dashed lines: the percentiles above, as far as enough samples lie beyond them.</p></figure>\n");
}

void chart_spark(struct html *h, const double *y, size_t count)
{
	double most = 0;

	for (size_t i = 0; i < count; i++)
		most = fmax(most, y[i]);
	if (count < 2 || !(most > 0) || !isfinite(most))
		return;
	html_put(h,
		"<svg class=\"spark\" viewBox=\"0 0 100 20\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><path class=\"l0\" d=\"");
	for (size_t i = 0; i < count; i++)
		html_put(h, "%s%.1f %.1f", i ? "L" : "M", (double)i * 100 / (double)(count - 1),
			19 - fmin(fmax(y[i], 0), most) / most * 18);
	html_put(h, "\"/></svg>");
}
