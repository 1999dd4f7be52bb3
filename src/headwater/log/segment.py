"""One segment of a log: the `.log` file with its batches, and its three indexes. Named after its first offset.

Nothing is read when a segment is made known: its size comes from the directory, everything else (file, indexes, largest
timestamp) is loaded when first needed, and let go of when the handle cache wants it back. The log appends to the last
segment only, and keeps in it, as plain attributes, what the append path compares: the limits beyond which it must stop
and think. `recent` remembers where recently written or read batches stand, so that a consumer at the tail needs no
lookup. Owned by its log.
"""

import logging
from collections.abc import Callable
from typing import Final

from headwater.base.ports import PASSING, Disk, File
from headwater.log import names
from headwater.log.index_rebuild import rebuild
from headwater.log.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from headwater.log.offset_index import WRITE_BEHIND_BYTES, OffsetIndex
from headwater.log.open_files import Handles
from headwater.log.scan import DamagedSegmentError, headers_from, is_batch_at, last_border, position_of
from headwater.log.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from headwater.log.time_index import TimeIndex
from headwater.log.transaction_index import AbortedTransaction, TransactionIndex
from headwater.records.batch import HEADER_BYTES, LENGTH_PREFIX_BYTES, read_header

UNKNOWN: Final = -2  # a timestamp that has not been loaded; -1 is Kafka's "none"
RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1
RECENT_MAX: Final = 128

logger = logging.getLogger("headwater.log")


