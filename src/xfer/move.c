// SPDX-License-Identifier: BSD-3-Clause
/* Chunks under way: the receiver deals them to channels with room and grants them (receive.c), the sender posts
 * what was granted; every turn looks at every channel, and only at the head of its window. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "xfer/engine.h"

struct weir_p2p_transfer *transfer_new(struct weir_p2p_conn *c, enum role role,
	struct weir_p2p_region *r, uint64_t offset, uint64_t bytes)
{
	bool served = role == ROLE_TAKE_WRITE || role == ROLE_SERVE_READ;
	struct weir_p2p_transfer *t = queue_pop(served ? &c->free_served : &c->free_own);

	if (!t)
		return NULL;
	*t = (struct weir_p2p_transfer){
		.conn = c, .role = role, .region = r, .offset = offset, .bytes = bytes
	};
	r->users++;
	c->under_way++;
	if (!served)
		c->own++;
	return t;
}

void offer_close(struct weir_p2p_transfer *t)
{
	t->conn->offer[t->id & 0xffff] = NULL;
	t->conn->offers_open--;
}

void transfer_free(struct weir_p2p_transfer *t)
{
	struct weir_p2p_conn *c = t->conn;
	bool served = t - c->pool >= TRANSFERS;

	t->role = ROLE_FREE;
	if (!served)
		c->own--;
	queue_push(served ? &c->free_served : &c->free_own, t);
}

void transfer_finish(struct weir_p2p_transfer *t, int result, const char *why)
{
	struct weir_p2p_conn *c = t->conn;

	t->result = result;
	t->why = why;
	t->region->users--;
	c->under_way--;
	c->engine->finished++;
	if (t->role == ROLE_TAKE_WRITE || t->role == ROLE_SERVE_READ)
		transfer_free(t);
}

void move_reset(struct weir_p2p_conn *c)
{
	for (int i = 0; i < TRANSFERS + SERVED; i++) {
		c->pool[i].conn = c;
		queue_push(i < TRANSFERS ? &c->free_own : &c->free_served, &c->pool[i]);
	}
	c->credit = XFER_CREDIT;
	c->idle = true;
	c->stalled = -1;
}

/* A plugin gets addresses: what it makes of a descriptor of host memory nobody knows. */
static int channel_memory(
	struct weir_p2p *p, struct channel *ch, struct weir_p2p_region *r, struct err *e)
{
	enum net_memory_kind kind = (enum net_memory_kind)r->memory;

	if (r->dmabuf < 0 || p->config.plugin || !p->net->ops->reg_dmabuf)
		return p->net->ops->reg(
			ch->comm, r->address, r->bytes, kind, &ch->memory[r->index], e);
	return p->net->ops->reg_dmabuf(ch->comm, r->address, r->bytes,
		kind == NET_HOST ? NET_DMABUF : kind, r->dmabuf_offset, r->dmabuf,
		&ch->memory[r->index], e);
}

int move_memory(struct weir_p2p_conn *c, struct weir_p2p_region *r, bool out, struct err *e)
{
	uint64_t *known = &(out ? c->registered_out : c->registered_in)[r->index / 64];
	uint64_t bit = 1ull << (r->index % 64);
	struct channel *channels = out ? c->out : c->in;
	int ret;

	if (*known & bit)
		return 0;
	if (!channels) {
		err_set(e, EOPNOTSUPP, "this connection has no channels for data %s the peer",
			out ? "to" : "from");
		return err_hint(e, "connect without WEIR_P2P_ONE_WAY");
	}
	for (unsigned int i = 0; i < c->agreed.channels; i++) {
		struct channel *ch = &channels[i];

		if (ch->memory[r->index])
			continue;
		ret = channel_memory(c->engine, ch, r, e);
		if (ret)
			return ret;
	}
	*known |= bit;
	return 0;
}

static void forget_way(struct weir_p2p_conn *c, struct channel *channels, unsigned int index)
{
	for (unsigned int i = 0; channels && i < c->agreed.channels; i++) {
		struct channel *ch = &channels[i];

		if (ch->memory && ch->memory[index] && ch->comm)
			c->engine->net->ops->dereg(ch->comm, ch->memory[index], NULL);
		if (ch->memory)
			ch->memory[index] = NULL;
	}
}

void move_forget_memory(struct weir_p2p_conn *c, struct weir_p2p_region *r)
{
	uint64_t bit = 1ull << (r->index % 64);

	forget_way(c, c->out, r->index);
	forget_way(c, c->in, r->index);
	c->registered_out[r->index / 64] &= ~bit;
	c->registered_in[r->index / 64] &= ~bit;
}

/* Sending */

