// SPDX-License-Identifier: BSD-3-Clause
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "counters/emit.h"
#include "counters/result.h"

int counters_result_new(struct counters_result **out, struct err *e)
{
	struct counters_result *r = calloc(1, sizeof(*r));

	*out = r;
	if (r)
		r->difference.owned = malloc(sizeof(*r->difference.owned));
	if (!r || !r->difference.owned) {
		free(r);
		*out = NULL;
		return err_set(e, ENOMEM, "no memory for the counters of a run");
	}
	catalog_init(r->difference.owned);
	return 0;
}

void counters_result_free(struct counters_result *r)
{
	if (!r)
		return;
	difference_free(&r->difference);
	findings_free(&r->findings);
	free(r->index);
	free(r);
}

int counters_result_add(struct counters_result *r, const struct counter *counter,
	const struct row *row, struct err *e)
{
	struct difference *d = &r->difference;

	if (d->count == r->room) {
		uint32_t room = r->room ? r->room * 2 : 256;
		struct row *rows = reallocarray(d->row, room, sizeof(*rows));
		uint32_t *index = NULL;

		if (rows) {
			d->row = rows;
			index = reallocarray(r->index, room, sizeof(*index));
		}
		if (!index)
			return err_set(e, ENOMEM, "no memory for the counters of a run");
		r->index = index;
		r->room = room;
	}
	d->row[d->count] = *row;
	/* The catalog moves while it grows: the row gets its counter at the end. */
	return catalog_add(d->owned, counter, &r->index[d->count++], e);
}

static int by_row(const void *left, const void *right)
{
	return counter_compare(
		((const struct row *)left)->counter, ((const struct row *)right)->counter);
}

int counters_result_finish(struct counters_result *r, struct err *e)
{
	struct difference *d = r ? &r->difference : NULL;
	uint32_t same;
	int ret;

	if (!r || !r->index)
		return r && !d->object ? difference_index(d, e) : 0;
	for (uint32_t i = 0; i < d->count; i++)
		d->row[i].counter = &d->owned->counter[r->index[i]];
	free(r->index);
	r->index = NULL;
	qsort(d->row, d->count, sizeof(*d->row), by_row);
	same = d->states[ROW_SAME]; /* those that were left out */
	memset(d->states, 0, sizeof(d->states));
	ret = difference_index(d, e);
	d->states[ROW_SAME] += same;
	return ret;
}

int counters_result_make(struct counters_result **out, const struct snapshot *before,
	const struct snapshot *after, struct err *e)
{
	struct difference whole = { 0 };
	struct rules *rules = NULL;
	int ret;

	ret = counters_result_new(out, e);
	if (ret)
		return ret;
	ret = difference_make(&whole, before, after, e);
	if (!ret)
		ret = rules_load(&rules, NULL, e);
	if (!ret)
		ret = findings_make(&(*out)->findings, &whole, rules, e);
	for (uint32_t i = 0; !ret && i < whole.count; i++)
		if (difference_is_telling(&whole.row[i]))
			ret = counters_result_add(*out, whole.row[i].counter, &whole.row[i], e);
	if (!ret) {
		struct difference *d = &(*out)->difference;

		memcpy(d->host, whole.host, sizeof(d->host));
		d->before_ns = whole.before_ns;
		d->after_ns = whole.after_ns;
		d->seconds = whole.seconds;
		d->states[ROW_SAME] = whole.states[ROW_SAME];
		ret = counters_result_finish(*out, e);
	}
	rules_free(rules);
	difference_free(&whole);
	if (ret) {
		counters_result_free(*out);
		*out = NULL;
	}
	return ret;
}

/* Lines: texts of counters hold no tab. */

void counters_result_encode(const struct counters_result *r, FILE *f)
{
	const struct difference *d = &r->difference;

	fprintf(f, "counters %" PRIu64 "\t%" PRIu64 "\t%u\t%u\t%u\t%s\n", d->before_ns, d->after_ns,
		d->states[ROW_SAME], r->findings.rules, r->findings.skipped, d->host);
	for (uint32_t i = 0; i < d->count; i++) {
		const struct row *row = &d->row[i];
		const struct counter *c = row->counter;

		fprintf(f,
			"counter %s\t%s\t%s\t%s\t%u\t%u\t%u\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
			"\t%" PRIu64 "\t%" PRIu64 "\n",
			c->source, c->object, c->name, c->unit, c->kind, c->bits, row->state,
			row->before.value, row->before.time_ns, row->after.value,
			row->after.time_ns, row->change);
	}
	for (uint32_t i = 0; i < r->findings.count; i++) {
		const struct finding *one = &r->findings.finding[i];

		fprintf(f, "finding %s\t%u\t%s\t%s\t%s\t%s\n", one->rule, one->severity,
			one->object, one->text, one->means, one->advice);
		for (int k = 0; k < one->evidence_count; k++) {
			const struct evidence *v = &one->evidence[k];

			fprintf(f,
				"evidence %s\t%s\t%s\t%s\t%u\t%u\t%" PRIu64 "\t%" PRIu64
				"\t%" PRIu64 "\t%.17g\n",
				v->source, v->object, v->name, v->unit, v->kind, v->state,
				v->before, v->after, v->change, isfinite(v->per_s) ? v->per_s : -1);
		}
	}
}

#define WORDS_MAX 12

