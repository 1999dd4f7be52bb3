"""A bit that flipped in a file that a clean shutdown has left: nothing is hidden or shown because of it, and nothing hangs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headwater.log import names
from headwater.log.log import Log
from headwater.log.scan import DamagedSegmentError
from headwater.records.batch import HEADER_BYTES
from headwater.records.builder import build_batch
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker
from headwater.records.reader import Record, read_batches

if TYPE_CHECKING:
    from unit.log.conftest import World

COUNT = 60


def written(world: "World") -> None:
    """Several segments, closed cleanly. The timestamp of each record is its offset and some more."""
    log = world.create(segment_bytes=2000, index_interval_bytes=150)
    for number in range(COUNT):
        batch = build_batch([Record(0, world.clock.now_ms() + number, b"key", bytes(80))])
        log.append_as_leader(memoryview(batch), 0, world.clock.now_ms())
    world.disk.run()
    world.manager.close()


def bits_of(world: "World", *suffixes: str) -> Iterator[tuple[str, int, int]]:
    for name in world.files():
        if name.endswith(suffixes):
            path = f"{world.directory}/{name}"
            for position in range(world.disk.file_size(path)):
                yield path, position, position * 5 % 8


def first_read(log: Log, offset: int, max_bytes: int) -> int:
    piece = log.read(offset, max_bytes, log.log_end_offset, min_one_batch=True)
    assert piece is not None
    data = piece.read()
    piece.release()
    return next(header for _, header in read_batches(data, partial_tail=True)).base_offset


def test_a_flipped_bit_in_an_index_misleads_nobody(world: "World") -> None:
    written(world)
    now_ms = world.clock.now_ms()
    files = {name: world.disk.read_file(f"{world.directory}/{name}") for name in world.files()}
    for path, position, bit in list(bits_of(world, names.OFFSET_INDEX, names.TIME_INDEX)):
        world.disk.flip_bit(path, position, bit)
        log = world.open().logs[world.partition]
        for offset in (0, 7, 31, COUNT - 1):
            assert first_read(log, offset, 1) == offset, (path, position)
            found = log.offset_for_timestamp(now_ms + offset, COUNT)
            assert found is not None
            assert found.offset == offset, (path, position)
        assert [segment.largest_timestamp() - now_ms for segment in log.segments][-1] == COUNT - 1
        assert [each - now_ms + 1 for each in (s.largest_timestamp() for s in log.segments[:-1])] == log.base_offsets[
            1:
        ]
        assert world.contents(log) == list(range(COUNT))
        world.disk.run()
        world.manager.close()
        for name, data in files.items():
            world.disk.write_file(f"{world.directory}/{name}", data)


def test_a_damaged_index_of_aborted_transactions_is_made_again(world: "World") -> None:
    log = world.create()
    for number in range(6):
        record = Record(0, world.clock.now_ms(), b"key", b"value")
        batch = build_batch([record], producer_id=number, producer_epoch=0, base_sequence=0, transactional=True)
        log.append_own(memoryview(batch), 0, world.clock.now_ms())
        marker = EndTransactionMarker(number % 2 == 0, 0)
        ending = build_end_transaction_marker(marker, producer_id=number, producer_epoch=0, timestamp=1)
        log.append_own(memoryview(ending), 0, world.clock.now_ms(), marker)
    expected = log.aborted_transactions(0, 100)
    assert [entry.producer_id for entry in expected] == [1, 3, 5]
    world.disk.run()
    world.manager.close()
    path = f"{world.directory}/{names.segment_name(0)}{names.TRANSACTION_INDEX}"
    right = world.disk.read_file(path)
    for position in (1, 9, 25, 34 + 9, 34 + 25):  # version, producer id, last offset
        world.disk.flip_bit(path, position, 2)
        log = world.open().logs[world.partition]
        assert log.aborted_transactions(0, 100) == expected, position
        world.disk.run()
        world.manager.close()
        assert world.disk.read_file(path) == right


@pytest.mark.parametrize("length", [0, -12, -(1 << 31), 5, (1 << 31) - 1])
def test_a_damaged_length_is_told_and_nobody_hangs(world: "World", length: int) -> None:
    log = world.create()
    for _ in range(20):
        world.append(log, size=50)
    log = world.reopen()
    file = log.active.open_file()
    data = bytearray(file.pread(0, file.size()))
    size = len(data) // 20
    data[5 * size + 8 : 5 * size + 12] = length.to_bytes(4, "big", signed=True)
    file.truncate(0)
    file.append(bytes(data))
    assert first_read(log, 3, 1) == 3
    with pytest.raises(DamagedSegmentError):
        log.read(5, 1, 20, min_one_batch=True)
    if length < HEADER_BYTES:
        with pytest.raises(DamagedSegmentError):
            log.read(12, 1, 20, min_one_batch=True)


DAMAGED_LENGTHS = [0, -12, 5, 1000, (1 << 31) - 1]


def with_a_damaged_length(world: "World", length: int, *, interval_bytes: int) -> None:
    """Segments of some 20 batches, one a second, closed cleanly; in the first, and in the last, the length of the fifth batch is wrong."""
    log = world.create(segment_bytes=20 * 150, index_interval_bytes=interval_bytes, retention_ms=60_000)
    for _ in range(50):
        world.append(log, size=70)
        world.pass_time(1_000)
    assert len(log.segments) == 3
    bases = (log.base_offsets[0], log.base_offsets[2])
    world.disk.run()
    world.manager.close()
    for base in bases:
        path = f"{world.directory}/{names.segment_name(base)}{names.LOG}"
        data = world.disk.read_file(path)
        at = [position for position, _ in read_batches(data)][5] + 8
        for wrong, right in zip(length.to_bytes(4, "big", signed=True), data[at : at + 4], strict=True):
            for bit in range(8):
                if (wrong ^ right) & (1 << bit):
                    world.disk.flip_bit(path, at, bit)
            at += 1


@pytest.mark.parametrize("interval_bytes", [300, 1 << 20])
@pytest.mark.parametrize("length", DAMAGED_LENGTHS)
def test_a_damaged_length_does_not_keep_segments_from_expiring(
    world: "World", length: int, interval_bytes: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The last entry of the time index could not be compared, and each pass of retention ended there, for ever."""
    with_a_damaged_length(world, length, interval_bytes=interval_bytes)
    manager = world.open()
    log = manager.logs[world.partition]
    manager.apply_retention(world.clock.now_ms())
    assert len(log.segments) == 3, "nothing is old enough"
    world.pass_time(30_000)
    manager.apply_retention(world.clock.now_ms())
    manager.apply_retention(world.clock.now_ms())
    assert len(log.segments) == 2, "the first is"
    world.pass_time(60_000)
    manager.apply_retention(world.clock.now_ms())
    assert log.size_bytes() == 0
    assert "retention-failed" not in caplog.text
    assert caplog.text.count("event=segment-damaged") <= 2


