// SPDX-License-Identifier: BSD-3-Clause
/* One connection of a run: how it comes to be, is watched, and ends. In its lane's thread. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "flow/run.h"

#define CONNECT_TIMEOUT_NS (10 * NS_PER_S)
#define CONNECTS_AT_ONCE                                                                           \
	64 /* below the usual backlog, so that no SYN is dropped and waits a second */

const struct flow_ops *flow_ops_of(const struct run *r)
{
	static const struct flow_ops *const table[WORKLOADS][2] = {
		[WORKLOAD_STREAM] = { &stream_ops, &stream_ops },
		[WORKLOAD_RR] = { &rr_server_ops, &rr_client_ops },
		[WORKLOAD_CRR] = { &crr_server_ops, &crr_client_ops },
	};

	return table[r->workload][r->client];
}

/* Requests that may be under way on a flow; crr has one. */
static uint32_t flow_ring(const struct flow_options *o)
{
	return o->outstanding > 1 ? (uint32_t)o->outstanding : 1;
}

static int flow_alloc_client(struct flow *f, const struct flow_options *o, struct err *e)
{
	f->requests =
		calloc((size_t)(o->outstanding > 0 ? o->outstanding : 1), sizeof(*f->requests));
	if (!f->requests)
		goto no_memory;
	if (o->all_samples) {
		f->interval_latency = malloc(sizeof(*f->interval_latency));
		if (!f->interval_latency)
			goto no_memory;
		hist_init(f->interval_latency);
	}
	if (o->log_rtt) {
		f->rtt_log = calloc((size_t)o->logrtt_entries_per_flow, 2 * sizeof(*f->rtt_log));
		if (!f->rtt_log)
			goto no_memory;
	}
	return 0;

no_memory:
	return err_set(e, ENOMEM, "no memory for flow %u", f->id);
}

static void flow_unlink(struct flow *f)
{
	*f->link = f->next;
	if (f->next)
		f->next->link = f->link;
	f->lane->flow_count--;
}

static void flow_free(struct flow *f)
{
	device_flow_close(f);
	free(f->samples);
	free(f->requests);
	free(f->interval_latency);
	free(f->rtt_log);
	free(f);
}

struct flow *flow_new(struct lane *l, uint32_t id, struct err *e)
{
	struct run *r = l->run;
	struct flow *f = calloc(1, sizeof(*f));

	if (!f) {
		err_set(e, ENOMEM, "no memory for flow %u", id);
		return NULL;
	}
	f->lane = l;
	f->id = id;
	f->ops = flow_ops_of(r);
	f->chan.fd = -1;
	run_flow_direction(r, id, &f->reads, &f->writes);
	if (!run_is_transient(r)) {
		f->samples = calloc(l->sample_capacity, sizeof(*f->samples));
		if (!f->samples) {
			err_set(e, ENOMEM,
				"no memory for the samples of flow %u: choose a longer --interval",
				id);
			goto free_flow;
		}
	}
	if (r->client && r->workload != WORKLOAD_STREAM && flow_alloc_client(f, r->options, e))
		goto free_flow;
	f->next = l->flows;
	f->link = &l->flows;
	if (f->next)
		f->next->link = &f->next;
	l->flows = f;
	l->flow_count++;
	return f;

free_flow:
	flow_free(f);
	return NULL;
}

void flow_retire(struct flow *f)
{
	counts_add(&f->lane->retired, &f->counts);
	flow_unlink(f);
	flow_free(f);
}

void flow_sock_options(const struct flow_options *o, bool client, struct sock_options *s)
{
	*s = (struct sock_options){
		.debug = o->debug,
		.freebind = o->freebind,
		.reuse_address = o->reuseaddr,
		/* Several requests under way on one connection must not wait for each other's
		 * ACK. */
		.no_delay = o->no_delay || o->outstanding > 1 || o->rate > 0,
		.fast_open = client && o->tcp_fastopen,
		.zerocopy = o->zerocopy,
		.reset_on_close = client && !o->time_wait,
		.mark = o->mark,
		.tx_delay_us = o->tcp_tx_delay,
		.max_pacing_rate = o->max_pacing_rate,
		.congestion_control = o->congestion_control,
		/* What a server accepts is bound as its listener is. */
		.device = client ? o->bind_dev : NULL,
		.busy_poll_us = o->busy_poll ? 50 : 0,
	};
}

