# SPDX-License-Identifier: BSD-3-Clause
"""weir diff on real runs: a healthy one and ones with a fault that the test made. It names the fault, and none where there is none."""
import json
import os
import signal
import subprocess
import threading
import time

import pytest

import network
from weirtest import Server, validate, weir

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
    args = args or PACED
    client, server = hosts
    with Server("stream", prefix=server.prefix) as end:
        thread = threading.Thread(target=meanwhile, args=(end,)) if meanwhile else None
        with end.start_client("-H", SERVER, *USUAL, *args, "--out", path, prefix=client.prefix) as process:
            if thread:
                thread.start()
            done = process.wait()
        if thread:
            thread.join()
    assert path.exists(), done
    return path


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
    assert document["causes"] == []
    assert "throughput" not in [change["name"] for change in document["changes"]]
    assert document["compared"] > 10


def test_lost_packets_are_named(hosts, tmp_path):
    healthy = record(hosts, tmp_path / "a.json")
    rules = "table inet t { chain c { type filter hook input priority 0; meta length > 500 numgen random mod 50 == 0 drop; }; }"
    if subprocess.run([*hosts[1].prefix, "nft", rules], check=False, capture_output=True, timeout=20).returncode:
        pytest.skip("this kernel has no nft")
    document = compare(healthy, record(hosts, tmp_path / "b.json"))
    assert causes(document)[0] == "loss", document
    assert "retransmitted" in [change["name"] for change in document["changes"]]


def test_a_slow_link_is_named_by_its_queue(hosts, tmp_path):
    healthy = record(hosts, tmp_path / "a.json")
    if not hosts[0].tc("qdisc", "add", "dev", hosts[0].device, "root", "tbf", "rate", "100mbit", "burst", "32kb", "latency", "200ms"):
        pytest.skip("this kernel has no tbf")
    document = compare(healthy, record(hosts, tmp_path / "b.json"))
    assert document["verdict"] == "worse"
    assert "queue" in causes(document), document


def test_a_paused_receiver_is_named(hosts, tmp_path):
    def pause(end):
        time.sleep(0.8)
        for _ in range(10):
            os.kill(end.pid, signal.SIGSTOP)
            time.sleep(0.12)
            os.kill(end.pid, signal.SIGCONT)
            time.sleep(0.02)

    usual = ("-B", "16K")
    healthy = record(hosts, tmp_path / "a.json", *usual)
    document = compare(healthy, record(hosts, tmp_path / "b.json", *usual, meanwhile=pause))
    assert document["verdict"] in ("worse", "different")  # it comes and goes: that is noise as well
    # The kernel books such a wait as the receiver's or as the congestion window's, as bbr has it. Named is what it says.
    grown = [change for change in document["changes"] if "receive window" in change["name"] and change["after"] > change["before"]]
    assert not grown or "receiver" in causes(document), document


def test_a_small_receive_buffer_is_named_by_its_setting(hosts, tmp_path):
    healthy = record(hosts, tmp_path / "a.json", "-m", "200M")
    subprocess.run([*hosts[1].prefix, "sysctl", "-qw", "net.ipv4.tcp_rmem=2304 2304 4608"], check=True, timeout=20)
    document = compare(healthy, record(hosts, tmp_path / "b.json", "-m", "200M"))
    assert document["verdict"] == "worse"
    assert causes(document)[0] == "settings", document
    assert "net_ipv4_tcp_rmem" in document["causes"][0]["text"]
    assert "receiver" in causes(document)


def test_another_mtu_is_listed(hosts, tmp_path):
    healthy = record(hosts, tmp_path / "a.json")
    for host in hosts:
        host.ip("link", "set", host.device, "mtu", "1000")
    document = compare(healthy, record(hosts, tmp_path / "b.json"))
    settings = {(s["whose"], s["name"]): (s["before"], s["after"]) for s in document["settings"]}
    assert settings[("client", "nic_mtu_bytes")] == ("1500", "1000")
    assert settings[("server", "nic_mtu_bytes")] == ("1500", "1000")


def test_other_options_are_the_first_cause(hosts, tmp_path):
    document = compare(record(hosts, tmp_path / "a.json"), record(hosts, tmp_path / "b.json", "-m", "5M"))
    assert document["verdict"] == "worse"
    assert causes(document)[0] == "options" and "max-pacing-rate" in document["causes"][0]["text"]
