// SPDX-License-Identifier: BSD-3-Clause
/* A comparison as text and as JSON: schema/comparison-1.json. */
#include <math.h>
#include <string.h>

#include "report/compare.h"
#include "report/html.h"

#define COUNTERS_SHOWN 20

static const char *const unit_names[] = { [COMPARE_BPS] = "bit/s",
	[COMPARE_BYTES_PER_S] = "bytes/s",
	[COMPARE_PER_S] = "1/s",
	[COMPARE_NS] = "ns",
	[COMPARE_SHARE] = "share",
	[COMPARE_PLAIN] = "" };

char *compare_text(char buf[COMPARE_TEXT], const struct change *change, double value)
{
	char text[UNITS_TEXT];

	switch (change->unit) {
	case COMPARE_BPS:
		snprintf(buf, COMPARE_TEXT, "%s", units_format_bits(text, value));
		break;
	case COMPARE_BYTES_PER_S:
		snprintf(buf, COMPARE_TEXT, "%.3f GB/s", value / 1e9);
		break;
	case COMPARE_PER_S:
		snprintf(buf, COMPARE_TEXT, "%s",
			figures_rate_text(text, METRIC_TRANSACTIONS, value));
		break;
	case COMPARE_NS:
		if (value >= 1000)
			snprintf(buf, COMPARE_TEXT, "%s", units_format_duration(text, value));
		else
			snprintf(buf, COMPARE_TEXT, "%.2f ns", value);
		break;
	case COMPARE_SHARE:
		snprintf(buf, COMPARE_TEXT, "%.3g %%", value * 100);
		break;
	default:
		if (change->counter)
			snprintf(buf, COMPARE_TEXT, "%s %s", units_format_count(text, value),
				change->unit_name);
		else
			snprintf(buf, COMPARE_TEXT, value == floor(value) ? "%.0f" : "%.3g", value);
	}
	return buf;
}

char *compare_delta(char buf[COMPARE_TEXT], const struct change *change)
{
	double by = change->after - change->before;

	if (change->appeared)
		snprintf(buf, COMPARE_TEXT, "new");
	else if (change->vanished)
		snprintf(buf, COMPARE_TEXT, "gone");
	else if (change->unit == COMPARE_SHARE)
		snprintf(buf, COMPARE_TEXT, "%+.3g points", by * 100);
	else if (change->before > 0 && change->after >= 10 * change->before)
		snprintf(buf, COMPARE_TEXT, "%.3g times", change->after / change->before);
	else if (change->before > 0)
		snprintf(buf, COMPARE_TEXT, "%+.0f %%", by / change->before * 100);
	else
		snprintf(buf, COMPARE_TEXT, "%+.3g", by);
	return buf;
}

static void print_headline(const struct compare *c, struct out *o)
{
	static const char *const words[] = { "no difference beyond the noise",
		"the second is better", "the second is worse", "they differ" };
	char before[COMPARE_TEXT], after[COMPARE_TEXT], delta[COMPARE_TEXT];
	const struct change *h = c->headline;

	out_style(o, OUT_BOLD);
	out_text(o, "weir diff      %s -> %s\n", c->label[0], c->label[1]);
	out_style(o, OUT_PLAIN);
	out_text(o, "\n  ");
	out_style(o, c->verdict == COMPARE_WORSE  ? OUT_BAD
		     : c->verdict == COMPARE_SAME ? OUT_GOOD
						  : OUT_WARN);
	out_text(o, "%s",
		c->verdict == COMPARE_SAME && c->change_count ? "the runs' figures do not differ"
							      : words[c->verdict]);
	out_style(o, OUT_PLAIN);
	if (h)
		out_text(o, ": %s %s, then %s (%s, noise %.1f %%)", h->name,
			compare_text(before, h, h->before), compare_text(after, h, h->after),
			compare_delta(delta, h), h->before > 0 ? h->noise / h->before * 100 : 0);
	out_text(o, "\n");
}

static void print_causes(const struct compare *c, struct out *o)
{
	if (c->verdict == COMPARE_SAME)
		return;
	out_text(o, "\nlikely cause%s\n", c->cause_count > 1 ? "s, the likeliest first" : "");
	for (uint32_t i = 0; i < c->cause_count; i++)
		out_text(o, "  %u. %s\n     %s\n", i + 1, c->cause[i].text, c->cause[i].advice);
	if (!c->cause_count)
		out_text(o, "  not known: nothing in these records explains it%s\n",
			c->before->counters[0].difference && c->after->counters[0].difference
				? ""
				: "; runs with --counters say more");
}

static void print_change(const struct change *change, struct out *o)
{
	char before[COMPARE_TEXT], after[COMPARE_TEXT], delta[COMPARE_TEXT],
		name[2 * COUNTER_TEXT + 32];

	snprintf(name, sizeof(name), "%s%s%s%s%s", change->whose, change->whose[0] ? " " : "",
		change->object, change->object[0] ? " " : "", change->name);
	out_text(o, "  %-46s %16s %16s  %12s  %6.0f x noise\n", name,
		compare_text(before, change, change->before),
		compare_text(after, change, change->after), compare_delta(delta, change),
		fmin(change->score, 99999));
}

