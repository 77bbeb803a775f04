// SPDX-License-Identifier: BSD-3-Clause
#include "base/opt.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/units.h"

static bool opt_known(const struct opt_table *t, const struct opt *opt)
{
	return !opt->only || (opt->only & t->variant);
}

const struct opt *opt_find(const struct opt_table *t, const char *name)
{
	for (const struct opt *opt = t->opts; opt->name; opt++)
		if (opt_known(t, opt) && !strcmp(opt->name, name))
			return opt;
	return NULL;
}

bool opt_was_given(const struct opt_table *t, const struct opt_given *given, const char *name)
{
	const struct opt *opt = opt_find(t, name);

	return opt && given->at[opt - t->opts];
}

static const struct opt *opt_find_letter(const struct opt_table *t, char letter)
{
	for (const struct opt *opt = t->opts; opt->name; opt++)
		if (opt_known(t, opt) && opt->letter == letter)
			return opt;
	return NULL;
}

/* The exact name wins; otherwise a beginning that only one option has. */
static int opt_find_prefix(const struct opt_table *t, const char *word, size_t len,
	const struct opt **found, struct err *e)
{
	const struct opt *other = NULL;

	*found = NULL;
	for (const struct opt *opt = t->opts; opt->name; opt++) {
		if (!opt_known(t, opt) || strncmp(opt->name, word, len))
			continue;
		if (!opt->name[len]) {
			*found = opt;
			return 0;
		}
		if (*found)
			other = opt;
		else
			*found = opt;
	}
	if (other)
		return err_set(e, EINVAL, "--%.*s is ambiguous: --%s or --%s", (int)len, word,
			(*found)->name, other->name);
	return 0;
}

static size_t edit_distance(const char *a, size_t a_len, const char *b)
{
	size_t row[64], b_len = strlen(b);

	if (a_len >= 64 || b_len >= 64)
		return 64;
	for (size_t j = 0; j <= b_len; j++)
		row[j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			size_t swap = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			row[j] = swap < row[j] + 1 ? swap : row[j] + 1;
			if (row[j - 1] + 1 < row[j])
				row[j] = row[j - 1] + 1;
		}
	}
	return row[b_len];
}

static int opt_unknown(const struct opt_table *t, const char *word, size_t len, struct err *e)
{
	const struct opt *nearest = NULL;
	size_t best = 4;

	for (const struct opt *opt = t->opts; opt->name; opt++) {
		size_t distance = opt_known(t, opt) ? edit_distance(word, len, opt->name) : 64;

		if (distance < best) {
			best = distance;
			nearest = opt;
		}
	}
	err_set(e, EINVAL, "unknown option --%.*s", (int)len, word);
	if (nearest)
		return err_hint(e, "did you mean --%s?", nearest->name);
	return err_hint(e, "list the options with: weir %s --help", t->command);
}

const char *opt_unit(const struct opt *opt)
{
	return opt->unit ? opt->unit : "s";
}

const char *opt_initial(const struct opt *opt, char buf[OPT_TEXT])
{
	size_t length = opt->initial ? strlen(opt->initial) : 0;

	if (opt->type != OPT_DURATION || !length ||
		!isdigit((unsigned char)opt->initial[length - 1]) || !strcmp(opt->initial, "0"))
		return opt->initial;
	snprintf(buf, OPT_TEXT, "%s%s", opt->initial, opt_unit(opt));
	return buf;
}

static int opt_example(const struct opt *opt, struct err *e)
{
	char initial[OPT_TEXT];

	if (opt->initial)
		return err_hint(e, "for example: --%s %s", opt->name, opt_initial(opt, initial));
	return -EINVAL;
}

/* A limit in the unit that a user would write. */
static char *opt_limit(const struct opt *opt, double limit, char buf[UNITS_TEXT])
{
	if (opt->type == OPT_SIZE)
		return units_write_size(buf, (uint64_t)limit);
	if (opt->type == OPT_DURATION)
		return units_write_duration(buf, (uint64_t)limit);
	snprintf(buf, UNITS_TEXT, "%.15g", limit);
	return buf;
}

