# SPDX-License-Identifier: BSD-3-Clause
"""weir counters and weir run on trees and files of any kind, also on those that make no sense."""
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import resource
import select
import struct
import subprocess
import sys
import termios
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "counters"))
import trees  # noqa: E402
from weirtest import SANITIZER, WEIR, Process, validate, weir  # noqa: E402

FEW = ["hni_rx_paused_0", "hni_pkts_sent_by_tc_0", "hni_pkts_recv_by_tc_0", "pct_spt_timeouts", "pct_sct_timeouts",
       "cq_sts_tle_in_use_0", "hni_llr_tx_replay_event", "hni_llr_rx_replay_event"]


def snap(root, path, *args, status=0):
    done = weir("counters", "snap", path, *args, env={"WEIR_SYSROOT": str(root)})
    assert done.status == status, done
    return done


def diff(before, after, *args, status=0):
    done = weir("counters", "diff", before, after, "--json", *args)
    assert done.status == status, done
    if status:
        return done
    (document,) = done.documents
    validate(document)
    return document


def rows(document):
    return {(o["source"], o["object"], r["name"]): r for o in document["objects"] for r in o["rows"]}


def found(document):
    return {f["rule"] for f in document["findings"]}


def difference(tmp_path, make, *args):
    """make(root, second) makes the tree before, then the one after."""
    for second, name in ((False, "before"), (True, "after")):
        root = tmp_path / f"tree-{name}"
        root.mkdir()
        make(root, second)
        snap(root, tmp_path / f"{name}.json")
    return diff(tmp_path / "before.json", tmp_path / "after.json", *args)


def test_a_snapshot_follows_its_schema_and_lists_every_source(tmp_path):
    trees.cxi(tmp_path, nics=2, names=FEW)
    trees.infiniband(tmp_path, counters={"port_xmit_data": 1})
    trees.proc(tmp_path, snmp={"Tcp": {"OutSegs": 5, "MaxConn": -1}}, netstat={"TcpExt": {"TCPTimeouts": 1}},
               softnet=[[1] * 13], interrupts="            CPU0       CPU1\n  24:          3          4   PCI-MSI 524288-edge      eth0-TxRx-0\n")
    trees.netdev(tmp_path, {"eth0": {"rx_bytes": 2 ** 64 - 1}})
    trees.pcie(tmp_path)
    trees.calls(tmp_path, "ethtool", [("eth0", "rx_out_of_buffer", 3)])
    snap(tmp_path, tmp_path / "s.json")
    document = json.loads((tmp_path / "s.json").read_text())
    validate(document)
    assert {o["source"] for o in document["objects"]} == {
        "cxi", "infiniband", "snmp", "netstat", "softnet", "interrupts", "netdev", "pcie", "ethtool"}
    values = {(o["source"], o["object"], c[0]): c for o in document["objects"] for c in o["counters"]}
    assert values["snmp", "host", "Tcp.MaxConn"][1:5] == ["signed", 64, "connections", -1]
    assert values["netdev", "eth0", "rx_bytes"][4] == "18446744073709551615"
    assert values["interrupts", "eth0-TxRx-0 (irq 24)", "interrupts"][4] == 7
    assert values["pcie", "eth0 (0000:06:00.0)", "link_speed_mtps"][4] == 32000
    assert values["cxi", "cxi1", "cq_sts_tle_in_use_0"][1] == "gauge"


def test_both_sides_of_the_largest_number_survive_a_file(tmp_path):
    def make(root, second):
        trees.netdev(root, {"eth0": {"rx_bytes": 2 ** 64 - 1 - (0 if second else 7)}})

    assert rows(difference(tmp_path, make))["netdev", "eth0", "rx_bytes"]["change"] == 7


def test_a_recorded_tree_reads_as_the_machine_it_was_recorded_on(tmp_path):
    done = weir("counters", "snap", tmp_path / "live.json", "--tree", tmp_path / "tree", "--source", "netdev,snmp,softnet,ethtool")
    assert done.status == 0, done
    snap(tmp_path / "tree", tmp_path / "again.json", "--source", "netdev,snmp,softnet,ethtool")
    document = diff(tmp_path / "live.json", tmp_path / "again.json")
    assert document["totals"]["same"] > 50
    assert not any(document["totals"][state] for state in ("moved", "changed", "reset", "appeared", "vanished"))


def test_slingshot_findings_name_what_was_made(tmp_path):
    def value(second):
        def of(nic, name):
            base = 1000
            if not second:
                return base
            if nic == 3:
                return base + {"pct_spt_timeouts": 5, "parbs_tarb_pi_posted_pkts": 10000, "parbs_tarb_pi_posted_blocked_cnt": 90000,
                               "hni_pcs_uncorrected_cw": 2, "hni_llr_rx_replay_event": 4, "pct_no_tct_nacks": 1,
                               "pct_retry_srb_requests": 3, "lpe_net_match_overflow_0": 9000, "lpe_net_match_priority_0": 1000,
                               "atu_cache_miss_0": 90000, "atu_cache_evictions": 70000, "hni_pkts_sent_by_tc_0": 100000,
                               "hni_tx_paused_0": 200000000}.get(name, 0)
            return base + {"hni_pkts_sent_by_tc_0": 100000 + nic}.get(name, 0)
        return of

    document = difference(tmp_path, lambda root, second: trees.cxi(root, nics=4, value=value(second), when=1746204071.5 + second))
    named = {f["rule"] for f in document["findings"] if f["object"] == "cxi3"}
    assert {"cxi_timeouts", "cxi_posted_blocked", "cxi_codewords", "cxi_replays", "cxi_nacks", "cxi_retries", "cxi_late_receives",
            "cxi_translation_misses", "cxi_translation_evictions", "cxi_tx_paused"} <= named
    assert all(f["object"] == "cxi3" for f in document["findings"])


