# SPDX-License-Identifier: BSD-3-Clause
"""weir's client with the real gRPC server, and with weir's own."""
import concurrent.futures
import contextlib
import socket
import threading
import time

import pytest

from rpctest import Peer, call, grpc, message, method, start_request, wait_for

START = "dxs.prober.AgentService/StartPings"
WATCH = "weir.v1.Agent/Watch"


class Handlers(grpc.GenericRpcHandler):
    """Serves the methods in a dictionary."""

    def __init__(self, methods):
        self.methods = methods

    def service(self, handler_call_details):
        path = handler_call_details.method.lstrip("/")
        if path not in self.methods:
            return None
        kind = grpc.unary_stream_rpc_method_handler if path == WATCH else grpc.unary_unary_rpc_method_handler
        return kind(self.methods[path], request_deserializer=message(method(path).input_type.full_name).FromString,
                    response_serializer=lambda m: m.SerializeToString())


@contextlib.contextmanager
def grpc_server(methods, **options):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8), [Handlers(methods)],
                         options=[(k.replace("__", "."), v) for k, v in options.items()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(0).wait(10)


REPLY = message("dxs.prober.StartPingsReply")


def test_a_call_is_answered():
    seen = []

    def start(request, context):
        seen.append((request, context.time_remaining()))
        return REPLY()

    with grpc_server({START: start}) as port:
        done = call(port, qps=3, targets=400, deadline_ms=5000)
    assert (done.status, done.said) == (0, [("code", "OK"), ("words", "")]), done
    assert seen[0][0] == start_request(3, ["10.0.0.1"] * 400)
    assert 3 < seen[0][1] <= 5.5


def test_code_words_and_details_come_back():
    def start(_, context):
        status = message("google.rpc.Status")(code=13, message="x")
        packed = message("dxs.prober.ConnectionResults")(results=[1, 2, 4]).SerializeToString()
        status.details.add(type_url="type.googleapis.com/dxs.prober.ConnectionResults", value=packed)
        context.set_trailing_metadata([("grpc-status-details-bin", status.SerializeToString())])
        context.set_code(grpc.StatusCode.INTERNAL)
        context.set_details("100 % änd\nmore")
        return REPLY()

    with grpc_server({START: start}) as port:
        done = call(port)
    assert done.status == 1
    assert done.said == [("code", "INTERNAL"), ("words", "100 % änd?more"), ("result", "1"), ("result", "2"), ("result", "4")]


def test_a_method_that_is_not_there():
    with grpc_server({}) as port:
        assert call(port).said[0] == ("code", "UNIMPLEMENTED")


def test_the_deadline_ends_a_call_that_is_not_answered():
    with grpc_server({START: lambda *_: time.sleep(2) or REPLY()}) as port:
        began = time.monotonic()
        done = call(port, deadline_ms=300)
        assert time.monotonic() - began < 1.9
    assert done.said[0] == ("code", "DEADLINE_EXCEEDED")


def test_many_calls_over_one_connection():
    peers = set()

    def start(_, context):
        peers.add(context.peer())
        return REPLY()

    with grpc_server({START: start}) as port:
        done = call(port, many=500)
    assert done.said == [("OK", "500")]
    assert len(peers) == 1


def test_a_servers_limit_of_streams_is_kept():
    with grpc_server({START: lambda *_: REPLY()}, grpc__max_concurrent_streams=3) as port:
        assert call(port, many=60).said == [("OK", "60")]


def test_a_stream_is_received_whole_and_in_order():
    def watch(request, _):
        for i in range(200):
            report = message("weir.v1.Report")(sequence=i)
            report.change.add(reason="x" * 10000)
            yield report

    with grpc_server({WATCH: watch}) as port:
        done = call(port, method="Watch", watcher="x")
    assert done.said == [("report", f"{i} 10000") for i in range(200)] + [("code", "OK"), ("words", "")]


def test_a_reply_beyond_the_limit_is_refused():
    def watch(*_):
        report = message("weir.v1.Report")()
        report.change.add(reason="x" * 10000)
        yield report

    with grpc_server({WATCH: watch}) as port:
        assert call(port, method="Watch", watcher="x", message_bytes=5000).said[0] == ("code", "RESOURCE_EXHAUSTED")


def test_compression_is_not_offered_so_a_server_leaves_it():
    with grpc_server({START: lambda _, context: context.set_compression(grpc.Compression.Gzip) or REPLY()}) as port:
        assert call(port).said[0] == ("code", "OK")


def test_a_port_where_nobody_listens():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        done = call(other.getsockname()[1])
    assert done.said[0] == ("code", "UNAVAILABLE")
    assert "Connection refused" in dict(done.said)["words"], done


def test_a_server_that_says_nothing_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        done = call(silent.getsockname()[1], connect_ms=300, deadline_ms=20000)
        assert time.monotonic() - began < 5
    assert done.said[0] == ("code", "UNAVAILABLE")
    assert "handshake" in dict(done.said)["words"]


@pytest.mark.parametrize("words, code", [
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", "UNAVAILABLE"),
    (b"\0" * 100, "UNAVAILABLE"),
    (b"", "UNAVAILABLE"),
])
def test_a_server_that_speaks_something_else(words, code):
    with socket.create_server(("127.0.0.1", 0)) as server:
        def answer():
            connection, _ = server.accept()
            with connection:
                connection.sendall(words)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        done = call(server.getsockname()[1], deadline_ms=5000)
        thread.join(10)
    assert done.said[0] == ("code", code), done


def test_a_server_that_dies_ends_its_calls():
    with Peer() as peer:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(call, peer.port, qps=-1, deadline_ms=30000)
            peer.settle(held=1)
            peer.kill()
            done = waiting.result(20)
    assert done.said[0] == ("code", "UNAVAILABLE")
    assert done.said[1][1].startswith("lost the connection to 127.0.0.1:")


def test_a_server_that_is_stopped_is_noticed_by_its_silence():
    with Peer() as peer:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(call, peer.port, qps=-1, deadline_ms=30000, keepalive_ms=300)
            peer.settle(held=1)
            peer.signal(19)  # SIGSTOP
            done = waiting.result(20)
            peer.signal(18)
        assert done.said == [("code", "UNAVAILABLE"),
                             ("words", f"lost the connection to 127.0.0.1:{peer.port}: the peer does not answer")]


def test_keepalive_does_not_disturb_a_call_that_takes_long():
    with Peer() as peer:
        assert call(peer.port, qps=-1500, keepalive_ms=100).said[0] == ("code", "OK")


def test_calls_go_on_while_a_server_leaves():
    with Peer() as peer:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(call, peer.port, qps=-800)
            peer.settle(held=1)
            peer.signal(15)
            assert waiting.result(20).said[0] == ("code", "OK")
        wait_for("the server to end", peer.ended)
