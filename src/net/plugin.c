// SPDX-License-Identifier: BSD-3-Clause
#include "net/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"
#include "net/plugin_abi.h"
#include "net/plugin_unpack.h"

#define REQUESTS      64
#define WAIT_NS	      (20 * NS_PER_US)
#define ACTIVE_NS     (2 * NS_PER_MS)
#define TEST_FAILURES 3 /* in a row: some plugins fail once near the end, and go on */

/* The versions' tables have the same members at the same places, but for their types. */
union table {
	const void *any;
	const struct plugin_v7 *v7;
	const struct plugin_v8 *v8;
	const struct plugin_v9 *v9;
	const struct plugin_v10 *v10;
	const struct plugin_v11 *v11;
};

struct plugin_net {
	struct net base;
	struct net_ops ops;
	void *library;
	char file[PATH_MAX];
	int version, versions;
	union table table;
	void *context; /* version 11 */
	bool started;
	_Atomic uint64_t done_ns; /* when a message was last done */
};

struct net_listener {
	struct plugin_net *net;
	void *listener;
};

struct net_request {
	void *request; /* NULL: free */
	size_t bytes;  /* as posted; of the message, once it has come */
	bool receives;
	int failures;
	unsigned int number; /* of the receive in its comm */
};

struct plugin_comm {
	struct plugin_net *net;
	void *comm;
	bool sends,
		consumes; /* consumes: it wants to be told of every receive, and unpacks nothing */
	unsigned int next, receives;
	struct net_request request[REQUESTS];
	struct plugin_unpack *unpack; /* NULL: what is received is in its place */
	/* Of a plugin that unpacks on the GPU: it is told where to put this, and may write to it. */
	struct plugin_device_handle *device;
	_Alignas(16) unsigned char device_memory[512];
};

/* The last warning of any plugin: its functions give only a number, and the words go here. */
static struct {
	pthread_mutex_t lock;
	char text[256];
} warning = { .lock = PTHREAD_MUTEX_INITIALIZER };

__attribute__((format(printf, 5, 6))) static void take_log(
	int level, unsigned long topics, const char *file, int line, const char *format, ...)
{
	va_list words;

	(void)topics, (void)file, (void)line;
	if (level != PLUGIN_WARN)
		return;
	pthread_mutex_lock(&warning.lock);
	va_start(words, format);
	vsnprintf(warning.text, sizeof(warning.text), format, words);
	va_end(words);
	text_one_line(warning.text);
	pthread_mutex_unlock(&warning.lock);
}

static int ignore_profile(void **event, int type, void *parent, int64_t id, void *data)
{
	(void)event, (void)type, (void)parent, (void)id, (void)data;
	return PLUGIN_OK;
}

static int told(const struct plugin_net *p, int result, struct err *e, const char *what)
{
	static const struct {
		const char *words;
		int code;
	} results[] = {
		[PLUGIN_CUDA] = { "CUDA failed", EIO },
		[PLUGIN_SYSTEM] = { "a system call failed", EIO },
		[PLUGIN_INTERNAL] = { "internal error", EIO },
		[PLUGIN_ARGUMENT] = { "it does not accept an argument", EINVAL },
		[PLUGIN_USAGE] = { "wrong use, or a message longer than its receive", EMSGSIZE },
		[PLUGIN_REMOTE] = { "the peer is gone", ECONNRESET },
		[PLUGIN_IN_PROGRESS] = { "it says that this is in progress", EIO },
	};
	bool known = result > 0 && (size_t)result < sizeof(results) / sizeof(results[0]);
	int code = known ? results[result].code : EIO;

	if (!result)
		return 0;
	err_set(e, code, "plugin %s: %s: %s (result %d)", p->table.v7->name, what,
		known ? results[result].words : "unknown error", result);
	pthread_mutex_lock(&warning.lock);
	if (warning.text[0])
		err_hint(e, "it says: %s", warning.text);
	warning.text[0] = 0;
	pthread_mutex_unlock(&warning.lock);
	return -code;
}

static struct plugin_net *net_of(struct net *n)
{
	return (struct plugin_net *)n;
}

