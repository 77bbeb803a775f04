// SPDX-License-Identifier: BSD-3-Clause
/* What the kinds of weir probe say alike: verdicts, latencies, the map of pairs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cmd/cmd.h"
#include "cmd/probe.h"

void probe_want(
	struct controller_want *want, const struct probe_options *o, const struct hosts *hosts)
{
	*want = (struct controller_want){ .hosts = hosts,
		.port = (uint16_t)o->port,
		.tls = o->tls,
		.rate = o->rate,
		.budget = o->budget,
		.series = (uint32_t)o->series,
		.payload_bytes = (uint32_t)o->payload_bytes,
		.verify = o->verify,
		.timeout_ns = o->timeout_ns,
		.window_ns = o->window_ns,
		.duration_ns = o->duration_ns };
}

static const char *const subjects[] = { "host", "rail", "nic", "pair", "prober" };
static const char *const sides[] = { "both", "sends", "receives" };
const char *const probe_faults[2] = { "loss", "slow" };

char *probe_subject(
	const struct verdict *v, const struct controller_host *hosts, char buf[PROBE_SUBJECT])
{
	static const char *const words[] = { "", ", what it sends", ", what it receives" };
	const char *host = hosts[v->host].name, *side = words[v->side];

	switch (v->subject) {
	case VERDICT_HOST:
		snprintf(buf, PROBE_SUBJECT, "host %s%s", host, side);
		break;
	case VERDICT_RAIL:
		snprintf(buf, PROBE_SUBJECT, "rail %u", v->rail);
		break;
	case VERDICT_NIC:
		snprintf(buf, PROBE_SUBJECT, "host %s rail %u%s", host, v->rail, side);
		break;
	case VERDICT_PAIR:
		snprintf(buf, PROBE_SUBJECT, "host %s rail %u to host %s rail %u", host, v->rail,
			hosts[v->to_host].name, v->to_rail);
		break;
	case VERDICT_PROBER:
		snprintf(buf, PROBE_SUBJECT, "the agent of host %s", host);
	}
	return buf;
}

const char *probe_cannot_tell(const struct verdict *v)
{
	return v->subject == VERDICT_PROBER
		       ? ": it gets too little CPU to tell; this says nothing about the network"
		       : ": cannot tell which end, fewer than three hosts to compare";
}

void probe_emit_verdict(struct out *o, const char *key, const struct verdict *v,
	const struct controller_host *hosts)
{
	out_object(o, key);
	out_str(o, "subject", NULL, subjects[v->subject]);
	out_str(o, "fault", NULL, probe_faults[v->fault]);
	if (v->subject != VERDICT_RAIL)
		out_str(o, "host", NULL, hosts[v->host].name);
	if (v->subject == VERDICT_RAIL || v->subject == VERDICT_NIC || v->subject == VERDICT_PAIR)
		out_u64(o, "rail", NULL, v->rail);
	if (v->subject == VERDICT_PAIR) {
		out_str(o, "to_host", NULL, hosts[v->to_host].name);
		out_u64(o, "to_rail", NULL, v->to_rail);
	}
	if (v->subject == VERDICT_HOST || v->subject == VERDICT_NIC)
		out_str(o, "side", NULL, sides[v->side]);
	out_u64(o, "pairs", NULL, v->pairs);
	out_u64(o, "bad", NULL, v->bad);
	out_bool(o, "cannot_tell", NULL, v->cannot_tell);
	out_u64(o, "begin_ns", NULL, v->begin_ns);
	if (v->end_ns)
		out_u64(o, "end_ns", NULL, v->end_ns);
	out_end(o);
}

void probe_emit_latency(struct out *o, const char *key, const struct hist *h)
{
	static const struct {
		const char *name;
		double percent;
	} wanted[] = { { "p50_ns", 50 }, { "p90_ns", 90 }, { "p99_ns", 99 }, { "p999_ns", 99.9 } };

	out_object(o, key);
	out_u64(o, "count", NULL, h->count);
	if (h->count) {
		out_u64(o, "min_ns", NULL, h->min_ns);
		out_u64(o, "max_ns", NULL, h->max_ns);
		out_f64(o, "mean_ns", NULL, hist_mean_ns(h));
	}
	for (int i = 0; i < 4; i++)
		if (hist_percentile_is_sound(h, wanted[i].percent))
			out_u64(o, wanted[i].name, NULL, hist_percentile(h, wanted[i].percent));
	out_end(o);
}

void probe_remember(struct probe_past *past, const struct verdict *v)
{
	struct verdict *more;

	for (size_t i = 0; i < past->count; i++) {
		struct verdict *p = &past->verdict[i];

		if (p->begin_ns == v->begin_ns && p->subject == v->subject && p->side == v->side &&
			p->host == v->host && p->rail == v->rail && p->to_host == v->to_host &&
			p->to_rail == v->to_rail) {
			*p = *v;
			return;
		}
	}
	more = realloc(past->verdict, (past->count + 1) * sizeof(*more));
	if (!more)
		return;
	past->verdict = more;
	past->verdict[past->count++] = *v;
}

int probe_worse(int status, const struct verdict *v)
{
	if (v->subject != VERDICT_PROBER)
		return STATUS_FAILED;
	return status == STATUS_FAILED ? status : STATUS_DOUBTFUL;
}

int probe_status(const struct probe_past *past)
{
	int status = STATUS_GOOD;

	for (size_t i = 0; i < past->count; i++)
		status = probe_worse(status, &past->verdict[i]);
	return status;
}

/* Maps */

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t mean_ns(const struct controller_pair *p)
{
	return p->answered ? (uint64_t)(p->sum_ns / (double)p->answered) : 0;
}

