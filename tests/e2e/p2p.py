# SPDX-License-Identifier: BSD-3-Clause
"""weir p2p as processes: a server that listens when the constructor returns, and clients of it."""
import os

from weirtest import WEIR, Process, free_ports, is_listening, validate, wait_for

PLUGIN = os.environ.get("P2P_PLUGIN", "")
SCATTER = os.environ.get("P2P_SCATTER", "")
FAKE_CUDA = os.environ.get("P2P_FAKE_CUDA", "")
EXAMPLE = os.environ.get("P2P_EXAMPLE", "")
# Others' variables must not decide what a test does.
CLEAN = {name: "" for name in ("UCCL_TCPX_PERF_SIZE", "UCCL_TCPX_NUM_CHANNELS", "NCCL_P2P_NET_CHUNKSIZE")}


class P2pServer(Process):
    """first: the first of its GPUs, gpus: how many."""

    def __init__(self, *args, port=None, first=0, gpus=1, role="server", prefix=(), program=None, env=None, mem="host"):
        self.port = port or free_ports(first + gpus)
        self.prefix = list(prefix)
        words = program or [WEIR, "p2p", role, "--mem", mem, "--port-base", self.port]
        super().__init__(*words, *args, prefix=prefix, env={**CLEAN, **(env or {})})
        for gpu in range(first, first + gpus):
            wait_for("the server to listen", lambda at=self.port + gpu: self._is_ready(at))

    def _is_ready(self, port):
        assert not self.ended(), self.so_far()
        with_threads = [self.pid, *self.children()]
        return any(is_listening(pid, port) for pid in with_threads)

    def children(self):
        try:
            with open(f"/proc/{self.pid}/task/{self.pid}/children", encoding="ascii") as file:
                return [int(word) for word in file.read().split()]
        except OSError:
            return []

    def start_client(self, *args, host="127.0.0.1", role="client", prefix=(), env=None, mem="host"):
        return Process(WEIR, "p2p", role, host, "--mem", mem, "--port-base", self.port, *args, prefix=prefix,
                       env={**CLEAN, **(env or {})})

    def client(self, *args, seconds=45, **how):
        with self.start_client(*args, **how) as process:
            return process.wait(seconds)


def record_of(done, schema="weir/p2p/1"):
    """The one JSON document that a client printed, good and after its schema."""
    documents = done.documents
    assert len(documents) == 1 and documents[0]["schema"] == schema, done
    validate(documents[0])
    return documents[0]


def good(done, schema="weir/p2p/1"):
    record = record_of(done, schema)
    # On a busy machine two ends may see different rates; that is said, and is not what is tested here.
    assert (done.status, record["verdict"]) in ((0, "good"), (3, "doubtful")), done
    return record
