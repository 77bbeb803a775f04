/* SPDX-License-Identifier: BSD-3-Clause */
/* The run record: what ran, on what, what both ends measured, and what follows from it.
 *
 *	struct record rec;
 *
 *	record_of(&rec, outcome);
 *	record_judge(&rec);			fills findings and verdict
 *	record_emit(&rec, &out);		a table for a person, or one JSON object
 *	return rec.verdict;			the exit status
 *
 * The JSON object follows schema/run-1.json, what is emitted while running schema/event-1.json.
 * Everything is borrowed; nothing to free. The peer's results may be hostile: nothing here trusts
 * their figures further than to print them.
 */
#ifndef WEIR_RECORD_RECORD_H
#define WEIR_RECORD_RECORD_H

#include "base/out.h"
#include "flow/endpoint.h"
#include "flow/options.h"
#include "flow/result.h"
#include "flow/run.h"

#define RECORD_SCHEMA	"weir/run/1"
#define EVENT_SCHEMA	"weir/event/1"
#define RECORD_FINDINGS 24

/* Exit status. */
enum record_verdict {
	VERDICT_GOOD = 0,
	VERDICT_FAILED = 1,   /* the run did not complete; what was measured until then is in it */
	VERDICT_DOUBTFUL = 3, /* complete, but the figures are not to be trusted */
};

enum record_severity { FINDING_NOTE, FINDING_WARNING, FINDING_INVALID, FINDING_FAILED };

struct record_finding {
	const char *name; /* "ends_disagree" */
	enum record_severity severity;
	char text[640]; /* one sentence with the figures, one printable line */
};

struct record {
	enum workload workload;
	const struct flow_options *options; /* as agreed; options->client is this end's role */
	bool neper; /* neper's protocol was spoken: little is known of the peer */
	char local_address[80], peer_address[80];
	uint64_t started_wall_ns;
	const char *written_by;			 /* version of weir; NULL: this one */
	const struct end_result *local, *remote; /* remote may be NULL or not valid */
	const struct run *run;			 /* this end's run, for samples; may be NULL */
	uint64_t ceiling_bps;			 /* physical speed of the link, 0 unknown */
	int invalid_secret_count;

	/* filled by record_judge() */
	struct record_finding findings[RECORD_FINDINGS];
	int finding_count;
	enum record_verdict verdict;
};

/* The end that receives (the throughput that counts), and the one that sends, in the direction
 * client to server, or back. NULL: its results are not known, or nothing goes this way. */
const struct end_result *record_receiver(const struct record *rec, bool to_server);
const struct end_result *record_sender(const struct record *rec, bool to_server);

/* The record of a run that is over: borrows from the outcome. */
void record_of(struct record *rec, const struct outcome *outcome);

void record_judge(struct record *rec);
void record_emit(const struct record *rec, struct out *o);

/* JSON only, one line each while the run goes on: an event with words ("start", "end", "error";
 * text may be NULL), and the event of an interval that is over. rail: which of several runs at
 * once it is of, NULL when there is one. */
void record_emit_event(const char *event, const char *text, const char *rail, struct out *o);
void record_emit_interval(
	const struct interval_result *iv, enum workload w, const char *rail, struct out *o);

/* The JSON record into a file: written beside it, synced, then renamed, so that a file of this name
 * is whole. What is no plain file (a pipe, a device) is written to as it is. */
int record_write(const struct record *rec, const char *path, struct err *e);

/* neper's key=value lines: version, options and length before the run, and the results after it. */
void neper_emit_before(const struct flow_options *o, enum workload w, struct out *out);
int neper_emit_results(const struct record *rec, struct out *out, struct err *e);

/* --all-samples and --log-rtt, in neper's columns. rec->run must be there. flow_id is the flow's
 * number in the run (neper's is its number in the thread). */
int samples_write_csv(const struct record *rec, const char *path, struct err *e);
int samples_write_rtt(const struct record *rec, const char *path, struct err *e);

#endif
