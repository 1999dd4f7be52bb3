"""Partitions that cannot be read hold up no others: paused ones, those of topics that are gone, and their metadata."""

import re
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.subscription import SubscriptionPattern
from headwater.wire.messages import fetch
from headwater.wire.messages.metadata import MetadataRequest
from headwater.wire.messages.offset_fetch import OffsetFetchRequest
from unit.client.consumer.fake_log import FakeConsumer, FakeLogs, one_broker
from unit.client.reactor.fakes import HOLD, FakeWorld

P0 = TopicPartition("orders", 0)
P1 = TopicPartition("orders", 1)
GONE = TopicPartition("gone", 0)


def reading(partitions: int = 1, **settings: object) -> tuple[FakeWorld, FakeLogs, FakeConsumer]:
    world, logs = one_broker(partitions)
    return world, logs, FakeConsumer(world, auto_offset_reset="earliest", **settings)


def values(consumer: FakeConsumer, count: int, timeout: float = 5.0) -> list[bytes | None]:
    return [record.value for record in consumer.read(count, timeout)]


def test_what_a_paused_partition_has_buffered_leaves_the_others_their_room() -> None:
    """It counted among `fetch.max.bytes`: once paused partitions had that much, nobody else was ever fetched."""
    _, logs, consumer = reading(2, fetch_max_bytes=1)
    logs.append(P0, [b"a", b"b"])
    consumer.assign(P0, P1)
    assert [record.value for record in consumer.poll(limit=1)] == [b"a"]
    consumer.do(lambda: consumer.core.pause([P0], True))
    assert consumer.core.subscription.states[P0].buffered_bytes > 0
    logs.append(P1, [b"x"])
    assert values(consumer, 1) == [b"x"]
    consumer.do(lambda: consumer.core.pause([P0], False))
    assert values(consumer, 1) == [b"b"]


def test_a_topic_that_is_gone_does_not_keep_others_from_a_new_leader() -> None:
    """Its metadata is asked for again and again; meanwhile nobody else's was, until it was five minutes old."""
    world, logs, consumer = reading()
    other = FakeLogs(world, world.broker(1))
    world.topics["gone"] = [0]
    consumer.assign(P0, GONE)
    assert consumer.poll(1) == []
    del world.topics["gone"]
    assert consumer.poll(3) == []
    world.topics["orders"] = [1]
    logs.errors[P0] = [
        fetch.PartitionData(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, high_watermark=-1)
        for _ in range(10_000)
    ]
    other.append(P0, [b"a"])
    assert values(consumer, 1, timeout=10) == [b"a"]


def test_a_follower_is_read_on_when_a_broker_without_the_topic_was_asked_for_metadata() -> None:
    """It was an AssertionError: who is the preferred replica was known, and its partition was not."""
    world, logs, consumer = reading(client_rack="here")
    near = FakeLogs(world, world.broker(1))
    for each in (logs, near):
        each.append(P0, [b"a"])
    logs.errors[P0] = [fetch.PartitionData(partition_index=0, high_watermark=1, preferred_read_replica=1, records=None)]
    consumer.assign(P0)
    assert values(consumer, 1) == [b"a"]
    assert consumer.poll(0.1) == []  # the follower holds the next fetch
    leaders = world.topics.pop("orders")
    world.run(consumer.core.session.refresh(["orders"]))
    world.topics["orders"] = leaders
    for each in (logs, near):
        each.append(P0, [b"b"])
    assert values(consumer, 1) == [b"b"]
    near.append(P0, [b"c"])
    logs.append(P0, [b"c"])
    assert values(consumer, 1) == [b"c"]


def test_a_coordinator_that_does_not_answer_keeps_a_position_no_longer_than_its_timeout() -> None:
    """It was `default.api.timeout.ms`, a minute, whatever timeout was given."""
    world, logs, consumer = reading(group_id="readers")
    logs.broker.on(OffsetFetchRequest, lambda _: HOLD)
    consumer.assign(P0)
    began = world.now
    with pytest.raises(KafkaError) as raised:
        world.run(consumer.core.position(P0, 1_000))
    assert raised.value.code == ErrorCode.REQUEST_TIMED_OUT
    assert 1 <= world.now - began < 2


@pytest.mark.parametrize(
    ("wanted", "may_make"), [(re.compile("g.*"), False), (SubscriptionPattern("g.*"), False), (["gone"], True)]
)
def test_a_topic_that_a_pattern_matched_is_not_made_again(wanted: Any, may_make: bool) -> None:
    """It could not be deleted: the consumer that had read it asked for it by name, and the broker made it."""
    world, logs, consumer = reading()
    core = consumer.core
    core.subscription.subscribe(wanted, None)
    core.subscription.add([GONE])
    core.fetcher.refresh(["gone"])
    world.pass_time(1)
    if not isinstance(wanted, re.Pattern):  # which is asked for with all topics
        world.run(core.topics._ask())
    asked = [each for each in logs.broker.received(MetadataRequest) if each.topics]
    assert {each.allow_auto_topic_creation for each in asked} == {may_make}
