// SPDX-License-Identifier: BSD-3-Clause
/* Device memory and NICs: pools that receive queues put payload into, and registered memory that may be sent from.
 * A pool belongs to the process, because a NIC can be changed by one owner only: engines side by side whose memory is
 * in the same place share it. */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "net/steer.h"
#include "net/tcp_parts.h"
#include "sys/nic_bind.h"
#include "sys/nic_devmem.h"

struct tcp_pool {
	struct tcp_pool *next;
	char nic[IF_NAMESIZE];
	struct mem_where where;
	char gpu[32]; /* where's */
	int users;
	struct nic_plan plan;
	bool planned;
	struct cpus queues;
	int next_queue;
	struct region memory;
	struct nic_binding binding;
};

/* Of one dma-buf to one NIC, for all comms of the process that registered it. */
struct tcp_binding {
	struct tcp_binding *next;
	char nic[IF_NAMESIZE];
	dev_t filesystem; /* what tells dma-bufs apart */
	ino_t inode;
	void *data; /* or what was exported for it */
	size_t bytes;
	uint64_t offset; /* of data, in that */
	int users;
	struct nic_binding binding;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tcp_pool *pools;
static struct tcp_binding *bindings;

/* The first counts: what follows mostly follows from it. */
static void note_reason(struct tcp_device *d, const struct err *why)
{
	char *text = strdup(why->what), *none = NULL;

	if (text && !atomic_compare_exchange_strong(&d->reason, &none, text))
		free(text);
}

/* What failed is the end where there must be no other way, else it is said and bytes are staged. */
static int must(struct tcp_net *n, int dev, int ret, const struct err *why, struct err *e)
{
	if (n->options.path == NET_TCP_DEVMEM) {
		if (e)
			*e = *why;
		return ret;
	}
	note_reason(&n->device[dev], why);
	return 0;
}

int tcp_pool_wanted(struct tcp_net *n, int dev, bool *wanted, struct err *e)
{
	struct tcp_device *d = &n->device[dev];
	struct err why = { 0 };
	int ret = 0;

	*wanted = false;
	if (n->options.path == NET_TCP_STAGED || n->options.device.kind == MEM_HOST)
		return 0;
	pthread_mutex_lock(&n->lock);
	if (!d->asked || (!d->devmem && n->options.path == NET_TCP_DEVMEM)) {
		ret = nic_bind_probe(d->nic.name, &why);
		d->asked = true;
		/* Other refusals speak of settings, which are ours to make. */
		d->devmem = ret != -EOPNOTSUPP && ret != -EPERM && ret != -ENODEV;
	}
	*wanted = d->devmem;
	pthread_mutex_unlock(&n->lock);
	return *wanted || !ret ? 0 : must(n, dev, ret, &why, e);
}

static bool same_place(const struct mem_where *a, const struct mem_where *b)
{
	return a->kind == b->kind && !strcmp(a->gpu ? a->gpu : "", b->gpu ? b->gpu : "");
}

/* After its last user: memory is unbound before the NIC is put back, and freed when nobody writes to it. */
static void pool_close(struct tcp_pool *p)
{
	struct err e = { 0 };

	nic_unbind(&p->binding);
	region_free(&p->memory);
	if (p->planned && nic_plan_close(&p->plan, &e))
		log_error_err(&e);
	free(p);
}

static int pool_prepare(struct tcp_pool *p, const struct net_tcp_options *o, struct err *e)
{
	struct nic_devmem_want want = { 0 };
	int fd, ret;

	ret = steer_queues(&p->queues, p->nic, o->queues, e);
	if (!ret)
		ret = nic_plan_open(&p->plan, p->nic, false, e);
	if (ret)
		return ret;
	p->planned = true;
	want.queues = p->queues;
	ret = nic_devmem_plan(&p->plan, &want, e);
	if (!ret)
		ret = nic_plan_apply(&p->plan, e);
	if (!ret)
		ret = region_alloc_in(&p->memory, &p->where, o->pool_bytes, e);
	if (!ret)
		ret = region_dmabuf(&p->memory, &fd, e);
	if (!ret)
		ret = nic_bind_rx(&p->binding, p->nic, &p->queues, fd, e);
	return ret;
}

static int pool_open(struct tcp_net *n, int dev, struct tcp_pool **opened, struct err *e)
{
	struct tcp_pool *p = calloc(1, sizeof(*p));
	int ret;

	if (!p)
		return err_set(e, ENOMEM, "no memory for a pool");
	p->memory.memfd = p->memory.dmabuf = -1;
	p->users = 1;
	snprintf(p->nic, sizeof(p->nic), "%s", n->device[dev].nic.name);
	snprintf(p->gpu, sizeof(p->gpu), "%s", n->gpu);
	p->where = n->options.device;
	p->where.gpu = p->gpu;
	ret = pool_prepare(p, &n->options, e);
	if (ret) {
		pool_close(p);
		return ret;
	}
	p->next = pools;
	pools = p;
	*opened = p;
	return 0;
}

int tcp_pool_get(struct tcp_net *n, int dev, struct tcp_pool **pool, struct err *e)
{
	struct err why = { 0 };
	struct tcp_pool *p;
	bool wanted;
	int ret = tcp_pool_wanted(n, dev, &wanted, e);

	*pool = NULL;
	if (ret || !wanted)
		return ret;
	pthread_mutex_lock(&lock);
	for (p = pools; p; p = p->next)
		if (!strcmp(p->nic, n->device[dev].nic.name) &&
			same_place(&p->where, &n->options.device))
			break;
	if (p)
		p->users++;
	else
		ret = pool_open(n, dev, &p, &why);
	pthread_mutex_unlock(&lock);
	if (ret)
		return must(n, dev, ret, &why, e);
	*pool = p;
	return 0;
}

void tcp_pool_keep(struct tcp_pool *p)
{
	pthread_mutex_lock(&lock);
	p->users++;
	pthread_mutex_unlock(&lock);
}

void tcp_pool_put(struct tcp_pool *p)
{
	struct tcp_pool **link = &pools;

	if (!p)
		return;
	pthread_mutex_lock(&lock);
	if (!--p->users) {
		while (*link != p)
			link = &(*link)->next;
		*link = p->next;
		pool_close(p);
	}
	pthread_mutex_unlock(&lock);
}

int tcp_pool_steer(struct tcp_pool *p, const int *fd, int count, struct err *e)
{
	int ret = 0;

	pthread_mutex_lock(&lock);
	for (int i = 0; !ret && i < count; i++)
		ret = steer_socket(&p->plan, fd[i],
			cpus_nth(&p->queues, p->next_queue++ % p->queues.count), e);
	if (!ret)
		ret = nic_plan_apply(&p->plan, e);
	pthread_mutex_unlock(&lock);
	return ret;
}

struct region *tcp_pool_memory(struct tcp_pool *p)
{
	return &p->memory;
}

uint32_t tcp_pool_id(const struct tcp_pool *p)
{
	return p->binding.id;
}

static int binding_open(
	struct tcp_binding **opened, const struct tcp_binding *key, int fd, struct err *e)
{
	struct tcp_binding *b = calloc(1, sizeof(*b));
	int ret;

