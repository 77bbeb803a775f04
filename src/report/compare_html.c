// SPDX-License-Identifier: BSD-3-Clause
/* A comparison as a page. */
#include <math.h>

#include "report/compare.h"
#include "report/html.h"

#define COUNTERS_SHOWN 500

static void put_head(struct html *h, const struct compare *c)
{
	static const char *const words[] = { "No difference beyond the noise",
		"The second is better", "The second is worse", "They differ" };
	static const enum html_mark marks[] = { MARK_GOOD, MARK_GOOD, MARK_BAD, MARK_WARNING };
	char before[COMPARE_TEXT], after[COMPARE_TEXT], delta[COMPARE_TEXT];
	const struct change *top = c->headline;

	html_put(h, "<header class=\"top\"><p class=\"kind\">weir diff</p>\n<h1>");
	if (top)
		html_put(h, "%s, then %s <small>%s %s, %s; the noise is %.1f %%</small>",
			compare_text(before, top, top->before),
			compare_text(after, top, top->after), top->name, top->whose,
			compare_delta(delta, top),
			top->before > 0 ? top->noise / top->before * 100 : 0);
	else
		html_put(h, "%u of %u counters changed", c->change_count, c->compared);
	html_put(h, "</h1>\n<p>");
	html_mark(h, marks[c->verdict], words[c->verdict]);
	html_put(h,
		"</p>\n<p class=\"meta\">from <span class=\"mono\">%s</span> to <span class=\"mono\">%s</span></p></header>\n",
		c->label[0], c->label[1]);
	html_put(h,
		"<nav aria-label=\"Sections\"><a href=\"#cause\">Likely cause</a><a href=\"#changes\">What changed</a><a href=\"#settings\">Settings</a><a href=\"#found\">Findings</a></nav>\n");
}

static void put_causes(struct html *h, const struct compare *c)
{
	html_section(h, "cause", "Likely cause");
	html_put(h, "<ul class=\"findings\">\n");
	for (uint32_t i = 0; i < c->cause_count; i++) {
		html_put(h, i ? "<li class=\"warning\">" : "<li class=\"bad\">");
		html_mark(h, i ? MARK_WARNING : MARK_BAD, i ? "Also possible" : "The likeliest");
		html_what(h, c->cause[i].text);
		html_put(h, "<p class=\"todo\">%s</p></li>\n", c->cause[i].advice);
	}
	if (!c->cause_count) {
		html_put(h, "<li>");
		if (c->verdict == COMPARE_SAME)
			html_mark(h, MARK_GOOD, "Nothing to explain");
		else
			html_mark(h, MARK_NOTE, "Not known");
		if (c->verdict != COMPARE_SAME)
			html_put(h, "<p class=\"what\">Nothing in these records explains it.</p>");
		html_put(h, "</li>\n");
	}
	html_put(h, "</ul>\n");
	html_section_end(h);
}

static void put_change(struct html *h, const struct change *change)
{
	double up = change->after - change->before;
	bool good = change->sense && (up > 0) == (change->sense == SENSE_MORE_IS_BETTER);
	char before[COMPARE_TEXT], after[COMPARE_TEXT], delta[COMPARE_TEXT];

	html_put(h, "<tr data-s=\"%s %s\" data-k=\"%s\">", change->whose, change->object,
		change->name);
	html_put(h, "<td>%s</td><td class=\"name\">%s%s%s</td>", change->whose, change->object,
		change->object[0] ? " " : "", change->name);
	html_put(h, "<td class=\"n\" data-v=\"%.9g\">%s</td>", change->before,
		compare_text(before, change, change->before));
	html_put(h, "<td class=\"n\" data-v=\"%.9g\">%s</td><td class=\"n\">%s</td><td>",
		change->after, compare_text(after, change, change->after),
		compare_delta(delta, change));
	if (change->sense)
		html_mark(h, good ? MARK_GOOD : MARK_WARNING, good ? "better" : "worse");
	html_put(h, "</td><td class=\"n\" data-v=\"%.9g\">%.0f x</td><td class=\"grow\">",
		change->score, change->score);
	html_bar(h, log10(change->score) / 4);
	html_put(h, "</td></tr>\n");
}

