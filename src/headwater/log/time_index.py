"""The sparse time index of a segment: timestamp -> offset.

    12 bytes an entry, big endian: int64 largest timestamp so far; int32 last offset of the batch that has it, relative

Both columns grow. An entry (t, o) says: no batch before the one ending at o has a timestamp above t. When a segment is
rolled or closed its overall maximum is the last entry; retention by time and a clean start live on that. Written behind
(`index_file`). Owned by its segment.
"""

from struct import Struct
from typing import Final

from headwater.base.ports import Disk
from headwater.log.index_file import IndexFile

ENTRY: Final = Struct(">qi")
ENTRY_BYTES: Final = 12


class TimeIndex(IndexFile):
    __slots__ = ()

    @classmethod
    def load(cls, disk: Disk, path: str, base_offset: int) -> "TimeIndex | None":
        """None if the file is missing or damaged: then it must be rebuilt."""
        index = cls(path, base_offset)
        return index if index.read(disk, ENTRY_BYTES) and index._is_sane() else None

    def _is_sane(self) -> bool:
        size = len(self.entries)
        if size % ENTRY_BYTES:
            return False
        if size <= ENTRY_BYTES:
            return True
        first_timestamp, first_offset = ENTRY.unpack_from(self.entries, 0)
        last_timestamp, last_offset = ENTRY.unpack_from(self.entries, size - ENTRY_BYTES)
        return bool(last_timestamp >= first_timestamp and last_offset >= first_offset >= 0)

    def append(self, timestamp: int, offset: int) -> None:
        """Adds an entry if it says something new."""
        last_timestamp, last_offset = self.last_entry()
        if timestamp > last_timestamp and offset >= last_offset:
            self.entries += ENTRY.pack(timestamp, offset - self.base_offset)

    def last_entry(self) -> tuple[int, int]:
        """(largest timestamp, offset of its batch); (-1, base offset) when empty."""
        size = len(self.entries)
        if not size:
            return -1, self.base_offset
        timestamp, relative = ENTRY.unpack_from(self.entries, size - ENTRY_BYTES)
        return timestamp, self.base_offset + relative

    def lookup(self, timestamp: int) -> int:
        """An offset before which no record is as late as `timestamp`."""
        return self.entry_before(timestamp)[1]

    def entry_before(self, timestamp: int) -> tuple[int, int]:
        """The last entry of an earlier timestamp, and its offset; (-1, base offset) if there is none."""
        entries = self.entries
        low, high = 0, len(entries) // ENTRY_BYTES
        while low < high:
            middle = (low + high) >> 1
            if ENTRY.unpack_from(entries, middle * ENTRY_BYTES)[0] >= timestamp:
                high = middle
            else:
                low = middle + 1
        if not low:
            return -1, self.base_offset
        earlier, relative = ENTRY.unpack_from(entries, (low - 1) * ENTRY_BYTES)
        return earlier, self.base_offset + relative

    def truncate_to_offset(self, disk: Disk, offset: int) -> None:
        """Forgets the entries at or past `offset`."""
        size = len(self.entries)
        relative = offset - self.base_offset
        while size and ENTRY.unpack_from(self.entries, size - ENTRY_BYTES)[1] >= relative:
            size -= ENTRY_BYTES
        self.cut(disk, size)