@pytest.mark.parametrize("length", DAMAGED_LENGTHS)
def test_records_behind_a_damaged_length_are_not_taken_for_older_than_they_are(world: "World", length: int) -> None:
    """The time index that was made again ended before the damage, and the segment expired with what is there."""
    begin_ms = world.clock.now_ms()
    with_a_damaged_length(world, length, interval_bytes=1 << 20)
    world.disk.remove(f"{world.directory}/{names.segment_name(0)}{names.TIME_INDEX}")
    log = world.open().logs[world.partition]
    assert log.segments[0].largest_timestamp() == begin_ms + (log.base_offsets[1] - 1) * 1_000


@pytest.mark.parametrize("length", DAMAGED_LENGTHS)
def test_what_stands_behind_a_damaged_length_can_still_be_read(world: "World", length: int) -> None:
    """The offset index was made again too, without anything behind the damage, and so nothing led there any more."""
    with_a_damaged_length(world, length, interval_bytes=300)
    log = world.open().logs[world.partition]
    log.segments[0]._rebuild_indexes("somebody wants it")
    last = log.base_offsets[1] - 1
    assert first_read(log, last, 1) == last


@pytest.mark.parametrize("length", DAMAGED_LENGTHS)
def test_a_log_whose_last_segment_is_damaged_takes_records(world: "World", length: int) -> None:
    """Before the first append the largest timestamp is loaded: it could not be compared, and every append was refused."""
    with_a_damaged_length(world, length, interval_bytes=1 << 20)
    log = world.open().logs[world.partition]
    assert world.append(log) == 50
    assert first_read(log, 50, 1) == 50
    world.disk.run()
    world.manager.close()
    assert world.open().logs[world.partition].log_end_offset == 51
