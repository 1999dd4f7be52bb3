"""SIGKILL and start again: what was acknowledged is there, at its offset, and producers go on where they were."""

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from compat.support.broker import BrokerProcess
from compat.support.clients import CLIENTS, Client, Message, Start, content
from compat.support.clients.javaclient import JavaClient
from compat.support.java import Java, JavaError
from compat.support.members import until
from compat.support.raw import Raw, batch, make_topic, produce, produced, wait_for_topic

BrokerFactory = Callable[..., BrokerProcess]


def _crash(broker: BrokerProcess) -> None:
    broker.kill()
    broker.start()


def test_acknowledged_records_survive_a_kill(
    broker_factory: BrokerFactory, tmp_path: Path, topic: str, client_named: Callable[[str], Client]
) -> None:
    """All clients and codecs in one go, because a broker of one's own costs a start."""
    broker = broker_factory(tmp_path)
    expected: dict[str, list[tuple[object, ...]]] = {}

    def write(round_: int) -> None:
        for name in sorted(CLIENTS):
            for codec in ("none", "lz4", "zstd"):
                where = f"{topic}.{name}"
                messages = [Message(value=f"{round_} {codec} {n}".encode(), key=b"k") for n in range(10)]
                offsets = client_named(name).produce(broker.bootstrap, where, messages, codec=codec)
                assert not offsets or offsets[0] == len(expected.get(where, []))
                expected.setdefault(where, []).extend(content(message) for message in messages)

    def check() -> None:
        for name in sorted(CLIENTS):
            messages = expected[f"{topic}.{name}"]
            received = client_named(name).consume(broker.bootstrap, f"{topic}.{name}", len(messages))
            assert [record.content for record in received] == messages
            assert [record.offset for record in received] == list(range(len(messages)))
            assert client_named(name).positions(broker.bootstrap, f"{topic}.{name}") == (0, len(messages))

    write(1)
    _crash(broker)
    check()
    write(2)
    check()
    broker.restart()
    check()


@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_a_java_idempotent_producer_goes_on(
    broker_factory: BrokerFactory, tmp_path: Path, topic: str, java: Java, ending: str
) -> None:
    broker = broker_factory(tmp_path)
    client = JavaClient(java)
    options: dict[str, Any] = {"idempotent": True, "handle": topic, "codec": "lz4"}
    for round_ in range(3):
        messages = [Message(value=b"%d" % (round_ * 10 + n)) for n in range(10)]
        assert client.produce(broker.bootstrap, topic, messages, **options) == list(
            range(round_ * 10, round_ * 10 + 10)
        )
        getattr(broker, ending)()
        broker.start()
    java.call("flush", handle=topic)
    received = client.consume(broker.bootstrap, topic, 30)
    assert [record.value for record in received] == [b"%d" % n for n in range(30)]


def test_nothing_acknowledged_is_lost_or_doubled_while_the_broker_dies(
    broker_factory: BrokerFactory, tmp_path: Path, topic: str, client_named: Callable[[str], Client]
) -> None:
    """An idempotent producer sends all the time; the broker is killed three times, at moments of no one's choosing."""
    broker = broker_factory(tmp_path)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "reconnect.backoff.max.ms": 200,
            "message.timeout.ms": 60_000,
            "logger": None,
            "log_level": 0,
        }
    )
    acknowledged: dict[bytes, int] = {}
    errors: list[Any] = []
    stop = threading.Event()

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            errors.append(error)
        else:
            acknowledged[message.value()] = message.offset()

    def run() -> None:
        number = 0
        while not stop.is_set():
            producer.produce(topic, b"%d" % number, partition=0, on_delivery=delivered)
            producer.poll(0.001)
            number += 1

    sender = threading.Thread(target=run)
    sender.start()
    try:
        for _ in range(3):
            time.sleep(random.uniform(0.3, 0.9))
            _crash(broker)
        goal = len(acknowledged) + 100  # the last of them by a broker that has been killed three times
        until(lambda: errors or len(acknowledged) > goal, lambda: len(acknowledged))
    finally:
        stop.set()
        sender.join()
    assert producer.flush(60) == 0
    assert not errors

    received = client_named("confluent").consume(broker.bootstrap, topic, len(acknowledged))
    values = [record.value for record in received]
    assert values == [b"%d" % n for n in range(len(acknowledged))]  # nothing lost, nothing twice, all in order
    assert {record.value: record.offset for record in received} == acknowledged
    assert client_named("confluent").positions(broker.bootstrap, topic).end == len(acknowledged)


