# SPDX-License-Identifier: BSD-3-Clause
"""TLS with certificates at both ends: who gets in, who does not, and what is said about it."""
import os
import shutil
import socket
import ssl
import time

import pytest

from rpctest import Authority, HAVE_TLS, Identity, PEER, Peer, call, call_of, expired, grpc, message, run, wait_for
from test_client import REPLY, START, Handlers

pytestmark = [
    pytest.mark.skipif(not HAVE_TLS, reason="built without OpenSSL"),
    pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed"),
]


@pytest.fixture(name="ca", scope="module")
def fixture_ca(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(name="stranger", scope="module")
def fixture_stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("other"), "other").make("stranger")


@pytest.fixture(name="server", scope="module")
def fixture_server(ca):
    return ca.make("server", "IP:127.0.0.1,DNS:agent.example")


@pytest.fixture(name="client", scope="module")
def fixture_client(ca):
    return ca.make("controller", "DNS:controller.example")


@pytest.fixture(name="peer", scope="module")
def fixture_peer(server):
    with Peer(tls=server, patience_ms=1500) as peer:
        yield peer
        peer.settle()


def status(channel):
    return call_of(channel, "weir.v1.Agent/GetStatus")(message("weir.v1.GetStatusRequest")(), timeout=5)


def test_grpcio_with_a_certificate_gets_in(peer, client):
    with grpc.secure_channel(f"127.0.0.1:{peer.port}", client.grpc_channel()) as channel:
        status(channel)
        reports = call_of(channel, "weir.v1.Agent/Watch", "unary_stream")(
            message("weir.v1.WatchRequest")(watcher="300 20000"), timeout=20)
        assert len(list(reports)) == 300


def test_a_client_with_a_certificate_without_names_gets_in(peer, ca):
    with grpc.secure_channel(f"127.0.0.1:{peer.port}", ca.make("plain", san=None).grpc_channel()) as channel:
        status(channel)


def test_grpcio_without_a_certificate_stays_out(peer, client):
    with grpc.secure_channel(f"127.0.0.1:{peer.port}", client.grpc_channel(with_cert=False)) as channel:
        with pytest.raises(grpc.RpcError) as error:
            status(channel)
    assert error.value.code() == grpc.StatusCode.UNAVAILABLE


def test_weir_gets_in_by_address_and_by_name(peer, client):
    assert call(peer.port, tls=client).said[0] == ("code", "OK")
    assert call(peer.port, tls=client, name="agent.example").said[0] == ("code", "OK")
    assert call(peer.port, tls=client, many=300).said == [("OK", "300")]


@pytest.mark.parametrize("name", ["other.example", "127.0.0.2"])
def test_a_server_with_another_name_is_not_believed(peer, client, name):
    done = call(peer.port, tls=client, name=name)
    assert done.said[0] == ("code", "UNAVAILABLE")
    assert "mismatch" in dict(done.said)["words"], done


def test_a_server_of_another_authority_is_not_believed(peer, stranger):
    done = call(peer.port, tls=stranger)
    assert done.said[0] == ("code", "UNAVAILABLE")
    assert "the peer's certificate is not valid" in dict(done.said)["words"], done


def test_a_client_of_another_authority_stays_out(peer, stranger, ca):
    stranger.ca = ca.path(".pem")  # it believes the server; the server does not believe it
    done = call(peer.port, tls=stranger)
    assert done.said[0] == ("code", "UNAVAILABLE")
    assert "TLS failed: tlsv1 alert unknown ca" in dict(done.said)["words"], done


def test_an_expired_client_stays_out(peer, ca):
    done = call(peer.port, tls=expired(ca, "late", "DNS:late.example"))
    assert done.said[0] == ("code", "UNAVAILABLE")
    assert "expired" in dict(done.said)["words"], done


def test_an_expired_server_is_not_believed(ca, client):
    with Peer(tls=expired(ca, "old", "IP:127.0.0.1")) as peer:
        done = call(peer.port, tls=client)
    assert "the peer's certificate is not valid: certificate has expired" in dict(done.said)["words"], done


def test_plaintext_to_a_tls_port_and_back(peer, client):
    assert call(peer.port).said[0] == ("code", "UNAVAILABLE")
    with Peer() as plain:
        assert call(plain.port, tls=client, connect_ms=1000).said[0] == ("code", "UNAVAILABLE")


