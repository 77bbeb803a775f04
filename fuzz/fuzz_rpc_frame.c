/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of a gRPC stream, cut anywhere, and what they unpack to. */
#include <errno.h>

#include "fuzz.h"
#include "rpc/frame.h"
#include "rpc/proto/agent.pb-c.h"
#include "rpc/proto/prober.pb-c.h"
#include "rpc/proto/reflection.pb-c.h"
#include "rpc/proto/status.pb-c.h"

#define LIMIT 4096
#define HELD  6000

static void try_unpack(const uint8_t *body, size_t length)
{
	static const ProtobufCMessageDescriptor *const types[] = {
		&dxs__prober__start_pings_request__descriptor,
		&dxs__prober__set_up_request__descriptor,
		&dxs__prober__tear_down_request__descriptor,
		&grpc__reflection__v1__server_reflection_request__descriptor,
		&weir__v1__pinglist__descriptor,
		&weir__v1__report__descriptor,
		&google__rpc__status__descriptor,
	};
	struct rpc_arena arena;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		const ProtobufCMessage *m = rpc_unpack(&arena, LIMIT, types[i], body, length);

		MUST(arena.bytes <= RPC_ARENA_LEAST || arena.bytes <= LIMIT * RPC_ARENA_RATIO);
		MUST(!m || protobuf_c_message_get_packed_size(m) < SIZE_MAX);
		rpc_arena_free(&arena);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rpc_budget budget = { .limit = HELD };
	struct rpc_frame_reader in = { .budget = &budget, .limit = LIMIT };
	size_t cut, used, whole = 0;
	int ret = 0;

	if (!size)
		return 0;
	cut = *data++ + 1u;
	size--;
	while (size && ret >= 0) {
		size_t n = size < cut ? size : cut;

		ret = rpc_frame_feed(&in, data, n, &used);
		MUST(ret == 0 || ret == 1 || ret == -EMSGSIZE || ret == -EPROTO ||
			ret == -EOPNOTSUPP || ret == -ENOBUFS);
		MUST(ret != 0 || used == n);
		MUST(ret < 0 || used <= n);
		MUST(budget.used <= HELD && in.have <= in.room);
		if (ret == 1) {
			MUST(in.have == in.length && in.length <= LIMIT);
			try_unpack(in.body, in.length);
			rpc_frame_reset(&in);
			whole++;
		}
		data += used;
		size -= used;
	}
	rpc_frame_reset(&in);
	MUST(!budget.used);
	return 0;
}
