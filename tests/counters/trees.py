# SPDX-License-Identifier: BSD-3-Clause
"""Machines that do not exist: trees of counters of any size, to be read with WEIR_SYSROOT.

    trees.cxi(root, nics=8, value=lambda nic, name: 0)
    trees.infiniband(root, devices=2, counters={"port_xmit_data": 10})
    trees.proc(root, snmp={"Tcp": {"OutSegs": 5}})
    trees.calls(root, "ethtool", [("eth0", "rx_out_of_buffer", 3)])
"""
import functools
import pathlib
import re
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src" / "counters"


def expand(name):
    """a_[0-2] is a_0, a_1 and a_2."""
    found = re.search(r"\[(\d+)-(\d+)\]", name)
    if not found:
        return [name]
    return [whole for number in range(int(found[1]), int(found[2]) + 1)
            for whole in expand(name[:found.start()] + str(number) + name[found.end():])]


@functools.lru_cache(None)
def cxi_names():
    """The names of a Cassini-1's telemetry, in the order of a directory."""
    names = []
    for line in (SOURCE / "cxi.txt").read_text().splitlines():
        if line == "cassini-2":
            break
        if line and not line.startswith("#"):
            names += expand(line.split()[0])
    return sorted(names)


def dump_order(names):
    """The order of a shell's list, which looks at '_' last."""
    return sorted(names, key=lambda name: (name.replace("_", ""), name))


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def cxi(root, nics=8, value=lambda nic, name: 0, when=1746204071.662953620, names=None):
    for nic in range(nics):
        folder = pathlib.Path(root) / "sys/class/cxi" / f"cxi{nic}" / "device/telemetry"
        folder.mkdir(parents=True, exist_ok=True)
        for name in names or cxi_names():
            (folder / name).write_text(f"{value(nic, name)}@{when:.9f}\n")


def cxi_link(root, nic=0, times=()):
    """When the link of a NIC was restarted, the last first."""
    for i in range(10):
        write(pathlib.Path(root) / "sys/class/cxi" / f"cxi{nic}" / "device/link_restarts" / f"time_{i}", f"{times[i] if i < len(times) else 0}\n")


def infiniband(root, devices=2, counters=None, hw_counters=None):
    for device in range(devices):
        port = pathlib.Path(root) / "sys/class/infiniband" / f"mlx5_{device}" / "ports/1"
        for folder, values in (("counters", counters), ("hw_counters", hw_counters)):
            for name, value in (values or {}).items():
                write(port / folder / name, f"{value(device) if callable(value) else value}\n")


def netdev(root, nics):
    """nics: the name of each and its statistics."""
    for nic, counters in nics.items():
        for name, value in counters.items():
            write(pathlib.Path(root) / "sys/class/net" / nic / "statistics" / name, f"{value}\n")


def proc(root, snmp=None, netstat=None, softnet=None, interrupts=None):
    net = pathlib.Path(root) / "proc/net"
    for file, tables in (("snmp", snmp), ("netstat", netstat)):
        if tables:
            write(net / file, "".join(
                f"{name}: {' '.join(values)}\n{name}: {' '.join(map(str, values.values()))}\n" for name, values in tables.items()))
    if softnet:
        write(net / "softnet_stat", "".join(" ".join(f"{word:08x}" for word in line) + "\n" for line in softnet))
    if interrupts:
        write(pathlib.Path(root) / "proc/interrupts", interrupts)


def pcie(root, address="0000:06:00.0", nic="eth0", speed="32.0 GT/s PCIe", width=16, speed_max="32.0 GT/s PCIe", width_max=16,
         errors=0):
    device = pathlib.Path(root) / "sys/bus/pci/devices" / address
    for name, text in (("class", "0x020000"), ("current_link_speed", speed), ("max_link_speed", speed_max),
                       ("current_link_width", width), ("max_link_width", width_max),
                       ("aer_dev_correctable", f"RxErr {errors}\nBadTLP 0\nTOTAL_ERR_COR {errors}")):
        write(device / name, f"{text}\n")
    (device / "net" / nic).mkdir(parents=True, exist_ok=True)


def calls(root, source, rows, when=None):
    """What a source of system calls told: object, name and value of each counter."""
    when = when or time.time_ns()
    write(pathlib.Path(root) / "weir" / f"{source}.txt", "".join(f"{o}\t{n}\t{v}\t{when}\n" for o, n, v in rows))
