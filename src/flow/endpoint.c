// SPDX-License-Identifier: BSD-3-Clause
/* What client and server share. */
#include "flow/endpoint.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpus.h"
#include "sys/nic.h"

void control_tune(int fd)
{
	int on = 1, idle_s = 5, every_s = 2, tries = 3;
	unsigned int unanswered_ms = CONTROL_TIMEOUT_NS / NS_PER_MS;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof(tries));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof(unanswered_ms));
}

int control_abort(int fd, const char *reason)
{
	return wire_send(fd, WIRE_ABORT, reason, strlen(reason), clock_ns() + NS_PER_S, NULL);
}

char *endpoint_words(const struct err *e, char buf[ENDPOINT_WORDS])
{
	snprintf(buf, ENDPOINT_WORDS, "%s%s%s", e->what, e->hint[0] ? "; " : "", e->hint);
	return buf;
}

int endpoint_cpu(const struct flow_options *o, uint32_t index)
{
	struct cpus cpus;

	if (o->cpus ? cpus_parse(&cpus, o->cpus, NULL) : !o->pin_cpu || cpus_allowed(&cpus, NULL))
		return -1;
	return cpus.count ? cpus_nth(&cpus, (int)(index % (uint32_t)cpus.count)) : -1;
}

void outcome_describe(struct outcome *outcome, int control)
{
	struct nic nic;
	bool known;

	sock_local(control, &outcome->local_address);
	sock_peer(control, &outcome->peer_address);
	outcome->started_wall_ns = clock_wall_ns();
	known = !nic_for_address(&nic, (struct sockaddr *)&outcome->local_address.storage, NULL);
	if (known && nic.physical &&
		!sock_addr_same_host(&outcome->local_address, &outcome->peer_address))
		outcome->ceiling_bps = nic.speed_bps;
	outcome->local.facts = calloc(1, sizeof(*outcome->local.facts));
	if (outcome->local.facts)
		host_facts_read(outcome->local.facts, known ? nic.name : NULL, NULL);
}

void outcome_free(struct outcome *outcome)
{
	result_free(&outcome->local);
	result_free(&outcome->remote);
}

uint64_t outcome_neper_rate(const struct outcome *outcome)
{
	const struct end_result *r = &outcome->local;

	if (outcome->workload == WORKLOAD_STREAM)
		return (uint64_t)result_rx_bps(r);
	return (uint64_t)result_transactions_per_s(r);
}

void outcome_explain(struct outcome *outcome, const struct run *run)
{
	struct end_result *r = &outcome->local;
	uint32_t failed = 0;
	struct err why;

	for (uint32_t i = 0; i < r->flow_count; i++)
		failed += r->flows[i].error != 0;
	if (!r->error[0] && run->first_error) {
		device_explain(run, run->first_error, run->first_error_sending, &why);
		snprintf(r->error, sizeof(r->error), "%u of %u flows ended early: %.300s%s%.150s",
			failed ? failed : 1, run->flow_count, why.what, why.hint[0] ? "; " : "",
			why.hint);
	}
	if (r->error[0])
		r->complete = false;
}
