# SPDX-License-Identifier: BSD-3-Clause
"""The Python module over the real library: net_prof's functions, the context manager, errors that say why."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = os.environ["WEIR_LIBRARY"]


def environment():
    """A library with the sanitizer in it needs its runtime first."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "ASAN_OPTIONS": "detect_leaks=0:exitcode=99"}
    needed = subprocess.run(["ldd", LIBRARY], capture_output=True, text=True, timeout=20, check=True).stdout
    runtimes = [line.split()[2] for line in needed.splitlines() if "libasan" in line or "libubsan" in line]
    return {**env, "LD_PRELOAD": ":".join(runtimes)} if runtimes else env


def run(code, *args):
    return subprocess.run([sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True, timeout=120, env=environment())


@pytest.fixture(name="trees")
def fixture_trees(tmp_path):
    names = ["hni_rx_paused_0", "hni_tx_paused_0", "pct_trs_rsp_nack_drops", "cq_dma_cmd_counts_0"]
    for when, t in (("before", 100.0), ("after", 110.0)):
        for nic in range(2):
            place = tmp_path / when / f"cxi{nic}" / "device" / "telemetry"
            place.mkdir(parents=True)
            for i, name in enumerate(names):
                (place / name).write_text(f"{50 + (10 ** i * (nic + 1) if when == 'after' and i else 0)}@{t}")
    return tmp_path


def test_the_examples_of_net_prof_run(trees):
    done = run("""
import json, sys
import weir as net_prof
net_prof.collect(sys.argv[1] + "/before", sys.argv[1] + "/before.json")
net_prof.collect(sys.argv[1] + "/after", sys.argv[1] + "/after.json")
summary = net_prof.summarize(sys.argv[1] + "/before.json", sys.argv[1] + "/after.json")
net_prof.dump(summary)
net_prof.dump_html(summary, sys.argv[1] + "/report.html")
del summary["full_diffs"]  # its keys are pairs, as net_prof's
print("SUMMARY" + json.dumps(summary))
""", trees)
    assert done.returncode == 0, done.stderr
    text, summary = done.stdout.split("SUMMARY")
    summary = json.loads(summary)
    assert summary["total_non_zero"] == 6
    assert summary["non_zero_per_iface"] == {"1": 3, "2": 3}
    top = summary["top20_per_iface"]["2"]
    assert [(row["iface"], row["metric_name"], row["diff"]) for row in top[:2]] == [
        (2, "cq_dma_cmd_counts_0", 2000), (2, "pct_trs_rsp_nack_drops", 200)]
    drops = [m for m in summary["important_metrics"].values() if m["metric_name"] == "pct_trs_rsp_nack_drops"]
    assert drops == [{"metric_name": "pct_trs_rsp_nack_drops", "diffs": {"1": 100, "2": 200}}]
    assert summary["collected"][0]["counter_name"] and len(summary["collected"]) == 8
    assert "Total non-zero differences: 6" in text and "cq_dma_cmd_counts_0" in text
    assert "<!doctype html>" in (trees / "report.html").read_text()


def test_differences_are_whole_and_equals_stand_by_their_number(tmp_path):
    names = ["hni_sts_tx_ok_ieee", "atu_cache_evictions", "cq_dma_cmd_counts_0", "cq_dma_cmd_counts_1"]
    grown = {"cq_dma_cmd_counts_0": 5, "cq_dma_cmd_counts_1": 5, "atu_cache_evictions": 2 ** 53 + 1}
    for when in ("before", "after"):
        place = tmp_path / when / "cxi0" / "device" / "telemetry"
        place.mkdir(parents=True)
        for name in names:
            (place / name).write_text(f"{7 + (grown.get(name, 0) if when == 'after' else 0)}@100.0")
    done = run("""
import json, sys
import weir as net_prof
for when in ("before", "after"):
    net_prof.collect(f"{sys.argv[1]}/{when}/cxi0/device/telemetry/", f"{sys.argv[1]}/{when}.json")
summary = net_prof.summarize(f"{sys.argv[1]}/before.json", f"{sys.argv[1]}/after.json", None)
assert set(summary) >= {"before_meta", "after_meta", "full_diffs", "collected"}
print(json.dumps([summary["top20_per_iface"][1], sorted(summary["full_diffs"].items())]))
""", tmp_path)
    assert done.returncode == 0, done.stderr
    top, full = json.loads(done.stdout)
    assert [row["diff"] for row in top[:3]] == [2 ** 53 + 1, 5, 5] and top[1]["metric_id"] < top[2]["metric_id"]
    assert [top[1]["metric_name"], top[2]["metric_name"]] == ["cq_dma_cmd_counts_0", "cq_dma_cmd_counts_1"]
    assert [(1, row["metric_id"], row["diff"]) for row in sorted(top, key=lambda row: row["metric_id"]) if row["metric_id"]] == [
        (iface, number, diff) for (iface, number), diff in full]


def test_two_summaries_are_compared(trees):
    done = run("""
import sys
import weir as net_prof
for when in ("before", "after"):
    net_prof.collect(f"{sys.argv[1]}/{when}", f"{sys.argv[1]}/{when}.json")
idle = net_prof.summarize(f"{sys.argv[1]}/before.json", f"{sys.argv[1]}/before.json")
busy = net_prof.summarize(f"{sys.argv[1]}/before.json", f"{sys.argv[1]}/after.json")
result = net_prof.compare(idle, busy, f"{sys.argv[1]}/compare.html", label_a="Idle baseline", label_b="Busy <b>", min_diff=20)
assert result["delta_non_zero_per_iface"] == {1: 3, 2: 3}, result
print(sorted((change["old"], change["new"], change["delta"]) for change in result["changed_metrics"].values()))
""", trees)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[(0, 20, 20), (0, 100, 100), (0, 200, 200), (0, 1000, 1000), (0, 2000, 2000)]\n"
    page = (trees / "compare.html").read_text()
    assert "Idle baseline" in page and "Busy &lt;b&gt;" in page


def test_a_block_is_profiled_also_when_it_raises(tmp_path):
    done = run("""
import sys, weir
try:
    with weir.profile(sys.argv[1]):
        raise KeyError("mine")
except KeyError:
    print("raised")
""", tmp_path / "report.html")
    assert (done.returncode, done.stdout) == (0, "raised\n"), done.stderr
    assert "counters differ" in (tmp_path / "report.html").read_text()


def test_an_error_says_what_and_why(tmp_path):
    done = run("""
import sys, weir
for attempt in (lambda: weir.summarize("/nonexistent/a.json", "/nonexistent/b.json"), lambda: weir.collect("/nonexistent", sys.argv[1])):
    try:
        attempt()
    except ValueError as why:  # as net_prof's
        assert isinstance(why, weir.Error)
        print(why)
""", tmp_path / "x.json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("/nonexistent") >= 2


def test_a_file_that_is_not_named_is_a_type_error():
    done = run("""
import weir
for call in (lambda: weir.summarize(None, None), lambda: weir.collect(None, None), lambda: weir.report(None, None, "x.html")):
    try:
        call()
    except TypeError as error:
        print("refused", error)
""")
    assert done.returncode == 0 and done.stdout.count("refused") == 3, done


def test_only_the_public_symbols_are_shown():
    shown = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, timeout=20, check=True).stdout
    names = {line.split()[-1] for line in shown.splitlines()}
    ours = {name for name in names if not name.startswith(("__", "_init", "_fini"))}
    assert {"weir_counters_collect", "weir_counters_summarize", "weir_counters_report", "weir_version", "weir_free"} <= ours
    assert all(name.startswith("weir_") for name in ours), ours