def test_two_snapshots_of_an_idle_machine_find_nothing(tmp_path):
    document = difference(tmp_path, lambda root, second: trees.cxi(root, nics=4, value=lambda nic, name: 77))
    assert document["findings"] == [] and document["totals"]["same"] == 4 * 1890


@pytest.mark.parametrize("rule, make", [
    ("pcie_below_max", lambda root, second: trees.pcie(root, speed="16.0 GT/s PCIe", width=8)),
    ("pcie_errors", lambda root, second: trees.pcie(root, errors=3 * second)),
    ("rx_no_room", lambda root, second: (trees.netdev(root, {"eth0": {"rx_packets": 1000 * second, "rx_missed_errors": 0}}),
                                         trees.calls(root, "ethtool", [("eth0", "rx_out_of_buffer", 5 * second)]))),
    ("pause_received", lambda root, second: trees.calls(root, "ethtool-std", [("eth0", "pause.rx_frames", 9 * second)])),
    ("pause_sent", lambda root, second: trees.calls(root, "ethtool", [("eth0", "tx_pause_ctrl_phy", 9 * second)])),
    ("fec_uncorrected", lambda root, second: trees.calls(root, "ethtool-std", [("eth0", "fec.uncorrectable_blocks", second * 1)])),
    ("page_pool_slow", lambda root, second: trees.calls(root, "page_pool", [("eth0/pool-3", "alloc_slow", 5000 * second), ("eth0/pool-3", "alloc_fast", 5000 * second)])),
    ("softnet_dropped", lambda root, second: trees.proc(root, softnet=[[1000 * second, 7 * second, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]])),
    ("softnet_squeezed", lambda root, second: trees.proc(root, softnet=[[1000 * second, 0, 70 * second, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]])),
    ("congestion_notified", lambda root, second: trees.infiniband(root, hw_counters={"rp_cnp_handled": 500 * second, "np_cnp_sent": 0})),
    ("infiniband_errors", lambda root, second: trees.infiniband(root, counters={"symbol_error": 5 * second, "link_downed": 0})),
    ("rail_outlier_infiniband", lambda root, second: trees.infiniband(root, devices=5, counters={
        "port_xmit_data": lambda device: second * (10 ** 9 if device else 4 * 10 ** 8), "port_rcv_data": 0})),
    ("congestion_marks", lambda root, second: trees.proc(root, netstat={"IpExt": {"InCEPkts": 90 * second, "InNoECTPkts": 9000 * second}})),
    ("cxi_link_restarts", lambda root, second: trees.cxi_link(root, times=[1746204071 + i for i in range(1 + second)])),
    ("gpu_throttled", lambda root, second: trees.calls(root, "nvml", [("gpu0", "throttle_power_ns", 2 * 10 ** 9 * second), ("gpu0", "throttle_thermal_ns", 0)])),
    ("gpu_pcie_replays", lambda root, second: trees.calls(root, "nvml", [("gpu0", "pcie_replays", 4 * second)])),
    ("devmem_missed", lambda root, second: trees.calls(root, "tcp", [
        ("flow 0", "dmabuf_bytes", 10 ** 9 * second), ("flow 0", "linear_bytes", 10 ** 8 * second), ("flow 0", "plain_bytes", 0)])),
])
def test_each_fault_is_found_where_its_counters_are(tmp_path, rule, make):
    document = difference(tmp_path, make)
    assert rule in found(document), document["findings"]
    # and not where nothing moves
    if rule != "pcie_below_max":
        assert found(diff(tmp_path / "before.json", tmp_path / "before.json")) == set()


def pair(tmp_path, name, objects, seconds=10):
    """Two snapshots, written here: objects[source, object] is {counter: what it grew by, or (kind, before, after)}."""
    paths = []
    for second in (0, 1):
        when = 10 ** 18 + second * seconds * 10 ** 9
        rows = []
        for (source, thing), counters in objects.items():
            values = []
            for counter, change in counters.items():
                kind, *sides = change if isinstance(change, tuple) else ("counter", 1000, 1000 + change)
                values.append([counter, kind, 64, "", sides[second], when])
            rows.append({"source": source, "object": thing, "counters": values})
        paths.append(tmp_path / f"{name}-{second}.json")
        paths[-1].write_text(json.dumps({"schema": "weir/counters/1", "host": "made", "taken_ns": when, "objects": rows}))
    return diff(*paths)


def level(before, after=None):
    return "gauge", before, before if after is None else after


def rail(bytes_sent):
    return {"tx_bytes": bytes_sent, "rx_bytes": 10 ** 6, "pci.vendor": level(1), "pci.device": level(2)}


