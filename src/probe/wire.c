// SPDX-License-Identifier: BSD-3-Clause
#include "probe/wire.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define HEADER_MAGIC 0x77707262u /* "wprb" */
static const char hello_magic[8] = { 'w', 'e', 'i', 'r', 'p', 'r', 'b', '1' };

static void put32(unsigned char *to, uint32_t v)
{
	v = htobe32(v);
	memcpy(to, &v, sizeof(v));
}

static uint32_t get32(const unsigned char *from)
{
	uint32_t v;

	memcpy(&v, from, sizeof(v));
	return be32toh(v);
}

void probe_hello_encode(const struct probe_hello *h, unsigned char to[PROBE_HELLO_BYTES])
{
	memset(to, 0, PROBE_HELLO_BYTES);
	memcpy(to, hello_magic, sizeof(hello_magic));
	memcpy(to + 8, h->token, PROBE_TOKEN_BYTES);
	put32(to + 24, h->payload_bytes);
}

int probe_hello_decode(struct probe_hello *h, const unsigned char from[PROBE_HELLO_BYTES])
{
	if (memcmp(from, hello_magic, sizeof(hello_magic)))
		return -EPROTO;
	memcpy(h->token, from + 8, PROBE_TOKEN_BYTES);
	h->payload_bytes = get32(from + 24);
	if (h->payload_bytes > PROBE_PAYLOAD_MAX)
		return -EMSGSIZE;
	return 0;
}

void probe_header_encode(const struct probe_header *h, unsigned char to[PROBE_HEADER_BYTES])
{
	uint64_t residence = htobe64(h->residence_ns);

	put32(to, HEADER_MAGIC);
	put32(to + 4, h->sequence);
	put32(to + 8, h->payload_bytes);
	put32(to + 12, h->stamps);
	memcpy(to + 16, &residence, sizeof(residence));
}

int probe_header_decode(struct probe_header *h, const unsigned char from[PROBE_HEADER_BYTES],
	uint32_t payload_bytes)
{
	uint32_t stamps = get32(from + 12);

	if (get32(from) != HEADER_MAGIC || stamps > PROBE_STAMPS_HARDWARE)
		return -EPROTO;
	h->sequence = get32(from + 4);
	h->payload_bytes = get32(from + 8);
	h->stamps = stamps;
	memcpy(&h->residence_ns, from + 16, sizeof(h->residence_ns));
	h->residence_ns = be64toh(h->residence_ns);
	return h->payload_bytes == payload_bytes ? 0 : -EMSGSIZE;
}