static int opt_range_error(const struct opt *opt, const char *value, struct err *e)
{
	const char *noun = opt->type == OPT_SIZE       ? "size"
			   : opt->type == OPT_RATE     ? "rate"
			   : opt->type == OPT_DURATION ? "duration"
						       : "number";
	char least[UNITS_TEXT], most[UNITS_TEXT];

	if (opt->min == 0 && opt->max == 0)
		err_set(e, EINVAL, "--%s %s is not a %s", opt->name, value, noun);
	else
		err_set(e, EINVAL, "--%s %s is not a %s from %s to %s", opt->name, value, noun,
			opt_limit(opt, opt->min, least), opt_limit(opt, opt->max, most));
	return opt_example(opt, e);
}

static bool opt_in_range(const struct opt *opt, double value)
{
	return (opt->min == 0 && opt->max == 0) || (value >= opt->min && value <= opt->max);
}

static int opt_store_int(const struct opt *opt, void *field, const char *value, struct err *e)
{
	char *end;
	int64_t v;

	errno = 0;
	v = strtoll(value, &end, 10);
	if (errno || end == value || isspace((unsigned char)*value) || *end ||
		!opt_in_range(opt, (double)v))
		return opt_range_error(opt, value, e);
	*(int64_t *)field = v;
	return 0;
}

static int opt_store_number(const struct opt *opt, void *field, const char *value, struct err *e)
{
	char *end;
	double v;

	v = strtod(value, &end);
	if (end == value || isspace((unsigned char)*value) || *end || !isfinite(v) ||
		!opt_in_range(opt, v))
		return opt_range_error(opt, value, e);
	*(double *)field = v;
	return 0;
}

static int opt_store_choice(const struct opt *opt, void *field, const char *value, struct err *e)
{
	char list[200] = "";

	for (int i = 0; opt->choices[i]; i++) {
		if (!strcasecmp(opt->choices[i], value)) {
			*(int *)field = i;
			return 0;
		}
		if (i)
			strncat(list, ", ", sizeof(list) - strlen(list) - 1);
		strncat(list, opt->choices[i], sizeof(list) - strlen(list) - 1);
	}
	return err_set(e, EINVAL, "--%s %s is none of: %s", opt->name, value, list);
}

/* Sizes, rates and durations: units.c says what is wrong with the text, the range is ours. */
static int opt_store_unit(const struct opt *opt, void *field, const char *value, struct err *e)
{
	uint64_t v = 0;
	int ret;

	if (opt->type == OPT_SIZE)
		ret = units_parse_size(value, &v, e);
	else if (opt->type == OPT_RATE)
		ret = units_parse_rate(value, &v, e);
	else
		ret = units_parse_duration(value, opt_unit(opt), &v, e);
	if (ret)
		return err_prefix(e, "--%s", opt->name);
	if (!opt_in_range(opt, (double)v))
		return opt_range_error(opt, value, e);
	*(uint64_t *)field = v;
	return 0;
}

int opt_set(const struct opt *opt, void *into, const char *value, struct err *e)
{
	void *field = (char *)into + opt->offset;

	switch (opt->type) {
	case OPT_BOOL:
		if (value && strcmp(value, "0") && strcmp(value, "1"))
			return err_set(e, EINVAL, "--%s %s is neither 0 nor 1", opt->name, value);
		*(bool *)field = value && *value == '1';
		return 0;
	case OPT_STRING:
		*(const char **)field = value;
		return 0;
	case OPT_INT:
		return opt_store_int(opt, field, value, e);
	case OPT_NUMBER:
		return opt_store_number(opt, field, value, e);
	case OPT_CHOICE:
		return opt_store_choice(opt, field, value, e);
	case OPT_SIZE:
	case OPT_RATE:
	case OPT_DURATION:
		return opt_store_unit(opt, field, value, e);
	}
	return err_set(e, EINVAL, "option --%s has no known type", opt->name);
}

