"""A log directory that Apache Kafka wrote, served by us: the same records, offsets, topic ids and producer state."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from compat.support.broker import ApacheBroker, BrokerProcess, HeadwaterBroker
from compat.support.clients import CLIENTS, CODECS, Client, Message, Start, content
from compat.support.clients.javaclient import JavaClient
from compat.support.java import Java
from compat.support.raw import Raw, batch, init_producer, produce, produced, wait_for_topic, wait_until_led

BASE = 1_700_000_000_000
PARTITIONED = "partitioned"
SEQUENCES = "sequences"
TRIMMED = "trimmed"


@dataclass
class Adopted:
    """What Apache Kafka was told, and the broker that holds its directory now."""

    broker: BrokerProcess
    topic_ids: dict[str, str] = field(default_factory=dict)
    messages: dict[str, list[Message]] = field(default_factory=dict)
    producer: tuple[int, int] = (-1, -1)


@pytest.fixture(scope="module", params=["stop", "kill"])
def adopted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, java: Java, apache: bool
) -> Iterator[Adopted]:
    """Apache Kafka writes and ends, cleanly or not; then the broker under test starts on its directory."""
    directory = tmp_path_factory.mktemp("adopted")
    author = ApacheBroker(directory, {})
    author.start()
    try:
        told = Adopted(author)
        _write(told, java)
        getattr(author, request.param)()
    finally:
        author.kill()
    told.broker = (ApacheBroker if apache else HeadwaterBroker)(directory, {})
    told.broker.start()
    yield told
    alive = told.broker.alive
    told.broker.kill()
    assert alive


def _write(told: Adopted, java: Java) -> None:
    bootstrap = told.broker.bootstrap

    def admin(call: str, **arguments: Any) -> Any:
        return java.admin(bootstrap, call, **arguments)

    client = JavaClient(java)
    for codec in CODECS:
        admin("createTopic", topic=codec, partitions=1, replication=1, configs={"segment.bytes": "1048576"})
        told.messages[codec] = []
        for start in range(0, 200, 20):
            messages = [_message(codec, n) for n in range(start, start + 20)]
            client.produce(bootstrap, codec, messages, codec=codec, idempotent=codec in ("lz4", "zstd"))
            told.messages[codec] += messages
    admin("createTopic", topic=PARTITIONED, partitions=3, replication=1)
    client.produce(bootstrap, PARTITIONED, [Message(value=b"only here")], partition=2)
    admin("createTopic", topic=TRIMMED, partitions=1, replication=1)
    client.produce(bootstrap, TRIMMED, [Message(value=b"%d" % n) for n in range(10)])
    admin("deleteRecords", topic=TRIMMED, partition=0, before=4)
    admin("createTopic", topic=SEQUENCES, partitions=1, replication=1)
    with Raw(bootstrap) as connection:
        wait_until_led(connection, SEQUENCES)
        told.producer = init_producer(connection)
        for sequence in range(3):
            assert _send(connection, told, sequence) == (0, sequence)
    told.topic_ids = admin("listTopics")


def _message(codec: str, number: int) -> Message:
    noise = b"".join(b"%08x" % ((number * 2654435761 + n * 40503) & 0xFFFFFFFF) for n in range(800))
    key = b"key %d" % number if number % 3 else None
    return Message(value=codec.encode() + b" %d " % number + noise, key=key, timestamp=BASE + number * 1000)


def _send(connection: Raw, told: Adopted, sequence: int) -> tuple[int, int]:
    producer_id, epoch = told.producer
    data = batch(b"%d" % sequence, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    return produced(connection.call(produce(SEQUENCES, data)))


@pytest.mark.parametrize("codec", CODECS)
def test_records_and_offsets(adopted: Adopted, codec: str, client_named: Callable[[str], Client]) -> None:
    messages = adopted.messages[codec]
    for name in sorted(CLIENTS):
        received = client_named(name).consume(adopted.broker.bootstrap, codec, len(messages))
        assert [record.offset for record in received[: len(messages)]] == list(range(len(messages))), name
        assert [record.content for record in received[: len(messages)]] == [content(message) for message in messages]
        assert [record.timestamp for record in received[: len(messages)]] == [message.timestamp for message in messages]


def test_topic_ids_and_partitions(adopted: Adopted, java: Java) -> None:
    wait_for_topic(adopted.broker.bootstrap, PARTITIONED)
    found = java.admin(adopted.broker.bootstrap, "listTopics")
    assert {name: found.get(name) for name in adopted.topic_ids} == adopted.topic_ids
    assert "__cluster_metadata" not in found
    described = java.admin(adopted.broker.bootstrap, "describeTopic", topic=PARTITIONED)
    assert [partition["leader"] for partition in described["partitions"]] == [0, 0, 0]


def test_partitions_hold_what_they_held(adopted: Adopted, client_named: Callable[[str], Client]) -> None:
    wait_for_topic(adopted.broker.bootstrap, PARTITIONED)
    client = client_named("confluent")
    ends = [client.positions(adopted.broker.bootstrap, PARTITIONED, partition) for partition in range(3)]
    assert (ends[0], ends[2]) == ((0, 0), (0, 1))  # 1 takes new records in another test


def test_deleted_records_stay_deleted(
    adopted: Adopted, client_named: Callable[[str], Client], request: pytest.FixtureRequest
) -> None:
    """After a kill the start offset may not have been written yet: Kafka does so once a minute."""
    wait_for_topic(adopted.broker.bootstrap, TRIMMED)
    beginning, end = client_named("confluent").positions(adopted.broker.bootstrap, TRIMMED)
    assert end == 10
    assert beginning in ((4,) if "stop" in request.node.name else (0, 4))


def test_from_a_timestamp(adopted: Adopted, client_named: Callable[[str], Client]) -> None:
    for name in ("confluent", "java"):
        start = Start("timestamp", BASE + 123_000)
        assert client_named(name).consume(adopted.broker.bootstrap, "gzip", 1, start=start)[0].offset == 123


def test_producer_state_goes_on(adopted: Adopted) -> None:
    wait_for_topic(adopted.broker.bootstrap, SEQUENCES)
    with Raw(adopted.broker.bootstrap) as connection:
        assert _send(connection, adopted, 2) == (0, 2)  # a duplicate is known
        assert _send(connection, adopted, 9)[0] == 45  # a gap is seen
        assert _send(connection, adopted, 3) == (0, 3)


def test_new_records_follow(adopted: Adopted, client_named: Callable[[str], Client]) -> None:
    client = client_named("java")
    wait_for_topic(adopted.broker.bootstrap, PARTITIONED)
    end = client.positions(adopted.broker.bootstrap, PARTITIONED, 1).end
    assert client.produce(adopted.broker.bootstrap, PARTITIONED, [Message(value=b"new")], partition=1) == [end]
    received = client.consume(adopted.broker.bootstrap, PARTITIONED, 1, partition=1, start=Start("offset", end))
    assert received[0].value == b"new"
