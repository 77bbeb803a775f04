# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of src/rpc share: weir's end as a process, messages made of the build's own descriptors, certificates.

    with Peer() as peer:
        start = peer.stub("dxs.prober.AgentService/StartPings")
        start(message("dxs.prober.StartPingsRequest")(), timeout=5)
"""
import datetime
import functools
import os
import pathlib
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

grpc = pytest.importorskip("grpc", reason="python3-grpcio is not installed")
pytest.importorskip("google.protobuf", reason="python3-protobuf is not installed")

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: E402

from weirtest import PATIENCE_S, Process, run, wait_for  # noqa: E402,F401

PEER = os.environ["RPC_PEER"]
HAVE_TLS = os.environ["RPC_TLS"] == "yes"
SECONDS = PATIENCE_S


def add_files(pool, files):
    """Adds files to a pool, imports first; returns how many there were."""
    left = {f.name: f for f in files}

    def add(name):
        file = left.pop(name, None)
        if file is None:
            return
        for other in file.dependency:
            add(other)
        pool.AddSerializedFile(file.SerializeToString())

    for name in list(left):
        add(name)
    return len(files)


@functools.lru_cache(None)
def own_pool():
    pool = descriptor_pool.DescriptorPool()
    data = pathlib.Path(os.environ["RPC_DESCRIPTORS"]).read_bytes()
    add_files(pool, descriptor_pb2.FileDescriptorSet.FromString(data).file)
    return pool


@functools.lru_cache(None)
def message(name):
    return message_factory.MessageFactory(own_pool()).GetPrototype(own_pool().FindMessageTypeByName(name))


@functools.lru_cache(None)
def method(path):
    service, name = path.split("/")
    return own_pool().FindServiceByName(service).methods_by_name[name]


def call_of(channel, path, kind="unary_unary"):
    described = method(path)
    return getattr(channel, kind)(
        "/" + path, request_serializer=lambda m: m.SerializeToString(),
        response_deserializer=message(described.output_type.full_name).FromString)


def start_request(qps=0, peers=()):
    request = message("dxs.prober.StartPingsRequest")(probe_rate_qps=qps)
    for peer in peers:
        request.targets.add(local_nic_ip_address="10.0.0.1", peer_nic_ip_address=peer)
    return request


def details(trailers):
    """The ConnectionResults in the trailers of a call, as a list."""
    status = message("google.rpc.Status").FromString(dict(trailers)["grpc-status-details-bin"])
    assert [any_.type_url for any_ in status.details] == ["type.googleapis.com/dxs.prober.ConnectionResults"]
    return status, list(message("dxs.prober.ConnectionResults").FromString(status.details[0].value).results)


class Peer(Process):
    """weir's server as a process; its statistics are read back from it."""

    def __init__(self, tls=None, **settings):
        words = [f"{k}={v}" for k, v in settings.items()]
        if tls:
            words += tls.words()
        super().__init__(PEER, "serve", *words)
        self.port = int(wait_for("the port", self._port))
        self.channels = []

    def _port(self):
        done = self.so_far()
        assert not self.ended(), done
        return done.stdout.split()[1] if "\n" in done.stdout else None

    def channel(self, **options):
        channel = grpc.insecure_channel(f"127.0.0.1:{self.port}", options=[(k.replace("__", "."), v) for k, v in options.items()])
        self.channels.append(channel)
        return channel

    def stub(self, path, kind="unary_unary", channel=None):
        return call_of(channel or self.channel(), path, kind)

    def stats(self):
        before = self.so_far().stdout.count("\n")
        self.signal(signal.SIGUSR1)
        wait_for("statistics", lambda: self.so_far().stdout.count("\n") > before)
        return self._stats()

    def _stats(self):
        words = self.so_far().stdout.splitlines()[-1].split()
        return {k: int(v) for k, v in zip(words[::2], words[1::2])}

    def settle(self, **wanted):
        """Wait until the statistics are as wanted; by default: nothing is held."""
        wanted = wanted or {"calls": 0, "buffered": 0, "held": 0}
        wait_for(f"statistics {wanted}", lambda: wanted.items() <= self.stats().items(), 10)

    def stop(self, seconds=SECONDS):
        """A graceful end, without a leak (the sanitizer would say), with nothing held."""
        self.signal(signal.SIGTERM)
        done = self.wait(seconds)
        assert done.status == 0, done
        stats = self._stats()
        assert (stats["connections"], stats["calls"], stats["buffered"], stats["held"]) == (0, 0, 0, 0), stats
        return stats

    def __exit__(self, *error):
        for channel in self.channels:
            channel.close()
        if error == (None, None, None) and not self.ended():
            self.stop()
        super().__exit__(*error)

    def resident_bytes(self):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")


