/* SPDX-License-Identifier: BSD-3-Clause */
/* What the TCP transport puts on the wire: the handle that a listener gives out, the first bytes of
 * each connection, and what stands before each message or slice of one. All little-endian.
 *
 *	tcp_header_write(bytes, &(struct tcp_header){ .kind = TCP_SLICE, .seq = 7, .total = 1 << 20,
 *					 .offset = 0, .length = 256 << 10 });
 *	ret = tcp_header_read(&header, bytes, e);	-EPROTO unless it can be true
 *
 * Bytes from outside are judged here and nowhere else: what a read function accepts is consistent in
 * itself. Whether it fits the receive that waits for it is the comm's to judge.
 */
#ifndef WEIR_NET_TCP_WIRE_H
#define WEIR_NET_TCP_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "net/sock.h"
#include "net/transport.h"

#define TCP_VERSION	1
#define TCP_TOKEN_BYTES 16
#define TCP_LANES_MAX	16
#define TCP_FDS_MAX	(2 * TCP_LANES_MAX + 1) /* connections of a comm */
/* Messages up to this length go on the first connection, in the caller's thread. Longer ones are worth
 * a helper: NCCL drives all its channels from one thread, and 32 KiB copied there halved its
 * all-reduce of 1 MiB. */
#define TCP_SHORT_BYTES (16u << 10)

struct tcp_handle {
	struct sock_addr addr;
	unsigned char token[TCP_TOKEN_BYTES];
	int lanes;	  /* connections for long messages that the listener wishes */
	bool apart;	  /* and that each has a second one for what stands before its slices */
	uint64_t attempt; /* in the sender's copy: the connect in progress; 0 none */
};

void tcp_handle_write(unsigned char out[NET_HANDLE_BYTES], const struct tcp_handle *h);
/* -EINVAL for bytes that no listener made, -EPROTONOSUPPORT for those of another version. */
int tcp_handle_read(struct tcp_handle *h, const unsigned char in[NET_HANDLE_BYTES], struct err *e);
/* Only the attempt: what connect() changes between calls. */
void tcp_handle_set_attempt(unsigned char out[NET_HANDLE_BYTES], uint64_t attempt);

/* The first bytes of a connection. */
#define TCP_HELLO_BYTES 40
struct tcp_hello {
	unsigned char token[TCP_TOKEN_BYTES];
	uint64_t comm; /* the same on all connections of a comm */
	int index; /* 0: short messages; 1 .. lanes; apart: headers of those lanes + 1 .. 2 * lanes */
	int lanes;
	bool apart;
};

void tcp_hello_write(unsigned char out[TCP_HELLO_BYTES], const struct tcp_hello *h);
int tcp_hello_read(struct tcp_hello *h, const unsigned char in[TCP_HELLO_BYTES], struct err *e);

enum tcp_kind {
	TCP_SHORT = 1, /* a whole message follows */
	TCP_SLICE = 2, /* a part of message seq follows */
	TCP_BYE = 3,   /* seq messages were sent, there will be no more */
};

#define TCP_HEADER_BYTES 24
struct tcp_header {
	enum tcp_kind kind;
	uint32_t seq;	 /* which message, modulo 2^32 */
	uint32_t total;	 /* bytes of the message */
	uint32_t offset; /* of this part */
	uint32_t length;
};

void tcp_header_write(unsigned char out[TCP_HEADER_BYTES], const struct tcp_header *h);
int tcp_header_read(struct tcp_header *h, const unsigned char in[TCP_HEADER_BYTES], struct err *e);

#endif
