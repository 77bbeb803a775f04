// SPDX-License-Identifier: BSD-3-Clause
#include "web/server.h"

#include <microhttpd.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define BACKLOG		 32
#define CONNECTION_BYTES 16384

struct web_listener {
	struct web_listener *next;
	struct MHD_Daemon *daemon;
	struct loop *loop;
	struct loop_fd io; /* the daemon's own epoll */
	struct loop_timer timeout;
};

struct web_server {
	struct loop *loop;
	const struct web_page *page;
	size_t pages;
	void *context;
	struct web_listener *listeners;
};

int web_server_new(struct web_server **out, struct loop *loop, const struct web_page *page,
	size_t pages, void *context, struct err *e)
{
	struct web_server *server = calloc(1, sizeof(*server));

	*out = server;
	if (!server)
		return err_set(e, ENOMEM, "cannot make a web server: %m");
	*server = (struct web_server){ loop, page, pages, context, NULL };
	return 0;
}

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned int status,
	const char *type, struct web_text *text)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(text->length, text->data, MHD_RESPMEM_MUST_FREE);
	enum MHD_Result ret;

	if (!response) {
		free(text->data);
		return MHD_NO; /* closes the connection */
	}
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	ret = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return ret;
}

static enum MHD_Result refuse(
	struct MHD_Connection *connection, unsigned int status, const char *words)
{
	struct web_text text = { 0 };

	web_text_format(&text, "%s\n", words);
	return answer(connection, status, "text/plain; charset=utf-8", &text);
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_bytes,
	void **request)
{
	static char begun;
	const struct web_server *server = context;
	struct web_text text = { 0 };

	(void)version;
	(void)upload;
	/* Called once when the headers are there, once for each piece of a body, which nobody wants. */
	if (!*request) {
		*request = &begun;
		return MHD_YES;
	}
	if (*upload_bytes) {
		*upload_bytes = 0;
		return MHD_YES;
	}
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET or HEAD only");
	for (size_t i = 0; i < server->pages; i++) {
		if (strcmp(server->page[i].path, url) != 0)
			continue;
		if (server->page[i].render(&text, server->context) || text.failed) {
			free(text.data);
			return refuse(connection, MHD_HTTP_INTERNAL_SERVER_ERROR,
				"the page could not be made");
		}
		return answer(connection, MHD_HTTP_OK, server->page[i].type, &text);
	}
	return refuse(connection, MHD_HTTP_NOT_FOUND, "no such page");
}

static void listener_expired(struct loop *l, struct loop_timer *timer);

static void listener_run(struct web_listener *listener)
{
	MHD_UNSIGNED_LONG_LONG ms;

	MHD_run(listener->daemon);
	if (MHD_get_timeout(listener->daemon, &ms) == MHD_YES)
		loop_timer_set(listener->loop, &listener->timeout, clock_ns() + ms * NS_PER_MS,
			listener_expired);
	else
		loop_timer_cancel(listener->loop, &listener->timeout);
}

static void listener_expired(struct loop *l, struct loop_timer *timer)
{
	(void)l;
	listener_run(container_of(timer, struct web_listener, timeout));
}

static void listener_ready(struct loop *l, struct loop_fd *io, uint32_t events)
{
	(void)l;
	(void)events;
	listener_run(container_of(io, struct web_listener, io));
}

static int listener_start(
	struct web_listener *listener, struct web_server *server, int fd, struct err *e)
{
	const union MHD_DaemonInfo *info;

	listener->loop = server->loop;
	listener->daemon = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, handle, server,
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned int)WEB_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned int)WEB_IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)CONNECTION_BYTES, MHD_OPTION_END);
	if (!listener->daemon) {
		close(fd);
		return err_set(e, EIO, "libmicrohttpd does not start");
	}
	info = MHD_get_daemon_info(listener->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info) {
		MHD_stop_daemon(listener->daemon);
		return err_set(e, ENOTSUP, "this libmicrohttpd has no epoll");
	}
	return loop_add(server->loop, &listener->io, info->epoll_fd, EPOLLIN, listener_ready, e);
}

int web_server_listen(
	struct web_server *server, const struct sock_addr *addr, bool insecure, struct err *e)
{
	struct sock_listen how = { .backlog = BACKLOG };
	char text[SOCK_ADDR_TEXT];
	struct web_listener *listener;
	struct sock_addr bound;
	int fd, ret;

	if (!insecure && !sock_addr_is_loopback(addr)) {
		err_set(e, EPERM, "will not serve pages on %s: whoever reaches it could read them",
			sock_addr_text(addr, true, text));
		return err_hint(e, "serve them on loopback, or say --insecure");
	}
	fd = sock_listen(addr, &how, e);
	if (fd < 0)
		return fd;
	listener = calloc(1, sizeof(*listener));
	if (!listener) {
		close(fd);
		return err_set(e, ENOMEM, "cannot listen: %m");
	}
	sock_local(fd, &bound);
	ret = listener_start(listener, server, fd, e);
	if (ret) {
		free(listener);
		return ret;
	}
	listener->next = server->listeners;
	server->listeners = listener;
	return sock_addr_port(&bound);
}

void web_server_free(struct web_server *server)
{
	if (!server)
		return;
	while (server->listeners) {
		struct web_listener *listener = server->listeners;

		server->listeners = listener->next;
		loop_timer_cancel(server->loop, &listener->timeout);
		loop_remove(server->loop, &listener->io);
		MHD_stop_daemon(listener->daemon);
		free(listener);
	}
	free(server);
}
