// SPDX-License-Identifier: BSD-3-Clause
#include "rpc/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BODY_FIRST_BYTES 1024

static bool budget_draw(struct rpc_budget *budget, size_t bytes)
{
	for (struct rpc_budget *b = budget; b; b = b->of)
		if (bytes > b->limit || b->used > b->limit - bytes)
			return false;
	for (struct rpc_budget *b = budget; b; b = b->of)
		b->used += bytes;
	return true;
}

static void budget_give(struct rpc_budget *budget, size_t bytes)
{
	for (struct rpc_budget *b = budget; b; b = b->of)
		b->used -= bytes;
}

static int reader_begin(struct rpc_frame_reader *in)
{
	in->length = (uint32_t)in->prefix[1] << 24 | (uint32_t)in->prefix[2] << 16 |
		     (uint32_t)in->prefix[3] << 8 | in->prefix[4];
	if (in->prefix[0] > 1)
		return -EPROTO;
	if (in->prefix[0])
		return -EOPNOTSUPP;
	return in->length > in->limit ? -EMSGSIZE : 0;
}

static int reader_make_room(struct rpc_frame_reader *in, size_t more)
{
	size_t room = in->room ? in->room : BODY_FIRST_BYTES;
	uint8_t *body;

	while (room < in->have + more)
		room *= 2;
	if (room > in->length)
		room = in->length;
	if (room <= in->room)
		return 0;
	if (!budget_draw(in->budget, room - in->room))
		return -ENOBUFS;
	body = realloc(in->body, room);
	if (!body) {
		budget_give(in->budget, room - in->room);
		return -ENOMEM;
	}
	in->body = body;
	in->room = room;
	return 0;
}

int rpc_frame_feed(struct rpc_frame_reader *in, const uint8_t *data, size_t length, size_t *used)
{
	size_t taken = 0, more;
	int ret;

	*used = 0;
	while (in->prefix_have < RPC_FRAME_PREFIX) {
		if (taken == length) {
			*used = taken;
			return 0;
		}
		in->prefix[in->prefix_have++] = data[taken++];
		if (in->prefix_have == RPC_FRAME_PREFIX) {
			ret = reader_begin(in);
			if (ret)
				return ret;
		}
	}
	more = length - taken;
	if (more > in->length - in->have)
		more = in->length - in->have;
	if (more) {
		ret = reader_make_room(in, more);
		if (ret)
			return ret;
		memcpy(in->body + in->have, data + taken, more);
		in->have += more;
	}
	*used = taken + more;
	return in->have == in->length;
}

void rpc_frame_reset(struct rpc_frame_reader *in)
{
	free(in->body);
	if (in->room)
		budget_give(in->budget, in->room);
	in->body = NULL;
	in->have = in->room = in->length = in->prefix_have = 0;
}

bool rpc_frame_at_boundary(const struct rpc_frame_reader *in)
{
	return !in->prefix_have;
}

int rpc_frame_push(struct rpc_frame_queue *out, const ProtobufCMessage *message)
{
	size_t length = protobuf_c_message_get_packed_size(message);
	size_t bytes = RPC_FRAME_PREFIX + length;
	struct rpc_frame_chunk *chunk;

	if (length > UINT32_MAX)
		return -EMSGSIZE;
	if (!budget_draw(out->budget, bytes))
		return -ENOBUFS;
	chunk = malloc(sizeof(*chunk) + bytes);
	if (!chunk) {
		budget_give(out->budget, bytes);
		return -ENOMEM;
	}
	*chunk = (struct rpc_frame_chunk){ .bytes = bytes };
	chunk->data[0] = 0;
	for (int i = 0; i < 4; i++)
		chunk->data[1 + i] = (uint8_t)(length >> (24 - 8 * i));
	protobuf_c_message_pack(message, chunk->data + RPC_FRAME_PREFIX);
	if (!out->first)
		out->last = &out->first;
	*out->last = chunk;
	out->last = &chunk->next;
	out->bytes += bytes;
	return 0;
}

static void queue_pop(struct rpc_frame_queue *out)
{
	struct rpc_frame_chunk *chunk = out->first;

	out->first = chunk->next;
	budget_give(out->budget, chunk->bytes);
	free(chunk);
}

size_t rpc_frame_take(struct rpc_frame_queue *out, uint8_t *to, size_t room)
{
	size_t taken = 0;

	while (out->first && taken < room) {
		struct rpc_frame_chunk *chunk = out->first;
		size_t n = chunk->bytes - chunk->sent;

		if (n > room - taken)
			n = room - taken;
		memcpy(to + taken, chunk->data + chunk->sent, n);
		chunk->sent += n;
		taken += n;
		if (chunk->sent == chunk->bytes)
			queue_pop(out);
	}
	out->bytes -= taken;
	return taken;
}

void rpc_frame_drop(struct rpc_frame_queue *out)
{
	while (out->first)
		queue_pop(out);
	out->bytes = 0;
}

struct rpc_arena_block {
	struct rpc_arena_block *next;
	_Alignas(max_align_t) uint8_t data[];
};

static void *arena_alloc(void *data, size_t size)
{
	struct rpc_arena *arena = data;
	size_t bytes = sizeof(struct rpc_arena_block) + size;
	struct rpc_arena_block *block;

	if (bytes < size || bytes > arena->limit - arena->bytes)
		return NULL;
	block = malloc(bytes);
	if (!block)
		return NULL;
	arena->bytes += bytes;
	block->next = arena->block;
	arena->block = block;
	return block->data;
}

/* protobuf-c frees piece by piece where it gives up half-way; all of it goes with the arena. */
static void arena_keep(void *data, void *pointer)
{
	(void)data;
	(void)pointer;
}

ProtobufCMessage *rpc_unpack(struct rpc_arena *arena, size_t message_limit,
	const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t length)
{
	size_t limit = message_limit * RPC_ARENA_RATIO;

	*arena = (struct rpc_arena){ .limit = limit > RPC_ARENA_LEAST ? limit : RPC_ARENA_LEAST,
		.allocator = { arena_alloc, arena_keep, arena } };
	return protobuf_c_message_unpack(type, &arena->allocator, length, bytes);
}

void rpc_arena_free(struct rpc_arena *arena)
{
	while (arena->block) {
		struct rpc_arena_block *next = arena->block->next;

		free(arena->block);
		arena->block = next;
	}
}
