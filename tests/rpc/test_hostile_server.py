# SPDX-License-Identifier: BSD-3-Clause
"""weir's client with servers that break the rules."""
import contextlib
import socket
import threading
import time

import pytest

from frames import PREFACE, Closed, Wire, frame, prefixed
from rpctest import call

OK = [(":status", "200"), ("content-type", "application/grpc")]
DONE = [("grpc-status", "0")]
EMPTY = prefixed(b"")


@contextlib.contextmanager
def server(serve, settings=None):
    """One connection: after the client's request has come, serve(wire) says what it likes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def run():
            listener.settimeout(15)
            connection, _ = listener.accept()
            with Wire(connection) as wire, contextlib.suppress(Closed, OSError):
                wire.send(frame.SettingsFrame(0, settings=settings or {}))
                assert wire._read(len(PREFACE)) == PREFACE
                while 1 not in wire.replies or not (wire.replies[1]["ended"] or (settings and wire.replies[1]["headers"])):
                    wire.read()
                serve(wire)
                while True:
                    wire.read()

        thread = threading.Thread(target=run)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(20)
        assert not thread.is_alive()


def answer(*parts, end=True):
    """Headers (lists), data (bytes) and frames on stream 1, the last of them ending it."""
    def serve(wire):
        for i, part in enumerate(parts):
            last = end and i == len(parts) - 1
            if isinstance(part, list):
                wire.send(wire.headers_frame(1, part, end_stream=last))
            elif isinstance(part, bytes):
                wire.send(frame.DataFrame(1, data=part, flags=["END_STREAM"] if last else []))
            else:
                wire.send(part)
    return serve


def reset(code):
    return frame.RstStreamFrame(1, error_code=code)


def test_a_good_answer_of_single_frames():
    with server(answer(OK, EMPTY, DONE)) as port:
        assert call(port).said == [("code", "OK"), ("words", "")]


@pytest.mark.parametrize("serve, code, words", [
    (answer([(":status", "503"), ("content-type", "text/html")], b"<html>"), "UNAVAILABLE", "HTTP status 503"),
    (answer([(":status", "404"), ("content-type", "text/html")]), "UNIMPLEMENTED", "HTTP status 404"),
    (answer([(":status", "401")]), "UNAUTHENTICATED", "HTTP status 401"),
    (answer([(":status", "200"), ("content-type", "text/html")], b"<html>"), "UNKNOWN", "not with gRPC"),
    (answer(OK, EMPTY), "UNKNOWN", "without a status"),
    (answer(OK, EMPTY, [("grpc-message", "x")]), "UNKNOWN", "without a status"),
    (answer(OK, EMPTY, [("grpc-status", "17")]), "UNKNOWN", ""),
    (answer(OK, EMPTY, [("grpc-status", "abc")]), "UNKNOWN", ""),
    (answer(OK, EMPTY, [("grpc-status", "-1")]), "UNKNOWN", ""),
    (answer(OK, DONE), "INTERNAL", "no message"),
    (answer(OK + DONE), "INTERNAL", "no message"),
    (answer(OK, EMPTY + EMPTY, DONE), "INTERNAL", "more than one message"),
    (answer(OK, EMPTY, EMPTY, DONE), "INTERNAL", "more than one message"),
    (answer(OK, b"\0\0\0", DONE), "INTERNAL", "within a message"),
    (answer(OK, prefixed(b"abc", length=9), DONE), "INTERNAL", "within a message"),
    (answer(OK, prefixed(b"x", flag=1), DONE), "INTERNAL", "compressed"),
    (answer(OK, prefixed(b"x", flag=9), DONE), "INTERNAL", "prefix"),
    (answer(OK, prefixed(b"x", length=0xFFFFFFFF), DONE), "RESOURCE_EXHAUSTED", "larger than the limit"),
    (answer(OK, prefixed(b"\xff\xff"), DONE), "INTERNAL", "cannot be read"),
    (answer(OK, EMPTY, [("grpc-status", "5"), ("grpc-message", "a%20b%0Ac%zz%4%"), ("grpc-status-details-bin", "!!!")]),
     "NOT_FOUND", "a b?c%zz%4%"),
    (answer(OK, [("grpc-status", "5"), ("grpc-message", "x" * 5000)]), "NOT_FOUND", "x" * 1023),
    (answer(OK, [("grpc-status", "5"), ("grpc-status-details-bin", "AAAA")]), "NOT_FOUND", ""),
    (answer(OK + [(f"x{i}", "v" * 3000) for i in range(4)], [(f"y{i}", "v" * 4000) for i in range(4)], DONE), "INTERNAL", ""),
    (answer(reset(7)), "UNAVAILABLE", "REFUSED_STREAM"),
    (answer(reset(8)), "CANCELLED", "CANCEL"),
    (answer(reset(11)), "RESOURCE_EXHAUSTED", "ENHANCE_YOUR_CALM"),
    (answer(OK, reset(2)), "INTERNAL", "INTERNAL_ERROR"),
    (answer(OK, EMPTY, reset(0)), "INTERNAL", "NO_ERROR"),
    (answer(frame.GoAwayFrame(0, last_stream_id=0, error_code=0)), "UNAVAILABLE", ""),
    (answer(frame.GoAwayFrame(0, last_stream_id=0, error_code=11, additional_data=b"too_many_pings")), "UNAVAILABLE", ""),
    (answer([(":status", "abc")]), "INTERNAL", ""),
    (answer(EMPTY), "UNAVAILABLE", "breaks HTTP/2"),
    (answer(frame.PushPromiseFrame(1, promised_stream_id=2, data=b"\x82", flags=["END_HEADERS"])), "UNAVAILABLE", ""),
    (lambda wire: wire.sock.close(), "UNAVAILABLE", "lost the connection"),
    (lambda wire: wire.send_bytes(bytes(range(256)) * 100), "UNAVAILABLE", ""),
], ids=range(35))
def test_an_answer_that_is_none(serve, code, words):
    with server(serve) as port:
        done = call(port, deadline_ms=5000)
    assert done.said[0] == ("code", code), done
    assert words in done.said[1][1], done


@pytest.mark.parametrize("parts", [(b"\0\0\0",), (prefixed(b"abc", length=9),), (EMPTY + b"\0",), (EMPTY, prefixed(b"", length=1))],
                         ids=range(4))
def test_a_stream_that_ends_within_a_message_is_no_success(parts):
    with server(answer(OK, *parts, DONE)) as port:
        done = call(port, method="Watch", watcher="1 1", deadline_ms=5000)
    assert done.said[-2:] == [("code", "INTERNAL"), ("words", "the reply ends within a message")], done


def test_an_informational_answer_is_waited_over():
    with server(answer([(":status", "100")], OK, EMPTY, DONE)) as port:
        assert call(port).said[0] == ("code", "OK")


@pytest.mark.parametrize("serve", [answer(end=False), answer(OK, end=False), answer(OK, EMPTY, end=False),
                                   answer(OK, b"\0\0", end=False)], ids=range(4))
def test_an_answer_that_does_not_end_is_given_up_at_the_deadline(serve):
    began = time.monotonic()
    with server(serve) as port:
        assert call(port, deadline_ms=500).said[0] == ("code", "DEADLINE_EXCEEDED")
    assert time.monotonic() - began < 4


def test_a_server_without_a_window_is_given_up_at_the_deadline():
    with server(answer(end=False), settings={4: 0}) as port:
        assert call(port, targets=1000, deadline_ms=500).said[0] == ("code", "DEADLINE_EXCEEDED")


def test_an_answer_before_the_request_was_sent_is_taken():
    with server(answer(OK + [("grpc-status", "8"), ("grpc-message", "enough")]), settings={4: 0}) as port:
        assert call(port, targets=1000, deadline_ms=5000).said == [("code", "RESOURCE_EXHAUSTED"), ("words", "enough")]


def test_a_flood_of_headers_is_given_up():
    def serve(wire):
        wire.send(frame.HeadersFrame(1, data=wire.encoder.encode(OK)))
        for _ in range(3000):
            wire.send(frame.ContinuationFrame(1, data=b"\0\x01x\x7f\x80\x7d" + b"v" * 16000))

    with server(serve) as port:
        assert call(port, deadline_ms=8000).said[0][1] in ("UNAVAILABLE", "INTERNAL")
