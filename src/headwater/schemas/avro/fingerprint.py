"""Avro's 64-bit Rabin fingerprint (CRC-64-AVRO) of a schema's Parsing Canonical Form. Pure."""

from typing import Final

_EMPTY: Final = 0xC15D213AA4D7A795


def _table() -> tuple[int, ...]:
    entries = []
    for index in range(256):
        value = index
        for _ in range(8):
            value = (value >> 1) ^ (_EMPTY & -(value & 1))
        entries.append(value)
    return tuple(entries)


_TABLE: Final = _table()


def rabin_fingerprint(data: bytes) -> int:
    """An unsigned number; single-object encoding writes it little-endian."""
    value = _EMPTY
    for byte in data:
        value = (value >> 8) ^ _TABLE[(value ^ byte) & 0xFF]
    return value
