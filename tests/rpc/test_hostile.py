# SPDX-License-Identifier: BSD-3-Clause
"""weir's server with clients that break the rules, by accident or on purpose."""
import os
import random
import socket
import time

import pytest

from frames import CALM, CANCEL, PREFACE, Closed, Wire, frame, headers, prefixed, status
from rpctest import Peer, message, start_request

DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL = 4, 8, 12, 13
EMPTY = prefixed(b"")
WATCH = "/weir.v1.Agent/Watch"


@pytest.fixture(name="peer", scope="module")
def fixture_peer():
    with Peer(patience_ms=1000, message_bytes=100000) as peer:
        yield peer
        peer.settle()


def still_serves(peer):
    with Wire.to(peer.port) as wire:
        wire.ask(1, EMPTY)
        assert status(wire.reply()) == 0


def watch_request(count, size):
    return prefixed(message("weir.v1.WatchRequest")(watcher=f"{count} {size}").SerializeToString())


def test_a_call_of_single_frames_is_answered(peer):
    with Wire.to(peer.port) as wire:
        wire.ask(1, prefixed(start_request(peers=["a", "b"]).SerializeToString()))
        reply = wire.reply()
        assert reply["headers"][":status"] == "200"
        assert reply["headers"]["content-type"].startswith("application/grpc")
        assert reply["data"] == EMPTY and status(reply) == 0


def test_a_message_in_frames_of_one_byte(peer):
    body = prefixed(start_request(peers=["10.0.0.2"] * 5).SerializeToString())
    with Wire.to(peer.port) as wire:
        wire.send(wire.headers_frame(1, headers()))
        for i in range(len(body)):
            wire.send(frame.DataFrame(1, data=body[i:i + 1]))
        wire.send(frame.DataFrame(1, flags=["END_STREAM"]))
        assert status(wire.reply()) == 0


@pytest.mark.parametrize("fields, http, code", [
    (headers(content_type="text/html"), "415", INTERNAL),
    (headers(content_type=None), "415", INTERNAL),
    (headers(content_type="application/grpcx"), "415", INTERNAL),
    (headers(method="GET"), "405", INTERNAL),
    (headers(te=None), "200", INTERNAL),
    (headers(te="gzip"), "200", None),  # HTTP/2 itself forbids it: reset
    (headers(path="/"), "200", UNIMPLEMENTED),
    (headers(path="*"), "200", None),
    (headers(path="/dxs.prober.AgentService"), "200", UNIMPLEMENTED),
    (headers(path="/dxs.prober.AgentService/"), "200", UNIMPLEMENTED),
    (headers(path="//StartPings"), "200", UNIMPLEMENTED),
    (headers(path="/" + "x" * 5000), "200", UNIMPLEMENTED),
    (headers(grpc_encoding="gzip"), "200", UNIMPLEMENTED),
    (headers(grpc_encoding="identity"), "200", 0),
    (headers(content_type="application/grpc+proto"), "200", 0),
    (headers(content_type="application/grpc;x=y"), "200", 0),
    (headers(grpc_timeout="99999999H"), "200", 0),
    (headers(grpc_timeout="1n"), "200", DEADLINE_EXCEEDED),
    (headers(grpc_timeout="0S"), "200", DEADLINE_EXCEEDED),
    *[(headers(grpc_timeout=t), "200", INTERNAL) for t in ("", "5", "S", "-1S", "1 S", "1s", "123456789S", "1.5S", "0x1S")],
])
def test_headers_are_judged(peer, fields, http, code):
    with Wire.to(peer.port) as wire:
        wire.ask(1, EMPTY, fields=fields)
        if code is None:
            try:
                assert wire.reply()["reset"] is not None
            except Closed:
                assert wire.goaway
            return
        reply = wire.reply()
        assert (reply["headers"][":status"], status(reply)) == (http, code)
        if code == UNIMPLEMENTED:
            assert reply["headers"]["grpc-accept-encoding"] == "identity"


