// SPDX-License-Identifier: BSD-3-Clause
#include "probe/stamp.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/errqueue.h>
#include <linux/net_tstamp.h>

#include "base/clock.h"

/* Not libc's, which is a point of cancellation: it comes twice with each probe. */
static ssize_t receive(int fd, struct msghdr *m, int flags)
{
	return syscall(SYS_recvmsg, fd, m, flags | MSG_DONTWAIT);
}

int stamp_enable(int fd)
{
	int flags = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE |
		    SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_TX_HARDWARE |
		    SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE |
		    SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY;

	return setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof(flags)) ? -errno : 0;
}

static void read_control(struct msghdr *m, struct stamp *s)
{
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPING) {
			struct scm_timestamping t;

			memcpy(&t, CMSG_DATA(c), sizeof(t));
			s->software_ns = clock_timespec_ns(t.ts[0]);
			s->hardware_ns = clock_timespec_ns(t.ts[2]);
		} else if (c->cmsg_len >= CMSG_LEN(sizeof(struct sock_extended_err))) {
			struct sock_extended_err ee;

			memcpy(&ee, CMSG_DATA(c), sizeof(ee));
			if (ee.ee_origin == SO_EE_ORIGIN_TIMESTAMPING)
				s->offset = ee.ee_data;
		}
	}
}

int stamp_sent(int fd, struct stamp *s)
{
	union {
		char bytes[256];
		struct cmsghdr align;
	} control;
	struct msghdr m = { .msg_control = &control, .msg_controllen = sizeof(control) };

	*s = (struct stamp){ 0 };
	if (receive(fd, &m, MSG_ERRQUEUE) < 0)
		return 0;
	read_control(&m, s);
	return 1;
}

ssize_t stamp_recv(int fd, void *to, size_t size, struct stamp *s)
{
	union {
		char bytes[256];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = to, .iov_len = size };
	struct msghdr m = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	ssize_t got;

	*s = (struct stamp){ 0 };
	got = receive(fd, &m, 0);
	if (got < 0)
		return -errno;
	read_control(&m, s);
	return got;
}
