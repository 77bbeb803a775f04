// SPDX-License-Identifier: BSD-3-Clause
#include "rpc/code.h"

#include <stddef.h>

const char *rpc_code_name(enum rpc_code code)
{
	static const char *const name[] = { "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT",
		"DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
		"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
		"UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED" };

	return (size_t)code < sizeof(name) / sizeof(name[0]) ? name[code] : "UNKNOWN";
}
