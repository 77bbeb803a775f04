/* SPDX-License-Identifier: BSD-3-Clause */
/* errors, second half: sendmsg, recvmsg, DONTNEED and what happens to data under faults. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "errors.h"

#define ETOOSMALL 525 /* the kernel's own: it should never get here, but recvmsg lets it out */

enum { PORT = 7000, CONTROL_BYTES = 1 << 17 };

static int listener, sender, receiver;

static int tcp_listen(uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	int sock = socket(AF_INET, SOCK_STREAM, 0);

	must("bind", bind(sock, (struct sockaddr *)&address, sizeof(address)) ? -errno : 0);
	must("listen", listen(sock, 4) ? -errno : 0);
	return sock;
}

static int inet_connect(int type, const char *to, uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	int sock = socket(AF_INET, type, 0);

	inet_pton(AF_INET, to, &address.sin_addr);
	must("connect", connect(sock, (struct sockaddr *)&address, sizeof(address)) ? -errno : 0);
	return sock;
}

static void allow_zerocopy(int sock)
{
	int one = 1;

	must("SO_ZEROCOPY",
		setsockopt(sock, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)) ? -errno : 0);
}

static int queued_bytes(void)
{
	int bytes = 0;

	must("SIOCINQ", ioctl(receiver, SIOCINQ, &bytes) ? -errno : 0);
	return bytes;
}

/* Sends from device memory where the kernel can, and waits until all of it has arrived. */
static void give(size_t bytes)
{
	int wanted = queued_bytes() + (int)bytes;
	ssize_t sent;

	if (lab.has_tx) {
		sent = send_devmem(sender, lab.tx_id, 0, bytes, MSG_ZEROCOPY);
	} else {
		sent = send(sender, lab.tx.memory, bytes, 0);
		sent = sent < 0 ? -errno : sent;
	}
	must("send", sent == (ssize_t)bytes ? 0 : sent < 0 ? sent : -EIO);
	for (int i = 0; i < 500 && queued_bytes() < wanted; i++)
		pause_ms(20);
	must("arrive", queued_bytes() < wanted ? -ETIMEDOUT : 0);
}

struct received {
	long result;
	size_t control;	  /* bytes of control messages */
	size_t fragments; /* in device memory */
	size_t linear;	  /* cmsgs that say: in your buffer */
	bool truncated;
};

static struct received take(int flags, size_t bytes, size_t control)
{
	static char host[1 << 20];
	static char messages[CONTROL_BYTES];
	struct iovec vector = { host, bytes };
	struct msghdr m = {
		.msg_iov = &vector,
		.msg_iovlen = 1,
		.msg_control = control ? messages : NULL,
		.msg_controllen = control,
	};
	struct received r = { 0 };

	r.result = recvmsg(receiver, &m, flags | MSG_DONTWAIT);
	if (r.result < 0) {
		r.result = -errno;
		return r;
	}
	r.control = m.msg_controllen;
	r.truncated = m.msg_flags & MSG_CTRUNC;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		r.fragments += c->cmsg_type == LAB_SO_DEVMEM_DMABUF;
		r.linear += c->cmsg_type == LAB_SO_DEVMEM_LINEAR;
	}
	return r;
}

static struct received take_devmem(void)
{
	return take(LAB_MSG_SOCK_DEVMEM, 1 << 20, CONTROL_BYTES);
}

static long dontneed(int sock, const struct lab_token *tokens, size_t bytes)
{
	int freed = setsockopt(sock, SOL_SOCKET, LAB_SO_DEVMEM_DONTNEED, tokens, bytes);

	return freed < 0 ? -errno : freed;
}

/* Gives back whatever is out; returns how many fragments that were. */
static long dontneed_all(void)
{
	long freed = 0;

	for (uint32_t start = 0; start < 16384; start += 1024) {
		struct lab_token token = { start, 1024 };
		long n = dontneed(receiver, &token, sizeof(token));

		freed += n > 0 ? n : 0;
	}
	return freed;
}

static void drain(void)
{
	unsigned int copied = 0;

	while (take_devmem().result > 0)
		;
	dontneed_all();
	completions_reap(sender, &copied);
}

static void open_connection(void)
{
	enter(lab.far_ns);
	must("steer to queue 2", steer_port("lab1", PORT, 2));
	listener = tcp_listen(PORT);
	enter(lab.near_ns);
	sender = inet_connect(SOCK_STREAM, "10.9.0.2", PORT);
	receiver = must("accept", accept(listener, NULL, NULL));
}

