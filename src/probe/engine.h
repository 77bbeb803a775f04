/* SPDX-License-Identifier: BSD-3-Clause */
/* The probe engine: sends probes to targets on an absolute schedule, and answers those of others.
 *
 *	struct probe_config config = { .nic = nics, .nics = 8, .control_port = 8080, ... };
 *	probe_engine_new(&engine, &config, e);
 *	target = probe_engine_add(engine, &want, e);
 *	...				from time to time, and when config.notify was called:
 *	while (probe_engine_next(engine, &result))
 *		...			one row per probe, changes of state in between
 *	probe_engine_remove(engine, target);	a last result, PROBE_GONE, follows
 *	probe_engine_free(engine);
 *
 * A few NICs share one thread with one event loop: no thread spins, no probe waits for another. Each
 * target has a connection of its own, bound to its NIC's address and, where the system allows it, its
 * device. Probe k of a target is due at phase + k * period, the phase made of the two addresses and of its
 * place among those of its tick, and is sent then whether or not the one before was answered (up to PROBE_IN_FLIGHT). Each has a deadline; one
 * that is lost, and one that could not be sent because there is no connection, is a result like any
 * other. A connection that loses PROBE_LOSSES_MAX in a row is made anew, with back-off.
 *
 * Set-up: weir.v1.Agent/SetUpProbe at the peer NIC's own address, port control_port, yields a port and
 * a token; the data connection opens with that token (probe/wire.h).
 *
 * All functions are for one thread, the owner's; config.notify is called from others.
 */
#ifndef WEIR_PROBE_ENGINE_H
#define WEIR_PROBE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "mem/region.h"
#include "net/sock.h"
#include "probe/wire.h"
#include "rpc/tls.h"

#define PROBE_NICS_MAX	     64
#define PROBE_NICS_PER_LOOP  8
#define PROBE_FETCHED	     256
#define PROBE_IN_FLIGHT	     16
#define PROBE_LOSSES_MAX     3
#define PROBE_TIMEOUT_NS     (1 * NS_PER_S)
#define PROBE_SET_UP_NS	     (2 * NS_PER_S)
#define PROBE_BACKOFF_MIN_NS (250 * NS_PER_MS)
#define PROBE_BACKOFF_MAX_NS (2 * NS_PER_S)
#define PROBE_RATE_MAX	     10000.0
#define PROBE_GRID_NS	     (50 * NS_PER_MS)

struct probe_engine;

struct probe_nic {
	struct sock_addr addr; /* the port is not used */
	char device[16];       /* "" : not known, probes are bound to the address alone */
	char gpu[16];	       /* index or PCI address of the one beside it; "": the first */
};

struct probe_config {
	const struct probe_nic *nic; /* copied */
	size_t nics;
	uint16_t control_port;		 /* of every agent */
	uint16_t data_port;		 /* of the responders; 0: the system chooses */
	uint32_t connections_per_nic;	 /* probing and answering counted apart; 0: no limit */
	uint64_t memory_bytes;		 /* for payloads of answers; 0: 1 GiB */
	enum mem_kind memory;		 /* where payloads lie, at both ends of a probe */
	const struct rpc_tls_files *tls; /* NULL: plaintext */
	void (*notify)(void *context);	 /* something happened that should not wait */
	void *context;
};

int probe_engine_new(
	struct probe_engine **engine, const struct probe_config *config, struct err *e);
/* Targets that were not removed go with it. */
void probe_engine_free(struct probe_engine *engine);

/* Which NIC has this address; -1: none. */
int probe_engine_nic(const struct probe_engine *engine, const struct sock_addr *addr);

struct probe_want {
	struct sock_addr local, peer;
	uint64_t period_ns, timeout_ns; /* timeout 0: PROBE_TIMEOUT_NS */
	uint32_t payload_bytes;
	uint32_t copy; /* several connections of one pair: 0, 1, ... */
	bool verify;
	void *context; /* the caller's, found again in each result; of many in a row, its first PROBE_FETCHED bytes are in the cache by then */
};