# Each rule: an object, what its counters do when the rule must speak, and what they do when it must not.
RULES = {
    "pcie_below_max": ("pcie", {"link_speed_mtps": level(16000), "link_speed_max_mtps": level(32000), "link_width": level(16), "link_width_max": level(16)},
                       {"link_speed_mtps": level(32000), "link_speed_max_mtps": level(32000), "link_width": level(16), "link_width_max": level(16)}),
    "pcie_errors": ("pcie", {"aer_correctable.RxErr": 3}, {"aer_correctable.RxErr": 0}),
    "pause_received": ("ethtool-std", {"pause.rx_frames": 9}, {"pause.rx_frames": 0}),
    "pause_sent": ("ethtool", {"tx_pause_ctrl_phy": 9, "tx_global_pause_duration": 10 ** 6}, {"tx_pause_ctrl_phy": 0}),
    "rx_no_room": ("netdev", {"rx_packets": 1000, "rx_missed_errors": 5}, {"rx_packets": 1000, "rx_missed_errors": 0}),
    "rx_broken": ("netdev", {"rx_crc_errors": 1}, {"rx_crc_errors": 0}),
    "rx_dropped": ("netdev", {"rx_dropped": 50, "rx_packets": 1000}, {"rx_dropped": 9, "rx_packets": 1000}),
    "tx_dropped": ("netdev", {"tx_dropped": 50, "tx_packets": 1000}, {"tx_dropped": 9, "tx_packets": 1000}),
    "link_flapped": ("netdev", {"carrier_down_count": 1}, {"carrier_down_count": 0}),
    "link_slower": ("netdev", {"speed": level(100000, 25000)}, {"speed": level(25000, 100000)}),
    "fec_uncorrected": ("ethtool-std", {"fec.uncorrectable_blocks": 1}, {"fec.uncorrectable_blocks": 0}),
    "fec_corrected": ("ethtool-std", {"fec.corrected_blocks": 5000}, {"fec.corrected_blocks": 900}),
    "queue_no_memory": ("queue", {"rx_alloc_fail": 1}, {"rx_alloc_fail": 0}),
    "page_pool_slow": ("page_pool", {"alloc_slow": 5000, "alloc_fast": 5000}, {"alloc_slow": 900, "alloc_fast": 5000}),
    "shaped": ("qdisc", {"overlimits": 5000, "packets": 9000}, {"overlimits": 50, "packets": 9000}),
    "qdisc_drops": ("qdisc", {"drops": 50, "packets": 9000}, {"drops": 4, "packets": 9000}),
    "retransmits": ("snmp", {"Tcp.RetransSegs": 50, "Tcp.OutSegs": 9000}, {"Tcp.RetransSegs": 4, "Tcp.OutSegs": 9000}),
    "out_of_order": ("netstat", {"TcpExt.TCPOFOQueue": 500, "snmp:Tcp.InSegs": 9000}, {"TcpExt.TCPOFOQueue": 9, "snmp:Tcp.InSegs": 9000}),
    "reordering": ("netstat", {"TcpExt.TCPSACKReorder": 50}, {"TcpExt.TCPSACKReorder": 19}),
    "tcp_refused": ("snmp", {"Tcp.AttemptFails": 1}, {"Tcp.AttemptFails": 0}),
    "tcp_resets": ("snmp", {"Tcp.EstabResets": 10}, {"Tcp.EstabResets": 9}),
    "tcp_resets_sent": ("snmp", {"Tcp.OutRsts": 50}, {"Tcp.OutRsts": 9}),
    "listen_overflow": ("netstat", {"TcpExt.ListenOverflows": 1}, {"TcpExt.ListenOverflows": 0}),
    "receive_buffer": ("netstat", {"TcpExt.PruneCalled": 1}, {"TcpExt.PruneCalled": 0}),
    "zero_window": ("netstat", {"TcpExt.TCPToZeroWindowAdv": 3}, {"TcpExt.TCPToZeroWindowAdv": 2}),
    "backlog_drops": ("netstat", {"TcpExt.TCPBacklogDrop": 1}, {"TcpExt.TCPBacklogDrop": 0}),
    "wrong_checksum": ("snmp", {"Tcp.InCsumErrors": 1}, {"Tcp.InCsumErrors": 0}),
    "mtu_blackhole": ("netstat", {"TcpExt.TCPMTUPFail": 1, "TcpExt.TCPTimeouts": 1}, {"TcpExt.TCPMTUPFail": 1, "TcpExt.TCPTimeouts": 0}),
    "nothing_gets_through": ("netstat", {"TcpExt.TCPTimeouts": 5, "TcpExt.TCPLostRetransmit": 4, "snmp:Tcp.InSegs": 20},
                             {"TcpExt.TCPTimeouts": 5, "TcpExt.TCPLostRetransmit": 4, "snmp:Tcp.InSegs": 9000}),
    "congestion_marks": ("netstat", {"IpExt.InCEPkts": 90, "IpExt.InNoECTPkts": 9000}, {"IpExt.InCEPkts": 9, "IpExt.InNoECTPkts": 9000}),
    "udp_buffer": ("snmp", {"Udp.RcvbufErrors": 1}, {"Udp.RcvbufErrors": 0}),
    "ping_unanswered": ("snmp", {"Icmp.OutEchos": 4, "Icmp.InEchoReps": 0}, {"Icmp.OutEchos": 4, "Icmp.InEchoReps": 4}),
    "no_route": ("snmp", {"Ip.OutNoRoutes": 1}, {"Ip.OutNoRoutes": 0}),
    "softnet_dropped": ("softnet", {"processed": 9000, "dropped": 1}, {"processed": 9000, "dropped": 0}),
    "softnet_squeezed": ("softnet", {"processed": 9000, "time_squeeze": 50}, {"processed": 9000, "time_squeeze": 5}),
    "receive_window_limited": ("tcp", {"busy_us": 10 ** 6, "receive_window_limited_us": 500000}, {"busy_us": 10 ** 6, "receive_window_limited_us": 100000}),
    "send_buffer_limited": ("tcp", {"busy_us": 10 ** 6, "send_buffer_limited_us": 500000}, {"busy_us": 10 ** 6, "send_buffer_limited_us": 100000}),
    "connection_retransmits": ("tcp", {"retransmits": 50, "delivered": 9000}, {"retransmits": 4, "delivered": 9000}),
    "connection_congested": ("tcp", {"delivered_ce": 50, "delivered": 9000}, {"delivered_ce": 5, "delivered": 9000}),
    "devmem_missed": ("tcp", {"dmabuf_bytes": 10 ** 9, "linear_bytes": 10 ** 8, "plain_bytes": 0}, {"dmabuf_bytes": 10 ** 9, "linear_bytes": 0, "plain_bytes": 0}),
    "congestion_notified": ("infiniband", {"rp_cnp_handled": 500}, {"rp_cnp_handled": 50}),
    "infiniband_errors": ("infiniband", {"symbol_error": 1}, {"symbol_error": 0}),
    "infiniband_lost": ("infiniband", {"local_ack_timeout_err": 20}, {"local_ack_timeout_err": 5}),
    "infiniband_waits": ("infiniband", {"port_xmit_wait": 10 ** 6, "port_xmit_packets": 1000}, {"port_xmit_wait": 5000, "port_xmit_packets": 1000}),
    "cxi_posted_blocked": ("cxi", {"parbs_tarb_pi_posted_blocked_cnt": 90000, "parbs_tarb_pi_posted_pkts": 10000},
                           {"parbs_tarb_pi_posted_blocked_cnt": 20000, "parbs_tarb_pi_posted_pkts": 10000}),
    "cxi_non_posted_blocked": ("cxi", {"parbs_tarb_pi_non_posted_blocked_cnt": 90000, "parbs_tarb_pi_non_posted_pkts": 10000},
                               {"parbs_tarb_pi_non_posted_blocked_cnt": 20000, "parbs_tarb_pi_non_posted_pkts": 10000}),
    "cxi_tx_paused": ("cxi", {"hni_tx_paused_0": 2 * 10 ** 9}, {"hni_tx_paused_0": 10 ** 7}),
    "cxi_rx_paused": ("cxi", {"hni_rx_paused_1": 2 * 10 ** 9}, {"hni_rx_paused_1": 10 ** 7}),
    "cxi_timeouts": ("cxi", {"pct_spt_timeouts": 1, "pct_sct_timeouts": 0}, {"pct_spt_timeouts": 0, "pct_sct_timeouts": 0}),
    "cxi_nacks": ("cxi", {"pct_no_tct_nacks": 0, "pct_no_trs_nacks": 1, "pct_no_mst_nacks": 0}, {"pct_no_tct_nacks": 0, "pct_no_trs_nacks": 0, "pct_no_mst_nacks": 0}),
    "cxi_retries": ("cxi", {"pct_retry_srb_requests": 1, "pct_req_ordered": 100, "pct_req_unordered": 0},
                    {"pct_retry_srb_requests": 0, "pct_req_ordered": 100, "pct_req_unordered": 0}),
    "cxi_codewords": ("cxi", {"hni_pcs_uncorrected_cw": 1, "hni_pcs_corrected_cw": 5, "hni_pcs_good_cw": 10 ** 6},
                      {"hni_pcs_uncorrected_cw": 0, "hni_pcs_corrected_cw": 5, "hni_pcs_good_cw": 10 ** 6}),
    "cxi_replays": ("cxi", {"hni_llr_tx_replay_event": 1, "hni_llr_rx_replay_event": 0}, {"hni_llr_tx_replay_event": 0, "hni_llr_rx_replay_event": 0}),
    "cxi_link_restarts": ("cxi_link", {"link_restarts.time_0": level(0, 1746204071)}, {"link_restarts.time_0": level(1746204071)}),
    "cxi_late_receives": ("cxi", {"lpe_net_match_overflow_0": 9000, "lpe_net_match_priority_0": 1000}, {"lpe_net_match_overflow_0": 900, "lpe_net_match_priority_0": 100}),
    "cxi_translation_misses": ("cxi", {"atu_cache_miss_0": 9000, "hni_pkts_sent_by_tc_0": 10000, "hni_pkts_recv_by_tc_0": 0},
                               {"atu_cache_miss_0": 900, "hni_pkts_sent_by_tc_0": 10000, "hni_pkts_recv_by_tc_0": 0}),
    "cxi_translation_evictions": ("cxi", {"atu_cache_evictions": 9000, "hni_pkts_sent_by_tc_0": 10000, "hni_pkts_recv_by_tc_0": 0},
                                  {"atu_cache_evictions": 900, "hni_pkts_sent_by_tc_0": 10000, "hni_pkts_recv_by_tc_0": 0}),
    "gpu_throttled": ("nvml", {"throttle_power_ns": 2 * 10 ** 9, "throttle_thermal_ns": 0}, {"throttle_power_ns": 10 ** 8, "throttle_thermal_ns": 0}),
    "gpu_pcie_replays": ("nvml", {"pcie_replays": 1}, {"pcie_replays": 0}),
    "gpu_pcie_below_max": ("nvml", {"pcie_generation": level(5), "pcie_generation_max": level(5), "pcie_width": level(8), "pcie_width_max": level(16)},
                           {"pcie_generation": level(5), "pcie_generation_max": level(5), "pcie_width": level(16), "pcie_width_max": level(16)}),
}
OUTLIERS = {  # the last of five siblings, and the counters that tell
    "rail_outlier": ("netdev", rail(10 ** 9), rail(4 * 10 ** 8)),
    "rail_outlier_cxi": ("cxi", {"hni_pkts_sent_by_tc_0": 10 ** 6, "hni_pkts_recv_by_tc_0": 10 ** 6}, {"hni_pkts_sent_by_tc_0": 4 * 10 ** 5, "hni_pkts_recv_by_tc_0": 10 ** 6}),
    "rail_outlier_infiniband": ("infiniband", {"port_xmit_data": 10 ** 9, "port_rcv_data": 10 ** 6}, {"port_xmit_data": 4 * 10 ** 8, "port_rcv_data": 10 ** 6}),
}


