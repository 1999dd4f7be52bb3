"""The sparse offset index of a segment: offset -> position in the `.log` file.

    8 bytes an entry, big endian:  int32 last offset of a batch, relative to the segment's base;  int32 its position

Both columns grow. A lookup finds the entry with the largest offset at or below the target; from its batch the reader
walks on. Entries are collected here and written in stretches (512 at the latest, and before any flush, roll or close):
after a crash the indexes of all segments past the recovery point are rebuilt, so nothing is lost by it.

Apache Kafka preallocates its index files, so after a crash of it one may have a tail of zeroes; it is cut. Owned by its
segment.
"""

from struct import Struct
from typing import Final

from headwater.base.ports import FULL, Disk

ENTRY: Final = Struct(">ii")
ENTRY_BYTES: Final = 8
WRITE_BEHIND_BYTES: Final = 512 * ENTRY_BYTES
_STALE: Final = -1  # for the number of bytes that are in the file: less than none is right there


class OffsetIndex:
    __slots__ = ("_written_bytes", "base_offset", "entries", "path")

    def __init__(self, path: str, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.entries = bytearray()
        self._written_bytes = 0

    @classmethod
    def load(cls, disk: Disk, path: str, base_offset: int, segment_bytes: int) -> "OffsetIndex | None":
        """None if the file is missing or cannot be this segment's index: then it must be rebuilt."""
        index = cls(path, base_offset)
        try:
            data = disk.read_file(path)
        except FileNotFoundError:
            return None
        index.entries = bytearray(without_zero_tail(data, ENTRY_BYTES))
        index._written_bytes = len(index.entries)
        if len(index.entries) != len(data):
            index.rewrite(disk)
        return index if index._is_sane(segment_bytes) else None

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
        if size != len(self.entries):
            del self.entries[size:]
            self.rewrite(disk)

    def write(self, disk: Disk) -> None:
        """Puts what is new into the file."""
        self._written_bytes = write_entries(disk, self.path, self.entries, self._written_bytes)

    def rewrite(self, disk: Disk) -> None:
        """Makes the file hold exactly these entries."""
        self._written_bytes = _STALE  # if it cannot be written now, all is written with the next entries
        self._written_bytes = rewrite_entries(disk, self.path, self.entries)

    def replace(self, disk: Disk) -> None:
        """The same, and it is on the device then: for a segment that no recovery will look at."""
        self._written_bytes = _STALE
        self._written_bytes = replace_entries(disk, self.path, self.entries)

    @property
    def unwritten_bytes(self) -> int:
        return len(self.entries) - self._written_bytes

    @property
    def is_stale(self) -> bool:
        """The file may have entries that are no longer true, and could not be written."""
        return self._written_bytes < 0


def without_zero_tail(data: bytes, entry_bytes: int) -> bytes:
    """Cuts whole entries of zeroes off the end: preallocated and never used."""
    if data[-entry_bytes:].strip(b"\0"):
        return data
    used = len(data.rstrip(b"\0"))
    return data[: -(-used // entry_bytes) * entry_bytes]


def write_entries(disk: Disk, path: str, entries: bytearray, written_bytes: int) -> int:
    """Adds those behind `written_bytes`. If nothing is known to be written, whatever stands in the file goes."""
    if written_bytes <= 0:
        return rewrite_entries(disk, path, entries)
    if written_bytes < len(entries):
        append_entry(disk, path, bytes(memoryview(entries)[written_bytes:]))
    return len(entries)


def append_entry(disk: Disk, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    try:
        file.append(data)
    finally:
        file.release()


def rewrite_entries(disk: Disk, path: str, entries: bytearray) -> int:
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        if entries:
            file.append(bytes(entries))
    finally:
        file.release()
    return len(entries)


def replace_entries(disk: Disk, path: str, entries: bytearray) -> int:
    """As one step, because half an index may look like a whole one; unless there is no room for two."""
    try:
        disk.write_file(path, bytes(entries))
    except OSError as error:
        if error.errno not in FULL:
            raise
        return rewrite_entries(disk, path, entries)
    return len(entries)