/* Properties of any version as those of the newest; what an old one does not have is zero. */
static int read_properties(struct plugin_net *p, int dev, struct plugin_properties_v11 *to)
{
	struct plugin_properties_v8 v8 = { 0 };
	struct plugin_properties_v7 v7 = { 0 };
	int result;

	memset(to, 0, sizeof(*to));
	switch (p->version) {
	case 11:
		return p->table.v11->properties(dev, to);
	case 10:
		return p->table.v10->properties(dev, &to->v9);
	case 9:
		return p->table.v9->properties(dev, &to->v9);
	case 8:
		result = p->table.v8->properties(dev, &v8);
		break;
	default:
		result = p->table.v7->properties(dev, &v7);
		v8 = (struct plugin_properties_v8){ v7.name, v7.pci_path, v7.guid, v7.memory, 0,
			v7.speed_mbps, v7.port, v7.latency_us, v7.max_comms, v7.max_receives,
			v7.device_type, v7.device_version };
		break;
	}
	to->v9 = (struct plugin_properties_v9){ v8.name, v8.pci_path, v8.guid, v8.memory,
		v8.registration_is_global, 0, v8.speed_mbps, v8.port, v8.latency_us, v8.max_comms,
		v8.max_receives, v8.device_type, v8.device_version, { 0, { 0 } }, 0, 0 };
	return result;
}

static int plugin_properties(struct net *n, int dev, struct net_properties *to, struct err *e)
{
	struct plugin_net *p = net_of(n);
	struct plugin_properties_v11 from;
	int ret;

	if (dev < 0 || dev >= n->devices)
		return err_set(
			e, EINVAL, "there is no device %d, only 0 to %d", dev, n->devices - 1);
	ret = told(p, read_properties(p, dev, &from), e, "getProperties");
	if (ret)
		return ret;
	*to = (struct net_properties){
		.name = from.v9.name ? from.v9.name : "?",
		.pci_path = from.v9.pci_path,
		.guid = from.v9.guid,
		.memory = from.v9.memory,
		.speed_mbps = from.v9.speed_mbps,
		.port = from.v9.port,
		.latency_us = from.v9.latency_us,
		.max_comms = from.v9.max_comms,
		/* NCCL asks for 32; where lists of fragments are kept there are fewer places for them. */
		.requests = from.v9.device_type == PLUGIN_DEVICE_UNPACK ? PLUGIN_UNPACK_SLOTS
									: NET_REQUESTS,
		.message_bytes = from.v9.max_p2p_bytes && from.v9.max_p2p_bytes < NET_MESSAGE_MAX
					 ? from.v9.max_p2p_bytes
					 : NET_MESSAGE_MAX,
		.unpacks = from.v9.device_type == PLUGIN_DEVICE_UNPACK,
	};
	return 0;
}

static int plugin_listen(struct net *n, int dev, unsigned char handle[NET_HANDLE_BYTES],
	struct net_listener **opened, struct err *e)
{
	struct plugin_net *p = net_of(n);
	struct net_listener *l = calloc(1, sizeof(*l));
	int result, ret;

	*opened = NULL;
	if (!l)
		return err_set(e, ENOMEM, "no memory for a listener");
	l->net = p;
	memset(handle, 0, NET_HANDLE_BYTES);
	if (p->version == 11)
		result = p->table.v11->listen(p->context, dev, handle, &l->listener);
	else
		result = p->table.v7->listen(dev, handle, &l->listener);
	ret = told(p, result, e, "listen");
	if (!ret && !l->listener)
		ret = err_set(e, EIO, "plugin %s: listen gave nothing", p->table.v7->name);
	if (ret)
		free(l);
	else
		*opened = l;
	return ret;
}

static void plugin_close_listener(struct net_listener *l)
{
	if (!l)
		return;
	l->net->table.v7->close_listen(l->listener);
	free(l);
}

static struct plugin_comm *comm_new(struct plugin_net *p, bool sends)
{
	struct plugin_comm *c = aligned_alloc(16, (sizeof(*c) + 15) & ~(size_t)15);

	if (!c)
		return NULL;
	memset(c, 0, sizeof(*c));
	c->net = p;
	c->sends = sends;
	c->device = (struct plugin_device_handle *)c->device_memory;
	return c;
}

static int comm_ready(struct plugin_comm *c, int ret, struct net_comm **ready)
{
	*ready = NULL;
	if (ret || !c->comm)
		free(c);
	else
		*ready = (struct net_comm *)c;
	return ret;
}

static int plugin_connect(struct net *n, int dev, unsigned char handle[NET_HANDLE_BYTES],
	struct net_comm **connected, struct err *e)
{
	struct plugin_net *p = net_of(n);
	struct plugin_config config = { -1 };
	struct plugin_comm *c = comm_new(p, true);
	int result;

	*connected = NULL;
	if (!c)
		return err_set(e, ENOMEM, "no memory for a connection");
	if (p->version == 11)
		result = p->table.v11->connect(p->context, dev, handle, &c->comm, &c->device);
	else if (p->version == 10)
		result = p->table.v10->connect(dev, &config, handle, &c->comm, &c->device);
	else
		result = p->table.v7->connect(dev, handle, &c->comm, &c->device);
	return comm_ready(c, told(p, result, e, "connect"), connected);
}

