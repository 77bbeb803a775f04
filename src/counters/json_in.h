/* SPDX-License-Identifier: BSD-3-Clause */
/* A difference out of JSON that was parsed already, for records that hold one. With jansson only. */
#ifndef WEIR_COUNTERS_JSON_IN_H
#define WEIR_COUNTERS_JSON_IN_H

#include <jansson.h>

#include "counters/result.h"

/* label stands for the file in words. *r is NULL after a failure. */
int counters_result_read(
	struct counters_result **r, const json_t *from, const char *label, struct err *e);

#endif
