/* SPDX-License-Identifier: BSD-3-Clause */
#include <linux/ethtool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/nic_ioctl.h"
#include "sys/nic_rss.h"

#define ENTRIES_MAX 65536u
#define KEY_MAX	    4096u

int nic_rss_queues(const char *nic, uint32_t *count, struct err *e)
{
	struct ethtool_rxnfc rings = { .cmd = ETHTOOL_GRXRINGS };
	int ret;

	ret = nic_ioctl(nic, &rings, "read the number of receive queues", e);
	*count = ret ? 0 : (uint32_t)rings.data;
	return ret;
}

/* ABI: the table stands behind the struct, the key behind the table. Allocated with room for both;
 * the sizes asked for are the sizes there are. */
static int rss_request(
	struct ethtool_rxfh **request, const char *nic, uint32_t context, bool fill, struct err *e)
{
	struct ethtool_rxfh sizes = { .cmd = ETHTOOL_GRSSH, .rss_context = context };
	struct ethtool_rxfh *r;
	int ret;

	*request = NULL;
	ret = nic_ioctl(nic, &sizes, "read the RSS table", e);
	if (ret)
		return ret;
	if (!sizes.indir_size || sizes.indir_size > ENTRIES_MAX || sizes.key_size > KEY_MAX)
		return err_set(e, EOPNOTSUPP, "the driver of %s has no RSS table", nic);
	r = calloc(1, sizeof(*r) + sizes.indir_size * sizeof(uint32_t) + sizes.key_size);
	if (!r)
		return err_set(e, ENOMEM, "no memory for an RSS table");
	*r = sizes;
	r->cmd = ETHTOOL_GRSSH;
	r->rss_context = context;
	if (fill)
		ret = nic_ioctl(nic, r, "read the RSS table", e);
	if (ret)
		free(r);
	else
		*request = r;
	return ret;
}

int nic_rss_read(struct nic_rss *r, const char *nic, uint32_t context, struct err *e)
{
	struct ethtool_rxfh *request;
	int ret;

	*r = (struct nic_rss){ 0 };
	ret = rss_request(&request, nic, context, true, e);
	if (ret || !request)
		return ret;
	r->size = request->indir_size;
	r->table = calloc(r->size, sizeof(*r->table));
	if (r->table)
		memcpy(r->table, request->rss_config, r->size * sizeof(*r->table));
	else
		ret = err_set(e, ENOMEM, "no memory for an RSS table");
	free(request);
	return ret;
}

void nic_rss_free(struct nic_rss *r)
{
	free(r->table);
	*r = (struct nic_rss){ 0 };
}

/* r NULL: back to the default. The number of the context comes back in it. */
static int rss_set(const char *nic, uint32_t *context, const struct nic_rss *r, const char *verb,
	struct err *e)
{
	bool fresh = *context == ETH_RXFH_CONTEXT_ALLOC;
	struct ethtool_rxfh *request;
	int ret;

	/* Reading first says the size, and how the hash input is transformed (a field that older
	 * kernels want to be 0): written back, it stays as it is. */
	ret = rss_request(&request, nic, fresh ? 0 : *context, false, e);
	if (ret || !request)
		return ret;
	if (r && r->size != request->indir_size) {
		ret = err_set(e, EINVAL, "the RSS table of %s has %u entries, not %u", nic,
			request->indir_size, r->size);
		goto free_request;
	}
	request->cmd = ETHTOOL_SRSSH;
	request->rss_context = *context;
	request->indir_size = r ? r->size : 0;
	request->key_size = 0;
	request->hfunc = 0;
	if (r)
		memcpy(request->rss_config, r->table, r->size * sizeof(*r->table));
	ret = nic_ioctl(nic, request, verb, e);
	*context = request->rss_context;
free_request:
	free(request);
	return ret;
}

static bool is_default(const char *nic, const struct nic_rss *r)
{
	uint32_t queues;

	if (nic_rss_queues(nic, &queues, NULL) || !queues)
		return false;
	for (uint32_t i = 0; i < r->size; i++)
		if (r->table[i] != i % queues)
			return false;
	return true;
}

static bool is_same(const struct nic_rss *a, const struct nic_rss *b)
{
	return a->size == b->size && a->table && b->table &&
	       !memcmp(a->table, b->table, a->size * sizeof(*a->table));
}

int nic_rss_write(const char *nic, const struct nic_rss *r, struct err *e)
{
	uint32_t context = 0;
	struct nic_rss now;
	bool done;

	if (is_default(nic, r) && !rss_set(nic, &context, NULL, "reset the RSS table", NULL) &&
		!nic_rss_read(&now, nic, 0, NULL)) {
		done = is_same(&now, r);
		nic_rss_free(&now);
		if (done)
			return 0;
	}
	return rss_set(nic, &context, r, "set the RSS table", e);
}

