# SPDX-License-Identifier: BSD-3-Clause
"""What is printed and written: JSON by its schemas, tables, neper's lines, files of samples and latencies."""
import csv
import json
import os
import pty
import re
import select
import subprocess
import time

import jsonschema
import pytest

from weirtest import SCHEMAS, WEIR, Server, findings, link, measured, noisy, schema_path, validate

KV_RUN = """invalid_secret_count time_start utime_start utime_end stime_start stime_end maxrss_start maxrss_end minflt_start minflt_end majflt_start
majflt_end nvcsw_start nvcsw_end nivcsw_start nivcsw_end""".split()
KV_LATENCY = "num_transactions latency_min latency_max latency_mean latency_stddev".split()
KV_SERIES = "num_samples time_end correlation_coefficient throughput".split()
KV_END = "local_throughput remote_throughput".split()


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_shipped_schemas_are_schemas(name):
    schema = json.loads(schema_path(name).read_text())
    jsonschema.validators.validator_for(schema).check_schema(schema)
    with pytest.raises(jsonschema.ValidationError):
        validate({"schema": name})


@pytest.mark.parametrize("workload", ("stream", "rr", "crr"))
def test_json_is_events_and_then_one_record(workload):
    with Server(workload, "--json") as server:
        done = server.client("-l", "0.5", "--json")
        server.records(1)
        for end in (done, server.so_far()):
            assert end.stderr == ""
            *events, record = end.documents
            for document in (*events, record):
                validate(document)
            assert record["schema"] == "weir/run/1"
            assert events[0]["event"] == "start"
            intervals = [e for e in events if e["event"] == "interval"]
            assert len(intervals) == len(record["local"]["intervals"]) >= 2
            assert [(e["begin_ns"], e["end_ns"]) for e in intervals] == [(i["begin_ns"], i["end_ns"]) for i in record["local"]["intervals"]]


def test_events_come_while_the_run_goes_on():
    with Server("rr") as server, server.start_client("-l", "3", "-I", "0.2", "--warmup", "0", "--json") as client:
        end = time.monotonic() + 20
        while len(client.so_far().events) < 4 and time.monotonic() < end:
            time.sleep(0.05)
        assert not client.ended() and not client.so_far().records


def test_out_is_the_record_that_was_printed(tmp_path):
    at_client, at_server = tmp_path / "client.json", tmp_path / "server.json"
    with Server("rr", "--json", "--out", at_server) as server:
        done = server.client("-l", "0.3", "--json", "--out", at_client)
        printed = server.records(1)[0]
        server.stop()
    for path, record in ((at_client, done.record), (at_server, printed)):
        written = json.loads(path.read_text())
        validate(written)
        assert written == record
    assert sorted(p.name for p in tmp_path.iterdir()) == ["client.json", "server.json"]


@pytest.mark.parametrize("form", ([], ["--format", "kv"]), ids=["table", "kv"])
def test_out_is_json_whatever_is_printed(tmp_path, form):
    with Server("stream") as server:
        done = server.client("-l", "0.3", *form, "--out", tmp_path / "record.json")
    assert done.status in (0, 3) and not done.stdout.startswith("{")
    validate(json.loads((tmp_path / "record.json").read_text()))


def test_out_replaces_an_older_record_and_keeps_a_link(tmp_path):
    target, name = tmp_path / "target.json", tmp_path / "name.json"
    target.write_text("old" * 100000)
    name.symlink_to(target)
    with Server("rr") as server:
        assert server.client("-l", "0.2", "--out", name).status in (0, 3)
    assert name.is_symlink()
    validate(json.loads(target.read_text()))


# The table.

@pytest.mark.parametrize("workload, words", [("stream", ("throughput", "limited by", "cpu", "rtt")), ("rr", ("transactions", "latency", "p50", "p99", "cpu")),
                                             ("crr", ("transactions", "latency", "p50", "cpu"))])
def test_the_table_has_its_lines(workload, words):
    with Server(workload) as server:
        done = server.client("-l", "0.5", "-F", "2")
        assert done.status in (0, 3) and done.stderr == ""
        for text in (done.stdout, server.stop().stdout):
            assert text.startswith(f"weir {workload} ")
            for word in words:
                assert word in text, (word, text)
            assert "warm-up 0.05 s excluded" in text and "interval" in text and "flow" in text
            assert "\x1b" not in text and "\r" not in text


