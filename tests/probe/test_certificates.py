# SPDX-License-Identifier: BSD-3-Clause
"""Agents and controllers with certificates, on loopback addresses: who is let in, who is left out, and that it is said."""
import contextlib
import os
import shutil

import pytest
from probetest import WEIR, Agent, free_ports  # first: sets the path
from network import missing  # noqa: E402
from rpctest import Authority, expired  # noqa: E402
from weirtest import run  # noqa: E402

pytestmark = [
    pytest.mark.skipif(os.environ.get("RPC_TLS") != "yes", reason="built without OpenSSL"),
    pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed"),
]
NET = os.getpid() % 200 + 20  # two runs on one machine do not share addresses
AGENTS = 3


def nics(agent):
    return [f"127.{NET}.{agent}.{nic}" for nic in (1, 2)]


def san(agent):
    return ",".join(f"IP:{n}" for n in nics(agent))


def files(identity):
    return ["--cert", identity.cert, "--key", identity.key, "--ca", identity.ca]


def start(agent, port, folder, identity):
    program = [WEIR, "agent", "--nics", ",".join(nics(agent)), "-p", port, "--verbose", "--listen", ",".join(nics(agent)),
               "--results", folder, *files(identity)]
    return Agent(nics(agent), port, folder, program=program)


@pytest.fixture(scope="module", name="cluster")
def fixture_cluster(tmp_path_factory):
    """Three agents with good certificates, a fourth whose own has expired."""
    folder = tmp_path_factory.mktemp("tls")
    ca = Authority(folder)
    port = free_ports(1)
    with contextlib.ExitStack() as stack:
        for agent in range(1, AGENTS + 1):
            stack.enter_context(start(agent, port, folder / str(agent), ca.make(f"agent{agent}", san(agent))))
        stack.enter_context(start(9, port, folder / "9", expired(ca, "agent9", san(9))))
        yield ca, port, folder


def mesh(port, *words, agents=range(1, AGENTS + 1)):
    return run(WEIR, "probe", "mesh", "--hosts", ",".join(nics(a)[0] for a in agents), "-p", port, "--length", "1", "--json", *words,
               seconds=60)


def assert_refused(done, words):
    assert done.status == 1 and words in done.stderr and "no agent answers" in done.stderr, done


def test_the_right_certificate_probes_everything(cluster):
    ca, port, _ = cluster
    done = mesh(port, *files(ca.make("controller", "DNS:controller.example")))
    record = done.documents[-1]
    assert done.status in (0, 3) and record["pairs"] == AGENTS * (AGENTS - 1) * 2, done
    assert record["sent"] > 0 and record["lost"] == 0, done


def test_a_certificate_of_another_authority_stays_out(cluster, tmp_path):
    _, port, _ = cluster
    stranger = Authority(tmp_path, "stranger").make("controller", "DNS:controller.example")
    assert_refused(mesh(port, *files(stranger)), "certificate")


def test_an_expired_certificate_stays_out(cluster):
    ca, port, _ = cluster
    assert_refused(mesh(port, *files(expired(ca, "late", "DNS:late.example"))), "expired")


def test_no_certificate_stays_out(cluster):
    _, port, _ = cluster
    assert_refused(mesh(port), "the peer closed the connection at once: it may want TLS")
    assert "belong together" in mesh(port, "--cert", "x.pem").stderr


def test_an_agent_with_an_expired_certificate_is_left_out_and_the_others_go_on(cluster):
    ca, port, _ = cluster
    done = mesh(port, *files(ca.make("second", "DNS:second.example")), agents=[1, 9, 2, 3])
    record = done.documents[-1]
    assert f"{nics(9)[0]} does not answer" in done.stderr and "expired" in done.stderr, done
    assert record["pairs"] == AGENTS * (AGENTS - 1) * 2 and record["lost"] == 0 and record["silent"] == [nics(9)[0]], done


def test_runs_between_agents_are_asked_for_with_a_certificate(cluster):
    ca, port, _ = cluster
    hosts = ",".join(nics(a)[0] for a in range(1, AGENTS + 1))
    done = run(WEIR, "probe", "pairs", "--hosts", hosts, "-p", port, "--kind", "stream", "--length", "0.2", "--rounds", "1", "--slow",
               "1000", "--json", *files(ca.make("third", "DNS:third.example")), seconds=90)
    assert done.status == 0 and all(p["bits_per_s"] > 0 for p in done.documents[-1]["pair"]), done


def test_what_is_wrong_with_certificates_is_said(cluster, tmp_path):
    ca, port, _ = cluster
    good = ca.make("fourth", "DNS:fourth.example")
    done = mesh(port, "--cert", tmp_path / "none.pem", "--key", good.key, "--ca", good.ca)
    assert done.status == 1 and f"cannot read the certificate {tmp_path}/none.pem: No such file or directory" in done.stderr, done
    with Agent(nics(5), port, tmp_path / "5"):  # has none itself
        assert_refused(mesh(port, *files(good), agents=[5, 6]), "does not speak TLS")


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
@pytest.mark.parametrize("act", ["mesh", "stop"])
def test_a_certificate_is_for_the_name_that_was_dialled(tmp_path, act):
    """The name is that of a hosts file which only the controller sees; the certificates are for no address of a gRPC server."""
    ca, port = Authority(tmp_path), free_ports(1)
    known = tmp_path / "hosts"
    known.write_text("".join(f"{nics(a)[0]} node{a}.example\n" for a in (7, 8)))
    with start(7, port, tmp_path / "7", ca.make("node7", "DNS:node7.example")), \
            start(8, port, tmp_path / "8", ca.make("node8", "DNS:node8.example")):
        words = ["--length", "1", "--json"] if act == "mesh" else []
        done = run("unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', known, WEIR, "probe", act, "-p", port,
                   "--hosts", "node[7-8].example", *words, *files(ca.make("controller", "DNS:c.example")), seconds=60)
        assert "does not answer" not in done.stderr and "mismatch" not in done.stderr, done
        assert done.status == 0 if act == "stop" else done.documents[-1]["silent"] == [], done
