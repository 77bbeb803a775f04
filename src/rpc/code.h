/* SPDX-License-Identifier: BSD-3-Clause */
/* How a call ended: the status codes of gRPC, as they stand on the wire. */
#ifndef WEIR_RPC_CODE_H
#define WEIR_RPC_CODE_H

enum rpc_code {
	RPC_OK = 0,
	RPC_CANCELLED = 1,
	RPC_UNKNOWN = 2,
	RPC_INVALID_ARGUMENT = 3,
	RPC_DEADLINE_EXCEEDED = 4,
	RPC_NOT_FOUND = 5,
	RPC_ALREADY_EXISTS = 6,
	RPC_PERMISSION_DENIED = 7,
	RPC_RESOURCE_EXHAUSTED = 8,
	RPC_FAILED_PRECONDITION = 9,
	RPC_ABORTED = 10,
	RPC_OUT_OF_RANGE = 11,
	RPC_UNIMPLEMENTED = 12,
	RPC_INTERNAL = 13,
	RPC_UNAVAILABLE = 14,
	RPC_DATA_LOSS = 15,
	RPC_UNAUTHENTICATED = 16,
};

/* "DEADLINE_EXCEEDED"; "UNKNOWN" for a number that is none. */
const char *rpc_code_name(enum rpc_code code);

#endif