def test_topics_configs_and_deletions_survive_a_kill(
    broker_factory: BrokerFactory, tmp_path: Path, topic: str, java: Java
) -> None:
    broker = broker_factory(tmp_path)

    def admin(call: str, **arguments: Any) -> Any:
        return java.admin(broker.bootstrap, call, **arguments)

    created = admin("createTopic", topic=topic, partitions=2, replication=1, configs={"retention.ms": "99999999"})
    admin("createTopic", topic=f"{topic}.gone", partitions=1, replication=1)
    JavaClient(java).produce(broker.bootstrap, topic, [Message(value=b"v")] * 10)
    changes = [["SET", "max.message.bytes", "1234567"]]
    admin("incrementalAlterConfigs", resourceType="TOPIC", resource=topic, changes=changes)
    admin("createPartitions", topic=topic, partitions=3)
    admin("deleteRecords", topic=topic, partition=0, before=4)
    admin("deleteTopic", topic=f"{topic}.gone")
    cluster = admin("describeCluster")["clusterId"]
    _crash(broker)
    wait_for_topic(broker.bootstrap, topic)
    described = admin("describeTopic", topic=topic)
    assert described["topicId"] == created["topicId"]
    assert len(described["partitions"]) == 3
    configs = admin("describeConfigs", resourceType="TOPIC", resource=topic)
    assert (configs["retention.ms"]["value"], configs["max.message.bytes"]["value"]) == ("99999999", "1234567")
    assert JavaClient(java).positions(broker.bootstrap, topic).end == 10
    with pytest.raises(JavaError):
        admin("describeTopic", topic=f"{topic}.gone")
    assert admin("describeCluster")["clusterId"] == cluster
    broker.stop()
    assert not list(Path(broker.log_dir).glob(f"{topic}.gone-0"))


def test_deleted_records_stay_deleted_after_a_clean_restart(
    broker_factory: BrokerFactory, tmp_path: Path, topic: str, java: Java
) -> None:
    broker = broker_factory(tmp_path)
    client = JavaClient(java)
    client.produce(broker.bootstrap, topic, [Message(value=b"%d" % n) for n in range(10)])
    java.admin(broker.bootstrap, "deleteRecords", topic=topic, partition=0, before=6)
    broker.restart()
    wait_for_topic(broker.bootstrap, topic)
    assert client.positions(broker.bootstrap, topic) == (6, 10)
    assert client.consume(broker.bootstrap, topic, 4)[0].value == b"6"


def test_a_torn_tail_is_cut_and_lost_indexes_are_made_again(
    broker_factory: BrokerFactory, tmp_path: Path, topic: str, client_named: Callable[[str], Client]
) -> None:
    broker = broker_factory(tmp_path)
    client = client_named("confluent")
    base = 1_700_000_000_000
    for start in range(0, 100, 10):
        messages = [Message(value=b"x" * 2000, timestamp=base + n) for n in range(start, start + 10)]
        client.produce(broker.bootstrap, topic, messages)
    broker.kill()
    directory = Path(broker.log_dir, f"{topic}-0")
    (segment,) = directory.glob("*.log")
    whole = segment.stat().st_size
    with segment.open("ab") as file:
        file.write(batch(b"half of this was written")[:-7])
    for index in [*directory.glob("*.index"), *directory.glob("*.timeindex")]:
        index.unlink()
    broker.start()
    wait_for_topic(broker.bootstrap, topic)
    assert client.positions(broker.bootstrap, topic) == (0, 100)
    assert segment.stat().st_size == whole
    assert [record.offset for record in client.consume(broker.bootstrap, topic, 100)] == list(range(100))
    assert client.consume(broker.bootstrap, topic, 1, start=Start("timestamp", base + 77))[0].offset == 77
    assert client.produce(broker.bootstrap, topic, [Message(value=b"next")]) == [100]


def test_a_clean_stop_leaves_the_marker_and_ends_well(
    broker_factory: BrokerFactory, tmp_path: Path, topic: str, apache: bool
) -> None:
    broker = broker_factory(tmp_path)
    make_topic(broker.bootstrap, topic)
    with Raw(broker.bootstrap) as connection:
        assert produced(connection.call(produce(topic, batch(b"v")))) == (0, 0)
        assert broker.stop() == (143 if apache else 0)
    marker = Path(broker.log_dir, ".kafka_cleanshutdown")
    assert marker.exists()
    broker.start()
    wait_for_topic(broker.bootstrap, topic)
    assert not marker.exists()


def test_a_second_broker_on_the_same_directory_is_refused(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    broker = broker_factory(tmp_path)
    second = type(broker)(tmp_path / "second", {"log.dirs": str(broker.log_dir)})
    with pytest.raises(AssertionError, match="ended before it was ready"):
        second.start()
    assert broker.alive
