/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a thread could run when it wanted to. The kernel keeps books of how long it waited for a CPU. A timer that
 * fires late tells the rest: what was late and neither ran nor waited was stopped, by a signal, a debugger, a freezer.
 *
 *	stall_begin(&s, &loop);		in the loop's thread
 *	...
 *	stall_end(&s, &loop, end_ns);	the same; s.stopped_ns and s.starved_ns stand
 *
 * Costs a timer each STALL_TICK_NS; a stop that is shorter is not seen. Where the kernel keeps no such books
 * (/proc/thread-self/schedstat) both stay 0: nothing is guessed.
 */
#ifndef WEIR_FLOW_STALL_H
#define WEIR_FLOW_STALL_H

#include "base/clock.h"
#include "base/loop.h"

#define STALL_TICK_NS (20 * NS_PER_MS)

struct stall {
	struct loop_timer tick;
	uint64_t due_ns;		 /* of the tick, that is no longer there when it fires */
	int books;			 /* descriptor; -1 or 0: closed, or there are none */
	uint64_t run_ns, wait_ns;	 /* at the last tick: on a CPU, waiting for one */
	uint64_t stopped_ns, starved_ns; /* late and not runnable; waiting for a CPU, all told */
};

void stall_begin(struct stall *s, struct loop *l);
/* What came after end_ns does not count. Also for one that never began, all zeros, or has ended. */
void stall_end(struct stall *s, struct loop *l, uint64_t end_ns);

#endif
