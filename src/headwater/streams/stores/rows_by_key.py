"""The rows of a window store by their key, in memory, for stores that are asked for all windows of a key again and again: the sides of a join.

What is there for a key is all that the store has of it, expired rows perhaps included; a key that is not there is read from the map once. Rows
that are pending are also kept apart, so that reading a key needs no scan of what is pending. Forgotten as a whole when it grows too large, and
when changes are discarded. Owned by one store.
"""

from bisect import insort
from typing import Final

from headwater.streams.stores.formats import WINDOW_SUFFIX_SIZE, split_window_key
from headwater.streams.stores.segments import Segments
from headwater.streams.stores.state import TaskState

Row = tuple[int, int, bytes]  # start, sequence number, value

_MOST_ROWS: Final = 500_000
_MOST_BYTES: Final = 64 << 20
_SOME: Final = 8


class RowsByKey:
    def __init__(self, segments: Segments, state: TaskState) -> None:
        self._segments = segments
        self._by_key: dict[bytes, list[Row]] = {}
        self._pending: dict[bytes, list[Row]] = {}
        self._generation = segments.rows.generation
        self._rows = self._bytes = 0
        state.on_discard(self.forget)

    def forget(self) -> None:
        self._by_key, self._pending = {}, {}
        self._rows = self._bytes = 0

    def put(self, key: bytes, start: int, sequence: int, value: bytes) -> None:
        self._follow()
        row = (start, sequence, value)
        known = self._by_key.get(key)
        if known is not None:
            self._count(row)
            if known and known[-1] > row:
                insort(known, row)
            else:
                known.append(row)
        pending = self._pending.get(key)
        if pending is None:
            self._pending[key] = [row]
        else:
            pending.append(row)

    def put_all(self, rows: dict[bytes, list[Row]]) -> None:
        for key, together in rows.items():
            for start, sequence, value in together:
                self.put(key, start, sequence, value)

    def rows(self, key: bytes, earliest: int) -> list[Row]:
        """All rows of a key from `earliest` on, in the order of start and sequence number; perhaps some before. Not to be changed."""
        self._follow()
        found = self._by_key.get(key)
        if found is None:
            found = sorted([*self._committed(key), *self._pending.get(key, ())])
            if self._rows > _MOST_ROWS or self._bytes > _MOST_BYTES:
                self._by_key, self._rows, self._bytes = {}, 0, 0
            self._by_key[key] = found
            self._rows += 1
            for row in found:
                self._count(row)
        elif len(found) > _SOME and found[0][0] < earliest:
            self._by_key[key] = found = [row for row in found if row[0] >= earliest]
        return found

    def _count(self, row: Row) -> None:
        self._rows += 1
        self._bytes += len(row[2])

    def _follow(self) -> None:
        """After a commit, what was pending is in the map."""
        if self._generation != self._segments.rows.generation:
            self._generation = self._segments.rows.generation
            self._pending = {}

    def _committed(self, key: bytes) -> list[Row]:
        size = len(key) + WINDOW_SUFFIX_SIZE
        found: list[Row] = []
        for raw, value in self._segments.scan_committed(key):
            if len(raw) == size:
                _, start, sequence = split_window_key(raw)
                found.append((start, sequence, value))
        return found
