# SPDX-License-Identifier: BSD-3-Clause
"""Records of rails, GPUs and probes, made after their schemas: what weir report has to show."""
import json

from weirtest import validate


def rails(run, name="eth1"):
    """Three rails: a good one with its run record, a slow one, one that failed."""
    def rail(device, **more):
        return {"device": device, "host": "192.0.2.1", "pci": "0000:1b:00.0", "numa_node": 0, "cpus": "0-3", "gpu": None, "gpu_distance": None,
                "control_port": 12866, "port": 12345, "verdict": "good", "error": None, "throughput_bps": 8e9, "sent_bps": 8.01e9, "retransmits": 3,
                "rtt_us": 35.5, "limited_by": "congestion window 58 %", "run": None, **more}

    return {"schema": "weir/rails/1", "weir": "0.1.0", "started": "2026-11-15T03:00:00.000Z", "role": "client", "rails": [
        rail(name, run=run), rail("eth2", throughput_bps=2e9, sent_bps=2e9),
        rail("eth3", verdict="failed", error="cannot connect to 192.0.2.3:12866: Connection refused", throughput_bps=None, sent_bps=None,
             retransmits=None, rtt_us=None, limited_by=None)],
        "total": {"rails": 3, "measured": 2, "throughput_bps": 1e10, "sent_bps": 1.001e10, "retransmits": 6},
        "findings": [{"name": "slow_rail", "severity": "warning", "text": "eth2 has 25 % of the median of its siblings"}], "verdict": "failed"}


def end(memory="cuda", **more):
    return {"messages": 40, "bytes": 40 << 22, "elapsed_ns": 20000000, "bytes_per_s": 8.4e9, "median_ns": 480000, "p99_ns": None, "max_ns": 900000,
            "cpu_ns": 30000000, "checked": 40, "wrong": 0, "memory": memory, "devices": "eth1,eth2",
            "path": {"rx": "staged", "tx": "staged", "reason": "the driver of eth1 cannot send from device memory", "rx_devmem_bytes": 0,
                     "rx_linear_bytes": 0, "rx_plain_bytes": 0, "tx_devmem_bytes": 0},
            "window": {"active_ns": 19000000, "in_flight_mean": 61.5, "in_flight_max": 128},
            "stalled": {"no_credit_ns": 100000, "peer_slow_ns": 5000000, "socket_full_ns": 0, "unpack_ns": 700000},
            "times_ns": [480000 + 7000 * (i % 13) for i in range(40)], **more}


def p2p(**more):
    return {"schema": "weir/p2p/1", "role": "client", "started": "2026-11-15T03:00:00Z", "peer": "node2:20000", "gpu": 0, "peer_gpu": 1,
            "transport": "tcp", "op": "send", "message_bytes": 1 << 22, "iterations": 40, "warmup": 2, "depth": 2, "check": True,
            "chunk_bytes": 524288, "channels": 8, "sockets": 1, "window": 16, "unpack": "kernel", "bytes_per_s": 8.4e9,
            "local": end(), "remote": end("host"), "error": None, "verdict": "good", **more}


def mesh():
    return {"schema": "weir/p2p-mesh/1", "processes": True, "elapsed_ns": 50000000, "bytes_per_s": 3.2e10, "verdict": "failed",
            "runs": [p2p(gpu=i) for i in range(3)] + [p2p(gpu=3, local=None, remote=None, bytes_per_s=0, error="the peer went away", verdict="failed")]}


def sweep():
    points = [{"message_bytes": 1 << size, "chunk_bytes": 524288, "channels": channels, "window": 16, "messages": 50, "batches": 5,
               "bytes_per_s": 1e9 * channels, "spread": 0.02, "median_ns": 900000, "steady": True, "error": None}
              for size in (20, 24) for channels in (1, 4)]
    return {"schema": "weir/p2p-sweep/1", "peer": "node2", "transport": "tcp", "op": "send", "points": points,
            "recommended": {"chunk_bytes": 524288, "channels": 4, "window": 16, "share_of_best": 1}}


def pair(source, target, rail):
    """With what probe mesh writes about it: more columns than a terminal is wide."""
    return {"from_host": source, "from_rail": rail, "to_host": target, "to_rail": rail, "local": f"10.0.{rail}.{source[-1]}",
            "peer": f"10.0.{rail}.{target[-1]}", "sent": 150, "lost": rail, "corrupt": 0, "min_ns": 21000, "mean_ns": 31000.0 + rail, "max_ns": 44000}


def probe():
    return {"schema": "weir/probe/1", "hosts": 4, "rails": 8, "pairs": 96, "windows": 30, "sent": 14400, "lost": 31, "corrupt": 0,
            "rtt": {"count": 14369, "min_ns": 21000, "p50_ns": 33000, "p99_ns": 120000, "max_ns": 4000000, "mean_ns": 36000.5},
            "pair": [pair(a, b, rail) for a in ("node1", "node2", "node3") for b in ("node1", "node2", "node3") if a != b for rail in (0, 5)],
            "verdicts": [{"subject": "nic", "fault": "loss", "host": "node3", "rail": 5, "pairs": 12, "bad": 12, "cannot_tell": False,
                          "begin_ns": 1763175600000000000}]}


def write(folder):
    """All of them into a folder that holds stream.json: the path of each."""
    run = json.loads((folder / "stream.json").read_text())
    paths = {}
    for name, document in (("rails", rails(run)), ("p2p", p2p()), ("mesh", mesh()), ("sweep", sweep()), ("probe", probe())):
        validate(document)
        paths[name] = folder / f"{name}.json"
        paths[name].write_text(json.dumps(document))
    return paths
