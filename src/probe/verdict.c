// SPDX-License-Identifier: BSD-3-Clause
#include <stdlib.h>
#include <string.h>

#include "probe/verdict_parts.h"

#define QUIET_WINDOWS 2 /* with probes and without a vote, before a verdict ends */

int verdict_new(struct verdicts **out, uint32_t hosts, uint32_t rails, const struct mesh_pair *pair,
	size_t pairs, struct err *e)
{
	struct verdicts *v = calloc(1, sizeof(*v));

	if (!v)
		return err_set(e, ENOMEM, "no memory for verdicts");
	v->hosts = hosts;
	v->name_windows = VERDICT_NAME_WINDOWS;
	v->rails = rails;
	v->pairs = pairs;
	v->groups = rails + 3 * (hosts + (size_t)hosts * rails);
	v->pair = calloc(pairs + 1, sizeof(*v->pair));
	v->group = calloc(v->groups, sizeof(*v->group));
	v->rail_median = calloc(rails + 1, sizeof(*v->rail_median));
	v->scratch = calloc(pairs + 1, sizeof(*v->scratch));
	v->late_ns = calloc(hosts + 1, sizeof(*v->late_ns));
	v->accused = calloc(pairs + 1, sizeof(*v->accused));
	if (!v->accused || !v->pair || !v->group || !v->rail_median || !v->scratch || !v->late_ns) {
		verdict_free(v);
		return err_set(e, ENOMEM, "no memory for verdicts of %zu pairs", pairs);
	}
	for (size_t i = 0; i < pairs; i++)
		v->pair[i].m = pair[i];
	*out = v;
	return 0;
}

void verdict_free(struct verdicts *v)
{
	if (!v)
		return;
	free(v->pair);
	free(v->group);
	free(v->rail_median);
	free(v->scratch);
	free(v->late_ns);
	free(v->accused);
	free(v);
}

void verdict_add(struct verdicts *v, size_t pair, const struct verdict_window *w)
{
	struct pair *p = &v->pair[pair];

	p->now.sent += w->sent;
	p->now.lost += w->lost;
	if (w->late_ns > p->now.late_ns)
		p->now.late_ns = w->late_ns;
	if (w->median_ns) {
		p->now.samples = w->samples;
		p->now.stamped = w->stamped;
		p->now.median_ns = w->median_ns;
		p->now.prober_ns = w->prober_ns;
		p->now.responder_ns = w->responder_ns;
	}
	p->seen = true;
}

static struct group *rail_group(struct verdicts *v, uint32_t rail)
{
	return &v->group[rail];
}

static struct group *host_group(struct verdicts *v, uint32_t host, enum verdict_side side)
{
	return &v->group[v->rails + 3 * (size_t)host + side];
}

static struct group *nic_group(
	struct verdicts *v, uint32_t host, uint32_t rail, enum verdict_side side)
{
	return &v->group[v->rails + 3 * (v->hosts + (size_t)host * v->rails + rail) + side];
}

static void group_count(struct group *g, const struct pair *p, uint32_t other)
{
	uint32_t i = 0;

	g->probed = true;
	if (p->starved)
		return;
	g->pairs++;
	g->bad += p->bad;
	g->left += p->bad && !p->explained;
	while (i < g->members && g->member[i] != other)
		i++;
	if (i == g->members && g->members < VERDICT_MEMBERS_MIN)
		g->member[g->members++] = other;
}

