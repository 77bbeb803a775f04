# SPDX-License-Identifier: BSD-3-Clause
"""weir rails and multi_neper: what --dry-run prints on a recorded machine, and what is refused."""
import json
import os
import pathlib
import re

import pytest

from weirtest import link, run, weir

# The machine that multi_neper's tables were written for: four NICs, each behind a switch with two GPUs.
NICS = {"eth1": "06", "eth2": "0c", "eth3": "86", "eth4": "8c"}
GPUS = {"04": "06", "05": "06", "0a": "0c", "0b": "0c", "84": "86", "85": "86", "8a": "8c", "8b": "8c"}
DEVICES = ",".join(NICS)
HOSTS = ",".join(f"10.0.{i}.2" for i in (1, 2, 3, 4))
SOURCES = ",".join(f"10.0.{i}.1" for i in (1, 2, 3, 4))


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture(name="machine", scope="module")
def fixture_machine(tmp_path_factory):
    """A tree of /sys below a folder."""
    root = tmp_path_factory.mktemp("machine")
    by_address = root / "sys/bus/pci/devices"
    by_address.mkdir(parents=True)
    write(root / "sys/devices/system/cpu/online", "0-207\n")

    def function(bus, switch, vendor, kind):
        node = int(switch, 16) >= 0x80
        path = root / f"sys/devices/pci0000:{switch}/0000:{switch}:01.0/0000:{switch}:02.0/0000:{bus}:00.0"
        write(path / "vendor", vendor)
        write(path / "class", kind)
        write(path / "numa_node", f"{int(node)}\n")
        write(path / "local_cpulist", "52-103,156-207\n" if node else "0-51,104-155\n")
        (by_address / f"0000:{bus}:00.0").symlink_to(path)
        return path

    for bus, nic in GPUS.items():
        function(bus, nic, "0x10de\n", "0x030200\n")
    for name, bus in NICS.items():
        path = function(bus, bus, "0x1ae0\n", "0x020000\n")
        write(path / "net" / name / "operstate", "up\n")
        (path / "net" / name / "device").symlink_to("../..")
        (root / "sys/class/net").mkdir(parents=True, exist_ok=True)
        (root / "sys/class/net" / name).symlink_to(path / "net" / name)
    return {"env": {"WEIR_SYSROOT": str(root), "CUDA_VISIBLE_DEVICES": ""}}


def dry(machine, *words):
    done = weir("rails", "--dry-run", *words, **machine)
    assert (done.status, done.stderr) == (0, ""), done
    return done.lines


def refused(*words, **how):
    done = weir("rails", *words, seconds=15, **how)
    assert (done.status, done.stdout) == (2, ""), done
    reason, *hint = done.stderr.splitlines()
    assert reason.startswith("weir rails: ") and len(hint) <= 1, done
    return reason


def test_dry_run_prints_one_command_for_each_rail(machine):
    assert dry(machine, "-c", "-H", HOSTS, "--devices", DEVICES, "-l", "5", "--mem", "cuda") == [
        f"weir stream -c -H 10.0.{i + 1}.2 --bind-dev eth{i + 1} -C {12866 + i} -P {12345 + 4 * i} --num-ports 4 -T 4 -F 4 "
        f"-B 491520 -l 5 --cpus {cpus} --mem cuda --nic eth{i + 1} --mem-size 67108864 --gpu 0000:{gpu}:00.0"
        for i, (cpus, gpu) in enumerate([("1-4", "04"), ("5-8", "0a"), ("52-55", "84"), ("56-59", "8a")])]


def test_the_links_dry_run_has_the_scripts_words_and_the_tables_it_had_fixed(machine, tmp_path):
    words = ["--hosts", HOSTS, "--devices", DEVICES, "--src-ips", SOURCES, "--threads", "2", "--flows", "2", "--q-num", "2",
             "--phys-len", "2147483648", "--buffer-size", "409600", "--mode", "cuda", "--tcpd-validate", "--dry-run"]
    server = run(link(tmp_path, "multi_neper"), *words, "--tcpd-rx-cpy", **machine)
    client = run(link(tmp_path, "multi_neper"), *words, "--client", **machine)
    assert (server.status, server.stderr, client.status, client.stderr) == (0, "", 0, "")
    for i, (cpus, gpu) in enumerate([("1-2", "04"), ("3-4", "0a"), ("52-53", "84"), ("54-55", "8a")]):
        both = (f"CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={2 * i} taskset --cpu-list {cpus} ./tcp_stream -T 2 -F 2 "
                f"--port {12345 + 2 * i} --source-port {12345 + 2 * i} --control-port {12866 + i} --buffer-size 409600  -l 10 "
                f"--num-ports 2 --tcpd-phys-len 2147483648 --tcpd-nic-pci-addr 0000:{NICS[f'eth{i + 1}']}:00.0 "
                f"--tcpd-gpu-pci-addr 0000:{gpu}:00.0 --tcpd-validate ")
        assert client.lines[i] == both + f"-c -H 10.0.{i + 1}.2"
        assert server.lines[i] == both + (f"--tcpd-link-name eth{i + 1} --tcpd-src-ip 10.0.{i + 1}.1 --tcpd-dst-ip 10.0.{i + 1}.2 "
                                          "--queue-start 8 --queue-num 2 --tcpd-rx-cpy")


