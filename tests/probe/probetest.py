# SPDX-License-Identifier: BSD-3-Clause
"""Agents as processes, on loopback addresses of their own or in network namespaces, and what a controller asks of them."""
import csv
import os
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / part) for part in ("rpc", "e2e", ".")]

from rpctest import call_of, details, grpc, message  # noqa: E402,F401
from weirtest import PATIENCE_S, WEIR, Process, free_ports, link, wait_for  # noqa: E402,F401


def link_prober(folder):
    return link(folder, "prober")


class Agent(Process):
    """nics: its addresses; at: where the controller reaches it."""

    def __init__(self, nics, port, results, *words, at=None, listen=None, flush="1", program=None, **how):
        self.nics, self.port, self.at, self.results = list(nics), port, at or nics[0], pathlib.Path(results)
        program = program or [WEIR, "agent", "--nics", ",".join(nics), "-p", port, "--results", results, "--flush", flush,
                              "--insecure", "--verbose", "--listen", ",".join(listen or nics), *words]
        super().__init__(*program, **how)
        wait_for("the agent to listen", self._is_ready)

    def _is_ready(self):
        assert not self.ended(), self.so_far()
        return "gRPC on port" in self.so_far().stderr

    def call(self, path, request, seconds=15):
        with grpc.insecure_channel(f"{self.at}:{self.port}", options=[("grpc.max_metadata_size", 1 << 20)]) as channel:
            return call_of(channel, path).with_call(request, timeout=seconds)

    def start(self, pairs, qps=5, verify=False, seconds=15):
        """The result of each pair."""
        request = message("dxs.prober.StartPingsRequest")(probe_rate_qps=qps, verify_payload=verify)
        for local, peer in pairs:
            request.targets.add(local_nic_ip_address=local, peer_nic_ip_address=peer)
        try:
            _, call = self.call("dxs.prober.AgentService/StartPings", request, seconds)
            self.code = grpc.StatusCode.OK
        except grpc.RpcError as error:
            call, self.code = error, error.code()
        return details(call.trailing_metadata())[1]

    def stop(self):
        self.call("dxs.prober.AgentService/StopPings", message("dxs.prober.StopPingsRequest")())

    def status(self):
        return self.call("weir.v1.Agent/GetStatus", message("weir.v1.GetStatusRequest")())[0]

    def rows(self):
        rows = []
        for path in sorted(self.results.glob("*.csv")):
            with open(path, newline="") as file:
                rows += list(csv.reader(file))
        return rows

    def end(self):
        os.kill(self.pid, 15)
        done = self.wait(10)
        assert done.status == 0, done
        return done
