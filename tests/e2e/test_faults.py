# SPDX-License-Identifier: BSD-3-Clause
"""What goes wrong between two ends: each end says why in one line, within seconds, keeps what was measured, and a server
goes on serving others with no descriptor lost."""
import contextlib
import os
import signal
import socket
import struct
import subprocess
import time

import pytest

import peers
from weirtest import MEASURED, WEIR, Process, Server, findings, free_ports, is_listening, measured, validate, wait_for, weir


@contextlib.contextmanager
def survivor(workload="stream", *args, **how):
    """A server that, whatever happens to it inside the block, lives, gives back its descriptors and serves the next client."""
    with Server(workload, "--json", *args, **how) as server:
        yield server
        assert not server.ended(), server.so_far()
        server.settle(15)
        before = len(server.so_far().records)
        measured(server.client("-l", "0.2", "--json"))
        server.records(before + 1)
        server.settle()
        done = server.stop()
        assert done.status in (0, 3), done  # of the last run


def reason(done, status=1, seconds=6):
    """The one line that says why, of a process that failed soon enough."""
    assert done.status == status, done
    assert done.seconds < seconds, done
    lines = done.stderr.splitlines()
    assert lines and lines[0].startswith(("weir ", "tcp_")), done
    assert all(line.startswith("  ") for line in lines[1:]) and len(lines) <= 2, done
    return lines[0]


def client(port, *args, workload="stream", **how):
    return weir(workload, "-c", "-H", "127.0.0.1", "-C", port, "-P", free_ports(1), "-l", "0.3", *args, **how)


# The client: nobody there, or somebody strange.

def test_unknown_host_is_named():
    done = weir("stream", "-c", "-H", "no-such-host.invalid", seconds=20)
    assert done.status == 1 and done.stdout == ""
    assert "no-such-host.invalid" in done.stderr.splitlines()[0]


def test_nobody_listening_is_said_within_the_connect_timeout():
    port = free_ports(1)
    done = client(port, "--connect-timeout", "0.5")
    assert f"127.0.0.1:{port}" in reason(done, seconds=2.5)
    assert "start the server there first: weir stream" in done.stderr


def test_no_connect_timeout_means_one_try():
    assert reason(client(free_ports(1), "--connect-timeout", "0"), seconds=1.5)


def test_nobody_listening_is_an_error_event_in_json():
    done = client(free_ports(1), "--connect-timeout", "0", "--json")
    assert done.status == 1
    (event,) = done.events
    validate(event)
    assert event["event"] == "error" and "cannot connect" in event["text"]
    assert not done.records


def test_a_client_waits_for_a_server_that_starts_late():
    control = free_ports(2)
    at = ["-C", control, "-P", control + 1]
    with Process(WEIR, "rr", "-c", *at, "-l", "0.2", "--connect-timeout", "20", "--json") as late:
        time.sleep(0.7)
        with Process(WEIR, "rr", *at, "--once"):
            measured(late.wait())


@pytest.mark.parametrize("answer, words", [
    (b"", "closed"),
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", "28 of the 72 bytes"),
    (bytes(range(72)), "not an acknowledgement"),
    (bytes(10), "10 of the 72 bytes"),
    (peers.neper(peers.ACK, magic=7), "magic"),
    (peers.neper(peers.BYE), "not an acknowledgement"),
    (peers.neper(peers.ACK, rate=peers.MARK) + struct.pack(">II", 5, 99) + b"hello", "type 99"),
    (peers.neper(peers.ACK, rate=peers.MARK) + struct.pack(">II", 0xffffffff, 2), "4294967295"),
    (peers.neper(peers.ACK, rate=peers.MARK) + struct.pack(">II", 6, 2) + b"token=", "without a token"),
    (peers.neper(peers.ACK, rate=peers.MARK) + struct.pack(">II", 40, 2) + b"token=" + b"z" * 34, "without a token"),
    (peers.neper(peers.ACK, rate=peers.MARK) + struct.pack(">II", 0, 5), "message 5"),
    (peers.neper(peers.ACK, rate=peers.MARK) + struct.pack(">II", 100, 2) + b"token=", "went away"),
], ids=["closes", "http", "junk", "short", "magic", "wrong_type", "unknown_message", "huge_message", "no_token", "bad_token", "out_of_turn", "half_a_message"])
def test_a_strange_server_is_told_apart(answer, words):
    def behave(sock):
        peers.receive(sock, 72)
        sock.sendall(answer)
        if len(answer) > 72:
            peers.receive(sock, 20)
        sock.shutdown(socket.SHUT_WR)
        time.sleep(5)

    with peers.Listener(behave) as strange:
        assert words in reason(client(strange.port))


