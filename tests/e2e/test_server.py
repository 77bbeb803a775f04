# SPDX-License-Identifier: BSD-3-Clause
"""A server's life: many clients, one after another and at once, what is agreed with each, and its end."""
import contextlib
import signal
import time

import pytest

import peers
from weirtest import MEASURED, Server, findings, measured, noisy, validate, wait_for


@pytest.mark.parametrize("workload", ("stream", "rr", "crr"))
def test_a_server_serves_one_client_after_another(workload):
    with Server(workload, "--json") as server:
        for count in (1, 2, 3):
            measured(server.client("-l", "0.2", "-F", count, "--json"))
            assert len(server.records(count)[-1]["remote"]["flows"]) == count
            server.settle()
        done = server.stop()
        assert done.status in MEASURED and done.stderr == ""


@pytest.mark.parametrize("workload", ("stream", "rr", "crr"))
def test_a_server_serves_four_clients_at_once(workload):
    """Each gets its own record with its own flows and its own options."""
    with Server(workload, "--json") as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.start_client("-l", "1", "-F", flows, "-T", min(flows, 2), "--json")) for flows in (1, 2, 3, 4)]
        records = [measured(client.wait()) for client in clients]
        assert [len(r["local"]["flows"]) for r in records] == [1, 2, 3, 4]
        theirs = {r["remote"]["address"]: r for r in server.records(4)}
        for record in records:
            other = theirs[record["local"]["address"]]
            assert other["local"]["counts"] == record["remote"]["counts"]
            assert other["options"]["num_flows"] == record["options"]["num_flows"]
            if workload != "crr":
                assert [f["id"] for f in other["local"]["flows"]] == [f["id"] for f in record["local"]["flows"]]


def test_runs_of_different_sizes_at_once_do_not_mix():
    """Two rr runs whose messages differ: a byte that went to the other would stall or miscount both."""
    with Server("rr", "--json") as server:
        with server.start_client("-l", "-3000", "-Q", "10", "-R", "70000", "-F", "3", "--json") as one:
            with server.start_client("-l", "-3000", "-Q", "3000", "-R", "1", "-F", "2", "--json") as other:
                a, b = measured(one.wait()), measured(other.wait())
    assert a["remote"]["counts"]["transactions"] == b["remote"]["counts"]["transactions"] == 3000
    assert a["local"]["counts"]["rx_bytes"] == 3000 * 70000
    assert b["local"]["counts"]["tx_bytes"] == 3000 * 3000


@pytest.mark.parametrize("workload", ("stream", "rr", "crr"))
def test_a_neper_and_a_weir_client_at_once(workload):
    with Server(workload, "--json") as server:
        with server.start_client("-l", "1.2", "-F", "3", "--json") as first:
            wait_for("the first to start", lambda: any(e["event"] == "start" for e in first.so_far().events))
            with server.start_client("-l", "0.5", "-F", "2", "--protocol", "neper", "--json") as second:
                b, a = measured(second.wait()), measured(first.wait())
        assert (a["protocol"], b["protocol"]) == ("weir", "neper")
        records = {r["protocol"]: r for r in server.records(2)}
        if workload != "crr":
            assert len(records["weir"]["local"]["flows"]) == 3 and len(records["neper"]["local"]["flows"]) == 2
        key = "rx_bytes" if workload == "stream" else "transactions"
        assert records["weir"]["local"]["counts"][key] > 0 and records["neper"]["local"]["counts"][key] > 0


def test_once_ends_after_one_test():
    with Server("rr", "--once", "--json") as server:
        measured(server.client("-l", "0.2", "--json"))
        done = server.wait(5)
        assert done.status in MEASURED and len(done.records) == 1


def test_once_turns_a_second_client_away_while_the_first_is_served():
    with Server("rr", "--once") as server:
        with server.start_client("-l", "1", "--json") as first:
            wait_for("the first to start", lambda: any(e["event"] == "start" for e in first.so_far().events))
            second = server.client("-l", "0.2", "--connect-timeout", "0")
            assert second.status == 1 and "closed the connection" in second.stderr
            measured(first.wait())
        assert server.wait(15).status in MEASURED


