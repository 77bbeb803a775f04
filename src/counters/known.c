// SPDX-License-Identifier: BSD-3-Clause
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters/cxi_text.h"
#include "counters/known.h"
#include "counters/known_text.h"

#define LINES_MAX 512
#define CXI_MAX	  2048
#define CXI_SLOTS 4096

struct known_line {
	const char *source, *name;
	int kind; /* -1: not said */
	uint8_t bits;
	const char *unit;
	const char *group[COUNTER_GROUPS];
	const char *description;
};

struct cxi_item {
	const char *name;
	uint16_t number; /* in the order of a dump, 0: a Cassini-2's */
	uint8_t kind, bits;
	const char *unit;
};

/* All of it is made once, of texts that are right: whoever changes them runs the tests. */
static struct known_line line[LINES_MAX];
static size_t line_count;
static struct cxi_item cxi[CXI_MAX];
static size_t cxi_count;
static uint16_t cxi_slot[CXI_SLOTS];
static const char *cxi_dump[KNOWN_CXI_NAMES];
static pthread_once_t once = PTHREAD_ONCE_INIT;

bool known_match(const char *pattern, const char *text)
{
	const char *star = NULL, *again = NULL;

	while (*text || *pattern) {
		if (*pattern == '*') {
			star = ++pattern;
			again = text;
			continue;
		}
		if (*pattern == '#' && isdigit((unsigned char)*text)) {
			while (isdigit((unsigned char)*text))
				text++;
			pattern++;
			continue;
		}
		if (*text && *pattern == *text) {
			pattern++;
			text++;
			continue;
		}
		if (!star || !*again)
			return false;
		pattern = star;
		text = ++again;
	}
	return true;
}

static const char *said(const char *word)
{
	return word && strcmp(word, "-") ? word : NULL;
}

static int kind_of(const char *word)
{
	for (int i = 0; word && i < COUNTER_KINDS; i++)
		if (!strcmp(word, counter_kind_name[i]))
			return i;
	return -1;
}

static void learn_line(char *text)
{
	struct known_line *l = &line[line_count];
	char *word[6], *groups, *one;
	size_t n = 0;

	for (int i = 0; i < 6; i++) {
		word[i] = strsep(&text, " ");
		if (!text)
			return;
	}
	l->source = word[0];
	l->name = word[1];
	l->kind = kind_of(said(word[2]));
	l->bits = said(word[3]) ? (uint8_t)atoi(word[3]) : 0;
	l->unit = said(word[4]);
	groups = said(word[5]) ? word[5] : NULL;
	while ((one = strsep(&groups, ",")) && n < COUNTER_GROUPS)
		l->group[n++] = one;
	l->description = said(text);
	line_count++;
}

static void classify_by_lines(struct counter *counter)
{
	bool here = false;

	for (size_t i = 0; i < line_count; i++) {
		if (strcmp(line[i].source, counter->source)) {
			if (here)
				break; /* the lines of a source stand together */
			continue;
		}
		here = true;
		if (!known_match(line[i].name, counter->name))
			continue;
		if (line[i].kind >= 0)
			counter->kind = (uint8_t)line[i].kind;
		if (line[i].bits)
			counter->bits = line[i].bits;
		if (line[i].unit)
			counter->unit = line[i].unit;
		break;
	}
}

static uint32_t cxi_hash(const char *name)
{
	uint32_t hash = 2166136261u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return hash & (CXI_SLOTS - 1);
}

static struct cxi_item *cxi_find(const char *name)
{
	for (uint32_t at = cxi_hash(name); cxi_slot[at]; at = (at + 1) & (CXI_SLOTS - 1))
		if (!strcmp(cxi[cxi_slot[at] - 1].name, name))
			return &cxi[cxi_slot[at] - 1];
	return NULL;
}

static void cxi_add(const char *name, uint8_t gauge, uint8_t bits, bool second)
{
	uint32_t at = cxi_hash(name);
	struct counter c;

	if (cxi_count == CXI_MAX)
		return;
	cxi[cxi_count] = (struct cxi_item){ strdup(name), second ? 0 : 1, COUNTER_COUNT, bits, "" };
	if (!cxi[cxi_count].name)
		return;
	/* Whether a name is a bucket, and its unit: what the lines say, once for all. */
	c = (struct counter){ .source = "cxi", .name = name };
	classify_by_lines(&c);
	cxi[cxi_count].kind = gauge ? COUNTER_GAUGE : c.kind;
	cxi[cxi_count].unit = c.unit ? c.unit : "";
	while (cxi_slot[at])
		at = (at + 1) & (CXI_SLOTS - 1);
	cxi_slot[at] = (uint16_t)++cxi_count;
}