def test_what_a_server_says_cannot_write_to_the_terminal_beyond_its_line():
    """A refusal is passed on to the user: as text, not as commands to the terminal or further lines."""
    words = b"no\x1b[2Jt today\nweir stream: all is well\x07"

    def behave(sock):
        peers.receive(sock, 72)
        sock.sendall(peers.neper(peers.ACK, rate=peers.MARK) + struct.pack(">II", len(words), peers.REFUSE) + words)
        time.sleep(5)

    with peers.Listener(behave) as rude:
        done = client(rude.port)
    assert done.status == 1 and "no" in done.stderr
    assert not any(ord(c) < 32 and c != "\n" for c in done.stderr), done
    assert len([line for line in done.stderr.splitlines() if not line.startswith("  ")]) == 1, done


def test_a_server_whose_data_port_is_closed_is_named():
    def behave(sock):
        peers.receive(sock, 72)
        sock.sendall(peers.neper(peers.ACK, rate=peers.MARK) + struct.pack(">II", 39, 2) + b"token=" + b"a" * 32 + b"\n")
        time.sleep(5)

    with peers.Listener(behave) as closed:
        done = client(closed.port)
    assert "cannot connect to 127.0.0.1" in reason(done)
    assert "--port" in done.stderr


def test_another_workload_is_told_apart_at_both_ends():
    with survivor("stream") as server:
        for workload in ("rr", "crr"):
            done = weir(workload, "-c", *server.at, "-l", "0.2")
            assert "closed the connection" in reason(done)
            assert f"another workload than {workload}" in done.stderr
        said = server.so_far().stderr
        assert "wants rr, this server runs stream" in said and "wants crr, this server runs stream" in said


def test_another_magic_number_is_refused():
    with survivor("stream", "--magic", "7") as server:
        done = server.client("-l", "0.2", "--magic", "8")
        server.at += ["--magic", "7"]
        assert "magic" in reason(done)


# The server: ports, and strangers at the door.

def port_taken(port, **how):
    control = free_ports(2)
    words = {"-C": control, "-P": control + 1, **how}
    return weir("stream", *[w for pair in words.items() for w in pair], seconds=10)


@pytest.mark.parametrize("option, name", (("-C", "--control-port"), ("-P", "--port")))
def test_a_port_in_use_is_named(option, name):
    with socket.create_server(("0.0.0.0", 0)) as other:
        port = other.getsockname()[1]
        done = port_taken(port, **{option: port})
    assert f":{port}" in reason(done) and "in use" in done.stderr
    assert f"ss -tlnp shows which; choose another port with {name}\n" in done.stderr


def test_a_control_port_of_another_weir_is_in_use():
    with Server("stream") as server:
        done = port_taken(0, **{"-C": server.control})
        assert "in use" in reason(done)


def test_a_data_port_of_another_weir_is_in_use():
    """Two servers that listen on one data port would get each other's flows."""
    with Server("stream") as server:
        control = free_ports(1)
        with Process(WEIR, "stream", "-C", control, "-P", server.data) as second:
            wait_for("the second server to end or to listen", lambda: second.ended() or is_listening(second.pid, control))
            time.sleep(0.3)
            assert second.ended(), "the second server took the data port as well"
            assert "in use" in reason(second.wait())


def test_an_address_that_is_not_ours_is_named():
    done = port_taken(0, **{"-H": "192.0.2.1"})
    assert "192.0.2.1" in reason(done) and "ip address show" in done.stderr


def test_a_source_that_is_not_ours_is_no_fault_of_the_server():
    done = weir("stream", "-c", "-L", "192.0.2.1", "-C", free_ports(1), seconds=10)
    assert "192.0.2.1" in reason(done) and "is 192.0.2.1 an address of this host?" in done.stderr, done


@pytest.mark.parametrize("words", ([], ["-c"]))
def test_an_interface_that_is_not_there_says_how_to_list_them(words):
    done = weir("stream", "--bind-dev", "nope0", *words, seconds=10)
    assert "nope0" in reason(done) and "weir nic show" in done.stderr, done


