"""Murmur2 as Kafka's Java client has it, and the partitions of a column of keys."""

from array import array
from typing import Final

from headwater.base.ports import Buffer
from headwater.records.columns import ANY_PARTITION, BinaryColumn
from headwater.records.pure.cells import cells

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: Buffer, /) -> int:
    length = len(data)
    value = (_SEED ^ length) & _MASK
    whole = length - length % 4
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        value = (value * _MULTIPLIER & _MASK) ^ word
    if whole < length:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15


def partition_keys(row_count: int, keys: BinaryColumn, partition_count: int, /) -> bytearray:
    if partition_count <= 0:
        raise ValueError(f"{partition_count} partitions")
    partitions = array(
        "i",
        [
            ANY_PARTITION if key is None else (murmur2(key) & 0x7FFFFFFF) % partition_count
            for key in cells(row_count, keys)
        ],
    )
    return bytearray(partitions.tobytes())