/* The groups that a pair belongs to, and the member of each that it speaks for. */
#define PAIR_GROUPS 10
static int groups_of(struct verdicts *v, const struct pair *p, struct group *g[PAIR_GROUPS],
	uint32_t member[PAIR_GROUPS])
{
	const struct mesh_pair *m = &p->m;
	int n = 0;

#define ADD(which, who) (g[n] = (which), member[n++] = (who))
	ADD(host_group(v, m->from_host, VERDICT_BOTH), m->to_host);
	ADD(host_group(v, m->to_host, VERDICT_BOTH), m->from_host);
	ADD(host_group(v, m->from_host, VERDICT_SENDS), m->to_host);
	ADD(host_group(v, m->to_host, VERDICT_RECEIVES), m->from_host);
	ADD(nic_group(v, m->from_host, m->from_rail, VERDICT_BOTH), m->to_host);
	ADD(nic_group(v, m->to_host, m->to_rail, VERDICT_BOTH), m->from_host);
	ADD(nic_group(v, m->from_host, m->from_rail, VERDICT_SENDS), m->to_host);
	ADD(nic_group(v, m->to_host, m->to_rail, VERDICT_RECEIVES), m->from_host);
	ADD(rail_group(v, m->from_rail), m->from_host);
	if (m->to_rail != m->from_rail)
		ADD(rail_group(v, m->to_rail), m->to_host);
#undef ADD
	return n;
}

static void count_votes(struct verdicts *v)
{
	struct group *g[PAIR_GROUPS];
	uint32_t member[PAIR_GROUPS];

	memset(v->group, 0, v->groups * sizeof(*v->group));
	v->accusations = 0;
	for (size_t i = 0; i < v->pairs; i++) {
		struct pair *p = &v->pair[i];
		int n;

		if (!p->seen || !p->now.sent)
			continue;
		n = groups_of(v, p, g, member);
		for (int j = 0; j < n; j++)
			group_count(g[j], p, member[j]);
		if (p->bad && !p->starved)
			v->accused[v->accusations++] = (uint32_t)i;
	}
}

static bool is_same(const struct verdict *a, const struct verdict *b)
{
	return a->subject == b->subject && a->fault == b->fault && a->side == b->side &&
	       a->host == b->host && a->rail == b->rail && a->to_host == b->to_host &&
	       a->to_rail == b->to_rail;
}

/* Slowness is found in windows that follow each other, and began with the first of them; but what lost probes until now
 * was not slow yet. */
static uint64_t began_ns(const struct verdicts *v, const struct verdict *found)
{
	bool slow = found->fault == VERDICT_SLOW;
	uint64_t ns = v->begin_ns[slow ? VERDICT_SLOW_WINDOWS - 1 : 0];
	struct verdict loss = *found;

	loss.fault = VERDICT_LOSS;
	for (size_t i = 0; slow && i < v->names; i++) {
		const struct name *n = &v->name[i];

		if (n->published && is_same(&n->v, &loss) && n->bad_ns > ns)
			ns = n->bad_ns;
	}
	return ns;
}

static void vote(struct verdicts *v, const struct verdict *found, size_t pair)
{
	struct name *n;

	for (size_t i = 0; i < v->names; i++) {
		n = &v->name[i];
		if (n->v.end_ns || !is_same(&n->v, found))
			continue;
		n->voted = true;
		n->pair = pair;
		n->bad_ns = v->end_ns;
		n->quiet = 0;
		n->v.pairs = found->pairs;
		n->v.bad = found->bad;
		n->v.is_new = !n->published && ++n->votes >= v->name_windows;
		n->published |= n->v.is_new;
		return;
	}
	if (v->names == VERDICT_NAMES_MAX)
		return;
	n = &v->name[v->names++];
	*n = (struct name){
		.v = *found, .voted = true, .votes = 1, .pair = pair, .bad_ns = v->end_ns
	};
	n->v.begin_ns = began_ns(v, found);
	n->v.is_new = n->published = v->name_windows <= 1;
}

static void describe(const struct verdicts *v, size_t group, struct verdict *found)
{
	size_t which = (group - v->rails) / 3, rails = v->rails ? v->rails : 1;

	if (group < v->rails) {
		found->subject = VERDICT_RAIL;
		found->rail = (uint32_t)group;
		return;
	}
	found->side = (enum verdict_side)((group - v->rails) % 3);
	found->subject = which < v->hosts ? VERDICT_HOST : VERDICT_NIC;
	found->host = (uint32_t)which;
	if (which >= v->hosts) {
		found->host = (uint32_t)((which - v->hosts) / rails);
		found->rail = (uint32_t)((which - v->hosts) % rails);
	}
}