/* Sending from device memory: by completions, and by that NIC alone. */
static void flow_sock_device(const struct run *r, struct sock_options *s)
{
	if (r->device.tx != DEVICE_DEVMEM)
		return;
	s->zerocopy = true;
	s->device = r->device.nic;
}

static void flow_enliven(struct flow *f)
{
	struct run *r = f->lane->run;

	f->alive = true;
	f->lane->live++;
	r->live++;
	if (!run_is_transient(r))
		r->arrived++;
}

int flow_attach(struct flow *f, int fd, struct err *e)
{
	const struct flow_options *o = f->lane->run->options;
	const struct device_nic *device = &f->lane->run->device;
	enum chan_path send = CHAN_PLAIN, recv = CHAN_PLAIN;
	int ret;

	if (f->writes && device->tx == DEVICE_DEVMEM)
		send = CHAN_DEVMEM;
	else if (f->writes && o->zerocopy)
		send = CHAN_ZEROCOPY;
	if (f->reads && device->rx == DEVICE_DEVMEM)
		recv = CHAN_DEVMEM;
	else if (f->reads && o->skip_rx_copy)
		recv = CHAN_DISCARD;
	else if (f->reads && o->rx_zerocopy)
		recv = CHAN_MAPPED;
	ret = device_flow_open(f, e);
	if (!ret)
		ret = chan_init(&f->chan, fd, send, recv, f->lane->rx.bytes, e);
	if (ret)
		return ret;
	f->chan.send_dmabuf = f->lane->device.tx_binding.id;
	f->chan.devmem = recv == CHAN_DEVMEM ? &f->lane->device.devmem : NULL;
	flow_enliven(f);
	return 0;
}

void flow_watch(struct flow *f, uint32_t events)
{
	struct loop *loop = &f->lane->worker->loop;

	if (f->watched && f->io.events == events)
		return;
	if (f->watched) {
		loop_change(loop, &f->io, events);
		return;
	}
	if (loop_add(loop, &f->io, f->chan.fd, events, f->ops->ready, NULL)) {
		flow_end(f, ENOMEM);
		return;
	}
	f->watched = true;
	f->lane->worker->flows++;
}

void flow_disconnect(struct flow *f)
{
	if (f->watched) {
		loop_forget(&f->lane->worker->loop, &f->io);
		f->lane->worker->flows--;
	}
	f->watched = false;
	chan_close(&f->chan);
}

bool flow_may_issue(struct flow *f, struct rr_request *request)
{
	struct lane *l = f->lane;

	request->counted = l->run->counted && l->window_open;
	if (l->stopped)
		return false;
	return !request->counted || atomic_fetch_sub(&l->run->to_issue, 1) > 0;
}

/* Of the transactions that end the run, n are over or lost. */
static void run_count_down(struct run *r, int64_t n, uint64_t now_ns)
{
	int64_t before = atomic_fetch_sub(&r->to_complete, n);

	if (before <= 0 || before > n)
		return;
	r->end_ns = now_ns;
	run_ring(r);
}

void flow_leave(struct flow *f)
{
	if (!f->alive)
		return;
	flow_disconnect(f);
	loop_timer_cancel(&f->lane->worker->loop, &f->timer);
	f->alive = false;
	f->lane->live--;
	if (--f->lane->run->live == 0 && !run_is_transient(f->lane->run))
		run_ring(f->lane->run);
}

void flow_end(struct flow *f, int error)
{
	struct lane *l = f->lane;
	int none = 0;

	/* A flow that ends while it is measured is a failure whoever closed it. */
	if (f->alive && !l->finished && !l->stopped) {
		f->error = error ? error : ECONNRESET;
		if (atomic_compare_exchange_strong(&l->run->first_error, &none, f->error))
			l->run->first_error_sending = f->failed_sending;
		tcp_state_read(f->chan.fd, &f->tcp_end);
		/* What it had begun never ends: nobody must wait for it. */
		for (; f->in_flight; f->in_flight--) {
			const struct rr_request *lost = &f->requests[f->oldest];

			f->oldest = (f->oldest + 1) % flow_ring(l->run->options);
			if (lost->counted)
				run_count_down(l->run, 1, clock_ns());
		}
	}
	flow_leave(f);
}

void flow_data_address(const struct run *r, uint32_t id, struct sock_addr *addr)
{
	const struct flow_options *o = r->options;

	*addr = r->peer;
	sock_addr_set_port(addr, (uint16_t)(o->port + id % o->num_ports));
}

