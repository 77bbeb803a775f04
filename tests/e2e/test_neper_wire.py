# SPDX-License-Identifier: BSD-3-Clause
"""neper's protocol byte for byte, against peers written from its description: no neper is needed for these."""
import contextlib
import socket
import struct
import threading
import time

import pytest

import peers
from weirtest import WEIR, Process, Server, free_ports, measured, wait_for

PAYLOAD = bytes(16384)


class NeperServer:
    """One test as neper's server: acknowledges, moves data, answers DONE with BYE and a rate."""

    def __init__(self, workload, rate=123456789, ports=1, **answer):
        self.workload, self.rate, self.answer = workload, rate, {"magic": 42, "threads": 1, "flows": 1, "length": 10, **answer}
        self.control = socket.create_server(("127.0.0.1", free_ports(1)))
        self.at = ["-H", "127.0.0.1", "-C", self.control.getsockname()[1]]
        self.first = free_ports(ports)
        self.data = [socket.create_server(("127.0.0.1", port), backlog=128) for port in range(self.first, self.first + ports)]
        self.at += ["-P", self.first]
        self.pieces, self.hello, self.done, self.after_done = [], b"", b"", None
        self.bytes = self.transactions = 0
        self.accepted, self.ports = [], []
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.failure = None
        self.threads = [threading.Thread(target=self._guard, args=(self._control,), daemon=True)]
        self.threads += [threading.Thread(target=self._guard, args=(self._data, listener), daemon=True) for listener in self.data]
        for thread in self.threads:
            thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop.set()
        for sock in (self.control, *self.data, *self.accepted):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        for thread in self.threads:
            thread.join(5)

    def _guard(self, act, *args):
        try:
            act(*args)
        except OSError as why:
            if not self.stop.is_set():
                self.failure = why

    def _control(self):
        sock, _ = self.control.accept()
        sock.settimeout(30)
        self.accepted.append(sock)
        self.hello = sock.recv(4096)  # neper reads once: all of it must be there
        self.pieces.append(len(self.hello))
        sock.sendall(peers.neper(peers.ACK, **self.answer))
        self.done = sock.recv(4096)
        self.pieces.append(len(self.done))
        self.after_done = sock.recv(1)
        self.stop.set()
        sock.sendall(peers.neper(peers.BYE, magic=self.answer["magic"], rate=self.rate))
        sock.close()

    def _data(self, listener):
        while not self.stop.is_set():
            sock, _ = listener.accept()
            self.accepted.append(sock)
            self.ports.append(sock.getsockname()[1])
            sock.settimeout(30)
            threading.Thread(target=self._guard, args=(self._flow, sock), daemon=True).start()

    def _flow(self, sock):
        if self.workload == "maerts":
            while not self.stop.is_set():
                sent = sock.send(PAYLOAD)
                with self.lock:
                    self.bytes += sent
            return
        try:
            while data := sock.recv(65536):
                with self.lock:
                    self.bytes += len(data)
                if self.workload != "stream":
                    sock.sendall(data)
                    with self.lock:
                        self.transactions += len(data)
        except ConnectionResetError:
            if self.workload != "crr":  # there each connection ends so
                raise
        finally:
            sock.close()


def talk(workload, *args, server, name=None, form="--json"):
    with Process(WEIR, name or workload, "-c", *server.at, "-l", "0.4", "-I", "0.2", form, *args) as client:
        done = client.wait()
    assert server.failure is None, server.failure
    return done


@pytest.mark.parametrize("workload", ("stream", "rr", "crr"))
def test_the_greeting_is_nepers_byte_for_byte(workload):
    """Its length is whole seconds: less than one is one."""
    with NeperServer(workload) as server:
        measured(talk(workload, "--protocol", "neper", server=server))
    secret = {"stream": "neper tcp_stream 201703241300", "rr": "neper tcp_rr 201703241250", "crr": ""}[workload].encode()
    numbers = "0000002a 00000001 00000001 00000001 00000001 00000000 0000000000000000 0000000000000000"
    assert server.hello == secret.ljust(32, b"\0") + bytes.fromhex(numbers)
    assert server.pieces == [72, 72] and server.after_done == b""


