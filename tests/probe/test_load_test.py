# SPDX-License-Identifier: BSD-3-Clause
"""What the published controller does, step by step, against two `prober` agents in namespaces with 9 addresses each."""
import os
import signal

import pytest
from probetest import Process, link_prober, wait_for  # sets the path of the next
from network import Host, missing, veth  # noqa: E402

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

CONTROLLER = r"""
import sys, time
sys.path[:0] = sys.argv[1].split(":")
from probetest import call_of, details, grpc, message
results, addresses = sys.argv[2], sys.argv[3].split(",")
import csv, glob, os
nodes = {addresses[i]: addresses[i + 1:i + 9] for i in range(0, len(addresses), 9)}
def ask(primary, name, request):
    with grpc.insecure_channel(primary + ":8080") as channel:
        _, call = call_of(channel, "dxs.prober.AgentService/" + name).with_call(request)
        return call
for iteration in range(3):
    for primary, nics in nodes.items():
        request = message("dxs.prober.StartPingsRequest")(probe_rate_qps=2)
        for _ in range(1 + 2 * iteration):
            for other, theirs in nodes.items():
                if other != primary:
                    for local, peer in zip(nics, theirs):
                        request.targets.add(local_nic_ip_address=local, peer_nic_ip_address=peer)
        call = ask(primary, "StartPings", request)
        assert details(call.trailing_metadata())[1] == [1] * len(request.targets)
    time.sleep(2)
    for primary in nodes:
        ask(primary, "StopPings", message("dxs.prober.StopPingsRequest")())
    time.sleep(1)
    files = glob.glob(results + "/tcpxo_probe_results_0_*.csv")
    assert len(files) == 1, files
    with open(files[0]) as file:
        last = [row[-1] for row in csv.reader(file) if row]
    os.remove(files[0])
    print(iteration, len(last), sum(not x.isdigit() for x in last), flush=True)
"""


def test_three_iterations_without_a_failed_probe(tmp_path):
    here = os.pathsep.join([os.path.dirname(__file__)])
    with Host() as a, Host() as b:
        for subnet in range(1, 10):
            veth(a, b, subnet)
        agents = []
        try:
            for host, number in ((a, 1), (b, 2)):
                env = {"TCPXO_PROBER_GPU_NIC_IPS": ",".join(f"10.77.{i}.{number}" for i in range(2, 10)),
                       "TCPXO_PROBER_OUTPUT_FILES_PATH": str(tmp_path / str(number)),
                       "TCPXO_PROBER_OUTPUT_INTERVAL_IN_SECONDS": "1"}
                agents.append(Process(link_prober(tmp_path), env=env, prefix=host.prefix))
            wait_for("agents", lambda: all("gRPC on port 8080" in agent.so_far().stderr for agent in agents))
            addresses = ",".join(f"10.77.{i}.{number}" for number in (1, 2) for i in range(1, 10))
            with Process("/usr/bin/python3", "-c", CONTROLLER, here, tmp_path / "1", addresses, prefix=a.prefix) as controller:
                done = controller.wait(60)
            assert done.status == 0, done
            counts = [tuple(map(int, line.split())) for line in done.lines]
            assert [c[0] for c in counts] == [0, 1, 2] and all(c[2] == 0 for c in counts), counts
            for iteration, rows, _ in counts:
                expected = 8 * (1 + 2 * iteration) * 2 * 2
                assert 0.7 * expected <= rows <= 1.4 * expected, counts
            for agent in agents:
                agent.signal(signal.SIGTERM)
                assert agent.wait(10).status == 0
                assert "no authentication" in agent.so_far().stderr
        finally:
            for agent in agents:
                agent.kill()
