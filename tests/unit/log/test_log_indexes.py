"""The three indexes of a segment: bytes, lookups, and what they make of damage."""

import errno
import struct

import pytest

from headwater.log.offset_index import OffsetIndex
from headwater.log.time_index import TimeIndex
from headwater.log.transaction_index import AbortedTransaction, TransactionIndex
from headwater.sim.disk import SimDisk

PATH = "/i"


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


def test_offset_entries_are_relative_offset_and_position_in_big_endian(disk: SimDisk) -> None:
    index = OffsetIndex(PATH, 1000)
    index.append(1005, 4242)
    index.write(disk)
    assert disk.read_file(PATH) == bytes.fromhex("00000005" + "00001092")


def test_only_what_is_new_is_written(disk: SimDisk) -> None:
    index = OffsetIndex(PATH, 0)
    index.append(1, 10)
    index.write(disk)
    index.append(2, 20)
    index.write(disk)
    index.write(disk)
    assert disk.read_file(PATH) == struct.pack(">iiii", 1, 10, 2, 20)


@pytest.mark.parametrize(
    ("offset", "position", "border"),
    [(100, 0, 50), (104, 0, 50), (105, 50, 90), (109, 50, 90), (110, 90, -1), (999, 90, -1)],
)
def test_a_lookup_finds_the_last_entry_that_is_not_past_the_offset(offset: int, position: int, border: int) -> None:
    index = OffsetIndex(PATH, 100)
    index.append(105, 50)
    index.append(110, 90)
    assert index.lookup(offset) == (position, border)


@pytest.mark.parametrize(("position", "border"), [(49, 0), (50, 50), (89, 50), (90, 90), (1000, 90)])
def test_the_last_border_at_or_before_a_position(position: int, border: int) -> None:
    index = OffsetIndex(PATH, 100)
    index.append(105, 50)
    index.append(110, 90)
    assert index.floor_position(position) == border


def test_a_preallocated_tail_of_zeroes_is_cut_off(disk: SimDisk) -> None:
    entries = struct.pack(">iiii", 5, 100, 0x0B00, 0x0200)  # ends in a zero byte of its own
    disk.write_file(PATH, entries + bytes(80))
    index = OffsetIndex.load(disk, PATH, 0, 10_000)
    assert index is not None
    assert index.entries == entries
    assert disk.read_file(PATH) == entries