JUNK = {
    "nothing": b"",
    "short": peers.hello("stream", rate=peers.MARK)[:30],
    "http": b"GET / HTTP/1.0\r\n\r\n",
    "zeros": bytes(72),
    "noise": bytes((i * 37) & 255 for i in range(200)),
    "wrong_secret": peers.neper(peers.HELLO, b"neper tcp_stream 197001010000", rate=peers.MARK),
    "wrong_type": peers.neper(peers.DONE, peers.SECRET["stream"], rate=peers.MARK),
    "long": bytes(72000),
}


def test_strangers_at_the_control_port_are_turned_away_by_name():
    """Each is closed at once or when it closes, said in one line, and nothing is left of it."""
    with survivor("stream") as server:
        for name, junk in JUNK.items():
            with peers.connect(server.control) as sock:
                said = len(server.so_far().stderr.splitlines())
                with contextlib.suppress(OSError):
                    sock.sendall(junk)
                    sock.shutdown(socket.SHUT_WR)
                assert peers.is_closed(sock, 5), name
                wait_for(f"a line about {name}", lambda: len(server.so_far().stderr.splitlines()) > said, 5)
                line = server.so_far().stderr.splitlines()[-1]
                assert "127.0.0.1:" in line and "greeting" in line, (name, line)
        measured(server.client("-l", "0.2", "--json"))
        assert findings(server.records(1)[0], "incomplete") == []


def test_rejected_greetings_are_counted_in_kv():
    with Server("stream", "--format", "kv", "--once") as server:
        for _ in range(3):
            with peers.connect(server.control) as sock:
                sock.sendall(JUNK["wrong_secret"])
                assert peers.is_closed(sock, 5)
        assert server.client("-l", "0.2").status in MEASURED
        assert server.wait().kv["invalid_secret_count"] == "3"


def test_data_connections_without_a_session_are_closed():
    with survivor("stream") as server:
        for payload in (b"", b"x" * 1000, peers.preamble(bytes(16))):
            with peers.connect(server.data) as sock:
                with contextlib.suppress(OSError):
                    sock.sendall(payload)
                assert peers.is_closed(sock, 5)


@pytest.mark.parametrize("workload", ("stream", "rr"))
def test_a_data_connection_with_a_wrong_token_is_closed_and_the_run_unharmed(workload):
    with survivor(workload) as server:
        with server.start_client("-l", "1.2", "--json") as real:
            wait_for("the run to start", lambda: any(e["event"] == "start" for e in real.so_far().events))
            for payload in (peers.preamble(bytes(16)), peers.preamble(b"\xff" * 16, 3), peers.preamble(bytes(16))[:20], b"junk" * 100):
                with peers.connect(server.data) as sock:
                    with contextlib.suppress(OSError):  # closed already: as it should be
                        sock.sendall(payload)
                        sock.shutdown(socket.SHUT_WR)
                    assert peers.is_closed(sock, 5)
            record = measured(real.wait())
        assert [f["id"] for f in record["remote"]["flows"]] == [0]


def test_a_flow_number_beyond_the_agreed_is_closed():
    with survivor("stream") as server, peers.Talker(server) as talker:
        kind, accept = talker.ask(num_flows=2)
        assert kind == peers.ACCEPT
        with peers.connect(server.data) as sock:
            sock.sendall(peers.preamble(talker.token(accept), 2))
            assert peers.is_closed(sock, 5)


def test_a_flow_number_that_came_already_is_closed():
    """One token is good for as many connections as were agreed, not for any number."""
    with survivor("stream") as server, peers.Talker(server) as talker:
        kind, accept = talker.ask(num_flows=2)
        assert kind == peers.ACCEPT
        with peers.connect(server.data) as first, peers.connect(server.data) as again:
            first.sendall(peers.preamble(talker.token(accept), 0))
            time.sleep(0.2)
            again.sendall(peers.preamble(talker.token(accept), 0))
            assert peers.is_closed(again, 3)


# One end dies.

def killed_client(server, args, kill_after=0.6, **how):
    with server.start_client("-l", "20", "--json", *args, **how) as victim:
        wait_for("intervals", lambda: sum(e["event"] == "interval" for e in victim.so_far().events) >= 1 or
                 sum(e["event"] == "interval" for e in server.so_far().events) >= 1)
        time.sleep(kill_after)
        victim.kill()
    return time.monotonic()


