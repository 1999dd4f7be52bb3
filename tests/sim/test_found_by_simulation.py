"""What the simulation has found, each as small as it can be told. The worlds that found them changed; the bugs stay
named.
"""

import errno
from typing import Any

import pytest

from headwater.base.config.broker import BrokerConfig
from headwater.base.ids import BrokerId, TopicPartition
from headwater.broker.broker import Broker
from headwater.metadata.image import BrokerState, Change, Endpoint, TopicCreated, TopicDeleted
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.replication.partition import Partition
from headwater.server.assembly import Assembly
from headwater.sim.clock import SimClock
from headwater.sim.disk import UNLIMITED, SimDisk
from headwater.sim.scheduler import SimRandom, SimScheduler

DURABLE = {"flush.messages": "1"}


class Machine:
    """A disk, and a broker on it that can be started again and again."""

    def __init__(self) -> None:
        self.disk = SimDisk(1)
        self.disk.faults.zero_tail = False
        self.clock = SimClock()
        self.start()

    def start(self) -> None:
        self.scheduler = SimScheduler(self.clock)
        self.assembly = Assembly(
            BrokerConfig({"node.id": "1", "log.dirs": "/data", "listeners": "PLAINTEXT://:0"}),
            disk=self.disk,
            clock=self.clock,
            random=SimRandom(self.disk.generation),
            scheduler=self.scheduler,
        )
        opened: list[Broker] = []
        self.assembly.open(opened.append)
        (self.broker,) = opened
        self.broker.image.brokers[BrokerId(1)] = BrokerState(BrokerId(1), [Endpoint("PLAINTEXT", "sim", 9092)])

    def kill(self) -> None:
        self.disk.kill()
        self.start()

    def lose_power(self) -> None:
        """The worst case: nothing is kept that was not synced."""
        self.disk._chance = Lowest()
        self.disk.crash()
        self.start()

    def stop_and_start(self) -> None:
        self.disk.run()
        self.assembly.close()
        self.start()

    def commit(self, *changes: Change) -> None:
        self.broker.store.commit(changes, _must_succeed)
        self.disk.run()

    def create(self, name: str, config: dict[str, str] | None = None) -> Partition:
        self.commit(TopicCreated(name, self.broker.new_topic_id(), ((1,),), config or {}))
        return self.partition(name)

    def delete(self, name: str) -> None:
        self.commit(TopicDeleted(self.broker.image.ids_by_name[name]))

    def partition(self, name: str) -> Partition:
        return self.broker.partition(name, 0)

    def append(self, name: str, count: int = 1) -> None:
        records = [Record(at, self.clock.now_ms(), None, b"value") for at in range(count)]
        self.partition(name).append(memoryview(build_batch(records)), self.clock.now_ms())


class Lowest:
    """Chance at its worst: always the least."""

    def randint(self, low: int, high: int) -> int:
        return low

    def random(self) -> float:
        return 0.0


def _must_succeed(error: Any) -> None:
    assert error is None


@pytest.fixture(name="machine")
def machine_fixture() -> Machine:
    return Machine()


def test_a_power_loss_took_the_name_of_the_metadata_file_and_with_it_every_topic(machine: Machine) -> None:
    machine.create("clicks")
    machine.lose_power()
    assert "clicks" in machine.broker.image.ids_by_name


def test_a_topic_that_a_kill_left_unsynced_was_served_and_then_lost_with_the_power(machine: Machine) -> None:
    machine.broker.store.commit([TopicCreated("clicks", machine.broker.new_topic_id(), ((1,),), {})], _must_succeed)
    machine.disk._chance = Lowest()  # type: ignore[assignment]
    machine.kill()
    assert "clicks" in machine.broker.image.ids_by_name
    machine.lose_power()
    assert "clicks" in machine.broker.image.ids_by_name


