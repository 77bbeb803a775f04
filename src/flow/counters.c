// SPDX-License-Identifier: BSD-3-Clause
#include <stdio.h>

#include "base/log.h"
#include "counters/result.h"
#include "flow/counters.h"
#include "flow/device.h"
#include "flow/options.h"

static void give_up(struct flow_counters *c, const struct err *e)
{
	log_warn("no counters of this run: %s", e->what);
	flow_counters_free(c);
}

void flow_counters_open(struct flow_counters *c, const struct flow_options *o)
{
	/* The run's own flows are known better than by listing all connections of the host. */
	struct collector_options options = { .without = "tcp" };
	struct err e = { 0 };

	*c = (struct flow_counters){ 0 };
	if (!o->counters)
		return;
	/* The first reading learns; the second snapshot gets its memory now as well. */
	if (collector_open(&c->collector, &options, &e) ||
		collector_read(c->collector, &c->before, &e) ||
		collector_read(c->collector, &c->after, &e))
		give_up(c, &e);
}

void flow_counters_begin(struct flow_counters *c)
{
	struct err e = { 0 };

	if (c->collector && collector_read(c->collector, &c->before, &e))
		give_up(c, &e);
}

/* What the flows tell of themselves, as counters that were 0 when they began. */
static int put_flow(struct flow_counters *c, const struct end_result *result,
	const struct flow_result *f, struct err *e)
{
	const struct {
		const char *name;
		uint64_t value;
		bool devmem;
	} is[] = {
		{ "busy_us", f->tcp.busy_us, false },
		{ "receive_window_limited_us", f->tcp.receive_window_limited_us, false },
		{ "send_buffer_limited_us", f->tcp.send_buffer_limited_us, false },
		{ "retransmits", f->tcp.retransmits, false },
		{ "retransmitted_bytes", f->tcp.retransmitted_bytes, false },
		{ "delivered", f->tcp.delivered, false },
		{ "delivered_ce", f->tcp.delivered_ce, false },
		{ "received_out_of_order", f->tcp.received_out_of_order, false },
		{ "dmabuf_bytes", f->dmabuf_bytes, true },
		{ "linear_bytes", f->linear_bytes, true },
		{ "plain_bytes", f->plain_bytes, true },
	};
	char object[32];
	int ret = 0;

	snprintf(object, sizeof(object), "flow %u", f->id);
	for (size_t i = 0; i < sizeof(is) / sizeof(is[0]) && !ret; i++) {
		struct counter counter = { .source = "tcp", .object = object, .name = is[i].name };

		if (is[i].devmem && result->rx_path != DEVICE_DEVMEM)
			continue;
		counter_classify(&counter);
		ret = snapshot_put(&c->before, &counter, 0, c->before.taken_ns, e);
		if (!ret)
			ret = snapshot_put(&c->after, &counter, is[i].value, c->after.taken_ns, e);
	}
	return ret;
}

void flow_counters_end(struct flow_counters *c, struct end_result *result)
{
	struct err e = { 0 };
	int ret;

	if (!c->collector)
		return;
	ret = collector_read(c->collector, &c->after, &e);
	for (uint32_t i = 0; i < result->flow_count && !ret; i++)
		if (result->flows[i].tcp.mss_bytes)
			ret = put_flow(c, result, &result->flows[i], &e);
	if (!ret)
		ret = counters_result_make(&result->counters, &c->before, &c->after, &e);
	if (ret)
		give_up(c, &e);
}

void flow_counters_free(struct flow_counters *c)
{
	snapshot_free(&c->before);
	snapshot_free(&c->after);
	collector_close(c->collector);
	*c = (struct flow_counters){ 0 };
}
