// SPDX-License-Identifier: BSD-3-Clause
#include <string.h>

#include "counters/slice.h"

#define DEPTH_MAX 64

static const char *skip_blanks(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r'))
		at++;
	return at;
}

/* After the closing quote; NULL when there is none. */
static const char *skip_string(const char *at, const char *end)
{
	for (at++; at < end; at++) {
		if (*at == '"')
			return at + 1;
		if (*at == '\\')
			at++;
	}
	return NULL;
}

static const char *skip_value(const char *at, const char *end)
{
	int depth = 0;

	while (at < end) {
		switch (*at) {
		case '"':
			at = skip_string(at, end);
			if (!at)
				return NULL;
			if (!depth)
				return at;
			continue;
		case '{':
		case '[':
			if (++depth > DEPTH_MAX)
				return NULL;
			break;
		case '}':
		case ']':
			if (!depth)
				return at;
			if (!--depth)
				return at + 1;
			break;
		case ',':
			if (!depth)
				return at;
			break;
		default:
			break;
		}
		at++;
	}
	return NULL;
}

bool slices_open(struct slices *s, struct slice of)
{
	const char *end = of.text + of.length, *at = skip_blanks(of.text, end);

	*s = (struct slices){ .at = at, .end = end, .first = true };
	if (at == end || (*at != '{' && *at != '['))
		return false;
	s->in_object = *at == '{';
	s->at++;
	return true;
}

int slices_next(struct slices *s, struct slice *key, struct slice *value)
{
	const char *at = skip_blanks(s->at, s->end), *after;

	*key = *value = (struct slice){ "", 0 };
	s->at = at;
	if (at == s->end)
		return -1;
	if (*at == (s->in_object ? '}' : ']'))
		return 0;
	if (!s->first) {
		if (*at != ',')
			return -1;
		at = skip_blanks(at + 1, s->end);
	}
	s->first = false;
	s->at = at;
	if (s->in_object) {
		after = at < s->end && *at == '"' ? skip_string(at, s->end) : NULL;
		if (!after)
			return -1;
		*key = (struct slice){ at + 1, (size_t)(after - at) - 2 };
		at = skip_blanks(after, s->end);
		if (at == s->end || *at != ':')
			return -1;
		at = skip_blanks(at + 1, s->end);
	}
	after = skip_value(at, s->end);
	if (!after || after == at)
		return -1;
	*value = (struct slice){ at, (size_t)(after - at) };
	s->at = after;
	return 1;
}
