"""When files end. Pure, and by the records alone: no clock, no size of a buffer, no order of polls has a say.

So whoever reads a partition from the same offset makes the same files of it, and a file that is written twice, by a
task that has lost its partition without knowing, is the same file. The open files of a partition end together: then the
highest offset in the names on disk says from where to go on. The records that are not in a finished file yet are in
memory alone; `Limits` bounds them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.connect.data.schema import Schema


@dataclass(frozen=True, slots=True)
class Limits:
    records: int  # of a file
    bytes_max: int  # of a file, before it is compressed; 0: no limit
    interval_ms: int  # of the timestamps of a cut; 0: no limit
    files: int  # of a cut


@dataclass(frozen=True, slots=True)
class Entry:
    """One record, as far as files are concerned, or several that follow each other, with the offset and the time of the
    first. `schema` is None where a file does not depend on it.
    """

    offset: int
    timestamp_ms: int | None
    directory: str
    schema: Schema | None
    data: Any
    size_bytes: int
    records: int = 1
    last: int | None = None  # the offset of the last one, if there are several


@dataclass(slots=True)
class OpenFile:
    schema: Schema | None
    first: int
    last: int
    size_bytes: int = 0
    records: int = 0
    data: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class Cut:
    """The open files of one partition, by directory. Owned by the task's one thread."""

    files: dict[str, OpenFile] = field(default_factory=dict)
    began_ms: int | None = None  # the first timestamp in it

    @property
    def first(self) -> int:
        return min(each.first for each in self.files.values())

    @property
    def last(self) -> int:
        return max(each.last for each in self.files.values())

    def ends_before(self, entry: Entry, limits: Limits) -> bool:
        """Whether this record belongs to the next cut."""
        if not self.files:
            return False
        began, now = self.began_ms, entry.timestamp_ms
        if limits.interval_ms and began is not None and now is not None and now >= began + limits.interval_ms:
            return True
        file = self.files.get(entry.directory)
        if file is None:
            return len(self.files) >= limits.files
        if file.schema != entry.schema:
            return True
        return bool(limits.bytes_max) and file.size_bytes + entry.size_bytes > limits.bytes_max

    def add(self, entry: Entry, limits: Limits) -> bool:
        """True: the cut is full, and ends behind this record."""
        file = self.files.get(entry.directory)
        if file is None:
            file = self.files[entry.directory] = OpenFile(entry.schema, entry.offset, entry.offset)
        if self.began_ms is None:
            self.began_ms = entry.timestamp_ms
        file.last = entry.offset if entry.last is None else entry.last
        file.size_bytes += entry.size_bytes
        file.data.append(entry.data)
        file.records += entry.records
        return file.records >= limits.records

    def room(self, directory: str, schema: Schema, times_ms: Sequence[int | None], limits: Limits) -> int:
        """How many of the records with these times, from the first on, `ends_before` and `add` would take one by one
        before this cut ends; there is no limit of bytes.
        """
        file = self.files.get(directory)
        if self.files and (len(self.files) >= limits.files if file is None else file.schema != schema):
            return 0
        room = min(limits.records - (0 if file is None else file.records), len(times_ms))
        began = self.began_ms
        if limits.interval_ms:
            for taken in range(room):
                now = times_ms[taken]
                if began is None:
                    began = now
                elif now is not None and now >= began + limits.interval_ms and (self.files or taken):
                    return taken
        return room
