# SPDX-License-Identifier: BSD-3-Clause
"""The tools that bench/ compares: how each is found, started, pinned, stopped and read.

    job = Job("stream", flows=8, seconds=3, buffer_bytes=16384)
    with Scratch() as scratch:
        pairs, skipped = find_pairs("stream", cross=False, scratch=scratch)
        result = run_pair(pairs[0], job, server_cpu=0, client_cpu=1, scratch=scratch)
    result["bytes_per_s"], result["cpu_user_s"], result["cpu_kernel_s"]

A pair is a server and a client; usually both are the same tool. CPU time is what the kernel says
about the two processes when they are reaped (wait4), so it is counted alike for every tool. A run
that fails or outlives its deadline raises Failed, and leaves no process behind.
"""
import atexit
import dataclasses
import json
import os
import pathlib
import random
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time

HOST = "127.0.0.1"
PORTS = range(20000, 30000)
LISTEN_S = 10  # a server that does not listen by then never will
GRACE_S = 20  # what a run may take beyond its own length: connecting, reporting, a busy machine
TCP_LISTEN = "0A"
CROSS = ("weir>neper", "neper>weir")  # client>server
SOCKPERF_BYTES = 14  # its smallest message: the header it must carry


class Failed(Exception):
    """A run gave no figure; the text says which tool and why."""


# Processes


class Scratch(tempfile.TemporaryDirectory):
    """A directory for what the tools print or drop; children get it as working directory."""

    def __enter__(self):
        return pathlib.Path(super().__enter__())


@dataclasses.dataclass
class Exit:
    status: int  # exit status, or minus the signal
    user_s: float
    kernel_s: float