static int plugin_accept(struct net_listener *l, struct net_comm **accepted, struct err *e)
{
	struct plugin_net *p = l->net;
	struct plugin_comm *c = comm_new(p, false);
	struct plugin_properties_v11 properties;
	int result, ret;

	*accepted = NULL;
	if (!c)
		return err_set(e, ENOMEM, "no memory for a connection");
	result = p->table.v7->accept(l->listener, &c->comm, &c->device);
	ret = told(p, result, e, "accept");
	if (ret || !c->comm || !p->table.v7->consumed)
		return comm_ready(c, ret, accepted);
	ret = told(p, read_properties(p, 0, &properties), e, "getProperties");
	c->consumes = properties.v9.device_type != PLUGIN_DEVICE_UNPACK;
	if (!ret && !c->consumes)
		ret = plugin_unpack_open(&c->unpack, c->device, e);
	if (ret)
		p->table.v7->close_recv(c->comm);
	return comm_ready(c, ret, accepted);
}

static void plugin_close_comm(struct net_comm *closing)
{
	struct plugin_comm *c = (struct plugin_comm *)closing;

	if (!c)
		return;
	if (c->sends)
		c->net->table.v7->close_send(c->comm);
	else
		c->net->table.v7->close_recv(c->comm);
	plugin_unpack_close(c->unpack);
	free(c);
}

static int plugin_reg(struct net_comm *comm, void *data, size_t bytes, enum net_memory_kind kind,
	struct net_memory **m, struct err *e)
{
	struct plugin_comm *c = (struct plugin_comm *)comm;
	struct plugin_net *p = c->net;
	void *memory = NULL;
	int result;

	*m = NULL;
	if (p->version == 7 && bytes > INT_MAX)
		return err_set(e, EOPNOTSUPP,
			"version 7 of the plugin API registers less than 2 GiB, not %zu bytes",
			bytes);
	if (p->version == 7)
		result = p->table.v7->reg(c->comm, data, (int)bytes, (int)kind, &memory);
	else
		result = p->table.v8->reg(c->comm, data, bytes, (int)kind, &memory);
	*m = memory;
	return told(p, result, e, "regMr");
}

static int plugin_reg_dmabuf(struct net_comm *comm, void *data, size_t bytes,
	enum net_memory_kind kind, uint64_t offset, int fd, struct net_memory **m, struct err *e)
{
	struct plugin_comm *c = (struct plugin_comm *)comm;
	struct plugin_net *p = c->net;
	void *memory = NULL;
	int result = p->table.v7->reg_dmabuf(c->comm, data, bytes, (int)kind, offset, fd, &memory);

	*m = memory;
	return told(p, result, e, "regMrDmaBuf");
}

/* NULL is a registration like any other: some plugins need none. */
static int plugin_dereg(struct net_comm *comm, struct net_memory *m, struct err *e)
{
	struct plugin_comm *c = (struct plugin_comm *)comm;

	return told(c->net, c->net->table.v7->dereg(c->comm, m), e, "deregMr");
}

static struct net_request *request_free(struct plugin_comm *c)
{
	for (int i = 0; i < REQUESTS; i++) {
		struct net_request *r = &c->request[c->next++ % REQUESTS];

		if (!r->request)
			return r;
	}
	return NULL;
}

static int posted(struct plugin_comm *c, struct net_request *r, size_t bytes, bool receives,
	int result, struct net_request **request, struct err *e)
{
	if (result)
		r->request = NULL;
	r->bytes = bytes;
	r->receives = receives;
	r->failures = 0;
	if (r->request && receives)
		r->number = c->receives++;
	*request = r->request ? r : NULL;
	return told(c->net, result, e, receives ? "irecv" : "isend");
}

static int plugin_isend(struct net_comm *comm, const void *data, size_t bytes, struct net_memory *m,
	struct net_request **request, struct err *e)
{
	struct plugin_comm *c = (struct plugin_comm *)comm;
	union table t = c->net->table;
	struct net_request *r = request_free(c);
	void *from = (void *)data;
	int result;

	*request = NULL;
	if (!r)
		return 0;
	if (c->net->version >= 10)
		result = t.v10->send(c->comm, from, bytes, 0, m, NULL, &r->request);
	else if (c->net->version == 9)
		result = t.v9->send(c->comm, from, bytes, 0, m, &r->request);
	else
		result = t.v7->send(c->comm, from, (int)bytes, 0, m, &r->request);
	return posted(c, r, bytes, false, result, request, e);
}

