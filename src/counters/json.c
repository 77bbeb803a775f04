// SPDX-License-Identifier: BSD-3-Clause
/* JSON that comes from outside. The only user of jansson in this folder. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "counters/json_in.h"
#include "counters/known.h"
#include "counters/read.h"
#include "counters/result.h"
#include "counters/slice.h"

static bool key_is(struct slice key, const char *name)
{
	return key.length == strlen(name) && !memcmp(key.text, name, key.length);
}

/* NULL where it is no JSON, and the problem is said. */
static json_t *parse_slice(const struct reading_file *f, struct slice slice)
{
	json_error_t error;
	json_t *json = json_loadb(slice.text, slice.length, JSON_DECODE_ANY, &error);

	if (!json && f)
		file_problem(f, slice.text, "%s", error.text);
	return json;
}

static const char *text_of(const json_t *json)
{
	return json_is_string(json) ? json_string_value(json) : NULL;
}

/* A number, or a string of digits for one beyond jansson's. */
static bool value_of(const json_t *json, uint64_t *value)
{
	const char *text = text_of(json);

	if (json_is_integer(json)) {
		*value = (uint64_t)json_integer_value(json);
		return true;
	}
	return text && parse_number(text, strlen(text), true, value) == strlen(text) && text[0];
}

static uint64_t count_of(const json_t *json)
{
	return json_is_integer(json) && json_integer_value(json) > 0
		       ? (uint64_t)json_integer_value(json)
		       : 0;
}

static double number_of(const json_t *json)
{
	return json_is_number(json) ? json_number_value(json) : NAN;
}

static int kind_of(const char *name)
{
	for (int i = 0; name && i < COUNTER_KINDS; i++)
		if (!strcmp(name, counter_kind_name[i]))
			return i;
	return -1;
}

static int state_of(const char *name)
{
	for (int i = 0; name && i < ROW_STATES; i++)
		if (!strcmp(name, row_state_name[i]))
			return i;
	return -1;
}

static void copy_text(char *to, size_t room, const json_t *json)
{
	snprintf(to, room, "%s", text_of(json) ? text_of(json) : "");
	text_one_line(to);
}

/* weir's snapshot */

static int weir_counter(const struct reading_file *f, const char *at, const char *source,
	const char *object, const json_t *row, struct err *e)
{
	struct counter c = { .source = source,
		.object = object,
		.name = text_of(json_array_get(row, 0)),
		.unit = text_of(json_array_get(row, 3)) };
	int kind = kind_of(text_of(json_array_get(row, 1)));
	uint64_t bits = count_of(json_array_get(row, 2)), value;

	if (!c.name || kind < 0 || bits < 1 || bits > 64 ||
		!value_of(json_array_get(row, 4), &value)) {
		file_problem(f, at,
			"%s %s: a counter is not name, kind, bits, unit, value, time: %.60s",
			source, object, c.name ? c.name : "no name");
		return 0;
	}
	c.kind = (uint8_t)kind;
	c.bits = (uint8_t)bits;
	return snapshot_put(f->s, &c, value, count_of(json_array_get(row, 5)), e);
}

static int weir_object(const struct reading_file *f, struct slice slice, struct err *e)
{
	json_t *json = parse_slice(f, slice);
	const char *source = text_of(json_object_get(json, "source"));
	const char *object = text_of(json_object_get(json, "object"));
	const json_t *counters = json_object_get(json, "counters");
	size_t count = json_array_size(counters);
	int ret = 0;

	if (json && (!source || !object || !json_is_array(counters)))
		file_problem(f, slice.text, "an object lacks its source, its name or its counters");
	else
		for (size_t i = 0; i < count && !ret; i++)
			ret = weir_counter(
				f, slice.text, source, object, json_array_get(counters, i), e);
	json_decref(json);
	return ret;
}

/* net_prof's snapshot */

static uint64_t seconds_ns(const json_t *json)
{
	double seconds = number_of(json);

	return seconds > 0 && seconds < 1e10 ? (uint64_t)llround(seconds * 1e6) * 1000 : 0;
}

