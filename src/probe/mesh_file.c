// SPDX-License-Identifier: BSD-3-Clause
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/mesh.h"

struct list {
	struct mesh_pair *pair;
	size_t count, room;
};

static int add(struct list *l, struct mesh_pair p, struct err *e)
{
	size_t room = l->room ? l->room * 2 : 64;
	struct mesh_pair *more;

	if (l->count == l->room) {
		more = realloc(l->pair, room * sizeof(*more));
		if (!more)
			return err_set(e, ENOMEM, "no memory for %zu pairs", room);
		l->pair = more;
		l->room = room;
	}
	l->pair[l->count++] = p;
	return 0;
}

/* "node1/3", "node1" (rail -1: all) or the address of a NIC. */
static bool find(const struct mesh_names *n, char *word, uint32_t *host, int *rail)
{
	char *slash = strrchr(word, '/'), *end = NULL;
	unsigned long number = slash ? strtoul(slash + 1, &end, 10) : 0;

	if (slash && isdigit((unsigned char)slash[1]) && !*end)
		*slash = '\0';
	else
		slash = NULL;
	for (*host = 0; *host < n->hosts; (*host)++) {
		uint32_t rails = n->rails(n->context, *host);

		if (!strcmp(word, n->host(n->context, *host))) {
			*rail = slash ? (int)number : -1;
			return !slash || number < rails;
		}
		for (uint32_t r = 0; !slash && r < rails; r++)
			if (!strcmp(word, n->address(n->context, *host, r))) {
				*rail = (int)r;
				return true;
			}
	}
	if (slash)
		*slash = '/';
	return false;
}

static int add_line(
	struct list *l, char *line, const char *where, const struct mesh_names *n, struct err *e)
{
	char *rest = line, *word[3] = { NULL };
	uint32_t host[2];
	int rail[2], count = 0, ret = 0, rails;

	line[strcspn(line, "#\r\n")] = '\0';
	while (count < 3 && (word[count] = strsep(&rest, " \t,")))
		count += word[count][0] != '\0';
	if (!count)
		return 0;
	if (count != 2)
		return err_set(e, EINVAL, "%s: a line is two NICs or two hosts, as node1/0 node2/0",
			where);
	for (int i = 0; i < 2; i++)
		if (!find(n, word[i], &host[i], &rail[i]))
			return err_set(e, EINVAL,
				"%s: \"%.100s\" is no NIC or host of an agent that answers", where,
				word[i]);
	if (host[0] == host[1] || (rail[0] < 0) != (rail[1] < 0))
		return err_set(e, EINVAL, "%s: %s", where,
			host[0] == host[1] ? "both are of one host"
					   : "one is a host, the other one of its NICs");
	rails = rail[0] < 0 ? (int)n->rails(n->context, host[0]) : rail[0] + 1;
	for (int r = rail[0] < 0 ? 0 : rail[0]; !ret && r < rails; r++) {
		if (rail[0] < 0 && r >= (int)n->rails(n->context, host[1]))
			break;
		ret = add(l,
			(struct mesh_pair){ .from_host = (uint16_t)host[0],
				.to_host = (uint16_t)host[1],
				.from_rail = (uint8_t)r,
				.to_rail = (uint8_t)(rail[0] < 0 ? r : rail[1]) },
			e);
	}
	return ret;
}

static int by_place(const void *a, const void *b)
{
	const struct mesh_pair *x = a, *y = b;
	int order = x->from_host - y->from_host;

	order = order ? order : x->from_rail - y->from_rail;
	order = order ? order : x->to_host - y->to_host;
	return order ? order : x->to_rail - y->to_rail;
}

int mesh_read(const char *path, const struct mesh_names *names, struct mesh_pair **pair,
	size_t *count, struct err *e)
{
	FILE *f = fopen(path, "re");
	struct list l = { 0 };
	char *line = NULL, where[300];
	size_t room = 0, kept = 0;
	int ret = 0, number = 0;

	*pair = NULL;
	*count = 0;
	if (!f)
		return err_set(e, errno, "cannot read the pairs in %s: %m", path);
	while (!ret && getline(&line, &room, f) > 0) {
		snprintf(where, sizeof(where), "%.250s, line %d", path, ++number);
		ret = add_line(&l, line, where, names, e);
	}
	free(line);
	fclose(f);
	if (!ret && !l.count)
		ret = err_set(e, EINVAL, "%s has no pairs", path);
	if (ret || !l.pair) {
		free(l.pair);
		return ret;
	}
	qsort(l.pair, l.count, sizeof(*l.pair), by_place);
	for (size_t i = 0; i < l.count; i++)
		if (!kept || by_place(&l.pair[kept - 1], &l.pair[i]))
			l.pair[kept++] = l.pair[i];
	*pair = l.pair;
	*count = kept;
	return 0;
}
