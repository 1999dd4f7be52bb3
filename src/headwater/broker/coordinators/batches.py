"""The batch of a coordinator's decision: small records of one moment, without headers and compression.

The bytes are those that `records.builder.build_batch` makes of the same records. A coordinator makes several batches
for each transaction and one for each commit, so that the general way, record objects and all, is felt. No state.
"""

from collections.abc import Sequence
from typing import Final

from headwater.coordinator.effects import CoordinatorRecord, Producer
from headwater.records.batch import (
    CRC_AT,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    NO_SEQUENCE,
    TRANSACTIONAL,
    crc_of,
)
from headwater.records.varint import put_varint

_NO_PRODUCER: Final = Producer(-1, -1)
_NO_VALUE: Final = b"\x01"  # a length of -1


def _varint(value: int) -> bytes:
    out = bytearray()
    put_varint(out, value)
    return bytes(out)


_VARINTS: Final = [_varint(value) for value in range(512)]


def build_decision(records: Sequence[CoordinatorRecord], timestamp: int, producer: Producer | None) -> bytearray:
    """Not empty; within the transaction of `producer`, if there is one."""
    batch = bytearray(HEADER_BYTES)
    for at, (key, value) in enumerate(records):
        # attributes and timestamp delta are 0, and so is the number of headers
        sized_value = _NO_VALUE if value is None else _length(len(value)) + value
        body = b"\0\0%b%b%b%b\0" % (_length(at), _length(len(key)), key, sized_value)
        batch += _length(len(body))
        batch += body
    count = len(records)
    producer_id, producer_epoch = producer or _NO_PRODUCER
    HEADER.pack_into(
        batch,
        0,
        0,
        len(batch) - LENGTH_PREFIX_BYTES,
        -1,
        MAGIC,
        0,
        0 if producer is None else TRANSACTIONAL,
        count - 1,
        timestamp,
        timestamp,
        producer_id,
        producer_epoch,
        NO_SEQUENCE,
        count,
    )
    batch[CRC_AT : CRC_AT + 4] = crc_of(batch).to_bytes(4, "big")
    return batch


def _length(value: int) -> bytes:
    return _VARINTS[value] if value < len(_VARINTS) else _varint(value)
