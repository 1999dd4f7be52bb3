"""When a log begins a new segment, what it leaves behind, and how old segments go."""

from typing import TYPE_CHECKING, Any

import pytest

from headwater.base.errors import KafkaError
from headwater.log.config import LogConfig
from headwater.records.builder import build_batch
from headwater.records.reader import Record

if TYPE_CHECKING:
    from conftest import World


def segments(log: Any) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_a_segment_is_rolled_by_size_and_leaves_final_files(world: "World") -> None:
    log = world.create(segment_bytes=400, index_interval_bytes=100)
    for _ in range(7):
        world.append(log, size=50)
    assert segments(log) == [0, 3, 6]
    assert all(segment.size_bytes <= 400 for segment in log.segments)
    names = world.files()
    for base in (0, 3, 6):
        assert {f"{base:020d}.log", f"{base:020d}.index", f"{base:020d}.timeindex"} <= set(names)
    assert [name for name in names if name.endswith(".snapshot")] == [f"{3:020d}.snapshot", f"{6:020d}.snapshot"]
    assert len(world.disk.read_file(f"{world.directory}/{0:020d}.timeindex")) >= 12


def test_a_batch_that_fits_exactly_does_not_roll(world: "World") -> None:
    size = len(world.batch(size=50))
    log = world.create(segment_bytes=2 * size)
    for _ in range(3):
        world.append(log, size=50)
    assert segments(log) == [0, 2]


def test_a_segment_is_rolled_by_the_age_of_its_records(world: "World") -> None:
    log = world.create(segment_ms=1000)
    start = world.clock.now_ms()
    world.append(log, timestamp=start)
    world.append(log, timestamp=start + 1000)
    assert segments(log) == [0]
    world.append(log, timestamp=start + 1001)
    assert segments(log) == [0, 2]
    log = world.reopen()
    world.append(log, timestamp=start + 2001)
    assert segments(log) == [0, 2]
    world.append(log, timestamp=start + 2002)
    assert segments(log) == [0, 2, 4]


def test_jitter_rolls_earlier_but_never_before_the_time(world: "World") -> None:
    log = world.create(segment_ms=1000, segment_jitter_ms=400)
    start = world.clock.now_ms()
    world.append(log, timestamp=start)
    assert 600 < log.active.roll_after_timestamp - start <= 1000


def test_records_without_timestamps_roll_by_the_clock(world: "World") -> None:
    log = world.create(segment_ms=1000, retention_ms=-1)
    world.append(log, timestamp=-1)
    world.pass_time(1001)
    world.manager.apply_retention(world.clock.now_ms())
    assert segments(log) == [0, 1]


def test_a_full_index_rolls(world: "World") -> None:
    log = world.create(index_interval_bytes=0, segment_index_bytes=100)
    for _ in range(20):
        world.append(log)
        world.clock.advance(1)
    assert len(log.segments) > 1
    for segment in log.segments:
        assert len(segment.offset_index.entries) <= 100
        assert len(segment.time_index.entries) <= 100


def test_offsets_too_far_from_the_segments_base_roll(world: "World") -> None:
    log = world.create(cleanup_compact=True)
    for offset in (0, (1 << 31) - 1, 1 << 31):
        record = [Record(offset, 1000, b"k", b"v")]
        log.append_as_follower(memoryview(build_batch(record, base_offset=offset, partition_leader_epoch=0)), 0)
    assert segments(log) == [0, 1 << 31]


def test_offsets_too_far_from_the_segments_base_roll_for_a_leader_too(world: "World") -> None:
    log = world.create()
    last = (1 << 31) - 3
    record = [Record(last, world.clock.now_ms(), b"k", b"v")]
    log.append_as_follower(memoryview(build_batch(record, base_offset=last, partition_leader_epoch=0)), 0)
    world.append(log, 2)
    assert segments(log) == [0]
    world.append(log)
    assert segments(log) == [0, 1 << 31]


def test_a_followers_segments_are_rolled_like_a_leaders(world: "World") -> None:
    """By size, by the age of records (with the oldest of several that come at once in between), and its epochs are
    noted.
    """
    start = world.clock.now_ms()

    def follow(log: Any, *timestamps: int, epoch: int = 0) -> None:
        first = log.log_end_offset
        batches = [
            build_batch(
                [Record(first + at, timestamp, b"k", b"v")], base_offset=first + at, partition_leader_epoch=epoch
            )
            for at, timestamp in enumerate(timestamps)
        ]
        log.append_as_follower(memoryview(b"".join(batches)), epoch, start)

    log = world.create(segment_bytes=6 * 70, segment_ms=1000)
    for _ in range(3):
        follow(log, start, start)
    assert segments(log) == [0]
    follow(log, start)
    assert segments(log) == [0, 6]
    follow(log, start, start + 1001, start)
    assert segments(log) == [0, 6, 7]
    follow(log, start + 1002, epoch=3)
    follow(log, start + 1003, epoch=3)
    assert segments(log) == [0, 6, 7]
    assert (log.latest_epoch, log.end_offset_for_epoch(0)) == (3, (0, 10))


