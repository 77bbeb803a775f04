// SPDX-License-Identifier: BSD-3-Clause
/* Over time, and the latencies. */
#include <math.h>
#include <stdlib.h>

#include "report/chart.h"
#include "report/run_html.h"

static char *bits_text(char buf[UNITS_TEXT], double y)
{
	return units_format_bits(buf, y);
}

static char *rate_text(char buf[UNITS_TEXT], double y)
{
	return figures_rate_text(buf, METRIC_TRANSACTIONS, y);
}

static char *count_text(char buf[UNITS_TEXT], double y)
{
	return units_format_count(buf, y);
}

static char *duration_text(char buf[UNITS_TEXT], double y)
{
	return units_format_duration(buf, y);
}

/* Columns of one end's intervals; freed together. */
struct columns {
	double *begin_s, *end_s, *y[CHART_LINES];
	size_t count;
};

static int columns_make(struct columns *c, const struct end_result *end)
{
	double *all = calloc(
		end->interval_count ? end->interval_count : 1, (2 + CHART_LINES) * sizeof(*all));

	*c = (struct columns){ .begin_s = all, .count = end->interval_count };
	if (!all)
		return -ENOMEM;
	c->end_s = all + c->count;
	for (int l = 0; l < CHART_LINES; l++)
		c->y[l] = all + (size_t)(2 + l) * c->count;
	for (size_t i = 0; i < c->count; i++) {
		c->begin_s[i] = (double)end->intervals[i].begin_ns / 1e9;
		c->end_s[i] = (double)end->intervals[i].end_ns / 1e9;
	}
	return 0;
}

static void draw(struct html *h, const struct columns *c, struct chart chart)
{
	chart.begin_s = c->begin_s;
	chart.end_s = c->end_s;
	chart.count = c->count;
	for (int l = 0; l < chart.lines; l++)
		chart.line[l].y = c->y[l];
	chart_series(h, &chart);
}

/* Intervals have the same numbers at both ends; their clocks do not matter. */
static double interval_rate(const struct end_result *end, enum metric metric, size_t i)
{
	return end && i < end->interval_count ? figures_interval_rate(metric, &end->intervals[i])
					      : NAN;
}

static void draw_throughput(struct html *h, const struct record *rec, const struct figures_part *p)
{
	struct columns c;

	if (!p->end || columns_make(&c, p->end))
		return;
	for (size_t i = 0; i < c.count; i++) {
		c.y[0][i] = interval_rate(p->receiver, METRIC_RECEIVED, i);
		c.y[1][i] = interval_rate(p->sender, METRIC_SENT, i);
	}
	draw(h, &c,
		(struct chart){ .title = p->to_server ? "Throughput, client to server"
						      : "Throughput, server to client",
			.line = { { .name = "received" }, { .name = "sent" } },
			.lines = 2,
			.reference = (double)rec->ceiling_bps,
			.about = "the link:",
			.text = bits_text });
	free(c.begin_s);
}

static void draw_transactions(struct html *h, const struct figures *f)
{
	const struct end_result *end = f->part[0].end;
	struct columns c;

	if (!end || columns_make(&c, end))
		return;
	for (size_t i = 0; i < c.count; i++)
		c.y[0][i] = interval_rate(end, METRIC_TRANSACTIONS, i);
	draw(h, &c,
		(struct chart){ .title = "Transactions per second",
			.line = { { .name = "transactions" } },
			.lines = 1,
			.text = rate_text });
	for (size_t i = 0; i < c.count; i++) {
		c.y[0][i] = (double)end->intervals[i].latency_p50_ns;
		c.y[1][i] = (double)end->intervals[i].latency_p99_ns;
		c.y[2][i] = (double)end->intervals[i].latency_max_ns;
	}
	if (f->latency == end)
		draw(h, &c,
			(struct chart){ .title = "Latency",
				.line = { { .name = "p50" }, { .name = "p99" }, { .name = "max" } },
				.lines = 3,
				.text = duration_text });
	free(c.begin_s);
}

/* Retransmits and round-trip time belong to the end that sends. */
static void draw_tcp(struct html *h, const struct figures *f, const struct figures_part *p)
{
	const struct end_result *end = p->metric == METRIC_TRANSACTIONS ? p->end : p->sender;
	struct columns c;
	double retransmits = 0;

	if (!end || !p->tcp.known || columns_make(&c, end))
		return;
	for (size_t i = 0; i < c.count; i++) {
		c.y[0][i] = (double)end->intervals[i].retransmits;
		c.y[1][i] = (double)end->intervals[i].rtt_us * 1e3;
		retransmits += c.y[0][i];
	}
	if (retransmits > 0)
		draw(h, &c,
			(struct chart){ .title = end == f->client ? "Retransmits of the client"
								  : "Retransmits of the server",
				.line = { { .name = "segments" } },
				.lines = 1,
				.bars = true,
				.text = count_text });
	for (size_t i = 0; i < c.count; i++)
		c.y[0][i] = c.y[1][i];
	draw(h, &c,
		(struct chart){
			.title = end == f->client
					 ? "Round-trip time, as the client's kernel sees it"
					 : "Round-trip time, as the server's kernel sees it",
			.line = { { .name = "mean over flows" } },
			.lines = 1,
			.text = duration_text });
	free(c.begin_s);
}

void run_html_series(struct html *h, const struct record *rec, const struct figures *f)
{
	if (!f->client && !f->server)
		return;
	html_section(h, "time", "Over time");
	html_put(h, "<div class=\"charts\">\n");
	for (int i = 0; i < f->part_count && rec->workload == WORKLOAD_STREAM; i++)
		draw_throughput(h, rec, &f->part[i]);
	if (rec->workload != WORKLOAD_STREAM)
		draw_transactions(h, f);
	for (int i = 0; i < f->part_count; i++)
		draw_tcp(h, f, &f->part[i]);
	html_put(h, "</div>\n");
	html_section_end(h);
}

void run_html_latency(struct html *h, const struct record *rec, const struct figures *f)
{
	int count;
	const double *percent = figures_percentiles(rec->options, &count);

	if (!f->latency)
		return;
	html_section(h, "latency", "Latency");
	html_put(h, "<div class=\"charts\">\n");
	chart_histogram(h,
		f->latency->service ? "Response time, from the intended start of each transaction"
				    : "Time of a transaction, from its send to its response",
		f->latency->latency, percent, count);
	if (f->latency->service)
		chart_histogram(h, "Service time, from the actual send", f->latency->service,
			percent, count);
	html_put(h, "</div>\n");
	html_section_end(h);
}
