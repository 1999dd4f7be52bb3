"""The sparse offset index of a segment: offset -> position in the `.log` file.

    8 bytes an entry, big endian:  int32 last offset of a batch, relative to the segment's base;  int32 its position

Both columns grow. A lookup finds the entry with the largest offset at or below the target; from its batch the reader
walks on. Written behind (`index_file`). Owned by its segment.
"""

from struct import Struct
from typing import Final

from headwater.base.ports import Disk
from headwater.log.index_file import IndexFile

ENTRY: Final = Struct(">ii")
ENTRY_BYTES: Final = 8
WRITE_BEHIND_BYTES: Final = 512 * ENTRY_BYTES


class OffsetIndex(IndexFile):
    __slots__ = ()

    @classmethod
    def load(cls, disk: Disk, path: str, base_offset: int, segment_bytes: int) -> "OffsetIndex | None":
        """None if the file is missing or cannot be this segment's index: then it must be rebuilt."""
        index = cls(path, base_offset)
        return index if index.read(disk, ENTRY_BYTES) and index._is_sane(segment_bytes) else None

    def _is_sane(self, segment_bytes: int) -> bool:
        """Whole entries, the columns growing at both ends, and no position past the segment's end."""
        size = len(self.entries)
        if size % ENTRY_BYTES:
            return False
        if size == 0:
            return True
        first_offset, first_position = ENTRY.unpack_from(self.entries, 0)
        last_offset, last_position = ENTRY.unpack_from(self.entries, size - ENTRY_BYTES)
        if first_offset < 0 or first_position < 0 or last_position >= segment_bytes:
            return False
        return size == ENTRY_BYTES or bool(last_offset > first_offset and last_position > first_position)

    def append(self, last_offset: int, position: int) -> None:
        self.entries += ENTRY.pack(last_offset - self.base_offset, position)

    def lookup(self, offset: int) -> tuple[int, int]:
        """Where to start walking to find `offset`, a batch that does not lie past it; and the border of the next entry.

        The second is -1 if there is none. A reader that was cut off at an indexed border comes back to exactly there.
        """
        entries = self.entries
        relative = offset - self.base_offset
        unpack = ENTRY.unpack_from
        low, high = 0, len(entries) // ENTRY_BYTES
        last = high
        while low < high:
            middle = (low + high) >> 1
            if unpack(entries, middle << 3)[0] > relative:
                high = middle
            else:
                low = middle + 1
        start = int(unpack(entries, (low - 1) << 3)[1]) if low else 0
        return start, int(unpack(entries, low << 3)[1]) if low < last else -1

    def floor_position(self, position: int) -> int:
        """The last indexed batch border at or before `position`; 0 if there is none."""
        entries = self.entries
        unpack = ENTRY.unpack_from
        low, high = 0, len(entries) // ENTRY_BYTES
        while low < high:
            middle = (low + high) >> 1
            if unpack(entries, middle << 3)[1] > position:
                high = middle
            else:
                low = middle + 1
        return int(unpack(entries, (low - 1) << 3)[1]) if low else 0

    def last_position(self) -> int:
        size = len(self.entries)
        return int(ENTRY.unpack_from(self.entries, size - ENTRY_BYTES)[1]) if size else 0

    def truncate_to_position(self, disk: Disk, position: int) -> None:
        """Forgets the entries of batches at or past `position`."""
        size = len(self.entries)
        while size and ENTRY.unpack_from(self.entries, size - ENTRY_BYTES)[1] >= position:
            size -= ENTRY_BYTES
        self.cut(disk, size)
