// SPDX-License-Identifier: BSD-3-Clause
/* Built without libmicrohttpd: there are no pages, and whoever asks for them is told. */
#include "web/server.h"

int web_server_new(struct web_server **out, struct loop *loop, const struct web_page *page,
	size_t pages, void *context, struct err *e)
{
	(void)loop;
	(void)page;
	(void)pages;
	(void)context;
	*out = NULL;
	err_set(e, ENOTSUP, "this weir was built without a web server");
	return err_hint(e, "build it with libmicrohttpd: meson configure -Dweb=enabled");
}

int web_server_listen(
	struct web_server *server, const struct sock_addr *addr, bool insecure, struct err *e)
{
	(void)server;
	(void)addr;
	(void)insecure;
	return err_set(e, ENOTSUP, "this weir was built without a web server");
}

void web_server_free(struct web_server *server)
{
	(void)server;
}