def place(objects, rule, source, counters):
    """Host-wide counters are of one object; every other rule gets one of its own."""
    for counter, change in counters.items():
        of, _, name = counter.rpartition(":")
        of = of or source
        objects.setdefault((of, "host" if of in ("snmp", "netstat") else rule), {})[name] = change


def siblings(source, usual, odd):
    return {(source, f"rail{i}"): odd if i == 4 else usual for i in range(5)}


def test_every_rule_has_a_case():
    text = (trees.SOURCE / "rules.txt").read_text()
    assert {line[1:-1] for line in text.splitlines() if line.startswith("[")} == {*RULES, *OUTLIERS}


@pytest.mark.parametrize("rules", [[rule] for rule, case in RULES.items() if case[0] in ("snmp", "netstat")] +
                         [[rule for rule, case in RULES.items() if case[0] not in ("snmp", "netstat")]], ids=lambda rules: rules[0])
def test_a_rule_speaks_where_it_must_and_is_silent_where_it_must_not(tmp_path, rules):
    faulty, near = {}, {}
    for rule in rules:
        source, fault, miss = RULES[rule]
        place(faulty, rule, source, fault)
        place(near, rule, source, miss)
    where = {(f["rule"], f["object"]) for f in pair(tmp_path, "faulty", faulty)["findings"]}
    for rule in rules:
        assert (rule, "host" if RULES[rule][0] in ("snmp", "netstat") else rule) in where, where
    silent = {(f["rule"], f["object"]) for f in pair(tmp_path, "near", near)["findings"]}
    assert not {(rule, thing) for rule, thing in silent if rule in rules and thing in (rule, "host")}, silent


