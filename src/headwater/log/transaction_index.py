"""The aborted transactions of a segment, for readers that want committed records only.

    34 bytes an entry, big endian:  int16 version = 0;  int64 producer id;  int64 first offset;  int64 last offset (the
    marker's);  int64 last stable offset when the marker was written

An entry stands in the segment that holds the abort marker. The file exists only where there is an entry. Unlike the
other indexes it is written at once: transactions abort rarely. What a full disk refuses stays in memory and is written
with the next entry, or before the segment is rolled or closed; after a crash it comes from the records.

Last offsets and last stable offsets grow from entry to entry; that is looked at for all of them when the file is read.
Whether the log has what an entry is about is looked at when somebody asks for it: there may be hundreds of thousands.
Owned by its segment.
"""

from bisect import bisect_left
from collections.abc import Callable
from operator import attrgetter
from struct import Struct
from typing import Final, NamedTuple

from headwater.base.ports import FULL, Disk
from headwater.log.index_file import append_entry, replace_entries, rewrite_entries

ENTRY: Final = Struct(">hqqqq")
ENTRY_BYTES: Final = 34
VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


_last_offset: Callable[[AbortedTransaction], int] = attrgetter("last_offset")


class TransactionIndex:
    __slots__ = ("_compared", "aborted", "is_unwritten", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.aborted: list[AbortedTransaction] = []
        self.is_unwritten = False  # the file lacks something, or has half of it
        self._compared = bytearray()  # 1 for each entry from the file that was found to be true; others are our own

    @classmethod
    def load(cls, disk: Disk, path: str) -> "TransactionIndex | None":
        """None if the file is damaged. No file means: no transaction was aborted."""
        index = cls(path)
        try:
            data = disk.read_file(path)
        except FileNotFoundError:
            return index
        if len(data) % ENTRY_BYTES:
            return None
        last_before = stable_before = -1
        for version, producer_id, first, last, stable in ENTRY.iter_unpack(data):
            if version != VERSION or not 0 <= first <= last or not last_before < last:
                return None
            if not stable_before <= stable <= last + 1:
                return None
            last_before, stable_before = last, stable
            index.aborted.append(AbortedTransaction(producer_id, first, last, stable))
        index._compared = bytearray(len(index.aborted))
        return index

    def touching(self, from_offset: int, to_offset: int) -> tuple[list[int], bool]:
        """The places of those that touch [from, to), and whether none that comes behind these can."""
        aborted, found = self.aborted, []
        for at in range(self._first_from(from_offset), len(aborted)):
            entry = aborted[at]
            if entry.first_offset < to_offset:
                found.append(at)
            if entry.last_stable_offset >= to_offset:
                return found, True
        return found, False

    def uncompared(self, places: list[int], from_offset: int) -> list[int]:
        """Those of them that come from the file and were not looked at; and the one before, which may belong to them if
        it is wrong.
        """
        compared = self._compared
        before = self._first_from(from_offset) - 1
        return [at for at in (before, *places) if 0 <= at < len(compared) and not compared[at]]

    def is_true(self, at: int) -> None:
        self._compared[at] = 1

    def _first_from(self, offset: int) -> int:
        """The first entry whose marker stands at `offset` or behind it."""
        return bisect_left(self.aborted, offset, key=_last_offset)

    def append(self, disk: Disk, entry: AbortedTransaction) -> None:
        """Holds from now on, also if it raises OSError: the marker stands in the log already."""
        self.aborted.append(entry)
        if self.is_unwritten:
            self.rewrite(disk)
        else:
            self.is_unwritten = True
            append_entry(disk, self.path, ENTRY.pack(VERSION, *entry))
            self.is_unwritten = False

    def truncate_to_offset(self, disk: Disk, offset: int) -> None:
        kept = [entry for entry in self.aborted if entry.last_offset < offset]
        if len(kept) != len(self.aborted):
            self.aborted = kept
            del self._compared[len(kept) :]
            self.rewrite(disk)

    def rewrite(self, disk: Disk) -> None:
        if self.aborted:
            self._write_all(disk, rewrite_entries)
        else:
            self.is_unwritten = True
            disk.remove(self.path)
            self.is_unwritten = False

    def replace(self, disk: Disk) -> None:
        """The same, and it is on the device then: half an index would hide that transactions were aborted."""
        self._write_all(disk, replace_entries)

    def _write_all(self, disk: Disk, write: Callable[[Disk, str, bytearray], int]) -> None:
        """No file, or an empty one, would say that nothing was aborted. So without room one is left that is plainly
        damaged, which needs none: it is made when it is needed.
        """
        self.is_unwritten = True
        try:
            write(disk, self.path, self._entries())
        except OSError as error:
            if error.errno in FULL:
                file = disk.open(self.path, create=True)
                try:
                    file.truncate(1)
                finally:
                    file.release()
            raise
        self.is_unwritten = False

    def _entries(self) -> bytearray:
        return bytearray().join(ENTRY.pack(VERSION, *entry) for entry in self.aborted)