def test_once_is_not_used_up_by_a_client_that_was_refused():
    with Server("rr", "--once", "-Q", "5", "--json") as server:
        assert server.client("-Q", "6", "-l", "0.2").status == 1
        with peers.Talker(server):
            pass
        time.sleep(0.3)
        assert not server.ended(), server.so_far()
        measured(server.client("-Q", "5", "-l", "0.2", "--json"))
        assert server.wait(15).status in MEASURED


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGINT), ids=("term", "int"))
def test_an_idle_server_ends_at_once_with_status_0(number):
    with Server("stream") as server:
        server.signal(number)
        done = server.wait(3)
        assert (done.status, done.stdout, done.stderr) == (0, "", "")


def test_a_server_stopped_in_the_middle_tells_the_client_and_reports():
    with Server("stream", "--json", "-I", "0.2") as server:
        with server.start_client("-l", "20", "-I", "0.2", "--json") as client:
            wait_for("intervals", lambda: sum(e["event"] == "interval" for e in client.so_far().events) >= 2)
            stopped = server.stop(5)
            done = client.wait(5)
    assert stopped.record["local"]["counts"]["rx_bytes"] > 0
    assert done.status == 1 and done.record["verdict"] == "failed"
    assert any("the server was stopped" in text for text in findings(done.record)), done.record["findings"]
    assert done.record["local"]["counts"]["tx_bytes"] > 0


def test_a_server_with_strangers_at_its_door_ends_at_once():
    with Server("stream") as server, contextlib.ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(contextlib.closing(peers.connect(server.control)))
        time.sleep(0.2)
        assert server.stop(3).status == 0


def test_a_server_with_strangers_at_its_data_port_ends_at_once():
    with Server("stream", "--json") as server, peers.Talker(server) as talker, contextlib.ExitStack() as stack:
        assert talker.ask()[0] == peers.ACCEPT  # while a session waits for flows, who comes is listened to
        for _ in range(5):
            stack.enter_context(contextlib.closing(peers.connect(server.data)))
        time.sleep(0.2)
        assert server.stop(3).status in (0, 1)


def test_a_second_signal_ends_a_server_that_still_waits():
    with Server("stream") as server, peers.Talker(server):
        server.signal(signal.SIGTERM)
        time.sleep(0.3)
        if not server.ended():
            server.signal(signal.SIGTERM)
        assert server.wait(3).status in (0, 1, -signal.SIGTERM)


# Several clients as one test.

@noisy
def test_two_clients_together_are_one_test():
    """As neper has it: the server waits for both, counts both, and tells both its rate."""
    with Server("stream", "--num-clients", "2", "--once", "--json") as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.start_client("-l", "1", "-F", flows, "--json", "-I", "0.2")) for flows in (1, 2)]
        records = [measured(client.wait()) for client in clients]
        done = server.wait(10)
    assert [r["protocol"] for r in records] == ["neper", "neper"]
    record = done.record
    validate(record)
    assert len(record["local"]["flows"]) == 3
    sent = sum(r["local"]["counts"]["tx_bytes"] for r in records)
    assert record["local"]["counts"]["rx_bytes"] == pytest.approx(sent, rel=0.3)
    assert records[0]["peer_rate"] == records[1]["peer_rate"] == pytest.approx(record["local"]["rates"]["rx_bps"], rel=0.01)


def test_the_first_of_two_clients_waits_for_the_second():
    with Server("rr", "--num-clients", "2", "--once", "--json") as server:
        with server.start_client("-l", "0.5", "--json") as first:
            time.sleep(0.3)
            with server.start_client("-l", "1", "--json") as second:
                measured(first.wait())
                measured(second.wait())
        assert server.wait(10).status in (0, 3)


def test_two_clients_of_which_one_dies_end_the_test():
    with Server("rr", "--num-clients", "2", "--once", "--json") as server:
        with server.start_client("-l", "20", "--json") as first, server.start_client("-l", "1", "--json") as second:
            wait_for("both flows", lambda: server.descriptors() >= server.idle_descriptors + 4)
            time.sleep(0.3)
            first.kill()
            done = second.wait(15)
        assert done.record["local"]["counts"]["transactions"] > 0
        assert server.wait(15).record["local"]["counts"]["transactions"] > 0


# What is agreed.

