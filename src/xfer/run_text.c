// SPDX-License-Identifier: BSD-3-Clause
/* What the two ends of a run tell each other: "key=value" with blanks between. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "xfer/run.h"

const char *const run_op_name[RUN_OPS + 1] = { "send", "write", "read", "pingpong", NULL };

size_t run_plan_format(const struct run_plan *plan, char *text, size_t size)
{
	return (size_t)snprintf(text, size,
		"run op=%d bytes=%" PRIu64 " count=%" PRIu32 " depth=%" PRIu32
		" check=%d first=%" PRIu64 "%s",
		(int)plan->op, plan->bytes, plan->count, plan->depth, plan->check, plan->first,
		plan->warmed ? " warmed=1" : "");
}

/* The value of " key=" in a text; false: not there or no number, or above the limit. */
static bool number(const char *text, const char *key, uint64_t limit, uint64_t *value)
{
	char word[32];
	const char *at;
	char *end;

	snprintf(word, sizeof(word), " %s=", key);
	at = strstr(text, word);
	if (!at)
		return false;
	at += strlen(word);
	if (*at < '0' || *at > '9')
		return false;
	errno = 0;
	*value = strtoull(at, &end, 10);
	return !errno && *value <= limit && (*end == ' ' || *end == ',' || !*end);
}

static void word(const char *text, const char *key, char *to, size_t size)
{
	char wanted[32];
	const char *at;
	size_t length;

	snprintf(wanted, sizeof(wanted), " %s=", key);
	at = strstr(text, wanted);
	to[0] = '\0';
	if (!at)
		return;
	at += strlen(wanted);
	length = strcspn(at, " ");
	snprintf(to, size, "%.*s", (int)(length < size ? length : size - 1), at);
	text_one_line(to);
}

int run_plan_parse(const char *text, struct run_plan *plan, struct err *e)
{
	uint64_t op, count, depth, check, warmed = 0;

	*plan = (struct run_plan){ 0 };
	if (strncmp(text, "run ", 4) != 0 || !number(text, "op", RUN_OPS - 1, &op) ||
		!number(text, "bytes", 1ull << 40, &plan->bytes) ||
		!number(text, "count", RUN_COUNT_MAX, &count) ||
		!number(text, "depth", RUN_DEPTH_MAX, &depth) ||
		!number(text, "check", 1, &check) ||
		!number(text, "first", UINT64_MAX / 2, &plan->first) || !count || !depth ||
		!plan->bytes || (strstr(text, " warmed=") && !number(text, "warmed", 1, &warmed)))
		return err_set(e, EPROTO, "the client asks for a run that makes no sense");
	plan->op = (enum run_op)op;
	plan->count = (uint32_t)count;
	plan->depth = (uint32_t)depth;
	plan->check = check;
	plan->warmed = warmed;
	return 0;
}

size_t run_end_format(const struct run_end *r, char *text, size_t size)
{
	uint32_t told = r->times < RUN_TIMES_MAX ? r->times : RUN_TIMES_MAX;
	const struct weir_p2p_stats *s = &r->stats;
	char why[sizeof(r->path_reason)];
	size_t n;

	/* One word. */
	snprintf(why, sizeof(why), "%s", r->path_reason);
	for (char *at = why; *at; at++)
		if (*at == ' ')
			*at = '~';

	n = (size_t)snprintf(text, size,
		"done count=%" PRIu32 " bytes=%" PRIu64 " ns=%" PRIu64 " cpu=%" PRIu64
		" checked=%" PRIu32 " wrong=%" PRIu32 " wrong_at=%" PRIu64 " active=%" PRIu64
		" flight_max=%" PRIu64 " flight_milli=%" PRIu64 " credit=%" PRIu64 " peer=%" PRIu64
		" socket=%" PRIu64 " unpack=%" PRIu64
		" sockets=%u memory=%s devices=%s how=%s rx=%s tx=%s rx_device=%" PRIu64
		" rx_linear=%" PRIu64 " rx_plain=%" PRIu64 " tx_device=%" PRIu64
		" why=%s times=%" PRIu32,
		r->count, r->bytes, r->elapsed_ns, r->cpu_ns, r->checked, r->wrong, r->wrong_at,
		s->active_ns, s->in_flight_max, (uint64_t)(s->in_flight_mean * 1000),
		s->stall_ns[WEIR_P2P_STALL_CREDIT], s->stall_ns[WEIR_P2P_STALL_PEER],
		s->stall_ns[WEIR_P2P_STALL_SOCKET], s->stall_ns[WEIR_P2P_STALL_UNPACK], s->sockets,
		r->memory, r->devices, strchr(r->unpack, ' ') ? "-" : r->unpack, r->rx_path,
		r->tx_path, s->received_device_bytes, s->received_linear_bytes,
		s->received_plain_bytes, s->sent_device_bytes, why, told);
	for (uint32_t i = 0; i < told && n < size; i++)
		n += (size_t)snprintf(text + n, size - n, ",%" PRIu64, r->time_ns[i]);
	return n < size ? n : size - 1;
}

