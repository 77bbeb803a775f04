// SPDX-License-Identifier: BSD-3-Clause
/* Which document of a file it is, and its top level; read_end.c reads what each end measured. */
#include "record/read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json_in.h"
#include "base/text.h"
#include "record/read_end.h"

#define SCHEMA_FAMILY "weir/run/"

static const char *schema_of(const json_t *document)
{
	const char *schema = json_string_value(json_object_get(document, "schema"));

	return schema ? schema : "";
}

static int wrong_schema(const char *file, const char *schema, struct err *e)
{
	char name[RECORD_SCHEMA_TEXT];

	snprintf(name, sizeof(name), "%s", schema);
	text_one_line(name);
	if (!name[0]) {
		err_set(e, EINVAL, "%s: this is no record of weir: it names no schema", file);
		return err_hint(e, "a record is written by: weir stream -c --out run.json");
	}
	if (strncmp(name, SCHEMA_FAMILY, strlen(SCHEMA_FAMILY)))
		return err_set(
			e, EINVAL, "%s holds %s, not a run record (%s)", file, name, RECORD_SCHEMA);
	err_set(e, EPROTONOSUPPORT, "%s holds %s; this weir (%s) reads %s", file, name,
		WEIR_VERSION, RECORD_SCHEMA);
	return err_hint(e, "read it with the weir that wrote it, or a newer one");
}

/* The last document that is no event. The caller releases it. */
static int last_document(const char *file, const char *text, size_t length, json_t **last,
	uint32_t *count, struct err *e)
{
	size_t at = 0;
	json_t *next;
	int ret;

	*last = NULL;
	*count = 0;
	for (;;) {
		ret = json_in_next(file, text, length, &at, &next, e);
		if (ret) {
			json_decref(*last);
			return ret;
		}
		if (!next)
			break;
		if (!strcmp(schema_of(next), EVENT_SCHEMA)) {
			json_decref(next);
			continue;
		}
		json_decref(*last);
		*last = next;
		(*count)++;
	}
	if (!*last)
		return err_set(e, EINVAL, "%s holds no record%s", file,
			length ? ": the run has not ended" : ": it is empty");
	return 0;
}

static uint64_t read_time(struct json_in *in, const json_t *top)
{
	const char *text = json_in_str(in, top, "started"), *rest;
	struct tm tm = { 0 };
	char *end = NULL;
	double fraction;
	time_t seconds;

	if (!text)
		return 0;
	rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	fraction = rest && *rest == '.' ? strtod(rest, &end) : NAN;
	seconds = timegm(&tm);
	if (!(fraction >= 0 && fraction < 1) || strcmp(end, "Z") || seconds < 0 ||
		(uint64_t)seconds > UINT64_MAX / NS_PER_S - 1) {
		json_in_wrong(in, "started", "is no time such as 2026-01-31T12:00:00.000Z");
		return 0;
	}
	return (uint64_t)seconds * NS_PER_S + (uint64_t)llround(fraction * 1e3) * NS_PER_MS;
}

/* The value of an option as a user would write it, for the checks of the command line. */
static const char *option_text(const struct opt *opt, const json_t *value, char buf[OPT_TEXT])
{
	const char *unit = opt->type == OPT_DURATION ? "ns" : "";

	if (json_is_string(value))
		return json_string_value(value);
	if (json_is_boolean(value))
		return json_is_true(value) ? "1" : "0";
	if (json_is_integer(value))
		snprintf(buf, OPT_TEXT, "%lld%s", (long long)json_integer_value(value), unit);
	else
		snprintf(buf, OPT_TEXT, "%.17g%s", json_number_value(value), unit);
	return buf;
}