class Segment:
    __slots__ = (
        "_disk",
        "_handles",
        "_offset_index",
        "_stem",
        "_time_index",
        "_transaction_index",
        "_unindexed",
        "base_offset",
        "beginning_synced",
        "bytes_since_index",
        "created_ms",
        "file",
        "first_timestamp",
        "index_bytes_max",
        "index_interval_bytes",
        "indexes_dirty",
        "is_damaged",
        "last_offset_max",
        "less_recent",
        "limit_bytes",
        "max_timestamp",
        "max_timestamp_offset",
        "on_damaged_transactions",
        "recent",
        "recently_used",
        "reported_bytes",
        "roll_after_timestamp",
        "size_bytes",
    )

    def __init__(
        self, disk: Disk, handles: Handles, directory: str, base_offset: int, size_bytes: int, index_interval_bytes: int
    ) -> None:
        self._disk = disk
        self._handles = handles
        self._stem = f"{directory}/{names.segment_name(base_offset)}"
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._transaction_index: TransactionIndex | None = None
        self._unindexed: list[AbortedTransaction] = []  # since the index could not be read
        self.file: File | None = None
        self.recently_used = False
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.index_interval_bytes = index_interval_bytes
        self.index_bytes_max = 10 << 20
        self.indexes_dirty = False  # written since they were last synced
        self.beginning_synced = True  # its name, and the producers' state as of its first offset
        self.is_damaged = False  # a batch cannot be walked over: what the time index says cannot be compared
        self.bytes_since_index = 0
        self.max_timestamp = UNKNOWN if size_bytes else -1
        self.max_timestamp_offset = base_offset
        self.first_timestamp = UNKNOWN if size_bytes else -1
        self.created_ms = 0
        self.on_damaged_transactions: Callable[[Segment], list[AbortedTransaction]] | None = None
        self.recent: dict[int, int] = {}  # offset -> position of the batch that begins with it
        self.less_recent: dict[int, int] = {}  # what `recent` was before it was full
        # What the append path compares. -1 until the log has armed the segment.
        self.limit_bytes = -1
        self.roll_after_timestamp = -1
        self.last_offset_max = base_offset + RELATIVE_OFFSET_MAX
        self.reported_bytes = size_bytes  # of these, `DirtyPages` knows

    @classmethod
    def create(cls, disk: Disk, handles: Handles, directory: str, base_offset: int, interval_bytes: int) -> "Segment":
        """A new, empty one, with its files. What a crash left under these names is wiped."""
        segment = cls(disk, handles, directory, base_offset, 0, interval_bytes)
        segment._offset_index = OffsetIndex(segment.path(names.OFFSET_INDEX), base_offset)
        segment._time_index = TimeIndex(segment.path(names.TIME_INDEX), base_offset)
        segment._transaction_index = TransactionIndex(segment.path(names.TRANSACTION_INDEX))
        segment._offset_index.rewrite(disk)
        segment._time_index.rewrite(disk)
        segment.indexes_dirty = True
        segment.beginning_synced = False
        disk.remove(segment._transaction_index.path)
        file = segment.open_file(create=True)
        if file.size():
            file.truncate(0)
        return segment

    def path(self, suffix: str) -> str:
        return self._stem + suffix

    def index_paths(self) -> tuple[str, str, str]:
        stem = self._stem
        return stem + names.OFFSET_INDEX, stem + names.TIME_INDEX, stem + names.TRANSACTION_INDEX

    # Opening and letting go

    def open_file(self, *, create: bool = False) -> File:
        file = self.file
        if file is None:
            file = self.file = self._disk.open(self._stem + names.LOG, create=create)
            self._handles.opened(self)
        else:
            self.recently_used = True
        return file

    def let_go(self) -> None:
        """Closes the file (unless a slice still holds it) and drops what can be loaded again."""
        try:
            self.write_indexes()
        except OSError as error:  # entries may be missing from a sparse index; a wrong one may not be in it
            logger.warning("event=index-not-written segment=%s error=%r", self.path(names.LOG), str(error))
        if self.file is not None:
            self.file.release()
            self.file = None
        if self._offset_index is not None and not self._offset_index.is_stale:
            self._offset_index = None
        if self._time_index is not None and not self._time_index.is_stale:
            self._time_index = None
        if self._transaction_index is not None and not self._transaction_index.is_unwritten:
            self._transaction_index = None
        self.recent.clear()
        self.less_recent.clear()

    def close(self) -> None:
        self._handles.closed(self)
        self.let_go()

    def move_to(self, directory: str) -> None:
        """From now on its files are those of the same names in `directory`, where whoever calls has put them."""
        self.close()
        self._offset_index = self._time_index = self._transaction_index = None
        self._stem = f"{directory}/{names.segment_name(self.base_offset)}"

    # Indexes

    @property
    def offset_index(self) -> OffsetIndex:
        index = self._offset_index
        if index is None:
            index = OffsetIndex.load(self._disk, self.path(names.OFFSET_INDEX), self.base_offset, self.size_bytes)
            if index is None:
                self._rebuild_indexes("the offset index is missing or damaged")
                index = self._offset_index
                assert index is not None
            self._offset_index = index
        return index

    @property
    def time_index(self) -> TimeIndex:
        index = self._time_index
        if index is None:
            index = TimeIndex.load(self._disk, self.path(names.TIME_INDEX), self.base_offset)
            if index is None:
                self._rebuild_indexes("the time index is missing or damaged")
                index = self._time_index
                assert index is not None
            self._time_index = index
        return index

    @property
    def transaction_index(self) -> TransactionIndex:
        index = self._transaction_index
        if index is None:
            path = self.path(names.TRANSACTION_INDEX)
            index = TransactionIndex.load(self._disk, path)
            if index is None:
                index = self._rebuild_transactions(path)
            if self._unindexed:
                index.aborted += [aborted for aborted in self._unindexed if aborted not in index.aborted]
                index.is_unwritten = True
                self._unindexed = []
            self._transaction_index = index
        return index

    def aborted_transactions(self, from_offset: int, to_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Those with a marker here that touch [from, to), and whether none of a later segment can. Raises OSError."""
        index = self.transaction_index
        places, is_all = index.touching(from_offset, to_offset)
        for at in index.uncompared(places, from_offset):
            if not self._has_marker(index.aborted[at]):
                index = self._transaction_index = self._rebuild_transactions(index.path)
                places, is_all = index.touching(from_offset, to_offset)
                break
            index.is_true(at)
        return [index.aborted[at] for at in places], is_all

    def _has_marker(self, aborted: AbortedTransaction) -> bool:
        """Whether the segment has what the entry is about. An entry that is wrong hides records or shows aborted
        ones.
        """
        position = self.find(aborted.last_offset)
        head = self.open_file().pread(position, HEADER_BYTES)
        if len(head) < HEADER_BYTES:
            return False
        header = read_header(head)
        return (
            header.is_control
            and header.producer_id == aborted.producer_id
            and header.base_offset <= aborted.last_offset <= header.last_offset
        )

    def _rebuild_transactions(self, path: str) -> TransactionIndex:
        """From the records, with the state of the producers at the segment's beginning. Raises OSError if nobody knows
        that.
        """
        logger.error("event=file-damaged path=%s note='it is made again from the records'", path)
        if self.on_damaged_transactions is None:
            raise DamagedSegmentError(path, "the index of aborted transactions is damaged")
        index = TransactionIndex(path)
        index.aborted = self.on_damaged_transactions(self)
        try:
            index.replace(self._disk)
        except OSError as error:
            logger.warning("event=index-not-written segment=%s error=%r", self.path(names.LOG), str(error))
        return index

    def _rebuild_indexes(self, why: str) -> None:
        """Both from one walk over the headers. Rare: recovery has rebuilt what a crash could have broken."""
        logger.warning("event=index-rebuilt segment=%s reason=%r", self.path(names.LOG), why)
        offset_path, time_path = self.path(names.OFFSET_INDEX), self.path(names.TIME_INDEX)
        old_offsets = self._offset_index or OffsetIndex.load(self._disk, offset_path, self.base_offset, self.size_bytes)
        old_times = self._time_index or TimeIndex.load(self._disk, time_path, self.base_offset)
        rebuilt = rebuild(
            self.open_file(),
            self.base_offset,
            self.index_interval_bytes,
            b"" if old_offsets is None else bytes(old_offsets.entries),
            b"" if old_times is None else bytes(old_times.entries),
        )
        if rebuilt.damage is not None:
            self._note_damage(rebuilt.damage)
        offset_index = OffsetIndex(offset_path, self.base_offset)
        offset_index.entries = rebuilt.offset_entries
        time_index = TimeIndex(time_path, self.base_offset)
        time_index.entries = rebuilt.time_entries
        try:
            offset_index.replace(self._disk)
            time_index.replace(self._disk)
        except OSError as error:  # they serve from memory, and are written when there is room
            logger.warning("event=index-not-written segment=%s error=%r", self.path(names.LOG), str(error))
        self._offset_index, self._time_index = offset_index, time_index
        self.indexes_dirty = True

    def note_batch(self, size_bytes: int, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        """A batch stands at the end of the file now: size, times and indexes follow. Also in C
        (`server/native/append.c`), of which this is the oracle.
        """
        position = self.size_bytes
        self.size_bytes = position + size_bytes
        self.recent[base_offset] = position
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self.bytes_since_index > self.index_interval_bytes:
            self.add_index_entry(last_offset, position)
        self.bytes_since_index += size_bytes

    def add_index_entry(self, last_offset: int, position: int) -> None:
        """For the batch at `position`; the append path calls it every `index.interval.bytes`."""
        try:
            index, time_index = self.offset_index, self.time_index
        except OSError as error:  # the batch is in the log, and indexes may lack entries: tried again later
            logger.warning("event=index-not-read segment=%s error=%r", self.path(names.LOG), str(error))
            self.bytes_since_index = 0
            return
        index.append(last_offset, position)
        time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self.bytes_since_index = 0
        if index.unwritten_bytes >= WRITE_BEHIND_BYTES:
            try:
                self.write_indexes()
            except OSError as error:  # the batch is in the log: entries are kept, and tried again with the next one
                logger.warning("event=index-not-written segment=%s error=%r", self.path(names.LOG), str(error))
        if self.indexes_full():
            self.limit_bytes = -1
        if len(self.recent) > RECENT_MAX:  # two generations: forgetting one by one would be the slowest append of all
            self.less_recent, self.recent = self.recent, {}

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        self.indexes_dirty = True
        try:
            index = self.transaction_index
        except OSError as error:  # the marker is in the log: it must come into the index, before anybody reads that
            logger.warning("event=index-not-read segment=%s error=%r", self.path(names.LOG), str(error))
            self._unindexed.append(aborted)
            return
        try:
            index.append(self._disk, aborted)
        except OSError as error:
            logger.warning("event=index-not-written segment=%s error=%r", self.path(names.LOG), str(error))

    def indexes_full(self) -> bool:
        """Whether either has reached `segment.index.bytes`; one entry of the time index is kept for the end."""
        limit = self.index_bytes_max
        return (
            len(self.offset_index.entries) > limit - OFFSET_ENTRY_BYTES
            or len(self.time_index.entries) > limit - 2 * TIME_ENTRY_BYTES
        )

    def write_indexes(self) -> None:
        for index in (self._offset_index, self._time_index):
            if index is not None and index.unwritten_bytes:
                self.indexes_dirty = True
                index.write(self._disk)
        transactions = self.transaction_index if self._unindexed else self._transaction_index
        if transactions is not None and transactions.is_unwritten:
            self.indexes_dirty = True
            transactions.replace(self._disk)

    def end_time_index(self) -> None:
        """Makes the largest timestamp its last entry, as a rolled or cleanly closed segment has it; writes both."""
        self.load_timestamps()
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self.write_indexes()

    def load_timestamps(self) -> None:
        """Largest and first timestamp of a segment that was there before this process."""
        self._load_max_timestamp()
        if self.first_timestamp == UNKNOWN:
            head = self.open_file().pread(0, HEADER_BYTES)
            self.first_timestamp = read_header(head).max_timestamp if len(head) == HEADER_BYTES else -1

    def _load_max_timestamp(self) -> None:
        if self.max_timestamp == UNKNOWN:
            self.verify_time(*self.time_index.last_entry())
            self.max_timestamp, self.max_timestamp_offset = self.time_index.last_entry()
            self.bytes_since_index = self.size_bytes - self.offset_index.last_position()

    def verify_time(self, timestamp: int, offset: int) -> None:
        """Makes both indexes again if the batch with that offset has not that timestamp, as an entry of the time index
        says: retention would delete too early, and lookups skip records.
        """
        if timestamp < 0 or self.is_damaged:
            return
        try:
            head = self.open_file().pread(self.find(offset), HEADER_BYTES)
        except DamagedSegmentError as error:
            self._note_damage(error.strerror or str(error))
            return
        if len(head) == HEADER_BYTES:
            header = read_header(head)
            if header.max_timestamp == timestamp and header.base_offset <= offset <= header.last_offset:
                return
        self._rebuild_indexes("an entry of the time index is not true")

    def _note_damage(self, what: str) -> None:
        """Told once. Whoever reads there is told too; appending and retention go on."""
        if not self.is_damaged:
            self.is_damaged = True
            logger.error(
                "event=segment-damaged segment=%s reason=%r note='it expires by the age of its file, if that is younger'",
                self.path(names.LOG), what,
            )  # fmt: skip

    def largest_timestamp(self) -> int:
        """For retention: that of its records, or the file's own where records have none, or not all of them can be
        seen.
        """
        self._load_max_timestamp()
        if self.max_timestamp >= 0 and not self.is_damaged:
            return self.max_timestamp
        return max(self.max_timestamp, self._disk.modified_ms(self.path(names.LOG)))

    # Positions

    def find(self, offset: int) -> int:
        """Where the batch with `offset`, or else the next one, stands; the segment's end if there is none."""
        position = self.recent.get(offset)
        if position is None:
            position = self.less_recent.get(offset)
        if position is not None:
            return position
        if offset <= self.base_offset:
            return 0
        file = self.open_file()
        start, border = self.offset_index.lookup(offset)
        if border >= 0 and int.from_bytes(file.pread(border, 8), "big") == offset:
            return border
        if start and not is_batch_at(file, start, self.base_offset, offset):
            self._rebuild_indexes("an entry of the offset index is not true")
            start, _ = self.offset_index.lookup(offset)
        return position_of(file, offset, start, self.size_bytes)

    def cut(self, position: int, limit: int, end: int) -> int:
        """The last batch border in (position, limit] that is cheap to find, or `position` if none is there.

        An indexed border is good enough when it leaves something: what it gives away is below one index interval.
        """
        indexed = self.offset_index.floor_position(limit)
        if indexed > position and is_batch_at(self.open_file(), indexed, self.base_offset, self.last_offset_max):
            return indexed
        return last_border(self.open_file(), position, limit, end)

    def batch_end(self, position: int) -> int:
        """Where the batch at `position` ends."""
        end = position + int.from_bytes(self.open_file().pread(position + 8, 4), "big") + LENGTH_PREFIX_BYTES
        if not position + HEADER_BYTES <= end <= self.size_bytes:
            raise DamagedSegmentError(self.path(names.LOG), f"the batch at position {position} seems to end at {end}")
        return end

    def load_indexes(self) -> None:
        """All that a truncation needs. Raises OSError."""
        _ = self.offset_index, self.time_index, self.transaction_index

    def truncate(self, position: int, offset: int) -> None:
        """Drops everything from `position` on, where `offset` would stand. Needs no room on the disk. Raises
        OSError.
        """
        self.load_indexes()  # first of all: it may open other segments, for which this one may have to let go of its file
        for cut, where in (
            (self.offset_index.truncate_to_position, position),
            (self.time_index.truncate_to_offset, offset),
            (self.transaction_index.truncate_to_offset, offset),
        ):
            try:
                cut(self._disk, where)
            except OSError as error:  # it holds in memory, and is written with the next entries
                if error.errno not in PASSING:
                    raise
                logger.warning("event=index-not-written segment=%s error=%r", self.path(names.LOG), str(error))
        self.open_file().truncate(position)
        self.indexes_dirty = True
        self.recent.clear()
        self.less_recent.clear()
        self.size_bytes = position
        self.reported_bytes = min(self.reported_bytes, position)
        self.limit_bytes = -1
        self.is_damaged = False
        if position == 0:
            self.max_timestamp = self.first_timestamp = -1
            self.max_timestamp_offset = self.base_offset
            self.bytes_since_index = 0
        else:
            self._find_largest_timestamp()

    def _find_largest_timestamp(self) -> None:
        """After a truncation: the last entry that is left, and whatever stands after it."""
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last_entry()
        start, _ = self.offset_index.lookup(self.max_timestamp_offset)
        try:
            for _, header in headers_from(self.open_file(), start, self.size_bytes):
                if header.max_timestamp > self.max_timestamp:
                    self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
        except DamagedSegmentError as error:
            self._note_damage(error.strerror or str(error))
        self.bytes_since_index = self.size_bytes - self.offset_index.last_position()