@pytest.mark.parametrize("body, code", [
    (b"", INTERNAL),
    (b"\0", INTERNAL),
    (b"\0\0\0\0", INTERNAL),
    (prefixed(b"abc", length=4), INTERNAL),
    (prefixed(b"", flag=2), INTERNAL),
    (prefixed(b"", flag=255), INTERNAL),
    (prefixed(b"", flag=1), INTERNAL),
    (EMPTY + EMPTY, INTERNAL),
    (EMPTY + b"\0", INTERNAL),
    (prefixed(b"\xff" * 10), INTERNAL),
    (prefixed(b"", length=0xFFFFFFFF), RESOURCE_EXHAUSTED),
    (prefixed(b"", length=100001), RESOURCE_EXHAUSTED),
    (prefixed(b"x", length=100001), RESOURCE_EXHAUSTED),
], ids=range(13))
@pytest.mark.parametrize("end", [True, False])
def test_messages_are_judged(peer, body, code, end):
    if not end and body in (b"", b"\0", b"\0\0\0\0", prefixed(b"abc", length=4), EMPTY + b"\0"):
        code = DEADLINE_EXCEEDED if body != EMPTY + b"\0" else INTERNAL  # the rest does not come in time
    elif not end and body == prefixed(b"\xff" * 10):
        code = DEADLINE_EXCEEDED  # a unary request is read when it is whole
    with Wire.to(peer.port) as wire:
        wire.ask(1, body, end)
        reply = wire.reply()
        assert status(reply) == code
        wire.ask(3, EMPTY)
        assert status(wire.reply(3)) == 0, "the connection is still good"


def test_a_request_may_end_with_trailers(peer):
    with Wire.to(peer.port) as wire:
        wire.ask(1, EMPTY, end=False)
        wire.send(wire.headers_frame(1, [("x", "y")], end_stream=True))
        assert status(wire.reply()) == 0


def test_large_headers_are_refused_and_cost_nothing(peer):
    with Wire.to(peer.port) as wire:
        block = wire.encoder.encode(headers() + [(f"x{i}", "v" * 200) for i in range(160)], huffman=False)
        wire.send(frame.HeadersFrame(1, data=block[:16000], flags=["END_STREAM"]),
                  frame.ContinuationFrame(1, data=block[16000:32000]),
                  frame.ContinuationFrame(1, data=block[32000:], flags=["END_HEADERS"]))
        assert status(wire.reply()) == RESOURCE_EXHAUSTED
    still_serves(peer)


@pytest.mark.parametrize("chunk", [0, 1, 16000])
def test_a_flood_of_continuations_is_cut(peer, chunk):
    before = peer.resident_bytes()
    with Wire.to(peer.port) as wire:
        block = wire.encoder.encode(headers())
        wire.send(frame.HeadersFrame(1, data=block))
        with pytest.raises(Closed):
            for _ in range(5000):
                # A literal without indexing with a long value, over and over; or nothing at all.
                wire.send(frame.ContinuationFrame(1, data=(b"\0\x01x\x7f\x80\x7d" + b"v" * (chunk - 6)) if chunk > 6 else b"\0" * chunk))
            wire.until_closed(5)
            raise Closed
    assert peer.resident_bytes() - before < 20 << 20
    still_serves(peer)


def test_rapid_reset_is_sent_away(peer):
    before = peer.stats()
    with Wire.to(peer.port) as wire:
        block = wire.encoder.encode(headers())
        block = wire.encoder.encode(headers())  # now all of it is in the table
        with pytest.raises(Closed):
            for i in range(20000):
                wire.send(frame.HeadersFrame(2 * i + 1, data=block if i else wire.encoder.encode(headers()), flags=["END_HEADERS"]),
                          frame.RstStreamFrame(2 * i + 1, error_code=CANCEL))
            wire.until_closed()
            raise Closed
    peer.settle(evicted=before["evicted"] + 1, calls=0, buffered=0)
    still_serves(peer)


def rapid_reset_of_whole_calls(wire):
    block = None
    for i in range(3000):
        block = wire.encoder.encode(headers())
        wire.send(frame.HeadersFrame(2 * i + 1, data=block, flags=["END_HEADERS"]),
                  frame.DataFrame(2 * i + 1, data=prefixed(start_request(-1).SerializeToString()), flags=["END_STREAM"]),
                  frame.RstStreamFrame(2 * i + 1, error_code=CANCEL))


