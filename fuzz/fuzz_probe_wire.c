// SPDX-License-Identifier: BSD-3-Clause
/* The first bytes of a data connection, from whoever connects: what is taken comes back the same. */
#include <string.h>

#include "fuzz.h"
#include "probe/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char bytes[PROBE_HELLO_BYTES] = { 0 }, again[PROBE_HELLO_BYTES];
	struct probe_header header;
	struct probe_hello hello;
	uint32_t payload;

	memcpy(bytes, data, size < sizeof(bytes) ? size : sizeof(bytes));
	if (!probe_hello_decode(&hello, bytes)) {
		MUST(!(hello.payload_bytes > PROBE_PAYLOAD_MAX));
		probe_hello_encode(&hello, again);
		MUST(!memcmp(bytes, again, 28));
	}
	memcpy(&payload, bytes + 28, sizeof(payload));
	if (!probe_header_decode(&header, bytes, payload)) {
		MUST(!(header.payload_bytes != payload || header.stamps > PROBE_STAMPS_HARDWARE));
		probe_header_encode(&header, again);
		MUST(!memcmp(bytes, again, PROBE_HEADER_BYTES));
	}
	return 0;
}
