"""The scanner of segment files, compiled and in Python:
what it takes, where it stops, and which batches it tells of.
"""

import threading
from struct import Struct
from types import ModuleType
from typing import Any

import pytest

from headwater.records import pure
from headwater.records.batch import read_header
from headwater.records.builder import build_batch
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker
from headwater.records.reader import Record
from headwater.records.verdict import BAD_CRC, BAD_EPOCH, BAD_HEADER, GO_ON

compiled = pytest.importorskip("headwater.records._codec")
pytestmark = pytest.mark.parametrize("module", [compiled, pure], ids=["compiled", "pure"])

UNCHECKED = 1 << 62
OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")


def batch_at(offset: int, *, epoch: int = 0, timestamp: int = 5, size: int = 10, **fields: Any) -> bytearray:
    records = [Record(offset, timestamp, None, bytes(size))]
    return build_batch(records, base_offset=offset, partition_leader_epoch=epoch, **fields)


def produced(offset: int, *, producer_id: int = 7, **fields: Any) -> bytearray:
    return batch_at(offset, producer_id=producer_id, **{"producer_epoch": 0, "base_sequence": offset, **fields})


def marker_at(offset: int, producer_id: int = 7) -> bytearray:
    return build_end_transaction_marker(
        EndTransactionMarker(True, 1),
        producer_id=producer_id,
        producer_epoch=0,
        timestamp=5,
        base_offset=offset,
        partition_leader_epoch=0,
    )


def scanner_of(
    module: ModuleType, check_from_offset: int = 0, interval_bytes: int = 4096, least_epoch: int = -1
) -> Any:
    return module.BatchScanner(0, check_from_offset, interval_bytes, least_epoch)


def told(module: ModuleType, batches: list[bytearray]) -> list[int]:
    """The base offsets of the batches that it tells of, all in one piece."""
    data = b"".join(batches)
    verdict, places = scanner_of(module).feed(data, len(data))
    assert verdict == GO_ON
    return [read_header(data, at).base_offset for at in places]


