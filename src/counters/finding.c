// SPDX-License-Identifier: BSD-3-Clause
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/units.h"
#include "counters/emit.h"
#include "counters/rule.h"

#define FINDINGS_MAX 4096
#define OTHERS_NAMED 3

int findings_add(struct findings *f, const struct finding *finding, struct err *e)
{
	struct finding *grown;

	if (f->count == FINDINGS_MAX)
		return 0;
	if (f->count == f->room) {
		uint32_t room = f->room ? f->room * 2 : 16;

		grown = reallocarray(f->finding, room, sizeof(*grown));
		if (!grown)
			return err_set(e, ENOMEM, "no memory for findings");
		f->finding = grown;
		f->room = room;
	}
	f->finding[f->count++] = *finding;
	return 0;
}

void findings_free(struct findings *f)
{
	free(f->finding);
	*f = (struct findings){ 0 };
}

/* "12", "3.4", "1.20 M" */
static void figure(char text[UNITS_TEXT], double value)
{
	if (fabs(value) >= 1e5)
		units_format_count(text, value);
	else if (value == floor(value))
		snprintf(text, UNITS_TEXT, "%.0f", value);
	else
		snprintf(text, UNITS_TEXT, "%.3g", value);
}

/* {name}, {name%}, {name:bytes}, {name:us}, {name:bits} */
static size_t fill_place(
	char *to, size_t room, const struct rule_place *p, const char *place, size_t length)
{
	size_t name = strcspn(place, "%:}");
	char text[UNITS_TEXT] = "?";
	const char *form = place + name;

	if (name == 6 && !strncmp(place, "object", 6))
		return (size_t)snprintf(to, room, "%s", p->at->object);
	for (int i = 0; i < p->rule->variable_count; i++) {
		double value = p->value[i];

		if (strlen(p->rule->variable[i].name) != name ||
			strncmp(p->rule->variable[i].name, place, name))
			continue;
		if (*form == '%')
			snprintf(text, sizeof(text), "%.3g %%", value * 100);
		else if (length - name == 6 && !strncmp(form, ":bytes", 6))
			units_format_bytes(text, value);
		else if (length - name == 3 && !strncmp(form, ":us", 3))
			units_format_duration(text, value * 1e3);
		else if (length - name == 5 && !strncmp(form, ":bits", 5))
			units_format_bits(text, value);
		else
			figure(text, value);
	}
	return (size_t)snprintf(to, room, "%s", text);
}

static void fill(char *to, size_t room, const struct rule_place *p, const char *from)
{
	size_t used = 0;

	while (*from && used + 1 < room) {
		size_t length = *from == '{' ? strcspn(from, "}") : 0;

		if (length && from[length]) {
			used += fill_place(to + used, room - used, p, from + 1, length - 1);
			from += length + 1;
		} else {
			to[used++] = *from++;
		}
	}
	to[used < room ? used : room - 1] = '\0';
	text_one_line(to);
}

static void take_evidence(struct finding *f, const struct rule_place *p)
{
	for (int i = 0; i < p->used_count; i++) {
		const struct row *r = p->used[i];
		struct evidence *v = &f->evidence[f->evidence_count++];

		snprintf(v->source, sizeof(v->source), "%s", r->counter->source);
		snprintf(v->object, sizeof(v->object), "%s", r->counter->object);
		snprintf(v->name, sizeof(v->name), "%s", r->counter->name);
		snprintf(v->unit, sizeof(v->unit), "%s", r->counter->unit);
		v->kind = r->counter->kind;
		v->state = r->state;
		v->before = r->before.value;
		v->after = r->after.value;
		v->change = r->change;
		v->per_s = difference_rate(r);
	}
}

static int ask_here(struct findings *f, struct rule_place *p, bool *had_counters, struct err *e)
{
	struct finding found = { 0 };
	double weight;

	for (int i = 0; i < p->rule->variable_count; i++)
		p->value[i] = expression_value(&p->rule->variable[i].is, p);
	if (!p->missing) {
		bool holds = expression_value(&p->rule->when, p) != 0;

		if (p->missing)
			return 0;
		*had_counters = true;
		if (!holds)
			return 0;
	} else {
		return 0;
	}
	weight = p->rule->weight.there ? expression_value(&p->rule->weight, p) : 0;
	snprintf(found.rule, sizeof(found.rule), "%s", p->rule->name);
	snprintf(found.object, sizeof(found.object), "%s", p->at->object);
	found.severity = (uint8_t)p->rule->severity;
	found.weight = isfinite(weight) ? weight : 0;
	fill(found.text, sizeof(found.text), p, p->rule->say);
	fill(found.means, sizeof(found.means), p, p->rule->means);
	fill(found.advice, sizeof(found.advice), p, p->rule->advice);
	take_evidence(&found, p);
	return findings_add(f, &found, e);
}

