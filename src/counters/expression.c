// SPDX-License-Identifier: BSD-3-Clause
/* Expressions of rules: read into nodes once, then asked at every object. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "counters/known.h"
#include "counters/rule.h"

#define DEPTH_MAX 24

struct parser {
	struct rules *rules;
	const struct rule *rule;
	char *at;
	int depth;
	struct err *e;
};

static int parse_or(struct parser *p);

static int wrong(struct parser *p, const char *why)
{
	if (!p->e || !p->e->code)
		err_set(p->e, EINVAL, "%s at \"%.40s\"", why, p->at);
	return -1;
}

static void skip_blanks(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

static bool take(struct parser *p, const char *word)
{
	size_t length = strlen(word);

	skip_blanks(p);
	if (strncmp(p->at, word, length))
		return false;
	/* "order" is not "or" and then "der" */
	if (isalpha((unsigned char)word[0]) &&
		(isalnum((unsigned char)p->at[length]) || p->at[length] == '_'))
		return false;
	p->at += length;
	return true;
}

static int add_node(struct parser *p, struct node node)
{
	struct rules *rules = p->rules;

	if (rules->node_count == rules->node_room) {
		int room = rules->node_room ? rules->node_room * 2 : 512;
		struct node *grown = NULL;

		if (room <= RULES_NODES)
			grown = reallocarray(rules->node, (size_t)room, sizeof(*grown));
		if (!grown)
			return wrong(p, "the expressions are too long");
		rules->node = grown;
		rules->node_room = (int16_t)room;
	}
	rules->node[rules->node_count] = node;
	return rules->node_count++;
}

static int add_pair(struct parser *p, enum node_op op, int left, int right)
{
	if (left < 0 || right < 0)
		return -1;
	return add_node(
		p, (struct node){ .op = op, .left = (int16_t)left, .right = (int16_t)right });
}

static const struct {
	const char *name;
	enum node_op op;
} functions[] = {
	{ "delta", NODE_DELTA },
	{ "rate", NODE_RATE },
	{ "most", NODE_MOST },
	{ "before", NODE_BEFORE },
	{ "after", NODE_AFTER },
	{ "changed", NODE_CHANGED },
	{ "maybe", NODE_MAYBE },
	{ "has", NODE_HAS },
	{ "outlier", NODE_OUTLIER },
};

/* The pattern is what stands between the parentheses, as it is. */
static int parse_function(struct parser *p, const char *name, size_t length)
{
	char *open = p->at, *close = strchr(open, ')');

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		if (strlen(functions[i].name) != length || strncmp(functions[i].name, name, length))
			continue;
		if (!close || close == open + 1)
			return wrong(p, "a function needs counters between parentheses");
		*close = '\0';
		p->at = close + 1;
		return add_node(p, (struct node){ .op = functions[i].op, .pattern = open + 1 });
	}
	return wrong(p, "there is no such function");
}

static int parse_name(struct parser *p)
{
	const char *name = p->at;
	size_t length = 0;

	while (isalnum((unsigned char)name[length]) || name[length] == '_')
		length++;
	p->at += length;
	if (*p->at == '(')
		return parse_function(p, name, length);
	if (length == 7 && !strncmp(name, "seconds", 7))
		return add_node(p, (struct node){ .op = NODE_SECONDS });
	for (int i = 0; i < p->rule->variable_count; i++)
		if (strlen(p->rule->variable[i].name) == length &&
			!strncmp(p->rule->variable[i].name, name, length))
			return add_node(p, (struct node){ .op = NODE_VARIABLE, .variable = i });
	p->at -= length;
	return wrong(p, "there is no such variable above");
}

