/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's parts, and how they meet. For server.c, session.c and arrival.c alone.
 *
 * server.c        the main thread: accepts control connections, reads their HELLO, makes sessions
 * session.c       a thread per session: talks to its clients from the handshake to the results
 * arrival.c  in the workers: accepts data connections and finds the session they belong to
 *
 * Workers live as long as the server and keep their listeners open all the time, so that no
 * connection is lost when a session comes or goes. A session is found, and a flow given to one of
 * its lanes, under server.lock while it is in server.sessions; it leaves that list before its lanes
 * are closed. Since a worker does its jobs in order, no flow can reach a lane after it was closed.
 */
#ifndef WEIR_FLOW_SERVER_H
#define WEIR_FLOW_SERVER_H

#include "flow/counters.h"
#include "flow/endpoint.h"

#define SERVER_SESSIONS_MAX 64
#define SERVER_MEMBERS_MAX  1024

struct server {
	enum workload workload;
	const struct flow_options *options;
	const struct opt_given *given;
	const struct endpoint_events *events;
	struct sock_addr address; /* of the control listener */
	struct loop loop;	  /* of the main thread */
	struct loop_fd listener, stop;
	struct loop_timer rest;	    /* of the listener, when descriptors have run out */
	struct greeting *greetings; /* control connections that have not said HELLO yet */
	int invalid_secrets;
	bool stopping;

	pthread_mutex_t lock; /* the rest */
	struct worker **workers;
	uint32_t worker_count;
	struct session *sessions;  /* open for flows */
	struct session *gathering; /* neper: waits for more clients (--num-clients) */
	uint32_t session_threads, sessions_served;
	_Atomic uint32_t token_sessions; /* sessions whose flows open with a token */

	pthread_mutex_t telling; /* one session at a time speaks to the user */
};

struct session {
	struct server *server;
	struct session *next;
	bool neper, open, refused;
	bool served;			 /* it came to a run */
	int control[SERVER_MEMBERS_MAX]; /* one for each client; a weir session has one */
	struct sock_addr peer[SERVER_MEMBERS_MAX];
	uint32_t members, members_wanted;
	uint32_t flows_wanted, flows_given, next_lane;
	struct neper_message hello;
	struct flow_options options; /* the server's, with the client's wishes */
	char *request;		     /* strings of options point into it */
	struct worker **workers;
	struct run run;
	struct outcome outcome;
	struct flow_counters counters;
	uint64_t heard_ns, ticked_ns;
	uint32_t intervals_told;
	uint32_t failed; /* neper clients that vanished */
	bool *seen;	 /* flows that have come, by number */
};

/* session.c: takes control over. */
int session_start(struct server *s, int control, const struct sock_addr *peer,
	const struct neper_message *hello, struct err *e);

/* arrival.c: open a listener on each data port in this worker; and take one data connection in. */
int arrival_listen(struct server *s, struct worker *w, struct err *e);
/* In the worker: close all listeners, and connections that nobody has claimed. */
void arrival_close(struct worker *w, void *unused);

/* server.c: at least count workers (the server's own -T when the user gave it). */
int server_workers(
	struct server *s, uint32_t count, struct worker ***list, uint32_t *got, struct err *e);
/* A session is gone; served: it came to a run, which is what --once waits for. */
void server_session_over(struct server *s, bool served);

#endif