static int net_prof_counter(const struct reading_file *f, struct slice slice, struct err *e)
{
	json_t *json = parse_slice(f, slice);
	struct counter c = { .source = "cxi",
		.name = text_of(json_object_get(json, "counter_name")) };
	uint64_t interface = count_of(json_object_get(json, "interface")), value, time_ns;
	char object[32];
	int ret = 0;

	if (!json)
		return 0;
	if (!c.name || !interface || !value_of(json_object_get(json, "value"), &value)) {
		file_problem(f, slice.text,
			"%.60s: interface, counter_name or value is missing or wrong",
			c.name ? c.name : "a counter without a name");
	} else {
		snprintf(object, sizeof(object), "cxi%llu", (unsigned long long)interface - 1);
		c.object = object;
		counter_classify(&c);
		time_ns = seconds_ns(json_object_get(json, "timestamp"));
		if (time_ns && (!f->s->taken_ns || time_ns < f->s->taken_ns))
			f->s->taken_ns = time_ns;
		ret = snapshot_put(f->s, &c, value, time_ns, e);
	}
	json_decref(json);
	return ret;
}

/* Every element of an array; one that is broken is named, and so is where the text breaks off. */
static int each_element(const struct reading_file *f, struct slice array,
	int (*take)(const struct reading_file *, struct slice, struct err *), struct err *e)
{
	struct slice key, value;
	struct slices in;
	int ret = 0, more;

	if (!slices_open(&in, array) || in.in_object) {
		file_problem(f, array.text, "not a list");
		return 0;
	}
	while (!ret && (more = slices_next(&in, &key, &value)) > 0)
		ret = take(f, value, e);
	if (!ret && more < 0)
		file_problem(f, in.at, "the file breaks off, or is no JSON from here on");
	return ret;
}

static int take_member(const struct reading_file *f, struct slice key, struct slice value,
	enum snapshot_form *form, struct err *e)
{
	json_t *json;

	if (key_is(key, "objects")) {
		*form = SNAPSHOT_WEIR;
		return each_element(f, value, weir_object, e);
	}
	if (key_is(key, "counters")) {
		*form = SNAPSHOT_NET_PROF;
		return each_element(f, value, net_prof_counter, e);
	}
	if (!key_is(key, "schema") && !key_is(key, "host") && !key_is(key, "taken_ns") &&
		!key_is(key, "took_ns"))
		return 0;
	json = parse_slice(f, value);
	if (key_is(key, "host"))
		copy_text(f->s->host, sizeof(f->s->host), json);
	else if (key_is(key, "taken_ns"))
		f->s->taken_ns = count_of(json);
	else if (key_is(key, "took_ns"))
		f->s->took_ns = count_of(json);
	else if (json && (!text_of(json) || strcmp(text_of(json), SNAPSHOT_SCHEMA)))
		err_set(e, EINVAL, "%s is a %.60s, not a snapshot of counters (%s)", f->label,
			text_of(json) ? text_of(json) : "thing without a schema", SNAPSHOT_SCHEMA);
	json_decref(json);
	return e && e->code ? -e->code : 0;
}

/* The last member of a text that breaks off may be the list of counters: what is there is used. */
static struct slice rest_of(const struct slices *in)
{
	const char *at = in->at;

	while (at < in->end && *at != '[')
		at++;
	return (struct slice){ at, (size_t)(in->end - at) };
}

int json_snapshot_parse(const struct reading_file *f, enum snapshot_form *form, struct err *e)
{
	struct slice whole = { f->text, f->length }, key, value;
	struct err own = { 0 };
	struct slices in;
	int ret = 0, more;

	e = e ? e : &own;
	err_clear(e);
	slices_open(&in, whole);
	if (!in.in_object) {
		*form = SNAPSHOT_NET_PROF_LIST;
		return each_element(f, whole, net_prof_counter, e);
	}
	while (!ret && (more = slices_next(&in, &key, &value)) > 0)
		ret = take_member(f, key, value, form, e);
	if (ret || !more)
		return ret;
	if (key.length)
		return take_member(f, key, rest_of(&in), form, e);
	file_problem(f, in.at, "the file breaks off, or is no JSON from here on");
	return 0;
}

