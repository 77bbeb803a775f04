/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside cmd/: the parts of weir counters. */
#ifndef WEIR_CMD_COUNTERS_H
#define WEIR_CMD_COUNTERS_H

#include "base/out.h"
#include "counters/collector.h"

/* Rates, read every so often, count times (0: until the user ends it); all: also those that are 0. */
int counters_watch(struct collector *c, uint64_t every_ns, uint64_t count, bool all,
	struct out *out, struct err *e);

#endif
