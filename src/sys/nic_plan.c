/* SPDX-License-Identifier: BSD-3-Clause */
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/nic_plan.h"
#include "sys/path.h"

int nic_plan_may(const char *nic, struct err *e)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	if (!syscall(SYS_capget, &head, data) && data[0].effective >> CAP_NET_ADMIN & 1)
		return 0;
	err_set(e, EPERM, "changing %s needs CAP_NET_ADMIN; nothing was touched", nic);
	return err_hint(e, "run it as root, or give weir the right: setcap cap_net_admin+ep weir");
}

/* Undo what a killed owner left behind, its guardian too. */
static int recover(struct nic_plan *p, struct err *e)
{
	struct nic_journal *j = &p->journal;
	int ret;

	if (j->bytes && !nic_journal_is_current(j)) {
		/* The settings went with the interface or with a reboot: start anew. */
		ret = nic_journal_drop(j, 0, e);
		j->kept = 0;
		j->kept_bytes = j->bytes = 0;
		return ret;
	}
	p->recovered = j->count - j->kept;
	if (!p->recovered)
		return 0;
	ret = nic_journal_undo(j, j->kept, NULL, NULL, e);
	if (ret)
		return ret;
	return nic_journal_drop(j, j->kept, e);
}

int nic_plan_open(struct nic_plan *p, const char *nic, bool dry_run, struct err *e)
{
	int ret;

	*p = (struct nic_plan){ .dry_run = dry_run, .journal.fd = -1, .guard.line = -1 };
	if (!sys_is_live())
		return err_set(e, ENOTSUP, "the NICs of a recorded machine cannot be changed");
	if (strlen(nic) >= sizeof(p->nic) || !if_nametoindex(nic)) {
		err_set(e, ENODEV, "there is no network interface %s in this network namespace",
			nic);
		return err_hint(e, "list the interfaces with: weir nic show");
	}
	strcpy(p->nic, nic);
	if (dry_run)
		return 0;
	ret = nic_plan_may(nic, e);
	if (ret)
		return ret;
	ret = nic_journal_open(&p->journal, nic, true, e);
	if (ret)
		return ret;
	ret = recover(p, e);
	if (!ret)
		ret = nic_journal_claim(&p->journal, e);
	/* Now, not with the first change: that may come when threads run and memory is bound. */
	if (!ret)
		ret = nic_guard_start(&p->guard, &p->journal, e);
	if (ret) {
		nic_journal_close(&p->journal);
		return ret;
	}
	p->first = p->journal.count;
	return 0;
}

/* A change of a setting that the plan changes already starts from there. */
static int value_before(
	const struct nic_plan *p, enum nic_kind kind, const char *key, char **value, struct err *e)
{
	for (size_t i = p->count; i > p->applied; i--) {
		const struct nic_change *c = &p->change[i - 1];

		if (c->kind != kind || strcmp(c->key, key))
			continue;
		*value = strdup(c->after);
		return *value ? 0 : err_set(e, ENOMEM, "no memory for a setting");
	}
	return nic_change_read(p->nic, kind, key, value, e);
}

/* More channels let the kernel spread its table over all of them: one that is as it should be has to
 * be set all the same. */
static bool will_move(const struct nic_plan *p, enum nic_kind kind)
{
	for (size_t i = p->applied; kind == NIC_KIND_RSS_TABLE && i < p->count; i++)
		if (p->change[i].kind == NIC_KIND_CHANNELS)
			return true;
	return false;
}

int nic_plan_add(
	struct nic_plan *p, enum nic_kind kind, const char *key, const char *after, struct err *e)
{
	struct nic_change *grown;
	char *before;
	int ret;

