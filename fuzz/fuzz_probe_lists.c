/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of hosts and files of pairs: whatever is accepted names hosts and NICs that exist. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "probe/hosts.h"
#include "probe/mesh.h"

#define HOSTS 3
#define RAILS 2

static const char *name_of(const void *context, uint32_t host)
{
	static const char *const name[HOSTS] = { "a", "b1", "c/1" };

	(void)context;
	return name[host];
}

static uint32_t rails_of(const void *context, uint32_t host)
{
	(void)context;
	(void)host;
	return RAILS;
}

static const char *address_of(const void *context, uint32_t host, uint32_t rail)
{
	static const char *const address[HOSTS][RAILS] = { { "1.1.1.1", "::1" },
		{ "1.1.1.2", "::2" }, { "1.1.1.3", "::3" } };

	(void)context;
	return address[host][rail];
}

static void read_pairs(const uint8_t *data, size_t size)
{
	const struct mesh_names names = { HOSTS, name_of, rails_of, address_of, NULL };
	int fd = memfd_create("pairs", MFD_CLOEXEC);
	struct mesh_pair *pair;
	struct err e = { 0 };
	char path[32];
	size_t count;

	MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (mesh_read(path, &names, &pair, &count, &e)) {
		MUST(e.code && e.what[0] && !pair && !count);
	} else {
		MUST(count);
		for (size_t i = 0; i < count; i++)
			MUST(pair[i].from_host < HOSTS && pair[i].to_host < HOSTS &&
				pair[i].from_rail < RAILS && pair[i].to_rail < RAILS &&
				pair[i].from_host != pair[i].to_host);
		free(pair);
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hosts hosts = { 0 };
	char text[64]; /* longer ones only name more hosts */
	size_t length = size < sizeof(text) - 1 ? size : sizeof(text) - 1;

	read_pairs(data, size);
	memcpy(text, data, length);
	text[length] = '\0';
	/* Names are looked up nowhere, and a thousand hosts are enough to look at. */
	if (strstr(text, "dns:") || strspn(text, "0123456789[]-,") == length)
		return 0;
	for (char *c = text; *c; c++)
		if (*c == '-' && strspn(c + 1, "0123456789") > 3)
			return 0;
	if (!hosts_add_list(&hosts, text, NULL))
		for (size_t i = 0; i < hosts.count; i++)
			MUST(hosts.name[i][0] && !strpbrk(hosts.name[i], "[,"));
	hosts_free(&hosts);
	return 0;
}
