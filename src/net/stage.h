/* SPDX-License-Identifier: BSD-3-Clause */
/* Pinned host memory between a socket and a GPU: a ring of slots, so that the socket, the copy engine and
 * the check on the GPU work at the same time on different slots.
 *
 * Receiving:
 *	room = stage_room(&s, owner, offset, &bytes, &settled);	settled names what became of the slot's last use
 *	n = recv(fd, room, bytes, MSG_DONTWAIT);
 *	ret = stage_received(&s, n, offset, position, owner, e);	copied to the GPU, checked there
 *
 * A slot takes many receives that follow each other in the GPU's memory, and is copied and checked as one: a
 * call to the driver takes as long as a small copy, and threads wait for each other in it. Only who finds all slots
 * under way waits, for the oldest.
 *
 * Sending:
 *	bytes = most;
 *	data = stage_data(&s, &bytes, e);		what was copied from the GPU, in order, at most so many
 *	n = send(fd, data, bytes, MSG_DONTWAIT);
 *	ret = stage_sent(&s, n, e);			the next piece is fetched meanwhile
 *
 * A stage serves one thread. All of its work goes through one queue, in order.
 */
#ifndef WEIR_NET_STAGE_H
#define WEIR_NET_STAGE_H

#include "base/err.h"
#include "mem/cuda_queue.h"
#include "mem/region.h"

#define STAGE_SLOTS 8

struct stage_slot {
	struct cuda_mark *mark;
	struct cuda_check check;
	bool busy, checking;
	uint64_t position;  /* of its first byte in the stream, */
	uint64_t offset;    /* and in the GPU's memory */
	size_t bytes, done; /* what it holds; sending: what has been sent of it */
	void *owner;
};

/* What became of a slot that was received. */
struct stage_settled {
	bool wrong; /* a byte was not what belongs there: */
	uint64_t position;
	void *owner;
};

struct stage {
	struct region *gpu_memory; /* borrowed */
	struct region pinned;
	struct cuda_queue *queue;     /* borrowed: shared by the stages of a thread */
	struct cuda_pattern *pattern; /* borrowed; NULL: nothing is checked */
	size_t slot_bytes;
	uint64_t ring_bytes;	/* sending: of gpu_memory, gone through over and over */
	uint64_t next_position; /* sending: to be fetched next */
	unsigned int head, tail;
	struct stage_slot slot[STAGE_SLOTS];
};

/* ring_bytes: 0 for receiving. After a failure close it all the same. */
int stage_open(struct stage *s, struct region *gpu_memory, struct cuda_queue *queue,
	struct cuda_pattern *pattern, size_t slot_bytes, uint64_t ring_bytes, struct err *e);
void stage_close(struct stage *s);

/* Room for at most *bytes that go to this offset: the rest of a slot, whose size is set. NULL: the GPU does not take what
 * came before. */
char *stage_room(struct stage *s, const void *owner, uint64_t offset, size_t *bytes,
	struct stage_settled *settled);
int stage_received(struct stage *s, size_t bytes, uint64_t offset, uint64_t position, void *owner,
	struct err *e);
/* Wait for all that was received; call until it returns false. settled as from stage_room(). */
bool stage_settle(struct stage *s, struct stage_settled *settled);

const char *stage_data(struct stage *s, size_t *bytes, struct err *e);
int stage_sent(struct stage *s, size_t bytes, struct err *e);

#endif
