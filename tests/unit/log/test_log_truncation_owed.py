"""What a truncation on a full disk could not write down is owed until it is: by no other way does the log go on."""

import errno
from typing import TYPE_CHECKING

import pytest

from headwater.base.errors import KafkaError
from headwater.log import names
from headwater.log.log import Log
from headwater.records.builder import build_batch
from headwater.records.reader import Record

if TYPE_CHECKING:
    from unit.log.conftest import World

RECOVERY_POINTS = f"/data/{names.RECOVERY_POINT_CHECKPOINT}"


def filled(world: "World") -> Log:
    """Offsets 0 to 9, all of it on the device and in the checkpoint."""
    log = world.create()
    for _ in range(10):
        world.append(log)
    log.flush()
    world.disk.run()
    world.manager.write_checkpoints()
    world.disk.run()
    assert world.disk.read_file(RECOVERY_POINTS) == b"0\n1\ntopic 0 10\n"
    return log


def no_room(path: str, *_data: bytes, **_durable: bool) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", path)


@pytest.mark.parametrize("is_tried_again", [True, False])
@pytest.mark.parametrize("does_tick", [True, False])
def test_a_recovery_point_that_found_no_room_is_still_owed(
    world: "World", does_tick: bool, is_tried_again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counted as written once it had been tried: a power loss would have left what came after the truncation
    unchecked.
    """
    log = filled(world)
    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "write_file", no_room)
        log.truncate_to(5)
        if does_tick:
            world.manager.write_checkpoints()
            world.disk.run()
        if is_tried_again:
            with pytest.raises(KafkaError):
                world.append(log)
        assert log.log_end_offset == 5
    assert world.append(log) == 5
    assert world.disk.read_file(RECOVERY_POINTS) == b"0\n1\ntopic 0 5\n"


def test_a_recovery_point_that_is_being_written_is_still_owed(world: "World", monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(world)
    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "write_file", no_room)
        log.truncate_to(5)
    world.manager.write_checkpoints()
    assert world.append(log) == 5
    assert world.disk.read_file(RECOVERY_POINTS) == b"0\n1\ntopic 0 5\n"


def test_leader_epochs_that_found_no_room_are_owed_by_a_log_that_lost_no_record(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records went on under the epoch that was left,
    and the file kept the one that nobody had written anything under.
    """
    log = filled(world)
    log.begin_epoch(3)
    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "write_file", no_room)
        log.truncate_to(10)
        assert log.epochs.entries == [(0, 0)]
        with pytest.raises(KafkaError):
            log.append_as_follower(_as_follower(world, 10), 0)
        assert log.log_end_offset == 10
    log.append_as_follower(_as_follower(world, 10), 0)
    assert log.log_end_offset == 11
    assert world.disk.read_file(log.epochs.path) == b"0\n1\n0 0\n"


def _as_follower(world: "World", offset: int) -> memoryview:
    records = [Record(offset, world.clock.now_ms(), b"key", b"value")]
    return memoryview(build_batch(records, base_offset=offset, partition_leader_epoch=0))


def test_who_copies_the_log_is_told_of_a_truncation_that_found_no_room(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what was cut stays in the copy of a log that moves, and what is appended there comes behind it."""
    log = filled(world)
    told: list[int] = []
    monkeypatch.setattr(world.manager.moves, "truncated", lambda moved: told.append(moved.log_end_offset))
    log.begin_epoch(3)
    world.append(log, epoch=3)
    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "write_file", no_room)
        log.truncate_to(10)
    assert told == [10]


def test_a_log_that_lost_something_below_its_recovery_point_says_so_before_it_goes_on(world: "World") -> None:
    """What was appended in the place of what was lost lay below the recovery point of the file, and a next crash left
    it unchecked.
    """
    log = filled(world)
    world.disk.flip_bit(log.active.path(names.LOG), log.active.size_bytes // 2 + 16, 3)
    log = world.kill()
    assert log.log_end_offset == 5
    assert world.append(log) == 5
    assert world.disk.read_file(RECOVERY_POINTS) == b"0\n1\ntopic 0 5\n"
