/* SPDX-License-Identifier: BSD-3-Clause */
/* devmem_faults FAR: every way in which sending, receiving and giving back device memory is refused, provoked
 * on NICs that can do it, and the words that come of it.
 *
 * Needs the two NICs of the laboratory: lab0 here (10.9.0.1), lab1 in the network namespace of the process FAR
 * (10.9.0.2); skipped without that argument. What the kernel itself answers is lab/errors.c's matter.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mem/region.h"
#include "net/devmem.h"
#include "sys/nic_bind.h"
#include "sys/nic_plan.h"
#include "sys/uapi.h"

#define BYTES	      (1 << 20)
#define PORT	      7100
#define NO_ROOM	      525 /* the kernel's own number for a control buffer that is too small */
#define GIVE_UP_TURNS 500

static int number, failed, near_ns, far_ns;
static struct nic_plan plan;
static struct region rx_memory, tx_memory;
static struct nic_binding rx_binding, tx_binding;
static bool sends; /* from device memory: 6.16 and later */
static int sender, receiver;

static void is(bool good, const char *what, const struct err *e)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++number, what);
	if (e && e->code)
		printf("# %s. %s\n", e->what, e->hint);
	fflush(stdout);
	failed += !good;
}

static void must(bool good, const char *what, const struct err *e)
{
	if (good)
		return;
	is(false, what, e);
	exit(1);
}

static void enter(int ns)
{
	must(!setns(ns, CLONE_NEWNET), "enter a network namespace", NULL);
}

static void fault(const char *name, const char *value)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/module/labnic/parameters/%s", name);
	f = fopen(path, "w");
	must(f && fputs(value, f) >= 0 && !fclose(f), path, NULL);
}

/* The row of the table: this errno, these words, this next step. */
static void explained(
	const char *what, int got, int code, bool sending, const char *words, const char *step)
{
	struct err e = { 0 };

	devmem_explain(-got, sending, &e);
	is(got == -code && strstr(e.what, words) && strstr(e.hint, step), what, &e);
}

static int tcp_connect(const char *to, uint16_t port, int *accepted, int listen_ns)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	int listener, sock;

	enter(listen_ns);
	inet_pton(AF_INET, to, &address.sin_addr);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	must(!bind(listener, (struct sockaddr *)&address, sizeof(address)) && !listen(listener, 4),
		"listen", NULL);
	enter(near_ns);
	sock = socket(AF_INET, SOCK_STREAM, 0);
	must(!connect(sock, (struct sockaddr *)&address, sizeof(address)), "connect", NULL);
	*accepted = accept(listener, NULL, NULL);
	close(listener);
	return sock;
}

static void prepare(void)
{
	struct mem_where where = { .kind = MEM_UDMABUF };
	struct err e = { 0 };
	struct cpus queue;
	int fd;

	must(!region_alloc_in(&rx_memory, &where, BYTES, &e) &&
			!region_alloc_in(&tx_memory, &where, BYTES, &e),
		"memory", &e);
	enter(far_ns);
	must(!nic_plan_open(&plan, "lab1", false, &e) &&
			!nic_plan_add(&plan, NIC_KIND_SPLIT, "", "on", &e) &&
			!nic_plan_add(&plan, NIC_KIND_RULE, "tcp4,dst-port=7100", "queue 2", &e) &&
			!nic_plan_apply(&plan, &e),
		"prepare lab1", &e);
	cpus_parse(&queue, "2", NULL);
	region_dmabuf(&rx_memory, &fd, NULL);
	must(!nic_bind_rx(&rx_binding, "lab1", &queue, fd, &e), "bind lab1", &e);
	enter(near_ns);
	region_dmabuf(&tx_memory, &fd, NULL);
	sends = !nic_bind_tx(&tx_binding, "lab0", fd, &e);
	sender = tcp_connect("10.9.0.2", PORT, &receiver, far_ns);
}

static int send_some(int sock, uint32_t id, uint64_t offset, size_t length)
{
	return (int)devmem_send(sock, id, offset, length, 0);
}

