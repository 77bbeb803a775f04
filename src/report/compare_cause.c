// SPDX-License-Identifier: BSD-3-Clause
/* What explains the change. The rules are a table: which figure has to have moved, which way and how
 * far, or which finding to have appeared; the first that hold are the likeliest. Nothing is guessed: where no
 * rule holds, there is no cause. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/compare.h"

#define PART_SLOWER 0.8

struct cause_rule {
	const char *name;
	const char *finding; /* appeared in the second: its name begins so; or NULL */
	const char *figure;  /* or this figure moved */
	int direction;	     /* +1 up, -1 down */
	double least; /* by so much, in its unit (shares, points) or as a ratio where ratio is set */
	bool ratio;
	const char *text, *advice;
};

/* The nearer to the root, the earlier: a link that lost its speed also fills windows. */
static const struct cause_rule rules[] = {
	{ "failed", "incomplete", NULL, 0, 0, false, "the second run did not complete",
		"Mend what ended the run before anything else is compared." },
	{ "wrong_payload", "wrong_payload", NULL, 0, 0, false,
		"the second run received wrong bytes",
		"Nothing else matters before that is explained: memory, NIC or driver." },
	{ "pcie_link", "pcie", NULL, 0, 0, false, "a PCIe link or device is not what it was",
		"Reseat the card, look at the slot and at AER; compare weir nic show." },
	{ "bad_link", "fec", NULL, 0, 0, false, "the link makes errors that it had not made",
		"Clean or change cable and optics; compare with the siblings." },
	{ "bad_link", "link", NULL, 0, 0, false, "the link makes errors that it had not made",
		"Clean or change cable and optics; compare with the siblings." },
	{ "devmem_missed", "devmem_missed", NULL, 0, 0, false,
		"payload landed in host memory instead of device memory",
		"Look at header split and steering: weir nic show NIC --stats." },
	{ "stopped", NULL, "stopped", 1, 0.1, false,
		"a process was stopped: it neither ran nor waited for a CPU",
		"Look who stops it: a signal, a debugger, a container that is frozen or moved." },
	{ "loss", "retransmits", NULL, 0, 0, false, "packets are lost on the way",
		"Look for drops at both NICs and at the switches between them; weir counters of both ends say where." },
	{ "loss", NULL, "retransmitted", 1, 0.001, false, "packets are lost on the way",
		"Look for drops at both NICs and at the switches between them; weir counters of both ends say where." },
	{ "loss", NULL, "retransmits", 1, 100, false, "packets are lost on the way",
		"Look for drops at both NICs and at the switches between them; weir counters of both ends say where." },
	{ "ecn", NULL, "ECN marked", 1, 0.01, false,
		"the network marks congestion that it did not mark before",
		"Someone else uses the path, or its thresholds changed: look at the switches' queues." },
	{ "delay", NULL, "least round-trip time", 1, 2, true,
		"the way between the hosts became longer: even the fastest packet takes more time",
		"Look at routing, at the path's hops and at delay that was put in." },
	{ "cpu", "cpu_bound", NULL, 0, 0, false, "a thread has no CPU time left",
		"Give more threads, look at what else runs on its CPUs and at the frequency governor." },
	{ "crowded", NULL, "waited for a CPU", 1, 0.3, false,
		"an end had to wait for a CPU: something else runs on its host",
		"Measure again when it is idle, or bind both ends to CPUs of their own (--pin-cpu)." },
	{ "receiver", "zero_window", NULL, 0, 0, false,
		"the receiver reads too slowly: it closed its window",
		"Look at the receiving process: its CPU, what it waits for, how much it reads at once." },
	{ "receiver", "receive_window_limited", NULL, 0, 0, false,
		"the sender waits for the receiver: its window is full",
		"The receiver reads too slowly (CPU, memory, a stopped process) or its buffer is too small (tcp_rmem)." },
	{ "receiver", NULL, "waited for: receive window", 1, 0.15, false,
		"the sender waits for the receiver: its window is full",
		"The receiver reads too slowly (CPU, memory, a stopped process) or its buffer is too small (tcp_rmem)." },
	{ "send_buffer", NULL, "waited for: send buffer", 1, 0.15, false,
		"the send buffer is too small for the path",
		"Raise tcp_wmem or SO_SNDBUF; a longer path needs more." },
	{ "pacing", NULL, "waited for: pacing", 1, 0.15, false, "the sender is paced",
		"Look at --max-pacing-rate, fq and SO_MAX_PACING_RATE." },
	{ "queue", NULL, "round-trip time", 1, 2, true,
		"packets stand in a queue: the round-trip time grew without loss",
		"A slower hop or a rate limit on the way holds them: look at qdiscs and at the switches' queues." },
	{ "latency", NULL, "latency p50", 1, 1.5, true, "every answer takes longer",
		"Compare round-trip time and CPU below: is it the path or a host?" },
	{ "congestion", NULL, "waited for: congestion window", 1, 0.15, false,
		"the congestion window holds the sender: the network, or a host's stack, takes less than it did",
		"Without loss and marks this says where it waits, not why: counters of both ends say more." },
	{ "application", NULL, "waited for: application", 1, 0.15, false,
		"the sender had nothing to send: its own host was slow",
		"Look at the sender's CPU, at what else runs there, and at memory." },
	{ "no_credit", NULL, "stalled: no credit", 1, 0.15, false,
		"the receiver had nothing posted for what the sender had",
		"Look at the receiving end: its GPU, its CPU, its window (--window)." },
	{ "peer_slow", NULL, "stalled: peer slow", 1, 0.15, false,
		"the other end took messages more slowly",
		"Compare both ends: the CPUs near its NIC, its memory, its sockets." },
	{ "socket_full", NULL, "stalled: socket full", 1, 0.15, false,
		"the sockets took less: the network, or the other end's stack",
		"weir stream over the same NICs says whether it is the network." },
	{ "unpack", NULL, "stalled: unpack", 1, 0.15, false,
		"unpacking in the GPU's memory took longer",
		"Look at what else runs on the GPU, and at --unpack." },
	{ "trouble", "trouble", NULL, 0, 0, false,
		"the second has a trouble that the first had not",
		"It names the rail, GPU or pair: look there first." },
	{ "unfair", "unfair", NULL, 0, 0, false, "the flows no longer share evenly",
		"Flows may share a queue or a path: look at RSS and ECMP." },
	{ "cpu_cost", NULL, "cpu per byte", 1, 1.5, true, "a byte costs more CPU time",
		"Compare offloads, MTU and copies; look at the settings that differ." },
	{ "cpu_cost", NULL, "cpu per transaction", 1, 1.5, true,
		"a transaction costs more CPU time",
		"Compare offloads and interrupts; look at the settings that differ." },
};