def flood(make):
    def send(wire):
        for i in range(20000):
            wire.send(make(i))
    return send


@pytest.mark.parametrize("send", [
    rapid_reset_of_whole_calls,
    flood(lambda i: frame.PingFrame(0, opaque_data=i.to_bytes(8, "big"))),
    flood(lambda i: frame.SettingsFrame(0, settings={4: i})),
    flood(lambda i: frame.PriorityFrame(2 * i + 1, depends_on=0, stream_weight=3)),
], ids=["whole calls", "pings", "settings", "priorities"])
def test_floods_are_told_to_calm_down(peer, send):
    with Wire.to(peer.port) as wire:
        with pytest.raises(Closed):
            send(wire)
            raise Closed
        goaway = wire.until_closed()
        assert goaway is None or goaway.error_code == CALM
    peer.settle()
    still_serves(peer)


def test_empty_data_frames_are_told_to_calm_down(peer):
    with Wire.to(peer.port) as wire:
        wire.send(wire.headers_frame(1, headers()))
        with pytest.raises(Closed):
            for _ in range(20000):
                wire.send(frame.DataFrame(1))
            raise Closed
        goaway = wire.until_closed()
        assert goaway is None or goaway.error_code == CALM
    peer.settle()


def test_a_client_without_a_window_is_not_waited_for():
    with Peer(patience_ms=700) as peer, Wire.to(peer.port, settings={4: 0}) as wire:
        for i in range(50):
            wire.ask(2 * i + 1, EMPTY)
        reply = wire.reply(99)
        assert reply["data"] == b"" and reply["reset"] == CANCEL
        peer.settle()


def test_a_stream_to_a_client_that_does_not_read_holds_little():
    with Peer(patience_ms=1000, buffered_bytes=8 << 20) as peer:
        before = peer.resident_bytes()
        with Wire.to(peer.port) as wire:
            for i in range(60):
                wire.ask(2 * i + 1, watch_request(100000, 10000), fields=headers(path=WATCH))
            assert peer.stats()["buffered"] <= 8 << 20
            assert peer.resident_bytes() - before < 64 << 20
            peer.settle(calls=0, buffered=0, held=0)


def test_slow_requests_hold_no_memory_for_long():
    with Peer(patience_ms=1000, buffered_bytes=1 << 20) as peer:
        with Wire.to(peer.port) as wire:
            wire.send(frame.WindowUpdateFrame(0, window_increment=1 << 20))
            for i in range(60):  # 60 x 32 KiB announced as more: beyond the budget of all
                wire.send(wire.headers_frame(2 * i + 1, headers()))
                for _ in range(2):
                    wire.send(frame.DataFrame(2 * i + 1, data=prefixed(b"x" * 16000, length=200000)))
            codes = {status(wire.reply(2 * i + 1)) for i in range(60)}
            assert codes == {RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED}
        peer.settle()
        still_serves(peer)


def begin(wire, calls):
    """Requests of 16 KiB each, all but their last bytes."""
    for i in range(calls):
        wire.ask(2 * i + 1, prefixed(b"x" * 16000, length=16384), end=False)


def test_one_connection_does_not_take_the_memory_of_the_others():
    with Peer(buffered_bytes=64 << 14, message_bytes=1 << 16) as peer:
        with Wire.to(peer.port) as hog, Wire.to(peer.port) as other:
            begin(hog, 65)  # of the 64 that all may have
            assert status(hog.reply(129)) == RESOURCE_EXHAUSTED
            assert peer.stats()["buffered"] == 16 << 14
            other.ask(1, prefixed(start_request(peers=["10.0.0.2"] * 100).SerializeToString()))
            assert status(other.reply()) == 0
            other.ask(3, watch_request(5, 10000), fields=headers(path=WATCH))
            assert status(other.reply(3)) == 0
        peer.settle()


