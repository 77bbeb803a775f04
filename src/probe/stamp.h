/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's own stamps of what left and what came (SO_TIMESTAMPING), on a TCP socket.
 *
 *	stamp_enable(fd);			right after connect or accept, before the first send
 *	send(fd, ...);
 *	while (stamp_sent(fd, &s) > 0)		s.offset: the last byte of that send in the stream
 *		...
 *	got = stamp_recv(fd, buf, size, &s);	s: when the last of these bytes arrived
 *
 * Software stamps are of CLOCK_REALTIME, hardware ones of the NIC's clock: only differences of the
 * same kind mean anything, and a step of the clock between two spoils one.
 */
#ifndef WEIR_PROBE_STAMP_H
#define WEIR_PROBE_STAMP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct stamp {
	uint64_t software_ns, hardware_ns; /* 0: none */
	uint32_t offset; /* of a send: its last byte, counted from stamp_enable() */
};

int stamp_enable(
	int fd); /* 0 or -errno; without it there are no stamps, and nothing else changes */

/* The next stamp of something sent: 1, 0 when there is none now. */
int stamp_sent(int fd, struct stamp *s);

/* recv() without waiting; fills s with the stamp of the last of the bytes. */
ssize_t stamp_recv(int fd, void *to, size_t size, struct stamp *s);

#endif
