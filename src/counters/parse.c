// SPDX-License-Identifier: BSD-3-Clause
/* Numbers of files that nobody vouches for. */
#include <string.h>

#include "base/clock.h"
#include "counters/emit.h"

size_t parse_number(const char *text, size_t length, bool allow_sign, uint64_t *value)
{
	bool negative = allow_sign && length && text[0] == '-';
	size_t begin = negative ? 1 : 0, at = begin;
	uint64_t sum = 0;

	for (; at < length && text[at] >= '0' && text[at] <= '9'; at++) {
		uint64_t digit = (uint64_t)(text[at] - '0');

		if (sum > (UINT64_MAX - digit) / 10)
			return 0;
		sum = sum * 10 + digit;
	}
	if (at == begin || (negative && sum > (uint64_t)INT64_MAX + 1))
		return 0;
	*value = negative ? 0 - sum : sum;
	return at;
}

uint64_t parse_seconds(const char *text, size_t length)
{
	uint64_t seconds, ns = 0, unit = NS_PER_S / 10;
	size_t at = parse_number(text, length, false, &seconds);

	if (!at || seconds > UINT64_MAX / NS_PER_S - 1)
		return 0;
	if (at < length && text[at] == '.')
		for (at++; at < length && text[at] >= '0' && text[at] <= '9'; at++, unit /= 10)
			ns += (uint64_t)(text[at] - '0') * unit;
	return at == length ? seconds * NS_PER_S + ns : 0;
}
