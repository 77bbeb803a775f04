# SPDX-License-Identifier: BSD-3-Clause
"""Two and three hosts with real links between them: slow, lossy, long, and taken away in the middle."""
import contextlib
import os
import threading
import time

import pytest

import network
from weirtest import WEIR, Process, Server, findings, measured, noisy, validate, wait_for

WHY_NOT = network.missing()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=str(WHY_NOT))
needs_tun = pytest.mark.skipif(not os.path.exists("/dev/net/tun"), reason="needs /dev/net/tun")

SERVER = "10.77.1.2"


@pytest.fixture
def hosts():
    """A client's and a server's host."""
    with network.Host() as client, network.Host() as server:
        yield client, server


def run(hosts, workload, *args, to=SERVER, server_args=(), **how):
    client, server = hosts
    with Server(workload, "--json", *server_args, prefix=server.prefix) as end:
        done = end.client("-H", to, "--json", *args, prefix=client.prefix, **how)
        return done, end.records(1)[0]


def test_a_slow_link_is_reported_as_slow(hosts):
    device, _ = network.veth(*hosts)
    if not hosts[0].tc("qdisc", "add", "dev", device, "root", "tbf", "rate", "200mbit", "burst", "64kb", "latency", "50ms"):
        pytest.skip("this kernel has no tbf")

    @noisy
    def measure():
        done, server = run(hosts, "stream", "-l", "2", "-F", "2", "--warmup", "0.5")
        record = measured(done)
        assert 150e6 < record["throughput_bps"] < 205e6
        # The link, not the program: neither the application nor the receiver held it up.
        (text,) = findings(record, "limited_by")
        assert "application" not in text and "receive window" not in text, text
        return record, server

    record, server = measure()
    assert record["ceiling_bps"] is None  # a virtual link has no speed of its own
    assert server["local"]["facts"]["hostname"] and record["local"]["address"].startswith("10.77.1.1:")


@needs_tun
@noisy
def test_lost_packets_are_reported_as_retransmits(hosts):
    def one_of_a_hundred(number, packet):
        return len(packet) > 1000 and number % 100 == 0

    with network.Wire(*hosts, lose=one_of_a_hundred) as wire:
        done, _ = run(hosts, "stream", "-l", "1.5", "-m", "40Mb", "--warmup", "0")
    record = done.record
    assert record["verdict"] != "failed", record["findings"]
    sent_again = record["local"]["flows"][0]["tcp"]["retransmits"]
    assert wire.lost > 5 and wire.lost * 0.5 <= sent_again <= wire.lost * 3 + 20
    assert findings(record, "retransmits")


@needs_tun
@noisy
def test_a_long_path_shows_in_the_latency(hosts):
    with network.Wire(*hosts, delay_s=0.010):
        done, server = run(hosts, "rr", "-l", "1.5", "-F", "4")
    record = measured(done)
    p50 = next(p["ns"] for p in record["latency_ns"]["percentiles"] if p["percent"] == 50)
    assert record["latency_ns"]["min"] >= 20e6
    assert 20e6 <= p50 < 40e6
    assert all(f["tcp"]["rtt_us"] >= 19000 for f in record["local"]["flows"])
    assert record["local"]["counts"]["transactions"] == pytest.approx(server["local"]["counts"]["transactions"], abs=9)


@needs_tun
@noisy
def test_several_requests_under_way_fill_a_long_path(hosts):
    with network.Wire(*hosts, delay_s=0.010):
        one = measured(run(hosts, "rr", "-l", "1")[0])
        eight = measured(run(hosts, "rr", "-l", "1", "--outstanding", "8")[0])
    assert one["latency_ns"]["min"] >= 20e6 and eight["latency_ns"]["min"] >= 20e6
    assert eight["transactions_per_s"] > 5 * one["transactions_per_s"]


@needs_tun
def test_connections_over_a_long_path_cost_two_round_trips(hosts):
    with network.Wire(*hosts, delay_s=0.010):
        record = measured(run(hosts, "crr", "-l", "1.5", "-F", "4")[0])
    assert record["latency_ns"]["min"] >= 40e6


@needs_tun
@noisy
def test_a_stream_over_a_long_path_is_warm_when_it_is_measured(hosts):
    """Slow start lies in the warm-up: with it excluded the rate is the pacing's."""
    with network.Wire(*hosts, delay_s=0.010):
        record = measured(run(hosts, "stream", "-l", "1.5", "--warmup", "1", "-m", "20Mb")[0])
    assert record["throughput_bps"] == pytest.approx(20e6, rel=0.15)


def test_an_ipv6_link(hosts):
    network.veth(*hosts)
    for workload in ("stream", "rr", "crr"):
        done, server = run(hosts, workload, "-l", "0.3", to="fd77:1::2")
        record = measured(done)
        assert record["local"]["address"].startswith("[fd77:1::1]:") and server["remote"]["address"] == record["local"]["address"]


def test_the_server_sends_over_a_link(hosts):
    network.veth(*hosts)
    done, server = run(hosts, "stream", "-l", "0.5", "-M", "-F", "2")
    record = measured(done)
    assert record["local"]["counts"]["rx_bytes"] > 1 << 20 and server["local"]["counts"]["tx_bytes"] > 1 << 20


