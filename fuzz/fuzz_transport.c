// SPDX-License-Identifier: BSD-3-Clause
/* What a peer of the transport sends: a handle, the opening of a connection, the header of a message. What
 * is accepted can be true, and says the same when it is written again. */
#include "fuzz.h"
#include "net/tcp_wire.h"

static void try_handle(const uint8_t *data, size_t size)
{
	unsigned char exact[NET_HANDLE_BYTES], again[NET_HANDLE_BYTES];
	struct tcp_handle h, second;

	if (size < sizeof(exact))
		return;
	memcpy(exact, data, sizeof(exact));
	memset(&h, 0, sizeof(h)); /* what lies between the members is compared, too */
	memset(&second, 0, sizeof(second));
	if (tcp_handle_read(&h, exact, NULL))
		return;
	MUST(h.lanes >= 1 && h.lanes <= TCP_LANES_MAX);
	MUST(h.addr.len <= sizeof(h.addr.storage));
	tcp_handle_write(again, &h);
	MUST(!tcp_handle_read(&second, again, NULL));
	MUST(!memcmp(&h, &second, sizeof(h)));
	tcp_handle_set_attempt(again, 5);
	MUST(!tcp_handle_read(&second, again, NULL) && second.attempt == 5);
}

static void try_hello(const uint8_t *data, size_t size)
{
	unsigned char exact[TCP_HELLO_BYTES], again[TCP_HELLO_BYTES];
	struct tcp_hello h;

	if (size < sizeof(exact))
		return;
	memcpy(exact, data, sizeof(exact));
	if (tcp_hello_read(&h, exact, NULL))
		return;
	MUST(h.lanes >= 1 && h.lanes <= TCP_LANES_MAX && h.index >= 0 &&
		h.index <= h.lanes * (h.apart ? 2 : 1));
	tcp_hello_write(again, &h);
	MUST(!memcmp(exact, again, sizeof(exact)));
}

static void try_header(const uint8_t *data, size_t size)
{
	unsigned char exact[TCP_HEADER_BYTES], again[TCP_HEADER_BYTES];
	struct tcp_header h;

	if (size < sizeof(exact))
		return;
	memcpy(exact, data, sizeof(exact));
	/* The fuzzer does not guess the check word: the rest is what it is for. */
	for (int i = 0; i < 4; i++)
		exact[20 + i] = (unsigned char)~(
			exact[4 + i] ^ exact[8 + i] ^ exact[12 + i] ^ exact[16 + i]);
	if (tcp_header_read(&h, exact, NULL))
		return;
	MUST(h.total <= NET_MESSAGE_MAX);
	MUST((uint64_t)h.offset + h.length <= h.total);
	MUST(h.kind != TCP_SHORT || h.length <= TCP_SHORT_BYTES);
	tcp_header_write(again, &h);
	MUST(!memcmp(exact, again, sizeof(exact)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_handle(data, size);
	try_hello(data, size);
	try_header(data, size);
	return 0;
}
