# SPDX-License-Identifier: BSD-3-Clause
"""weir rails between two hosts with four links: healthy, slow, cut before and in the middle; each figure on the right name."""
import re
import signal
import threading
import time

import pytest

import network
from weirtest import WEIR, Process, is_listening, link, noisy, run, validate, wait_for

WHY_NOT = network.missing()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=str(WHY_NOT))

NAMES = ["eth1", "eth2", "eth3", "eth4"]
HOSTS = [f"10.77.{i}.2" for i in (1, 2, 3, 4)]
SMALL = ["--threads", "1", "--flows", "2", "--buffer-size", "64K"]
CONTROL = 12866


class Rails:
    """Two hosts and four links, a server on all of them, and clients."""

    def __init__(self, client, server):
        self.client_host, self.server_host = client, server

    def server(self, *words, program=(WEIR, "rails"), rails=4):
        process = Process(*program, "--devices", ",".join(NAMES), *SMALL, *words, prefix=self.server_host.prefix)
        wait_for("all rails to listen", lambda: process.ended() or all(is_listening(process.pid, CONTROL + i) for i in range(rails)))
        assert not process.ended(), process.so_far()
        return process

    def client_words(self, *words, program=(WEIR, "rails"), hosts=HOSTS, names=NAMES):
        return [*program, "-c", "-H", ",".join(hosts), "--devices", ",".join(names), *SMALL, *words]

    def client(self, *words, **how):
        return run(*self.client_words(*words, **how), prefix=self.client_host.prefix)

    def shape(self, name, rate):
        if not self.client_host.tc("qdisc", "replace", "dev", name, "root", "tbf", "rate", rate, "burst", "64kb", "latency", "50ms"):
            pytest.skip("this kernel has no tbf")


@pytest.fixture(name="rails")
def fixture_rails():
    with network.Host() as client, network.Host() as server:
        for i, name in enumerate(NAMES):
            network.veth(client, server, subnet=i + 1, name=name)
        yield Rails(client, server)


def record_of(done, index=0):
    records = [d for d in done.documents if d["schema"] == "weir/rails/1"]
    record = records[index]
    validate(record)
    for rail in record["rails"]:
        if rail["run"]:
            validate(rail["run"])
            assert rail["run"]["options"]["bind_dev"] == rail["device"]
    assert [r["device"] for r in record["rails"]] == NAMES
    return record


def by_name(record):
    return {r["device"]: r for r in record["rails"]}


def sums_up(record):
    """The total is the sum of those that did not fail, and of no other."""
    measured = [r for r in record["rails"] if r["verdict"] != "failed"]
    total = record["total"]
    assert (total["rails"], total["measured"]) == (4, len(measured))
    assert total["throughput_bps"] == pytest.approx(sum(r["throughput_bps"] for r in measured))
    assert total["sent_bps"] == pytest.approx(sum(r["sent_bps"] for r in measured))
    assert total["retransmits"] == sum(r["retransmits"] for r in measured)


@noisy
def test_four_healthy_rails_add_up(rails):
    # Far below what this machine can do, so that no rail disturbs another.
    for i, name in enumerate(NAMES):
        rails.shape(name, f"{40 * (i + 1)}mbit")
    with rails.server("--once", "--json") as server:
        done = rails.client("-l", "2", "--json", "--", "--warmup", "0.5")
        there = server.wait()
    ours, theirs = record_of(done), record_of(there)
    for record, end in ((ours, done), (theirs, there)):
        assert record["verdict"] in ("good", "doubtful"), record["findings"]
        assert end.status == {"good": 0, "doubtful": 3}[record["verdict"]]
        sums_up(record)
        # Each has its own link's rate.
        for i, rail in enumerate(record["rails"]):
            assert 0.7 * 40e6 * (i + 1) < rail["throughput_bps"] < 1.05 * 40e6 * (i + 1), rail["device"]
            assert rail["run"]["role"] == record["role"] and rail["error"] is None
    # Both ends tell the same of each.
    for mine, other in zip(ours["rails"], theirs["rails"]):
        assert mine["throughput_bps"] == pytest.approx(other["throughput_bps"]), mine["device"]
        assert mine["run"]["remote"]["address"].startswith(mine["host"] + ":")
    assert not [f for f in ours["findings"] if f["name"] == "not_together"]
    assert {e["rail"] for e in done.events if e["event"] == "interval"} == set(NAMES)


