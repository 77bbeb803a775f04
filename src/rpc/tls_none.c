// SPDX-License-Identifier: BSD-3-Clause
/* Built without OpenSSL: nothing is encrypted, and whoever asks for it is told. */
#include "rpc/tls.h"
#include "rpc/tls_conn.h"

static int built_without(struct err *e)
{
	return err_set(e, ENOTSUP, "this weir was built without TLS");
}

int rpc_tls_new(struct rpc_tls **out, const struct rpc_tls_files *files, struct err *e)
{
	(void)files;
	*out = NULL;
	built_without(e);
	return err_hint(e, "build it with OpenSSL: meson configure -Dtls=enabled");
}

void rpc_tls_free(struct rpc_tls *tls)
{
	(void)tls;
}

int rpc_tls_conn_new(struct rpc_tls_conn **out, struct rpc_tls *tls, int fd, const char *name,
	const struct sock_addr *addr, struct err *e)
{
	(void)tls;
	(void)fd;
	(void)name;
	(void)addr;
	*out = NULL;
	return built_without(e);
}

void rpc_tls_conn_free(struct rpc_tls_conn *conn)
{
	(void)conn;
}

int rpc_tls_conn_handshake(struct rpc_tls_conn *conn, struct err *e)
{
	(void)conn;
	return built_without(e);
}

ssize_t rpc_tls_conn_read(struct rpc_tls_conn *conn, void *data, size_t room, struct err *e)
{
	(void)conn;
	(void)data;
	(void)room;
	return built_without(e);
}

ssize_t rpc_tls_conn_write(
	struct rpc_tls_conn *conn, const void *data, size_t length, struct err *e)
{
	(void)conn;
	(void)data;
	(void)length;
	return built_without(e);
}

void rpc_tls_conn_bye(struct rpc_tls_conn *conn)
{
	(void)conn;
}

uint32_t rpc_tls_conn_wants(const struct rpc_tls_conn *conn)
{
	(void)conn;
	return 0;
}
