/* SPDX-License-Identifier: BSD-3-Clause */
/* An HTTP/1.1 server of pages that are made when they are asked for.
 *
 *	static int metrics_page(struct web_text *text, void *context)
 *	{
 *		struct metrics m = { .text = text };
 *		...
 *		return 0;
 *	}
 *	static const struct web_page pages[] = {
 *		{ "/metrics", METRICS_TYPE, metrics_page },
 *	};
 *
 *	web_server_new(&server, &loop, pages, 1, agent, e);
 *	web_server_listen(server, &addr, false, e);
 *
 * Everything happens in the loop's thread: a page may read what its owner writes without a lock. GET and
 * HEAD only. At most WEB_CONNECTIONS at once, WEB_IDLE_S of silence each. Without libmicrohttpd
 * web_server_new() fails with -ENOTSUP and says so.
 */
#ifndef WEIR_WEB_SERVER_H
#define WEIR_WEB_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/loop.h"
#include "net/sock.h"
#include "web/text.h"

#define WEB_CONNECTIONS 64
#define WEB_IDLE_S	30

struct web_server;

struct web_page {
	const char *path; /* "/metrics" */
	const char *type; /* "text/html; charset=utf-8" */
	/* Write the page. Not 0: the answer is 500 and nothing of it. */
	int (*render)(struct web_text *text, void *context);
};

/* The pages are kept, not copied. */
int web_server_new(struct web_server **out, struct loop *loop, const struct web_page *page,
	size_t pages, void *context, struct err *e);

/* Listen on one more address. One that is not loopback's is refused with -EPERM unless insecure: what is
 * served is neither encrypted nor asks who reads it. Returns the port or -errno. */
int web_server_listen(
	struct web_server *server, const struct sock_addr *addr, bool insecure, struct err *e);

/* Close everything now. Not from within a page. */
void web_server_free(struct web_server *server);

#endif
