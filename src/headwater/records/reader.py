"""Reads record batches (format: `batch.py`): first the headers, then, where someone needs them, the records.

    a record:  varint length, int8 attributes, varlong timestamp delta, varint offset delta,
               varint key length (-1: null), key, varint value length (-1: null), value,
               varint header count, then each header: varint key length, key (UTF-8),
               varint value length (-1: null), value

All varints are zigzag. Whatever the bytes are, the outcome is records or a `KafkaError`: CORRUPT_MESSAGE where they are
damaged, UNSUPPORTED_FOR_MESSAGE_FORMAT for the message sets of before 2017 (magic 0 and 1), MESSAGE_TOO_LARGE for a
batch that takes more memory than the limit: its bytes when decompressed, and `RECORD_BYTES` for each record, because a
kilobyte can hold a million records that are almost nothing. The records themselves are read by the codec (`codec.py`).
No state.
"""

from collections.abc import Iterator
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ports import Buffer
from headwater.records.batch import (
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    crc_of,
)
from headwater.records.codec import read_records as _records_of
from headwater.records.compression import decompress
from headwater.records.record import Headers, Record, corrupt

__all__ = ["Headers", "Record", "check_crc", "corrupt", "header_at", "open_batch", "read_batches", "read_records"]

_INT64_MAX: Final = (1 << 63) - 1
_RECORD_BYTES_MIN: Final = 7  # in a batch
RECORD_BYTES: Final = 128  # what an empty record takes as an object, at least


def read_batches(data: Buffer, *, partial_tail: bool = False) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch in `data`. Lengths are checked, the CRC is not: that is `check_crc`.

    With `partial_tail`, a batch cut off by the end of `data` ends the walk quietly: a fetch response may end so.
    """
    at = 0
    end = len(data)
    while at < end:
        header = header_at(data, at)
        if header is None or at + header.size_bytes > end:
            if partial_tail:
                return
            raise corrupt(f"the batch at byte {at} is cut off by the end of the data")
        yield at, header
        at += header.size_bytes


def header_at(data: Buffer, at: int) -> BatchHeader | None:
    """None if the data ends inside the header."""
    if len(data) > at + MAGIC_AT and data[at + MAGIC_AT] != MAGIC:
        magic = data[at + MAGIC_AT]
        if magic in (0, 1):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                f"message format {magic} is older than Kafka 0.11; only format {MAGIC} is served",
            )
        raise corrupt(f"there is no message format {magic}")
    if len(data) - at < HEADER_BYTES:
        return None
    header = BatchHeader._make(HEADER.unpack_from(data, at))
    if header.batch_length < HEADER_BYTES - LENGTH_PREFIX_BYTES:
        raise corrupt(f"a batch length of {header.batch_length} is less than its header")
    if header.base_offset < 0 or header.last_offset_delta < 0 or header.record_count < 0:
        raise corrupt(
            f"a negative field: base offset {header.base_offset}, "
            f"last offset delta {header.last_offset_delta}, record count {header.record_count}"
        )
    if header.last_offset >= _INT64_MAX:
        raise corrupt(f"a batch at offset {header.base_offset} that ends past the last offset there can be")
    return header


def check_crc(batch: Buffer, header: BatchHeader) -> None:
    """`batch` is one whole batch, `header` its header."""
    actual = crc_of(batch)
    if actual != header.crc:
        raise corrupt(
            f"the batch at offset {header.base_offset} has CRC {actual:#010x}, its header says {header.crc:#010x}"
        )


def read_records(batch: Buffer, limit_bytes: int) -> list[Record]:
    """The records of one whole batch, whose CRC is checked; they may take `limit_bytes` together."""
    header = header_at(batch, 0)
    if header is None or header.size_bytes != len(batch):
        raise corrupt(f"{len(batch)} bytes are not one whole batch")
    return _records_of(open_batch(batch, header, limit_bytes), header)


def open_batch(batch: Buffer, header: BatchHeader, limit_bytes: int) -> Buffer:
    """What is in a whole batch after its header, decompressed, if the CRC is right."""
    check_crc(batch, header)
    payload = decompress(header.codec, memoryview(batch)[HEADER_BYTES:], limit_bytes)
    if RECORD_BYTES * header.record_count > limit_bytes and len(payload) >= _RECORD_BYTES_MIN * header.record_count:
        raise KafkaError(  # more than the bytes can hold is damage, which whoever reads the records will find
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {header.record_count} records; {limit_bytes // RECORD_BYTES} are read at once",
        )
    return payload
