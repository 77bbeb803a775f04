/* SPDX-License-Identifier: BSD-3-Clause */
/* What the halves of errors share: errors.c has udmabuf and binding, errors_traffic.c the sockets.
 *
 *	expect("bind-rx, header split off", bind_rx(...), -EINVAL, "tcp-data-split is disabled");
 */
#ifndef LAB_ERRORS_H
#define LAB_ERRORS_H

#include <limits.h>
#include <stdbool.h>

#include "devmem.h"

#define SUCCESS LONG_MAX /* as what is wanted: any result that is not an error */

#define PAGE	     4096L
#define BUFFER_BYTES (8L << 20)

struct lab {
	bool has_tx; /* 6.16 and later; everything before is taken for 6.12 */
	bool failed;
	int near_ns, far_ns;
	int near_if, far_if;
	struct buffer rx, tx;
	int rx_netlink, tx_netlink; /* the bindings live as long as these */
	int rx_id, tx_id;
};
extern struct lab lab;

/* One case, one line. What is wanted: -errno, a number, or SUCCESS; said: a part of the kernel's
 * words, NULL where they do not matter.
 */
void expect(const char *name, long got, long wanted, const char *said);
void expect_true(const char *name, bool holds, const char *what, long value);

/* What is wanted, where 6.12 differs. */
long by_kernel(long now, long on_6_12);
const char *words_by_kernel(const char *now, const char *on_6_12);

/* For what is no case but has to work: ends the program where it does not. */
int must(const char *what, long result);

void enter(int ns);
void pause_ms(int ms);
void fault_set(const char *name, int value); /* a parameter of the module */

/* With queues 2 and 3 of lab1 bound to lab.rx, and lab0 to lab.tx where the kernel can. Unbinds. */
void traffic_cases(void);

#endif