/* An option of a newer weir is passed over, one that is missing has its default. */
static void read_options(struct json_in *in, const json_t *top, struct record_stored *s)
{
	const struct opt_table *t = &flow_option_table[s->rec.workload];
	json_t *options = json_in_object(in, top, "options");
	char *argv[] = { (char *)"weir" }, key[64], buf[OPT_TEXT];
	struct opt_given given;

	if (!in->ret)
		in->ret = opt_parse(t, 1, argv, &s->options, &given, in->e);
	for (const struct opt *opt = t->opts; !in->ret && opt->name; opt++) {
		const json_t *value;

		if (opt_find(t, opt->name) != opt)
			continue;
		snprintf(key, sizeof(key), "%s", opt->name);
		for (char *c = key; *c; c++)
			if (*c == '-')
				*c = '_';
		value = json_object_get(options, key);
		if (!value || json_is_null(value))
			continue;
		if (json_is_object(value) || json_is_array(value)) {
			json_in_at(in, "options");
			json_in_wrong(in, key, "is no value of an option");
		} else if (opt_set(opt, &s->options, option_text(opt, value, buf), in->e)) {
			/* A text of our own stack would not outlive this. */
			in->ret = -EINVAL;
			err_prefix(in->e, "%s: options", in->file);
		} else if (opt->type == OPT_STRING && !json_is_string(value)) {
			json_in_at(in, "options");
			json_in_wrong(in, key, "is not a string");
		}
	}
	json_in_at(in, "%s", "");
}

static void read_finding(struct json_in *in, const json_t *from, struct record_finding *f)
{
	static const char *const names[] = {
		[FINDING_NOTE] = "note",
		[FINDING_WARNING] = "warning",
		[FINDING_INVALID] = "invalid",
		[FINDING_FAILED] = "failed",
	};
	const char *severity = json_in_str(in, from, "severity"),
		   *text = json_in_str(in, from, "text");
	int i = FINDING_FAILED;

	f->name = json_in_str(in, from, "name");
	while (severity && i > FINDING_NOTE && strcmp(severity, names[i]))
		i--;
	f->severity = (enum record_severity)i;
	snprintf(f->text, sizeof(f->text), "%s", text ? text : "");
	text_one_line(f->text);
	if (!f->name)
		f->name = "";
}

static void read_findings(struct json_in *in, const json_t *top, struct record *rec)
{
	json_t *list = json_in_array(in, top, "findings"), *one;
	size_t i;

	json_array_foreach(list, i, one) {
		if (rec->finding_count == RECORD_FINDINGS || in->ret)
			break;
		json_in_at(in, "findings[%zu]", i);
		read_finding(in, one, &rec->findings[rec->finding_count++]);
	}
	json_in_at(in, "%s", "");
}

/* The index of a word in a list; a complaint and 0 when it is not there. */
static int read_word(struct json_in *in, const json_t *from, const char *key,
	const char *const *words, int count)
{
	const char *word = json_in_str(in, from, key);

	for (int i = 0; word && i < count; i++)
		if (!strcmp(word, words[i]))
			return i;
	json_in_wrong(in, key, "is not a word that is known here");
	return 0;
}

static void read_ends(struct json_in *in, const json_t *top, struct record_stored *s)
{
	json_t *local = json_in_object(in, top, "local"),
	       *remote = json_in_object(in, top, "remote");
	struct end_result *client = s->options.client ? &s->local : &s->remote;

	if (!local)
		json_in_wrong(in, "local", "is null");
	read_text(s->rec.local_address, sizeof(s->rec.local_address),
		json_in_has(local, "address") ? json_in_str(in, local, "address") : NULL);
	read_text(s->rec.peer_address, sizeof(s->rec.peer_address),
		json_in_str(in, top, "peer_address"));
	read_end(in, local, "local", &s->local);
	if (remote)
		read_end(in, remote, "remote", &s->remote);
	s->local.client = s->options.client;
	s->remote.client = !s->options.client;
	json_in_at(in, "%s", "");
	if (json_in_has(top, "peer_rate"))
		s->remote.rate = json_in_u64(in, top, "peer_rate", UINT64_MAX);
	if (s->rec.workload != WORKLOAD_STREAM)
		read_latencies(in, top, client, &s->options);
}

