"""The scan of a segment around its pieces: batches longer than one, borders inside a header, a file that is shorter
than it said.
"""

import pytest

from headwater.log import scan
from headwater.records.builder import build_batch
from headwater.records.reader import Record


class Bytes:
    """A file that is only read; it may claim to be longer than it is."""

    path = "segment"

    def __init__(self, data: bytes, more: int = 0) -> None:
        self._data = data
        self._more = more
        self.reads: list[int] = []

    def size(self) -> int:
        return len(self._data) + self._more

    def pread(self, position: int, length: int) -> bytes:
        self.reads.append(length)
        return self._data[position : position + length]


def batches(sizes: list[int]) -> list[bytes]:
    return [bytes(build_batch([Record(at, 1, None, bytes(size))], base_offset=at)) for at, size in enumerate(sizes)]


def test_pieces_are_as_large_as_the_file_is_worth() -> None:
    assert scan._piece_bytes(100) == scan._piece_bytes(16 << 20) == 1 << 20
    assert scan._piece_bytes(1 << 30) == scan._piece_bytes(1 << 40) == 8 << 20


@pytest.mark.parametrize("piece_bytes", [61, 62, 100, 150, 400, 10_000])
def test_batches_need_not_fit_into_a_piece(piece_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_piece_bytes", lambda size: piece_bytes)
    data = b"".join(batches([10, 500, 0, 3000, 20, 20]))
    found = scan.scan_segment(Bytes(data), 0, 0, 4096)  # type: ignore[arg-type]
    assert (found.valid_bytes, found.next_offset, found.problem) == (len(data), 6, None)


def test_a_long_batch_is_read_once_more_as_a_whole_and_then_pieces_are_short_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scan, "_piece_bytes", lambda size: 200)
    each = batches([10, 1000, *[10] * 10])
    file = Bytes(b"".join(each))
    assert scan.scan_segment(file, 0, 0, 4096).next_offset == 12  # type: ignore[arg-type]
    assert file.reads[:4] == [200, 200, len(each[1]), 200]


@pytest.mark.parametrize("length", [0, 30, 61, 300, 1000])
def test_a_file_that_is_shorter_than_it_said_ends_the_log_there(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_piece_bytes", lambda size: 200)
    first, second = batches([10, 2000])
    file = Bytes(first + second[:length], more=len(second) - length)
    found = scan.scan_segment(file, 0, 0, 4096)  # type: ignore[arg-type]
    assert (found.valid_bytes, found.next_offset) == (len(first), 1)
    assert found.problem == f"{length} bytes, too few for a batch"


@pytest.mark.parametrize("is_damaged", [True, False])
def test_a_damaged_length_does_not_bring_a_whole_segment_into_memory(
    is_damaged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "PIECE_BYTES", 100)
    monkeypatch.setattr(scan, "LONG_BATCH_BYTES", 500)
    monkeypatch.setattr(scan, "_piece_bytes", lambda size: 200)
    first, second, third = batches([10, 1000, 3000])
    data = bytearray(first + second + third)
    if is_damaged:
        data[len(first) + 8 : len(first) + 12] = (len(second + third) - 12).to_bytes(4, "big")
    file = Bytes(bytes(data))
    found = scan.scan_segment(file, 0, 0, 4096)  # type: ignore[arg-type]
    if is_damaged:
        assert (found.valid_bytes, found.problem, max(file.reads)) == (len(first), "a wrong CRC", 200)
    else:
        assert (found.next_offset, found.problem) == (3, None)