def on_a_terminal(words, env=None):
    """stdout and stderr as a terminal shows them."""
    master, slave = pty.openpty()
    process = subprocess.Popen([str(w) for w in words], stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm", **(env or {})})
    os.close(slave)
    seen, end = b"", time.monotonic() + 30
    try:
        while time.monotonic() < end:
            if not select.select([master], [], [], 0.2)[0]:
                continue
            try:
                more = os.read(master, 65536)
            except OSError:
                break
            if not more:
                break
            seen += more
        assert process.wait(10) in (0, 3)
    finally:
        process.kill()
        os.close(master)
    return seen.decode(errors="replace")


def test_a_terminal_gets_a_progress_line_and_a_pipe_none():
    with Server("rr") as server:
        words = [WEIR, "rr", "-c", *server.at, "-l", "0.8"]
        shown = on_a_terminal(words)
        assert re.search(r"\r0\.[0-9] s of 0\.8 +\S+ \S* ?transactions/s", shown), shown
        assert "\r" not in on_a_terminal([*words, "--quiet"]).replace("\r\n", "\n")


def test_colours_are_for_terminals_that_want_them():
    with Server("stream") as server:
        words = [WEIR, "stream", "-c", *server.at, "-l", "0.3", "-Z", "-q"]  # zero copy on loopback: a warning in colour
        assert "\x1b[3" in on_a_terminal(words) or "\x1b[1" in on_a_terminal(words)
        plain = on_a_terminal(words, {"NO_COLOR": "1"})
        assert "\x1b[3" not in plain and "\x1b[1" not in plain


# neper's lines.

def after_options(done):
    keys = [line.split("=")[0] for line in done.lines if not line.startswith("t=")]
    return keys[keys.index("magic") + 1:]


@pytest.mark.parametrize("name, client_keys, server_keys", [
    ("tcp_stream", [], KV_SERIES + ["throughput_units"]),
    ("tcp_rr", KV_LATENCY + ["latency_p50", "latency_p99.9"] + KV_SERIES, KV_LATENCY + KV_SERIES),
    ("tcp_crr", KV_LATENCY + ["latency_p50", "latency_p99.9"] + KV_SERIES, []),
])
def test_a_link_prints_nepers_keys_in_nepers_order(tmp_path, name, client_keys, server_keys):
    program = [link(tmp_path, name)]
    percentiles = [] if name == "tcp_stream" else ["-p", "50,999"]
    with Server(name[4:], program=program) as server:
        client = server.client("-l", "1", *percentiles, program=program)
        done = server.wait(10)  # a link serves one test, as neper does
    assert (client.status, done.status) == (0, 0), (client, done)
    assert after_options(client) == ["total_run_time"] + KV_RUN + client_keys + KV_END
    assert after_options(done) == ["total_run_time"] + KV_RUN + server_keys + KV_END


@noisy
def test_kv_figures_agree_with_each_other(tmp_path):
    program = [link(tmp_path, "tcp_rr")]
    with Server("rr", program=program) as server:
        got = server.client("-l", "1", "-p", "50,99", "-F", "2", program=program).kv
        other = server.wait(10).kv
    assert float(got["throughput"]) == pytest.approx(int(got["local_throughput"]), abs=1.01)
    assert float(got["time_end"]) - float(got["time_start"]) == pytest.approx(1, rel=0.1)
    assert int(got["num_transactions"]) == pytest.approx(float(got["throughput"]) * (float(got["time_end"]) - float(got["time_start"])), rel=0.001)
    assert float(got["latency_min"]) <= float(got["latency_p50"]) <= float(got["latency_p99"]) <= float(got["latency_max"])
    assert re.fullmatch(r"\d+\.\d{9}", got["latency_p50"]) and re.fullmatch(r"\d+\.\d{2}", got["throughput"])
    assert float(got["utime_end"]) >= float(got["utime_start"])
    assert got["remote_throughput"] == other["local_throughput"] and other["remote_throughput"] == got["local_throughput"]
    assert int(got["local_throughput"]) == pytest.approx(int(other["local_throughput"]), rel=0.05)
    assert (other["latency_min"], other["latency_max"]) == ("0.000000000", "0.000000000")


@pytest.mark.parametrize("unit, name, per_bit", [("Mb", "Mbit/s", 1e6), ("Gb", "Gbit/s", 1e9), ("MB", "MB/s", 8e6), ("MiB", "MiB/s", 8 * 1048576), ("b", "bits/s", 1)])
def test_throughput_has_the_unit_asked_for(unit, name, per_bit):
    with Server("stream", "--format", "kv", "--throughput-opt", unit, "--once") as server:
        server.client("-l", "0.3", "-m", "800Mb", "-q")
        got = server.wait(10).kv
    assert got["throughput_units"] == name
    assert float(got["throughput"]) == pytest.approx(int(got["local_throughput"]) / per_bit, rel=0.01, abs=0.006)


def test_kv_of_a_pinned_run_names_the_cores():
    with Server("rr") as server:
        got = server.client("-l", "0.3", "-U", "--format", "kv").kv
    assert int(got["allowed_core_num"]) == len(os.sched_getaffinity(0))
    assert re.fullmatch(r"[\d,-]+", got["allowed_cores"])


def test_iostat_lines_come_every_so_many_milliseconds():
    with Server("stream") as server:
        done = server.client("-l", "1", "--iostat-ms", "200", "--format", "kv")
    lines = [line for line in done.lines if line.startswith("t=")]
    form = re.compile(r"t=(\d+\.\d{3})      TX: +(\d+) ops, +(\d+) bytes, +(\d+\.\d) Mbps; RX: +(\d+) ops, +(\d+) bytes, +(\d+\.\d) Mbps;")
    assert 4 <= len(lines) <= 6, lines
    matches = [form.fullmatch(line) for line in lines]
    assert all(matches), lines
    times = [float(m[1]) for m in matches]
    assert all(0.15 < b - a < 0.5 for a, b in zip(times, times[1:]))
    assert sum(int(m[3]) for m in matches) > 1 << 20 and sum(int(m[6]) for m in matches) == 0


# Files of samples.

def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_samples_of_a_stream_in_nepers_columns(tmp_path):
    path = tmp_path / "samples.csv"
    with Server("stream", "--json", f"-A{path}") as server:
        measured(server.client("-l", "1", "-F", "2", "--json"))
        record = server.records(1)[0]
        server.stop()
    header = path.read_text().splitlines()[0]
    assert header == "tid,flow_id,time,bytes_read,bytes_read/s,utime,stime,maxrss,minflt,majflt,nvcsw,nivcsw"
    rows = rows_of(path)
    assert {r["flow_id"] for r in rows} == {"0", "1"}
    for flow in ("0", "1"):
        mine = [r for r in rows if r["flow_id"] == flow]
        assert len(mine) >= 5
        assert [float(r["time"]) for r in mine] == sorted(float(r["time"]) for r in mine)
        assert [int(r["bytes_read"]) for r in mine] == sorted(int(r["bytes_read"]) for r in mine)
    total = sum(max(int(r["bytes_read"]) for r in rows if r["flow_id"] == flow) - min(int(r["bytes_read"]) for r in rows if r["flow_id"] == flow)
                for flow in ("0", "1"))
    assert total == pytest.approx(record["local"]["counts"]["rx_bytes"], rel=0.15)


def test_samples_of_rr_have_latencies(tmp_path):
    with Server("rr") as server:
        measured(server.client("-l", "1", "-A", "-p", "50,99", "--json", cwd=tmp_path))
    header = (tmp_path / "samples.csv").read_text().splitlines()[0]
    assert header == ("tid,flow_id,time,transactions,transactions/s,utime,stime,maxrss,minflt,majflt,nvcsw,nivcsw,"
                      "latency_min,latency_mean,latency_max,latency_stddev,latency_p50,latency_p99")
    rows = rows_of(tmp_path / "samples.csv")
    assert len(rows) >= 5
    busy = [r for r in rows if float(r["latency_max"]) > 0]
    assert busy and all(float(r["latency_min"]) <= float(r["latency_p50"]) <= float(r["latency_max"]) for r in busy)


@pytest.mark.parametrize("name, separator", (("rtt.txt", None), ("rtt.csv", ",")))
def test_every_latency_is_logged(tmp_path, name, separator):
    path = tmp_path / name
    with Server("rr") as server:
        record = measured(server.client("-l", "-300", "-F", "2", f"--log-rtt={path}", "--json"))
    header, *rows = path.read_text().splitlines()
    assert [word.strip() for word in header.split(separator)] == ["timestamp", "thread_id", "flow_id", "rtt"]
    assert len(rows) == 300
    values = [[word.strip() for word in row.split(separator)] for row in rows]
    assert {v[2] for v in values} <= {"0", "1"}
    times = [float(v[3]) for v in values]
    assert max(times) == pytest.approx(record["latency_ns"]["max"] / 1e9, rel=0.01)
    assert min(times) == pytest.approx(record["latency_ns"]["min"] / 1e9, rel=0.01)


def test_latencies_logged_are_limited_per_flow(tmp_path):
    with Server("rr") as server:
        done = server.client("-l", "-300", "-F", "2", "--log-rtt", "--logrtt-entries-per-flow", "20", "--format", "kv", cwd=tmp_path)
    assert done.kv["rtt_transactions_logged"] == "40"
    assert len((tmp_path / "rtt_samples.txt").read_text().splitlines()) == 41


def test_limited_by_is_a_finding_with_a_share():
    with Server("stream") as server:
        record = measured(server.client("-l", "0.5", "--json"))
    (text,) = findings(record, "limited_by")
    assert re.fullmatch(r"the client was limited by the .+ for \d+ % of the time", text)
    shares = record["directions"][0]["limits"]
    assert sum(shares.values()) == pytest.approx(1, abs=0.01) and all(0 <= v <= 1.001 for v in shares.values())


def test_cost_per_byte_is_told_for_user_and_kernel_apart():
    with Server("stream") as server:
        record = measured(server.client("-l", "0.5", "--json"))
    for end in ("local", "remote"):
        cpu = record[end]["cpu"]
        moved = record[end]["counts"]["tx_bytes"] + record[end]["counts"]["rx_bytes"]
        assert cpu["system_ns"] > 0 and cpu["system_ns_per_byte"] == pytest.approx(cpu["system_ns"] / moved, rel=1e-6)
        assert cpu["user_ns"] + cpu["system_ns"] < 1.2 * record[end]["window_ns"] * record[end]["threads"]
