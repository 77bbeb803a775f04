# SPDX-License-Identifier: BSD-3-Clause
"""Peers written by hand: neper's control messages byte for byte, weir's own, and a proxy that can be cut."""
import collections
import contextlib
import socket
import struct
import threading
import time

MESSAGE = struct.Struct(">32siIIIiIQQ")
assert MESSAGE.size == 72
HELLO, ACK, DONE, BYE = 1, 2, 3, 4
SECRET = {"stream": b"neper tcp_stream 201703241300", "rr": b"neper tcp_rr 201703241250", "crr": b""}
MARK = 0x7765697200000001  # in remote_rate: between two weirs

REQUEST, ACCEPT, REFUSE, READY, GO, TICK, RESULT, ABORT = range(1, 9)

Neper = collections.namedtuple("Neper", "secret magic type threads flows length number pacing rate")


def neper(kind, secret=b"", magic=42, threads=0, flows=0, length=0, number=0, pacing=0, rate=0):
    return MESSAGE.pack(secret, magic, kind, threads, flows, length, number, pacing, rate)


def hello(workload, threads=1, flows=1, length=1, pacing=0, rate=0, magic=42):
    return neper(HELLO, SECRET[workload], magic, threads, flows, length, 0, pacing, rate)


def parse(data):
    return Neper(*MESSAGE.unpack(data))


def receive(sock, count):
    """Exactly so many bytes, or those that came before the end."""
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            break
        data += more
    return data


def connect(port, host="127.0.0.1", source=None, seconds=15):
    sock = socket.create_connection((host, port), seconds, source)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def is_closed(sock, seconds=15):
    """The peer closes within this time; what it says before is thrown away."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sock.settimeout(max(0.01, end - time.monotonic()))
        try:
            if not sock.recv(65536):
                return True
        except socket.timeout:
            return False
        except OSError:
            return True
    return False


class Talker:
    """A weir client by hand: says what it is told to."""

    def __init__(self, server, workload=None, seconds=15):
        self.sock = connect(server.control, seconds=seconds)
        self.server = server
        self.sock.sendall(hello(workload or server.workload, rate=MARK))
        self.ack = parse(receive(self.sock, MESSAGE.size))
        assert (self.ack.type, self.ack.rate) == (ACK, MARK)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def say(self, kind, body=b""):
        if isinstance(body, str):
            body = body.encode()
        self.sock.sendall(struct.pack(">II", len(body), kind) + body)

    def hear(self):
        """Type and body, but for TICKs; (None, b"") at the end."""
        while True:
            head = receive(self.sock, 8)
            if len(head) < 8:
                return None, b""
            length, kind = struct.unpack(">II", head)
            body = receive(self.sock, length)
            if kind != TICK:
                return kind, body

    def ask(self, **wishes):
        """REQUEST with these options; the server's answer."""
        lines = {"test-length": 1, "warmup": 0, "num-flows": 1, "num-threads": 1, **{k.replace("_", "-"): v for k, v in wishes.items()}}
        self.say(REQUEST, "".join(f"{name}={value}\n" for name, value in lines.items()))
        return self.hear()

    @staticmethod
    def token(accept):
        assert accept.startswith(b"token="), accept
        return bytes.fromhex(accept[6:].strip().decode())


def preamble(token, flow=0):
    return b"\xf7weirfl\x01" + token + struct.pack(">I", flow) + bytes(4)


class Listener:
    """A server by hand on a port the kernel chose: each connection goes to behave(sock), in a thread of its own."""

    def __init__(self, behave, host="127.0.0.1", port=0):
        self.behave = behave
        self.sock = socket.create_server((host, port), backlog=64)
        self.port = self.sock.getsockname()[1]
        self.connections = []
        self.failures = []
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        for sock in self.connections:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _accept(self):
        while True:
            try:
                sock, _ = self.sock.accept()
            except OSError:
                return
            sock.settimeout(30)
            self.connections.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        try:
            self.behave(sock)
        except OSError:
            pass
        except Exception as failure:  # shown by the test that looks
            self.failures.append(failure)


class Proxy(Listener):
    """Passes bytes both ways between its clients and a port, until cut."""

    def __init__(self, port, host="127.0.0.1", listen=0):
        self.target = (host, port)
        super().__init__(self._pass, host, listen)

    def _pass(self, sock):
        other = socket.create_connection(self.target, 10)
        self.connections.append(other)
        other.settimeout(None)
        sock.settimeout(None)
        back = threading.Thread(target=self._pump, args=(other, sock), daemon=True)
        back.start()
        self._pump(sock, other)
        back.join(30)

    @staticmethod
    def _pump(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def cut(self):
        """Both sides see the connection end."""
        for sock in self.connections:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