def test_the_greeting_with_options_is_that_of_a_recorded_exchange():
    """-T1 -F1 -l1 -m 1000000000, as a real neper sent it."""
    with NeperServer("stream") as server:
        measured(talk("stream", "--protocol", "neper", "-m", "1000000000", server=server))
    assert server.hello.hex() == ("6e657065722074637 05f73747265616d20323031373033323431333030000000".replace(" ", "") +
                                  "0000002a00000001000000010000000100000001000000000000000 03b9aca000000000000000000".replace(" ", ""))


def test_the_greeting_to_an_unknown_server_differs_in_the_mark_alone():
    with NeperServer("rr") as plain:
        measured(talk("rr", "--protocol", "neper", "-T", "2", "-F", "3", server=plain))
    with NeperServer("rr") as auto:
        record = measured(talk("rr", "-T", "2", "-F", "3", server=auto))
    assert auto.hello[:64] == plain.hello[:64]
    assert plain.hello[64:] == bytes(8) and auto.hello[64:] == struct.pack(">Q", peers.MARK)
    assert record["protocol"] == "neper"


def test_the_greeting_says_what_was_asked_for():
    with NeperServer("stream") as server:
        measured(talk("stream", "-T", "3", "-F", "5", "-m", "800Mb", "--magic", "42", server=server))
    said = peers.parse(server.hello)
    assert (said.threads, said.flows, said.length, said.pacing, said.number) == (3, 5, 1, 100_000_000, 0)


def test_the_greeting_of_a_number_of_transactions_is_negative():
    with NeperServer("rr") as server:
        record = measured(talk("rr", "-l", "-500", server=server))
    assert peers.parse(server.hello).length == -500
    assert record["latency_ns"]["count"] == 500


def test_the_greeting_of_split_directions_doubles_the_flows():
    with NeperServer("maerts") as server:
        talk("stream", "--split-bidir", "-F", "2", server=server)
    assert peers.parse(server.hello).flows == 4


@pytest.mark.parametrize("workload", ("stream", "rr", "crr"))
def test_the_last_message_is_nepers_and_carries_a_plausible_rate(workload):
    with NeperServer(workload) as server:
        record = measured(talk(workload, "-F", "2", server=server))
    said = peers.parse(server.done)
    assert said == peers.Neper(bytes(32), 42, peers.DONE, 0, 0, 0, 0, 0, said.rate)
    if workload == "stream":  # a client that only sends has no rate
        assert said.rate == 0
        assert server.bytes >= record["local"]["counts"]["tx_bytes"] * 0.8 > 0
    else:
        assert said.rate == int(record["transactions_per_s"])
        # what was under way when its time was over, and what followed until it noticed, is not in its count
        assert record["latency_ns"]["count"] <= server.transactions < 2 * record["latency_ns"]["count"]
    assert record["peer_rate"] == 123456789


def test_the_last_message_of_a_client_that_reads_has_its_rate_in_bits():
    with NeperServer("maerts", rate=0) as server:
        record = measured(talk("stream", "-M", server=server))
    assert peers.parse(server.done).rate == int(record["local"]["rates"]["rx_bps"]) > 1e6
    assert record["local"]["counts"]["rx_bytes"] == pytest.approx(server.bytes, rel=0.3)


def test_flows_go_to_their_ports():
    with NeperServer("rr", ports=3) as server:
        measured(talk("rr", "-F", "6", "--num-ports", "3", server=server))
        assert sorted(server.ports) == sorted([server.first, server.first + 1, server.first + 2] * 2)


def test_the_rate_that_the_server_said_is_printed(tmp_path):
    with NeperServer("rr", rate=98765) as server:
        done = talk("rr", form="--format=kv", server=server)
    assert done.kv["remote_throughput"] == "98765"


@pytest.mark.parametrize("answer", ({"magic": 41}, {"kind": peers.BYE}))
def test_an_answer_that_is_none_is_refused(answer):
    def behave(sock):
        sock.recv(4096)
        sock.sendall(peers.neper(answer.get("kind", peers.ACK), magic=answer.get("magic", 42)))
        time.sleep(3)

    with peers.Listener(behave) as server:
        with Process(WEIR, "rr", "-c", "-H", "127.0.0.1", "-C", server.port, "-l", "1", "--protocol", "neper") as client:
            done = client.wait(8)
    assert done.status == 1 and "not an acknowledgement" in done.stderr


