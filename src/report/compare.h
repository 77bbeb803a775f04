/* SPDX-License-Identifier: BSD-3-Clause */
/* Two runs, or two differences of counters, compared: what changed by more than the noise, what appeared,
 * what vanished, which settings differ, and what of all that is the likely cause.
 *
 *	struct compare c;
 *
 *	ret = compare_make(&c, &healthy, &faulty, e);
 *	puts(c.cause_count ? c.cause[0].text : "nothing explains it");
 *	compare_free(&c);
 *
 * Noise of a figure with a series comes from the spread of its intervals (1.4826 MAD of each run, as the
 * error of a mean, doubled because neighbours in time are alike); of a count from its size (Poisson); and
 * is never below a floor that is part of the table of figures. A change is told when it is COMPARE_NOISE
 * times the noise or more. Counters are compared per byte where both runs moved bytes, per second otherwise.
 * Both reports must outlive the comparison. Not thread-safe.
 */
#ifndef WEIR_REPORT_COMPARE_H
#define WEIR_REPORT_COMPARE_H

#include "report/report.h"

#define COMPARE_SCHEMA "weir/comparison/1"
#define COMPARE_NOISE  3.0
#define COMPARE_CAUSES 12

enum compare_unit {
	COMPARE_BPS,
	COMPARE_BYTES_PER_S,
	COMPARE_PER_S,
	COMPARE_NS,
	COMPARE_SHARE,
	COMPARE_PLAIN
};

/* What a larger figure means. */
enum compare_sense { SENSE_NONE, SENSE_MORE_IS_BETTER, SENSE_LESS_IS_BETTER };

#define COMPARE_WHOSE 96 /* the longest is a pair of NICs: "node1 rail 0 to node2 rail 0" */

struct change {
	char name[COUNTER_TEXT];   /* "throughput", "retransmitted", a counter's name */
	char whose[COMPARE_WHOSE]; /* "client", "server", "client to server"; or empty */
	char object[COUNTER_TEXT]; /* of a counter: its NIC or device; or empty */
	const char *unit_name;	   /* of counters: "packets/s"; or NULL */
	uint8_t unit, sense;	   /* enum compare_unit, enum compare_sense */
	bool counter, appeared, vanished;
	double before, after;
	double noise; /* in the same unit, above 0 */
	double score; /* difference over noise: how telling */
};

struct setting {
	char whose[COMPARE_WHOSE]; /* "client", "server", "option" */
	char name[64], before[HOST_VALUE_SIZE], after[HOST_VALUE_SIZE]; /* "-": absent */
	bool telling; /* known to change how fast a network is */
};

struct compare_finding {
	bool appeared;	  /* only in the second; else only in the first */
	uint8_t severity; /* enum html_mark */
	char name[48], whose[COMPARE_WHOSE], text[640], advice[320];
};

struct cause {
	const char *name;
	char text[640];	    /* what it is, with its figures */
	const char *advice; /* what to look at; never NULL */
};

enum compare_verdict { COMPARE_SAME, COMPARE_BETTER, COMPARE_WORSE, COMPARE_DIFFERENT };
extern const char *const compare_verdict_name[];

struct compare {
	const struct report *before, *after;
	char label[2][256];    /* what to call them: their files */
	struct change *change; /* told ones only, the most telling first */
	uint32_t change_count, change_room;
	struct setting *setting;
	uint32_t setting_count, setting_room;
	struct compare_finding *finding;
	uint32_t finding_count, finding_room;
	struct cause cause[COMPARE_CAUSES]; /* the likeliest first */
	uint32_t cause_count;
	uint32_t compared; /* figures that both have */
	enum compare_verdict verdict;
	const struct change
		*headline; /* throughput or transactions, whether told or not; or NULL */
	struct change headline_change;
};

/* -EINVAL where there is nothing that both have: a stream and an rr, a run and a snapshot. Records of rails, GPUs
 * and probes have no series to take noise from, but for the times of single messages: a twentieth is theirs. */
int compare_make(struct compare *c, const struct report *before, const struct report *after,
	const char *before_label, const char *after_label, struct err *e);
void compare_free(struct compare *c);

/* REPORT_CSV is refused. */
int compare_write(const struct compare *c, enum report_form form, FILE *file, struct err *e);

/* The told change of that name, or NULL; whose NULL: anyone's. */
const struct change *compare_find(const struct compare *c, const char *name, const char *whose);

/* "3.21 Gbit/s"; returns buf. */
#define COMPARE_TEXT 48
char *compare_text(char buf[COMPARE_TEXT], const struct change *change, double value);
/* "-67 %", "new", "gone", "+12 points"; returns buf. */
char *compare_delta(char buf[COMPARE_TEXT], const struct change *change);

/* Inside report/. */
int compare_add(struct compare *c, const struct change *change, struct err *e);
int compare_add_setting(struct compare *c, const char *whose, const char *name, const char *before,
	const char *after, bool telling, struct err *e);
int compare_add_finding(struct compare *c, const struct compare_finding *f, struct err *e);
int compare_counters(struct compare *c, struct err *e);
int compare_document(struct compare *c, struct err *e); /* both are documents */
int compare_settings(struct compare *c, struct err *e);
int compare_findings(struct compare *c, struct err *e);
void compare_explain(struct compare *c);
void compare_html(const struct compare *c, FILE *file);

#endif
