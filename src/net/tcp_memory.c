// SPDX-License-Identifier: BSD-3-Clause
/* Registered memory of a comm: of the host, of a GPU, and dma-bufs, which are duplicated: the caller may close its own
 * descriptor at once. A NIC that can sends from them by itself; else a dma-buf that the host can map is sent from where it
 * is, and that of a GPU goes through pinned memory as any memory of a GPU does. */
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "net/tcp_parts.h"

static struct net_memory *memory_new(void *data, size_t bytes, enum net_memory_kind kind)
{
	struct net_memory *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->data = data;
	m->bytes = bytes;
	m->kind = kind;
	m->dmabuf = -1;
	return m;
}

static void memory_drop(struct net_memory *m)
{
	tcp_binding_put(m);
	if (m->mapping)
		munmap(m->mapping, m->mapping_bytes);
	if (m->dmabuf >= 0)
		close(m->dmabuf);
	free(m);
}

static void memory_add(struct tcp_comm *c, struct net_memory *m)
{
	pthread_mutex_lock(&c->lock);
	m->next = c->memory;
	m->link = &c->memory;
	if (m->next)
		m->next->link = &m->next;
	c->memory = m;
	pthread_mutex_unlock(&c->lock);
}

void tcp_memory_free(struct tcp_comm *c)
{
	while (c->memory) {
		struct net_memory *m = c->memory;

		c->memory = m->next;
		memory_drop(m);
	}
}

static int prepare(struct tcp_comm *c, void *data, enum net_memory_kind kind, struct err *e)
{
	if (kind == NET_CUDA && c->pool && tcp_pool_memory(c->pool)->data)
		return err_set(
			e, EOPNOTSUPP, "what comes here goes to udmabuf memory, not to a GPU");
	if (kind == NET_CUDA && c->net->options.cuda)
		return tcp_stage_prepare(c, data, e);
	if (kind == NET_CUDA)
		return err_set(e, EOPNOTSUPP, "this transport was opened for host memory only");
	return 0;
}

int tcp_reg(struct net_comm *comm, void *data, size_t bytes, enum net_memory_kind kind,
	struct net_memory **registered, struct err *e)
{
	struct tcp_comm *c = (struct tcp_comm *)comm;
	struct net_memory *m;
	int ret;

	*registered = NULL;
	if (!data || !bytes)
		return err_set(e, EINVAL, "cannot register %zu bytes at %p", bytes, data);
	if (kind != NET_HOST && kind != NET_CUDA)
		return err_set(e, EOPNOTSUPP, "memory of kind %d has no address", (int)kind);
	ret = prepare(c, data, kind, e);
	if (ret)
		return ret;
	m = memory_new(data, bytes, kind);
	if (!m)
		return err_set(e, ENOMEM, "no memory for a registration");
	if (kind == NET_CUDA) {
		ret = tcp_binding_get(c, m, -1, 0, e);
		if (ret) {
			memory_drop(m);
			return ret;
		}
	}
	memory_add(c, m);
	*registered = m;
	return 0;
}

/* For machines whose caches do not see what a device writes. */
static int synchronize(const struct net_memory *m, uint64_t flags)
{
	struct dma_buf_sync sync = { .flags = flags | DMA_BUF_SYNC_RW };
	int ret;

	do
		ret = ioctl(m->dmabuf, DMA_BUF_IOCTL_SYNC, &sync);
	while (ret < 0 && (errno == EINTR || errno == EAGAIN));
	return ret < 0 ? -errno : 0;
}

char *tcp_memory_begin(struct net_memory *m, const char *data)
{
	synchronize(m, DMA_BUF_SYNC_START);
	return m->view + ((uintptr_t)data - (uintptr_t)m->data);
}

void tcp_memory_end(struct net_memory *m)
{
	synchronize(m, DMA_BUF_SYNC_END);
}

static int map(struct net_memory *m, uint64_t offset, struct err *e)
{
	uint64_t inside = offset % (uint64_t)sysconf(_SC_PAGESIZE);
	void *mapping;

	if (synchronize(m, DMA_BUF_SYNC_START) || synchronize(m, DMA_BUF_SYNC_END))
		return err_set(e, EINVAL, "the descriptor is no dma-buf");
	m->mapping_bytes = m->bytes + inside;
	mapping = mmap(NULL, m->mapping_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->dmabuf,
		(off_t)(offset - inside));
	if (mapping == MAP_FAILED) {
		err_set(e, errno, "the host cannot map %zu bytes at %llu of a dma-buf: %m",
			m->bytes, (unsigned long long)offset);
		return err_hint(e, "memory of a GPU is registered as such, with its address");
	}
	m->mapping = mapping;
	m->view = m->mapping + inside;
	return 0;
}

int tcp_reg_dmabuf(struct net_comm *comm, void *data, size_t bytes, enum net_memory_kind kind,
	uint64_t offset, int fd, struct net_memory **registered, struct err *e)
{
	struct tcp_comm *c = (struct tcp_comm *)comm;
	struct net_memory *m;
	int ret;

	*registered = NULL;
	if (!bytes || (kind == NET_CUDA && !data) || offset > INT64_MAX - bytes ||
		(uintptr_t)data > UINTPTR_MAX - bytes)
		return err_set(e, EINVAL, "cannot register %zu bytes at %llu of a dma-buf", bytes,
			(unsigned long long)offset);
	ret = prepare(c, data, kind, e);
	if (ret)
		return ret;
	m = memory_new(data, bytes, kind == NET_CUDA ? NET_CUDA : NET_HOST);
	if (!m)
		return err_set(e, ENOMEM, "no memory for a registration");
	m->dmabuf = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (m->dmabuf < 0)
		ret = err_set(e, errno, "cannot keep the descriptor of a dma-buf: %m");
	if (!ret && kind != NET_CUDA)
		ret = map(m, offset, e);
	if (!ret)
		ret = tcp_binding_get(c, m, m->dmabuf, offset, e);
	if (ret) {
		memory_drop(m);
		return ret;
	}
	memory_add(c, m);
	*registered = m;
	return 0;
}

int tcp_dereg(struct net_comm *comm, struct net_memory *m, struct err *e)
{
	struct tcp_comm *c = (struct tcp_comm *)comm;
	int users = atomic_load(&m->users);

	/* A comm that failed and came to rest touches nothing any more, tested or not. */
	if (users && !tcp_comm_failure(c, NULL))
		return err_set(e, EBUSY, "%d requests still use this memory", users);
	pthread_mutex_lock(&c->lock);
	*m->link = m->next;
	if (m->next)
		m->next->link = m->link;
	pthread_mutex_unlock(&c->lock);
	memory_drop(m);
	return 0;
}