@pytest.mark.parametrize("last", (b"", peers.neper(peers.BYE, magic=1), peers.neper(peers.ACK), peers.neper(peers.BYE)[:20]),
                         ids=["nothing", "magic", "type", "short"])
def test_a_server_that_says_no_goodbye_fails_the_run_after_its_figures(last):
    data = NeperServer("rr")

    def behave(sock):
        sock.recv(4096)
        sock.sendall(peers.neper(peers.ACK))
        sock.recv(4096)
        sock.sendall(last)
        sock.close()

    with data, peers.Listener(behave) as server:
        with Process(WEIR, "rr", "-c", "-H", "127.0.0.1", "-C", server.port, "-P", data.first, "-l", "0.3", "--protocol", "neper", "--json") as client:
            done = client.wait(20)
    assert done.status == 1 and done.record["verdict"] == "failed"
    assert done.record["local"]["counts"]["transactions"] > 0


# weir is the server.

class NeperClient:
    """One test as neper's client."""

    def __init__(self, server, workload, flows=1, seconds=0.5, piecewise=0, **greeting):
        self.server, self.workload, self.seconds = server, workload, seconds
        self.sock = peers.connect(server.control)
        self.sock.settimeout(30)
        greeting = {"flows": flows, "length": 1, **greeting}
        message = peers.hello(workload, **greeting)
        step = piecewise or len(message)
        for at in range(0, len(message), step):
            self.sock.sendall(message[at:at + step])
            time.sleep(0.002 if piecewise else 0)
        self.ack = peers.parse(peers.receive(self.sock, 72))
        self.counts = [0] * flows
        self.flows = [] if workload == "crr" else [peers.connect(server.data) for _ in range(flows)]

    def run(self):
        workers = [threading.Thread(target=self._flow, args=(number, sock)) for number, sock in enumerate(self.flows or [None])]
        began = time.monotonic()
        self.end = began + self.seconds
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(self.seconds + 20)
        self.elapsed = time.monotonic() - began

    @property
    def count(self):
        return sum(self.counts)

    def _flow(self, number, sock):
        while time.monotonic() < self.end:
            if self.workload == "stream":
                self.counts[number] += sock.send(PAYLOAD)
            elif self.workload == "rr":
                sock.sendall(b"q")
                assert sock.recv(1)
                self.counts[number] += 1
            else:
                with peers.connect(self.server.data) as one:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    one.sendall(b"q")
                    assert one.recv(1)
                    self.counts[number] += 1

    def finish(self, rate=0, magic=42):
        self.sock.sendall(peers.neper(peers.DONE, magic=magic, rate=rate))
        self.sock.shutdown(socket.SHUT_WR)
        self.bye = peers.receive(self.sock, 4096)
        for sock in (self.sock, *self.flows):
            sock.close()
        return self.bye


@pytest.mark.parametrize("workload", ("stream", "rr", "crr"))
@pytest.mark.parametrize("flows", (1, 3))
def test_a_server_answers_as_neper_does(workload, flows):
    with Server(workload, "--json", "-I", "0.2") as server:
        client = NeperClient(server, workload, flows)
        client.run()
        bye = client.finish(rate=4711)
        record = server.records(1)[0]
        server.settle()
    assert client.ack == peers.Neper(bytes(32), 42, peers.ACK, 1, 1, 10, 0, 0, 0)
    assert len(bye) == 72
    said = peers.parse(bye)
    assert said == peers.Neper(bytes(32), 42, peers.BYE, 0, 0, 0, 0, 0, said.rate)
    assert record["protocol"] == "neper" and record["peer_rate"] == 4711
    counts = record["local"]["counts"]
    if workload == "stream":
        assert counts["rx_bytes"] == pytest.approx(client.count, rel=0.1, abs=5 << 20)
        assert said.rate == pytest.approx(client.count * 8 / client.elapsed, rel=0.25)
    else:
        assert counts["transactions"] == client.count
        # neper's own crr server keeps no count and says 0
        assert said.rate == pytest.approx(client.count / client.elapsed, rel=0.25)
    if workload != "crr":
        assert len(record["local"]["flows"]) == flows


