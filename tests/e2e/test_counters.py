# SPDX-License-Identifier: BSD-3-Clause
"""Faults made on real links between real hosts: what weir finds must be the fault, and nothing where there is none."""
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

import network
from weirtest import PATIENCE_S, WEIR, Process, Server, free_ports, noisy, validate, wait_for

WHY_NOT = network.missing()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=str(WHY_NOT))
needs_tun = pytest.mark.skipif(not os.path.exists("/dev/net/tun"), reason="needs /dev/net/tun")

SERVER = "10.77.1.2"


@pytest.fixture
def hosts():
    with network.Host() as client, network.Host() as server:
        yield client, server


def rules(counters):
    """What was found that is more than a note."""
    return {f["rule"] for f in counters["findings"] if f["severity"] != "note"}


def stream(hosts, *args, seconds=1.5):
    """What a stream's record says of the client's and of the server's host."""
    client, server = hosts
    with Server("stream", prefix=server.prefix) as end:
        done = end.client("-H", SERVER, "--json", "--counters", "-l", seconds, "--warmup", "0", *args, prefix=client.prefix)
    assert done.record["local"]["counters"] and done.record["remote"]["counters"], done
    for name in ("local", "remote"):
        validate(done.record[name]["counters"])
    return rules(done.record["local"]["counters"]), rules(done.record["remote"]["counters"])


class Around:
    """weir run around a command in a host: what it found."""

    def __init__(self, host, *words, folder, options=()):
        self.path = os.path.join(folder, f"record{time.monotonic_ns()}.json")
        self.process = Process(WEIR, "run", "--out", self.path, *options, "--", *words, prefix=host.prefix)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()

    def found(self):
        self.done = self.process.wait()
        with open(self.path) as file:
            self.record = json.load(file)
        validate(self.record)
        validate(self.record["counters"])
        return rules(self.record["counters"])


def python(host, code, **how):
    return subprocess.Popen([*host.prefix, sys.executable, "-c", code], **how)