@pytest.mark.parametrize("workload, args", [("stream", ["-F", "2"]), ("stream", ["-M"]), ("rr", ["-F", "2"]), ("crr", [])],
                         ids=["stream", "maerts", "rr", "crr"])
def test_a_client_killed_in_the_middle_leaves_a_report_at_the_server(workload, args):
    with survivor(workload, "-I", "0.2") as server:
        killed_client(server, ["--warmup", "0", *args])
        record = server.records(1, seconds=5)[0]
        validate(record)
        assert record["verdict"] == "failed"
        assert any("client went away after" in text for text in findings(record, "incomplete")), record["findings"]
        assert record["local"]["complete"] is False
        counts = record["local"]["counts"]
        assert (counts["tx_bytes"] if "-M" in args else counts["rx_bytes"]) > 0
        assert 0.3e9 < record["local"]["window_ns"] < 15e9


def test_a_server_that_served_one_killed_client_exits_with_1():
    with Server("stream", "--once", "-I", "0.2", "--json") as server:
        killed_client(server, ["--warmup", "0"])
        done = server.wait(10)
        assert done.status == 1, done
        assert done.record["verdict"] == "failed"


def test_a_neper_client_killed_in_the_middle_leaves_a_report_at_the_server():
    with survivor("rr", "-I", "0.2") as server:
        killed_client(server, ["--protocol", "neper"])
        record = server.records(1, seconds=5)[0]
        assert record["protocol"] == "neper" and record["verdict"] == "failed", record["findings"]
        assert record["local"]["counts"]["transactions"] > 0


@pytest.mark.parametrize("workload, args", [("stream", ["-F", "2"]), ("stream", ["-M"]), ("rr", ["-F", "2"]), ("crr", []),
                                            ("rr", ["--protocol", "neper"]), ("crr", ["--protocol", "neper"])],
                         ids=["stream", "maerts", "rr", "crr", "rr_neper", "crr_neper"])
def test_a_server_killed_in_the_middle_leaves_a_report_at_the_client(workload, args):
    with Server(workload) as server:
        with server.start_client("-l", "20", "-I", "0.2", "--warmup", "0", "--json", *args) as client_:
            wait_for("intervals", lambda: sum(e["event"] == "interval" for e in client_.so_far().events) >= 3)
            server.kill()
            killed = time.monotonic()
            done = client_.wait(10)
            assert time.monotonic() - killed < 5
    assert done.status == 1, done
    record = done.record
    validate(record)
    assert record["verdict"] == "failed" and record["local"]["complete"] is False
    assert findings(record, "incomplete"), record
    counts = record["local"]["counts"]
    assert (counts["rx_bytes"] if "-M" in args else counts["tx_bytes"]) > 0
    assert 0.5e9 < record["local"]["window_ns"] < 15e9
    assert len(done.stderr.splitlines()) <= 2 and done.stderr, done


def test_a_server_killed_before_the_data_connections_is_said():
    with Server("stream") as server:
        with server.start_client("-l", "5", "--wait-start", "2") as waiting:
            wait_for("the handshake", lambda: server.descriptors() > server.idle_descriptors)
            server.kill()
            assert reason(waiting.wait(15), seconds=8)


def test_a_control_connection_that_is_cut_ends_both_ends():
    with survivor("stream", "-I", "0.2") as server:
        with peers.Proxy(server.control) as proxy:
            with Process(WEIR, "stream", "-c", "-H", "127.0.0.1", "-C", proxy.port, "-P", server.data, "-l", "20", "-I", "0.2", "--json") as cut:
                wait_for("intervals", lambda: sum(e["event"] == "interval" for e in cut.so_far().events) >= 2)
                proxy.cut()
                done = cut.wait(6)
        assert done.status == 1 and done.record["verdict"] == "failed"
        assert any("went away" in text for text in findings(done.record, "incomplete"))
        assert done.record["local"]["counts"]["tx_bytes"] > 0
        record = server.records(1, 6)[0]
        assert record["verdict"] == "failed" and record["local"]["counts"]["rx_bytes"] > 0


