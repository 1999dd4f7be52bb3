"""Code that runs in the middle of the compiled codec:
the garbage collector calls anybody's, and some of it calls back.
"""

import gc
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.records.batch import HEADER_BYTES, read_header
from headwater.records.builder import build_batch
from headwater.records.columns import NO_STOP
from headwater.records.record import Record

codec = pytest.importorskip("headwater.records._codec")

HEADERS = tuple((f"header {at}", b"value") for at in range(50))
BATCH = bytes(build_batch([Record(at, 1000, b"key", None, HEADERS) for at in range(4)]))
HEADER, PAYLOAD = read_header(BATCH), BATCH[HEADER_BYTES:]


@contextmanager
def during_collections(call: Callable[[], object]) -> Iterator[list[int]]:
    """Collects at every chance, and calls each time, though not within itself. How often, in the list."""
    calls = [0]
    busy = False

    def called(phase: str, _: object) -> None:
        nonlocal busy
        if phase == "start" and not busy:
            busy = True
            calls[0] += 1
            call()
            busy = False

    before = gc.get_threshold()
    gc.callbacks.append(called)
    gc.set_threshold(1)
    try:
        yield calls
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(called)


def test_a_builder_that_is_written_to_while_it_finishes_keeps_both_apart() -> None:
    builder = codec.ColumnBuilder()

    def append() -> None:
        damaged = HEADER._replace(record_count=3)  # bytes after the last record: cut back to where it was
        with pytest.raises(KafkaError):
            builder.append_batch(PAYLOAD, damaged, b"topic", 0, 0, NO_STOP)
        assert builder.append_batch(PAYLOAD, HEADER, b"topic", 0, 0, NO_STOP) == HEADER.record_count

    append()
    with during_collections(append) as calls:
        first = builder.finish()
    second = builder.finish()
    assert calls[0] > 0
    assert first.row_count + second.row_count == HEADER.record_count * (1 + calls[0])
    for columns in (first, second):
        assert bytes(columns.offset) == struct.pack("=4q", *range(4)) * (columns.row_count // 4)
        assert bytes(columns.key_data) == b"key" * columns.row_count
        assert columns.headers.header_count == len(HEADERS) * columns.row_count


@pytest.mark.parametrize("filling", [b"\xff", b"\x01"])  # lengths without an end, lengths of -1
def test_a_payload_that_is_overwritten_while_its_headers_are_read(filling: bytes) -> None:
    reasons = set()
    for collection in range(1, 20):
        payload, left = bytearray(PAYLOAD), [collection]

        def overwrite(payload: bytearray = payload, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                payload[:] = filling * len(payload)

        try:
            with during_collections(overwrite):
                codec.read_records(payload, HEADER)
        except KafkaError as problem:
            reasons.add((problem.code, problem.message.partition(": ")[2]))
    assert {code for code, _ in reasons} == {ErrorCode.CORRUPT_MESSAGE}
    assert "it was written to while it was read" in {why for _, why in reasons}
