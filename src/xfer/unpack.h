/* SPDX-License-Identifier: BSD-3-Clause */
/* Received chunks that lie in fragments, put in their place: by one kernel for all that have come, by a copy for
 * each fragment, or through host memory.
 *
 *	ret = unpack_start(u, &fragments, to, memory, &batch, e);	1: begun, 0: no room now
 *	...							for every chunk that has come
 *	ret = unpack_flush(u, e);				all of them, in one launch
 *	...
 *	if (unpack_done(u, batch, e) == 1)			in its place: the fragments may go
 *
 * Nothing here waits but unpack_wait(). One thread at a time.
 */
#ifndef WEIR_XFER_UNPACK_H
#define WEIR_XFER_UNPACK_H

#include "net/transport.h"
#include "weir/p2p.h"

struct unpack;

/* gpu: whose memory it is, by index; opened when a GPU is first needed. */
int unpack_open(struct unpack **opened, enum weir_p2p_unpack how, int gpu, struct err *e);
/* Waits for what was begun. */
void unpack_close(struct unpack *u);

/* Begin with one message. *batch: what to ask unpack_done() for. */
int unpack_start(struct unpack *u, const struct net_fragments *f, char *to,
	enum weir_p2p_memory memory, uint64_t *batch, struct err *e);
int unpack_flush(struct unpack *u, struct err *e);
/* 1 in its place, 0 not yet, -errno. */
int unpack_done(struct unpack *u, uint64_t batch, struct err *e);
/* Nobody touches what was begun any more when this returns. */
void unpack_wait(struct unpack *u);

#endif
