"""Directories against metadata at the start, on a simulated disk: what is adopted, ignored, removed, refused, never
wiped.
"""

from pathlib import PurePosixPath
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import PartitionKey
from headwater.log import log_creation, opening
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.sim.disk import SimDisk
from unit.server.support.machine import Machine

DATA = "/data"


Alone = Machine[SimDisk]


@pytest.fixture
def machine() -> Alone:
    return Machine(SimDisk(seed=1), DATA)


def test_a_log_that_cannot_be_recovered_is_offline_and_not_wiped(
    machine: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new, empty log was made in its place, over the first segment."""
    broker = machine.start()
    machine.create(broker, "orders")
    machine.create(broker, "clicks")
    machine.append(broker, "orders", 5)
    machine.disk.kill()
    before = machine.files(f"{DATA}/orders-0")
    recover = opening.recover

    def failing(disk: Any, path: str, *rest: Any) -> Any:
        if path.endswith("orders-0"):
            raise OSError(5, "Input/output error", path)
        return recover(disk, path, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(opening, "recover", failing)
        broker = machine.start()
        with pytest.raises(KafkaError) as refused:
            broker.partition("orders", 0)
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        machine.append(broker, "clicks")
        machine.tick()
        machine.tick()
        assert machine.files(f"{DATA}/orders-0") == before
    for _ in range(3):  # and when the disk is well again, so is the log
        machine.tick()
    assert broker.partition("orders", 0).log.log_end_offset == 5
    machine.tick()


def test_a_recovery_that_dies_with_its_worker_leaves_the_log_offline(
    machine: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = machine.start()
    machine.create(broker, "orders")
    machine.append(broker, "orders", 5)
    machine.disk.kill()
    before = machine.files(f"{DATA}/orders-0")
    monkeypatch.setattr(opening, "RECOVER_IN_PLACE_BYTES", -1)

    def failing(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(opening, "recover", failing)
    broker = machine.start()
    assert not broker.partitions
    assert machine.files(f"{DATA}/orders-0") == before


def test_a_log_that_cannot_be_loaded_does_not_stop_the_start(machine: Alone, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = machine.start()
    machine.create(broker, "orders")
    machine.create(broker, "clicks")
    machine.append(broker, "orders", 5)
    machine.assembly.close()
    load = opening.load_log

    def failing(context: Any, partition: Any, *rest: Any, **named: Any) -> Any:
        if partition.topic == "orders":
            raise OSError(5, "Input/output error")
        return load(context, partition, *rest, **named)

    with monkeypatch.context() as patched:
        patched.setattr(opening, "load_log", failing)
        broker = machine.start()
    assert {partition.topic for partition in broker.partitions.values()} == {"clicks"}
    machine.assembly.close()
    assert machine.start().partition("orders", 0).log.log_end_offset == 5


def test_a_topic_made_on_a_full_disk_gets_its_logs_when_there_is_room(
    machine: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = machine.start()

    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(log_creation, "create_log", full)
        machine.create(broker, "orders", 2)
        machine.tick()
        with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
            broker.partition("orders", 0)
    machine.tick()
    machine.append(broker, "orders")
    assert len(broker.partitions_by_wire_name[b"orders"]) == 2


def test_half_a_log_is_cleared_away_before_it_is_made_again(machine: Alone, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = machine.start()
    create, calls = log_creation.create_log, []

    def full_afterwards(*arguments: Any) -> Any:
        calls.append(1)
        log = create(*arguments)
        if len(calls) == 1:
            log.abandon()
            raise OSError(28, "No space left on device")
        return log

    monkeypatch.setattr(log_creation, "create_log", full_afterwards)
    machine.create(broker, "orders")
    assert not broker.partitions
    machine.tick()
    machine.tick()
    machine.append(broker, "orders")


def test_an_adopted_log_goes_on_under_its_own_leader_epoch(machine: Alone) -> None:
    """Records of epoch 0 behind those of epoch 5 turned the log's history round."""
    broker = machine.start()
    machine.create(broker, "orders")
    log = broker.partition("orders", 0).log
    log.begin_epoch(5)
    records = build_batch([Record(0, machine.clock.now_ms(), b"key", b"value")])
    log.append_as_leader(memoryview(records), 5, machine.clock.now_ms())
    machine.assembly.close()
    machine.disk.remove(f"{DATA}/headwater.metadata")
    broker = machine.start()
    partition = broker.partition("orders", 0)
    machine.append(broker, "orders")
    assert partition.leader_epoch == broker.image.topic("orders").partitions[0].leader_epoch == 5
    assert partition.log.epochs.entries == [(5, 0)]
    assert partition.end_offset_for_epoch(5) == (5, 2)


def test_the_log_of_a_kraft_controller_is_not_touched(machine: Alone) -> None:
    machine.disk.make_directory(f"{DATA}/__cluster_metadata-0")
    machine.disk.write_file(f"{DATA}/__cluster_metadata-0/00000000000000000000.log", b"records of a controller")
    machine.disk.write_file(f"{DATA}/__cluster_metadata-0/quorum-state", b"{}")
    before = machine.files(f"{DATA}/__cluster_metadata-0")
    broker = machine.start()
    machine.tick()
    machine.assembly.close()
    assert machine.files(f"{DATA}/__cluster_metadata-0") == before
    assert not broker.image.topics


def test_a_directory_that_no_topic_can_have_is_left_alone(machine: Alone) -> None:
    machine.disk.make_directory(f"{DATA}/my backup-1")
    broker = machine.start()
    assert not broker.image.topics
    assert machine.disk.exists(f"{DATA}/my backup-1")


def test_what_a_crash_left_of_a_deleted_topic_goes_and_its_name_can_be_used_again(machine: Alone) -> None:
    broker = machine.start()
    machine.create(broker, "orders")
    machine.append(broker, "orders", 3)
    old = broker.image.topic("orders").topic_id
    rename = machine.disk.rename
    machine.disk.rename = lambda old, new: None  # type: ignore[method-assign] # the crash comes before the rename is on the device
    machine.delete(broker, "orders")
    machine.disk.rename = rename  # type: ignore[method-assign]
    machine.disk.kill()
    broker = machine.start()
    assert not broker.image.topics
    assert not machine.disk.exists(f"{DATA}/orders-0")
    machine.create(broker, "orders")
    topic = broker.image.topic("orders")
    assert topic.topic_id != old
    assert broker.partitions[PartitionKey(topic.topic_id, 0)].log.log_end_offset == 0


def test_a_topic_whose_directory_could_not_be_renamed_is_not_mixed_with_its_successor(
    machine: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = machine.start()
    machine.create(broker, "orders")
    machine.append(broker, "orders", 3)

    def stuck(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(machine.disk, "rename", stuck)
        machine.delete(broker, "orders")
    before = machine.files(f"{DATA}/orders-0")
    machine.create(broker, "orders")
    machine.tick()
    assert not broker.partitions
    assert machine.files(f"{DATA}/orders-0") == before
    machine.disk.kill()
    assert machine.start().partition("orders", 0).log.log_end_offset == 0


def test_directories_of_different_topics_with_one_name_are_refused(machine: Alone) -> None:
    broker = machine.start()
    machine.create(broker, "orders", 2)
    machine.assembly.close()
    path = str(PurePosixPath(DATA) / "orders-1" / "partition.metadata")
    machine.disk.write_file(path, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    with pytest.raises(UserError, match="another topic of the same name"):
        machine.start()
    machine.disk.remove(f"{DATA}/headwater.metadata")
    with pytest.raises(UserError, match="different topic ids"):
        machine.start()


def test_a_partition_in_two_log_directories_is_refused(machine: Alone) -> None:
    for directory in ("/a", "/b"):
        machine.disk.make_directory(f"{directory}/orders-0")
    with pytest.raises(UserError, match="in two log directories"):
        machine.start(log_dirs="/a,/b")


def test_a_directory_that_would_make_millions_of_partitions_is_refused(machine: Alone) -> None:
    machine.disk.make_directory(f"{DATA}/backup-20261115")
    with pytest.raises(UserError, match="backup-20261115 looks like a partition"):
        machine.start()
