# SPDX-License-Identifier: BSD-3-Clause
"""Metrics over HTTP: read by hand, by rude clients, and by a real Prometheus."""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import socket
import sys
import time
import urllib.parse
import urllib.request

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from weirtest import Process, free_ports, wait_for  # noqa: E402

PEER = os.environ["WEB_PEER"]


class Web(Process):
    def __init__(self, name="a"):
        super().__init__(PEER, name)
        self.port = int(wait_for("the port", lambda: self.so_far().stdout.split()[1:])[0])

    def __exit__(self, *error):
        if not self.ended():
            self.signal(15)
            assert self.wait().status == 0
        super().__exit__(*error)


@pytest.fixture(name="web", scope="module")
def fixture_web():
    with Web() as web:
        yield web


def ask(web, path, method="GET", **how):
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=10)
    connection.request(method, path, **how)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response, body


def test_metrics_are_served(web):
    response, body = ask(web, "/metrics")
    assert response.status == 200
    assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'weir_test_rtt_seconds_bucket{node="a",nic="eth\\"1\\"",le="0.01"}' in body
    assert 'weir_test_rtt_seconds_count{node="a",nic="eth\\"1\\""} 1000\n' in body


@pytest.mark.parametrize("method, path, status", [
    ("HEAD", "/metrics", 200), ("GET", "/", 404), ("GET", "/metrics/", 404), ("GET", "/metrics?x=1", 200), ("GET", "/../metrics", 404),
    ("POST", "/metrics", 405), ("DELETE", "/metrics", 405), ("GET", "/broken", 500), ("GET", "/" + "x" * 10000, 404),
    ("GET", "/" + "x" * 100000, 414),
], ids=range(10))
def test_what_is_asked_is_answered_or_refused(web, method, path, status):
    response, body = ask(web, path, method, body=b"x" * 5000 if method == "POST" else None)
    assert response.status == status
    assert "half of it" not in body and (method != "HEAD" or not body)


def test_a_connection_serves_many_requests(web):
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=10)
    for _ in range(200):
        connection.request("GET", "/metrics")
        assert connection.getresponse().read().endswith(b"\n")
    connection.close()


def test_rude_clients_disturb_nobody(web):
    descriptors = web.descriptors()
    with contextlib.ExitStack() as stack:
        rude = [stack.enter_context(socket.create_connection(("127.0.0.1", web.port))) for _ in range(40)]
        for i, one in enumerate(rude):
            one.sendall([b"GET /metrics HTTP/1.1\r\n", b"\0" * 500, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"G"][i % 4])
        assert ask(web, "/metrics")[0].status == 200
        before = web.cpu_seconds()
        time.sleep(0.5)
        assert web.cpu_seconds() - before < 0.2, "it waits without spinning"
    wait_for("descriptors", lambda: web.descriptors() <= descriptors, 10)


def test_prometheus_scrapes_two_and_answers_a_query(tmp_path):
    prometheus = shutil.which("prometheus")
    if not prometheus:
        pytest.skip("no prometheus here: apt-get install prometheus")
    port = free_ports(1)
    with Web("a") as a, Web("b") as b:
        config = tmp_path / "prometheus.yml"
        config.write_text(json.dumps({
            "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms"},
            "scrape_configs": [{"job_name": "weir", "static_configs": [{"targets": [f"127.0.0.1:{a.port}", f"127.0.0.1:{b.port}"]}]}],
        }))

        def query(words):
            url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": words})
            try:
                with urllib.request.urlopen(url, timeout=5) as response:
                    return json.load(response)["data"]["result"]
            except OSError:
                return []

        with Process(prometheus, f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/data",
                     f"--web.listen-address=127.0.0.1:{port}") as server:
            wait_for("two targets that are up", lambda: server.ended() or len(query("up == 1")) == 2, 30)
            assert not server.ended(), server.so_far()
            p99 = query("histogram_quantile(0.99, sum by (le) (weir_test_rtt_seconds_bucket))")
            counts = query("sum by (node) (weir_test_rtt_seconds_count)")
            info = query("weir_build_info")
    # 10 us to 10 ms, evenly: the 99th percentile is 9.9 ms.
    assert 0.008 < float(p99[0]["value"][1]) <= 0.01
    assert {r["metric"]["node"]: r["value"][1] for r in counts} == {"a": "1000", "b": "1000"}
    assert len(info) == 2
