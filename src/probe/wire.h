/* SPDX-License-Identifier: BSD-3-Clause */
/* What travels on a data connection between two agents.
 *
 * The prober opens with a hello: the token that the control plane handed out, and how long every
 * frame will be. The responder answers with a frame of sequence 0 and no payload, or closes. Then the
 * prober sends frames, 1, 2, ..., each PROBE_HEADER_BYTES and the payload, and the responder returns
 * each as it is, but for its residence time in the header: each once, in their order, or the prober
 * closes. Numbers are big-endian.
 *
 * Decoding trusts nothing: -EPROTO for what is not of this wire, -EMSGSIZE for a payload beyond
 * PROBE_PAYLOAD_MAX or another than agreed.
 */
#ifndef WEIR_PROBE_WIRE_H
#define WEIR_PROBE_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define PROBE_PAYLOAD_MAX  (2u << 20)
#define PROBE_TOKEN_BYTES  16
#define PROBE_HELLO_BYTES  32
#define PROBE_HEADER_BYTES 24

/* Whose clock stamped what entered and left a host. */
enum probe_stamps { PROBE_STAMPS_NONE, PROBE_STAMPS_SOFTWARE, PROBE_STAMPS_HARDWARE };

struct probe_hello {
	unsigned char token[PROBE_TOKEN_BYTES];
	uint32_t payload_bytes;
};

struct probe_header {
	uint32_t sequence;
	uint32_t payload_bytes;
	enum probe_stamps stamps; /* behind residence_ns; NONE: there is none */
	uint64_t residence_ns;	  /* answer: from the kernel's arrival stamp to the send */
};

void probe_hello_encode(const struct probe_hello *h, unsigned char to[PROBE_HELLO_BYTES]);
int probe_hello_decode(struct probe_hello *h, const unsigned char from[PROBE_HELLO_BYTES]);

void probe_header_encode(const struct probe_header *h, unsigned char to[PROBE_HEADER_BYTES]);
int probe_header_decode(struct probe_header *h, const unsigned char from[PROBE_HEADER_BYTES],
	uint32_t payload_bytes);

#endif
