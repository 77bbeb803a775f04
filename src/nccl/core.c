// SPDX-License-Identifier: BSD-3-Clause
#include "nccl/core.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/tcp.h"

#define REQUESTS 64
#define CHANNELS "8"
#define STALL_S	 1800

struct core_request {
	struct core_comm *comm;
	struct net_request *request; /* NULL: free */
};

struct core_comm {
	struct net_comm *comm;
	unsigned int next;
	struct core_request request[REQUESTS];
};

static struct {
	pthread_mutex_t lock;
	struct net *net;
	int users;
	plugin_log_fn *log;
} core = { .lock = PTHREAD_MUTEX_INITIALIZER };

#define core_log(level, ...)                                                                       \
	do {                                                                                       \
		if (core.log)                                                                      \
			core.log(level, PLUGIN_TOPIC_INIT | PLUGIN_TOPIC_NET, __func__, __LINE__,  \
				__VA_ARGS__);                                                      \
	} while (0)

static int result_of(int ret)
{
	switch (-ret) {
	case 0:
		return PLUGIN_OK;
	case EPIPE:
	case ECONNRESET:
	case ECONNREFUSED:
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case ENETUNREACH:
		return PLUGIN_REMOTE;
	case EMSGSIZE:
		return PLUGIN_USAGE;
	case EINVAL:
	case EFAULT:
	case EOPNOTSUPP:
		return PLUGIN_ARGUMENT;
	default:
		return PLUGIN_SYSTEM;
	}
}

static int told(int ret, const struct err *e, const char *what)
{
	if (ret)
		core_log(PLUGIN_WARN, "NET/weir: %s: %s%s%s", what, e->what, e->hint[0] ? "; " : "",
			e->hint);
	return result_of(ret);
}

static int number_of(const char *name, int low, int high, int fallback)
{
	const char *text = getenv(name);
	char *end;
	long value;

	if (!text || !*text)
		return fallback;
	value = strtol(text, &end, 10);
	if (*end || value < low || value > high) {
		core_log(PLUGIN_WARN, "NET/weir: %s=%s is ignored: it must be %d to %d", name, text,
			low, high);
		return fallback;
	}
	return (int)value;
}

/* NCCL's kernel runs until our copies have come. Streams share the few queues that a process has to its
 * GPU, and a copy behind that kernel in one of them never runs: so there must be enough of them. */
static bool wants_cuda(void)
{
	if (!number_of("WEIR_CUDA", 0, 1, 0))
		return false;
	if (number_of("CUDA_DEVICE_MAX_CONNECTIONS", 1, 32, 8) == 32)
		return true;
	core_log(PLUGIN_WARN,
		"NET/weir: WEIR_CUDA is ignored: it needs CUDA_DEVICE_MAX_CONNECTIONS=32, or copies "
		"can wait for the kernel that waits for them");
	return false;
}

/* Memory of a GPU by the NIC itself: only where it is asked for, because it changes the NIC, and one process has it. */
static void want_path(struct net_tcp_options *o, char gpu[16])
{
	const char *text = getenv("WEIR_PATH");

	if (!text || !*text || !strcmp(text, "staged"))
		return;
	if (!o->cuda || (strcmp(text, "auto") != 0 && strcmp(text, "devmem") != 0)) {
		core_log(PLUGIN_WARN, "NET/weir: WEIR_PATH=%s is ignored: %s", text,
			o->cuda ? "it must be staged, auto or devmem" : "it needs WEIR_CUDA=1");
		return;
	}
	snprintf(gpu, 16, "%d", number_of("WEIR_GPU", 0, 1000, 0));
	o->path = !strcmp(text, "devmem") ? NET_TCP_DEVMEM : NET_TCP_AUTO;
	o->device = (struct mem_where){ .kind = MEM_CUDA, .gpu = gpu };
	o->queues = getenv("WEIR_QUEUES");
}

/* NCCL opens few channels where it believes a network to be slow, and one channel keeps at most eight
 * steps of 512 KiB under way: over TCP that is not enough. Its user's word comes first. The environment is
 * changed once in the life of the process, when NCCL loads the plugin, below the lock: other threads should not
 * look at theirs meanwhile, and who cannot promise that sets one of these words. */
