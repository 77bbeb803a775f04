// SPDX-License-Identifier: BSD-3-Clause
/* What the peer says once a connection is READY. Every figure is the peer's, and checked before it is used:
 * against the bounds of regions, against what was offered, granted and asked for. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "xfer/engine.h"

static int broken(const struct weir_p2p_conn *c, const char *what, struct err *e)
{
	return err_set(e, EPROTO, "%s broke the p2p protocol: %s", c->peer, what);
}

int frames_result(struct weir_p2p_conn *c, uint64_t id, int status, struct err *e)
{
	struct xfer_frame f = { .type = XFER_RESULT, .id = id, .status = status };

	return link_put(&c->link, &f, e);
}

/* Let the chunks of a transfer come. */
static int expect_chunks(
	struct weir_p2p_conn *c, struct weir_p2p_transfer *t, uint64_t id, uint64_t bytes)
{
	t->bytes = bytes;
	t->peer_id = id;
	t->chunks = (uint32_t)xfer_chunks(bytes, c->agreed.chunk_bytes);
	queue_push(&c->incoming, t);
	return 0;
}

/* Short data that came with its offer. */
static int place(struct weir_p2p_conn *c, struct weir_p2p_transfer *t, const uint8_t *data,
	uint64_t bytes, struct err *e)
{
	int ret = engine_copy_in(c->engine, t->region, t->offset, data, bytes, e);

	t->bytes = bytes;
	if (!ret)
		c->stats.received_bytes += bytes;
	return ret;
}

int frames_match(struct weir_p2p_conn *c, struct weir_p2p_transfer *t, uint64_t id, uint64_t bytes,
	const uint8_t *data, bool whole, struct err *e)
{
	struct err why = { 0 };
	int ret;

	if (bytes > t->bytes) {
		transfer_finish(t, -EMSGSIZE, "the message is longer than the receive");
		c->credit_back++;
		return whole ? 0 : frames_result(c, id, -EMSGSIZE, e);
	}
	if (whole) {
		ret = place(c, t, data, bytes, &why);
		transfer_finish(
			t, ret ? ret : 1, ret ? "the data could not be put in its place" : NULL);
		c->credit_back++;
		return 0;
	}
	ret = move_memory(c, t->region, false, &why);
	if (!ret)
		return expect_chunks(c, t, id, bytes);
	transfer_finish(t, ret, "the memory could not be registered with the channels");
	c->credit_back++;
	return frames_result(c, id, ret, e);
}

static int keep_unexpected(
	struct weir_p2p_conn *c, const struct xfer_frame *f, bool whole, struct err *e)
{
	unsigned int at = (c->unexpected_first + c->unexpected_count) % XFER_CREDIT;
	struct unexpected *u = &c->unexpected[at];

	/* There is room: no more than XFER_CREDIT messages are open. */
	if (whole && f->bytes && !u->data) {
		u->data = malloc(XFER_INLINE_MAX);
		if (!u->data)
			return err_set(e, ENOMEM, "no memory for a message of %s", c->peer);
	}
	u->id = f->id;
	u->bytes = f->bytes;
	u->whole = whole;
	if (whole && f->bytes)
		memcpy(u->data, f->data, f->data_bytes);
	c->unexpected_count++;
	return 0;
}

static int on_message(
	struct weir_p2p_conn *c, const struct xfer_frame *f, bool whole, struct err *e)
{
	struct weir_p2p_transfer *t;

	if (++c->messages_open > XFER_CREDIT)
		return broken(c, "a message without credit", e);
	t = queue_pop(&c->receives);
	if (!t)
		return keep_unexpected(c, f, whole, e);
	return frames_match(c, t, f->id, f->bytes, f->data, whole, e);
}

static int refuse(struct weir_p2p_conn *c, uint64_t id, int status, struct err *e)
{
	c->stats.refused++;
	return frames_result(c, id, status, e);
}

static int on_write(struct weir_p2p_conn *c, const struct xfer_frame *f, bool whole, struct err *e)
{
	struct weir_p2p_region *r;
	struct weir_p2p_transfer *t;
	int ret;

	ret = regions_find(
		&c->engine->regions, f->key, f->offset, f->bytes, WEIR_P2P_REMOTE_WRITE, &r);
	if (!ret && !whole)
		ret = move_memory(c, r, false, NULL);
	if (ret)
		return refuse(c, f->id, ret, e);
	t = transfer_new(c, ROLE_TAKE_WRITE, r, f->offset, f->bytes);
	if (!t)
		return broken(c, "too many writes at once", e);
	if (!whole)
		return expect_chunks(c, t, f->id, f->bytes);
	ret = place(c, t, f->data, f->bytes, NULL);
	transfer_finish(t, ret ? ret : 1, NULL);
	return frames_result(c, f->id, ret, e);
}

