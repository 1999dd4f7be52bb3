"""Which records of a batch stay, and the batch without the others.

A record stays if no later one has its key. A tombstone (no value) stays until the delete horizon of its batch, which is
set when a cleaning first meets it: attribute bit 6, and the horizon in the place of the base timestamp. Markers are
treated alike once their transaction has nothing left. Offsets, leader epoch, producer and sequence stay as they were. A
batch is kept without any records where it says something: the last of a producer (its sequence), the first of a leader
epoch (where that began: followers know it from the batches alone), and the last of the round (where the log goes on).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress as compress_list
from typing import Final

from headwater.base.ports import Buffer
from headwater.log.compaction.job import ProducerEnds
from headwater.log.compaction.offset_map import OffsetMap
from headwater.log.compaction.transaction_walk import TransactionWalk
from headwater.records.batch import (
    CODEC_MASK,
    CRC_AT,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    crc_of,
)
from headwater.records.builder import encode_records
from headwater.records.codec import read_records as records_of
from headwater.records.compression import compress
from headwater.records.reader import open_batch, read_records
from headwater.records.record import Record

BATCH_BYTES_MAX: Final = 128 << 20  # decompressed


def delete_horizon_ms(header: BatchHeader) -> int | None:
    return header.base_timestamp if header.attributes & DELETE_HORIZON else None


@dataclass(slots=True)
class BatchFilter:
    """One walk over the segments of a log, from its first on."""

    map: OffsetMap
    transactions: TransactionWalk
    producers: ProducerEnds
    epoch_starts: frozenset[int]
    end_offset: int  # of what is cleaned: the batch that ends here stays
    now_ms: int
    delete_retention_ms: int

    def apply(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        """What stays of a batch: all of it, less, or nothing. Raises KafkaError if it cannot be read."""
        if header.base_offset >= self.map.end_offset:  # the next round's
            if header.is_control:
                self.transactions.on_control(header, read_records(batch, BATCH_BYTES_MAX))
            else:
                self.transactions.on_data(header)
            return batch
        horizon_ms = delete_horizon_ms(header)
        is_past = horizon_ms is not None and horizon_ms <= self.now_ms
        payload: Buffer = b""
        stays: list[bool] = []
        if header.is_control:
            kept = read_records(batch, BATCH_BYTES_MAX)
            needs_horizon = self.transactions.on_control(header, kept)
            if needs_horizon and is_past:
                kept = []
        elif self.transactions.on_data(header):
            kept, needs_horizon = [], False
        else:
            payload = open_batch(batch, header, BATCH_BYTES_MAX)
            records = records_of(payload, header)
            stays = self._last_of_their_keys(records, is_past)
            kept = list(compress_list(records, stays))
            needs_horizon = any(record.value is None for record in kept)
        if not kept:
            if not self._says_something(header):
                return None
            return batch if header.record_count == 0 else emptied(header)
        if horizon_ms is None and needs_horizon:
            horizon_ms = self.now_ms + self.delete_retention_ms
        elif len(kept) == header.record_count:
            return batch
        else:  # the base timestamp is what it was, so each record can stay byte for byte
            return thinned(header, payload, stays, max(record.timestamp for record in kept))
        return rebuilt(header, kept, horizon_ms)

    def _last_of_their_keys(self, records: list[Record], is_past: bool) -> list[bool]:
        offsets = self.map.offsets
        return [
            record.key is not None
            and record.offset >= offsets.get(record.key, -1)
            and not (is_past and record.value is None)
            for record in records
        ]

    def _says_something(self, header: BatchHeader) -> bool:
        if header.last_offset + 1 == self.end_offset or header.base_offset in self.epoch_starts:
            return True
        if header.producer_id < 0 or header.producer_id not in self.producers:
            return False
        last_offset, epoch = self.producers[header.producer_id]
        if last_offset >= 0:
            return header.last_offset == last_offset
        return header.is_control and header.producer_epoch == epoch


def rebuilt(header: BatchHeader, records: Sequence[Record], horizon_ms: int) -> bytearray:
    """The batch with these records only, under its old offsets and codec, and with a delete horizon."""
    max_timestamp = max(record.timestamp for record in records)
    payload = encode_records(records, header.base_offset, horizon_ms)
    return _with_records(header, header.attributes | DELETE_HORIZON, horizon_ms, max_timestamp, len(records), payload)


def thinned(header: BatchHeader, payload: Buffer, stays: Sequence[bool], max_timestamp: int) -> bytearray:
    """The batch without some of its records. `payload` is all of them, decompressed and known to be whole."""
    out = bytearray()
    view = memoryview(payload)
    at = 0
    for each in stays:
        start = at
        shift = length = 0
        while True:  # a varint, zigzag, and never negative
            byte = view[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        at += length >> 1
        if each:
            out += view[start:at]
    return _with_records(header, header.attributes, header.base_timestamp, max_timestamp, sum(stays), out)


def _with_records(
    header: BatchHeader, attributes: int, base_timestamp: int, max_timestamp: int, count: int, payload: Buffer
) -> bytearray:
    if header.is_log_append_time:
        max_timestamp = header.max_timestamp
    return _packed(header, attributes, base_timestamp, max_timestamp, count, compress(header.codec, payload))


def emptied(header: BatchHeader) -> bytearray:
    """Only the header: whose it is, and which offsets and sequences it took."""
    attributes = header.attributes & ~(DELETE_HORIZON | CODEC_MASK)
    return _packed(header, attributes, NO_TIMESTAMP, header.max_timestamp, 0, b"")


def _packed(
    header: BatchHeader, attributes: int, base_timestamp: int, max_timestamp: int, count: int, payload: Buffer
) -> bytearray:
    batch = bytearray(HEADER_BYTES)
    batch += payload
    changed = header._replace(
        batch_length=len(batch) - LENGTH_PREFIX_BYTES,
        crc=0,
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        record_count=count,
    )
    HEADER.pack_into(batch, 0, *changed)
    batch[CRC_AT : CRC_AT + 4] = crc_of(batch).to_bytes(4, "big")
    return batch