static void want_channels(void)
{
	static const char *const words[] = { "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS",
		"NCCL_MIN_CTAS", "NCCL_MAX_CTAS" };
	static bool asked;

	if (asked)
		return;
	asked = true;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (getenv(words[i]))
			return;
	setenv("NCCL_MIN_NCHANNELS", CHANNELS, 0);
	core_log(PLUGIN_INFO, "NET/weir: NCCL_MIN_NCHANNELS set to " CHANNELS);
}

static int open_net(struct err *e)
{
	struct net_tcp_options o = { .interfaces = getenv("WEIR_IFNAME") };
	struct net_properties p;
	char gpu[16];
	int ret;

	if (!o.interfaces || !*o.interfaces)
		o.interfaces = getenv("NCCL_SOCKET_IFNAME");
	o.connections = number_of("WEIR_CONNECTIONS", 1, 16, 0);
	o.threads = number_of("WEIR_THREADS", 1, 256, 0);
	o.timeout_ns = (uint64_t)number_of("WEIR_TIMEOUT", 1, 86400, 0) * 1000000000u;
	o.cuda = wants_cuda();
	want_path(&o, gpu);
	/* A rank may wait for another that computes; one that is stopped must not hold the rest for ever. */
	o.stall_ns = (uint64_t)number_of("WEIR_STALL_TIMEOUT", 0, 86400 * 7, STALL_S) * 1000000000u;
	ret = net_tcp_open(&core.net, &o, e);
	if (!ret && core.net->ignored)
		core_log(PLUGIN_WARN, "NET/weir: up, but without a link, and not used: %s",
			core.net->ignored);
	for (int i = 0; !ret && i < core.net->devices; i++)
		if (!core.net->ops->properties(core.net, i, &p, NULL))
			core_log(PLUGIN_INFO,
				"NET/weir: weir " WEIR_VERSION " uses %s, %d Mbit/s%s", p.name,
				p.speed_mbps,
				p.memory & NET_DMABUF ? ", which reaches GPU memory by itself"
						      : "");
	return ret;
}

int core_init(plugin_log_fn *log)
{
	struct err e = { 0 };
	int ret = 0;

	pthread_mutex_lock(&core.lock);
	core.log = log;
	if (!core.net) {
		want_channels();
		ret = open_net(&e);
	}
	if (!ret)
		core.users++;
	pthread_mutex_unlock(&core.lock);
	return told(ret, &e, "cannot start");
}

int core_finalize(void)
{
	pthread_mutex_lock(&core.lock);
	if (core.users && !--core.users) {
		core.net->ops->close(core.net);
		core.net = NULL;
	}
	pthread_mutex_unlock(&core.lock);
	return PLUGIN_OK;
}

/* The versions before 11 have no finalize: the library goes when NCCL needs it no more, and no comm is
 * left then, so no thread is either. */
__attribute__((destructor)) static void core_unload(void)
{
	if (core.net)
		core.net->ops->close(core.net);
	core.net = NULL;
}

int core_devices(int *count)
{
	*count = core.net ? core.net->devices : 0;
	return core.net ? PLUGIN_OK : PLUGIN_INTERNAL;
}

int core_properties(int dev, struct net_properties *p)
{
	struct err e = { 0 };
	int ret = core.net->ops->properties(core.net, dev, p, &e);

	return told(ret, &e, "properties");
}

int core_listen(int dev, void *handle, void **listener)
{
	struct net_listener *l;
	struct err e = { 0 };
	int ret = core.net->ops->listen(core.net, dev, handle, &l, &e);

	*listener = l;
	return told(ret, &e, "listen");
}

static int comm_wrap(struct net_comm *c, void **comm)
{
	struct core_comm *k = calloc(1, sizeof(*k));

	if (!k) {
		core.net->ops->close_comm(c);
		return PLUGIN_SYSTEM;
	}
	k->comm = c;
	for (int i = 0; i < REQUESTS; i++)
		k->request[i].comm = k;
	*comm = k;
	return PLUGIN_OK;
}