@pytest.mark.parametrize("workload", ("stream", "rr"))
def test_two_clients_in_two_namespaces(workload):
    with network.Host() as one, network.Host() as two, network.Host() as server:
        network.veth(one, server, 1)
        network.veth(two, server, 2)
        with Server(workload, "--json", prefix=server.prefix) as end:
            with end.start_client("-H", "10.77.1.2", "-l", "0.8", "-F", "2", "--json", prefix=one.prefix) as a:
                with end.start_client("-H", "10.77.2.2", "-l", "0.8", "-F", "3", "--json", prefix=two.prefix) as b:
                    records = [measured(a.wait()), measured(b.wait())]
            theirs = {r["remote"]["address"]: r for r in end.records(2)}
    for record in records:
        assert theirs[record["local"]["address"]]["local"]["counts"] == record["remote"]["counts"]
    assert sorted(address.rpartition(":")[0] for address in theirs) == ["10.77.1.1", "10.77.2.1"]


def test_two_clients_in_two_namespaces_as_one_test():
    with network.Host() as one, network.Host() as two, network.Host() as server:
        network.veth(one, server, 1)
        network.veth(two, server, 2)
        with Server("rr", "--num-clients", "2", "--once", "--json", prefix=server.prefix) as end:
            with end.start_client("-H", "10.77.1.2", "-l", "0.8", "--json", prefix=one.prefix) as a:
                with end.start_client("-H", "10.77.2.2", "-l", "0.8", "--json", prefix=two.prefix) as b:
                    records = [measured(a.wait()), measured(b.wait())]
            record = end.wait(10).record
    total = sum(r["local"]["counts"]["transactions"] for r in records)
    # What a client sends between the end of its time and its DONE is in the server's count alone.
    assert total <= record["local"]["counts"]["transactions"] < 2 * total
    assert len(record["local"]["flows"]) == 2


# A link that goes away. All at once: each takes more than ten seconds.

CUT = {"stream": ["-F", "2"], "maerts": ["-M"], "rr": ["-F", "2"], "crr": [], "neper": ["--protocol", "neper"]}


@pytest.fixture(scope="module")
def cut():
    """Runs whose link was taken down in the middle: name -> client, server, when."""
    with contextlib.ExitStack() as stack:
        runs = {}
        for name, options in CUT.items():
            client, server = stack.enter_context(network.Host()), stack.enter_context(network.Host())
            device, _ = network.veth(client, server)
            workload = {"maerts": "stream", "neper": "rr"}.get(name, name)
            end = stack.enter_context(Server(workload, "--json", "-I", "0.2", prefix=server.prefix))
            process = stack.enter_context(end.start_client("-H", SERVER, "-l", "120", "-I", "0.2", "--warmup", "0", "-m", "200Mb", "--json", *options,
                                                           prefix=client.prefix))
            runs[name] = process, end
            wait_for("intervals", lambda: sum(e["event"] == "interval" for e in process.so_far().events) >= 2)
            client.ip("link", "set", device, "down")
            runs[name] += (time.monotonic(),)
        ended = runs["ended"] = {}
        if os.path.exists("/dev/net/tun"):
            client, server = stack.enter_context(network.Host()), stack.enter_context(network.Host())
            stack.enter_context(network.Wire(client, server, lose=lambda number, packet: True))
            for name, options in (("unreached", []), ("unreached, short of time", ["--connect-timeout", "1"])):
                process = stack.enter_context(Process(WEIR, "stream", "-c", "-H", SERVER, "-l", "1", *options, prefix=client.prefix))
                runs[name] = process, time.monotonic()
                watch = threading.Thread(target=lambda n=name, p=process: (p.popen.wait(40), ended.update({n: time.monotonic()})), daemon=True)
                watch.start()
        yield runs


def soon(began, seconds=30):
    return max(0.1, began + seconds - time.monotonic())


@pytest.mark.parametrize("name", CUT)
def test_a_client_whose_link_goes_away_ends_with_a_reason(cut, name):
    process, _, began = cut[name]
    done = process.wait(soon(began))
    assert done.status == 1, done
    record = done.record
    validate(record)
    assert record["verdict"] == "failed" and findings(record, "incomplete")
    assert record["local"]["counts"]["tx_bytes"] + record["local"]["counts"]["rx_bytes"] > 0
    assert done.stderr and len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize("name", CUT)
def test_a_server_whose_link_goes_away_ends_the_run_with_a_reason(cut, name):
    _, end, began = cut[name]
    record = end.records(1, soon(began, 75 if name == "neper" else 30))[0]
    assert record["verdict"] == "failed" and findings(record, "incomplete")
    assert record["local"]["counts"]["tx_bytes"] + record["local"]["counts"]["rx_bytes"] > 0
    end.settle(10)
    assert end.stop(5).status in (0, 1)


@needs_tun
def test_a_server_that_nothing_reaches_is_given_up_in_seconds(cut):
    process, began = cut["unreached"]
    done = process.wait(soon(began, 15))
    assert done.status == 1 and SERVER in done.stderr, done


@needs_tun
def test_a_connect_timeout_holds_where_nothing_answers(cut):
    process, began = cut["unreached, short of time"]
    process.wait(soon(began, 15))
    assert cut["ended"]["unreached, short of time"] - began < 4
