// SPDX-License-Identifier: BSD-3-Clause
#include "xfer/wire.h"

#include <endian.h>
#include <limits.h>
#include <string.h>

static const uint8_t magic[8] = { 'w', 'e', 'i', 'r', 'p', '2', 'p', '\n' };

static void put32(uint8_t *to, uint32_t value)
{
	value = htole32(value);
	memcpy(to, &value, sizeof(value));
}

static void put64(uint8_t *to, uint64_t value)
{
	value = htole64(value);
	memcpy(to, &value, sizeof(value));
}

static uint32_t get32(const uint8_t *from)
{
	uint32_t value;

	memcpy(&value, from, sizeof(value));
	return le32toh(value);
}

static uint64_t get64(const uint8_t *from)
{
	uint64_t value;

	memcpy(&value, from, sizeof(value));
	return le64toh(value);
}

int xfer_token(const char *text, uint8_t token[WEIR_P2P_TOKEN_MAX], struct err *e)
{
	size_t length = text ? strlen(text) : 0;

	memset(token, 0, WEIR_P2P_TOKEN_MAX);
	if (!text)
		return 0;
	if (!length || length > WEIR_P2P_TOKEN_MAX)
		return err_set(e, EINVAL, "a token has 1 to %d bytes, this one has %zu",
			WEIR_P2P_TOKEN_MAX, length);
	memcpy(token, text, length);
	return 0;
}

/* How long it takes tells nothing about where they differ. */
static bool token_same(const uint8_t *a, const uint8_t *b)
{
	uint8_t differ = 0;

	for (int i = 0; i < WEIR_P2P_TOKEN_MAX; i++)
		differ |= a[i] ^ b[i];
	return !differ;
}