static bool has_cause(const struct compare *c, const char *name)
{
	for (uint32_t i = 0; i < c->cause_count; i++)
		if (!strcmp(c->cause[i].name, name))
			return true;
	return false;
}

static void add_cause(struct compare *c, const char *name, const char *advice, const char *text,
	const char *evidence)
{
	struct cause *cause = &c->cause[c->cause_count];

	if (c->cause_count == COMPARE_CAUSES || has_cause(c, name))
		return;
	cause->name = name;
	cause->advice = advice;
	snprintf(cause->text, sizeof(cause->text), "%s%s%s", text, evidence[0] ? ": " : "",
		evidence);
	c->cause_count++;
}

/* The setting as a cause: only one that is known to matter, and only the client's or server's own. */
static void explain_settings(struct compare *c)
{
	char text[320];

	for (uint32_t i = 0; i < c->setting_count; i++) {
		const struct setting *s = &c->setting[i];

		if (!s->telling || !strcmp(s->name, "kernel_release"))
			continue;
		snprintf(text, sizeof(text), "%s %s was %.100s and is %.100s", s->whose, s->name,
			s->before, s->after);
		if (!strcmp(s->whose, "option"))
			add_cause(c, "options",
				"Run both with the same options, then compare again.",
				"the runs were not asked for the same thing", text);
		else
			add_cause(c, "settings",
				"Set it back and measure again: it is the cheapest test.",
				"a setting that matters differs", text);
	}
}

