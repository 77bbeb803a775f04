// SPDX-License-Identifier: BSD-3-Clause
/* Chunks that come: dealt to channels with room and granted to the sender, tested, put in their place. */
#include "xfer/engine.h"

static int grant_flush(struct weir_p2p_conn *c, struct err *e)
{
	struct xfer_frame f = { .type = XFER_GRANT,
		.first = c->grant.first,
		.count = c->grant.count,
		.data = c->grant.channel,
		.data_bytes = c->grant.count };

	if (!c->grant.count)
		return 0;
	f.id = c->grant.transfer->peer_id;
	c->grant.count = 0;
	return link_put(&c->link, &f, e);
}

static int grant_add(struct weir_p2p_conn *c, struct weir_p2p_transfer *t, uint32_t chunk,
	int channel, struct err *e)
{
	int ret;

	if (c->grant.count && (c->grant.transfer != t || c->grant.count == GRANTS)) {
		ret = grant_flush(c, e);
		if (ret)
			return ret;
	}
	if (!c->grant.count) {
		c->grant.transfer = t;
		c->grant.first = chunk;
	}
	c->grant.channel[c->grant.count++] = (uint8_t)channel;
	return 0;
}

/* A grant in every frame would cost a system call for every chunk at both ends: while the sender still has
 * half a window of granted chunks, they wait for company. */
static bool grant_is_due(const struct weir_p2p_conn *c)
{
	unsigned int room = c->agreed.channels * c->agreed.window;

	return c->grant.count &&
	       (!c->incoming.first || c->receives_posted - c->grant.count <= room / 2);
}

/* 1: posted, 0: not now. */
static int post_receive(struct weir_p2p_conn *c, struct channel *ch, struct weir_p2p_transfer *t,
	uint32_t chunk, struct err *e)
{
	uint64_t at = chunk * c->agreed.chunk_bytes;
	struct net_request *request = NULL;
	int ret;

	// NOLINTNEXTLINE(clang-analyzer-core.NullDereference): what comes in has channels (frames.c)
	ret = c->engine->net->ops->irecv(ch->comm, t->region->address + t->offset + at,
		xfer_chunk_length(t->bytes, c->agreed.chunk_bytes, chunk),
		ch->memory[t->region->index], &request, e);
	if (ret || !request)
		return ret;
	window_push(&ch->posted,
		(struct window_slot){ .request = request, .transfer = t, .chunk = chunk });
	c->receives_posted++;
	return 1;
}

/* Chunks of what was offered, to whichever channel has room. */
static int deal(struct weir_p2p_conn *c, struct err *e)
{
	struct weir_p2p_transfer *t;
	int channel, ret, moved = 0;

	while ((t = c->incoming.first)) {
		channel = window_deal(c->in_window, c->agreed.channels, &c->turn);
		if (channel < 0)
			return moved;
		ret = post_receive(c, &c->in[channel], t, t->granted, e);
		if (ret <= 0)
			return ret ? ret : moved;
		ret = grant_add(c, t, t->granted, channel, e);
		if (ret)
			return ret;
		if (++t->granted == t->chunks)
			queue_pop(&c->incoming);
		moved = 1;
	}
	return moved;
}

static int chunk_received(
	struct weir_p2p_conn *c, struct weir_p2p_transfer *t, uint32_t chunk, struct err *e)
{
	int ret = 0;

	c->stats.received_chunks++;
	c->stats.received_bytes += xfer_chunk_length(t->bytes, c->agreed.chunk_bytes, chunk);
	if (++t->done < t->chunks)
		return 0;
	if (t->role == ROLE_TAKE_WRITE)
		ret = frames_result(c, t->peer_id, 0, e);
	else if (t->role == ROLE_RECV)
		c->credit_back++;
	transfer_finish(t, 1, NULL);
	return ret;
}

/* Make what came visible to the GPU, where that takes a step of its own. 1: there is something to wait for. */
static int flush(struct weir_p2p_conn *c, struct channel *ch, struct window_slot *s, struct err *e)
{
	const struct weir_p2p_transfer *t = s->transfer;
	struct net_request *request = NULL;
	int ret;

	if (s->flushing || t->region->memory != WEIR_P2P_CUDA || !c->engine->net->ops->iflush)
		return 0;
	ret = c->engine->net->ops->iflush(ch->comm,
		t->region->address + t->offset + s->chunk * c->agreed.chunk_bytes,
		xfer_chunk_length(t->bytes, c->agreed.chunk_bytes, s->chunk),
		ch->memory[t->region->index], &request, e);
	if (ret || !request)
		return ret;
	s->request = request;
	s->flushing = true;
	return 1;
}

