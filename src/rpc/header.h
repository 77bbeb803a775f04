/* SPDX-License-Identifier: BSD-3-Clause */
/* The values of gRPC's headers: time limits, percent-encoded words, base64, content types, codes. */
#ifndef WEIR_RPC_HEADER_H
#define WEIR_RPC_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rpc/code.h"

/* grpc-timeout: one to eight digits and H, M, S, m, u or n. -EINVAL for anything else. */
int rpc_timeout_parse(const char *value, size_t length, uint64_t *ns);
/* The shortest form that is not less than ns. */
#define RPC_TIMEOUT_TEXT 12
char *rpc_timeout_text(uint64_t ns, char buf[RPC_TIMEOUT_TEXT]);

/* grpc-message: all but printable ASCII, and '%', as %XX. Returns a string to be freed, or NULL when
 * out of memory. */
char *rpc_percent_encode(const char *words);
/* In place; what is no %XX stays as it is. Control characters become '?'. */
void rpc_percent_decode(char *words);

/* Values of headers that end in -bin. Encoded without padding; decoded with or without. Strings and
 * bytes to be freed; NULL: out of memory or not base64. */
char *rpc_base64_encode(const uint8_t *bytes, size_t length);
uint8_t *rpc_base64_decode(const char *text, size_t length, size_t *bytes);

/* application/grpc, alone or before '+' or ';'. */
bool rpc_content_type_is_grpc(const char *value, size_t length);

/* What an answer without grpc-status means, by its HTTP status or by the code of RST_STREAM. */
enum rpc_code rpc_code_of_http(int status);
enum rpc_code rpc_code_of_reset(uint32_t h2_error);
/* grpc-status: digits; anything else is RPC_UNKNOWN. */
enum rpc_code rpc_code_parse(const char *value, size_t length);

#endif