static int opt_defaults(const struct opt_table *t, void *into, struct err *e)
{
	static const size_t sizes[] = { [OPT_BOOL] = sizeof(bool),
		[OPT_INT] = sizeof(int64_t),
		[OPT_NUMBER] = sizeof(double),
		[OPT_STRING] = sizeof(char *),
		[OPT_SIZE] = sizeof(uint64_t),
		[OPT_RATE] = sizeof(uint64_t),
		[OPT_DURATION] = sizeof(uint64_t),
		[OPT_CHOICE] = sizeof(int) };
	int ret;

	for (const struct opt *opt = t->opts; opt->name; opt++) {
		if (!opt_known(t, opt))
			continue;
		memset((char *)into + opt->offset, 0, sizes[opt->type]);
		if (!opt->initial)
			continue;
		ret = opt_set(opt, into, opt->initial, e);
		if (ret)
			return ret;
	}
	return 0;
}

/* The words of one command line, read from left to right. */
struct opt_words {
	int argc, next;
	char **argv;
};

static int opt_take_value(const struct opt *opt, const char *attached, struct opt_words *words,
	const char **value, struct err *e)
{
	if (attached) {
		*value = attached;
		return 0;
	}
	if (opt->implied) {
		*value = opt->implied;
		return 0;
	}
	if (words->next == words->argc) {
		err_set(e, EINVAL, "--%s needs a value", opt->name);
		return opt_example(opt, e);
	}
	*value = words->argv[words->next++];
	return 0;
}

static int opt_parse_long(const struct opt_table *t, const char *word, struct opt_words *words,
	void *into, struct opt_given *given, struct err *e)
{
	const char *equals = strchr(word, '='), *value = NULL;
	size_t len = equals ? (size_t)(equals - word) : strlen(word);
	const struct opt *opt;
	bool negate = false;
	int ret;

	ret = opt_find_prefix(t, word, len, &opt, e);
	if (ret)
		return ret;
	if (!opt && len > 3 && !strncmp(word, "no-", 3)) {
		ret = opt_find_prefix(t, word + 3, len - 3, &opt, e);
		if (ret)
			return ret;
		negate = opt && opt->type == OPT_BOOL;
		if (!negate)
			opt = NULL;
	}
	if (!opt)
		return opt_unknown(t, word, len, e);
	if (opt->type == OPT_BOOL && equals)
		return err_set(e, EINVAL, "--%s takes no value", opt->name);
	if (opt->type == OPT_BOOL) {
		value = negate ? NULL : "1";
	} else {
		ret = opt_take_value(opt, equals ? equals + 1 : NULL, words, &value, e);
		if (ret)
			return ret;
	}
	given->at[opt - t->opts] = true;
	return opt_set(opt, into, value, e);
}

/* "-T4", "-T 4", "-EZ" */
static int opt_parse_short(const struct opt_table *t, const char *letters, struct opt_words *words,
	void *into, struct opt_given *given, struct err *e)
{
	const struct opt *opt;
	const char *value = NULL;
	int ret;

	for (; *letters; letters++) {
		opt = opt_find_letter(t, *letters);
		if (!opt) {
			err_set(e, EINVAL, "unknown option -%c", *letters);
			return err_hint(e, "list the options with: weir %s --help", t->command);
		}
		given->at[opt - t->opts] = true;
		if (opt->type == OPT_BOOL) {
			opt_set(opt, into, "1", e);
			continue;
		}
		ret = opt_take_value(opt, letters[1] ? letters + 1 : NULL, words, &value, e);
		if (ret)
			return ret;
		return opt_set(opt, into, value, e);
	}
	return 0;
}

int opt_parse(const struct opt_table *t, int argc, char **argv, void *into, struct opt_given *given,
	struct err *e)
{
	struct opt_words words = { .argc = argc, .next = 1, .argv = argv };
	bool options_over = false;
	int ret;

