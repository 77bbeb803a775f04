# SPDX-License-Identifier: BSD-3-Clause
"""The three workloads between two weirs on loopback: what moves, in which direction, how it is counted and paced."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

import peers
from weirtest import WEIR, Server, findings, free_ports, measured, noisy, run, validate, wait_for

MIB = 1 << 20
BUFFERED = 5 * MIB  # what the two sockets of a flow may hold when a window ends


servers = {}


@pytest.fixture(scope="module", autouse=True)
def stop_servers():
    yield
    for end in servers.values():
        assert end.stop().status in (0, 1, 3)


def both(workload, *args, server=(), length="0.3"):
    """The records of client and server of one run. One server for all runs that ask for the same."""
    key = (workload, *server)
    if key not in servers or servers[key].ended():
        servers[key] = Server(workload, "--json", *server)
    end = servers[key]
    end.forget()
    done = end.client("-l", length, "--json", *args)
    client, server = measured(done), end.records(1)[0]
    for document in done.documents + end.so_far().documents:
        validate(document)
    return client, server


def counts(record, end="local"):
    return record[end]["counts"]


def connections(pid, port):
    """(local address, local port, remote address, remote port) of the established connections to or from a port."""
    found = []
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            (local, lport), (remote, rport) = (f.split(":") for f in fields[1:3])
            if fields[3] == "01":
                found.append((local[-8:], int(lport, 16), remote[-8:], int(rport, 16)))
    return [c for c in found if port in (c[1], c[3])]


def running(process):
    wait_for("the run to start", lambda: any(e["event"] == "start" for e in process.so_far().events))


# Both ends.

@pytest.mark.parametrize("workload", ("stream", "rr", "crr"))
def test_both_ends_tell_the_same_story(workload):
    client, server = both(workload, "-F", "5", "-T", "2")
    assert (client["role"], server["role"]) == ("client", "server")
    assert client["protocol"] == server["protocol"] == "weir"
    for mine, theirs in ((client, server), (server, client)):
        assert mine["local"]["counts"] == theirs["remote"]["counts"]
        assert mine["local"]["window_ns"] == theirs["remote"]["window_ns"]
        assert mine["local"]["intervals"] == theirs["remote"]["intervals"]
        assert mine["local"]["facts"] == theirs["remote"]["facts"]
    assert client["local"]["facts"]["hostname"] == os.uname().nodename
    assert [f["id"] for f in client["local"]["flows"]] == [0, 1, 2, 3, 4]
    if workload != "crr":  # a flow of its own for each connection there, and gone with it
        assert [f["id"] for f in server["local"]["flows"]] == [0, 1, 2, 3, 4]
    # Socket buffers may make the ends differ a little, which is noted; ends that had to wait for a
    # CPU open their windows late, and then the record says both.
    doubts = {f["name"] for f in client["findings"] if f["severity"] != "note" or f["name"] == "starved"}
    assert "incomplete" not in doubts
    assert "ends_disagree" not in doubts or "starved" in doubts


@noisy
def test_stream_bytes_received_are_those_sent():
    client, server = both("stream", "-F", "2", length="1")
    sent, received = counts(client)["tx_bytes"], counts(server)["rx_bytes"]
    assert received > 10 * MIB
    assert abs(sent - received) < 0.05 * sent + 2 * BUFFERED
    assert counts(client)["rx_bytes"] == counts(server)["tx_bytes"] == 0
    assert client["throughput_bps"] == pytest.approx(received * 8 / server["local"]["window_ns"] * 1e9, rel=1e-6)
    (direction,) = client["directions"]
    assert (direction["from"], direction["to"]) == ("client", "server")


def test_bytes_of_the_flows_add_up_to_those_of_the_run():
    client, server = both("stream", "-F", "2")
    for record in (client, server):
        for key in ("rx_bytes", "tx_bytes"):
            assert sum(f["counts"][key] for f in record["local"]["flows"]) == counts(record)[key], (record["role"], key)


def test_response_and_service_times_are_of_the_same_transactions():
    client, _ = both("rr", "--rate", "10000000", "-F", "4")
    assert client["latency_ns"]["count"] == client["service_ns"]["count"] == counts(client)["transactions"]


@pytest.mark.parametrize("workload", ("rr", "crr"))
@noisy
def test_transactions_are_counted_alike_at_both_ends(workload):
    client, server = both(workload, "-F", "3", length="1")
    here, there = counts(client)["transactions"], counts(server)["transactions"]
    assert here > 100
    assert abs(here - there) <= 0.05 * here + 3
    assert client["latency_ns"]["count"] == here
    assert client["transactions_per_s"] == pytest.approx(here / client["local"]["window_ns"] * 1e9, rel=1e-6)


@pytest.mark.parametrize("workload", ("rr", "crr"))
@pytest.mark.parametrize("flows, threads", ((1, 1), (7, 2)))
def test_a_number_of_transactions_is_kept_exactly(workload, flows, threads):
    client, server = both(workload, "-F", flows, "-T", threads, length="-500")
    assert counts(client)["transactions"] == counts(server)["transactions"] == 500
    assert client["latency_ns"]["count"] == 500
    assert client["local"]["warmup_ns"] == 0


@pytest.mark.parametrize("request_size, response_size", ((100, 3000), (200000, 1), (1, 300000)))
@pytest.mark.parametrize("workload", ("rr", "crr"))
def test_requests_and_responses_have_their_sizes(workload, request_size, response_size):
    """Also when they are larger than the buffer. 50 of them, so that each byte is accounted for."""
    client, server = both(workload, "-Q", request_size, "-R", response_size, "-F", "2", length="-50")
    assert counts(server)["transactions"] == 50
    assert counts(client)["tx_bytes"] == counts(server)["rx_bytes"] == 50 * request_size
    assert counts(client)["rx_bytes"] == 50 * response_size
    assert counts(server)["tx_bytes"] >= 50 * response_size
    assert server["options"]["request_size"] == request_size and server["options"]["response_size"] == response_size


def test_a_thousand_flows_in_one_thread():
    with Server("rr", "--json") as end:
        record = end.client("-l", "0.5", "-F", "1000", "--json").record
    assert record["verdict"] != "failed", record["findings"]
    assert [f["id"] for f in record["remote"]["flows"]] == list(range(1000))
    assert all(f["counts"]["transactions"] > 0 for f in record["remote"]["flows"])


def test_many_short_runs_of_many_connections():
    """Connections come and go while the results of a run are collected."""
    with Server("crr", "-T", "4", "--json") as server:
        for _ in range(25):
            done = server.client("-l", "0.05", "-F", "64", "-T", "2", "--json", seconds=10)
            assert done.record["verdict"] != "failed", done
        server.stop()


@pytest.mark.parametrize("pattern", ("seeded", "published"))
@pytest.mark.parametrize("option", ([], ["-M"], ["-r"], ["-B", "1000"], ["-Z"]), ids=" ".join)
def test_every_byte_of_a_stream_can_be_validated(option, pattern):
    client, server = both("stream", "-F", "2", f"--validate={pattern}", *option, length="0.2")
    assert client["verdict"] != "failed" and sum(moved(client, server)) == 1 + ("-r" in option)


@pytest.mark.parametrize("option", ([], ["-Q", "3000", "-R", "70000"], ["--outstanding", "4", "-Q", "999", "-R", "7"]), ids=" ".join)
def test_every_byte_of_requests_and_responses_can_be_validated(option):
    client, _ = both("rr", "-F", "2", "--validate", *option, length="0.2")
    assert client["verdict"] != "failed" and counts(client)["transactions"] > 10


@pytest.mark.parametrize("workload, at, option", [("stream", 1_000_000, []), ("rr", 100_000, ["-Q", "1000", "-R", "1000"])])
def test_a_byte_that_was_changed_on_its_way_fails_the_run(workload, at, option):
    class Flip(peers.Proxy):
        def _pump(self, source, sink):
            passed = 0
            with contextlib.suppress(OSError):
                while data := source.recv(65536):
                    if passed <= at < passed + len(data):
                        data = bytearray(data)
                        data[at - passed] ^= 1
                    passed += len(data)
                    sink.sendall(data)

    with Server(workload, "--json") as server, Flip(server.data) as wrong:
        done = run(WEIR, workload, "-c", "-H", "127.0.0.1", "-C", server.control, "-P", wrong.port, "-l", "0.5", "--warmup", "0", "--validate", "--json", *option)
        record = server.records(1)[0]
    assert done.status == 1 and done.record["verdict"] == record["verdict"] == "failed", done.record["findings"]
    # 32 bytes of preamble go before the stream
    assert any(str(at - 32) in text for text in findings(record)), record["findings"]


# Directions.

def moved(client, server):
    """Whether bytes went to the server, and to the client; counted by who received them."""
    return counts(server)["rx_bytes"] > MIB, counts(client)["rx_bytes"] > MIB


@pytest.mark.parametrize("option, to_server, to_client", [([], True, False), (["-M"], False, True), (["-r"], True, True), (["-rw"], True, True),
                                                          (["--split-bidir"], True, True)], ids=["default", "M", "r", "rw", "split"])
def test_a_direction_really_moves_bytes(option, to_server, to_client):
    client, server = both("stream", "-F", "2", *option)
    assert moved(client, server) == (to_server, to_client)
    assert len(client["directions"]) == to_server + to_client
    for direction in client["directions"]:
        assert direction["received_bps"] > 8 * MIB
    assert client["throughput_bps"] == pytest.approx(sum(d["received_bps"] for d in client["directions"]), rel=1e-6)


def test_split_bidir_has_flows_of_its_own_for_each_direction():
    client, server = both("stream", "-F", "2", "--split-bidir")
    assert len(client["local"]["flows"]) == len(server["local"]["flows"]) == 4
    for flow in client["local"]["flows"]:
        assert bool(flow["counts"]["rx_bytes"]) == (flow["id"] % 2 == 0)
        assert bool(flow["counts"]["tx_bytes"]) == (flow["id"] % 2 == 1)


# How bytes are moved.

def test_zerocopy_is_used_and_its_copies_are_told():
    client, _ = both("stream", "-Z", "-B", "128K")
    (flow,) = client["local"]["flows"]
    assert flow["zerocopy_sent"] > 10
    if flow["zerocopy_copied"]:
        assert "copied" in findings(client, "zerocopy_copied")[0]


def test_zerocopy_of_the_server_in_the_other_direction():
    client, server = both("stream", "-M", server=["-Z", "-B", "128K"])
    assert server["local"]["flows"][0]["zerocopy_sent"] > 10
    assert client["remote"]["flows"][0]["zerocopy_sent"] > 10


@pytest.mark.parametrize("end", ("client", "server"))
def test_rx_zerocopy_maps_what_it_receives(end):
    option = ["-z", "-B", "256K"]
    if end == "client":
        record, _ = both("stream", "-M", *option, server=["-Z"])
    else:
        _, record = both("stream", "-Z", "-B", "256K", server=option)
    assert counts(record)["rx_bytes"] > MIB
    if not record["local"]["flows"][0]["mapped_bytes"]:
        pytest.skip("this kernel maps nothing that comes over loopback")
    assert record["local"]["flows"][0]["mapped_bytes"] <= 1.2 * counts(record)["rx_bytes"] + BUFFERED


@noisy
def test_skip_rx_copy_receives_all_the_same():
    client, server = both("stream", server=["--skip-rx-copy"])
    assert counts(server)["rx_bytes"] > MIB
    assert abs(counts(client)["tx_bytes"] - counts(server)["rx_bytes"]) < 0.05 * counts(client)["tx_bytes"] + BUFFERED


@pytest.mark.parametrize("option", (["-E"], ["-E", "-r"], ["-E", "-M"], ["-E", "-B", "1K"], ["-E", "-Z"]), ids=" ".join)
@noisy
def test_edge_triggered_flows_do_not_stall(option):
    client, server = both("stream", "-F", "3", *option, server=["-E"])
    to_server, to_client = moved(client, server)
    assert to_server == ("-M" not in option) and to_client == ("-M" in option or "-r" in option)
    for direction in client["directions"]:
        assert direction["fairness"] > 0.3


@pytest.mark.parametrize("option", (["-X"], ["--no-cork"], ["--no-delay"], ["-R"], ["--async-connect"], ["--nonblocking"], ["--time-wait"], ["--freebind"],
                                    ["--maxevents", "1"], ["-B", "1M"], ["-B", "1"], ["--busy-poll"]), ids=" ".join)
def test_an_option_does_not_stop_a_stream(option):
    client, server = both("stream", "-F", "2", *option, length="0.3")
    assert counts(server)["rx_bytes"] > 1000


@pytest.mark.skipif(os.geteuid() != 0, reason="SO_MARK needs root")
def test_a_mark_is_set():
    both("stream", "--mark", "5", length="0.2")


def test_a_delay_spaces_the_sends_of_a_flow():
    client, _ = both("stream", "-D", "10ms", "-F", "2", length="1")
    for flow in client["local"]["flows"]:
        assert 50 <= flow["counts"]["tx_calls"] <= 105


@pytest.mark.parametrize("option, flows, most", [(["-D", "10ms"], 2, 200), (["--noburst", "10ms"], 4, 100)], ids=["delay", "noburst"])
def test_requests_are_spaced(option, flows, most):
    """-D is per flow, --noburst over all flows."""
    client, _ = both("rr", *option, "-F", flows, length="1")
    assert 0.6 * most <= counts(client)["transactions"] <= 1.03 * most + flows


@pytest.mark.parametrize("workload", ("stream", "rr", "crr"))
def test_congestion_control_is_the_one_asked_for_at_both_ends(workload):
    available = pathlib.Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    in_use = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    other = next((name for name in ("reno", "cubic") if name in available and name != in_use), None)
    if not other or not shutil.which("ss"):
        pytest.skip("needs ss and a second congestion control")
    with Server(workload, "--json") as server:
        with server.start_client("-l", "1", "--json", "--congestion-control", other) as client:
            running(client)
            seen = ""
            if workload != "crr":
                seen = subprocess.run(["ss", "-tinH", f"sport = :{server.data} or dport = :{server.data}"], capture_output=True, text=True,
                                      timeout=10, check=True).stdout
                assert seen.count(f" {other} ") == 2, seen
            record = measured(client.wait())
            assert server.records(1)[0]["options"]["congestion_control"] == record["options"]["congestion_control"] == other


def test_an_unknown_congestion_control_is_refused_by_name():
    with Server("stream") as server:
        done = server.client("-l", "0.3", "--congestion-control", "no-such-control")
        assert done.status == 1 and "no-such-control" in done.stderr.splitlines()[0]


@pytest.mark.parametrize("option, flows, bits", [(["-m", "100Mb"], 1, 100e6), (["-m", "50Mb"], 4, 200e6), (["-m", "100Mb", "-M"], 1, 100e6)], ids=["one", "four", "maerts"])
def test_pacing_is_kept(option, flows, bits):
    client, _ = both("stream", "-F", flows, *option, length="1")
    assert client["throughput_bps"] == pytest.approx(bits, rel=0.15)
    assert any("pacing" in text for text in findings(client, "limited_by")), client["findings"]


# rr under load.

def test_an_open_loop_reaches_its_rate_and_measures_from_the_intended_start():
    client, _ = both("rr", "--rate", "400", "-F", "4", length="2")
    assert client["transactions_per_s"] == pytest.approx(400, rel=0.1)  # what a busy machine puts off at the end is missing
    for name in ("min", "mean"):
        assert client["latency_ns"][name] >= client["service_ns"][name] * 0.99, name


def test_an_open_loop_of_connections_reaches_its_rate():
    client, _ = both("crr", "--rate", "200", "-F", "4", length="2")
    assert client["transactions_per_s"] == pytest.approx(200, rel=0.1)


def test_a_closed_loop_has_no_service_time_of_its_own():
    client, _ = both("rr")
    assert client["service_ns"] is None


@noisy
def test_requests_that_a_stalled_server_delayed_count_with_their_whole_delay():
    """No coordinated omission: all that should have started during the stall are late, not the one that was under way."""
    with Server("rr", "--json") as server:
        with server.start_client("--rate", "200", "-l", "2", "--warmup", "0", "-p", "50,85", "--json") as client:
            running(client)
            time.sleep(0.5)
            server.signal(signal.SIGSTOP)
            time.sleep(0.5)
            server.signal(signal.SIGCONT)
            record = measured(client.wait())
    late = {p["percent"]: p["ns"] for p in record["latency_ns"]["percentiles"]}
    service = {p["percent"]: p["ns"] for p in record["service_ns"]["percentiles"]}
    assert record["latency_ns"]["max"] > 0.4e9
    assert late[85] > 0.1e9, record["latency_ns"]
    assert service[85] < 0.1e9, record["service_ns"]


def test_a_rate_that_is_not_reached_makes_the_result_doubtful():
    with Server("rr", "--json") as server:
        done = server.client("--rate", "10000000", "-l", "0.3", "--json")
    assert done.status == 3 and done.record["verdict"] == "doubtful"
    assert "asked for 10000000" in findings(done.record, "rate_missed")[0]


@pytest.mark.parametrize("sizes", ((1, 1), (100, 5000)))
def test_several_requests_under_way_are_all_answered(sizes):
    client, server = both("rr", "--outstanding", "8", "-F", "2", "-Q", sizes[0], "-R", sizes[1], length="-2000")
    assert counts(client)["transactions"] == counts(server)["transactions"] == 2000
    assert counts(client)["rx_bytes"] == 2000 * sizes[1]


def test_several_requests_wait_for_each_other_on_a_slow_path():
    """On a slow path eight at a time come to much more than one at a time."""
    slow = ["-R", "20000", "-m", "2MB"]  # ten milliseconds of pacing for each answer
    one, _ = both("rr", *slow, length="0.6")
    eight, _ = both("rr", *slow, "--outstanding", "8", length="0.6")
    assert eight["latency_ns"]["mean"] > 3 * one["latency_ns"]["mean"]


def test_busy_poll_never_sleeps():
    idle, _ = both("rr", "--rate", "50", length="0.6")
    busy, _ = both("rr", "--rate", "50", "--busy-poll", length="0.6")
    # On a machine with other work it gets less than a whole CPU.
    assert busy["local"]["cpu"]["busiest_thread_share"] > idle["local"]["cpu"]["busiest_thread_share"] + 0.15


def test_percentiles_are_those_asked_for_and_in_order():
    client, _ = both("rr", "-p", "99,50,90", length="-5000")
    listed = client["latency_ns"]["percentiles"]
    assert [p["percent"] for p in listed] == [50, 90, 99]
    values = [client["latency_ns"]["min"], *(p["ns"] for p in listed), client["latency_ns"]["max"]]
    assert values == sorted(values)
    assert all(p["sound"] for p in listed)


def test_a_percentile_with_few_samples_is_not_called_sound():
    client, _ = both("rr", "-p", "50,99.99", length="-200")
    sound = {p["percent"]: p["sound"] for p in client["latency_ns"]["percentiles"]}
    assert sound == {50: True, 99.99: False}
    assert "200 samples do not tell p99.99" in findings(client, "few_samples")[0]


# The measured time.

def test_warm_up_is_excluded_and_named():
    client, server = both("rr", "--rate", "200", "--warmup", "0.6", length="0.6")
    for record in (client, server):
        assert record["local"]["warmup_ns"] == 600_000_000
        assert record["local"]["window_ns"] == pytest.approx(0.6e9, rel=0.1)
        assert record["local"]["intervals"][0]["begin_ns"] >= 0.6e9
    assert counts(client)["transactions"] == pytest.approx(120, abs=12)


def test_warm_up_is_a_tenth_of_the_length_by_default():
    client, _ = both("rr")
    assert client["local"]["warmup_ns"] == 30_000_000
    with Server("rr") as server:
        text = server.client("-l", "0.5").stdout
    assert re.search(r"warm-up 0\.05 s excluded, 0\.[45]\d* s measured", text)


def test_intervals_cover_the_window_without_gap():
    client, _ = both("rr", "-I", "0.1", length="0.7")
    intervals = client["local"]["intervals"]
    assert len(intervals) == pytest.approx(7, abs=1)
    assert all(a["end_ns"] == b["begin_ns"] for a, b in zip(intervals, intervals[1:]))
    assert sum(i["transactions"] for i in intervals) == counts(client)["transactions"]
    assert intervals[-1]["end_ns"] - intervals[0]["begin_ns"] == client["local"]["window_ns"]


@pytest.mark.parametrize("number", (signal.SIGINT, signal.SIGTERM), ids=("int", "term"))
def test_a_client_told_to_stop_reports_what_it_has(number):
    with Server("stream", "--json", "-I", "0.2") as server:
        with server.start_client("-l", "30", "--warmup", "0", "-I", "0.2", "--json") as client:
            wait_for("intervals", lambda: sum(e["event"] == "interval" for e in client.so_far().events) >= 3)
            client.signal(number)
            done = client.wait(8)
        record = done.record
        validate(record)
        assert 0.5e9 < record["local"]["window_ns"] < 10e9
        assert counts(record)["tx_bytes"] > MIB
        other = server.records(1, 8)[0]
        assert counts(other)["rx_bytes"] > MIB
        assert done.status == {"good": 0, "failed": 1, "doubtful": 3}[record["verdict"]]


def test_suicide_ends_a_run_that_is_too_long():
    with Server("stream") as server:
        done = server.client("-l", "30", "-s", "1")
        assert done.status == 255 and done.seconds < 5
        assert "suicide" in done.stderr


# Addresses and ports.

def test_flows_are_dealt_to_several_ports():
    with Server("stream", "--num-ports", "3", "--json", ports=3) as server:
        with server.start_client("-l", "1", "-F", "6", "--num-ports", "3", "--json") as client:
            running(client)
            for port in range(server.data, server.data + 3):
                assert len([c for c in connections(client.pid, port) if c[3] == port]) == 2
            measured(client.wait())


@pytest.mark.parametrize("workload", ("stream", "rr"))
def test_flows_leave_from_the_source_ports_given(workload):
    first = free_ports(4)
    with Server(workload, "--json") as server:
        for _ in range(2):  # twice: nothing may be left in TIME_WAIT on these ports
            with server.start_client("-l", "0.5", "-F", "4", "-T", "2", "--source-port", first, "--json") as client:
                running(client)
                assert sorted(c[1] for c in connections(client.pid, server.data) if c[3] == server.data) == list(range(first, first + 4))
                measured(client.wait())


def test_flows_leave_from_the_local_hosts_given():
    with Server("stream", "--json") as server:
        with server.start_client("-l", "0.6", "-F", "4", "-H", "127.0.0.1", "-L", "127.0.0.2,127.0.0.3", "--json") as client:
            running(client)
            sources = sorted(c[0] for c in connections(client.pid, server.data) if c[3] == server.data)
            assert sources == ["0200007F", "0200007F", "0300007F", "0300007F"]
            record = measured(client.wait())
    assert record["local"]["address"].startswith("127.0.0.2:")


def test_local_hosts_work_for_connections_of_crr():
    with Server("crr", "--json") as server:
        record = measured(server.client("-l", "-200", "-F", "2", "-H", "127.0.0.1", "-L", "127.0.0.2", "--json"))
    assert record["latency_ns"]["count"] == 200


HAS_IPV6 = pathlib.Path("/proc/net/if_inet6").exists() and "00000000000000000000000000000001" in pathlib.Path("/proc/net/if_inet6").read_text()


@pytest.mark.skipif(not HAS_IPV6, reason="this host has no IPv6 loopback")
@pytest.mark.parametrize("workload", ("stream", "rr", "crr"))
def test_ipv6(workload):
    client, server = both(workload, "-H", "::1", length="0.3")
    assert client["local"]["address"].startswith("[::1]:") and server["remote"]["address"].startswith("[::1]:")


@pytest.mark.parametrize("server_options, host, works", [
    ([], "127.0.0.1", True), ([], "::1", True), (["-6"], "127.0.0.1", True), (["-6"], "::1", True), (["-4"], "127.0.0.1", True),
    (["-4"], "::1", False), (["-H", "127.0.0.1"], "127.0.0.1", True), (["-H", "::1"], "::1", True), (["-H", "127.0.0.1"], "::1", False),
    (["-H", "127.0.0.2"], "127.0.0.1", False)], ids=str)
def test_a_server_is_found_where_it_listens(server_options, host, works):
    if ":" in host + "".join(server_options) or "-6" in server_options:
        if not HAS_IPV6:
            pytest.skip("this host has no IPv6 loopback")
    with Server("rr", "--json", *server_options) as server:
        done = server.client("-H", host, "-l", "0.2", "--connect-timeout", "0", "--json")
        assert (done.status in (0, 3)) == works, done
        if works:
            measured(done)


def test_a_client_without_a_host_finds_a_server_of_either_family():
    for option in ("-4", "-H127.0.0.1"):
        with Server("rr", option) as server:
            measured(server.client("-l", "0.2", "--json"))


# Places.

def allowed_cpus(pid):
    """The CPU lists of the workers of a process."""
    lists = []
    for task in os.listdir(f"/proc/{pid}/task"):
        if not pathlib.Path(f"/proc/{pid}/task/{task}/comm").read_text().startswith("weir-"):
            continue
        for line in pathlib.Path(f"/proc/{pid}/task/{task}/status").read_text().splitlines():
            if line.startswith("Cpus_allowed_list:"):
                lists.append(line.split()[1])
    return lists


@pytest.mark.parametrize("option", ("-U", "--cpus"))
def test_threads_are_bound_to_cpus(option):
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    words, expected = (["-U"], cpus) if option == "-U" else (["--cpus", f"{cpus[1]},{cpus[0]}"], cpus)
    with Server("rr") as server:
        with server.start_client("-l", "0.8", "-T", "2", "-F", "2", "--json", *words) as client:
            running(client)
            assert sorted(allowed_cpus(client.pid)) == sorted(str(c) for c in expected)
            measured(client.wait())


def test_one_cpu_serves_all_threads():
    cpu = max(os.sched_getaffinity(0))
    with Server("rr", "--cpus", cpu, "-T", "2") as server:
        assert set(allowed_cpus(server.pid)) == {str(cpu)}
        measured(server.client("-l", "0.3", "-F", "4", "-T", "2", "--json"))