/* A difference, and its findings */

static bool reading_of(const json_t *row, const char *value, const char *time, struct reading *r)
{
	const json_t *json = json_object_get(row, value);

	*r = (struct reading){ 0 };
	if (!json || json_is_null(json))
		return true;
	r->time_ns = count_of(json_object_get(row, time));
	if (!r->time_ns)
		r->time_ns = 1;
	return value_of(json, &r->value);
}

static bool row_of(struct row *r, const json_t *json)
{
	int state = state_of(text_of(json_object_get(json, "state")));
	const json_t *change = json_object_get(json, "change");

	if (state < 0 || !reading_of(json, "before", "before_ns", &r->before) ||
		!reading_of(json, "after", "after_ns", &r->after))
		return false;
	r->state = (uint8_t)state;
	if (change && !json_is_null(change) && !value_of(change, &r->change))
		return false;
	if (r->after.time_ns > r->before.time_ns && r->before.time_ns > 1)
		r->seconds = (double)(r->after.time_ns - r->before.time_ns) / 1e9;
	return true;
}

static int load_row(struct counters_result *r, const char *label, const char *source,
	const char *object, const json_t *json, struct err *e)
{
	struct counter c = { .source = source,
		.object = object,
		.name = text_of(json_object_get(json, "name")),
		.unit = text_of(json_object_get(json, "unit")) };
	int kind = kind_of(text_of(json_object_get(json, "kind")));
	uint64_t bits = count_of(json_object_get(json, "bits"));
	struct row row = { 0 };

	if (!source || !object || !c.name || kind < 0 || bits < 1 || bits > 64 ||
		!row_of(&row, json))
		return err_set(e, EINVAL, "%s: a row of the difference is broken: %.60s", label,
			c.name ? c.name : "no name");
	c.kind = (uint8_t)kind;
	c.bits = (uint8_t)bits;
	return counters_result_add(r, &c, &row, e);
}

static int load_objects(
	struct counters_result *r, const char *label, const json_t *objects, struct err *e)
{
	const json_t *object, *row;
	size_t i, k;
	int ret = 0;

	json_array_foreach(objects, i, object) {
		const char *source = text_of(json_object_get(object, "source"));
		const char *name = text_of(json_object_get(object, "object"));

		json_array_foreach(json_object_get(object, "rows"), k, row) {
			ret = load_row(r, label, source, name, row, e);
			if (ret)
				return ret;
		}
	}
	return 0;
}

static void load_evidence(struct finding *f, const json_t *list)
{
	const json_t *json;
	size_t i;

	json_array_foreach(list, i, json) {
		struct evidence *v = &f->evidence[f->evidence_count];
		int kind = kind_of(text_of(json_object_get(json, "kind")));
		int state = state_of(text_of(json_object_get(json, "state")));

		if (f->evidence_count == FINDING_EVIDENCE || kind < 0 || state < 0)
			continue;
		copy_text(v->source, sizeof(v->source), json_object_get(json, "source"));
		copy_text(v->object, sizeof(v->object), json_object_get(json, "object"));
		copy_text(v->name, sizeof(v->name), json_object_get(json, "name"));
		copy_text(v->unit, sizeof(v->unit), json_object_get(json, "unit"));
		v->kind = (uint8_t)kind;
		v->state = (uint8_t)state;
		value_of(json_object_get(json, "before"), &v->before);
		value_of(json_object_get(json, "after"), &v->after);
		value_of(json_object_get(json, "change"), &v->change);
		v->per_s = number_of(json_object_get(json, "per_s"));
		f->evidence_count++;
	}
}