def test_records_that_a_kill_left_unsynced_were_committed_and_then_lost_with_the_power(machine: Machine) -> None:
    machine.create("clicks", DURABLE)
    machine.append("clicks", 3)  # no fsync has happened
    machine.disk._chance = Lowest()  # type: ignore[assignment]
    machine.kill()
    committed = machine.partition("clicks").high_watermark
    assert committed == 3
    machine.lose_power()
    assert machine.partition("clicks").high_watermark >= committed


def test_a_new_partition_that_a_kill_left_unsynced_was_lost_with_its_directory(machine: Machine) -> None:
    machine.create("clicks", DURABLE)
    machine.kill()
    machine.append("clicks", 2)
    machine.disk.run()
    assert machine.partition("clicks").high_watermark == 2
    machine.lose_power()
    assert machine.partition("clicks").high_watermark == 2


def test_a_deleted_topic_came_back_because_a_crash_had_torn_its_partition_metadata(machine: Machine) -> None:
    machine.create("clicks")
    machine.append("clicks")
    machine.disk.sync_directory_now("/data")
    machine.disk.sync_directory_now("/data/clicks-0")
    machine.delete("clicks")
    machine.lose_power()  # the directory is back under its old name, and its files are empty
    assert "clicks" not in machine.broker.image.ids_by_name
    assert TopicPartition("clicks", 0) not in machine.broker.logs.logs
    assert any(name.endswith("-stray") for name in machine.disk.list_directory("/data"))


def test_a_torn_partition_metadata_was_never_mended_so_its_high_watermark_was_not_found(machine: Machine) -> None:
    machine.create("clicks")
    machine.disk.sync_directory_now("/data")
    machine.disk.sync_directory_now("/data/clicks-0")
    machine.lose_power()
    partition = machine.partition("clicks")
    assert partition.log.topic_id == partition.topic_id
    machine.kill()
    assert machine.broker.logs.logs[TopicPartition("clicks", 0)].topic_id == partition.topic_id


def test_a_topic_made_again_began_where_its_predecessor_had_been_deleted_up_to(machine: Machine) -> None:
    machine.create("clicks")
    machine.append("clicks", 9)
    machine.partition("clicks").log.delete_records_before(7)
    machine.broker.logs.write_checkpoints()
    machine.disk.run()
    machine.delete("clicks")
    machine.create("clicks")
    machine.append("clicks", 2)
    machine.kill()
    log = machine.partition("clicks").log
    assert (log.log_start_offset, log.log_end_offset) == (0, 2)


def test_a_log_that_was_kept_offline_was_never_recovered_after_a_clean_restart(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk kept it so, for want of room to write the leader epochs. That needs none any more; something else
    may.
    """
    machine.create("clicks")
    machine.append("clicks", 9)
    machine.partition("clicks").log.delete_records_before(4)
    machine.broker.logs.write_checkpoints()
    machine.disk.run()
    machine.append("clicks", 2)
    log = machine.partition("clicks").log
    size_bytes = log.size_bytes()
    log.active.open_file().append(b"half a batch")
    with monkeypatch.context() as patch:

        def failing(*_arguments: object) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

        patch.setattr("headwater.log.opening.recover", failing)
        machine.kill()
    assert TopicPartition("clicks", 0) not in machine.broker.logs.logs
    machine.stop_and_start()
    log = machine.partition("clicks").log
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes()) == (4, 11, size_bytes)


def test_a_log_is_recovered_on_a_full_disk(machine: Machine) -> None:
    machine.create("clicks")
    machine.append("clicks", 9)
    log = machine.partition("clicks").log
    size_bytes = log.size_bytes()
    log.active.open_file().append(b"half a batch")
    machine.disk.faults.free_bytes = 0
    machine.kill()
    log = machine.partition("clicks").log
    assert (log.log_end_offset, log.size_bytes()) == (9, size_bytes)
    machine.disk.faults.free_bytes = UNLIMITED
    machine.append("clicks", 2)
    machine.stop_and_start()
    assert machine.partition("clicks").log.log_end_offset == 11
