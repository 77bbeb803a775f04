# SPDX-License-Identifier: BSD-3-Clause
"""What goes wrong around an agent: its peer, the path in one direction or both, its disk. Probes to others go on, rows say what
happened, and nothing is left behind. One peer is joined by a wire that the test can cut, delay and make lossy, the other by one
that stays well."""
import contextlib
import ipaddress
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from probetest import PATIENCE_S, Agent, free_ports, wait_for  # first: sets the path
from network import Host, Wire, missing, veth  # noqa: E402

PORT = 8080
SICK, WELL = "10.77.5.2", "10.77.6.2"
needs_network = pytest.mark.skipif(missing() is not None, reason=str(missing()))


def agent_in(host, *words):
    return Agent(*words, prefix=host.prefix, flush="0.2")


class Controller:
    """Asks an agent in a namespace from there: this file as a program, a line for each request and each answer."""

    def __init__(self, stack, host, agent):
        self.popen = stack.enter_context(subprocess.Popen([*host.prefix, sys.executable, __file__, agent.at], stdin=subprocess.PIPE,
                                                          stdout=subprocess.PIPE, text=True))
        stack.callback(self.popen.stdin.close)

    def ask(self, pairs):
        self.popen.stdin.write(json.dumps(pairs) + "\n")
        self.popen.stdin.flush()
        return json.loads(self.popen.stdout.readline())

    def start(self, pairs):
        return self.ask(pairs)

    def stop(self):
        return self.ask(None)


class Net:
    def __init__(self, stack, folder):
        self.folder = folder
        self.prober, self.sick, self.well = (stack.enter_context(Host()) for _ in range(3))
        self.wire = stack.enter_context(Wire(self.prober, self.sick, subnet=5))
        veth(self.prober, self.well, subnet=6)
        self.agent = stack.enter_context(agent_in(self.prober, ["10.77.5.1", "10.77.6.1"], PORT, folder / "prober"))
        self.controller = Controller(stack, self.prober, self.agent)
        self.idle = self.agent.descriptors() + 1  # the results
        stack.enter_context(agent_in(self.well, [WELL], PORT, folder / "well"))

    def peer(self):
        return agent_in(self.sick, [SICK], PORT, self.folder / "sick")

    def probe_both(self):
        assert self.controller.start([("10.77.5.1", SICK), ("10.77.6.1", WELL)]) == [1, 1]
        self.known = len(self.agent.rows())
        self.await_good(SICK)

    def new(self, peer):
        return [row for row in self.agent.rows()[self.known:] if row[2] == peer]

    def await_good(self, peer, count=3):
        """Answers, and nothing else between them."""
        wait_for(f"answers of {peer}", lambda: len([r for r in self.new(peer)[-count:] if r[3].isdigit()]) == count, 2 * PATIENCE_S)

    def await_words(self, peer, words):
        wait_for(f"a row of {peer} that says {words}", lambda: [r for r in self.new(peer) if words in r[3]], 2 * PATIENCE_S)

    def stop_without_a_trace(self):
        assert self.controller.stop() == {"connections": 0, "results_dropped": 0}
        wait_for("descriptors", lambda: self.agent.descriptors() <= self.idle)

    def well_was_undisturbed(self):
        rows = self.new(WELL)
        bad = [r for r in rows if not r[3].isdigit()]
        assert len(rows) >= 5 and len(bad) <= 0.1 * len(rows), bad


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        yield Net(stack, tmp_path_factory.mktemp("agents"))


@pytest.fixture
def peer(net):
    """The peer that will suffer; after the test nothing of it is left with the agent that probed it."""
    with net.peer() as agent:
        net.probe_both()
        yield agent
        net.well_was_undisturbed()
        net.stop_without_a_trace()


@needs_network
def test_a_killed_peer_is_said_and_found_again_when_it_is_back(net, peer):
    peer.kill()
    net.await_words(SICK, "not connected: agent: UNAVAILABLE")
    assert "probe: Connection reset" in net.agent.so_far().stderr
    with net.peer():
        net.await_good(SICK)
        assert "connected again" in net.agent.so_far().stderr


