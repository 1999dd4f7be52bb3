"""The header of a record batch, magic 2: the one format on disk and on the wire.

    0  int64   base offset               (assigned by the leader, outside the CRC)
    8  int32   batch length              (bytes after this field)
    12 int32   partition leader epoch    (assigned by the leader, outside the CRC)
    16 int8    magic = 2
    17 uint32  CRC-32C of everything from the attributes on
    21 int16   attributes                (bits 0-2 codec, 3 log append time, 4 transactional, 5 control,
                                          6 delete horizon)
    23 int32   last offset delta
    27 int64   base timestamp
    35 int64   max timestamp
    43 int64   producer id
    51 int16   producer epoch
    53 int32   base sequence
    57 int32   record count
    61         records, each length-prefixed; compressed as one piece if there is a codec

A batch of N records that compaction has not touched spans the offsets base .. base + N - 1.
"""

from struct import Struct
from typing import Final, NamedTuple

from headwater.base import checksum as _crc32c
from headwater.base.ports import Buffer

HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = 61
LENGTH_PREFIX_BYTES: Final = 12  # base offset and batch length: what the length does not count
MAGIC: Final = 2

MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_AT: Final = 43
PRODUCER: Final = Struct(">qhi")  # id, epoch, base sequence

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_SEQUENCE: Final = -1


class BatchHeader(NamedTuple):
    """The fields in their order on disk: `BatchHeader._make(HEADER.unpack_from(data, at))`."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return self.batch_length + LENGTH_PREFIX_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)


def read_header(data: Buffer, at: int = 0) -> BatchHeader:
    """The header at `at`; raises struct.error when fewer than 61 bytes are left."""
    return BatchHeader._make(HEADER.unpack_from(data, at))


def crc_of(batch: Buffer) -> int:
    """The CRC-32C that the header of this whole batch should hold."""
    return int(_crc32c.crc32c(memoryview(batch)[ATTRIBUTES_AT:]))
