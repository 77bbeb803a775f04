/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of one process into memory of another, over all the NICs that are near it: the p2p engine.
 *
 * An engine belongs to one GPU, or to none. It listens, connects, and moves data
 * between registered regions over connections of several channels each:
 *
 *	send and recv		a message goes to the receive that was posted first
 *	write and read		one-sided: the peer names a region by its key and need not call anything
 *	notify			bytes of any length, delivered in order, beside the data
 *
 * A complete program is in docs/examples/p2p.c; this is its heart:
 *
 *	struct weir_p2p_config config;
 *	struct weir_p2p *p2p;
 *
 *	weir_p2p_config_init(&config);
 *	config.token = secret;
 *	ret = weir_p2p_open(&p2p, &config, &error);
 *	ret = weir_p2p_connect(p2p, "10.0.0.2", 20000, &conn, &error);
 *	ret = weir_p2p_await(conn, 10 * WEIR_SECOND, &error);
 *	ret = weir_p2p_register(p2p, data, bytes, WEIR_P2P_HOST, 0, &region, &error);
 *	ret = weir_p2p_send(conn, region, 0, bytes, &transfer, &error);
 *	ret = weir_p2p_wait(transfer, 10 * WEIR_SECOND, &status, &error);
 *
 * Errors: 0 (or what the function says) on success, -errno otherwise, and the words in the error that
 * is passed last, which may be NULL. Nothing here prints, exits or waits without an end.
 *
 * Threads: without WEIR_P2P_THREAD an engine and all that belongs to it serve one thread at a time, and
 * bytes move only in weir_p2p_progress() and in the functions that wait. With it the engine has a thread
 * of its own that moves them, also into regions that a peer writes to while this program computes, and
 * every function may be called from any thread.
 *
 * Trust: who has the token may connect; who has a key may write or read that region, as far as its
 * registration allows, within its bounds, which are checked here, where the memory is. Neither is
 * encrypted: the network is trusted not to listen.
 */
#ifndef WEIR_P2P_H
#define WEIR_P2P_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WEIR_API __attribute__((visibility("default")))
#else
#define WEIR_API
#endif

#define WEIR_SECOND 1000000000ull /* durations are in nanoseconds */

#define WEIR_P2P_PORT	      20000 /* of GPU 0; GPU n listens on 20000 + n */
#define WEIR_P2P_CHANNELS_MAX 64
#define WEIR_P2P_WINDOW_MAX   32
#define WEIR_P2P_CHUNK_MAX    (1ull << 30)
#define WEIR_P2P_TOKEN_MAX    32
#define WEIR_P2P_NOTIFY_MAX   (256ull << 20) /* unread notifications of one connection, in bytes */

/* Why something failed: what was tried, on what, and what can be done about it. */
struct weir_error {
	int code;	/* positive errno, 0 when nothing failed */
	char what[512]; /* one line */
	char hint[256]; /* the next step, or empty */
};

struct weir_p2p;	  /* an engine */
struct weir_p2p_conn;	  /* a connection to one peer */
struct weir_p2p_region;	  /* registered memory */
struct weir_p2p_transfer; /* what is under way */

/* Flags of a configuration:
 * THREAD	the engine has a thread of its own
 * OPEN		it may listen beyond loopback without a token
 * ONE_WAY	connecting: half the channels, because only who connects has long data to send
 * UDMABUF	the memory that moves is of the host and known by dma-bufs, so that a NIC takes it for device memory */
#define WEIR_P2P_THREAD	 1u
#define WEIR_P2P_OPEN	 2u
#define WEIR_P2P_ONE_WAY 4u
#define WEIR_P2P_UDMABUF 8u

/* The way between NICs and memory of a GPU, or of dma-bufs, for weir's own transport. DEVMEM: the NIC reads and writes it
 * (Linux 6.12 to receive, 6.16 to send, a driver that can, CAP_NET_ADMIN); its settings are changed while there are
 * connections, and put back whatever ends them. STAGED: through host memory. AUTO: the first where it can be, else the
 * second, and weir_p2p_path_reason() says why. */