@contextlib.contextmanager
def listener(host, code):
    """A Python program that prints a line once it listens."""
    with python(host, code, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


LISTEN = ("import socket, sys, time\n"
          "s = socket.create_server(('0.0.0.0', 7000), backlog={backlog})\n"
          "print('ready', flush=True)\n")
READ_ALL = LISTEN.format(backlog=8) + "c, _ = s.accept()\nwhile c.recv(1 << 20): pass\n"
SEND = ("import socket, time\n"
        "c = socket.create_connection(('10.77.1.2', 7000), timeout={patience})\n"
        "c.settimeout({patience})\n"
        "end = time.monotonic() + {seconds}\n"
        "try:\n"
        "    while time.monotonic() < end: c.send(b'x' * 65536); {pace}\n"
        "except OSError: pass\n")


def test_a_healthy_run_finds_nothing(hosts):
    network.veth(*hosts)
    for _ in range(2):
        assert stream(hosts, "-m", "200Mb") == (set(), set())


def test_a_healthy_command_finds_nothing(hosts, tmp_path):
    network.veth(*hosts)
    with listener(hosts[1], READ_ALL), \
            Around(hosts[0], sys.executable, "-c", SEND.format(patience=5, seconds=1, pace="time.sleep(0.005)"), folder=tmp_path) as run:
        assert run.found() == set()
        assert run.record["exit_status"] == 0
        # The connection was there only while the command ran.
        assert any(o["source"] == "tcp" and o["object"].endswith(">10.77.1.2:7000") for o in run.record["counters"]["objects"])


def test_a_rate_limit_on_this_host_is_named(hosts):
    device, _ = network.veth(*hosts)
    if not hosts[0].tc("qdisc", "add", "dev", device, "root", "tbf", "rate", "100mbit", "burst", "64kb", "latency", "50ms"):
        pytest.skip("this kernel has no tbf")
    client, server = stream(hosts)
    assert "shaped" in client
    assert not server & {"rx_no_room", "receive_buffer", "zero_window"}


def test_lost_packets_are_named(hosts):
    network.veth(*hosts)
    nft = shutil.which("nft")
    if not nft:
        pytest.skip("needs nftables")
    for rule in ("add table inet weir", "add chain inet weir input { type filter hook input priority 0; }",
                 "add rule inet weir input tcp dport != 22 numgen random mod 100 < 2 drop"):
        subprocess.run([*hosts[1].prefix, nft, rule], check=True, timeout=20)
    client, server = stream(hosts, "-m", "200Mb")
    assert {"retransmits", "connection_retransmits"} <= client
    assert server <= {"out_of_order"}


def test_a_closed_port_is_named(hosts, tmp_path):
    network.veth(*hosts)
    code = ("import socket\n"
            "for _ in range(5):\n"
            "    try: socket.create_connection(('10.77.1.2', 7001), timeout=5)\n"
            "    except ConnectionRefusedError: pass\n")
    with Around(hosts[0], sys.executable, "-c", code, folder=tmp_path) as run:
        assert "tcp_refused" in run.found()


@pytest.mark.skipif(not shutil.which("ping"), reason="needs ping (iputils-ping)")
def test_a_ping_that_is_answered_finds_nothing_and_one_that_is_not_is_named(hosts, tmp_path):
    def echoes(run):
        (snmp,) = [o for o in run.record["counters"]["objects"] if o["source"] == "snmp"]
        return {r["name"]: r["change"] for r in snmp["rows"] if "Echo" in r["name"]}

    network.veth(*hosts)
    with Around(hosts[0], "ping", "-c", "4", "-i", "0.2", "127.0.0.1", folder=tmp_path) as run:
        assert run.found() == set()
        assert run.done.status == 0 and "4 received" in run.done.stdout and "nothing stands out" in run.done.stderr
        assert echoes(run) == {"Icmp.OutEchos": 4, "Icmp.InEchos": 4, "Icmp.OutEchoReps": 4, "Icmp.InEchoReps": 4}
    with Around(hosts[0], "ping", "-c", "3", "-i", "0.2", "-W", "1", "10.77.1.2", folder=tmp_path) as run:
        assert run.found() == set() and run.done.status == 0
    for rule in ("add table inet weir", "add chain inet weir input { type filter hook input priority 0; }",
                 "add rule inet weir input icmp type echo-request drop"):
        subprocess.run([*hosts[1].prefix, shutil.which("nft") or pytest.skip("needs nftables"), rule], check=True, timeout=20)
    with Around(hosts[0], "ping", "-c", "3", "-i", "0.2", "-W", "1", "10.77.1.2", folder=tmp_path) as run:
        assert "ping_unanswered" in run.found() and run.done.status == 1
        assert echoes(run) == {"Icmp.OutEchos": 3}


def test_a_stopped_receiver_is_named_at_both_ends(hosts, tmp_path):
    network.veth(*hosts)

    @noisy
    def measure():
        with listener(hosts[1], READ_ALL) as reader, \
                Around(hosts[1], "sleep", "3", folder=tmp_path) as there, \
                Around(hosts[0], sys.executable, "-c", SEND.format(patience=2, seconds=2.5, pace="pass"), folder=tmp_path) as here:
            time.sleep(0.5)
            os.kill(reader.pid, signal.SIGSTOP)  # ip netns exec has become the reader
            time.sleep(1.8)
            os.kill(reader.pid, signal.SIGCONT)
            assert "receive_window_limited" in here.found()
            found = there.found()
            # What was probed for or sent again meanwhile may come out of order.
            assert found <= {"zero_window", "receive_buffer", "receive_window_limited", "out_of_order"}

    measure()


def test_a_small_receive_buffer_is_named(hosts):
    network.veth(*hosts)
    subprocess.run([*hosts[1].prefix, "sysctl", "-q", "-w", "net.ipv4.tcp_rmem=4096 8192 8192"], check=True, timeout=20)
    client, server = stream(hosts)
    assert (client | server) & {"receive_window_limited", "receive_buffer"}, (client, server)
    assert "shaped" not in client


@needs_tun
def test_reordering_is_named(hosts):
    late = []

    class Overtaking(network.Wire):
        """Every 40th packet waits until ten more have passed."""

        def _deliver(self, other, packet):
            if len(packet) > 1000:
                self.passed = getattr(self, "passed", 0) + 1
                if self.passed % 40 == 0:
                    late.append((self.passed + 10, other, packet))
                    return
            super()._deliver(other, packet)
            for held in [h for h in late if h[0] <= getattr(self, "passed", 0)]:
                late.remove(held)
                super()._deliver(held[1], held[2])

    with Overtaking(*hosts):
        client, server = stream(hosts, "-m", "60Mb", seconds=2)
    assert "out_of_order" in server
    assert "reordering" in client or "retransmits" in client


@needs_tun
def test_changed_bytes_are_named(hosts):
    class Corrupting(network.Wire):
        def _deliver(self, other, packet):
            if len(packet) > 1000 and random.random() < 0.02:
                packet = packet[:600] + bytes([packet[600] ^ 0xff]) + packet[601:]
            super()._deliver(other, packet)

    with Corrupting(*hosts):
        client, server = stream(hosts, "-m", "60Mb")
    assert "wrong_checksum" in server
    assert "retransmits" in client


@needs_tun
def test_large_packets_that_vanish_are_named(hosts, tmp_path):
    with network.Wire(*hosts, lose=lambda number, packet: len(packet) > 1200), listener(hosts[1], READ_ALL), \
            Around(hosts[0], sys.executable, "-c", SEND.format(patience=3, seconds=3, pace="pass"), folder=tmp_path) as run:
        assert "nothing_gets_through" in run.found()


def test_a_listener_that_does_not_accept_is_named(hosts, tmp_path):
    network.veth(*hosts)
    code = ("import socket\n"
            "for i in range(8):\n"
            "    try: socket.create_connection(('10.77.1.2', 7000), timeout=0.2)\n"
            "    except OSError: pass\n")
    with listener(hosts[1], LISTEN.format(backlog=1) + "time.sleep(60)\n"), \
            Around(hosts[1], "sleep", "2.5", folder=tmp_path) as there:
        time.sleep(0.5)
        python(hosts[0], code).wait(PATIENCE_S)
        assert "listen_overflow" in there.found()


def test_a_udp_reader_that_is_too_slow_is_named(hosts, tmp_path):
    network.veth(*hosts)
    code = ("import socket, time\n"
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "s.bind(('10.77.1.2', 7000)); print('ready', flush=True); time.sleep(60)\n")
    send = ("import socket\n"
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "for i in range(2000): s.sendto(b'x' * 1400, ('10.77.1.2', 7000))\n")
    with listener(hosts[1], code), Around(hosts[1], "sleep", "1.5", folder=tmp_path) as there:
        time.sleep(0.5)
        python(hosts[0], send).wait(PATIENCE_S)
        assert "udp_buffer" in there.found()


def test_a_link_that_went_down_is_named(hosts, tmp_path):
    device, _ = network.veth(*hosts)
    with Around(hosts[0], "sh", "-c", f"ip link set {device} down; sleep 0.2; ip link set {device} up; sleep 0.5", folder=tmp_path) as run:
        assert "link_flapped" in run.found()


def test_run_hands_signals_on_and_ends_as_its_command(hosts, tmp_path):
    with Around(hosts[0], sys.executable, "-c", "import signal, sys, time\n"
                "signal.signal(signal.SIGTERM, lambda *_: sys.exit(42))\nprint('ready', flush=True)\ntime.sleep(60)",
                folder=tmp_path) as run:
        wait_for("the command", lambda: "ready" in run.process.so_far().stdout)
        run.process.signal(signal.SIGTERM)
        run.found()
        assert run.done.status == 42 and run.record["exit_status"] == 42