/* What is usual: the median of all pairs' means. */
static uint64_t usual_ns(const struct controller_view *view)
{
	uint64_t *all = malloc((view->pairs + 1) * sizeof(*all)), usual = 0;
	size_t n = 0;

	for (size_t i = 0; all && i < view->pairs; i++)
		if (view->pair[i].answered)
			all[n++] = mean_ns(&view->pair[i]);
	if (n) {
		qsort(all, n, sizeof(*all), by_number);
		usual = all[n / 2];
	}
	free(all);
	return usual;
}

/* '.' usual, '+' above 1.5 times, '*' above 3 times that, 'o' some lost, '#' half or more; ' ' not probed. */
static char shade(const struct controller_pair *p, uint64_t usual)
{
	uint64_t bad = p->lost + p->corrupt, mean = mean_ns(p);

	if (!p->sent)
		return ' ';
	if (bad * 2 >= p->sent)
		return '#';
	if (bad)
		return 'o';
	return mean > 3 * usual ? '*' : mean * 2 > 3 * usual ? '+' : '.';
}

static void put_shade(struct out *o, char c)
{
	out_style(o, c == '#' || c == 'o' ? OUT_BAD
		     : c == '*'		  ? OUT_WARN
		     : c == '+'		  ? OUT_BOLD
					  : OUT_DIM);
	out_text(o, "%c", c);
	out_style(o, OUT_PLAIN);
}

#define MAP_HOSTS_MAX 120 /* as wide as a terminal may be */

void probe_map(struct out *o, const struct controller_view *view)
{
	static const char order[] = " .+*o#";
	uint64_t usual = usual_ns(view);
	char *cell;

	if (o->mode != OUT_TEXT || view->hosts > MAP_HOSTS_MAX)
		return;
	cell = calloc((size_t)view->hosts + 1, view->hosts);
	if (!cell)
		return;
	for (size_t i = 0; i < view->pairs; i++) {
		const struct controller_pair *p = &view->pair[i];
		char *c = &cell[(size_t)p->m.from_host * view->hosts + p->m.to_host];
		char now = shade(p, usual);

		if (!*c || strchr(order, now) > strchr(order, *c))
			*c = now;
	}
	out_text(o,
		"\npairs   rows probe columns, the worst rail; . usual  + 1.5 x  * 3 x  o some lost  "
		"# half lost\n");
	for (uint32_t from = 0; from < view->hosts; from++) {
		out_text(o, "%20.20s  ", view->host[from].name);
		for (uint32_t to = 0; to < view->hosts; to++) {
			char c = cell[(size_t)from * view->hosts + to];

			put_shade(o, from == to ? '-' : c ? c : ' ');
		}
		out_text(o, "\n");
	}
	free(cell);
}

/* A NIC's probes: mean of the medians, and what was lost. */
static struct probe_cell *nic_cells(const struct controller_view *view, bool window)
{
	struct probe_cell *cell = calloc((size_t)view->hosts * view->rails + 1, sizeof(*cell));
	uint32_t *count = calloc((size_t)view->hosts * view->rails + 1, sizeof(*count));

	for (size_t i = 0; cell && count && i < view->pairs; i++) {
		const struct controller_pair *p = &view->pair[i];
		size_t at = (size_t)p->m.from_host * view->rails + p->m.from_rail;
		uint64_t value = window ? p->rtt_ns : mean_ns(p);

		cell[at].value_ns += value;
		count[at] += value != 0;
		cell[at].sent += window ? p->window_sent : p->sent;
		cell[at].lost += window ? p->window_lost : p->lost + p->corrupt;
	}
	for (size_t i = 0; cell && count && i < (size_t)view->hosts * view->rails; i++)
		cell[i].value_ns = count[i] ? cell[i].value_ns / count[i] : 0;
	free(count);
	return cell;
}

static void put_cell(struct out *o, const struct probe_cell *c)
{
	char text[UNITS_TEXT];

	if (!c->sent) {
		out_text(o, " %9s", "-");
	} else if (c->lost) {
		out_style(o, OUT_BAD);
		out_text(o, " %4.0f%% lost", 100.0 * (double)c->lost / (double)c->sent);
		out_style(o, OUT_PLAIN);
	} else {
		out_text(o, " %9s", units_format_duration(text, (double)c->value_ns));
	}
}

static bool has_loss(const struct probe_cell *c, uint32_t rails)
{
	for (uint32_t i = 0; i < rails; i++)
		if (c[i].lost)
			return true;
	return false;
}

void probe_nic_table(
	struct out *o, const struct controller_view *view, bool window, int lines_max, int *lines)
{
	struct probe_cell *cell = nic_cells(view, window);

	*lines = 0;
	if (!cell || o->mode != OUT_TEXT)
		goto free_cells;
	out_text(o, "%20s", "rail");
	for (uint32_t r = 0; r < view->rails; r++)
		out_text(o, " %9u", r);
	out_text(o, "%s\n", window ? "\033[K" : "");
	(*lines)++;
	/* Where there are more hosts than lines, those that lose come first. */
	for (int pass = 0; pass < 2; pass++)
		for (uint32_t h = 0; h < view->hosts && *lines < lines_max; h++) {
			const struct probe_cell *row = &cell[(size_t)h * view->rails];

			if (has_loss(row, view->rails) != !pass)
				continue;
			out_text(o, "%20.20s", view->host[h].name);
			for (uint32_t r = 0; r < view->rails; r++)
				put_cell(o, &row[r]);
			out_text(o, "%s%s\n", view->host[h].answers ? "" : "  silent",
				window ? "\033[K" : "");
			(*lines)++;
		}
free_cells:
	free(cell);
}
