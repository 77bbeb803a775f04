# SPDX-License-Identifier: BSD-3-Clause
"""What goes wrong with p2p: each end says why within a bounded time, and a server goes on serving."""
import signal
import socket
import struct
import time

import pytest

from p2p import PLUGIN, SCATTER, P2pServer, good
from weirtest import free_ports, wait_for, weir

QUICK = ["--json", "--iterations", "3", "--size", "1M"]
LONG = ["--iterations", "100000", "--size", "4M", "--no-check", "--quiet", "--peer-timeout", "2s"]


def running(server, client):
    """Until bytes flow."""
    time.sleep(0.2)
    wait_for("the run", lambda: client.cpu_seconds() > 0.05 and not client.ended())


def survives(server):
    assert not server.ended(), server.so_far()
    good(server.client(*QUICK))


def reason(done, *words):
    assert done.status == 1 and done.stderr.startswith("weir p2p: "), done
    assert any(word in done.stderr for word in words), done


def test_server_killed_in_the_middle():
    with P2pServer() as server, server.start_client(*LONG) as client:
        running(server, client)
        server.kill()
        reason(client.wait(60), "gone", "reset", "closed", "broke")


@pytest.mark.parametrize("op", ("send", "write", "read", "pingpong"))
def test_client_killed_in_the_middle(op):
    with P2pServer("--peer-timeout", "2s") as server:
        with server.start_client(*LONG, "--op", op) as client:
            running(server, client)
            client.kill()
        survives(server)


def test_server_stopped_is_noticed():
    with P2pServer() as server, server.start_client(*LONG) as client:
        running(server, client)
        server.signal(signal.SIGSTOP)
        try:
            reason(client.wait(60), "said nothing", "not answer", "timed out", "silent")
        finally:
            server.signal(signal.SIGCONT)


def test_client_stopped_is_noticed():
    with P2pServer("--peer-timeout", "2s") as server, server.start_client(*LONG) as client:
        running(server, client)
        client.signal(signal.SIGSTOP)
        wait_for("the server to give up", lambda: "did not complete" in server.so_far().stderr, 60)
        client.signal(signal.SIGCONT)
        survives(server)
        assert client.wait(60).status == 1


def test_server_restarted_is_found_again():
    port = free_ports(1)
    with P2pServer(port=port) as first:
        good(first.client(*QUICK))
        first.kill()
        # A client that comes too early waits for it.
        with first.start_client(*QUICK) as early:
            time.sleep(0.5)
            with P2pServer(port=port) as second:
                good(early.wait())
                survives(second)


def test_interrupted_client_ends_and_the_server_goes_on():
    with P2pServer() as server:
        with server.start_client(*LONG) as client:
            running(server, client)
            client.signal(signal.SIGINT)
            reason(client.wait(60), "interrupted")
        survives(server)


def test_wrong_token():
    with P2pServer("--token", "right") as server:
        reason(server.client(*QUICK, "--token", "wrong"), "does not know this token")
        reason(server.client(*QUICK), "does not know this token")
        good(server.client(*QUICK, "--token", "right"))
        good(server.client(*QUICK, env={"WEIR_P2P_TOKEN": "right"}))
        assert "has another token" in server.so_far().stderr


def test_another_gpu_listens_there():
    with P2pServer() as server:
        done = server.client(*QUICK, "7", "--port-base", server.port - 7)
        good(done)  # without asking for one, whoever listens on the port will do


def hello(version=1, channels=1, window=1, chunk=4096, directions=1):
    return struct.pack("<8sII32sIIIIQI20x", b"weirp2p\n", version, 96, b"", 0, 0xFFFFFFFF, channels, window, chunk, directions)


def say(server, data, patience=5):
    """What a stranger hears before the server hangs up."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=patience) as s:
        s.sendall(data)
        heard = b""
        try:
            while part := s.recv(65536):
                heard += part
                if len(heard) >= 64 and not struct.unpack_from("<I", heard, 12)[0]:
                    break
        except (ConnectionResetError, TimeoutError):
            pass
        return heard


def test_strangers_hear_why_or_nothing():
    with P2pServer("--timeout", "2s") as server:
        for what, refusal in ((hello(version=2), 1), (hello(channels=0), 3), (hello(channels=65), 3), (hello(window=99), 3),
                              (hello(chunk=1), 3), (hello(directions=4), 3)):
            heard = say(server, what)
            assert heard[:8] == b"weirp2p\n" and struct.unpack_from("<II", heard, 8) == (1, refusal), (what, heard)
        assert say(server, b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" + b"x" * 96) == b""
        assert say(server, hello())[:8] == b"weirp2p\n"  # and goes away in the middle
        survives(server)
        server_descriptors = server.descriptors()
        for _ in range(50):
            say(server, b"x" * 200)
        survives(server)
        wait_for("descriptors", lambda: server.descriptors() <= server_descriptors + 2, 10)


def test_garbage_after_the_hello():
    with P2pServer("--timeout", "2s") as server:
        for garbage in (b"\xff" * 64, struct.pack("<IB3x", 10**9, 3), struct.pack("<IB3x", 0, 2), b"\0" * 500):
            with socket.create_connection(("127.0.0.1", server.port), timeout=5) as s:
                s.sendall(hello() + garbage)
                time.sleep(0.05)
        survives(server)


def test_silent_strangers_do_not_keep_others_out():
    with P2pServer("--timeout", "1s") as server:
        silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(40)]
        survives(server)
        for s in silent:
            s.close()


def test_a_run_that_asks_for_too_much_memory():
    with P2pServer("--memory-max", "64M") as server:
        reason(server.client("--size", "64M", "--depth", "2", "--iterations", "1"), "--memory-max")
        survives(server)


def test_nobody_listens():
    with P2pServer() as server:
        port = server.port
        server.kill()
        began = time.monotonic()
        done = server.client("--timeout", "1s")
        reason(done, str(port))
        assert "start the server first" in done.stderr and 1 <= time.monotonic() - began < 40


def test_a_device_that_is_not_there_is_an_error_and_no_other_is_used():
    with P2pServer() as server:
        reason(server.client(*QUICK, "--devices", "nosuch0"), "nosuch0")
        reason(server.client(*QUICK, "--devices", "lo,nosuch0"), "nosuch0")
        good(server.client(*QUICK, "--devices", "lo"))


def test_another_transport_is_refused_by_name():
    scatter = ["--plugin", SCATTER]
    with P2pServer() as server:
        reason(server.client(*QUICK, *scatter), "the server moves data by tcp, this end by scatter")
        survives(server)
        # weir's plugin is weir's transport.
        good(server.client(*QUICK, "--plugin", PLUGIN, env={"WEIR_IFNAME": "lo"}))
        assert "moves data by another transport" in server.so_far().stderr


def test_a_server_that_cannot_listen_says_what_to_do():
    """In words that fit this command: another one has other options for ports and hosts."""
    with socket.create_server(("0.0.0.0", 0)) as other:
        done = weir("p2p", "server", "--mem", "host", "-H", "127.0.0.1", "-p", str(other.getsockname()[1]))
    reason(done, "ss -tlnp shows which; choose another port\n")
    reason(weir("p2p", "server", "--mem", "host", "-H", "192.0.2.1"), "is 192.0.2.1 an address of this host?")
    done = weir("p2p", "client", "nosuch.invalid", "--mem", "host")
    reason(done, "check the name, or give the host's address in its place\n")