/* Linux 6.12 knows no sending: all of it is EINVAL there, in the words for that. */
static void sending(void)
{
	static const char unknown[] = "does not take the dma-buf", beyond[] = "beyond the dma-buf",
			  elsewhere[] = "leaves by another interface";
	int other, accepted;
	uint32_t id = tx_binding.id;

	explained("send, SO_ZEROCOPY not set", send_some(sender, id, 0, 4096), EINVAL, true,
		unknown, "6.16");
	setsockopt(sender, SOL_SOCKET, SO_ZEROCOPY, &(int){ 1 }, sizeof(int));
	explained("send, unknown id", send_some(sender, 4242, 0, 4096), EINVAL, true, unknown,
		"weir nic show");
	explained("send, id of a receive binding", send_some(sender, rx_binding.id, 0, 4096),
		EINVAL, true, unknown, "weir nic show");
	if (!sends)
		return;
	explained("send, offset beyond the dma-buf", send_some(sender, id, BYTES, 4096), EFAULT,
		true, beyond, "report");
	explained("send, range crosses the end", send_some(sender, id, BYTES - 4096, 8192), EFAULT,
		true, beyond, "report");
	explained("send, length 0", send_some(sender, id, 0, 0), EINVAL, true, unknown, "weir nic");
	other = tcp_connect("127.0.0.1", PORT + 1, &accepted, near_ns);
	setsockopt(other, SOL_SOCKET, SO_ZEROCOPY, &(int){ 1 }, sizeof(int));
	explained("send, the route leaves by another device", send_some(other, id, 0, 4096), ENODEV,
		true, elsewhere, "--nic");
	close(other);
	close(accepted);
	other = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(other, SOL_SOCKET, SO_ZEROCOPY, &(int){ 1 }, sizeof(int));
	explained("send, not connected", send_some(other, id, 0, 4096), ENODEV, true, elsewhere,
		"ip route get");
	close(other);
	nic_unbind(&tx_binding);
	usleep(100000);
	explained("send, binding closed", send_some(sender, id, 0, 4096), EINVAL, true, unknown,
		"still bound");
}

static void give(size_t bytes)
{
	static char data[65536];
	int there = 0;

	must(send(sender, data, bytes, 0) == (ssize_t)bytes, "send", NULL);
	for (int i = 0; i < GIVE_UP_TURNS && there < (int)bytes; i++) {
		usleep(20000);
		ioctl(receiver, FIONREAD, &there);
	}
	must(there >= (int)bytes, "arrive", NULL);
}

static void receiving(void)
{
	static char plain[65536];
	char small[16];
	struct iovec iov = { plain, sizeof(plain) };
	struct msghdr msg = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = small,
		.msg_controllen = sizeof(small) };
	struct uapi_dmabuf_token tokens[129] = { { 0, 0 } };
	struct devmem_rx rx, strange;
	struct err e = { 0 };
	ssize_t n;

	must(!devmem_rx_init(&rx, rx_binding.id, &e) &&
			!devmem_rx_init(&strange, rx_binding.id + 1000, &e),
		"receive", &e);
	give(16384);
	n = recv(receiver, plain, sizeof(plain), MSG_DONTWAIT);
	explained("receive, read as ordinary", n < 0 ? -errno : 0, EFAULT, false,
		"read as ordinary", "weir nic show");
	n = recvmsg(receiver, &msg, UAPI_MSG_SOCK_DEVMEM | MSG_DONTWAIT);
	explained("receive, no room for control messages", n < 0 ? -errno : 0, NO_ROOM, false,
		"no room for its control messages", "report");
	n = devmem_recv(&strange, receiver, plain, 4096);
	explained("receive, of another dma-buf", (int)n, EIO, false, "another dma-buf",
		"end what else uses this queue");
	n = devmem_recv(&rx, receiver, plain, sizeof(plain));
	is(n > 0 && rx.dmabuf_bytes == (uint64_t)n && rx.count, "and then all is well", NULL);
	is(!devmem_release(&rx, receiver) && !rx.tokens_held, "all is given back", NULL);
	n = setsockopt(receiver, SOL_SOCKET, UAPI_SO_DEVMEM_DONTNEED, tokens, 7);
	explained("give back, not a multiple of 8 bytes", n < 0 ? -errno : 0, EINVAL, false,
		"did not take device memory back", "report");
	n = setsockopt(receiver, SOL_SOCKET, UAPI_SO_DEVMEM_DONTNEED, tokens, sizeof(tokens));
	explained("give back, 129 tokens", n < 0 ? -errno : 0, EINVAL, false,
		"did not take device memory back", "report");
	fault("mixed_every", "1");
	give(16384);
	do
		n = devmem_recv(&rx, receiver, plain, sizeof(plain));
	while (n > 0 && !devmem_release(&rx, receiver));
	fault("mixed_every", "0");
	explained("receive, readable and unreadable in one packet", (int)n, ENODEV, false,
		"header split is broken", "--path staged");
	devmem_rx_free(&rx);
	devmem_rx_free(&strange);
}

int main(int argc, char **argv)
{
	struct err e = { 0 };
	char path[64];

	if (argc < 2) {
		printf("1..0 # SKIP needs the NICs of the laboratory\n");
		return 77;
	}
	snprintf(path, sizeof(path), "/proc/%s/ns/net", argv[1]);
	far_ns = open(path, O_RDONLY | O_CLOEXEC);
	near_ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	prepare();
	sending();
	receiving();
	close(sender);
	close(receiver);
	enter(far_ns);
	nic_unbind(&rx_binding);
	is(!nic_plan_close(&plan, &e), "the NIC is put back", &e);
	region_free(&rx_memory);
	region_free(&tx_memory);
	printf("1..%d\n", number);
	return failed != 0;
}
