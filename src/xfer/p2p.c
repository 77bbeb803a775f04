// SPDX-License-Identifier: BSD-3-Clause
/* The public functions: arguments checked, the lock taken, the engine told. */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "xfer/engine.h"

/* The public error is ours under another name. */
_Static_assert(sizeof(struct weir_error) == sizeof(struct err) &&
		       offsetof(struct weir_error, what) == offsetof(struct err, what) &&
		       offsetof(struct weir_error, hint) == offsetof(struct err, hint),
	"weir_error and err differ");

static struct err *as_err(struct weir_error *error)
{
	return (struct err *)error;
}

static void give_error(struct weir_error *error, const struct err *e)
{
	if (error)
		*as_err(error) = *e;
}

static uint64_t deadline(uint64_t timeout_ns)
{
	uint64_t now_ns = clock_ns();

	return timeout_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + timeout_ns;
}

void weir_p2p_config_init(struct weir_p2p_config *config)
{
	*config = (struct weir_p2p_config){ .gpu = -1,
		.peer_rank = -1,
		.channels = 8,
		.window = 16,
		.chunk_bytes = 512 << 10,
		.connect_timeout_ns = 10 * WEIR_SECOND,
		.peer_timeout_ns = 10 * WEIR_SECOND };
}

int weir_p2p_open(
	struct weir_p2p **p2p, const struct weir_p2p_config *config, struct weir_error *error)
{
	struct weir_p2p *p = calloc(1, sizeof(*p));
	int ret;

	*p2p = NULL;
	if (!p)
		return err_set(as_err(error), ENOMEM, "no memory for an engine");
	ret = engine_open(p, config, NULL, as_err(error));
	if (ret) {
		weir_p2p_close(p);
		return ret;
	}
	*p2p = p;
	return 0;
}

void weir_p2p_close(struct weir_p2p *p2p)
{
	if (!p2p)
		return;
	engine_close(p2p);
	free(p2p);
}

int weir_p2p_progress(struct weir_p2p *p2p)
{
	int ret;

	engine_lock(p2p);
	ret = engine_turn(p2p);
	engine_unlock(p2p, false);
	return ret;
}

void weir_p2p_sleep(struct weir_p2p *p2p, uint64_t timeout_ns)
{
	engine_lock(p2p);
	engine_wait(p2p, deadline(timeout_ns));
	engine_unlock(p2p, false);
}

int weir_p2p_listen(struct weir_p2p *p2p, const char *host, uint16_t port, struct weir_error *error)
{
	int ret;

	engine_lock(p2p);
	ret = engine_listen(p2p, host, port, as_err(error));
	engine_unlock(p2p, true);
	return ret;
}

uint16_t weir_p2p_port(const struct weir_p2p *p2p)
{
	return p2p->port;
}

int weir_p2p_accept(struct weir_p2p *p2p, struct weir_p2p_conn **conn, struct weir_error *error)
{
	int ret = -EAGAIN;

	engine_lock(p2p);
	if (p2p->listen_fd < 0)
		ret = err_set(as_err(error), EINVAL, "this engine does not listen");
	for (struct weir_p2p_conn *c = p2p->conns; c && ret == -EAGAIN; c = c->next) {
		if (!c->server || c->accepted || c->state != CONN_READY)
			continue;
		c->accepted = true;
		*conn = c;
		ret = 0;
	}
	engine_unlock(p2p, false);
	return ret;
}

unsigned int weir_p2p_refused(struct weir_p2p *p2p, struct weir_error *why)
{
	unsigned int count;

	engine_lock(p2p);
	count = p2p->refused;
	give_error(why, &p2p->refused_why);
	engine_unlock(p2p, false);
	return count;
}

static void say_hello(const struct weir_p2p *p, struct xfer_hello *h)
{
	*h = (struct xfer_hello){ .version = XFER_VERSION,
		.rank = p->config.rank,
		.peer_rank =
			p->config.peer_rank < 0 ? XFER_ANY_RANK : (uint32_t)p->config.peer_rank,
		.channels = p->config.channels,
		.window = p->config.window,
		.directions =
			XFER_TO_SERVER | (p->config.flags & WEIR_P2P_ONE_WAY ? 0 : XFER_TO_CLIENT),
		.chunk_bytes = p->config.chunk_bytes };
	memcpy(h->token, p->token, sizeof(h->token));
	snprintf(h->transport, sizeof(h->transport), "%s", p->net->ops->name);
}