	if (!b)
		return err_set(e, ENOMEM, "no memory for a binding");
	*b = *key;
	ret = nic_bind_tx(&b->binding, b->nic, fd, e);
	if (ret) {
		free(b);
		return ret;
	}
	b->users = 1;
	b->next = bindings;
	bindings = b;
	*opened = b;
	return 0;
}

static bool same_memory(const struct tcp_binding *a, const struct tcp_binding *b)
{
	return !strcmp(a->nic, b->nic) && a->filesystem == b->filesystem && a->inode == b->inode &&
	       a->data == b->data && a->bytes == b->bytes;
}

/* Below the lock. Memory of a GPU is exported for as long as it takes to bind it. */
static int binding_find(struct tcp_binding **found, struct tcp_binding *key, int fd, struct err *e)
{
	int own = -1, ret = 0;

	for (*found = bindings; *found; *found = (*found)->next)
		if (same_memory(*found, key)) {
			(*found)->users++;
			return 0;
		}
	if (fd < 0)
		ret = cuda_export(key->data, key->bytes, &own, &key->offset, e);
	if (!ret)
		ret = binding_open(found, key, fd < 0 ? own : fd, e);
	if (own >= 0)
		close(own);
	return ret;
}

int tcp_binding_get(
	struct tcp_comm *c, struct net_memory *m, int fd, uint64_t offset, struct err *e)
{
	struct tcp_net *n = c->net;
	struct tcp_binding key = { .users = 0 }, *b;
	struct err why = { 0 };
	struct stat what;
	int ret;

	if (!c->sends || !c->lane[0].flying)
		return 0;
	snprintf(key.nic, sizeof(key.nic), "%s", n->device[c->dev].nic.name);
	if (fd < 0) {
		key.data = m->data;
		key.bytes = m->bytes;
	} else {
		if (fstat(fd, &what))
			return err_set(e, errno, "cannot tell one dma-buf from another: %m");
		key.filesystem = what.st_dev;
		key.inode = what.st_ino;
	}
	pthread_mutex_lock(&lock);
	ret = binding_find(&b, &key, fd, &why);
	pthread_mutex_unlock(&lock);
	if (ret)
		return must(n, c->dev, ret, &why, e);
	m->binding = b;
	m->binding_offset = fd < 0 ? b->offset : offset;
	atomic_store(&c->binds, true);
	return 0;
}

void tcp_binding_put(struct net_memory *m)
{
	struct tcp_binding **link = &bindings, *b = m->binding;

	if (!b)
		return;
	m->binding = NULL;
	pthread_mutex_lock(&lock);
	if (!--b->users) {
		while (*link != b)
			link = &(*link)->next;
		*link = b->next;
		nic_unbind(&b->binding);
		free(b);
	}
	pthread_mutex_unlock(&lock);
}

uint32_t tcp_binding_id(const struct net_memory *m)
{
	return m->binding->binding.id;
}