class Child:
    """One process, pinned to cpu if given. A pinned one dies with us, even if we are killed."""

    alive = {}

    def __init__(self, argv, scratch, name, cpu=None):
        self.argv = list(argv)
        self.name = name
        self.stdout_path = scratch / f"{name}.out"
        self.stderr_path = scratch / f"{name}.err"
        pinned = []
        if cpu is not None:
            pinned = ["setpriv", "--pdeathsig", "KILL", "taskset", "-c", str(cpu)]
        with open(self.stdout_path, "wb") as out, open(self.stderr_path, "wb") as err:
            self.process = subprocess.Popen(
                pinned + self.argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=scratch)
        self.pid = self.process.pid
        self.pidfd = os.pidfd_open(self.pid)
        self.exit = None
        Child.alive[self.pid] = self

    def wait(self, timeout_s):
        """The Exit, or None when the process still runs after timeout_s."""
        if self.exit is None:
            poller = select.poll()
            poller.register(self.pidfd, select.POLLIN)
            if poller.poll(max(0, timeout_s) * 1000):
                self.reap()
        return self.exit

    def reap(self):
        _, wait_status, usage = os.wait4(self.pid, 0)
        status = os.waitstatus_to_exitcode(wait_status)
        self.process.returncode = status  # so that Popen does not look for it
        self.exit = Exit(status, usage.ru_utime, usage.ru_stime)
        os.close(self.pidfd)
        del Child.alive[self.pid]

    def signal(self, number):
        if self.exit is None:
            signal.pidfd_send_signal(self.pidfd, number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.wait(GRACE_S)

    def stdout(self):
        return self.stdout_path.read_text(errors="replace")

    def complaint(self):
        """The last thing it said on stderr, else on stdout: for error messages."""
        text = self.stderr_path.read_text(errors="replace").strip() or self.stdout().strip()
        return text.splitlines()[-1] if text else "it printed nothing"


def kill_children():
    for child in list(Child.alive.values()):
        child.kill()


def exit_on_signals():
    """Make SIGTERM and SIGHUP leave through the usual exit, where children are killed."""
    def leave(number, _frame):
        raise SystemExit(128 + number)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


atexit.register(kill_children)


# Ports


def local_ports(state=None):
    """Local TCP ports in use, in any state or in one."""
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = pathlib.Path(table).read_text().splitlines()[1:]
        except FileNotFoundError:
            continue
        for line in lines:
            fields = line.split()
            if state is None or fields[3] == state:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


_ports_taken = set()


def fresh_ports(count):
    """Ports that nobody uses and no earlier run used: nothing lingers from run to run."""
    free = sorted(set(PORTS) - _ports_taken - local_ports())
    if len(free) < count:
        raise Failed(f"no {count} free ports in {PORTS.start}-{PORTS.stop - 1}")
    chosen = random.sample(free, count)
    _ports_taken.update(chosen)
    return chosen


def wait_listening(server, port):
    deadline = time.monotonic() + LISTEN_S
    while port not in local_ports(TCP_LISTEN):
        if server.wait(0.005):
            raise Failed(f"{server.name} ended before it listened: {server.complaint()}")
        if time.monotonic() > deadline:
            raise Failed(f"{server.name} did not listen on port {port} within {LISTEN_S} s")


# Tools


@dataclasses.dataclass
class Job:
    workload: str  # "stream" or "rr"
    flows: int
    seconds: int
    buffer_bytes: int = 0  # stream only

    def flags(self):
        """The flags that neper and weir share; both ends get the same."""
        flags = ["-T1", f"-F{self.flows}", f"-l{self.seconds}"]
        if self.workload == "stream":
            return flags + [f"-B{self.buffer_bytes}"]
        return flags + ["-Q1", "-R1", "-p", "50,99"]


def parse_pairs(text):
    """key=value lines, as neper and weir print them; other lines are passed over."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def parse_stream(text):
    """A reading side's own bytes over its own time, from neper's keys."""
    keys = parse_pairs(text)
    if keys.get("throughput_units", "Mbit/s") != "Mbit/s":
        raise ValueError(f"throughput in {keys['throughput_units']}, not Mbit/s")
    bytes_per_s = float(keys["throughput"]) * 1e6 / 8
    seconds = float(keys["time_end"]) - float(keys["time_start"])
    return {"bytes_per_s": bytes_per_s, "bytes": bytes_per_s * seconds, "seconds": seconds}


def parse_rr(text):
    """A client's transactions and round trips, from neper's keys."""
    keys = parse_pairs(text)
    rate = float(keys["throughput"])
    seconds = float(keys["time_end"]) - float(keys["time_start"])
    return {
        "transactions_per_s": rate, "transactions": rate * seconds, "seconds": seconds,
        "p50_us": float(keys["latency_p50"]) * 1e6, "p99_us": float(keys["latency_p99"]) * 1e6,
    }


class Neper:
    """tcp_stream or tcp_rr at a path: neper's binary, or a link of that name to weir."""

    server_stays = False

    def __init__(self, path):
        self.path = path

    def version(self):
        return first_line([self.path, "--nolog", "-v"])

    def server(self, job, control, data):
        return [self.path, "--nolog", *job.flags(), "-H", HOST, "-C", str(control), "-P", str(data)]

    def client(self, job, control, data):
        return [*self.server(job, control, data), "-c"]

    stream_result = staticmethod(parse_stream)
    rr_result = staticmethod(parse_rr)


class Weir:
    server_stays = False

    def __init__(self, path, *extra):
        self.path = path
        self.extra = extra

    def version(self):
        return first_line([self.path, "--version"])

    def command(self, job, control, data):
        return [self.path, job.workload, "--format=kv", "--warmup", "0", *job.flags(), *self.extra,
                "-H", HOST, "-C", str(control), "-P", str(data)]

    def server(self, job, control, data):
        return [*self.command(job, control, data), "--once"]

    def client(self, job, control, data):
        return [*self.command(job, control, data), "-c"]

    stream_result = staticmethod(parse_stream)
    rr_result = staticmethod(parse_rr)


class Iperf3:
    """One thread for all flows up to 3.15, one per flow from 3.16 on; on one CPU either way."""

    server_stays = False

    def __init__(self, path):
        self.path = path

    def version(self):
        return first_line([self.path, "--version"])

    def server(self, _job, control, _data):
        return [self.path, "-s", "-1", "-J", "-B", HOST, "-p", str(control)]

    def client(self, job, control, _data):
        return [self.path, "-c", HOST, "-p", str(control), "-J", "-t", str(job.seconds),
                "-P", str(job.flows), "-l", str(job.buffer_bytes)]

    @staticmethod
    def stream_result(text):
        report = json.loads(text)
        if "error" in report:  # with -J the exit status is 0 all the same
            raise ValueError(report["error"])
        received = report["end"]["sum_received"]
        return {"bytes_per_s": received["bytes"] / received["seconds"],
                "bytes": received["bytes"], "seconds": received["seconds"]}


class Sockperf:
    """Ping-pong on one connection. Reports half round trips, and leaves out 0.45 s of its time."""

    server_stays = True

    def __init__(self, path):
        self.path = path

    def version(self):
        return first_line([self.path, "--version"])

    def server(self, _job, control, _data):
        return [self.path, "server", "--tcp", "-i", HOST, "-p", str(control)]

    def client(self, job, control, _data):
        return [self.path, "ping-pong", "--tcp", "-i", HOST, "-p", str(control),
                "-m", str(SOCKPERF_BYTES), "-t", str(job.seconds)]

    @staticmethod
    def rr_result(text):
        def figure(pattern):
            found = re.search(pattern, text)
            if not found:
                raise ValueError(f"no {pattern!r} in its output")
            return float(found.group(1))
        seconds = figure(r"\[Valid Duration\] RunTime=([\d.]+)")
        received = figure(r"\[Valid Duration\].*ReceivedMessages=(\d+)")
        return {
            "transactions_per_s": received / seconds, "seconds": seconds,
            # CPU time is spent on all of them, not only on those in the valid time.
            "transactions": figure(r"\[Total Run\].*ReceivedMessages=(\d+)"),
            "p50_us": 2 * figure(r"percentile 50\.000 =\s*([\d.]+)"),
            "p99_us": 2 * figure(r"percentile 99\.000 =\s*([\d.]+)"),
        }


def first_line(argv):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LISTEN_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown: {error}"
    return (done.stdout + done.stderr).strip().partition("\n")[0]


# Pairs


@dataclasses.dataclass
class Pair:
    name: str
    server: object
    client: object
    max_flows: int = 1 << 16

    def can(self, job):
        return job.flows <= self.max_flows


def find_weir():
    """(path, None), or (None, why not)."""
    repository = pathlib.Path(__file__).resolve().parent.parent
    path = pathlib.Path(os.environ.get("WEIR") or repository / "build/src/cmd/weir").absolute()
    if os.access(path, os.X_OK) and path.is_file():
        return str(path), None
    return None, f"no program at {path}: build it, or name it in WEIR"


def find_neper(program):
    directory = os.environ.get("NEPER_DIR")
    if not directory:
        return None, "NEPER_DIR is not set: it names the directory of neper's binaries"
    path = pathlib.Path(directory).absolute() / program
    if os.access(path, os.X_OK) and path.is_file():
        return str(path), None
    return None, f"no program at {path}"


def find_pairs(workload, cross, scratch):
    """The pairs to run, weir first, and {name: why} for those that cannot be."""
    pairs, skipped = [], {}
    program = f"tcp_{workload}"
    weir, why_weir = find_weir()
    neper, why_neper = find_neper(program)
    if weir:
        pairs.append(Pair("weir", Weir(weir), Weir(weir)))
        # How it fares when it waits as neper does.
        plain = ("--rx-coalesce", "0") if workload == "stream" else ("--spin", "0")
        pairs.append(Pair("weir plain", Weir(weir, *plain), Weir(weir, *plain)))
    else:
        skipped["weir"] = why_weir
    if neper:
        pairs.append(Pair("neper", Neper(neper), Neper(neper)))
    else:
        skipped["neper"] = why_neper

    name, tool = ("iperf3", Iperf3) if workload == "stream" else ("sockperf", Sockperf)
    path = shutil.which(name)
    if path:
        pairs.append(Pair(name, tool(path), tool(path), max_flows=1 if workload == "rr" else 128))
    else:
        skipped[name] = f"no {name} in PATH: it is the Debian package of that name"

    if cross and weir and neper:
        link = scratch / program  # under this name weir takes neper's flags and speaks its protocol
        link.symlink_to(weir)
        pairs.append(Pair(CROSS[0], client=Neper(str(link)), server=Neper(neper)))
        pairs.append(Pair(CROSS[1], client=Neper(neper), server=Neper(str(link))))
    elif cross:
        skipped[", ".join(CROSS)] = "needs both weir and neper"
    return pairs, skipped


def run_pair(pair, job, server_cpu, client_cpu, scratch):
    """Run it once: the figures of the side that measures, CPU seconds of both, the commands."""
    control, data = fresh_ports(2)
    server = Child(pair.server.server(job, control, data), scratch, "server", server_cpu)
    try:
        wait_listening(server, control)
        client = Child(pair.client.client(job, control, data), scratch, "client", client_cpu)
        finish(client, job.seconds + GRACE_S, server)
        if pair.server.server_stays:
            server.signal(signal.SIGINT)
        finish(server, GRACE_S)
    finally:
        kill_children()

    try:
        if job.workload == "stream":
            result = pair.server.stream_result(server.stdout())
        else:
            result = pair.client.rr_result(client.stdout())
    except (KeyError, ValueError) as error:
        raise Failed(f"{pair.name}: cannot read its result: {error}") from error
    if not result["bytes" if job.workload == "stream" else "transactions"] > 0:
        raise Failed(f"{pair.name}: it moved nothing")
    return {
        **result,
        "cpu_user_s": server.exit.user_s + client.exit.user_s,
        "cpu_kernel_s": server.exit.kernel_s + client.exit.kernel_s,
        "server_cpu": server_cpu, "client_cpu": client_cpu,
        "server_command": server.argv, "client_command": client.argv,
    }


WEIR_DOUBTFUL = 3  # measured, but not steady: here the repetitions decide what is noise


def finish(child, timeout_s, other=None):
    """Wait for an orderly end; say what the other side said where that one failed first."""
    ended = child.wait(timeout_s)
    if ended and ended.status in (0, WEIR_DOUBTFUL):
        return
    what = f"ended with status {ended.status}" if ended else f"did not end within {timeout_s} s"
    message = f"{child.name} {what}: {child.complaint()}"
    if other and other.wait(0) and other.exit.status:
        message += f"; {other.name} ended with status {other.exit.status}: {other.complaint()}"
    raise Failed(message)