static int parse_factor(struct parser *p)
{
	int inner;
	char *end;

	skip_blanks(p);
	if (++p->depth > DEPTH_MAX)
		return wrong(p, "the expression is nested too deeply");
	if (take(p, "(")) {
		inner = parse_or(p);
		if (inner >= 0 && !take(p, ")"))
			inner = wrong(p, "a parenthesis is not closed");
	} else if (take(p, "-")) {
		inner = parse_factor(p);
		inner = add_pair(p, NODE_NEGATE, inner, 0);
	} else if (isdigit((unsigned char)*p->at)) {
		double number = strtod(p->at, &end);

		p->at = end;
		inner = add_node(p, (struct node){ .op = NODE_NUMBER, .number = number });
	} else if (isalpha((unsigned char)*p->at)) {
		inner = parse_name(p);
	} else {
		inner = wrong(p, "a number, a variable or a function is missing");
	}
	p->depth--;
	return inner;
}

struct level {
	const char *word;
	enum node_op op;
};

static int parse_level(
	struct parser *p, const struct level *level, size_t count, int (*next)(struct parser *))
{
	int left = next(p);
	size_t i;

	while (left >= 0) {
		for (i = 0; i < count && !take(p, level[i].word); i++)
			;
		if (i == count)
			break;
		left = add_pair(p, level[i].op, left, next(p));
	}
	return left;
}

static int parse_product(struct parser *p)
{
	static const struct level level[] = { { "*", NODE_MULTIPLY }, { "/", NODE_DIVIDE } };

	return parse_level(p, level, 2, parse_factor);
}

static int parse_sum(struct parser *p)
{
	static const struct level level[] = { { "+", NODE_ADD }, { "-", NODE_SUBTRACT } };

	return parse_level(p, level, 2, parse_product);
}

static int parse_comparison(struct parser *p)
{
	static const struct level level[] = { { "<=", NODE_LESS_EQUAL },
		{ ">=", NODE_GREATER_EQUAL }, { "==", NODE_EQUAL }, { "!=", NODE_NOT_EQUAL },
		{ "<", NODE_LESS }, { ">", NODE_GREATER } };

	return parse_level(p, level, 6, parse_sum);
}

static int parse_and(struct parser *p)
{
	static const struct level level[] = { { "and", NODE_AND } };

	return parse_level(p, level, 1, parse_comparison);
}

static int parse_or(struct parser *p)
{
	static const struct level level[] = { { "or", NODE_OR } };

	return parse_level(p, level, 1, parse_and);
}

/* The text is cut in place: not const. */
// NOLINTNEXTLINE(readability-non-const-parameter)
int expression_parse(struct expression *x, char *text, struct rules *rules, const struct rule *rule,
	struct err *e)
{
	struct parser p = { .rules = rules, .rule = rule, .at = text, .e = e };
	int root;

	root = parse_or(&p);
	skip_blanks(&p);
	if (root >= 0 && *p.at)
		root = wrong(&p, "something is left over");
	x->root = (int16_t)root;
	x->there = root >= 0;
	return root < 0 ? -EINVAL : 0;
}

/* Asking. */