/* Cut at tabs; false unless there are exactly so many. */
static bool cut(char *line, char *word[WORDS_MAX], int count)
{
	for (int i = 0; i < count; i++) {
		word[i] = strsep(&line, "\t");
		if (!word[i])
			return false;
	}
	return !line;
}

static bool number(const char *text, uint64_t most, uint64_t *value)
{
	return text[0] && parse_number(text, strlen(text), false, value) == strlen(text) &&
	       *value <= most;
}

static bool decode_head(struct counters_result *r, char *line)
{
	struct difference *d = &r->difference;
	uint64_t same, rules, skipped;
	char *word[WORDS_MAX];

	if (!cut(line, word, 6) || !number(word[0], INT64_MAX, &d->before_ns) ||
		!number(word[1], INT64_MAX, &d->after_ns) || !number(word[2], CATALOG_MAX, &same) ||
		!number(word[3], UINT32_MAX, &rules) || !number(word[4], UINT32_MAX, &skipped))
		return false;
	d->seconds = d->after_ns > d->before_ns ? (double)(d->after_ns - d->before_ns) / 1e9 : 0;
	d->states[ROW_SAME] = (uint32_t)same;
	r->findings.rules = (uint32_t)rules;
	r->findings.skipped = (uint32_t)skipped;
	snprintf(d->host, sizeof(d->host), "%s", word[5]);
	text_one_line(d->host);
	return true;
}

static int decode_row(struct counters_result *r, char *line, struct err *e)
{
	uint64_t kind, bits, state;
	struct counter c;
	struct row row = { 0 };
	char *word[WORDS_MAX];

	if (!cut(line, word, 12) || !number(word[4], COUNTER_KINDS - 1, &kind) ||
		!number(word[5], 64, &bits) || !number(word[6], ROW_STATES - 1, &state) ||
		!number(word[7], UINT64_MAX, &row.before.value) ||
		!number(word[8], INT64_MAX, &row.before.time_ns) ||
		!number(word[9], UINT64_MAX, &row.after.value) ||
		!number(word[10], INT64_MAX, &row.after.time_ns) ||
		!number(word[11], UINT64_MAX, &row.change))
		return -EPROTO;
	c = (struct counter){ word[0], word[1], word[2], word[3], (uint8_t)kind, (uint8_t)bits };
	row.state = (uint8_t)state;
	if (row.before.time_ns && row.after.time_ns > row.before.time_ns)
		row.seconds = (double)(row.after.time_ns - row.before.time_ns) / 1e9;
	return counters_result_add(r, &c, &row, e);
}

static void text_into(char *to, size_t room, const char *from)
{
	snprintf(to, room, "%s", from);
	text_one_line(to);
}

static int decode_finding(struct counters_result *r, char *line, struct err *e)
{
	struct finding f = { 0 };
	char *word[WORDS_MAX];
	uint64_t severity;

	if (!cut(line, word, 6) || !number(word[1], SEVERITIES - 1, &severity))
		return -EPROTO;
	text_into(f.rule, sizeof(f.rule), word[0]);
	f.severity = (uint8_t)severity;
	text_into(f.object, sizeof(f.object), word[2]);
	text_into(f.text, sizeof(f.text), word[3]);
	text_into(f.means, sizeof(f.means), word[4]);
	text_into(f.advice, sizeof(f.advice), word[5]);
	return findings_add(&r->findings, &f, e);
}

static int decode_evidence(struct counters_result *r, char *line)
{
	struct finding *f = r->findings.count ? &r->findings.finding[r->findings.count - 1] : NULL;
	struct evidence v = { 0 };
	uint64_t kind, state;
	char *word[WORDS_MAX];

	if (!f || !cut(line, word, 10) || !number(word[4], COUNTER_KINDS - 1, &kind) ||
		!number(word[5], ROW_STATES - 1, &state) ||
		!number(word[6], UINT64_MAX, &v.before) || !number(word[7], UINT64_MAX, &v.after) ||
		!number(word[8], UINT64_MAX, &v.change))
		return -EPROTO;
	text_into(v.source, sizeof(v.source), word[0]);
	text_into(v.object, sizeof(v.object), word[1]);
	text_into(v.name, sizeof(v.name), word[2]);
	text_into(v.unit, sizeof(v.unit), word[3]);
	v.kind = (uint8_t)kind;
	v.state = (uint8_t)state;
	v.per_s = strtod(word[9], NULL);
	if (!(v.per_s >= 0))
		v.per_s = NAN;
	if (f->evidence_count < FINDING_EVIDENCE)
		f->evidence[f->evidence_count++] = v;
	return 0;
}

int counters_result_decode(struct counters_result **r, const char *kind, char *line, struct err *e)
{
	int ret;

	if (strcmp(kind, "counters") && strcmp(kind, "counter") && strcmp(kind, "finding") &&
		strcmp(kind, "evidence"))
		return 0;
	ret = *r ? 0 : counters_result_new(r, e);
	if (ret)
		return ret;
	if (!strcmp(kind, "counters"))
		ret = decode_head(*r, line) ? 0 : -EPROTO;
	else if (!strcmp(kind, "counter"))
		ret = decode_row(*r, line, e);
	else if (!strcmp(kind, "finding"))
		ret = decode_finding(*r, line, e);
	else
		ret = decode_evidence(*r, line);
	if (ret == -EPROTO)
		err_set(e, EPROTO, "the peer's counters are broken");
	return ret ? ret : 1;
}