static int plugin_irecv(struct net_comm *comm, void *data, size_t bytes, struct net_memory *m,
	struct net_request **request, struct err *e)
{
	struct plugin_comm *c = (struct plugin_comm *)comm;
	union table t = c->net->table;
	struct net_request *r = request_free(c);
	void *memory = m, *profile = NULL;
	int tag = 0, narrow = (int)bytes, result;
	size_t wide = bytes;

	*request = NULL;
	if (!r)
		return 0;
	if (c->net->version >= 10)
		result =
			t.v10->recv(c->comm, 1, &data, &wide, &tag, &memory, &profile, &r->request);
	else if (c->net->version == 9)
		result = t.v9->recv(c->comm, 1, &data, &wide, &tag, &memory, &r->request);
	else
		result = t.v7->recv(c->comm, 1, &data, &narrow, &tag, &memory, &r->request);
	return posted(c, r, bytes, true, result, request, e);
}

static int plugin_iflush(struct net_comm *comm, void *data, size_t bytes, struct net_memory *m,
	struct net_request **request, struct err *e)
{
	struct plugin_comm *c = (struct plugin_comm *)comm;
	struct plugin_properties_v11 properties;
	void *memory = m;
	int narrow = (int)bytes, result;
	struct net_request *r;

	*request = NULL;
	if (!c->net->table.v7->flush || read_properties(c->net, 0, &properties) ||
		!properties.v9.force_flush)
		return 0;
	r = request_free(c);
	if (!r)
		return err_set(e, EAGAIN, "too many requests are outstanding");
	result = c->net->table.v7->flush(c->comm, 1, &data, &narrow, &memory, &r->request);
	return posted(c, r, 0, false, result, request, e);
}

static int plugin_test(
	struct net_comm *comm, struct net_request *r, bool *done, size_t *bytes, struct err *e)
{
	struct plugin_comm *c = (struct plugin_comm *)comm;
	struct plugin_net *p = c->net;
	int is_done = 0, length[8] = { -1 }, result;

	*done = false;
	result = p->table.v7->test(r->request, &is_done, length);
	if (result == PLUGIN_SYSTEM && !is_done && ++r->failures < TEST_FAILURES)
		return 0;
	if (result)
		return told(p, result, e, "test");
	r->failures = 0;
	if (!is_done)
		return 0;
	if (r->receives && length[0] >= 0 && (size_t)length[0] > r->bytes)
		return err_set(e, EPROTO,
			"plugin %s: it says it received %d bytes into room for %zu",
			p->table.v7->name, length[0], r->bytes);
	*done = true;
	p->done_ns = clock_ns();
	/* Plugins that unpack leave the length as it was, and some say 0. */
	if (r->receives && length[0] >= 0 && (length[0] || !c->unpack))
		r->bytes = (size_t)length[0];
	if (bytes)
		*bytes = r->bytes;
	if (r->receives && c->consumes)
		result = p->table.v7->consumed(c->comm, 1, r->request);
	/* What unpacks is not over before it has been. */
	if (!r->receives || c->consumes || !p->table.v7->consumed)
		r->request = NULL;
	return told(p, result, e, "irecvConsumed");
}

static int plugin_fragments(
	struct net_comm *comm, struct net_request *r, struct net_fragments *f, struct err *e)
{
	struct plugin_comm *c = (struct plugin_comm *)comm;

	*f = (struct net_fragments){ .kind = NET_HOST };
	return c->unpack ? plugin_unpack_list(c->unpack, r->number, r->bytes, f, e) : 0;
}

static int plugin_consumed(struct net_comm *comm, struct net_request *r, struct err *e)
{
	struct plugin_comm *c = (struct plugin_comm *)comm;
	void *request = r->request;

	if (!request)
		return 0;
	r->request = NULL;
	return told(c->net, c->net->table.v7->consumed(c->comm, 1, request), e, "irecvConsumed");
}

/* A plugin has nothing to wait on: its work is done in test(). While messages get done this does as
 * NCCL does and only gives way to the plugin's own threads; then it sleeps for a moment at a time. */
static void plugin_wait(struct net *n, int fd, uint64_t timeout_ns)
{
	bool active = clock_ns() - net_of(n)->done_ns < ACTIVE_NS;
	struct timespec rest = { .tv_nsec = (long)(timeout_ns < WAIT_NS ? timeout_ns : WAIT_NS) };
	struct pollfd other = { .fd = fd, .events = POLLIN };

	if (active)
		sched_yield();
	else
		ppoll(&other, 1, &rest, NULL);
}

