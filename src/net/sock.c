// SPDX-License-Identifier: BSD-3-Clause
#include "net/sock.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#ifndef TCP_TX_DELAY
#define TCP_TX_DELAY 37
#endif

int sock_resolve(const char *host, const char *port, int family, bool to_listen,
	struct sock_addr addr[SOCK_ADDRS], size_t *count, struct err *e)
{
	struct addrinfo hints = { .ai_family = family, .ai_socktype = SOCK_STREAM }, *list, *ai;
	int ret;

	*count = 0;
	hints.ai_flags = to_listen ? AI_PASSIVE : 0;
	ret = getaddrinfo(host, port, &hints, &list);
	if (ret) {
		err_set(e, ENOENT, "cannot find the host %s: %s", host ? host : "(any)",
			ret == EAI_SYSTEM ? strerror(errno) : gai_strerror(ret));
		err_hint(e, "check the name, or give the host's address in its place");
		return -ENOENT;
	}
	for (ai = list; ai && *count < SOCK_ADDRS; ai = ai->ai_next) {
		memcpy(&addr[*count].storage, ai->ai_addr, ai->ai_addrlen);
		addr[*count].len = ai->ai_addrlen;
		(*count)++;
	}
	freeaddrinfo(list);
	return 0;
}

char *sock_addr_text(const struct sock_addr *addr, bool with_port, char buf[SOCK_ADDR_TEXT])
{
	const struct sockaddr_in6 *in6 = (const void *)&addr->storage;
	const struct sockaddr_in *in4 = (const void *)&addr->storage;
	char host[INET6_ADDRSTRLEN] = "?";
	bool v6 = addr->storage.ss_family == AF_INET6;

	if (v6 && IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
		inet_ntop(AF_INET, &in6->sin6_addr.s6_addr[12], host, sizeof(host));
		v6 = false;
	} else {
		inet_ntop(v6 ? AF_INET6 : AF_INET,
			v6 ? (const void *)&in6->sin6_addr : &in4->sin_addr, host, sizeof(host));
	}
	if (with_port)
		snprintf(buf, SOCK_ADDR_TEXT, v6 ? "[%s]:%u" : "%s:%u", host, sock_addr_port(addr));
	else
		snprintf(buf, SOCK_ADDR_TEXT, "%s", host);
	return buf;
}

uint16_t sock_addr_port(const struct sock_addr *addr)
{
	/* The port stands at the same place in both families. */
	return ntohs(((const struct sockaddr_in *)&addr->storage)->sin_port);
}

void sock_addr_set_port(struct sock_addr *addr, uint16_t port)
{
	((struct sockaddr_in *)&addr->storage)->sin_port = htons(port);
}

static void addr_as_v6(const struct sock_addr *addr, struct in6_addr *out)
{
	if (addr->storage.ss_family == AF_INET6) {
		*out = ((const struct sockaddr_in6 *)&addr->storage)->sin6_addr;
		return;
	}
	memset(out, 0, sizeof(*out));
	out->s6_addr[10] = out->s6_addr[11] = 0xff;
	memcpy(&out->s6_addr[12], &((const struct sockaddr_in *)&addr->storage)->sin_addr, 4);
}

bool sock_addr_same_host(const struct sock_addr *a, const struct sock_addr *b)
{
	struct in6_addr x, y;

	addr_as_v6(a, &x);
	addr_as_v6(b, &y);
	return !memcmp(&x, &y, sizeof(x));
}

bool sock_addr_is_loopback(const struct sock_addr *addr)
{
	struct in6_addr x;

	addr_as_v6(addr, &x);
	return IN6_IS_ADDR_LOOPBACK(&x) || (IN6_IS_ADDR_V4MAPPED(&x) && x.s6_addr[12] == 127);
}

int sock_local(int fd, struct sock_addr *addr)
{
	addr->len = sizeof(addr->storage);
	return getsockname(fd, (struct sockaddr *)&addr->storage, &addr->len) < 0 ? -errno : 0;
}

int sock_peer(int fd, struct sock_addr *addr)
{
	addr->len = sizeof(addr->storage);
	return getpeername(fd, (struct sockaddr *)&addr->storage, &addr->len) < 0 ? -errno : 0;
}

size_t sock_segment_bytes(int fd)
{
	int bytes = 0;
	socklen_t length = sizeof(bytes);

	if (getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &bytes, &length) < 0 || bytes < 0)
		return 0;
	return (size_t)bytes;
}

static int set_int(int fd, int level, int name, int value, const char *what, struct err *e)
{
	if (setsockopt(fd, level, name, &value, sizeof(value)) < 0)
		return err_set(e, errno, "cannot set %s to %d: %m", what, value);
	return 0;
}