@pytest.mark.parametrize("rule", OUTLIERS)
def test_one_rail_that_differs_is_named_and_equal_ones_are_not(tmp_path, rule):
    source, usual, odd = OUTLIERS[rule]
    named = [(f["rule"], f["object"]) for f in pair(tmp_path, "odd", siblings(source, usual, odd))["findings"]]
    assert named == [(rule, "rail4")]
    assert pair(tmp_path, "even", siblings(source, usual, usual))["findings"] == []


@pytest.mark.skipif("FAKE_NVML" not in os.environ, reason="needs the stand-in for NVML that the build makes")
def test_a_gpu_that_is_throttled_is_named_by_nvml(tmp_path):
    """The library is a stand-in, tests/counters/fake_nvml.c: its first GPU is ill, its second is well."""
    done = weir("run", "--quiet", "--out", tmp_path / "r.json", "--source", "nvml", "--", "sleep", "0.3", env={"LD_LIBRARY_PATH": os.environ["FAKE_NVML"]})
    assert done.status == 0, done
    counters = json.loads((tmp_path / "r.json").read_text())["counters"]
    validate(counters)
    named = {(f["rule"], f["object"]) for f in counters["findings"]}
    assert named == {(rule, "gpu0 (0000:1b:00.0)") for rule in ("gpu_throttled", "gpu_pcie_replays", "gpu_pcie_below_max")}
    (throttled,) = [f for f in counters["findings"] if f["rule"] == "gpu_throttled"]
    (power,) = [e for e in throttled["evidence"] if e["name"] == "throttle_power_ns"]
    assert 4e8 < power["per_s"] < 16e8 and "0 s for heat" in throttled["text"]  # 8e8, but for when it was asked


