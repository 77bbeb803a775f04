# SPDX-License-Identifier: BSD-3-Clause
"""The agent by its gRPC surface, two of them on loopback addresses: what is asked for, what is lost, what is refused."""
import contextlib
import datetime
import json
import os
import pathlib
import shutil
import signal
import socket
import threading
import time
import urllib.parse
import urllib.request
from concurrent import futures

import pytest
from probetest import PATIENCE_S, WEIR, Agent, Process, call_of, free_ports, grpc, message, wait_for
from weirtest import weir  # noqa: E402

SUCCESS, FAILURE, LIMIT = 1, 2, 4
HOST = os.getpid() % 200 + 20  # two runs on one machine do not share addresses


def address(agent, nic):
    return f"127.{HOST}.{agent}.{nic}"


@pytest.fixture
def pair(tmp_path):
    port = free_ports(1)
    with Agent([address(1, i) for i in (1, 2)], port, tmp_path / "a") as a, \
            Agent([address(2, i) for i in (1, 2)], port, tmp_path / "b") as b:
        yield a, b


def good(rows):
    return [r for r in rows if r[3].isdigit()]


def test_every_target_gets_a_result_and_every_probe_a_row(pair):
    a, b = pair
    assert a.start(zip(a.nics, b.nics), verify=True) == [SUCCESS, SUCCESS]
    wait_for("rows", lambda: len(good(a.rows())) >= 12)
    a.stop()
    rows = a.rows()
    assert len(rows) == a.status().health.probes_sent and not [r for r in rows if "bytes" in r[3]], rows
    assert {(r[1], r[2]) for r in rows} == set(zip(a.nics, b.nics))
    assert all(0 < int(r[3]) < 10**9 for r in good(rows))
    assert not b.rows()
    a.end(), b.end()


def test_a_rate_of_zero_is_the_default_and_a_high_one_is_limited(pair):
    a, b = pair
    for nic, asked, given in ((0, 0, 1), (1, 1000, 5)):
        a.start([(a.nics[nic], b.nics[nic])], qps=asked)
        wait_for("rows", lambda: len([r for r in a.rows() if r[1] == a.nics[nic]]) >= 2 * given + 1)
        a.stop()
        began = sorted(datetime.datetime.fromisoformat(r[0][:26] + r[0][29:]) for r in a.rows() if r[1] == a.nics[nic])
        seconds = (began[-1] - began[0]).total_seconds() + 0.1  # the first may have been late
        assert len(began) - 1 <= given * seconds


def test_results_stand_in_the_order_of_the_targets(pair):
    a, b = pair
    nobody = address(9, 9)
    wanted = [(a.nics[0], b.nics[0]), (a.nics[0], nobody), ("10.9.8.7", b.nics[0]), (a.nics[1], b.nics[1]), ("x", "y")]
    assert a.start(wanted) == [SUCCESS, FAILURE, FAILURE, SUCCESS, FAILURE]
    assert a.code == grpc.StatusCode.INTERNAL
    wait_for("answers", lambda: len([r for r in good(a.rows()) if r[2] == b.nics[0]]) >= 4)
    wait_for("rows of nobody", lambda: [r for r in a.rows() if r[2] == nobody])
    a.stop()
    assert all("not connected" in r[3] for r in a.rows() if r[2] == nobody)


def test_a_start_is_aborted_by_a_list_that_replaces_its_targets(pair):
    a, b = pair
    silent = address(9, 8)
    request = message("dxs.prober.StartPingsRequest")()
    for _ in range(2):
        request.targets.add(local_nic_ip_address=a.nics[0], peer_nic_ip_address=silent)
    listed = message("weir.v1.Pinglist")(generation=1, owner="test")
    listed.target.add(local_address=a.nics[0], peer_address=b.nics[0], rate=5)
    with socket.create_server((silent, a.port)), grpc.insecure_channel(f"{a.at}:{a.port}") as channel:
        started = call_of(channel, "dxs.prober.AgentService/StartPings").future(request, timeout=PATIENCE_S)
        wait_for("the start", lambda: a.status().pinglist_owner == "dxs.prober")
        a.call("weir.v1.Agent/SetPinglist", listed)
        assert started.exception(PATIENCE_S).code() == grpc.StatusCode.ABORTED
    wait_for("answers", lambda: len(good(a.rows())) >= 3)
    assert a.start([(a.nics[0], b.nics[0])]) == [SUCCESS]


