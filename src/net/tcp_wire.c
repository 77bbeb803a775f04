// SPDX-License-Identifier: BSD-3-Clause
#include "net/tcp_wire.h"

#include <endian.h>
#include <netinet/in.h>
#include <string.h>

#define HANDLE_MAGIC 0x52494557u /* "WEIR" */
#define HELLO_MAGIC  0x4f4c4548u /* "HELO" */
#define HEADER_MAGIC 0x5257u	 /* "WR" */

/* Where things stand in a handle; the rest is zero. */
enum {
	HANDLE_VERSION = 4,
	HANDLE_LANES = 6,
	HANDLE_FAMILY = 7, /* 4 or 6 */
	HANDLE_PORT = 8,   /* as on the network */
	HANDLE_APART = 10, /* 0 or 1 */
	HANDLE_SCOPE = 12,
	HANDLE_ADDRESS = 16,
	HANDLE_TOKEN = 32,
	HANDLE_ZERO = 48,
	HANDLE_ATTEMPT = 120,
};

static void put_u16(unsigned char *to, uint16_t value)
{
	value = htole16(value);
	memcpy(to, &value, sizeof(value));
}

static void put_u32(unsigned char *to, uint32_t value)
{
	value = htole32(value);
	memcpy(to, &value, sizeof(value));
}

static void put_u64(unsigned char *to, uint64_t value)
{
	value = htole64(value);
	memcpy(to, &value, sizeof(value));
}

static uint16_t get_u16(const unsigned char *from)
{
	uint16_t value;

	memcpy(&value, from, sizeof(value));
	return le16toh(value);
}

static uint32_t get_u32(const unsigned char *from)
{
	uint32_t value;

	memcpy(&value, from, sizeof(value));
	return le32toh(value);
}

static uint64_t get_u64(const unsigned char *from)
{
	uint64_t value;

	memcpy(&value, from, sizeof(value));
	return le64toh(value);
}

void tcp_handle_write(unsigned char out[NET_HANDLE_BYTES], const struct tcp_handle *h)
{
	const struct sockaddr_in6 *in6 = (const void *)&h->addr.storage;
	const struct sockaddr_in *in4 = (const void *)&h->addr.storage;
	bool v6 = h->addr.storage.ss_family == AF_INET6;

	memset(out, 0, NET_HANDLE_BYTES);
	put_u32(out, HANDLE_MAGIC);
	put_u16(out + HANDLE_VERSION, TCP_VERSION);
	out[HANDLE_LANES] = (unsigned char)h->lanes;
	out[HANDLE_FAMILY] = v6 ? 6 : 4;
	out[HANDLE_APART] = h->apart;
	memcpy(out + HANDLE_PORT, v6 ? &in6->sin6_port : &in4->sin_port, 2);
	if (v6) {
		put_u32(out + HANDLE_SCOPE, in6->sin6_scope_id);
		memcpy(out + HANDLE_ADDRESS, &in6->sin6_addr, 16);
	} else {
		memcpy(out + HANDLE_ADDRESS, &in4->sin_addr, 4);
	}
	memcpy(out + HANDLE_TOKEN, h->token, TCP_TOKEN_BYTES);
	put_u64(out + HANDLE_ATTEMPT, h->attempt);
}

void tcp_handle_set_attempt(unsigned char out[NET_HANDLE_BYTES], uint64_t attempt)
{
	put_u64(out + HANDLE_ATTEMPT, attempt);
}

static void read_address(struct sock_addr *addr, const unsigned char *in)
{
	struct sockaddr_in6 *in6 = (void *)&addr->storage;
	struct sockaddr_in *in4 = (void *)&addr->storage;

	memset(addr, 0, sizeof(*addr));
	if (in[HANDLE_FAMILY] == 6) {
		in6->sin6_family = AF_INET6;
		memcpy(&in6->sin6_port, in + HANDLE_PORT, 2);
		memcpy(&in6->sin6_addr, in + HANDLE_ADDRESS, 16);
		in6->sin6_scope_id = get_u32(in + HANDLE_SCOPE);
		addr->len = sizeof(*in6);
	} else {
		in4->sin_family = AF_INET;
		memcpy(&in4->sin_port, in + HANDLE_PORT, 2);
		memcpy(&in4->sin_addr, in + HANDLE_ADDRESS, 4);
		addr->len = sizeof(*in4);
	}
}