@noisy
def test_a_slow_rail_and_a_cut_one_are_named_and_disturb_no_other(rails):
    for name in NAMES:
        rails.shape(name, "20mbit" if name == "eth2" else "200mbit")
    rails.server_host.ip("link", "set", "eth3", "up")
    with rails.server("--once", "--json") as server:
        rails.server_host.ip("link", "set", "eth3", "down")
        began = time.monotonic()
        with Process(*rails.client_words("-l", "2", "--json"), prefix=rails.client_host.prefix) as client:
            wait_for("the cut rail to be named", lambda: "eth3 failed: " in client.so_far().stderr, 8)
            named_after = time.monotonic() - began
            done = client.wait()
        there = server.wait()
    assert named_after < 8
    for end in (done, there):
        record = record_of(end)
        rail = by_name(record)
        assert (end.status, record["verdict"]) == (1, "failed")
        assert rail["eth3"]["verdict"] == "failed" and rail["eth3"]["run"] is None and rail["eth3"]["throughput_bps"] is None
        assert rail["eth3"]["error"].startswith(("eth3 is down: ", "eth3 has no carrier: ")), rail["eth3"]["error"]
        assert 12e6 < rail["eth2"]["throughput_bps"] < 21e6
        assert all(130e6 < rail[name]["throughput_bps"] < 210e6 for name in ("eth1", "eth4"))
        sums_up(record)
        assert [f["text"].split()[0] for f in record["findings"] if f["name"] == "slow_rail"] == ["eth2"]
        assert re.search(r"^weir rails: eth3 failed: ", end.stderr, re.MULTILINE)


def test_a_rail_whose_packets_vanish_fails_with_its_reason(rails):
    """The link is up at this end: only the other end is silent."""
    rails.server_host.ip("addr", "del", "10.77.4.2/24", "dev", "eth4")
    with Process(WEIR, "rails", "--hosts", ",".join(HOSTS[:3]), *SMALL, "--once", prefix=rails.server_host.prefix) as server:
        wait_for("the rails to listen", lambda: all(is_listening(server.pid, CONTROL + i) for i in range(3)))
        done = rails.client("-l", "1", "--json")
        there = server.wait()
    record = record_of(done)
    assert (done.status, there.status in (0, 3)) == (1, True), (done, there)
    assert by_name(record)["eth4"]["error"].startswith("cannot connect to 10.77.4.2:12869: ")
    assert all(by_name(record)[name]["throughput_bps"] > 0 for name in NAMES[:3])
    assert done.seconds < 20


def test_a_rail_that_is_cut_in_the_middle_keeps_its_name(rails):
    for name in NAMES:
        rails.shape(name, "100mbit")
    with rails.server("--once", "--json") as server:
        cut = threading.Timer(1.5, rails.server_host.ip, ("link", "set", "eth2", "down"))
        cut.start()
        done = rails.client("-l", "4", "--json")
        cut.join()
        there = server.wait()
    for end in (done, there):
        record = record_of(end)
        rail = by_name(record)
        assert end.status == 1
        assert rail["eth2"]["verdict"] == "failed" and rail["eth2"]["error"].startswith("eth2 "), rail["eth2"]["error"]
        assert all(70e6 < rail[name]["throughput_bps"] < 105e6 for name in ("eth1", "eth3", "eth4"))
        sums_up(record)
        # Said when it happened, not when TCP gave up.
        (trouble,) = [e for e in end.events if e["event"] == "trouble"]
        (error,) = [e for e in end.events if e["event"] == "error"]
        assert trouble["rail"] == error["rail"] == "eth2" and error["time_ns"] - trouble["time_ns"] > 1e9


def test_the_table_has_a_row_for_each_rail_and_the_total(rails):
    for name in NAMES:
        rails.shape(name, "50mbit")
    rails.client_host.ip("link", "set", "eth1", "down")
    with rails.server("--once") as server:
        done = rails.client("-l", "1")
        there = server.wait()
    for end in (done, there):
        rows = {line.split()[0]: line for line in end.lines if line.startswith("  ") and line.split()[0] in (*NAMES, "total")}
        assert list(rows) == [*NAMES, "total"], end
        assert "failed: " in rows["eth1"] and "Mbit/s" not in rows["eth1"]
        assert all("Mbit/s" in rows[name] for name in NAMES[1:])
        assert "3 of 4" in rows["total"]


@noisy
def test_multi_neper_prints_its_lines_at_both_ends(rails, tmp_path):
    program = [link(tmp_path, "multi_neper"), "--mode", "default"]
    for i, name in enumerate(NAMES):
        rails.shape(name, f"{30 * (i + 1)}mbit")
    words = ["--hosts", ",".join(HOSTS), "--src-ips", ",".join(f"10.77.{i}.1" for i in (1, 2, 3, 4))]
    with rails.server(*words, program=program) as server:
        done = rails.client("-l", "2", program=program)
        there = server.wait()
    assert (done.status, done.stderr, there.status, there.stderr) == (0, "", 0, ""), (done, there)
    figures = []
    for end in (done, there):
        found = [re.fullmatch(r"\[(eth\d)\] Throughput \(Mb/s\): (\d+\.\d\d)", line) for line in end.lines[:4]]
        assert [m[1] for m in found] == NAMES
        figures.append([float(m[2]) for m in found])
        assert all(0.6 * 30 * (i + 1) < rate < 1.05 * 30 * (i + 1) for i, rate in enumerate(figures[-1]))
        total = re.fullmatch(r"Total throughput \(Mb/s\): (\d+\.\d\d)", end.lines[4])
        assert float(total[1]) == pytest.approx(sum(figures[-1]), abs=0.05)
        assert len(end.lines) == 5
    assert figures[0] == pytest.approx(figures[1])


