"""Reading: whole batches from anywhere, by offset and by time, through a bounded number of open files."""

from typing import TYPE_CHECKING, Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ports import FileSlice
from headwater.log.open_files import Handles
from headwater.log.scan import OFFSETS_BYTES
from headwater.records.builder import build_batch
from headwater.records.reader import Record, read_batches

if TYPE_CHECKING:
    from conftest import World


def bases(piece: FileSlice | None) -> list[int]:
    if piece is None:
        return []
    data = piece.read()
    piece.release()
    return [header.base_offset for _, header in read_batches(data)]


def read(log: Any, offset: int, max_bytes: int = 1 << 20, upper: int | None = None, min_one: bool = False) -> list[int]:
    upper_offset = log.log_end_offset if upper is None else upper
    return bases(log.read(offset, max_bytes, upper_offset, min_one_batch=min_one))


@pytest.fixture(params=["fresh", "reopened"])
def log(request: pytest.FixtureRequest, world: "World") -> Any:
    """Batches of three records at 0, 3, .. 27, index entries in between; as written, and as found at a restart."""
    log = world.create(index_interval_bytes=200)
    for _ in range(10):
        world.append(log, 3)
    return log if request.param == "fresh" else world.reopen()


def test_from_the_batch_that_has_the_offset(log: Any) -> None:
    assert read(log, 0) == list(range(0, 30, 3))
    assert read(log, 13) == [12, 15, 18, 21, 24, 27]
    assert read(log, 29) == [27]


def test_nothing_at_the_end_and_an_error_outside(log: Any) -> None:
    assert log.read(30, 100, 30, min_one_batch=True) is None
    for offset in (-1, 31):
        with pytest.raises(KafkaError) as caught:
            log.read(offset, 100, 30, min_one_batch=True)
        assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_never_past_the_upper_offset(log: Any) -> None:
    assert read(log, 0, upper=9) == [0, 3, 6]
    assert read(log, 7, upper=9) == [6]
    assert read(log, 9, upper=9) == []
    assert read(log, 20, upper=9) == []


def test_whole_batches_within_max_bytes(log: Any) -> None:
    size = log.segments[0].size_bytes // 10
    assert read(log, 0, size * 10 - 1)[-1] < 27
    assert read(log, 0, size * 2) in ([0, 3], [0])
    assert read(log, 27, size) == [27]
    assert read(log, 0, size - 1) == []
    assert read(log, 0, size - 1, min_one=True) == [0]
    assert read(log, 0, 0, min_one=True) == [0]
    assert read(log, 0, 0) == []


@pytest.mark.parametrize("max_bytes", [300, 500, 1000])
def test_reading_on_from_where_a_read_ended_skips_nothing(log: Any, max_bytes: int) -> None:
    found: list[int] = []
    offset = 0
    while offset < 30:
        piece = read(log, offset, max_bytes, min_one=True)
        found += piece
        offset = piece[-1] + 3
    assert found == list(range(0, 30, 3))


def test_a_reader_that_comes_back_to_where_it_was_cut_off_walks_nothing(world: "World") -> None:
    log = world.create(index_interval_bytes=1000)
    for _ in range(100):
        world.append(log, 3, 50)
    log = world.reopen()
    first = read(log, 0, 5000)
    world.disk.bytes_read.clear()
    piece = log.read(first[-1] + 3, 5000, log.log_end_offset, min_one_batch=True)
    assert world.disk.bytes_read[log.active.path(".log")] == 8 + OFFSETS_BYTES  # where it begins and ends is so
    assert bases(piece)[0] == first[-1] + 3


def test_a_read_ends_with_its_segment(world: "World") -> None:
    log = world.create(segment_bytes=300)
    for _ in range(9):
        world.append(log, size=50)
    assert len(log.segments) > 2
    first = read(log, 0)
    assert 0 < len(first) < 9
    assert read(log, first[-1] + 1)[0] == first[-1] + 1
    assert read(log, 0, upper=first[-1]) == first[:-1]


def test_a_slice_outlives_retention(world: "World") -> None:
    log = world.create(segment_bytes=300, retention_ms=1000, file_delete_delay_ms=0)
    for _ in range(5):
        world.append(log, size=100)
    piece = log.read(0, 1000, 5, min_one_batch=True)
    world.pass_time(5000)
    log.apply_retention(world.clock.now_ms())
    world.pass_time(0)
    assert log.log_start_offset == 5
    assert not [name for name in world.files() if name.startswith("0" * 20)]
    assert bases(piece)[0] == 0


def test_compacted_away_offsets_lead_to_the_next_batch(world: "World") -> None:
    log = world.create(cleanup_compact=True, segment_bytes=150)
    for offset in (0, 5, 12):
        log.append_as_follower(
            memoryview(
                build_batch([Record(offset, 1000, b"k", bytes(60))], base_offset=offset, partition_leader_epoch=0)
            ),
            0,
        )
    assert [segment.base_offset for segment in log.segments] == [0, 1, 6]
    assert read(log, 3) == [5]
    assert read(log, 6) == [12]
    log.segments[1].truncate(0, 1)  # as if all of it had been compacted away
    assert read(log, 3) == [12]