int core_connect(int dev, void *handle, void **comm)
{
	struct net_comm *c;
	struct err e = { 0 };
	int ret = core.net->ops->connect(core.net, dev, handle, &c, &e);

	*comm = NULL;
	return ret || !c ? told(ret, &e, "connect") : comm_wrap(c, comm);
}

int core_accept(void *listener, void **comm)
{
	struct net_comm *c;
	struct err e = { 0 };
	int ret = core.net->ops->accept(listener, &c, &e);

	*comm = NULL;
	return ret || !c ? told(ret, &e, "accept") : comm_wrap(c, comm);
}

int core_close_listener(void *listener)
{
	core.net->ops->close_listener(listener);
	return PLUGIN_OK;
}

int core_close(void *comm)
{
	struct core_comm *k = comm;

	if (!k)
		return PLUGIN_OK;
	core.net->ops->close_comm(k->comm);
	free(k);
	return PLUGIN_OK;
}

int core_reg(void *comm, void *data, size_t bytes, int kind, void **memory)
{
	struct core_comm *k = comm;
	struct net_memory *m;
	struct err e = { 0 };
	int ret = core.net->ops->reg(k->comm, data, bytes, (enum net_memory_kind)kind, &m, &e);

	*memory = m;
	return told(ret, &e, "register");
}

int core_reg_dmabuf(
	void *comm, void *data, size_t bytes, int kind, uint64_t offset, int fd, void **memory)
{
	struct core_comm *k = comm;
	struct net_memory *m;
	struct err e = { 0 };
	int ret = core.net->ops->reg_dmabuf(
		k->comm, data, bytes, (enum net_memory_kind)kind, offset, fd, &m, &e);

	*memory = m;
	return told(ret, &e, "register a dma-buf");
}

/* NCCL takes the memory back when it aborts a communicator, whatever is under way: then the comm ends
 * here, so that nobody writes to memory that is not ours any more. */
int core_dereg(void *comm, void *memory)
{
	struct core_comm *k = comm;
	struct err e = { 0 };
	int ret;

	if (!memory)
		return PLUGIN_OK;
	ret = core.net->ops->dereg(k->comm, memory, &e);
	if (ret == -EBUSY) {
		net_tcp_abort(k->comm);
		ret = core.net->ops->dereg(k->comm, memory, &e);
	}
	return told(ret, &e, "deregister");
}

static struct core_request *request_free(struct core_comm *k)
{
	for (int i = 0; i < REQUESTS; i++) {
		struct core_request *r = &k->request[k->next++ % REQUESTS];

		if (!r->request)
			return r;
	}
	return NULL;
}

int core_send(void *comm, void *data, size_t bytes, void *memory, void **request)
{
	struct core_comm *k = comm;
	struct core_request *r = request_free(k);
	struct err e = { 0 };
	int ret;

	*request = NULL;
	if (!r)
		return PLUGIN_OK;
	ret = core.net->ops->isend(k->comm, data, bytes, memory, &r->request, &e);
	if (r->request)
		*request = r;
	return told(ret, &e, "send");
}

int core_recv(void *comm, int count, void *data, size_t bytes, void *memory, void **request)
{
	struct core_comm *k = comm;
	struct core_request *r = request_free(k);
	struct err e = { 0 };
	int ret;

	*request = NULL;
	if (count != 1)
		return PLUGIN_INTERNAL;
	if (!r)
		return PLUGIN_OK;
	ret = core.net->ops->irecv(k->comm, data, bytes, memory, &r->request, &e);
	if (r->request)
		*request = r;
	return told(ret, &e, "receive");
}

int core_flush(void **request)
{
	*request = NULL; /* a receive is done only when its data is where it belongs */
	return PLUGIN_OK;
}

int core_test(void *request, int *done, int *bytes)
{
	struct core_request *r = request;
	bool is_done = false;
	size_t length = 0;
	struct err e;
	int ret;

	e.hint[0] = e.what[0] = 0;
	ret = core.net->ops->test(r->comm->comm, r->request, &is_done, &length, &e);
	*done = is_done;
	if (is_done) {
		r->request = NULL;
		if (bytes)
			*bytes = (int)length;
	}
	return told(ret, &e, "test");
}
