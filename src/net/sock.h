/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP sockets: resolve, listen, connect, whole messages, each with a deadline.
 *
 *	struct sock_addr addr[SOCK_ADDRS];
 *	sock_resolve(host, "12866", AF_UNSPEC, false, addr, &count, e);
 *	fd = sock_connect(&addr[0], NULL, &options, clock_ns() + 5 * NS_PER_S, e);
 *	sock_send_all(fd, message, sizeof(message), deadline_ns, e);
 *
 * Functions that make a socket return the descriptor or -errno. Descriptors are close-on-exec. Data
 * sockets stay in blocking mode: the data path says MSG_DONTWAIT where it must not sleep.
 */
#ifndef WEIR_NET_SOCK_H
#define WEIR_NET_SOCK_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"

#define SOCK_ADDRS     16
#define SOCK_ADDR_TEXT 80

struct sock_addr {
	struct sockaddr_storage storage;
	socklen_t len;
};

/* The addresses of a host, at most SOCK_ADDRS. NULL host: loopback, or any address when
 * to_listen. */
int sock_resolve(const char *host, const char *port, int family, bool to_listen,
	struct sock_addr addr[SOCK_ADDRS], size_t *count, struct err *e);

/* "10.0.0.1:12866", "[::1]:12866"; without the port when with_port is false. Returns buf. */
char *sock_addr_text(const struct sock_addr *addr, bool with_port, char buf[SOCK_ADDR_TEXT]);
uint16_t sock_addr_port(const struct sock_addr *addr);
void sock_addr_set_port(struct sock_addr *addr, uint16_t port);
/* Whether two addresses name the same host; an IPv4 address mapped into IPv6 equals the IPv4
 * address. */
bool sock_addr_same_host(const struct sock_addr *a, const struct sock_addr *b);
bool sock_addr_is_loopback(const struct sock_addr *addr);
int sock_local(int fd, struct sock_addr *addr);
int sock_peer(int fd, struct sock_addr *addr);

/* Payload of a full packet of a connection, options left out; 0 where the kernel does not tell. */
size_t sock_segment_bytes(int fd);

/* send() and recv() of the data path; -errno for a failure. Not libc's: those prepare for the thread
 * being cancelled, with two atomic operations per call, and no thread here ever is. */
static inline ssize_t sock_send(int fd, const void *data, size_t length, int flags)
{
	ssize_t n = syscall(SYS_sendto, fd, data, length, flags | MSG_NOSIGNAL, NULL, 0);

	return n < 0 ? -errno : n;
}

static inline ssize_t sock_recv(int fd, void *data, size_t length, int flags)
{
	ssize_t n = syscall(SYS_recvfrom, fd, data, length, flags, NULL, NULL);

	return n < 0 ? -errno : n;
}

/* What a user may ask of a data socket. All zero: the system's defaults. */
struct sock_options {
	bool debug, freebind, reuse_address, no_delay, fast_open, zerocopy;
	bool reset_on_close;	  /* SO_LINGER 0: no TIME_WAIT is left behind */
	int64_t mark;		  /* SO_MARK */
	int64_t tx_delay_us;	  /* TCP_TX_DELAY */
	uint64_t max_pacing_rate; /* bytes/s */
	const char *congestion_control;
	const char *device;   /* SO_BINDTODEVICE */
	int64_t busy_poll_us; /* SO_BUSY_POLL */
};

/* The options that must be set before connect or that a listener hands on, and those that follow. A
 * setting that the kernel refuses is an error that names it. */
int sock_set_before(int fd, const struct sock_options *options, struct err *e);
int sock_set_after(int fd, const struct sock_options *options, struct err *e);

/* Whether the kernel takes these options at all, tried on a socket that is thrown away. */
int sock_try_options(const struct sock_options *options, struct err *e);

struct sock_listen {
	int backlog;
	bool freebind;
	bool share_port;    /* SO_REUSEPORT: one listener per thread */
	const char *device; /* SO_BINDTODEVICE: what comes through other interfaces is not for us */
	const char *
		port_option; /* the one that chooses the port, for the words of an error; or NULL */
};
int sock_listen(const struct sock_addr *addr, const struct sock_listen *how, struct err *e);

/* Begin to connect without waiting; local may be NULL. sock_connect_wait() ends it. */
int sock_connect_start(const struct sock_addr *addr, const struct sock_addr *local,
	const struct sock_options *options, struct err *e);
int sock_connect_wait(int fd, const struct sock_addr *addr, uint64_t deadline_ns, struct err *e);
int sock_connect(const struct sock_addr *addr, const struct sock_addr *local,
	const struct sock_options *options, uint64_t deadline_ns, struct err *e);

/* Wait until fd (or the second one, when it is not negative) is ready for events. 1: fd is, 2: the
 * second is, -ETIMEDOUT. Sets no words: the caller knows what it waited for. */
int sock_wait(int fd, short events, int second, uint64_t deadline_ns);

/* Exactly length bytes, or an error: -ETIMEDOUT, -ECONNRESET, -EPIPE when the peer closed (received
 * says how much had come; may be NULL). */
int sock_send_all(int fd, const void *data, size_t length, uint64_t deadline_ns, struct err *e);
int sock_recv_all(
	int fd, void *data, size_t length, uint64_t deadline_ns, size_t *received, struct err *e);

#endif
