/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside counters/: rules as they were read (rule.c), and their expressions (expression.c). */
#ifndef WEIR_COUNTERS_RULE_H
#define WEIR_COUNTERS_RULE_H

#include "counters/finding.h"

#define RULES_MAX      512
#define RULE_VARIABLES 16
#define RULE_SOURCES   8
#define RULES_NODES    8192 /* of all expressions */

enum node_op {
	NODE_NUMBER,
	NODE_VARIABLE,
	NODE_ADD,
	NODE_SUBTRACT,
	NODE_MULTIPLY,
	NODE_DIVIDE,
	NODE_NEGATE,
	NODE_LESS,
	NODE_LESS_EQUAL,
	NODE_GREATER,
	NODE_GREATER_EQUAL,
	NODE_EQUAL,
	NODE_NOT_EQUAL,
	NODE_AND,
	NODE_OR,
	NODE_SECONDS,
	/* of counters: pattern says which */
	NODE_DELTA,
	NODE_RATE,
	NODE_MOST,
	NODE_BEFORE,
	NODE_AFTER,
	NODE_CHANGED,
	NODE_MAYBE,
	NODE_HAS,
	NODE_OUTLIER,
};

struct node {
	enum node_op op;
	double number;
	int variable;
	const char *pattern; /* into the rules' text; ends in NUL */
	int16_t left, right;
};

struct expression {
	int16_t root; /* in the rules' nodes */
	bool there;
};

struct rule {
	const char *name;
	enum severity severity;
	const char *source[RULE_SOURCES];
	int source_count;
	struct rule_variable {
		const char *name;
		struct expression is;
	} variable[RULE_VARIABLES];
	int variable_count;
	struct expression when, weight; /* weight need not be there */
	const char *say, *means, *advice;
};

struct rules {
	char *text;
	struct rule *rule;
	int count;
	struct node *node;
	int16_t node_count, node_room;
};

/* text is cut in place and must live as long as the expression. The error says what is wrong at
 * which word. */
int expression_parse(struct expression *x, char *text, struct rules *rules, const struct rule *rule,
	struct err *e);

/* Where a rule is looked at: one object of one source. */
struct rule_place {
	const struct difference *d;
	const struct difference_object *at;
	const struct rules *rules;
	const struct rule *rule;
	double value[RULE_VARIABLES];
	const struct row *used[FINDING_EVIDENCE];
	int used_count;
	bool missing; /* a counter that it needs is not there */
};
double expression_value(const struct expression *x, struct rule_place *p);

#endif