def test_a_client_that_does_not_offer_h2_stays_out(peer, client):
    for protocols in ([], ["http/1.1"]):
        context = ssl.create_default_context(cafile=client.ca)
        context.load_cert_chain(client.cert, client.key)
        if protocols:
            context.set_alpn_protocols(protocols)
        with socket.create_connection(("127.0.0.1", peer.port)) as plain, pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
                if not secure.recv(1):
                    raise EOFError


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_tls_stays_out(peer, client):
    context = ssl.create_default_context(cafile=client.ca)
    context.load_cert_chain(client.cert, client.key)
    context.set_alpn_protocols(["h2"])
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", peer.port)) as plain, pytest.raises((ssl.SSLError, ConnectionError)):
        context.wrap_socket(plain, server_hostname="127.0.0.1")


def test_a_handshake_that_does_not_end_is_ended(peer):
    with socket.create_connection(("127.0.0.1", peer.port)) as slow:
        slow.sendall(b"\x16\x03\x01")
        slow.settimeout(10)
        assert slow.recv(100) == b""


def test_weir_calls_a_real_server_over_tls(server, client):
    import concurrent.futures
    real = grpc.server(concurrent.futures.ThreadPoolExecutor(4), [Handlers({START: lambda *_: REPLY()})])
    port = real.add_secure_port("127.0.0.1:0", server.grpc_server())
    real.start()
    try:
        assert call(port, tls=client).said[0] == ("code", "OK")
        assert call(port, tls=client, many=100).said == [("OK", "100")]
    finally:
        real.stop(0).wait(10)


@pytest.fixture(name="renewed")
def fixture_renewed(tmp_path, server):
    """A server's files, to be replaced: its own copies."""
    copies = {kind: str(tmp_path / f"served.{kind}") for kind in ("cert", "key", "ca")}
    for kind, copy in copies.items():
        shutil.copy(getattr(server, kind), copy)
    return Identity(**copies)


def replace(served, identity):
    for kind in ("cert", "key", "ca"):
        shutil.copy(getattr(identity, kind), getattr(served, kind) + ".new")
        os.replace(getattr(served, kind) + ".new", getattr(served, kind))


def test_certificates_that_are_renewed_are_taken_by_the_next_connection(renewed, client, tmp_path):
    other = Authority(tmp_path, "next")
    newcomer = other.make("controller")
    with Peer(tls=renewed) as peer, grpc.secure_channel(f"127.0.0.1:{peer.port}", client.grpc_channel()) as channel:
        status(channel)
        replace(renewed, other.make("server"))
        wait_for("the new certificate", lambda: call(peer.port, tls=newcomer).said[0] == ("code", "OK"))
        assert call(peer.port, tls=client).said[0] == ("code", "UNAVAILABLE")
        status(channel)  # made with the old one, and kept
        assert peer.so_far().stderr == ""


@pytest.mark.parametrize("kind", ["cert", "key", "ca"])
def test_a_broken_file_leaves_the_old_certificate_in_use_and_is_said_once(renewed, server, client, kind):
    with Peer(tls=renewed) as peer:
        def warnings():
            assert call(peer.port, tls=client).said[0] == ("code", "OK")
            return peer.so_far().stderr.splitlines()

        with open(getattr(renewed, kind), "w", encoding="ascii") as out:
            out.write("no certificate")
        wait_for("a warning", warnings)
        time.sleep(1.2)
        assert len(warnings()) == 1
        assert "warning: the certificates read before stay in use: cannot read" in warnings()[0]
        os.remove(getattr(renewed, kind))
        wait_for("a second warning", lambda: len(warnings()) == 2)
        replace(renewed, server)
        time.sleep(1.2)
        assert len(warnings()) == 2


@pytest.mark.parametrize("broken, words", [
    ({"cert": "/no/such"}, "cannot read the certificate /no/such"),
    ({"key": "/no/such"}, "cannot read the private key /no/such"),
    ({"ca": "/no/such"}, "cannot read the certificates of the authority /no/such"),
])
def test_files_that_cannot_be_used_are_named(server, broken, words):
    identity = {"cert": server.cert, "key": server.key, "ca": server.ca, **broken}
    done = run(PEER, "serve", *[f"{k}={v}" for k, v in identity.items()])
    assert done.status == 1 and words in done.stderr


def test_a_key_of_another_certificate_is_refused(server, client):
    done = run(PEER, "serve", f"cert={server.cert}", f"key={client.key}", f"ca={server.ca}")
    assert done.status == 1 and client.key in done.stderr
