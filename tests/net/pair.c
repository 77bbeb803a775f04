/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "pair.h"

int pair_listen(int family, struct sock_addr *addr)
{
	struct sock_listen how = { .backlog = 16 };
	struct sock_addr list[SOCK_ADDRS];
	struct err e;
	size_t count;
	int fd;

	if (sock_resolve(
		    family == AF_INET6 ? "::1" : "127.0.0.1", "0", family, true, list, &count, &e))
		fail_msg("%s", e.what);
	fd = sock_listen(&list[0], &how, &e);
	if (fd < 0)
		fail_msg("%s", e.what);
	assert_int_equal(sock_local(fd, addr), 0);
	return fd;
}

void pair_open(struct pair *p, int family, const struct sock_options *options)
{
	struct sock_addr addr;
	int listener = pair_listen(family, &addr);
	struct err e;

	p->client = sock_connect(&addr, NULL, options, clock_ns() + 5 * NS_PER_S, &e);
	if (p->client < 0)
		fail_msg("%s", e.what);
	p->server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(p->server >= 0);
	close(listener);
}

void pair_close(struct pair *p)
{
	if (p->client >= 0)
		close(p->client);
	if (p->server >= 0)
		close(p->server);
}

int descriptors_open(void)
{
	int count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}