static int parse_times(const char *text, uint64_t count, struct run_end *r, struct err *e)
{
	const char *at = strstr(text, " times=");
	char *end;

	r->time_ns = calloc(count ? count : 1, sizeof(*r->time_ns));
	if (!r->time_ns)
		return err_set(e, ENOMEM, "no memory for the times of the other end");
	at = at ? strchr(at, ',') : NULL;
	for (r->times = 0; r->times < count && at && *at == ','; r->times++) {
		errno = 0;
		if (at[1] < '0' || at[1] > '9')
			break;
		r->time_ns[r->times] = strtoull(at + 1, &end, 10);
		if (errno)
			break;
		at = end;
	}
	if (r->times < count)
		return err_set(e, EPROTO, "the other end's times make no sense");
	return 0;
}

int run_end_parse(const char *text, struct run_end *r, struct err *e)
{
	static const char *const stall[WEIR_P2P_STALLS] = { "credit", "peer", "socket", "unpack" };
	uint64_t any = UINT64_MAX / 2, count, checked, wrong, milli, sockets, times;
	bool good;

	*r = (struct run_end){ 0 };
	good = !strncmp(text, "done ", 5) && number(text, "count", RUN_COUNT_MAX, &count) &&
	       number(text, "bytes", any, &r->bytes) && number(text, "ns", any, &r->elapsed_ns) &&
	       number(text, "cpu", any, &r->cpu_ns) &&
	       number(text, "checked", RUN_COUNT_MAX, &checked) &&
	       number(text, "wrong", RUN_COUNT_MAX, &wrong) &&
	       number(text, "wrong_at", any, &r->wrong_at) &&
	       number(text, "active", any, &r->stats.active_ns) &&
	       number(text, "flight_max", any, &r->stats.in_flight_max) &&
	       number(text, "flight_milli", any, &milli) &&
	       number(text, "sockets", 1000, &sockets) &&
	       number(text, "rx_device", any, &r->stats.received_device_bytes) &&
	       number(text, "rx_linear", any, &r->stats.received_linear_bytes) &&
	       number(text, "rx_plain", any, &r->stats.received_plain_bytes) &&
	       number(text, "tx_device", any, &r->stats.sent_device_bytes) &&
	       number(text, "times", RUN_TIMES_MAX, &times);
	for (int i = 0; good && i < WEIR_P2P_STALLS; i++)
		good = number(text, stall[i], any, &r->stats.stall_ns[i]);
	if (!good)
		return err_set(e, EPROTO, "what the other end measured makes no sense");
	r->count = (uint32_t)count;
	r->checked = (uint32_t)checked;
	r->wrong = (uint32_t)wrong;
	r->stats.in_flight_mean = (double)milli / 1000;
	r->stats.sockets = (unsigned int)sockets;
	word(text, "memory", r->memory, sizeof(r->memory));
	word(text, "devices", r->devices, sizeof(r->devices));
	word(text, "how", r->unpack, sizeof(r->unpack));
	word(text, "rx", r->rx_path, sizeof(r->rx_path));
	word(text, "tx", r->tx_path, sizeof(r->tx_path));
	word(text, "why", r->path_reason, sizeof(r->path_reason));
	for (char *at = r->path_reason; *at; at++)
		if (*at == '~')
			*at = ' ';
	if (!r->unpack[0] || !strcmp(r->unpack, "-"))
		snprintf(r->unpack, sizeof(r->unpack), "none needed");
	return parse_times(text, times, r, e);
}