def test_a_data_connection_that_is_cut_ends_both_ends():
    with survivor("stream", "-I", "0.2") as server:
        with peers.Proxy(server.data, listen=0) as proxy:
            with Process(WEIR, "stream", "-c", "-H", "127.0.0.1", "-C", server.control, "-P", proxy.port, "-l", "20", "-I", "0.2", "--json") as cut:
                wait_for("intervals", lambda: sum(e["event"] == "interval" for e in cut.so_far().events) >= 2)
                proxy.cut()
                done = cut.wait(4)
        assert done.status == 1 and done.record["verdict"] == "failed"
        assert findings(done.record, "incomplete")
        assert server.records(1, 6)[0]["verdict"] == "failed"


def test_one_of_several_flows_that_is_cut_fails_the_run():
    """The other flows go on to the end, and the run is not called good."""
    with survivor("stream", "-I", "0.2", ports=1) as server:
        with peers.Proxy(server.data, listen=free_ports(2)) as proxy:
            # flow 0 goes through the proxy, flow 1 to the port above it: both through two proxies
            with peers.Proxy(server.data, listen=proxy.port + 1) as other:
                with Process(WEIR, "stream", "-c", "-H", "127.0.0.1", "-C", server.control, "-P", proxy.port, "--num-ports", "2", "-F", "2",
                             "-l", "1.5", "-I", "0.2", "--json") as half:
                    wait_for("intervals", lambda: sum(e["event"] == "interval" for e in half.so_far().events) >= 2)
                    other.cut()
                    done = half.wait(10)
        assert done.status == 1 and done.record["verdict"] == "failed"
        assert any("1 of 2 flows" in text for text in findings(done.record, "incomplete")), done.record["findings"]
        assert done.record["local"]["flows"][1]["error"] and not done.record["local"]["flows"][0]["error"]
        server.records(1, 6)


# Ends that fall silent. All at once: each takes ten seconds.

@pytest.fixture(scope="module")
def silence():
    """Starts everything that waits for a silent peer and lets it wait together."""
    with contextlib.ExitStack() as stack:
        got = {}
        mute = stack.enter_context(peers.Listener(lambda sock: time.sleep(40)))

        def acked(sock):
            peers.receive(sock, 72)
            sock.sendall(peers.neper(peers.ACK, rate=peers.MARK))
            time.sleep(40)

        acks = stack.enter_context(peers.Listener(acked))
        words = [WEIR, "stream", "-c", "-H", "127.0.0.1", "-P", free_ports(1), "-l", "0.3", "-C"]
        got["mute server"] = stack.enter_context(Process(*words, mute.port))
        got["server mute after ACK"] = stack.enter_context(Process(*words, acks.port))

        got["server"] = server = stack.enter_context(Server("stream", "--json", "-I", "0.2"))
        got["mute"] = stack.enter_context(peers.connect(server.control))
        got["mute after HELLO"] = stack.enter_context(peers.Talker(server))
        got["mute after REQUEST"] = stack.enter_context(peers.Talker(server))
        assert got["mute after REQUEST"].ask()[0] == peers.ACCEPT
        got["no flows"] = stack.enter_context(peers.Talker(server))
        assert got["no flows"].ask()[0] == peers.ACCEPT
        got["no flows"].say(peers.READY)
        got["half a message"] = stack.enter_context(peers.Talker(server))
        got["half a message"].sock.sendall(struct.pack(">II", 1000, peers.REQUEST) + b"test-length=1\n")

        # A server that cannot take all flows of its client.
        got["small server"] = small = stack.enter_context(Server("stream", "--json", prefix=["prlimit", "--nofile=64:64"]))
        got["large client"] = stack.enter_context(small.start_client("-l", "0.3", "-F", "200"))

        got["stopped client's server"] = other = stack.enter_context(Server("stream", "--json", "-I", "0.2"))
        got["stopped client"] = stopped = stack.enter_context(other.start_client("-l", "30", "--json"))
        got["stopped server"] = third = stack.enter_context(Server("rr", "--json", "-I", "0.2"))
        got["stopped server's client"] = left = stack.enter_context(third.start_client("-l", "30", "-I", "0.2", "--json"))
        wait_for("runs", lambda: any(e["event"] == "interval" for e in other.so_far().events) and
                 any(e["event"] == "interval" for e in left.so_far().events))
        stopped.signal(signal.SIGSTOP)
        third.signal(signal.SIGSTOP)
        got["since"] = time.monotonic()
        yield got
        for process in (stopped, third):
            if not process.ended():
                process.signal(signal.SIGCONT)


