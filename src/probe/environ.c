// SPDX-License-Identifier: BSD-3-Clause
/* The environment of the published prober. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "probe/agent.h"
#include "probe/wire.h"

void agent_options_init(struct agent_options *o)
{
	*o = (struct agent_options){ .port = 8080,
		.max_qps = 5,
		.payload_bytes = 1,
		.results_prefix = "tcpxo_probe_results",
		.rotation_ns = 3600 * NS_PER_S,
		.flush_ns = 5 * NS_PER_S };
}

static int read_number(const char *name, int64_t *value, int64_t low, int64_t high, struct err *e)
{
	const char *text = getenv(name);
	char *end;
	int64_t v;

	if (!text || !text[0]) {
		log_info("%s is not set: %" PRId64, name, *value);
		return 0;
	}
	errno = 0;
	v = strtoll(text, &end, 10);
	if (errno || *end || v < low || v > high)
		return err_set(e, EINVAL, "%s is \"%s\": it must be %" PRId64 " to %" PRId64, name,
			text, low, high);
	*value = v;
	return 0;
}

static const char *read_text(const char *name, const char *initial)
{
	const char *text = getenv(name);

	if (text && text[0])
		return text;
	log_info("%s is not set: %s", name, initial);
	return initial;
}

static int read_seconds(const char *name, uint64_t *ns, int64_t low, struct err *e)
{
	int64_t seconds = (int64_t)(*ns / NS_PER_S);
	int ret = read_number(name, &seconds, low, (int64_t)366 * 86400, e);

	*ns = (uint64_t)seconds * NS_PER_S;
	return ret;
}

static size_t count_words(const char *list)
{
	size_t count = 1;

	for (; *list; list++)
		count += *list == ',';
	return count;
}

int agent_options_environ(struct agent_options *o, struct err *e)
{
	const char *llcm = getenv("TCPXO_PROBER_ENABLE_LLCM");
	int64_t payload = (int64_t)o->payload_bytes;
	int ret;

	o->nics = getenv("TCPXO_PROBER_GPU_NIC_IPS");
	if (!o->nics || !o->nics[0]) {
		err_set(e, EINVAL, "TCPXO_PROBER_GPU_NIC_IPS is not set");
		return err_hint(e, "set it to the addresses of the GPU NICs, commas between them");
	}
	if (count_words(o->nics) != 8)
		log_warn("TCPXO_PROBER_GPU_NIC_IPS has %zu addresses, not 8", count_words(o->nics));
	ret = read_number("TCPXO_PROBER_SERVER_PORT", &o->port, 1, 65535, e);
	if (!ret)
		ret = read_number("TCPXO_PROBER_MAX_QPS_LIMIT", &o->max_qps, 0, INT32_MAX, e);
	if (!ret)
		ret = read_number("TCPXO_PROBER_MAX_CONNECTIONS_PER_NIC_LIMIT",
			&o->connections_per_nic, 0, INT32_MAX, e);
	if (!ret)
		ret = read_number("TCPXO_PROBER_PAYLOAD_SIZE", &payload, 1, PROBE_PAYLOAD_MAX, e);
	if (!ret)
		ret = read_seconds(
			"TCPXO_PROBER_FILE_ROTATION_INTERVAL_IN_SECONDS", &o->rotation_ns, 0, e);
	if (!ret)
		ret = read_seconds("TCPXO_PROBER_OUTPUT_INTERVAL_IN_SECONDS", &o->flush_ns, 1, e);
	o->payload_bytes = (uint64_t)payload;
	o->results_prefix = read_text("TCPXO_PROBER_OUTPUT_FILE_PREFIX", "tcpxo_probe_results");
	o->results_dir = read_text("TCPXO_PROBER_OUTPUT_FILES_PATH", "/tmp");
	if (llcm)
		log_info("TCPXO_PROBER_ENABLE_LLCM=%s has no effect: probes go over TCP", llcm);
	o->insecure = true;
	return ret;
}