static bool is_of(const struct rule *rule, const char *source)
{
	for (int i = 0; i < rule->source_count; i++)
		if (!strcmp(rule->source[i], source))
			return true;
	return false;
}

static int by_weight(const void *left, const void *right)
{
	const struct finding *a = left, *b = right;

	if (a->severity != b->severity)
		return a->severity > b->severity ? -1 : 1;
	if (a->weight != b->weight)
		return a->weight > b->weight ? -1 : 1;
	return strcmp(a->rule, b->rule) ? strcmp(a->rule, b->rule) : strcmp(a->object, b->object);
}

int findings_make(
	struct findings *f, const struct difference *d, const struct rules *rules, struct err *e)
{
	int ret = 0;

	*f = (struct findings){ .rules = (uint32_t)rules->count };
	for (int i = 0; i < rules->count && !ret; i++) {
		bool had_counters = false;

		for (uint32_t k = 0; k < d->object_count && !ret; k++) {
			struct rule_place p = {
				.d = d, .at = &d->object[k], .rules = rules, .rule = &rules->rule[i]
			};

			if (is_of(p.rule, p.at->source))
				ret = ask_here(f, &p, &had_counters, e);
		}
		f->skipped += !had_counters;
	}
	if (ret) {
		findings_free(f);
		return ret;
	}
	if (f->count)
		qsort(f->finding, f->count, sizeof(*f->finding), by_weight);
	return 0;
}

static void emit_evidence(const struct evidence *v, struct out *o)
{
	bool grows = counter_grows(v->kind);

	out_object(o, NULL);
	out_str(o, "source", NULL, v->source);
	out_str(o, "object", NULL, v->object);
	out_str(o, "name", NULL, v->name);
	out_str(o, "unit", NULL, v->unit);
	out_str(o, "kind", NULL, counter_kind_name[v->kind]);
	out_str(o, "state", NULL, row_state_name[v->state]);
	emit_value("before", v->kind, v->before, o);
	emit_value("after", v->kind, v->after, o);
	if (grows)
		emit_value("change", COUNTER_COUNT, v->change, o);
	else
		out_null(o, "change");
	out_f64(o, "per_s", NULL, v->per_s);
	out_end(o);
}

void findings_emit_array(const struct findings *f, const char *key, struct out *o)
{
	out_array(o, key);
	for (uint32_t i = 0; f && i < f->count; i++) {
		const struct finding *one = &f->finding[i];

		out_object(o, NULL);
		out_str(o, "rule", NULL, one->rule);
		out_str(o, "severity", NULL, severity_name[one->severity]);
		out_str(o, "object", NULL, one->object);
		out_str(o, "text", NULL, one->text);
		out_str(o, "means", NULL, one->means);
		out_str(o, "advice", NULL, one->advice);
		out_array(o, "evidence");
		for (int k = 0; k < one->evidence_count; k++)
			emit_evidence(&one->evidence[k], o);
		out_end(o);
		out_end(o);
	}
	out_end(o);
}

static bool has_rule(const struct findings *f, uint32_t count, const char *rule)
{
	for (uint32_t i = 0; i < count; i++)
		if (!strcmp(f->finding[i].rule, rule))
			return true;
	return false;
}

bool findings_repeat(const struct findings *f, uint32_t at, const struct findings *said)
{
	const char *rule = f->finding[at].rule;

	return has_rule(f, at, rule) || (said && has_rule(said, said->count, rule));
}

/* The same rule on other objects: their names on one line. */
static void print_others(const struct findings *f, uint32_t first, struct out *o)
{
	uint32_t others = 0;

	for (uint32_t i = first + 1; i < f->count; i++) {
		if (strcmp(f->finding[i].rule, f->finding[first].rule))
			continue;
		if (others < OTHERS_NAMED)
			out_text(o, "%s%s", others ? ", " : "    The same on ",
				f->finding[i].object);
		others++;
	}
	if (others > OTHERS_NAMED)
		out_text(o, " and %u more", others - OTHERS_NAMED);
	if (others)
		out_text(o, ".\n");
}

void findings_print(const struct findings *f, const struct findings *said, struct out *o)
{
	static const enum out_style style[SEVERITIES] = { OUT_DIM, OUT_WARN, OUT_BAD };

	if (!f->count)
		out_text(o,
			"nothing stands out (%u rules asked, %u more lack their counters here)\n",
			f->rules - f->skipped, f->skipped);
	for (uint32_t i = 0; i < f->count; i++) {
		const struct finding *one = &f->finding[i];

		if (findings_repeat(f, i, said))
			continue;
		out_style(o, style[one->severity]);
		out_text(o, "%s: ", severity_name[one->severity]);
		out_style(o, OUT_PLAIN);
		out_text(o, "%s\n", one->text);
		if (one->means[0])
			out_text(o, "    %s\n", one->means);
		if (one->advice[0])
			out_text(o, "    %s\n", one->advice);
		print_others(f, i, o);
	}
}