def test_a_peer_that_is_no_agent_is_a_failure_and_not_one_of_memory(pair):
    a, _ = pair
    peer = address(9, 7)
    server = grpc.server(futures.ThreadPoolExecutor(1))
    server.add_insecure_port(f"{peer}:{a.port}")
    server.start()
    try:
        assert a.start([(a.nics[0], peer)]) == [FAILURE]
        wait_for("the reason", lambda: "agent: UNIMPLEMENTED" in a.so_far().stderr)
    finally:
        server.stop(0).wait()


def test_weir_probe_starts_the_pairs_of_a_file_and_stops_them(pair, tmp_path):
    a, b = pair
    file = tmp_path / "pairs"
    file.write_text(f"# one way, one rail\n{a.nics[1]} {b.nics[1]}\n")
    words = ["--hosts", f"{a.at},{b.at}", "-p", a.port]
    done = weir("probe", "start", *words, "--targets", f"file:{file}")
    assert done.status == 0, done
    wait_for("answers", lambda: len(good(a.rows())) >= 3)
    assert {(r[1], r[2]) for r in a.rows()} == {(a.nics[1], b.nics[1])}
    done = weir("probe", "stop", *words)
    assert done.status == 0, done
    wait_for("no connection", lambda: b.status().health.connections == 0)
    assert not b.rows()
    done = weir("probe", "start", *words, "--targets", "rail")
    wait_for("both rails of both", lambda: {(r[1], r[2]) for r in a.rows() + b.rows()} == {*zip(a.nics, b.nics), *zip(b.nics, a.nics)})
    file.write_text(f"{a.nics[1]} 10.9.8.7\n")
    done = weir("probe", "start", *words, "--targets", f"file:{file}")
    assert done.status == 2 and "line 1" in done.stderr and "10.9.8.7" in done.stderr, done


def has_ipv6():
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


