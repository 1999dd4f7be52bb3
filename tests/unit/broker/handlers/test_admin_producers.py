"""DescribeProducers: what the log of a partition knows of its producers."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest


@pytest.fixture(name="lab")
def lab_with_a_topic(make_lab: Any) -> Any:
    lab = make_lab()
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    lab.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=False))
    return lab


def describe(lab: Any, topic: str, index: int) -> Any:
    answer = lab.ask(DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[index])]))
    (found,) = answer.topics
    (partition,) = found.partitions
    assert (found.name, partition.partition_index) == (topic, index)
    return partition


def test_producers_with_their_sequences_and_open_transactions(lab: Any) -> None:
    assert describe(lab, "t", 0).active_producers == []
    now = lab.clock.now_ms()
    records = [Record(offset, now, None, b"v") for offset in range(3)]
    for producer_id, transactional in ((70, False), (80, True)):
        batch = build_batch(
            records, producer_id=producer_id, producer_epoch=4, base_sequence=0, transactional=transactional
        )
        lab.broker.partition("t", 0).append_internal(memoryview(batch), now)
    lab.append("t", 0, 1)  # without a producer id
    found = describe(lab, "t", 0)
    assert (found.error_code, found.error_message) == (0, None)
    assert [
        (each.producer_id, each.producer_epoch, each.last_sequence, each.last_timestamp, each.coordinator_epoch)
        for each in found.active_producers
    ] == [(70, 4, 2, now, -1), (80, 4, 2, now, -1)]
    assert [each.current_txn_start_offset for each in found.active_producers] == [-1, 3]


@pytest.mark.parametrize(
    ("topic", "index", "code"),
    [
        ("none", 0, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("t", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("bad name", 0, "INVALID_TOPIC_EXCEPTION"),
    ],
)
def test_partitions_that_are_not_here(lab: Any, topic: str, index: int, code: str) -> None:
    assert ErrorCode(describe(lab, topic, index).error_code).name == code


def test_a_follower_tells_of_its_own_replica(lab: Any) -> None:
    """`kafka-transactions describe-producers --broker-id` asks it; it was refused, as if it had nothing to tell."""
    now = lab.clock.now_ms()
    batch = build_batch([Record(0, now, None, b"v")], producer_id=70, producer_epoch=4, base_sequence=0)
    partition = lab.broker.partition("t", 0)
    partition.append_internal(memoryview(batch), now)
    partition.is_leader = False
    found = describe(lab, "t", 0)
    assert [(each.producer_id, each.producer_epoch) for each in found.active_producers] == [(70, 4)]