int tcp_handle_read(struct tcp_handle *h, const unsigned char in[NET_HANDLE_BYTES], struct err *e)
{
	unsigned int version = get_u16(in + HANDLE_VERSION), zero = 0;

	if (get_u32(in) != HANDLE_MAGIC) {
		err_set(e, EINVAL, "these bytes are not a handle of weir's transport");
		return err_hint(e, "both ends must use the same transport");
	}
	if (version != TCP_VERSION) {
		err_set(e, EPROTONOSUPPORT,
			"the listener speaks version %u of weir's transport, this end version %d",
			version, TCP_VERSION);
		return err_hint(e, "install the same weir on both hosts");
	}
	for (int i = HANDLE_ZERO; i < HANDLE_ATTEMPT; i++)
		zero |= in[i];
	if (zero || in[HANDLE_APART] > 1 || (in[HANDLE_FAMILY] != 4 && in[HANDLE_FAMILY] != 6) ||
		!in[HANDLE_LANES] || in[HANDLE_LANES] > TCP_LANES_MAX || !get_u16(in + HANDLE_PORT))
		return err_set(e, EINVAL, "the handle of weir's transport is damaged");
	read_address(&h->addr, in);
	memcpy(h->token, in + HANDLE_TOKEN, TCP_TOKEN_BYTES);
	h->lanes = in[HANDLE_LANES];
	h->apart = in[HANDLE_APART] == 1;
	h->attempt = get_u64(in + HANDLE_ATTEMPT);
	return 0;
}

void tcp_hello_write(unsigned char out[TCP_HELLO_BYTES], const struct tcp_hello *h)
{
	memset(out, 0, TCP_HELLO_BYTES);
	put_u32(out, HELLO_MAGIC);
	put_u16(out + 4, TCP_VERSION);
	out[6] = (unsigned char)h->index;
	out[7] = (unsigned char)h->lanes;
	memcpy(out + 8, h->token, TCP_TOKEN_BYTES);
	put_u64(out + 24, h->comm);
	put_u64(out + 32, h->apart);
}

int tcp_hello_read(struct tcp_hello *h, const unsigned char in[TCP_HELLO_BYTES], struct err *e)
{
	uint64_t apart = get_u64(in + 32);

	if (get_u32(in) != HELLO_MAGIC || apart > 1)
		return err_set(e, EPROTO, "a connection does not speak weir's transport");
	if (get_u16(in + 4) != TCP_VERSION)
		return err_set(e, EPROTONOSUPPORT,
			"a connection speaks version %u of weir's transport, not %d",
			get_u16(in + 4), TCP_VERSION);
	if (!in[7] || in[7] > TCP_LANES_MAX || in[6] > in[7] * (1 + apart))
		return err_set(e, EPROTO, "a connection says it is number %u of %u", in[6], in[7]);
	h->index = in[6];
	h->lanes = in[7];
	h->apart = apart;
	memcpy(h->token, in + 8, TCP_TOKEN_BYTES);
	h->comm = get_u64(in + 24);
	return 0;
}

void tcp_header_write(unsigned char out[TCP_HEADER_BYTES], const struct tcp_header *h)
{
	put_u16(out, HEADER_MAGIC);
	put_u16(out + 2, (uint16_t)h->kind);
	put_u32(out + 4, h->seq);
	put_u32(out + 8, h->total);
	put_u32(out + 12, h->offset);
	put_u32(out + 16, h->length);
	/* Two ends that lost step read payload as a header: make that unlikely to pass. */
	put_u32(out + 20, ~(h->seq ^ h->total ^ h->offset ^ h->length));
}

int tcp_header_read(struct tcp_header *h, const unsigned char in[TCP_HEADER_BYTES], struct err *e)
{
	unsigned int kind = get_u16(in + 2);

	*h = (struct tcp_header){ (enum tcp_kind)kind, get_u32(in + 4), get_u32(in + 8),
		get_u32(in + 12), get_u32(in + 16) };
	if (get_u16(in) != HEADER_MAGIC ||
		get_u32(in + 20) != ~(h->seq ^ h->total ^ h->offset ^ h->length))
		return err_set(e, EPROTO, "the peer sent what is no header of a message");
	if (h->total > NET_MESSAGE_MAX)
		return err_set(e, EPROTO, "the peer announced a message of %u bytes", h->total);
	if (kind == TCP_SHORT && !h->offset && h->length == h->total && h->total <= TCP_SHORT_BYTES)
		return 0;
	if (kind == TCP_SLICE && h->length && h->offset < h->total &&
		h->length <= h->total - h->offset)
		return 0;
	if (kind == TCP_BYE && !h->total && !h->offset && !h->length)
		return 0;
	return err_set(e, EPROTO, "the peer sent a header that cannot be: kind %u, %u+%u of %u",
		kind, h->offset, h->length, h->total);
}
