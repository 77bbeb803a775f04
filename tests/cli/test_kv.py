# SPDX-License-Identifier: BSD-3-Clause
"""neper's dump of options: its keys, their order and their formats, for programs that read them."""
import pytest

from weirtest import link, run, weir

TAIL = """congestion_control no_delay tcp_tx_delay tcp_fastopen num_ports wait_start iostat_ms time_wait all_samples port
control_port host local_hosts max_pacing_rate interval freebind nonblocking nolog logtostderr pin_cpu dry_run debug client
ipv6 ipv4 stime_use_proc source_port suicide_length listen_backlog num_clients num_threads num_flows maxevents magic""".split()
HEADS = {
    "tcp_stream": """VERSION mark no_cork async_connect enable_tcp_maerts split_bidir enable_write enable_read rx_zerocopy
        skip_rx_copy buffer_size delay throughput_opt zerocopy reuseaddr edge_trigger test_length""".split(),
    "tcp_rr": """VERSION noburst reuseaddr async_connect delay mark logrtt_entries_per_flow log_rtt buffer_size test_length
        percentiles response_size request_size""".split(),
    "tcp_crr": """VERSION async_connect mark logrtt_entries_per_flow log_rtt buffer_size test_length percentiles
        response_size request_size""".split(),
}
# What neper itself prints where nothing was given; but for listen_backlog, which weir has longer.
DEFAULTS = {
    "tcp_stream": {"buffer_size": "16384", "throughput_opt": "Mb", "delay": "0", "async_connect": "0", "enable_read": "1",
                   "enable_write": "0"},
    "tcp_rr": {"buffer_size": "65536", "percentiles": "", "request_size": "1", "response_size": "1", "log_rtt": "",
               "logrtt_entries_per_flow": "10000", "async_connect": "0"},
    "tcp_crr": {"buffer_size": "65536", "request_size": "1", "async_connect": "1"},
}
COMMON = {"test_length": "10", "interval": "1.000000", "port": "12867", "control_port": "12866", "host": "", "local_hosts": "",
          "all_samples": "", "congestion_control": "", "max_pacing_rate": "0", "num_threads": "1", "num_flows": "1", "num_ports": "1",
          "num_clients": "1", "maxevents": "1000", "magic": "42", "source_port": "-1", "no_delay": "0", "client": "0"}


def dump(tmp_path, name, *words):
    done = run(link(tmp_path, name), "-n", *words)
    assert (done.status, done.stderr) == (0, "")
    return done


@pytest.mark.parametrize("name", HEADS)
def test_the_dump_of_a_link_has_nepers_keys_in_nepers_order(tmp_path, name):
    done = dump(tmp_path, name)
    assert [line.split("=")[0] for line in done.lines] == HEADS[name] + TAIL + ["total_run_time"]


@pytest.mark.parametrize("name, key", [(name, key) for name in HEADS for key in {**COMMON, **DEFAULTS[name]}])
def test_a_default_of_a_link_is_nepers(tmp_path, name, key):
    assert dump(tmp_path, name).kv[key] == {**COMMON, **DEFAULTS[name]}[key]


def test_a_client_writes_and_does_not_read(tmp_path):
    got = dump(tmp_path, "tcp_stream", "-c").kv
    assert (got["client"], got["enable_write"], got["enable_read"]) == ("1", "1", "0")
    got = dump(tmp_path, "tcp_stream", "-c", "-M").kv
    assert (got["enable_write"], got["enable_read"]) == ("0", "1")


def test_percentiles_are_sorted_and_known_by_nepers_short_names(tmp_path):
    assert dump(tmp_path, "tcp_rr", "-p", "99,50,999,9999,90,50").kv["percentiles"] == "50,90,99,99.9,99.99,"


def test_a_negative_length_is_a_number_of_transactions(tmp_path):
    done = dump(tmp_path, "tcp_rr", "-l", "-1000")
    assert done.lines[-1] == "total_transactions=1000"
    assert "total_run_time" not in done.kv


def test_weir_dumps_the_same_keys_as_the_link(tmp_path):
    assert list(weir("stream", "-n").kv) == list(dump(tmp_path, "tcp_stream").kv)
    assert list(weir("rr", "-n").kv) == list(dump(tmp_path, "tcp_rr").kv)
