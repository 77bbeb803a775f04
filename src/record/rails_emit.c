// SPDX-License-Identifier: BSD-3-Clause
/* Many rails as a table for a person, and as JSON: schema/rails-1.json. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "record/rails.h"
#include "record/render.h"

/* Text */

static void emit_heading(const struct rails_record *rec, struct out *o)
{
	const struct rails_options *asked = rec->rails->asked;
	const struct rails_entry *any = NULL;
	char size[UNITS_TEXT];

	for (uint32_t i = 0; !any && i < rec->rails->count; i++)
		if (rec->entry[i].measured)
			any = &rec->entry[i];
	out_style(o, OUT_BOLD);
	out_text(o, "weir rails     ");
	out_style(o, OUT_PLAIN);
	out_text(o, "%s of %u rail%s", asked->client ? "client" : "server", rec->rails->count,
		rec->rails->count == 1 ? "" : "s");
	if (any)
		out_text(o, ", on each %u flow%s", any->flows, any->flows == 1 ? "" : "s");
	if (any && asked->client)
		out_text(o, " in %s calls", units_format_bytes(size, (double)asked->buffer_size));
	out_text(o, ", %s memory\n", device_memory_name[asked->memory]);
	if (!any)
		return;
	out_text(o, "%15s", "");
	if (any->warmup_s > 0)
		out_text(o, "warm-up %.3g s excluded, ", any->warmup_s);
	out_text(o, "%.3g s measured\n", any->window_s);
}

struct widths {
	int rail, peer;
};

static const char *peer_of(const struct rails_entry *entry, char buf[80])
{
	const struct rail *r = entry->rail;
	const char *expected = r->options.client ? r->host : r->src_ip[0] ? r->src_ip : "-";
	const char *address = entry->peer_address[0] ? entry->peer_address : expected;
	char *colon;

	snprintf(buf, 80, "%s", address);
	/* Without the port, which says little. */
	colon = strrchr(buf, ':');
	if (entry->peer_address[0] && colon)
		*colon = 0;
	return buf;
}

static struct widths measure(const struct rails_record *rec)
{
	struct widths w = { 5, 4 };
	char peer[80];

	for (uint32_t i = 0; i < rec->rails->count; i++) {
		int rail = (int)strlen(rec->entry[i].rail->nic.name);
		int address = (int)strlen(peer_of(&rec->entry[i], peer));

		w.rail = rail > w.rail ? rail : w.rail;
		w.peer = address > w.peer ? address : w.peer;
	}
	return w;
}

static const char *rate_text(char buf[UNITS_TEXT], double bps)
{
	return isnan(bps) ? "-" : units_format_bits(buf, bps);
}

static void emit_row(const struct rails_entry *entry, struct widths w, struct out *o)
{
	char peer[80], received[UNITS_TEXT], sent[UNITS_TEXT], rtt[UNITS_TEXT];

	out_text(o, "  %-*s  %-*s  ", w.rail, entry->rail->nic.name, w.peer, peer_of(entry, peer));
	if (!entry->measured) {
		out_style(o, OUT_BAD);
		out_text(o, "failed");
		out_style(o, OUT_PLAIN);
		out_text(o, ": %s\n", entry->error[0] ? entry->error : "nothing was heard of it");
		return;
	}
	out_style(o, OUT_BOLD);
	out_text(o, "%-13s", rate_text(received, entry->received_bps));
	out_style(o, OUT_PLAIN);
	out_text(o, " %-13s", rate_text(sent, entry->sent_bps));
	if (entry->tcp_known)
		out_text(o, " %11" PRIu64, entry->retransmits);
	else
		out_text(o, " %11s", "-");
	out_text(o, " %9s", isnan(entry->rtt_us) ? "-" : table_rtt(rtt, entry->rtt_us));
	if (isnan(entry->client_ns_per_byte))
		out_text(o, " %6s", "-");
	else
		out_text(o, " %6.2f", entry->client_ns_per_byte);
	if (isnan(entry->server_ns_per_byte))
		out_text(o, " %6s", "-");
	else
		out_text(o, " %6.2f", entry->server_ns_per_byte);
	out_text(o, "   %s\n", entry->limited_by[0] ? entry->limited_by : "-");
}

