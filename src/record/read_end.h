/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside record/: what one end measured, out of a record's JSON. Complaints stay in in->ret. */
#ifndef WEIR_RECORD_READ_END_H
#define WEIR_RECORD_READ_END_H

#include "base/json_in.h"
#include "flow/options.h"
#include "flow/result.h"

/* Text of a record is shown on one line, whatever it holds; NULL is "". */
void read_text(char *into, size_t size, const char *text);

/* name: "local" or "remote", for complaints. Freed by read_end_free(), also after a complaint. */
void read_end(struct json_in *in, const json_t *from, const char *name, struct end_result *end);
void read_end_free(struct end_result *end);

/* latency_ns and service_ns of rr and crr belong to the client; the percentiles that were asked for
 * go back to the options. */
void read_latencies(struct json_in *in, const json_t *top, struct end_result *client,
	struct flow_options *options);

#endif