@pytest.mark.parametrize("workload, server_option, client_option, name, ours, theirs", [
    ("rr", ["-Q", "100"], ["-Q", "1"], "--request-size", "100", "1"),
    ("rr", ["-R", "100"], ["-R", "2K"], "--response-size", "100", "2048"),
    ("crr", ["-Q", "100"], [], "--request-size", "100", "1"),
    ("stream", ["-l", "5"], ["-l", "7"], "--test-length", "5", "7"),
    ("stream", ["--warmup", "1"], ["--warmup", "2"], "--warmup", "1", "2"),
    ("stream", ["-M"], [], "--enable-tcp-maerts", "1", "0"),
    ("stream", ["-w"], [], "--enable-write", "1", "0"),
    ("stream", ["--split-bidir"], [], "--split-bidir", "1", "0"),
], ids=lambda v: " ".join(v) if isinstance(v, list) else v)
def test_a_difference_is_refused_with_both_values(workload, server_option, client_option, name, ours, theirs):
    with Server(workload, *server_option) as server:
        length = [] if "-l" in client_option else ["-l", "0.3"]
        done = server.client(*length, *client_option)
        assert done.status == 1 and done.stdout == ""
        line = done.stderr.splitlines()[0]
        words = f"{name} differs: the server was started with {ours}, the client asks for {theirs}"
        assert words in line and line.endswith("leave it out at the server, which then takes the client's."), line
        wait_for("the server's word", lambda: words in server.so_far().stderr, 5)
        server.settle()


@pytest.mark.parametrize("workload, options", [
    ("stream", ["-M", "-B", "64K", "-F", "3", "-T", "2"]),
    ("stream", ["-r"]),
    ("stream", ["--split-bidir", "-m", "1Gb"]),
    ("rr", ["-Q", "100", "-R", "2K", "-I", "0.1"]),
    ("crr", ["-Q", "10", "-R", "20"]),
], ids=lambda v: " ".join(v) if isinstance(v, list) else v)
def test_a_server_left_alone_follows_its_client(workload, options):
    with Server(workload, "--json") as server:
        client = measured(server.client("-l", "0.5", *options, "--json"))
        record = server.records(1)[0]
    for key in ("test_length", "warmup", "buffer_size", "interval", "num_flows", "num_threads", "enable_tcp_maerts", "split_bidir", "max_pacing_rate",
                "request_size", "response_size", "no_delay"):
        if key in client["options"]:
            assert record["options"][key] == client["options"][key], key
    if workload == "stream":
        assert record["options"]["enable_write"] == client["options"]["enable_read"]


def test_a_client_of_the_next_run_is_not_bound_by_the_last():
    """What one client asked for is gone with it."""
    with Server("rr", "--json") as server:
        measured(server.client("-l", "-100", "-Q", "1000", "-R", "5000", "--json"))
        record = measured(server.client("-l", "-100", "--json"))
    assert record["remote"]["counts"]["rx_bytes"] == 100


def test_the_same_value_at_both_ends_is_no_difference():
    with Server("rr", "-Q", "100", "-R", "7", "-l", "0.3", "--json") as server:
        measured(server.client("-Q", "100", "-R", "7", "-l", "0.3", "--json"))


def test_a_server_keeps_the_threads_it_was_given():
    with Server("rr", "-T", "3", "--json") as server:
        record = measured(server.client("-l", "0.3", "-T", "1", "-F", "6", "--json"))
    assert record["remote"]["threads"] == 3 and record["local"]["threads"] == 1


@pytest.mark.parametrize("server_protocol, client_protocol, spoken", [
    ("auto", "auto", "weir"), ("auto", "neper", "neper"), ("auto", "weir", "weir"), ("neper", "auto", "neper"), ("neper", "neper", "neper"),
    ("neper", "weir", None), ("weir", "auto", "weir"), ("weir", "neper", None), ("weir", "weir", "weir")])
def test_the_protocol_spoken_is_one_that_both_allow(server_protocol, client_protocol, spoken):
    with Server("rr", "--protocol", server_protocol, "--json") as server:
        done = server.client("-l", "0.3", "--protocol", client_protocol, "--json")
        if spoken:
            assert measured(done)["protocol"] == spoken
            assert server.records(1)[0]["protocol"] == spoken
        else:
            assert done.status == 1 and done.stderr, done
        server.settle()
