/* SPDX-License-Identifier: BSD-3-Clause */
/* Metrics as Prometheus reads them (text format 0.0.4).
 *
 *	struct metrics m = { .text = text };
 *	struct metrics_label nic[] = { { "nic", "eth1" }, { "rail", "0" } };
 *
 *	metrics_family(&m, "weir_probe_lost_total", METRICS_COUNTER, "Probes without an answer");
 *	metrics_count(&m, lost, nic, 2);
 *	metrics_family(&m, "weir_probe_rtt_seconds", METRICS_HISTOGRAM, "Round trips");
 *	metrics_hist(&m, &rtt, nic, 2);
 *
 * All samples of a family follow it directly. Names are constants of ours; label values may be anything:
 * they are escaped, and what is not UTF-8 becomes '?'. Bases: seconds and bytes.
 */
#ifndef WEIR_WEB_METRICS_H
#define WEIR_WEB_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "base/hist.h"
#include "web/text.h"

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum metrics_kind { METRICS_COUNTER, METRICS_GAUGE, METRICS_HISTOGRAM };

struct metrics {
	struct web_text *text;
	const char *family;
};

struct metrics_label {
	const char *name, *value;
};

void metrics_family(struct metrics *m, const char *name, enum metrics_kind kind, const char *help);

void metrics_value(
	struct metrics *m, double value, const struct metrics_label *label, size_t labels);
/* A whole number, exactly. */
void metrics_count(
	struct metrics *m, uint64_t count, const struct metrics_label *label, size_t labels);

/* A histogram of nanoseconds as one of seconds: METRICS_BOUNDS buckets of fixed bounds, from 1 us to 10 s,
 * so that those of all agents add up. A value counts below a bound when its bucket ends at or below it: a
 * value may be counted one bound late, by at most 0.8 % of itself. */
#define METRICS_BOUNDS 22
void metrics_hist(
	struct metrics *m, const struct hist *h, const struct metrics_label *label, size_t labels);

/* What every process exports: weir_build_info and the process_ families. */
void metrics_process(struct metrics *m);

#endif