@needs_network
def test_a_stopped_peer_is_lost_probes(net, peer):
    peer.signal(signal.SIGSTOP)
    try:
        net.await_words(SICK, "no answer within 1.00 s")
        net.await_words(SICK, "not connected")
    finally:
        peer.signal(signal.SIGCONT)
    net.await_good(SICK)


@needs_network
def test_a_link_that_is_down_is_lost_probes_until_it_is_up(net, peer):
    device = json.loads(subprocess.run([*net.sick.prefix, "ip", "-j", "addr", "show", "to", SICK], check=True, capture_output=True,
                                       timeout=20).stdout)[0]["ifname"]
    net.sick.ip("link", "set", device, "down")
    net.await_words(SICK, "no answer within 1.00 s")
    net.await_words(SICK, "not connected")
    net.sick.ip("link", "set", device, "up")
    net.await_good(SICK)


@needs_network
@pytest.mark.parametrize("lost", ["10.77.5.1", SICK], ids=["there", "back"])
def test_one_direction_dropped_is_lost_probes_until_it_is_open(net, peer, lost):
    net.wire.lose = lambda _, packet: packet[12:16] == ipaddress.ip_address(lost).packed
    try:
        net.await_words(SICK, "no answer within 1.00 s")
        net.await_words(SICK, "not connected")
    finally:
        net.wire.lose = None
    net.await_good(SICK)


def tcp_data(packet, source):
    """What tells the data of a probe from other packets, and is the same when it is sent again: ports and sequence. None: something else."""
    tcp = packet[(packet[0] & 15) * 4:]
    ports = int.from_bytes(tcp[0:2], "big"), int.from_bytes(tcp[2:4], "big")
    if packet[0] >> 4 != 4 or packet[9] != 6 or packet[12:16] != ipaddress.ip_address(source).packed or PORT in ports:
        return None
    return (*ports, tcp[4:8]) if len(tcp) > (tcp[12] >> 4) * 4 else None


@needs_network
@pytest.mark.skipif(tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (6, 15), reason="this kernel sends again after 200 ms")
@pytest.mark.parametrize("source", ["10.77.5.1", SICK], ids=["there", "back"])
def test_a_lost_packet_is_sent_again_before_the_next_probe_is_due(net, peer, source):
    lost, again = {}, []

    def lose(_, packet):
        data, now = tcp_data(packet, source), time.monotonic()
        if data in lost:
            again.append(now - lost.pop(data))
        elif data and not lost:
            lost[data] = now
            return True
        return False

    net.wire.lose = lose
    try:
        wait_for("packets that are sent again", lambda: len(again) >= 5, 2 * PATIENCE_S)
    finally:
        net.wire.lose = None
    assert 0.04 < min(again) < 0.15  # a busy machine makes it longer, nothing makes it shorter
    net.await_good(SICK)


@needs_network
def test_added_delay_is_in_the_round_trips_of_that_path_alone(net, peer):
    net.wire.delay_s = 0.15
    try:
        wait_for("slow answers", lambda: len([r for r in net.new(SICK)[-4:] if r[3].isdigit() and int(r[3]) >= 300_000_000]) == 4,
                 2 * PATIENCE_S)
        fast = sorted(int(r[3]) for r in net.new(WELL) if r[3].isdigit())
        assert fast[len(fast) // 2] < 300_000_000
    finally:
        net.wire.delay_s = 0.0
    net.await_good(SICK)


@needs_network
def test_targets_that_do_not_exist_disturb_nobody(net):
    dead = [f"10.77.6.{i}" for i in range(50, 250)]
    pairs = [("10.77.6.1", peer) for one in dead for peer in (one, WELL)]
    assert net.controller.start(pairs) == [2, 1] * len(dead)
    net.known = len(net.agent.rows())
    wait_for("rows of all", lambda: {r[2] for r in net.agent.rows()[net.known:]} == {WELL, *dead})
    wait_for("many probes", lambda: len(net.new(WELL)) >= 2000, 2 * PATIENCE_S)
    net.well_was_undisturbed()
    assert all("not connected" in r[3] for r in net.agent.rows()[net.known:] if r[2] != WELL)
    net.stop_without_a_trace()


@pytest.fixture
def small_disk(tmp_path):
    """64 KiB of it."""
    (tmp_path / "small").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "weir-test", tmp_path / "small"]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True, timeout=20).returncode:
        pytest.skip("cannot mount a small disk here")
    yield tmp_path / "small"
    subprocess.run(["umount", "-l", tmp_path / "small"], check=True, timeout=20)