static void put_changes(struct html *h, const struct compare *c)
{
	uint32_t counters = 0;

	html_section(h, "changes", "What changed by more than the noise");
	html_put(h,
		"<p>%u of %u figures that both have. The noise is what a figure moves by without a reason, from the spread of the run's own intervals or from counting.</p>\n",
		c->change_count, c->compared);
	if (!c->change_count) {
		html_section_end(h);
		return;
	}
	html_put(h,
		"<div class=\"search\"><input type=\"search\" placeholder=\"Filter: words of a name\" aria-label=\"Filter changes\"><output></output></div>\n");
	html_put(h,
		"<div class=\"scroll\"><table class=\"wide sort\"><thead><tr><th>Of</th><th>Figure or counter</th><th class=\"n\">First</th><th class=\"n\">Second</th><th class=\"n\">Change</th><th></th><th class=\"n\">Over noise</th><th></th></tr></thead><tbody>\n");
	for (uint32_t i = 0; i < c->change_count; i++)
		if (!c->change[i].counter || counters++ < COUNTERS_SHOWN)
			put_change(h, &c->change[i]);
	html_put(h, "</tbody></table></div>\n");
	html_section_end(h);
}

static void put_settings(struct html *h, const struct compare *c)
{
	html_section(h, "settings", "Settings that differ");
	if (!c->setting_count)
		html_put(h, "<p>None, of those that the records hold.</p>\n");
	else
		html_put(h,
			"<div class=\"scroll\"><table class=\"wide\"><thead><tr><th>Of</th><th>Setting</th><th>First</th><th>Second</th></tr></thead><tbody>\n");
	for (uint32_t i = 0; i < c->setting_count; i++) {
		const struct setting *s = &c->setting[i];

		html_put(h, s->telling ? "<tr class=\"differs\">" : "<tr>");
		html_put(h,
			"<td>%s</td><td class=\"name\">%s</td><td class=\"name\">%s</td><td class=\"name\">%s</td></tr>\n",
			s->whose, s->name, s->before, s->after);
	}
	if (c->setting_count)
		html_put(h,
			"</tbody></table></div><p class=\"aside\">Marked: known to change how fast a network is.</p>\n");
	html_section_end(h);
}

static void put_findings(struct html *h, const struct compare *c)
{
	html_section(h, "found", "Findings that are new or gone");
	if (!c->finding_count)
		html_put(h, "<p>None.</p>\n");
	html_put(h, "<ul class=\"findings\">\n");
	for (uint32_t i = 0; i < c->finding_count; i++) {
		const struct compare_finding *f = &c->finding[i];

		html_put(h, f->appeared ? "<li class=\"warning\">" : "<li class=\"good\">");
		html_mark(h, f->appeared ? MARK_WARNING : MARK_GOOD, f->appeared ? "New" : "Gone");
		html_put(h, "<span class=\"where\">%s</span>", f->whose);
		html_what(h, f->text);
		html_put(h, "</li>\n");
	}
	html_put(h, "</ul>\n");
	html_section_end(h);
}

void compare_html(const struct compare *c, FILE *file)
{
	struct html h = { .file = file };

	html_begin(&h, "weir diff");
	put_head(&h, c);
	html_put(&h, "<main>\n");
	put_causes(&h, c);
	put_changes(&h, c);
	put_settings(&h, c);
	put_findings(&h, c);
	html_put(&h,
		"</main>\n<footer>Written by weir " WEIR_VERSION
		". One file: nothing is loaded from anywhere, and all of it can be read without JavaScript.</footer>\n");
	html_end(&h);
}