static int set_device(int fd, const char *device, struct err *e)
{
	int ret;

	if (!device ||
		!setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, (socklen_t)strlen(device)))
		return 0;
	ret = err_set(e, errno, "cannot bind a connection to %s: %m", device);
	if (ret == -ENODEV)
		err_hint(e, "list the interfaces with: weir nic show");
	return ret;
}

int sock_set_before(int fd, const struct sock_options *o, struct err *e)
{
	struct linger reset = { .l_onoff = 1, .l_linger = 0 };
	int ret = 0;

	if (!ret && o->fast_open)
		ret = set_int(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1, "TCP fast open", e);
	if (!ret && o->debug)
		ret = set_int(fd, SOL_SOCKET, SO_DEBUG, 1, "SO_DEBUG", e);
	if (!ret && o->mark)
		ret = set_int(
			fd, SOL_SOCKET, SO_MARK, (int)o->mark, "the mark (needs CAP_NET_ADMIN)", e);
	if (!ret && o->reuse_address)
		ret = set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR", e);
	if (!ret && o->freebind)
		ret = set_int(fd, IPPROTO_IP, IP_FREEBIND, 1, "IP_FREEBIND", e);
	if (!ret && o->zerocopy)
		ret = set_int(fd, SOL_SOCKET, SO_ZEROCOPY, 1, "zero copy", e);
	if (!ret && o->busy_poll_us)
		ret = set_int(
			fd, SOL_SOCKET, SO_BUSY_POLL, (int)o->busy_poll_us, "busy polling", e);
	if (!ret)
		ret = set_device(fd, o->device, e);
	if (!ret && o->no_delay)
		ret = set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY", e);
	if (!ret && o->reset_on_close &&
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)) < 0)
		ret = err_set(e, errno, "cannot set SO_LINGER: %m");
	return ret;
}

int sock_set_after(int fd, const struct sock_options *o, struct err *e)
{
	int ret;

	if (o->max_pacing_rate && setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE,
					  &o->max_pacing_rate, sizeof(o->max_pacing_rate)) < 0)
		return err_set(e, errno, "cannot set the pacing rate: %m");
	if (o->congestion_control &&
		setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, o->congestion_control,
			(socklen_t)strlen(o->congestion_control)) < 0) {
		ret = err_set(e, errno, "--congestion-control %s: this kernel does not take it: %m",
			o->congestion_control);
		err_hint(e, "see /proc/sys/net/ipv4/tcp_available_congestion_control");
		return ret;
	}
	if (o->tx_delay_us)
		return set_int(fd, IPPROTO_TCP, TCP_TX_DELAY, (int)o->tx_delay_us,
			"the transmit delay", e);
	return 0;
}

int sock_try_options(const struct sock_options *options, struct err *e)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), ret;

	if (fd < 0 && errno == EAFNOSUPPORT)
		fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(e, errno, "cannot make a socket: %m");
	ret = sock_set_before(fd, options, e);
	if (!ret)
		ret = sock_set_after(fd, options, e);
	close(fd);
	return ret;
}

/* What to do where the kernel does not give an address or its port; option names the port, or is NULL. */
static void address_hint(int code, const struct sock_addr *addr, const char *option, struct err *e)
{
	char text[SOCK_ADDR_TEXT];

	if (code == -EADDRINUSE)
		err_hint(e,
			"another program has this port: ss -tlnp shows which; choose another port%s%s",
			option ? " with " : "", option ? option : "");
	else if (code == -EADDRNOTAVAIL)
		err_hint(e, "is %s an address of this host? ip address show lists them",
			sock_addr_text(addr, false, text));
	else if (code == -EACCES && sock_addr_port(addr) && sock_addr_port(addr) < 1024)
		err_hint(e, "a port below 1024 needs CAP_NET_BIND_SERVICE: choose another%s%s",
			option ? " with " : "", option ? option : "");
}

