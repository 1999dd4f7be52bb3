"""F14: a disk that is slow, or stuck for a while. Who waits for it waits; everybody else goes on, and nobody is taken
for dead.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from compat.support.broker import HeadwaterBroker
from compat.support.by_hand import Member
from compat.support.faults import Faults, FaultyBroker, SmallDisks
from compat.support.members import until
from compat.support.quick import QUICK
from compat.support.raw import Raw, batch, fetch, fetched, produce, produced
from compat.support.records import Ledger

PATIENCE_S = 60
STUCK_THREADS = 4  # so many the broker has for one disk

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[FaultyBroker]:
    """With two log directories on two disks, the second of which may be slow."""
    well, slow = tmp_path / "well", tmp_path / "slow"
    broker = FaultyBroker(tmp_path, {**QUICK, "log.dirs": f"{well},{slow}"})
    broker.faults = Faults(tmp_path / "faults")
    broker.faults.only(slow)
    with SmallDisks(256 << 20, well, slow) as broker.disks:
        broker.start()
        yield broker
        broker.faults.set(syncs_are_held=0, writes_late=0)
        broker.kill()


def create(broker: HeadwaterBroker, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    topics = [NewTopic(topic, partitions, 1, config={"flush.messages": "1"})]
    for future in admin.create_topics(topics).values():
        future.result(PATIENCE_S)


def on(broker: FaultyBroker, name: str, topic: str, partitions: int) -> list[int]:
    """The partitions that stand in that directory."""
    assert broker.disks is not None
    names = broker.disks.names(broker.directory / name)
    return [partition for partition in range(partitions) if f"{topic}-{partition}" in names]


def test_while_syncs_are_stuck_others_go_on(broker: FaultyBroker, topic: str) -> None:
    count = 6 * STUCK_THREADS
    create(broker, topic, count)
    slow, well = on(broker, "slow", topic, count), on(broker, "well", topic, count)
    assert len(slow) > STUCK_THREADS
    member = Member(broker.bootstrap, "group", session_timeout_ms=120_000)
    patient = {"request.timeout.ms": 200_000, "socket.timeout.ms": 200_000, "message.timeout.ms": 250_000}
    ledger, waiting = Ledger(broker.bootstrap, topic), Ledger(broker.bootstrap, topic, **patient)
    broker.faults.set(syncs_are_held=1)
    with ThreadPoolExecutor(len(slow)) as pool:
        told = [pool.submit(waiting.write, 1, 100, partition) for partition in slow]
        until(lambda: broker.faults.count("held_syncs") == STUCK_THREADS, "no sync is stuck", PATIENCE_S)
        for partition in well[:3]:
            assert ledger.write(1, partition=partition) == []
            assert member.heartbeat() == 0
        ledger.check(well[0])
        with Raw(broker.bootstrap) as connection:  # what is not flushed is not shown
            assert fetched(connection.call(fetch(topic, 0, wait_ms=1, partition=slow[0]))) == (0, b"")
        assert not any(future.done() for future in told)
        assert waiting.acknowledged == {}
        broker.faults.set(syncs_are_held=0)
        assert [future.result(PATIENCE_S) for future in told] == [[]] * len(slow)
    for partition in slow[:2]:
        waiting.check(partition)
    member.close()


def test_a_write_that_takes_longer_than_a_session_ends_none(broker: FaultyBroker, topic: str) -> None:
    """The whole broker waits for it: what came meanwhile is heard before anybody is said to be silent."""
    create(broker, topic, 4)
    partition = on(broker, "slow", topic, 4)[0]
    request = produce(topic, batch(b"late"), partition=partition)
    member = Member(broker.bootstrap, "group", session_timeout_ms=10_000)
    with Raw(broker.bootstrap) as connection:
        connection.socket.settimeout(PATIENCE_S)
        broker.faults.set(write_delay_ms=11_000, writes_late=1)
        assert member.heartbeat() == 0
        connection.send(request)
        until(lambda: broker.faults.count("late_writes") == 1, "no write is late", PATIENCE_S)
        assert member.heartbeat() == 0  # sent while the broker waits
        assert produced(connection.receive(request)[1])[0] == 0
    member.close()


def test_a_stop_waits_for_a_slow_disk_and_loses_nothing(broker: FaultyBroker, topic: str) -> None:
    create(broker, topic, 2)
    ledger = Ledger(broker.bootstrap, topic)
    for partition in (0, 1):
        assert ledger.write(5, partition=partition) == []
    broker.faults.set(syncs_are_held=1)
    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(broker.stop)
        until(lambda: broker.faults.count("held_syncs") > 0, "nothing is synced at the end", PATIENCE_S)
        assert not stopped.done()
        broker.faults.set(syncs_are_held=0)
        assert stopped.result(PATIENCE_S) == 0
    broker.start()
    for partition in (0, 1):
        ledger.check(partition)
