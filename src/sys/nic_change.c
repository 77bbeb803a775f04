/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/nic_change.h"
#include "sys/nic_link.h"
#include "sys/nic_rss.h"
#include "sys/nic_rule.h"

static int give(char **value, const char *text, struct err *e)
{
	*value = strdup(text);
	return *value ? 0 : err_set(e, ENOMEM, "no memory for a setting");
}

static int give_number(char **value, uint32_t number, struct err *e)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", number);
	return give(value, text, e);
}

static int take_number(const char *value, uint32_t *number, struct err *e)
{
	unsigned long v;
	char *end;

	v = strtoul(value, &end, 10);
	if (value[0] < '0' || value[0] > '9' || *end || v > UINT32_MAX)
		return err_set(e, EINVAL, "'%s' is no number from 0 to %u", value, UINT32_MAX);
	*number = (uint32_t)v;
	return 0;
}

static int take_switch(const char *value, bool *on, struct err *e)
{
	*on = !strcmp(value, "on");
	if (*on || !strcmp(value, "off"))
		return 0;
	return err_set(e, EINVAL, "'%s' is neither on nor off", value);
}

static int read_bit(
	const char *nic, enum nic_bits set, const char *key, char **value, struct err *e)
{
	struct nic_bit bit;
	int ret;

	ret = nic_bit_find(&bit, nic, set, key, e);
	if (ret)
		return ret;
	/* Nobody's wish counts for what cannot be changed. */
	return give(value, (bit.fixed ? bit.on : bit.wanted) ? "on" : "off", e);
}

static int write_bit(
	const char *nic, enum nic_bits set, const char *key, const char *value, struct err *e)
{
	struct nic_bit bit;
	bool on;
	int ret;

	ret = take_switch(value, &on, e);
	if (ret)
		return ret;
	ret = nic_bit_find(&bit, nic, set, key, e);
	if (ret)
		return ret;
	/* The kernel takes such a wish without a word, and does nothing. */
	if (bit.fixed && bit.on != on)
		return err_set(e, EOPNOTSUPP, "the driver of %s does not let %s be turned %s", nic,
			key, value);
	return nic_bit_set(nic, set, key, on, e);
}

static int read_feature(const char *nic, const char *key, char **value, struct err *e)
{
	return read_bit(nic, NIC_FEATURES, key, value, e);
}

static int write_feature(const char *nic, const char *key, const char *value, struct err *e)
{
	return write_bit(nic, NIC_FEATURES, key, value, e);
}

static int read_priv_flag(const char *nic, const char *key, char **value, struct err *e)
{
	return read_bit(nic, NIC_PRIVATE_FLAGS, key, value, e);
}

static int write_priv_flag(const char *nic, const char *key, const char *value, struct err *e)
{
	return write_bit(nic, NIC_PRIVATE_FLAGS, key, value, e);
}

static int channel_of(const char *key, enum nic_channel *which, struct err *e)
{
	for (int i = 0; i < NIC_CHANNELS; i++) {
		if (!strcmp(nic_channel_name[i], key)) {
			*which = (enum nic_channel)i;
			return 0;
		}
	}
	return err_set(e, EINVAL, "channels are rx, tx, other or combined, not '%s'", key);
}

static int read_channels(const char *nic, const char *key, char **value, struct err *e)
{
	enum nic_channel which = NIC_CHANNEL_RX;
	struct nic_channels c;
	int ret;

	ret = channel_of(key, &which, e);
	if (!ret)
		ret = nic_channels_read(&c, nic, e);
	return ret ? ret : give_number(value, c.count[which], e);
}

static int write_channels(const char *nic, const char *key, const char *value, struct err *e)
{
	enum nic_channel which = NIC_CHANNEL_RX;
	uint32_t count = 0;
	int ret;

	ret = channel_of(key, &which, e);
	if (!ret)
		ret = take_number(value, &count, e);
	return ret ? ret : nic_channels_set(nic, which, count, e);
}

static int ring_of(const char *key, enum nic_ring *which, struct err *e)
{
	if (strcmp(key, "rx") && strcmp(key, "tx"))
		return err_set(e, EINVAL, "rings are rx or tx, not '%s'", key);
	*which = key[0] == 'r' ? NIC_RING_RX : NIC_RING_TX;
	return 0;
}