int weir_p2p_connect(struct weir_p2p *p2p, const char *host, uint16_t port,
	struct weir_p2p_conn **conn, struct weir_error *error)
{
	struct sock_addr address[SOCK_ADDRS];
	struct weir_p2p_conn *c;
	char text[8];
	size_t count;
	int ret;

	snprintf(text, sizeof(text), "%u", port);
	ret = sock_resolve(host, text, AF_UNSPEC, false, address, &count, as_err(error));
	if (ret)
		return ret;
	engine_lock(p2p);
	ret = conn_new(p2p, &c, as_err(error));
	if (!ret) {
		memcpy(c->address, address, sizeof(address));
		c->addresses = count;
		say_hello(p2p, &c->hello);
		*conn = c;
	}
	engine_unlock(p2p, true);
	return ret;
}

static int connected(struct weir_p2p_conn *c, struct weir_error *error)
{
	if (c->state == CONN_OVER) {
		give_error(error, &c->error);
		return -c->error.code;
	}
	return c->state == CONN_READY;
}

int weir_p2p_connected(struct weir_p2p_conn *conn, struct weir_error *error)
{
	int ret;

	engine_lock(conn->engine);
	ret = connected(conn, error);
	engine_unlock(conn->engine, false);
	return ret;
}

int weir_p2p_await(struct weir_p2p_conn *conn, uint64_t timeout_ns, struct weir_error *error)
{
	struct weir_p2p *p = conn->engine;
	uint64_t until_ns = deadline(timeout_ns);
	int ret;

	engine_lock(p);
	while (!(ret = connected(conn, error)) && clock_ns() < until_ns)
		engine_wait(p, until_ns);
	engine_unlock(p, false);
	if (!ret)
		return err_set(as_err(error), ETIMEDOUT, "%s: not connected within %.1f s",
			conn->peer[0] ? conn->peer : "the peer", (double)timeout_ns / 1e9);
	return ret < 0 ? ret : 0;
}

/* What the peer is to get before the end, as long as it takes it. */
static void say_goodbye(struct weir_p2p_conn *c)
{
	struct xfer_frame bye = { .type = XFER_BYE };
	uint64_t until_ns = clock_ns() + WEIR_SECOND;
	char rest[4096];

	do {
		if (move_notify(c, NULL) < 0 || (c->link.out_count && link_flush(&c->link) < 0))
			return;
		if (c->link.out_count)
			sock_wait(c->link.fd, POLLOUT, -1, until_ns);
	} while ((c->notify_first || c->link.out_count) && clock_ns() < until_ns);
	if (link_put(&c->link, &bye, NULL) || link_flush(&c->link) < 0)
		return;
	/* What lies unread would make the kernel reset the connection, and the peer lose the last words. */
	shutdown(c->link.fd, SHUT_WR);
	while (recv(c->link.fd, rest, sizeof(rest), MSG_DONTWAIT) > 0)
		;
}

void weir_p2p_disconnect(struct weir_p2p_conn *conn)
{
	struct err gone = { .code = ECANCELED, .what = "the connection was closed here" };
	struct weir_p2p *p = conn->engine;

	engine_lock(p);
	if (conn->state == CONN_READY)
		say_goodbye(conn);
	conn_over(conn, &gone);
	conn->abandoned = true;
	if (conn_is_done_with(conn))
		conn_free(conn);
	engine_unlock(p, false);
}

static int keep_dmabuf(struct weir_p2p_region *r, int fd, uint64_t offset, struct err *e)
{
	r->dmabuf = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	r->dmabuf_offset = offset;
	return r->dmabuf < 0 ? err_set(e, errno, "cannot keep the descriptor of a dma-buf: %m") : 0;
}

/* fd -1: there is no dma-buf. */
static int add_region(struct weir_p2p *p2p, int fd, uint64_t offset, void *address, uint64_t bytes,
	enum weir_p2p_memory memory, unsigned int access, struct weir_p2p_region **region,
	struct weir_error *error)
{
	int ret;

