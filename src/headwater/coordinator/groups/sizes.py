"""How large a batch some records make. A log refuses what is too large, and by then it is decided: so it is asked
before. No state.
"""

from collections.abc import Sequence
from typing import Final

from headwater.coordinator.effects import CoordinatorRecord
from headwater.records.batch import HEADER_BYTES

_REST_BYTES_MAX: Final = 24  # of a record: all that is neither its key nor its value
_FIXED_BYTES: Final = 3  # attributes, the difference of its timestamp, the number of its headers


def fit(records: Sequence[CoordinatorRecord], limit_bytes: int) -> bool:
    """Nearly always by far, which is quickly seen."""
    most = HEADER_BYTES + sum(len(key) + len(value or b"") + _REST_BYTES_MAX for key, value in records)
    return most <= limit_bytes or batch_bytes(records) <= limit_bytes


def batch_bytes(records: Sequence[CoordinatorRecord]) -> int:
    """Of the uncompressed batch of these records, of one moment and without headers."""
    total = HEADER_BYTES
    for at, (key, value) in enumerate(records):
        body = _FIXED_BYTES + _varint_bytes(at) + _varint_bytes(len(key)) + len(key)
        body += 1 if value is None else _varint_bytes(len(value)) + len(value)
        total += _varint_bytes(body) + body
    return total


def _varint_bytes(number: int) -> int:
    """Of one that is not negative, in zigzag."""
    return max(1, ((number << 1).bit_length() + 6) // 7)
