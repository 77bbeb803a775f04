# SPDX-License-Identifier: BSD-3-Clause
"""weir report and weir diff on the command line: forms, bad input, output that cannot be written."""
import csv
import io
import json
import os
import pathlib
import re
import subprocess

import pytest

import documents
from weirtest import validate, weir


@pytest.fixture(scope="module", name="folder")
def fixture_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    subprocess.run([os.environ["MAKE_RECORDS"], folder], check=True, timeout=60)
    return folder


def test_text_is_what_the_run_printed(folder):
    for name in ("stream", "rr", "stream-failed"):
        done = weir("report", folder / f"{name}.json")
        assert (done.status, done.stderr) == (0, "")
        assert done.stdout == (folder / f"{name}.txt").read_text()


def test_json_is_the_record(folder):
    done = weir("report", folder / "stream.json", "--json")
    assert done.stdout == (folder / "stream.json").read_text()


def test_csv_has_one_figure_a_line(folder, tmp_path):
    weir("report", folder / "stream.json", "--out", tmp_path / "x.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "x.csv").read_text())))
    received = [r for r in rows if r["section"] == "interval" and r["end"] == "server" and r["name"] == "received"]
    assert len(received) == 10 and float(received[0]["value"]) == 8e9 and received[0]["unit"] == "bit/s"
    assert {r["section"] for r in rows} >= {"run", "interval", "flow", "fact", "end"}


def test_csv_is_no_formula(folder, tmp_path):
    record = json.loads((folder / "stream.json").read_text())
    record["local"]["facts"]["nic_driver"] = '=cmd|"/c calc"!A1'
    (tmp_path / "x.json").write_text(json.dumps(record))
    done = weir("report", tmp_path / "x.json", "--csv")
    row = next(r for r in csv.DictReader(io.StringIO(done.stdout)) if r["name"] == "nic_driver")
    assert row["value"] == "'=cmd|\"/c calc\"!A1"


def test_events_before_the_record_are_passed_over(folder, tmp_path):
    (tmp_path / "log").write_text((folder / "events.ndjson").read_text() + (folder / "stream.json").read_text())
    assert weir("report", tmp_path / "log").stdout == (folder / "stream.txt").read_text()


@pytest.mark.parametrize("text, words", [
    ("", "it is empty"), ("{", "not JSON"), ("[]", "names no schema"), ('{"schema":"weir/run/9"}', "holds weir/run/9"),
    ('{"schema":"weir/nic/1"}', "not a run record"), ('{"schema":"weir/run/1"}', "is missing"), ('{"schema":"weir/counters/1"}', "takes two"),
])
def test_what_is_no_record_is_refused(tmp_path, text, words):
    (tmp_path / "x.json").write_text(text)
    for command in (["report"], ["diff", tmp_path / "x.json"]):
        done = weir(*command, tmp_path / "x.json")
        assert done.status == (1 if command == ["report"] else 2) and done.stdout == ""
        assert words in done.stderr and "x.json" in done.stderr


def test_a_cut_record_is_refused_with_its_place(folder, tmp_path):
    (tmp_path / "x.json").write_text((folder / "stream.json").read_text()[:5000])
    done = weir("report", tmp_path / "x.json")
    assert done.status == 1 and "x.json:1:5001" in done.stderr


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    with open(tmp_path / "x.json", "wb") as file:
        file.truncate(2 << 30)
    done = weir("report", tmp_path / "x.json")
    assert done.status == 1 and "larger than 1024 MiB" in done.stderr and done.seconds < 5


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said(folder):
    for form in ("--html", "--csv", "--json"):
        done = weir("report", folder / "stream.json", form, "--out", "/dev/full")
        assert done.status == 1 and "No space left on device" in done.stderr


def test_a_file_that_cannot_be_written_leaves_nothing(folder, tmp_path):
    done = weir("report", folder / "stream.json", "--out", tmp_path / "no" / "x.html")
    assert done.status == 1 and "x.html" in done.stderr and list(tmp_path.iterdir()) == []


def test_usage(folder):
    assert weir("report").status == 2
    assert weir("report", folder / "stream.json", "--html", "--csv").status == 2
    assert weir("diff", folder / "stream.json").status == 2
    assert weir("diff", folder / "stream.json", folder / "rr.json").status == 2


def test_diff_of_equal_runs_is_silent_about_causes(folder):
    done = weir("diff", folder / "stream.json", folder / "stream-server.json")
    assert done.status == 0 and "no difference beyond the noise" in done.stdout and "cause" not in done.stdout


def test_diff_says_when_it_does_not_know(folder, tmp_path):
    record = json.loads((folder / "stream.json").read_text())
    for end in ("local", "remote"):
        for name in ("rx_bytes", "tx_bytes"):
            record[end]["counts"][name] //= 2
            for part in record[end]["intervals"] + [flow["counts"] for flow in record[end]["flows"]]:
                part[name] //= 2
        record[end]["cpu"]["user_ns"] //= 2
        record[end]["cpu"]["system_ns"] //= 2
    (tmp_path / "slow.json").write_text(json.dumps(record))
    done = weir("diff", folder / "stream.json", tmp_path / "slow.json")
    assert done.status == 1 and "-50 %" in done.stdout and "not known" in done.stdout
    assert weir("diff", tmp_path / "slow.json", folder / "stream.json", "--only-worse").status == 0
    assert weir("diff", folder / "stream.json", tmp_path / "slow.json", "--only-worse").status == 1


@pytest.mark.parametrize("name, words", [
    ("rails", ["10.00 Gbit/s", "problem: eth3: cannot connect", "warning: eth2 has 25 %", "congestion window 58 %", "35.50 us"]),
    ("p2p", ["8.400 GB/s", "local", "remote", "480.0 us", "cuda", "512 KiB"]),
    ("mesh", ["32.000 GB/s", "problem: GPU 3: the peer went away"]),
    ("sweep", ["recommended channels", "100 %", "4.000 GB/s"]),
    ("probe", ["31", "problem: nic node3 rail 5: probes are lost on 12 of 12 pairs", "33.00 us"]),
])
def test_records_of_rails_gpus_and_probes_are_shown(folder, tmp_path, name, words):
    path = documents.write(folder)[name]
    done = weir("report", path)
    assert done.status == 0 and done.stderr == "", done
    for word in words:
        assert word in done.stdout, done
    assert json.loads(weir("report", path, "--json").stdout) == json.loads(path.read_text())
    done = weir("report", path, "--out", tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text()
    assert done.status == 0 and page.startswith("<!doctype html>") and "Findings" in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids)), ids
    rows = list(csv.DictReader(io.StringIO(weir("report", path, "--csv").stdout)))
    assert rows[0]["name"] == "schema" and len(rows) > 10
    done = weir("diff", path, path)
    assert done.status == 0 and "no difference beyond the noise" in done.stdout and "cause" not in done.stdout
    assert weir("diff", path, folder / "stream.json").status == 2