/* Whether a pair is one of those that a verdict about a group is about. */
static bool is_about(const struct verdict *n, const struct mesh_pair *m)
{
	bool any_rail = n->subject == VERDICT_HOST, any_host = n->subject == VERDICT_RAIL;
	bool from = (any_host || n->host == m->from_host) && (any_rail || n->rail == m->from_rail);
	bool to = (any_host || n->host == m->to_host) && (any_rail || n->rail == m->to_rail);

	if (n->subject == VERDICT_PAIR || n->subject == VERDICT_PROBER)
		return false;
	return (from && n->side != VERDICT_RECEIVES) || (to && n->side != VERDICT_SENDS);
}

/* Set aside what a group explains. Returns what most of it was: loss or slowness. */
static enum verdict_fault explain(struct verdicts *v, const struct verdict *found)
{
	struct group *g[PAIR_GROUPS];
	uint32_t member[PAIR_GROUPS], count[2] = { 0 };
	size_t kept = 0;

	for (size_t i = 0; i < v->accusations; i++) {
		struct pair *p = &v->pair[v->accused[i]];
		int n;

		if (!is_about(found, &p->m)) {
			v->accused[kept++] = v->accused[i];
			continue;
		}
		p->explained = true;
		count[p->fault]++;
		n = groups_of(v, p, g, member);
		for (int j = 0; j < n; j++)
			g[j]->left--;
	}
	v->accusations = kept;
	return count[VERDICT_LOSS] >= count[VERDICT_SLOW] ? VERDICT_LOSS : VERDICT_SLOW;
}

/* The group that explains most. Of two that explain as much, the smaller one. */
static struct group *choose(struct verdicts *v)
{
	struct group *best = NULL;

	for (size_t i = 0; i < v->groups; i++) {
		struct group *g = &v->group[i];

		if (g->left < 2 || g->members < VERDICT_MEMBERS_MIN || g->bad * 5 < g->pairs * 4)
			continue;
		if (!best || g->left > best->left ||
			(g->left == best->left && g->pairs < best->pairs))
			best = g;
	}
	return best;
}

static void name_groups(struct verdicts *v)
{
	struct group *g;

	while ((g = choose(v))) {
		struct verdict found = { 0 };

		describe(v, (size_t)(g - v->group), &found);
		found.pairs = g->pairs;
		found.bad = g->bad;
		found.fault = explain(v, &found);
		vote(v, &found, 0);
	}
}

/* A group that was named and heals pair by pair, or whose other side follows: the last of them are not news. */
static bool is_covered(const struct verdicts *v, const struct mesh_pair *m)
{
	for (size_t i = 0; i < v->names; i++) {
		struct verdict n = v->name[i].v;

		n.side = VERDICT_BOTH;
		if (v->name[i].published && !n.end_ns && is_about(&n, m))
			return true;
	}
	return false;
}

static void name_pairs(struct verdicts *v)
{
	for (size_t i = 0; i < v->pairs; i++) {
		struct pair *p = &v->pair[i];
		struct verdict found = { .subject = VERDICT_PAIR,
			.fault = p->fault,
			.host = p->m.from_host,
			.rail = p->m.from_rail,
			.to_host = p->m.to_host,
			.to_rail = p->m.to_rail,
			.pairs = 1,
			.bad = 1 };

		if (!p->bad || p->explained || is_covered(v, &p->m))
			continue;
		if (p->starved)
			found = (struct verdict){ .subject = VERDICT_PROBER,
				.fault = p->fault,
				.host = p->starved_host,
				.cannot_tell = true };
		else
			found.cannot_tell =
				nic_group(v, p->m.from_host, p->m.from_rail, VERDICT_BOTH)
						->members < VERDICT_MEMBERS_MIN ||
				nic_group(v, p->m.to_host, p->m.to_rail, VERDICT_BOTH)->members <
					VERDICT_MEMBERS_MIN;
		vote(v, &found, i);
	}
}

/* What is new or has ended has been told. */
static void forget_told(struct verdicts *v)
{
	size_t kept = 0;

	for (size_t i = 0; i < v->names; i++)
		if (!v->name[i].v.end_ns)
			v->name[kept++] = v->name[i];
	v->names = kept;
	for (size_t i = 0; i < kept; i++)
		v->name[i].voted = v->name[i].v.is_new = false;
}

