// SPDX-License-Identifier: BSD-3-Clause
#include "probe/hosts.h"

#include <ctype.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/sock.h"

#define NAME_BYTES 256
#define SERVICE	   "weir-agent.weir" /* headless, in packaging/kubernetes */

void hosts_free(struct hosts *h)
{
	for (size_t i = 0; i < h->count; i++)
		free(h->name[i]);
	free(h->name);
	free(h->slot);
	*h = (struct hosts){ 0 };
}

/* The slot of a name, or the free one where it belongs. */
static uint32_t *slot_of(const struct hosts *h, const char *name)
{
	uint32_t hash = 2166136261u;

	for (const char *c = name; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 16777619u;
	for (size_t i = hash;; i++) {
		uint32_t *slot = &h->slot[i % (2 * h->room)];

		if (!*slot || !strcmp(h->name[*slot - 1], name))
			return slot;
	}
}

static int grow(struct hosts *h, struct err *e)
{
	size_t room = h->room ? h->room * 2 : 16;
	uint32_t *slot = calloc(2 * room, sizeof(*slot));
	char **more = slot ? realloc(h->name, room * sizeof(*more)) : NULL;

	if (more)
		h->name = more;
	if (!more || !slot) {
		free(slot);
		return err_set(e, ENOMEM, "no memory for hosts");
	}
	free(h->slot);
	h->slot = slot;
	h->room = room;
	for (size_t i = 0; i < h->count; i++)
		*slot_of(h, h->name[i]) = (uint32_t)i + 1;
	return 0;
}

int hosts_add(struct hosts *h, const char *name, struct err *e)
{
	int ret = h->count == h->room ? grow(h, e) : 0;
	uint32_t *slot;

	if (ret)
		return ret;
	slot = slot_of(h, name);
	if (*slot)
		return 0;
	if (h->count >= HOSTS_MAX)
		return err_set(e, E2BIG, "more than %d hosts", HOSTS_MAX);
	h->name[h->count] = strdup(name);
	if (!h->name[h->count])
		return err_set(e, ENOMEM, "no memory for hosts");
	*slot = (uint32_t)++h->count;
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct sockaddr *x = (*(const struct addrinfo *const *)a)->ai_addr;
	const struct sockaddr *y = (*(const struct addrinfo *const *)b)->ai_addr;

	if (x->sa_family != y->sa_family)
		return x->sa_family < y->sa_family ? -1 : 1;
	if (x->sa_family == AF_INET6)
		return memcmp(&((const struct sockaddr_in6 *)x)->sin6_addr,
			&((const struct sockaddr_in6 *)y)->sin6_addr, sizeof(struct in6_addr));
	return memcmp(&((const struct sockaddr_in *)x)->sin_addr,
		&((const struct sockaddr_in *)y)->sin_addr, sizeof(struct in_addr));
}

/* DNS turns its answers round from one to the next: sorted, the same hosts give the same list. */
static int add_sorted(struct hosts *h, const struct addrinfo *list, struct err *e)
{
	const struct addrinfo **sorted, *ai;
	size_t count = 0;
	int ret = 0;

	for (ai = list; ai; ai = ai->ai_next)
		count++;
	sorted = calloc(count + 1, sizeof(*sorted));
	if (!sorted)
		return err_set(e, ENOMEM, "no memory for hosts");
	count = 0;
	for (ai = list; ai; ai = ai->ai_next)
		sorted[count++] = ai;
	qsort(sorted, count, sizeof(*sorted), by_address);
	for (size_t i = 0; !ret && i < count; i++) {
		struct sock_addr addr = { .len = sorted[i]->ai_addrlen };
		char text[SOCK_ADDR_TEXT];

		memcpy(&addr.storage, sorted[i]->ai_addr, addr.len);
		ret = hosts_add(h, sock_addr_text(&addr, false, text), e);
	}
	free(sorted);
	return ret;
}

/* A service has an address for each of its hosts: more than the few that sock_resolve() takes of one. */
static int add_dns(struct hosts *h, const char *name, struct err *e)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list;
	int ret = getaddrinfo(name, NULL, &hints, &list);

	if (ret) {
		err_set(e, ENOENT, "cannot find the hosts of dns:%s: %s", name,
			ret == EAI_SYSTEM ? strerror(errno) : gai_strerror(ret));
		return err_hint(e, "check the name: it stands for every address that it has");
	}
	ret = add_sorted(h, list, e);
	freeaddrinfo(list);
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
		return word[0] ? hosts_add(h, word, e) : 0;
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

/* mpirun's files say how many ranks a host takes: "node1 slots=8", "node1:8", "node1 8". */
static void cut_slots(char *line)
{
	char *space, *colon;

	line[strcspn(line, "#\r\n")] = '\0';
	line += strspn(line, " \t");
	space = line + strcspn(line, " \t");
	if (isdigit((unsigned char)space[strspn(space, " \t")]) || strchr(space, '='))
		*space = '\0';
	colon = strchr(line, ':');
	/* An address of IPv6 has more than one, "dns:NAME" has letters behind it. */
	if (colon && colon == strrchr(line, ':') && colon[1] &&
		strspn(colon + 1, "0123456789") == strcspn(colon + 1, " \t"))
		*colon = '\0';
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
		cut_slots(line);
		ret = hosts_add_list(h, line, e);
	}
	free(line);
	fclose(f);
	return ret;
}

