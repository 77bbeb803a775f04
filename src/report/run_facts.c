// SPDX-License-Identifier: BSD-3-Clause
/* The hosts side by side, what differs first; and what was asked for. */
#include <string.h>

#include "report/run_html.h"

static const struct host_facts *facts_of(const struct record *rec, bool client)
{
	const struct end_result *end = rec->options->client == client ? rec->local : rec->remote;

	return end ? end->facts : NULL;
}

/* Names differ between any two hosts: they say nothing. */
static bool is_name(const char *name)
{
	return !strcmp(name, "hostname") || !strcmp(name, "nic_name") ||
	       !strcmp(name, "nic_pci_address");
}

static bool differs(const char *a, const char *b, const char *name)
{
	return !is_name(name) && (!a || !b || strcmp(a, b));
}

static void put_row(struct html *h, const char *name, const char *a, const char *b, bool both)
{
	bool other = both && differs(a, b, name);

	html_put(h, other ? "<tr class=\"differs\">" : "<tr>");
	html_put(h, "<td class=\"name\">%s</td>", name);
	html_put(h, "<td class=\"name\">%s</td>", a ? a : "-");
	if (both)
		html_put(h, "<td class=\"name\">%s</td><td>%s</td>", b ? b : "-",
			other ? "differs" : "");
	html_put(h, "</tr>\n");
}

static void put_heads(struct html *h, const struct record *rec, bool client, bool server)
{
	html_put(h, "<div class=\"scroll\"><table class=\"wide\"><thead><tr><th>Fact</th>");
	if (client)
		html_put(h, "<th>Client, %s</th>", run_end_name(rec, true));
	if (server)
		html_put(h, "<th>Server, %s</th>", run_end_name(rec, false));
	html_put(
		h, client && server ? "<th></th></tr></thead><tbody>\n" : "</tr></thead><tbody>\n");
}

/* All facts of a and those that only b has, of which the differing or the others are shown. */
static int put_facts(
	struct html *h, const struct host_facts *a, const struct host_facts *b, bool differing)
{
	int shown = 0;

	for (size_t i = 0; i < a->count; i++) {
		const char *other = host_facts_get(b, a->fact[i].name);

		if (differs(a->fact[i].value, other, a->fact[i].name) != differing)
			continue;
		put_row(h, a->fact[i].name, a->fact[i].value, other, true);
		shown++;
	}
	for (size_t i = 0; differing && i < b->count; i++) {
		if (host_facts_get(a, b->fact[i].name))
			continue;
		put_row(h, b->fact[i].name, NULL, b->fact[i].value, true);
		shown++;
	}
	return shown;
}

static int count_differing(const struct host_facts *a, const struct host_facts *b)
{
	int count = 0;

	for (size_t i = 0; i < a->count; i++)
		count += differs(
			a->fact[i].value, host_facts_get(b, a->fact[i].name), a->fact[i].name);
	for (size_t i = 0; i < b->count; i++)
		count += !host_facts_get(a, b->fact[i].name) && !is_name(b->fact[i].name);
	return count;
}

static void put_both(struct html *h, const struct record *rec, const struct host_facts *a,
	const struct host_facts *b)
{
	int differing = count_differing(a, b);

	html_put(h, "<p>%d settings differ between the two ends.</p>\n", differing);
	if (differing) {
		put_heads(h, rec, true, true);
		put_facts(h, a, b, true);
		html_put(h, "</tbody></table></div>\n");
	}
	html_fold(h, "What is the same at both ends", false);
	put_heads(h, rec, true, true);
	put_facts(h, a, b, false);
	html_put(h, "</tbody></table></div>\n");
	html_fold_end(h);
}

void run_html_hosts(struct html *h, const struct record *rec, const struct figures *f)
{
	const struct host_facts *client = facts_of(rec, true), *server = facts_of(rec, false);
	const struct host_facts *only = client ? client : server;

	(void)f;
	html_section(h, "hosts", "Hosts");
	if (client && server) {
		put_both(h, rec, client, server);
	} else if (only) {
		html_put(h, "<p>Nothing is known of the %s.</p>\n", client ? "server" : "client");
		put_heads(h, rec, client, server);
		for (size_t i = 0; i < only->count; i++)
			put_row(h, only->fact[i].name, only->fact[i].value, NULL, false);
		html_put(h, "</tbody></table></div>\n");
	} else {
		html_put(h, "<p>The record has no facts of the hosts.</p>\n");
	}
	html_section_end(h);
}

static void put_option(struct html *h, const struct opt *opt, const void *from)
{
	char value[OPT_TEXT];

	opt_value(opt, from, value);
	if (opt->type == OPT_BOOL)
		snprintf(value, sizeof(value), "%s", value[0] == '1' ? "yes" : "no");
	html_put(h,
		"<tr><td class=\"name keep\">--%s</td><td class=\"name\">%s</td><td class=\"about\">%s</td></tr>\n",
		opt->name, value[0] ? value : "-", opt->help ? opt->help : "");
}

static void put_options(
	struct html *h, const struct record *rec, const struct flow_options *usual, bool given)
{
	const struct opt_table *t = &flow_option_table[rec->workload];
	char value[OPT_TEXT], initial[OPT_TEXT];

	html_put(h, "<div class=\"scroll\"><table class=\"wide\"><tbody>\n");
	for (const struct opt *opt = t->opts; opt->name; opt++) {
		bool same;

		if (opt_find(t, opt->name) != opt || !strcmp(opt->name, "help") ||
			!strcmp(opt->name, "version") || !strcmp(opt->name, "dry-run"))
			continue;
		same = !strcmp(opt_value(opt, rec->options, value), opt_value(opt, usual, initial));
		if (same != given)
			put_option(h, opt, rec->options);
	}
	html_put(h, "</tbody></table></div>\n");
}

void run_html_options(struct html *h, const struct record *rec)
{
	char *argv[] = { (char *)"weir" };
	struct flow_options usual = { 0 };
	struct opt_given given;

	html_section(h, "options", "Options");
	opt_parse(&flow_option_table[rec->workload], 1, argv, &usual, &given, NULL);
	html_put(
		h, "<p>Those that are not what they are by default; as agreed by both ends.</p>\n");
	put_options(h, rec, &usual, true);
	html_fold(h, "All the others", false);
	put_options(h, rec, &usual, false);
	html_fold_end(h);
	html_section_end(h);
}
