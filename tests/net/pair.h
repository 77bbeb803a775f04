/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ends of a real TCP connection over loopback, for tests.
 *
 *	struct pair p;
 *	pair_open(&p, AF_INET, &options);
 *	... p.client, p.server ...
 *	pair_close(&p);
 *
 * Everything that fails here fails the test.
 */
#ifndef WEIR_TESTS_NET_PAIR_H
#define WEIR_TESTS_NET_PAIR_H

#include "net/sock.h"

struct pair {
	int client, server; /* blocking, as sock_connect() and accept() leave them */
};

/* A listener on a free port of loopback; addr receives where. */
int pair_listen(int family, struct sock_addr *addr);
/* options: of the client's socket, may be NULL. */
void pair_open(struct pair *p, int family, const struct sock_options *options);
void pair_close(struct pair *p);
/* Descriptors that this process has open. */
int descriptors_open(void);

#endif
