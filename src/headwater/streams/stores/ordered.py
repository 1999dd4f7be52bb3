"""An ordered map of bytes whose changes are pending until its owner commits them: what every store stands on.

`PendingMap` holds the changes since the last commit over a `CommittedMap` (memory or LMDB), and shows both as one. A commit
hands the changes over and clears them; to discard them is to clear them. Owned by one task.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from headwater.streams.stores.sorted_keys import SortedKeys

_ROW_BYTES: Final = 150  # of memory that a row takes beside its bytes


class CommittedMap(Protocol):
    def get(self, key: bytes) -> bytes | None: ...

    def scan(self, lower: bytes | None, upper: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """From `lower` until before `upper`; None is open. A snapshot of the last commit."""

    def count(self) -> int: ...


class PendingMap:
    """`recent_bytes`: how much of what was read or committed is kept in memory; 0 where the committed map is there anyway."""

    __slots__ = ("_older", "_ordered", "_pending", "_recent", "_recent_size", "_room", "committed", "generation")

    def __init__(self, committed: CommittedMap, recent_bytes: int = 0) -> None:
        self.committed = committed
        self._pending: dict[bytes, bytes | None] = {}
        self._ordered: SortedKeys | None = None  # of the pending keys, from the first scan on
        self.generation = 0  # how often pending changes were committed or discarded
        self._recent: dict[bytes, bytes | None] = {}  # rows of the last commit, None where there is none
        self._older: dict[bytes, bytes | None] = {}  # the same, of a time before
        self._recent_size = 0
        self._room = recent_bytes // 2

    @property
    def pending(self) -> Mapping[bytes, bytes | None]:
        """What a commit has to write; None deletes."""
        return self._pending

    def clear_pending(self, committed: bool = False) -> None:
        """`committed`: the changes are those of the last commit now."""
        if committed and self._room:
            self._remember(self._pending)
        self._pending = {}
        self._ordered = None
        self.generation += 1

    def forget(self) -> None:
        """The committed map was changed by other ways."""
        self._recent, self._older, self._recent_size = {}, {}, 0

    def get(self, key: bytes) -> bytes | None:
        if key in self._pending:
            return self._pending[key]
        if key in self._recent:
            return self._recent[key]
        if not self._room:
            return self.committed.get(key)
        value = self._older[key] if key in self._older else self.committed.get(key)
        self._recent[key] = value
        self._count(_ROW_BYTES + len(key) + (len(value) if value is not None else 0))
        return value

    def _remember(self, changes: dict[bytes, bytes | None]) -> None:
        for key in self._older.keys() & changes.keys():
            del self._older[key]
        self._recent.update(changes)
        values = sum([len(value) for value in changes.values() if value is not None])
        self._count(_ROW_BYTES * len(changes) + sum(map(len, changes)) + values)

    def _count(self, size: int) -> None:
        """What has not been used for a while goes."""
        self._recent_size += size
        if self._recent_size > self._room:
            self._older, self._recent, self._recent_size = self._recent, {}, 0

    def put(self, key: bytes, value: bytes | None) -> None:
        if self._ordered is not None and key not in self._pending:
            self._ordered.add(key)
        self._pending[key] = value

    def put_all(self, changes: Mapping[bytes, bytes | None]) -> None:
        self._ordered = None
        self._pending.update(changes)

    def delete_range(self, lower: bytes | None, upper: bytes | None) -> None:
        for key, _ in self.scan(lower, upper):
            self.put(key, None)

    def scan(
        self, lower: bytes | None = None, upper: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """From `lower` until before `upper`, as the map is at this moment."""
        if lower is not None and upper is not None and lower >= upper:
            return iter(())
        committed = self.committed.scan(lower, upper, reverse)
        if not self._pending:
            return committed
        if self._ordered is None:
            self._ordered = SortedKeys(self._pending)
        changes = [(key, self._pending[key]) for key in self._ordered.between(lower, upper)]
        if not changes:
            return committed
        if reverse:
            changes.reverse()
        return _merged(committed, changes, reverse)

    def approximate_count(self) -> int:
        """Exact when nothing is pending; a pending put of a key that was there counts twice."""
        return self.committed.count() + sum(1 if value is not None else -1 for value in self._pending.values())


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
