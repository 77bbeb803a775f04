# SPDX-License-Identifier: BSD-3-Clause
"""weir p2p between real processes, over its own transport and through the plugin: every byte is checked, the record is true."""
import json
import os

import pytest

import network
from p2p import CLEAN, EXAMPLE, FAKE_CUDA, PLUGIN, SCATTER, P2pServer, good, record_of
from weirtest import Process, free_ports, link, validate, wait_for, weir

QUICK = ["--json", "--iterations", "6", "--warmup", "1"]


@pytest.fixture(scope="module")
def server():
    with P2pServer() as process:
        yield process


@pytest.mark.parametrize("op", ("send", "write", "read", "pingpong"))
@pytest.mark.parametrize("size", (1, 4096, 100001, 5 << 20))
def test_every_op_moves_every_size(server, op, size):
    record = good(server.client(*QUICK, "--op", op, "--size", size, "--chunk", "64K", "--depth", "3"))
    local, remote = record["local"], record["remote"]
    assert record["op"] == op and record["message_bytes"] == size and record["check"] is True
    assert local["messages"] == remote["messages"] == 6 and local["bytes"] == remote["bytes"] == 6 * size
    assert local["wrong"] == remote["wrong"] == 0
    assert local["checked"] + remote["checked"] >= 3, record
    assert len(local["times_ns"]) == 6 and record["bytes_per_s"] > 0
    assert (record["chunk_bytes"], record["channels"], record["window"]) == (65536, 8, 16)


def test_a_length_is_filled_by_doubling_and_what_was_too_short_is_warm_up(server):
    record = good(server.client("--json", "--length", "0.2", "--warmup", "1", "--size", "64K"))
    count = record["iterations"]
    assert count & (count - 1) == 0 and count == record["warmup"] == record["local"]["messages"] == record["remote"]["messages"]


def test_a_server_prints_no_warm_up():
    """Also not that of a run by time, which is known as such only when the next batch begins."""
    with P2pServer() as server:
        server.client("--size", "1M", "--iterations", "5", "--warmup", "2")
        server.client("--size", "1M", "--iterations", "4", "--warmup", "0")
        by_time = good(server.client("--json", "--size", "64K", "--length", "0.2", "--warmup", "3"))
        wait_for("three runs", lambda: len(server.so_far().lines) >= 3)
        printed = [line.split(" from ")[0] for line in server.so_far().lines]
    assert printed == ["GPU 0: send of 1 MiB x 5", "GPU 0: send of 1 MiB x 4", f"GPU 0: send of 64 KiB x {by_time['iterations']}"]


def test_text_has_both_ends_and_all_settings(server):
    done = server.client("--size", "1M", "--iterations", "12", "--channels", "3", "--window", "5", "--chunk", "128K")
    assert done.status in (0, 3) and done.stderr == "", done
    for words in ("3 channels x 1 sockets, window 5, chunk 128 KiB", "2 warm-up left out", "transport tcp, NICs lo and lo",
                  "memory host and host", "unpack none needed", "GiB/s", "median", "no credit", "data checked: 12 messages"):
        assert words in done.stdout, (words, done)
    rows = [line.split() for line in done.lines]
    assert [row[0] for row in rows if row and row[0] in ("client", "server")] == ["client", "server"]
    assert sum(row[0].isdigit() for row in rows if row) == 13  # 12 iterations and the line of channels


def test_window_occupancy_and_stalls_add_up(server):
    record = good(server.client(*QUICK, "--size", "8M", "--chunk", "64K", "--window", "4", "--channels", "2"))
    for end in (record["local"], record["remote"]):
        assert 0 < end["window"]["in_flight_max"] <= 8 and 0 < end["window"]["in_flight_mean"] <= 8, end
        assert sum(end["stalled"].values()) <= end["window"]["active_ns"], end


def test_the_record_goes_to_a_file(server, tmp_path):
    path = tmp_path / "run.json"
    done = server.client("--size", "64K", "--iterations", "2", "--out", path)
    assert done.status in (0, 3), done
    validate(json.loads(path.read_text()))


