# SPDX-License-Identifier: BSD-3-Clause
"""One end of HTTP/2 made of single frames, for what no library would send."""
import socket
import time

import pytest

hpack = pytest.importorskip("hpack", reason="python3-h2 is not installed")
frame = pytest.importorskip("hyperframe.frame", reason="python3-h2 is not installed")

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
CALM, CANCEL = 11, 8
HEADERS = [(":method", "POST"), (":scheme", "http"), (":path", "/dxs.prober.AgentService/StartPings"), (":authority", "x"),
           ("te", "trailers"), ("content-type", "application/grpc")]


def headers(**changed):
    """A call's headers, some replaced (method="GET") or left out (te=None), others added."""
    changed = {k.replace("_", "-"): v for k, v in changed.items()}
    out = []
    for name, value in HEADERS:
        value = changed.pop(name.lstrip(":"), value)
        if value is not None:
            out.append((name, value))
    return out + [(k, v) for k, v in changed.items() if v is not None]


def prefixed(body, flag=0, length=None):
    return bytes([flag]) + (len(body) if length is None else length).to_bytes(4, "big") + body


class Closed(Exception):
    pass


class Wire:
    """A connection; frames in, frames out."""

    def __init__(self, sock, seconds=15):
        self.sock, self.buffer, self.encoder, self.decoder = sock, b"", hpack.Encoder(), hpack.Decoder()
        sock.settimeout(seconds)
        self.replies = {}
        self.goaway = None
        self.open = True

    @classmethod
    def to(cls, port, settings=None, **how):
        wire = cls(socket.create_connection(("127.0.0.1", port)), **how)
        wire.send_bytes(PREFACE)
        wire.send(frame.SettingsFrame(0, settings=settings or {}))
        return wire

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send_bytes(self, data):
        try:
            self.sock.sendall(data)
        except (ConnectionError, BrokenPipeError) as error:
            raise Closed from error

    def send(self, *frames):
        self.send_bytes(b"".join(f.serialize() for f in frames))

    def headers_frame(self, stream, fields, end_stream=False, end_headers=True):
        flags = (["END_STREAM"] if end_stream else []) + (["END_HEADERS"] if end_headers else [])
        return frame.HeadersFrame(stream, data=self.encoder.encode(fields), flags=flags)

    def ask(self, stream, body=b"", end=True, fields=None):
        """A whole request: headers and the bytes of its messages."""
        self.send(self.headers_frame(stream, fields or headers()),
                  frame.DataFrame(stream, data=body, flags=["END_STREAM"] if end else []))

    def _read(self, count):
        while len(self.buffer) < count:
            try:
                data = self.sock.recv(65536)
            except ConnectionError as error:
                self.open = False
                raise Closed from error
            if not data:
                self.open = False
                raise Closed
            self.buffer += data
        out, self.buffer = self.buffer[:count], self.buffer[count:]
        return out

    def read(self):
        """The next frame; what it says of a stream is noted in replies."""
        got, length = frame.Frame.parse_frame_header(memoryview(self._read(9)))
        got.parse_body(memoryview(self._read(length)))
        if isinstance(got, frame.SettingsFrame) and "ACK" not in got.flags:
            self.try_send(frame.SettingsFrame(0, flags=["ACK"]))
        elif isinstance(got, frame.PingFrame) and "ACK" not in got.flags:
            self.try_send(frame.PingFrame(0, opaque_data=got.opaque_data, flags=["ACK"]))
        elif isinstance(got, frame.GoAwayFrame):
            self.goaway = got
        reply = self.replies.setdefault(got.stream_id, {"headers": {}, "data": b"", "ended": False, "reset": None})
        if isinstance(got, frame.HeadersFrame):
            reply["headers"].update(self.decoder.decode(got.data))
        elif isinstance(got, frame.DataFrame):
            reply["data"] += got.data
        elif isinstance(got, frame.RstStreamFrame):
            reply["reset"] = got.error_code
        if "END_STREAM" in got.flags and isinstance(got, (frame.HeadersFrame, frame.DataFrame)):
            reply["ended"] = True
        return got

    def try_send(self, *frames):
        try:
            self.send(*frames)
        except Closed:
            pass

    def reply(self, stream=1, ended=True):
        """Read until a stream has ended or was reset."""
        while True:
            reply = self.replies.get(stream)
            if reply and ((reply["ended"] and ended) or reply["reset"] is not None):
                return reply
            self.read()

    def until_closed(self, seconds=15):
        """Read until the server has closed the connection; returns the GOAWAY that it sent, if any."""
        end = time.monotonic() + seconds
        try:
            while True:
                self.sock.settimeout(max(0.01, end - time.monotonic()))
                self.read()
        except Closed:
            return self.goaway


def status(reply):
    return int(reply["headers"]["grpc-status"])
