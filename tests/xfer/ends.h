/* SPDX-License-Identifier: BSD-3-Clause */
/* Two engines in one process, over a transport that does what the test says (fake_net.h); the control
 * connection between them is real. Everything that fails here fails the test. */
#ifndef WEIR_TESTS_XFER_ENDS_H
#define WEIR_TESTS_XFER_ENDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "fake_net.h"
#include "xfer/engine.h"

#define MEMORY (4 << 20)

struct side {
	struct fake_net net;
	struct weir_p2p *p;
	struct weir_p2p_conn *conn;
	struct weir_p2p_region *region;
	unsigned char *memory;
};

struct ends {
	struct side a, b; /* a connects */
	struct weir_p2p_config config;
};

void side_open(struct side *s, const struct weir_p2p_config *config);
void side_close(struct side *s);
/* Connected, a's memory full of figures, b's of zeros. Without a configuration: the default one with chunks
 * of 16 KiB. */
void ends_open(struct ends *t);
/* And nothing is left of it. */
void ends_close(struct ends *t);
/* A turn of both engines. */
void turn(struct ends *t);
/* Turns until a transfer is over: what weir_p2p_test() says. */
int finish(struct ends *t, struct weir_p2p_transfer *x, uint64_t *bytes, struct weir_error *error);
/* A message from a to b, compared. */
void exchange(struct ends *t, uint64_t offset, uint64_t bytes, uint64_t to, uint64_t room);

#endif
