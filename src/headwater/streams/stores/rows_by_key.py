"""The rows of a window store by their key, in memory, for stores that are asked for all windows of a key again and
again: the sides of a join.

Complete as long as it can be: then a key that is not there has no rows, and nothing is read from the map but once, at
the beginning. When it grows too large, what has expired goes; if that is not enough it knows some keys only, and reads
others from the map. What is there for a key is all that the store has of it, expired rows perhaps included. Forgotten
as a whole when changes are discarded. Owned by one store.
"""

from bisect import insort
from typing import Final

from headwater.streams.stores.formats import WINDOW_SUFFIX_SIZE, split_window_key
from headwater.streams.stores.segments import Segments
from headwater.streams.stores.state import TaskState

Row = tuple[int, int, bytes]  # start, sequence number, value

_MOST_ROWS = 500_000
_MOST_BYTES: Final = 64 << 20
_SOME: Final = 8


def _size(rows: list[Row]) -> int:
    return sum([len(row[2]) for row in rows])


class RowsByKey:
    def __init__(self, segments: Segments, state: TaskState) -> None:
        self._segments = segments
        self._most_rows = _MOST_ROWS
        self._by_key: dict[bytes, list[Row]] = {}
        self._complete = False
        self._loaded = False  # whether it was tried to make it complete
        self._pending: dict[bytes, list[Row]] = {}  # of what is not written yet, while it is not complete
        self._generation = -1
        self._rows = self._bytes = 0
        state.on_discard(self.forget)

    def forget(self) -> None:
        self._by_key, self._pending = {}, {}
        self._rows = self._bytes = 0
        self._complete = self._loaded = False
        self._generation = -1

    def prepare(self) -> None:
        """Before something is put, into the map and here: it must not be read from there, too."""
        if self._loaded and not self._complete:
            self._follow()

    def put(self, key: bytes, start: int, sequence: int, value: bytes) -> None:
        if not self._loaded:
            return  # whoever asks first reads it from the map: a store that is only restored needs no memory for it
        row = (start, sequence, value)
        known = self._by_key.get(key)
        if known is not None:
            self._add(known, row)
        elif self._complete:
            self._by_key[key] = [row]
        if not self._complete:
            self._pending.setdefault(key, []).append(row)
        self._count(row)

    # For a lane, which adds to the lists itself: `complete` is asked before each run

    @property
    def complete(self) -> bool:
        if not self._loaded:
            self._load()
        return self._complete

    def lists(self) -> dict[bytes, list[Row]]:
        """By key, none of them empty."""
        assert self._complete
        return self._by_key

    def trim(self, key: bytes, earliest: int) -> list[Row]:
        """The list of a key, without what nobody sees any more."""
        together = self._by_key[key]
        kept = [row for row in together if row[0] >= earliest] or together[-1:]
        self._rows -= len(together) - len(kept)
        self._bytes -= _size(together) - _size(kept)
        self._by_key[key] = kept
        return kept

    def added(self, rows: list[tuple[bytes, Row]]) -> None:
        """What was added to lists."""
        self._rows += len(rows)
        self._bytes += sum([len(row[2]) for _, row in rows])
        self._shrink_if_full()

    def take_back(self, rows: list[tuple[bytes, Row]]) -> None:
        """What was added to lists, and never was."""
        for key, row in rows:
            together = self._by_key.get(key)
            if together is not None and row in together:
                together.remove(row)
                if not together:
                    del self._by_key[key]
            else:  # `trim` has subtracted it, and it was never counted
                self._rows += 1
                self._bytes += len(row[2])

    def rows(self, key: bytes, earliest: int) -> list[Row] | tuple[()]:
        """All rows of a key from `earliest` on, in the order of start and sequence number; perhaps some before. Not to
        be changed.
        """
        if not self._loaded:
            self._load()
        found = self._by_key.get(key)
        if found is None:
            if self._complete:
                return ()
            found = self._read(key)
        elif len(found) > _SOME and found[0][0] < earliest:
            return self.trim(key, earliest)
        return found

    def _count(self, row: Row) -> None:
        self._rows += 1
        self._bytes += len(row[2])
        self._shrink_if_full()

    def _shrink_if_full(self) -> None:
        if self._complete and self._is_full():
            self._shrink()

    def _add(self, known: list[Row], row: Row) -> None:
        if known and known[-1] > row:
            insort(known, row)
        else:
            known.append(row)

    def _is_full(self) -> bool:
        return self._rows + len(self._by_key) > self._most_rows or self._bytes > _MOST_BYTES

    def _load(self) -> None:
        """Reads the store once, if it is small enough."""
        self._loaded = True
        for raw, value in self._segments.live_rows():
            key, start, sequence = split_window_key(raw)
            self._add(self._by_key.setdefault(key, []), (start, sequence, value))
            self._rows += 1
            self._bytes += len(value)
            if self._is_full():
                self._by_key, self._rows, self._bytes = {}, 0, 0
                return
        self._complete = True

    def _shrink(self) -> None:
        """What has expired goes. If more than half is left, it is complete no longer."""
        earliest = self._segments.stream_time - self._segments.retention_ms + 1
        left = {key: [row for row in rows if row[0] >= earliest] for key, rows in self._by_key.items()}
        self._by_key = {key: rows for key, rows in left.items() if rows}
        self._rows = sum(map(len, self._by_key.values()))
        self._bytes = sum(len(row[2]) for rows in self._by_key.values() for row in rows)
        if 2 * self._rows > self._most_rows or 2 * self._bytes > _MOST_BYTES:
            self._complete = False
            self._generation = -1
            self._follow()

    def _read(self, key: bytes) -> list[Row]:
        self._follow()
        if self._is_full():
            self._by_key, self._rows, self._bytes = {}, 0, 0
        self._by_key[key] = found = sorted([*self._written(key), *self._pending.get(key, ())])
        self._rows += len(found)
        self._bytes += sum(len(row[2]) for row in found)
        return found

    def _follow(self) -> None:
        """What is not written yet, anew after each write: what was not written is in the map then."""
        rows = self._segments.rows
        if self._generation == rows.generation:
            return
        self._generation = rows.generation
        self._pending = {}
        for place, value in rows.changes.items():
            if value is not None:
                key, start, sequence = split_window_key(place[8:])
                self._pending.setdefault(key, []).append((start, sequence, value))

    def _written(self, key: bytes) -> list[Row]:
        size = len(key) + WINDOW_SUFFIX_SIZE
        found: list[Row] = []
        for raw, value in self._segments.scan_committed(key):
            if len(raw) == size:
                _, start, sequence = split_window_key(raw)
                found.append((start, sequence, value))
        return found
