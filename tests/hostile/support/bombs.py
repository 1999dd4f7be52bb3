"""Batches that are small on the wire and huge when they are opened: right in every other way, so that only a limit
stops them.

All hold one record whose value is zeros. They are put together from pieces that repeat, so that to make them takes
little.
"""

import time
import zlib
from collections.abc import Callable
from functools import cache
from typing import Final

import cramjam
import lz4.frame
import zstandard

from headwater.records.batch import CRC_AT, HEADER, HEADER_BYTES, LENGTH_PREFIX_BYTES, crc_of

GIGABYTE: Final = 1 << 30
_PIECES: Final = 32  # streams in a row
_ZSTD_FRAME: Final = b"\x28\xb5\x2f\xfd\x00\x38"  # of no declared size, with a window of 128 KiB
_RAW, _RUN = 0, 1  # kinds of blocks
_RUN_BYTES: Final = 128 << 10
_XERIAL: Final = b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2
_XERIAL_BLOCK_BYTES: Final = 1 << 20


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _zigzag(value: int) -> bytes:
    """Of what is not negative."""
    return _uvarint(value << 1)


def _record(size: int) -> bytes:
    """The start of a record with a value of `size` zeros; zeros are all that follows, one more than that."""
    body = b"\0\0\0" + _zigzag(1) + b"k" + _zigzag(size)
    return _zigzag(len(body) + size + 1) + body


def _batch(codec: int, payload: bytes, timestamp: int | None = None) -> bytes:
    now_ms = int(time.time() * 1000) if timestamp is None else timestamp
    length = HEADER_BYTES - LENGTH_PREFIX_BYTES + len(payload)
    batch = bytearray(HEADER.pack(0, length, 0, 2, 0, codec, 0, now_ms, now_ms, -1, -1, -1, 1) + payload)
    batch[CRC_AT : CRC_AT + 4] = crc_of(batch).to_bytes(4, "big")
    return bytes(batch)


def _streams(compress: Callable[[bytes], bytes], size: int) -> bytes:
    """One stream after another: all codecs but snappy read them as one."""
    piece = size // _PIECES
    first = compress(_record(piece * _PIECES) + bytes(piece))
    return first + compress(bytes(piece)) * (_PIECES - 1) + compress(b"\0")


def gzip_bomb(size: int = GIGABYTE) -> bytes:
    return _batch(1, _streams(lambda data: zlib.compress(data, 9, wbits=31), size))


def snappy_bomb(size: int = GIGABYTE * 3 // 8) -> bytes:
    """In the framing of the Java client. Snappy makes 21 of one at best."""
    blocks = size // _XERIAL_BLOCK_BYTES
    first = bytes(cramjam.snappy.compress_raw(_record(blocks * _XERIAL_BLOCK_BYTES)))
    block = bytes(cramjam.snappy.compress_raw(bytes(_XERIAL_BLOCK_BYTES)))
    last = bytes(cramjam.snappy.compress_raw(b"\0"))
    framed = [len(each).to_bytes(4, "big") + each for each in (first, block, last)]
    return _batch(2, _XERIAL + framed[0] + framed[1] * blocks + framed[2])


def raw_snappy_bomb(size: int = GIGABYTE * 3 // 8) -> bytes:
    """One block: a literal, then copies of its last byte, 64 at a time."""
    copies = size // 64
    start = _record(copies * 64) + b"\0"
    length = _uvarint(len(start) + copies * 64)
    return _batch(2, length + bytes([len(start) - 1 << 2]) + start + b"\xfe\x01\x00" * copies)


def lz4_bomb(size: int = GIGABYTE) -> bytes:
    return _batch(3, _streams(lambda data: bytes(lz4.frame.compress(data, block_linked=False)), size))


def zstd_bomb(size: int = GIGABYTE, timestamp: int | None = None) -> bytes:
    return _batch(4, _streams(lambda data: zstandard.ZstdCompressor(level=19).compress(data), size), timestamp)


def zstd_bomb_of_runs() -> bytes:
    """A megabyte of zstd that is 32 GiB: four bytes stand for each run of 128 KiB. The record in it claims a gigabyte
    of them, since a length of records ends at two.
    """
    start = _record(GIGABYTE)
    frame = _ZSTD_FRAME + _zstd_block(_RAW, len(start)) + start
    runs = 32 * GIGABYTE // _RUN_BYTES
    frame += (_zstd_block(_RUN, _RUN_BYTES) + b"\0") * runs + _zstd_block(_RAW, 0, is_last=True)
    return _batch(4, frame)


def _zstd_block(kind: int, size: int, *, is_last: bool = False) -> bytes:
    return (is_last | kind << 1 | size << 3).to_bytes(3, "little")


BOMBS: Final[dict[str, Callable[[], bytes]]] = {
    "gzip": cache(gzip_bomb),
    "snappy": cache(snappy_bomb),
    "raw snappy": cache(raw_snappy_bomb),
    "lz4": cache(lz4_bomb),
    "zstd": cache(zstd_bomb),
    "zstd of 32 GiB": cache(zstd_bomb_of_runs),
}
