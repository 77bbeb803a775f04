# SPDX-License-Identifier: BSD-3-Clause
"""What bench/stream and bench/rr share: options, interleaving, ratios, the table, the verdicts.

    bench = Bench("stream", options, scratch)
    case = {"flows": 8, "buffer": "16 KiB"}
    bench.repeat(case, job, server_cpu=0, client_cpu=1)
    bench.ratios(case, "weir", "neper", "bytes_per_s")    # one per repetition
    bench.judge(case, "bytes/s >= neper's", ["neper"], "bytes_per_s", at_least=1.0)
    sys.exit(bench.status())
"""
import argparse
import dataclasses
import json
import os
import pathlib
import platform
import shutil
import statistics
import sys
import time

import peers

REACHED, NOT_REACHED, NOT_MEASURED = "reached", "NOT reached", "not measured"


# Options


def number_list(text):
    numbers = [int(part) for part in text.split(",")]
    if min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text}: each must be at least 1")
    return numbers


def positive(text):
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be at least 1")
    return int(text)


def parser(name, description, flows):
    p = argparse.ArgumentParser(
        prog=f"bench/{name}", description=description,
        epilog="WEIR names the program under test (default: build/src/cmd/weir), NEPER_DIR the "
               "directory of neper's binaries. Exit status: 0 all targets reached, 1 some not, "
               "2 some not measured.")
    p.add_argument("--reps", type=positive, help="repetitions of each tool (default 5)")
    p.add_argument("--seconds", type=positive, help="length of one run (default 3)")
    p.add_argument("--quick", action="store_true",
                   help="2 repetitions of 1 s: to see that it works, not to judge")
    p.add_argument("--flows", type=number_list, default=flows, metavar="LIST",
                   help=f"default {','.join(map(str, flows))}")
    p.add_argument("--server-cpu", type=int, metavar="CPU", help="default: the first allowed CPU")
    p.add_argument("--client-cpu", type=int, metavar="CPU", help="default: the second allowed CPU")
    p.add_argument("--cross", action="store_true",
                   help="also weir's client with neper's server (weir>neper), and the reverse")
    p.add_argument("--json", metavar="FILE", help="write every raw result and the machine's facts")
    return p


def parse_options(p):
    options = p.parse_args()
    options.reps = options.reps or (2 if options.quick else 5)
    options.seconds = options.seconds or (1 if options.quick else 3)
    allowed = sorted(os.sched_getaffinity(0))
    if options.server_cpu is None:
        options.server_cpu = next((cpu for cpu in allowed if cpu != options.client_cpu), allowed[0])
    if options.client_cpu is None:
        options.client_cpu = next((cpu for cpu in allowed if cpu != options.server_cpu), None)
    for cpu in (options.server_cpu, options.client_cpu):
        if cpu is not None and cpu not in allowed:
            p.error(f"CPU {cpu} is not allowed here; allowed: {','.join(map(str, allowed))}")
    if options.json and not pathlib.Path(options.json).absolute().parent.is_dir():
        p.error(f"--json {options.json}: there is no such directory")
    return options


# The machine


def read(path):
    try:
        return pathlib.Path(path).read_text().strip()
    except OSError:
        return None


def machine_facts():
    cpuinfo = (read("/proc/cpuinfo") or "").splitlines()
    fields = dict(map(str.strip, line.split(":", 1)) for line in cpuinfo if ":" in line)
    return {
        "cpu": fields.get("model name") or platform.processor() or platform.machine(),
        "cpus_allowed": sorted(os.sched_getaffinity(0)),
        "hypervisor": "hypervisor" in fields.get("flags", "").split(),
        "kernel": platform.release(),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "load_average": os.getloadavg(),
        "congestion_control": read("/proc/sys/net/ipv4/tcp_congestion_control"),
        "tcp_rmem": read("/proc/sys/net/ipv4/tcp_rmem"),
        "tcp_wmem": read("/proc/sys/net/ipv4/tcp_wmem"),
    }


def cpu_seconds(cpus):
    """(busy, stolen by the hypervisor) so far, over these CPUs, whoever used them."""
    busy = stolen = 0
    for line in (read("/proc/stat") or "").splitlines():
        name, *ticks = line.split()
        if name in {f"cpu{cpu}" for cpu in cpus}:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, ticks[:8])
            busy += user + nice + system + irq + softirq
            stolen += steal
    hz = os.sysconf("SC_CLK_TCK")
    return busy / hz, stolen / hz


# Measuring


@dataclasses.dataclass
class Verdict:
    target: str
    state: str
    detail: str

    def __str__(self):
        return f"{self.target}: {self.detail}, {self.state}"