static void read_top(struct json_in *in, const json_t *top, struct record_stored *s)
{
	static const char *const verdicts[] = { "good", "failed", "", "doubtful" };
	static const char *const roles[] = { "server", "client" };
	static const char *const protocols[] = { "weir", "neper" };
	struct record *rec = &s->rec;

	rec->options = &s->options;
	rec->local = &s->local;
	rec->remote = &s->remote;
	rec->written_by = json_in_str(in, top, "weir");
	rec->workload = (enum workload)read_word(in, top, "workload", workload_name, WORKLOADS);
	rec->started_wall_ns = read_time(in, top);
	rec->neper = read_word(in, top, "protocol", protocols, 2);
	read_options(in, top, s);
	s->options.client = read_word(in, top, "role", roles, 2);
	if (json_in_has(top, "ceiling_bps"))
		rec->ceiling_bps = json_in_u64(in, top, "ceiling_bps", UINT64_MAX);
	read_ends(in, top, s);
	read_findings(in, top, rec);
	rec->verdict = (enum record_verdict)read_word(in, top, "verdict", verdicts, 4);
	if (rec->verdict == 2)
		json_in_wrong(in, "verdict", "is empty");
}

int record_parse(
	struct record_stored *s, const char *file, const char *text, size_t length, struct err *e)
{
	struct json_in in = { .file = file, .e = e };
	json_t *top;
	int ret;

	*s = (struct record_stored){ 0 };
	ret = last_document(file, text, length, &top, &s->records, e);
	if (ret)
		return ret;
	s->document = top;
	if (!strcmp(schema_of(top), RECORD_SCHEMA))
		read_top(&in, top, s);
	else
		in.ret = wrong_schema(file, schema_of(top), e);
	if (in.ret)
		record_stored_free(s);
	return in.ret;
}

int record_read(struct record_stored *s, const char *path, struct err *e)
{
	const char *file = strcmp(path, "-") ? path : "standard input";
	size_t length;
	char *text;
	int ret;

	ret = json_in_file(path, &text, &length, e);
	if (ret)
		return ret;
	ret = record_parse(s, file, text, length, e);
	free(text);
	return ret;
}

/* The last document of a file; the caller releases it. */
static int read_last(const char *path, json_t **top, struct err *e)
{
	uint32_t count;
	size_t length;
	char *text;
	int ret;

	ret = json_in_file(path, &text, &length, e);
	if (ret)
		return ret;
	ret = last_document(path, text, length, top, &count, e);
	free(text);
	return ret;
}

int record_document(const char *path, void **document, struct err *e)
{
	json_t *top;
	int ret;

	ret = read_last(path, &top, e);
	if (!ret)
		*document = top;
	return ret;
}

int record_schema(const char *path, char schema[RECORD_SCHEMA_TEXT], struct err *e)
{
	json_t *top;
	int ret;

	ret = read_last(path, &top, e);
	if (ret)
		return ret;
	read_text(schema, RECORD_SCHEMA_TEXT, schema_of(top));
	json_decref(top);
	return 0;
}

int record_command(const char *path, char *words, size_t words_size, char *ended, size_t ended_size,
	struct err *e)
{
	struct json_in in = { .file = path, .e = e };
	json_t *top, *list, *word;
	size_t i, at = 0;
	int ret;

	ret = read_last(path, &top, e);
	if (ret)
		return ret;
	list = json_in_array(&in, top, "command");
	words[0] = '\0';
	json_array_foreach(list, i, word) {
		const char *text = json_string_value(word);

		if (text && at < words_size)
			at += (size_t)snprintf(
				words + at, words_size - at, "%s%s", i ? " " : "", text);
	}
	text_one_line(words);
	if (json_in_has(top, "signal"))
		snprintf(ended, ended_size, "ended by signal %u",
			(unsigned int)json_in_u64(&in, top, "signal", 128));
	else
		snprintf(ended, ended_size, "exit status %u",
			(unsigned int)json_in_u64(&in, top, "exit_status", 255));
	json_decref(top);
	return in.ret;
}

void record_stored_free(struct record_stored *s)
{
	read_end_free(&s->local);
	read_end_free(&s->remote);
	json_decref(s->document);
	*s = (struct record_stored){ 0 };
}