static void chunk_sent(struct weir_p2p_conn *c, struct weir_p2p_transfer *t, uint32_t chunk)
{
	c->stats.sent_chunks++;
	c->stats.sent_bytes += xfer_chunk_length(t->bytes, c->agreed.chunk_bytes, chunk);
	if (++t->done < t->chunks)
		return;
	if (t->role == ROLE_WRITE && !t->settled)
		return;
	offer_close(t);
	transfer_finish(t, 1, NULL);
}

static int test_sends(struct weir_p2p_conn *c, struct channel *ch, struct err *e)
{
	const struct net_ops *ops = c->engine->net->ops;
	struct window_slot *s;
	int ret, moved = 0;
	bool done;

	while ((s = window_head(&ch->posted))) {
		done = false;
		ret = ops->test(ch->comm, s->request, &done, NULL, e);
		if (ret)
			return ret;
		if (!done)
			break;
		chunk_sent(c, s->transfer, s->chunk);
		window_pop(&ch->posted);
		moved = 1;
	}
	return moved;
}

static int post_sends(struct weir_p2p_conn *c, struct channel *ch, struct err *e)
{
	struct window_slot *s;
	int ret, moved = 0;

	while (window_room(&ch->posted) && (s = window_head(&ch->granted))) {
		const struct weir_p2p_transfer *t = s->transfer;

		s->request = NULL;
		ret = c->engine->net->ops->isend(ch->comm,
			t->region->address + t->offset + s->chunk * c->agreed.chunk_bytes,
			xfer_chunk_length(t->bytes, c->agreed.chunk_bytes, s->chunk),
			ch->memory[t->region->index], &s->request, e);
		if (ret)
			return ret;
		if (!s->request)
			break;
		window_push(&ch->posted, *s);
		window_pop(&ch->granted);
		moved = 1;
	}
	return moved;
}

static int send_turn(struct weir_p2p_conn *c, struct err *e)
{
	int ret, moved = 0;

	for (unsigned int i = 0; c->out && i < c->agreed.channels; i++) {
		struct channel *ch = &c->out[i];

		if (ch->posted.count) {
			ret = test_sends(c, ch, e);
			if (ret < 0)
				return ret;
			moved |= ret;
		}
		if (ch->granted.count) {
			ret = post_sends(c, ch, e);
			if (ret < 0)
				return ret;
			moved |= ret;
		}
	}
	return moved;
}

/* What goes over the control connection */

static int free_slot(struct weir_p2p_transfer *const *slot, int from, int to)
{
	for (int i = from; i < to; i++)
		if (!slot[i])
			return i;
	return -1;
}

static int announce_read(struct weir_p2p_conn *c, struct weir_p2p_transfer *t, struct err *e)
{
	struct xfer_frame f = {
		.type = XFER_READ, .key = t->key, .offset = t->remote_offset, .bytes = t->bytes
	};
	int slot = free_slot(c->read, 0, XFER_CREDIT), ret;

	if (slot < 0)
		return 0;
	f.id = t->id = ID_READ | (uint64_t)++c->generation << 16 | (unsigned int)slot;
	ret = link_put(&c->link, &f, e);
	if (ret)
		return ret;
	c->read[slot] = t;
	return 1;
}

/* What is short and can be reached goes with its offer. */
static bool goes_inline(const struct weir_p2p_transfer *t)
{
	return t->bytes <= XFER_INLINE_MAX && (region_is_inline(t->region) || !t->bytes);
}

/* 1: offered, 0: not now. */
static int announce_offer(
	struct weir_p2p_conn *c, struct weir_p2p_transfer *t, enum way way, struct err *e)
{
	static const enum xfer_kind kind[WAYS] = { XFER_MESSAGE, XFER_WRITE, XFER_ANSWER };
	bool short_one = goes_inline(t);
	struct xfer_frame f = { .type = XFER_OFFER,
		.kind = kind[way],
		.answers = t->peer_id,
		.key = t->key,
		.offset = t->remote_offset,
		.bytes = t->bytes };
	int slot, ret;

	if (way == WAY_MESSAGE && !c->credit)
		return 0;
	slot = free_slot(c->offer, way * XFER_CREDIT, (way + 1) * XFER_CREDIT);
	if (slot < 0)
		return 0;
	f.id = t->id = (uint64_t)(++c->generation & 0x7fffffff) << 16 | (unsigned int)slot;
	if (short_one) {
		f.data = (const uint8_t *)t->region->address + t->offset;
		f.data_bytes = t->bytes;
	}
	ret = link_send(&c->link, &f, e);
	if (ret)
		return ret;
	c->credit -= way == WAY_MESSAGE;
	if (short_one) {
		c->stats.inline_messages++;
		c->stats.sent_bytes += t->bytes;
		t->done = t->chunks = 0;
		if (way != WAY_ONE_SIDED) {
			transfer_finish(t, 1, NULL);
			return 1;
		}
	}
	c->offer[slot] = t;
	c->offers_open++;
	return 1;
}

