"""How a member of ours lives and dies: killed, slow, closed, fenced, restarted; what its listeners may do; storms."""

import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compat.support.broker import BrokerProcess
from compat.support.members import Joining, Member, places, until, until_shared
from compat.support.members.headwater import settings
from compat.support.quick import lasting, quick
from compat.support.topics import fill, make_topic
from headwater.client import AsyncConsumer, CommitFailed, Consumer, KafkaError, TopicPartition

Join = Callable[..., Any]
BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])

DOOMED = """
import json, sys
from headwater.client import Consumer
consumer = Consumer(json.loads(sys.argv[1]))
consumer.subscribe([sys.argv[2]])
while True:
    consumer.poll(0.1)
    print(len(consumer.assignment()), flush=True)
"""


def configuration(broker: BrokerProcess, group: str, **more: object) -> dict[str, Any]:
    joining = Joining(group=group, protocol=str(more.pop("protocol", "classic")))
    return settings(broker.bootstrap, joining) | {name.replace("_", "."): value for name, value in more.items()}


@BOTH
def test_a_killed_member_is_missed_after_its_session(
    group_broker: BrokerProcess, group_topic: Callable[..., str], join: Join, protocol: str
) -> None:
    topic = group_topic(4)
    given = configuration(group_broker, topic, protocol=protocol)
    if protocol == "classic":
        given |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 600}
    process = subprocess.Popen(
        [sys.executable, "-c", DOOMED, json.dumps(given), topic], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process, process.stdout:
        while process.stdout.readline().strip() != "4":
            assert process.poll() is None
        survivor = join("headwater", group=topic, topics=(topic,), protocol=protocol)
        until(lambda: len(survivor.assignment) == 2, lambda: survivor.assignment)
        process.send_signal(signal.SIGKILL)
        process.wait()
        began = time.monotonic()
        until_shared([survivor], places(topic, 4))
        assert time.monotonic() - began > 2  # of six seconds: its last heartbeat may be a moment old


@BOTH
def test_a_slow_application_loses_its_partitions_and_comes_back(
    group_broker: BrokerProcess, group_topic: Callable[..., str], join: Join, protocol: str
) -> None:
    topic = group_topic(2)
    told: list[str] = []
    with Consumer(configuration(group_broker, topic, protocol=protocol, max_poll_interval_ms=1000)) as slow:
        slow.subscribe(
            [topic],
            on_assigned=lambda got: told.append(f"assigned {len(got)}"),
            on_revoked=lambda gone: told.append(f"revoked {len(gone)}"),
            on_lost=lambda gone: told.append(f"lost {len(gone)}"),
        )
        until(lambda: slow.poll(0.05) is not None and len(slow.assignment()) == 2, lambda: told)
        quick_one = join("headwater", group=topic, topics=(topic,), protocol=protocol)
        until(lambda: slow.poll(0.05) is not None and len(slow.assignment()) == 1, lambda: told)
        until_shared([quick_one], places(topic, 2))  # while nobody polls `slow`
        before = len(told)
        with pytest.raises((CommitFailed, KafkaError)):
            slow.commit({TopicPartition(topic, 0): 1})
        until(lambda: slow.poll(0.05) is not None and len(slow.assignment()) == 1, lambda: told)
        assert told[before] == "lost 1"
        quick_one.close()


@BOTH
def test_close_leaves_at_once(
    broker_factory: Callable[..., BrokerProcess], tmp_path: Path, topic: str, join: Join, protocol: str
) -> None:
    """Not with the end of its session, which lasts ten minutes: for the consumer protocol, the broker says so."""
    limits = {"group_consumer_session_timeout_ms": 600_000, "group_consumer_max_session_timeout_ms": 600_000}
    broker = broker_factory(tmp_path, **quick(**limits))
    make_topic(broker.bootstrap, topic, 4)

    def member() -> Member:
        joined: Member = join(
            "headwater", broker=broker, group=topic, topics=(topic,), protocol=protocol, session_ms=600_000
        )
        return joined

    stays, leaves = member(), member()
    until_shared([stays, leaves], places(topic, 4), [2, 2])
    leaves.close()
    until_shared([stays], places(topic, 4))  # hears of it with its next heartbeat; this does not wait for ten minutes


def test_the_second_of_two_static_members_fences_the_first(group_topic: Callable[..., str], join: Join) -> None:
    topic = group_topic(1)
    first = join("headwater", group=topic, topics=(topic,), instance="same")
    until_shared([first], places(topic, 1))
    second = join("headwater", group=topic, topics=(topic,), instance="same")
    until(lambda: any("FENCED_INSTANCE_ID" in error for error in first.errors), lambda: first.errors)
    until_shared([second], places(topic, 1))


def test_an_instance_that_is_in_use_is_not_given_away(group_topic: Callable[..., str], join: Join) -> None:
    topic = group_topic(1)
    first = join("headwater", group=topic, topics=(topic,), instance="same", protocol="consumer")
    until_shared([first], places(topic, 1))
    second = join("headwater", group=topic, topics=(topic,), instance="same", protocol="consumer")
    until(lambda: any("UNRELEASED_INSTANCE_ID" in error for error in second.errors), lambda: second.errors)
    assert first.assignment
    assert not first.errors


def test_a_full_group_says_so(
    broker_factory: Callable[..., BrokerProcess], tmp_path: Path, topic: str, join: Join
) -> None:
    broker = broker_factory(tmp_path, **quick(group_max_size=1))
    make_topic(broker.bootstrap, topic, 2)
    first = join("headwater", broker=broker, group=topic, topics=(topic,))
    until_shared([first], places(topic, 2))
    second = join("headwater", broker=broker, group=topic, topics=(topic,))
    until(lambda: any("GROUP_MAX_SIZE_REACHED" in error for error in second.errors), lambda: second.errors)
    first.close()
    until_shared([second], places(topic, 2))  # it tried again with every poll


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_listener_that_commits_hands_over_without_gap_or_repetition(
    group_broker: BrokerProcess, group_topic: Callable[..., str], join: Join, assignor: str
) -> None:
    topic = group_topic(4)
    sent = fill(group_broker.bootstrap, topic, 4, 200)
    got: list[bytes] = []
    given = configuration(group_broker, topic, partition_assignment_strategy=assignor, max_poll_records=7)
    with Consumer(given) as first:
        at: dict[TopicPartition, int] = {}

        def revoked(partitions: list[TopicPartition]) -> None:
            first.commit({each: at[each] for each in partitions if each in at})

        def read() -> bool:
            for record in first.poll(0.05):
                got.append(record.value)
                at[record.topic_partition] = record.offset + 1
            return len(first.assignment()) == 2

        first.subscribe([topic], on_revoked=revoked)
        while len(got) < 100:
            read()
        second = join("headwater", group=topic, topics=(topic,), assignor=assignor)
        until(read, lambda: (first.assignment(), second.assignment))
        until(lambda: read() and len(got) + len(second.received) >= len(sent), lambda: (len(got), len(second.received)))
        assert sorted(got + second.values) == sorted(sent)
        second.close()


def test_an_assignor_of_ones_own(group_broker: BrokerProcess, group_topic: Callable[..., str]) -> None:
    """All to the member with the lowest id: odd, but the group does as it says."""

    class AllToOne:
        name = "all-to-one"
        cooperative = False

        def user_data(self, topics, previous, previous_generation):
            return b"hello"

        def assign(self, partition_counts, members):
            assert all(member.user_data == b"hello" for member in members.values())
            everything = [TopicPartition(topic, index) for topic, n in partition_counts.items() for index in range(n)]
            return {min(members): everything}

    topic = group_topic(3)
    given = configuration(group_broker, topic) | {"partition.assignment.strategy": [AllToOne()]}
    with Consumer(given) as one, Consumer(given) as other:
        for consumer in (one, other):
            consumer.subscribe([topic])

        def sizes() -> list[int]:
            for consumer in (one, other):
                consumer.poll(0.02)
            return sorted(len(consumer.assignment()) for consumer in (one, other))

        until(lambda: sizes() == [0, 3], sizes)


def test_the_asynchronous_face_in_a_group(
    group_broker: BrokerProcess, group_topic: Callable[..., str], join: Join
) -> None:
    topic = group_topic(4)
    sent = fill(group_broker.bootstrap, topic, 4, 20)
    other = join("headwater", group=topic, topics=(topic,), assignor="cooperative-sticky", auto_commit_ms=50)
    until_shared([other], places(topic, 4))
    told: list[str] = []

    async def run() -> list[bytes]:
        got: list[bytes] = []
        given = configuration(group_broker, topic, partition_assignment_strategy="cooperative-sticky")
        async with AsyncConsumer(given) as consumer:

            async def assigned(partitions: list[TopicPartition]) -> None:
                await asyncio.sleep(0)
                told.append(f"assigned {len(partitions)}")

            consumer.subscribe([topic], on_assigned=assigned)
            deadline = time.monotonic() + 60
            while len(got) + len(other.received) < len(sent) or "assigned 2" not in told:
                got += [record.value for record in await consumer.poll(0.05)]
                assert time.monotonic() < deadline, (len(got), len(other.received), told)
        return got

    got = asyncio.run(run())
    assert sorted(set(got) | set(other.values)) == sorted(sent)
    assert "assigned 2" in told
    until_shared([other], places(topic, 4))


@pytest.mark.soak
@pytest.mark.timeout(lasting(300, 900))
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_storm_of_members_ends_in_order(
    group_broker: BrokerProcess, group_topic: Callable[..., str], join: Join, protocol: str
) -> None:
    """Ours and librdkafka's join and leave at random; in the end nothing is lost and everybody has its share."""
    members_at_most, partitions, seconds = lasting(6, 30), lasting(12, 60), lasting(2.0, 60.0)
    topic = group_topic(partitions)
    dice = random.Random(11)
    living: list[Member] = []
    everyone: list[Member] = []
    sent: list[bytes] = []
    number = 0
    joining = {"group": topic, "topics": (topic,), "assignor": "cooperative-sticky", "protocol": protocol}
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if len(living) < 2 or (len(living) < members_at_most and dice.random() < 0.6):
            name = "headwater" if dice.random() < 0.7 else "confluent"
            living.append(join(name, **joining, auto_commit_ms=200))
            everyone.append(living[-1])
        else:
            living.pop(dice.randrange(len(living))).close()
        sent += fill(group_broker.bootstrap, topic, partitions, 1, start=number)
        number += 1
        time.sleep(dice.uniform(0, 0.1))
    until_shared(living, places(topic, partitions))
    sent += fill(group_broker.bootstrap, topic, partitions, 1, start=number)
    until(
        lambda: set(sent) <= {value for one in everyone for value in one.values},
        lambda: sorted(set(sent) - {value for one in everyone for value in one.values}),
    )
    assert [error for member in everyone for error in member.errors if member.name == "headwater"] == []
