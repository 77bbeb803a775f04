// SPDX-License-Identifier: BSD-3-Clause
#include "flow/wire.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "net/sock.h"

/* tcp_crr has no secret in neper: 32 zero bytes. */
const char neper_secret[WORKLOADS][32] = {
	[WORKLOAD_STREAM] = "neper tcp_stream 201703241300",
	[WORKLOAD_RR] = "neper tcp_rr 201703241250",
};

static void put32(uint8_t *at, uint32_t value)
{
	value = htobe32(value);
	memcpy(at, &value, sizeof(value));
}

static void put64(uint8_t *at, uint64_t value)
{
	value = htobe64(value);
	memcpy(at, &value, sizeof(value));
}

static uint32_t get32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return be32toh(value);
}

static uint64_t get64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return be64toh(value);
}

void neper_encode(const struct neper_message *m, uint8_t bytes[NEPER_BYTES])
{
	memcpy(bytes, m->secret, sizeof(m->secret));
	put32(bytes + 32, (uint32_t)m->magic);
	put32(bytes + 36, m->type);
	put32(bytes + 40, m->num_threads);
	put32(bytes + 44, m->num_flows);
	put32(bytes + 48, (uint32_t)m->test_length);
	put32(bytes + 52, m->client_number);
	put64(bytes + 56, m->max_pacing_rate);
	put64(bytes + 64, m->remote_rate);
}

void neper_decode(const uint8_t bytes[NEPER_BYTES], struct neper_message *m)
{
	memcpy(m->secret, bytes, sizeof(m->secret));
	m->magic = (int32_t)get32(bytes + 32);
	m->type = get32(bytes + 36);
	m->num_threads = get32(bytes + 40);
	m->num_flows = get32(bytes + 44);
	m->test_length = (int32_t)get32(bytes + 48);
	m->client_number = get32(bytes + 52);
	m->max_pacing_rate = get64(bytes + 56);
	m->remote_rate = get64(bytes + 64);
}

int neper_send(int fd, const struct neper_message *m, uint64_t deadline_ns, struct err *e)
{
	uint8_t bytes[NEPER_BYTES];

	neper_encode(m, bytes);
	return sock_send_all(fd, bytes, sizeof(bytes), deadline_ns, e);
}

int neper_recv(int fd, struct neper_message *m, uint64_t deadline_ns, struct err *e)
{
	uint8_t bytes[NEPER_BYTES];
	size_t have;
	int ret;

	ret = sock_recv_all(fd, bytes, sizeof(bytes), deadline_ns, &have, e);
	if (ret && have)
		return err_set(e, EPROTO, "the peer sent %zu of the %d bytes of a control message",
			have, NEPER_BYTES);
	if (!ret)
		neper_decode(bytes, m);
	return ret;
}

int wire_send(int fd, enum wire_type type, const char *body, size_t length, uint64_t deadline_ns,
	struct err *e)
{
	uint8_t head[8];
	int ret;

	if (length > WIRE_BODY_MAX)
		return err_set(e, EMSGSIZE, "a control message of %zu bytes is too long", length);
	put32(head, (uint32_t)length);
	put32(head + 4, type);
	ret = sock_send_all(fd, head, sizeof(head), deadline_ns, e);
	if (!ret && length)
		ret = sock_send_all(fd, body, length, deadline_ns, e);
	return ret;
}

int wire_recv(int fd, struct wire_message *m, uint64_t deadline_ns, struct err *e)
{
	uint8_t head[8];
	uint32_t type;
	int ret;

	m->body = NULL;
	ret = sock_recv_all(fd, head, sizeof(head), deadline_ns, NULL, e);
	if (ret)
		return ret;
	m->length = get32(head);
	type = get32(head + 4);
	if (type < WIRE_REQUEST || type > WIRE_ABORT || m->length > WIRE_BODY_MAX)
		return err_set(e, EPROTO,
			"the peer sent a control message of type %u and %zu bytes, which is not weir's",
			type, m->length);
	m->type = (enum wire_type)type;
	m->body = malloc(m->length + 1);
	if (!m->body)
		return err_set(
			e, ENOMEM, "no memory for a control message of %zu bytes", m->length);
	ret = sock_recv_all(fd, m->body, m->length, deadline_ns, NULL, e);
	if (ret) {
		wire_free(m);
		return ret;
	}
	m->body[m->length] = 0;
	return 0;
}

void wire_free(struct wire_message *m)
{
	free(m->body);
	m->body = NULL;
}

static const uint8_t preamble_magic[8] = { 0xf7, 'w', 'e', 'i', 'r', 'f', 'l', 1 };

void wire_preamble_encode(const struct wire_preamble *p, uint8_t bytes[WIRE_PREAMBLE_BYTES])
{
	memset(bytes, 0, WIRE_PREAMBLE_BYTES);
	memcpy(bytes, preamble_magic, sizeof(preamble_magic));
	memcpy(bytes + 8, p->token, WIRE_TOKEN_BYTES);
	put32(bytes + 24, p->flow);
}

int wire_preamble_decode(const uint8_t *bytes, size_t length, struct wire_preamble *p)
{
	size_t compare = length < sizeof(preamble_magic) ? length : sizeof(preamble_magic);

	if (memcmp(bytes, preamble_magic, compare))
		return -EPROTO;
	if (length < WIRE_PREAMBLE_BYTES)
		return -EAGAIN;
	memcpy(p->token, bytes + 8, WIRE_TOKEN_BYTES);
	p->flow = get32(bytes + 24);
	return 0;
}

int wire_token_make(uint8_t token[WIRE_TOKEN_BYTES], struct err *e)
{
	if (getrandom(token, WIRE_TOKEN_BYTES, 0) != WIRE_TOKEN_BYTES)
		return err_set(e, EIO, "the kernel gave no random bytes");
	return 0;
}

void wire_token_text(const uint8_t token[WIRE_TOKEN_BYTES], char text[2 * WIRE_TOKEN_BYTES + 1])
{
	for (int i = 0; i < WIRE_TOKEN_BYTES; i++)
		snprintf(text + 2 * (size_t)i, 3, "%02x", token[i]);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int wire_token_parse(const char *text, uint8_t token[WIRE_TOKEN_BYTES])
{
	for (size_t i = 0; i < WIRE_TOKEN_BYTES; i++) {
		int high = hex_digit(text[2 * i]);
		int low = high < 0 ? -1 : hex_digit(text[2 * i + 1]);

		if (low < 0)
			return -EPROTO;
		token[i] = (uint8_t)(high << 4 | low);
	}
	return text[(size_t)2 * WIRE_TOKEN_BYTES] ? -EPROTO : 0;
}