def test_net_prof_files_are_read_and_written(tmp_path):
    root = tmp_path / "tree"
    trees.cxi(root, nics=2, names=FEW, value=lambda nic, name: nic + len(name))
    for form in ("net_prof", "net_prof_list", "weir"):
        snap(root, tmp_path / f"{form}.json", "--form", form)
    document = json.loads((tmp_path / "net_prof.json").read_text())
    assert set(document) == {"meta", "counters"}
    first = document["counters"][0]
    assert first["id"] == 1 and first["interface"] == 1 and first["counter_name"] == sorted(FEW)[0]
    assert first["timestamp_ISO_8601"].startswith("2025-05-02T16:41:11.66295")
    assert document["counters"] == json.loads((tmp_path / "net_prof_list.json").read_text())
    both = next(c for c in document["counters"] if c["counter_name"] == "hni_pkts_sent_by_tc_0")
    assert both["groups"] == ["CxiPerfStats", "CxiOpPackets"] and both["group"] == "CxiPerfStats"
    for form in ("net_prof", "net_prof_list"):
        totals = diff(tmp_path / f"{form}.json", tmp_path / "weir.json")["totals"]
        assert totals["same"] == 2 * len(FEW) and sum(totals.values()) == totals["same"]


def test_one_nics_telemetry_is_accepted_and_others_are_refused_with_a_hint(tmp_path):
    trees.cxi(tmp_path, nics=3, names=FEW)
    cxi = tmp_path / "sys/class/cxi"
    done = weir("counters", "snap", tmp_path / "one.json", "--form", "net_prof", "--cxi", cxi / "cxi2/device/telemetry")
    assert done.status == 0, done
    assert {c["interface"] for c in json.loads((tmp_path / "one.json").read_text())["counters"]} == {3}
    for path, words in ((tmp_path / "none", "No such file"), (tmp_path / "one.json", "not a directory"), (tmp_path, "neither a telemetry")):
        done = weir("counters", "snap", tmp_path / "x.json", "--source", "cxi", "--cxi", path)
        assert done.status == 1 and words in done.stderr and "cxi0" in done.stderr, done


def dump(path, interfaces, value=lambda i, n: 0, when=1746204071.0):
    order = trees.dump_order(trees.cxi_names())
    path.write_text("".join(f"{value(i, n)}@{when}\n" for i in range(interfaces) for n in order))


def test_text_dumps_give_the_same_as_json(tmp_path):
    def value(i, name):
        return 5 + i if name == "pct_spt_timeouts" else 3 * (name.startswith("hni"))

    dump(tmp_path / "a.txt", 2)
    dump(tmp_path / "b.txt", 2, value, when=1746204081.0)
    document = diff(tmp_path / "a.txt", tmp_path / "b.txt")
    moved = rows(document)
    assert moved["cxi", "cxi1", "pct_spt_timeouts"]["change"] == 6
    assert moved["cxi", "cxi1", "pct_spt_timeouts"]["per_s"] == 0.6
    assert document["totals"]["moved"] == 2 * (1 + sum(n.startswith("hni") for n in trees.cxi_names()))
    names = tmp_path / "names.txt"
    names.write_text("-r--r--r-- 1 root root 4.0K Jun  5 18:36 two\n-r--r--r-- 1 root root 4.0K Jun  5 18:36 one\n")
    (tmp_path / "c.txt").write_text("1@1.0\n2@1.0\n")
    (tmp_path / "d.txt").write_text("1@2.0\n5@2.0\n")
    assert rows(diff(tmp_path / "c.txt", tmp_path / "d.txt", "--names", names))["cxi", "cxi0", "one"]["change"] == 3


def test_a_dump_with_lines_that_are_missing_or_wrong_is_used_as_far_as_it_goes(tmp_path):
    dump(tmp_path / "a.txt", 2)
    lines = (tmp_path / "a.txt").read_text().splitlines(keepends=True)
    lines[4] = "nonsense\n"
    (tmp_path / "b.txt").write_text("".join(lines[:-3]))
    done = weir("counters", "diff", tmp_path / "a.txt", tmp_path / "b.txt", "--json")
    assert done.status == 0 and "b.txt:5:" in done.stderr and "no multiple of 1890" in done.stderr, done
    assert done.documents[0]["totals"]["same"] == 1889 and done.documents[0]["totals"]["vanished"] == 1891
    (tmp_path / "short.txt").write_text("1@1.0\n")
    done = diff(tmp_path / "a.txt", tmp_path / "short.txt", status=1)
    assert "--names" in done.stderr


GOOD = '{"schema":"weir/counters/1","host":"h","taken_ns":5,"objects":[{"source":"t","object":"o","counters":[["a","counter",64,"",1,5]]}]}'


@pytest.mark.parametrize("text, words", [
    ("", "empty"), ("   \n", "empty"), ("hello", "no snapshot"), ("{}", "holds no counters"), ("[]", "holds no counters"),
    ('{"schema":"weir/run/1"}', "weir/run/1"), ('{"schema":"weir/counters/1","objects":7}', "not a list"),
    ('{"objects":[1,2,3]}', "lacks its source"), ('[{"counter_name":"x","interface":0,"value":1}]', "x:"), ("[[[[", "breaks off"),
    ('{"objects":[{"source":"t","object":"o","counters":[["a","counter",99,"",1,5]]}]}', "name, kind, bits"),
    ("[" * 100000, "breaks off"), ('{"objects":[{"source":"\\u0000","object":"o","counters":[]}]}', ""),
])
def test_what_is_no_snapshot_is_refused_with_words(tmp_path, text, words):
    (tmp_path / "bad.json").write_text(text)
    (tmp_path / "good.json").write_text(GOOD)
    done = diff(tmp_path / "good.json", tmp_path / "bad.json", status=1)
    assert words in done.stderr and "bad.json" in done.stderr, done


