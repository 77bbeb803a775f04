# SPDX-License-Identifier: BSD-3-Clause
"""What the system tests share: the binary under test as processes with deadlines, free ports, records read and checked.

    with Server("stream") as server:
        done = server.client("-l", "0.5", "--json")
        assert done.status == 0 and done.record["verdict"] == "good"

Every process writes into files, has a deadline and is ended by its pid. One that leaves a sanitizer's report on stderr
fails the test that started it, whatever the test looks at.
"""
import contextlib
import ctypes
import functools
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import tempfile
import time
import warnings

import jsonschema

WEIR = os.environ.get("WEIR", "weir")
ROOT = pathlib.Path(__file__).resolve().parents[1]
PATIENCE_S = 45  # for anything that ends by itself; under sanitizers on a busy machine
SANITIZER = re.compile(r"(Address|Leak|Thread|UndefinedBehavior)Sanitizer|runtime error:")


def wait_for(what, condition, seconds=PATIENCE_S):
    """What condition returns once it is true."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.01)


def noisy(test):
    """Decorates a test whose figures other programs on the machine can spoil. A fault of weir's spoils them every time:
    one good try of three will do."""
    @functools.wraps(test)
    def tried(*args, **kwargs):
        for left in (2, 1, 0):
            try:
                return test(*args, **kwargs)
            except AssertionError as failure:
                if not left:
                    raise
                warnings.warn(f"{test.__name__} is tried again: {str(failure)[:200]}")
    return tried


def own_network():
    """A loopback that nobody else has, for this process and all it starts; without root the one that is there has to do."""
    CLONE_NEWNET = 0x40000000
    if os.geteuid() == 0 and ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) == 0:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def port_is_free(port):
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind((address, port))
            except OSError:
                return False
    return True


def free_ports(count=2):
    """The first of count consecutive ports that nobody uses, below those that the kernel gives to clients."""
    for _ in range(200):
        first = random.randrange(11000, 32000)
        if all(port_is_free(port) for port in range(first, first + count)):
            return first
    raise AssertionError("no free ports")


def is_listening(pid, port):
    """Asked of the kernel: a connection to find out would be one that the server has to account for."""
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError):
            for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                    return True
    return False


SCHEMAS = sorted("weir/" + "/".join(path.stem.rsplit("-", 1)) for path in (ROOT / "schema").glob("*.json"))


def schema_path(name):
    """Of "weir/run/1"."""
    _, kind, version = name.split("/")
    return ROOT / "schema" / f"{kind}-{version}.json"


@functools.lru_cache(None)
def validator(name):
    schema = json.loads(schema_path(name).read_text())
    return jsonschema.validators.validator_for(schema)(schema)


def validate(document):
    """Against the schema that the document names."""
    validator(document["schema"]).validate(document)


class Done:
    """A process that has ended, or what one that still runs has printed until now."""

    def __init__(self, status, stdout, stderr, seconds):
        self.status, self.stdout, self.stderr, self.seconds = status, stdout, stderr, seconds

    def __repr__(self):
        return f"status {self.status} after {self.seconds:.1f} s\n--- stdout\n{self.stdout[-3000:]}\n--- stderr\n{self.stderr}"

    @property
    def lines(self):
        return self.stdout.splitlines()

    @property
    def documents(self):
        return [json.loads(line) for line in self.stdout.splitlines(keepends=True) if line.endswith("\n")]

    @property
    def events(self):
        return [d for d in self.documents if d["schema"] == "weir/event/1"]

    @property
    def records(self):
        return [d for d in self.documents if d["schema"] == "weir/run/1"]

    @property
    def record(self):
        records = self.records
        assert len(records) == 1, self
        return records[0]

    @property
    def kv(self):
        """key=value lines; iostat's lines are not among them."""
        return dict(line.split("=", 1) for line in self.lines if re.match(r"\w+(\.\d+)?=", line) and not line.startswith("t="))