static void print_changes(const struct compare *c, struct out *o)
{
	uint32_t counters = 0;

	if (c->change_count)
		out_text(o, "\nwhat changed by more than the noise (%u of %u figures)\n",
			c->change_count, c->compared);
	for (uint32_t i = 0; i < c->change_count; i++)
		if (!c->change[i].counter || counters++ < COUNTERS_SHOWN)
			print_change(&c->change[i], o);
	if (counters > COUNTERS_SHOWN)
		out_text(o, "  ... and %u more counters: --json has every one\n",
			counters - COUNTERS_SHOWN);
}

static void print_rest(const struct compare *c, struct out *o)
{
	uint32_t more = 0;

	if (c->setting_count)
		out_text(o, "\nsettings that differ\n");
	for (uint32_t i = 0; i < c->setting_count; i++)
		out_text(o, "  %-7s %-34s %.60s -> %.60s\n", c->setting[i].whose,
			c->setting[i].name, c->setting[i].before, c->setting[i].after);
	if (c->finding_count)
		out_text(o, "\nfindings\n");
	for (uint32_t i = 0; i < c->finding_count; i++) {
		/* The same on every NIC is said twice, then counted. */
		if (i >= 2 && !strcmp(c->finding[i].name, c->finding[i - 2].name)) {
			more++;
			continue;
		}
		out_text(o, "  %s: %s%s%s\n", c->finding[i].appeared ? "new" : "gone",
			c->finding[i].whose, c->finding[i].whose[0] ? ": " : "",
			c->finding[i].text);
	}
	if (more)
		out_text(o, "  ... and %u more of the same\n", more);
}

static void emit_changes(const struct compare *c, struct out *o)
{
	static const char *const senses[] = { "neither", "more", "less" };

	out_array(o, "changes");
	for (uint32_t i = 0; i < c->change_count; i++) {
		const struct change *change = &c->change[i];

		out_object(o, NULL);
		out_str(o, "name", NULL, change->name);
		out_str(o, "whose", NULL, change->whose[0] ? change->whose : NULL);
		out_str(o, "object", NULL, change->object[0] ? change->object : NULL);
		out_bool(o, "counter", NULL, change->counter);
		out_str(o, "unit", NULL,
			change->counter ? change->unit_name : unit_names[change->unit]);
		out_str(o, "better", NULL, senses[change->sense]);
		out_str(o, "state", NULL,
			change->appeared   ? "appeared"
			: change->vanished ? "vanished"
					   : "changed");
		out_f64(o, "before", NULL, change->before);
		out_f64(o, "after", NULL, change->after);
		out_f64(o, "noise", NULL, change->noise);
		out_f64(o, "score", NULL, change->score);
		out_end(o);
	}
	out_end(o);
}

static void emit_rest(const struct compare *c, struct out *o)
{
	out_array(o, "settings");
	for (uint32_t i = 0; i < c->setting_count; i++) {
		out_object(o, NULL);
		out_str(o, "whose", NULL, c->setting[i].whose);
		out_str(o, "name", NULL, c->setting[i].name);
		out_str(o, "before", NULL, c->setting[i].before);
		out_str(o, "after", NULL, c->setting[i].after);
		out_bool(o, "telling", NULL, c->setting[i].telling);
		out_end(o);
	}
	out_end(o);
	out_array(o, "findings");
	for (uint32_t i = 0; i < c->finding_count; i++) {
		out_object(o, NULL);
		out_str(o, "name", NULL, c->finding[i].name);
		out_str(o, "state", NULL, c->finding[i].appeared ? "appeared" : "vanished");
		out_str(o, "whose", NULL, c->finding[i].whose[0] ? c->finding[i].whose : NULL);
		out_str(o, "text", NULL, c->finding[i].text);
		out_end(o);
	}
	out_end(o);
}

static void emit(const struct compare *c, struct out *o)
{
	out_object(o, NULL);
	out_str(o, "schema", NULL, COMPARE_SCHEMA);
	out_str(o, "weir", NULL, WEIR_VERSION);
	out_str(o, "before", NULL, c->label[0]);
	out_str(o, "after", NULL, c->label[1]);
	out_str(o, "verdict", NULL, compare_verdict_name[c->verdict]);
	out_u64(o, "compared", NULL, c->compared);
	out_array(o, "causes");
	for (uint32_t i = 0; i < c->cause_count; i++) {
		out_object(o, NULL);
		out_str(o, "name", NULL, c->cause[i].name);
		out_str(o, "text", NULL, c->cause[i].text);
		out_str(o, "advice", NULL, c->cause[i].advice);
		out_end(o);
	}
	out_end(o);
	emit_changes(c, o);
	emit_rest(c, o);
	out_end(o);
}

int compare_write(const struct compare *c, enum report_form form, FILE *file, struct err *e)
{
	struct out o;

	if (form == REPORT_HTML) {
		compare_html(c, file);
		errno = 0;
		if (fflush(file) || ferror(file))
			return err_set(e, errno ? errno : EIO, "cannot write the comparison: %m");
		return 0;
	}
	if (form == REPORT_CSV)
		return err_set(e, EINVAL, "a comparison has no CSV form: --json has all of it");
	out_init(&o, file, form == REPORT_JSON ? OUT_JSON : OUT_TEXT);
	if (form == REPORT_JSON) {
		emit(c, &o);
	} else {
		print_headline(c, &o);
		print_causes(c, &o);
		print_changes(c, &o);
		print_rest(c, &o);
	}
	return out_finish(&o, e);
}