static int read_ring(const char *nic, const char *key, char **value, struct err *e)
{
	enum nic_ring which = NIC_RING_RX;
	struct nic_rings r;
	int ret;

	ret = ring_of(key, &which, e);
	if (!ret)
		ret = nic_rings_read(&r, nic, e);
	return ret ? ret : give_number(value, which == NIC_RING_RX ? r.rx : r.tx, e);
}

static int write_ring(const char *nic, const char *key, const char *value, struct err *e)
{
	enum nic_ring which = NIC_RING_RX;
	uint32_t size = 0;
	int ret;

	ret = ring_of(key, &which, e);
	if (!ret)
		ret = take_number(value, &size, e);
	return ret ? ret : nic_rings_set(nic, which, size, e);
}

static const char *const split_words[] = { "unknown", "off", "on" };

static int read_split(const char *nic, const char *key, char **value, struct err *e)
{
	struct nic_rings r;
	int ret;

	(void)key;
	ret = nic_rings_read(&r, nic, e);
	return ret ? ret : give(value, split_words[r.split <= NIC_SPLIT_ON ? r.split : 0], e);
}

static int write_split(const char *nic, const char *key, const char *value, struct err *e)
{
	(void)key;
	for (uint32_t i = 0; i <= NIC_SPLIT_ON; i++)
		if (!strcmp(value, split_words[i]))
			return nic_rings_set(nic, NIC_RING_SPLIT, i, e);
	return err_set(e, EINVAL, "tcp-data-split is on, off or unknown, not '%s'", value);
}

static int read_hds_thresh(const char *nic, const char *key, char **value, struct err *e)
{
	struct nic_rings r;
	int ret;

	(void)key;
	ret = nic_rings_read(&r, nic, e);
	if (ret)
		return ret;
	if (!r.has_hds_thresh)
		return err_set(e, EOPNOTSUPP, "%s has no header split threshold (hds-thresh)", nic);
	return give_number(value, r.hds_thresh, e);
}

static int write_hds_thresh(const char *nic, const char *key, const char *value, struct err *e)
{
	uint32_t thresh = 0;
	int ret;

	(void)key;
	ret = take_number(value, &thresh, e);
	return ret ? ret : nic_rings_set(nic, NIC_RING_HDS_THRESH, thresh, e);
}

static int give_table(const char *nic, uint32_t context, char **value, struct err *e)
{
	struct nic_rss r;
	int ret;

	ret = nic_rss_read(&r, nic, context, e);
	if (ret)
		return ret;
	*value = nic_rss_text(&r);
	nic_rss_free(&r);
	return *value ? 0 : err_set(e, ENOMEM, "no memory for an RSS table");
}

static int read_rss_table(const char *nic, const char *key, char **value, struct err *e)
{
	(void)key;
	return give_table(nic, 0, value, e);
}

static int write_rss_table(const char *nic, const char *key, const char *value, struct err *e)
{
	struct nic_rss r;
	int ret;

	(void)key;
	ret = nic_rss_parse(&r, value, e);
	if (ret)
		return ret;
	ret = nic_rss_write(nic, &r, e);
	nic_rss_free(&r);
	return ret;
}

static int find_context(const char *nic, const char *table, uint32_t *context, struct err *e)
{
	struct nic_rss r;
	int ret;

	ret = nic_rss_parse(&r, table, e);
	if (ret)
		return ret;
	ret = nic_rss_find(nic, &r, context, e);
	nic_rss_free(&r);
	return ret;
}

static int read_rss_context(const char *nic, const char *key, char **value, struct err *e)
{
	uint32_t context;
	int ret;

	ret = find_context(nic, key, &context, e);
	if (ret && ret != -ENOENT)
		return ret;
	err_clear(e);
	return give(value, ret ? "absent" : "present", e);
}

static int write_rss_context(const char *nic, const char *key, const char *value, struct err *e)
{
	uint32_t context;
	struct nic_rss r;
	int ret;

	if (!strcmp(value, "absent")) {
		ret = find_context(nic, key, &context, e);
		return ret ? ret : nic_rss_remove(nic, context, e);
	}
	if (strcmp(value, "present"))
		return err_set(e, EINVAL, "an RSS context is present or absent, not '%s'", value);
	ret = nic_rss_parse(&r, key, e);
	if (ret)
		return ret;
	ret = nic_rss_create(nic, &r, &context, e);
	nic_rss_free(&r);
	return ret;
}

