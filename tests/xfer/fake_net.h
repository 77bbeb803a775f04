/* SPDX-License-Identifier: BSD-3-Clause */
/* A transport inside one process, for tests that need to decide what a channel does: how slow it is, when
 * it breaks, how often it says "not now". Real sockets cannot be told; the tests in tests/e2e use them. */
#ifndef WEIR_TESTS_XFER_FAKE_NET_H
#define WEIR_TESTS_XFER_FAKE_NET_H

#include "net/transport.h"

struct fake_net {
	struct net net;
	int connect_calls; /* that say "not yet" before a connect or an accept succeeds */
	int slow_comm;	   /* the number of a receiving comm that is slow, -1: none */
	int slow_tests;	   /* tests before a message of it is done */
	int break_after;   /* messages after which receiving fails, 0: never */
	int not_now;	   /* every so many posts return no request, 0: never */
	int requests;	   /* most that were outstanding on one comm */
	int received[64];  /* messages by comm, in the order of accept() */
	int comms;	   /* open now */
	int memories;	   /* registered now */
	bool no_cuda;	   /* reg() refuses it */
};

struct net *fake_net_open(struct fake_net *f);

#endif