def test_to_cut_a_tail_of_zeroes_needs_no_room(disk: SimDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file was emptied to be written anew, and there was no room for it: lookups by time left the segment out from
    then on.
    """
    entries = struct.pack(">qi", 1000, 5)
    disk.write_file(PATH, entries + bytes(120))

    def no_room(_size: int, path: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", path)

    monkeypatch.setattr(disk, "take_space", no_room)
    index = TimeIndex.load(disk, PATH, 0)
    assert index is not None
    assert index.last_entry() == (1000, 5)
    assert disk.read_file(PATH) == entries


def test_a_tail_of_zeroes_that_could_not_be_cut_goes_with_the_next_entries(
    disk: SimDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = struct.pack(">qi", 1000, 5)
    disk.write_file(PATH, entries + bytes(120))

    def failing(path: str, *, create: bool = False) -> None:
        raise OSError(errno.EMFILE, f"Too many open files {create}", path)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "open", failing)
        index = TimeIndex.load(disk, PATH, 0)
    assert index is not None
    assert index.is_stale
    index.append(2000, 6)
    index.write(disk)
    assert disk.read_file(PATH) == entries + struct.pack(">qi", 2000, 6)


@pytest.mark.parametrize(
    "damaged",
    [
        struct.pack(">iii", 5, 100, 9),  # half an entry
        struct.pack(">iiii", 5, 100, 4, 200),  # offsets go back
        struct.pack(">iiii", 5, 100, 6, 90),  # positions go back
        struct.pack(">iiii", 5, 100, 6, 10_000),  # past the segment's end
        struct.pack(">ii", -5, 100),
    ],
)
def test_an_offset_index_that_cannot_be_right_is_not_used(disk: SimDisk, damaged: bytes) -> None:
    disk.write_file(PATH, damaged)
    assert OffsetIndex.load(disk, PATH, 0, 10_000) is None


def test_missing_index_files_are_not_used(disk: SimDisk) -> None:
    assert OffsetIndex.load(disk, PATH, 0, 0) is None
    assert TimeIndex.load(disk, PATH, 0) is None


def test_truncating_an_offset_index(disk: SimDisk) -> None:
    index = OffsetIndex(PATH, 0)
    for at in range(1, 6):
        index.append(at * 10, at * 100)
    index.write(disk)
    index.truncate_to_position(disk, 300)
    assert index.last_position() == 200
    assert disk.read_file(PATH) == struct.pack(">iiii", 10, 100, 20, 200)


def test_time_entries_are_timestamp_and_relative_offset(disk: SimDisk) -> None:
    index = TimeIndex(PATH, 1000)
    index.append(0x18BCFE56800, 1007)
    index.write(disk)
    assert disk.read_file(PATH) == bytes.fromhex("0000018bcfe56800" + "00000007")


def test_only_later_timestamps_make_entries() -> None:
    index = TimeIndex(PATH, 0)
    index.append(100, 5)
    index.append(100, 9)
    index.append(90, 11)
    index.append(120, 12)
    assert index.last_entry() == (120, 12)
    assert len(index.entries) == 24


@pytest.mark.parametrize(("timestamp", "offset"), [(99, 0), (100, 0), (101, 5), (200, 5), (201, 9)])
def test_nothing_before_the_offset_that_a_time_lookup_gives_is_as_late(timestamp: int, offset: int) -> None:
    index = TimeIndex(PATH, 0)
    index.append(100, 5)
    index.append(200, 9)
    assert index.lookup(timestamp) == offset


def test_an_empty_time_index_says_minus_one() -> None:
    assert TimeIndex(PATH, 33).last_entry() == (-1, 33)


def test_a_damaged_time_index_is_not_used(disk: SimDisk) -> None:
    disk.write_file(PATH, struct.pack(">qiqi", 200, 5, 100, 9))
    assert TimeIndex.load(disk, PATH, 0) is None
    disk.write_file(PATH, bytes(range(1, 14)))
    assert TimeIndex.load(disk, PATH, 0) is None


def test_aborted_transactions_as_kafka_writes_them(disk: SimDisk) -> None:
    index = TransactionIndex(PATH)
    index.append(disk, AbortedTransaction(7, 10, 20, 15))
    assert disk.read_file(PATH) == struct.pack(">hqqqq", 0, 7, 10, 20, 15)
    loaded = TransactionIndex.load(disk, PATH)
    assert loaded is not None
    assert loaded.aborted == [(7, 10, 20, 15)]


def test_no_transaction_index_file_means_no_aborted_transaction(disk: SimDisk) -> None:
    index = TransactionIndex.load(disk, PATH)
    assert index is not None
    assert index.aborted == []
    index.rewrite(disk)
    assert not disk.exists(PATH)


def test_a_damaged_transaction_index_is_noticed(disk: SimDisk) -> None:
    disk.write_file(PATH, bytes(33))
    assert TransactionIndex.load(disk, PATH) is None
    disk.write_file(PATH, struct.pack(">hqqqq", 1, 7, 10, 20, 15))
    assert TransactionIndex.load(disk, PATH) is None


def test_truncating_a_transaction_index(disk: SimDisk) -> None:
    index = TransactionIndex(PATH)
    index.append(disk, AbortedTransaction(7, 10, 20, 15))
    index.append(disk, AbortedTransaction(8, 12, 30, 31))
    index.truncate_to_offset(disk, 30)
    assert [entry.producer_id for entry in index.aborted] == [7]
    index.truncate_to_offset(disk, 0)
    assert not disk.exists(PATH)