def test_variables_of_others_are_defaults_of_flags(server):
    env = {"UCCL_TCPX_PERF_SIZE": "131072", "UCCL_TCPX_PERF_ITERS": "3", "UCCL_TCPX_NUM_CHANNELS": "2",
           "NCCL_P2P_NET_CHUNKSIZE": "16384", "UCCL_TCPX_CHUNK_BYTES": "32768", "UCCL_TCPX_UNPACK_IMPL": "d2d"}
    record = good(server.client("--json", env=env))
    assert (record["message_bytes"], record["iterations"], record["channels"], record["chunk_bytes"]) == (131072, 3, 2, 32768)
    assert good(server.client("--json", "--channels", "5", env=env))["channels"] == 5
    # How many sockets a channel has is said by who receives.
    with P2pServer(env={"NCCL_NSOCKS_PERTHREAD": "2", "NCCL_SOCKET_NTHREADS": "2"}) as other:
        assert good(other.client(*QUICK, "--size", "1M"))["sockets"] == 4
    done = server.client("--json", env={"UCCL_TCPX_NUM_CHANNELS": "65"})
    assert done.status == 2 and "UCCL_TCPX_NUM_CHANNELS" in done.stderr, done


def test_ipv6_and_names(server):
    assert good(server.client(*QUICK, "--size", "1M", host="::1"))["peer"].startswith("[::1]")
    good(server.client(*QUICK, "--size", "1M", host="localhost"))


@pytest.mark.skipif(not os.path.exists("/dev/udmabuf"), reason="no /dev/udmabuf")
def test_memory_that_a_nic_knows(server):
    done = server.client(*QUICK, "--size", "1M", mem="udmabuf")
    assert good(done)["local"]["memory"] == "udmabuf"


@pytest.mark.parametrize("version", (7, 8, 9, 10, 11))
def test_the_plugin_moves_the_same_bytes(version):
    env = {"WEIR_IFNAME": "lo"}
    args = ["--plugin", PLUGIN, "--plugin-version", version]
    with P2pServer(*args, env=env) as server:
        for op in ("send", "write", "read"):
            record = good(server.client(*QUICK, "--size", "3M", "--op", op, *args, env=env))
            assert record["transport"] == "weir" and record["local"]["devices"] == "lo"
            assert record["local"]["wrong"] == record["remote"]["wrong"] == 0


def fragments(kind):
    """Fragments in host memory, or in that of a GPU: a driver that runs its kernels on the CPU stands in for one."""
    env = {"WEIR_IFNAME": "lo", "WEIR_TEST_SCATTER": kind}
    if kind == "cuda":
        env["LD_LIBRARY_PATH"] = os.path.dirname(FAKE_CUDA)
    return {"env": env, "mem": kind}


@pytest.mark.parametrize("kind,how", (("host", "kernel"), ("cuda", "kernel"), ("cuda", "d2d"), ("cuda", "host")))
def test_fragments_are_put_in_their_place(kind, how):
    """The plugin overwrites what was consumed: data that is right was unpacked before."""
    args = ["--plugin", SCATTER, "--unpack", how, "--devices", "lo"]
    where = fragments(kind)
    with P2pServer(*args, **where) as server:
        for op in ("send", "write", "read"):
            record = good(server.client(*QUICK, *args, "--op", op, "--size", "3000001", "--chunk", "100000", "--channels", "3", **where))
            assert record["unpack"] == (how if kind == "cuda" else "host") and record["transport"] == "scatter", record
            assert record["local"]["memory"] == record["remote"]["memory"] == kind and record["check"] is True
            assert record["local"]["checked"] + record["remote"]["checked"] >= 2, record
            assert record["local"]["wrong"] == record["remote"]["wrong"] == 0


