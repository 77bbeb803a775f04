/* SPDX-License-Identifier: BSD-3-Clause */
/* What a difference means. The rules are data: rules.txt, compiled in, or a file of the user's in the
 * same form; rules.txt opens with a description of that form.
 *
 *	struct rules *rules;
 *	struct findings f;
 *
 *	ret = rules_load(&rules, NULL, e);			the built-in ones
 *	ret = findings_make(&f, &d, rules, e);
 *	for (uint32_t i = 0; i < f.count; i++)
 *		puts(f.finding[i].text);
 *	findings_free(&f);
 *	rules_free(rules);
 *
 * A rule that lacks its counters is skipped, never guessed. A finding owns its texts: it outlives
 * rules and difference. Not thread-safe; rules may be shared once loaded.
 */
#ifndef WEIR_COUNTERS_FINDING_H
#define WEIR_COUNTERS_FINDING_H

#include "counters/difference.h"

enum severity { SEVERITY_NOTE, SEVERITY_WARNING, SEVERITY_PROBLEM };
#define SEVERITIES 3
extern const char *const severity_name[SEVERITIES]; /* "note", "warning", "problem" */

struct rules; /* rule.h */

#define FINDING_EVIDENCE 8

struct finding {
	char rule[48];	  /* "rx_out_of_buffer" */
	uint8_t severity; /* enum severity */
	double weight;	  /* how telling, within a severity; larger first */
	char object[COUNTER_TEXT];
	char text[320];	  /* one sentence with the figures */
	char means[320];  /* what that says */
	char advice[320]; /* what to do */
	struct evidence { /* the counters it rests on */
		char source[32], object[COUNTER_TEXT], name[COUNTER_TEXT], unit[24];
		uint8_t kind, state; /* enum counter_kind, enum row_state */
		uint64_t before, after, change;
		double per_s; /* NAN unknown */
	} evidence[FINDING_EVIDENCE];
	uint8_t evidence_count;
};

struct findings {
	struct finding *finding; /* the gravest first */
	uint32_t count, room;
	uint32_t rules, skipped; /* how many rules there are; how many lacked their counters */
};

int findings_make(
	struct findings *f, const struct difference *d, const struct rules *rules, struct err *e);
int findings_add(struct findings *f, const struct finding *finding, struct err *e);
void findings_free(struct findings *f);

/* "findings" as an array of JSON, or as text for a person. */
void findings_emit_array(const struct findings *f, const char *key, struct out *o);
/* said: of the same host, and shown before: what is in them is left out. NULL: none. */
void findings_print(const struct findings *f, const struct findings *said, struct out *o);
/* Whether one before it, or one of said, is of the same rule: for a person that is one finding on several objects. */
bool findings_repeat(const struct findings *f, uint32_t at, const struct findings *said);

int rules_load(struct rules **rules, const char *path, struct err *e);
int rules_parse(
	struct rules **out, const char *text, size_t length, const char *label, struct err *e);
void rules_free(struct rules *rules);

#endif
