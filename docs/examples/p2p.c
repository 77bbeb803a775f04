// SPDX-License-Identifier: BSD-3-Clause
/* A complete program of weir's p2p API: one process owns a region, the other writes to it, reads it back, sends
 * a message and says so.
 *
 *	cc p2p.c $(pkg-config --cflags --libs weir) -o p2p
 *	./p2p owner 20000 secret &
 *	./p2p writer localhost 20000 secret
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/p2p.h>

#define BYTES	((size_t)8 << 20)
#define PATIENT (10 * WEIR_SECOND)

static struct weir_error error;

static int failed(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, error.what);
	if (error.hint[0])
		fprintf(stderr, "  %s\n", error.hint);
	return EXIT_FAILURE;
}

/* A transfer is over when wait says 1, has failed when it says -errno, and goes on when it says 0. */
static int finish(struct weir_p2p_transfer *transfer)
{
	int ret = weir_p2p_wait(transfer, PATIENT, NULL, &error);

	return ret == 1 ? 0 : ret ? ret : -1;
}

static int hear(struct weir_p2p *p2p, struct weir_p2p_conn *conn, char *text, size_t size)
{
	void *data;
	size_t bytes;
	int ret;

	while (!(ret = weir_p2p_notification(conn, &data, &bytes, &error)))
		weir_p2p_sleep(p2p, WEIR_SECOND);
	if (ret < 0)
		return ret;
	snprintf(text, size, "%s", (char *)data);
	free(data);
	return 0;
}

static int own(struct weir_p2p *p2p, uint16_t port, unsigned char *memory)
{
	struct weir_p2p_region *region;
	struct weir_p2p_transfer *receive;
	struct weir_p2p_conn *conn;
	char text[64];

	/* Whoever has the key may write and read these bytes, and no others. */
	if (weir_p2p_register(p2p, memory, 2 * BYTES, WEIR_P2P_HOST,
		    WEIR_P2P_REMOTE_WRITE | WEIR_P2P_REMOTE_READ, &region, &error))
		return failed("register");
	if (weir_p2p_listen(p2p, NULL, port, &error))
		return failed("listen");
	while (weir_p2p_accept(p2p, &conn, &error))
		weir_p2p_sleep(p2p, WEIR_SECOND);
	if (weir_p2p_recv(conn, region, BYTES, BYTES, &receive, &error))
		return failed("recv");
	snprintf(text, sizeof(text), "%" PRIu64, weir_p2p_key(region));
	if (weir_p2p_notify(conn, text, strlen(text), &error))
		return failed("notify");
	if (hear(p2p, conn, text, sizeof(text)))
		return failed("notification");
	if (finish(receive))
		return failed("receive");
	for (size_t i = 0; i < BYTES; i++)
		if (memory[i] != (unsigned char)(i * 7) ||
			memory[BYTES + i] != (unsigned char)(i * 7)) {
			fprintf(stderr, "byte %zu is wrong\n", i);
			return EXIT_FAILURE;
		}
	printf("owner: %s, and every byte is right\n", text);
	weir_p2p_disconnect(conn);
	return EXIT_SUCCESS;
}

static int write_to(struct weir_p2p *p2p, const char *host, uint16_t port, unsigned char *memory)
{
	struct weir_p2p_region *region;
	struct weir_p2p_transfer *transfer;
	struct weir_p2p_conn *conn;
	struct weir_p2p_stats stats;
	char text[64];
	uint64_t key;

	for (size_t i = 0; i < BYTES; i++)
		memory[i] = (unsigned char)(i * 7);
	if (weir_p2p_register(p2p, memory, 2 * BYTES, WEIR_P2P_HOST, 0, &region, &error))
		return failed("register");
	if (weir_p2p_connect(p2p, host, port, &conn, &error) ||
		weir_p2p_await(conn, PATIENT, &error))
		return failed("connect");
	if (hear(p2p, conn, text, sizeof(text)))
		return failed("notification");
	key = strtoull(text, NULL, 10);

	if (weir_p2p_write(conn, region, 0, BYTES, key, 0, &transfer, &error) || finish(transfer))
		return failed("write");
	if (weir_p2p_read(conn, region, BYTES, BYTES, key, 0, &transfer, &error) ||
		finish(transfer))
		return failed("read");
	if (memcmp(memory, memory + BYTES, BYTES) != 0) {
		fprintf(stderr, "what was read is not what was written\n");
		return EXIT_FAILURE;
	}
	/* One byte too far is refused by the owner, and nothing else happens. */
	if (weir_p2p_write(conn, region, 0, BYTES, key, BYTES + 1, &transfer, &error))
		return failed("write");
	if (!finish(transfer)) {
		fprintf(stderr, "a write beyond the region was not refused\n");
		return EXIT_FAILURE;
	}
	printf("writer: refused as it should be: %s\n", error.what);
	if (weir_p2p_send(conn, region, 0, BYTES, &transfer, &error) || finish(transfer))
		return failed("send");
	if (weir_p2p_notify(conn, "all is written", 14, &error))
		return failed("notify");
	weir_p2p_conn_stats(conn, &stats);
	printf("writer: %" PRIu64 " bytes to %s over %s, %u channels\n", stats.sent_bytes,
		weir_p2p_peer(conn), weir_p2p_devices(conn), stats.channels);
	/* The owner closes when it has seen all of it. */
	while (weir_p2p_connected(conn, &error) == 1)
		weir_p2p_sleep(p2p, WEIR_SECOND);
	weir_p2p_disconnect(conn);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	int owner = argc == 4 && !strcmp(argv[1], "owner");
	int writer = argc == 5 && !strcmp(argv[1], "writer");
	struct weir_p2p_config config;
	unsigned char *memory;
	struct weir_p2p *p2p;
	int status;

	if (!owner && !writer) {
		fprintf(stderr, "usage: p2p owner PORT TOKEN | writer HOST PORT TOKEN\n");
		return 2;
	}
	memory = calloc(2, BYTES);
	if (!memory)
		return EXIT_FAILURE;
	weir_p2p_config_init(&config);
	config.token = argv[argc - 1];
	config.flags =
		WEIR_P2P_THREAD; /* the owner's memory is written while it waits, or computes */
	if (weir_p2p_open(&p2p, &config, &error))
		return failed("open");
	if (owner)
		status = own(p2p, (uint16_t)atoi(argv[2]), memory);
	else
		status = write_to(p2p, argv[2], (uint16_t)atoi(argv[3]), memory);
	weir_p2p_close(p2p);
	free(memory);
	return status;
}
