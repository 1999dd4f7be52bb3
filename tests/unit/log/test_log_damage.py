"""A bit that flipped in a file that a clean shutdown has left: nothing is hidden or shown because of it, and nothing
hangs.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from headwater.log import names
from headwater.log.log import Log
from headwater.log.rolling import roll
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


def transactions(world: "World", log: Log) -> None:
    """Six, each of one record; every other one is aborted."""
    for number in range(6):
        record = Record(0, world.clock.now_ms(), b"key", b"value")
        batch = build_batch([record], producer_id=number, producer_epoch=0, base_sequence=0, transactional=True)
        log.append_own(memoryview(batch), 0, world.clock.now_ms())
        marker = EndTransactionMarker(number % 2 == 0, 0)
        ending = build_end_transaction_marker(marker, producer_id=number, producer_epoch=0, timestamp=1)
        log.append_own(memoryview(ending), 0, world.clock.now_ms(), marker)


@pytest.mark.parametrize("way", ["made", "rolled", "compacted", "truncated"])
def test_whatever_made_a_segment_its_index_of_aborted_transactions_is_made_again(world: "World", way: str) -> None:
    """Only segments that a start had found knew how; for those that were rolled or compacted since, reading failed
    until a restart.
    """
    log = world.create(cleanup_compact=way == "compacted")
    if way == "truncated":
        world.append(log)
        log.truncate_fully(1)
    elif way == "rolled":
        world.append(log)
        roll(log, world.clock.now_ms())
    transactions(world, log)
    if way == "compacted":
        roll(log, world.clock.now_ms())
        log.flush()
        world.disk.run()
        world.manager.write_checkpoints()
        world.disk.run()
        world.manager.cleaner.tick(world.clock.now_ms(), world.clock.monotonic_ms())
        world.scheduler.run_due()
        world.disk.run()
        assert world.manager.cleaner.counts.cleanings == 1
    segment = log.segments[-2] if way == "compacted" else log.active
    expected = log.aborted_transactions(0, 100)
    assert [entry.producer_id for entry in expected] == [1, 3, 5]
    segment.let_go()
    path = segment.path(names.TRANSACTION_INDEX)
    right = world.disk.read_file(path)
    world.disk.flip_bit(path, 34 + 25, 2)
    assert log.aborted_transactions(0, 100) == expected
    assert world.disk.read_file(path) == right


def test_a_damaged_index_of_aborted_transactions_is_made_again(world: "World") -> None:
    log = world.create()
    transactions(world, log)
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


@pytest.mark.parametrize("seed", range(12))
def test_an_index_that_was_made_again_is_whole_after_a_power_loss(worlds: Callable[[int], "World"], seed: int) -> None:
    """It was cut to nothing and filled again in its place, and no recovery looks at old segments: half an index was
    left and believed.
    """
    world = worlds(seed)
    log = world.create(index_interval_bytes=100)
    transactions(world, log)
    for number in range(20):
        world.append(log, timestamp=world.clock.now_ms() + number)
    for _ in range(2):
        roll(log, world.clock.now_ms())
        world.append(log)
    aborted = log.aborted_transactions(0, 100)
    latest = log.segments[0].largest_timestamp()
    world.disk.run()
    world.manager.close()
    stem = f"{world.directory}/{names.segment_name(0)}"
    world.disk.flip_bit(stem + names.TRANSACTION_INDEX, 9, 2)
    world.disk.flip_bit(stem + names.TIME_INDEX, world.disk.file_size(stem + names.TIME_INDEX) - 6, 2)
    log = world.open().logs[world.partition]
    assert (log.aborted_transactions(0, 100), log.segments[0].largest_timestamp()) == (aborted, latest)
    log = world.crash()
    assert (log.aborted_transactions(0, 100), log.segments[0].largest_timestamp()) == (aborted, latest)


@pytest.mark.parametrize("shift", [0, 4])
def test_a_flipped_bit_in_an_index_of_aborted_transactions_misleads_nobody(world: "World", shift: int) -> None:
    """Whoever asks for a stretch gets what is aborted there; all but first offsets can be compared with something."""
    log = world.create()
    for _ in range(
        shift
    ):  # a transaction that stays open, so that the last stable offset does not tell where the others end
        batch = build_batch([Record(0, 0, b"key", b"")], producer_id=9, producer_epoch=0, transactional=True)
        log.append_own(memoryview(batch), 0, world.clock.now_ms())
    transactions(world, log)
    end = log.log_end_offset
    stretches = [(begin, begin + 1) for begin in range(end)] + [(0, end), (4, 9)]
    expected = [told(log, stretch) for stretch in stretches]
    path = log.active.path(names.TRANSACTION_INDEX)
    right = world.disk.read_file(path)
    for position in range(len(right)):
        if 10 <= position % 34 < 18:
            continue
        for bit in range(8) if position % 34 in (9, 25, 33) else (position * 5 % 8,):  # low bytes all, others one
            for stretch, aborted in zip(stretches, expected, strict=True):
                log.active.let_go()
                world.disk.write_file(path, right)  # whoever finds it damaged mends it
                world.disk.flip_bit(path, position, bit)
                assert told(log, stretch) == aborted, (position, bit, stretch)


def told(log: Log, stretch: tuple[int, int]) -> list[tuple[int, int]]:
    """What a reader of the stretch is told."""
    return [(entry.producer_id, entry.first_offset) for entry in log.aborted_transactions(*stretch)]


def test_of_many_aborted_transactions_only_those_are_looked_at_that_somebody_asks_for(world: "World") -> None:
    """All of them were, when the index was first read: the loop stood still for seconds over 200,000 of them."""
    log = world.create()
    for _ in range(100):
        transactions(world, log)
    log = world.reopen()
    path = log.active.path(names.LOG)
    before = world.disk.bytes_read[path]
    assert len(log.aborted_transactions(600, 612)) == 3
    assert world.disk.bytes_read[path] - before < 50_000
    before = world.disk.bytes_read[path]
    assert len(log.aborted_transactions(600, 612)) == 3
    assert world.disk.bytes_read[path] == before, "they are known to be true"
    assert len(log.aborted_transactions(0, 1200)) == 300


def test_a_damaged_marker_keeps_no_log_from_being_opened(world: "World", caplog: pytest.LogCaptureFixture) -> None:
    """Where the state of producers had to be collected from the records, it ended the start of the broker."""
    log = world.create()
    transactions(world, log)
    data = log.active.open_file().pread(0, log.active.size_bytes)
    position = [at for at, header in read_batches(data) if header.is_control][3]
    path = log.active.path(names.LOG)
    world.disk.run()
    world.manager.close()
    world.disk.flip_bit(path, position + HEADER_BYTES + 4, 1)
    for name in world.files():
        if name.endswith(names.SNAPSHOT):
            world.disk.remove(f"{world.directory}/{name}")
    log = world.open().logs[world.partition]
    assert world.contents(log) == list(range(12))
    assert "event=marker-unreadable offset=7" in caplog.text
    assert list(log.producers.ongoing) == [6]


def test_a_follower_goes_on_behind_a_marker_that_it_cannot_read(world: "World") -> None:
    """All batches of a fetch were in the file, and those behind the marker were never noted: the next one got a wrong
    place.
    """
    log = world.create()
    now_ms = world.clock.now_ms()
    fields = {"producer_id": 1, "producer_epoch": 0, "partition_leader_epoch": 0}
    unreadable = build_batch(
        [Record(0, now_ms, b"\0\0\0\0", b"")], base_offset=0, transactional=True, control=True, **fields
    )
    others = [build_batch([Record(at, now_ms, b"k", b"v")], base_offset=at, **fields) for at in (1, 2)]
    log.append_as_follower(memoryview(b"".join((unreadable, *others))), 0)
    world.append(log)
    assert world.contents(log) == [0, 1, 2, 3]
    assert log.active.size_bytes == log.active.open_file().size()


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
    """Segments of some 20 batches, one a second, closed cleanly; in the first, and in the last, the length of the fifth
    batch is wrong.
    """
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
    """Before the first append the largest timestamp is loaded:
    it could not be compared, and every append was refused.
    """
    with_a_damaged_length(world, length, interval_bytes=1 << 20)
    log = world.open().logs[world.partition]
    assert world.append(log) == 50
    assert first_read(log, 50, 1) == 50
    world.disk.run()
    world.manager.close()
    assert world.open().logs[world.partition].log_end_offset == 51
