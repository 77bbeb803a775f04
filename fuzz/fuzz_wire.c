/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes of a control connection and of the opening of a data connection. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "flow/wire.h"
#include "fuzz.h"

static void try_neper(const uint8_t *data, size_t size)
{
	uint8_t *exact, again[NEPER_BYTES];
	struct neper_message m;

	if (size < NEPER_BYTES)
		return;
	exact = malloc(NEPER_BYTES);
	MUST(exact);
	memcpy(exact, data, NEPER_BYTES);
	neper_decode(exact, &m);
	neper_encode(&m, again);
	MUST(!memcmp(exact, again, NEPER_BYTES));
	free(exact);
}

static void try_preamble(const uint8_t *data, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1), again[WIRE_PREAMBLE_BYTES];
	struct wire_preamble p;
	int ret;

	MUST(exact);
	if (size)
		memcpy(exact, data, size);
	ret = wire_preamble_decode(exact, size, &p);
	MUST(ret == 0 || ret == -EAGAIN || ret == -EPROTO);
	MUST(ret != -EAGAIN || size < WIRE_PREAMBLE_BYTES);
	if (!ret) {
		wire_preamble_encode(&p, again);
		MUST(!memcmp(exact, again, 28)); /* the rest is for later versions */
	}
	free(exact);
}

static void try_token(const uint8_t *data, size_t size)
{
	char *text = fuzz_string(data, size), again[2 * WIRE_TOKEN_BYTES + 1];
	uint8_t token[WIRE_TOKEN_BYTES];

	if (!wire_token_parse(text, token)) {
		wire_token_text(token, again);
		MUST(!strcmp(text, again));
	}
	free(text);
}

/* The bytes as a peer would send them before it hangs up. */
static void try_messages(const uint8_t *data, size_t size)
{
	struct wire_message m;
	struct err e = { 0 };
	int fd[2], ret;

	MUST(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd));
	if (size > 65536)
		size = 65536;
	MUST(send(fd[1], data, size, MSG_DONTWAIT) == (ssize_t)size);
	shutdown(fd[1], SHUT_WR);
	for (;;) {
		ret = wire_recv(fd[0], &m, clock_ns() + NS_PER_S, &e);
		if (ret)
			break;
		MUST(m.type >= WIRE_REQUEST && m.type <= WIRE_ABORT);
		MUST(m.length <= size && !m.body[m.length]);
		wire_free(&m);
	}
	MUST(ret < 0 && e.code == -ret && e.what[0] && !m.body);
	close(fd[0]);
	close(fd[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_neper(data, size);
	try_preamble(data, size);
	try_token(data, size);
	try_messages(data, size);
	return 0;
}
