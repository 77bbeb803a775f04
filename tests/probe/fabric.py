# SPDX-License-Identifier: BSD-3-Clause
"""A small cluster of namespaces: hosts with a control network and rails, each a bridge of its own that can be cut."""
import contextlib
import subprocess

import probetest  # noqa: F401  sets the path
from network import Host


class Fabric:
    def __init__(self, hosts, rails):
        self.count, self.rails = hosts, rails

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        self.switch = self.stack.enter_context(Host())
        self.hosts = [self.stack.enter_context(Host()) for _ in range(self.count)]
        lines = []
        for rail in [*range(self.rails), 100]:
            lines += [f"link add br{rail} type bridge", f"link set br{rail} up"]
            for h, host in enumerate(self.hosts):
                lines += [f"link add p{rail}x{h} type veth peer name rail{rail} netns {host.name}",
                          f"link set p{rail}x{h} master br{rail} up"]
        lines.append("addr add 10.88.100.100/24 dev br100")
        self._batch(self.switch, lines)
        for h, host in enumerate(self.hosts):
            lines = []
            for rail in [*range(self.rails), 100]:
                lines += [f"addr add {self.address(h, rail)}/24 dev rail{rail}", f"link set rail{rail} up"]
            self._batch(host, lines)
        return self

    def __exit__(self, *error):
        self.stack.__exit__(*error)

    @staticmethod
    def _batch(host, lines):
        subprocess.run(["ip", "-n", host.name, "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True,
                       capture_output=True, timeout=30)

    def address(self, host, rail):
        return f"10.88.{rail}.{host + 1}"

    def control(self, host):
        return self.address(host, 100)

    def nics(self, host):
        return [self.address(host, rail) for rail in range(self.rails)]

    def set_rail(self, rail, up):
        self.switch.ip("link", "set", f"br{rail}", "up" if up else "down")

    def set_port(self, host, rail, up):
        self.switch.ip("link", "set", f"p{rail}x{host}", "up" if up else "down")
