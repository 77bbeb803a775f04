// SPDX-License-Identifier: BSD-3-Clause
/* The map of a record of pairs: rows are hosts that probe or send, columns those that answer or receive, the worst rail of each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/document_parts.h"

#define HEAT_HOSTS 64
#define HEAT_STEPS 9

struct cell {
	double value; /* the worst; 0: none */
	double lost, sent;
	bool odd; /* lost probes, slow or failed */
};

struct heat {
	const char *host[HEAT_HOSTS], *key; /* key: of the value */
	size_t hosts, left;
	struct cell cell[HEAT_HOSTS][HEAT_HOSTS];
	double best, worst; /* over all cells */
};

/* -1: there is no room for one more. */
static int host_of(struct heat *m, const char *name)
{
	for (size_t i = 0; i < m->hosts; i++)
		if (!strcmp(m->host[i], name))
			return (int)i;
	if (m->hosts == HEAT_HOSTS)
		return -1;
	m->host[m->hosts] = name;
	return (int)m->hosts++;
}

static bool is_rate(const struct heat *m)
{
	return !strcmp(m->key, "bits_per_s");
}

static void add(struct heat *m, const json_t *pair)
{
	const char *from = json_string_value(json_object_get(pair, "from_host"));
	const char *to = json_string_value(json_object_get(pair, "to_host"));
	double value = json_number_value(json_object_get(pair, m->key));
	int row = from ? host_of(m, from) : -1, column = to ? host_of(m, to) : -1;
	struct cell *c;

	if (row < 0 || column < 0) {
		m->left++;
		return;
	}
	c = &m->cell[row][column];
	c->sent += json_number_value(json_object_get(pair, "sent"));
	c->lost += json_number_value(json_object_get(pair, "lost")) +
		   json_number_value(json_object_get(pair, "corrupt"));
	c->odd |= c->lost > 0 || json_is_true(json_object_get(pair, "slow")) ||
		  json_is_true(json_object_get(pair, "failed"));
	if (value > 0 && (!c->value || (is_rate(m) ? value < c->value : value > c->value)))
		c->value = value;
}

static void find_range(struct heat *m)
{
	for (size_t i = 0; i < m->hosts; i++)
		for (size_t k = 0; k < m->hosts; k++) {
			double value = m->cell[i][k].value;

			if (!value)
				continue;
			m->best = m->best ? fmin(m->best, value) : value;
			m->worst = fmax(m->worst, value);
		}
}

/* Stronger is worse, on a logarithmic scale that is at least a factor of 4 wide: noise stays pale. */
static int step_of(const struct heat *m, double value)
{
	double low = m->best, high = fmax(m->worst, 4 * m->best), share;

	if (!(value > 0) || !(low > 0))
		return 0;
	share = log(value / low) / log(high / low);
	if (is_rate(m))
		share = log(m->worst / value) / log(fmax(m->worst / low, 4));
	return (int)(fmin(fmax(share, 0), 1) * HEAT_STEPS);
}

static void put_cell(struct html *h, const struct heat *m, const struct cell *c)
{
	char text[DOCUMENT_TEXT];
	json_t *number;

	if (!c->value && !c->sent && !c->odd) {
		html_put(h, "<td></td>");
		return;
	}
	html_put(h, c->odd ? "<td class=\"odd\"" : "<td");
	html_put(h, " style=\"--v:%d\">", c->odd && !c->value ? HEAT_STEPS : step_of(m, c->value));
	if (c->lost > 0 && c->sent > 0)
		html_put(h, "%.1f %% lost ", 100 * c->lost / c->sent);
	number = json_real(c->value);
	if (c->value && number)
		html_put(h, "%s", document_value(text, m->key, number));
	else if (!c->lost)
		html_put(h, "-");
	json_decref(number);
	html_put(h, "</td>");
}

void document_heat(struct html *h, const json_t *pairs)
{
	static const char *const keys[] = { "latency_ns", "bits_per_s", "mean_ns" };
	struct heat *m = calloc(1, sizeof(*m));
	size_t count = json_array_size(pairs), i;

	for (size_t k = 0; m && k < 3 && !m->key; k++)
		for (i = 0; i < count && !m->key; i++)
			if (json_is_number(json_object_get(json_array_get(pairs, i), keys[k])))
				m->key = keys[k];
	if (!m || !m->key) {
		free(m);
		return;
	}
	for (i = 0; i < count; i++)
		add(m, json_array_get(pairs, i));
	find_range(m);
	html_put(h,
		"<h3>Map of pairs</h3>\n<p class=\"aside\">Rows probe or send, columns answer or receive; the worst rail of each. "
		"Stronger colour is worse. A triangle marks loss, failure, or what stands out.");
	if (m->left)
		html_put(h, " %zu pairs of further hosts are in the table below.", m->left);
	html_put(h, "</p>\n<div class=\"scroll\"><table class=\"heat\"><thead><tr><th></th>");
	for (i = 0; i < m->hosts; i++)
		html_put(h, "<th class=\"n\">%s</th>", m->host[i]);
	html_put(h, "</tr></thead><tbody>\n");
	for (i = 0; i < m->hosts; i++) {
		html_put(h, "<tr><th class=\"name\">%s</th>", m->host[i]);
		for (size_t k = 0; k < m->hosts; k++)
			put_cell(h, m, &m->cell[i][k]);
		html_put(h, "</tr>\n");
	}
	html_put(h, "</tbody></table></div>\n");
	free(m);
}
