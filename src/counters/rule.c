// SPDX-License-Identifier: BSD-3-Clause
/* Rules: read from text. The form is described where the rules are, in rules.txt. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters/rule.h"
#include "counters/rules_text.h"

#define RULES_BYTES (1u << 20)

const char *const severity_name[SEVERITIES] = { "note", "warning", "problem" };

void rules_free(struct rules *rules)
{
	if (!rules)
		return;
	free(rules->text);
	free(rules->rule);
	free(rules->node);
	free(rules);
}

static char *trim(char *text)
{
	size_t length;

	text += strspn(text, " \t");
	length = strlen(text);
	while (length && strchr(" \t\r\n", text[length - 1]))
		text[--length] = '\0';
	return text;
}

static int rule_begin(struct rules *rules, char *name, struct err *e)
{
	char *close = strchr(name, ']');
	struct rule *grown;

	if (!close || close == name + 1 || close[1])
		return err_set(e, EINVAL, "a rule begins with its name, as in [retransmits]");
	*close = '\0';
	if (rules->count == RULES_MAX)
		return err_set(e, E2BIG, "more than %d rules", RULES_MAX);
	grown = reallocarray(rules->rule, (size_t)rules->count + 1, sizeof(*grown));
	if (!grown)
		return err_set(e, ENOMEM, "no memory for rules");
	rules->rule = grown;
	rules->rule[rules->count++] = (struct rule){
		.name = name + 1, .severity = SEVERITY_WARNING, .means = "", .advice = ""
	};
	return 0;
}

static int rule_sources(struct rule *rule, char *list, struct err *e)
{
	char *one;

	while ((one = strsep(&list, ", "))) {
		if (!one[0])
			continue;
		if (rule->source_count == RULE_SOURCES)
			return err_set(e, E2BIG, "more than %d sources", RULE_SOURCES);
		rule->source[rule->source_count++] = one;
	}
	return 0;
}

static int rule_severity(struct rule *rule, const char *word, struct err *e)
{
	for (int i = 0; i < SEVERITIES; i++) {
		if (strcmp(word, severity_name[i]))
			continue;
		rule->severity = (enum severity)i;
		return 0;
	}
	return err_set(e, EINVAL, "severity is note, warning or problem, not \"%.40s\"", word);
}

static int rule_variable(
	struct rules *rules, struct rule *rule, const char *name, char *value, struct err *e)
{
	struct rule_variable *v = &rule->variable[rule->variable_count];
	int ret;

	if (rule->variable_count == RULE_VARIABLES)
		return err_set(e, E2BIG, "more than %d variables", RULE_VARIABLES);
	if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] || !name[0])
		return err_set(e, EINVAL, "\"%.40s\" is no name of a variable", name);
	v->name = name;
	ret = expression_parse(&v->is, value, rules, rule, e);
	rule->variable_count += !ret;
	return ret;
}

static int rule_member(struct rules *rules, char *line, struct err *e)
{
	struct rule *rule = &rules->rule[rules->count - 1];
	char *equals = strchr(line, '='), *name = line, *value;

	if (!equals)
		return err_set(e, EINVAL, "neither [NAME] nor NAME = VALUE: \"%.40s\"", line);
	*equals = '\0';
	name = trim(name);
	value = trim(equals + 1);
	if (!strcmp(name, "severity"))
		return rule_severity(rule, value, e);
	if (!strcmp(name, "of"))
		return rule_sources(rule, value, e);
	if (!strcmp(name, "when"))
		return expression_parse(&rule->when, value, rules, rule, e);
	if (!strcmp(name, "weight"))
		return expression_parse(&rule->weight, value, rules, rule, e);
	if (!strcmp(name, "say"))
		rule->say = value;
	else if (!strcmp(name, "means"))
		rule->means = value;
	else if (!strcmp(name, "do"))
		rule->advice = value;
	else
		return rule_variable(rules, rule, name, value, e);
	return 0;
}

static int rule_whole(const struct rules *rules, struct err *e)
{
	const struct rule *rule = rules->count ? &rules->rule[rules->count - 1] : NULL;

	if (rule && (!rule->say || !rule->when.there || !rule->source_count))
		return err_set(e, EINVAL, "the rule %.40s lacks its %s", rule->name,
			!rule->source_count ? "of"
			: !rule->when.there ? "when"
					    : "say");
	return 0;
}

/* A line that begins with a blank goes on from the one before: put them together in place. */
static char *next_line(char **rest, uint32_t *number, uint32_t *lines)
{
	char *line = *rest, *end, *follow;

	*number += *lines;
	*lines = 1;
	if (!line || !*line)
		return NULL;
	for (;;) {
		end = strchrnul(line, '\n');
		for (follow = *end ? end + 1 : end; *follow == ' ' || *follow == '\t';) {
			*end = ' ';
			(*lines)++;
			end = strchrnul(follow, '\n');
			follow = *end ? end + 1 : end;
		}
		*rest = *end ? end + 1 : NULL;
		*end = '\0';
		return line;
	}
}

static int parse_lines(struct rules *rules, const char *label, struct err *e)
{
	char *rest = rules->text, *line;
	uint32_t number = 1, lines = 0;
	int ret = 0;

	while (!ret && (line = next_line(&rest, &number, &lines))) {
		line = trim(line);
		if (!line[0] || line[0] == '#')
			continue;
		if (line[0] == '[') {
			ret = rule_whole(rules, e);
			if (!ret)
				ret = rule_begin(rules, line, e);
		} else if (!rules->count) {
			ret = err_set(
				e, EINVAL, "a rule begins with its name, as in [retransmits]");
		} else {
			ret = rule_member(rules, line, e);
		}
	}
	if (!ret)
		ret = rule_whole(rules, e);
	return ret ? err_prefix(e, "%s:%u", label, number) : 0;
}

int rules_parse(
	struct rules **out, const char *text, size_t length, const char *label, struct err *e)
{
	struct rules *rules = calloc(1, sizeof(*rules));
	int ret;

	*out = NULL;
	if (length > RULES_BYTES) {
		free(rules);
		return err_set(e, EFBIG, "%s is longer than %u bytes", label, RULES_BYTES);
	}
	if (rules)
		rules->text = strndup(text, length);
	if (!rules || !rules->text) {
		rules_free(rules);
		return err_set(e, ENOMEM, "no memory for rules");
	}
	ret = parse_lines(rules, label, e);
	if (ret)
		rules_free(rules);
	else
		*out = rules;
	return ret;
}

int rules_load(struct rules **rules, const char *path, struct err *e)
{
	char *text;
	size_t length;
	FILE *file;
	int ret;

	if (!path)
		return rules_parse(rules, rules_text, sizeof(rules_text) - 1, "rules.txt", e);
	*rules = NULL;
	file = fopen(path, "re");
	if (!file)
		return err_set(e, errno, "cannot read the rules of %s: %m", path);
	text = malloc(RULES_BYTES + 1);
	length = text ? fread(text, 1, RULES_BYTES + 1, file) : 0;
	if (!text)
		ret = err_set(e, ENOMEM, "no memory for rules");
	else if (ferror(file))
		ret = err_set(e, EIO, "cannot read the rules of %s", path);
	else
		ret = rules_parse(rules, text, length, path, e);
	free(text);
	fclose(file);
	return ret;
}
