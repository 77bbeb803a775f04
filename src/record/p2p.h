/* SPDX-License-Identifier: BSD-3-Clause */
/* What `weir p2p` reports: a run, a mesh of runs, a sweep. Text for a person, or JSON after
 * schema/p2p-1.json, p2p-mesh-1.json and p2p-sweep-1.json. */
#ifndef WEIR_RECORD_P2P_H
#define WEIR_RECORD_P2P_H

#include "base/out.h"
#include "xfer/run.h"

struct p2p_record {
	const char *role;      /* "client", "server" */
	const char *transport; /* "tcp", or the plugin's name */
	const char *unpack;    /* how fragments are put together; "none": there are none */
	char peer[80];
	int gpu, peer_gpu;
	uint64_t started_wall_ns;
	struct run_plan plan;
	uint32_t warmup; /* messages before, that are in no figure */
	uint64_t chunk_bytes;
	unsigned int channels, sockets, window;
	const struct run_end *local, *remote; /* remote may be NULL */
	const char *error;		      /* why it did not complete, or NULL */
};

/* The rate that counts: the receiver's bytes over the receiver's time, bytes/s. */
double p2p_rate(const struct p2p_record *r);
/* Nearest rank of the times of one end; 0 without any. sound: enough samples stand behind it. */
uint64_t p2p_time_ns(const struct run_end *end, double percent, bool *sound);

/* Exit status: 0 good, 1 failed or wrong data, 3 doubtful. */
int p2p_verdict(const struct p2p_record *r);
void p2p_emit(const struct p2p_record *r, struct out *o);
/* The record into a file, whole or not at all. */
int p2p_write(const struct p2p_record *r, const char *path, struct err *e);

/* GPUs side by side. elapsed_ns: from the first beginning to the last end. */
struct p2p_mesh {
	const struct p2p_record *record;
	unsigned int count;
	bool processes;
	uint64_t elapsed_ns;
};
int p2p_mesh_verdict(const struct p2p_mesh *m);
void p2p_mesh_emit(const struct p2p_mesh *m, struct out *o);

struct p2p_point {
	uint64_t bytes, chunk_bytes;
	unsigned int channels, window;
	uint32_t messages, batches;
	double rate, spread; /* bytes/s; half the 95 % interval of the mean, as a share of it */
	uint64_t median_ns;
	bool steady;
	char error[160]; /* empty: it was measured */
};
struct p2p_sweep {
	const char *peer, *transport, *op;
	const struct p2p_point *point;
	unsigned int count;
	unsigned int channels, window; /* recommended */
	uint64_t chunk_bytes;
	double share; /* of the best rate of each size, that the recommended setting reaches, on average */
	bool recommended;
};
void p2p_point_emit(const struct p2p_point *p, unsigned int number, struct out *o);
void p2p_sweep_emit(const struct p2p_sweep *s, struct out *o);
/* Fill what is recommended: of all settings that were measured at every size, the one that comes nearest to
 * the best of each size. */
void p2p_sweep_judge(struct p2p_sweep *s);

#endif
