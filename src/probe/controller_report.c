// SPDX-License-Identifier: BSD-3-Clause
#include <string.h>

#include "base/clock.h"
#include "probe/controller_parts.h"

void controller_tell(struct controller *c, enum controller_news news)
{
	c->view.wall_ns = clock_wall_ns();
	if (c->want->told)
		c->want->told(c->want->context, news, &c->view);
}

static uint64_t histogram_median(const Weir__V1__Histogram *h)
{
	uint64_t seen = 0;

	for (size_t i = 0; h && i < h->n_bucket && i < h->n_bucket_count; i++) {
		seen += h->bucket_count[i];
		if (seen * 2 >= h->count && h->bucket[i] < HIST_BUCKETS)
			return hist_bucket_high_ns(h->bucket[i]);
	}
	return 0;
}

static uint32_t histogram_samples(const Weir__V1__Histogram *h)
{
	return !h ? 0 : h->count > UINT32_MAX ? UINT32_MAX : (uint32_t)h->count;
}

static void histogram_add(struct hist *to, const Weir__V1__Histogram *h)
{
	if (!h || !h->count)
		return;
	for (size_t i = 0; i < h->n_bucket && i < h->n_bucket_count; i++)
		if (h->bucket[i] < HIST_BUCKETS && h->bucket_count[i] <= h->count)
			to->bucket[h->bucket[i]] += h->bucket_count[i];
	to->count += h->count;
	to->sum_ns += h->sum_ns;
	to->sum_squares += h->sum_squares;
	if (h->min_ns < to->min_ns)
		to->min_ns = h->min_ns;
	if (h->max_ns > to->max_ns)
		to->max_ns = h->max_ns;
}

/* Reports come in the order of the list: the next one is nearly always right. */
static struct controller_pair *find_pair(const struct controller *c, const struct remote *r,
	const Weir__V1__PairWindow *w, size_t *at)
{
	for (size_t i = 0; i < r->pairs; i++) {
		size_t index = r->first + (*at - r->first + i) % r->pairs;
		struct controller_pair *p = &c->pair[index];

		if (!strcmp(p->local, w->local_address) && !strcmp(p->peer, w->peer_address)) {
			*at = index;
			return p;
		}
	}
	return NULL;
}

static void add_totals(struct controller_pair *p, const Weir__V1__PairWindow *w)
{
	const Weir__V1__Histogram *h = w->rtt;

	p->sent += w->sent;
	p->lost += w->lost;
	p->corrupt += w->corrupt;
	p->window_sent += (uint32_t)w->sent;
	p->window_lost += (uint32_t)(w->lost + w->corrupt);
	if (w->late_ns > p->late_ns)
		p->late_ns = w->late_ns;
	if (!h || !h->count)
		return;
	if (!p->answered || h->min_ns < p->min_ns)
		p->min_ns = h->min_ns;
	if (h->max_ns > p->max_ns)
		p->max_ns = h->max_ns;
	p->answered += h->count;
	p->sum_ns += h->sum_ns;
	p->rtt_ns = histogram_median(h);
	p->network_ns = histogram_median(w->network);
	p->prober_ns = histogram_median(w->prober_delay);
	p->responder_ns = histogram_median(w->responder_delay);
}

static void add_window(struct controller *c, struct remote *r, const Weir__V1__PairWindow *w)
{
	c->window_sent += w->sent;
	c->window_lost += w->lost;
	c->view.corrupt += w->corrupt;
	r->shown->sent += w->sent;
	r->shown->lost += w->lost;
	histogram_add(&c->rtt, w->rtt);
	histogram_add(&c->window, w->rtt);
}

static void judge_later(struct controller *c, size_t pair, const Weir__V1__PairWindow *w)
{
	bool stamped = w->network && w->network->count;
	struct verdict_window window = { .sent = (uint32_t)w->sent,
		.lost = (uint32_t)(w->lost + w->corrupt),
		.samples = histogram_samples(stamped ? w->network : w->rtt),
		.stamped = stamped,
		.median_ns = histogram_median(stamped ? w->network : w->rtt),
		.prober_ns = stamped ? histogram_median(w->prober_delay) : 0,
		.responder_ns = stamped ? histogram_median(w->responder_delay) : 0,
		.late_ns = w->late_ns };

	verdict_add(c->verdicts, pair, &window);
}

void controller_received(void *context, const ProtobufCMessage *message)
{
	const Weir__V1__Report *report = (const void *)message;
	struct remote *r = context;
	struct controller *c = r->c;
	size_t at = r->first;

	if (c->ended) /* what is counted has been told */
		return;
	r->shown->answers = true;
	for (size_t i = 0; i < report->n_pair && r->pairs; i++) {
		const Weir__V1__PairWindow *w = report->pair[i];
		struct controller_pair *p = find_pair(c, r, w, &at);

		if (!p)
			continue;
		c->unsettled -= c->settling && !p->sent && w->sent;
		judge_later(c, at, w);
		add_totals(p, w);
		add_window(c, r, w);
		if (++at == r->first + r->pairs)
			at = r->first;
	}
	if (c->settling && !c->unsettled)
		controller_settled(c);
	if (report->n_pair && r->is_last)
		controller_last(r);
}

/* Forget what was counted while connections were made. */
static void begin_anew(struct controller *c)
{
	c->window_sent = c->window_lost = 0;
	c->view.sent = c->view.lost = c->view.corrupt = c->view.windows = 0;
	hist_init(&c->rtt);
	hist_init(&c->window);
	for (size_t i = 0; i < c->pairs; i++) {
		struct controller_pair *p = &c->pair[i];

		*p = (struct controller_pair){
			.m = p->m, .local = p->local, .peer = p->peer, .refused = p->refused
		};
	}
}

void controller_settled(struct controller *c)
{
	c->settling = false;
	c->view.wall_ns = clock_wall_ns();
	begin_anew(c);
	/* A report has just come, and the next ones come a window later. */
	controller_begin(c, c->want->window_ns + c->want->window_ns / 4);
}

void controller_judge(struct controller *c)
{
	/* The window began when the last one, or the start, was told. */
	verdict_judge(c->verdicts, c->view.wall_ns, clock_wall_ns());
	c->view.windows++;
	c->view.sent += c->window_sent;
	c->view.lost += c->window_lost;
	c->view.window_sent = c->window_sent;
	c->view.window_lost = c->window_lost;
	c->last_window = c->window;
	controller_tell(c, CONTROLLER_WINDOW);
	c->window_sent = c->window_lost = 0;
	hist_init(&c->window);
	for (uint32_t i = 0; i < c->hosts; i++)
		c->host[i].sent = c->host[i].lost = 0;
	for (size_t i = 0; i < c->pairs; i++) {
		struct controller_pair *p = &c->pair[i];

		p->window_sent = p->window_lost = 0;
		p->rtt_ns = p->network_ns = p->prober_ns = p->responder_ns = p->late_ns = 0;
	}
}
