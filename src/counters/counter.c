// SPDX-License-Identifier: BSD-3-Clause
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "counters/counter.h"

const char *const counter_kind_name[COUNTER_KINDS] = { "counter", "bucket", "gauge", "signed" };

#define BLOCK_BYTES 65536

struct text_block {
	struct text_block *next;
	size_t used;
	char room[BLOCK_BYTES];
};

void catalog_init(struct catalog *c)
{
	*c = (struct catalog){ 0 };
}

void catalog_free(struct catalog *c)
{
	struct text_block *next;

	for (struct text_block *b = c->texts.block; b; b = next) {
		next = b->next;
		free(b);
	}
	free(c->texts.slot);
	free(c->counter);
	free(c->slot);
	catalog_init(c);
}

static uint32_t hash_text(uint32_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 16777619u;
	return (hash ^ 0xff) * 16777619u; /* where one text ends matters */
}

static uint32_t hash_counter(const char *source, const char *object, const char *name)
{
	return hash_text(hash_text(hash_text(2166136261u, source), object), name);
}

/* Texts: an open hash of pointers into blocks. */

static int texts_grow(struct text_table *t)
{
	uint32_t count = t->slot_count ? t->slot_count * 2 : 1024;
	const char **slot = calloc(count, sizeof(*slot));

	if (!slot)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->slot_count; i++) {
		uint32_t at;

		if (!t->slot[i])
			continue;
		at = hash_text(0, t->slot[i]) & (count - 1);
		while (slot[at])
			at = (at + 1) & (count - 1);
		slot[at] = t->slot[i];
	}
	free(t->slot);
	t->slot = slot;
	t->slot_count = count;
	return 0;
}

static const char *texts_store(struct text_table *t, const char *text)
{
	size_t bytes = strlen(text) + 1;
	struct text_block *b = t->block;
	char *copy;

	if (!b || b->used + bytes > BLOCK_BYTES) {
		b = malloc(sizeof(*b));
		if (!b)
			return NULL;
		b->next = t->block;
		b->used = 0;
		t->block = b;
	}
	copy = b->room + b->used;
	memcpy(copy, text, bytes);
	b->used += bytes;
	return copy;
}

/* The table's own copy of a text, cut to COUNTER_TEXT and made printable; NULL without memory. */
static const char *texts_keep(struct text_table *t, const char *given)
{
	char text[COUNTER_TEXT];
	size_t length = strnlen(given, COUNTER_TEXT - 1);
	const char *kept;
	uint32_t at;

	memcpy(text, given, length);
	text[length] = '\0';
	text_one_line(text);
	if (t->count * 2 >= t->slot_count && texts_grow(t))
		return NULL;
	at = hash_text(0, text) & (t->slot_count - 1);
	for (; t->slot[at]; at = (at + 1) & (t->slot_count - 1))
		if (!strcmp(t->slot[at], text))
			return t->slot[at];
	kept = texts_store(t, text);
	if (kept) {
		t->slot[at] = kept;
		t->count++;
	}
	return kept;
}

/* Most have much in common with the one before. */
static const char *texts_like(struct text_table *t, const char *given, const char *last)
{
	return last && !strcmp(given, last) ? last : texts_keep(t, given);
}

/* Counters: an open hash of indexes. */

static bool is_it(const struct counter *c, const char *source, const char *object, const char *name)
{
	return !strcmp(c->name, name) && !strcmp(c->object, object) && !strcmp(c->source, source);
}

uint32_t catalog_find(
	const struct catalog *c, const char *source, const char *object, const char *name)
{
	uint32_t at;

	if (!c->slot_count)
		return CATALOG_NONE;
	at = hash_counter(source, object, name) & (c->slot_count - 1);
	for (; c->slot[at]; at = (at + 1) & (c->slot_count - 1))
		if (is_it(&c->counter[c->slot[at] - 1], source, object, name))
			return c->slot[at] - 1;
	return CATALOG_NONE;
}

static void slot_put(
	uint32_t *slot, uint32_t slot_count, const struct counter *counter, uint32_t index)
{
	uint32_t at =
		hash_counter(counter->source, counter->object, counter->name) & (slot_count - 1);

	while (slot[at])
		at = (at + 1) & (slot_count - 1);
	slot[at] = index + 1;
}

static int catalog_grow(struct catalog *c)
{
	uint32_t room = c->room ? c->room * 2 : 1024, slot_count = room * 2;
	struct counter *counter = reallocarray(c->counter, room, sizeof(*counter));
	uint32_t *slot;

	if (!counter)
		return -ENOMEM;
	c->counter = counter;
	slot = calloc(slot_count, sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->count; i++)
		slot_put(slot, slot_count, &counter[i], i);
	free(c->slot);
	c->slot = slot;
	c->slot_count = slot_count;
	c->room = room;
	return 0;
}

int catalog_add(struct catalog *c, const struct counter *counter, uint32_t *index, struct err *e)
{
	const struct counter *last = c->count ? &c->counter[c->count - 1] : &(struct counter){ 0 };
	struct counter kept = {
		.source = texts_like(&c->texts, counter->source, last->source),
		.object = texts_like(&c->texts, counter->object, last->object),
		.name = texts_keep(&c->texts, counter->name),
		.unit = texts_like(&c->texts, counter->unit ? counter->unit : "", last->unit),
		.kind = counter->kind,
		.bits = counter->bits ? counter->bits : 64,
	};
	uint32_t at;

	if (!kept.source || !kept.object || !kept.name || !kept.unit)
		return err_set(e, ENOMEM, "no memory for counters");
	at = catalog_find(c, kept.source, kept.object, kept.name);
	if (at == CATALOG_NONE) {
		if (c->count == CATALOG_MAX)
			return err_set(e, E2BIG, "more than %u counters", CATALOG_MAX);
		if (c->count == c->room && catalog_grow(c))
			return err_set(e, ENOMEM, "no memory for counters");
		at = c->count++;
		c->counter[at] = kept;
		slot_put(c->slot, c->slot_count, &kept, at);
	}
	if (index)
		*index = at;
	return 0;
}

/* Numbers in a text compare as numbers. */
static int natural_compare(const char *a, const char *b)
{
	while (*a && *b) {
		if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
			size_t n, m;

			a += strspn(a, "0");
			b += strspn(b, "0");
			n = strspn(a, "0123456789");
			m = strspn(b, "0123456789");
			if (n != m)
				return n < m ? -1 : 1;
			for (; n; n--, a++, b++)
				if (*a != *b)
					return *a < *b ? -1 : 1;
			continue;
		}
		if (*a != *b)
			return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
		a++;
		b++;
	}
	return *a ? 1 : *b ? -1 : 0;
}

int counter_compare_objects(const char *a, const char *b)
{
	int order = natural_compare(a, b);

	return order ? order : strcmp(a, b);
}

int counter_compare(const struct counter *a, const struct counter *b)
{
	int order = a->source == b->source ? 0 : strcmp(a->source, b->source);

	if (!order && a->object != b->object)
		order = counter_compare_objects(a->object, b->object);
	return order ? order : strcmp(a->name, b->name);
}
