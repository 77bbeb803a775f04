/* SPDX-License-Identifier: BSD-3-Clause */
/* The sliding window of a channel: chunks under way, oldest first.
 *
 *	while (window_room(&w)) {
 *		ret = post(&request);			checked for room before, never after
 *		window_push(&w, (struct window_slot){ request, transfer, chunk });
 *	}
 *	while ((s = window_head(&w)) && test(s->request)) {
 *		...					only the head is ever tested
 *		window_pop(&w);				there is room for one, refill it at once
 *	}
 *
 * Also the queue of granted chunks that wait for room: the same shape, longer. Plain memory.
 */
#ifndef WEIR_XFER_WINDOW_H
#define WEIR_XFER_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/p2p.h"

struct net_request;

struct window_slot {
	struct net_request *request; /* NULL: granted, not posted yet */
	struct weir_p2p_transfer *transfer;
	uint32_t chunk;
	bool received;	/* lies in fragments, which are not on their way yet */
	bool flushing;	/* received, and being made visible to the GPU */
	uint64_t batch; /* of unpacking */
};

struct window {
	unsigned int limit;	   /* 1 .. WEIR_P2P_WINDOW_MAX */
	unsigned int first, count; /* count <= limit */
	struct window_slot slot[WEIR_P2P_WINDOW_MAX];
};

static inline void window_init(struct window *w, unsigned int limit)
{
	w->limit = limit < 1 ? 1 : limit > WEIR_P2P_WINDOW_MAX ? WEIR_P2P_WINDOW_MAX : limit;
	w->first = w->count = 0;
}

static inline bool window_room(const struct window *w)
{
	return w->count < w->limit;
}

/* There must be room. */
static inline void window_push(struct window *w, struct window_slot slot)
{
	w->slot[(w->first + w->count++) % WEIR_P2P_WINDOW_MAX] = slot;
}

static inline struct window_slot *window_head(struct window *w)
{
	return w->count ? &w->slot[w->first] : NULL;
}

/* The n-th after the head; there must be so many. */
static inline struct window_slot *window_at(struct window *w, unsigned int n)
{
	return &w->slot[(w->first + n) % WEIR_P2P_WINDOW_MAX];
}

static inline void window_pop(struct window *w)
{
	w->first = (w->first + 1) % WEIR_P2P_WINDOW_MAX;
	w->count--;
}

/* The channel that the next chunk goes to: of those with room, from *turn on, the next; -1: none has. One
 * after the other, so that a few chunks go over many channels and a slow channel, whose window stays full,
 * is passed over. */
static inline int window_deal(
	const struct window *const *windows, unsigned int channels, unsigned int *turn)
{
	for (unsigned int i = 0; i < channels; i++) {
		unsigned int c = (*turn + i) % channels;

		if (window_room(windows[c])) {
			*turn = (c + 1) % channels;
			return (int)c;
		}
	}
	return -1;
}

#endif
