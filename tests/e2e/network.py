# SPDX-License-Identifier: BSD-3-Clause
"""Networks made by a test and removed by it: hosts are namespaces, links are veth pairs, or a wire of our own that delays and
loses packets where the kernel has no netem."""
import contextlib
import fcntl
import heapq
import itertools
import os
import select
import shutil
import struct
import subprocess
import threading
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454ca, 0x0001, 0x1000
_numbers = itertools.count()


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True, text=True, timeout=20)


def missing():
    """Why there can be no network here, or None."""
    if os.geteuid() != 0:
        return "needs root to make network namespaces"
    if not shutil.which("ip"):
        return "needs iproute2"
    name = f"weir{os.getpid()}probe"
    try:
        ip("netns", "add", name)
        ip("netns", "exec", name, "ip", "link", "add", "name", "probe0", "type", "veth", "peer", "name", "probe1")
    except subprocess.CalledProcessError as why:
        return f"cannot make namespaces and veth pairs here: {why.stderr.strip()}"
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True, timeout=20)
    return None


class Host:
    """A network namespace."""

    def __init__(self):
        self.name = f"weir{os.getpid()}n{next(_numbers)}"
        self.prefix = ["ip", "netns", "exec", self.name]

    def __enter__(self):
        ip("netns", "add", self.name)
        self.ip("link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        subprocess.run(["ip", "netns", "del", self.name], check=False, capture_output=True, timeout=20)

    def ip(self, *words):
        ip("netns", "exec", self.name, "ip", *words)

    def tc(self, *words):
        """False: this kernel has not what was asked for."""
        return subprocess.run([*self.prefix, "tc", *map(str, words)], check=False, capture_output=True, timeout=20).returncode == 0

    def _address(self, device, v4, v6):
        self.ip("addr", "add", f"{v4}/24", "dev", device)
        self.ip("addr", "add", f"{v6}/64", "dev", device, "nodad")
        self.ip("link", "set", device, "up")


def veth(a, b, subnet=1, name=None):
    """Join two hosts: the names of the devices, and the addresses of b. name: of the device at both ends."""
    first, second = (name or f"v{os.getpid() % 100000}x{next(_numbers)}" for _ in "ab")
    ip("link", "add", "name", first, "netns", a.name, "type", "veth", "peer", "name", second, "netns", b.name)
    a._address(first, f"10.77.{subnet}.1", f"fd77:{subnet}::1")
    b._address(second, f"10.77.{subnet}.2", f"fd77:{subnet}::2")
    return first, second


class Wire:
    """Joins two hosts by tun devices whose packets this process carries: delay_s each way; lose(number, packet) drops it."""

    def __init__(self, a, b, delay_s=0.0, lose=None, subnet=1):
        self.delay_s, self.lose, self.subnet = delay_s, lose, subnet
        self.lost = self.carried = 0
        self.ends = [(a, 1), (b, 2)]

    def __enter__(self):
        self.fds = []
        for host, number in self.ends:
            name = f"t{os.getpid() % 100000}x{next(_numbers)}"
            fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
            self.fds.append(fd)
            ip("link", "set", name, "netns", host.name)
            host._address(name, f"10.77.{self.subnet}.{number}", f"fd77:{self.subnet}::{number}")
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._carry, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join(5)
        for fd in self.fds:
            os.close(fd)

    def _carry(self):
        under_way, order = [], itertools.count()
        while not self.stopping.is_set():
            wait = min(0.05, max(0, under_way[0][0] - time.monotonic())) if under_way else 0.05
            for fd in select.select(self.fds, [], [], wait)[0]:
                other = self.fds[1 - self.fds.index(fd)]
                with contextlib.suppress(BlockingIOError, OSError):
                    for _ in range(64):
                        packet = os.read(fd, 65536)
                        self.carried += 1
                        if self.lose and self.lose(self.carried, packet):
                            self.lost += 1
                            continue
                        heapq.heappush(under_way, (time.monotonic() + self.delay_s, next(order), other, packet))
            now = time.monotonic()
            while under_way and under_way[0][0] <= now:
                _, _, other, packet = heapq.heappop(under_way)
                self._deliver(other, packet)

    def _deliver(self, other, packet):
        """One packet to its end; a test's own wire does worse."""
        with contextlib.suppress(OSError):
            os.write(other, packet)