static int announce_way(struct weir_p2p_conn *c, enum way way, struct err *e)
{
	struct queue *q = &c->announce[way];
	struct weir_p2p_transfer *t;
	int ret, moved = 0;

	while ((t = q->first) && link_room(&c->link)) {
		struct weir_p2p_transfer *next = t->next;

		/* A short message is over, and in another queue, after the call. */
		ret = t->role == ROLE_READ ? announce_read(c, t, e) : announce_offer(c, t, way, e);
		if (ret <= 0)
			return ret ? ret : moved;
		q->first = next;
		if (!next)
			q->last = NULL;
		moved = 1;
	}
	return moved;
}

int move_announce(struct weir_p2p_conn *c, struct err *e)
{
	int ret, moved = 0;

	for (int way = 0; way < WAYS; way++) {
		if (!c->announce[way].first)
			continue;
		ret = announce_way(c, (enum way)way, e);
		if (ret < 0)
			return ret;
		moved |= ret;
	}
	return moved;
}

int move_notify(struct weir_p2p_conn *c, struct err *e)
{
	struct notification *n;
	int ret, moved = 0;

	while ((n = c->notify_first) && link_room(&c->link)) {
		uint64_t left = n->bytes - n->done;
		struct xfer_frame f = { .type = XFER_NOTIFY,
			.bytes = n->bytes,
			.data = (const uint8_t *)n->data + n->done,
			.data_bytes = left < XFER_INLINE_MAX ? left : XFER_INLINE_MAX };

		ret = link_put(&c->link, &f, e);
		if (ret)
			return ret;
		n->done += f.data_bytes;
		moved = 1;
		if (n->done < n->bytes)
			continue;
		c->notify_first = n->next;
		if (!n->next)
			c->notify_last = NULL;
		free(n);
	}
	return moved;
}

static int give_credit(struct weir_p2p_conn *c, struct err *e)
{
	struct xfer_frame f = { .type = XFER_CREDIT_BACK, .count = c->credit_back };

	/* It costs nothing beside what goes anyway. */
	if (!c->credit_back || (c->credit_back < XFER_CREDIT / 4 && !c->link.out_count))
		return 0;
	c->messages_open -= c->credit_back;
	c->credit_back = 0;
	return link_put(&c->link, &f, e);
}

static int link_turn(struct weir_p2p_conn *c, struct err *e)
{
	int ret, moved = 0;

	ret = move_announce(c, e);
	if (ret < 0)
		return ret;
	moved |= ret;
	if (c->notify_first) {
		ret = move_notify(c, e);
		if (ret < 0)
			return ret;
		moved |= ret;
	}
	ret = give_credit(c, e);
	if (ret)
		return ret;
	ret = link_flush(&c->link);
	if (ret < 0)
		return err_set(e, -ret, "the connection to %s broke: %s", c->peer, strerror(-ret));
	return moved | ret;
}

/* A peer that says nothing while something is under way is asked, and given up in the end. A program
 * that was itself away for long asks again first. */
static int watch_peer(struct weir_p2p_conn *c, uint64_t now_ns, struct err *e)
{
	uint64_t limit = c->engine->config.peer_timeout_ns, silent;
	struct xfer_frame ping = { .type = XFER_PING };

	if (!c->under_way || c->idle || now_ns - c->turn_ns > limit / 4)
		c->heard_ns = now_ns;
	c->idle = !c->under_way;
	silent = now_ns - c->heard_ns;
	if (silent > limit) {
		err_set(e, ETIMEDOUT, "%s has said nothing for %.1f s", c->peer,
			(double)silent / 1e9);
		return err_hint(e, "is it stopped, or its network gone?");
	}
	if (silent < limit / 4 || now_ns - c->ping_ns < limit / 4)
		return 0;
	c->ping_ns = now_ns;
	return link_put(&c->link, &ping, e);
}

int move_turn(struct weir_p2p_conn *c, uint64_t now_ns)
{
	struct err e = { 0 };
	int heard, received, sent, said, ret;

	heard = frames_take(c, &e);
	ret = heard < 0 ? heard : 0;
	received = ret ? ret : receive_turn(c, &e);
	ret = received < 0 ? received : 0;
	sent = ret ? ret : send_turn(c, &e);
	ret = sent < 0 ? sent : 0;
	if (!ret && (heard | received | sent))
		c->heard_ns = now_ns;
	if (!ret)
		ret = watch_peer(c, now_ns, &e);
	said = ret ? ret : link_turn(c, &e);
	if (said < 0) {
		conn_over(c, &e);
		return 1;
	}
	stats_account(c, now_ns, heard | received | sent | said);
	return heard | received | sent | said;
}