@pytest.mark.parametrize("name", ("multi_neper", "multi_neper.py"))
def test_what_the_link_prints_is_a_command_of_tcp_stream(tmp_path, name):
    """The words are taken, and mean what they say."""
    done = run(link(tmp_path, name), "-H", "127.0.0.1", "--src-ips", "127.0.0.1", "--devices", "lo", "--mode", "udmabuf", "--dry-run",
               "--neper-dir", tmp_path, "-l", "3")
    assert (done.status, done.stderr) == (0, ""), done
    link(tmp_path, "tcp_stream")
    words = done.lines[0].split()
    program = words.index(f"{tmp_path}/tcp_stream")
    again = run(*words[program:], "--dry-run")
    assert (again.status, again.stderr) == (0, ""), again
    assert (again.kv["port"], again.kv["num_ports"], again.kv["test_length"]) == ("12345", "4", "3")
    assert again.kv["buffer_size"] == "491520"


def test_what_dry_run_prints_is_a_command_of_weir(machine):
    for line in dry(machine, "-c", "-H", HOSTS, "--devices", DEVICES, "--no-pin", "--", "--congestion-control", "reno"):
        words = line.split()
        assert words[0] == "weir"
        done = weir(*words[1:], "--dry-run")
        assert (done.status, done.stderr) == (0, ""), done
        assert done.kv["congestion_control"] == "reno" and done.kv["num_flows"] == "4"


def test_dry_run_as_json(machine):
    lines = dry(machine, "-c", "-H", HOSTS, "--devices", DEVICES, "--json")
    assert [json.loads(line)["device"] for line in lines] == list(NICS)


@pytest.mark.parametrize("words, reason", [
    (["-c"], "--hosts is missing"),
    (["-c", "-H", "10.0.1.2,10.0.2.2", "--devices", "eth1"], "--devices names 1 and --hosts names 2: each rail needs one of both"),
    (["-H", HOSTS, "--devices", DEVICES, "--src-ips", "10.0.1.1"], "--devices names 4 and --src-ips names 1"),
    (["-c", "-H", "10.0.1.2", "--devices", "eth9"], "there is no network interface eth9"),
    (["-c", "-H", "10.0.1.2,10.0.2.2", "--devices", "eth1,eth1"], "--devices names eth1 twice"),
    (["-c", "-H", HOSTS, "--devices", DEVICES, "--port", "12860"], "the control ports 12866 to 12869 and the data ports 12860 to 12875 overlap"),
    (["-c", "-H", HOSTS, "--devices", DEVICES, "--port", "65530"], "end beyond port 65535"),
    (["-c", "-H", HOSTS, "--devices", DEVICES, "--", "--json"], "--json cannot stand behind --"),
    (["-c", "-H", "10.0.1.2", "--devices", "eth1", "--flows", "0"], "--flows 0"),
    (["-c", "-H", "10.0.1.2", "--devices", "eth1", "--mode", "gpu"], "--mode gpu is none of: default, udmabuf, cuda"),
    (["-c", "-H", "10.0.1.2", "--devices", "eth1", "--log", "LOUD"], "--log LOUD is none of"),
])
def test_what_cannot_be_is_refused_with_the_reason(machine, words, reason):
    assert reason in refused(*words, **machine)


def test_two_hosts_behind_one_interface_are_not_two_rails():
    assert "127.0.0.1 and 127.0.0.2 are both on lo" in refused("-c", "-H", "127.0.0.1,127.0.0.2")


def test_a_servers_host_must_be_on_its_device():
    other = sorted(name for name in os.listdir("/sys/class/net") if name != "lo" and pathlib.Path("/sys/class/net", name).is_dir())
    if not other:
        pytest.skip("this machine has lo alone")
    assert f"127.0.0.1 is the address of lo, not of {other[0]}" in refused("-H", "127.0.0.1", "--devices", other[0])


def test_help_names_every_flag_of_multi_neper():
    text = weir("rails", "--help").stdout
    for flag in ("hosts devices buffer-size flows threads src-ips q-start q-num phys-len client mode dry-run log length port "
                 "source-port control-port tcpd-validate tcpd-rx-cpy neper-dir").split():
        assert re.search(rf"--{flag}\b", text), flag


def test_the_links_errors_end_with_status_1(tmp_path):
    done = run(link(tmp_path, "multi_neper"), "--hosts", "10.0.1.2")
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr.startswith("multi_neper: --src-ips is missing")