def test_fragments_are_dropped_only_where_nobody_checks():
    where = fragments("host")
    with P2pServer("--plugin", SCATTER, "--unpack", "none", **where) as server:
        args = ["--plugin", SCATTER, *QUICK, "--size", "1M"]
        done = server.client(*args, **where)
        assert done.status == 1 and "--no-check" in done.stderr, done
        record = good(server.client(*args, "--no-check", **where))
        assert record["unpack"] == "none" and record["check"] is False and record["bytes_per_s"] > 0
        record = good(server.client(*args, "--unpack", "none", **where))
        assert record["check"] is False and record["remote"]["checked"] == 0


def test_plugin_is_shown():
    done = weir("p2p", "plugin", PLUGIN, "--json", env={"WEIR_IFNAME": "lo"})
    assert done.status == 0, done
    shown = done.documents[0]
    validate(shown)
    assert shown["name"] == "weir" and shown["versions"] == [7, 8, 9, 10, 11] and shown["devices"][0]["name"] == "lo"
    done = weir("p2p", "plugin", PLUGIN, env={"WEIR_IFNAME": "lo"})
    assert done.status == 0 and "weir, version 11 is spoken, it has 7 8 9 10 11" in done.stdout, done


def test_plugin_that_is_none_is_refused(server):
    done = server.client("--plugin", "/does/not/exist.so")
    assert done.status == 1 and "/does/not/exist.so" in done.stderr, done


def test_sweep_stops_when_steady_and_recommends(server):
    args = ["--sizes", "64K,1M", "--chunks", "64K,256K", "--channel-list", "1,4", "--windows", "4", "--point-time", "0.4s"]
    done = server.client("--json", *args, role="sweep")
    assert done.status == 0, done
    sweep = record_of(done, "weir/p2p-sweep/1")
    assert len(sweep["points"]) == 8 and all(p["error"] is None and p["bytes_per_s"] > 0 for p in sweep["points"])
    best = {size: max(p["bytes_per_s"] for p in sweep["points"] if p["message_bytes"] == size) for size in (65536, 1 << 20)}
    chosen = sweep["recommended"]
    shares = [p["bytes_per_s"] / best[p["message_bytes"]] for p in sweep["points"]
              if all(p[key] == chosen[key] for key in ("chunk_bytes", "channels", "window"))]
    assert len(shares) == 2 and abs(sum(shares) / 2 - chosen["share_of_best"]) < 1e-6
    done = server.client("--sizes", "64K", "--chunks", "64K", "--channel-list", "1", "--windows", "4", "--point-time", "0.2s",
                         role="sweep")
    assert done.status == 0 and "recommended: --chunk 64K --channels 1 --window 4" in done.stdout, done


def test_published_names_take_published_command_lines(tmp_path):
    multi = link(tmp_path, "test_tcpx_perf_multi")
    port = free_ports(2)
    env = {**CLEAN, "UCCL_TCPX_BOOTSTRAP_PORT_BASE": str(port), "UCCL_TCPX_PERF_SIZE": "1048576", "UCCL_TCPX_PERF_ITERS": "4"}
    with P2pServer("server", "1", program=[multi], port=port, first=1, env=env) as server:
        with Process(multi, "client", "127.0.0.1", "1", env=env) as client:
            done = client.wait()
        assert done.status in (0, 3) and "send of 1 MiB x 4" in done.stdout, done
        assert server.wait().status == 0  # serves one client, as theirs does


def test_peer_gpu_names_the_other_end():
    with P2pServer("3", first=3) as server:
        record = good(server.client(*QUICK, "--size", "64K", "0", "--peer-gpu", "3"))
        assert (record["gpu"], record["peer_gpu"]) == (0, 3)


def test_the_example_of_the_api_runs():
    port = free_ports(1)
    with Process(EXAMPLE, "owner", port, "secret") as owner, Process(EXAMPLE, "writer", "127.0.0.1", port, "secret") as writer:
        told, heard = writer.wait(), owner.wait()
    assert (told.status, heard.status) == (0, 0), (told, heard)
    assert heard.stdout == "owner: all is written, and every byte is right\n"
    assert "refused as it should be: the range is not within the peer's region" in told.stdout


