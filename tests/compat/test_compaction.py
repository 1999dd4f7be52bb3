"""Compacted topics as clients see them, and cleaned files as Apache Kafka's own tool reads them."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat.support.broker import ApacheBroker, BrokerProcess, HeadwaterBroker
from compat.support.clients import CLIENTS, Start
from compat.support.java import Java
from compat.support.offsets import when_loaded
from compat.support.raw import Raw, wait_until_led

PATIENCE_S = 60
BASE = int(time.time() * 1000) - 3_600_000
ROUNDS = 20
KEYS = 15
QUICK = {"log.cleaner.backoff.ms": "100", "log.initial.task.delay.ms": "100"}
CONFIG = {
    "cleanup.policy": "compact",
    "segment.ms": "500",
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "100",
}


def make_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic("t", 1, 1, config=CONFIG)]).values():
        future.result(PATIENCE_S)
    with Raw(bootstrap) as connection:
        wait_until_led(connection, "t")  # or what is refused at first comes behind what was sent after it


def write(bootstrap: str, topic: str, **settings: Any) -> dict[bytes, tuple[int, bytes | None]]:
    """A segment for each round: the time between them is the records'. The last record of each key, by key."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, **settings})
    last: dict[bytes, tuple[int, bytes | None]] = {}
    offset = 0
    for number in range(ROUNDS):
        for each in range(KEYS):
            key = b"key %d" % each
            if each >= number % KEYS:
                value = None if each == KEYS - 1 and number == ROUNDS - 1 else b"%d of %d" % (number, each)
                producer.produce(topic, value, key, 0, timestamp=BASE + number * 10_000, headers={"h": b"x"})
                last[key] = (offset, value)
                offset += 1
        assert producer.flush(PATIENCE_S) == 0
    producer.produce(topic, b"end", b"end", 0, timestamp=BASE + ROUNDS * 10_000)
    assert producer.flush(PATIENCE_S) == 0
    last[b"end"] = (offset, b"end")
    return last


def clean_to(log_dir: Path, topic: str) -> int:
    path = Path(log_dir, "cleaner-offset-checkpoint")
    if path.exists() and (text := path.read_text()):  # Apache Kafka makes it empty
        version, count, *lines = text.splitlines()
        assert (version, int(count)) == ("0", len(lines))
        for line in lines:
            name, partition, offset = line.split()
            if (name, partition) == (topic, "0"):
                return int(offset)
    return -1