static int read_rule(const char *nic, const char *key, char **value, struct err *e)
{
	struct nic_rule like, found;
	char text[32], *table;
	int ret;

	ret = nic_rule_parse(&like, key, e);
	if (ret)
		return ret;
	ret = nic_rule_find(nic, &like, &found, e);
	if (ret == -ENOENT) {
		err_clear(e);
		return give(value, "absent", e);
	}
	if (ret)
		return ret;
	if (!found.to_context) {
		snprintf(text, sizeof(text), "queue %u", found.queue);
		return give(value, text, e);
	}
	ret = give_table(nic, found.context, &table, e);
	if (ret)
		return ret;
	if (asprintf(value, "context %s", table) < 0)
		ret = err_set(e, ENOMEM, "no memory for a setting");
	free(table);
	return ret;
}

static int take_target(const char *nic, struct nic_rule *r, const char *value, struct err *e)
{
	if (!strncmp(value, "queue ", 6))
		return take_number(value + 6, &r->queue, e);
	if (strncmp(value, "context ", 8))
		return err_set(
			e, EINVAL, "a rule sends to 'queue N' or 'context TABLE', not '%s'", value);
	r->to_context = true;
	return find_context(nic, value + 8, &r->context, e);
}

static int write_rule(const char *nic, const char *key, const char *value, struct err *e)
{
	struct nic_rule rule, old;
	int ret;

	ret = nic_rule_parse(&rule, key, e);
	if (!ret && strcmp(value, "absent"))
		ret = take_target(nic, &rule, value, e);
	if (ret)
		return ret;
	ret = nic_rule_find(nic, &rule, &old, e);
	if (ret == -ENOENT)
		err_clear(e);
	else if (!ret)
		ret = nic_rule_remove(nic, old.location, e);
	if ((ret && ret != -ENOENT) || !strcmp(value, "absent"))
		return ret == -ENOENT ? 0 : ret;
	return nic_rule_add(nic, &rule, e);
}

static const struct {
	const char *name;
	int (*read)(const char *nic, const char *key, char **value, struct err *e);
	int (*write)(const char *nic, const char *key, const char *value, struct err *e);
} kinds[NIC_KINDS] = {
	[NIC_KIND_FEATURE] = { "feature", read_feature, write_feature },
	[NIC_KIND_PRIV_FLAG] = { "priv-flag", read_priv_flag, write_priv_flag },
	[NIC_KIND_CHANNELS] = { "channels", read_channels, write_channels },
	[NIC_KIND_RING] = { "ring", read_ring, write_ring },
	[NIC_KIND_SPLIT] = { "tcp-data-split", read_split, write_split },
	[NIC_KIND_HDS_THRESH] = { "hds-thresh", read_hds_thresh, write_hds_thresh },
	[NIC_KIND_RSS_TABLE] = { "rss-table", read_rss_table, write_rss_table },
	[NIC_KIND_RSS_CONTEXT] = { "rss-context", read_rss_context, write_rss_context },
	[NIC_KIND_RULE] = { "ntuple-rule", read_rule, write_rule },
};

const char *nic_kind_name(enum nic_kind kind)
{
	return kinds[kind].name;
}

int nic_kind_parse(enum nic_kind *kind, const char *name, struct err *e)
{
	for (int i = 0; i < NIC_KINDS; i++) {
		if (!strcmp(kinds[i].name, name)) {
			*kind = (enum nic_kind)i;
			return 0;
		}
	}
	return err_set(e, EINVAL, "'%s' is no kind of NIC setting", name);
}

int nic_change_read(
	const char *nic, enum nic_kind kind, const char *key, char **value, struct err *e)
{
	*value = NULL;
	return kinds[kind].read(nic, key, value, e);
}

int nic_change_write(
	const char *nic, enum nic_kind kind, const char *key, const char *value, struct err *e)
{
	return kinds[kind].write(nic, key, value, e);
}

static bool is_one_line(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 127)
			return false;
	return true;
}

int nic_change_init(struct nic_change *c, enum nic_kind kind, const char *key, const char *before,
	const char *after, struct err *e)
{
	*c = (struct nic_change){ .kind = kind };
	if (!is_one_line(key) || !is_one_line(before) || !is_one_line(after))
		return err_set(
			e, EINVAL, "the name or value of a NIC setting has control characters");
	c->key = strdup(key);
	c->before = strdup(before);
	c->after = strdup(after);
	if (c->key && c->before && c->after)
		return 0;
	nic_change_free(c);
	return err_set(e, ENOMEM, "no memory for a NIC setting");
}

void nic_change_free(struct nic_change *c)
{
	free(c->key);
	free(c->before);
	free(c->after);
	*c = (struct nic_change){ 0 };
}
