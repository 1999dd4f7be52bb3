"""An ordered map of bytes whose changes are pending until its owner commits them: what every store stands on.

`PendingMap` shows three layers as one: what was changed since the last commit (pending), what was committed and is not
written yet (unwritten), and a `CommittedMap` (memory or LMDB). A commit makes pending changes unwritten ones; a discard
forgets the pending ones only. Whoever owns the state writes later, so a row that is changed again, or expires, before
that is never written. Owned by one task.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

from headwater.streams.stores.sorted_keys import SortedKeys

_ROW_BYTES: Final = 150  # of memory that a row takes beside its bytes

Rows = dict[bytes, bytes | None]


class CommittedMap(Protocol):
    def get(self, key: bytes) -> bytes | None: ...

    def scan(self, lower: bytes | None, upper: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """From `lower` until before `upper`; None is open. A snapshot of what was written last."""

    def count(self) -> int: ...

    def end(self) -> bytes | None:
        """No row's key is this one or above it; None: that is not known."""


class PendingMap:
    """`recent_bytes`: how much of what was read or put is kept in memory; 0 where the committed map is there anyway."""

    __slots__ = (
        "_end",
        "_floor",
        "_older",
        "_ordered",
        "_pending",
        "_recent_size",
        "_room",
        "_unwritten",
        "_unwritten_floor",
        "committed",
        "generation",
        "recent",
    )

    def __init__(self, committed: CommittedMap, recent_bytes: int = 0) -> None:
        self.committed = committed
        self._pending: Rows = {}
        self._unwritten: Rows = {}
        self._floor = b""  # no row below it: since the last commit, ...
        self._unwritten_floor = b""  # ... and since the last write
        self._end: tuple[bytes | None] | None = None  # of the committed map, asked for once after each write
        self._ordered: SortedKeys | None = None  # of the pending and unwritten keys, from the first scan on
        self.generation = 0  # how often something was written or discarded
        self.recent: Rows = {}  # rows as they are now, None where there is none: not to be changed
        self._older: Rows = {}  # the same, of a time before
        self._recent_size = 0
        self._room = recent_bytes // 2

    @property
    def changes(self) -> dict[bytes, bytes | None]:
        """All that is not written yet, pending or not; None deletes."""
        return {**self._unwritten, **self._pending}

    @property
    def unwritten(self) -> Mapping[bytes, bytes | None]:
        """What is to be written; None deletes."""
        return self._unwritten

    @property
    def unwritten_floor(self) -> bytes:
        """All rows below are to be deleted."""
        return self._unwritten_floor

    @property
    def has_unwritten(self) -> bool:
        return bool(self._unwritten or self._unwritten_floor)

    def commit(self) -> None:
        """What is pending is to be written, whatever is discarded later."""
        if self._floor:
            self._unwritten_floor, self._floor = max(self._floor, self._unwritten_floor), b""
            self._unwritten = _from(self._unwritten, self._unwritten_floor)
        if self._room:
            values = sum(map(len, filter(None, self._pending.values())))
            self._count(_ROW_BYTES * len(self._pending) + sum(map(len, self._pending)) + values)
        if self._unwritten:
            self._unwritten.update(self._pending)
        else:
            self._unwritten = self._pending
        self._pending = {}

    def written(self) -> None:
        """What was to be written is in the committed map."""
        self._unwritten, self._unwritten_floor = {}, b""
        self._end = self._ordered = None
        self.generation += 1

    def discard(self) -> None:
        """What is pending was never there."""
        if self._floor:
            self.recent, self._older, self._recent_size = {}, {}, 0
        for key in self._pending:
            self.recent.pop(key, None)
            self._older.pop(key, None)
        self._pending, self._floor = {}, b""
        self._ordered = None
        self.generation += 1

    def forget(self) -> None:
        """The committed map was changed by other ways: nothing is known of it, and nothing to be written."""
        self._unwritten, self._unwritten_floor, self._end = {}, b"", None
        self.recent, self._older, self._recent_size = {}, {}, 0
        self.discard()

    def forget_keys(self, keys: Iterable[bytes]) -> None:
        """The same for these rows only."""
        for key in keys:
            for rows in (self._pending, self._unwritten, self.recent, self._older):
                rows.pop(key, None)
        self._end = self._ordered = None
        self.generation += 1

    def get(self, key: bytes) -> bytes | None:
        if key in self.recent:
            return self.recent[key]
        value = self._older[key] if key in self._older else self._find(key)
        if self._room:
            self.recent[key] = value
            self._count(_ROW_BYTES + len(key) + (len(value) if value is not None else 0))
        return value

    def _find(self, key: bytes) -> bytes | None:
        if key in self._pending:
            return self._pending[key]
        if key < self._floor:
            return None
        if key in self._unwritten:
            return self._unwritten[key]
        if key < self._unwritten_floor:
            return None
        end = self._committed_end()
        return None if end is not None and key >= end else self.committed.get(key)

    def _committed_end(self) -> bytes | None:
        if self._end is None:
            self._end = (self.committed.end(),)
        return self._end[0]

    def layers(self) -> tuple[tuple[Rows, ...], bytes | None]:
        """For those who look up many: the dicts that have a row before the committed map is asked, the first that has
        it is right; and its end.

        Not for keys below what was deleted by `delete_below`. They are not to be changed, and hold until something is
        put, committed or read by `get`.
        """
        return (self.recent, self._older, self._pending, self._unwritten), self._committed_end()

    def _count(self, size: int) -> None:
        """What has not been used for a while goes."""
        self._recent_size += size
        if self._recent_size > self._room:
            self._older, self.recent, self._recent_size = self.recent, {}, 0

    def put(self, key: bytes, value: bytes | None) -> None:
        if self._ordered is not None and key not in self._pending and key not in self._unwritten:
            self._ordered.add(key)
        self._pending[key] = value
        if self._room:
            self.recent[key] = value

    def put_all(self, changes: Mapping[bytes, bytes | None]) -> None:
        self._ordered = None
        self._pending.update(changes)
        if self._room:
            self.recent.update(changes)

    def delete_below(self, bound: bytes) -> None:
        """All rows whose keys are less. Nothing may be put below it afterwards."""
        if bound > max(self._floor, self._unwritten_floor):
            self._floor = bound
            self._pending = _from(self._pending, bound)
            self._older, self.recent = {}, _from(self.recent, bound)
            self._ordered = None

    def scan(
        self, lower: bytes | None = None, upper: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """From `lower` until before `upper`, as the map is at this moment."""
        floor = max(self._floor, self._unwritten_floor)
        if floor and (lower is None or lower < floor):
            lower = floor
        if lower is not None and upper is not None and lower >= upper:
            return iter(())
        committed = self.committed.scan(lower, upper, reverse)
        pending, unwritten = self._pending, self._unwritten
        if not pending and not unwritten:
            return committed
        if self._ordered is None:
            self._ordered = SortedKeys(pending.keys() | unwritten.keys() if unwritten else pending)
        keys = self._ordered.between(lower, upper)
        changes = [(key, pending[key] if key in pending else unwritten[key]) for key in keys]
        if not changes:
            return committed
        if reverse:
            changes.reverse()
        return _merged(committed, changes, reverse)

    def approximate_count(self) -> int:
        """Exact when all is written; a put of a key that was there counts twice until then."""
        pending = self._pending
        changed = sum(1 if value is not None else -1 for value in pending.values())
        waiting = sum(1 if value is not None else -1 for key, value in self._unwritten.items() if key not in pending)
        return self.committed.count() + changed + waiting


def _from(rows: Rows, bound: bytes) -> Rows:
    return {key: value for key, value in rows.items() if key >= bound}


def _merged(
    committed: Iterator[tuple[bytes, bytes]], changes: list[tuple[bytes, bytes | None]], reverse: bool
) -> Iterator[tuple[bytes, bytes]]:
    at, end = 0, len(changes)
    for key, value in committed:
        while at < end and (changes[at][0] > key if reverse else changes[at][0] < key):
            changed, now = changes[at]
            at += 1
            if now is not None:
                yield changed, now
        if at < end and changes[at][0] == key:
            now = changes[at][1]
            at += 1
            if now is not None:
                yield key, now
        else:
            yield key, value
    for changed, now in changes[at:]:
        if now is not None:
            yield changed, now
