"""Builds record batches (formats: `batch.py`, `reader.py`): for clients, for recompression, compaction and markers.

What `read_records` gave goes in again unchanged: offsets are absolute, `base_offset` says where the batch begins.
The base timestamp is that of the first record, as the Java client has it. No state.
"""

from collections.abc import Sequence

from headwater.base.ports import Buffer
from headwater.records.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_AT,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    crc_of,
)
from headwater.records.compression import compress
from headwater.records.reader import Record


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    codec: int = 0,
    level: int | None = None,
    partition_leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
    last_offset_delta: int | None = None,
) -> bytearray:
    """One batch of `records`, in offset order from `base_offset` on.

    `last_offset_delta` is given where the batch spans more offsets than its last record shows: compaction took some.
    """
    base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    attributes = codec & CODEC_MASK
    if transactional:
        attributes |= TRANSACTIONAL
    if control:
        attributes |= CONTROL
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time_ms
    if last_offset_delta is None:
        last_offset_delta = records[-1].offset - base_offset if records else 0

    payload = compress(codec, encode_records(records, base_offset, base_timestamp), level)
    batch = bytearray(HEADER_BYTES)
    batch += payload
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LENGTH_PREFIX_BYTES,
        partition_leader_epoch,
        MAGIC,
        0,  # the CRC, below
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    batch[CRC_AT : CRC_AT + 4] = crc_of(batch).to_bytes(4, "big")
    return batch


def encode_records(records: Sequence[Record], base_offset: int, base_timestamp: int) -> Buffer:
    """The records as they stand in a batch, before compression."""
    out = bytearray()
    body = bytearray()
    for offset, timestamp, key, value, headers in records:
        body.clear()
        body.append(0)  # attributes: unused so far
        _put_varint(body, timestamp - base_timestamp)
        _put_varint(body, offset - base_offset)
        _put_bytes(body, key)
        _put_bytes(body, value)
        _put_varint(body, len(headers))
        for header_key, header_value in headers:
            _put_bytes(body, header_key.encode())
            _put_bytes(body, header_value)
        _put_varint(out, len(body))
        out += body
    return out


def _put_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out.append(1)  # zigzag of -1
    else:
        _put_varint(out, len(data))
        out += data


def _put_varint(out: bytearray, number: int) -> None:
    """Zigzag; fits int64, as Kafka's varlong. The same bytes as its varint where the number fits int32."""
    raw = (number << 1) ^ (number >> 63)
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