class Process:
    def __init__(self, *words, env=None, cwd=None, stdout=None, prefix=(), **popen):
        self.words = [str(w) for w in words]
        self.out = tempfile.TemporaryFile("w+b")
        self.err = tempfile.TemporaryFile("w+b")
        self.skip = 0  # bytes of stdout that so_far() leaves out
        self.began = time.monotonic()
        self.popen = subprocess.Popen(
            [*prefix, *self.words], stdin=subprocess.DEVNULL, stdout=self.out if stdout is None else stdout, stderr=self.err,
            env={**os.environ, **(env or {})}, cwd=cwd, **popen)
        self.pid = self.popen.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.so_far()

    @staticmethod
    def _text(file, skip=0):
        # pread() leaves the offset alone, which the process shares.
        return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, skip).decode(errors="replace")

    def forget(self):
        """What was printed until now is not looked at again."""
        self.skip = os.fstat(self.out.fileno()).st_size

    def so_far(self):
        stderr = self._text(self.err)
        report = SANITIZER.search(stderr)
        assert not report, f"{' '.join(self.words)}:\n{stderr}"
        return Done(self.popen.returncode, self._text(self.out, self.skip), stderr, time.monotonic() - self.began)

    def ended(self):
        return self.popen.poll() is not None

    def wait(self, seconds=PATIENCE_S):
        try:
            self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{' '.join(self.words)} did not end within {seconds} s\n{self.so_far()}") from None
        return self.so_far()

    def signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        if not self.ended():
            self.popen.kill()
            self.popen.wait(10)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(*words, seconds=PATIENCE_S, **how):
    """Any program, to its end."""
    with Process(*words, **how) as process:
        return process.wait(seconds)


def weir(*words, **how):
    return run(WEIR, *words, **how)


def link(folder, name):
    """weir under one of neper's names."""
    path = pathlib.Path(folder) / name
    if not path.is_symlink():
        path.symlink_to(WEIR)
    return str(path)


class Server(Process):
    """A server on ports of its own, listening when the constructor returns.

    program: the words that start it where it is not weir, for example a link of neper's name.
    """

    def __init__(self, workload, *args, ports=1, program=None, prefix=(), await_listen=True, **how):
        self.workload = workload
        self.prefix = list(prefix)
        self.control = free_ports(ports + 1)
        self.data = self.control + 1
        self.at = ["-C", self.control, "-P", self.data]
        words = program or [WEIR, workload]
        super().__init__(*words, *self.at, *args, prefix=prefix, **how)
        if await_listen:
            wait_for(f"{words} to listen", self._is_ready)
            self.idle_descriptors = self.descriptors()

    def _is_ready(self):
        assert not self.ended(), self.so_far()
        return is_listening(self.pid, self.data) and is_listening(self.pid, self.control)

    def start_client(self, *args, program=None, **how):
        words = program or [WEIR, self.workload]
        return Process(*words, "-c", *self.at, *args, **how)

    def client(self, *args, seconds=PATIENCE_S, **how):
        with self.start_client(*args, **how) as process:
            return process.wait(seconds)

    def records(self, count=1, seconds=PATIENCE_S):
        """Wait until the server has printed so many records."""
        wait_for(f"{count} records from the server", lambda: len(self.so_far().records) >= count, seconds)
        return self.so_far().records

    def stop(self, seconds=PATIENCE_S):
        self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def settle(self, seconds=5, extra=0):
        """All descriptors that sessions had are given back; extra: those that workers started meanwhile keep."""
        wait_for(f"the server's descriptors to return to {self.idle_descriptors} (+{extra}): {self.open_files()}",
                 lambda: self.descriptors() <= self.idle_descriptors + extra, seconds)

    def open_files(self):
        folder = pathlib.Path(f"/proc/{self.pid}/fd")
        names = []
        for entry in folder.iterdir():
            with contextlib.suppress(OSError):
                names.append(os.readlink(entry))
        return sorted(names)


MEASURED = (0, 3)  # a run that is complete; 3: on a busy machine its rate may be doubtful


def measured(done):
    """The record of a client's run that is complete. On a busy machine its rate may be doubtful: that is said, not wrong."""
    record = done.record
    validate(record)
    assert record["verdict"] in ("good", "doubtful"), (record["findings"], done)
    assert done.status == {"good": 0, "doubtful": 3}[record["verdict"]], done
    return record


def findings(record, name=None):
    return [f["text"] for f in record["findings"] if name in (None, f["name"])]
