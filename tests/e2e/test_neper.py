# SPDX-License-Identifier: BSD-3-Clause
"""The real neper in both roles. Needs its programs: NEPER_DIR names their folder."""
import os
import pathlib

import pytest

from weirtest import WEIR, Process, Server, link, validate

NEPER_DIR = os.environ.get("NEPER_DIR", "")
pytestmark = pytest.mark.skipif(not NEPER_DIR or not (pathlib.Path(NEPER_DIR) / "tcp_rr").exists(),
                                reason="NEPER_DIR does not name a folder with neper's tcp_stream, tcp_rr and tcp_crr")

WORKLOADS = ("stream", "rr", "crr")
SIZES = (("-T1", "-F1"), ("-T4", "-F8"))


def neper(workload):
    return [str(pathlib.Path(NEPER_DIR) / f"tcp_{workload}"), "--nolog"]


def agree(a, b):
    assert float(a) == pytest.approx(float(b), rel=0.05), (a, b)


@pytest.mark.parametrize("size", SIZES, ids=" ".join)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_neper_client_against_weir(workload, size):
    with Server(workload, "--json", "--once") as server:
        client = server.client("-l", "2", *size, program=neper(workload))
        done = server.wait(10)
    assert client.status == 0, client
    assert done.status in (0, 3), done
    record = done.record
    validate(record)
    assert record["protocol"] == "neper"
    rates, got = record["local"]["rates"], client.kv
    if workload == "stream":
        assert int(got["remote_throughput"]) == int(rates["rx_bps"])
        agree(record["local"]["counts"]["rx_bytes"] * 8 / record["local"]["window_ns"] * 1e9, got["remote_throughput"])
    else:
        assert record["peer_rate"] == int(got["local_throughput"])
        agree(rates["transactions_per_s"], got["throughput"])
    if workload == "rr":
        agree(got["remote_throughput"], got["throughput"])
    if workload != "crr":
        assert len(record["local"]["flows"]) == int(size[1][2:])


@pytest.mark.parametrize("size", SIZES, ids=" ".join)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_weir_against_a_neper_server(workload, size):
    with Server(workload, program=neper(workload)) as server:
        client = server.client("-l", "2", *size, "-4", "--json", program=[WEIR, workload])
        done = server.wait(15)
    assert done.status == 0, done
    assert client.status in (0, 3), client
    record, got = client.record, done.kv
    validate(record)
    assert record["protocol"] == "neper"
    if workload == "stream":
        assert record["peer_rate"] == int(got["local_throughput"])
        agree(record["local"]["rates"]["tx_bps"], got["local_throughput"])
    else:
        assert int(got["remote_throughput"]) == int(record["transactions_per_s"])
    if workload == "rr":
        agree(record["transactions_per_s"], got["throughput"])


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_link_against_a_neper_server(tmp_path, workload):
    program = [link(tmp_path, f"tcp_{workload}")]
    with Server(workload, program=neper(workload)) as server:
        client = server.client("-l", "1", "-F", "2", program=program)
        done = server.wait(15)
    assert (client.status, done.status) == (0, 0), (client, done)
    assert int(client.kv["remote_throughput"]) == int(done.kv["local_throughput"])
    assert set(client.kv) >= {"time_start", "nivcsw_end", "local_throughput"}


def test_the_other_direction_with_a_neper_server():
    with Server("stream", "-M", program=neper("stream")) as server:
        record = server.client("-l", "1", "-M", "-4", "--json", program=[WEIR, "stream"]).record
        done = server.wait(15)
    assert record["local"]["counts"]["rx_bytes"] > 1 << 20
    assert int(done.kv["remote_throughput"]) == int(record["local"]["rates"]["rx_bps"])


def test_the_other_direction_with_a_neper_client():
    with Server("stream", "-M", "--json", "--once") as server:
        client = server.client("-l", "1", "-M", program=neper("stream"))
        record = server.wait(10).record
    assert client.status == 0 and record["local"]["counts"]["tx_bytes"] > 1 << 20
    agree(record["local"]["rates"]["tx_bps"], client.kv["local_throughput"])


def test_two_neper_clients_are_one_test():
    with Server("rr", "--num-clients", "2", "--once", "--json") as server:
        program = neper("rr")
        with server.start_client("-l", "1", program=program) as one, server.start_client("-l", "1", "-F", "2", program=program) as two:
            results = [one.wait(), two.wait()]
        record = server.wait(15).record
    assert [r.status for r in results] == [0, 0], results
    assert len(record["local"]["flows"]) == 3


def test_two_weir_clients_of_a_neper_server():
    with Server("rr", "--num-clients", "2", program=neper("rr")) as server:
        with server.start_client("-l", "1", "-4", "--json", program=[WEIR, "rr"]) as one, server.start_client("-l", "1", "-4", "--json", program=[WEIR, "rr"]) as two:
            results = [one.wait(), two.wait()]
        assert server.wait(15).status == 0
    assert all(r.status in (0, 3) for r in results), results
    assert results[0].record["peer_rate"] == results[1].record["peer_rate"] > 0


def test_a_dump_has_the_same_keys_in_the_same_order(tmp_path):
    for workload in WORKLOADS:
        with Process(*neper(workload), "-n") as theirs, Process(link(tmp_path, f"tcp_{workload}"), "--nolog", "-n") as ours:
            a, b = theirs.wait(10), ours.wait(10)
        assert [line.split("=")[0] for line in a.lines] == [line.split("=")[0] for line in b.lines]
        different = {key for key in a.kv if a.kv[key] != b.kv[key]}
        assert different <= {"VERSION", "listen_backlog"}, different