/* Whether this window can say anything about what was named. */
static bool is_probed(struct verdicts *v, const struct name *n)
{
	switch (n->v.subject) {
	case VERDICT_PAIR:
		return v->pair[n->pair].now.sent > 0;
	case VERDICT_RAIL:
		return rail_group(v, n->v.rail)->probed;
	case VERDICT_NIC:
		return nic_group(v, n->v.host, n->v.rail, n->v.side)->probed;
	default:
		return host_group(v, n->v.host, n->v.side)->probed;
	}
}

static void end_quiet(struct verdicts *v)
{
	for (size_t i = 0; i < v->names; i++) {
		struct name *n = &v->name[i];

		if (n->voted || !is_probed(v, n))
			continue;
		if (!n->quiet++)
			n->v.bad = 0;
		if (n->quiet >= QUIET_WINDOWS || !n->published)
			n->v.end_ns = n->bad_ns;
	}
}

static void name_all(struct verdicts *v)
{
	forget_told(v);
	count_votes(v);
	name_groups(v);
	name_pairs(v);
	end_quiet(v);
	for (size_t i = 0; i < v->pairs; i++) {
		v->pair[i].now = (struct verdict_window){ 0 };
		v->pair[i].seen = false;
	}
}

static void begin_window(struct verdicts *v, uint64_t begin_ns)
{
	for (int i = VERDICT_SLOW_WINDOWS - 1; i > 0; i--)
		v->begin_ns[i] = v->begin_ns[i - 1];
	v->begin_ns[0] = begin_ns;
}

/* Since they were last judged. Returns how many pairs were probed. */
static size_t count_probes(const struct verdicts *v, uint64_t *sent)
{
	size_t probed = 0;

	*sent = 0;
	for (size_t i = 0; i < v->pairs; i++) {
		*sent += v->pair[i].now.sent;
		probed += v->pair[i].now.sent > 0;
	}
	return probed;
}

int verdict_judge(struct verdicts *v, uint64_t begin_ns, uint64_t end_ns)
{
	uint64_t sent;
	size_t probed = count_probes(v, &sent);

	if (probed && !v->joining)
		begin_window(v, begin_ns);
	/* Of one probe, nobody loses two. By the average, since all have the same rate, and a prober that gets no CPU is
	 * not to hold up the others. */
	v->joining = sent < probed * VERDICT_PROBES_MIN;
	if (!probed || v->joining) {
		forget_told(v);
		return 0;
	}
	v->end_ns = end_ns;
	verdict_look(v);
	name_all(v);
	return 0;
}

void verdict_accuse(struct verdicts *v, size_t pair, enum verdict_fault fault)
{
	struct pair *p = &v->pair[pair];

	p->bad = true;
	p->fault = fault;
}

void verdict_starve(struct verdicts *v, size_t pair, uint32_t host)
{
	v->pair[pair].starved = true;
	v->pair[pair].starved_host = host;
}

void verdict_attribute(struct verdicts *v, uint64_t wall_ns)
{
	for (size_t i = 0; i < v->pairs; i++) {
		v->pair[i].seen = true;
		v->pair[i].now.sent = 1;
		v->pair[i].explained = false;
	}
	for (int i = 0; i < VERDICT_SLOW_WINDOWS; i++)
		v->begin_ns[i] = wall_ns;
	v->end_ns = wall_ns;
	v->name_windows = 1; /* what is accused was measured often enough */
	name_all(v);
	for (size_t i = 0; i < v->pairs; i++)
		v->pair[i].bad = v->pair[i].starved = false;
}

size_t verdict_count(const struct verdicts *v)
{
	size_t count = 0;

	for (size_t i = 0; i < v->names; i++)
		count += v->name[i].published;
	return count;
}

const struct verdict *verdict_at(const struct verdicts *v, size_t index)
{
	for (size_t i = 0; i < v->names; i++)
		if (v->name[i].published && !index--)
			return &v->name[i].v;
	return NULL;
}