def test_requests_leave_memory_for_replies():
    with Peer(buffered_bytes=64 << 14, message_bytes=1 << 16) as peer:
        wires = [Wire.to(peer.port) for _ in range(5)]
        for wire in wires:
            begin(wire, 16)
        assert status(wires[4].reply(31)) == RESOURCE_EXHAUSTED
        assert peer.stats()["buffered"] == 48 << 14
        still_serves(peer)
        for wire in wires:
            wire.sock.close()
        peer.settle()


def test_a_length_is_not_believed_before_the_bytes_come():
    with Peer(message_bytes=4 << 20) as peer:
        before = peer.resident_bytes()
        wires = [Wire.to(peer.port) for _ in range(10)]
        for wire in wires:
            for i in range(50):
                wire.ask(2 * i + 1, prefixed(b"x", length=4 << 20), end=False)
        peer.settle(calls=500)
        assert peer.stats()["buffered"] <= 500 * 1024
        assert peer.resident_bytes() - before < 32 << 20
        for wire in wires:
            wire.sock.close()
        peer.settle()


@pytest.mark.parametrize("opening", [b"", b"P", PREFACE[:10], PREFACE, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01" * 20, bytes(100)],
                         ids=range(7))
def test_a_connection_that_does_not_become_one_is_closed(peer, opening):
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", peer.port)) as plain:
        plain.settimeout(10)
        plain.sendall(opening)
        with pytest.raises((Closed, ConnectionError)):
            while plain.recv(4096):
                pass
            raise Closed
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("raw", [
    frame.DataFrame(1, data=b"x").serialize(),
    frame.WindowUpdateFrame(0, window_increment=0x7FFFFFFF).serialize() * 2,
    b"\0\0\x04\x08\0\0\0\0\0\0\0\0\0",  # a window update by 0
    b"\0\0\x05\x06\0\0\0\0\0hello",  # a ping of five bytes
    b"\0\0\x08\x06\0\0\0\0\x01hellohel",  # a ping on a stream
    b"\0\0\x01\x04\0\0\0\0\0x",  # settings of one byte
    b"\x01\0\0\x00\0\0\0\0\x01" + b"x" * 65536,  # a frame larger than allowed
    b"\0\0\x01\x01\x0c\0\0\0\x02\x82",  # an even stream
    b"\0\0\x02\x01\x0c\0\0\0\x01\xff\xff",  # headers that no table has
    b"\0\0\x01\x01\x0c\0\0\0\0\x82",  # headers on stream 0
    b"\0\0\x04\x03\0\0\0\0\x09\0\0\0\x08",  # a reset of a stream that never was
    b"\0\0\x05\x05\x04\0\0\0\x01\0\0\0\x02\x82",  # a push promise from a client
    b"\0\0\x03\x00\x08\0\0\0\x01\xffab",  # more padding than frame
], ids=range(13))
def test_broken_frames_end_the_connection_and_nothing_else(peer, raw):
    with Wire.to(peer.port) as wire:
        with pytest.raises(Closed):
            wire.send_bytes(raw)
            wire.until_closed(5)
            raise Closed
    still_serves(peer)


def test_noise_is_survived(peer):
    seed = int(os.environ.get("WEIR_TEST_SEED", time.time_ns() % 1000000))
    noise = random.Random(seed)
    for i in range(150):
        try:
            with Wire.to(peer.port) as wire:
                for _ in range(noise.randrange(1, 8)):
                    kind, flags, stream = noise.randrange(12), noise.randrange(256), noise.choice([0, 1, 1, 3, 5])
                    body = noise.randbytes(noise.choice([0, 4, 5, 8, 30]))
                    if kind == 1 and noise.random() < 0.7:
                        body, flags = wire.encoder.encode(headers()), flags & 0x5 | 0x4
                    wire.send_bytes(len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body)
        except Closed:
            pass
        assert not peer.ended(), f"seed {seed}, connection {i}"
    peer.settle(calls=0, buffered=0)
    still_serves(peer)


def test_a_peer_that_does_not_answer_pings_is_dropped():
    with Peer(keepalive_ms=200, patience_ms=500) as peer, Wire.to(peer.port) as wire:
        peer.settle(connections=1)
        began = time.monotonic()
        peer.settle(connections=0)
        assert time.monotonic() - began < 5
        del wire
