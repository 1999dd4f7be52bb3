"""Pauses for quotas on real connections: when a request counts, how long its sender waits,
and what goes on meanwhile.
"""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.broker.deferred import Deferred
from headwater.broker.quotas.meter import Meter
from headwater.broker.registry import APIS
from headwater.metadata.image import ClientConfigured, UserConfigured
from headwater.server.charges import Charge
from headwater.server.connection import Connection
from headwater.server.dispatch import Begun
from headwater.server.node import Node
from headwater.wire.messages.api_versions import ApiVersionsResponse
from headwater.wire.messages.create_topics import CreateTopicsResponse
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headwater.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from unit.server.support.by_hand import TOPIC, Client, correlation, frame, produce, produced
from unit.server.test_quotas_on_connections import CLIENT_ID, USER, commit, throttle_of

API_VERSIONS = frame(18, 0, 3, [])


@pytest.fixture
def parked(monkeypatch: pytest.MonkeyPatch) -> list[Deferred]:
    """Requests of ApiVersions and Produce, which are answered when the test says so."""
    found: list[Deferred] = []

    def handle(*_: Any) -> Deferred:
        found.append(Deferred())
        return found[-1]

    for key in (0, 18):
        APIS[key].load()
        monkeypatch.setattr(APIS[key], "handle", handle)
    return found


def last_connection(node: Node) -> Connection:
    return list(node.server._connections.values())[-1]


def test_a_request_counts_when_it_was_handled_whether_its_sender_waits_for_the_answer_or_not(
    connect: Callable[[], Client], node: Node, parked: list[Deferred], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(node, ClientConfigured(None, CLIENT_ID, {"producer_byte_rate": "100"}))
    hasty = connect()
    hasty.send(produce(1, b"x" * 60_000, acks=-1))
    assert node.loop.run_until(lambda: len(parked) == 1, 60_000)
    connection = last_connection(node)
    hasty.socket.close()
    assert node.loop.run_until(lambda: connection.closed, 60_000)
    monkeypatch.undo()
    again = connect()
    again.send(produce(2))
    assert throttle_of(again.receive()) > 30_000


def test_a_shorter_pause_does_not_end_a_longer_one(connect: Callable[[], Client], node: Node) -> None:
    client = connect()
    client.send(b"")
    connection = last_connection(node)
    connection.mute(60_000)
    connection.mute(1)
    passed: list[bool] = []
    node.loop.call_later(20, lambda: passed.append(True))
    client.send(produce(1))
    assert node.loop.run_until(lambda: bool(passed), 60_000)
    assert connection.is_muted
    assert not client.has_answer()
    assert node.broker.partition(TOPIC, 0).log.log_end_offset == 0


def test_what_was_begun_before_a_pause_is_answered_in_it(
    connect: Callable[[], Client], node: Node, parked: list[Deferred]
) -> None:
    client = connect()
    client.send(API_VERSIONS)
    client.send(API_VERSIONS)
    last_connection(node).mute(60_000)
    for deferred in parked:
        deferred.complete(ApiVersionsResponse(error_code=0, api_keys=[]))
    assert [correlation(client.receive()) for _ in parked] == [3, 3]
    client.send(API_VERSIONS)
    assert not client.has_answer()
    assert len(parked) == 2


def test_frames_that_came_together_wait_for_the_end_of_the_pause(connect: Callable[[], Client], node: Node) -> None:
    commit(node, ClientConfigured(None, CLIENT_ID, {"producer_byte_rate": "1000"}))
    client = connect()
    client.send(produce(1, b"x" * 10_300) + produce(2) + produce(3))
    assert throttle_of(client.receive()) > 0
    assert node.broker.partition(TOPIC, 0).log.log_end_offset == 1
    assert [produced(client.receive())[0] for _ in range(2)] == [0, 0]


def test_answers_without_a_field_for_it_make_wait_as_well(connect: Callable[[], Client], node: Node) -> None:
    commit(node, UserConfigured(USER, {"request_percentage": "0.000001"}))
    client = connect()
    client.send(frame(17, 1, 1, SaslHandshakeRequest(mechanism="PLAIN").encode(1)))
    SaslHandshakeResponse.decode(client.receive(), 4, 1)
    assert last_connection(node).is_muted


def test_topics_that_a_question_makes_count_as_changes(make_node: Callable[..., Node]) -> None:
    node = make_node()
    commit(node, UserConfigured(USER, {"controller_mutation_rate": "0.1"}))  # 1.1 at once
    client = Client(node)
    for number, (name, waits) in enumerate({"made": True, "made ": False}.items()):
        client.send(frame(3, 8, number, MetadataRequest(topics=[MetadataRequestTopic(name=name)]).encode(8)))
        answer = MetadataResponse.decode(client.receive(), 4, 8)
        assert (answer.topics[0].error_code == 0) == waits
        assert (8000 < answer.throttle_time_ms <= 9000) == waits, "2 partitions of 1.1, and then it waits"
        last_connection(node)._unmute()
    client.socket.close()


def test_a_pause_in_the_middle_of_a_large_request_is_not_the_sender_s(
    connect: Callable[[], Client], node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = connect()
    client.send(produce(1, b"x" * 1_000_000)[:500_000])
    connection = last_connection(node)
    assert connection.is_in_frame
    monkeypatch.setattr(type(node.server.buffers), "has_waiters", property(lambda _: True))
    connection.mute(60_000)
    connection.frame_progress_ns -= 21_000_000_000
    node.server._close_idle()
    assert not connection.closed
    connection._unmute()
    node.server._close_idle()
    assert not connection.closed, "it has its time from now on"
    connection.frame_progress_ns -= 21_000_000_000
    node.server._close_idle()
    assert connection.closed


@pytest.mark.parametrize(("is_of_a_broker", "waits_ms"), [(True, 0), (False, 5000)])
def test_a_broker_does_not_wait_for_what_its_client_is_told(node: Node, is_of_a_broker: bool, waits_ms: int) -> None:
    """Over one connection it asks the controller in the name of all its clients."""
    commit(node, ClientConfigured(None, CLIENT_ID, {"controller_mutation_rate": "0.1"}))
    assert node.broker.quotas is not None
    begun = Begun(APIS[19], 7, 1, None, CLIENT_ID, is_of_a_broker)
    charge = Charge(Meter(node.broker.quotas, USER), begun, 100, 0, 0)
    response = CreateTopicsResponse(topics=[], throttle_time_ms=5000)
    assert charge.throttle_ms(response, 0) == waits_ms
    assert response.throttle_time_ms == 5000
