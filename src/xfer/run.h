/* SPDX-License-Identifier: BSD-3-Clause */
/* A measured run between two p2p engines: batches of messages, timed and checked at both ends.
 *
 *	server:	party_open(&p, &config, &where, e);
 *		weir_p2p_listen(p.p2p, NULL, port, ...);
 *		... conn = the next that weir_p2p_accept() gives ...
 *		ret = run_serve(&p, conn, &limits, NULL, NULL, e);	until the client says that it is over
 *
 *	client:	ret = run_batch(&p, conn, &plan, &mine, &theirs, e);	as often as wanted
 *		run_end(conn);
 *
 * The client says what is to come by a notification, the server answers by notifications; the data is moved by
 * the functions of weir/p2p.h and nothing else. All that the other end says is checked.
 */
#ifndef WEIR_XFER_RUN_H
#define WEIR_XFER_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "mem/pattern.h"
#include "mem/region.h"
#include "weir/p2p.h"

#define RUN_COUNT_MAX 1000000 /* messages of a batch */
#define RUN_DEPTH_MAX 64      /* messages under way */
#define RUN_TIMES_MAX 10000   /* iterations whose times are told to the other end */

enum run_op { RUN_SEND, RUN_WRITE, RUN_READ, RUN_PINGPONG, RUN_OPS };
extern const char *const run_op_name[RUN_OPS + 1]; /* "send", ..., NULL */

struct run_plan {
	enum run_op op;
	uint64_t bytes; /* of a message */
	uint32_t count, depth;
	bool check;	/* every byte that is received */
	bool warmed;	/* the batch before this one was warm-up */
	uint64_t first; /* number of the first message: what it holds depends on it */
};

/* What one end measured of a batch. */
struct run_end {
	uint32_t count;
	uint64_t bytes, elapsed_ns, cpu_ns;
	uint32_t checked, wrong; /* messages */
	uint64_t wrong_at;	 /* byte of the first wrong message */
	uint64_t *time_ns; /* of each message, since the one before; freed by run_end_free() */
	uint32_t times;
	struct weir_p2p_stats stats; /* of this batch */
	char memory[16];	     /* "host" */
	char devices[128];
	char unpack[16];	     /* how what came was put in its place */
	char rx_path[8], tx_path[8]; /* "host", "devmem", "staged", "none" */
	char path_reason[160];	     /* why it is staged though that was not asked for; or empty */
};
void run_end_free(struct run_end *r);

/* What one end brings: an engine and memory. */
struct party {
	struct weir_p2p *p2p;
	struct mem_where where;
	bool by_dmabuf; /* it is registered as such: a NIC may reach it */
	struct region memory;
	struct weir_p2p_region *region; /* NULL: no memory yet */
	struct pattern pattern;
	uint64_t stride;	   /* from message to message in the memory */
	bool filled;		   /* the memory holds the pattern from its beginning on */
	const volatile bool *stop; /* set: end as soon as possible with -EINTR; may be NULL */
	void (*progress)(void *context, uint32_t done, uint32_t count); /* may be NULL */
	void *context;
};

int party_open(struct party *p, const struct weir_p2p_config *config, const struct mem_where *where,
	struct err *e);
void party_close(struct party *p);

/* As text, for the other end. Parsing refuses what is unknown, missing, repeated or out of range. */
#define RUN_TEXT_MAX (256 + 21 * RUN_TIMES_MAX + 1024)
size_t run_plan_format(const struct run_plan *plan, char *text, size_t size);
int run_plan_parse(const char *text, struct run_plan *plan, struct err *e);
size_t run_end_format(const struct run_end *r, char *text, size_t size);
int run_end_parse(const char *text, struct run_end *r, struct err *e);

/* The client's side of one batch. theirs and mine are filled also when data was wrong: -EBADMSG. */
int run_batch(struct party *p, struct weir_p2p_conn *conn, const struct run_plan *plan,
	struct run_end *mine, struct run_end *theirs, struct err *e);
void run_end_session(struct weir_p2p_conn *conn);

/* The server's side of all batches of a connection. memory_max: what a client may make it allocate. over: a
 * batch is over and was no warm-up, which is known when the next begins or none does; may be NULL. */
int run_serve(struct party *p, struct weir_p2p_conn *conn, uint64_t memory_max,
	void (*over)(void *context, const struct run_plan *plan, const struct run_end *mine),
	void *context, struct err *e);

#endif