struct probe_target;

/* -EADDRNOTAVAIL: local is no NIC of this host. -EUSERS: beyond connections_per_nic. */
int probe_engine_add(struct probe_engine *engine, struct probe_target **target,
	const struct probe_want *want, struct err *e);
void probe_engine_remove(struct probe_engine *engine, struct probe_target *target);

enum probe_kind {
	PROBE_ANSWERED,
	PROBE_CORRUPT, /* answered with other bytes */
	PROBE_LOST,    /* no answer within the timeout */
	PROBE_UNSENT,  /* no connection; stage and code say why */
	PROBE_HELD,    /* the connection does not take it: too many under way */
	PROBE_SETTLED, /* the first set-up has ended, well when code is 0 */
	PROBE_UP,      /* the connection stands */
	PROBE_DOWN,    /* it was lost, or the first set-up failed; stage and code say why */
	PROBE_GONE,    /* the last of a target that was removed; the target is freed after this */
};

/* Where a set-up or a connection failed. */
enum probe_stage {
	PROBE_AT_NOTHING,
	PROBE_AT_CONTROL,
	PROBE_AT_CONNECT,
	PROBE_AT_HELLO,
	PROBE_AT_PROBE
};

struct probe_result {
	struct probe_target *target;
	void *context;	  /* of the target */
	uint64_t wall_ns; /* when it was sent, or should have been */
	uint64_t rtt_ns;  /* send start to receive complete */
	/* rtt = prober delay + network + residence where stamps is not NONE. */
	uint64_t network_ns, residence_ns;
	uint32_t late_ns;    /* after its due time */
	uint32_t starved_ns; /* of it, what is not the sending of others in the same tick */
	uint8_t kind, stamps, stage;
	int32_t code; /* errno; of PROBE_AT_CONTROL: the rpc_code */
};

/* The next result of any thread, in the order of each; false: none now. */
bool probe_engine_next(struct probe_engine *engine, struct probe_result *result);

/* The moment nearest to near_ns, at most half a PROBE_GRID_NS from it, that lies well between two ticks: for work that can wait, as
 * the owner's thread and one that probes may have the same CPU. */
uint64_t probe_engine_lull_ns(const struct probe_engine *engine, uint64_t near_ns);

/* "no answer within 1 s", "not connected: connect: Connection refused". Returns buf. */
#define PROBE_WORDS 128
char *probe_result_words(const struct probe_result *result, char buf[PROBE_WORDS]);

/* The answering end. Hand out a token for one connection from prober to the NIC; port gets where to
 * connect to. -EADDRNOTAVAIL, -EUSERS (the limit), -EMSGSIZE, -ENOMEM. */
int probe_engine_expect(struct probe_engine *engine, const struct sock_addr *prober,
	const struct sock_addr *responder, uint32_t payload_bytes,
	unsigned char token[PROBE_TOKEN_BYTES], uint16_t *port, struct err *e);
/* Close what answers probes from prober at responder. */
void probe_engine_hang_up(struct probe_engine *engine, const struct sock_addr *prober,
	const struct sock_addr *responder);

/* The answering end as published, without weir's wire: listen at server for a connection of client, connect
 * to client's port, and return by the second what comes by the first. port gets where it listens; both must
 * stand by deadline_ns, or 2 s from now. -EADDRNOTAVAIL, -EUSERS, -ENOMEM or what listening said. */
int probe_engine_pong(struct probe_engine *engine, const struct sock_addr *client,
	const struct sock_addr *server, uint64_t deadline_ns, uint16_t *port, struct err *e);

struct probe_stats {
	uint64_t sent, answered, lost, unsent, results_dropped;
	uint64_t skipped; /* whole periods that a thread of ours slept through: nobody's loss */
	uint32_t targets, answering; /* now */
};
void probe_engine_stats(const struct probe_engine *engine, struct probe_stats *stats);

#endif
