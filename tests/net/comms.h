/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ends of a comm of any transport, in one process, for tests. What fails here fails the test.
 *
 *	struct comms p;
 *	comms_open(&p, n);
 *	comms_carry(&p, 1 << 20, 3);		checked
 *	comms_close(&p);
 */
#ifndef WEIR_TESTS_NET_COMMS_H
#define WEIR_TESTS_NET_COMMS_H

#include "net/transport.h"

struct comms {
	struct net *n; /* borrowed */
	struct net_comm *sender, *receiver;
	char *out, *in; /* registered with the sender and the receiver */
	size_t bytes;
	struct net_memory *out_memory, *in_memory;
};

#define COMMS_BYTES ((size_t)8 << 20)

void comms_open(struct comms *p, struct net *n);
void comms_register(struct comms *p, size_t bytes);
void comms_close(struct comms *p);

struct net_request *comms_send(struct comms *p, size_t offset, size_t bytes);
struct net_request *comms_receive(struct comms *p, size_t offset, size_t bytes);

/* Test until it is done or fails, or a minute is over, which fails the test. Returns what test() did. */
int comms_finish(
	struct comms *p, struct net_comm *c, struct net_request *r, size_t *bytes, struct err *e);

/* Fill, send, receive and compare one message. */
void comms_carry(struct comms *p, size_t bytes, unsigned int seed);

/* Threads and descriptors that this process has. */
int threads_running(void);
int descriptors_in_use(void);

/* Wait until so many threads are left: the kernel lists a thread a little longer than it takes to join it. */
void threads_come_down_to(int wanted);

#endif