class Bench:
    """All results of one invocation. A case is a dict of what varies (flows, buffer, placement)."""

    def __init__(self, name, options, scratch):
        self.name = name
        self.options = options
        self.scratch = scratch
        self.machine = machine_facts()
        self.runs = []  # {"case", "tool", "repetition", and a result or "error"}
        self.verdicts = []
        self.pairs, self.skipped = peers.find_pairs(name, options.cross, scratch)
        for pair in self.pairs:
            for flows in options.flows:
                if flows > pair.max_flows:
                    self.skipped[f"{pair.name} with {flows} flows"] = f"it can do {pair.max_flows}"
        self.versions = {pair.name: pair.server.version() for pair in self.pairs
                         if pair.name not in peers.CROSS}

    def print_heading(self):
        facts, options = self.machine, self.options
        virtual = " (virtual)" if facts["hypervisor"] else ""
        print(f"{self.name}: loopback, one thread per end, "
              f"{options.reps} x {options.seconds} s, interleaved")
        print(f"machine: {facts['cpu']}{virtual}, kernel {facts['kernel']}, "
              f"governor {facts['governor'] or 'unknown'}, {facts['congestion_control']}, "
              f"load {facts['load_average'][0]:.2f}")
        print("tools: " + "; ".join(f"{name}: {text}" for name, text in self.versions.items()))
        for name, why in self.skipped.items():
            print(f"skipped: {name}: {why}")
        print(flush=True)

    def repeat(self, case, job, server_cpu, client_cpu):
        """Every tool that can do the job: all of repetition 1, then all of repetition 2, each round
        beginning with another tool, so that a slow minute of the machine hits all alike."""
        pairs = [pair for pair in self.pairs if pair.can(job)]
        for repetition in range(self.options.reps):
            first = repetition % len(pairs) if pairs else 0
            for pair in pairs[first:] + pairs[:first]:
                self.progress(f"{describe(case)}: {pair.name}, "
                              f"{repetition + 1} of {self.options.reps}")
                self.run_once(case, pair, job, repetition, server_cpu, client_cpu)
        self.progress("")

    def run_once(self, case, pair, job, repetition, server_cpu, client_cpu):
        run = {"case": case, "tool": pair.name, "repetition": repetition}
        cpus = {server_cpu, client_cpu}
        begin, before = time.monotonic(), cpu_seconds(cpus)
        try:
            run.update(peers.run_pair(pair, job, server_cpu, client_cpu, self.scratch))
            if job.workload == "stream":
                unit, scale, count = "ns_per_byte", 1e9, run["bytes"]
            else:
                unit, scale, count = "us_per_transaction", 1e6, run["transactions"]
            run[f"user_{unit}"] = run["cpu_user_s"] * scale / count
            run[f"kernel_{unit}"] = run["cpu_kernel_s"] * scale / count
            run[f"cpu_{unit}"] = run[f"user_{unit}"] + run[f"kernel_{unit}"]
            busy, stolen = (after - earlier for after, earlier in zip(cpu_seconds(cpus), before))
            run["pinned_cpus_s"] = (time.monotonic() - begin) * len(cpus)
            run["others_cpu_s"] = max(0.0, busy - run["cpu_user_s"] - run["cpu_kernel_s"])
            run["stolen_s"] = stolen
        except peers.Failed as error:
            run["error"] = str(error)
        self.runs.append(run)
        return run

    @staticmethod
    def progress(text):
        if sys.stderr.isatty():
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    # Reading the results

    def values(self, case, tool, key):
        """{repetition: value} of the runs that gave one."""
        return {run["repetition"]: run[key] for run in self.runs
                if run["case"] == case and run["tool"] == tool and run.get(key) is not None}

    def errors(self, case, tool):
        return [run["error"] for run in self.runs
                if run["case"] == case and run["tool"] == tool and "error" in run]

    def ratios(self, case, tool, other, key):
        """tool / other, one per repetition in which both gave a figure."""
        ours, theirs = self.values(case, tool, key), self.values(case, other, key)
        return [ours[repetition] / theirs[repetition] for repetition in ours
                if theirs.get(repetition, 0) > 0]

    def median(self, case, tool, key):
        values = self.values(case, tool, key).values()
        return statistics.median(values) if values else None

    def tools(self, case):
        """The tools that ran this case, in the order of the table."""
        ran = {run["tool"] for run in self.runs if run["case"] == case}
        return [pair.name for pair in self.pairs if pair.name in ran]

    def print_failures(self):
        for run in self.runs:
            if "error" in run:
                print(f"failed: {describe(run['case'])}, {run['tool']}, "
                      f"repetition {run['repetition'] + 1}: {run['error']}")

    def print_disturbance(self):
        """How much of the CPUs we measured on others took meanwhile: what the spread comes from."""
        runs = [run for run in self.runs if "pinned_cpus_s" in run]
        total = sum(run["pinned_cpus_s"] for run in runs)
        if total:
            others = sum(run["others_cpu_s"] for run in runs) / total
            stolen = sum(run["stolen_s"] for run in runs) / total
            print(f"disturbance: of the CPUs measured on, other processes took {others:.0%}, "
                  f"the hypervisor {stolen:.0%}")

    # Judging

    def judge(self, case, target, peer_names, key, at_least=None, at_most=None):
        """Weir against each peer of the list: the one it does worst against decides.

        A target counts as measured only if weir gave a figure in every repetition."""
        target = f"{describe(case)}: {target}"
        if not self.values(case, "weir", key):
            why = "weir skipped" if "weir" in self.skipped else "weir failed"
            return self.add(target, NOT_MEASURED, why)
        if self.errors(case, "weir"):
            return self.add(target, NOT_MEASURED, "weir failed in some repetitions")
        compared = {name: self.ratios(case, "weir", name, key) for name in peer_names}
        compared = {name: ratios for name, ratios in compared.items() if ratios}
        missing = [name for name in peer_names if name not in compared]
        if not compared:
            return self.add(target, NOT_MEASURED, f"no figure of {' or '.join(missing)}")

        worst = min if at_least is not None else max
        name = worst(compared, key=lambda peer: statistics.median(compared[peer]))
        ratios = compared[name]
        median = round(statistics.median(ratios), 2)
        reached = median >= at_least if at_least is not None else median <= at_most
        detail = f"{median:.2f} x {name} ({min(ratios):.2f}..{max(ratios):.2f})"
        if missing:
            detail += f" without {', '.join(missing)}"
        return self.add(target, REACHED if reached else NOT_REACHED, detail)

    def add(self, target, state, detail):
        self.verdicts.append(Verdict(target, state, detail))

    def print_verdicts(self):
        print("targets:")
        for verdict in self.verdicts:
            print(f"  {verdict}")
        if self.options.quick:
            print("  (--quick: too short to judge by)")

    def status(self):
        states = {verdict.state for verdict in self.verdicts}
        if NOT_REACHED in states:
            return 1
        return 2 if NOT_MEASURED in states or not states else 0

    def write_json(self):
        if not self.options.json:
            return
        record = {
            "bench": self.name, "options": vars(self.options), "machine": self.machine,
            "load_average_after": os.getloadavg(),
            "versions": self.versions, "skipped": self.skipped, "runs": self.runs,
            "verdicts": [dataclasses.asdict(verdict) for verdict in self.verdicts],
        }
        pathlib.Path(self.options.json).write_text(json.dumps(record, indent=1) + "\n")


