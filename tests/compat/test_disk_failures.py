"""F13, F15 and F9: syncs that fail, a disk that turns read-only, a compaction that finds no room, and power that goes.

What was acknowledged as flushed is there afterwards; what a failed sync has left unknown is not believed.
"""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient, NewTopic

from compat.support.faults import Faults, FaultyBroker
from compat.support.members import until
from compat.support.quick import QUICK, lasting
from compat.support.records import Ledger, read_all

REFUSED = KafkaError.KAFKA_STORAGE_ERROR
PATIENCE_S = 60
HASTY = {"message.timeout.ms": 3000}  # for what nobody will answer

pytestmark = [pytest.mark.soak, pytest.mark.timeout(lasting(300, 1800))]

Start = Callable[..., FaultyBroker]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """`start("a", "b")`: a broker with log directories of these names."""
    brokers: list[FaultyBroker] = []

    def make(*names: str, **properties: object) -> FaultyBroker:
        broker = FaultyBroker(tmp_path, {name.replace("_", "."): str(value) for name, value in properties.items()})
        broker.properties |= {**QUICK, "log.dirs": ",".join(str(tmp_path / name) for name in names)}
        broker.faults = Faults(tmp_path / "faults")
        brokers.append(broker)
        broker.start()
        return broker

    yield make
    for broker in brokers:
        broker.kill()


def create(broker: FaultyBroker, topic: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    settings = {name.replace("_", "."): value for name, value in config.items()}
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=settings)]).values():
        future.result(PATIENCE_S)


def home(broker: FaultyBroker, topic: str, partition: int) -> Path:
    (found,) = [path for path in broker.directory.glob(f"*/{topic}-{partition}") if path.is_dir()]
    return found.parent


@pytest.mark.parametrize("fault", ["sync_error", "write_error"])
def test_a_device_that_fails_takes_only_its_directory_offline(start: Start, topic: str, fault: str) -> None:
    """A sync that fails with EIO; a file system that has turned read-only under the broker."""
    broker = start("a", "b")
    create(broker, topic, 2, flush_messages="1")
    ledger = Ledger(broker.bootstrap, topic)
    for partition in (0, 1):
        assert ledger.write(5, partition=partition) == []
    lost = next(partition for partition in (0, 1) if home(broker, topic, partition).name == "b")
    broker.faults.only(broker.directory / "b")
    broker.faults.set(**{fault: errno.EIO if fault == "sync_error" else errno.EROFS})
    refused = ledger.write(3, partition=lost)
    assert len(refused) == 3
    assert REFUSED in refused
    assert "event=log-directory-offline" in broker.log

    broker.faults.set(sync_error=0, write_error=0)
    assert len(ledger.write(1, partition=lost)) == 1, "a sync that succeeds afterwards proves nothing"
    assert ledger.write(5, partition=1 - lost) == []
    ledger.check(1 - lost)
    broker.kill()
    broker.start()
    for partition in (0, 1):
        ledger.check(partition)
        assert ledger.write(5, partition=partition) == []
        ledger.check(partition)


def given_up(start: Start, topic: str) -> tuple[FaultyBroker, Ledger]:
    """A broker that wrote ten records, flushed each, and lost its only directory to a failed sync."""
    broker = start("only")
    create(broker, topic, flush_messages="1")
    ledger = Ledger(broker.bootstrap, topic)
    assert ledger.write(10) == []
    broker.faults.only(broker.directory / "only")
    broker.faults.set(sync_error=errno.EIO)
    assert Ledger(broker.bootstrap, topic, **HASTY).write(2)
    until(lambda: not broker.alive, lambda: broker.log[-3000:], PATIENCE_S)
    return broker, ledger


def test_without_any_directory_left_the_broker_gives_up_and_a_restart_finds_what_was_flushed(
    start: Start, topic: str
) -> None:
    broker, ledger = given_up(start, topic)
    assert "event=giving-up" in broker.log
    assert (broker.directory / "only" / ".headwater_syncfailed").exists()
    assert broker.stop() == 1

    broker.faults.set(sync_error=0)
    broker.start()
    ledger.check()
    assert not (broker.directory / "only" / ".headwater_syncfailed").exists()
    assert ledger.write(5) == []
    ledger.check()


def test_what_a_failed_sync_left_in_the_page_cache_only_is_not_needed(start: Start, topic: str) -> None:
    """As if the device never got what was being synced: the files are cut back, as after a power loss, and all that
    counts is there.
    """
    broker, ledger = given_up(start, topic)
    broker.kill()
    lose_power(broker)
    broker.faults.set(sync_error=0)
    broker.start()
    ledger.check()
    assert len(read_all(broker.bootstrap, topic)) == 10


@pytest.mark.parametrize("round_", range(lasting(1, 20)))
def test_power_loss_takes_nothing_that_was_flushed(start: Start, topic: str, round_: int) -> None:
    """Every file is cut back to what its last sync covered, and those that were never synced are empty."""
    broker = start("only")
    create(broker, topic, 3, flush_messages="1", segment_bytes=str(1 << 20))
    ledger = Ledger(broker.bootstrap, topic)
    for partition in range(3):
        assert ledger.write(30 + round_, 60_000, partition) == []
    broker.kill()
    lose_power(broker)
    broker.start()
    for partition in range(3):
        ledger.check(partition)
        assert ledger.write(5, partition=partition) == []
        ledger.check(partition)


def lose_power(broker: FaultyBroker) -> None:
    """After the process has died: what no sync has covered is gone."""
    synced = broker.faults.synced_bytes()
    for folder, _, names in os.walk(broker.directory / "only"):
        for name in names:
            path = Path(folder) / name
            covered = synced.get(str(path), synced.get(f"{path}.tmp", 0))
            if covered < path.stat().st_size:
                os.truncate(path, covered)


def test_a_compaction_that_finds_no_room_changes_nothing(start: Start, topic: str) -> None:
    broker = start("only", log_cleaner_backoff_ms=200)
    directory = broker.directory / "only"
    broker.faults.only(directory, ".cleaned")
    broker.faults.set(write_error=errno.ENOSPC)
    settings = {"segment_bytes": str(1 << 20), "min_cleanable_dirty_ratio": "0.01"}
    create(broker, topic, cleanup_policy="compact", **settings)
    expected = write_keys(broker, topic)
    until(lambda: "event=compaction-failed" in broker.log, lambda: broker.log[-3000:], PATIENCE_S)
    assert broker.faults.count("failed_writes") > 0
    assert last_values(broker, topic) == expected
    assert not list(directory.glob("*/*.cleaned"))

    broker.faults.set(write_error=0)
    broker.kill()
    broker.start()
    until(lambda: "event=compacted" in broker.log, lambda: broker.log[-3000:], PATIENCE_S)
    assert last_values(broker, topic) == expected


def write_keys(broker: FaultyBroker, topic: str) -> dict[bytes, bytes]:
    """Some megabytes of five keys, the last value of each."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "log_level": 0})
    expected: dict[bytes, bytes] = {}
    for number in range(60):
        key, value = b"%d" % (number % 5), (b"%d " % number).ljust(50_000, b".")
        producer.produce(topic, value, key, partition=0)
        producer.poll(0)
        expected[key] = value
    assert producer.flush(PATIENCE_S) == 0
    return expected


def last_values(broker: FaultyBroker, topic: str) -> dict[bytes, bytes]:
    found = read_all(broker.bootstrap, topic)
    values = [found[offset] for offset in sorted(found)]
    return {b"%d" % (int(value.split()[0]) % 5): value for value in values}
