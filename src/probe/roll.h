/* SPDX-License-Identifier: BSD-3-Clause */
/* The agents of a list of hosts: a client for each, and who of them is there.
 *
 *	ret = roll_open(&roll, &loop, &hosts, 8080, &tls, e);
 *	ret = roll_call(&roll, done, context, e);	asks all of them at once
 *	loop_run(&loop, e);				done is called when each has answered, or was waited for
 *	roll.agent[i].nics ...				0: it does not answer
 *	roll_close(&roll);
 *
 * A host whose name is not known has no client; it is said, as is one that does not answer at any of its addresses. One thread, the loop's.
 */
#ifndef WEIR_PROBE_ROLL_H
#define WEIR_PROBE_ROLL_H

#include "net/sock.h"
#include "probe/hosts.h"
#include "probe/mesh.h"
#include "rpc/client.h"

#define ROLL_ADDRS 4 /* of a name that are tried */

struct roll_agent {
	struct roll *roll;
	const char *name; /* the host's */
	struct sock_addr addr[ROLL_ADDRS];
	size_t addrs, at;	   /* at: the one that the client dials */
	struct rpc_client *client; /* NULL: nobody knows that name */
	bool refused;		   /* by this address: the next one is to be tried */
	bool reached;		   /* somebody is there, an agent of weir or not */
	bool answers;
	uint32_t nics;
	char nic[MESH_RAILS_MAX][SOCK_ADDR_TEXT];
	uint64_t rate_max; /* probes per second that it takes from StartPings; 0: any */
};

struct roll {
	struct roll_agent *agent;
	uint32_t hosts, rails; /* rails: the most NICs of one */
	struct loop *loop;
	struct loop_timer next; /* addresses are due */
	struct rpc_tls *tls;
	uint32_t waiting;
	void (*done)(void *context);
	void *context;
};

/* The names are borrowed. After a failure close it all the same. -EHOSTUNREACH: no name is known. */
int roll_open(struct roll *r, struct loop *loop, const struct hosts *hosts, uint16_t port,
	const struct rpc_tls_files *tls, struct err *e);
int roll_call(struct roll *r, void (*done)(void *context), void *context, struct err *e);
void roll_close(struct roll *r);

/* None of them answers: -EHOSTUNREACH, in words. */
int roll_nobody(struct err *e);

/* Who of hosts answers and who does not, in their order; waits for it, or until stop_fd is readable (-ECANCELED). */
int roll_sort(const struct hosts *hosts, uint16_t port, const struct rpc_tls_files *tls,
	int stop_fd, struct hosts *there, struct hosts *silent, struct err *e);

#endif