/* What has come on a channel and lies in fragments: 1 some of it is on its way to its place. */
static int unpack_begin(struct weir_p2p_conn *c, struct channel *ch, struct err *e)
{
	const struct net_ops *ops = c->engine->net->ops;
	int ret, moved = 0;

	while (ch->unpacking < ch->posted.count) {
		struct window_slot *s = window_at(&ch->posted, ch->unpacking);
		const struct weir_p2p_transfer *t = s->transfer;
		struct net_fragments f = { .count = 0 };

		if (!s->received) {
			ret = ops->test(ch->comm, s->request, &s->received, NULL, e);
			if (ret || !s->received)
				return ret ? ret : moved;
		}
		ret = ops->fragments ? ops->fragments(ch->comm, s->request, &f, e) : 0;
		if (!ret)
			ret = unpack_start(c->engine->unpack, &f,
				t->region->address + t->offset + s->chunk * c->agreed.chunk_bytes,
				t->region->memory, &s->batch, e);
		if (ret <= 0)
			return ret ? ret : moved;
		ch->unpacking++;
		moved = 1;
	}
	return moved;
}

/* And what is there: the plugin has its fragments back. */
static int unpack_finish(struct weir_p2p_conn *c, struct channel *ch, struct err *e)
{
	const struct net_ops *ops = c->engine->net->ops;
	int ret, moved = 0;

	while (ch->unpacking) {
		struct window_slot *s = window_head(&ch->posted);

		ret = unpack_done(c->engine->unpack, s->batch, e);
		if (ret <= 0)
			return ret ? ret : moved;
		if (ops->consumed) {
			ret = ops->consumed(ch->comm, s->request, e);
			if (ret)
				return ret;
		}
		ret = chunk_received(c, s->transfer, s->chunk, e);
		if (ret)
			return ret;
		window_pop(&ch->posted);
		ch->unpacking--;
		c->receives_posted--;
		moved = 1;
	}
	return moved;
}

/* One launch for all that has come on all channels. */
static int unpack_turn(struct weir_p2p_conn *c, struct err *e)
{
	int ret, moved = 0;

	for (unsigned int i = 0; c->in && i < c->agreed.channels; i++) {
		ret = unpack_begin(c, &c->in[i], e);
		if (ret < 0)
			return ret;
		moved |= ret;
	}
	ret = unpack_flush(c->engine->unpack, e);
	for (unsigned int i = 0; !ret && c->in && i < c->agreed.channels; i++) {
		ret = unpack_finish(c, &c->in[i], e);
		if (ret > 0)
			moved = 1;
		ret = ret < 0 ? ret : 0;
	}
	return ret ? ret : moved;
}

/* What arrived in the oldest receive of a channel: 1 it is in its place, 0 not yet. */
static int test_receive(
	struct weir_p2p_conn *c, struct channel *ch, struct window_slot *s, struct err *e)
{
	const struct net_ops *ops = c->engine->net->ops;
	bool done = false;
	int ret;

	ret = ops->test(ch->comm, s->request, &done, NULL, e);
	if (ret || !done)
		return ret;
	if (ops->consumed && !s->flushing) {
		ret = ops->consumed(ch->comm, s->request, e);
		if (ret)
			return ret;
	}
	ret = flush(c, ch, s, e);
	return ret ? (ret < 0 ? ret : 0) : 1;
}

static int test_receives(struct weir_p2p_conn *c, struct channel *ch, struct err *e)
{
	struct window_slot *s;
	int ret, moved = 0;

	while ((s = window_head(&ch->posted))) {
		ret = test_receive(c, ch, s, e);
		if (ret <= 0)
			return ret ? ret : moved;
		ret = chunk_received(c, s->transfer, s->chunk, e);
		if (ret)
			return ret;
		window_pop(&ch->posted);
		c->receives_posted--;
		moved = 1;
	}
	return moved;
}

int receive_turn(struct weir_p2p_conn *c, struct err *e)
{
	int ret, moved = 0;

	for (unsigned int i = 0; !c->unpacks && c->in && i < c->agreed.channels; i++) {
		if (!c->in[i].posted.count)
			continue;
		ret = test_receives(c, &c->in[i], e);
		if (ret < 0)
			return ret;
		moved |= ret;
	}
	if (c->unpacks) {
		moved = unpack_turn(c, e);
		if (moved < 0)
			return moved;
	}
	if (c->incoming.first) {
		ret = deal(c, e);
		if (ret < 0)
			return ret;
		moved |= ret;
	}
	if (grant_is_due(c)) {
		ret = grant_flush(c, e);
		if (ret)
			return ret;
	}
	return moved;
}