def test_a_missing_or_damaged_index_is_rebuilt(world: "World", caplog: pytest.LogCaptureFixture) -> None:
    log = world.create(index_interval_bytes=200)
    for _ in range(10):
        world.append(log, 3)
    world.disk.run()
    world.manager.close()
    good = world.disk.read_file(f"{world.directory}/{0:020d}.index")
    assert good
    for damage in (None, b"\x7f" * 16, good + b"\0\0\0"):
        path = f"{world.directory}/{0:020d}.index"
        world.disk.remove(path) if damage is None else world.disk.write_file(path, damage)
        log = world.open().logs[world.partition]
        assert read(log, 14)[0] == 12
        world.manager.close()
        assert world.disk.read_file(path) == good
    assert "index-rebuilt" in caplog.text


def test_offsets_by_time(world: "World") -> None:
    log = world.create(index_interval_bytes=100, segment_bytes=400)
    start = world.clock.now_ms()
    for at in range(12):
        records = [Record(0, start + at * 100, b"k", bytes(50)), Record(1, start + at * 100 + 50, b"k", bytes(50))]
        log.append_as_leader(memoryview(build_batch(records)), 2, start)
    for way in (None, "reopen", "kill"):
        log = getattr(world, way)() if way else log
        for at in range(12):
            for delta_ms, offset in ((-49, at * 2), (0, at * 2), (1, at * 2 + 1), (50, at * 2 + 1)):
                found = log.offset_for_timestamp(start + at * 100 + delta_ms, 24)
                assert found is not None
                assert found.offset == offset
                assert found.leader_epoch == 2
                assert found.timestamp == start + offset * 50
        assert log.offset_for_timestamp(start + 1151, 24) is None
        assert log.offset_for_timestamp(start + 1150, 23) is None  # it is not committed
        assert log.max_timestamp_offset() == (start + 1150, 23, 2)
        log.delete_records_before(5)
        assert log.offset_for_timestamp(0, 24).offset == 5
        log.log_start_offset = 0


def test_out_of_order_timestamps(world: "World") -> None:
    log = world.create()
    now_ms = world.clock.now_ms()
    for delta_ms in (0, 500, 100, 300):
        world.append(log, timestamp=now_ms + delta_ms)
    assert log.offset_for_timestamp(now_ms + 50, 4).offset == 1
    assert log.max_timestamp_offset()[:2] == (now_ms + 500, 1)


def test_records_without_timestamps_are_not_found_by_time(world: "World") -> None:
    log = world.create()
    world.append(log, timestamp=-1)
    assert log.offset_for_timestamp(0, 1) is None
    assert log.max_timestamp_offset() is None


def test_open_files_are_bounded_and_the_busy_ones_stay(world: "World") -> None:
    world.manager.close()
    world.open_files_max = 3
    world.open()
    log = world.create(segment_bytes=200)
    for _ in range(8):
        world.append(log, size=100)
        world.disk.run()
    assert len(log.segments) == 8
    for offset in range(8):
        assert read(log, offset) == [offset]
        log.active.open_file()
    assert world.disk.open_references == 3
    assert log.active.file is not None


class Holder:
    def __init__(self) -> None:
        self.file: Any = object()
        self.recently_used = True

    def let_go(self) -> None:
        self.file = None


def test_the_clock_hand_takes_who_was_not_used_since_its_last_round() -> None:
    handles = Handles(3)
    holders = [Holder() for _ in range(5)]
    for holder in holders[:3]:
        handles.opened(holder)
    handles.opened(holders[3])  # all three were in use: the first round ends with the oldest
    assert [holder.file is None for holder in holders[:4]] == [True, False, False, False]
    holders[1].recently_used = True
    handles.opened(holders[4])
    assert holders[2].file is None
    assert holders[1].file is not None
    handles.closed(holders[1])
    assert len(handles) == 2


@pytest.mark.parametrize("later", [None, 40, 50, 60])
def test_the_latest_record_is_one_that_can_be_read(world: "World", later: int | None) -> None:
    """With the latest of its segment below the log's start there seemed to be none."""
    log = world.create(segment_bytes=3 * len(world.batch()))
    now_ms = world.clock.now_ms()
    for delay_ms in (100, 50, 20, *([] if later is None else [later])):
        world.append(log, timestamp=now_ms + delay_ms)
    assert log.max_timestamp_offset()[:2] == (now_ms + 100, 0)
    log.delete_records_before(1)
    expected = (now_ms + 60, 3) if later == 60 else (now_ms + 50, 1)
    assert log.max_timestamp_offset()[:2] == expected
