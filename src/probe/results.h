/* SPDX-License-Identifier: BSD-3-Clause */
/* Results as CSV files, in the published form: DIR/PREFIX_COUNTER_CREATION.csv, one line per probe:
 * start (RFC 3339, UTC), local address, peer address, and the round trip in nanoseconds or, where
 * there is none, why, without commas.
 *
 *	results_open(&r, "/tmp", "tcpxo_probe_results", 3600 * NS_PER_S, e);
 *	results_row(&r, wall_ns, "10.0.0.1", "10.0.0.2", rtt_ns, NULL);
 *	results_flush(&r, e);
 *	results_close(&r);
 *
 * Rows wait in memory until results_flush(), and are then the kernel's: no crash of ours loses them. A
 * file that somebody removed is made anew under its name. When the disk is full rows are kept up to
 * RESULTS_HELD_MAX bytes and written later; beyond it they are counted as dropped. Never a half line:
 * what a failed write left is finished by the next.
 */
#ifndef WEIR_PROBE_RESULTS_H
#define WEIR_PROBE_RESULTS_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

#define RESULTS_HELD_MAX (8u << 20)
#define RESULTS_FULL	 (RESULTS_HELD_MAX / 2) /* so much waits: flush, whatever the interval */

struct results {
	char dir[512], prefix[128], path[800];
	uint64_t rotation_ns; /* 0: never */
	uint64_t opened_ns;   /* monotonic */
	uint64_t counter, dropped;
	int fd;
	char *held;
	size_t used, room;
};

/* Makes the directory where it is missing, and the file. */
int results_open(struct results *r, const char *dir, const char *prefix, uint64_t rotation_ns,
	struct err *e);
/* words: what went wrong, or NULL: the round trip. */
void results_row(struct results *r, uint64_t wall_ns, const char *local, const char *peer,
	uint64_t rtt_ns, const char *words);
/* Write what waits; begins a new file when the rotation interval has passed. */
int results_flush(struct results *r, struct err *e);
void results_close(struct results *r);

#endif
