"""Transactions of every client: commit, abort, offsets with them, fencing, timeouts; read by every other."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from compat.support.broker import BrokerProcess
from compat.support.clients import CLIENTS, Client
from compat.support.java import Java, JavaError
from compat.support.members import until
from compat.support.quick import quick
from compat.support.topics import make_topic
from compat.support.transactional import PRODUCERS, TRANSACTION_MS, Refused, committed_offset, read

NAMES = sorted(PRODUCERS)
Make = Callable[..., Any]


@pytest.mark.parametrize("name", NAMES)
def test_commit_and_abort(
    group_broker: BrokerProcess,
    group_topic: Callable[..., str],
    transactional: Make,
    client_named: Callable[[str], Client],
    name: str,
) -> None:
    topic = group_topic(2)
    producer = transactional(name, topic)
    for number, end in enumerate(["commit", "abort", "commit", "abort"]):
        producer.begin()
        for partition in range(2):
            for record in range(3):
                producer.send((topic, partition), f"{end} {number} {record}")
        getattr(producer, end)()
    everything = [f"{end} {n} {r}" for n, end in enumerate(["commit", "abort"] * 2) for r in range(3)]
    good = [value for value in everything if value.startswith("commit")]
    for partition in range(2):
        assert read(group_broker.bootstrap, topic, partition) == good
        assert read(group_broker.bootstrap, topic, partition, committed=False) == everything
    for other in sorted(CLIENTS) if name == "java" else [name]:
        found = client_named(other).consume(group_broker.bootstrap, topic, len(good), committed=True)
        assert [record.value for record in found] == [value.encode() for value in good], other


def test_a_topic_that_takes_only_small_batches_sees_the_end_of_transactions(
    group_broker: BrokerProcess, group_topic: Callable[..., str], transactional: Make
) -> None:
    """Its `max.message.bytes` kept the markers out, which have 78 bytes, and the transaction hung for ever."""
    topic = group_topic(1)
    admin = AdminClient({"bootstrap.servers": group_broker.bootstrap})
    entry = ConfigEntry("max.message.bytes", "77", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(60)
    producer = transactional("confluent", topic)
    for end in ("commit", "abort", "commit"):
        producer.begin()
        producer.send((topic, 0), end)
        getattr(producer, end)()
    assert read(group_broker.bootstrap, topic, 0) == ["commit", "commit"]
    assert read(group_broker.bootstrap, topic, 0, committed=False) == ["commit", "abort", "commit"]


@pytest.mark.parametrize("name", NAMES)
def test_nobody_reads_past_an_open_transaction(
    group_broker: BrokerProcess, group_topic: Callable[..., str], transactional: Make, name: str
) -> None:
    topic = group_topic(1)
    first, second = transactional(name, f"{topic}.first"), transactional(name, f"{topic}.second")
    first.begin()
    first.send((topic, 0), "held back")
    second.begin()
    second.send((topic, 0), "behind it")
    second.commit()
    assert read(group_broker.bootstrap, topic) == []
    assert read(group_broker.bootstrap, topic, committed=False) == ["held back", "behind it"]
    first.commit()
    assert read(group_broker.bootstrap, topic) == ["held back", "behind it"]


@pytest.mark.parametrize("name", NAMES)
def test_offsets_are_part_of_the_transaction(
    group_broker: BrokerProcess, group_topic: Callable[..., str], transactional: Make, name: str
) -> None:
    topic = group_topic(1)
    place = (topic, 0)
    producer = transactional(name, topic)
    producer.begin()
    producer.offsets(topic, {place: 5})
    producer.send(place, "with offsets")
    producer.commit()
    assert committed_offset(group_broker.bootstrap, topic, place) == 5
    producer.begin()
    producer.offsets(topic, {place: 9})
    producer.abort()
    assert committed_offset(group_broker.bootstrap, topic, place) == 5
    producer.begin()
    producer.offsets(topic, {place: 7})
    producer.commit()
    assert committed_offset(group_broker.bootstrap, topic, place) == 7


@pytest.mark.parametrize("name", NAMES)
def test_a_zombie_is_fenced(
    group_broker: BrokerProcess, group_topic: Callable[..., str], transactional: Make, name: str
) -> None:
    """The second producer of an id ends what the first had begun, and the first can do nothing more."""
    topic = group_topic(1)
    zombie = transactional(name, topic)
    zombie.begin()
    zombie.send((topic, 0), "of the zombie")
    heir = transactional(name, topic)
    assert read(group_broker.bootstrap, topic) == []  # aborted, not open: the end is behind it
    heir.begin()
    heir.send((topic, 0), "of the heir")
    with pytest.raises(Refused) as refused:
        _finish(zombie, (topic, 0))
    assert refused.value.fenced, refused.value
    heir.commit()
    assert read(group_broker.bootstrap, topic) == ["of the heir"]
    assert "more of the zombie" not in read(group_broker.bootstrap, topic, committed=False)


def _finish(zombie: Any, place: tuple[str, int]) -> None:
    zombie.send(place, "more of the zombie")
    zombie.commit()


@pytest.mark.parametrize("name", NAMES)
def test_a_transaction_that_takes_too_long_is_aborted(
    group_broker: BrokerProcess, group_topic: Callable[..., str], transactional: Make, name: str
) -> None:
    topic = group_topic(1)
    slow = transactional(name, topic, timeout_ms=4000)  # in which the one record has to be there
    slow.begin()
    slow.send((topic, 0), "too late")
    other = transactional("confluent", f"{topic}.other")
    other.begin()
    other.send((topic, 0), "waits for it")
    other.commit()
    until(lambda: read(group_broker.bootstrap, topic) == ["waits for it"], "the last stable offset does not move")
    with pytest.raises(Refused):
        slow.commit()
    again = transactional(name, topic)
    again.begin()
    again.send((topic, 0), "in time")
    again.commit()
    assert read(group_broker.bootstrap, topic) == ["waits for it", "in time"]


@pytest.mark.parametrize("name", NAMES)
def test_offsets_in_a_transaction_are_the_first_that_is_heard_of_their_group(
    broker_factory: Callable[..., BrokerProcess], transactional: Make, tmp_path: Path, topic: str, name: str
) -> None:
    """Nobody has looked for the group's coordinator; and the second time, the only broker has died in between."""
    broker = broker_factory(tmp_path / "broker", **quick())
    make_topic(broker.bootstrap, topic, 1)
    producer = transactional(name, topic, broker=broker)

    def commit(offset: int) -> None:
        producer.begin()
        producer.offsets(topic, {(topic, 0): offset})
        producer.commit()
        assert committed_offset(broker.bootstrap, topic, (topic, 0)) == offset

    commit(5)
    broker.kill()
    broker.start()
    commit(6)


