// SPDX-License-Identifier: BSD-3-Clause
#include "rpc/header.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/text.h"

static const struct {
	char letter;
	uint64_t ns;
} timeout_units[] = {
	{ 'n', 1 },
	{ 'u', NS_PER_US },
	{ 'm', NS_PER_MS },
	{ 'S', NS_PER_S },
	{ 'M', 60 * NS_PER_S },
	{ 'H', 3600 * NS_PER_S },
};
#define TIMEOUT_UNITS  (sizeof(timeout_units) / sizeof(timeout_units[0]))
#define TIMEOUT_DIGITS 8
#define TIMEOUT_MOST   99999999u

int rpc_timeout_parse(const char *value, size_t length, uint64_t *ns)
{
	uint64_t number = 0;

	if (length < 2 || length > TIMEOUT_DIGITS + 1)
		return -EINVAL;
	for (size_t i = 0; i < length - 1; i++) {
		if (value[i] < '0' || value[i] > '9')
			return -EINVAL;
		number = number * 10 + (uint64_t)(value[i] - '0');
	}
	for (size_t i = 0; i < TIMEOUT_UNITS; i++)
		if (timeout_units[i].letter == value[length - 1]) {
			/* Eight digits of hours are 3.6e20 ns: more than 64 bits hold. */
			if (__builtin_mul_overflow(number, timeout_units[i].ns, ns))
				*ns = UINT64_MAX;
			return 0;
		}
	return -EINVAL;
}

char *rpc_timeout_text(uint64_t ns, char buf[RPC_TIMEOUT_TEXT])
{
	size_t i = 0;
	uint64_t number = ns;

	while (i < TIMEOUT_UNITS - 1 && number > TIMEOUT_MOST) {
		i++;
		number = ns / timeout_units[i].ns + (ns % timeout_units[i].ns != 0);
	}
	snprintf(buf, RPC_TIMEOUT_TEXT, "%u%c",
		(unsigned int)(number > TIMEOUT_MOST ? TIMEOUT_MOST : number),
		timeout_units[i].letter);
	return buf;
}

static const char hex[] = "0123456789ABCDEF";

char *rpc_percent_encode(const char *words)
{
	char *text = malloc(3 * strlen(words) + 1), *to = text;

	if (!text)
		return NULL;
	for (const unsigned char *from = (const void *)words; *from; from++) {
		if (*from >= ' ' && *from < 127 && *from != '%') {
			*to++ = (char)*from;
			continue;
		}
		*to++ = '%';
		*to++ = hex[*from >> 4];
		*to++ = hex[*from & 15];
	}
	*to = 0;
	return text;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void rpc_percent_decode(char *words)
{
	char *to = words;

	for (const char *from = words; *from; from++) {
		int high = *from == '%' ? hex_digit(from[1]) : -1;
		int low = high >= 0 ? hex_digit(from[2]) : -1;

		if (low < 0) {
			*to++ = *from;
			continue;
		}
		*to++ = (char)(high << 4 | low ? high << 4 | low : '?');
		from += 2;
	}
	*to = 0;
	text_one_line(words);
}

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *rpc_base64_encode(const uint8_t *bytes, size_t length)
{
	char *text = malloc(length / 3 * 4 + 5), *to = text;

	if (!text)
		return NULL;
	for (size_t i = 0; i < length; i += 3) {
		size_t left = length - i;
		uint32_t group = (uint32_t)bytes[i] << 16;

		if (left > 1)
			group |= (uint32_t)bytes[i + 1] << 8;
		if (left > 2)
			group |= bytes[i + 2];
		*to++ = base64[group >> 18];
		*to++ = base64[group >> 12 & 63];
		if (left > 1)
			*to++ = base64[group >> 6 & 63];
		if (left > 2)
			*to++ = base64[group & 63];
	}
	*to = 0;
	return text;
}

uint8_t *rpc_base64_decode(const char *text, size_t length, size_t *bytes)
{
	uint8_t *out, *to;
	uint32_t group = 0;
	unsigned int bits = 0;

	while (length && text[length - 1] == '=')
		length--;
	if (length % 4 == 1)
		return NULL;
	to = out = malloc(length / 4 * 3 + 3);
	if (!out)
		return NULL;
	for (size_t i = 0; i < length; i++) {
		const char *at = text[i] ? strchr(base64, text[i]) : NULL;

		if (!at) {
			free(out);
			return NULL;
		}
		group = group << 6 | (uint32_t)(at - base64);
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			*to++ = (uint8_t)(group >> bits);
		}
	}
	*bytes = (size_t)(to - out);
	return out;
}

bool rpc_content_type_is_grpc(const char *value, size_t length)
{
	static const char grpc[] = "application/grpc";
	const size_t n = sizeof(grpc) - 1;

	if (length < n || strncasecmp(value, grpc, n))
		return false;
	return length == n || value[n] == '+' || value[n] == ';';
}

enum rpc_code rpc_code_of_http(int status)
{
	switch (status) {
	case 400:
		return RPC_INTERNAL;
	case 401:
		return RPC_UNAUTHENTICATED;
	case 403:
		return RPC_PERMISSION_DENIED;
	case 404:
		return RPC_UNIMPLEMENTED;
	case 429:
	case 502:
	case 503:
	case 504:
		return RPC_UNAVAILABLE;
	default:
		return RPC_UNKNOWN;
	}
}

enum rpc_code rpc_code_of_reset(uint32_t h2_error)
{
	switch (h2_error) {
	case NGHTTP2_REFUSED_STREAM:
		return RPC_UNAVAILABLE;
	case NGHTTP2_CANCEL:
		return RPC_CANCELLED;
	case NGHTTP2_ENHANCE_YOUR_CALM:
		return RPC_RESOURCE_EXHAUSTED;
	case NGHTTP2_INADEQUATE_SECURITY:
		return RPC_PERMISSION_DENIED;
	default:
		return RPC_INTERNAL;
	}
}

enum rpc_code rpc_code_parse(const char *value, size_t length)
{
	unsigned int code = 0;

	if (!length || length > 2)
		return RPC_UNKNOWN;
	for (size_t i = 0; i < length; i++) {
		if (value[i] < '0' || value[i] > '9')
			return RPC_UNKNOWN;
		code = code * 10 + (unsigned int)(value[i] - '0');
	}
	return code <= RPC_UNAUTHENTICATED ? (enum rpc_code)code : RPC_UNKNOWN;
}
