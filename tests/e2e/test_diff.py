# SPDX-License-Identifier: BSD-3-Clause
"""weir diff on real runs: a healthy one and ones with a fault that the test made. It names the fault, and none where there is none."""
import json
import os
import signal
import subprocess
import sys
import time

import pytest

import network
from weirtest import Server, validate, wait_for, weir

WHY_NOT = network.missing()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=str(WHY_NOT))

SERVER = "10.77.1.2"
USUAL = ("-l", "2", "-F", "2", "--warmup", "0.5", "--interval", "0.1")
PACED = ("-m", "15M")  # the same on any machine


@pytest.fixture
def hosts():
    with network.Host() as client, network.Host() as server:
        client.device, server.device = network.veth(client, server)
        yield client, server


def record(hosts, path, *args, meanwhile=None):
    """meanwhile(end, process) is called while the measured time runs."""
    args = args or PACED
    client, server = hosts
    with Server("stream", prefix=server.prefix) as end:
        with end.start_client("-H", SERVER, *USUAL, *args, "--json", "--out", path, prefix=client.prefix) as process:
            if meanwhile:
                wait_for("the first interval", lambda: process.ended() or any(e["event"] == "interval" for e in process.so_far().events))
                meanwhile(end, process)
            done = process.wait()
    assert path.exists(), done
    return path


_healthy = {}


@pytest.fixture(name="healthy")
def fixture_healthy(hosts, tmp_path_factory):
    """A run without a fault, to be asked for before the fault is made; one serves all tests with the same options."""
    def run(*args):
        if args not in _healthy:
            _healthy[args] = record(hosts, tmp_path_factory.mktemp("healthy") / "run.json", *args)
        return _healthy[args]
    return run


def compare(first, second, *args):
    done = weir("diff", first, second, "--json", *args)
    document = json.loads(done.stdout)
    validate(document)
    assert done.status == (0 if document["verdict"] == "same" else 1), done
    return document


def causes(document):
    return [cause["name"] for cause in document["causes"]]


def test_two_healthy_runs_do_not_differ(hosts, tmp_path):
    document = compare(record(hosts, tmp_path / "a.json"), record(hosts, tmp_path / "b.json"))
    # On a machine that others keep busy a run may have waited for its CPUs: that is no fault, and said.
    assert set(causes(document)) <= {"crowded"}, document
    assert document["compared"] > 10


def test_lost_packets_are_named(hosts, healthy, tmp_path):
    first = healthy()
    rules = "table inet t { chain c { type filter hook input priority 0; meta length > 500 numgen random mod 50 == 0 drop; }; }"
    if subprocess.run([*hosts[1].prefix, "nft", rules], check=False, capture_output=True, timeout=20).returncode:
        pytest.skip("this kernel has no nft")
    document = compare(first, record(hosts, tmp_path / "b.json"))
    assert causes(document)[0] == "loss", document
    assert "retransmitted" in [change["name"] for change in document["changes"]]


def limit(host):
    if not host.tc("qdisc", "add", "dev", host.device, "root", "tbf", "rate", "100mbit", "burst", "32kb", "latency", "200ms"):
        pytest.skip("this kernel has no tbf")


def test_a_slow_link_is_named_by_its_queue(hosts, healthy, tmp_path):
    first = healthy()
    limit(hosts[0])
    document = compare(first, record(hosts, tmp_path / "b.json"))
    assert document["verdict"] != "same"
    assert "queue" in causes(document), document


def test_a_rate_limit_is_named_by_the_counters(hosts, healthy, tmp_path):
    first = healthy(*PACED, "--counters")
    limit(hosts[0])
    document = compare(first, record(hosts, tmp_path / "b.json", *PACED, "--counters"))
    assert document["verdict"] != "same"
    assert causes(document)[0] == "shaped", document


def stop_and_go(end, process):
    """SIGSTOP for most of the rest of the run."""
    for _ in range(8):
        os.kill(end.pid, signal.SIGSTOP)
        time.sleep(0.12)
        os.kill(end.pid, signal.SIGCONT)
        time.sleep(0.02)
    assert process


def test_a_paused_receiver_is_named(hosts, healthy, tmp_path):
    second = record(hosts, tmp_path / "b.json", meanwhile=stop_and_go)
    document = compare(healthy(), second)
    assert document["verdict"] in ("worse", "different")  # it comes and goes: that is noise as well
    (cause,) = [cause for cause in document["causes"] if cause["name"] == "stopped"]
    assert "server stopped was" in cause["text"] and "client" not in cause["text"]
    assert "stopped" in [finding["name"] for finding in json.loads(second.read_text())["findings"]]


def test_a_longer_way_is_named(hosts, tmp_path):
    with network.Host() as client, network.Host() as server:
        if not os.path.exists("/dev/net/tun"):
            pytest.skip("needs /dev/net/tun")
        usual = ("-m", "2M")  # what a wire made of a Python thread carries on any machine
        with network.Wire(client, server):
            first = record((client, server), tmp_path / "a.json", *usual)
        with network.Wire(client, server, delay_s=0.03):
            document = compare(first, record((client, server), tmp_path / "b.json", *usual))
    assert "delay" in causes(document), document


def test_a_closed_port_is_named(hosts, tmp_path):
    code = ("import socket\n"
            "for _ in range(5):\n"
            "    try: socket.create_connection(('10.77.1.2', 7001), timeout=5).close()\n"
            "    except ConnectionRefusedError: pass\n")
    listening = "import socket, time\ns = socket.create_server(('10.77.1.2', 7001))\nprint('ready', flush=True)\ntime.sleep(600)\n"

    def run(path):
        done = weir("run", "--quiet", "--out", path, "--", sys.executable, "-c", code, prefix=hosts[0].prefix)
        assert done.status == 0, done
        return path

    with subprocess.Popen([*hosts[1].prefix, sys.executable, "-c", listening], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline()
            first, again = run(tmp_path / "a.json"), run(tmp_path / "b.json")
        finally:
            process.kill()
    assert causes(compare(first, again)) == []
    assert causes(compare(first, run(tmp_path / "c.json")))[0] == "tcp_refused"


def test_a_small_receive_buffer_is_named_by_its_setting(hosts, healthy, tmp_path):
    first = healthy("-m", "200M")
    subprocess.run([*hosts[1].prefix, "sysctl", "-qw", "net.ipv4.tcp_rmem=2304 2304 4608"], check=True, timeout=20)
    document = compare(first, record(hosts, tmp_path / "b.json", "-m", "200M"))
    assert document["verdict"] != "same"
    assert causes(document)[0] == "settings", document
    assert "net_ipv4_tcp_rmem" in document["causes"][0]["text"]
    assert "receiver" in causes(document)


def test_another_mtu_is_listed(hosts, healthy, tmp_path):
    first = healthy()
    for host in hosts:
        host.ip("link", "set", host.device, "mtu", "1000")
    document = compare(first, record(hosts, tmp_path / "b.json"))
    settings = {(s["whose"], s["name"]): (s["before"], s["after"]) for s in document["settings"]}
    assert settings[("client", "nic_mtu_bytes")] == ("1500", "1000")
    assert settings[("server", "nic_mtu_bytes")] == ("1500", "1000")


def test_other_options_are_the_first_cause(hosts, healthy, tmp_path):
    document = compare(healthy(), record(hosts, tmp_path / "b.json", "-m", "5M"))
    assert document["verdict"] != "same"
    assert causes(document)[0] == "options" and "max-pacing-rate" in document["causes"][0]["text"]