	ret = value_before(p, kind, key, &before, e);
	if (ret)
		return ret;
	if (!strcmp(before, after) && !will_move(p, kind))
		goto free_before;
	grown = reallocarray(p->change, p->count + 1, sizeof(*grown));
	if (!grown) {
		ret = err_set(e, ENOMEM, "no memory for the changes of %s", p->nic);
		goto free_before;
	}
	p->change = grown;
	ret = nic_change_init(&p->change[p->count], kind, key, before, after, e);
	if (!ret)
		p->count++;
free_before:
	free(before);
	return ret;
}

int nic_plan_wish(
	struct nic_plan *p, enum nic_kind kind, const char *key, const char *after, struct err *e)
{
	size_t count = p->count;
	int ret;

	ret = nic_plan_add(p, kind, key, after, e);
	if (p->count > count)
		p->change[count].wish = true;
	return ret;
}

void nic_plan_show(const struct nic_plan *p, const char *key, struct out *o)
{
	out_array(o, key);
	for (size_t i = 0; i < p->count; i++) {
		const struct nic_change *c = &p->change[i];

		out_object(o, NULL);
		out_str(o, "kind", "  %-15s", nic_kind_name(c->kind));
		out_str(o, "key", c->key[0] ? " %s:" : "%s", c->key);
		out_str(o, "before", " %s", c->before);
		out_str(o, "after", " -> %s\n", c->after);
		out_end(o);
	}
	out_end(o);
}

static int do_one(const struct nic_plan *p, const struct nic_change *c, struct err *e)
{
	char *now;
	int ret;

	ret = nic_change_write(p->nic, c->kind, c->key, c->after, e);
	if (ret)
		return ret;
	ret = nic_change_read(p->nic, c->kind, c->key, &now, e);
	if (ret)
		return ret;
	if (strcmp(now, c->after)) {
		err_set(e, EIO, "%s %s of %s was set to %s, but is %s: its driver does not follow",
			nic_kind_name(c->kind), c->key, p->nic, c->after, now);
		ret = -EIO;
	}
	free(now);
	return ret;
}

static void drop_changes(struct nic_plan *p, size_t from)
{
	for (size_t i = from; i < p->count; i++)
		nic_change_free(&p->change[i]);
	p->count = from;
}

int nic_plan_apply(struct nic_plan *p, struct err *e)
{
	size_t from = p->first + p->applied;
	struct err undo;
	int ret;

	if (p->dry_run)
		return err_set(e, EINVAL, "a dry run of %s changes nothing", p->nic);
	if (p->count == p->applied)
		return 0;
	ret = nic_journal_add(&p->journal, p->change + p->applied, p->count - p->applied, e);
	for (size_t i = p->applied; !ret && i < p->count; i++) {
		ret = do_one(p, &p->change[i], e);
		if (p->change[i].wish)
			ret = 0;
	}
	if (!ret) {
		p->applied = p->count;
		return 0;
	}
	/* Nothing of it stays; where that fails the journal keeps what is left. */
	if (p->journal.count > from && !nic_journal_undo(&p->journal, from, NULL, NULL, &undo))
		nic_journal_drop(&p->journal, from, NULL);
	drop_changes(p, p->applied);
	return ret;
}

static void release(struct nic_plan *p)
{
	drop_changes(p, 0);
	free(p->change);
	p->change = NULL;
	p->applied = 0;
}

int nic_plan_close(struct nic_plan *p, struct err *e)
{
	int ret = 0;

	if (p->journal.fd >= 0) {
		ret = nic_journal_undo(&p->journal, p->first, NULL, NULL, e);
		nic_guard_stop(&p->guard);
		if (ret)
			nic_journal_close(&p->journal);
		else
			nic_journal_finish(&p->journal);
	}
	release(p);
	return ret;
}

int nic_plan_keep(struct nic_plan *p, struct err *e)
{
	int ret;

	if (p->applied == 0)
		return nic_plan_close(p, e);
	ret = nic_journal_keep(&p->journal, e);
	if (ret) {
		nic_plan_close(p, NULL);
		return ret;
	}
	nic_guard_stop(&p->guard);
	nic_journal_close(&p->journal);
	release(p);
	return 0;
}