static void emit_rows(const struct rails_record *rec, struct out *o)
{
	struct widths w = measure(rec);
	char received[UNITS_TEXT], sent[UNITS_TEXT], share[32];

	out_style(o, OUT_DIM);
	out_text(o, "\n  %-*s  %-*s  %-13s %-13s %11s %9s %13s   %s\n", w.rail, "rail", w.peer,
		"peer", "received", "sent", "retransmits", "rtt", "cpu ns/byte", "limited by");
	out_text(o, "%*sclient server\n", w.rail + w.peer + 56, "");
	out_style(o, OUT_PLAIN);
	for (uint32_t i = 0; i < rec->rails->count; i++)
		emit_row(&rec->entry[i], w, o);
	snprintf(share, sizeof(share), "%u of %u", rec->measured, rec->rails->count);
	out_style(o, OUT_BOLD);
	out_text(o, "  %-*s  %-*s  %-13s", w.rail, "total", w.peer, share,
		rate_text(received, rec->received_bps));
	out_style(o, OUT_PLAIN);
	out_text(o, " %-13s %11" PRIu64 "\n", rate_text(sent, rec->sent_bps), rec->retransmits);
}

/* What the rows do not say; the first stands apart from them. */
static void emit_remarks(const struct rails_entry *entry, bool *first, struct out *o)
{
	const char *name = entry->rail->nic.name;
	bool any = !entry->measured && entry->hint[0];

	for (int i = 0; entry->measured && i < entry->finding_count; i++)
		any |= strcmp(entry->findings[i].name, "limited_by") != 0;
	if (!any)
		return;
	out_text(o, *first ? "\n" : "");
	*first = false;
	if (entry->measured)
		findings_emit(entry->findings, entry->finding_count, name, o);
	else
		out_text(o, "  %s: %s\n", name, entry->hint);
}

void rails_emit_table(const struct rails_record *rec, struct out *o)
{
	bool first = !rec->finding_count;

	emit_heading(rec, o);
	emit_rows(rec, o);
	findings_emit(rec->findings, rec->finding_count, NULL, o);
	for (uint32_t i = 0; i < rec->rails->count; i++)
		emit_remarks(&rec->entry[i], &first, o);
}

/* JSON */

static void emit_place(const struct rail *r, struct out *o)
{
	const char *pci = topo_address(&r->nic.place);
	char cpus[512];

	out_str(o, "pci", NULL, pci[0] ? pci : NULL);
	if (r->nic.place.numa_node >= 0 && pci[0])
		out_i64(o, "numa_node", NULL, r->nic.place.numa_node);
	else
		out_null(o, "numa_node");
	out_str(o, "cpus", NULL, r->cpus.count ? cpus_format(&r->cpus, cpus, sizeof(cpus)) : NULL);
	out_str(o, "gpu", NULL, r->gpu[0] ? r->gpu : NULL);
	out_str(o, "gpu_distance", NULL, r->gpu_distance);
}

static void emit_entry(const struct rails_entry *entry, struct out *o)
{
	const struct rail *r = entry->rail;

	out_object(o, NULL);
	out_str(o, "device", NULL, r->nic.name);
	out_str(o, "host", NULL, r->host);
	emit_place(r, o);
	out_i64(o, "control_port", NULL, r->control_port);
	out_i64(o, "port", NULL, r->port);
	out_str(o, "verdict", NULL, record_verdict_name(entry->verdict));
	out_str(o, "error", NULL, entry->error[0] ? entry->error : NULL);
	out_f64(o, "throughput_bps", NULL, entry->received_bps);
	out_f64(o, "sent_bps", NULL, entry->sent_bps);
	if (entry->tcp_known)
		out_u64(o, "retransmits", NULL, entry->retransmits);
	else
		out_null(o, "retransmits");
	out_f64(o, "rtt_us", NULL, entry->rtt_us);
	out_str(o, "limited_by", NULL, entry->limited_by[0] ? entry->limited_by : NULL);
	if (entry->json)
		out_json(o, "run", entry->json);
	else
		out_null(o, "run");
	out_end(o);
}

void rails_emit_json(const struct rails_record *rec, struct out *o)
{
	out_object(o, NULL);
	out_str(o, "schema", NULL, RAILS_SCHEMA);
	out_str(o, "weir", NULL, WEIR_VERSION);
	json_time("started", rec->started_wall_ns ? rec->started_wall_ns : clock_wall_ns(), o);
	out_str(o, "role", NULL, rec->rails->asked->client ? "client" : "server");
	out_array(o, "rails");
	for (uint32_t i = 0; i < rec->rails->count; i++)
		emit_entry(&rec->entry[i], o);
	out_end(o);
	out_object(o, "total");
	out_u64(o, "rails", NULL, rec->rails->count);
	out_u64(o, "measured", NULL, rec->measured);
	out_f64(o, "throughput_bps", NULL, rec->received_bps);
	out_f64(o, "sent_bps", NULL, rec->sent_bps);
	out_u64(o, "retransmits", NULL, rec->retransmits);
	out_end(o);
	findings_emit(rec->findings, rec->finding_count, NULL, o);
	out_str(o, "verdict", NULL, record_verdict_name(rec->verdict));
	out_end(o);
}