	engine_lock(p2p);
	ret = regions_add(&p2p->regions, address, bytes, memory, access, region, as_err(error));
	if (!ret && fd >= 0) {
		ret = keep_dmabuf(*region, fd, offset, as_err(error));
		if (ret)
			regions_remove(&p2p->regions, *region, NULL);
	}
	if (!ret)
		(*region)->engine = p2p;
	/* Now rather than in the first transfer, which will say what is wrong if something is. */
	for (struct weir_p2p_conn *c = p2p->conns; !ret && c; c = c->next) {
		if (c->state != CONN_READY)
			continue;
		if (c->out)
			move_memory(c, *region, true, NULL);
		if (c->in)
			move_memory(c, *region, false, NULL);
	}
	engine_unlock(p2p, false);
	return ret;
}

int weir_p2p_register(struct weir_p2p *p2p, void *address, uint64_t bytes,
	enum weir_p2p_memory memory, unsigned int access, struct weir_p2p_region **region,
	struct weir_error *error)
{
	return add_region(p2p, -1, 0, address, bytes, memory, access, region, error);
}

int weir_p2p_register_dmabuf(struct weir_p2p *p2p, int fd, uint64_t offset, void *address,
	uint64_t bytes, enum weir_p2p_memory memory, unsigned int access,
	struct weir_p2p_region **region, struct weir_error *error)
{
	if (fd < 0)
		return err_set(as_err(error), EBADF, "%d is no descriptor of a dma-buf", fd);
	return add_region(p2p, fd, offset, address, bytes, memory, access, region, error);
}

int weir_p2p_unregister(struct weir_p2p_region *region, struct weir_error *error)
{
	struct weir_p2p *p = region->engine;
	int ret = 0;

	engine_lock(p);
	for (struct weir_p2p_conn *c = p->conns; c && !region->users; c = c->next)
		if (c->state == CONN_READY)
			move_forget_memory(c, region);
	ret = regions_remove(&p->regions, region, as_err(error));
	engine_unlock(p, false);
	return ret;
}

uint64_t weir_p2p_key(const struct weir_p2p_region *region)
{
	return region->key;
}

/* What all four have in common, before anything is under way. */
static int begin(struct weir_p2p_conn *c, enum role role, struct weir_p2p_region *r,
	uint64_t offset, uint64_t bytes, struct weir_p2p_transfer **transfer,
	struct weir_error *error)
{
	bool out = role == ROLE_SEND || role == ROLE_WRITE;
	bool short_one = bytes <= XFER_INLINE_MAX && region_is_inline(r);
	int ret;

	if (c->state != CONN_READY) {
		if (c->state == CONN_OVER) {
			give_error(error, &c->error);
			return -c->error.code;
		}
		return err_set(as_err(error), ENOTCONN, "the connection is not ready yet");
	}
	if (r->engine != c->engine || !region_range(r, offset, bytes))
		return err_set(as_err(error), ERANGE,
			"%" PRIu64 " bytes at %" PRIu64 " are not within a region of %" PRIu64,
			bytes, offset, r->bytes);
	if (xfer_chunks(bytes, c->agreed.chunk_bytes) > INT32_MAX)
		return err_set(as_err(error), EMSGSIZE, "too many chunks");
	if (role != ROLE_RECV && !short_one) {
		ret = move_memory(c, r, out, as_err(error));
		if (ret)
			return ret;
	}
	*transfer = transfer_new(c, role, r, offset, bytes);
	if (!*transfer)
		return err_set(
			as_err(error), EAGAIN, "%d transfers are under way already", TRANSFERS);
	(*transfer)->chunks = (uint32_t)xfer_chunks(bytes, c->agreed.chunk_bytes);
	return 0;
}

/* Tell the peer at once. What goes wrong here is the connection's error, and shows at the next turn. */
static void announce(struct weir_p2p_conn *c, struct weir_p2p_transfer *t, enum way way)
{
	struct err e = { 0 };
	int ret;

	queue_push(&c->announce[way], t);
	if (c->announce[way].first != t)
		return;
	ret = move_announce(c, &e);
	if (ret > 0)
		link_flush(&c->link);
	else if (ret < 0)
		conn_over(c, &e);
}