/* Source address of flow k: the (k mod n)-th of --local-hosts, or port --source-port + k. */
static int flow_source(struct flow *f, struct err *e)
{
	const struct flow_options *o = f->lane->run->options;
	struct sock_addr list[SOCK_ADDRS];
	char names[1024], *next = names, *name;
	uint32_t count = 1, wanted;
	size_t found;
	int ret;

	f->has_local = o->local_hosts || o->source_port > 0;
	if (!f->has_local)
		return 0;
	if (!o->local_hosts) {
		f->local = (struct sock_addr){ .len = f->lane->run->peer.len };
		f->local.storage.ss_family = f->lane->run->peer.storage.ss_family;
		sock_addr_set_port(&f->local, (uint16_t)(o->source_port + f->id));
		return 0;
	}
	snprintf(names, sizeof(names), "%s", o->local_hosts);
	for (const char *c = names; *c; c++)
		count += *c == ',';
	wanted = f->id % count;
	while ((name = strsep(&next, ",")) && wanted--)
		;
	ret = sock_resolve(name, NULL, f->lane->run->peer.storage.ss_family, true, list, &found, e);
	if (!ret)
		f->local = list[0];
	return ret;
}

int flow_connect_start(struct flow *f, struct err *e)
{
	struct sock_options options;
	struct sock_addr addr;

	flow_data_address(f->lane->run, f->id, &addr);
	flow_sock_options(f->lane->run->options, true, &options);
	flow_sock_device(f->lane->run, &options);
	/* A port given by number may still be in TIME_WAIT from the run before. */
	options.reuse_address |= f->has_local;
	return sock_connect_start(&addr, f->has_local ? &f->local : NULL, &options, e);
}

static int flow_send_preamble(struct flow *f, int fd, uint64_t deadline_ns, struct err *e)
{
	struct wire_preamble p = { .flow = f->id };
	uint8_t bytes[WIRE_PREAMBLE_BYTES];

	memcpy(p.token, f->lane->run->token, sizeof(p.token));
	wire_preamble_encode(&p, bytes);
	return sock_send_all(fd, bytes, sizeof(bytes), deadline_ns, e);
}

static int flow_connect_end(struct flow *f, int fd, uint64_t deadline_ns, struct err *e)
{
	struct sock_options options;
	struct sock_addr addr;
	int ret;

	flow_data_address(f->lane->run, f->id, &addr);
	ret = sock_connect_wait(fd, &addr, deadline_ns, e);
	if (ret == -ECONNREFUSED)
		err_hint(e, "is the server's --port the same, and --num-ports?");
	flow_sock_options(f->lane->run->options, true, &options);
	if (!ret)
		ret = sock_set_after(fd, &options, e);
	if (!ret && f->lane->run->tokens)
		ret = flow_send_preamble(f, fd, deadline_ns, e);
	return ret;
}

static void flow_started_watch(struct flow *f)
{
	if (f->reads)
		flow_watch(f,
			EPOLLIN | EPOLLRDHUP | (f->lane->run->options->edge_trigger ? EPOLLET : 0));
}

/* Contiguous blocks of flows to threads, as neper deals them. */
static void lane_block(const struct lane *l, uint32_t *first, uint32_t *count)
{
	uint32_t flows = l->run->flow_count, lanes = l->run->lane_count;
	uint32_t extra = l->index < flows % lanes ? l->index : flows % lanes;

	*first = l->index * (flows / lanes) + extra;
	*count = flows / lanes + (l->index < flows % lanes);
}

int lane_connect(struct lane *l, struct err *e)
{
	uint64_t deadline_ns = clock_ns() + CONNECT_TIMEOUT_NS;
	struct flow *window[CONNECTS_AT_ONCE] = { 0 };
	int fds[CONNECTS_AT_ONCE];
	uint32_t first, count;
	int ret = 0;

	lane_block(l, &first, &count);
	for (uint32_t i = 0; i < count + CONNECTS_AT_ONCE && !ret; i++) {
		uint32_t slot = i % CONNECTS_AT_ONCE;
		struct flow *f = window[slot];

		if (f) {
			ret = flow_connect_end(f, fds[slot], deadline_ns, e);
			if (!ret)
				ret = flow_attach(f, fds[slot], e);
			if (ret)
				close(fds[slot]);
			else
				flow_started_watch(f);
			window[slot] = NULL;
		}
		if (ret || i >= count)
			continue;
		f = flow_new(l, first + i, e);
		if (!f)
			ret = -e->code;
		else
			ret = flow_source(f, e);
		if (ret)
			break;
		/* A crr flow makes its connections later, one for each transaction. */
		if (l->run->workload == WORKLOAD_CRR) {
			flow_enliven(f);
			continue;
		}
		fds[slot] = flow_connect_start(f, e);
		if (fds[slot] < 0)
			ret = fds[slot];
		else
			window[slot] = f;
	}
	for (int i = 0; i < CONNECTS_AT_ONCE; i++)
		if (window[i])
			close(fds[i]);
	return ret;
}