/* The first object of a difference at or after this one, by their order. */
static uint32_t object_from(const struct difference *d, const char *source, const char *object)
{
	uint32_t low = 0, high = d->object_count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;
		int order = strcmp(d->object[middle].source, source);

		if (!order)
			order = counter_compare_objects(d->object[middle].object, object);
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void use_row(struct rule_place *p, const struct row *r)
{
	for (int i = 0; i < p->used_count; i++)
		if (p->used[i] == r)
			return;
	if (p->used_count < FINDING_EVIDENCE)
		p->used[p->used_count++] = r;
}

typedef void row_fn(const struct row *r, void *context);

/* The rows of an object by a pattern: those are sorted by name, so that the part before the first
 * wildcard finds where they are. Returns how many. */
static uint32_t each_row(const struct difference *d, const struct difference_object *o,
	const char *pattern, row_fn *act, void *context)
{
	size_t fixed = strcspn(pattern, "*#");
	uint32_t low = 0, high = o->count, found = 0;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (strncmp(d->row[o->first + middle].counter->name, pattern, fixed) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < o->count; low++) {
		const struct row *r = &d->row[o->first + low];

		if (strncmp(r->counter->name, pattern, fixed))
			break;
		if (!r->before.time_ns || !r->after.time_ns ||
			!known_match(pattern, r->counter->name))
			continue;
		found++;
		act(r, context);
	}
	return found;
}

struct gather {
	struct rule_place *p;
	enum node_op op;
	double value;
	bool any;
};

static double side_value(const struct row *r, const struct reading *side)
{
	return r->counter->kind == COUNTER_SIGNED ? (double)(int64_t)side->value
						  : (double)side->value;
}

static void gather_row(const struct row *r, void *context)
{
	struct gather *g = context;
	double value = 0, rate;

	switch (g->op) {
	case NODE_RATE:
		rate = difference_rate(r);
		value = g->value + (isfinite(rate) ? rate : 0);
		break;
	case NODE_MOST:
		value = fmax(g->value, (double)r->change);
		break;
	case NODE_BEFORE:
		value = g->any ? fmax(g->value, side_value(r, &r->before))
			       : side_value(r, &r->before);
		break;
	case NODE_AFTER:
		value = g->any ? fmax(g->value, side_value(r, &r->after))
			       : side_value(r, &r->after);
		break;
	case NODE_CHANGED:
		value = g->value + (r->state == ROW_CHANGED);
		break;
	default:
		value = g->value + (double)r->change;
	}
	g->value = value;
	g->any = true;
	if (g->p && (difference_is_telling(r) || !counter_grows(r->counter->kind)))
		use_row(g->p, r);
}

/* What belongs to an object in another source: itself, a part of it ("eth0/rx-3", "eth0 (0000:06:00.0)"),
 * which come right after it, or the host. */
static uint32_t gather_related(struct gather *g, const struct difference *d, const char *source,
	const char *object, const char *pattern)
{
	uint32_t i = object_from(d, source, object), found = 0;
	size_t length = strlen(object);

	for (; i < d->object_count && !strcmp(d->object[i].source, source); i++) {
		const char *other = d->object[i].object;

		if (strncmp(other, object, length))
			break;
		if (!other[length] || other[length] == '/' || other[length] == ' ')
			found += each_row(d, &d->object[i], pattern, gather_row, g);
	}
	i = object_from(d, source, "host");
	if (i < d->object_count && !strcmp(d->object[i].source, source) &&
		!strcmp(d->object[i].object, "host"))
		found += each_row(d, &d->object[i], pattern, gather_row, g);
	return found;
}

/* One alternative: "name", or "source:name" of whatever belongs to the object. */
static uint32_t gather_one(struct gather *g, const struct difference *d,
	const struct difference_object *at, const char *pattern)
{
	const char *colon = strchr(pattern, ':');
	char source[32];

	if (!colon)
		return each_row(d, at, pattern, gather_row, g);
	snprintf(source, sizeof(source), "%.*s", (int)(colon - pattern), pattern);
	return gather_related(g, d, source, at->object, colon + 1);
}

/* "a|b": the first of them that there is. */
static bool gather_first(struct gather *g, const struct difference *d,
	const struct difference_object *at, const char *patterns)
{
	char pattern[COUNTER_TEXT];

	while (*patterns) {
		size_t length = strcspn(patterns, "|");

		snprintf(pattern, sizeof(pattern), "%.*s", (int)length, patterns);
		if (gather_one(g, d, at, pattern))
			return true;
		patterns += length + (patterns[length] == '|');
	}
	return false;
}

static int by_value(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

static double median(double *value, uint32_t count)
{
	qsort(value, count, sizeof(*value), by_value);
	return count % 2 ? value[count / 2] : (value[count / 2 - 1] + value[count / 2]) / 2;
}

/* Whether the gauges of a class ("pci.vendor pci.device") are the same for two objects. */
static bool same_class(const struct difference *d, const struct difference_object *a,
	const struct difference_object *b, const char *class)
{
	while (class && *class) {
		struct gather x = { .op = NODE_AFTER }, y = { .op = NODE_AFTER };
		size_t length = strcspn(class, " ");
		char name[COUNTER_TEXT];

		snprintf(name, sizeof(name), "%.*s", (int)length, class);
		if (length && (!gather_one(&x, d, a, name) || !gather_one(&y, d, b, name) ||
				      x.value != y.value))
			return false;
		class += length + (class[length] == ' ');
	}
	return true;
}

#define SIBLINGS_MIN 4
#define SIBLINGS_MAX 64
#define FEW_BUSY     0.1  /* of the busiest */
#define MAD_FLOOR    0.01 /* of the median: alike to one part in a hundred is alike */

/* "tx_bytes ; pci.vendor pci.device": how many median deviations an object is away from the others of
 * its kind. Missing with fewer than SIBLINGS_MIN of them. */
static double outlier(struct rule_place *p, const char *text)
{
	double all[SIBLINGS_MAX], away[SIBLINGS_MAX], middle, deviation;
	struct gather own = { .p = p, .op = NODE_DELTA };
	const char *class = strchr(text, ';');
	char pattern[COUNTER_TEXT];
	uint32_t count = 0;

	snprintf(pattern, sizeof(pattern), "%.*s", (int)strcspn(text, "; "), text);
	class = class ? class + 1 : NULL;
	if (!gather_first(&own, p->d, p->at, pattern) || !same_class(p->d, p->at, p->at, class)) {
		p->missing = true;
		return 0;
	}
	for (uint32_t i = 0; i < p->d->object_count && count < SIBLINGS_MAX; i++) {
		const struct difference_object *o = &p->d->object[i];
		struct gather g = { .op = NODE_DELTA };

		if (strcmp(o->source, p->at->source) || !same_class(p->d, p->at, o, class))
			continue;
		if (gather_first(&g, p->d, o, pattern))
			all[count++] = g.value;
	}
	if (count < SIBLINGS_MIN) {
		p->missing = true;
		return 0;
	}
	middle = median(all, count); /* sorts them */
	/* Where most are idle, those that are not are no outliers: the job uses a few. */
	if (middle < FEW_BUSY * all[count - 1])
		return 0;
	for (uint32_t i = 0; i < count; i++)
		away[i] = fabs(all[i] - middle);
	deviation = fmax(median(away, count), MAD_FLOOR * middle);
	return deviation > 0 ? fabs(own.value - middle) / deviation : 0;
}

static double counters_value(const struct node *n, struct rule_place *p)
{
	struct gather g = { .p = p, .op = n->op };
	bool found;

	if (n->op == NODE_OUTLIER)
		return outlier(p, n->pattern);
	found = gather_first(&g, p->d, p->at, n->pattern);
	if (n->op == NODE_HAS)
		return found;
	if (!found && n->op != NODE_MAYBE)
		p->missing = true;
	return g.value;
}

static double node_value(int at, struct rule_place *p)
{
	const struct node *n = &p->rules->node[at];
	double left, right;

	switch (n->op) {
	case NODE_NUMBER:
		return n->number;
	case NODE_VARIABLE:
		return p->value[n->variable];
	case NODE_SECONDS:
		return p->d->seconds;
	case NODE_NEGATE:
		return -node_value(n->left, p);
	default:
		break;
	}
	if (n->op >= NODE_DELTA)
		return counters_value(n, p);
	left = node_value(n->left, p);
	right = node_value(n->right, p);
	switch (n->op) {
	case NODE_ADD:
		return left + right;
	case NODE_SUBTRACT:
		return left - right;
	case NODE_MULTIPLY:
		return left * right;
	case NODE_DIVIDE:
		return right != 0 ? left / right : 0; /* a share of nothing is nothing */
	case NODE_LESS:
		return left < right;
	case NODE_LESS_EQUAL:
		return left <= right;
	case NODE_GREATER:
		return left > right;
	case NODE_GREATER_EQUAL:
		return left >= right;
	case NODE_EQUAL:
		return left == right;
	case NODE_NOT_EQUAL:
		return left != right;
	case NODE_AND:
		return left != 0 && right != 0;
	default:
		return left != 0 || right != 0;
	}
}

double expression_value(const struct expression *x, struct rule_place *p)
{
	return node_value(x->root, p);
}