def mesh_of(client):
    done = client.wait(120)
    mesh = good(done, "weir/p2p-mesh/1")
    for run in mesh["runs"]:
        validate(run)
        assert run["remote"], done
        assert run["local"]["wrong"] == run["remote"]["wrong"] == 0 and run["remote"]["checked"] == 4
    return mesh


# How one end runs its GPUs is no matter of the other's.
@pytest.mark.parametrize("processes,there_processes", ((False, True), (True, False)))
def test_mesh_of_eight_over_four_rails(processes, there_processes):
    why = network.missing()
    if why:
        pytest.skip(why)
    how, there_how = (["--processes"] if each else [] for each in (processes, there_processes))
    with network.Host() as here, network.Host() as there:
        rails = [network.veth(here, there, subnet) for subnet in (1, 2, 3, 4)]
        maps = [";".join(f"{2 * i}-{2 * i + 1}:{rail[end]}" for i, rail in enumerate(rails)) for end in (0, 1)]
        for host, end in ((here, 0), (there, 1)):
            for rail in rails:
                wait_for("the link", lambda h=host, d=rail[end]: read(h, d, "operstate").strip() == "up")
        args = ["--gpus", "0-7"]
        with P2pServer("--map", maps[1], *args, *there_how, role="mesh", gpus=8, prefix=there.prefix) as server:
            with server.start_client("--map", maps[0], *args, *how, "--json", "--size", "2M", "--iterations", "4", "--channels", "2",
                                     host="10.77.1.2", role="mesh", prefix=here.prefix) as client:
                mesh = mesh_of(client)
            assert mesh["processes"] is processes and [run["gpu"] for run in mesh["runs"]] == list(range(8))
            for run in mesh["runs"]:
                rail = rails[run["gpu"] // 2]
                assert (run["local"]["devices"], run["remote"]["devices"]) == rail
            # The bytes really went over the rail of their GPU.
            for rail in rails:
                moved = int(read(there, rail[1], "statistics/rx_bytes"))
                assert moved >= 2 * 4 * (2 << 20), (rail, moved)


def read(host, device, what):
    with Process("cat", f"/sys/class/net/{device}/{what}", prefix=host.prefix) as cat:
        return cat.wait().stdout


def test_a_nic_without_a_link_is_named():
    why = network.missing()
    if why:
        pytest.skip(why)
    with network.Host() as here, network.Host() as there:
        mine, theirs = network.veth(here, there)
        there.ip("link", "set", theirs, "down")
        wait_for("the link to go", lambda: read(here, mine, "carrier").strip() == "0")
        done = weir("p2p", "server", "--once", "--mem", "host", "--devices", mine, prefix=here.prefix)
        assert done.status == 1 and f"up, but without a link: {mine}" in done.stderr, done


def test_mesh_without_a_gpu_says_what_to_do():
    done = weir("p2p", "mesh", "127.0.0.1", "--map", "0:lo", "--gpus", "0-1", "--mem", "host")
    assert done.status == 1 and "--map has no NIC for GPU 1" in done.stderr, done


def test_help_and_wrong_words():
    assert weir("p2p", "--help").status == 0
    for words, reason in ((["p2p"], "say server, client, mesh, sweep or plugin"), (["p2p", "serve"], "not serve"),
                          (["p2p", "client"], "of which host?"), (["p2p", "server", "x"], "no GPU"),
                          (["p2p", "client", "h", "0", "--channels", "65"], "65"), (["p2p", "client", "h", "--window", "0"], "0"),
                          (["p2p", "client", "h", "--chunk", "100"], "100"),
                          (["p2p", "server", "--mem", "host", "--path", "devmem"], "host memory is not device memory"),
                          (["p2p", "server", "--mem", "udmabuf", "--path", "devmem", "--plugin", "x"], "a plugin has its own"), (["p2p", "client", "h", "0", "1"], "unexpected")):
        done = weir(*words)
        assert done.status == 2 and reason in done.stderr, done