int weir_p2p_send(struct weir_p2p_conn *conn, struct weir_p2p_region *region, uint64_t offset,
	uint64_t bytes, struct weir_p2p_transfer **transfer, struct weir_error *error)
{
	int ret;

	engine_lock(conn->engine);
	ret = begin(conn, ROLE_SEND, region, offset, bytes, transfer, error);
	if (!ret)
		announce(conn, *transfer, WAY_MESSAGE);
	engine_unlock(conn->engine, true);
	return ret;
}

/* A message that came first. */
static void meet(struct weir_p2p_conn *c, struct weir_p2p_transfer *t)
{
	struct unexpected *u = &c->unexpected[c->unexpected_first];
	struct err e = { 0 };

	c->unexpected_first = (c->unexpected_first + 1) % XFER_CREDIT;
	c->unexpected_count--;
	if (frames_match(c, t, u->id, u->bytes, u->data, u->whole, &e))
		conn_over(c, &e);
}

int weir_p2p_recv(struct weir_p2p_conn *conn, struct weir_p2p_region *region, uint64_t offset,
	uint64_t bytes, struct weir_p2p_transfer **transfer, struct weir_error *error)
{
	int ret;

	engine_lock(conn->engine);
	ret = begin(conn, ROLE_RECV, region, offset, bytes, transfer, error);
	if (!ret && conn->unexpected_count)
		meet(conn, *transfer);
	else if (!ret)
		queue_push(&conn->receives, *transfer);
	engine_unlock(conn->engine, true);
	return ret;
}

static int one_sided(struct weir_p2p_conn *conn, enum role role, struct weir_p2p_region *region,
	uint64_t offset, uint64_t bytes, uint64_t key, uint64_t remote_offset,
	struct weir_p2p_transfer **transfer, struct weir_error *error)
{
	int ret;

	engine_lock(conn->engine);
	ret = begin(conn, role, region, offset, bytes, transfer, error);
	if (!ret) {
		(*transfer)->key = key;
		(*transfer)->remote_offset = remote_offset;
		announce(conn, *transfer, WAY_ONE_SIDED);
	}
	engine_unlock(conn->engine, true);
	return ret;
}

int weir_p2p_write(struct weir_p2p_conn *conn, struct weir_p2p_region *region, uint64_t offset,
	uint64_t bytes, uint64_t key, uint64_t remote_offset, struct weir_p2p_transfer **transfer,
	struct weir_error *error)
{
	return one_sided(
		conn, ROLE_WRITE, region, offset, bytes, key, remote_offset, transfer, error);
}

int weir_p2p_read(struct weir_p2p_conn *conn, struct weir_p2p_region *region, uint64_t offset,
	uint64_t bytes, uint64_t key, uint64_t remote_offset, struct weir_p2p_transfer **transfer,
	struct weir_error *error)
{
	return one_sided(
		conn, ROLE_READ, region, offset, bytes, key, remote_offset, transfer, error);
}

static int test(
	struct weir_p2p_transfer *t, struct weir_p2p_status *status, struct weir_error *error)
{
	int result = t->result;

	if (!result)
		return 0;
	if (status)
		status->bytes = result > 0 ? t->bytes : 0;
	if (result < 0)
		err_set(as_err(error), -result, "%s", t->why ? t->why : strerror(-result));
	transfer_free(t);
	return result;
}

/* A connection that was closed here goes with its last transfer. */
static void let_go(struct weir_p2p_conn *c)
{
	if (conn_is_done_with(c))
		conn_free(c);
}

int weir_p2p_test(struct weir_p2p_transfer *transfer, struct weir_p2p_status *status,
	struct weir_error *error)
{
	struct weir_p2p_conn *c = transfer->conn;
	struct weir_p2p *p = c->engine;
	int ret;

	engine_lock(p);
	ret = test(transfer, status, error);
	if (ret)
		let_go(c);
	engine_unlock(p, false);
	return ret;
}

int weir_p2p_wait(struct weir_p2p_transfer *transfer, uint64_t timeout_ns,
	struct weir_p2p_status *status, struct weir_error *error)
{
	struct weir_p2p_conn *c = transfer->conn;
	struct weir_p2p *p = c->engine;
	uint64_t until_ns = deadline(timeout_ns);
	int ret;

