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
    PRODUCER,
    PRODUCER_AT,
    TRANSACTIONAL,
    crc_of,
)
from headwater.records.columns import Section
from headwater.records.compression import compress
from headwater.records.record import Record
from headwater.records.varint import put_content, put_varint


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

    batch = bytearray(HEADER_BYTES)
    batch += compress(codec, encode_records(records, base_offset, base_timestamp), level)
    _put_header(
        batch,
        base_offset,
        partition_leader_epoch,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        (producer_id, producer_epoch, base_sequence),
        len(records),
    )
    return batch


def finish_section(
    section: Section,
    *,
    codec: int = 0,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> bytearray:
    """The batch that a section becomes. Without compression it is the section's own buffer, so that nothing is
    copied.
    """
    batch = section.batch
    if codec:
        batch = bytearray(HEADER_BYTES)
        batch += compress(codec, memoryview(section.batch)[HEADER_BYTES:], level)
    _put_header(
        batch,
        0,
        -1,
        codec & CODEC_MASK | (TRANSACTIONAL if transactional else 0),
        max(section.record_count - 1, 0),
        section.base_timestamp,
        section.max_timestamp,
        (producer_id, producer_epoch, base_sequence),
        section.record_count,
    )
    return batch


def restamped(batch: Buffer, *, producer_id: int, producer_epoch: int, base_sequence: int) -> bytearray:
    """A copy of a finished batch under other producer facts, for a retry. What is in flight is never changed."""
    copy = bytearray(batch)
    PRODUCER.pack_into(copy, PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    _put_crc(copy)
    return copy


def _put_header(
    batch: bytearray,
    base_offset: int,
    partition_leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer: tuple[int, int, int],
    record_count: int,
) -> None:
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
        *producer,
        record_count,
    )
    _put_crc(batch)


def _put_crc(batch: bytearray) -> None:
    batch[CRC_AT : CRC_AT + 4] = crc_of(batch).to_bytes(4, "big")


def encode_records(records: Sequence[Record], base_offset: int, base_timestamp: int) -> Buffer:
    """The records as they stand in a batch, before compression."""
    out = bytearray()
    body = bytearray()
    for offset, timestamp, key, value, headers in records:
        body.clear()
        body.append(0)  # attributes: unused so far
        put_varint(body, timestamp - base_timestamp)
        put_varint(body, offset - base_offset)
        put_content(body, key, value, headers)
        put_varint(out, len(body))
        out += body
    return out