/* What a peer calls its transport is shown to people: letters of one line, nothing else. */
static void get_name(char to[XFER_NAME_BYTES + 1], const uint8_t *from)
{
	memcpy(to, from, XFER_NAME_BYTES);
	to[XFER_NAME_BYTES] = '\0';
	for (char *c = to; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}

void xfer_hello_encode(const struct xfer_hello *h, uint8_t bytes[XFER_HELLO_BYTES])
{
	memset(bytes, 0, XFER_HELLO_BYTES);
	memcpy(bytes, magic, sizeof(magic));
	put32(bytes + 8, h->version);
	put32(bytes + 12, XFER_HELLO_BYTES);
	memcpy(bytes + 16, h->token, WEIR_P2P_TOKEN_MAX);
	put32(bytes + 48, h->rank);
	put32(bytes + 52, h->peer_rank);
	put32(bytes + 56, h->channels);
	put32(bytes + 60, h->window);
	put64(bytes + 64, h->chunk_bytes);
	put32(bytes + 72, h->directions);
	memcpy(bytes + 76, h->transport, XFER_NAME_BYTES);
}

int xfer_hello_decode(const uint8_t bytes[XFER_HELLO_BYTES], struct xfer_hello *h, struct err *e)
{
	*h = (struct xfer_hello){ 0 };
	if (memcmp(bytes, magic, sizeof(magic)) != 0)
		return err_set(e, EPROTO, "what connected is not a weir p2p client");
	h->version = get32(bytes + 8);
	if (h->version != XFER_VERSION)
		return 0;
	memcpy(h->token, bytes + 16, WEIR_P2P_TOKEN_MAX);
	h->rank = get32(bytes + 48);
	h->peer_rank = get32(bytes + 52);
	h->channels = get32(bytes + 56);
	h->window = get32(bytes + 60);
	h->chunk_bytes = get64(bytes + 64);
	h->directions = get32(bytes + 72);
	get_name(h->transport, bytes + 76);
	return 0;
}

static bool figures_fit(uint32_t channels, uint32_t window, uint64_t chunk_bytes)
{
	return channels && channels <= WEIR_P2P_CHANNELS_MAX && window &&
	       window <= WEIR_P2P_WINDOW_MAX && chunk_bytes >= 4096 &&
	       chunk_bytes <= WEIR_P2P_CHUNK_MAX;
}

/* weir's plugin is weir's transport. */
static bool transport_same(const char *a, const char *b)
{
	if (!strcmp(a, "weir"))
		a = "tcp";
	if (!strcmp(b, "weir"))
		b = "tcp";
	return !*a || !*b || !strncmp(a, b, XFER_NAME_BYTES);
}

enum xfer_refusal xfer_hello_judge(
	const struct xfer_hello *h, const uint8_t *token, uint32_t rank, const char *transport)
{
	if (h->version != XFER_VERSION)
		return XFER_WRONG_VERSION;
	if (!token_same(h->token, token))
		return XFER_WRONG_TOKEN;
	if (!figures_fit(h->channels, h->window, h->chunk_bytes) ||
		!(h->directions & XFER_TO_SERVER) ||
		h->directions > (XFER_TO_SERVER | XFER_TO_CLIENT))
		return XFER_WRONG_COUNT;
	if (h->peer_rank != XFER_ANY_RANK && h->peer_rank != rank)
		return XFER_WRONG_RANK;
	if (!transport_same(h->transport, transport))
		return XFER_WRONG_TRANSPORT;
	return XFER_WELCOME;
}

void xfer_welcome_encode(const struct xfer_welcome *w, uint8_t bytes[XFER_WELCOME_BYTES])
{
	memset(bytes, 0, XFER_WELCOME_BYTES);
	memcpy(bytes, magic, sizeof(magic));
	put32(bytes + 8, w->version);
	put32(bytes + 12, w->refusal);
	put32(bytes + 16, w->channels);
	put32(bytes + 20, w->window);
	put64(bytes + 24, w->chunk_bytes);
	put32(bytes + 32, w->rank);
	memcpy(bytes + 36, w->transport, XFER_NAME_BYTES);
}

static int refused(const struct xfer_welcome *w, const struct xfer_hello *asked, struct err *e)
{
	switch (w->refusal) {
	case XFER_WRONG_TOKEN:
		err_set(e, EACCES, "the server does not know this token");
		return err_hint(e, "give both ends the same --token");
	case XFER_WRONG_COUNT:
		return err_set(e, EPROTO,
			"the server refuses %u channels with a window of %u and chunks of %llu bytes",
			asked->channels, asked->window, (unsigned long long)asked->chunk_bytes);
	case XFER_WRONG_RANK:
		err_set(e, EPROTO, "GPU %u listens there, not GPU %u", w->rank, asked->peer_rank);
		return err_hint(e, "GPU n listens on the base port + n");
	case XFER_WRONG_TRANSPORT:
		err_set(e, EPROTO, "the server moves data by %s, this end by %s", w->transport,
			asked->transport);
		return err_hint(e, "give both ends the same --plugin, or neither");
	case XFER_NO_CHANNELS:
		err_set(e, EPROTO, "the server could not open its channels");
		return err_hint(e, "its own output says why");
	default:
		return err_set(e, EPROTO, "the server refuses, for a reason (%u) unknown here",
			w->refusal);
	}
}

int xfer_welcome_decode(const uint8_t bytes[XFER_WELCOME_BYTES], const struct xfer_hello *asked,
	struct xfer_welcome *w, struct err *e)
{
	*w = (struct xfer_welcome){ 0 };
	if (memcmp(bytes, magic, sizeof(magic)) != 0)
		return err_set(e, EPROTO, "what answered is not a weir p2p server");
	w->version = get32(bytes + 8);
	w->refusal = get32(bytes + 12);
	w->channels = get32(bytes + 16);
	w->window = get32(bytes + 20);
	w->chunk_bytes = get64(bytes + 24);
	w->rank = get32(bytes + 32);
	get_name(w->transport, bytes + 36);
	if (w->version != XFER_VERSION) {
		err_set(e, EPROTO, "the server speaks version %u of the p2p protocol, this end %u",
			w->version, asked->version);
		return err_hint(e, "use the same weir at both ends");
	}
	if (w->refusal)
		return refused(w, asked, e);
	if (!figures_fit(w->channels, w->window, w->chunk_bytes))
		return err_set(e, EPROTO,
			"the server offers %u channels with a window of %u and chunks of %llu bytes: "
			"1 to %d, 1 to %d and 4 KiB to 1 GiB are possible",
			w->channels, w->window, (unsigned long long)w->chunk_bytes,
			WEIR_P2P_CHANNELS_MAX, WEIR_P2P_WINDOW_MAX);
	return 0;
}

/* Bytes of a body before its data. */
static const uint8_t head_bytes[XFER_TYPES] = {
	[XFER_BACK] = 4,
	[XFER_READY] = 0,
	[XFER_OFFER] = 48,
	[XFER_GRANT] = 16,
	[XFER_CREDIT_BACK] = 4,
	[XFER_RESULT] = 12,
	[XFER_READ] = 32,
	[XFER_NOTIFY] = 8,
	[XFER_PING] = 0,
	[XFER_PONG] = 0,
	[XFER_BYE] = 0,
};

int64_t xfer_frame_length(const uint8_t *bytes, size_t length)
{
	uint32_t body;

	if (length < XFER_FRAME_BYTES)
		return 0;
	body = get32(bytes);
	if (body > XFER_BODY_MAX || !bytes[4] || bytes[4] >= XFER_TYPES || bytes[5] || bytes[6] ||
		bytes[7] || body < head_bytes[bytes[4]])
		return -EPROTO;
	return XFER_FRAME_BYTES + (int64_t)body;
}

/* What a type has beside its figures, and how the two must fit. */
static bool data_fits(const struct xfer_frame *f)
{
	switch (f->type) {
	case XFER_BACK:
		return f->count && f->count <= WEIR_P2P_CHANNELS_MAX &&
		       f->data_bytes == (size_t)f->count * NET_HANDLE_BYTES;
	case XFER_OFFER:
		return f->kind < XFER_KINDS && (!f->data_bytes || f->data_bytes == f->bytes);
	case XFER_GRANT:
		return f->count && f->data_bytes == f->count;
	case XFER_NOTIFY:
		return f->data_bytes <= f->bytes && f->bytes <= WEIR_P2P_NOTIFY_MAX;
	case XFER_CREDIT_BACK:
		return f->count && f->count <= XFER_CREDIT && !f->data_bytes;
	case XFER_RESULT:
		return f->status <= 0 && f->status > -4096 && !f->data_bytes;
	default:
		return !f->data_bytes;
	}
}

int xfer_frame_decode(const uint8_t *bytes, size_t length, struct xfer_frame *f, struct err *e)
{
	const uint8_t *body = bytes + XFER_FRAME_BYTES;

	*f = (struct xfer_frame){ 0 };
	if (xfer_frame_length(bytes, length) != (int64_t)length)
		return err_set(e, EPROTO, "the peer sent what is no frame of the p2p protocol");
	f->type = (enum xfer_type)bytes[4];
	f->data = body + head_bytes[f->type];
	f->data_bytes = length - XFER_FRAME_BYTES - head_bytes[f->type];
	switch (f->type) {
	case XFER_OFFER:
		f->kind = (enum xfer_kind)get32(body);
		f->id = get64(body + 8);
		f->answers = get64(body + 16);
		f->bytes = get64(body + 24);
		f->key = get64(body + 32);
		f->offset = get64(body + 40);
		break;
	case XFER_GRANT:
		f->id = get64(body);
		f->first = get32(body + 8);
		f->count = get32(body + 12);
		break;
	case XFER_RESULT:
		f->id = get64(body);
		f->status = (int)get32(body + 8);
		break;
	case XFER_READ:
		f->id = get64(body);
		f->key = get64(body + 8);
		f->offset = get64(body + 16);
		f->bytes = get64(body + 24);
		break;
	case XFER_NOTIFY:
		f->bytes = get64(body);
		break;
	case XFER_BACK:
	case XFER_CREDIT_BACK:
		f->count = get32(body);
		break;
	default:
		break;
	}
	if (!data_fits(f))
		return err_set(e, EPROTO,
			"the peer sent a p2p frame of type %d that makes no sense", (int)f->type);
	return 0;
}

size_t xfer_frame_encode(const struct xfer_frame *f, uint8_t bytes[XFER_HEAD_MAX])
{
	uint8_t *body = bytes + XFER_FRAME_BYTES;

	memset(bytes, 0, XFER_HEAD_MAX);
	put32(bytes, (uint32_t)(head_bytes[f->type] + f->data_bytes));
	bytes[4] = (uint8_t)f->type;
	switch (f->type) {
	case XFER_OFFER:
		put32(body, f->kind);
		put64(body + 8, f->id);
		put64(body + 16, f->answers);
		put64(body + 24, f->bytes);
		put64(body + 32, f->key);
		put64(body + 40, f->offset);
		break;
	case XFER_GRANT:
		put64(body, f->id);
		put32(body + 8, f->first);
		put32(body + 12, f->count);
		break;
	case XFER_RESULT:
		put64(body, f->id);
		put32(body + 8, (uint32_t)f->status);
		break;
	case XFER_READ:
		put64(body, f->id);
		put64(body + 8, f->key);
		put64(body + 16, f->offset);
		put64(body + 24, f->bytes);
		break;
	case XFER_NOTIFY:
		put64(body, f->bytes);
		break;
	case XFER_BACK:
	case XFER_CREDIT_BACK:
		put32(body, f->count);
		break;
	default:
		break;
	}
	return XFER_FRAME_BYTES + head_bytes[f->type];
}