def call(port, seconds=SECONDS, tls=None, **settings):
    """weir's client, one call, to its end. Lines "key value" of its output become a list of pairs."""
    words = [f"{k}={v}" for k, v in settings.items()] + (tls.words() if tls else [])
    done = run(PEER, "call", f"port={port}", *words, seconds=seconds)
    done.said = [tuple(line.split(" ", 1)) for line in done.lines]
    return done


class Authority:
    """A certificate authority in a folder, and the certificates it makes."""

    def __init__(self, folder, name="ca"):
        self.folder, self.name = pathlib.Path(folder), name
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                      "-subj", f"/CN={name}", "-keyout", self.path(".key"), "-out", self.path(".pem"))

    def path(self, suffix):
        return str(self.folder / (self.name + suffix))

    @staticmethod
    def _openssl(*words):
        subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=60)

    def make(self, name, san="IP:127.0.0.1", days="2"):
        base = str(self.folder / f"{self.name}-{name}")
        ext = pathlib.Path(base + ".ext")
        ext.write_text(f"subjectAltName={san}\n" if san else "basicConstraints=CA:FALSE\n")
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                      "-keyout", base + ".key", "-out", base + ".csr")
        self._openssl("x509", "-req", "-in", base + ".csr", "-CA", self.path(".pem"), "-CAkey", self.path(".key"),
                      "-CAcreateserial", "-days", days, "-extfile", str(ext), "-out", base + ".pem")
        return Identity(base + ".pem", base + ".key", self.path(".pem"))


def expired(ca, name, san):
    """openssl x509 makes nothing that has ended already, so the clock of the process is not asked: openssl ca is."""
    identity = ca.make(name, san)
    folder = os.path.dirname(identity.cert)
    for file, text in (("index.txt", ""), ("serial", "1000\n")):
        with open(os.path.join(folder, f"{name}-{file}"), "w", encoding="ascii") as out:
            out.write(text)
    config = os.path.join(folder, f"{name}.cnf")
    with open(config, "w", encoding="ascii") as out:
        out.write(f"[ca]\ndefault_ca=x\n[x]\ndatabase={folder}/{name}-index.txt\nserial={folder}/{name}-serial\n"
                  f"new_certs_dir={folder}\ndefault_md=sha256\npolicy=p\nunique_subject=no\n[p]\ncommonName=supplied\n"
                  f"[e]\nsubjectAltName={san}\n")
    past = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=30)
    dates = [(past + datetime.timedelta(days=d)).strftime("%Y%m%d%H%M%SZ") for d in (0, 1)]
    subprocess.run(["openssl", "ca", "-batch", "-config", config, "-cert", ca.path(".pem"), "-keyfile", ca.path(".key"),
                    "-in", identity.cert[:-4] + ".csr", "-out", identity.cert, "-startdate", dates[0], "-enddate", dates[1],
                    "-extensions", "e", "-notext"], check=True, capture_output=True, timeout=60)
    return identity


class Identity:
    def __init__(self, cert, key, ca):
        self.cert, self.key, self.ca = cert, key, ca

    def words(self):
        return [f"cert={self.cert}", f"key={self.key}", f"ca={self.ca}"]

    def grpc_channel(self, with_cert=True):
        read = lambda name: pathlib.Path(name).read_bytes()  # noqa: E731
        return grpc.ssl_channel_credentials(read(self.ca), *((read(self.key), read(self.cert)) if with_cert else ()))

    def grpc_server(self):
        read = lambda name: pathlib.Path(name).read_bytes()  # noqa: E731
        return grpc.ssl_server_credentials([(read(self.key), read(self.cert))], read(self.ca), True)
