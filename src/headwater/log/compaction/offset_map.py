"""The last offset of each key, in bounded memory.

Keys are held as they are, not hashed: no two keys are ever taken for one. Memory is counted, not measured: each key
with what Python needs around it. When the limit is reached the map is full, and the cleaning ends where the map ends;
the next one goes on from there. Lives for one cleaning, in its worker process.
"""

from collections.abc import Iterable
from typing import Final

from headwater.records.record import Record

KEY_OVERHEAD_BYTES: Final = 176  # the objects of key and offset, and their place in a dict at its emptiest


class OffsetMap:
    __slots__ = ("_limit_bytes", "end_offset", "offsets", "size_bytes")

    def __init__(self, limit_bytes: int, first_offset: int) -> None:
        self._limit_bytes = limit_bytes
        self.offsets: dict[bytes, int] = {}
        self.size_bytes = 0
        self.end_offset = first_offset  # every batch from the first dirty one to here is in it

    @property
    def is_full(self) -> bool:
        return self.size_bytes >= self._limit_bytes

    def add(self, records: Iterable[Record]) -> None:
        """Records in the order of their offsets. Those of one batch go in together, whatever the limit: a round always
        moves on.
        """
        offsets = self.offsets
        for record in records:
            key = record.key
            if key is not None:
                if key not in offsets:
                    self.size_bytes += len(key) + KEY_OVERHEAD_BYTES
                offsets[key] = record.offset
