"""Reads the records of one decompressed batch into Python objects (format: `reader.py`)."""

from typing import Any, Final

from headwater.base.ports import Buffer
from headwater.records.batch import BatchHeader
from headwater.records.columns import Layout
from headwater.records.record import Headers, Record, corrupt

_RECORD_BYTES_MIN: Final = 7
_VARLONG_BYTES_MAX: Final = 10
_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1


def read_records(payload: Buffer, header: BatchHeader, /) -> list[Record]:
    check_header(payload, header)
    try:
        return _parse_records(bytes(payload), header)
    except IndexError:
        raise corrupt(f"the batch at offset {header.base_offset} ends inside a record") from None


def check_header(payload: Buffer, header: BatchHeader) -> None:
    """What a header says must be possible at all."""
    base_offset, last_offset_delta, count = header.base_offset, header.last_offset_delta, header.record_count
    if base_offset < 0 or last_offset_delta < 0 or count < 0 or base_offset + last_offset_delta >= _INT64_MAX:
        raise corrupt(f"a batch from offset {base_offset} to {base_offset + last_offset_delta} of {count} records")
    if count * _RECORD_BYTES_MIN > len(payload):
        raise corrupt(f"{len(payload)} bytes cannot hold {count} records")


def build_records(
    payload: Buffer,
    header: BatchHeader,
    from_offset: int,
    stop_offset: int,
    layout: Layout,
    template: tuple[Any, ...],
    /,
) -> list[Any]:
    fields = list(template)
    made: list[Any] = []
    for offset, timestamp, key, value, headers in read_records(payload, header):
        if not from_offset <= offset < stop_offset:
            continue
        fields[layout.offset_at] = offset
        fields[layout.timestamp_at] = timestamp
        fields[layout.key_at] = key
        fields[layout.value_at] = value
        if headers and layout.header_type is not None:
            fields[layout.headers_at] = tuple([tuple.__new__(layout.header_type, each) for each in headers])
        else:
            fields[layout.headers_at] = headers
        made.append(tuple.__new__(layout.record_type, fields))
    return made


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
    if raw >> 64:
        raise corrupt("a varint of more than 64 bits")
    return (raw >> 1) ^ -(raw & 1), at