/* "a_[0-3]": each of them, the leftmost range first. */
static void cxi_expand(const char *pattern, uint8_t gauge, uint8_t bits, bool second)
{
	const char *open = strchr(pattern, '[');
	int low, high, used;
	char name[COUNTER_TEXT];

	if (!open || sscanf(open, "[%d-%d]%n", &low, &high, &used) != 2) {
		cxi_add(pattern, gauge, bits, second);
		return;
	}
	for (int i = low; i <= high; i++) {
		snprintf(name, sizeof(name), "%.*s%d%s", (int)(open - pattern), pattern, i,
			open + used);
		cxi_expand(name, gauge, bits, second);
	}
}

int known_dump_order(const void *left, const void *right)
{
	const char *whole_a = *(const char *const *)left, *whole_b = *(const char *const *)right;
	const char *a = whole_a, *b = whole_b;

	for (;; a++, b++) {
		while (*a == '_')
			a++;
		while (*b == '_')
			b++;
		if (*a != *b)
			return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
		if (!*a)
			return strcmp(whole_a, whole_b);
	}
}

static void learn_cxi(char *text)
{
	bool second = false;
	char *one;

	while ((one = strsep(&text, "\n"))) {
		char *rest = one, *name = strsep(&rest, " ");
		const char *word = strsep(&rest, " ");
		bool gauge = word && !strcmp(word, "gauge");
		const char *bits = gauge ? strsep(&rest, " ") : word;

		if (!name[0] || name[0] == '#')
			continue;
		if (!strcmp(name, "cassini-2"))
			second = true;
		else
			cxi_expand(name, gauge, bits ? (uint8_t)atoi(bits) : 56, second);
	}
}

static void number_cxi(void)
{
	size_t n = 0;

	for (size_t i = 0; i < cxi_count && n < KNOWN_CXI_NAMES; i++)
		if (cxi[i].number)
			cxi_dump[n++] = cxi[i].name;
	qsort(cxi_dump, n, sizeof(*cxi_dump), known_dump_order);
	for (size_t i = 0; i < n; i++)
		cxi_find(cxi_dump[i])->number = (uint16_t)(i + 1);
}

static void learn(void)
{
	static char known[sizeof(known_text)], names[sizeof(cxi_text)];
	char *text = known, *one;

	memcpy(known, known_text, sizeof(known));
	while ((one = strsep(&text, "\n")) && line_count < LINES_MAX)
		if (one[0] && one[0] != '#')
			learn_line(one);
	memcpy(names, cxi_text, sizeof(names));
	learn_cxi(names);
	number_cxi();
}

static void ready(void)
{
	pthread_once(&once, learn);
}

void counter_classify(struct counter *counter)
{
	const struct cxi_item *item;

	ready();
	item = strcmp(counter->source, "cxi") ? NULL : cxi_find(counter->name);
	if (item) {
		counter->kind = item->kind;
		counter->bits = item->bits;
		counter->unit = item->unit;
		return;
	}
	classify_by_lines(counter);
}
const char *const *known_cxi_names(void)
{
	ready();
	return cxi_dump;
}

uint32_t known_cxi_number(const char *name)
{
	const struct cxi_item *item;

	ready();
	item = cxi_find(name);
	return item ? item->number : 0;
}

static void add_group(struct counter_about *about, const char *group)
{
	for (int i = 0; i < COUNTER_GROUPS - 1; i++) {
		if (about->group[i] && !strcmp(about->group[i], group))
			return;
		if (!about->group[i]) {
			about->group[i] = group;
			return;
		}
	}
}

struct counter_about counter_about(const struct counter *counter)
{
	struct counter_about about = { .description = "" };

	ready();
	for (size_t i = 0; i < line_count; i++) {
		if (strcmp(line[i].source, counter->source) ||
			!known_match(line[i].name, counter->name))
			continue;
		if (line[i].description && !about.description[0])
			about.description = line[i].description;
		for (int k = 0; k < COUNTER_GROUPS && line[i].group[k]; k++)
			add_group(&about, line[i].group[k]);
	}
	return about;
}
