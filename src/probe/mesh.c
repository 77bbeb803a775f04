// SPDX-License-Identifier: BSD-3-Clause
#include "probe/mesh.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

int mesh_parse(struct mesh_want *want, const char *text, struct err *e)
{
	char *end;

	if (!strcasecmp(text, "full")) {
		want->kind = MESH_FULL;
	} else if (!strcasecmp(text, "rail")) {
		want->kind = MESH_RAIL;
	} else if (!strncasecmp(text, "ring:", 5)) {
		want->kind = MESH_RING;
		want->ring_steps = (uint32_t)strtoul(text + 5, &end, 10);
		if (!text[5] || *end || !want->ring_steps)
			return err_set(e, EINVAL, "\"%s\" is no ring; for example: ring:4", text);
	} else if (!strncasecmp(text, "file:", 5) && text[5]) {
		want->kind = MESH_FILE;
		want->file = text + 5;
	} else {
		return err_set(e, EINVAL,
			"\"%s\" is no list of targets: full, rail, ring:K or file:PATH", text);
	}
	return 0;
}

/* Candidate c of a NIC: so many hosts further, on that rail. */
static void candidate(
	const struct mesh_want *w, uint64_t c, uint32_t rail, uint32_t *steps, uint32_t *to_rail)
{
	if (w->kind == MESH_FULL) {
		/* The own rail first, then the others. */
		*steps = (uint32_t)(c % (w->hosts - 1)) + 1;
		*to_rail = (rail + (uint32_t)(c / (w->hosts - 1))) % w->rails;
	} else {
		*steps = (uint32_t)(c % (w->hosts - 1)) + 1;
		*to_rail = rail;
	}
}

static int build_given(
	const struct mesh_want *w, struct mesh_pair **pair, size_t *count, struct err *e)
{
	*pair = malloc((w->givens + 1) * sizeof(**pair));
	if (!*pair)
		return err_set(e, ENOMEM, "no memory for %zu pairs", w->givens);
	memcpy(*pair, w->given, w->givens * sizeof(**pair));
	*count = w->givens;
	return 0;
}

static int build_round(
	const struct mesh_want *w, struct mesh_pair **pair, size_t *count, struct err *e)
{
	struct mesh_pair *p = malloc((size_t)w->hosts * w->rails * sizeof(*p));

	if (!p)
		return err_set(e, ENOMEM, "no memory for the pairs of a round");
	*pair = p;
	for (uint32_t host = 0; host < w->hosts; host++) {
		int other = mesh_partner(w->hosts, w->round, host);

		for (uint32_t rail = 0; other >= 0 && rail < w->rails; rail++)
			*p++ = (struct mesh_pair){ .from_host = (uint16_t)host,
				.to_host = (uint16_t)other,
				.from_rail = (uint8_t)rail,
				.to_rail = (uint8_t)rail };
	}
	*count = (size_t)(p - *pair);
	return 0;
}

int mesh_build(const struct mesh_want *w, struct mesh_pair **pair, size_t *count, struct err *e)
{
	uint64_t candidates, taken;
	struct mesh_pair *p;

	*pair = NULL;
	*count = 0;
	if (w->hosts < 2 || w->hosts > MESH_HOSTS_MAX || !w->rails || w->rails > MESH_RAILS_MAX)
		return err_set(e, EINVAL,
			"a mesh has 2 to %d hosts and 1 to %d rails, not %u and %u", MESH_HOSTS_MAX,
			MESH_RAILS_MAX, w->hosts, w->rails);
	if (w->kind == MESH_GIVEN)
		return build_given(w, pair, count, e);
	if (w->kind == MESH_ROUND)
		return build_round(w, pair, count, e);
	candidates = w->kind == MESH_LOAD ? w->ring_steps : w->hosts - 1;
	if (w->kind == MESH_FULL)
		candidates *= w->rails;
	if (w->kind == MESH_RING && w->ring_steps < candidates)
		candidates = w->ring_steps;
	taken = w->peers_max && w->peers_max < candidates ? w->peers_max : candidates;
	*count = taken * w->hosts * w->rails;
	p = malloc(*count * sizeof(*p));
	if (!p)
		return err_set(e, ENOMEM, "no memory for %llu pairs", (unsigned long long)*count);
	*pair = p;
	for (uint32_t host = 0; host < w->hosts; host++)
		for (uint32_t rail = 0; rail < w->rails; rail++)
			for (uint64_t i = 0; i < taken; i++) {
				uint32_t steps, to_rail;

				candidate(w, i * candidates / taken, rail, &steps, &to_rail);
				*p++ = (struct mesh_pair){ .from_host = (uint16_t)host,
					.to_host = (uint16_t)((host + steps) % w->hosts),
					.from_rail = (uint8_t)rail,
					.to_rail = (uint8_t)to_rail,
					.copy = w->kind == MESH_LOAD
							? (uint16_t)(i / (w->hosts - 1))
							: 0 };
			}
	return 0;
}

uint32_t mesh_rounds(uint32_t hosts)
{
	return hosts + hosts % 2 - 1;
}

/* The circle method: the last stands, the others turn; with an odd number it is the one who rests. */
int mesh_partner(uint32_t hosts, uint32_t round, uint32_t host)
{
	uint32_t even = hosts + hosts % 2, turning = even - 1, partner;

	if (!turning)
		return -1;
	if (host == turning) {
		partner = round % 2 ? (round + turning) / 2 % turning : round / 2 % turning;
	} else {
		partner = (round + turning - host) % turning;
		if (partner == host)
			partner = turning;
	}
	return partner < hosts ? (int)partner : -1;
}
