"""The aborted transactions of a segment, for readers that want committed records only.

    34 bytes an entry, big endian:  int16 version = 0;  int64 producer id;  int64 first offset;  int64 last offset (the
    marker's);  int64 last stable offset when the marker was written

An entry stands in the segment that holds the abort marker. The file exists only where there is an entry. Unlike the
other indexes it is written at once: transactions abort rarely. What a full disk refuses stays in memory and is written with the
next entry, or before the segment is rolled or closed; after a crash it comes from the records. Owned by its segment.
"""

from struct import Struct
from typing import Final, NamedTuple

from headwater.base.ports import Disk
from headwater.log.offset_index import append_entry, replace_entries, rewrite_entries

ENTRY: Final = Struct(">hqqqq")
ENTRY_BYTES: Final = 34
VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    __slots__ = ("aborted", "is_unwritten", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.aborted: list[AbortedTransaction] = []
        self.is_unwritten = False  # the file lacks something, or has half of it

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
        for version, *fields in ENTRY.iter_unpack(data):
            entry = AbortedTransaction._make(fields)
            if version != VERSION or not 0 <= entry.first_offset <= entry.last_offset:
                return None
            index.aborted.append(entry)
        return index

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
            self.rewrite(disk)

    def rewrite(self, disk: Disk) -> None:
        self.is_unwritten = True
        if self.aborted:
            rewrite_entries(disk, self.path, self._entries())
        else:
            disk.remove(self.path)
        self.is_unwritten = False

    def replace(self, disk: Disk) -> None:
        """The same, and it is on the device then: half an index would hide that transactions were aborted."""
        self.is_unwritten = True
        replace_entries(disk, self.path, self._entries())
        self.is_unwritten = False

    def _entries(self) -> bytearray:
        return bytearray().join(ENTRY.pack(VERSION, *entry) for entry in self.aborted)