static void other_socket_cases(void)
{
	int other = tcp_listen(PORT + 1), sock = inet_connect(SOCK_STREAM, "127.0.0.1", PORT + 1);
	struct lab_token token = { 0, 1 };

	allow_zerocopy(sock);
	expect("sendmsg, the route leaves by another device",
		send_devmem(sock, lab.tx_id, 0, PAGE, MSG_ZEROCOPY), by_kernel(-ENODEV, -EINVAL),
		NULL);
	close(sock);
	close(other);

	sock = socket(AF_INET, SOCK_STREAM, 0);
	allow_zerocopy(sock);
	expect("sendmsg, not connected", send_devmem(sock, lab.tx_id, 0, PAGE, MSG_ZEROCOPY),
		by_kernel(-ENODEV, -EPIPE), NULL);
	close(sock);

	sock = inet_connect(SOCK_DGRAM, "10.9.0.2", 9);
	allow_zerocopy(sock);
	expect("sendmsg, on UDP", send_devmem(sock, lab.tx_id, PAGE, 1024, MSG_ZEROCOPY),
		by_kernel(-EFAULT, -EINVAL), NULL);
	expect("DONTNEED, on UDP", dontneed(sock, &token, sizeof(token)), -EBADF, NULL);
	close(sock);
}

static void send_case(
	const char *name, uint32_t id, size_t offset, size_t bytes, int flags, long wanted)
{
	expect(name, send_devmem(sender, id, offset, bytes, flags), by_kernel(wanted, -EINVAL),
		NULL);
}

static void send_cases(void)
{
	struct iovec pieces[3] = { { (void *)0, 100 }, { (void *)8191, 3 },
		{ (void *)100000, 5000 } };
	struct iovec small[1024];
	unsigned int done = 0, copied = 0;
	long sent;

	send_case("sendmsg, SO_ZEROCOPY not set", lab.tx_id, 0, PAGE, MSG_ZEROCOPY, -EINVAL);
	allow_zerocopy(sender);
	send_case("sendmsg, without MSG_ZEROCOPY", lab.tx_id, 0, PAGE, 0, -EINVAL);
	send_case("sendmsg, unknown id", 4242, 0, PAGE, MSG_ZEROCOPY, -EINVAL);
	send_case("sendmsg, id 0", 0, 0, PAGE, MSG_ZEROCOPY, -EFAULT);
	send_case("sendmsg, id of an RX binding", lab.rx_id, 0, PAGE, MSG_ZEROCOPY, -EINVAL);
	send_case("sendmsg, offset beyond the dma-buf", lab.tx_id, BUFFER_BYTES, PAGE, MSG_ZEROCOPY,
		-EFAULT);
	send_case("sendmsg, range crosses the end", lab.tx_id, BUFFER_BYTES - PAGE, 2 * PAGE,
		MSG_ZEROCOPY, -EFAULT);
	send_case("sendmsg, length 0", lab.tx_id, 0, 0, MSG_ZEROCOPY, -EINVAL);
	other_socket_cases();
	expect("sendmsg, cmsg of 8 bytes",
		send_devmem_vector(sender, lab.tx_id, 8, pieces, 3, MSG_ZEROCOPY), -EINVAL, NULL);
	expect("sendmsg, three unaligned ranges",
		send_devmem_vector(sender, lab.tx_id, 4, pieces, 3, MSG_ZEROCOPY),
		by_kernel(5103, -EINVAL), NULL);
	if (!lab.has_tx)
		return;
	for (size_t i = 0; i < 1024; i++)
		small[i] = (struct iovec){ (void *)(i * PAGE), 64 };
	sent = send_devmem_vector(sender, lab.tx_id, 4, small, 1024, MSG_ZEROCOPY | MSG_DONTWAIT);
	expect_true("sendmsg, 1024 ranges of 64 bytes are cut short", sent > 0 && sent < 1024L * 64,
		"sent", sent);
	for (int i = 0; i < 500 && done < 2; i++) {
		done += completions_reap(sender, &copied);
		pause_ms(20);
	}
	expect_true("sendmsg, both complete", done == 2 && !copied, "copied", copied);
}

static void receive_cases(void)
{
	struct received r;
	char some[1000];
	long n;

	drain();
	give(8 * PAGE);
	expect("recvmsg, without MSG_SOCK_DEVMEM", take(0, 65536, CONTROL_BYTES).result, -EFAULT,
		NULL);
	expect("recvmsg, no control buffer", take(LAB_MSG_SOCK_DEVMEM, 65536, 0).result, -ETOOSMALL,
		NULL);
	expect("recvmsg, control buffer of 16 bytes", take(LAB_MSG_SOCK_DEVMEM, 65536, 16).result,
		-ETOOSMALL, NULL);
	r = take(LAB_MSG_SOCK_DEVMEM, 65536, LAB_FRAGMENT_SPACE);
	expect_true("recvmsg, room for one fragment: a short read, no MSG_CTRUNC",
		r.result > 0 && r.result <= PAGE && r.fragments == 1 && !r.truncated, "got",
		r.result);
	r = take(LAB_MSG_SOCK_DEVMEM, 100, CONTROL_BYTES);
	expect_true("recvmsg, 100 bytes are a fragment of 100", r.result == 100 && r.fragments == 1,
		"got", r.result);
	r = take(LAB_MSG_SOCK_DEVMEM | MSG_PEEK, PAGE, CONTROL_BYTES);
	expect_true("recvmsg, MSG_PEEK hands out tokens", r.result == PAGE && r.fragments > 0,
		"fragments", r.fragments);
	n = read(receiver, some, sizeof(some));
	expect("read", n < 0 ? -errno : n, -EFAULT, NULL);
	n = recv(receiver, some, sizeof(some), MSG_TRUNC | MSG_DONTWAIT);
	expect("recv, MSG_TRUNC drops it unread", n < 0 ? -errno : n, 1000, NULL);
	drain();
	expect("recvmsg, nothing there", take_devmem().result, -EAGAIN, NULL);
}

