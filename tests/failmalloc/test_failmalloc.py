# SPDX-License-Identifier: BSD-3-Clause
"""Every allocation of either end fails once: no crash, no hang, a clear reason or a right result, the other end freed.

    FAILMALLOC_SECONDS=1200 ... test_failmalloc.py              all of them, not a sample
    FAILMALLOC_ONLY=17 ... test_failmalloc.py -k 'client and rr'    that one only

Each case has a few seconds; what does not fit is left out, spread evenly.
"""
import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest

import weirtest
from weirtest import WEIR, Server

LIBRARY = os.environ.get("FAILMALLOC")
SECONDS = float(os.environ.get("FAILMALLOC_SECONDS", "40"))
ONLY = os.environ.get("FAILMALLOC_ONLY")
HANG_S = 8  # an end that is alone now has to notice well before this
FAILURES_SHOWN = 3

RUNS = {
    "stream": ["-l", "0.05", "--warmup", "0", "-I", "0.02", "-T", "2", "-F", "3"],
    "rr": ["-l", "-60", "-T", "2", "-F", "3", "-I", "0.01", "-p", "50,99"],
    "crr": ["-l", "-20", "-T", "2", "-F", "3", "-I", "0.01"],
}
TRANSACTIONS = {"rr": 60, "crr": 20}
CASES = 2 * len(RUNS) + 1


class Injector:
    """The environment of a process whose at-th allocation fails, and what became of it.

    The machine's facts are read below an empty root: they are many allocations of the same few lines.
    """

    def __init__(self, folder):
        self.folder = folder
        self.root = folder / "root"
        self.root.mkdir()
        self.at = 0

    def env(self, at):
        self.at = at
        (self.folder / "where").unlink(missing_ok=True)
        return {"LD_PRELOAD": LIBRARY, "FAILMALLOC_AT": str(at), "FAILMALLOC_COUNT": str(self.folder / "count"),
                "FAILMALLOC_WHERE": str(self.folder / "where"), "WEIR_SYSROOT": str(self.root)}

    @property
    def count(self):
        return int((self.folder / "count").read_text())

    def __str__(self):
        path = self.folder / "where"
        if not path.exists():
            return f"call {self.at} did not come"
        return f"call {self.at} failed at\n{named(path.read_text())}"


def named(trace):
    """A backtrace with the names of functions where there is a tool for that."""
    lines = []
    for line in trace.splitlines():
        found = re.match(rf"{re.escape(WEIR)}\(\+(0x[0-9a-f]+)\)", line)
        if found and shutil.which("addr2line"):
            words = subprocess.run(["addr2line", "-fspe", WEIR, found[1]], capture_output=True, text=True, check=False)
            lines.append("  " + words.stdout.strip())
        elif not found:
            lines.append("  " + pathlib.Path(line).name)
    return "\n".join(lines[2:])


def spread(count):
    """1 to count, so that any first part of it is spread over all."""
    bits = max(1, (count - 1).bit_length())
    order = (int(format(i, f"0{bits}b")[::-1], 2) + 1 for i in range(1 << bits))
    return [n for n in order if n <= count]


def fail_each(count, attempt):
    """Call attempt(at) for as many calls as there is time for; all that went wrong is told together."""
    end = time.monotonic() + SECONDS / CASES
    failures, tried = [], 0
    for at in [int(ONLY)] if ONLY else spread(count):
        if (time.monotonic() > end and tried) or len(failures) >= FAILURES_SHOWN:
            break
        tried += 1
        try:
            attempt(at)
        except AssertionError as error:
            failures.append(str(error))
    print(f"{tried} of {count} allocations")
    assert not failures, "\n----\n".join(failures)


def judge(done, workload, injector):
    """A client that ended: by itself, and either right or with a reason. Whether it succeeded."""
    assert done.status >= 0, f"died by signal {-done.status}: {injector}\n{done}"
    assert done.status in (0, 1, 3), f"{injector}\n{done}"
    if done.status == 1:
        told = done.stderr.strip() or [f for r in done.records for f in r["findings"] if f["severity"] == "failed"]
        assert told, f"failed without a word: {injector}\n{done}"
        return False
    assert len(done.records) == 1, f"success without a record: {injector}\n{done}"
    weirtest.validate(done.record)
    counted = done.record["local"]["counts"]["transactions"]
    assert counted == TRANSACTIONS.get(workload, 0), f"{counted} transactions: {injector}\n{done}"
    return True


def await_that(condition, what, injector, *processes):
    """Like wait_for, but tells how things stand at the end of its patience."""
    end = time.monotonic() + HANG_S
    while not condition():
        if time.monotonic() > end:
            told = "\n".join(str(process.so_far())[-3000:] for process in processes)
            raise AssertionError(f"{what}: {injector}\n{told}")
        time.sleep(0.005)


@pytest.fixture
def injector(tmp_path):
    if not LIBRARY:
        pytest.skip("FAILMALLOC names no library: run me by meson test")
    return Injector(tmp_path)


@pytest.mark.parametrize("workload", RUNS)
def test_client(workload, injector):
    with Server(workload, "-T", "2") as server:
        def attempt(at):
            with server.start_client(*RUNS[workload], "--json", "--connect-timeout", "0", env=injector.env(at)) as client:
                await_that(client.ended, "the client hangs", injector, client)
                judge(client.so_far(), workload, injector)
            await_that(lambda: server.descriptors() <= server.idle_descriptors, "the server is not freed", injector, server)

        attempt(0)
        fail_each(injector.count, attempt)
        assert server.client(*RUNS[workload]).status in (0, 3)
        assert server.stop().status == 0


@pytest.mark.parametrize("workload", RUNS)
def test_server(workload, injector):
    def serve(server):
        """Clients one after the other: one may fail, the next must not."""
        failed = False
        for _ in range(2):
            with server.start_client(*RUNS[workload], "--json", "--connect-timeout", "0") as client:
                await_that(client.ended, "a client hangs", injector, client, server)
                good = judge(client.so_far(), workload, injector)
            assert good or not failed, f"the second client is not served either: {injector}\n{client.so_far()}"
            failed = not good
        if failed:
            done = server.client(*RUNS[workload], seconds=HANG_S)
            assert done.status in (0, 3), f"it is not served any more: {injector}\n{done}"

    def attempt(at):
        with Server(workload, await_listen=False, env=injector.env(at)) as server:
            await_that(lambda: server.ended() or weirtest.is_listening(server.pid, server.data),
                       "the server neither listens nor ends", injector, server)
            if server.ended():
                done = server.so_far()
                assert done.status == 1 and done.stderr.strip(), f"{injector}\n{done}"
                return
            serve(server)
            server.signal(15)
            await_that(server.ended, "the server hangs", injector, server)
            assert server.so_far().status >= 0, f"died by a signal: {injector}\n{server.so_far()}"

    attempt(0)
    fail_each(injector.count, attempt)


def test_the_facts_of_the_machine_may_be_missing(injector):
    def attempt(at):
        env = {**injector.env(at), "WEIR_SYSROOT": "/"}
        done = weirtest.run(WEIR, env=env, seconds=HANG_S)
        assert done.status >= 0, f"died by signal {-done.status}: {injector}\n{done}"
        assert done.status == 0 or done.stderr.strip(), f"failed without a word: {injector}\n{done}"

    attempt(0)
    fail_each(injector.count, attempt)