def test_admin_calls_about_transactions(
    group_broker: BrokerProcess, group_topic: Callable[..., str], transactional: Make, group_java: Java
) -> None:
    topic = group_topic(1)
    producer = transactional("java", topic)

    def admin(call: str, **arguments: Any) -> Any:
        return group_java.group_admin(group_broker.bootstrap, call, **arguments)

    assert admin("listTransactions")[topic]["state"] == "Empty"
    producer.begin()
    producer.send((topic, 0), "v")
    described = admin("describeTransaction", id=topic)
    assert (described["state"], described["partitions"]) == ("Ongoing", [[topic, 0]])
    assert (described["coordinator"], described["timeoutMs"]) == (0, TRANSACTION_MS)
    assert abs(described["startMs"] - time.time() * 1000) < 60_000
    (active,) = admin("describeProducers", place=[topic, 0])["producers"]
    assert (active["producerId"], active["transactionStart"], active["lastSequence"]) == (described["producerId"], 0, 0)
    producer.commit()
    until(lambda: admin("describeTransaction", id=topic)["state"] == "CompleteCommit", "the end of the transaction")
    assert admin("listTransactions")[topic]["state"] == "CompleteCommit"
    with pytest.raises(JavaError) as refused:
        admin("describeTransaction", id="of nobody")
    assert refused.value.code == 105  # TRANSACTIONAL_ID_NOT_FOUND
    producer.begin()
    producer.send((topic, 0), "of an ended producer")
    admin("fenceProducers", id=topic)
    with pytest.raises(Refused):
        producer.commit()
    assert read(group_broker.bootstrap, topic) == ["v"]


def test_a_transaction_is_aborted_by_hand(
    group_broker: BrokerProcess, group_topic: Callable[..., str], transactional: Make, group_java: Java
) -> None:
    """`kafka-transactions abort`: the marker is written past the coordinator."""
    topic = group_topic(1)
    producer = transactional("java", topic)
    producer.begin()
    producer.send((topic, 0), "hanging")
    (active,) = group_java.group_admin(group_broker.bootstrap, "describeProducers", place=[topic, 0])["producers"]
    group_java.group_admin(
        group_broker.bootstrap,
        "abortTransaction",
        place=[topic, 0],
        producerId=active["producerId"],
        producerEpoch=active["producerEpoch"],
        coordinatorEpoch=max(active["coordinatorEpoch"], 0),
    )
    assert read(group_broker.bootstrap, topic) == []
    assert read(group_broker.bootstrap, topic, committed=False) == ["hanging"]
    (ended,) = group_java.group_admin(group_broker.bootstrap, "describeProducers", place=[topic, 0])["producers"]
    assert ended["transactionStart"] == -1