static bool holds(const struct cause_rule *r, const struct change *change)
{
	double by = change->after - change->before;

	if (r->ratio)
		return r->direction > 0 && change->after >= r->least * change->before;
	return by * r->direction >= r->least;
}

static void explain_figure(struct compare *c, const struct cause_rule *r)
{
	char before[COMPARE_TEXT], after[COMPARE_TEXT], evidence[256];

	for (uint32_t i = 0; i < c->change_count; i++) {
		const struct change *change = &c->change[i];

		if (change->counter || strcmp(change->name, r->figure) || !holds(r, change))
			continue;
		snprintf(evidence, sizeof(evidence), "%s%s%s was %s and is %s", change->whose,
			change->whose[0] ? " " : "", change->name,
			compare_text(before, change, change->before),
			compare_text(after, change, change->after));
		add_cause(c, r->name, r->advice, r->text, evidence);
		return;
	}
}

static void explain_finding(struct compare *c, const struct cause_rule *r)
{
	for (uint32_t i = 0; i < c->finding_count; i++) {
		const struct compare_finding *f = &c->finding[i];

		if (!f->appeared || strncmp(f->name, r->finding, strlen(r->finding)))
			continue;
		add_cause(c, r->name, f->advice[0] ? f->advice : r->advice, r->text, f->text);
		return;
	}
}

/* What the rules of the counters found and no rule here knows: it stands for itself. */
static void explain_counters(struct compare *c)
{
	for (uint32_t i = 0; i < c->finding_count; i++) {
		const struct compare_finding *f = &c->finding[i];
		bool known = false;

		for (size_t k = 0; k < sizeof(rules) / sizeof(rules[0]); k++)
			known |= rules[k].finding &&
				 !strncmp(f->name, rules[k].finding, strlen(rules[k].finding));
		if (f->appeared && f->advice[0] && !known)
			add_cause(c, f->name, f->advice, f->text, "");
	}
}

/* One of several rails or GPUs is slower than it was: where to look first. */
static void explain_part(struct compare *c)
{
	char before[COMPARE_TEXT], after[COMPARE_TEXT], evidence[256];
	const struct change *worst = NULL;
	uint32_t slower = 0;

	for (uint32_t i = 0; i < c->change_count; i++) {
		const struct change *change = &c->change[i];

		if (change->sense != SENSE_MORE_IS_BETTER || !change->whose[0] ||
			!strcmp(change->whose, "local") || !strcmp(change->whose, "remote") ||
			change->after > PART_SLOWER * change->before)
			continue;
		if (!worst || change->score > worst->score)
			worst = change;
		slower++;
	}
	if (!worst)
		return;
	snprintf(evidence, sizeof(evidence), "%s %s was %s and is %s", worst->whose, worst->name,
		compare_text(before, worst, worst->before),
		compare_text(after, worst, worst->after));
	add_cause(c, "part",
		"Look there first: weir nic show and weir counters of that host, its cable and PCIe link.",
		slower > 1 ? "several of its parts are slower, this one the most"
			   : "one of its parts is slower, the others are not",
		evidence);
}

void compare_explain(struct compare *c)
{
	bool settings_first = true;

	/* A better or equal run needs no explanation but of what differs by intent. */
	if (c->verdict == COMPARE_SAME)
		return;
	if (c->verdict == COMPARE_WORSE || c->verdict == COMPARE_DIFFERENT) {
		for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
			/* Failures before settings, the rest after them. */
			if (settings_first && i >= 2) {
				explain_settings(c);
				explain_counters(c);
				settings_first = false;
			}
			if (rules[i].finding)
				explain_finding(c, &rules[i]);
			else
				explain_figure(c, &rules[i]);
		}
		if (c->before->document)
			explain_part(c);
	} else {
		explain_settings(c);
	}
}
