# SPDX-License-Identifier: BSD-3-Clause
"""Reflection, asked as grpcurl does: everything a call needs is learned from the server."""
import queue

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from rpctest import Peer, add_files, call_of, grpc, message

SERVICES = ["dxs.prober.AgentService", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection", "weir.v1.Agent"]
Request = message("grpc.reflection.v1.ServerReflectionRequest")


@pytest.fixture(name="peer", scope="module")
def fixture_peer():
    with Peer() as peer:
        yield peer


def ask(peer, *requests, version="v1"):
    info = call_of(peer.channel(), f"grpc.reflection.{version}.ServerReflection/ServerReflectionInfo", "stream_stream")
    return list(info(iter(requests), timeout=10))


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_the_services_are_listed(peer, version):
    answers = ask(peer, Request(host="h", list_services="*"), version=version)
    assert [s.name for s in answers[0].list_services_response.service] and len(answers) == 1
    assert sorted(s.name for s in answers[0].list_services_response.service) == SERVICES
    assert answers[0].valid_host == "h" and answers[0].original_request.list_services == "*"


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
@pytest.mark.parametrize("service", SERVICES)
def test_a_service_can_be_called_from_what_was_learned(peer, service, version):
    found = ask(peer, Request(file_containing_symbol=service), version=version)[0].file_descriptor_response
    files = [descriptor_pb2.FileDescriptorProto.FromString(f) for f in found.file_descriptor_proto]
    pool = descriptor_pool.DescriptorPool()
    add_files(pool, files)
    described = pool.FindServiceByName(service)
    assert files[0].name == described.file.name
    if service == "dxs.prober.AgentService":
        make = message_factory.MessageFactory(pool).GetPrototype
        stop = described.methods_by_name["StopPings"]
        call = peer.channel().unary_unary(f"/{service}/{stop.name}", request_serializer=lambda m: m.SerializeToString(),
                                          response_deserializer=make(stop.output_type).FromString)
        call(make(stop.input_type)(), timeout=10)


@pytest.mark.parametrize("symbol, file", [
    ("dxs.prober.Target", "prober.proto"),
    ("dxs.prober.Target.peer_nic_ip_address", "prober.proto"),
    ("dxs.prober.AgentService.StartPings", "prober.proto"),
    ("dxs.prober.Result", "prober.proto"),
    ("grpc.health.v1.HealthCheckResponse.ServingStatus", "health.proto"),
    ("google.rpc.Status", "status.proto"),
])
def test_symbols_of_every_kind_are_found(peer, symbol, file):
    found = ask(peer, Request(file_containing_symbol=symbol))[0].file_descriptor_response
    assert descriptor_pb2.FileDescriptorProto.FromString(found.file_descriptor_proto[0]).name == file


def test_imports_come_with_the_file(peer):
    found = ask(peer, Request(file_by_filename="status.proto"))[0].file_descriptor_response
    names = [descriptor_pb2.FileDescriptorProto.FromString(f).name for f in found.file_descriptor_proto]
    assert names == ["status.proto", "any.proto"]


@pytest.mark.parametrize("request_", [
    {"file_containing_symbol": "dxs.prober.Nothing"}, {"file_containing_symbol": "dxs.prober"},
    {"file_containing_symbol": ""}, {"file_containing_symbol": "dxs.prober.TargetX"}, {"file_by_filename": "no.proto"},
    {"all_extension_numbers_of_type": "dxs.prober.Target"}, {},
    {"file_containing_extension": {"containing_type": "x", "extension_number": 1}},
])
def test_what_is_not_there_is_not_found_and_the_stream_goes_on(peer, request_):
    answers = ask(peer, Request(**request_), Request(list_services=""))
    assert answers[0].error_response.error_code == 5
    assert len(answers[1].list_services_response.service) == len(SERVICES)


def test_many_questions_on_one_stream(peer):
    info = call_of(peer.channel(), "grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "stream_stream")
    questions = queue.Queue()
    answers = info(iter(questions.get, None), timeout=20)
    for _ in range(300):
        questions.put(Request(file_containing_symbol="weir.v1.Agent"))
        assert next(answers).file_descriptor_response.file_descriptor_proto
    questions.put(None)
    assert list(answers) == []


def test_a_flood_of_questions_is_answered_or_refused_but_none_is_dropped(peer):
    info = call_of(peer.channel(), "grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "stream_stream")
    answers = info(iter([Request(file_containing_symbol="weir.v1.Agent")] * 3000), timeout=20)
    count = 0
    with pytest.raises(grpc.RpcError) as error:
        for answer in answers:
            count += 1
            assert answer.file_descriptor_response.file_descriptor_proto
    assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert 0 < count < 3000
    peer.settle()


def test_a_stream_that_is_dropped_is_forgotten(peer):
    info = call_of(peer.channel(), "grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "stream_stream")
    questions = queue.Queue()
    answers = info(iter(questions.get, None), timeout=20)
    questions.put(Request(list_services=""))
    next(answers)
    assert peer.stats()["calls"] == 1
    answers.cancel()
    peer.settle()
    questions.put(None)
