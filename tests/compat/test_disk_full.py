"""F12: the disk is full. Writes are refused with an error that clients try again, everything else goes on, and nothing
acknowledged is lost.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat.support.faults import Faults, FaultyBroker, SmallDisks
from compat.support.members import until
from compat.support.offsets import when_loaded
from compat.support.quick import QUICK, lasting
from compat.support.records import Ledger

MEGABYTE = 1 << 20
REFUSED = KafkaError.KAFKA_STORAGE_ERROR
PATIENCE_S = 60

pytestmark = [pytest.mark.soak, pytest.mark.timeout(lasting(300, 1800))]

Start = Callable[..., FaultyBroker]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """`start(size_bytes, "a", "b")`: a broker with log directories of these names, each a disk of that size."""
    brokers: list[FaultyBroker] = []

    def make(size_bytes: int, *names: str, **properties: object) -> FaultyBroker:
        broker = FaultyBroker(tmp_path, {name.replace("_", "."): str(value) for name, value in properties.items()})
        broker.properties |= {**QUICK, "log.dirs": ",".join(str(tmp_path / name) for name in names)}
        broker.properties |= {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
        broker.faults = Faults(tmp_path / "faults")
        broker.disks = SmallDisks(size_bytes, *(tmp_path / name for name in names))
        broker.disks.__enter__()
        brokers.append(broker)
        broker.start()
        return broker

    yield make
    for broker in brokers:
        broker.kill()
        assert broker.disks is not None
        broker.disks.__exit__()


def disks_of(broker: FaultyBroker) -> SmallDisks:
    assert broker.disks is not None
    return broker.disks


def create(broker: FaultyBroker, topic: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    settings = {name.replace("_", "."): value for name, value in config.items()}
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=settings)]).values():
        future.result(PATIENCE_S)


def write_until_refused(ledger: Ledger, size: int = 60_000, partition: int = 0) -> None:
    while not ledger.write(20, size, partition):
        pass


def test_nothing_acknowledged_is_lost_on_a_full_disk(start: Start, topic: str) -> None:
    broker = start(6 * MEGABYTE, "small", log_segment_bytes=MEGABYTE)
    disks = disks_of(broker)
    disks.put_ballast(disks.paths[0], MEGABYTE)
    create(broker, topic)
    ledger = Ledger(broker.bootstrap, topic)
    for ending in lasting([broker.kill], [broker.kill, broker.stop] * 3):
        write_until_refused(ledger)
        assert set(ledger.errors) == {REFUSED}
        assert broker.alive
        ledger.check()

        ending()
        broker.start()  # while there is no room
        ledger.check()
        assert "event=log-offline" not in broker.log

        disks.take_away(disks.paths[0], "ballast")
        assert ledger.write(5, 1000) == []
        ledger.check()
        disks.put_ballast(disks.paths[0], disks.free_bytes(disks.paths[0]) - 100_000)  # of which each round leaves less
    broker.stop()
    broker.start()
    ledger.check()


def test_a_producer_that_tries_again_succeeds_when_there_is_room(start: Start, topic: str) -> None:
    broker = start(4 * MEGABYTE, "small")
    disks = disks_of(broker)
    create(broker, topic)
    Ledger(broker.bootstrap, topic).write(1)
    disks.fill(disks.paths[0])
    patient = Ledger(broker.bootstrap, topic, retries=1_000_000)
    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(patient.write, 10, 5000)
        until(lambda: "event=append-failed" in broker.log, lambda: broker.log[-3000:], PATIENCE_S)
        assert not told.done()
        disks.take_away(disks.paths[0], "filler")
        assert told.result(PATIENCE_S) == []
    patient.check()


def test_one_full_disk_of_two_costs_only_what_lies_there(start: Start, topic: str) -> None:
    broker = start(4 * MEGABYTE, "a", "b")
    disks = disks_of(broker)
    create(broker, topic, 2)
    ledger = Ledger(broker.bootstrap, topic)
    for partition in (0, 1):
        assert ledger.write(3, partition=partition) == []
    full = next(partition for partition in (0, 1) if f"{topic}-{partition}" in disks.names(disks.paths[1]))
    disks.fill(disks.paths[1])
    assert set(ledger.write(3, 5000, full)) == {REFUSED}
    assert ledger.write(3, 5000, 1 - full) == []
    create(broker, f"{topic}.new")  # it goes where there is room
    assert f"{topic}.new-0" in disks.names(disks.paths[0])
    assert "event=log-directory-offline" not in broker.log
    broker.kill()
    broker.start()
    assert ledger.write(3, 5000, 1 - full) == []
    disks.take_away(disks.paths[1], "filler")
    assert ledger.write(3, 5000, full) == []
    for partition in (0, 1):
        ledger.check(partition)


def test_metadata_offsets_and_the_end_of_a_broker_on_a_full_disk(start: Start, topic: str) -> None:
    """Topics, configs and offsets are refused with an error that says why, and work again when there is room."""
    broker = start(6 * MEGABYTE, "small", log_flush_offset_checkpoint_interval_ms=100)
    disks = disks_of(broker)
    create(broker, topic)
    ledger = Ledger(broker.bootstrap, topic)
    assert ledger.write(10) == []
    commit(broker, topic, 3)
    disks.fill(disks.paths[0])

    with pytest.raises(KafkaException) as caught:
        create_many(broker, topic)
    assert caught.value.args[0].code() == REFUSED, caught.value
    with pytest.raises(KafkaException):
        commit_many(broker, topic)
    assert broker.alive
    ledger.check()
    assert broker.stop() == 0
    broker.start()
    ledger.check()

    disks.take_away(disks.paths[0], "filler")
    commit(broker, topic, 5)
    create(broker, f"{topic}.later")
    assert ledger.write(1) == []
    broker.stop()
    broker.start()
    ledger.check()
    assert committed(broker, topic) == 5


def create_many(broker: FaultyBroker, topic: str) -> None:
    for number in range(1000):  # until what is left of the last page of the metadata file is written full
        create(broker, f"{topic}.{number}")


def commit_many(broker: FaultyBroker, topic: str) -> None:
    """Until what is left of the last page of the offsets' log is written full."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "group", "log_level": 0})
    try:
        for _ in range(1000):
            _commit(consumer, topic, 4)
    finally:
        consumer.close()