enum weir_p2p_path { WEIR_P2P_PATH_AUTO, WEIR_P2P_PATH_DEVMEM, WEIR_P2P_PATH_STAGED };

/* How the fragments in which some plugins leave what they receive get to their place: by one kernel for all that
 * have come, by a copy on the GPU for each, through host memory, or not at all, which measures the network and
 * nothing else. Fragments in host memory for host memory are copied by the CPU. */
enum weir_p2p_unpack {
	WEIR_P2P_UNPACK_KERNEL,
	WEIR_P2P_UNPACK_D2D,
	WEIR_P2P_UNPACK_HOST,
	WEIR_P2P_UNPACK_NONE,
};

struct weir_p2p_config {
	unsigned int rank; /* the number of this engine on its host, for peers that ask for one */
	int peer_rank;	   /* connecting: who must be at the other end; -1: anyone */
	int gpu;	   /* whose memory moves, in the order of PCI addresses; -1: the host's */
	const char
		*devices;   /* NICs by name, "eth1,eth2": channels go round them; NULL: all that are
			      * as near to the GPU as the nearest; without a GPU the one that the
			      * connection itself takes */
	const char *plugin; /* a net plugin made for NCCL, by path; NULL: weir's own transport */
	int plugin_version; /* of the plugin's table, 7 to 11; 0: the newest */
	enum weir_p2p_unpack unpack; /* for plugins that need it */
	enum weir_p2p_path path;
	const char *queues;    /* of each NIC, for device memory, "8-11"; NULL: the last quarter */
	uint64_t pool_bytes;   /* of device memory that each NIC receives into; 0: 64 MiB */
	unsigned int channels; /* of a connection, each way; who connects decides */
	unsigned int sockets;  /* of a channel, for weir's own transport; 0: as many as it likes */
	unsigned int window;   /* chunks under way on a channel, 1 .. WEIR_P2P_WINDOW_MAX */
	uint64_t chunk_bytes;  /* 4 KiB .. WEIR_P2P_CHUNK_MAX */
	const char *token;     /* what both ends must know, at most WEIR_P2P_TOKEN_MAX bytes */
	uint64_t connect_timeout_ns; /* to be connected, retries included */
	uint64_t peer_timeout_ns;    /* a peer that is silent for so long while something is under
				      * way is dead */
	unsigned int flags;
};

/* The defaults: host memory, 8 channels, a window of 16, chunks of 512 KiB, ten seconds each. */
WEIR_API void weir_p2p_config_init(struct weir_p2p_config *config);

/* Open an engine. The strings of the configuration are copied. */
WEIR_API int weir_p2p_open(
	struct weir_p2p **p2p, const struct weir_p2p_config *config, struct weir_error *error);
/* Close it with all its connections, regions and transfers: handles of them are gone. */
WEIR_API void weir_p2p_close(struct weir_p2p *p2p);

/* Move what can be moved, on all channels of all connections, without waiting. 1: something moved,
 * 0: nothing. Errors belong to connections and show there. */
WEIR_API int weir_p2p_progress(struct weir_p2p *p2p);
/* After a call that moved nothing: sleep until something may move, or for timeout_ns. */
WEIR_API void weir_p2p_sleep(struct weir_p2p *p2p, uint64_t timeout_ns);

/* Listen. host NULL: all addresses; port 0: any that is free, weir_p2p_port() says which. Beyond
 * loopback it takes a token, or WEIR_P2P_OPEN: -EACCES. */
WEIR_API int weir_p2p_listen(
	struct weir_p2p *p2p, const char *host, uint16_t port, struct weir_error *error);
WEIR_API uint16_t weir_p2p_port(const struct weir_p2p *p2p);

/* The next connection that is ready. -EAGAIN: none is. One that never became ready (wrong token, wrong
 * version, silence) is dropped, and counted in weir_p2p_refused(), which also says why the last was. */
WEIR_API int weir_p2p_accept(
	struct weir_p2p *p2p, struct weir_p2p_conn **conn, struct weir_error *error);
WEIR_API unsigned int weir_p2p_refused(struct weir_p2p *p2p, struct weir_error *why);

