# SPDX-License-Identifier: BSD-3-Clause
"""What weir prints as JSON is what schema/ says. MAKE_RECORDS names the generator."""
import copy
import json
import os
import pathlib
import subprocess

import jsonschema
import pytest

ROOT = pathlib.Path(os.environ["WEIR_SOURCE_ROOT"])


def load(name):
    schema = json.loads((ROOT / "schema" / name).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


RUN, EVENT = load("run-1.json"), load("event-1.json")


def refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


def parse(text):
    """Strict: a key only once, no NaN."""

    def once(pairs):
        keys = [key for key, _ in pairs]
        assert len(keys) == len(set(keys)), keys
        return dict(pairs)

    return json.loads(text, object_pairs_hook=once, parse_constant=refuse_constant)


@pytest.fixture(scope="session", name="folder")
def fixture_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    subprocess.run([os.environ["MAKE_RECORDS"], folder], check=True, timeout=60)
    return folder


@pytest.fixture(scope="session", name="records")
def fixture_records(folder):
    files = sorted(folder.glob("*.json"))
    return {file.stem: parse(file.read_text(encoding="utf-8")) for file in files}


def test_every_kind_of_record_follows_the_schema(records):
    assert len(records) >= 14
    for name, record in records.items():
        errors = [f"{name}: {e.json_path}: {e.message}" for e in RUN.iter_errors(record)]
        assert errors == []


def test_a_record_is_one_line(folder):
    for file in folder.glob("*.json"):
        assert file.read_text(encoding="utf-8").count("\n") == 1


def test_nothing_is_left_beside_the_records(folder):
    assert {file.suffix for file in folder.iterdir()} == {".json", ".txt", ".ndjson"}


def test_every_event_follows_the_schema(folder):
    lines = (folder / "events.ndjson").read_text(encoding="utf-8").splitlines()
    events = [parse(line) for line in lines]
    assert [e["event"] for e in events] == ["start", "interval", "interval", "error", "end"]
    for event in events:
        EVENT.validate(event)
    assert events[1]["latency_p99_ns"] == 29900 and "latency_p99_ns" not in events[2]


def damage(record, path, value):
    damaged = copy.deepcopy(record)
    place = damaged
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return damaged


@pytest.mark.parametrize(
    "path, value",
    [
        (["schema"], "weir/run/2"),
        (["started"], "yesterday"),
        (["verdict"], "fine"),
        (["surprise"], 1),
        (["latency_ns"], None),
        (["local", "window_ns"], -1),
        (["local", "flows", 0, "surprise"], 1),
        (["local", "flows", 0, "tcp", "rtt_us"], "35 us"),
        (["local", "intervals", 0, "end_ns"], None),
        (["directions", 0, "from"], "nobody"),
    ],
)
def test_the_schema_refuses_what_it_should(records, path, value):
    assert not RUN.is_valid(damage(records["stream"], path, value))


def test_throughput_is_the_receivers(records):
    stream = records["stream"]
    assert stream["throughput_bps"] == stream["remote"]["rates"]["rx_bps"] == 8e9
    assert stream["role"] == "client" and stream["remote"]["role"] == "server"
    assert records["stream-server"]["throughput_bps"] == 8e9
    assert records["stream-both-ways"]["throughput_bps"] == 16e9
    assert [d["to"] for d in records["stream-both-ways"]["directions"]] == ["server", "client"]
    assert records["stream-many-flows"]["directions"][0]["from"] == "server"


def test_of_a_neper_peer_only_its_rate_is_known(records):
    assert records["stream-neper"]["remote"] is None
    assert records["stream-neper"]["throughput_bps"] == records["stream-neper"]["peer_rate"]
    silent = records["stream-neper-silent"]
    assert silent["throughput_bps"] is None and silent["directions"][0]["sent_bps"] == 8e9


def test_device_memory_says_how_every_flow_went(records):
    device = records["stream-device"]["remote"]["device"]
    assert device["nic"] == "eth2" and device["queues"] == "8-11"
    assert device["tokens_peak"] == 40 and device["pool_stalls"] == 3
    assert device["fragments_per_call"] == 12.5
    assert [f["rx_path"] for f in records["stream-device"]["remote"]["flows"]] == ["mixed", "devmem"]
    assert [f["tx_path"] for f in records["stream-device"]["local"]["flows"]] == ["devmem", "devmem"]
    local = records["stream-device"]["local"]["device"]
    assert local["pool_stalls"] is None and local["fragments_per_call"] is None
    assert (local["zerocopy_sent"], local["zerocopy_copied"]) == (200, 1)
    missed = [f["text"] for f in records["stream-device"]["findings"] if f["name"] == "devmem_missed"]
    assert len(missed) == 1 and "flow 0" in missed[0] and "steering" in missed[0]
    assert records["stream"]["local"]["device"] is None


def test_a_staged_end_says_why(records):
    staged = records["stream-device-staged"]["remote"]
    assert staged["device"]["rx_reason"] == "the driver of eth2 cannot"
    assert [f["rx_path"] for f in staged["flows"]] == ["staged", "staged"]


def test_verdicts(records):
    assert records["stream"]["verdict"] == "good"
    assert records["rr-open-loop"]["verdict"] == "doubtful"
    assert records["stream-failed"]["verdict"] == "failed"
    assert records["stream-failed"]["local"]["flows"][1]["error"] == "Connection reset by peer"
    assert records["stream-nothing"]["findings"][0]["text"] == "nothing was measured"


def test_percentiles_say_whether_they_are_sound(records):
    usual = records["rr"]["latency_ns"]["percentiles"]
    assert [p["percent"] for p in usual] == [50, 90, 99, 99.9, 99.99]
    assert all(p["sound"] for p in usual)
    asked = records["rr-open-loop"]["latency_ns"]["percentiles"]
    assert [(p["percent"], p["sound"]) for p in asked] == [(50, True), (99, True), (99.9999, False)]
    assert records["rr-open-loop"]["service_ns"]["min"] < records["rr-open-loop"]["latency_ns"]["min"]
    assert records["rr"]["service_ns"] is None


def test_options_are_there_by_name_with_their_types(records):
    options = records["stream-both-ways"]["options"]
    assert options["host"] == '"n\\o\tde"'
    assert options["enable_read"] is True and options["num_flows"] == 2
    assert options["throughput_opt"] == "Mb" and options["out"] is None
    assert "help" not in options and "request_size" not in options
    assert records["rr"]["options"]["buffer_size"] == 65536


def test_samples_are_of_the_local_end_only(records):
    assert len(records["stream"]["local"]["flows"][0]["samples"]) == 4
    assert "samples" not in records["stream"]["remote"]["flows"][0]


def test_the_time_is_utc(records):
    assert records["stream"]["started"] == "2026-11-15T03:00:00.123Z"


def test_text_has_no_trailing_blanks_and_no_control_characters(folder):
    for file in folder.glob("*.txt"):
        text = file.read_text(encoding="utf-8", errors="replace")
        assert all(c == "\n" or c.isprintable() for c in text), file.name
        assert all(line == line.rstrip() for line in text.splitlines()), file.name
        assert "nan" not in text and "inf" not in text.split("\n", 2)[2], file.name
