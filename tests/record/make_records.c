// SPDX-License-Identifier: BSD-3-Clause
/* Records and events of many kinds into a folder, for test_schema.py: make_records FOLDER */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

static struct fixture x;
static const char *folder;

static FILE *create(const char *name, const char *kind)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s.%s", folder, name, kind);
	file = fopen(path, "w");
	if (!file) {
		perror(path);
		exit(1);
	}
	return file;
}

static void save(const char *name)
{
	char path[4096];
	struct out o;
	struct err e;

	record_judge(&x.rec);
	snprintf(path, sizeof(path), "%s/%s.json", folder, name);
	if (record_write(&x.rec, path, &e)) {
		fprintf(stderr, "%s\n", e.what);
		exit(1);
	}
	out_init(&o, create(name, "txt"), OUT_TEXT);
	record_emit(&x.rec, &o);
	out_finish(&o, NULL);
	fclose(o.file);
}

static void save_streams(void)
{
	fixture_init(&x, WORKLOAD_STREAM, 8, 10, "-F8", "-T2", NULL);
	x.client_flows[0].samples = x.samples;
	x.client_flows[0].sample_count = FIXTURE_SAMPLES;
	save("stream");
	fixture_turn(&x);
	save("stream-server");
	fixture_init(&x, WORKLOAD_STREAM, 32, 60, "-F32", "-M", NULL);
	save("stream-many-flows");
	fixture_init(&x, WORKLOAD_STREAM, 2, 5, "-F2", "-r", "--host=\"n\\o\tde\"", NULL);
	x.rec.ceiling_bps = 100000000000;
	save("stream-both-ways");
	fixture_init(&x, WORKLOAD_STREAM, 2, 5, "-F2", "--mem=udmabuf", NULL);
	fixture_device(&x);
	save("stream-device");
	x.server.rx_path = DEVICE_STAGED;
	strcpy(x.server.device.rx_reason, "the driver of eth2 cannot");
	save("stream-device-staged");
	fixture_init(&x, WORKLOAD_STREAM, 1, 3, NULL);
	fixture_neper(&x, 7900000000);
	save("stream-neper");
	fixture_neper(&x, 0);
	save("stream-neper-silent");
	fixture_init(&x, WORKLOAD_STREAM, 2, 10, "-F2", NULL);
	x.client.complete = x.server.valid = false;
	x.client_flows[1].error = ECONNRESET;
	strcpy(x.client.error, "the server went away");
	save("stream-failed");
	memset(&x.client, 0, sizeof(x.client));
	save("stream-nothing");
}

static void save_transactions(void)
{
	fixture_init(&x, WORKLOAD_RR, 16, 10, "-F16", NULL);
	save("rr");
	fixture_init(&x, WORKLOAD_RR, 4, 10, "-F4", "--rate=20000", "-p50,99,99.9999", NULL);
	save("rr-open-loop");
	fixture_turn(&x);
	save("rr-server");
	fixture_init(
		&x, WORKLOAD_RR, 1, 1, "-l-10000", "-p5,10,20,30,40,50,60,70,80,90,95,99", NULL);
	save("rr-many-percentiles");
	fixture_init(&x, WORKLOAD_CRR, 4, 10, "-F4", NULL);
	x.server.flow_count = 0;
	for (int i = 0; i < 4; i++)
		memset(&x.client_flows[i].tcp, 0, sizeof(x.client_flows[i].tcp));
	save("crr");
	fixture_turn(&x);
	fixture_neper(&x, 10001);
	save("crr-neper-server");
}

/* A peer that says anything must not make a record that cannot be read. */
static void save_absurd(void)
{
	fixture_init(&x, WORKLOAD_STREAM, 4, 10, "-r", NULL);
	x.server.window_ns = 1;
	memset(&x.server.counts, 0xff, sizeof(x.server.counts));
	memset(x.server_intervals, 0xff, sizeof(x.server_intervals));
	for (int i = 0; i < 4; i++) {
		memset(&x.server_flows[i], 0xff, sizeof(x.server_flows[i]));
		x.server_flows[i].samples = NULL;
		/* result_decode() lets no number pass that is not finite. */
		for (int k = 0; k < TCP_LIMITS; k++)
			x.server_flows[i].limits.share[k] = 1e300;
	}
	x.server.busiest_thread = 1e300;
	strcpy(x.server.error, "\xff\"\n\033[2J");
	save("absurd");
}

static void save_events(void)
{
	struct out o;

	fixture_init(&x, WORKLOAD_RR, 1, 2, NULL);
	out_init(&o, create("events", "ndjson"), OUT_JSON);
	record_emit_event("start", "1 flow", NULL, &o);
	record_emit_interval(&x.client_intervals[0], WORKLOAD_RR, NULL, &o);
	record_emit_interval(&x.client_intervals[1], WORKLOAD_STREAM, NULL, &o);
	record_emit_event("error", "the server went away", NULL, &o);
	record_emit_event("end", NULL, NULL, &o);
	out_finish(&o, NULL);
	fclose(o.file);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	folder = argv[1];
	save_streams();
	save_transactions();
	save_absurd();
	save_events();
	return 0;
}
