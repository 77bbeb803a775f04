// SPDX-License-Identifier: BSD-3-Clause
/* The transports of engines: weir's own, one for each engine; a plugin, which keeps state for the whole process,
 * once for all that use it. */
#include <errno.h>
#include <net/if.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/plugin.h"
#include "net/tcp.h"
#include "xfer/engine.h"

struct shared {
	struct shared *next;
	struct net *net;
	unsigned int users;
	int version;
	char file[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shared *plugins;

/* As the transport wants it: "=eth1,eth2", exactly these; all of them where none is named, loopback too. */
static int interface_list(const char *names, char *list, size_t size, struct err *e)
{
	struct if_nameindex *all;
	size_t at;

	if (names) {
		snprintf(list, size, "=%s", names);
		return 0;
	}
	all = if_nameindex();
	if (!all)
		return err_set(e, errno, "cannot list the network interfaces: %m");
	at = (size_t)snprintf(list, size, "=");
	for (struct if_nameindex *i = all; i->if_index && at < size; i++)
		at += (size_t)snprintf(
			list + at, size - at, "%s%s", i == all ? "" : ",", i->if_name);
	if_freenameindex(all);
	return 0;
}

static int open_tcp(struct net **net, const struct weir_p2p_config *c, struct err *e)
{
	static const enum net_tcp_path paths[] = { [WEIR_P2P_PATH_AUTO] = NET_TCP_AUTO,
		[WEIR_P2P_PATH_DEVMEM] = NET_TCP_DEVMEM,
		[WEIR_P2P_PATH_STAGED] = NET_TCP_STAGED };
	char list[IF_NAMESIZE * 64];
	struct net_tcp_options o = { .interfaces = list,
		.connections = (int)c->sockets,
		.timeout_ns = c->peer_timeout_ns,
		.cuda = c->gpu >= 0,
		.path = paths[c->path],
		.queues = c->queues,
		.pool_bytes = c->pool_bytes };
	char gpu[16];
	int ret = interface_list(c->devices, list, sizeof(list), e);

	snprintf(gpu, sizeof(gpu), "%d", c->gpu);
	if (c->flags & WEIR_P2P_UDMABUF)
		o.device.kind = MEM_UDMABUF;
	else if (c->gpu >= 0)
		o.device = (struct mem_where){ .kind = MEM_CUDA, .gpu = gpu };
	return ret ? ret : net_tcp_open(net, &o, e);
}

static int open_plugin(struct net **net, const char *file, int version, struct err *e)
{
	struct shared *s;
	int ret;

	for (s = plugins; s; s = s->next) {
		if (strcmp(s->file, file) != 0 || s->version != version)
			continue;
		s->users++;
		*net = s->net;
		return 0;
	}
	s = calloc(1, sizeof(*s) + strlen(file) + 1);
	if (!s)
		return err_set(e, ENOMEM, "no memory for a plugin");
	ret = net_plugin_open(&s->net, file, version, e);
	if (ret) {
		free(s);
		return ret;
	}
	strcpy(s->file, file);
	s->version = version;
	s->users = 1;
	s->next = plugins;
	plugins = s;
	*net = s->net;
	return 0;
}

int transport_get(struct net **net, const struct weir_p2p_config *config, struct err *e)
{
	int ret;

	if (!config->plugin)
		return open_tcp(net, config, e);
	pthread_mutex_lock(&lock);
	ret = open_plugin(net, config->plugin, config->plugin_version, e);
	pthread_mutex_unlock(&lock);
	return ret;
}

void transport_put(struct net *net)
{
	struct shared **at, *s;

	pthread_mutex_lock(&lock);
	for (at = &plugins; *at && (*at)->net != net;)
		at = &(*at)->next;
	s = *at;
	if (s && --s->users) {
		pthread_mutex_unlock(&lock);
		return;
	}
	if (s) {
		*at = s->next;
		free(s);
	}
	net->ops->close(net);
	pthread_mutex_unlock(&lock);
}