def wait_until_clean(broker: BrokerProcess, topic: str, offset: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while clean_to(broker.log_dir, topic) < offset:
        assert time.monotonic() < deadline, f"not compacted to {offset}; the broker says:\n{broker.log[-3000:]}"
        time.sleep(0.05)


def read_all(bootstrap: str, topic: str) -> dict[bytes, tuple[int, bytes | None]]:
    """Every record, by key; no key may be there twice."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "x", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: dict[bytes, tuple[int, bytes | None]] = {}
    try:
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"no end after {len(found)} records"
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                return found
            assert message.key() not in found
            assert message.timestamp()[0] == TIMESTAMP_CREATE_TIME
            found[message.key()] = (message.offset(), message.value())
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_the_last_record_of_each_key_stays_at_its_offset(
    tmp_path: Path, broker_factory: Callable[..., BrokerProcess], java: Java, codec: str
) -> None:
    broker = broker_factory(tmp_path, **QUICK)
    make_topic(broker.bootstrap)
    last = write(broker.bootstrap, "t", **{"compression.type": codec, "enable.idempotence": True})
    wait_until_clean(broker, "t", last[b"end"][0])
    assert read_all(broker.bootstrap, "t") == last
    messages = CLIENTS["java"](java).consume(broker.bootstrap, "t", len(last), start=Start("beginning"))
    assert {message.key: (message.offset, message.value) for message in messages} == last
    broker.kill()
    broker.start()
    assert read_all(broker.bootstrap, "t") == last

    broker.stop()  # one that starts compacts once, whatever its back-off: files would go while they are read
    logs = sorted(Path(broker.log_dir, "t-0").glob("*.log"))
    assert len(logs) < ROUNDS / 2, "small segments become one"
    answer = java.tool("DumpLogSegments", "--deep-iteration", "--files", ",".join(str(path) for path in logs))
    assert answer.status == 0, answer
    assert answer.stdout.count("isvalid: true") >= 1
    assert "isvalid: false" not in answer.stdout
    assert answer.stdout.count("deleteHorizonMs: OptionalLong[") == 1, "the batch of the tombstone, and no other"


def test_a_directory_that_apache_kafka_compacted_is_read_and_compacted_further(tmp_path: Path, apache: bool) -> None:
    author = ApacheBroker(tmp_path, QUICK)
    author.start()
    try:
        make_topic(author.bootstrap)
        last = write(author.bootstrap, "t")
        wait_until_clean(author, "t", last[b"end"][0])
        author.stop()
        settings = {"log.cleanup.policy": "compact", "log.roll.ms": "500", "log.cleaner.min.cleanable.ratio": "0.01"}
        broker = (ApacheBroker if apache else HeadwaterBroker)(tmp_path, {**QUICK, **settings})
        broker.start()
        try:
            assert read_all(broker.bootstrap, "t") == last
            end_offset = last[b"end"][0] + 1
            producer = Producer({"bootstrap.servers": broker.bootstrap})
            for number, key in enumerate([b"key 3", b"key 3", b"last"]):
                producer.produce("t", b"again", key, 0, timestamp=BASE + (ROUNDS + 1 + number) * 10_000)
                assert producer.flush(PATIENCE_S) == 0
            wait_until_clean(broker, "t", end_offset + 2)
            last |= {b"key 3": (end_offset + 1, b"again"), b"last": (end_offset + 2, b"again")}
            assert read_all(broker.bootstrap, "t") == last
        finally:
            broker.kill()
    finally:
        author.kill()


def test_records_without_a_key_fail_for_themselves_and_the_rest_of_their_batch_as_bystanders(
    tmp_path: Path, broker_factory: Callable[..., BrokerProcess]
) -> None:
    """KIP-467, as librdkafka tells it to the application:
    the broker names the records for which it refused the batch.
    """
    broker = broker_factory(tmp_path)
    make_topic(broker.bootstrap)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 60_000, "batch.num.messages": 100})
    # What is produced before the topic is known waits in another queue, and would be moved while the batch is made.
    producer.list_topics("t", PATIENCE_S)
    told: dict[str, list[int]] = {}

    def delivered(error: KafkaError | None, message: Any) -> None:
        told.setdefault("none" if error is None else error.name(), []).append(int(message.value()))

    for number in range(100):
        key = None if number % 10 == 3 else b"k"
        producer.produce("t", b"%d" % number, key, 0, on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0
    assert told == {
        "INVALID_RECORD": list(range(3, 100, 10)),
        "_INVALID_DIFFERENT_RECORD": [number for number in range(100) if number % 10 != 3],
    }


def test_committed_offsets_are_compacted_and_outlive_a_kill(
    tmp_path: Path, broker_factory: Callable[..., BrokerProcess]
) -> None:
    """Thousands of commits of one group become one record for each partition; who commits meanwhile notices nothing."""
    broker = broker_factory(
        tmp_path,
        **QUICK,
        **{
            "offsets.topic.num.partitions": "1",
            "offsets.topic.segment.bytes": "1048576",
            "log.cleaner.min.cleanable.ratio": "0.01",
        },
    )
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "busy", "enable.auto.commit": False}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic("t", 50, 1)]).values():
        future.result(PATIENCE_S)
    consumer = Consumer(settings)
    when_loaded(lambda: consumer.commit(offsets=[TopicPartition("t", 0, 0)], asynchronous=False))
    deadline = time.monotonic() + 2 * PATIENCE_S
    number = 0
    while clean_to(broker.log_dir, "__consumer_offsets") < 5000:
        assert time.monotonic() < deadline, broker.log[-3000:]
        for _ in range(20):
            number += 1
            committed = consumer.commit(
                offsets=[TopicPartition("t", each, number, metadata="m" * 100) for each in range(50)],
                asynchronous=False,
            )
            assert all(each.error is None for each in committed)
    consumer.close()
    broker.kill()
    broker.start()
    consumer = Consumer({**settings, "bootstrap.servers": broker.bootstrap})
    try:
        wanted = [TopicPartition("t", each) for each in range(50)]
        found = when_loaded(lambda: consumer.committed(wanted, PATIENCE_S))
        assert [each.offset for each in found] == [number] * 50
    finally:
        consumer.close()
    directory = Path(broker.log_dir, "__consumer_offsets-0")
    active = max(directory.glob("*.log"))
    wait_until_clean(broker, "__consumer_offsets", int(active.stem))
    broker.stop()  # one that starts compacts once, whatever its back-off: files would go while they are counted
    size_bytes = sum(path.stat().st_size for path in directory.glob("*.log") if path.stem < active.stem)
    assert 0 < size_bytes < 100_000, "one record for each partition is left, and a few of the group"