/* Begin to connect; a peer that is not there yet is tried again until connect_timeout_ns. */
WEIR_API int weir_p2p_connect(struct weir_p2p *p2p, const char *host, uint16_t port,
	struct weir_p2p_conn **conn, struct weir_error *error);
/* 1: ready. 0: not yet. -errno: it failed or is over, and why: -EACCES the token is wrong, -EPROTO the
 * other end speaks something else, -EPIPE the peer has closed, -ECONNRESET, -ETIMEDOUT. */
WEIR_API int weir_p2p_connected(struct weir_p2p_conn *conn, struct weir_error *error);
/* The same, waiting for it. -ETIMEDOUT: not within timeout_ns. */
WEIR_API int weir_p2p_await(
	struct weir_p2p_conn *conn, uint64_t timeout_ns, struct weir_error *error);
/* Close a connection in any state. Transfers of it end with -ECANCELED; test them all the same. */
WEIR_API void weir_p2p_disconnect(struct weir_p2p_conn *conn);

enum weir_p2p_memory { WEIR_P2P_HOST = 1, WEIR_P2P_CUDA = 2 };

#define WEIR_P2P_REMOTE_READ  1u
#define WEIR_P2P_REMOTE_WRITE 2u

/* Register memory, which stays the caller's, for all connections of the engine, those to come too. Also
 * while data flows. access: what peers that have the key may do, 0 nothing. */
WEIR_API int weir_p2p_register(struct weir_p2p *p2p, void *address, uint64_t bytes,
	enum weir_p2p_memory memory, unsigned int access, struct weir_p2p_region **region,
	struct weir_error *error);
/* The same for memory that is a dma-buf, from offset on, which is what a NIC needs to reach it by itself. address is where
 * it is mapped here or, for CUDA, in the GPU. The descriptor stays the caller's, who may close it at once. */
WEIR_API int weir_p2p_register_dmabuf(struct weir_p2p *p2p, int fd, uint64_t offset, void *address,
	uint64_t bytes, enum weir_p2p_memory memory, unsigned int access,
	struct weir_p2p_region **region, struct weir_error *error);
/* -EBUSY while a transfer uses it, ours or a peer's: nothing has changed then. */
WEIR_API int weir_p2p_unregister(struct weir_p2p_region *region, struct weir_error *error);
/* What a peer needs to write or read a region: hand it over by a notification, or by other means. */
WEIR_API uint64_t weir_p2p_key(const struct weir_p2p_region *region);

/* Send a message, and receive one. Messages of a connection arrive in the order in which they were sent.
 * A shorter one than the receive is fine; a longer one fails at both ends with -EMSGSIZE. The data of a
 * send may be changed when it is done; that does not mean that it has arrived. -EAGAIN: too many under
 * way, test some. */
WEIR_API int weir_p2p_send(struct weir_p2p_conn *conn, struct weir_p2p_region *region,
	uint64_t offset, uint64_t bytes, struct weir_p2p_transfer **transfer,
	struct weir_error *error);
WEIR_API int weir_p2p_recv(struct weir_p2p_conn *conn, struct weir_p2p_region *region,
	uint64_t offset, uint64_t bytes, struct weir_p2p_transfer **transfer,
	struct weir_error *error);

/* Write to, and read from, a region of the peer. Done means that the data is there. The owner of the
 * region refuses an unknown key (-ENOENT), a range beyond it (-ERANGE), and what its registration does
 * not allow (-EACCES); the connection survives that. Transfers may overtake each other. */
WEIR_API int weir_p2p_write(struct weir_p2p_conn *conn, struct weir_p2p_region *region,
	uint64_t offset, uint64_t bytes, uint64_t key, uint64_t remote_offset,
	struct weir_p2p_transfer **transfer, struct weir_error *error);
WEIR_API int weir_p2p_read(struct weir_p2p_conn *conn, struct weir_p2p_region *region,
	uint64_t offset, uint64_t bytes, uint64_t key, uint64_t remote_offset,
	struct weir_p2p_transfer **transfer, struct weir_error *error);