	memset(given, 0, sizeof(*given));
	ret = opt_defaults(t, into, e);
	while (!ret && words.next < argc) {
		const char *word = argv[words.next++];

		if (!options_over && !strcmp(word, "--"))
			options_over = true;
		else if (!options_over && !strncmp(word, "--", 2))
			ret = opt_parse_long(t, word + 2, &words, into, given, e);
		else if (!options_over && word[0] == '-' && word[1])
			ret = opt_parse_short(t, word + 1, &words, into, given, e);
		else {
			err_set(e, EINVAL, "unexpected word \"%s\"", word);
			ret = err_hint(e, "usage: weir %s %s", t->command, t->usage);
		}
	}
	return ret;
}

char *opt_value(const struct opt *opt, const void *from, char buf[OPT_TEXT])
{
	const void *field = (const char *)from + opt->offset;
	const char *string;

	switch (opt->type) {
	case OPT_BOOL:
		snprintf(buf, OPT_TEXT, "%d", *(const bool *)field);
		break;
	case OPT_INT:
		snprintf(buf, OPT_TEXT, "%" PRId64, *(const int64_t *)field);
		break;
	case OPT_NUMBER:
		snprintf(buf, OPT_TEXT, "%.15g", *(const double *)field);
		break;
	case OPT_STRING:
		string = *(const char *const *)field;
		snprintf(buf, OPT_TEXT, "%s", string ? string : "");
		break;
	case OPT_CHOICE:
		snprintf(buf, OPT_TEXT, "%s", opt->choices[*(const int *)field]);
		break;
	case OPT_SIZE:
	case OPT_RATE:
		snprintf(buf, OPT_TEXT, "%" PRIu64, *(const uint64_t *)field);
		break;
	case OPT_DURATION:
		snprintf(buf, OPT_TEXT, "%" PRIu64 "ns", *(const uint64_t *)field);
		break;
	}
	return buf;
}

void opt_emit(const struct opt *opt, const void *from, const char *key, struct out *o)
{
	const void *field = (const char *)from + opt->offset;

	switch (opt->type) {
	case OPT_BOOL:
		out_bool(o, key, "%s", *(const bool *)field);
		break;
	case OPT_INT:
		out_i64(o, key, "%" PRId64, *(const int64_t *)field);
		break;
	case OPT_NUMBER:
		out_f64(o, key, opt->kv_format ? opt->kv_format : "%f", *(const double *)field);
		break;
	case OPT_STRING:
		if (o->mode == OUT_KV)
			out_str(o, key, "%s",
				*(const char *const *)field ? *(const char *const *)field : "");
		else
			out_str(o, key, "%s", *(const char *const *)field);
		break;
	case OPT_CHOICE:
		out_str(o, key, "%s", opt->choices[*(const int *)field]);
		break;
	case OPT_SIZE:
	case OPT_RATE:
	case OPT_DURATION:
		out_u64(o, key, "%" PRIu64, *(const uint64_t *)field);
		break;
	}
}

/* Whether the word after this one is its value. */
static bool takes_next(const struct opt_table *t, const char *word)
{
	bool is_long = !strncmp(word, "--", 2);

	if (is_long && strchr(word, '='))
		return false;
	for (const struct opt *opt = t->opts; opt->name; opt++) {
		if (!opt->arg || opt->implied)
			continue;
		if (is_long && !strncmp(opt->name, word + 2, strlen(word + 2)))
			return true;
		if (!is_long && opt->letter && word[1] == opt->letter && !word[2])
			return true;
	}
	return false;
}

int opt_operands(const struct opt_table *t, int *argc, char **argv, const char **operand, int most,
	int *count, struct err *e)
{
	bool only_operands = false;
	int kept = 1;

	*count = 0;
	for (int i = 1; i < *argc; i++) {
		char *word = argv[i];

		if (!only_operands && !strcmp(word, "--")) {
			only_operands = true;
		} else if (only_operands || word[0] != '-' || !word[1]) {
			if (*count == most)
				return err_set(e, EINVAL, "unexpected word \"%s\"", word);
			operand[(*count)++] = word;
		} else {
			argv[kept++] = word;
			if (takes_next(t, word) && i + 1 < *argc)
				argv[kept++] = argv[++i];
		}
	}
	*argc = kept;
	return 0;
}