def loopback(agent):
    return f"127.{os.getpid() % 200 + 20}.{agent}.1"


@pytest.fixture
def two(tmp_path, request):
    folder = request.getfixturevalue("small_disk") if "small_disk" in request.fixturenames else tmp_path / "a"
    port = free_ports(1)
    with Agent([loopback(1)], port, folder, flush="0.2") as a, Agent([loopback(2)], port, tmp_path / "b") as b:
        yield a, b


def all_rows_are_there(agent):
    agent.stop()
    rows, health = agent.rows(), agent.status().health
    assert all(len(row) == 4 for row in rows)
    assert (len(rows), health.results_dropped) == (health.probes_sent, 0)


def test_probes_under_way_at_a_stop_have_no_row_and_are_not_counted(two):
    a, b = two
    a.start([(loopback(1), loopback(2))])
    wait_for("rows", a.rows)
    b.signal(signal.SIGSTOP)
    try:
        time.sleep(0.5)  # two or three, each with a second to be answered
        all_rows_are_there(a)
    finally:
        b.signal(signal.SIGCONT)


def test_rows_outlive_a_full_disk(small_disk, two):
    a, b = two
    a.start([(loopback(1), loopback(2))] * 20)
    wait_for("rows", a.rows)
    filler = small_disk / "filler"
    with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    wait_for("the complaint", lambda: "No space left on device; rows wait in memory" in a.so_far().stderr)
    filler.unlink()
    wait_for("its end", lambda: "results are written again; 0 rows were dropped" in a.so_far().stderr)
    all_rows_are_there(a)


def test_rows_are_written_before_too_many_wait_for_a_long_interval(tmp_path):
    """Of pairs without a connection: they cost least, and each says why."""
    with Agent([loopback(3)], free_ports(1), tmp_path / "a", "--max-qps", 0, flush="3600") as a:
        a.start([(loopback(3), loopback(4))] * 4, qps=10000)
        wait_for("rows", lambda: sum(file.stat().st_size for file in a.results.iterdir()) > 8 << 20, 2 * PATIENCE_S)
        a.stop()
        rows, health = a.rows(), a.status().health
        assert len(rows) + health.results_dropped == health.probes_lost and all(len(row) == 4 for row in rows)
        assert len(rows) > 0.5 * health.probes_lost  # where the agent has no CPU, not all reach it


def test_a_results_file_that_is_removed_is_made_anew(two):
    a, b = two
    a.start([(loopback(1), loopback(2))])
    for _ in range(3):
        wait_for("rows", lambda: len(a.rows()) >= 2)
        (file,) = a.results.iterdir()
        file.unlink()
    wait_for("rows", lambda: len(a.rows()) >= 2)
    assert [f.name for f in a.results.iterdir()] == [file.name]


def serve(at):
    agent = Agent.__new__(Agent)
    agent.at, agent.port = at, PORT
    for line in sys.stdin:
        pairs = json.loads(line)
        if pairs is None:
            agent.stop()
            health = agent.status().health
            answer = {"connections": health.connections, "results_dropped": health.results_dropped}
        else:
            answer = agent.start(pairs, seconds=PATIENCE_S)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