static void plugin_close(struct net *n)
{
	struct plugin_net *p = net_of(n);

	if (!p)
		return;
	if (p->started && p->version == 11 && p->table.v11->finalize)
		p->table.v11->finalize(p->context);
	if (p->library)
		dlclose(p->library);
	free(p);
}

static int load(struct plugin_net *p, const char *file, struct err *e)
{
	char why[300];

	if (snprintf(p->file, sizeof(p->file), "%s", file) >= (int)sizeof(p->file))
		return err_set(e, ENAMETOOLONG, "the name of the plugin is too long");
	p->library = dlopen(p->file, RTLD_NOW | RTLD_LOCAL);
	if (p->library)
		return 0;
	snprintf(why, sizeof(why), "%s", dlerror());
	if (!strchr(file, '/')) {
		snprintf(p->file, sizeof(p->file), "libnccl-net-%.200s.so", file);
		p->library = dlopen(p->file, RTLD_NOW | RTLD_LOCAL);
		if (p->library)
			return 0;
	}
	text_one_line(why);
	err_set(e, ENOENT, "cannot load the plugin %s: %s", file, why);
	return err_hint(e, "give the path of the .so file, or set LD_LIBRARY_PATH");
}

static int choose(struct plugin_net *p, int version, struct err *e)
{
	for (int v = PLUGIN_NEWEST; v >= PLUGIN_OLDEST; v--) {
		char symbol[32];
		const void *table;

		snprintf(symbol, sizeof(symbol), PLUGIN_SYMBOL, v);
		table = dlsym(p->library, symbol);
		if (!table)
			continue;
		p->versions |= 1 << v;
		if (p->table.any || (version && v != version))
			continue;
		p->version = v;
		p->table.any = table;
	}
	if (p->table.any && p->table.v7->name)
		return 0;
	if (p->versions)
		return err_set(e, ENOEXEC, "the plugin %s has no version %d", p->file, version);
	err_set(e, ENOEXEC,
		"%s is no net plugin of NCCL that weir knows: it has none of ncclNetPlugin_v%d to v%d",
		p->file, PLUGIN_OLDEST, PLUGIN_NEWEST);
	return err_hint(e, "list what it has with: nm -D %s", p->file);
}

static int start(struct plugin_net *p, struct err *e)
{
	struct plugin_config config = { -1 };
	int result, ret;

	pthread_mutex_lock(&warning.lock);
	warning.text[0] = 0;
	pthread_mutex_unlock(&warning.lock);
	if (p->version == 11)
		result = p->table.v11->init(&p->context, 0, &config, take_log, ignore_profile);
	else if (p->version == 10)
		result = p->table.v10->init(take_log, ignore_profile);
	else
		result = p->table.v7->init(take_log);
	ret = told(p, result, e, "init");
	if (ret)
		return ret;
	p->started = true;
	ret = told(p, p->table.v7->devices(&p->base.devices), e, "devices");
	if (!ret && p->base.devices < 1)
		ret = err_set(e, ENODEV, "plugin %s finds no device", p->table.v7->name);
	return ret;
}

int net_plugin_open(struct net **opened, const char *file, int version, struct err *e)
{
	struct plugin_net *p = calloc(1, sizeof(*p));
	int ret;

	*opened = NULL;
	if (!p)
		return err_set(e, ENOMEM, "no memory for a plugin");
	ret = load(p, file, e);
	if (!ret)
		ret = choose(p, version, e);
	if (!ret)
		ret = start(p, e);
	if (ret) {
		plugin_close(&p->base);
		return ret;
	}
	p->ops = (struct net_ops){
		.name = p->table.v7->name,
		.close = plugin_close,
		.properties = plugin_properties,
		.listen = plugin_listen,
		.connect = plugin_connect,
		.accept = plugin_accept,
		.close_listener = plugin_close_listener,
		.close_comm = plugin_close_comm,
		.reg = plugin_reg,
		.reg_dmabuf = p->table.v7->reg_dmabuf ? plugin_reg_dmabuf : NULL,
		.dereg = plugin_dereg,
		.isend = plugin_isend,
		.irecv = plugin_irecv,
		.iflush = plugin_iflush,
		.test = plugin_test,
		.fragments = plugin_fragments,
		.consumed = p->table.v7->consumed ? plugin_consumed : NULL,
		.wait = plugin_wait,
	};
	p->base.ops = &p->ops;
	*opened = &p->base;
	return 0;
}

void net_plugin_info(const struct net *n, struct net_plugin_info *info)
{
	const struct plugin_net *p = (const struct plugin_net *)n;

	*info = (struct net_plugin_info){ p->file, p->table.v7->name, p->version, p->versions };
}