static void token_cases(void)
{
	struct lab_token many[129] = { { 0, 0 } }, token = { 900000, 1 };
	size_t fragments;

	expect("DONTNEED, 7 bytes", dontneed(receiver, many, 7), -EINVAL, NULL);
	expect("DONTNEED, 129 tokens", dontneed(receiver, many, sizeof(many)), -EINVAL, NULL);
	expect("DONTNEED, unknown token", dontneed(receiver, &token, sizeof(token)), 0, NULL);
	give(4 * PAGE);
	fragments = take_devmem().fragments;
	expect("DONTNEED, all of them", dontneed_all(), fragments, NULL);
	expect("DONTNEED, again", dontneed_all(), 0, NULL);
}

/* A receiver that gives nothing back: all stops without an error, and goes on after DONTNEED. */
static void stall_case(void)
{
	const long pages = BUFFER_BYTES / PAGE;
	size_t got = 0, fragments = 0, more = 0;
	unsigned int copied = 0;
	struct received r;

	for (int idle = 0; idle < 20;) {
		if (lab.has_tx)
			send_devmem(sender, lab.tx_id, 0, 65536, MSG_ZEROCOPY | MSG_DONTWAIT);
		else if (send(sender, lab.tx.memory, 65536, MSG_DONTWAIT) < 0 && errno != EAGAIN)
			break;
		completions_reap(sender, &copied);
		r = take_devmem();
		if (r.result > 0) {
			got += r.result;
			fragments += r.fragments;
			idle = 0;
			continue;
		}
		pause_ms(50);
		idle++;
	}
	expect_true("tokens kept: it stalls when every page is out",
		(long)fragments <= pages && got > 0, "after fragments", fragments);
	expect("tokens kept: DONTNEED gives all back", dontneed_all(), fragments, NULL);
	for (int i = 0; i < 200 && more < 65536; i++) {
		r = take_devmem();
		more += r.result > 0 ? r.result : 0;
		dontneed_all();
		pause_ms(50);
	}
	expect_true("tokens given back: it goes on", more > 0, "bytes", more);
	pause_ms(300);
	drain();
}

static void reopen_connection(void)
{
	close(sender);
	close(receiver);
	sender = inet_connect(SOCK_STREAM, "10.9.0.2", PORT);
	receiver = must("accept", accept(listener, NULL, NULL));
	allow_zerocopy(sender);
}

/* Silent traps and broken hardware. */
static void split_fault_cases(void)
{
	struct received r;

	fault_set("nosplit_every", 1);
	give(4 * PAGE);
	r = take_devmem();
	expect_true("not split: plain bytes without a cmsg", r.result > 0 && !r.control, "bytes",
		r.result);
	drain();
	fault_set("nosplit_every", 0);

	fault_set("linear_bytes", 17);
	give(4 * PAGE);
	r = take_devmem();
	expect_true("imprecise split: linear and dma-buf cmsgs", r.linear > 0 && r.fragments > 0,
		"linear", r.linear);
	/* GRO of 6.12 puts the linear bytes among the fragments, which recvmsg then refuses. */
	expect("imprecise split: the rest", take_devmem().result, by_kernel(-EAGAIN, -ENODEV),
		NULL);
	fault_set("linear_bytes", 0);
	reopen_connection();

	fault_set("mixed_every", 1);
	give(4 * PAGE);
	take_devmem(); /* what was good before the bad fragment */
	expect("recvmsg, readable and unreadable fragments mixed", take_devmem().result, -ENODEV,
		NULL);
	fault_set("mixed_every", 0);
	reopen_connection();
}

static void unbind_cases(void)
{
	struct received r;

	give(4 * PAGE);
	close(lab.rx_netlink);
	pause_ms(200);
	r = take_devmem();
	expect_true("unbound: what had arrived stays readable", r.fragments > 0, "fragments",
		r.fragments);
	drain();
	give(4 * PAGE);
	r = take_devmem();
	expect_true("unbound: later data is plain", r.result > 0 && !r.control, "bytes", r.result);
	drain();
	close(lab.tx_netlink);
	pause_ms(100);
	if (lab.has_tx)
		send_case("sendmsg, binding closed", lab.tx_id, 0, PAGE, MSG_ZEROCOPY, -EINVAL);
}

void traffic_cases(void)
{
	open_connection();
	send_cases();
	receive_cases();
	token_cases();
	stall_case();
	split_fault_cases();
	unbind_cases();
}
