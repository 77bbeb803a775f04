# SPDX-License-Identifier: BSD-3-Clause
"""A client that means harm, or has gone mad: the server refuses or survives, and serves the next one."""
import contextlib
import os
import pathlib
import random
import struct
import time

import pytest

import peers
from weirtest import Server, measured, wait_for


# Descriptors of workers that a client with many threads made the server start; they stay, one per CPU at most.
WORKERS = 4 * (os.cpu_count() or 1)


@pytest.fixture(scope="module", params=["stream", "rr"])
def server(request):
    with Server(request.param, "--json") as server:
        yield server
        measured(server.client("-l", "0.2", "--json"))
        assert server.stop().status in (0, 3)


@pytest.fixture(autouse=True)
def unharmed(server):
    """After each of these the server lives and has given everything back; after all of them it serves an honest client."""
    yield
    assert not server.ended(), server.so_far()
    server.settle(15, extra=WORKERS)


def resident_mib(server):
    for line in pathlib.Path(f"/proc/{server.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


REFUSED = [
    {"buffer_size": 1 << 30},
    {"buffer_size": "1G"},
    {"buffer_size": 0},
    {"buffer_size": -1},
    {"buffer_size": 1 << 62},
    {"num_threads": 100000},
    {"num_threads": 0},
    {"num_threads": -1},
    {"num_flows": 0},
    {"num_flows": 2000000},
    {"num_flows": 1 << 33},
    {"test_length": 0},
    {"test_length": "nan"},
    {"test_length": 1e300},
    {"warmup": 1e300},
    {"interval": 0},
    {"interval": 1e-9},
    {"congestion_control": "no-such-control"},
]


@pytest.mark.parametrize("wish", [
    pytest.param(wish, id="_".join(f"{k}={str(v)[:12]}" for k, v in wish.items()))
    for wish in REFUSED])
def test_an_absurd_wish_is_refused_with_a_reason(server, wish):
    with peers.Talker(server) as talker:
        kind, words = talker.ask(**wish)
    assert kind == peers.REFUSE, (kind, words)
    name = next(iter(wish)).replace("_", "-").encode()
    assert name in words and len(words) < 1000


def test_a_size_of_the_other_workload_is_ignored_or_refused(server):
    wish = {"request_size": 1 << 40} if server.workload == "stream" else {"split_bidir": 1}
    with peers.Talker(server) as talker:
        kind, _ = talker.ask(**wish)
    assert kind in (peers.ACCEPT, peers.REFUSE)


@pytest.mark.parametrize("wish", [{"num_threads": 1024, "num_flows": 1024}, {"num_flows": 1000000},
                                  {"test_length": 1000000, "interval": 0.001}, {"warmup": 1000000},
                                  {"max_pacing_rate": 1}, {"buffer_size": 1}],
                         ids=lambda w: "_".join(f"{k}={v}" for k, v in w.items()))
def test_a_large_wish_within_the_limits_costs_little_until_it_is_used(server, wish):
    before = resident_mib(server)
    threads = len(os.listdir(f"/proc/{server.pid}/task"))
    with peers.Talker(server) as talker:
        kind, words = talker.ask(**wish)
        assert kind in (peers.ACCEPT, peers.REFUSE), words
        assert resident_mib(server) < before + 200
        assert len(os.listdir(f"/proc/{server.pid}/task")) <= threads + 2 * (os.cpu_count() or 1) + 2


@pytest.mark.parametrize("body", [b"", b"\n" * 1000, b"=" * 1000, b"novalue\n", b"\x00" * 100, b"test-length=1", b"=1\n", b"test-length=\n",
                                  bytes(range(256)) * 10, b"unheard-of=1\n" * 1000, b"test-length=" + b"9" * 100000,
                                  b"congestion-control=" + b"a" * 100000 + b"\n", b"host=evil\nout=evil.json\nonce=1\nport=1\n"],
                         ids=["empty", "newlines", "equals", "no_value", "nuls", "no_newline", "no_name", "no_text", "binary", "unknown", "long_number",
                              "long_text", "not_for_clients"])
def test_a_request_of_junk_is_refused_or_survived(server, body):
    with peers.Talker(server) as talker:
        talker.say(peers.REQUEST, body)
        kind, _ = talker.hear()
    assert kind in (peers.ACCEPT, peers.REFUSE, None)
    assert not pathlib.Path(f"/proc/{server.pid}/cwd/evil.json").exists()


def test_random_requests_are_survived(server):
    chance = random.Random(1)
    names = ["test-length", "warmup", "num-flows", "num-threads", "interval", "buffer-size", "request-size", "enable-read", "split-bidir", "mem",
             "no-delay", "busy-poll", "max-pacing-rate"]
    values = ["0", "1", "-1", "1e9", "x", "", "99999999999999999999", "0.0001", "1K", "nan", "\x01", "2"]
    for _ in range(60):
        with peers.Talker(server) as talker:
            talker.say(peers.REQUEST, "".join(f"{chance.choice(names)}={chance.choice(values)}\n" for _ in range(chance.randrange(8))))
            assert talker.hear()[0] in (peers.ACCEPT, peers.REFUSE)


@pytest.mark.parametrize("head", [struct.pack(">II", 0xffffffff, peers.REQUEST), struct.pack(">II", (32 << 20) + 1, peers.REQUEST),
                                  struct.pack(">II", 10, 0), struct.pack(">II", 10, 9), struct.pack(">II", 10, 0xffffffff), bytes(8), b"\xff" * 4096],
                         ids=["huge", "one_too_many", "type_0", "type_9", "type_max", "zeros", "noise"])
def test_a_message_that_is_none_closes_the_connection(server, head):
    with peers.Talker(server) as talker:
        with contextlib.suppress(OSError):
            talker.sock.sendall(head)
        assert peers.is_closed(talker.sock, 5)


@pytest.mark.parametrize("kind", (peers.ACCEPT, peers.REFUSE, peers.READY, peers.GO, peers.TICK, peers.RESULT, peers.ABORT))
def test_a_message_out_of_turn_closes_the_connection(server, kind):
    with peers.Talker(server) as talker:
        talker.say(kind, b"token=00\n")
        assert peers.is_closed(talker.sock, 5)


@pytest.mark.parametrize("kind", (peers.REQUEST, peers.ACCEPT, peers.GO, peers.RESULT, peers.ABORT))
def test_a_message_out_of_turn_before_the_run_ends_the_session(server, kind):
    with peers.Talker(server) as talker:
        assert talker.ask()[0] == peers.ACCEPT
        talker.say(kind, b"nothing\n")
        assert peers.is_closed(talker.sock, 5)


def started(talker):
    """A run by hand with one silent flow."""
    kind, accept = talker.ask(test_length=10)
    assert kind == peers.ACCEPT, accept
    flow = peers.connect(talker.server.data)
    flow.sendall(peers.preamble(talker.token(accept)))
    talker.say(peers.READY)
    assert talker.hear()[0] == peers.GO
    return flow


RESULTS = [b"", b"\n", b"junk", b"\x00" * 1000, b"complete=1\n" * 1000, b"flow " + b"9" * 5000 + b"\n", b"intervals=4294967295\nflows=4294967295\n",
           b"rx_bytes=-1\nwindow_ns=0\n", b"error=" + b"\x1b[2J" * 500 + b"\n", bytes(range(1, 256)) * 100]


@pytest.mark.parametrize("body", RESULTS, ids=range(len(RESULTS)))
def test_results_of_junk_end_the_run_with_a_record(server, body):
    before = len(server.so_far().records)
    with peers.Talker(server) as talker, started(talker):
        talker.say(peers.RESULT, body)
        assert talker.hear()[0] in (peers.RESULT, peers.ABORT, None)
    server.records(before + 1, 8)


def test_a_run_that_moves_nothing_is_no_success(server):
    before = len(server.so_far().records)
    with peers.Talker(server) as talker, started(talker):
        time.sleep(0.5)
        talker.say(peers.ABORT, b"changed my mind\nreally")
        assert peers.is_closed(talker.sock, 8)
    record = server.records(before + 1, 8)[-1]
    assert record["verdict"] == "failed"
    assert any("changed my mind" in f["text"] and "\n" not in f["text"] for f in record["findings"])


def test_many_sessions_are_limited(server):
    """Each costs a thread: at some number the next is turned away, and an honest client gets in when they are gone."""
    with contextlib.ExitStack() as stack:
        turned_away = 0
        for _ in range(80):
            sock = stack.enter_context(contextlib.closing(peers.connect(server.control)))
            sock.sendall(peers.hello(server.workload, rate=peers.MARK))
            turned_away += len(peers.receive(sock, 72)) < 72
        assert 0 < turned_away < 80
        wait_for("a word about it", lambda: "turned away" in server.so_far().stderr, 5)


def test_many_results_do_not_grow_the_server(server):
    """Sessions give their memory back."""
    for _ in range(10):
        with peers.Talker(server) as talker:
            talker.ask(num_flows=100, buffer_size="4M")
    wait_for("sessions to end", lambda: server.descriptors() <= server.idle_descriptors + WORKERS, 10)
    before = resident_mib(server)
    for _ in range(40):
        with peers.Talker(server) as talker:
            talker.ask(num_flows=100, buffer_size="4M")
    wait_for("sessions to end", lambda: server.descriptors() <= server.idle_descriptors + WORKERS, 10)
    # A sanitizer keeps what was freed for a while: 256 MiB by default.
    assert resident_mib(server) < before + 300
