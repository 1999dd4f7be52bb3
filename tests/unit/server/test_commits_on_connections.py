"""Commits over a socket: alone in a read, several in one, cut in pieces, and behind an answer that is awaited."""

from collections.abc import Callable

import pytest

from headwater.server.node import Node
from headwater.wire.headers import decode_response_header
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from unit.server.support.by_hand import TOPIC, Client, correlation, fetch, frame, produce

GROUP = "group"
VERSION = 9
TRIES = 1000


def commit(number: int, offset: int, partition: int = 0) -> bytes:
    part = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="")
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[part])
    return frame(8, VERSION, number, OffsetCommitRequest(group_id=GROUP, topics=[topic]).encode(VERSION))


def code(answer: bytes) -> int:
    _, at = decode_response_header(answer, 8, VERSION)
    (topic,) = OffsetCommitResponse.decode(answer, at, VERSION).topics
    return topic.partitions[0].error_code


@pytest.fixture
def client(connect: Callable[[], Client]) -> Client:
    """The group has committed before: its coordinator is there."""
    client = connect()
    for _ in range(TRIES):
        client.send(frame(10, 4, 1, FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]).encode(4)))
        client.receive()
        client.send(commit(2, 1))
        if code(client.receive()) == 0:
            return client
    raise AssertionError("no coordinator")


def committed(node: Node) -> int:
    for hosted in node.broker.groups.runtime.active():
        found = hosted.shard.offsets.get(GROUP, TOPIC, 0)
        if found is not None:
            return found.offset
    return -1


def test_one_in_a_read(node: Node, client: Client) -> None:
    before = node.broker.metrics.apis[8].count
    for number in range(5):
        client.send(commit(number, 10 + number))
        answer = client.receive()
        assert (correlation(answer), code(answer)) == (number, 0)
        assert committed(node) == 10 + number
    assert node.broker.metrics.apis[8].count == before + 5


def test_several_in_a_read_are_answered_in_order(node: Node, client: Client) -> None:
    """The one in the middle names a partition that is not there, so that it goes another way."""
    client.send(commit(1, 20) + commit(2, 21, partition=99) + commit(3, 22) + produce(4) + commit(5, 23))
    answers = [client.receive() for _ in range(5)]
    assert [correlation(answer) for answer in answers] == [1, 2, 3, 4, 5]
    assert [code(answers[at]) for at in (0, 1, 2, 4)] == [0, 3, 0, 0]
    assert committed(node) == 23


def test_one_that_comes_in_pieces(node: Node, client: Client) -> None:
    data = commit(1, 30)
    client.send(data[:20])
    assert not client.has_answer()
    client.send(data[20:])
    assert code(client.receive()) == 0
    assert committed(node) == 30


def test_behind_a_fetch_that_waits(node: Node, client: Client, connect: Callable[[], Client]) -> None:
    client.send(fetch(7) + commit(8, 40))
    assert not client.has_answer()
    assert committed(node) == 40, "it is not held up, only its answer is"
    connect().send(produce(1))
    assert correlation(client.receive()) == 7
    answer = client.receive()
    assert (correlation(answer), code(answer)) == (8, 0)