def left(silence, seconds):
    """Seconds from the moment all fell silent."""
    return max(0.1, silence["since"] + seconds - time.monotonic())


@pytest.mark.parametrize("peer", ("mute server", "server mute after ACK"))
def test_a_client_gives_a_silent_server_up(silence, peer):
    done = silence[peer].wait(left(silence, 15))
    assert "did not answer in time" in reason(done, seconds=60)


@pytest.mark.parametrize("peer", ("mute", "mute after HELLO", "half a message", "no flows"))
def test_a_server_gives_a_silent_client_up(silence, peer):
    sock = silence[peer] if peer == "mute" else silence[peer].sock
    assert peers.is_closed(sock, left(silence, 16))


def test_a_server_gives_a_client_up_that_is_silent_before_the_run(silence):
    assert peers.is_closed(silence["mute after REQUEST"].sock, left(silence, 16))


def test_a_server_says_why_it_gave_a_client_up(silence):
    for peer in ("mute", "no flows"):
        sock = silence[peer] if peer == "mute" else silence[peer].sock
        assert peers.is_closed(sock, left(silence, 16))
    said = silence["server"].so_far().stderr
    assert "said nothing, or too little" in said
    assert "only 0 of 1 flows of the client arrived" in said


def test_a_server_says_why_it_gave_a_client_up_after_its_greeting(silence):
    for peer in ("mute after HELLO", "half a message"):
        assert peers.is_closed(silence[peer].sock, left(silence, 16))
    assert "did not answer in time" in silence["server"].so_far().stderr


def test_a_server_gives_a_stopped_client_up(silence):
    server = silence["stopped client's server"]
    record = server.records(1, left(silence, 16))[0]
    assert record["verdict"] == "failed"
    assert any("silent for" in text for text in findings(record, "incomplete")), record["findings"]
    assert record["local"]["counts"]["rx_bytes"] > 0
    measured(server.client("-l", "0.2", "--json"))


def test_a_stopped_client_learns_that_it_was_given_up(silence):
    silence["stopped client's server"].records(1, left(silence, 16))
    silence["stopped client"].signal(signal.SIGCONT)
    done = silence["stopped client"].wait(10)
    assert done.status == 1 and done.record["verdict"] == "failed", done
    assert done.record["local"]["counts"]["tx_bytes"] > 0


def test_a_client_gives_a_stopped_server_up(silence):
    done = silence["stopped server's client"].wait(left(silence, 16))
    assert done.status == 1 and done.record["verdict"] == "failed", done
    assert any("silent for" in text for text in findings(done.record, "incomplete")), done.record["findings"]
    assert done.record["local"]["counts"]["transactions"] > 0


def test_more_flows_than_the_servers_descriptors_are_refused_in_time(silence):
    """The server cannot take them all: both ends say so, and the server is whole afterwards."""
    done = silence["large client"].wait(left(silence, 16))
    assert "flows of the client arrived" in reason(done, seconds=60)
    server = silence["small server"]
    assert "out of file descriptors" in server.so_far().stderr
    server.settle(15)
    measured(server.client("-l", "0.2", "--json"))


def test_a_server_lives_on_after_all_that_silence(silence):
    measured(silence["server"].client("-l", "0.2", "--json"))
    time.sleep(left(silence, 13) if left(silence, 13) > 0.1 else 0)
    for peer in ("mute", "mute after HELLO", "half a message", "no flows", "mute after REQUEST"):
        (silence[peer] if peer == "mute" else silence[peer].sock).close()
    silence["server"].settle(10)


# Nowhere to write.

def check_still_measured(done, words):
    """The run itself went well and was printed; only the file failed."""
    assert done.status == 1, done
    assert done.record["verdict"] in ("good", "doubtful")
    assert words in done.stderr.splitlines()[0]
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize("option", ("--out=", "--all-samples="))
def test_a_full_disk_is_said_and_the_result_still_printed(option):
    with survivor("stream") as server:
        check_still_measured(server.client("-l", "0.3", "--json", f"{option}/dev/full"), "/dev/full: No space left on device")


