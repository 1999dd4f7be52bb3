"""A file of index entries, all of one length: what the offset and the time index of a segment have in common.

Entries are collected here and written in stretches (512 of the offset index at the latest, and before any flush, roll
or close): after a crash the indexes of all segments past the recovery point are rebuilt, so nothing is lost by it.

Apache Kafka preallocates its index files, so after a crash of it one may have a tail of zeroes; it is cut. Owned by its
segment.
"""

from collections.abc import Callable
from typing import Final

from headwater.base.ports import FULL, PASSING, Disk

_STALE: Final = -1  # for the number of bytes that are in the file: less than none is right there


class IndexFile:
    __slots__ = ("_written_bytes", "base_offset", "entries", "path")

    def __init__(self, path: str, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.entries = bytearray()
        self._written_bytes = 0

    def read(self, disk: Disk, entry_bytes: int) -> bool:
        """Takes what stands in the file; False if there is none."""
        try:
            data = disk.read_file(self.path)
        except FileNotFoundError:
            return False
        self.entries = bytearray(without_zero_tail(data, entry_bytes))
        self._written_bytes = len(self.entries)
        if len(self.entries) != len(data):
            self._shorten(disk)
        return True

    def _shorten(self, disk: Disk) -> None:
        """The file to these entries, with which it begins. Needs no room, and a crash leaves the one or the other.
        Raises OSError.
        """
        try:
            file = disk.open(self.path)
        except OSError as error:
            if error.errno not in PASSING:
                raise
            self._written_bytes = _STALE
            return
        try:
            file.truncate(len(self.entries))
        finally:
            file.release()

    def cut(self, disk: Disk, size: int) -> None:
        """Forgets the entries behind the first `size` bytes."""
        if size != len(self.entries):
            del self.entries[size:]
            self.rewrite(disk)

    def write(self, disk: Disk) -> None:
        """Puts what is new into the file, or all as one step if nothing in it is right: no recovery may ever look at
        it.
        """
        if self.is_stale:
            self.replace(disk)
            return
        self._written_bytes = write_entries(disk, self.path, self.entries, self._written_bytes)

    def rewrite(self, disk: Disk) -> None:
        """Makes the file hold exactly these entries."""
        self._write_all(disk, rewrite_entries)

    def replace(self, disk: Disk) -> None:
        """The same, and it is on the device then: for a segment that no recovery will look at."""
        self._write_all(disk, replace_entries)

    def _write_all(self, disk: Disk, write: Callable[[Disk, str, bytearray], int]) -> None:
        """If there is no room now, all is written with the next entries. Until then no file is left: an empty one would
        be believed.
        """
        self._written_bytes = _STALE
        try:
            self._written_bytes = write(disk, self.path, self.entries)
        except OSError as error:
            if error.errno in FULL:
                disk.remove(self.path)
            raise

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


def rewrite_entries(disk: Disk, path: str, entries: bytearray, *, durable: bool = False) -> int:
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        if entries:
            file.append(bytes(entries))
        if durable:
            disk.sync_now(file)
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
        return rewrite_entries(disk, path, entries, durable=True)
    return len(entries)
