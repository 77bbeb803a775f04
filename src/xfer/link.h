/* SPDX-License-Identifier: BSD-3-Clause */
/* The control connection of a pair: frames in, frames out, never waiting.
 *
 *	link_put(&l, &frame, e);
 *	ret = link_flush(&l);			1 something went, 0 nothing, -errno
 *	ret = link_fill(&l);			1 something came, 0 nothing, -EPIPE the end
 *	while ((ret = link_take(&l, &frame, e)) == 1)
 *		...				frame.data is good until the next link_fill()
 *
 * Single-threaded.
 */
#ifndef WEIR_XFER_LINK_H
#define WEIR_XFER_LINK_H

#include "xfer/wire.h"

#define LINK_IN_BYTES (4 * XFER_BODY_MAX)
#define LINK_BACKLOG  ((size_t)256 << 10) /* what may lie unsent before more is put */

struct link {
	int fd; /* -1: none */
	uint8_t *in, *out;
	size_t in_first, in_count;
	size_t out_first, out_count, out_bytes;
};

/* Takes fd over, also when it fails. */
int link_open(struct link *l, int fd, struct err *e);
void link_close(struct link *l);

/* Whether the backlog is short enough for more. What must not wait is put all the same. */
static inline bool link_room(const struct link *l)
{
	return l->out_count < LINK_BACKLOG;
}

int link_put_bytes(struct link *l, const void *data, size_t bytes, struct err *e);
int link_put(struct link *l, const struct xfer_frame *f, struct err *e);
/* The same, at once and without a copy where nothing waits before it. */
int link_send(struct link *l, const struct xfer_frame *f, struct err *e);
int link_flush(struct link *l);

int link_fill(struct link *l);
int link_take(struct link *l, struct xfer_frame *f, struct err *e);
/* The next bytes as they are, for what comes before frames; NULL: not all there. They must be fewer
 * than LINK_IN_BYTES. */
const uint8_t *link_take_bytes(struct link *l, size_t bytes);

#endif
