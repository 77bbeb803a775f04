# SPDX-License-Identifier: BSD-3-Clause
"""weir's server with the real gRPC client."""
import concurrent.futures
import resource
import time

import pytest

from rpctest import Peer, call_of, details, grpc, message, start_request

START = "dxs.prober.AgentService/StartPings"
WATCH = "weir.v1.Agent/Watch"
STATUS = "weir.v1.Agent/GetStatus"


@pytest.fixture(name="peer", scope="module")
def fixture_peer():
    with Peer() as peer:
        yield peer
        peer.settle()


def refused(call, *args, **kwargs):
    with pytest.raises(grpc.RpcError) as error:
        call(*args, **kwargs)
    return error.value


def test_a_reply_carries_details_of_success(peer):
    reply, call = peer.stub(START).with_call(start_request(peers=["10.0.0.2"] * 400), timeout=10)
    assert reply == message("dxs.prober.StartPingsReply")()
    status, results = details(call.trailing_metadata())
    assert (status.code, results) == (0, [1] * 400)


def test_a_failure_carries_code_words_and_details(peer):
    error = refused(peer.stub(START), start_request(peers=["10.0.0.2", "fail", "10.0.0.2"]), timeout=10)
    assert error.code() == grpc.StatusCode.INTERNAL
    assert error.details() == '100 % of "it" änd\nmore failed'
    status, results = details(error.trailing_metadata())
    assert (status.code, status.message, results) == (13, error.details(), [1, 2, 1])


def test_a_handler_may_answer_later(peer):
    began = time.monotonic()
    peer.stub(START)(start_request(-300), timeout=10)
    assert time.monotonic() - began >= 0.3


def test_many_calls_at_once_on_one_connection(peer):
    start = peer.stub(START)
    calls = [start.future(start_request(-50), timeout=20) for _ in range(500)]
    assert [c.result() for c in calls] == [message("dxs.prober.StartPingsReply")()] * 500


def test_the_deadline_reaches_the_handler_and_ends_the_call(peer):
    before = peer.stats()["cancels"]
    left_ns = peer.stub(STATUS)(message("weir.v1.GetStatusRequest")(), timeout=7).pinglist_generation
    assert 5e9 < left_ns <= 7.5e9  # the client rounds up
    assert peer.stub(STATUS)(message("weir.v1.GetStatusRequest")()).pinglist_generation == 0
    assert refused(peer.stub(START), start_request(-1), timeout=0.3).code() == grpc.StatusCode.DEADLINE_EXCEEDED
    peer.settle(held=0, calls=0, cancels=before + 1)


def test_a_cancelled_call_is_cancelled_at_the_handler(peer):
    before = peer.stats()["cancels"]
    pending = peer.stub(START).future(start_request(-1), timeout=30)
    peer.settle(held=1)
    pending.cancel()
    peer.settle(held=0, calls=0, cancels=before + 1)


def test_a_client_that_vanishes_cancels_its_calls(peer):
    channel = peer.channel()
    pending = peer.stub(START, channel=channel).future(start_request(-1), timeout=30)
    peer.settle(held=1)
    channel.close()
    peer.settle(held=0, calls=0)
    assert pending.code() == grpc.StatusCode.CANCELLED


def test_a_stream_arrives_whole_and_in_order(peer):
    reports = peer.stub(WATCH, "unary_stream")(message("weir.v1.WatchRequest")(watcher="500 5000"), timeout=20)
    assert [(r.sequence, len(r.change[0].reason)) for r in reports] == [(i + 1, 5000) for i in range(500)]


def test_a_stream_may_end_with_an_error(peer):
    error = refused(list, peer.stub(WATCH, "unary_stream")(message("weir.v1.WatchRequest")(watcher="x"), timeout=10))
    assert (error.code(), error.details()) == (grpc.StatusCode.INVALID_ARGUMENT, "not COUNT BYTES: x")


@pytest.mark.parametrize("path", ["no.such/Method", "dxs.prober.AgentService/NoSuch", "weir.v1.Agent/SetPinglist", "x" * 300])
def test_what_is_not_there_is_unimplemented(peer, path):
    call = peer.channel().unary_unary("/" + path)
    assert refused(call, b"", timeout=10).code() == grpc.StatusCode.UNIMPLEMENTED


def test_a_message_that_is_no_message_is_refused(peer):
    call = peer.channel().unary_unary("/" + START)
    error = refused(call, b"\xff\xff\xff", timeout=10)
    assert (error.code(), error.details()) == (grpc.StatusCode.INTERNAL, "the message is no dxs.prober.StartPingsRequest")


def test_a_message_beyond_the_limit_is_refused():
    with Peer(message_bytes=10000) as peer:
        start = peer.stub(START)
        assert refused(start, start_request(peers=["x" * 10000]), timeout=10).code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        start(start_request(peers=["x" * 9900]), timeout=10)


def test_a_small_message_that_unpacks_to_much_is_refused():
    # Two bytes a target on the wire, some fifty in memory.
    with Peer(message_bytes=1 << 20) as peer:
        call = peer.channel().unary_unary("/" + START)
        error = refused(call, b"\x1a\x00" * (1 << 19), timeout=20)
        assert error.code() == grpc.StatusCode.INTERNAL