def test_a_pair_of_probes_is_named_by_both_ends(folder, tmp_path):
    """Several pairs have the same end: its address alone names nobody."""
    path = documents.write(folder)["probe"]
    lines = weir("report", path).stdout.splitlines()
    at = lines.index("pair")
    assert re.split(r"\s{2,}", lines[at + 1].strip()) == [
        "from host", "from rail", "to host", "to rail", "sent", "lost", "mean", "max"]
    assert lines[at + 2].split() == ["node1", "0", "node2", "0", "150", "0", "31.00", "us", "44.00", "us"]
    rows = list(csv.DictReader(io.StringIO(weir("report", path, "--csv").stdout)))
    assert len({row["object"] for row in rows if row["section"] == "pair"}) == 12
    assert "node3 rail 5 to node2 rail 5" in {row["object"] for row in rows}
    record = json.loads(path.read_text())
    record["pair"][-1]["mean_ns"] *= 3  # node3 to node2: the last of those that end there
    (tmp_path / "slow.json").write_text(json.dumps(record))
    assert "node3 rail 5 to node2 rail 5 mean" in weir("diff", path, tmp_path / "slow.json").stdout


def test_a_verdict_with_all_its_words_is_named(folder, tmp_path):
    record = json.loads(documents.write(folder)["probe"].read_text())
    record["verdicts"][0].update(side="both", end_ns=record["verdicts"][0]["begin_ns"] + 1, to_host="node1", to_rail=5)
    (tmp_path / "long.json").write_text(json.dumps(record))
    lines = weir("report", tmp_path / "long.json").stdout.splitlines()
    assert lines[lines.index("verdicts") + 2].split() == ["node3", "5", "node1", "5", "nic", "loss"]


def changed(document, path, value):
    """A copy in which what lies at "rails.0.throughput_bps" is another."""
    document = json.loads(json.dumps(document))
    *way, last = path.split(".")
    place = document
    for step in way:
        place = place[int(step) if step.isdigit() else step]
    place[last] = value
    return document


