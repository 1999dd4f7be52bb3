"""Our consumer in groups, by both protocols: listeners that commit and seek, patterns, commits that others see."""

import asyncio
import re
import time
from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

from compat.support.broker import BrokerProcess
from compat.support.members import until
from compat.support.offsets import when_loaded
from compat.support.topics import fill, make_topic
from headwater.base.errors import UserError
from headwater.client import (
    Admin,
    AsyncConsumer,
    CommitFailed,
    Consumer,
    ConsumerRecord,
    OffsetAndMetadata,
    RebalanceListener,
    SubscriptionPattern,
    TopicPartition,
)

TIMEOUT_S = 60


@pytest.fixture(params=["classic", "consumer"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def consume(group_broker: BrokerProcess, topic: str) -> Iterator[Callable[..., Consumer]]:
    made: list[Consumer] = []

    def make(**settings: object) -> Consumer:
        settings.setdefault("auto_offset_reset", "earliest")
        settings.setdefault("group_id", topic)
        made.append(Consumer(bootstrap_servers=group_broker.bootstrap, **settings))
        return made[-1]

    yield make
    for consumer in made:
        consumer.close(5)


def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(records) < count and time.monotonic() < deadline:
        records += consumer.poll(0.5)
    assert len(records) >= count, f"{len(records)} of {count} came"
    return records


def committed_as_confluent_sees_it(bootstrap: str, group: str, topic: str, partitions: int = 1) -> list[int]:
    other = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        wanted = [confluent_kafka.TopicPartition(topic, number) for number in range(partitions)]
        return [each.offset for each in when_loaded(lambda: other.committed(wanted, TIMEOUT_S))]
    finally:
        other.close()


class Notes(RebalanceListener):
    def __init__(self) -> None:
        self.heard: list[tuple[str, list[TopicPartition]]] = []

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.heard.append(("assigned", sorted(partitions)))

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.heard.append(("revoked", sorted(partitions)))


def test_commits_are_seen_by_others_and_by_the_next_member(
    group_broker: BrokerProcess, topic: str, consume: Callable[..., Consumer], protocol: str
) -> None:
    make_topic(group_broker.bootstrap, topic)
    fill(group_broker.bootstrap, topic, 1, 30)
    place = TopicPartition(topic, 0)
    consumer = consume(group_protocol=protocol, enable_auto_commit=False, max_poll_records=10)
    consumer.subscribe([topic])
    read(consumer, 10)
    consumer.commit()
    assert committed_as_confluent_sees_it(group_broker.bootstrap, topic, topic) == [10]
    outcome: list[tuple[object, object]] = []
    consumer.commit_async({place: OffsetAndMetadata(12, "by hand")}, lambda *told: outcome.append(told))
    deadline = time.monotonic() + TIMEOUT_S
    while not outcome and time.monotonic() < deadline:
        consumer.poll(0.05, max_records=1)
    assert outcome[0][1] is None
    assert consumer.committed(place)[place] == OffsetAndMetadata(12, "by hand", -1)
    consumer.close()
    second = consume(group_protocol=protocol)
    second.subscribe([topic])
    assert read(second, 1)[0].offset == 12


def test_close_commits_and_leaves(
    group_broker: BrokerProcess, topic: str, consume: Callable[..., Consumer], protocol: str
) -> None:
    make_topic(group_broker.bootstrap, topic)
    fill(group_broker.bootstrap, topic, 1, 30)
    notes = Notes()
    session = {"session_timeout_ms": 1_200_000} if protocol == "classic" else {}  # the other protocol's is the broker's
    first = consume(group_protocol=protocol, auto_commit_interval_ms=3_600_000, **session)
    first.subscribe([topic], notes)
    read(first, 30)
    assert first.group_metadata().member_id
    first.close()
    place = TopicPartition(topic, 0)
    assert notes.heard == [("assigned", [place]), ("revoked", [place])]
    assert committed_as_confluent_sees_it(group_broker.bootstrap, topic, topic) == [30]
    second = consume(group_protocol=protocol)
    second.subscribe([topic])
    fill(group_broker.bootstrap, topic, 1, 1, 30)
    assert read(second, 1)[0].offset == 30  # the first has left: nobody waits for its session to end
    with pytest.raises(UserError, match="closed"):
        first.poll(0)


def test_two_members_share_and_the_listener_commits_first(
    group_broker: BrokerProcess, topic: str, consume: Callable[..., Consumer], protocol: str
) -> None:
    make_topic(group_broker.bootstrap, topic, 2)
    sent = fill(group_broker.bootstrap, topic, 2, 20)
    consumers: list[Consumer] = []
    seen: list[tuple[int, int]] = []

    def member() -> Consumer:
        consumer = consume(group_protocol=protocol, enable_auto_commit=False)
        consumer.subscribe(
            [topic],
            on_revoked=lambda _: consumer.commit(),
            on_assigned=lambda partitions: [consumer.position(each) for each in partitions],
        )
        consumers.append(consumer)
        return consumer

    def turn() -> None:
        for consumer in consumers:
            seen.extend((record.partition, record.offset) for record in consumer.poll(0.05))

    first = member()
    deadline = time.monotonic() + TIMEOUT_S
    while len(seen) < len(sent) and time.monotonic() < deadline:
        turn()
    second = member()
    while (len(first.assignment()), len(second.assignment())) != (1, 1) and time.monotonic() < deadline:
        turn()
    assert sorted(first.assignment() + second.assignment()) == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    fill(group_broker.bootstrap, topic, 2, 5, 20)
    while len(seen) < 50 and time.monotonic() < deadline:
        turn()
    assert sorted(seen) == [(number, at) for number in range(2) for at in range(25)]  # each once: the commit came first


def test_a_listener_may_seek_to_offsets_kept_elsewhere(
    group_broker: BrokerProcess, topic: str, consume: Callable[..., Consumer], protocol: str
) -> None:
    make_topic(group_broker.bootstrap, topic)
    fill(group_broker.bootstrap, topic, 1, 30)
    consumer = consume(group_protocol=protocol, enable_auto_commit=False)
    consumer.subscribe([topic], on_assigned=lambda partitions: [consumer.seek(each, 25) for each in partitions])
    assert [record.offset for record in read(consumer, 5)] == [25, 26, 27, 28, 29]
    assert committed_as_confluent_sees_it(group_broker.bootstrap, topic, topic) == [-1001]


def test_a_pattern_takes_topics_that_come_later(
    group_broker: BrokerProcess, topic: str, consume: Callable[..., Consumer], protocol: str
) -> None:
    make_topic(group_broker.bootstrap, f"{topic}.a")
    fill(group_broker.bootstrap, f"{topic}.a", 1, 3)
    consumer = consume(group_protocol=protocol, metadata_max_age_ms=300)
    consumer.subscribe(re.compile(re.escape(topic) + r"\.[ab]$"))
    assert len(read(consumer, 3)) == 3
    make_topic(group_broker.bootstrap, f"{topic}.b")
    make_topic(group_broker.bootstrap, f"{topic}.c")
    fill(group_broker.bootstrap, f"{topic}.b", 1, 2)
    assert {record.topic for record in read(consumer, 2)} == {f"{topic}.b"}
    assert consumer.subscription() == [f"{topic}.a", f"{topic}.b"]


def test_a_pattern_that_the_broker_matches(
    group_broker: BrokerProcess, topic: str, consume: Callable[..., Consumer]
) -> None:
    make_topic(group_broker.bootstrap, f"{topic}.a")
    fill(group_broker.bootstrap, f"{topic}.a", 1, 3)
    pattern = SubscriptionPattern(re.escape(topic) + r"\.[ab]")
    consumer = consume(group_protocol="consumer")
    consumer.subscribe(pattern)
    assert len(read(consumer, 3)) == 3
    with pytest.raises(UserError, match=r"group\.protocol=consumer"):
        consume().subscribe(pattern)


def test_unsubscribe_gives_everything_back(
    group_broker: BrokerProcess, topic: str, consume: Callable[..., Consumer], protocol: str
) -> None:
    make_topic(group_broker.bootstrap, topic)
    fill(group_broker.bootstrap, topic, 1, 5)
    notes = Notes()
    consumer = consume(group_protocol=protocol)
    consumer.subscribe([topic], notes)
    read(consumer, 5)
    consumer.unsubscribe()
    assert notes.heard[-1][0] == "revoked"
    assert (consumer.assignment(), consumer.subscription()) == ([], [])
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    assert len(read(consumer, 5)) == 5
    consumer.unsubscribe()
    consumer.subscribe([topic])
    fill(group_broker.bootstrap, topic, 1, 1, 5)
    assert read(consumer, 1)[0].offset == 5


def test_a_member_that_was_thrown_out_cannot_commit_and_joins_again(
    group_broker: BrokerProcess, topic: str, consume: Callable[..., Consumer]
) -> None:
    make_topic(group_broker.bootstrap, topic)
    fill(group_broker.bootstrap, topic, 1, 5)
    notes = Notes()
    consumer = consume(
        enable_auto_commit=False, max_poll_interval_ms=1000, session_timeout_ms=6000, heartbeat_interval_ms=200
    )
    consumer.subscribe([topic], notes)
    read(consumer, 5)
    with Admin(bootstrap_servers=group_broker.bootstrap) as admin:  # it leaves by itself, after max.poll.interval.ms
        until(lambda: admin.describe_group(topic).state == "Empty", lambda: admin.describe_group(topic))
    with pytest.raises(CommitFailed):
        consumer.commit()
    deadline = time.monotonic() + TIMEOUT_S
    heard = len(notes.heard)
    while "assigned" not in [kind for kind, _ in notes.heard[heard:]] and time.monotonic() < deadline:
        consumer.poll(0.2)
    assert consumer.assignment() == [TopicPartition(topic, 0)]


def test_a_listener_that_raises_is_heard_and_keeps_nobody_in_the_group(
    group_broker: BrokerProcess, topic: str, consume: Callable[..., Consumer]
) -> None:
    make_topic(group_broker.bootstrap, topic)
    fill(group_broker.bootstrap, topic, 1, 5)

    def refuse(_: list[TopicPartition]) -> None:
        raise RuntimeError("not now")

    first = consume(session_timeout_ms=1_200_000)
    first.subscribe([topic], on_assigned=refuse, on_revoked=refuse)
    with pytest.raises(RuntimeError, match="not now"):
        first.poll(TIMEOUT_S)
    assert len(read(first, 5)) == 5  # the partition is assigned nevertheless
    with pytest.raises(RuntimeError, match="not now"):
        first.close()
    second = consume()
    second.subscribe([topic])
    fill(group_broker.bootstrap, topic, 1, 1, 5)
    assert read(second, 1)[0].offset == 5  # nobody waits for a session to end


def test_the_asyncio_consumer_in_a_group(group_broker: BrokerProcess, topic: str, protocol: str) -> None:
    make_topic(group_broker.bootstrap, topic)
    fill(group_broker.bootstrap, topic, 1, 10)
    heard: list[str] = []

    async def main() -> None:
        async with AsyncConsumer(
            bootstrap_servers=group_broker.bootstrap,
            group_id=topic,
            group_protocol=protocol,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:

            async def revoked(partitions: list[TopicPartition]) -> None:
                await consumer.commit()
                heard.append(f"revoked {len(partitions)}")

            async def assigned(partitions: list[TopicPartition]) -> None:
                assert await consumer.position(partitions[0]) == 0
                heard.append(f"assigned {len(partitions)}")

            consumer.subscribe([topic], on_assigned=assigned, on_revoked=revoked)
            count = 0
            async for record in consumer:
                count += 1
                if record.offset == 6:
                    break
            assert count == 7

    asyncio.run(main())
    assert heard == ["assigned 1", "revoked 1"]
    assert committed_as_confluent_sees_it(group_broker.bootstrap, topic, topic) == [7]
