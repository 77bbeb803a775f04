// SPDX-License-Identifier: BSD-3-Clause
/* A call that is waited for. */
#include <errno.h>
#include <stdlib.h>

#include "rpc/client.h"

struct waiting {
	struct loop *loop;
	const struct rpc_request *request;
	struct err *e;
	int ret;
};

static int errno_of(enum rpc_code code)
{
	switch (code) {
	case RPC_OK:
		return 0;
	case RPC_DEADLINE_EXCEEDED:
		return ETIMEDOUT;
	case RPC_UNAVAILABLE:
		return EHOSTUNREACH;
	case RPC_UNIMPLEMENTED:
		return ENOSYS;
	case RPC_PERMISSION_DENIED:
	case RPC_UNAUTHENTICATED:
		return EACCES;
	case RPC_INVALID_ARGUMENT:
		return EINVAL;
	default:
		return EREMOTEIO;
	}
}

static void waited(void *context, const struct rpc_reply *reply)
{
	struct waiting *w = context;

	w->ret = -errno_of(reply->code);
	if (w->ret)
		err_set(w->e, -w->ret, "%s: %s%s%s", w->request->method, rpc_code_name(reply->code),
			reply->words[0] ? ": " : "", reply->words);
	if (w->request->done)
		w->request->done(w->request->context, reply);
	loop_stop(w->loop);
}

int rpc_call_wait(const struct sock_addr *to, const struct rpc_client_options *options,
	const struct rpc_request *request, struct err *e)
{
	struct rpc_request mine = *request;
	struct rpc_client *client;
	struct waiting w = { .request = request, .e = e };
	int ret;

	w.loop = malloc(sizeof(*w.loop)); /* its batch is too large for a stack */
	if (!w.loop)
		return err_set(e, ENOMEM, "cannot make a call: %m");
	ret = loop_init(w.loop, NULL, e);
	if (ret)
		goto free_loop;
	ret = rpc_client_new(&client, w.loop, to, options, e);
	if (ret)
		goto close_loop;
	mine.done = waited;
	mine.context = &w;
	ret = rpc_client_call(client, &mine, NULL, e);
	if (!ret)
		ret = loop_run(w.loop, e);
	if (!ret)
		ret = w.ret;
	rpc_client_free(client);
close_loop:
	loop_close(w.loop);
free_loop:
	free(w.loop);
	return ret;
}