static int load_findings(struct findings *findings, const json_t *list, struct err *e)
{
	const json_t *json;
	size_t i;
	int ret = 0;

	json_array_foreach(list, i, json) {
		struct finding f = { 0 };
		const char *severity = text_of(json_object_get(json, "severity"));

		for (int k = 0; severity && k < SEVERITIES; k++)
			if (!strcmp(severity, severity_name[k]))
				f.severity = (uint8_t)k;
		copy_text(f.rule, sizeof(f.rule), json_object_get(json, "rule"));
		copy_text(f.object, sizeof(f.object), json_object_get(json, "object"));
		copy_text(f.text, sizeof(f.text), json_object_get(json, "text"));
		copy_text(f.means, sizeof(f.means), json_object_get(json, "means"));
		copy_text(f.advice, sizeof(f.advice), json_object_get(json, "advice"));
		load_evidence(&f, json_object_get(json, "evidence"));
		ret = findings_add(findings, &f, e);
		if (ret)
			break;
	}
	return ret;
}

static int load_difference(
	struct counters_result *r, const char *label, const json_t *json, struct err *e)
{
	struct difference *d = &r->difference;
	int ret;

	copy_text(d->host, sizeof(d->host), json_object_get(json, "host"));
	d->before_ns = count_of(json_object_get(json, "before_ns"));
	d->after_ns = count_of(json_object_get(json, "after_ns"));
	d->seconds = json_number_value(json_object_get(json, "seconds"));
	ret = load_objects(r, label, json_object_get(json, "objects"), e);
	if (!ret)
		ret = counters_result_finish(r, e);
	if (ret)
		return ret;
	/* What the file leaves out stayed the same. */
	d->states[ROW_SAME] =
		(uint32_t)count_of(json_object_get(json_object_get(json, "totals"), "same"));
	r->findings.rules = (uint32_t)count_of(json_object_get(json, "rules"));
	r->findings.skipped = (uint32_t)count_of(json_object_get(json, "rules_skipped"));
	return load_findings(&r->findings, json_object_get(json, "findings"), e);
}

/* A difference itself, or the one that a record holds. */
static const json_t *difference_in(const json_t *json, const char *end)
{
	const char *schema = text_of(json_object_get(json, "schema"));
	const json_t *inner;

	if (schema && !strcmp(schema, DIFFERENCE_SCHEMA))
		return json;
	inner = json_object_get(json, "counters");
	if (!inner)
		inner = json_object_get(json_object_get(json, end ? end : "local"), "counters");
	schema = text_of(json_object_get(inner, "schema"));
	return schema && !strcmp(schema, DIFFERENCE_SCHEMA) ? inner : NULL;
}

int json_difference_parse(struct difference *d, struct findings *findings, const char *text,
	size_t length, const char *label, const char *end, struct err *e)
{
	struct counters_result *r;
	const json_t *inner;
	json_error_t error;
	json_t *json;
	int ret;

	json = json_loadb(text, length, 0, &error);
	if (!json)
		return err_set(e, EINVAL, "%s:%d: %s", label, error.line, error.text);
	inner = difference_in(json, end);
	ret = counters_result_new(&r, e);
	if (!ret && inner)
		ret = load_difference(r, label, inner, e);
	else if (!ret)
		ret = err_set(e, ENOENT, "%s holds no difference of counters%s", label,
			json_object_get(json, "local") ? ": run with --counters" : "");
	json_decref(json);
	if (!ret) {
		/* Handed over. */
		*d = r->difference;
		r->difference = (struct difference){ 0 };
		if (findings) {
			*findings = r->findings;
			r->findings = (struct findings){ 0 };
		}
	}
	counters_result_free(r);
	return ret;
}

int counters_result_read(
	struct counters_result **r, const json_t *from, const char *label, struct err *e)
{
	int ret;

	ret = counters_result_new(r, e);
	if (ret)
		return ret;
	ret = load_difference(*r, label, from, e);
	if (ret) {
		counters_result_free(*r);
		*r = NULL;
	}
	return ret;
}
