/* SPDX-License-Identifier: BSD-3-Clause */
/* ethstat IFACE: prints the driver's own counters, one `name value` per line.
 * ethstat IFACE --drop-rules: takes all steering rules away, as a meddler would.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static int ethtool(int sock, const char *iface, void *command)
{
	struct ifreq request = { .ifr_data = command };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", iface);
	return ioctl(sock, SIOCETHTOOL, &request) ? -errno : 0;
}

static int count_counters(int sock, const char *iface, uint32_t *count)
{
	struct {
		struct ethtool_sset_info info;
		uint32_t count;
	} set = { .info = { .cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ULL << ETH_SS_STATS } };
	int ret;

	ret = ethtool(sock, iface, &set);
	*count = set.info.sset_mask ? set.count : 0;
	return ret;
}

static int print_counters(int sock, const char *iface, uint32_t count)
{
	struct ethtool_gstrings *names =
		calloc(1, sizeof(*names) + (size_t)count * ETH_GSTRING_LEN);
	struct ethtool_stats *values = calloc(1, sizeof(*values) + count * sizeof(uint64_t));
	int ret = -ENOMEM;

	if (!names || !values)
		goto free_both;
	names->cmd = ETHTOOL_GSTRINGS;
	names->string_set = ETH_SS_STATS;
	names->len = count;
	values->cmd = ETHTOOL_GSTATS;
	values->n_stats = count;
	ret = ethtool(sock, iface, names);
	if (!ret)
		ret = ethtool(sock, iface, values);
	for (uint32_t i = 0; !ret && i < count; i++)
		printf("%.*s %" PRIu64 "\n", ETH_GSTRING_LEN,
			names->data + (size_t)i * ETH_GSTRING_LEN, (uint64_t)values->data[i]);
free_both:
	free(names);
	free(values);
	return ret;
}

enum { RULES = 64 }; /* of the test NIC */

static int drop_rules(int sock, const char *iface)
{
	int dropped = 0;

	for (uint32_t i = 0; i < RULES; i++) {
		struct ethtool_rxnfc rule = { .cmd = ETHTOOL_SRXCLSRLDEL, .fs.location = i };

		dropped += !ethtool(sock, iface, &rule);
	}
	return dropped ? 0 : -ENOENT;
}

int main(int argc, char **argv)
{
	bool drop = argc == 3 && !strcmp(argv[2], "--drop-rules");
	uint32_t count = 0;
	int ret, sock;

	if (argc != 2 && !drop) {
		fprintf(stderr, "usage: ethstat IFACE [--drop-rules]\n");
		return 2;
	}
	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ret = drop ? drop_rules(sock, argv[1]) : count_counters(sock, argv[1], &count);
	if (!ret && !drop)
		ret = print_counters(sock, argv[1], count);
	if (ret)
		fprintf(stderr, "ethstat: %s: %s\n", argv[1], strerror(-ret));
	return ret ? 1 : 0;
}
