// SPDX-License-Identifier: BSD-3-Clause
#include "probe/tournament.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOST_MIN 2
/* Who waits for the network sleeps: one that wants a CPU for half of the time waits for that. */
#define STARVED_SHARE 0.5

void tournament_free(struct tournament *t)
{
	free(t->result);
	t->result = NULL;
	t->results = t->room = 0;
}

static struct tournament_result *find(const struct tournament *t, const struct mesh_pair *m)
{
	for (size_t i = t->first; i < t->results; i++)
		if (!memcmp(&t->result[i].m, m, sizeof(*m)))
			return &t->result[i];
	return NULL;
}

struct tournament_result *tournament_pair(struct tournament *t, const struct mesh_pair *m,
	uint32_t round, const char *local, const char *peer, struct err *e)
{
	size_t room = t->room ? t->room * 2 : 256;
	struct tournament_result *r = find(t, m);

	if (r)
		return r;
	if (t->results == t->room) {
		r = realloc(t->result, room * sizeof(*r));
		if (!r) {
			err_set(e, ENOMEM, "no memory for %zu results", room);
			return NULL;
		}
		t->result = r;
		t->room = room;
	}
	r = &t->result[t->results++];
	*r = (struct tournament_result){ .m = *m, .round = round };
	snprintf(r->local, sizeof(r->local), "%s", local);
	snprintf(r->peer, sizeof(r->peer), "%s", peer);
	return r;
}

static double larger(const struct tournament_hosts *h)
{
	return h->from > h->to ? h->from : h->to;
}

void tournament_keep(const struct tournament *t, struct tournament_result *r, double value,
	const struct tournament_hosts *hosts)
{
	bool best = !r->value || (t->latency ? value < r->value : value > r->value);

	if (value <= 0)
		return;
	/* The network is not faster than it was at best, so what counts of its hosts is what they took at least. */
	if (t->latency ? !r->value || larger(hosts) < larger(&r->hosts) : best)
		r->hosts = *hosts;
	if (best)
		r->value = value;
}

void tournament_keep_late(struct tournament_result *r, const struct tournament_hosts *late)
{
	if (late->from > r->late.from)
		r->late.from = late->from;
	if (late->to > r->late.to)
		r->late.to = late->to;
}

static int by_number(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

int tournament_usual(struct tournament *t, struct err *e)
{
	double *all = malloc((t->results + 1) * sizeof(*all));
	size_t n = 0;

	if (!all)
		return err_set(e, ENOMEM, "no memory for %zu results", t->results);
	for (size_t i = 0; i < t->results; i++)
		if (t->result[i].value > 0)
			all[n++] = t->result[i].value;
	qsort(all, n, sizeof(*all), by_number);
	t->usual = n ? all[n / 2] : 0;
	free(all);
	return 0;
}

bool tournament_is_lossy(const struct tournament_result *r)
{
	return r->failed || (r->lost >= LOST_MIN && r->lost * 20 >= r->sent);
}

bool tournament_is_slow(const struct tournament *t, const struct tournament_result *r)
{
	if (!r->value)
		return false;
	if (!t->latency)
		return r->value * t->slow < t->usual;
	return r->value > t->usual * t->slow && r->value > t->usual + VERDICT_SLOW_NS;
}

bool tournament_is_suspect(const struct tournament *t, const struct tournament_result *r)
{
	return tournament_is_lossy(r) || tournament_is_slow(t, r);
}

bool tournament_is_starved(
	const struct tournament *t, const struct tournament_result *r, uint32_t *host)
{
	const struct tournament_hosts *h = tournament_is_lossy(r) ? &r->late : &r->hosts;

	if (host)
		*host = h->from >= h->to ? r->m.from_host : r->m.to_host;
	if (!tournament_is_suspect(t, r) || r->failed)
		return false;
	if (tournament_is_lossy(r))
		return larger(h) >= VERDICT_LATE_NS;
	return t->latency ? r->value - t->usual <= larger(h) : larger(h) >= STARVED_SHARE;
}

size_t tournament_suspects(const struct tournament *t, uint32_t round, struct mesh_pair *pair)
{
	size_t n = 0;

	for (size_t i = 0; i < t->results; i++)
		if (t->result[i].round == round && tournament_is_suspect(t, &t->result[i]))
			pair[n++] = t->result[i].m;
	return n;
}

size_t tournament_suspect_count(const struct tournament *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->results; i++)
		n += tournament_is_suspect(t, &t->result[i]);
	return n;
}

void tournament_accuse(const struct tournament *t, struct verdicts *v)
{
	uint32_t host;

	for (size_t i = 0; i < t->results; i++) {
		const struct tournament_result *r = &t->result[i];

		if (!tournament_is_suspect(t, r))
			continue;
		verdict_accuse(v, i, tournament_is_lossy(r) ? VERDICT_LOSS : VERDICT_SLOW);
		if (tournament_is_starved(t, r, &host))
			verdict_starve(v, i, host);
	}
}