def test_a_snapshot_that_breaks_off_is_used_as_far_as_it_goes(tmp_path):
    root = tmp_path / "tree"
    trees.cxi(root, nics=3, names=FEW)
    snap(root, tmp_path / "whole.json")
    snap(root, tmp_path / "list.json", "--form", "net_prof_list")
    text = (tmp_path / "whole.json").read_text()
    (tmp_path / "cut.json").write_text(text[:text.index('"cxi2"') + 40])
    done = weir("counters", "diff", tmp_path / "whole.json", tmp_path / "cut.json", "--json")
    assert done.status == 0 and "cut.json:1: the file breaks off" in done.stderr, done
    assert done.documents[0]["totals"] == {**{s: 0 for s in done.documents[0]["totals"]}, "same": 2 * len(FEW), "vanished": len(FEW)}
    text = (tmp_path / "list.json").read_text()
    (tmp_path / "cut2.json").write_text(text[:len(text) * 2 // 3])
    done = weir("counters", "diff", tmp_path / "whole.json", tmp_path / "cut2.json", "--json")
    assert done.status == 0 and "breaks off" in done.stderr and 8 <= done.documents[0]["totals"]["same"] < 3 * len(FEW), done


def test_values_that_are_no_numbers_are_named_and_left_out(tmp_path):
    trees.cxi(tmp_path, nics=1, names=FEW)
    folder = tmp_path / "sys/class/cxi/cxi0/device/telemetry"
    (folder / FEW[0]).write_text("abc@1.0\n")
    (folder / FEW[1]).write_text("12\n")
    (folder / FEW[2]).write_text("9" * 400 + "@1.0\n")
    (folder / FEW[3]).write_text("7@nonsense\n")
    done = snap(tmp_path, tmp_path / "s.json", "--source", "cxi")
    assert f"{FEW[0]}: not a number: \"abc@1.0\"" in done.stderr and FEW[1] in done.stderr and "longer than a number" in done.stderr
    document = json.loads((tmp_path / "s.json").read_text())
    assert document["problem_count"] == 3
    assert {c[0] for c in document["objects"][0]["counters"]} == set(FEW[3:])


def test_a_negative_jump_is_a_reset_not_a_huge_number(tmp_path):
    document = difference(tmp_path, lambda root, second: trees.cxi(
        root, nics=1, names=FEW, value=lambda nic, name: 5 if second else 1000, when=1746204071.0 + second))
    row = rows(document)["cxi", "cxi0", "pct_spt_timeouts"]
    assert row["state"] == "reset" and row["change"] == 5 and row["per_s"] is None
    assert rows(document)["cxi", "cxi0", "cq_sts_tle_in_use_0"]["state"] == "changed"


def test_a_file_that_vanishes_meanwhile_is_named_and_the_others_are_read(tmp_path):
    trees.cxi(tmp_path, nics=1, names=FEW)
    gone = tmp_path / "sys/class/cxi/cxi0/device/telemetry" / FEW[0]

    def few_descriptors():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    done = weir("run", "--json", "--source", "cxi", "--", "rm", gone, env={"WEIR_SYSROOT": str(tmp_path)}, preexec_fn=few_descriptors)
    assert done.status == 0
    record = json.loads(done.stderr)
    assert record["counters"]["totals"]["vanished"] == 1 and record["counters"]["totals"]["same"] == len(FEW) - 1


def test_ten_thousand_interfaces(tmp_path):
    trees.netdev(tmp_path, {f"eth{i}": {"rx_bytes": i, "tx_bytes": 1} for i in range(10000)})
    snap(tmp_path, tmp_path / "s.json", "--source", "netdev")
    document = diff(tmp_path / "s.json", tmp_path / "s.json")
    assert document["totals"]["same"] == 20000


def test_names_with_odd_characters_stay_whole_and_harmless(tmp_path):
    odd = '<b>"x"\\ü,\'&'
    trees.cxi(tmp_path, nics=1, names=[odd, "line\nbreak", "\033[31m"])
    snap(tmp_path, tmp_path / "s.json", "--source", "cxi")
    names = {c[0] for c in json.loads((tmp_path / "s.json").read_text())["objects"][0]["counters"]}
    assert names == {odd, "line?break", "?[31m"}
    done = weir("counters", "diff", "--all", tmp_path / "s.json", tmp_path / "s.json")
    assert odd in done.stdout and "\033" not in done.stdout


def test_a_directory_that_cannot_be_read_is_named_and_the_others_are_read(tmp_path):
    trees.cxi(tmp_path, nics=2, names=FEW)
    telemetry = tmp_path / "sys/class/cxi/cxi2/device/telemetry"
    telemetry.parent.mkdir(parents=True)
    telemetry.symlink_to("telemetry")
    done = snap(tmp_path, tmp_path / "s.json", "--source", "cxi")
    assert "cxi2/device/telemetry: cannot read it: Too many levels" in done.stderr
    assert len(json.loads((tmp_path / "s.json").read_text())["objects"]) == 2


def test_a_full_disk_is_said(tmp_path):
    trees.cxi(tmp_path, nics=1, names=FEW)
    done = snap(tmp_path, "/dev/full", status=1)
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize("words, says", [
    (["counters"], "say list, snap, diff or watch"), (["counters", "snap"], "which file"), (["counters", "diff", "a"], "two snapshots"),
    (["counters", "list", "--source", "nonsense"], "no source of counters"), (["run"], "which command"),
    (["counters", "diff", "a", "b", "c"], "unexpected word"), (["counters", "watch", "--interval", "0"], "interval"),
])
def test_wrong_words_are_refused(words, says):
    done = weir(*words)
    assert done.status != 0 and says in done.stderr, done


def test_own_rules_are_asked_and_wrong_ones_refused(tmp_path):
    (tmp_path / "good.json").write_text(GOOD)
    (tmp_path / "more.json").write_text(GOOD.replace(",1,5]", ",9,7]"))
    (tmp_path / "own.txt").write_text("[mine]\nof = t\nx = delta(a)\nwhen = x > 5\nsay = {object}: {x}\n")
    done = weir("counters", "diff", tmp_path / "good.json", tmp_path / "more.json", "--rules", tmp_path / "own.txt", "--check")
    assert done.status == 3 and "warning: o: 8" in done.stdout
    (tmp_path / "own.txt").write_text("[mine]\nof = t\nwhen = delta(\nsay = x\n")
    done = weir("counters", "diff", tmp_path / "good.json", tmp_path / "more.json", "--rules", tmp_path / "own.txt")
    assert done.status == 1 and "own.txt:3" in done.stderr


def test_run_keeps_input_output_and_status():
    done = subprocess.run([WEIR, "run", "--quiet", "--", "sh", "-c", "cat; echo more >&2; exit 7"], input=b"words", capture_output=True, timeout=60)
    assert done.returncode == 7 and done.stdout == b"words" and b"more\n" in done.stderr
    assert not SANITIZER.search(done.stderr.decode())


def test_run_ends_by_the_signal_of_its_command_and_says_what_cannot_run():
    assert weir("run", "-q", "--", "sh", "-c", "kill -TERM $$").status == -15
    done = weir("run", "--", "/nonexistent")
    assert done.status == 127 and "cannot run /nonexistent: No such file" in done.stderr and "counters moved" not in done.stderr
    assert weir("run", "--", "/etc/passwd").status == 126


def test_watch_prints_lines_where_it_is_no_terminal(tmp_path):
    done = weir("counters", "watch", "--json", "--interval", "50ms", "--count", "2", "--source", "interrupts,netdev", "--all")
    assert done.status == 0 and len(done.documents) == 2
    for document in done.documents:
        validate(document)
        assert document["schema"] == "weir/rates/1" and document["rates"]


def test_the_list_of_sources_follows_its_schema(tmp_path):
    trees.cxi(tmp_path, nics=3, names=FEW)
    trees.netdev(tmp_path, {"eth0": {"rx_bytes": 5}})
    (document,) = weir("counters", "list", "--json", env={"WEIR_SYSROOT": str(tmp_path)}).documents
    validate(document)
    there = {s["name"]: (s["counters"], s["objects"]) for s in document["sources"] if s["counters"]}
    assert there == {"cxi": (3 * len(FEW), 3), "netdev": (1, 1)}
    assert {"ethtool", "nvml", "infiniband"} <= {s["name"] for s in document["sources"]}  # those that are not there are named as well


def test_watch_on_a_terminal_hides_what_stands_still_and_answers_to_keys(tmp_path):
    names = [f"count_{i}" for i in range(6)]
    trees.cxi(tmp_path, nics=1, names=names)
    folder = tmp_path / "sys/class/cxi/cxi0/device/telemetry"
    pid, fd = pty.fork()
    if not pid:
        os.environ["WEIR_SYSROOT"] = str(tmp_path)
        os.execv(WEIR, ["weir", "counters", "watch", "--interval", "0.1s", "--source", "cxi"])
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    shown, step = [""], [0]
    moving = {i: os.open(folder / names[i], os.O_WRONLY) for i in (1, 2)}

    def turn(seconds=0.3):
        """The last screen after the counters moved for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            step[0] += 1
            for i, file in moving.items():  # over what is there: who reads meanwhile finds no empty file
                os.pwrite(file, f"{step[0] * 10 ** i:020}@{1746204071 + step[0]}.0\n".encode(), 0)
            if select.select([fd], [], [], 0.05)[0]:
                with contextlib.suppress(OSError):  # it has ended
                    shown[0] += os.read(fd, 65536).decode(errors="replace")
        return shown[0].rpartition("\033[H\033[J")[2]

    def until(condition):
        end = time.monotonic() + 30
        while not condition(screen := turn()):
            assert time.monotonic() < end, screen
        return screen

    try:
        # A frame may fall between two steps, or between the files of one: one that shows both is waited for.
        until(lambda s: "count_1" in s and "count_2" in s and s.index("count_2") < s.index("count_1"))
        os.write(fd, b"s")
        until(lambda s: "by name" in s and "count_2" in s and s.index("count_1") < s.index("count_2"))
        os.write(fd, b"/t_1\r")
        until(lambda s: "filter: t_1" in s and "count_1" in s and "count_2" not in s)
        assert "count_3" not in shown[0]  # in no frame: it stands still
        os.write(fd, b"\033a")
        until(lambda s: "count_5" in s)
        os.write(fd, b"q")
        end = time.monotonic() + 30
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            assert time.monotonic() < end
            turn(0.1)
    except BaseException:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        raise
    finally:
        for file in (fd, *moving.values()):
            os.close(file)
