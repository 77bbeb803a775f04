/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's counters around a run, with --counters: one snapshot before its clock starts, one after
 * its window has ended. Files are opened and names learnt before that, so that the second costs a read
 * of each file and no memory.
 *
 *	flow_counters_open(&c, options);	early: learns what there is
 *	flow_counters_begin(&c);		before the run starts
 *	flow_counters_end(&c, &result);		after its window: result.counters
 *	flow_counters_free(&c);
 *
 * Counters are an extra: what fails here is a problem that is said, and never fails the run.
 */
#ifndef WEIR_FLOW_COUNTERS_H
#define WEIR_FLOW_COUNTERS_H

#include "counters/collector.h"
#include "flow/result.h"

struct flow_options;

struct flow_counters {
	struct collector *collector; /* NULL: not asked for, or it failed */
	struct snapshot before, after;
};

void flow_counters_open(struct flow_counters *c, const struct flow_options *o);
void flow_counters_begin(struct flow_counters *c);
void flow_counters_end(struct flow_counters *c, struct end_result *result);
void flow_counters_free(struct flow_counters *c);

#endif