/* What the environment says, the first that is set. Where it comes from is beside it. */
static const struct source {
	const char *variable;
	bool is_file;
} sources[] = {
	{ "WEIR_HOSTS", false }, { "SLURM_JOB_NODELIST", false },
	{ "SLURM_NODELIST", false }, /* Slurm before 2.2, and some sites' wrappers */
	{ "PBS_NODEFILE", true }, { "LSB_DJOB_HOSTFILE", true }, /* LSF */
	{ "OMPI_MCA_orte_default_hostfile", true }, /* Open MPI 4, Kubernetes' MPI operator */
	{ "PRTE_MCA_prte_default_hostfile", true }, /* Open MPI 5 */
	{ "HYDRA_HOST_FILE", true },		    /* MPICH */
	{ "I_MPI_HYDRA_HOST_FILE", true },	    /* Intel MPI */
	{ "VC_WORKER_HOSTS", false }, /* Kubernetes with Volcano; its master is added */
};

static unsigned long number_of(const char *variable)
{
	const char *text = getenv(variable);

	return text && isdigit((unsigned char)*text) ? strtoul(text, NULL, 10) : 0;
}

/* Nodes of a job of torchrun, or of Kubernetes' training operator (PET_NNODES may be "2:4"). */
static unsigned long torch_nodes(void)
{
	unsigned long nodes = number_of("GROUP_WORLD_SIZE"), world = number_of("WORLD_SIZE");
	unsigned long local = number_of("LOCAL_WORLD_SIZE");

	if (!nodes)
		nodes = number_of("PET_NNODES");
	if (!nodes && world)
		nodes = local ? world / local : world;
	return nodes;
}

/* torchrun says where rank 0 is and how many nodes there are. Where names are numbered from 0 the others follow
 * from that: "trainer-0.trainer" of a StatefulSet, "job-master-0" with "job-worker-0" of the training operator. */
static int add_torch(struct hosts *h, const char *master, struct err *e)
{
	unsigned long nodes = torch_nodes();
	const char *domain = master + strcspn(master, ".");
	size_t stem = (size_t)(domain - master);
	char name[NAME_BYTES];
	bool pods;
	int ret = hosts_add(h, master, e);

	if (ret || nodes < 2)
		return ret;
	if (nodes > HOSTS_MAX || stem < 3 || stem > NAME_BYTES / 2 ||
		strncmp(master + stem - 2, "-0", 2) != 0 || strlen(domain) > NAME_BYTES / 4) {
		err_set(e, EINVAL,
			"torchrun says that %lu nodes take part, but only the name of the first: "
			"MASTER_ADDR=%.100s",
			nodes, master);
		return err_hint(e, "name all of them with --hosts or --hosts-file");
	}
	stem--;
	pods = stem > 8 && !strncmp(master + stem - 8, "-master-", 8);
	for (unsigned long i = pods ? 0 : 1; !ret && i < nodes - pods; i++) {
		if (pods)
			snprintf(name, sizeof(name), "%.*s-worker-%lu%s", (int)(stem - 8), master,
				i, domain);
		else
			snprintf(name, sizeof(name), "%.*s%lu%s", (int)stem, master, i, domain);
		ret = hosts_add(h, name, e);
	}
	return ret;
}

static int add_environment(struct hosts *h, struct err *e)
{
	const char *text, *master = getenv("MASTER_ADDR"), *first = getenv("VC_MASTER_HOSTS");
	int ret = 0;

	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		text = getenv(sources[i].variable);
		if (!text || !*text)
			continue;
		if (!strncmp(sources[i].variable, "VC_", 3) && first)
			ret = hosts_add_list(h, first, e);
		if (!ret)
			ret = sources[i].is_file ? add_file(h, text, e)
						 : hosts_add_list(h, text, e);
		return ret;
	}
	if (master && *master)
		return add_torch(h, master, e);
	if (getenv("KUBERNETES_SERVICE_HOST")) {
		ret = add_dns(h, SERVICE, NULL);
		if (ret) {
			err_set(e, -ret, "this is a pod, and " SERVICE " has no addresses");
			ret = err_hint(e, "make the service of packaging/kubernetes, or give "
					  "--hosts dns:SERVICE.NAMESPACE");
		}
	}
	return ret;
}

static int refuse_none(struct err *e)
{
	static const char *const ranks[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK" };

	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
		if (getenv(ranks[i])) {
			err_set(e, EINVAL,
				"this is a rank of MPI (%s is set), and MPI does not tell a rank its hosts",
				ranks[i]);
			return err_hint(e, "give --hosts-file the hostfile of mpirun");
		}
	err_set(e, EINVAL, "there are no hosts");
	return err_hint(e,
		"name them with --hosts node[01-04] or --hosts-file FILE, or run in a job of Slurm");
}

int hosts_find(struct hosts *h, const char *words, const char *file, struct err *e)
{
	int ret = 0;

	*h = (struct hosts){ 0 };
	if (words)
		ret = hosts_add_list(h, words, e);
	if (!ret && file)
		ret = add_file(h, file, e);
	if (!words && !file)
		ret = add_environment(h, e);
	if (!ret && !h->count)
		ret = refuse_none(e);
	if (ret)
		hosts_free(h);
	return ret;
}