# Printing


def describe(case):
    parts = []
    for key, value in case.items():
        if key == "flows":
            parts.append(f"{value:,} flow{'s' if value > 1 else ''}")
        else:
            parts.append(str(value))
    return ", ".join(parts)


def spread(values, scale=1.0, digits=1):
    if not values:
        return "-"
    return f"{min(values) * scale:.{digits}f}..{max(values) * scale:.{digits}f}"


def figure(value, scale=1.0, digits=1):
    return "-" if value is None else f"{value * scale:.{digits}f}"


def ratio(ratios):
    return f"{statistics.median(ratios):.2f}" if ratios else "-"


def print_table(heading, rows, left=()):
    """Aligned columns: those named in left to the left, figures to the right."""
    widths = [max(len(row[i]) for row in [heading, *rows]) for i in range(len(heading))]
    for row in [heading, *rows]:
        cells = [cell.ljust(width) if name in left else cell.rjust(width)
                 for name, cell, width in zip(heading, row, widths)]
        print("  ".join(cells).rstrip())
    print()


def main(name, measure, options):
    """Run measure(bench) with everything cleaned up, whatever happens; the exit status."""
    peers.exit_on_signals()
    for program in ("taskset", "setpriv"):
        if shutil.which(program) is None:
            print(f"bench/{name}: no {program} in PATH: it is in the package util-linux",
                  file=sys.stderr)
            return 2
    with peers.Scratch() as scratch:
        bench = Bench(name, options, scratch)
        try:
            bench.print_heading()
            measure(bench)
        except KeyboardInterrupt:
            print(f"bench/{name}: interrupted", file=sys.stderr)
            return 130
        except (peers.Failed, OSError) as error:
            print(f"bench/{name}: cannot measure: {error}", file=sys.stderr)
            return 2
        finally:
            peers.kill_children()
            bench.write_json()
        return bench.status()