def commit(broker: FaultyBroker, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "group", "log_level": 0})
    try:
        when_loaded(lambda: _commit(consumer, topic, offset))
    finally:
        consumer.close()


def _commit(consumer: Consumer, topic: str, offset: int) -> None:
    for told in consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False):
        if told.error is not None:
            raise KafkaException(told.error)


def committed(broker: FaultyBroker, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "group", "log_level": 0})
    try:
        (found,) = when_loaded(lambda: consumer.committed([TopicPartition(topic, 0)], PATIENCE_S))
        offset: int = found.offset
        return offset
    finally:
        consumer.close()


def test_retention_makes_room(start: Start, topic: str) -> None:
    """Segments that have outlived their purpose can be deleted although nothing can be written, also by the next
    process.
    """
    broker = start(6 * MEGABYTE, "small", log_retention_check_interval_ms=86_400_000)
    retention = {"segment_bytes": str(MEGABYTE), "retention_bytes": str(2 * MEGABYTE), "file_delete_delay_ms": "0"}
    create(broker, topic, **retention)
    ledger = Ledger(broker.bootstrap, topic)
    write_until_refused(ledger)
    broker.kill()
    broker.properties["log.retention.check.interval.ms"] = "200"
    broker.start()
    until(lambda: ledger.write(1, 60_000) == [], lambda: broker.log[-3000:], PATIENCE_S)


def test_the_only_segment_of_a_log_makes_room(start: Start, topic: str) -> None:
    """It has to be rolled before it can be deleted, and found no room for that: a small topic kept its disk full for
    ever.
    """
    broker = start(6 * MEGABYTE, "small", log_retention_check_interval_ms=86_400_000)
    create(broker, topic, segment_bytes=str(64 * MEGABYTE), retention_ms="1000", file_delete_delay_ms="0")
    ledger = Ledger(broker.bootstrap, topic)
    write_until_refused(ledger)
    disks = disks_of(broker)
    disks.fill(disks.paths[0])
    broker.kill()
    broker.properties["log.retention.check.interval.ms"] = "200"
    broker.start()
    until(lambda: ledger.write(1, 60_000) == [], lambda: broker.log[-3000:], PATIENCE_S)
