"""A disk without room: what is there can be read and deleted, what is refused leaves no trace, and a restart needs no room."""

import errno
from typing import TYPE_CHECKING

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.log import names
from headwater.log.log import Log

if TYPE_CHECKING:
    from unit.log.conftest import World

ROOMY = 1 << 40


def fill(world: "World") -> Log:
    """Many segments and leader epochs, and then no byte is free."""
    log = world.create(segment_bytes=1000, index_interval_bytes=100)
    for number in range(40):
        world.append(log, size=200, epoch=number // 10)
    world.disk.run()
    world.disk.faults.free_bytes = 0
    with pytest.raises(KafkaError):
        world.append(log, size=200, epoch=3)
    return log


def test_a_start_on_a_full_disk_finds_everything(world: "World") -> None:
    """A recovery that needs room to rebuild an index would keep the broker from the records that could be deleted."""
    fill(world)
    log = world.kill()
    assert world.opened
    assert world.contents(log) == list(range(40))
    assert log.epochs.entries == [(0, 0), (1, 10), (2, 20), (3, 30)]
    world.disk.faults.free_bytes = ROOMY
    assert world.append(log, epoch=3) == 40
    assert world.contents(world.reopen()) == list(range(41))


def test_indexes_and_snapshots_that_found_no_room_are_made_later(world: "World") -> None:
    log = fill(world)
    timestamp = world.clock.now_ms()
    world.disk.kill()
    for name in world.files():
        if name.endswith((names.OFFSET_INDEX, names.TIME_INDEX, names.SNAPSHOT)):
            world.disk.remove(f"{world.directory}/{name}")
    log = world.open().logs[world.partition]
    found = log.offset_for_timestamp(timestamp, 40)
    assert found is not None
    assert found.offset == 0
    assert log.read(17, 1, 40, min_one_batch=True) is not None
    world.disk.faults.free_bytes = ROOMY
    log = world.reopen()
    assert log.read(17, 1, 40, min_one_batch=True) is not None
    assert world.contents(log) == list(range(40))


def test_retention_makes_room_on_a_full_disk(world: "World") -> None:
    """It wanted to write down the leader epochs first, found no room, and deleted nothing."""
    log = fill(world)
    world.clock.advance(log.config.retention_ms + 1)
    before = len(log.segments)
    assert log.apply_retention(world.clock.now_ms()) == before - 1  # all have expired; there is no room for a new one
    assert log.epochs.entries == [(3, log.log_start_offset)]
    world.disk.faults.free_bytes = ROOMY
    log = world.reopen()
    assert log.epochs.entries == [(3, log.log_start_offset)]
    assert world.contents(log)[-1] == 39


def test_a_truncation_that_finds_no_room_for_its_index_leaves_none_that_is_wrong(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    log = world.create(index_interval_bytes=100)
    for _ in range(20):
        world.append(log, size=100)
    log.active.write_indexes()
    index = log.active.offset_index

    def full(_size: int, path: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", path)

    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "take_space", full)
        with pytest.raises(OSError, match="No space"):
            index.truncate_to_position(world.disk, 1000)
    index.write(world.disk)
    assert world.disk.read_file(index.path) == bytes(index.entries)


def test_batches_behind_one_that_found_no_room_are_refused_as_it_was(world: "World") -> None:
    """They were out of order then; librdkafka bumped its epoch over that, and sent again what other partitions had already."""
    log = world.create()
    producer = {"producer_id": 7, "producer_epoch": 0}
    world.append(log, base_sequence=0, **producer)
    world.disk.faults.free_bytes = 0
    for sequence in (1, 2, 3):
        with pytest.raises(KafkaError) as caught:
            world.append(log, base_sequence=sequence, **producer)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    world.disk.faults.free_bytes = ROOMY
    with pytest.raises(KafkaError) as caught:
        world.append(log, base_sequence=2, **producer)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert [world.append(log, base_sequence=sequence, **producer) for sequence in (1, 2)] == [1, 2]
    with pytest.raises(KafkaError) as caught:
        world.append(log, base_sequence=5, **producer)
    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