static struct weir_p2p_transfer *find_read(struct weir_p2p_conn *c, uint64_t id)
{
	uint64_t slot = id & 0xffff;
	struct weir_p2p_transfer *t = slot < XFER_CREDIT ? c->read[slot] : NULL;

	return t && t->id == id ? t : NULL;
}

static int on_answer(struct weir_p2p_conn *c, const struct xfer_frame *f, bool whole, struct err *e)
{
	struct weir_p2p_transfer *t = find_read(c, f->answers);
	struct err why = { 0 };
	int ret;

	if (!t || f->bytes != t->bytes)
		return broken(c, "an answer to nothing", e);
	c->read[f->answers & 0xffff] = NULL;
	if (!whole)
		return expect_chunks(c, t, f->id, f->bytes);
	ret = place(c, t, f->data, f->bytes, &why);
	transfer_finish(t, ret ? ret : 1, ret ? "the data could not be put in its place" : NULL);
	return 0;
}

static int on_offer(struct weir_p2p_conn *c, const struct xfer_frame *f, struct err *e)
{
	bool whole = f->data_bytes == f->bytes;

	if (!whole && !c->in)
		return broken(c, "data without channels for it", e);
	if (xfer_chunks(f->bytes, c->agreed.chunk_bytes) > INT32_MAX)
		return broken(c, "more bytes than any memory has", e);
	if (f->kind == XFER_MESSAGE)
		return on_message(c, f, whole, e);
	if (f->kind == XFER_WRITE)
		return on_write(c, f, whole, e);
	return on_answer(c, f, whole, e);
}

static struct weir_p2p_transfer *find_offer(struct weir_p2p_conn *c, uint64_t id)
{
	uint64_t slot = id & 0xffff;
	struct weir_p2p_transfer *t = slot < OFFERS ? c->offer[slot] : NULL;

	return t && t->id == id ? t : NULL;
}

static int on_grant(struct weir_p2p_conn *c, const struct xfer_frame *f, struct err *e)
{
	struct weir_p2p_transfer *t = find_offer(c, f->id);

	if (!t || f->first != t->granted || f->count > t->chunks - t->granted)
		return broken(c, "a grant of what was not offered", e);
	for (uint32_t i = 0; i < f->count; i++) {
		struct channel *ch = f->data[i] < c->agreed.channels ? &c->out[f->data[i]] : NULL;

		if (!ch || !window_room(&ch->granted))
			return broken(c, "a grant beyond the window", e);
		window_push(
			&ch->granted, (struct window_slot){ .transfer = t, .chunk = f->first + i });
	}
	t->granted += f->count;
	return 0;
}

static const char *refusal_text(int status)
{
	switch (status) {
	case -ENOENT:
		return "the peer has no region with this key";
	case -ERANGE:
		return "the range is not within the peer's region";
	case -EACCES:
		return "the peer's region may not be used so";
	case -EMSGSIZE:
		return "the peer's receive is shorter than the message";
	default:
		return "the peer refused it";
	}
}

static int on_result(struct weir_p2p_conn *c, const struct xfer_frame *f, struct err *e)
{
	struct weir_p2p_transfer *t;

	if (f->id & ID_READ) {
		t = find_read(c, f->id);
		if (!t || !f->status)
			return broken(c, "the result of a read that is none", e);
		c->read[f->id & 0xffff] = NULL;
		transfer_finish(t, f->status, refusal_text(f->status));
		return 0;
	}
	t = find_offer(c, f->id);
	if (!t || t->settled || (f->status ? t->granted : t->role != ROLE_WRITE) ||
		t->granted < (f->status ? 0 : t->chunks))
		return broken(c, "a result before its time", e);
	t->settled = true;
	if (!f->status && t->done < t->chunks)
		return 0;
	offer_close(t);
	transfer_finish(t, f->status ? f->status : 1, f->status ? refusal_text(f->status) : NULL);
	return 0;
}