@pytest.mark.parametrize("name, path, value, verdict, words", [
    ("rails", "rails.0.throughput_bps", 1e9, "worse", ["one of its parts is slower", "eth1 throughput was 8.00 Gbit/s and is 1.00 Gbit/s"]),
    ("rails", "rails.0.retransmits", 900, "worse", ["packets are lost on the way: eth1 retransmits was 3 and is 900"]),
    ("rails", "rails.1.error", "no route to host", "worse", ["did not complete: eth2: no route to host"]),
    ("rails", "total.throughput_bps", 2e10, "better", ["throughput 10.00 Gbit/s, then 20.00 Gbit/s"]),
    ("rails", "rails.1.throughput_bps", 2.1e9, "same", []),
    ("p2p", "channels", 4, "same", []),
    ("p2p", "bytes_per_s", 4e9, "worse", ["rate 8.400 GB/s, then 4.000 GB/s", "not known"]),
    ("p2p", "local.stalled.peer_slow_ns", 15000000, "different", ["the other end took messages more slowly: local stalled: peer slow was 25 % and is 75 %"]),
    ("p2p", "local.wrong", 40, "worse", ["received wrong bytes: 40 messages brought wrong bytes"]),
    ("sweep", "points.1.bytes_per_s", 1e9, "worse", ["2 rate was 4.000 GB/s and is 1.000 GB/s"]),
    ("probe", "lost", 3100, "worse", ["lost 31, then 3100"]),
    ("probe", "lost", 40, "same", []),
    ("probe", "verdicts.0.rail", 2, "different", ["a trouble that the first had not: nic node3 rail 2"]),
])
def test_diff_of_records_of_rails_gpus_and_probes(folder, tmp_path, name, path, value, verdict, words):
    before = documents.write(folder)[name]
    after = tmp_path / "after.json"
    after.write_text(json.dumps(changed(json.loads(before.read_text()), path, value)))
    done = weir("diff", before, after)
    assert done.stderr == "" and done.status == (verdict != "same"), done
    for word in words:
        assert word in done.stdout, done
    made = json.loads(weir("diff", before, after, "--json").stdout)
    validate(made)
    assert made["verdict"] == verdict, made
    assert weir("diff", before, after, "--out", tmp_path / "x.html").status == done.status
    assert (tmp_path / "x.html").read_text().startswith("<!doctype html>")


def test_a_run_inside_a_record_of_rails_has_its_own_figures(folder, tmp_path):
    path = documents.write(folder)["rails"]
    weir("report", path, "--out", tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text()
    assert 'id="part0-1-flows"' in page and "Over time" in page and "congestion window" in page


@pytest.mark.parametrize("change", [
    {"rails": 7}, {"rails": [1, None, "x", [], {}]}, {"total": None}, {"total": {"throughput_bps": 1e308}}, {"findings": [{"severity": 5}]},
    {"rails": [{"run": {"schema": "weir/run/1"}}]}, {"rails": [{"device": "<b>\"'&\n\033[31m" * 200}]}, {"deep": {"a": {"b": {"c": {"d": {"e": {"f": {"g": {}}}}}}}}},
    {"started": 7, "verdict": [], "rails": [{"device": "x" * 70000, "error": "y" * 70000}] * 3},
])
def test_records_that_make_no_sense_do_no_harm(folder, tmp_path, change):
    document = {**documents.rails(None), **change}
    (tmp_path / "x.json").write_text(json.dumps(document))
    for form in ("--html", "--csv", "--json", None):
        done = weir("report", tmp_path / "x.json", *([form] if form else []))
        assert done.status == 0, done
        assert form == "--json" or "\033" not in done.stdout
        assert form != "--html" or "<b>" not in done.stdout
    (tmp_path / "good.json").write_text(json.dumps(documents.rails(None)))
    for pair in (("x", "good"), ("good", "x"), ("x", "x")):
        done = weir("diff", *(tmp_path / f"{one}.json" for one in pair))
        assert done.status in (0, 1) and "\033" not in done.stdout, done


def test_ten_thousand_nics_fit_a_page(tmp_path):
    def snapshot(path, add):
        rows = [["rx_bytes", "counter", 64, "bytes", 1000 + add, 10**18 + add], ["rx_dropped", "counter", 64, "packets", 5, 10**18 + add]]
        objects = [{"source": "netdev", "object": f"eth{i}", "counters": rows} for i in range(10000)]
        path.write_text(json.dumps({
            "schema": "weir/counters/1", "weir": "0", "host": "n", "taken": "2026-01-01T00:00:00.000Z", "taken_ns": 10**18 + add, "took_ns": 1,
            "problem_count": 0, "problems": [], "columns": ["name", "kind", "bits", "unit", "value", "time_ns"], "objects": objects}))

    snapshot(tmp_path / "a.json", 0)
    snapshot(tmp_path / "b.json", 10**9)
    done = weir("report", tmp_path / "a.json", tmp_path / "b.json", "--out", tmp_path / "x.html")
    assert done.status == 0 and done.seconds < 30, done
    text = (tmp_path / "x.html").read_text()
    assert "10000 of 20000 counters differ" in text and len(text) < 2_000_000