def test_compression_is_refused_and_what_is_taken_is_said(peer):
    error = refused(peer.stub(START), start_request(), timeout=10, compression=grpc.Compression.Gzip)
    assert error.code() == grpc.StatusCode.UNIMPLEMENTED
    assert dict(error.initial_metadata() or error.trailing_metadata()).get("grpc-accept-encoding", "identity") == "identity"


def test_more_calls_than_allowed_are_refused():
    with Peer(calls=3) as peer:
        start = peer.stub(START)
        held = [start.future(start_request(-1), timeout=30) for _ in range(3)]
        peer.settle(held=3)
        assert refused(start, start_request(), timeout=10).code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        for pending in held:
            pending.cancel()
        peer.settle()
        start(start_request(), timeout=10)


def test_streams_beyond_the_limit_wait_for_their_turn():
    with Peer(streams=2) as peer:
        start = peer.stub(START)
        calls = [start.future(start_request(-20), timeout=20) for _ in range(20)]
        for pending in calls:
            pending.result()


def test_idle_connections_make_room_for_new_ones():
    with Peer(connections=4) as peer:
        request = start_request()
        channels = [peer.channel(grpc__use_local_subchannel_pool=1) for _ in range(12)]
        for channel in channels:
            call_of(channel, START)(request, timeout=10, wait_for_ready=True)
        stats = peer.stats()
        assert stats["connections"] <= 4 and stats["evicted"] >= 8


def test_connections_in_use_are_not_thrown_out():
    with Peer(connections=2) as peer:
        channels = [peer.channel(grpc__use_local_subchannel_pool=1) for _ in range(2)]
        held = [call_of(c, START).future(start_request(-1500), timeout=20) for c in channels]
        peer.settle(held=2)
        third = peer.channel(grpc__use_local_subchannel_pool=1)
        assert refused(call_of(third, START), start_request(), timeout=1).code() in (
            grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
        for pending in held:
            pending.result()


def test_a_server_out_of_descriptors_waits_without_spinning():
    with Peer() as peer:
        channels = [peer.channel(grpc__use_local_subchannel_pool=1) for _ in range(3)]
        held = [call_of(c, START).future(start_request(-2000), timeout=30) for c in channels]
        peer.settle(held=3)
        resource.prlimit(peer.pid, resource.RLIMIT_NOFILE, (peer.descriptors(), 1024))
        late = call_of(peer.channel(grpc__use_local_subchannel_pool=1), START).future(start_request(), timeout=30)
        before = peer.cpu_seconds()
        time.sleep(1)
        assert peer.cpu_seconds() - before < 0.3
        assert not late.done()
        for pending in held:
            pending.result()
        late.result()  # the connections are idle now: one makes room


def test_a_graceful_end_lets_calls_finish():
    with Peer() as peer:
        start = peer.stub(START)
        pending = start.future(start_request(-700), timeout=20)
        peer.settle(held=1)
        stats = peer.stop()
        pending.result()
        assert (stats["late"], stats["cancels"]) == (1, 0)


def test_a_graceful_end_does_not_wait_for_ever():
    with Peer() as peer:
        pending = peer.stub(START).future(start_request(-1), timeout=30)
        peer.settle(held=1)
        began = time.monotonic()
        stats = peer.stop()
        assert time.monotonic() - began < 8
        assert stats["cancels"] == 1
        assert pending.exception().code() == grpc.StatusCode.UNAVAILABLE


def test_keepalive_pings_of_a_client_are_answered():
    with Peer() as peer:
        channel = peer.channel(grpc__keepalive_time_ms=100, grpc__keepalive_timeout_ms=2000, grpc__http2__max_pings_without_data=0)
        call_of(channel, START)(start_request(-1500), timeout=10)


def test_keepalive_of_the_server_leaves_a_living_client_alone():
    with Peer(keepalive_ms=50, patience_ms=2000) as peer:
        peer.stub(START)(start_request(-1500), timeout=10)


def test_health_is_asked_and_watched():
    check, watch = "grpc.health.v1.Health/Check", "grpc.health.v1.Health/Watch"
    request = message("grpc.health.v1.HealthCheckRequest")
    with Peer() as peer:
        channel = peer.channel()
        asked = call_of(channel, check)
        assert asked(request(), timeout=10).status == 1
        assert asked(request(service="dxs.prober.AgentService"), timeout=10).status == 1
        assert refused(asked, request(service="nobody"), timeout=10).code() == grpc.StatusCode.NOT_FOUND
        watched = call_of(channel, watch, "unary_stream")(request(service="dxs.prober.AgentService"), timeout=30)
        unknown = call_of(channel, watch, "unary_stream")(request(service="nobody"), timeout=30)
        assert (next(watched).status, next(unknown).status) == (1, 3)
        peer.signal(12)  # SIGUSR2
        assert next(watched).status == 2
        assert asked(request(service="dxs.prober.AgentService"), timeout=10).status == 2
        watched.cancel()
        unknown.cancel()


def test_memory_stays_where_it_is():
    with Peer() as peer:
        start = peer.stub(START)

        def burst(count):
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda _: start(start_request(peers=["10.0.0.2"] * 50), timeout=20), range(count)))

        burst(300)
        descriptors = peer.descriptors()
        burst(600)
        assert peer.descriptors() == descriptors
