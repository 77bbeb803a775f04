/* SPDX-License-Identifier: BSD-3-Clause */
/* What two p2p engines say to each other on the control connection of a pair.
 *
 *	client				server
 *	HELLO			->			version, token, wishes
 *				<-	WELCOME		what is agreed, and a handle for each channel
 *	BACK			->			handles of the channels that go the other way
 *	READY			<->	READY		all channels are connected
 *
 * Then frames, both ways. Data goes like this, whoever began:
 *
 *	OFFER			->			I have so many bytes for you; short ones are in it
 *				<-	GRANT		these chunks have a receive posted, on these channels
 *	chunks on channels	=>
 *				<-	CREDIT		of a message that has arrived: another may be offered
 *				<-	RESULT		of a write: it is there; or why nothing will be
 *
 * A read is asked for by READ and answered by an OFFER or a RESULT. The receiver deals chunks to
 * channels, because it knows which of them is empty; it grants only what was offered, so that a
 * posted receive always has a sender that is committed to it.
 *
 * Numbers are little-endian. Everything here comes from outside: a decoder takes bytes and a length, and
 * refuses what is too short, too long or out of range with -EPROTO and the reason.
 */
#ifndef WEIR_XFER_WIRE_H
#define WEIR_XFER_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/transport.h"
#include "weir/p2p.h"

#define XFER_VERSION	   1
#define XFER_HELLO_BYTES   96
#define XFER_WELCOME_BYTES 64
#define XFER_FRAME_BYTES   8
#define XFER_INLINE_MAX	   ((size_t)32 << 10) /* a shorter message goes inside its OFFER */
#define XFER_BODY_MAX	   (XFER_INLINE_MAX + 256)
#define XFER_CREDIT	   64 /* offers of one end that are not settled */
#define XFER_ANY_RANK	   UINT32_MAX
#define XFER_NAME_BYTES	   20
#define XFER_TO_SERVER	   1u
#define XFER_TO_CLIENT	   2u

/* Why a server refuses a client; 0: it does not. */
enum xfer_refusal {
	XFER_WELCOME,
	XFER_WRONG_VERSION,
	XFER_WRONG_TOKEN,
	XFER_WRONG_COUNT, /* of channels */
	XFER_WRONG_RANK,  /* another one listens here */
	XFER_NO_CHANNELS, /* the server could not open its own */
	XFER_WRONG_TRANSPORT,
	XFER_REFUSALS,
};

struct xfer_hello {
	uint32_t version;
	uint8_t token[WEIR_P2P_TOKEN_MAX]; /* padded with zeros */
	uint32_t rank, peer_rank;	   /* XFER_ANY_RANK: any */
	uint32_t channels, window;
	uint32_t directions; /* XFER_TO_SERVER | XFER_TO_CLIENT */
	uint64_t chunk_bytes;
	char transport[XFER_NAME_BYTES + 1]; /* what the handles are for; empty: not said */
};

struct xfer_welcome {
	uint32_t version;
	uint32_t refusal; /* enum xfer_refusal */
	uint32_t channels, window;
	uint64_t chunk_bytes;
	uint32_t rank;
	char transport[XFER_NAME_BYTES + 1];
};

void xfer_hello_encode(const struct xfer_hello *h, uint8_t bytes[XFER_HELLO_BYTES]);
/* -EPROTO: these are not the first bytes of a client at all. Another version is not an error here:
 * only the version is then set. */
int xfer_hello_decode(const uint8_t bytes[XFER_HELLO_BYTES], struct xfer_hello *h, struct err *e);
/* Whether the agreed figures of a hello are in range; the refusal, or XFER_WELCOME. */
enum xfer_refusal xfer_hello_judge(
	const struct xfer_hello *h, const uint8_t *token, uint32_t rank, const char *transport);

void xfer_welcome_encode(const struct xfer_welcome *w, uint8_t bytes[XFER_WELCOME_BYTES]);
/* Decode and judge against what was asked for: -EACCES wrong token, -EPROTO anything else that is
 * not right, with words that a user understands. */
int xfer_welcome_decode(const uint8_t bytes[XFER_WELCOME_BYTES], const struct xfer_hello *asked,
	struct xfer_welcome *w, struct err *e);

/* The bytes of a token; -EINVAL for one that is empty or too long. Compared in constant time. */
int xfer_token(const char *text, uint8_t token[WEIR_P2P_TOKEN_MAX], struct err *e);

enum xfer_type {
	XFER_BACK = 1,
	XFER_READY,
	XFER_OFFER,
	XFER_GRANT,
	XFER_CREDIT_BACK,
	XFER_RESULT,
	XFER_READ,
	XFER_NOTIFY,
	XFER_PING,
	XFER_PONG,
	XFER_BYE,
	XFER_TYPES,
};

enum xfer_kind { XFER_MESSAGE, XFER_WRITE, XFER_ANSWER, XFER_KINDS };

/* One frame, decoded. data points into the bytes that were decoded. */
struct xfer_frame {
	enum xfer_type type;
	enum xfer_kind kind;   /* OFFER */
	uint64_t id;	       /* OFFER, GRANT, RESULT, READ: of who began */
	uint64_t answers;      /* OFFER of kind ANSWER: the READ's id */
	uint64_t key, offset;  /* OFFER of kind WRITE, READ */
	uint64_t bytes;	       /* OFFER, READ; NOTIFY: of the whole notification */
	uint32_t first, count; /* GRANT: chunks; BACK: handles; CREDIT_BACK: messages */
	int status;	       /* RESULT: 0 or -errno */
	const uint8_t *data;   /* OFFER: all of it, or nothing; GRANT: a channel for each chunk;
				   * BACK: handles; NOTIFY: a piece */
	size_t data_bytes;
};

/* The length of the whole frame that begins here: 0 when more bytes are needed to know, -EPROTO. */
int64_t xfer_frame_length(const uint8_t *bytes, size_t length);
/* bytes holds exactly one frame. */
int xfer_frame_decode(const uint8_t *bytes, size_t length, struct xfer_frame *f, struct err *e);
/* Header and body but for the data, which follows; returns their length, at most XFER_HEAD_MAX. */
#define XFER_HEAD_MAX 64
size_t xfer_frame_encode(const struct xfer_frame *f, uint8_t bytes[XFER_HEAD_MAX]);

/* Chunks that so many bytes make: at least one. */
static inline uint64_t xfer_chunks(uint64_t bytes, uint64_t chunk_bytes)
{
	return bytes ? (bytes - 1) / chunk_bytes + 1 : 1;
}

static inline uint64_t xfer_chunk_length(uint64_t bytes, uint64_t chunk_bytes, uint64_t chunk)
{
	uint64_t left = bytes - chunk * chunk_bytes;

	return left < chunk_bytes ? left : chunk_bytes;
}

#endif
