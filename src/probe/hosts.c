// SPDX-License-Identifier: BSD-3-Clause
#include "probe/hosts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/sock.h"

#define NAME_BYTES 256

void hosts_free(struct hosts *h)
{
	for (size_t i = 0; i < h->count; i++)
		free(h->name[i]);
	free(h->name);
	*h = (struct hosts){ 0 };
}

static int add(struct hosts *h, const char *name, struct err *e)
{
	size_t room = h->room ? h->room * 2 : 16;
	char **more;

	for (size_t i = 0; i < h->count; i++)
		if (!strcmp(h->name[i], name))
			return 0;
	if (h->count >= HOSTS_MAX)
		return err_set(e, E2BIG, "more than %d hosts", HOSTS_MAX);
	if (h->count == h->room) {
		more = realloc(h->name, room * sizeof(*more));
		if (!more)
			return err_set(e, ENOMEM, "no memory for hosts");
		h->name = more;
		h->room = room;
	}
	h->name[h->count] = strdup(name);
	if (!h->name[h->count])
		return err_set(e, ENOMEM, "no memory for hosts");
	h->count++;
	return 0;
}

static int add_dns(struct hosts *h, const char *name, struct err *e)
{
	struct sock_addr addr[SOCK_ADDRS];
	char text[SOCK_ADDR_TEXT];
	size_t count;
	int ret = sock_resolve(name, "1", 0, false, addr, &count, e);

	for (size_t i = 0; !ret && i < count; i++)
		ret = add(h, sock_addr_text(&addr[i], false, text), e);
	return ret;
}

static int expand(struct hosts *h, const char *word, int depth, struct err *e);

/* One element of "[1-3,07]": a number or a range, between head and what follows the bracket. */
static int expand_range(struct hosts *h, const char *word, const char *open, const char *from,
	const char *close, int depth, struct err *e)
{
	char name[NAME_BYTES], *end;
	unsigned long low, high;
	int width, ret = 0;

	low = high = strtoul(from, &end, 10);
	width = (int)(end - from);
	if (*end == '-')
		high = strtoul(end + 1, &end, 10);
	if (!isdigit((unsigned char)*from) || (*end != ',' && *end != ']') || high < low ||
		high - low > HOSTS_MAX || width > 12)
		return err_set(
			e, EINVAL, "\"%s\" is no list of hosts; for example: node[01-04,07]", word);
	for (unsigned long i = low; !ret && i <= high; i++) {
		if (snprintf(name, sizeof(name), "%.*s%0*lu%s", (int)(open - word), word, width, i,
			    close + 1) >= (int)sizeof(name))
			return err_set(
				e, EINVAL, "\"%s\" is too long for the name of a host", word);
		ret = expand(h, name, depth + 1, e);
	}
	return ret;
}

static int expand(struct hosts *h, const char *word, int depth, struct err *e)
{
	const char *open = strchr(word, '['), *close = open ? strchr(open, ']') : NULL, *from;
	int ret = 0;

	if (!open)
		return word[0] ? add(h, word, e) : 0;
	if (!close || depth > 3)
		return err_set(
			e, EINVAL, "\"%s\" is no list of hosts; for example: node[01-04,07]", word);
	for (from = open + 1; !ret && from < close;) {
		ret = expand_range(h, word, open, from, close, depth, e);
		while (from < close && *from != ',')
			from++;
		from++;
	}
	return ret;
}

int hosts_add_list(struct hosts *h, const char *list, struct err *e)
{
	char word[NAME_BYTES];
	size_t n = 0;
	int inside = 0, ret = 0;

	for (const char *c = list;; c++) {
		inside += (*c == '[') - (*c == ']');
		if (*c && !(inside <= 0 && (*c == ',' || isspace((unsigned char)*c)))) {
			if (n == sizeof(word) - 1)
				return err_set(e, EINVAL, "the name of a host is too long");
			word[n++] = *c;
			continue;
		}
		word[n] = '\0';
		n = 0;
		ret = strncmp(word, "dns:", 4) ? expand(h, word, 0, e) : add_dns(h, word + 4, e);
		if (ret || !*c)
			return ret;
	}
}

static int add_file(struct hosts *h, const char *path, struct err *e)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;
	int ret = 0;

	if (!f)
		return err_set(e, errno, "cannot read the hosts in %s: %m", path);
	while (!ret && getline(&line, &room, f) > 0) {
		line[strcspn(line, "#\r\n")] = '\0';
		ret = hosts_add_list(h, line, e);
	}
	free(line);
	fclose(f);
	return ret;
}

int hosts_find(struct hosts *h, const char *words, const char *file, struct err *e)
{
	const char *slurm = getenv("SLURM_JOB_NODELIST"), *pbs = getenv("PBS_NODEFILE");
	const char *own = getenv("WEIR_HOSTS");
	int ret = 0;

	*h = (struct hosts){ 0 };
	if (words)
		ret = hosts_add_list(h, words, e);
	if (!ret && file)
		ret = add_file(h, file, e);
	if (!words && !file && own)
		ret = hosts_add_list(h, own, e);
	else if (!words && !file && slurm)
		ret = hosts_add_list(h, slurm, e);
	else if (!words && !file && pbs)
		ret = add_file(h, pbs, e);
	if (!ret && !h->count) {
		err_set(e, EINVAL, "there are no hosts");
		ret = err_hint(e,
			"name them with --hosts node[01-04] or --hosts-file FILE, or run in a job of Slurm");
	}
	if (ret)
		hosts_free(h);
	return ret;
}
