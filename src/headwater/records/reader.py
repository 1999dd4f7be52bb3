"""Reads record batches (format: `batch.py`): first the headers, then, where someone needs them, the records.

    a record:  varint length, int8 attributes, varlong timestamp delta, varint offset delta,
               varint key length (-1: null), key, varint value length (-1: null), value,
               varint header count, then each header: varint key length, key (UTF-8), varint value length (-1: null), value

All varints are zigzag. Whatever the bytes are, the outcome is records or a `KafkaError`: CORRUPT_MESSAGE where they are
damaged, UNSUPPORTED_FOR_MESSAGE_FORMAT for the message sets of before 2017 (magic 0 and 1), MESSAGE_TOO_LARGE for a
batch that decompresses past the limit. No state.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

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
from headwater.records.compression import decompress

Headers = tuple[tuple[str, bytes | None], ...]

_RECORD_BYTES_MIN: Final = 7
_VARLONG_BYTES_MAX: Final = 10
_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def read_batches(data: Buffer, *, partial_tail: bool = False) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch in `data`. Lengths are checked, the CRC is not: that is `check_crc`.

    With `partial_tail`, a batch cut off by the end of `data` ends the walk quietly: a fetch response may end so.
    """
    at = 0
    end = len(data)
    while at < end:
        header = _header_at(data, at)
        if header is None or at + header.size_bytes > end:
            if partial_tail:
                return
            raise corrupt(f"the batch at byte {at} is cut off by the end of the data")
        yield at, header
        at += header.size_bytes


def _header_at(data: Buffer, at: int) -> BatchHeader | None:
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
    return header


def check_crc(batch: Buffer, header: BatchHeader) -> None:
    """`batch` is one whole batch, `header` its header."""
    actual = crc_of(batch)
    if actual != header.crc:
        raise corrupt(
            f"the batch at offset {header.base_offset} has CRC {actual:#010x}, its header says {header.crc:#010x}"
        )


def read_records(batch: Buffer, limit_bytes: int) -> list[Record]:
    """The records of one whole batch, whose CRC is checked; they may decompress to `limit_bytes` together."""
    header = _header_at(batch, 0)
    if header is None or header.size_bytes != len(batch):
        raise corrupt(f"{len(batch)} bytes are not one whole batch")
    check_crc(batch, header)
    payload = decompress(header.codec, memoryview(batch)[HEADER_BYTES:], limit_bytes)
    if header.record_count * _RECORD_BYTES_MIN > len(payload):
        raise corrupt(f"{len(payload)} bytes cannot hold {header.record_count} records")
    try:
        return _parse_records(bytes(payload), header)
    except IndexError:
        raise corrupt(f"the batch at offset {header.base_offset} ends inside a record") from None


def _parse_records(data: bytes, header: BatchHeader) -> list[Record]:
    """Raises IndexError where `data` ends too early."""
    base_offset = header.base_offset
    last_offset_delta = header.last_offset_delta
    base_timestamp = header.base_timestamp
    append_timestamp = header.max_timestamp if header.is_log_append_time else None
    records = []
    at = 0
    for _ in range(header.record_count):
        length, at = _varint(data, at)
        end = at + length
        at += 1  # attributes: unused so far
        delta, at = _varint(data, at)
        timestamp = base_timestamp + delta if append_timestamp is None else append_timestamp
        delta, at = _varint(data, at)
        key, at = _bytes_or_none(data, at)
        value, at = _bytes_or_none(data, at)
        if data[at] == 0:
            headers: Headers = ()
            at += 1
        else:
            headers, at = _headers(data, at)
        if at != end:
            raise corrupt(f"a record of {length} bytes has content of {length + at - end}")
        if not 0 <= delta <= last_offset_delta or not _INT64_MIN <= timestamp <= _INT64_MAX:
            raise corrupt(f"a record with offset delta {delta} and timestamp {timestamp}")
        records.append(Record(base_offset + delta, timestamp, key, value, headers))
    if at != len(data):
        raise corrupt(f"{len(data) - at} bytes after the last record")
    return records


def _bytes_or_none(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _varint(data, at)
    if length < 0:
        if length != -1:
            raise corrupt(f"a length of {length}")
        return None, at
    end = at + length
    if end > len(data):
        raise IndexError
    return data[at:end], end


def _headers(data: bytes, at: int) -> tuple[Headers, int]:
    count, at = _varint(data, at)
    if not 0 <= count <= len(data) - at:
        raise corrupt(f"a record with {count} headers")
    headers = []
    for _ in range(count):
        key, at = _bytes_or_none(data, at)
        if key is None:
            raise corrupt("a header without a key")
        value, at = _bytes_or_none(data, at)
        try:
            headers.append((key.decode(), value))
        except UnicodeDecodeError:
            raise corrupt("a header key that is not UTF-8") from None
    return tuple(headers), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint of up to 64 bits, and where it ends. One and two bytes, nearly all of them, without a loop."""
    raw = data[at]
    if raw < 0x80:
        return (raw >> 1) ^ -(raw & 1), at + 1
    byte = data[at + 1]
    raw = raw & 0x7F | (byte & 0x7F) << 7
    at += 2
    shift = 14
    while byte > 0x7F:
        if shift == 7 * _VARLONG_BYTES_MAX:
            raise corrupt("a varint of more than ten bytes")
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
    return (raw >> 1) ^ -(raw & 1), at


def corrupt(message: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, message)