def test_a_server_says_its_own_options_in_the_answer():
    with Server("rr", "-T", "2", "-F", "7", "-l", "3") as server:
        client = NeperClient(server, "rr")
        client.run()
        client.finish()
    assert (client.ack.threads, client.ack.flows, client.ack.length) == (2, 7, 3)


def test_a_greeting_in_pieces_is_understood():
    with Server("rr", "--json") as server:
        client = NeperClient(server, "rr", piecewise=7)
        client.run()
        assert len(client.finish()) == 72
        server.records(1)


def test_a_server_that_sends_starts_without_a_word_from_the_client():
    """-M at a server: neper's client says nothing on its data connections."""
    with Server("stream", "-M", "--json") as server:
        client = NeperClient(server, "stream")
        got, end = 0, time.monotonic() + 0.5
        while time.monotonic() < end:
            got += len(client.flows[0].recv(65536))
        bye = client.finish(rate=1)
        record = server.records(1)[0]
    assert got > 1 << 20
    assert record["local"]["counts"]["tx_bytes"] >= got * 0.9
    assert peers.parse(bye).rate == 0


def test_both_directions_with_a_client_that_reads():
    with Server("stream", "-w", "--json") as server:
        client = NeperClient(server, "stream", seconds=0.5)
        got = [0]

        def read():
            with contextlib.suppress(OSError):
                while data := client.flows[0].recv(65536):
                    got[0] += len(data)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        client.run()
        client.finish()
        record = server.records(1)[0]
    assert got[0] > 1 << 20 and record["local"]["counts"]["rx_bytes"] > 1 << 20


@pytest.mark.parametrize("last", (b"", peers.neper(peers.DONE)[:40], peers.neper(peers.DONE, magic=9), peers.neper(peers.ACK), b"x" * 72),
                         ids=["nothing", "short", "magic", "type", "junk"])
def test_a_client_that_does_not_say_done_is_abandoned_with_its_figures_kept(last):
    with Server("rr", "--json", "-I", "0.2") as server:
        client = NeperClient(server, "rr")
        client.run()
        client.sock.sendall(last)
        client.sock.shutdown(socket.SHUT_WR)
        record = server.records(1, 5)[0]
        assert record["verdict"] == "failed" and record["local"]["counts"]["transactions"] == client.count
        for sock in (client.sock, *client.flows):
            sock.close()
        server.settle()


def test_two_clients_one_after_another():
    with Server("rr", "--json") as server:
        for count in (1, 2):
            client = NeperClient(server, "rr", flows=2, seconds=0.3)
            client.run()
            assert len(client.finish()) == 72
            assert server.records(count)[-1]["local"]["counts"]["transactions"] == client.count


def test_two_clients_as_one_test_both_get_the_sum():
    with Server("rr", "--num-clients", "2", "--once", "--json") as server:
        clients = [NeperClient(server, "rr", seconds=0.4) for _ in range(2)]
        runners = [threading.Thread(target=client.run) for client in clients]
        for runner in runners:
            runner.start()
        for runner in runners:
            runner.join(20)
        for client in clients:
            client.sock.sendall(peers.neper(peers.DONE, rate=7))
            client.sock.shutdown(socket.SHUT_WR)
        byes = [peers.parse(peers.receive(client.sock, 4096)) for client in clients]
        done = server.wait(10)
    assert byes[0] == byes[1] and byes[0].type == peers.BYE
    assert done.record["local"]["counts"]["transactions"] == sum(client.count for client in clients)


def test_a_huge_number_of_flows_or_threads_costs_nothing():
    with Server("rr", "--json") as server:
        client = NeperClient(server, "rr", flows=1)
        client.run()
        client.finish()
        for greeting in ({"threads": 0xffffffff}, {"flows": 0xffffffff}, {"threads": 0, "flows": 0}, {"length": -0x80000000}, {"length": 0x7fffffff},
                         {"pacing": 0xffffffffffffffff}):
            with peers.connect(server.control) as sock:
                sock.sendall(peers.hello("rr", **{"length": 1, **greeting}))
                sock.settimeout(5)
                answer = peers.receive(sock, 72)
                assert len(answer) in (0, 72), greeting
        wait_for("sessions to end", lambda: server.descriptors() <= server.idle_descriptors + 8, 10)
        client = NeperClient(server, "rr", flows=1)
        client.run()
        assert len(client.finish()) == 72
