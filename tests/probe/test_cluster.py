# SPDX-License-Identifier: BSD-3-Clause
"""weir probe mesh over 4 hosts x 8 rails in namespaces: what is cut is named, what is healed is told, health names nobody."""
import contextlib
import json
import time

import pytest
from probetest import WEIR, Agent, Process, wait_for  # first: sets the path
from fabric import Fabric  # noqa: E402
from network import missing  # noqa: E402
from weirtest import validate  # noqa: E402

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
HOSTS, RAILS, PORT = 4, 8, 8080
NAMED_S = 5


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        fabric = stack.enter_context(Fabric(HOSTS, RAILS))
        folder = tmp_path_factory.mktemp("agents")
        fabric.agents = [
            stack.enter_context(Agent(fabric.nics(h), PORT, folder / str(h), prefix=host.prefix,
                                      listen=[fabric.control(h), *fabric.nics(h)]))
            for h, host in enumerate(fabric.hosts)]
        yield fabric


class Mesh(Process):
    def __init__(self, fabric, *words):
        names = ",".join(fabric.control(h) for h in range(HOSTS))
        super().__init__(WEIR, "probe", "mesh", "--hosts", names, "--json", *words, prefix=fabric.switch.prefix)

    def events(self, kind):
        return [d for d in self.so_far().documents if d.get("event") == kind]

    def await_health(self):
        """Windows with all probes and no loss, one after the other."""
        def healthy():
            assert not self.ended(), self.so_far()
            last = self.events("window")[-4:]
            return len(last) == 4 and all(w["sent"] > 300 and w["lost"] == 0 for w in last)
        wait_for("a healthy mesh", healthy, 30)

    def await_verdict(self, event, since, **wanted):
        def found():
            return [e for e in self.events(event) if wanted.items() <= e["verdict"].items()]
        wait_for(f"{event} {wanted}", found, 15)
        return time.monotonic() - since


@pytest.fixture
def mesh(cluster):
    with Mesh(cluster) as process:
        process.await_health()
        process.began = len(process.events("begin"))
        yield process


def only_named(mesh, **wanted):
    begun = [e["verdict"] for e in mesh.events("begin")][mesh.began:]
    assert begun and all(wanted.items() <= v.items() for v in begun), begun


def test_health_names_nobody(cluster):
    with Mesh(cluster, "--length", "12") as process:
        done = process.wait(40)
    assert done.status == 0 and not process.events("begin"), done
    record = json.loads(done.lines[-1])
    assert record["pairs"] == HOSTS * (HOSTS - 1) * RAILS and record["lost"] == 0
    assert record["sent"] > 0.8 * 9 * 5 * record["pairs"]


def test_a_cut_rail_is_named_and_its_restoration_is_told(cluster, mesh):
    cut = time.monotonic()
    cluster.set_rail(3, False)
    try:
        named = mesh.await_verdict("begin", cut, subject="rail", rail=3, fault="loss")
    finally:
        cluster.set_rail(3, True)
    restored = mesh.await_verdict("end", time.monotonic(), subject="rail", rail=3)
    print(f"named after {named:.1f} s, restored after {restored:.1f} s")
    assert named < NAMED_S and restored < NAMED_S
    only_named(mesh, subject="rail", rail=3)
    mesh.signal(15)
    done = mesh.wait()
    for document in done.documents:
        validate(document)
    record = json.loads(done.lines[-1])
    assert done.status == 1 and record["schema"] == "weir/probe/1" and record["verdicts"][0]["rail"] == 3


def test_one_nic_without_a_link_is_named(cluster, mesh):
    cut = time.monotonic()
    cluster.set_port(2, 5, False)
    try:
        named = mesh.await_verdict("begin", cut, subject="nic", host=cluster.control(2), rail=5)
    finally:
        cluster.set_port(2, 5, True)
    assert named < NAMED_S
    only_named(mesh, subject="nic", rail=5)


def test_a_host_that_is_cut_off_is_named(cluster, mesh):
    cut = time.monotonic()
    for rail in range(RAILS):
        cluster.set_port(1, rail, False)
    try:
        named = mesh.await_verdict("begin", cut, subject="host", host=cluster.control(1))
    finally:
        for rail in range(RAILS):
            cluster.set_port(1, rail, True)
    assert named < NAMED_S