int sock_listen(const struct sock_addr *addr, const struct sock_listen *how, struct err *e)
{
	char text[SOCK_ADDR_TEXT];
	int fd, ret;

	fd = socket(addr->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(e, errno, "cannot make a socket: %m");
	ret = set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR", e);
	if (!ret && how->share_port)
		ret = set_int(fd, SOL_SOCKET, SO_REUSEPORT, 1, "SO_REUSEPORT", e);
	if (!ret && how->freebind)
		ret = set_int(fd, IPPROTO_IP, IP_FREEBIND, 1, "IP_FREEBIND", e);
	if (!ret)
		ret = set_device(fd, how->device, e);
	if (ret)
		goto close_fd;
	if (bind(fd, (const struct sockaddr *)&addr->storage, addr->len) < 0 ||
		listen(fd, how->backlog) < 0) {
		ret = err_set(
			e, errno, "cannot listen on %s: %m", sock_addr_text(addr, true, text));
		address_hint(ret, addr, how->port_option, e);
		goto close_fd;
	}
	return fd;

close_fd:
	close(fd);
	return ret;
}

int sock_connect_start(const struct sock_addr *addr, const struct sock_addr *local,
	const struct sock_options *options, struct err *e)
{
	char text[SOCK_ADDR_TEXT];
	int fd, ret;

	fd = socket(addr->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(e, errno, "cannot make a socket: %m");
	ret = options ? sock_set_before(fd, options, e) : 0;
	if (ret)
		goto close_fd;
	if (local) {
		/* Leave the port to connect(), which knows the whole four-tuple: ports do not run
		 * out. */
		if (!sock_addr_port(local))
			set_int(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1, "late port choice",
				NULL);
		if (bind(fd, (const struct sockaddr *)&local->storage, local->len) < 0) {
			ret = err_set(e, errno, "cannot bind to %s: %m",
				sock_addr_text(local, true, text));
			address_hint(ret, local, NULL, e);
			goto close_fd;
		}
	}
	if (connect(fd, (const struct sockaddr *)&addr->storage, addr->len) < 0 &&
		errno != EINPROGRESS) {
		ret = err_set(
			e, errno, "cannot connect to %s: %m", sock_addr_text(addr, true, text));
		goto close_fd;
	}
	return fd;

close_fd:
	close(fd);
	return ret;
}

int sock_connect_wait(int fd, const struct sock_addr *addr, uint64_t deadline_ns, struct err *e)
{
	char text[SOCK_ADDR_TEXT];
	socklen_t len = sizeof(int);
	int ret, why = 0;

	ret = sock_wait(fd, POLLOUT, -1, deadline_ns);
	if (ret < 0)
		return err_set(e, -ret, "cannot connect to %s: %s",
			sock_addr_text(addr, true, text), strerror(-ret));
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len) < 0)
		why = errno;
	if (why)
		return err_set(e, why, "cannot connect to %s: %s", sock_addr_text(addr, true, text),
			strerror(why));
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	return 0;
}

int sock_connect(const struct sock_addr *addr, const struct sock_addr *local,
	const struct sock_options *options, uint64_t deadline_ns, struct err *e)
{
	int fd, ret;

	fd = sock_connect_start(addr, local, options, e);
	if (fd < 0)
		return fd;
	ret = sock_connect_wait(fd, addr, deadline_ns, e);
	if (!ret && options)
		ret = sock_set_after(fd, options, e);
	if (ret) {
		close(fd);
		return ret;
	}
	return fd;
}

int sock_wait(int fd, short events, int second, uint64_t deadline_ns)
{
	struct pollfd set[2] = { { .fd = fd, .events = events },
		{ .fd = second, .events = POLLIN } };

	for (;;) {
		uint64_t now_ns = clock_ns();
		uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
		struct timespec left = { .tv_sec = (time_t)(left_ns / NS_PER_S),
			.tv_nsec = (long)(left_ns % NS_PER_S) };
		int ret = ppoll(set, second < 0 ? 1 : 2, &left, NULL);

		if (ret > 0)
			return set[0].revents ? 1 : 2;
		if (ret == 0)
			return -ETIMEDOUT;
		if (errno != EINTR)
			return -errno;
	}
}

int sock_send_all(int fd, const void *data, size_t length, uint64_t deadline_ns, struct err *e)
{
	const char *next = data;

	while (length) {
		ssize_t n = send(fd, next, length, MSG_DONTWAIT | MSG_NOSIGNAL);
		int ret;

		if (n >= 0) {
			next += n;
			length -= (size_t)n;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return err_set(e, errno, "the peer closed the connection: %m");
		ret = sock_wait(fd, POLLOUT, -1, deadline_ns);
		if (ret < 0)
			return err_set(e, -ret, "the peer does not read: %s", strerror(-ret));
	}
	return 0;
}

int sock_recv_all(
	int fd, void *data, size_t length, uint64_t deadline_ns, size_t *received, struct err *e)
{
	size_t have = 0;
	int ret = 0;

	while (have < length && !ret) {
		ssize_t n = recv(fd, (char *)data + have, length - have, MSG_DONTWAIT);

		if (n > 0)
			have += (size_t)n;
		else if (n == 0)
			ret = err_set(e, EPIPE, "the peer closed the connection");
		else if (errno == EAGAIN)
			ret = sock_wait(fd, POLLIN, -1, deadline_ns);
		else if (errno != EINTR)
			ret = err_set(e, errno, "the connection broke: %m");
		if (ret == -ETIMEDOUT)
			err_set(e, ETIMEDOUT, "the peer did not answer in time");
		else if (ret > 0)
			ret = 0;
	}
	if (received)
		*received = have;
	return ret;
}
