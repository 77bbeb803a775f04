/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages as they travel: a flag, a length of four bytes, the message; and how much of them is held.
 *
 *	while (length) {
 *		ret = rpc_frame_feed(&in, data, length, &used);
 *		if (ret == 1) {
 *			... in.body, in.length: one whole message
 *			rpc_frame_reset(&in);
 *		}
 *		data += used, length -= used;
 *	}
 *
 * Memory grows with the bytes that came, never with the length that was announced, and every byte of
 * it is drawn from a budget.
 */
#ifndef WEIR_RPC_FRAME_H
#define WEIR_RPC_FRAME_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RPC_FRAME_PREFIX 5

/* A part of another draws from that as well: so a connection has a limit of its own below that of all. */
struct rpc_budget {
	size_t limit, used; /* bytes */
	struct rpc_budget *of;
};

/* All zero but budget and limit: empty. */
struct rpc_frame_reader {
	struct rpc_budget *budget;
	size_t limit; /* largest message */
	uint8_t prefix[RPC_FRAME_PREFIX];
	uint8_t prefix_have;
	uint32_t length;
	uint8_t *body;
	size_t have, room;
};

/* Take bytes until one message is whole. 1: it is, and used says how many bytes belonged to it; 0: more
 * is needed, all were used. -EMSGSIZE: larger than the limit; -EOPNOTSUPP: compressed; -EPROTO: a flag
 * that does not exist; -ENOBUFS: the budget is spent; -ENOMEM. */
int rpc_frame_feed(struct rpc_frame_reader *in, const uint8_t *data, size_t length, size_t *used);
/* Give back the memory; ready for the next message. */
void rpc_frame_reset(struct rpc_frame_reader *in);
/* Whether the bytes so far end between two messages. */
bool rpc_frame_at_boundary(const struct rpc_frame_reader *in);

/* Messages that wait to be sent, already framed. */
struct rpc_frame_chunk {
	struct rpc_frame_chunk *next;
	size_t bytes, sent;
	uint8_t data[];
};

struct rpc_frame_queue {
	struct rpc_budget *budget;
	struct rpc_frame_chunk *first, **last; /* last is NULL while nothing was ever queued */
	size_t bytes;			       /* not yet taken */
};

/* Pack a message and queue it. -EMSGSIZE: beyond 4 GiB; -ENOBUFS, -ENOMEM. */
int rpc_frame_push(struct rpc_frame_queue *out, const ProtobufCMessage *message);
/* Copy up to room bytes out of the queue. */
size_t rpc_frame_take(struct rpc_frame_queue *out, uint8_t *to, size_t room);
void rpc_frame_drop(struct rpc_frame_queue *out);

/* Memory of one unpacked message: given back all at once, and bounded, because a message of two-byte
 * fields may unpack to thirty times its size. */
struct rpc_arena {
	struct rpc_arena_block *block;
	size_t bytes, limit;
	ProtobufCAllocator allocator;
};

/* The message lives until rpc_arena_free(). NULL: it cannot be read, or takes more than RPC_ARENA_RATIO
 * times message_limit (at least RPC_ARENA_LEAST). */
#define RPC_ARENA_RATIO 16
#define RPC_ARENA_LEAST 65536
ProtobufCMessage *rpc_unpack(struct rpc_arena *arena, size_t message_limit,
	const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t length);
void rpc_arena_free(struct rpc_arena *arena);

#endif
