"""MurmurHash3, 128 bits, x64, with Kafka Streams' seed: the hash by which a foreign-key join knows an outdated
answer.
"""

from struct import Struct
from typing import Final

_SEED: Final = 104729
_MASK: Final = (1 << 64) - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F
_BLOCK: Final = Struct("<QQ")
_RESULT: Final = Struct(">QQ")


def hash128(data: bytes) -> bytes:
    """Sixteen bytes, as they stand on the wire."""
    h1 = h2 = _SEED
    whole = len(data) & ~15
    for k1, k2 in _BLOCK.iter_unpack(data[:whole]):
        h1 = ((_rotated(h1 ^ _first(k1), 27) + h2) * 5 + 0x52DCE729) & _MASK
        h2 = ((_rotated(h2 ^ _second(k2), 31) + h1) * 5 + 0x38495AB5) & _MASK
    if whole < len(data):
        k1, k2 = _BLOCK.unpack(data[whole:].ljust(16, b"\x00"))
        h1 ^= _first(k1)
        h2 ^= _second(k2)
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    h1, h2 = _mixed(h1), _mixed(h2)
    h1 = (h1 + h2) & _MASK
    return _RESULT.pack(h1, (h2 + h1) & _MASK)


def _first(k1: int) -> int:
    return _rotated(k1 * _C1 & _MASK, 31) * _C2 & _MASK


def _second(k2: int) -> int:
    return _rotated(k2 * _C2 & _MASK, 33) * _C1 & _MASK


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 64 - by) & _MASK


def _mixed(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