int nic_rss_create(const char *nic, const struct nic_rss *r, uint32_t *context, struct err *e)
{
	*context = ETH_RXFH_CONTEXT_ALLOC;
	return rss_set(nic, context, r, "make an RSS context", e);
}

int nic_rss_remove(const char *nic, uint32_t context, struct err *e)
{
	struct ethtool_rxfh request = { .cmd = ETHTOOL_SRSSH, .rss_context = context };

	return nic_ioctl(nic, &request, "remove an RSS context", e);
}

int nic_rss_find(const char *nic, const struct nic_rss *r, uint32_t *context, struct err *e)
{
	struct nic_rss other;
	bool same;
	int ret;

	for (*context = 1; *context < NIC_RSS_CONTEXTS; ++*context) {
		ret = nic_rss_read(&other, nic, *context, NULL);
		if (ret == -EOPNOTSUPP)
			break;
		same = !ret && is_same(r, &other);
		nic_rss_free(&other);
		if (same)
			return 0;
	}
	return err_set(e, ENOENT, "%s has no RSS context with this table", nic);
}

/* The shortest beginning that, repeated, gives the whole. */
static uint32_t period(const struct nic_rss *r)
{
	uint32_t p, i;

	for (p = 1; p < r->size; p++) {
		for (i = p; i < r->size && r->table[i] == r->table[i - p]; i++)
			;
		if (i == r->size)
			break;
	}
	return p;
}

char *nic_rss_text(const struct nic_rss *r)
{
	uint32_t n = period(r), last;
	char *text = NULL;
	size_t bytes;
	FILE *f;

	f = open_memstream(&text, &bytes);
	if (!f)
		return NULL;
	for (uint32_t i = 0; i < n; i = last + 1) {
		for (last = i; last + 1 < n && r->table[last + 1] == r->table[last] + 1; last++)
			;
		fprintf(f, i ? ",%u" : "%u", r->table[i]);
		if (last > i)
			fprintf(f, "-%u", r->table[last]);
	}
	fprintf(f, "/%u", r->size);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

/* "A" or "A-B" at *text, moved beyond it. */
static bool take_range(const char **text, unsigned long *first, unsigned long *last)
{
	char *end;

	if (**text < '0' || **text > '9')
		return false;
	*first = *last = strtoul(*text, &end, 10);
	if (*end == '-' && end[1] >= '0' && end[1] <= '9')
		*last = strtoul(end + 1, &end, 10);
	*text = end;
	return *first <= *last && *last < ENTRIES_MAX;
}

int nic_rss_parse(struct nic_rss *r, const char *text, struct err *e)
{
	const char *slash = strrchr(text, '/'), *at = text;
	unsigned long first, last, size;
	uint32_t n = 0;
	char *end;

	*r = (struct nic_rss){ 0 };
	size = slash ? strtoul(slash + 1, &end, 10) : 0;
	if (!size || size > ENTRIES_MAX || *end)
		goto refuse;
	r->table = calloc(size, sizeof(*r->table));
	if (!r->table)
		return err_set(e, ENOMEM, "no memory for an RSS table");
	while (n < size) {
		if (!take_range(&at, &first, &last))
			goto refuse;
		for (; first <= last && n < size; first++)
			r->table[n++] = (uint32_t)first;
		if (*at == '/')
			break;
		if (first <= last || *at++ != ',')
			goto refuse;
	}
	if (at != slash)
		goto refuse;
	for (uint32_t i = n; i < size; i++)
		r->table[i] = r->table[i - n];
	r->size = (uint32_t)size;
	return 0;

refuse:
	nic_rss_free(r);
	err_set(e, EINVAL, "'%s' is no RSS table", text);
	return err_hint(e, "for example 0-7/128: 128 entries, queues 0 to 7 in turn");
}

int nic_rss_spread(struct nic_rss *r, uint32_t size, const struct cpus *queues, struct err *e)
{
	*r = (struct nic_rss){ .size = size };
	if (!queues->count || !size)
		return err_set(e, EINVAL, "no queue is left for all other traffic");
	r->table = calloc(size, sizeof(*r->table));
	if (!r->table)
		return err_set(e, ENOMEM, "no memory for an RSS table");
	for (uint32_t i = 0; i < size; i++)
		r->table[i] = (uint32_t)cpus_nth(queues, (int)(i % (uint32_t)queues->count));
	return 0;
}

bool nic_rss_uses(const struct nic_rss *r, const struct cpus *queues)
{
	for (uint32_t i = 0; i < r->size; i++)
		if (cpus_has(queues, (int)r->table[i]))
			return true;
	return false;
}