def test_a_full_disk_for_latencies_is_said():
    with survivor("rr") as server:
        check_still_measured(server.client("-l", "0.3", "--json", "--log-rtt=/dev/full"), "/dev/full: No space left on device")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small tmpfs")
def test_a_full_filesystem_keeps_the_old_record(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], check=False).returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        (small / "record.json").write_text("the record of yesterday\n")
        with contextlib.suppress(OSError), open(small / "ballast", "wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(4096))
        with survivor("stream") as server:
            done = server.client("-l", "0.3", "--json", "--out", small / "record.json")
            check_still_measured(done, "record.json: No space left on device")
        assert (small / "record.json").read_text() == "the record of yesterday\n"
        assert sorted(p.name for p in small.iterdir()) == ["ballast", "record.json"]
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_server_that_can_no_longer_write_its_record_serves_on(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with Server("stream", "--json", "--out", folder / "record.json") as server:
        folder.rmdir()
        for count in (1, 2):
            measured(server.client("-l", "0.2", "--json"))
            server.records(count)
        assert server.so_far().stderr.count("folder/record.json: No such file or directory") == 2


@pytest.mark.parametrize("form", (["--json"], ["--format", "kv"], []), ids=["json", "kv", "table"])
def test_a_full_stdout_is_an_error(form):
    with survivor("stream") as server, open("/dev/full", "wb") as full:
        done = server.client("-l", "0.3", *form, stdout=full)
        assert done.status == 1, done
        assert "No space left on device" in done.stderr and len(done.stderr.splitlines()) <= 2, done


@pytest.mark.parametrize("words", (["--version"], ["stream", "--help"], []), ids=["version", "help", "here"])
def test_a_full_stdout_is_an_error_without_a_run_too(words):
    with open("/dev/full", "wb") as full:
        assert weir(*words, stdout=full).status == 1


def test_a_closed_stdout_ends_no_run_early():
    """A reader that leaves (head, a pager) must not kill the run at the other end by a signal."""
    with survivor("stream") as server:
        reading, writing = os.pipe()
        os.close(reading)
        try:
            done = server.client("-l", "0.5", "--json", stdout=writing)
        finally:
            os.close(writing)
        assert done.status == 1 and "Broken pipe" in done.stderr, done
        assert server.records(1)[0]["verdict"] in ("good", "doubtful")


# Too much.

def test_many_half_open_control_connections_hold_nobody_up():
    with survivor("stream") as server:
        flood = []
        try:
            for _ in range(200):
                sock = peers.connect(server.control)
                sock.sendall(peers.hello("stream")[:40])
                flood.append(sock)
            began = time.monotonic()
            measured(server.client("-l", "0.3", "--json"))
            assert time.monotonic() - began < 10
            assert server.descriptors() >= server.idle_descriptors + 200
        finally:
            for sock in flood:
                sock.close()


def test_many_data_connections_that_say_nothing_hold_nobody_up():
    with survivor("stream") as server:
        with server.start_client("-l", "1.5", "--json") as real, contextlib.ExitStack() as stack:
            wait_for("the run to start", lambda: any(e["event"] == "start" for e in real.so_far().events))
            for _ in range(100):
                stack.enter_context(peers.connect(server.data))
            record = measured(real.wait())
        assert len(record["remote"]["flows"]) == 1


def test_a_server_out_of_descriptors_waits_without_spinning():
    limit = 60
    with Server("stream", prefix=["prlimit", f"--nofile={limit}:{limit}"]) as server, contextlib.ExitStack() as stack:
        for _ in range(limit):
            stack.enter_context(peers.connect(server.control))
        time.sleep(0.3)
        before = server.cpu_seconds()
        time.sleep(1)
        assert server.cpu_seconds() - before < 0.3
        assert "descriptors" in server.so_far().stderr


def test_a_server_that_was_out_of_descriptors_recovers():
    limit = 60
    with Server("stream", prefix=["prlimit", f"--nofile={limit}:{limit}"]) as server:
        with contextlib.ExitStack() as stack:
            for _ in range(limit):
                stack.enter_context(peers.connect(server.control))
        server.settle(15)
        measured(server.client("-l", "0.2", "--json"))


def test_a_client_out_of_descriptors_says_so():
    with survivor("stream") as server:
        done = server.client("-l", "0.3", "-F", "200", prefix=["prlimit", "--nofile=100:100"])
        assert "Too many open files" in reason(done)
