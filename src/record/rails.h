/* SPDX-License-Identifier: BSD-3-Clause */
/* The record of many rails that ran together: one run record for each, and what they come to.
 *
 *	struct rails_record rec;
 *
 *	rails_record_init(&rec, rails, e);
 *	rails_record_over(&rec, rail, outcome, e);	or rails_record_failed(&rec, rail, why);
 *	rails_record_judge(&rec);			findings and verdict
 *	rails_record_emit(&rec, &out);			a table, JSON (schema/rails-1.json), or
 *							multi_neper's lines
 *	rails_record_clear(&rec);			for the next round
 *	rails_record_free(&rec);
 *
 * A figure belongs to the rail that it was measured on: entries are found by the rail's number, never
 * by the order in which results came. What was not measured is NAN.
 */
#ifndef WEIR_RECORD_RAILS_H
#define WEIR_RECORD_RAILS_H

#include "flow/rails_plan.h"
#include "record/record.h"

#define RAILS_SCHEMA "weir/rails/1"

struct rails_entry {
	const struct rail *rail;
	bool reported, measured;
	enum record_verdict verdict;
	char error[640], hint[256]; /* why it failed, or empty */
	double received_bps, sent_bps;
	double rtt_us;
	uint64_t retransmits;
	bool tcp_known;
	char limited_by[64]; /* "congestion window 58 %", or empty */
	double client_ns_per_byte, server_ns_per_byte;
	double window_s, warmup_s;
	uint64_t start_ns; /* CLOCK_MONOTONIC; 0 unknown */
	uint32_t flows;
	char local_address[80], peer_address[80];
	struct record_finding findings[RECORD_FINDINGS];
	int finding_count;
	char *json; /* the run record, one line; or NULL */
};

struct rails_record {
	const struct rails *rails; /* borrowed */
	struct rails_entry *entry; /* rails->count */
	uint64_t started_wall_ns;
	/* filled by rails_record_judge() */
	uint32_t measured;
	double received_bps, sent_bps; /* of all that were measured; NAN: of none */
	uint64_t retransmits;
	struct record_finding findings[RECORD_FINDINGS]; /* about rails compared with each other */
	int finding_count;
	enum record_verdict verdict;
};

int rails_record_init(struct rails_record *rec, const struct rails *rails, struct err *e);
void rails_record_clear(struct rails_record *rec);
void rails_record_free(struct rails_record *rec);

int rails_record_over(struct rails_record *rec, const struct rail *r, const struct outcome *outcome,
	struct err *e);
void rails_record_failed(struct rails_record *rec, const struct rail *r, const struct err *why);

void rails_record_judge(struct rails_record *rec);
/* out.mode OUT_KV: "[eth1] Throughput (Mb/s): 193551.94", "NA" where there is none, and the total. */
void rails_record_emit(const struct rails_record *rec, struct out *o);
int rails_record_write(const struct rails_record *rec, const char *path, struct err *e);

/* rails_emit.c: as text and JSON. */
void rails_emit_table(const struct rails_record *rec, struct out *o);
void rails_emit_json(const struct rails_record *rec, struct out *o);

#endif
