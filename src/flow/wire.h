/* SPDX-License-Identifier: BSD-3-Clause */
/* The control connection: neper's messages byte for byte, and what two weirs say to each other
 * beyond them.
 *
 * A run opens with neper's HELLO and ACK in both cases. A weir client marks its HELLO, in a field
 * that neper's server does not read; a weir server that sees the mark sets it in its ACK, and from
 * there on both speak weir:
 *
 *	client			server
 *	HELLO (marked)	->
 *			<-	ACK (marked)
 *	REQUEST		->			what the client wants, as option lines
 *			<-	ACCEPT		a token for the flows; or REFUSE and the reason
 *	data connections ->			each opens with the token and its flow's number
 *	READY		->
 *			<-	GO		all flows have arrived; both start their clocks
 *	TICK		<->	TICK		every second: a peer that is silent for long is gone
 *	RESULT		->
 *			<-	RESULT		what each end measured
 *
 * ABORT and the reason may come at any time. Each weir message is a length, a type, and text lines.
 * Everything here comes from outside: lengths are bounded and every field is checked.
 */
#ifndef WEIR_FLOW_WIRE_H
#define WEIR_FLOW_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "flow/options.h"

/* neper */

#define NEPER_BYTES 72

enum neper_type { NEPER_HELLO = 1, NEPER_ACK = 2, NEPER_DONE = 3, NEPER_BYE = 4 };

struct neper_message {
	char secret[32]; /* names workload and version; HELLO only */
	int32_t magic;
	uint32_t type;
	uint32_t num_threads, num_flows;
	int32_t test_length;
	uint32_t client_number;
	uint64_t max_pacing_rate; /* bytes/s */
	/* DONE, BYE: bits/s or transactions/s; between weirs WIRE_MARK in HELLO and ACK */
	uint64_t remote_rate;
};

/* "weir" and the version of what follows the handshake. */
#define WIRE_MARK 0x7765697200000001ull

extern const char neper_secret[WORKLOADS][32];

void neper_encode(const struct neper_message *m, uint8_t bytes[NEPER_BYTES]);
void neper_decode(const uint8_t bytes[NEPER_BYTES], struct neper_message *m);

/* One message in one write, as neper's reader needs it; and one whole message. */
int neper_send(int fd, const struct neper_message *m, uint64_t deadline_ns, struct err *e);
int neper_recv(int fd, struct neper_message *m, uint64_t deadline_ns, struct err *e);

/* weir */

#define WIRE_BODY_MAX (32u << 20)

enum wire_type {
	WIRE_REQUEST = 1,
	WIRE_ACCEPT,
	WIRE_REFUSE,
	WIRE_READY,
	WIRE_GO,
	WIRE_TICK,
	WIRE_RESULT,
	WIRE_ABORT,
};

struct wire_message {
	enum wire_type type;
	char *body; /* text, ends in NUL; owned, freed by wire_free() */
	size_t length;
};

int wire_send(int fd, enum wire_type type, const char *body, size_t length, uint64_t deadline_ns,
	struct err *e);
/* Receive one message. An unknown type or a length beyond WIRE_BODY_MAX is -EPROTO. */
int wire_recv(int fd, struct wire_message *m, uint64_t deadline_ns, struct err *e);
void wire_free(struct wire_message *m);

/* The first bytes of a data connection between weirs: whose it is, and which flow. */
#define WIRE_TOKEN_BYTES    16
#define WIRE_PREAMBLE_BYTES 32

struct wire_preamble {
	uint8_t token[WIRE_TOKEN_BYTES];
	uint32_t flow;
};
void wire_preamble_encode(const struct wire_preamble *p, uint8_t bytes[WIRE_PREAMBLE_BYTES]);
/* 0: it is one; -EAGAIN: so far it could become one; -EPROTO: it is not. */
int wire_preamble_decode(const uint8_t *bytes, size_t length, struct wire_preamble *p);

int wire_token_make(uint8_t token[WIRE_TOKEN_BYTES], struct err *e);
/* A line of ACCEPT, after that of the token: the sender does well to send whole packets. */
/* A line of ACCEPT: the server's NIC puts payload into device memory; of ACCEPT and READY: that end's takes it from
 * there. */
#define WIRE_RECEIVES_DEVMEM "receives=devmem\n"
#define WIRE_SENDS_DEVMEM    "sends=devmem\n"

/* Written as 32 hexadecimal digits in ACCEPT. */
void wire_token_text(const uint8_t token[WIRE_TOKEN_BYTES], char text[2 * WIRE_TOKEN_BYTES + 1]);
int wire_token_parse(const char *text, uint8_t token[WIRE_TOKEN_BYTES]);

#endif