def test_multi_neper_says_na_for_a_rail_that_failed(rails, tmp_path):
    program = [link(tmp_path, "multi_neper"), "--mode", "default"]
    rails.client_host.ip("link", "set", "eth3", "down")
    words = ["--hosts", ",".join(HOSTS), "--src-ips", ",".join(f"10.77.{i}.1" for i in (1, 2, 3, 4))]
    with rails.server(*words, program=program) as server:
        done = rails.client("-l", "1", program=program)
        there = server.wait()
    for end in (done, there):
        assert end.status == 1 and end.lines[2] == "[eth3] Throughput (Mb/s): NA", end
        assert "[eth1] Throughput (Mb/s): NA" not in end.stdout
        assert end.stderr.startswith("multi_neper: eth3 failed: eth3 "), end


def test_a_server_stays_for_further_rounds_and_ends_when_told(rails):
    with rails.server("--json") as server:
        first = rails.client("-l", "0.5", "--json")
        second = rails.client("-l", "0.5", "--json", "--", "-M")
        wait_for("two rounds", lambda: sum(d["schema"] == "weir/rails/1" for d in server.so_far().documents) == 2)
        server.signal(signal.SIGTERM)
        there = server.wait()
    for i, done in enumerate((first, second)):
        assert done.status in (0, 3), done
        assert record_of(done)["total"]["measured"] == record_of(there, i)["total"]["measured"] == 4
    # The server sent in the second.
    assert record_of(there, 1)["rails"][0]["run"]["options"]["enable_tcp_maerts"] is True
    assert record_of(second)["rails"][0]["run"]["directions"][0]["to"] == "client"


def test_one_process_serves_what_four_streams_ask(rails):
    """A rail is a weir stream: what --dry-run prints talks to the other end's rails."""
    commands = run(*rails.client_words("-l", "1", "--dry-run"), prefix=rails.client_host.prefix).lines
    assert len(commands) == 4
    with rails.server("--once", "--json") as server:
        clients = [Process(WEIR, *command.split()[1:], "--json", prefix=rails.client_host.prefix) for command in commands]
        ended = [client.wait() for client in clients]
        there = server.wait()
    assert all(done.status in (0, 3) for done in ended), ended
    for done, rail in zip(ended, record_of(there)["rails"]):
        assert done.record["throughput_bps"] == pytest.approx(rail["throughput_bps"]), rail["device"]


def test_a_client_without_a_server_fails_on_every_rail(rails):
    done = rails.client("-l", "1", "--json", "--", "--connect-timeout", "0")
    record = record_of(done)
    assert (done.status, record["total"]["measured"], record["total"]["throughput_bps"]) == (1, 0, None)
    for i, rail in enumerate(record["rails"]):
        assert rail["error"].startswith(f"cannot connect to 10.77.{i + 1}.2:{CONTROL + i}: Connection refused"), rail["error"]


def test_a_server_whose_ports_are_taken_serves_the_others(rails):
    with Process(WEIR, "stream", "-H", HOSTS[1], "-C", CONTROL + 1, "-P", 40000, prefix=rails.server_host.prefix) as taken:
        wait_for("the port to be taken", lambda: is_listening(taken.pid, CONTROL + 1))
        with Process(WEIR, "rails", "--devices", ",".join(NAMES), *SMALL, "--once", "--json", prefix=rails.server_host.prefix) as server:
            wait_for("the rest to listen", lambda: all(is_listening(server.pid, CONTROL + i) for i in (0, 2, 3)))
            wait_for("the failure to be said", lambda: "eth2 failed: cannot listen on 10.77.2.2:12867" in server.so_far().stderr)
            names, hosts = [n for n in NAMES if n != "eth2"], [h for h in HOSTS if h != HOSTS[1]]
            for name, host in zip(names, hosts):
                i = NAMES.index(name)
                done = run(WEIR, "stream", "-c", "-H", host, "-C", CONTROL + i, "-P", 12345 + 2 * i, "--num-ports", 2, "-l", "1", "-F", 2,
                           prefix=rails.client_host.prefix) if name == "eth4" else None
            there = server.wait()
    assert done.status in (0, 3), done
    rail = by_name(record_of(there))
    assert there.status == 1
    assert rail["eth4"]["verdict"] != "failed" and "Address already in use" in rail["eth2"]["error"]
    assert all(rail[name]["error"].startswith("no client came") for name in ("eth1", "eth3"))


def test_an_interrupt_reports_what_was_measured(rails):
    with rails.server("--once", "--json") as server:
        with Process(*rails.client_words("-l", "60", "--json"), prefix=rails.client_host.prefix) as client:
            wait_for("some intervals", lambda: len([e for e in client.so_far().events if e["event"] == "interval"]) >= 8)
            client.signal(signal.SIGINT)
            done = client.wait(20)
        there = server.wait(30)
    for end in (done, there):
        assert all(r["run"]["local"]["counts"]["rx_bytes"] + r["run"]["local"]["counts"]["tx_bytes"] > 0 for r in record_of(end)["rails"])