int lane_adopt(struct lane *l, int fd, uint32_t id, uint64_t early_bytes, struct err *e)
{
	struct sock_options options;
	struct flow *f = NULL;
	int ret;

	flow_sock_options(l->run->options, false, &options);
	flow_sock_device(l->run, &options);
	ret = sock_set_before(fd, &options, e);
	if (!ret)
		ret = sock_set_after(fd, &options, e);
	if (!ret) {
		f = flow_new(l, id, e);
		ret = f ? flow_attach(f, fd, e) : -ENOMEM;
	}
	if (ret) {
		if (f) {
			flow_unlink(f);
			flow_free(f);
		}
		close(fd);
		return ret;
	}
	f->counts.rx_bytes = early_bytes;
	f->got = early_bytes;
	/* neper's server sends as soon as there is somebody to send to. */
	if (early_bytes ||
		(l->run->starts_by_data && f->writes && l->run->workload == WORKLOAD_STREAM &&
			!l->run->options->split_bidir))
		lane_touch(l);
	flow_started_watch(f);
	if (f->alive && (l->started || early_bytes))
		f->ops->start(f);
	if (!run_is_transient(l->run))
		run_ring(l->run);
	return 0;
}

const void *flow_to_send(struct flow *f, size_t *length)
{
	const struct run *r = f->lane->run;

	if (r->device.tx)
		return device_to_send(f, length);
	return f->lane->tx.data +
	       (r->validates ? f->counts.tx_bytes % r->options->validate_cycle : 0);
}

void flow_note_wrong(struct flow *f, uint64_t position)
{
	if (!f->wrong_calls++)
		f->wrong_bytes_at = position;
}

void flow_check(struct flow *f, const char *data, size_t bytes, uint64_t position)
{
	struct pattern_mismatch wrong;

	if (f->lane->run->validates &&
		pattern_check(&f->lane->run->pattern, data, bytes, position, &wrong))
		flow_note_wrong(f, position + wrong.index);
}

void flow_schedule(struct flow *f)
{
	const struct flow_options *o = f->lane->run->options;
	double flows = (double)f->lane->run->flow_count, gap_ns = 0, offset_ns = 0;

	if (o->rate > 0) {
		gap_ns = flows / o->rate * 1e9;
		offset_ns = gap_ns * (double)f->id / flows;
	} else if (o->noburst) {
		gap_ns = flows * (double)o->noburst;
		offset_ns = (double)o->noburst * (double)f->id;
	} else {
		gap_ns = (double)o->delay;
	}
	f->gap_ns = (uint64_t)gap_ns;
	f->next_ns = f->lane->run->start_ns + (uint64_t)offset_ns;
}

void flow_complete(struct flow *f, const struct rr_request *request, uint64_t now_ns)
{
	struct lane *l = f->lane;
	uint64_t latency_ns = now_ns - request->intended_ns;

	/* Begun in the warm-up of a run that counts: it would be one too many. */
	if (l->run->counted && l->window_open && !request->counted)
		return;
	f->counts.transactions++;
	hist_record(l->interval, latency_ns);
	if (l->service && !l->finished)
		hist_record(l->service, now_ns - request->sent_ns);
	if (f->interval_latency)
		hist_record(f->interval_latency, latency_ns);
	if (f->rtt_log && f->rtt_count < l->run->options->logrtt_entries_per_flow) {
		f->rtt_log[2 * (size_t)f->rtt_count] = now_ns;
		f->rtt_log[2 * (size_t)f->rtt_count + 1] = latency_ns;
		f->rtt_count++;
	}
	if (request->counted)
		run_count_down(l->run, 1, now_ns);
}
