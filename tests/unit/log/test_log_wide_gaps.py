"""A follower whose leader has compacted away more offsets than the 32 bits of an index can tell."""

import errno
from typing import TYPE_CHECKING

import pytest

from headwater.base.errors import KafkaError
from headwater.log.log import Log
from headwater.records.builder import build_batch
from headwater.records.reader import Record

if TYPE_CHECKING:
    from unit.log.conftest import World

WIDE = 3 << 31
LAST = (1 << 31) - 1
EPOCH = 1  # of the leader


def batch(offset: int, count: int = 1, epoch: int = 0, last_delta: int | None = None) -> bytes:
    """As a leader has it, with `last_delta` if compaction has left the first of a wider one."""
    data = bytearray(build_batch([Record(at, 1_700_000_000_000, b"k", b"v") for at in range(count)]))
    data[0:8] = offset.to_bytes(8, "big")
    data[12:16] = epoch.to_bytes(4, "big")
    if last_delta is not None:
        from headwater.base.checksum import crc32c

        data[23:27] = last_delta.to_bytes(4, "big")
        data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    return bytes(data)


def append(world: "World", log: Log, *batches: bytes) -> None:
    log.append_as_follower(memoryview(bytearray(b"".join(batches))), EPOCH, world.clock.now_ms())


def everything(world: "World", log: Log, expected: list[int]) -> None:
    """In memory, after a restart, after a kill and after a power loss."""
    assert world.contents(log) == expected
    for again in (world.kill, world.reopen, world.crash):
        found = world.contents(again())
        assert found == expected, again.__name__


@pytest.mark.parametrize("first", [WIDE, LAST + 1])
def test_an_empty_log_begins_far_on(world: "World", first: int) -> None:
    log = world.create(cleanup_compact=True)
    append(world, log, batch(first), batch(first + 1))
    log.flush()
    world.disk.run()
    assert (log.log_start_offset, log.log_end_offset) == (0, first + 2)
    everything(world, log, [first, first + 1])


def test_a_gap_inside_one_answer(world: "World") -> None:
    """The error came after the write: the file had the batches, and memory did not."""
    log = world.create(cleanup_compact=True)
    append(world, log, batch(0), batch(1), batch(WIDE), batch(WIDE + 1), batch(2 * WIDE))
    log.flush()
    world.disk.run()
    assert log.base_offsets == [0, WIDE, 2 * WIDE]
    everything(world, log, [0, 1, WIDE, WIDE + 1, 2 * WIDE])


def test_one_offset_more_than_an_index_can_hold(world: "World") -> None:
    log = world.create(cleanup_compact=True)
    append(world, log, batch(0), batch(LAST))
    assert log.base_offsets == [0]
    append(world, log, batch(LAST + 1))
    assert log.base_offsets == [0, LAST + 1]
    log.flush()
    world.disk.run()
    everything(world, log, [0, LAST, LAST + 1])


def test_a_batch_that_reaches_as_far_as_a_batch_can(world: "World") -> None:
    log = world.create(cleanup_compact=True)
    append(world, log, batch(7, last_delta=LAST), batch(7 + LAST + 1))
    log.flush()
    world.disk.run()
    assert log.base_offsets == [0, 7, 7 + LAST + 1]
    everything(world, log, [7, 7 + LAST + 1])


def test_what_is_missing_behind_a_gap_is_lost_and_what_is_missing_in_it_is_not(world: "World") -> None:
    """The gap lies below the recovery point on the device, whatever happened since."""
    log = world.create(cleanup_compact=True)
    append(world, log, batch(0))
    append(world, log, batch(WIDE), batch(WIDE + 1))
    log = world.crash()
    assert world.contents(log) in ([0], [0, WIDE], [0, WIDE, WIDE + 1])
    assert log.log_end_offset >= WIDE, "that nothing lies in between is on the device"
    assert world.manager.directories[0].recovery_points[world.partition] == WIDE


@pytest.mark.parametrize("room", range(0, 110, 2))
def test_a_gap_that_there_is_no_room_to_cross_changes_nothing(world: "World", room: int) -> None:
    log = world.create(cleanup_compact=True)
    append(world, log, batch(0), batch(1))
    segments = [name for name in world.files() if name.endswith(".log")]
    world.disk.faults.free_bytes = room
    with pytest.raises(KafkaError):
        append(world, log, batch(WIDE))
    assert log.failed is None
    assert (log.log_end_offset, log.base_offsets) == (2, [0])
    assert [name for name in world.files() if name.endswith(".log")] == segments
    world.disk.faults.free_bytes = 1 << 40
    append(world, log, batch(WIDE))
    log.flush()
    world.disk.run()
    everything(world, log, [0, 1, WIDE])


def test_what_follows_a_gap_that_was_not_crossed_is_recovered_after_a_power_loss(world: "World") -> None:
    """The recovery point on the device was past the gap for a moment: believed, it would leave the tail unchecked."""
    log = world.create(cleanup_compact=True)
    append(world, log, batch(0), batch(1))
    world.disk.faults.free_bytes = 70  # for the segment, and not for the batch
    with pytest.raises(KafkaError):
        append(world, log, batch(WIDE))
    world.disk.faults.free_bytes = 1 << 40
    append(world, log, batch(2, epoch=1), batch(3, epoch=1))
    assert world.manager.directories[0].recovery_points[world.partition] <= 2
    found = world.contents(world.crash())
    assert found == list(range(len(found)))
    assert len(found) >= 2


def test_a_gap_whose_sync_fails_fails_the_log(world: "World") -> None:
    log = world.create(cleanup_compact=True)
    append(world, log, batch(0), batch(1))
    world.disk.faults.syncs_to_fail = 1
    with pytest.raises(KafkaError):
        append(world, log, batch(WIDE))
    assert (log.log_end_offset, log.base_offsets) == (2, [0])
    assert log.failed is not None


def test_a_truncation_into_a_gap(world: "World") -> None:
    log = world.create(cleanup_compact=True)
    append(world, log, batch(0), batch(WIDE))
    log.truncate_to(WIDE - 5)
    assert log.log_end_offset == WIDE - 5
    append(world, log, batch(WIDE - 5, epoch=1))
    log.flush()
    world.disk.run()
    everything(world, log, [0, WIDE - 5])


def test_retention_and_reading_by_time_know_nothing_of_it(world: "World") -> None:
    log = world.create(cleanup_compact=True, segment_bytes=200)
    append(world, log, *(batch(number * WIDE) for number in range(4)))
    found = log.offset_for_timestamp(1_700_000_000_000, log.log_end_offset)
    assert found is not None
    assert found.offset == 0
    assert log.read(1, 1 << 20, log.log_end_offset, min_one_batch=True) is not None
    log.delete_records_before(WIDE + 1)
    log.apply_retention(world.clock.now_ms())
    assert log.base_offsets[0] == WIDE + 1 or log.base_offsets[0] <= WIDE
    assert world.contents(log) == [2 * WIDE, 3 * WIDE]


def test_errors_of_the_device_are_told(world: "World", monkeypatch: pytest.MonkeyPatch) -> None:
    log = world.create(cleanup_compact=True)
    append(world, log, batch(0))

    def refused(_log: Log) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(log, "on_gap", refused)
    with pytest.raises(KafkaError):
        append(world, log, batch(WIDE))
    assert log.failed is not None