@pytest.mark.parametrize("words", [["--insecure"], []], ids=["everywhere", "loopback"])
@pytest.mark.parametrize("nic", ["127.0.0.1", pytest.param("::1", marks=pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here"))])
def test_without_listen_an_agent_is_reached_by_both_kinds_of_addresses(tmp_path, nic, words):
    port = free_ports(1)
    words = [WEIR, "agent", "--nics", nic, "-p", port, "--results", tmp_path, "--verbose", *words]
    with Agent([nic], port, tmp_path, program=words, at=f"[{nic}]" if ":" in nic else nic) as a:
        assert a.start([(nic, nic)]) == [SUCCESS]
        a.end()


def test_empty_variables_count_as_unset(tmp_path):
    port = free_ports(1)
    empty = {"TCPXO_PROBER_GPU_NIC_IPS": "", "TCPXO_PROBER_OUTPUT_FILES_PATH": ""}
    with Agent([address(1, 1)], port, tmp_path, program=[WEIR, "agent", "--nics", address(1, 1), "-p", port, "--verbose"], env=empty) as a:
        a.end()
    if not list(pathlib.Path("/sys/class/net").glob("*/device")):
        pytest.skip("no physical interface here")
    said = []
    for env in ({}, empty):
        with Process(WEIR, "agent", "-p", port, "--verbose", env=env) as process:
            wait_for("NICs", lambda: "gRPC on port" in process.so_far().stderr or process.ended())
        said.append(process.so_far().stderr)
    assert said[0] == said[1]


def test_a_peer_that_restarts_is_found_again(pair, tmp_path):
    a, b = pair
    first = Agent([address(4, 1)], a.port, tmp_path / "d")
    with first:
        assert a.start([(a.nics[0], first.nics[0])]) == [SUCCESS]
        first.kill()
    with Agent([address(4, 1)], a.port, tmp_path / "d"):
        wait_for("the connection", lambda: "connected again" in a.so_far().stderr or len(good(a.rows()[-4:])) == 4)
    a.stop()


def test_rows_survive_a_kill_up_to_the_last_flush(pair):
    a, b = pair
    a.start([(a.nics[0], b.nics[0])])
    wait_for("probes", lambda: a.status().health.probes_sent >= 5)
    flushed = wait_for("a flush", lambda: len(a.rows()) >= 5 and a.rows())
    a.signal(signal.SIGKILL)
    a.wait()
    assert a.rows()[:len(flushed)] == flushed


def test_a_port_that_another_has_is_named_with_what_to_do(tmp_path):
    """And nothing is said of an address that is this host's."""
    with socket.create_server((address(3, 1), 0)) as other:
        port = other.getsockname()[1]
        for option, hint in (("--data-port", "choose another port with --data-port"), ("-p", "choose another port"),
                             ("--metrics-port", "choose another port")):
            ports = {"-p": free_ports(1), option: port}
            done = weir("agent", "--nics", address(3, 1), "--listen", address(3, 1), "--metrics-listen", address(3, 1), "--insecure",
                        "--results", tmp_path, *[word for pair in ports.items() for word in pair])
            assert done.status == 1 and f"cannot listen on {address(3, 1)}:{port}: Address already in use" in done.stderr, done
            assert done.stderr.endswith(f"{hint}\n") and "address of this host" not in done.stderr, done


def test_connections_beyond_the_limit_are_refused_as_such(pair, tmp_path):
    a, b = pair
    with Agent([address(5, 1)], a.port, tmp_path / "e", "--connections-per-nic", 2) as e:
        assert a.start([(a.nics[0], e.nics[0])] * 3).count(LIMIT) == 1
        assert e.start([(e.nics[0], b.nics[0])] * 3) == [SUCCESS, SUCCESS, LIMIT]


def test_large_payloads_are_verified(pair, tmp_path):
    a, b = pair
    with Agent([address(6, 1)], a.port, tmp_path / "f", "--payload", "2M") as f:
        assert f.start([(f.nics[0], b.nics[0])], verify=True) == [SUCCESS]
        wait_for("rows", lambda: len(good(f.rows())) >= 5)
        f.stop()
        assert not [r for r in f.rows() if "bytes" in r[3]], f.rows()


def test_a_connection_without_a_token_is_closed_and_others_go_on(pair):
    a, b = pair
    request = message("weir.v1.SetUpProbeRequest")(prober_address=a.nics[0], responder_address=b.nics[0], payload_bytes=1)
    port = b.call("weir.v1.Agent/SetUpProbe", request)[0].port
    with socket.create_connection((b.nics[0], port), source_address=(a.nics[0], 0)) as stranger:
        stranger.settimeout(5)
        stranger.sendall(b"weirprb1" + bytes(16) + bytes([0, 0, 0, 1, 0, 0, 0, 0]))
        assert stranger.recv(1) == b""
    assert a.start([(a.nics[0], b.nics[0])]) == [SUCCESS]


def test_descriptors_return_after_many_starts(pair):
    a, b = pair
    a.start(zip(a.nics, b.nics))
    a.stop()
    before = a.descriptors(), b.descriptors()
    for _ in range(20):
        a.start([(n, p) for n in a.nics for p in b.nics])
    a.stop()
    wait_for("descriptors", lambda: (a.descriptors(), b.descriptors()) <= before)
    a.end(), b.end()


def test_payloads_in_gpu_memory_are_answered_and_verified_there(tmp_path):
    """A driver that runs its kernels on the CPU stands in for a GPU; beside it an agent whose payloads lie in the host."""
    port, env = free_ports(1), {"LD_LIBRARY_PATH": os.path.dirname(os.environ["FAKE_CUDA"])}
    words = ["--mem", "cuda", "--payload", "100001", "--max-qps", "50"]
    with Agent([address(1, 1)], port, tmp_path / "a", *words, env=env) as a, Agent([address(2, 1)], port, tmp_path / "b", *words, env=env) as b, \
            Agent([address(3, 1)], port, tmp_path / "c") as c:
        assert a.start([(a.nics[0], b.nics[0]), (a.nics[0], c.nics[0])], qps=50, verify=True) == [SUCCESS, SUCCESS]
        wait_for("rows", lambda: all(len([r for r in good(a.rows()) if r[2] == peer.nics[0]]) >= 20 for peer in (b, c)))
        a.stop()
        assert not [r for r in a.rows() if "bytes" in r[3] or "connected" in r[3]], a.rows()
        a.end(), b.end(), c.end()


@pytest.mark.parametrize("kind,device", (("cuda", "/dev/nvidiactl"), ("udmabuf", "/dev/udmabuf")))
def test_memory_that_this_machine_lacks_is_refused_with_the_reason(tmp_path, kind, device):
    if os.path.exists(device):
        pytest.skip(f"this machine has {device}")
    with Process(WEIR, "agent", "--nics", address(1, 1), "-p", free_ports(1), "--mem", kind) as process:
        done = process.wait(PATIENCE_S)
    assert done.status == 1 and f"no memory for the payloads of {address(1, 1)}: " in done.stderr, done


@pytest.mark.parametrize("kind", ["RUN_STREAM", "RUN_P2P"])
def test_a_run_ends_with_its_agent_however_that_ends(pair, kind):
    a, _ = pair
    request = message("weir.v1.RunRequest")
    request = request(kind=request.DESCRIPTOR.fields_by_name["kind"].enum_type.values_by_name[kind].number, serves=True,
                      local_address=a.nics[0], length_ns=10**9, flows=1)
    a.call("weir.v1.Agent/Run", request)
    children = [int(c) for c in pathlib.Path(f"/proc/{a.pid}/task/{a.pid}/children").read_text().split()]
    assert len(children) == 1
    a.kill()

    def gone():
        try:
            return pathlib.Path(f"/proc/{children[0]}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True
    wait_for("the end of the run", gone)


def test_a_watcher_gets_windows_with_host_and_network_apart(pair):
    a, b = pair
    listed = message("weir.v1.Pinglist")(generation=1, owner="test", window_ns=500_000_000)
    listed.target.add(local_address=a.nics[0], peer_address=b.nics[0], rail="0", rate=20, payload_bytes=64)
    a.call("weir.v1.Agent/SetPinglist", listed)
    with grpc.insecure_channel(f"{a.at}:{a.port}") as channel:
        reports = call_of(channel, "weir.v1.Agent/Watch", "unary_stream")(
            message("weir.v1.WatchRequest")(watcher="test"), timeout=PATIENCE_S)
        for report in reports:
            # The kernel begins to stamp a moment after it was asked to: a window in which it stamped all.
            if report.pair and report.pair[0].network.count == report.pair[0].sent >= 3 and not report.pair[0].lost:
                break
        window = report.pair[0]
        assert (window.rail, window.lost, window.timestamps) == ("0", 0, 1)
        assert sum(window.rtt.bucket_count) == window.rtt.count == window.sent
        parts = window.network.sum_ns + window.prober_delay.sum_ns + window.responder_delay.sum_ns
        assert abs(parts - window.rtt.sum_ns) < 0.01 * window.rtt.sum_ns
    old = message("weir.v1.Pinglist")(generation=1, owner="test")
    with pytest.raises(grpc.RpcError) as refused:
        a.call("weir.v1.Agent/SetPinglist", old)
    assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION


def test_a_new_owner_gets_windows_of_its_own_length_and_time(pair):
    a, b = pair
    listed = message("weir.v1.Pinglist")(generation=1, owner="before", window_ns=60 * 10**9)
    listed.target.add(local_address=a.nics[0], peer_address=b.nics[0], rate=100)
    a.call("weir.v1.Agent/SetPinglist", listed)
    wait_for("probes", lambda: a.status().health.probes_sent >= 100)
    listed.owner, listed.window_ns = "after", 500_000_000
    asked = time.time_ns()
    a.call("weir.v1.Agent/SetPinglist", listed)
    with grpc.insecure_channel(f"{a.at}:{a.port}") as channel:
        reports = call_of(channel, "weir.v1.Agent/Watch", "unary_stream")(message("weir.v1.WatchRequest")(watcher="after"), timeout=PATIENCE_S)
        first = next(report for report in reports if report.pair)
    assert first.window_start_wall_ns >= asked
    assert first.pair[0].sent <= first.window_ns // 10**7 + 16  # those that were under way


def test_probing_ends_when_its_controller_is_gone(pair):
    a, b = pair
    listed = message("weir.v1.Pinglist")(generation=1, owner="test", lease_ns=700_000_000)
    listed.target.add(local_address=a.nics[0], peer_address=b.nics[0], rate=5)
    a.call("weir.v1.Agent/SetPinglist", listed)
    wait_for("a connection", lambda: a.status().health.connections == 1)
    wait_for("its end", lambda: a.status().health.connections == 0)


def test_probing_ends_while_its_controller_is_stopped_and_goes_on_after(pair):
    """Its kernel still has the connection: it is the process that says nothing any more."""
    a, b = pair
    with Process(WEIR, "probe", "mesh", "--hosts", f"{a.at},{b.at}", "-p", a.port, "--rate", "5") as controller:
        wait_for("probes", lambda: good(a.rows()) and good(b.rows()))
        controller.signal(signal.SIGSTOP)
        for agent in pair:
            wait_for("the end", lambda: "has gone: probing ends" in agent.so_far().stderr, 30)
        wait_for("no connection", lambda: a.status().health.connections == b.status().health.connections == 0)
        controller.signal(signal.SIGCONT)
        wait_for("connections", lambda: a.status().health.connections and b.status().health.connections)


def test_a_watcher_that_only_listens_keeps_its_lease(pair):
    a, b = pair
    listed = message("weir.v1.Pinglist")(generation=1, owner="test", lease_ns=3 * 10**9, window_ns=60 * 10**9)
    listed.target.add(local_address=a.nics[0], peer_address=b.nics[0], rate=20)
    a.call("weir.v1.Agent/SetPinglist", listed)
    with grpc.insecure_channel(f"{a.at}:{a.port}") as channel:
        reports = call_of(channel, "weir.v1.Agent/Watch", "unary_stream")(message("weir.v1.WatchRequest")(watcher="test"), timeout=PATIENCE_S)
        wait_for("probes of two leases", lambda: a.status().health.probes_sent >= 120 or "probing ends" in a.so_far().stderr)
        assert "probing ends" not in a.so_far().stderr
        reports.cancel()
    wait_for("its end", lambda: "probing ends" in a.so_far().stderr)


def test_a_lease_beyond_the_end_of_time_is_not_over_at_once(pair):
    a, b = pair
    listed = message("weir.v1.Pinglist")(generation=1, owner="test", lease_ns=2**64 - 1)
    listed.target.add(local_address=a.nics[0], peer_address=b.nics[0], rate=20)
    a.call("weir.v1.Agent/SetPinglist", listed)
    wait_for("probes", lambda: a.status().health.probes_sent >= 5 or "probing ends" in a.so_far().stderr)
    assert "probing ends" not in a.so_far().stderr


def test_prometheus_reads_totals_and_only_the_pairs_that_fail(pair, tmp_path):
    a, b = pair
    metrics = free_ports(1)
    with Agent([address(7, 1)], a.port, tmp_path / "g", "--metrics-port", metrics) as g:
        g.start([(g.nics[0], b.nics[0]), (g.nics[0], address(9, 9))])
        wait_for("rows", lambda: len(good(g.rows())) >= 3)
        text = urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=5).read().decode()
    assert f'weir_probe_sent_total{{nic="{g.nics[0]}",rail="0"}}' in text
    failing = [line for line in text.splitlines() if line.startswith("weir_probe_pair_failing{")]
    assert failing == [f'weir_probe_pair_failing{{nic="{g.nics[0]}",peer="{address(9, 9)}"}} 1'], text


def test_the_published_set_up_returns_payloads_by_a_second_connection(pair):
    a, b = pair
    with socket.create_server((a.nics[0], 0)) as ping:
        ping.settimeout(30)
        request = message("dxs.prober.SetUpRequest")(client_gpu_ip=a.nics[0], client_dxs_port=ping.getsockname()[1], server_gpu_ip=b.nics[0])
        port = b.call("dxs.prober.ConnectionManager/SetUpPongConnection", request)[0].dxs_port
        with socket.create_connection((b.nics[0], port), source_address=(a.nics[0], 0), timeout=30) as there:
            back, _ = ping.accept()
            with back:
                back.settimeout(30)
                payload = bytes(range(256)) * 1024
                threading.Thread(target=there.sendall, args=(payload,), daemon=True).start()
                returned = b""
                while len(returned) < len(payload):
                    returned += back.recv(65536)
                assert returned == payload
                assert b.status().health.connections == 1
                end = message("dxs.prober.TearDownRequest")(ping_ip=a.nics[0], pong_ip=b.nics[0])
                b.call("dxs.prober.ConnectionManager/TearDownConnection", end)
                assert back.recv(1) == b""
    wait_for("its end", lambda: b.status().health.connections == 0)


@pytest.mark.parametrize("client, port, server", [("x", 1, 0), (0, 0, 0), (0, 70000, 0), (0, 1, "10.9.8.7")])
def test_a_published_set_up_that_cannot_be_is_cancelled(pair, client, port, server):
    a, b = pair
    request = message("dxs.prober.SetUpRequest")(client_gpu_ip=client or a.nics[0], client_dxs_port=port, server_gpu_ip=server or b.nics[0])
    with pytest.raises(grpc.RpcError) as refused:
        b.call("dxs.prober.ConnectionManager/SetUpPongConnection", request)
    assert refused.value.code() == grpc.StatusCode.CANCELLED


def test_a_published_set_up_nobody_comes_for_is_given_up_and_nobody_is_called(pair):
    a, b = pair
    before = b.descriptors()
    with socket.create_server((a.nics[0], 0)) as ping:
        request = message("dxs.prober.SetUpRequest")(client_gpu_ip=a.nics[0], client_dxs_port=ping.getsockname()[1], server_gpu_ip=b.nics[0])
        port = b.call("dxs.prober.ConnectionManager/SetUpPongConnection", request)[0].dxs_port
        with contextlib.suppress(OSError), socket.create_connection((b.nics[0], port), source_address=(a.nics[1], 0), timeout=30) as stranger:
            assert stranger.recv(1) == b""
        wait_for("its end", lambda: b.status().health.connections == 0)
        ping.settimeout(0)
        with pytest.raises(BlockingIOError):
            ping.accept()
    wait_for("descriptors", lambda: b.descriptors() <= before)


def test_a_real_prometheus_scrapes_two_agents(tmp_path):
    prometheus = shutil.which("prometheus")
    if not prometheus:
        pytest.skip("no prometheus here: apt-get install prometheus")
    port = free_ports(4)
    nics = [[address(agent, i) for i in (1, 2)] for agent in (11, 12)]
    config = tmp_path / "prometheus.yml"
    config.write_text(json.dumps({
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms"},
        "scrape_configs": [{"job_name": "weir", "static_configs": [{"targets": [f"127.0.0.1:{port + i}" for i in (1, 2)]}]}],
    }))

    def query(words):
        url = f"http://127.0.0.1:{port + 3}/api/v1/query?" + urllib.parse.urlencode({"query": words})
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                return {r["metric"].get("nic", r["metric"].get("instance")): float(r["value"][1]) for r in json.load(response)["data"]["result"]}
        except OSError:
            return {}

    with Agent(nics[0], port, tmp_path / "a", "--metrics-port", port + 1) as a, Agent(nics[1], port, tmp_path / "b", "--metrics-port", port + 2) as b, \
            Process(prometheus, f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/data", f"--web.listen-address=127.0.0.1:{port + 3}") as server:
        a.start([*zip(*nics), (nics[0][0], address(9, 9))])
        b.start(zip(nics[1], nics[0]))

        def answers(words, wanted):
            def is_so():
                assert not server.ended(), server.so_far()
                return wanted(query(words))
            wait_for(words, is_so)

        answers("up == 1", lambda r: len(r) == 2)
        answers("weir_probe_rtt_seconds_count > 3", lambda r: set(r) == {*nics[0], *nics[1]})
        answers("histogram_quantile(0.5, weir_probe_rtt_seconds_bucket)", lambda r: len(r) == 4 and all(0 < v < 10 for v in r.values()))
        answers("weir_probe_lost_total > 0", lambda r: set(r) == {nics[0][0]})
        answers("weir_probe_pair_failing", lambda r: set(r) == {nics[0][0]})