struct weir_p2p_status {
	uint64_t bytes; /* moved: of a receive, what the sender sent */
};

/* 0: not done yet. 1: done. -errno: failed, and why. When it is not 0 the transfer is over and its handle
 * is gone. status may be NULL. */
WEIR_API int weir_p2p_test(struct weir_p2p_transfer *transfer, struct weir_p2p_status *status,
	struct weir_error *error);
/* The same, waiting for it; 0 when timeout_ns have passed: the transfer goes on. */
WEIR_API int weir_p2p_wait(struct weir_p2p_transfer *transfer, uint64_t timeout_ns,
	struct weir_p2p_status *status, struct weir_error *error);

/* Hand bytes to the peer's program. They are copied, and arrive after everything that was done before.
 * A peer that lets more than WEIR_P2P_NOTIFY_MAX lie unread loses the connection. */
WEIR_API int weir_p2p_notify(
	struct weir_p2p_conn *conn, const void *data, size_t bytes, struct weir_error *error);
/* The next notification: 1, and *data, ended by a 0 byte that *bytes does not count, is the caller's to
 * free(). 0: none. -errno: none, and none will come. */
WEIR_API int weir_p2p_notification(
	struct weir_p2p_conn *conn, void **data, size_t *bytes, struct weir_error *error);

/* Why nothing moved while something was under way. */
enum weir_p2p_stall {
	WEIR_P2P_STALL_CREDIT, /* sending: the receiver has granted no room yet */
	WEIR_P2P_STALL_PEER, /* receiving: nothing came; sending: it has not taken what was sent */
	WEIR_P2P_STALL_SOCKET, /* sending: the sockets took no more */
	WEIR_P2P_STALL_UNPACK, /* receiving: what came was still being put in its place */
	WEIR_P2P_STALLS,
};

struct weir_p2p_stats {
	uint64_t sent_bytes, received_bytes; /* payload */
	uint64_t sent_chunks, received_chunks;
	uint64_t inline_messages;		/* short ones, that went with their announcement */
	unsigned int channels, sockets, window; /* as agreed; sockets of one channel, 0 not known */
	uint64_t chunk_bytes;
	uint64_t active_ns;		    /* with something under way */
	uint64_t in_flight_max;		    /* chunks, all channels */
	double in_flight_mean;		    /* over the active time */
	uint64_t stall_ns[WEIR_P2P_STALLS]; /* parts of the active time */
	uint64_t refused;		    /* one-sided requests of the peer */
	/* Of the payload: what NICs took from device memory and put there by themselves; and what came as
	 * ordinary bytes where device memory was meant to, with the headers or by another queue. */
	uint64_t sent_device_bytes, received_device_bytes;
	uint64_t received_linear_bytes, received_plain_bytes;
};

WEIR_API void weir_p2p_conn_stats(struct weir_p2p_conn *conn, struct weir_p2p_stats *stats);
/* "no credit", "peer slow", "socket full", "unpack" */
WEIR_API const char *weir_p2p_stall_name(enum weir_p2p_stall stall);

/* Who the peer is ("10.0.0.2:40312"), and the NICs that the channels use ("eth1,eth2"). They live as
 * long as the connection. */
WEIR_API const char *weir_p2p_peer(const struct weir_p2p_conn *conn);
WEIR_API const char *weir_p2p_devices(const struct weir_p2p_conn *conn);
/* How what comes gets to its place: "kernel", "d2d", "host", "none", or "none needed". */
WEIR_API const char *weir_p2p_unpacking(const struct weir_p2p_conn *conn);
/* Which way the payload goes here: "host", "devmem", "staged", or "none" where nothing goes this way; and why it is
 * staged though AUTO was asked for, or NULL. */
WEIR_API const char *weir_p2p_path(struct weir_p2p_conn *conn, int sending);
WEIR_API const char *weir_p2p_path_reason(struct weir_p2p_conn *conn);
/* What moves the data: "tcp", or what the plugin calls itself. */
WEIR_API const char *weir_p2p_transport(const struct weir_p2p *p2p);

#ifdef __cplusplus
}
#endif

#endif