def test_the_index_has_an_entry_per_interval(world: "World") -> None:
    log = world.create(index_interval_bytes=4096)
    for _ in range(100):
        world.append(log, size=1000)
    entries = len(log.active.offset_index.entries) // 8
    assert entries == 99 // 4


def test_a_changed_segment_size_counts_at_once(world: "World") -> None:
    log = world.create()
    world.append(log, size=100)
    log.update_config(LogConfig(segment_bytes=200))
    world.append(log, size=100)
    assert segments(log) == [0, 1]


# Retention


def filled(world: "World", **config: Any) -> Any:
    """Six segments of one record each, 100 ms apart."""
    log = world.create(segment_bytes=200, file_delete_delay_ms=500, **config)
    for _ in range(6):
        world.append(log, size=100)
        world.pass_time(100)
    assert segments(log) == [0, 1, 2, 3, 4, 5]
    return log


def test_retention_by_time(world: "World") -> None:
    log = filled(world, retention_ms=350)
    assert log.apply_retention(world.clock.now_ms()) == 3
    assert segments(log) == [3, 4, 5]
    assert log.log_start_offset == 3
    with pytest.raises(KafkaError):
        log.read(2, 1000, 6, min_one_batch=True)


def test_retention_rolls_an_active_segment_that_has_expired_and_keeps_an_empty_one(world: "World") -> None:
    log = filled(world, retention_ms=350)
    world.pass_time(1000)
    assert log.apply_retention(world.clock.now_ms()) == 6
    assert segments(log) == [6]
    assert (log.log_start_offset, log.log_end_offset) == (6, 6)
    assert log.apply_retention(world.clock.now_ms()) == 0
    assert world.append(log) == 6


def test_retention_by_size_keeps_at_least_that_much(world: "World") -> None:
    log = filled(world, retention_ms=-1)
    size = log.segments[0].size_bytes
    log.update_config(LogConfig(segment_bytes=200, retention_ms=-1, retention_bytes=size * 5 - 1))
    assert log.apply_retention(world.clock.now_ms()) == 1
    log.update_config(LogConfig(segment_bytes=200, retention_ms=-1, retention_bytes=size * 2))
    assert log.apply_retention(world.clock.now_ms()) == 3
    assert log.size_bytes() == size * 2


def test_retention_by_start_offset_spares_the_segment_that_holds_it(world: "World") -> None:
    log = world.create(segment_bytes=400, retention_ms=-1)
    for _ in range(6):
        world.append(log, 2, size=50)
    before = segments(log)
    log.delete_records_before(before[1] + 1)
    assert log.apply_retention(world.clock.now_ms()) == 1
    assert segments(log) == before[1:]
    assert log.log_start_offset == before[1] + 1


def test_nothing_above_the_high_watermark_is_deleted(world: "World") -> None:
    log = filled(world, retention_ms=0)
    world.pass_time(1)
    assert log.apply_retention(world.clock.now_ms(), high_watermark=2) == 2
    assert segments(log) == [2, 3, 4, 5]


def test_a_compacted_topic_keeps_what_is_old(world: "World") -> None:
    log = filled(world, retention_ms=0, cleanup_delete=False, cleanup_compact=True)
    world.pass_time(1000)
    assert log.apply_retention(world.clock.now_ms()) == 0


def test_a_record_from_the_future_keeps_its_segment(world: "World") -> None:
    log = world.create(segment_bytes=200, retention_ms=100)
    world.append(log, size=100, timestamp=world.clock.now_ms() + 100_000)
    world.append(log, size=100)
    world.pass_time(1000)
    assert log.apply_retention(world.clock.now_ms()) == 0


def test_records_without_timestamps_age_with_their_file(world: "World") -> None:
    log = world.create(segment_bytes=200, retention_ms=100)
    for _ in range(3):
        world.append(log, size=100, timestamp=-1)
    assert log.apply_retention(world.clock.now_ms()) == 0
    world.pass_time(101)
    assert log.apply_retention(world.clock.now_ms()) == 3


def test_deleted_files_are_renamed_at_once_and_removed_after_the_delay(world: "World") -> None:
    log = filled(world, retention_ms=350)
    log.apply_retention(world.clock.now_ms())
    assert f"{0:020d}.log.deleted" in world.files()
    assert f"{2:020d}.snapshot.deleted" in world.files()
    assert f"{0:020d}.log" not in world.files()
    world.pass_time(499)
    assert f"{0:020d}.log.deleted" in world.files()
    world.pass_time(1)
    assert not [name for name in world.files() if name.endswith(".deleted")]


def test_leftovers_of_a_deletion_go_at_the_next_start(world: "World") -> None:
    log = filled(world, retention_ms=350)
    log.apply_retention(world.clock.now_ms())
    log = world.reopen()
    assert segments(log) == [3, 4, 5]
    assert not [name for name in world.files() if name.endswith(".deleted")]


def test_deleting_records_beyond_the_end_is_refused(world: "World") -> None:
    log = filled(world)
    with pytest.raises(KafkaError):
        log.delete_records_before(7)
    log.delete_records_before(6)
    log.delete_records_before(3)  # never back
    assert log.log_start_offset == 6
