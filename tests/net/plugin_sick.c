// SPDX-License-Identifier: BSD-3-Clause
/* A plugin that does not start, and says why. */
#include "net/plugin_abi.h"

static int init(plugin_log_fn *log)
{
	log(PLUGIN_WARN, 0, "sick", 1, "there is no daemon at %d", 42);
	return PLUGIN_SYSTEM;
}

extern const struct plugin_v8 ncclNetPlugin_v8;
__attribute__((visibility("default"))) const struct plugin_v8 ncclNetPlugin_v8 = {
	.name = "sick",
	.init = init,
};