def test_plain_batches_are_counted_and_not_told_but_for_the_first_of_an_epoch(module: ModuleType) -> None:
    batches = [batch_at(at, epoch=at // 3, timestamp=100 - at) for at in range(9)]
    data = b"".join(batches)
    scanner = scanner_of(module)
    verdict, places = scanner.feed(data, len(data))
    assert verdict == GO_ON
    assert [read_header(data, at).base_offset for at in places] == [0, 3, 6]
    assert (scanner.valid_bytes, scanner.next_offset, scanner.latest_epoch) == (len(data), 9, 2)
    assert (scanner.max_timestamp, scanner.max_timestamp_offset) == (100, 0)


def test_of_a_producer_the_first_and_the_last_five_are_told(module: ModuleType) -> None:
    assert told(module, [produced(at) for at in range(20)]) == [0, 15, 16, 17, 18, 19]


def test_producers_are_told_in_the_order_of_their_batches(module: ModuleType) -> None:
    batches = [produced(at, producer_id=7 + at % 2) for at in range(20)]
    assert told(module, batches) == [0, 1, *range(10, 20)]


def test_two_producers_that_share_a_place_are_told_in_full(module: ModuleType) -> None:
    assert told(module, [produced(at, producer_id=7 + at % 2 * 1024) for at in range(12)]) == list(range(12))


def test_the_first_batch_of_a_leader_epoch_is_told_whoever_wrote_it(module: ModuleType) -> None:
    assert told(module, [produced(at, epoch=at // 6) for at in range(12)]) == list(range(12))
    assert told(module, [produced(at, epoch=int(at > 2)) for at in range(12)]) == [0, 1, 2, 3, 7, 8, 9, 10, 11]


def test_the_first_batch_of_a_transaction_is_told(module: ModuleType) -> None:
    batches = [produced(at, transactional=at >= 3) for at in range(12)]
    assert told(module, batches) == [0, 1, 2, 3, *range(7, 12)]


def test_after_a_marker_the_next_transaction_begins(module: ModuleType) -> None:
    batches = [produced(0, transactional=True), marker_at(1)]
    batches += [produced(at, transactional=True) for at in range(2, 12)]
    assert told(module, batches) == [0, 1, 2, 7, 8, 9, 10, 11]


def test_a_batch_without_a_sequence_pushes_none_out(module: ModuleType) -> None:
    batches = [produced(at, base_sequence=-1 if at in (3, 4) else at) for at in range(8)]
    assert told(module, batches) == list(range(8))


def test_every_kind_of_damage_stops_it_at_the_batch(module: ModuleType) -> None:
    good, size = batch_at(0), len(batch_at(0))

    def verdict_of(at: int, byte: int) -> int:
        bad = batch_at(1)
        bad[at] = byte
        data = bytes(good + bad)
        scanner = scanner_of(module)
        verdict, _ = scanner.feed(data, len(data))
        assert scanner.valid_bytes == (size if verdict else 2 * size)
        return int(verdict)

    assert verdict_of(7, 0) == BAD_HEADER  # an offset that was there already
    assert verdict_of(0, 0x80) == BAD_HEADER
    assert verdict_of(7, 9) == GO_ON  # a gap
    assert verdict_of(11, 48) == BAD_HEADER  # shorter than a header
    assert verdict_of(8, 0x80) == BAD_HEADER
    assert verdict_of(11, size - 11) == BAD_HEADER  # longer than the file
    assert verdict_of(12, 0x80) == BAD_EPOCH
    assert verdict_of(16, 1) == BAD_HEADER
    assert verdict_of(17, batch_at(1)[17] ^ 1) == BAD_CRC
    assert verdict_of(23, 0x80) == BAD_HEADER
    assert verdict_of(size - 1, 1) == BAD_CRC


def test_offsets_that_no_log_reaches_are_damage(module: ModuleType) -> None:
    bad = build_batch([Record(0, 1, None, b"")], last_offset_delta=1)
    for base_offset, verdict in (((1 << 63) - 3, GO_ON), ((1 << 63) - 2, BAD_HEADER), ((1 << 63) - 1, BAD_HEADER)):
        Struct(">q").pack_into(bad, 0, base_offset)
        scanner = module.BatchScanner((1 << 63) - 10, 0, 4096, -1)
        assert scanner.feed(bad, len(bad))[0] == verdict


def test_what_is_not_checked_may_be_damaged_and_end_behind_the_piece(module: ModuleType) -> None:
    damaged = batch_at(0, epoch=3)
    damaged[-1] ^= 1
    data = bytes(damaged + batch_at(1, epoch=2, size=500))
    scanner = scanner_of(module, check_from_offset=UNCHECKED)
    assert scanner.feed(data[: len(damaged) + 61], len(data)) == (GO_ON, [0])
    assert (scanner.valid_bytes, scanner.next_offset, scanner.latest_epoch) == (len(data), 2, 3)


def test_what_is_checked_must_be_there_as_a_whole(module: ModuleType) -> None:
    data = bytes(batch_at(0, size=500))
    scanner = scanner_of(module)
    for length in (0, 60, 61, len(data) - 1):
        assert scanner.feed(data[:length], len(data)) == (GO_ON, [])
        assert scanner.valid_bytes == 0
    assert scanner.feed(data, len(data)) == (GO_ON, [0])
    assert scanner.valid_bytes == len(data)


def test_markers_are_always_checked(module: ModuleType) -> None:
    marker = marker_at(0)
    marker[-1] ^= 1
    assert scanner_of(module, check_from_offset=UNCHECKED).feed(marker, len(marker)) == (BAD_CRC, [])
    scanner = scanner_of(module, check_from_offset=UNCHECKED)
    assert scanner.feed(marker[:-1], len(marker)) == (GO_ON, [])
    assert scanner.valid_bytes == 0


def test_checks_begin_where_they_should(module: ModuleType) -> None:
    first, second = batch_at(4), batch_at(5)
    first[-1] ^= 1
    second[-1] ^= 1
    data = bytes(first + second)
    scanner = scanner_of(module, check_from_offset=5)
    assert scanner.feed(data, len(data))[0] == BAD_CRC
    assert scanner.valid_bytes == len(first)


def test_epochs_before_those_of_the_last_segment_are_damage(module: ModuleType) -> None:
    data = batch_at(0, epoch=3)
    assert scanner_of(module, least_epoch=4).feed(data, len(data))[0] == BAD_EPOCH
    assert scanner_of(module, least_epoch=3).feed(data, len(data)) == (GO_ON, [])


def test_index_entries_stand_as_far_apart_as_they_should_across_pieces(module: ModuleType) -> None:
    size = len(batch_at(0))
    scanner = scanner_of(module, interval_bytes=2 * size)
    for at in range(10):
        scanner.feed(batch_at(at, timestamp=[50, 40][at % 2] + at), size * (10 - at))
    offsets, times = scanner.finish()
    assert list(OFFSET_ENTRY.iter_unpack(offsets)) == [(3, 3 * size), (6, 6 * size), (9, 9 * size)]
    assert list(TIME_ENTRY.iter_unpack(times)) == [(52, 2), (56, 6), (58, 8)]
    assert type(offsets) is type(times) is bytearray


def test_an_offset_that_no_index_can_hold(module: ModuleType) -> None:
    """No CRC covers the base offset. A flipped bit in it is damage as any other, and not an offset that is believed."""
    near, far = [batch_at(0, timestamp=9), batch_at((1 << 31) - 1, timestamp=8)], batch_at(1 << 31, timestamp=8)
    data = b"".join([*near, far])
    scanner = scanner_of(module, interval_bytes=0)
    assert scanner.feed(data, len(data))[0] == BAD_HEADER
    assert scanner.valid_bytes == len(data) - len(far)
    assert scanner.next_offset == 1 << 31
    scanner.finish()


def test_arguments_that_cannot_be_are_refused(module: ModuleType) -> None:
    with pytest.raises(ValueError, match="below 0"):
        module.BatchScanner(-1, 0, 0, 0)
    with pytest.raises(TypeError):
        module.BatchScanner(0, 0, 0)
    scanner = scanner_of(module)
    with pytest.raises(ValueError, match="more bytes than are left"):
        scanner.feed(bytes(10), 9)
    with pytest.raises(TypeError):
        scanner.feed("text", 4)
    with pytest.raises(TypeError):
        scanner.feed(b"")
    assert scanner.finish() == (b"", b"")


def test_threads_that_share_a_scanner_break_nothing(module: ModuleType) -> None:
    """It belongs to one thread at a time; a second one is refused, if anything."""
    data = b"".join(batch_at(at) for at in range(2000))
    scanner = scanner_of(module, interval_bytes=0)
    odd: list[BaseException] = []

    def work() -> None:
        for _ in range(50):
            try:
                scanner.feed(data, len(data))
                scanner.finish()
            except ValueError:
                pass
            except BaseException as error:  # noqa: BLE001 (the test raises it)
                odd.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not odd