	engine_lock(p);
	while (!(ret = test(transfer, status, error)) && clock_ns() < until_ns)
		engine_wait(p, until_ns);
	if (ret)
		let_go(c);
	engine_unlock(p, false);
	return ret;
}

int weir_p2p_notify(
	struct weir_p2p_conn *conn, const void *data, size_t bytes, struct weir_error *error)
{
	struct notification *n;
	int ret = 0;

	if (bytes > WEIR_P2P_NOTIFY_MAX)
		return err_set(as_err(error), EMSGSIZE, "a notification of %zu bytes: %llu at most",
			bytes, WEIR_P2P_NOTIFY_MAX);
	n = malloc(sizeof(*n) + bytes + 1);
	if (!n)
		return err_set(as_err(error), ENOMEM, "no memory for a notification");
	*n = (struct notification){ .bytes = bytes };
	if (bytes)
		memcpy(n->data, data, bytes);
	engine_lock(conn->engine);
	ret = connected(conn, error);
	if (ret == 1) {
		if (conn->notify_last)
			conn->notify_last->next = n;
		else
			conn->notify_first = n;
		conn->notify_last = n;
		n = NULL;
		if (move_notify(conn, NULL) >= 0)
			link_flush(&conn->link);
		ret = 0;
	} else if (!ret) {
		ret = err_set(as_err(error), ENOTCONN, "the connection is not ready yet");
	}
	engine_unlock(conn->engine, true);
	free(n);
	return ret;
}

int weir_p2p_notification(
	struct weir_p2p_conn *conn, void **data, size_t *bytes, struct weir_error *error)
{
	struct notification *n;
	int ret = 0;

	engine_lock(conn->engine);
	n = conn->heard_first;
	if (n) {
		conn->heard_first = n->next;
		if (!n->next)
			conn->heard_last = NULL;
		conn->heard_bytes -= n->bytes;
	} else {
		ret = connected(conn, error);
		ret = ret < 0 ? ret : 0;
	}
	engine_unlock(conn->engine, false);
	if (!n)
		return ret;
	/* The caller gets memory that free() takes: the words are moved to its beginning. */
	*bytes = n->bytes;
	memmove(n, n->data, *bytes + 1);
	*data = n;
	return 1;
}

void weir_p2p_conn_stats(struct weir_p2p_conn *conn, struct weir_p2p_stats *stats)
{
	engine_lock(conn->engine);
	if (conn->state == CONN_OVER)
		*stats = conn->stats;
	else
		stats_read(conn, stats);
	engine_unlock(conn->engine, false);
}

const char *weir_p2p_stall_name(enum weir_p2p_stall stall)
{
	static const char *const name[WEIR_P2P_STALLS] = { "no credit", "peer slow", "socket full",
		"unpack" };

	return (unsigned int)stall < WEIR_P2P_STALLS ? name[stall] : "?";
}

const char *weir_p2p_peer(const struct weir_p2p_conn *conn)
{
	return conn->peer;
}

const char *weir_p2p_devices(const struct weir_p2p_conn *conn)
{
	return conn->devices;
}

const char *weir_p2p_unpacking(const struct weir_p2p_conn *conn)
{
	static const char *const names[] = { "kernel", "d2d", "host", "none" };
	enum weir_p2p_unpack how = conn->engine->config.unpack;

	if (!conn->unpacks)
		return "none needed";
	/* Without a GPU there is one way only. */
	if (conn->engine->config.gpu < 0 && how != WEIR_P2P_UNPACK_NONE)
		how = WEIR_P2P_UNPACK_HOST;
	return names[how];
}

const char *weir_p2p_path(struct weir_p2p_conn *conn, int sending)
{
	static const char *const names[] = { "host", "devmem", "staged" };
	const char *name;

	engine_lock(conn->engine);
	name = (sending ? conn->out : conn->in) || conn->state == CONN_OVER
		       ? names[conn->path[!!sending]]
		       : "none";
	engine_unlock(conn->engine, false);
	return name;
}

const char *weir_p2p_path_reason(struct weir_p2p_conn *conn)
{
	return conn->path_reason;
}

const char *weir_p2p_transport(const struct weir_p2p *p2p)
{
	return p2p->net->ops->name;
}