static int on_read(struct weir_p2p_conn *c, const struct xfer_frame *f, struct err *e)
{
	struct weir_p2p_region *r;
	struct weir_p2p_transfer *t;
	int ret;

	if (!(f->id & ID_READ))
		return broken(c, "a read with the number of an offer", e);
	ret = regions_find(
		&c->engine->regions, f->key, f->offset, f->bytes, WEIR_P2P_REMOTE_READ, &r);
	if (!ret && (f->bytes > XFER_INLINE_MAX || !region_is_inline(r)) && f->bytes)
		ret = move_memory(c, r, true, NULL);
	if (ret)
		return refuse(c, f->id, ret, e);
	t = transfer_new(c, ROLE_SERVE_READ, r, f->offset, f->bytes);
	if (!t)
		return broken(c, "too many reads at once", e);
	t->peer_id = f->id;
	t->chunks = (uint32_t)xfer_chunks(f->bytes, c->agreed.chunk_bytes);
	queue_push(&c->announce[WAY_ANSWER], t);
	return 0;
}

static int on_notify(struct weir_p2p_conn *c, const struct xfer_frame *f, struct err *e)
{
	struct notification *n = c->hearing;

	if (!n) {
		if (f->bytes > WEIR_P2P_NOTIFY_MAX - c->heard_bytes)
			return err_set(e, ENOBUFS,
				"%s has sent more notifications than anybody here reads: %" PRIu64
				" bytes",
				c->peer, c->heard_bytes);
		n = malloc(sizeof(*n) + f->bytes + 1);
		if (!n)
			return err_set(e, ENOMEM,
				"no memory for a notification of %" PRIu64 " bytes", f->bytes);
		*n = (struct notification){ .bytes = f->bytes };
		c->hearing = n;
		c->heard_bytes += f->bytes;
	}
	if (f->bytes != n->bytes || f->data_bytes > n->bytes - n->done ||
		(!f->data_bytes && n->bytes))
		return broken(c, "a notification that does not fit together", e);
	memcpy(n->data + n->done, f->data, f->data_bytes);
	n->done += f->data_bytes;
	if (n->done < n->bytes)
		return 0;
	n->data[n->bytes] = '\0';
	c->hearing = NULL;
	if (c->heard_last)
		c->heard_last->next = n;
	else
		c->heard_first = n;
	c->heard_last = n;
	c->engine->finished++;
	return 0;
}

static int on_credit(struct weir_p2p_conn *c, const struct xfer_frame *f, struct err *e)
{
	if (f->count > XFER_CREDIT - c->credit)
		return broken(c, "credit for messages that were not sent", e);
	c->credit += f->count;
	return 0;
}

static int on_frame(struct weir_p2p_conn *c, const struct xfer_frame *f, struct err *e)
{
	struct xfer_frame pong = { .type = XFER_PONG };

	switch (f->type) {
	case XFER_OFFER:
		return on_offer(c, f, e);
	case XFER_GRANT:
		return on_grant(c, f, e);
	case XFER_CREDIT_BACK:
		return on_credit(c, f, e);
	case XFER_RESULT:
		return on_result(c, f, e);
	case XFER_READ:
		return on_read(c, f, e);
	case XFER_NOTIFY:
		return on_notify(c, f, e);
	case XFER_PING:
		return link_put(&c->link, &pong, e);
	case XFER_PONG:
		return 0;
	case XFER_BYE:
		c->bye_here = true;
		return 0;
	default:
		return broken(c, "a word out of place", e);
	}
}

static int hear_all(struct weir_p2p_conn *c, struct err *e)
{
	struct xfer_frame f;
	int ret;

	while ((ret = link_take(&c->link, &f, e)) == 1) {
		ret = on_frame(c, &f, e);
		if (ret)
			return ret;
	}
	return ret;
}

int frames_take(struct weir_p2p_conn *c, struct err *e)
{
	int came, ret;

	came = link_fill(&c->link);
	ret = hear_all(c, e);
	if (ret)
		return ret;
	/* What it had sent before it closed may still be on its way through the channels. */
	if (c->bye_here && (c->receives_posted || c->incoming.first))
		return came > 0;
	if (c->bye_here)
		return err_set(e, EPIPE, "%s has closed the connection", c->peer);
	if (came == -EPIPE)
		return err_set(e, ECONNRESET, "%s is gone, without a word", c->peer);
	if (came < 0)
		return err_set(
			e, -came, "the connection to %s broke: %s", c->peer, strerror(-came));
	return came;
}
